import {
  createCustomerSession,
  createProduct,
  createRefund,
  deleteCustomer,
  listCustomerMembers,
  listDisputes,
  listOrders,
  revokeSubscription,
  updatePortalSubscription,
  updateSubscription,
  updateTaxSettings,
} from '@bursar/contract'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { june, openSubscribers, type Subscribers } from '../../../../test/harness/subscribers.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { settlesAfter } from '../../../gateways/payments/test/cards.ts'
import { regularWork } from '../../../main/wire.ts'

let world: World
let people: Subscribers
beforeAll(async () => {
  world = await openWorld()
  people = await openSubscribers(world)
})
afterAll(async () => {
  await people.close()
  await world.close()
})

const errorOf = (answer: { status: number; body: unknown }) => `${answer.status} ${(answer.body as { error: string }).error}`
const fixed = (price_amount: number) => ({ amount_type: 'fixed', price_amount, price_currency: 'usd' })
const seated = { amount_type: 'seat_based', price_currency: 'usd', seat_tiers: { tiers: [{ min_seats: 1, max_seats: 100, price_per_seat: 1000 }] } }
/** Fetches and applies the processor's events. */
const hear = async () => {
  await regularWork.find(({ name }) => name === 'billing.hear')!.run(people.deployment.deps)
  await people.deployment.work()
}
/** Advances the clock until a dispute or refund is decided, and applies the result. */
const decide = async () => {
  world.clock.advance(settlesAfter)
  await hear()
  await people.deployment.sweep()
  await people.deployment.work()
}

/** Subscribes to Grand (30.00), Basic (10.00) or seats (10.00 each), with half of June left, and opens the portal. */
const open = async (bought: 'grand' | 'basic' | 'seats', wish: Parameters<Subscribers['subscribe']>[2] = {}, tax?: 'inclusive' | 'exclusive') => {
  const shop = await world.shop()
  const { api, organization } = shop
  if (tax) await api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: false }] } })
  await people.query('update organizations set customer_portal_settings = customer_portal_settings || $2::jsonb where id = $1', [
    organization.id,
    JSON.stringify({ subscription: { update_plan: true, update_seats: true, pause: true } }),
  ])
  const plan = (name: string, price: object) =>
    api.call(createProduct, {
      body: { name, recurring_interval: 'month', visibility: 'public', prices: [{ ...price, ...(tax ? { tax_behavior: tax } : {}) }] } as never,
    })
  const products = { basic: await plan('Basic', fixed(1000)), grand: await plan('Grand', fixed(3000)), seats: await plan('Team', seated) }
  const anna = await people.subscribe(shop, products[bought].id, wish)
  const [owner] = (await api.call(listCustomerMembers, { params: { id: anna.customer.id } })).items
  const { token } = await api.call(createCustomerSession, { body: { customer_id: anna.customer.id, member_id: owner!.id } })
  const portal = world.client({ token })
  const surfaces = {
    seller: (body: object) => api.send(updateSubscription, { params: anna.params, body }),
    portal: (body: object) => portal.send(updatePortalSubscription, { params: anna.params, body }),
  }
  const orders = async () => (await api.call(listOrders, { query: { customer_id: [anna.customer.id] } })).items
  const seen = new Set<string>()
  return {
    ...shop,
    ...anna,
    ...products,
    surfaces,
    /** Updates the subscription through the seller API or the portal, and expects success. */
    change: async (body: object, surface: keyof typeof surfaces = 'seller') => {
      const answer = await surfaces[surface](body)
      if (answer.status !== 200) throw new Error(JSON.stringify(answer.body))
      return answer.body
    },
    first: async () => (await orders()).find(({ billing_reason }) => billing_reason === 'subscription_create')!,
    refund: async (order: { id: string }, amount: number) => {
      const answer = await api.send(createRefund, { body: { order_id: order.id, reason: 'customer_request', amount } })
      expect(answer.status).toBe(201)
    },
    /** The open entries, which the next order bills. */
    waiting: async () =>
      (
        await people.query<{ amount: number; label: string }>(
          'select amount::int, label from billing_entries where subscription_id = $1 and order_id is null order by created_at, position, id',
          [anna.id],
        )
      ).map(({ amount, label }) => [amount, label]),
    /** The orders that are new since the last call. Several orders may have the same creation time. */
    fresh: async () => {
      const found = (await anna.orders()).filter(({ id }) => !seen.has(id))
      for (const { id } of found) seen.add(id)
      return found
    },
  }
}

/** The status, total and lines of an order. */
const figures = ({ status, total_amount, items }: { status: string; total_amount: number; items: { amount: number; label: string }[] }) => [
  status,
  total_amount,
  ...items.map(({ amount, label }) => [amount, label]),
]

