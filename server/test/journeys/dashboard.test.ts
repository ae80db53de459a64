import { mkdirSync } from 'node:fs'
import { listBenefits, listWebhookEndpoints } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openBrowser, type Browser, type Page } from '../harness/browser.ts'
import { expectScreen, openDashboards, type Dashboards } from '../harness/dashboards.ts'
import { openSink, type Sink } from '../harness/sink.ts'
import { openTeams, type Teams } from '../harness/teams.ts'
import { openWorld, type World } from '../harness/world.ts'

// Journeys of merchants in the dashboard, with a real browser.
let world: World
let browser: Browser
let sink: Sink
let teams: Teams
let dashboards: Dashboards
let seller: Awaited<ReturnType<Dashboards['seller']>>
let ids: Readonly<Record<'endpoint' | 'broken' | 'event' | 'benefit' | 'invited', string>>
beforeAll(async () => {
  if (process.env.BURSAR_TEST_PICTURES) mkdirSync(process.env.BURSAR_TEST_PICTURES, { recursive: true })
  sink = await openSink()
  ;[world, browser] = await Promise.all([openWorld({ browser: true, worker: true, settings: { BURSAR_EGRESS_LOOPBACK: 'true' } }), openBrowser()])
  teams = await openTeams(world)
  dashboards = openDashboards(world, teams, browser, sink)
  seller = await dashboards.seller({ orders: 120 })
  const { items: endpoints } = await seller.api.call(listWebhookEndpoints, { query: {} })
  const { items: benefits } = await seller.api.call(listBenefits, { query: {} })
  const [delivered] = await sink.until('/hooks', 1)
  await sink.until('/broken', 1)
  ids = {
    endpoint: endpoints.find(({ name }) => name === 'Shop')!.id,
    broken: endpoints.find(({ name }) => name === 'Broken')!.id,
    event: delivered!.headers['webhook-id']!,
    benefit: benefits[0]!.id,
    invited: (await seller.members()).find(({ email }) => email === 'mara@works.test')!.id,
  }
})
afterAll(async () => {
  await browser.close()
  await teams.close()
  await world.close()
  sink.close()
})

type Entered = Awaited<ReturnType<Dashboards['enter']>>

/** Asserts that the browser has seen nothing that must never happen. */
const expectClean = ({ violations, refused, outside, broken }: Entered) =>
  expect({ violations, refused, outside, broken }).toEqual({ violations: [], refused: [], outside: [], broken: [] })

/** Every screen: its name, its address, and a part that appears only after its data have arrived. */
const screens: readonly (readonly [string, () => string, string])[] = [
  ['home', () => '', '.figure strong:not(:text("–"))'],
  ['orders', () => '/orders', 'tbody tr'],
  ['order', () => `/orders/${seller.order_id}`, '.timeline li'],
  ['order-access', () => `/orders/${seller.order_id}?tab=grants`, '.detail'],
  ['order-json', () => `/orders/${seller.order_id}?tab=json`, 'pre'],
  ['customers', () => '/customers', 'tbody tr'],
  ['customer', () => `/customers/${seller.customer_id}`, '.rows .money'],
  ['customer-people', () => `/customers/${seller.customer_id}?tab=people`, '.rows li:nth-child(2)'],
  ['customer-access', () => `/customers/${seller.customer_id}?tab=grants`, 'tbody tr'],
  ['customer-usage', () => `/customers/${seller.customer_id}?tab=usage`, '.panel p'],
  ['customer-events', () => `/customers/${seller.customer_id}?tab=events`, '.timeline li'],
  ['why', () => `/customers/${seller.customer_id}/access?member=${seller.owner.id}&benefit=${ids.benefit}`, '.verdict'],
  ['why-not', () => `/customers/${seller.customer_id}/access?member=${ids.invited}&benefit=${ids.benefit}`, '.verdict.bad'],
  ['products', () => '/products', 'tbody tr'],
  ['product', () => `/products/${seller.product_id}`, '.rows li'],
  ['product-new', () => '/products/new', '.field input[type=text]'],
  ['metrics', () => '/metrics', '.metric-grid .chart svg'],
  ['metric', () => '/metrics/revenue', '.chart svg'],
  ['webhooks', () => '/webhooks', 'tbody tr'],
  ['endpoint', () => `/webhooks/${ids.endpoint}`, '.figures'],
  ['endpoint-broken', () => `/webhooks/${ids.broken}`, '.figures'],
  ['settings', () => '/settings', '.switches'],
  ['settings-people', () => '/settings?tab=people', '.rows li'],
  ['settings-tokens', () => '/settings?tab=tokens', '.rows li'],
  ['settings-taxes', () => '/settings?tab=taxes', 'select[name=country]'],
  ['event', () => `/webhooks/events/${ids.event}`, 'pre[aria-label="Payload"], pre[aria-label="Inhalt"]'],
]

