import { confirmPortalPayment, updatePortalCustomer } from '@bursar/contract'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { compareBooks, day, openPlans, type Plan } from '../../../../test/harness/plans.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { ProcessorSilent, type Processor } from '../../../gateways/payments/payments.ts'
import { sweeps } from '../../../platform/jobs/catalogue.ts'
import { claim } from '../../../platform/jobs/leases.sql.ts'
import { followDue } from '../payments/attempts.ts'
import { orderPaymentSettled } from './collecting.ts'
import { renew } from '../renewals/renewals.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
let plans: ReturnType<typeof openPlans>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
  plans = openPlans(world, deployment)
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})
beforeEach(() => plans.retire())

const owner = <T extends object>(statement: string, values: unknown[] = []) =>
  world.database.owner(async (client) => (await client.query<T>(statement, values)).rows)
const after = (moment: Date, milliseconds: number) => new Date(moment.getTime() + milliseconds)
interface Tries {
  status: string
  first_failed_at: Date
  next_payment_attempt_at: Date | null
  due_at: Date | null
}
const triesOf = async ({ id }: Plan): Promise<Tries> =>
  (await owner<Tries>(`select * from orders where subscription_id = $1 and billing_reason = 'subscription_cycle' order by created_at limit 1`, [id]))[0]!
/** Advances past the end of the first period and runs everything that is due then. */
const firstEnd = async (plan: Plan) => {
  await plans.until(await plan.end())
  await plans.until(world.clock.business())
}
const pastDue = ['subscription.updated', 'subscription.past_due']
const cycled = ['subscription.updated', 'subscription.cycled', 'order.created']

test('retries a declined payment after 2, 7, 14 and 21 days, then ends the subscription and voids its order', async () => {
  const plan = await plans.open({ card: 'tok_declined_later' })
  await firstEnd(plan)
  expect(await plan.told()).toEqual([...cycled, ...pastDue])
  const { first_failed_at } = await triesOf(plan)
  expect(await plan.seen()).toMatchObject({ status: 'past_due', past_due_at: first_failed_at.toISOString() })
  expect(await plan.accounts()).toEqual({ processor: 2900, receivable: 2900, revenue: -5800 })
  const [, order] = await plan.orders()
  for (const [tried, days] of [2, 7, 14, 21].entries()) {
    const due = after(first_failed_at, days * day)
    expect(await triesOf(plan)).toMatchObject({ status: 'pending', first_failed_at, next_payment_attempt_at: due, due_at: due })
    await plans.until(after(due, -1000))
    expect(await plan.attempts(order!.id)).toHaveLength(tried + 1)
    await plans.until(after(due, 1000))
    expect(await plan.attempts(order!.id)).toHaveLength(tried + 2)
    if (days < 21) expect((await plan.seen()).status).toBe('past_due')
  }
  expect((await plan.attempts(order!.id)).map(({ status, trigger }) => `${status} ${trigger}`)).toEqual([
    'failed subscription_cycle',
    ...Array.from({ length: 4 }, () => 'failed retry_dunning'),
  ])
  expect(await plan.seen()).toMatchObject({ status: 'canceled', cancel_at_period_end: false, ended_at: expect.any(String) as string })
  expect((await plan.orders())[1]).toMatchObject({ status: 'void', next_payment_attempt_at: null, invoice_number: expect.stringMatching(/-0002$/) as string })
  expect(await plan.told()).toEqual(['subscription.updated', 'subscription.canceled', 'subscription.revoked', 'order.updated'])
  expect(await plan.accounts()).toEqual({ processor: 2900, revenue: -2900 })
  expect(await plan.charged()).toEqual([2900])
  expect(await owner(`select 1 from mails where kind = 'mail.payment_failed' and reference = $1`, [order!.id])).toHaveLength(5)
  expect(await plans.nextDue()).toBeNull()
})

test('retries a hard decline only once, after 21 days', async () => {
  const plan = await plans.open({ card: 'tok_expired_later' })
  await firstEnd(plan)
  const { first_failed_at, due_at } = await triesOf(plan)
  expect(due_at).toEqual(after(first_failed_at, 21 * day))
  await plans.until(after(first_failed_at, 22 * day))
  expect(await plan.attempts((await plan.orders())[1]!.id)).toHaveLength(2)
  expect((await plan.seen()).status).toBe('canceled')
  expect((await plan.orders()).map(({ status }) => status)).toEqual(['paid', 'void'])
})

