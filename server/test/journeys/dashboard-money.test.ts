import { createCustomer, createProduct } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  loseDispute,
  moveBalance,
  postOrder,
  postPayment,
  postRefund,
  returnDispute,
  reverseRefund,
  withholdDispute,
} from '../../src/modules/billing/ledger/ledger.ts'
import { newId } from '../../src/kernel/ids.ts'
import { inWallTime } from '../../src/platform/clocks.sql.ts'
import { openBrowser, type Browser, type Page } from '../harness/browser.ts'
import { openDashboards, type Dashboards } from '../harness/dashboards.ts'
import { counted } from '../harness/pace.ts'
import { openSales } from '../harness/sales.ts'
import { openSink, type Sink } from '../harness/sink.ts'
import { openTeams, type Teams } from '../harness/teams.ts'
import { openWorld, type World } from '../harness/world.ts'

// The amounts that the dashboard shows, read from its pages.

/** Orders whose amounts are read. `BURSAR_TEST_ORDERS=200` for the long run. */
const orders = counted('ORDERS', 40, 15)

let world: World
let browser: Browser
let sink: Sink
let teams: Teams
let dashboards: Dashboards
beforeAll(async () => {
  sink = await openSink()
  ;[world, browser] = await Promise.all([openWorld({ browser: true }), openBrowser()])
  teams = await openTeams(world)
  dashboards = openDashboards(world, teams, browser, sink)
})
afterAll(async () => {
  await browser.close()
  await teams.close()
  await world.close()
  sink.close()
})

/** The amounts of an order page in minor units: its lines, and the postings of its timeline. */
interface Shown {
  readonly lines: readonly (readonly [string, number])[]
  readonly postings: readonly (readonly (readonly [string, number])[])[]
}

/** Reads the amounts that a reader sees after opening all postings. The digits of an amount are its minor units. */
const amountsOn = (page: Page): Promise<Shown> =>
  page.evaluate(`(() => {
    for (const one of document.querySelectorAll('.timeline details')) one.open = true
    const minor = (text) => Number(text.replace(/[^0-9]/g, '')) * (/[-\\u2212]/.test(text) ? -1 : 1)
    const rows = (table, part) => [...table.querySelectorAll(part + ' tr')].map((row) => [row.querySelector('th').innerText, minor(row.querySelector('td').innerText)])
    return {
      lines: rows(document.querySelector('table.lines'), 'tfoot'),
      postings: [...document.querySelectorAll('.timeline .postings')].map((table) => rows(table, 'tbody')),
    }
  })()`)

const sum = (amounts: readonly number[]) => amounts.reduce((total, amount) => total + amount, 0)