for (const surface of ['seller', 'portal'] as const)
  test(`credits only the part of a period that was not refunded: ${surface}`, async () => {
    const { first, refund, change, basic, waiting } = await open('grand')
    await refund(await first(), 1000)
    await change({ product_id: basic.id }, surface)
    // The order was 30.00, and 10.00 were refunded. Half of the month is left, so 10.00 of the remaining 20.00 are credited.
    expect(await waiting()).toEqual([
      [-1000, 'Remaining time on Grand'],
      [500, 'Basic'],
    ])
  })

test('credits nothing for a period that was refunded in full, and charges the new plan', async () => {
  const { first, refund, change, basic, waiting, travel, fresh } = await open('grand')
  await refund(await first(), 3000)
  await change({ product_id: basic.id }, 'portal')
  expect(await waiting()).toEqual([[500, 'Basic']])
  await travel(june.end)
  expect(await fresh()).toMatchObject([{ due_amount: 1500 }])
})

test('withholds the credit of an order with a pending refund, and restores it when the refund fails', async () => {
  const pending = await open('grand', { card: 'tok_refund_pending' })
  await pending.refund(await pending.first(), 1500)
  await pending.change({ product_id: pending.basic.id, proration_behavior: 'prorate' })
  expect(await pending.waiting()).toEqual([
    [-750, 'Remaining time on Grand'],
    [500, 'Basic'],
  ])
  await decide()
  expect(await pending.waiting()).toHaveLength(2)

  const failing = await open('grand', { card: 'tok_refund_fails_later' })
  await failing.change({ product_id: failing.basic.id, proration_behavior: 'invoice' })
  await failing.refund(await failing.first(), 3000)
  expect(await failing.balance()).toEqual([-500])
  await failing.fresh()
  await decide()
  expect(await failing.balance()).toEqual([1000])
  expect((await failing.fresh()).map(figures)).toEqual([['paid', -1500, [-1500, 'Credit restored: Remaining time on Grand']]])
})

test('reduces and removes an open credit when its order is refunded', async () => {
  const { first, refund, change, basic, waiting, travel, fresh } = await open('grand')
  await change({ product_id: basic.id, proration_behavior: 'prorate' })
  await refund(await first(), 1000)
  expect(await waiting()).toEqual([
    [-1000, 'Remaining time on Grand'],
    [500, 'Basic'],
  ])
  await refund(await first(), 2000)
  expect(await waiting()).toEqual([[500, 'Basic']])
  expect(await fresh()).toEqual([])
  await travel(june.end)
  expect(await fresh()).toMatchObject([{ due_amount: 1500 }])
})

test('takes back a used credit when its order is refunded, as a debt that the next order collects', async () => {
  const { first, refund, change, basic, travel, balance, fresh, charged } = await open('grand')
  await change({ product_id: basic.id, proration_behavior: 'prorate' })
  await travel(june.end)
  // The order for July is zero: 10.00 for July, plus 5.00 for the rest of June, minus the credit of 15.00.
  expect(await fresh()).toMatchObject([{ billing_reason: 'subscription_cycle', total_amount: 0, status: 'paid' }])
  await refund(await first(), 1000)
  expect((await fresh()).map(figures)).toEqual([['paid', 500, [500, 'Credit taken back: Remaining time on Grand']]])
  expect(await balance()).toEqual([-500])
  await refund(await first(), 2000)
  expect(await balance()).toEqual([-1500])
  await fresh()
  await travel('2026-08-01T00:00:00Z')
  expect(await fresh()).toMatchObject([{ total_amount: 1000, applied_balance_amount: 1500, due_amount: 2500, status: 'paid' }])
  expect([await balance(), await charged()]).toEqual([[0], [2500]])
})

for (const tax of ['inclusive', 'exclusive'] as const)
  test(`takes back a credit with its tax: ${tax}`, async () => {
    const { first, refund, change, basic, balance, fresh } = await open('grand', {}, tax)
    await change({ product_id: basic.id, proration_behavior: 'invoice' })
    const [given] = await balance()
    expect(given).toBe(tax === 'inclusive' ? 1000 : 1190)
    await fresh()
    const order = await first()
    await refund(order, order.refundable_amount)
    const taken = tax === 'inclusive' ? 1500 : 1785
    expect((await fresh()).map(figures)).toEqual([['paid', taken, [1500, 'Credit taken back: Remaining time on Grand']]])
    expect(await balance()).toEqual([given! - taken])
  })

test('credits nothing for the refunded part of an upgrade, but keeps the credit that paid the rest', async () => {
  const { change, grand, basic, refund, waiting, travel, fresh, charged } = await open('basic')
  await change({ product_id: grand.id }, 'portal')
  expect(await charged()).toEqual([1000])
  await refund((await fresh())[0]!, 1000)
  await change({ product_id: basic.id }, 'portal')
  // The upgrade to Grand cost 15.00. Of these, 10.00 were refunded, and 5.00 were paid with the credit for Basic.
  expect(await waiting()).toEqual([
    [-500, 'Remaining time on Grand'],
    [500, 'Basic'],
  ])
  await travel(june.end)
  expect(await fresh()).toMatchObject([{ due_amount: 1000 }])
})

