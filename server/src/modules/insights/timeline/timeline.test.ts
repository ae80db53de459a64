import {
  confirmClientCheckout,
  createBenefit,
  createCheckout,
  createCustomer,
  createProduct,
  createRefund,
  createWebhookEndpoint,
  getOrderTimeline,
  listOrderLedgerEntries,
  listOrders,
  updateOrder,
  updateProductBenefits,
  updateTaxSettings,
  type LedgerEntry,
  type OrderTimelineEntry,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { z } from 'zod'
import { openSales } from '../../../../test/harness/sales.ts'
import { openSink, type Sink } from '../../../../test/harness/sink.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { inWallTime } from '../../../platform/clocks.sql.ts'
import { loseDispute, postOrder, postPayment, postRefund, returnDispute, voidOrder, withholdDispute } from '../../billing/ledger/ledger.ts'

let world: World
let sink: Sink
beforeAll(async () => {
  sink = await openSink()
  world = await openWorld({ worker: true, settings: { BURSAR_EGRESS_LOOPBACK: 'true' } })
})
afterAll(async () => {
  await world.close()
  sink.close()
})

type Entry = z.input<typeof OrderTimelineEntry>
type Kind = Entry['kind']
const of = <K extends Kind>(items: readonly Entry[], kind: K) => items.filter((item): item is Extract<Entry, { kind: K }> => item.kind === kind)
const sum = (entries: readonly z.input<typeof LedgerEntry>[]) => entries.reduce((total, { amount }) => total + amount, 0)

/** A purchase of 29.00 with 19 % tax, a benefit, and an endpoint that receives every event about it. */
const open = async (more: { recurring_interval?: 'month' } = {}) => {
  const shop = await world.shop()
  const { api } = shop
  await api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: false }] } })
  await api.call(createWebhookEndpoint, { body: { url: sink.url(`/${shop.organization.id}`), format: 'raw', events: ['order.paid', 'order.refunded'] } })
  const benefit = await api.call(createBenefit, { body: { type: 'custom', description: 'Guide', properties: { note: null } } as never })
  const product = await api.call(createProduct, {
    body: { name: 'Guide', ...more, prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] },
  })
  await api.call(updateProductBenefits, { params: { id: product.id }, body: { benefits: [benefit.id] } })
  const checkout = await api.call(createCheckout, { body: { products: [product.id] } })
  const confirm = (confirmation_token_id: string) =>
    world.client().send(confirmClientCheckout, {
      params: { client_secret: checkout.client_secret },
      body: { customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' }, confirmation_token_id },
    })
  await confirm('tok_insufficient_funds')
  await confirm('tok_visa')
  const order = await eventually('the order exists', async () => (await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items[0])
  const timeline = async (query: { cursor?: string; limit?: string } = {}) => api.call(getOrderTimeline, { params: { id: order.id }, query })
  return { ...shop, benefit, order, timeline }
}

test('lists payments, postings, events, deliveries, mails, grants, refunds and changes of an order by their time', async () => {
  const { api, order, benefit, timeline } = await open()
  await eventually('the grant, the mail and the delivery exist', async () => {
    const { items } = await timeline()
    return of(items, 'grant').some(({ state }) => state === 'granted') && of(items, 'mail').length > 0 && of(items, 'delivery').length > 0
  })
  await api.call(updateOrder, { params: { id: order.id }, body: { billing_name: 'Ada Lovelace' } })
  const refund = await api.call(createRefund, { body: { order_id: order.id, reason: 'customer_request', amount: 1000 } })
  const { items, left_out, next_cursor } = await eventually('the refund is delivered and mailed', async () => {
    const page = await timeline({ limit: '100' })
    return of(page.items, 'delivery').length === 2 && of(page.items, 'mail').some(({ mail }) => mail === 'refund') && of(page.items, 'audit').length > 0 && page
  })
  expect([left_out, next_cursor]).toEqual([[], null])
  expect(items.map(({ recorded_at }) => recorded_at)).toEqual(items.map(({ recorded_at }) => recorded_at).toSorted())
  expect(new Set(items.map(({ id }) => id)).size).toBe(items.length)
  const attempts = of(items, 'payment_attempt')
  expect(attempts.map(({ status }) => status).toSorted()).toEqual(['failed', 'succeeded'])
  expect(attempts.find(({ status }) => status === 'failed')!.decline_reason).not.toBeNull()
  expect(of(items, 'posting').map(({ fact }) => fact)).toEqual(expect.arrayContaining(['order_billed', 'payment_received', 'refund_paid']))
  for (const { entries } of of(items, 'posting')) expect(sum(entries)).toBe(0)
  expect(of(items, 'refund')).toMatchObject([{ refund_id: refund.id, status: 'succeeded', amount: 1000, tax_amount: refund.tax_amount }])
  const types = of(items, 'event').map(({ type }) => type)
  expect(types).toEqual(expect.arrayContaining(['order.created', 'order.paid', 'order.refunded', 'refund.created', 'benefit_grant.created']))
  const paid = of(items, 'event').find(({ type }) => type === 'order.paid')!
  expect(paid).toMatchObject({ resource_id: order.id, customer_id: order.customer_id, sequence: expect.any(Number) })
  expect(of(items, 'delivery')[0]).toMatchObject({ event_id: paid.event_id, type: 'order.paid', succeeded: true, http_code: 200 })
  expect(of(items, 'mail').map(({ mail }) => mail)).toEqual(expect.arrayContaining(['receipt', 'refund']))
  expect(of(items, 'mail')[0]!.address).toBe('ada@people.test')
  expect(of(items, 'grant')).toMatchObject([{ benefit_id: benefit.id, benefit_description: 'Guide', state: 'granted', customer_id: order.customer_id }])
  const update = of(items, 'audit').find(({ operation }) => operation === 'orders:update')!
  expect(update).toMatchObject({ actor: { kind: 'organization' }, changed: expect.arrayContaining(['billing_name']) })
  // Every page continues where the one before ended.
  const pages: Entry[] = []
  let cursor: string | undefined
  do {
    const page = await timeline({ limit: '4', ...(cursor === undefined ? {} : { cursor }) })
    expect(page.items.length).toBeLessThanOrEqual(4)
    pages.push(...page.items)
    cursor = page.next_cursor ?? undefined
  } while (cursor !== undefined)
  expect(pages.map(({ id }) => id)).toEqual(items.map(({ id }) => id))
  expect(await api.sendRaw(getOrderTimeline, { params: { id: order.id }, query: { cursor: 'next' } })).toMatchObject({ status: 422 })
})

test('leaves out what the role or the token may not read, and is closed to other organizations', async () => {
  const { order, organization, timeline } = await open()
  await eventually('the event is delivered', async () => of((await timeline()).items, 'delivery').length > 0)
  const person = await world.person()
  await world.join(organization.id, person.id, 'finance')
  const seen = await world.client({ cookie: await person.cookie() }).call(getOrderTimeline, { params: { id: order.id }, query: { limit: '100' } })
  expect(seen.left_out).toEqual(['event', 'delivery', 'audit'])
  expect(new Set(seen.items.map(({ kind }) => kind))).toEqual(new Set(['payment_attempt', 'posting', 'grant', 'mail']))
  const narrow = world.client({ token: (await organization.token(['orders:read'])).secret })
  const only = await narrow.call(getOrderTimeline, { params: { id: order.id } })
  expect(new Set(only.items.map(({ kind }) => kind))).toEqual(new Set(['posting']))
  expect(only.left_out).toEqual(['payment_attempt', 'refund', 'dispute', 'event', 'delivery', 'mail', 'grant', 'audit'])
  const stranger = (await world.shop()).api
  for (const operation of [getOrderTimeline, listOrderLedgerEntries]) {
    expect((await stranger.send(operation, { params: { id: order.id } })).status).toBe(404)
    expect((await world.client().send(operation, { params: { id: order.id } })).status).toBe(401)
    const without = world.client({ token: (await organization.token(['customers:read'])).secret })
    expect((await without.send(operation, { params: { id: order.id } })).status).toBe(403)
  }
})

test('the postings of 200 random orders sum to zero', async () => {
  const shop = await world.shop()
  const sales = openSales(world)
  const { id: customer_id } = await shop.api.call(createCustomer, { body: { email: 'random@people.test' } })
  const customer = { id: customer_id, organization_id: shop.organization.id }
  // A generator with a fixed seed, so that a failure can be repeated.
  let state = 20_261_119
  const chance = (most: number) => (state = (state * 1_103_515_245 + 12_345) % 2_147_483_648) % most
  for (let round = 0; round < 200; round++) {
    const [net_amount, tax_amount] = [1 + chance(100_000), chance(20_000)]
    const order = await sales.order(customer, { net_amount, tax_amount })
    const kinds: string[] = []
    const payment = await sales.payment(customer, { order_id: order.id, amount: order.total_amount })
    const refund = await sales.refund(order, payment, { amount: 1 + chance(net_amount), tax_amount: chance(tax_amount + 1) })
    const dispute = await sales.dispute(order, payment, { amount: net_amount, tax_amount })
    await world.transact(async (wall) => {
      const tx = inWallTime(wall)
      const figures = { organization_id: customer.organization_id, customer_id, currency: 'usd' }
      const paid = { ...figures, id: payment.id, account_id: payment.account_id, amount: order.total_amount }
      await postOrder(tx, { ...order, balance_movement_amount: 0 })
      kinds.push('order_billed')
      if (chance(4) === 0) {
        await voidOrder(tx, order)
        kinds.push('order_voided')
        return
      }
      await postPayment(tx, paid)
      kinds.push('payment_received')
      if (chance(2) === 0) {
        await postRefund(tx, { ...paid, id: refund.id, amount: refund.amount, tax_amount: refund.tax_amount })
        kinds.push('refund_paid')
      }
      if (chance(3) > 0) return
      const disputed = { ...paid, id: dispute.id, amount: dispute.amount, tax_amount: dispute.tax_amount }
      await withholdDispute(tx, disputed)
      const isLost = chance(2) === 0
      if (isLost) await loseDispute(tx, disputed)
      else await returnDispute(tx, disputed)
      kinds.push('dispute_withheld', isLost ? 'dispute_lost' : 'dispute_returned')
    })
    const { items } = await shop.api.call(getOrderTimeline, { params: { id: order.id }, query: { limit: '100' } })
    const postings = of(items, 'posting')
    expect(postings.map(({ fact }) => fact).toSorted()).toEqual(kinds.toSorted())
    for (const posting of postings) expect([round, posting.fact, sum(posting.entries)]).toEqual([round, posting.fact, 0])
    const ledger = await shop.api.call(listOrderLedgerEntries, { params: { id: order.id } })
    expect(ledger.items.map(({ id }) => id)).toEqual(postings.map(({ id }) => id))
    expect(ledger.balances.reduce((total, { amount }) => total + amount, 0)).toBe(0)
    if (round === 0) {
      const page = await shop.api.call(listOrderLedgerEntries, { params: { id: order.id }, query: { limit: '1' } })
      const rest = await shop.api.call(listOrderLedgerEntries, { params: { id: order.id }, query: { cursor: page.next_cursor! } })
      expect([...page.items, ...rest.items]).toEqual(ledger.items)
      expect(rest.balances).toEqual(ledger.balances)
    }
  }
})

test('lists the grants of a subscription with the order that began it, and nothing of another order', async () => {
  const { order, benefit, timeline } = await open({ recurring_interval: 'month' })
  expect(order.billing_reason).toBe('subscription_create')
  const other = await open()
  const grants = await eventually('the grant exists', async () => {
    const found = of((await timeline({ limit: '100' })).items, 'grant')
    return found.some(({ state }) => state === 'granted') && found
  })
  expect(grants).toMatchObject([{ benefit_id: benefit.id, customer_id: order.customer_id }])
  const { items } = await timeline({ limit: '100' })
  expect(JSON.stringify(items)).not.toContain(other.order.id)
  expect(of(items, 'event').every(({ resource_id }) => resource_id === order.id)).toBe(true)
})
