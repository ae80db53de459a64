import { createProduct, exponentsOf, listCustomerMembers, listOrders, updateSubscription, updateTaxSettings } from '@bursar/contract'
import { type Frame, type Locale } from '@bursar/views'
import { render } from '@bursar/web'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { totalsOf, type Bill } from '../../src/modules/billing/calc/totals.ts'
import { sum } from '../../src/kernel/money.ts'
import { openBrowser, type Browser } from '../harness/browser.ts'
import { openPortals, type Portals } from '../harness/portals.ts'
import { june, openSubscribers, type Subscribers } from '../harness/subscribers.ts'
import { openTeams } from '../harness/teams.ts'
import { openWorld, type World } from '../harness/world.ts'

// Rows, subtotals and totals of orders and of price previews add up.
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

interface Printed {
  readonly label: string
  readonly amount: number
  readonly result: boolean
}

/** Reads a printed amount exactly, in minor units of the API. */
const amountIn = (text: string, locale: Locale, currency: string): number => {
  const point = locale === 'de' ? ',' : '.'
  const digits = text.replace(/[^\d.,-]/g, '').replaceAll(locale === 'de' ? '.' : ',', '')
  const [whole, fraction = ''] = digits.replace('-', '').split(point)
  const { wire } = exponentsOf(currency)
  const amount = Number(`${whole}${fraction.padEnd(wire, '0')}`) / 10 ** (Math.max(fraction.length, wire) - wire)
  return digits.includes('-') && amount !== 0 ? -amount : amount
}

/** Reads the rows of every bill of a page. */
const billsIn = (html: string, locale: Locale, currency: string): Printed[][] =>
  [...html.matchAll(/<table class="sums">.*?<\/table>/gs)].map(([table]) =>
    [...table.matchAll(/<tr(?: class="(\w+)")?><th scope="row">(.*?)<\/th><td class="amount">(.*?)<\/td><\/tr>/gs)].map(([, kind, label, amount]) => ({
      label: label!.replace(/<[^>]*>/g, ' '),
      amount: amountIn(amount!, locale, currency),
      result: kind !== undefined,
    })),
  )

/** Asserts that each result is the sum of the rows before it, and that no two rows with amounts have the same name. */
const expectAdded = (rows: readonly Printed[]) => {
  let running = 0
  for (const { label, amount, result } of rows) {
    if (result) expect([label, amount]).toEqual([label, running])
    else running += amount
  }
  const names = rows.filter(({ result }) => !result).map(({ label }) => label)
  expect(new Set(names).size).toBe(names.length)
}

const bills = fc.record({
  currency: fc.constantFrom('usd', 'eur', 'jpy', 'kwd', 'huf'),
  regular: fc.array(fc.integer({ min: 0, max: 5_000_000 }), { maxLength: 3 }),
  changed: fc.array(fc.integer({ min: 1, max: 900_000 }), { maxLength: 2 }),
  credited: fc.array(fc.integer({ min: 1, max: 2_000_000 }), { maxLength: 2 }),
  discount: fc.option(fc.integer({ min: 0, max: 10_000 })),
  tax: fc.option(fc.record({ rate: fc.integer({ min: 0, max: 270_000 }), behavior: fc.constantFrom('inclusive' as const, 'exclusive' as const) })),
  balance: fc.integer({ min: -300_000, max: 300_000 }),
  refund: fc.integer({ min: 0, max: 100 }),
  status: fc.constantFrom('pending', 'paid', 'refunded', 'draft', 'void'),
  locale: fc.constantFrom('en' as const, 'de' as const),
})
type Given = typeof bills extends fc.Arbitrary<infer One> ? One : never

const frame = (locale: Locale): Frame => ({
  locale,
  theme: 'system',
  sandbox: true,
  csrf: 'csrf',
  person: null,
  path: '/',
  development: false,
  brand: null,
  origin: 'http://127.0.0.1',
  now: new Date('2026-06-16T00:00:00Z'),
})
const shell = {
  seller: { id: 'seller', name: 'Harbour', slug: 'harbour' },
  reader: { email: 'anna@people.test', name: null, role: 'owner', manages: true },
  has_team: true,
  has_usage: false,
  return_url: null,
  flow: null,
  done: null,
  complaints: [],
}

const figuresOf = ({ currency, regular, changed, credited, discount, tax, balance }: Given) => {
  const line = (label: string, proration: boolean) => (amount: number, at: number) => ({ id: `${label}${at}`, label: `${label}${at}`, amount, proration })
  const lines = [
    ...regular.map(line('Team plan ', false)),
    ...changed.map(line('Team plan ', true)),
    ...credited.map((amount, at) => line('Remaining time on Team plan ', true)(-amount, at)),
  ]
  const bill: Bill<(typeof lines)[number]> = {
    currency,
    lines,
    discount: discount === null ? null : { type: 'percentage', basis_points: discount },
    tax,
    credit: Math.max(0, balance),
    debt: Math.max(0, -balance),
  }
  return totalsOf(bill)
}