test('shows amounts that add up for random orders: lines to the total, and each posting to zero', { timeout: orders * 20_000 }, async () => {
  const shop = await world.shop()
  const sales = openSales(world)
  const { id: customer_id } = await shop.api.call(createCustomer, { body: { email: 'random@people.test' } })
  const customer = { id: customer_id, organization_id: shop.organization.id }
  const product = await shop.api.call(createProduct, {
    body: { name: 'Plan', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 1000, price_currency: 'usd' }] },
  })
  const owned = { id: product.id, organization_id: shop.organization.id }
  const { page, go, close, refused, broken } = await dashboards.enter(shop)
  // A generator with a fixed seed, so that a failure can be repeated.
  let state = 20_261_119
  const chance = (most: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return Math.floor(state / 65_536) % most
  }
  const seen = new Map<string, number>()
  const note = (kind: string) => seen.set(kind, (seen.get(kind) ?? 0) + 1)
  let postings = 0
  for (let round = 0; round < orders; round++) {
    const currency = (['usd', 'eur', 'jpy'] as const)[chance(3)]!
    const [net_amount, tax_amount, discount_amount] = [1 + chance(30_000), chance(2) * chance(8000), chance(2) * chance(3000)]
    const isIncluded = tax_amount > 0 && chance(2) === 0
    const isCycle = chance(2) === 0
    const total = net_amount + tax_amount
    const credit = chance(3) === 0 ? 1 + chance(total) : 0
    note(isCycle ? 'subscription' : 'one-time')
    if (discount_amount > 0) note('discount')
    if (tax_amount > 0) note(isIncluded ? 'tax included' : 'tax')
    if (credit > 0) note('credit')
    const subscription = isCycle ? await sales.subscription(customer, owned, [product.prices[0]!.id], { currency }) : null
    const order = await sales.order(customer, {
      currency,
      net_amount,
      tax_amount,
      discount_amount,
      subtotal_amount: net_amount + discount_amount + (isIncluded ? tax_amount : 0),
      tax_behavior: isIncluded ? 'inclusive' : 'exclusive',
      applied_balance_amount: 0 - credit,
      due_amount: total - credit,
      invoice_number: `R-${round}`,
      ...(subscription === null ? {} : { subscription_id: subscription.id, product_id: product.id, billing_reason: 'subscription_cycle' as const }),
    })
    const payment = await sales.payment(customer, { order_id: order.id, amount: total - credit, currency })
    const refund = await sales.refund(order, payment, { amount: 1 + chance(net_amount), tax_amount: chance(tax_amount + 1) })
    const dispute = await sales.dispute(order, payment, { amount: net_amount, tax_amount, currency })
    let expected = 0
    await world.transact(async (wall) => {
      const tx = inWallTime(wall)
      const figures = { organization_id: customer.organization_id, customer_id, currency }
      const paid = { ...figures, id: payment.id, account_id: payment.account_id, amount: total - credit }
      if (credit > 0) await moveBalance(tx, { ...figures, id: newId(wall.clock.wall()), amount: credit })
      await postOrder(tx, { ...order, balance_movement_amount: 0 - credit })
      expected++
      if (total - credit > 0) {
        await postPayment(tx, paid)
        expected++
      }
      if (chance(2) === 0) {
        note('partial refund')
        await postRefund(tx, { ...paid, id: refund.id, amount: refund.amount, tax_amount: refund.tax_amount })
        expected++
        if (chance(4) === 0) {
          note('failed refund')
          await reverseRefund(tx, { ...figures, id: refund.id })
          expected++
        }
      }
      if (chance(3) > 0) return
      const disputed = { ...paid, id: dispute.id, amount: dispute.amount, tax_amount: dispute.tax_amount }
      const isLost = chance(2) === 0
      note(isLost ? 'lost dispute' : 'won dispute')
      await withholdDispute(tx, disputed)
      await (isLost ? loseDispute(tx, disputed) : returnDispute(tx, disputed))
      expected += 2
    })
    // Half of the orders are read in the view that leaves out everything but money.
    await go(`/orders/${order.id}${round % 2 === 0 ? '' : '?show=money'}`)
    await page
      .locator('.timeline .postings')
      .nth(expected - 1)
      .waitFor({ state: 'attached' })
    const shown = await amountsOn(page)
    expect([round, shown.postings.length]).toEqual([round, expected])
    postings += expected
    for (const rows of shown.postings) {
      const [name, total_shown] = rows.at(-1)!
      expect([round, name, total_shown, sum(rows.slice(0, -1).map(([, amount]) => amount))]).toEqual([round, 'Sums to zero', 0, 0])
    }
    const end = shown.lines.findIndex(([name]) => name === 'Total')
    const parts = shown.lines.slice(0, end).filter(([name]) => !name.includes('included'))
    expect([round, sum(parts.map(([, amount]) => amount))]).toEqual([round, shown.lines[end]![1]])
    expect([round, shown.lines[end]![1]]).toEqual([round, total])
    expect([round, shown.lines.slice(end + 1).some(([, amount]) => amount === 0 - credit)]).toEqual([round, credit > 0])
  }
  console.log(`${orders} orders on screen, ${postings} postings sum to zero: ${[...seen].map(([kind, count]) => `${count} ${kind}`).join(', ')}`)
  expect([...seen.keys()].toSorted()).toEqual(
    ['credit', 'discount', 'failed refund', 'lost dispute', 'one-time', 'partial refund', 'subscription', 'tax', 'tax included', 'won dispute'].toSorted(),
  )
  expect({ refused, broken }).toEqual({ refused: [], broken: [] })
  await close()
})

test('names a renewal only for a subscription that will be charged again', async () => {
  const shop = await world.shop()
  const sales = openSales(world)
  const { id } = await shop.api.call(createCustomer, { body: { email: 'ends@people.test' } })
  const customer = { id, organization_id: shop.organization.id }
  const product = await shop.api.call(createProduct, {
    body: { name: 'Plan', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 1000, price_currency: 'usd' }] },
  })
  const [end, ended] = [new Date(world.clock.wall().getTime() + 864_000_000), world.clock.wall()]
  const states = [
    ['Active', 'Renews', { current_period_end: end }],
    ['Active', 'Ends', { current_period_end: end, cancel_at_period_end: true, canceled_at: ended, ends_at: end }],
    ['Active', 'Pauses', { current_period_end: end, pause_at_period_end: true }],
    ['Trial', 'First charge', { status: 'trialing', current_period_end: end, trial_start: ended, trial_end: end }],
    ['Canceled', 'Ended', { status: 'canceled', current_period_end: end, canceled_at: ended, ends_at: ended, ended_at: ended }],
    ['Past due', null, { status: 'past_due', current_period_end: end, past_due_at: ended }],
    ['Paused', 'Resumes', { status: 'paused', current_period_end: end, paused_at: ended, resumes_at: end }],
  ] as const
  for (const [, , given] of states)
    await sales.subscription(customer, { id: product.id, organization_id: shop.organization.id }, [product.prices[0]!.id], given)
  const { page, go, close } = await dashboards.enter(shop)
  await go(`/customers/${id}`)
  await page
    .getByText('a month')
    .nth(states.length - 1)
    .waitFor()
  const rows = (await page.locator('.rows li', { hasText: 'Plan' }).allInnerTexts()).map((text) => text.replaceAll(/\s+/g, ' '))
  const wanted = states.map(([status, date]) => `Plan ${status} ${date ?? '$10.00'}`)
  expect(rows.map((text) => wanted.findIndex((one) => text.startsWith(one))).toSorted((one, other) => one - other)).toEqual(states.map((_, at) => at))
  await close()
})
