import { createCheckoutLink, createMember, followCheckoutLink, listProducts } from '@bursar/contract'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openBrowser, openContext, type Browser, type Page } from '../harness/browser.ts'
import { codeIn, hasCode } from '../harness/mail.ts'
import { counted } from '../harness/pace.ts'
import { openPortals } from '../harness/portals.ts'
import { openTeams } from '../harness/teams.ts'
import { openWorld, type World } from '../harness/world.ts'

/** Clicks of each person, one in a second. The long run takes ten minutes: `BURSAR_TEST_CLICKS=600`. */
const clicks = counted('CLICKS', 40, 15)

let world: World
let browser: Browser
beforeAll(async () => {
  // The limits of a sandbox as it is shipped.
  ;[world, browser] = await Promise.all([openWorld({ browser: true, worker: true, settings: { BURSAR_BUDGETS: '' } }), openBrowser()])
})
afterAll(async () => {
  await browser.close()
  await world.close()
})

test('three people of one team click behind one address in the sandbox, and no request is answered with 429', { timeout: (clicks + 240) * 2000 }, async () => {
  const portals = openPortals(world, await openTeams(world), browser)
  const team = await portals.team({ seats: 5 })
  const product_id = (await team.api.call(listProducts, {})).items[0]!.id
  const link = await team.api.call(createCheckoutLink, { body: { payment_processor: 'stripe', products: [product_id] } as never })
  const people = [team.owner.email]
  for (const email of ['mina@people.test', 'ole@people.test']) {
    await team.api.call(createMember, { params: { id: team.customer_id }, body: { email, name: email, role: 'billing_manager' } })
    people.push(email)
  }

  const answers = new Map<number, number>()
  const refused: string[] = []
  const { origin } = world.config.public_url
  const portal = `${origin}/${team.organization.slug}/portal`

  /** Signs in with a mailed code, as a person does. */
  const signIn = async (email: string) => {
    const { context, violations, close } = await openContext(browser, world)
    context.on('response', (response) => {
      answers.set(response.status(), (answers.get(response.status()) ?? 0) + 1)
      if (response.status() === 429) refused.push(response.url())
    })
    const page = await context.newPage()
    await page.goto(`${portal}/sign-in`)
    await page.getByLabel('E-mail address').fill(email)
    await page.getByRole('button', { name: 'Send me a code' }).click()
    let letter = await world.mail.next(email)
    while (!hasCode(letter)) letter = await world.mail.next(email)
    await page.getByLabel('Code from the mail').fill(codeIn(letter.text))
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.waitForURL(/overview/)
    return { page, violations, close }
  }

  /** The clicks of a person, in order. The last ones begin again at the first. */
  const walkOf = (page: Page, at: number): (() => Promise<unknown>)[] => {
    const go = (path: string) => () => page.goto(`${portal}${path}`)
    return [
      go('/overview'),
      go('/team'),
      // Each change of the number asks for its price.
      () => page.getByLabel('Number of seats').fill(String(6 + at)),
      () => page.getByLabel('Number of seats').fill(String(7 + at)),
      go('/team?status=invited'),
      go('/subscriptions'),
      go('/orders'),
      () => page.locator('main a[href*="/orders/"]').first().click(),
      go('/billing'),
      go('/account'),
      go('/access'),
      () => page.goto(`${origin}${followCheckoutLink.path.replace('{client_secret}', link.client_secret)}`),
      () => page.getByLabel('Country').selectOption('DE'),
      () => page.getByLabel('Country').selectOption('FR'),
      () => page.reload(),
    ]
  }

  const begun = await Promise.all(people.map(signIn))
  const since = performance.now()
  await Promise.all(
    begun.map(async ({ page }, at) => {
      const walk = walkOf(page, at)
      for (let click = 0; click < clicks; click++) {
        await walk[click % walk.length]!()
        await pause(Math.max(0, since + (click + 1) * 1000 - performance.now()))
      }
    }),
  )
  const took = Math.round((performance.now() - since) / 1000)
  const total = [...answers.values()].reduce((sum, count) => sum + count, 0)
  console.log(`clicks: ${people.length * clicks} by ${people.length} people in ${took} s · answers: ${total} · 429: ${refused.length}`)
  expect(refused).toEqual([])
  expect([...answers.keys()].filter((status) => status >= 400)).toEqual([])
  expect(begun.flatMap(({ violations }) => violations)).toEqual([])
  // Each person caused at least as many answers as clicks, so the pages did call the server.
  expect(total).toBeGreaterThan(people.length * clicks * 0.8)
  for (const { close } of begun) await close()
})