test('reduces the credit of a downgrade when the upgrade is refunded later', async () => {
  const { change, grand, basic, fresh, refund, waiting } = await open('basic')
  await change({ product_id: grand.id }, 'portal')
  const [upgrade] = await fresh()
  await change({ product_id: basic.id }, 'portal')
  expect((await waiting()).map(([amount]) => amount)).toEqual([-1500, 500])
  await refund(upgrade!, 1000)
  expect((await waiting()).map(([amount]) => amount)).toEqual([-500, 500])
})

test('credits removed seats from the orders that added them, the latest first', async () => {
  const { change, fresh, refund, waiting, first } = await open('seats', { seats: 2 })
  await change({ seats: 4 }, 'portal')
  const [second] = await fresh()
  await change({ seats: 6 }, 'portal')
  const [third] = await fresh()
  await refund(third!, 1000)
  // The third order was refunded, so its seats give no credit.
  await change({ seats: 4 }, 'portal')
  expect(await waiting()).toEqual([])
  await change({ seats: 3 }, 'portal')
  expect((await waiting()).map(([amount]) => amount)).toEqual([-500])
  await refund(second!, 1000)
  expect(await waiting()).toEqual([])
  await change({ seats: 1 }, 'portal')
  expect((await waiting()).map(([amount]) => amount)).toEqual([-500])
  await refund(await first(), 2000)
  expect(await waiting()).toEqual([])
})

test('never credits more than was paid, however often the seats change', async () => {
  const { change, waiting, charged, balance } = await open('seats', { seats: 3 })
  for (const seats of [7, 2, 9, 1, 5, 3]) await change({ seats }, 'portal')
  // Changing back to three seats costs nothing, because the credits equal the charges. The credits are open entries or
  // part of the balance.
  const entries = (await waiting()).reduce((sum, [amount]) => sum + Number(amount), 0)
  const paid = (await charged()).reduce((sum, amount) => sum + amount, 0)
  const [credit = 0] = await balance()
  expect([paid, entries, credit]).toEqual([3000, -1000, 2000])
})

test('bills open prorations with an immediate order, so that no credit depends on a charge that may be dropped', async () => {
  const { change, grand, basic, api, params, balance, fresh, waiting } = await open('basic')
  await change({ product_id: grand.id, proration_behavior: 'prorate' })
  await change({ product_id: basic.id, proration_behavior: 'invoice' })
  expect((await fresh()).map(figures)).toEqual([
    ['paid', 0, [-500, 'Remaining time on Basic'], [1500, 'Grand'], [-1500, 'Remaining time on Grand'], [500, 'Basic']],
  ])
  await api.call(revokeSubscription, { params })
  expect([await waiting(), (await balance()).filter((amount) => amount !== 0)]).toEqual([[], []])
})

test('keeps open prorations and deletes those of the change if its payment is declined', async () => {
  const { change, surfaces, waiting, id } = await open('seats', { seats: 4, card: 'tok_declined_later' })
  const recorded = () =>
    people.query(
      `select (select count(*)::int from proration_credits where subscription_id = $1) as credits,
         (select count(*)::int from proration_charges where subscription_id = $1) as charges`,
      [id],
    )
  await change({ seats: 3 }, 'portal')
  const before = await waiting()
  expect(errorOf(await surfaces.portal({ seats: 8 }))).toBe('402 PaymentFailed')
  expect([await waiting(), await recorded()]).toEqual([before, [{ credits: 1, charges: 0 }]])
})

test('refuses plan and seat changes while the period is disputed, but allows canceling', async () => {
  const { surfaces, basic, change, waiting } = await open('grand', { card: 'tok_dispute_won' })
  await hear()
  for (const ask of Object.values(surfaces)) {
    const answer = await ask({ product_id: basic.id })
    expect(answer).toMatchObject({ status: 409, body: { error: 'SubscriptionLocked', detail: expect.stringContaining('is disputed') as string } })
  }
  expect(errorOf(await surfaces.seller({ product_id: basic.id, proration_behavior: 'next_period' }))).toBe('409 SubscriptionLocked')
  await change({ cancel_at_period_end: true }, 'portal')
  await change({ cancel_at_period_end: false }, 'portal')
  await decide()
  await change({ product_id: basic.id }, 'portal')
  expect((await waiting()).map(([amount]) => amount)).toEqual([-1500, 500])
})