test('reactivates the subscription when a dunning retry succeeds', async () => {
  const plan = await plans.open({ card: 'tok_recovers_later' })
  await firstEnd(plan)
  const { first_failed_at } = await triesOf(plan)
  await plan.told()
  await plans.until(after(first_failed_at, 7 * day + 1000))
  expect(await plan.seen()).toMatchObject({ status: 'active', past_due_at: null })
  expect((await plan.orders())[1]).toMatchObject({ status: 'paid', next_payment_attempt_at: null, invoice_number: expect.stringMatching(/2$/) as string })
  expect(await plan.told()).toEqual(['order.updated', 'order.paid', 'subscription.updated', 'subscription.active'])
  expect((await plan.attempts((await plan.orders())[1]!.id)).map(({ status }) => status)).toEqual(['failed', 'failed', 'succeeded'])
  expect(await plan.accounts()).toEqual({ processor: 5800, revenue: -5800 })
})

test('treats a missing payment method as a failed payment and retries on the same schedule', async () => {
  const plan = await plans.open()
  await owner(`update customers set default_payment_method_id = null where id = $1`, [plan.customer.id])
  await firstEnd(plan)
  expect(await plan.told()).toEqual([...cycled, ...pastDue])
  const { first_failed_at, due_at } = await triesOf(plan)
  expect(due_at).toEqual(after(first_failed_at, 2 * day))
  const order = (await plan.orders())[1]!
  await plans.until(after(first_failed_at, 8 * day))
  expect(await plan.attempts(order.id)).toEqual([])
  expect((await triesOf(plan)).due_at).toEqual(after(first_failed_at, 14 * day))
  // A new payment method is charged at the next retry.
  await owner(`update customers set default_payment_method_id = (select id from payment_methods where customer_id = $1) where id = $1`, [plan.customer.id])
  await plans.until(after(first_failed_at, 15 * day))
  expect((await plan.attempts(order.id)).map(({ status }) => status)).toEqual(['succeeded'])
  expect((await plan.seen()).status).toBe('active')
  const without = await plans.open()
  await owner(`update customers set default_payment_method_id = null where id = $1`, [without.customer.id])
  await firstEnd(without)
  await plans.until(after(world.clock.business(), 22 * day))
  expect((await without.seen()).status).toBe('canceled')
  expect(await without.accounts()).toEqual({ processor: 2900, revenue: -2900 })
})

test('reactivates the subscription when the customer pays in the portal, and charges that card from then on', async () => {
  const plan = await plans.open({ card: 'tok_declined_later' })
  await firstEnd(plan)
  await plan.told()
  const order = (await plan.orders())[1]!
  const portal = await plan.portal()
  const declined = await portal.call(confirmPortalPayment, { params: { id: order.id }, body: { confirmation_token_id: 'tok_insufficient_funds' } })
  expect(declined.status).toBe('failed')
  // The dunning schedule did not change.
  const { first_failed_at, due_at } = await triesOf(plan)
  expect(due_at).toEqual(after(first_failed_at, 2 * day))
  expect(await plan.told()).toEqual([])
  const done = await portal.call(confirmPortalPayment, { params: { id: order.id }, body: { confirmation_token_id: 'tok_mastercard' } })
  expect(done.status).toBe('succeeded')
  await plans.until(world.clock.business())
  expect(await plan.told()).toEqual(['order.updated', 'order.paid', 'subscription.updated', 'subscription.active'])
  expect((await plan.seen()).status).toBe('active')
  await firstEnd(plan)
  const renewal = (await plan.orders())[2]!
  expect(renewal.status).toBe('paid')
  expect((await plan.attempts(renewal.id)).map((attempt) => ('method_metadata' in attempt ? attempt.method_metadata.last4 : null))).toEqual(['0002'])
  expect(await plan.charged()).toEqual([2900, 2900, 2900])
})

test('keeps using the default payment method if the customer pays with it in the portal', async () => {
  const plan = await plans.open({ card: 'tok_declined_later' })
  await firstEnd(plan)
  const [method] = await owner<{ id: string }>(`select id from payment_methods where customer_id = $1`, [plan.customer.id])
  const paid = await (await plan.portal()).call(confirmPortalPayment, { params: { id: (await plan.orders())[1]!.id }, body: { payment_method_id: method!.id } })
  expect(paid.status).toBe('succeeded')
  expect(await plan.row()).toMatchObject({ status: 'active', payment_method_id: null })
})

