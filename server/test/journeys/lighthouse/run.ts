import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createCheckout, createCustomerSession } from '@bursar/contract'
import lighthouse from 'lighthouse'
import { freePort, openWorld } from '../../harness/world.ts'
import { chromiumPath, flags, openBrowser } from '../../harness/browser.ts'
import { openPortals } from '../../harness/portals.ts'
import { openTeams } from '../../harness/teams.ts'

/**
 * Measures the buyers' pages with Lighthouse on a throttled phone. Takes the median of `--runs` runs (default 3;
 * `--quick`: 1). Each category below has a minimum score.
 */
const least: Readonly<Record<string, number>> = { performance: 95, accessibility: 100 }
const categories = ['performance', 'accessibility', 'best-practices', 'seo'] as const
const argument = (name: string) => process.argv.find((word) => word.startsWith(`--${name}=`))?.split('=')[1]
const runs = process.argv.includes('--quick') ? 1 : Number(argument('runs') ?? 3)

const median = (values: readonly number[]): number => values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0

process.env.BURSAR_TEST_SCRATCH ??= '.scratch/lighthouse'
mkdirSync(process.env.BURSAR_TEST_SCRATCH, { recursive: true })
const world = await openWorld({ browser: true, worker: true })
const port = await freePort()
const browser = await openBrowser()
// Lighthouse gets a separate browser, because it closes all other tabs of its browser.
const measured = spawn(
  chromiumPath,
  [...flags, '--headless', `--remote-debugging-port=${port}`, `--user-data-dir=${mkdtempSync(join(tmpdir(), 'lighthouse-'))}`, 'about:blank'],
  { stdio: 'ignore' },
)
let failed = false
try {
  const teams = await openTeams(world)
  const team = await openPortals(world, teams, browser).team({ seats: 5 })
  const { api, organization, customer_id, owner, product_id } = team
  const checkout = await api.call(createCheckout, { body: { products: [product_id], seats: 5 } })
  const session = await api.call(createCustomerSession, { body: { customer_id, member_id: owner.id } })
  const { origin } = world.config.public_url
  const portal = `${origin}/${organization.slug}/portal`
  // Entry address of each page, and the address after the redirect. Secrets of the entry address are then in cookies.
  const pages: Record<string, { enter: string; at: string; status?: number }> = {
    checkout: { enter: checkout.url, at: `${origin}/checkout/${checkout.id}` },
    claim: { enter: `${portal}/claim?token=${await teams.invited(await teams.assign(team))}`, at: `${portal}/claim` },
    portal: { enter: session.customer_portal_url, at: `${portal}/overview` },
    team: { enter: `${portal}/team`, at: `${portal}/team` },
    problem: { enter: `${origin}/checkout/00000000-0000-4000-8000-000000000000`, at: `${origin}/checkout/00000000-0000-4000-8000-000000000000`, status: 403 },
  }
  const [context] = browser.contexts().length > 0 ? browser.contexts() : [await browser.newContext()]
  for (const [name, { enter, at: url, status = 200 }] of Object.entries(pages)) {
    const tab = await context!.newPage()
    await tab.goto(enter)
    await tab.waitForURL(url)
    const found = (await tab.goto(url))?.status()
    if (found !== status) throw new Error(`${name} answers ${found}`)
    const cookies = (await context!.cookies(origin)).map((cookie) => `${cookie.name}=${cookie.value}`).join('; ')
    await tab.close()
    const points: Record<string, number[]> = {}
    for (let run = 0; run < runs; run++) {
      const result = await lighthouse(url, {
        port,
        output: 'json',
        logLevel: 'error',
        onlyCategories: [...categories],
        formFactor: 'mobile',
        extraHeaders: { cookie: cookies },
        // A problem page has an error status, which Lighthouse must accept.
        ignoreStatusCode: true,
      })
      for (const category of categories) (points[category] ??= []).push(Math.round((result?.lhr.categories[category]?.score ?? 0) * 100))
    }
    const figures = categories.map((category) => [category, median(points[category] ?? [])] as const)
    const low = figures.filter(([category, figure]) => figure < (least[category] ?? 0))
    if (low.length > 0) failed = true
    console.log(`${low.length > 0 ? 'FAIL' : 'ok  '} ${name}: ${figures.map(([category, figure]) => `${category} ${figure}`).join(' · ')}`)
  }
} finally {
  measured.kill()
  await browser.close()
  await world.close()
}
console.log(failed ? 'lighthouse: below what was promised' : `lighthouse: as promised, median of ${runs}`)
process.exitCode = failed ? 1 : 0