describe.each(['en', 'de'] as const)('screens in %s', (locale) => {
  test('are free of findings, violations and refused requests in every look, and a reload shows the same', async () => {
    const opened = await dashboards.enter(seller, 'owner', { locale, width: 1280 })
    for (const [name, path, ready] of screens) {
      await opened.go(path())
      const loaded = opened.page.locator(`#app ${ready}`).first()
      await loaded.waitFor()
      await expectScreen(opened.page, `${name}-${locale}`)
      const heading = await opened.page.locator('h1').innerText()
      const address = opened.page.url()
      await opened.page.reload()
      await loaded.waitFor()
      expect([await opened.page.locator('h1').innerText(), opened.page.url()]).toEqual([heading, address])
      expectClean(opened)
    }
    await opened.close()
  })
})

test('explains in the language of the reader why a person has no access', async () => {
  const notes = { en: 'The person has not claimed the seat yet.', de: 'Die Person hat den Platz noch nicht angenommen.' }
  for (const [locale, note] of Object.entries(notes)) {
    const opened = await dashboards.enter(seller, 'owner', { locale })
    await opened.go(`/customers/${seller.customer_id}/access?member=${ids.invited}&benefit=${ids.benefit}`)
    await opened.page.locator('.chain').getByText(note).first().waitFor()
    expectClean(opened)
    await opened.close()
  }
})

describe('roles', () => {
  test.each(['owner', 'admin', 'finance', 'member'] as const)('shows %s nothing that the server refuses', async (role) => {
    const opened = await dashboards.enter(seller, role)
    await opened.go()
    await opened.page.locator('#screens a').first().waitFor()
    const links = await opened.page.locator('#screens a').all()
    const paths = await Promise.all(links.map((link) => link.getAttribute('href')))
    const isHead = role === 'owner' || role === 'admin'
    expect(paths.some((path) => path!.endsWith('/webhooks'))).toBe(isHead)
    expect(paths.some((path) => path!.endsWith('/settings'))).toBe(role !== 'finance')
    const shown = screens.filter(([name]) => !/endpoint|webhooks|event/.test(name) || isHead)
    for (const [name, path, ready] of shown) {
      if (name === 'product-new' && role === 'finance') continue
      if (name.startsWith('settings') && !isHead && (role !== 'member' || name !== 'settings-people')) continue
      await opened.go(path())
      await opened.page.locator(`#app ${ready}`).first().waitFor()
    }
    expectClean(opened)
    await opened.close()
  })

  test('tells an operator without a second factor what to do, and a person without an organization', async () => {
    const alone = await world.person()
    const opened = await dashboards.enter({ organization: { ...seller.organization, owner: alone.id } })
    await opened.page.goto(`${world.config.public_url.origin}/dashboard`)
    await opened.page.getByRole('heading', { name: 'No organization yet' }).waitFor()
    await opened.close()
    const operator = await world.person({ is_operator: true })
    await world.join(seller.organization.id, operator.id, 'admin')
    const refused = await dashboards.enter({ organization: { ...seller.organization, owner: operator.id } })
    await refused.go()
    await refused.page.getByRole('heading', { name: 'Add a second factor first' }).waitFor()
    await refused.close()
  })
})

const focused = (page: Page) => page.evaluate('document.activeElement.textContent')

describe('keyboard', () => {
  test('filters orders by the address alone, moves over the end of a page, and opens a row', async () => {
    const opened = await dashboards.enter(seller)
    const { page, go } = opened
    await go('/orders')
    await page.getByText('121 rows').waitFor()
    for (let at = 0; at < 51; at++) await page.keyboard.press('j')
    await page.getByText('51–100 of 121').waitFor()
    expect(new URL(page.url()).searchParams.get('at')).toBe('51')
    const number = page.locator('tbody tr').first().locator('td').nth(3)
    const shown = await number.innerText()
    await page.reload()
    await page.getByText('51–100 of 121').waitFor()
    expect(await number.innerText()).toBe(shown)
    await page.keyboard.press('j')
    await expect.poll(() => focused(page)).toContain(shown)
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/orders\/[0-9a-f-]{36}$/)
    await page.getByRole('heading', { level: 1, name: shown }).waitFor()
    expectClean(opened)
    await opened.close()
  })

  test('jumps to screens, finds a customer in the palette, and lists the keys', async () => {
    const opened = await dashboards.enter(seller)
    const { page, go } = opened
    await go()
    await page.getByText('Latest orders').waitFor()
    await page.keyboard.press('g')
    await page.keyboard.press('c')
    await page.getByRole('heading', { level: 1, name: 'Customers' }).waitFor()
    await page.keyboard.press('Control+k')
    await page.getByPlaceholder('Type a screen').fill('chiara@people.test')
    await page
      .getByRole('menuitem', { name: /Chiara/ })
      .first()
      .waitFor()
    await expectScreen(page, 'palette')
    // The first result is already chosen.
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Chiara Romano' }).waitFor()
    await page.keyboard.press('?')
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor()
    await expectScreen(page, 'help')
    await page.keyboard.press('Escape')
    await page.keyboard.press('c')
    await page.getByRole('dialog', { name: 'As code' }).waitFor()
    await page.getByText('Authorization: Bearer $BURSAR_TOKEN').first().waitFor()
    await expectScreen(page, 'as-code')
    expectClean(opened)
    await opened.close()
  })
})