test('takes back a used credit once when the dispute about its order is lost', async () => {
  const { change, basic, balance, fresh, api, find, orders } = await open('grand', { card: 'tok_dispute_lost' })
  await change({ product_id: basic.id, proration_behavior: 'invoice' })
  await fresh()
  await hear()
  expect(await balance()).toEqual([1000])
  await decide()
  await decide()
  expect((await api.call(listDisputes, {})).items.map(({ status }) => status)).toEqual(['lost'])
  expect((await find()).status).toBe('canceled')
  expect((await fresh()).map(figures)).toEqual([['paid', 1500, [1500, 'Credit taken back: Remaining time on Grand']]])
  expect(await balance()).toEqual([-500])
  expect((await orders()).filter(({ status }) => status === 'pending')).toEqual([])
})

test('removes an open credit when the dispute about its order is lost', async () => {
  const { change, basic, balance, waiting, find } = await open('grand', { card: 'tok_dispute_lost' })
  await change({ product_id: basic.id, proration_behavior: 'prorate' })
  await hear()
  await decide()
  expect([(await find()).status, (await waiting()).map(([amount]) => amount)]).toEqual(['canceled', [500]])
  expect((await balance()).filter((amount) => amount !== 0)).toEqual([])
})

test('takes back the credit when a refund prevents a dispute', async () => {
  const { change, basic, balance } = await open('grand', { card: 'tok_dispute_prevented' })
  await change({ product_id: basic.id, proration_behavior: 'invoice' })
  await hear()
  await decide()
  expect(await balance()).toEqual([-500])
})

test('takes back a credit on a pending renewal only when the renewal is paid', async () => {
  const { change, basic, grand, refund, first, travel, fresh, balance, find } = await open('grand', { card: 'tok_recovers_later' })
  await change({ product_id: basic.id, proration_behavior: 'prorate' })
  await change({ product_id: grand.id, proration_behavior: 'next_period' })
  await travel(june.end)
  expect(await fresh()).toMatchObject([{ status: 'pending', total_amount: 2000 }])
  await refund(await first(), 3000)
  expect([await fresh(), (await balance()).filter((amount) => amount !== 0)]).toEqual([[], []])
  for (const day of ['03', '08']) await travel(`2026-07-${day}T00:00:00Z`)
  expect((await find()).status).toBe('active')
  expect((await fresh()).map(figures)).toEqual([['paid', 1500, [1500, 'Credit taken back: Remaining time on Grand']]])
  expect(await balance()).toEqual([-1500])
})

test('refunds a subscription change that is paid after its customer was deleted, and deletes its proration credit', async () => {
  const { api, change, grand, customer, id, fresh, balance } = await open('basic', { card: 'tok_processing' })
  await fresh()
  await change({ product_id: grand.id }, 'portal').catch(() => undefined)
  expect(await fresh()).toMatchObject([{ status: 'pending', total_amount: 1000 }])
  await api.call(deleteCustomer, { params: { id: customer.id } })
  await people.deployment.work()
  await decide()
  await decide()
  const rows = await people.query<{ status: string; refunded: number }>(
    'select status, (refunded_amount + refunded_tax_amount)::int as refunded from orders where subscription_id = $1 order by refunded_amount',
    [id],
  )
  expect(rows).toEqual([
    { status: 'paid', refunded: 0 },
    { status: 'refunded', refunded: 1000 },
  ])
  expect((await balance()).filter((amount) => amount !== 0)).toEqual([])
  expect(await people.query('select from proration_credits where subscription_id = $1', [id])).toEqual([])
})

test('migration 0030 derives the proration charges and credits of the current period from orders and entries', async () => {
  const { change, grand, basic, id } = await open('basic')
  await change({ product_id: grand.id }, 'portal')
  await change({ product_id: basic.id }, 'portal')
  const statements = readFileSync('server/migrations/0030_proration_sources.sql', 'utf8')
    .split(';\n')
    .filter((statement) => /^insert into/m.test(statement))
  const recorded = `select 'charge' as kind, product_price_id, amount::int, entry_id, order_id, null::uuid as source_order_id, 'none' as source
      from proration_charges where subscription_id = $1
    union all select 'credit', product_price_id, amount::int, entry_id, order_id, source_order_id, case when source_charge_id is null then 'order' else 'charge' end
      from proration_credits where subscription_id = $1
    order by 1, 3, 2`
  await world.database.owner(async (owner) => {
    // Separates the two changes by an hour, because the migration cannot derive the sequence of changes at the same
    // moment.
    await owner.query(`update billing_entries set created_at = created_at + interval '1 hour' where subscription_id = $1`, [id])
    const before = (await owner.query(recorded, [id])).rows
    await owner.query('begin')
    await owner.query('delete from proration_credits')
    await owner.query('delete from proration_charges')
    for (const statement of statements) await owner.query(statement)
    const after = (await owner.query(recorded, [id])).rows
    await owner.query('rollback')
    expect([before.length, after]).toEqual([4, before])
  })
})
