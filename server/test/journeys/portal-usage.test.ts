import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import {
  createBenefit,
  createCheckout,
  createMeter,
  createProduct,
  ingestEvents,
  listCustomerMembers,
  updateCustomer,
  updateOrganization,
  updateProductBenefits,
  type Aggregation,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { documentsOf, expectGoodLooks, expectNoSecrets, openBrowser, openContext, type Browser } from '../harness/browser.ts'
import { openPortals, type Portals } from '../harness/portals.ts'
import { june, openSubscribers, type Subscribers } from '../harness/subscribers.ts'
import { openTeams } from '../harness/teams.ts'
import { openWorld, type World } from '../harness/world.ts'

// Journeys of customers that look at their usage and its cost, in a real browser.
let world: World
let browser: Browser
let people: Subscribers
let portals: Portals
beforeAll(async () => {
  ;[world, browser] = await Promise.all([openWorld({ browser: true }), openBrowser()])
  people = await openSubscribers(world)
  portals = openPortals(world, await openTeams(world, people.deployment), browser)
})
afterAll(async () => {
  await browser.close()
  await people.close()
  await world.close()
})

const day = 86_400_000

/** Opens a seller whose plan has a metered price and includes units, and a customer in the middle of June. */
const open = async ({ included = 10_000 } = {}) => {
  const shop = await world.shop()
  const { api } = shop
  const meter = async (name: string, aggregation: Aggregation, more: object = {}) =>
    api.call(createMeter, {
      body: { name, aggregation, filter: { conjunction: 'and', clauses: [{ property: 'name', operator: 'eq', value: name }] }, ...more },
    })
  const calls = await meter('API requests', { func: 'sum', property: 'units' }, { unit: 'custom', custom_label: 'request' })
  const product = await api.call(createProduct, {
    body: {
      name: 'Workshop API',
      recurring_interval: 'month',
      prices: [
        { amount_type: 'fixed', price_amount: 2000, price_currency: 'usd' },
        { amount_type: 'metered_unit', meter_id: calls.id, unit_amount: '2', cap_amount: 5000, price_currency: 'usd' },
      ],
    },
  })
  if (included > 0) {
    const benefit = await api.call(createBenefit, {
      body: { type: 'meter_credit', description: `${included} requests`, properties: { meter_id: calls.id, units: included, rollover: false } },
    })
    await api.call(updateProductBenefits, { params: { id: product.id }, body: { benefits: [benefit.id] } })
  }
  const anna = await people.subscribe(shop, product.id)
  const use = (events: readonly (readonly [units: number, timestamp: Date])[], name = 'API requests') =>
    api.call(ingestEvents, {
      body: { events: events.map(([units, timestamp]) => ({ name, customer_id: anna.customer.id, timestamp: timestamp.toISOString(), metadata: { units } })) },
    })
  const [owner] = (await api.call(listCustomerMembers, { params: { id: anna.customer.id } })).items
  return { ...shop, product, meter, calls, anna, use, of: { ...shop, customer_id: anna.customer.id, owner: owner! } }
}

/** Usage of the last 40 days that looks like a working week, with `units` in the first half of June. */
const workweeks = (): [number, Date][] =>
  Array.from({ length: 40 }, (_, at) => {
    const when = new Date(june.now.getTime() - at * day - (at === 0 ? 0 : day / 2))
    const weekend = when.getUTCDay() % 6 === 0
    return [(weekend ? 90 : 420) + ((at * 137) % 160), when]
  })

test('shows usage against the included amount, its price, the projected cost and the last 30 days, in English and German', async () => {
  const { use, of } = await open()
  await use(workweeks())
  const { page, go, at, context, violations, close } = await portals.enter(of)
  await go('/overview')
  await page.getByRole('navigation').getByRole('link', { name: 'Usage' }).click()
  expect(page.url()).toBe(at('/usage'))
  const card = page.getByRole('region', { name: 'API requests' })
  await expectGoodLooks(page, 'usage')
  await card.getByText('How we calculate this').click()
  await card.getByText('50% of the period has passed.').waitFor()
  await card.getByText('Show as table').click()
  await expectGoodLooks(page, 'usage-open')
  await page.goto(at('/usage?locale=de'))
  await page.getByText('In der enthaltenen Menge').waitFor()
  await page.getByText('Nutzung über der enthaltenen Menge kostet 0,02\u00a0$ je request, höchstens 50,00\u00a0$ pro Monat.').waitFor()
  await expectGoodLooks(page, 'usage-german')
  for (const { html } of await documentsOf(context)) {
    expect(html).not.toMatch(/ style=|<style/)
    expect(gzipSync(html).length).toBeLessThan(12 * 1024)
  }
  await expectNoSecrets(page)
  expect(violations).toEqual([])
  await close()
})

test('shows the same without script, with a table of the days and a file', async () => {
  const { use, of } = await open()
  await use(workweeks())
  const { page, go, close } = await portals.enter(of, {}, { script: false })
  await go('/usage')
  const card = page.getByRole('region', { name: 'API requests' })
  const text = (await card.innerText()).replaceAll(/\s+/g, ' ')
  for (const words of [
    'Within the included amount',
    'Usage beyond the included amount costs $0.02 per request, at most $50.00 a month.',
    'Cost so far $0.00',
    'Projected for Jul 1, 2026',
    'Last 30 days',
    'since Jun 1, 2026',
  ])
    expect(text).toContain(words)
  await card.getByText('Show as table').click()
  expect(await card.getByRole('table').last().getByRole('row').count()).toBe(31)
  const [download] = await Promise.all([page.waitForEvent('download'), card.getByRole('link', { name: 'Download as CSV' }).click()])
  const lines = readFileSync(await download.path(), 'utf8').split('\r\n')
  expect(download.suggestedFilename()).toBe('usage-2026-06-16.csv')
  expect(lines).toHaveLength(32)
  expect(lines[0]).toBe('Day,"API requests"')
  expect(lines[30]).toMatch(/^2026-06-16,\d+$/)
  await close()
})

test('says that usage is over the included amount, what it costs, and that the price limit is reached', async () => {
  const { use, of, meter, calls, api, organization } = await open({ included: 1000 })
  await use([[1500, new Date(june.now.getTime() - day)]])
  const { page, go, violations, close } = await portals.enter(of)
  await go('/usage')
  const card = page.getByRole('region', { name: 'API requests' })
  const text = async () => (await card.innerText()).replaceAll(/\s+/g, ' ')
  for (const words of ['Over the included amount', '500 over the included amount', 'Cost so far $10.00', 'Projected for Jul 1, 2026 $40.00'])
    expect(await text()).toContain(words)
  await expectGoodLooks(page, 'usage-over')
  await use([[2500, june.now]])
  await go('/usage')
  for (const words of ['Price limit reached', 'The limit of $50.00 is reached. Further usage in this period costs nothing more.', 'Cost so far $50.00'])
    expect(await text()).toContain(words)
  await expectGoodLooks(page, 'usage-capped')
  // Days begin in the asked time zone. An unknown zone is replaced by UTC.
  await go('/usage?timezone=Asia/Kathmandu')
  await page.getByText('Days begin at midnight in the time zone Asia/Kathmandu.').waitFor()
  await go('/usage?timezone=Mars/Olympus')
  await page.getByText('Days begin at midnight in the time zone UTC.').waitFor()
  // The page of one meter leads back to all meters.
  await go(`/usage?meter_id=${calls.id}`)
  await card.waitFor()
  await page.getByRole('link', { name: 'All meters' }).click()
  await card.waitFor()
  // Usage of a meter without price or credits is not shown.
  await meter('Storage', { func: 'max', property: 'units' })
  await use([[7, june.now]], 'Storage')
  await go('/usage')
  expect(await page.getByText('Storage').count()).toBe(0)
  // A seller can hide usage. Then neither the page nor its link exists.
  await api.call(updateOrganization, {
    params: { id: organization.id },
    body: { customer_portal_settings: { ...organization.customer_portal_settings, usage: { show: false } } },
  })
  expect((await go('/usage'))!.status()).toBe(404)
  await go('/overview')
  expect(await page.getByRole('navigation').getByRole('link', { name: 'Usage' }).count()).toBe(0)
  expect(violations).toEqual([])
  await close()
})

test('shows no link to usage to a customer without meters, and none to a plain member', async () => {
  const team = await portals.team({ seats: 3 })
  const { page, go, close } = await portals.enter(team)
  await go('/overview')
  expect(await page.getByRole('navigation').getByRole('link', { name: 'Usage' }).count()).toBe(0)
  await go('/usage')
  await page.getByText('You have no metered subscription or credits.').waitFor()
  await expectGoodLooks(page, 'usage-none')
  await close()
  const metered = await open()
  await metered.use([[3, june.now]])
  await metered.api.call(updateCustomer, { params: { id: metered.of.customer_id }, body: { type: 'team' } as never })
  const { page: other, go: visit, close: leave } = await portals.enter(metered.of, { role: 'member', email: 'plain@people.test' })
  await visit('/access')
  expect(await other.getByRole('navigation').getByRole('link', { name: 'Usage' }).count()).toBe(0)
  for (const path of ['/usage', `/usage/${metered.calls.id}/csv`]) expect((await visit(path))!.status()).toBe(403)
  await leave()
})

test('says what usage costs at the checkout, in the subscription, and before a change of plan', async () => {
  const { api, use, of, product, calls, organization } = await open({ included: 0 })
  await people.query(`update organizations set customer_portal_settings = customer_portal_settings || $2::jsonb where id = $1`, [
    organization.id,
    JSON.stringify({ subscription: { update_seats: true, update_plan: true, pause: true } }),
  ])
  const more = { name: 'By the request', recurring_interval: 'year', meter_interval: 'month', visibility: 'public' } as const
  const plain = await api.call(createProduct, {
    body: { ...more, prices: [{ amount_type: 'metered_unit', meter_id: calls.id, unit_amount: '0.125', cap_amount: 9900, price_currency: 'usd' }] },
  })
  await use([[150, june.now]])
  const textOf = async (text: Promise<string | null>) => ((await text) ?? '').replaceAll(/\s+/g, ' ')
  const { page, go, violations, close } = await portals.enter(of, {}, { script: false })
  await go('/subscriptions')
  const card = page.getByRole('region', { name: 'Workshop API' })
  for (const words of [
    'API requests: $0.02 per request, at most $50.00 a month. 150 used in this period, for $3.00.',
    'Usage until then comes on top.',
    // The interval for usage is stored only. The cap holds for the billing period of a year.
    'By the request – API requests: $0.00125 per request, at most $99.00 a year',
  ])
    expect(await textOf(card.textContent())).toContain(words)
  await card.getByText('Change plan').click()
  await page.getByLabel('New plan').selectOption(plain.id)
  await page.getByRole('button', { name: 'Show price' }).click()
  expect(await textOf(page.locator('dl.price').textContent())).toContain('API requests: $0.00125 per request, at most $99.00 a year')
  expect(violations).toEqual([])
  await close()

  const { url } = await api.call(createCheckout, { body: { products: [product.id, plain.id] } })
  const { context, close: leave } = await openContext(browser, world, { width: 390 })
  const checkout = await context.newPage()
  await checkout.goto(url)
  const summary = await textOf(checkout.locator('#summary').textContent())
  expect(summary).toContain('$20.00 a month + API requests: $0.02 per request, at most $50.00 a month')
  expect(await textOf(checkout.locator('#terms').textContent())).toContain(
    'You also agree to pay for usage. API requests: $0.02 per request, at most $50.00 a month.',
  )
  expect(summary).toContain('By the request API requests: $0.00125 per request, at most $99.00 a year')
  await expectGoodLooks(checkout, 'checkout-usage')
  await checkout.getByLabel('By the request').check()
  await checkout.getByText('You agree to pay for usage until you cancel. API requests: $0.00125 per request, at most $99.00 a year.').waitFor()
  await expectGoodLooks(checkout, 'checkout-usage-only')
  await leave()
})