test('charges a failed order at once with a new default payment method', async () => {
  const plan = await plans.open({ card: 'tok_declined_later' })
  await firstEnd(plan)
  const other = await plan.buy('tok_mastercard')
  await (await plan.portal()).call(updatePortalCustomer, { body: { default_payment_method_id: (await plan.row(other)).payment_method_id } })
  await deployment.work()
  expect((await plan.seen()).status).toBe('active')
  expect((await plan.attempts((await plan.orders())[1]!.id)).map(({ status, trigger }) => `${status} ${trigger}`)).toEqual([
    'failed subscription_cycle',
    'succeeded retry_payment_method_update',
  ])
})

test('renews a past-due subscription, and reactivates it only when all its open orders are paid', async () => {
  const plan = await plans.open({ card: 'tok_declined_later', plan: { recurring_interval: 'week' } })
  await firstEnd(plan)
  await firstEnd(plan)
  const [, first, second] = await plan.orders()
  expect([first!.status, second!.status, (await plan.seen()).status]).toEqual(['pending', 'pending', 'past_due'])
  const { past_due_at } = await plan.row()
  expect(past_due_at).toEqual((await triesOf(plan)).first_failed_at)
  await plan.told()
  const portal = await plan.portal()
  const pay = (id: string) => portal.call(confirmPortalPayment, { params: { id }, body: { confirmation_token_id: 'tok_visa:other' } })
  expect((await pay(first!.id)).status).toBe('succeeded')
  expect(await plan.seen()).toMatchObject({ status: 'past_due', past_due_at: past_due_at!.toISOString() })
  expect(await plan.told()).toEqual(['order.updated', 'order.paid'])
  expect((await pay(second!.id)).status).toBe('succeeded')
  expect(await plan.seen()).toMatchObject({ status: 'active', past_due_at: null })
  expect(await plan.told()).toEqual(['order.updated', 'order.paid', 'subscription.updated', 'subscription.active'])
})

test('voids all open orders when the dunning period of the first one ends, and reverses their ledger postings', async () => {
  const plan = await plans.open({ card: 'tok_declined_later', plan: { recurring_interval: 'week' } })
  const before = await plan.accounts()
  await firstEnd(plan)
  const { first_failed_at } = await triesOf(plan)
  await plans.until(after(first_failed_at, 22 * day))
  const orders = await plan.orders()
  expect(orders.length).toBeGreaterThan(3)
  expect(orders.slice(1).every(({ status }) => status === 'void')).toBe(true)
  expect((await plan.seen()).status).toBe('canceled')
  expect(await plan.accounts()).toEqual(before)
  expect(await plans.nextDue()).toBeNull()
})

test('keeps a paused subscription paused until the dunning period of its open order ends', async () => {
  const plan = await plans.open({ card: 'tok_declined_later', plan: { recurring_interval: 'week' } })
  await firstEnd(plan)
  await owner(`update subscriptions set pause_at_period_end = true where id = $1`, [plan.id])
  await firstEnd(plan)
  expect((await plan.seen()).status).toBe('paused')
  const { first_failed_at } = await triesOf(plan)
  await plans.until(after(first_failed_at, 15 * day))
  expect((await plan.seen()).status).toBe('paused')
  expect(await plan.orders()).toHaveLength(2)
  await plans.until(after(first_failed_at, 22 * day))
  expect((await plan.seen()).status).toBe('canceled')
  expect(await plan.accounts()).toEqual({ processor: 2900, revenue: -2900 })
})

/** Dependencies whose confirm call throws an error before or after the processor has charged. */
const silenced = (side: 'before' | 'after', error: Error = new ProcessorSilent('confirmIntent')) => {
  const { gateways } = deployment.deps
  const quiet = (processor: Processor): Processor => ({
    ...processor,
    readEvent: (...args) => processor.readEvent(...args),
    createIntent: (...args) => processor.createIntent(...args),
    readIntent: async () => {
      throw new ProcessorSilent('readIntent')
    },
    confirmIntent: async (...args) => {
      if (side === 'after') await processor.confirmIntent(...args)
      throw error
    },
  })
  return {
    ...deployment.deps,
    gateways: {
      ...gateways,
      payments: { ...gateways.payments, of: (account: Parameters<typeof gateways.payments.of>[0]) => quiet(gateways.payments.of(account)) },
    },
  }
}