/** The page of an order with these amounts, as the API describes it. */
const orderPage = (given: Given): string => {
  const { lines, charge_amount, carried_amount: _, balance_movement_amount: __, ...figures } = figuresOf(given)
  const paid = given.status === 'paid' || given.status === 'refunded'
  const back = paid && given.status === 'refunded' ? Math.floor((charge_amount * given.refund) / 100) : 0
  const order = {
    id: 'order',
    ...figures,
    items: lines,
    status: given.status,
    paid,
    receipt_number: paid && charge_amount > 0 ? 'R-1' : null,
    refunded_amount: back,
    refunded_tax_amount: 0,
    currency: given.currency,
    description: 'Team plan',
    created_at: '2026-06-16T00:00:00Z',
    billing_name: null,
    billing_address: null,
    seats: null,
    invoice_number: null,
    next_payment_attempt_at: null,
    is_invoice_generated: false,
  }
  return render({ kind: 'portal-order', shell, order, refunds: [], methods: [], cards: null, form: null, waits: false } as never, frame(given.locale))
}

/** The team page with the price of a change that is charged at once. */
const previewPage = (given: Given): string => {
  const { due_amount: _, carried_amount: __, balance_movement_amount: ___, ...figures } = figuresOf(given)
  const price = {
    currency: given.currency,
    product_id: 'product',
    seats: 7,
    amount: sum(given.regular),
    recurring_interval: 'month',
    recurring_interval_count: 1,
    applies_at: '2026-06-16T00:00:00Z',
    now: { at: '2026-06-16T00:00:00Z', ...figures },
    next: null,
  }
  const pool = {
    key: { subscription_id: 'subscription' },
    name: 'Team plan',
    gives: [],
    count: { total: 5, active: 0, invited: 0 },
    bounds: { least: 1, most: null },
    pending: null,
    wish: { value: '7', price, seen: '', complaints: [] },
    removable: [],
    people: [],
    page: 1,
    pages: 1,
    role: 'member',
    invited: null,
  }
  return render(
    { kind: 'portal-team', shell, company: null, pools: [pool], others: null, filter: { status: 'current', query: '' } } as never,
    frame(given.locale),
  )
}

/** Checks the bills of pages with random amounts. A preview without lines shows no bill. */
const checkBills = (page: (given: Given) => string, expected: (given: Given) => number) =>
  fc.assert(
    fc.property(bills, (given) => {
      const printed = billsIn(page(given), given.locale, given.currency)
      expect(printed).toHaveLength(expected(given))
      for (const rows of printed) {
        expectAdded(rows)
        const { total_amount, discount_amount } = figuresOf(given)
        expect(rows.some(({ amount, result }) => result && amount === total_amount)).toBe(true)
        if (discount_amount > 0) expect(rows.some(({ amount, result }) => !result && amount === -discount_amount)).toBe(true)
      }
    }),
    { numRuns: 1_000, seed: 32 },
  )

test('prints rows that add up, for random amounts of each order', () => checkBills(orderPage, () => 1))

test('prints rows that add up, for random amounts of each preview', () => checkBills(previewPage, (given) => (figuresOf(given).lines.length === 0 ? 0 : 1)))

test('shows included tax inside the total, and names a prorated row, in an order after a change of seats', async () => {
  const shop = await world.shop()
  await shop.api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: false }] } })
  await people.query(`update organizations set subscription_settings = subscription_settings || '{"proration_behavior": "prorate"}' where id = $1`, [
    shop.organization.id,
  ])
  const { id } = await shop.api.call(createProduct, {
    body: {
      name: 'Team plan',
      recurring_interval: 'month',
      prices: [
        {
          amount_type: 'seat_based',
          price_currency: 'usd',
          tax_behavior: 'inclusive',
          seat_tiers: { tiers: [{ min_seats: 1, max_seats: null, price_per_seat: 2300 }] },
        },
      ],
    } as never,
  })
  const anna = await people.subscribe(shop, id, { seats: 6 })
  const [owner] = (await shop.api.call(listCustomerMembers, { params: { id: anna.customer.id } })).items
  const { page, go, close } = await portals.enter({ ...shop, customer_id: anna.customer.id, owner: owner! })
  const rowsOf = async (): Promise<Printed[]> => billsIn(await page.content(), 'en', 'usd')[0]!
  const [first] = (await shop.api.call(listOrders, { query: { customer_id: [anna.customer.id] } })).items
  await go(`/orders/${first!.id}`)
  await page.getByText('Includes $22.03 tax').waitFor()
  expectAdded(await rowsOf())
  expect((await rowsOf()).map(({ amount }) => amount)).toEqual([13_800, 13_800, 13_800])

  await shop.api.call(updateSubscription, { params: anna.params, body: { seats: 7, proration_behavior: 'prorate' } as never })
  await anna.travel(june.end)
  const [renewal] = await anna.orders()
  await go(`/orders/${renewal!.id}`)
  const rows = await rowsOf()
  expectAdded(rows)
  expect(rows.filter(({ label }) => label.startsWith('Team plan (7 seats)'))).toHaveLength(2)
  await page.locator('select[name=locale]').selectOption('de')
  await page.getByRole('button', { name: 'Apply' }).click()
  await page.getByRole('heading', { name: 'Posten' }).waitFor()
  expect(await page.getByRole('rowheader', { name: 'Team plan (7 Plätze)' }).count()).toBe(2)
  expect(rows.filter(({ label }) => label.includes('Difference for the rest of the period after a change'))).toHaveLength(1)
  await close()
})
