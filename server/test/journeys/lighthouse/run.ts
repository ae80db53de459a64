import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { confirmClientCheckout, createCheckout, createCustomerSession, createProduct, getCheckout } from '@bursar/contract'
import lighthouse from 'lighthouse'
import { eventually, freePort, openWorld } from '../../harness/world.ts'
import { chromiumPath, flags, openBrowser } from '../../harness/browser.ts'
import { openPortals } from '../../harness/portals.ts'
import { openTeams } from '../../harness/teams.ts'

/**
 * Measures the buyers' pages with Lighthouse on a throttled phone. Takes the median of `--runs` runs (default 3;
 * `--quick`: 1). Each category below has a minimum score.
 */
const least: Readonly<Record<string, number>> = { performance: 95, accessibility: 100 }
/** The dashboard runs a larger script, so its score may be lower. Its content must still appear early and stay in place. */
const ofDashboard = { performance: 90, largest_paint_ms: 1500, shift: 0.02 }
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
  // The page after a purchase shows the order as soon as the worker has fulfilled the checkout.
  const guide = await api.call(createProduct, { body: { name: 'Guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] } })
  const bought = await api.call(createCheckout, { body: { products: [guide.id] } })
  await world.client().call(confirmClientCheckout, {
    params: { client_secret: bought.client_secret },
    body: { customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' }, confirmation_token_id: 'tok_visa' },
  })
  await eventually('the checkout is fulfilled', async () => (await api.call(getCheckout, { params: { id: bought.id } })).status === 'succeeded')
  const session = await api.call(createCustomerSession, { body: { customer_id, member_id: owner.id } })
  const { origin } = world.config.public_url
  const portal = `${origin}/${organization.slug}/portal`
  // Entry address of each page, and the address after the redirect. Secrets of the entry address are then in cookies.
  const pages: Record<string, { enter: string; at: string; status?: number }> = {
    checkout: { enter: checkout.url, at: `${origin}/checkout/${checkout.id}` },
    'thank-you': { enter: bought.url, at: `${origin}/checkout/${bought.id}` },
    claim: { enter: `${portal}/claim?token=${await teams.invited(await teams.assign(team))}`, at: `${portal}/claim` },
    portal: { enter: session.customer_portal_url, at: `${portal}/overview` },
    team: { enter: `${portal}/team`, at: `${portal}/team` },
    dashboard: { enter: `${origin}/dashboard/${organization.slug}/orders`, at: `${origin}/dashboard/${organization.slug}/orders` },
    problem: { enter: `${origin}/checkout/00000000-0000-4000-8000-000000000000`, at: `${origin}/checkout/00000000-0000-4000-8000-000000000000`, status: 403 },
  }
  const [context] = browser.contexts().length > 0 ? browser.contexts() : [await browser.newContext()]
  const signedIn = await world.signIn(organization.owner)
  await context!.addCookies([{ name: signedIn.split('=')[0]!, value: signedIn.slice(signedIn.indexOf('=') + 1), url: origin }])
  for (const [name, { enter, at: url, status = 200 }] of Object.entries(pages)) {
    const tab = await context!.newPage()
    await tab.goto(enter)
    await tab.waitForURL(url)
    const found = (await tab.goto(url))?.status()
    if (found !== status) throw new Error(`${name} answers ${found}`)
    const cookies = (await context!.cookies(origin)).map((cookie) => `${cookie.name}=${cookie.value}`).join('; ')
    await tab.close()
    const points: Record<string, number[]> = {}
    const paints: number[] = []
    const shifts: number[] = []
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
      paints.push(result?.lhr.audits['largest-contentful-paint']?.numericValue ?? Infinity)
      shifts.push(result?.lhr.audits['cumulative-layout-shift']?.numericValue ?? Infinity)
      for (const category of categories) (points[category] ??= []).push(Math.round((result?.lhr.categories[category]?.score ?? 0) * 100))
    }
    const figures = categories.map((category) => [category, median(points[category] ?? [])] as const)
    const isDashboard = name === 'dashboard'
    const lowest = isDashboard ? { ...least, performance: ofDashboard.performance } : least
    const low = figures.filter(([category, figure]) => figure < (lowest[category] ?? 0))
    const [paint, shift] = [median(paints), median(shifts)]
    const isLate = isDashboard && (paint > ofDashboard.largest_paint_ms || shift > ofDashboard.shift)
    const bad = low.length > 0 || isLate
    if (bad) failed = true
    const shown = [...figures.map(([category, figure]) => `${category} ${figure}`), `largest paint ${Math.round(paint)} ms`, `shift ${shift.toFixed(3)}`]
    console.log(`${bad ? 'FAIL' : 'ok  '} ${name}: ${shown.join(' · ')}`)
  }
} finally {
  measured.kill()
  await browser.close()
  await world.close()
}
console.log(failed ? 'lighthouse: below what was promised' : `lighthouse: as promised, median of ${runs}`)
process.exitCode = failed ? 1 : 0