test.each(['before', 'after'] as const)('retries a charge if the processor stops answering %s it charges, and settles the order once', async (side) => {
  const plan = await plans.open()
  plans.moveTo(await plan.end())
  const silent = silenced(side)
  const [lease] = await claim(silent.transact, 'subscriptions', { holder: 'test', limit: 1, lease_ms: sweeps['billing.renew'].lease_ms })
  await renew(silent, lease!)
  const order = (await plan.orders())[1]!
  expect(order.status).toBe('pending')
  expect((await plan.attempts(order.id)).map(({ status }) => status)).toEqual(['pending'])
  expect(await plan.charged()).toHaveLength(side === 'after' ? 2 : 1)
  expect(await plan.told()).toEqual(cycled)
  await plans.until(after(world.clock.business(), 120_000))
  expect((await plan.attempts(order.id)).map(({ status }) => status)).toEqual(['succeeded'])
  expect((await plan.orders()).map(({ status }) => status)).toEqual(['paid', 'paid'])
  expect(await plan.told()).toEqual(['order.updated', 'order.paid'])
  expect(await plan.charged()).toEqual([2900, 2900])
  const { ours, theirs } = await compareBooks(world, plan.organization.id)
  expect(ours).toEqual(theirs)
})

test('releases the lease on the order if the payment fails after its worker crashed', async () => {
  const plan = await plans.open({ card: 'tok_declined_later' })
  plans.moveTo(await plan.end())
  const [lease] = await claim(deployment.deps.transact, 'subscriptions', { holder: 'test', limit: 1, lease_ms: sweeps['billing.renew'].lease_ms })
  await expect(renew(silenced('after', new Error('killed')), lease!)).rejects.toThrow('killed')
  const leased = () =>
    owner<{ due_at: Date; lease_token: string | null }>('select due_at, lease_token from orders where subscription_id = $1 order by created_at desc limit 1', [
      plan.id,
    ])
  expect(await leased()).toMatchObject([{ lease_token: expect.any(String) }])
  world.clock.advance(sweeps['billing.collect'].lease_ms + 1)
  const [payment] = await claim(deployment.deps.transact, 'payments', { holder: 'follower', limit: 1, lease_ms: 60_000 })
  await followDue(deployment.deps, payment!)
  await orderPaymentSettled(deployment.deps, { organization_id: plan.organization.id, payment_id: payment!.id })
  expect(await leased()).toMatchObject([{ due_at: expect.any(Date), lease_token: null }])
})

test('does not charge again when the payment succeeded but the order was not updated yet', async () => {
  const plan = await plans.open()
  plans.moveTo(await plan.end())
  const [lease] = await claim(deployment.deps.transact, 'subscriptions', { holder: 'test', limit: 1, lease_ms: sweeps['billing.renew'].lease_ms })
  await renew(silenced('after'), lease!)
  const [, order] = await plan.orders()
  expect(order).toMatchObject({ status: 'pending' })
  // The payment sweep settles the payment, but the job that updates the order does not run. Then the order is due
  // again.
  world.clock.advance(120_000)
  const [payment] = await claim(deployment.deps.transact, 'payments', { holder: 'follower', limit: 1, lease_ms: 60_000 })
  await followDue(deployment.deps, payment!)
  expect((await plan.attempts(order!.id)).map(({ status }) => status)).toEqual(['succeeded'])
  await owner('update orders set due_at = $2 where id = $1', [order!.id, world.clock.wall()])
  await deployment.sweep()
  expect((await plan.orders())[1]).toMatchObject({ status: 'paid' })
  expect(await plan.charged()).toEqual([2900, 2900])
  await plans.pass()
  expect(await plan.charged()).toEqual([2900, 2900])
})

test('does not charge an unconfirmed payment after the subscription has ended', async () => {
  const plan = await plans.open()
  plans.moveTo(await plan.end())
  const [lease] = await claim(deployment.deps.transact, 'subscriptions', { holder: 'test', limit: 1, lease_ms: sweeps['billing.renew'].lease_ms })
  await renew(silenced('before'), lease!)
  const order = (await plan.orders())[1]!
  expect((await plan.attempts(order.id)).map(({ status }) => status)).toEqual(['pending'])
  world.clock.advance(1000)
  await plan.change({ revoke: true })
  await plans.until(after(world.clock.business(), 30 * 60_000))
  expect((await plan.orders())[1]).toMatchObject({ status: 'void' })
  expect(await plan.charged()).toEqual([2900])
  expect((await plan.attempts(order.id)).map(({ status }) => status)).toEqual(['failed'])
  expect(await plan.accounts()).toEqual({ processor: 2900, revenue: -2900 })
})
