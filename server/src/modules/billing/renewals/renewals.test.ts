import { inWallTime } from '../../../platform/clocks.sql.ts'
import { deleteCustomer, updatePortalCustomer, updateSubscription, updateTaxSettings } from '@bursar/contract'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { compareBooks, day, openPlans, type Plan } from '../../../../test/harness/plans.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { sweeps } from '../../../platform/jobs/catalogue.ts'
import { claim, LeaseLost } from '../../../platform/jobs/leases.sql.ts'
import { moveBalance } from '../ledger/ledger.ts'
import { renew } from './renewals.ts'

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
/** Returns the next occurrence of the given date, at noon UTC. */
const next = (month: number, date: number): Date => {
  const now = world.clock.business()
  const moment = new Date(Date.UTC(now.getUTCFullYear(), month - 1, date, 12))
  return moment > now ? moment : new Date(Date.UTC(now.getUTCFullYear() + 1, month - 1, date, 12))
}
const date = (moment: Date | string | null) => (moment === null ? null : new Date(moment).toISOString().slice(5, 10))
const give = ({ organization, customer }: Plan, amount: number) =>
  world.transact((tx) =>
    moveBalance(inWallTime(tx), { organization_id: organization.id, id: newId(tx.clock.wall()), customer_id: customer.id, currency: 'usd', amount }),
  )
/** Advances past the end of the period and runs everything that is due then. */
const renewed = async (plan: Plan) => {
  await plans.until(await plan.end())
  await plans.until(world.clock.business())
}
const periodsOf = (id: string) =>
  owner<{ period_start: Date; period_end: Date; billing_reason: string; status: string }>(
    'select period_start, period_end, billing_reason, status from orders where subscription_id = $1 order by period_start',
    [id],
  )

test('renews with one order, charges the saved card, and emits the events in order', async () => {
  const plan = await plans.open()
  const before = await plan.seen()
  await renewed(plan)
  const after = await plan.seen()
  expect([after.status, after.current_period_start]).toEqual(['active', before.current_period_end])
  const [first, second, ...others] = await plan.orders()
  expect(others).toEqual([])
  expect(second).toMatchObject({
    status: 'paid',
    billing_reason: 'subscription_cycle',
    subtotal_amount: 2900,
    discount_amount: 0,
    tax_amount: 0,
    total_amount: 2900,
    due_amount: 2900,
    product_id: plan.product.id,
    customer_id: plan.customer.id,
  })
  expect(second!.items.map(({ label, amount, proration }) => [label, amount, proration])).toEqual([['Plan', 2900, false]])
  expect(second!.invoice_number).toBe(first!.invoice_number!.replace(/1$/, '2'))
  expect((await periodsOf(plan.id)).at(-1)).toMatchObject({
    period_start: new Date(after.current_period_start),
    period_end: new Date(after.current_period_end),
  })
  expect(await plan.told()).toEqual(['subscription.updated', 'subscription.cycled', 'order.created', 'order.updated', 'order.paid'])
  expect((await plan.attempts(second!.id)).map(({ status, amount, trigger }) => [status, amount, trigger])).toEqual([['succeeded', 2900, 'subscription_cycle']])
  expect(await plan.charged()).toEqual([2900, 2900])
  expect(await plan.accounts()).toEqual({ processor: 5800, revenue: -5800 })
  await plans.pass()
  expect(await plan.orders()).toHaveLength(2)
  expect(await plan.told()).toEqual([])
})

test('creates one order when five workers renew the same period', async () => {
  const plan = await plans.open()
  plans.moveTo(await plan.end())
  const [lease] = await claim(deployment.deps.transact, 'subscriptions', { holder: 'test', limit: 1, lease_ms: sweeps['billing.renew'].lease_ms })
  await Promise.all(Array.from({ length: 5 }, () => renew(deployment.deps, lease!).catch((error: unknown) => expect(error).toBeInstanceOf(LeaseLost))))
  await plans.until(world.clock.business())
  expect((await plan.orders()).map(({ status }) => status)).toEqual(['paid', 'paid'])
  expect(await plan.charged()).toEqual([2900, 2900])
})

test('charges the customer’s default card unless the subscription has its own card', async () => {
  const plan = await plans.open()
  const own = await plan.buy('tok_mastercard:own')
  const [mastercard] = await owner<{ id: string }>(`select payment_method_id as id from subscriptions where id = $1`, [own])
  expect(mastercard!.id).not.toBeNull()
  expect((await plan.row()).payment_method_id).toBeNull()
  const last4 = async (subscription_id: string) => {
    const order = (await plan.orders(subscription_id)).at(-1)!
    return (await plan.attempts(order.id)).map((attempt) => ('method_metadata' in attempt ? attempt.method_metadata.last4 : null))
  }
  await renewed(plan)
  await plans.until((await plan.row(own)).current_period_end)
  await plans.pass()
  expect([await last4(plan.id), await last4(own)]).toEqual([['0001'], ['0002']])
  // After the default changes, only the subscription without its own card uses the new one.
  const third = await plan.buy('tok_wallet')
  const wallet = (await plan.row(third)).payment_method_id
  await (await plan.portal()).call(updatePortalCustomer, { body: { default_payment_method_id: wallet } })
  await renewed(plan)
  await plans.until((await plan.row(own)).current_period_end)
  await plans.pass()
  expect([await last4(plan.id), await last4(own)]).toEqual([['0003'], ['0002']])
})

test('renews on the anchor day, or on the last day of a shorter month without losing the anchor', async () => {
  plans.moveTo(next(1, 31))
  const plan = await plans.open()
  const days = [date(await plan.end())]
  for (let months = 0; months < 3; months++) {
    await renewed(plan)
    days.push(date(await plan.end()))
  }
  const february = days[0] === '02-29' ? '02-29' : '02-28'
  expect(days).toEqual([february, '03-31', '04-30', '05-31'])
  expect((await periodsOf(plan.id)).map(({ period_start }) => date(period_start))).toEqual(['01-31', february, '03-31', '04-30'])
})

test('starts a paid period when the trial ends, and creates its first order then', async () => {
  const plan = await plans.open({ plan: { trial_interval: 'day', trial_interval_count: 5 } })
  const before = await plan.seen()
  expect(before.status).toBe('trialing')
  expect(await plan.charged()).toEqual([])
  await plans.until(new Date(new Date(before.trial_end!).getTime() - 1000))
  expect((await plan.seen()).status).toBe('trialing')
  await renewed(plan)
  const after = await plan.seen()
  expect([after.status, after.current_period_start]).toEqual(['active', before.trial_end])
  expect((await plan.orders()).map(({ status, billing_reason, total_amount }) => [status, billing_reason, total_amount])).toEqual([
    ['paid', 'subscription_create', 0],
    ['paid', 'subscription_cycle', 2900],
  ])
  expect(await plan.told()).toEqual(['subscription.updated', 'subscription.cycled', 'order.created', 'order.updated', 'order.paid'])
  expect(await plan.charged()).toEqual([2900])
})

test.each([
  ['once', { duration: 'once' }, [1000, 0, 0, 0]],
  ['for two months', { duration: 'repeating', duration_in_months: 2 }, [1000, 1000, 0, 0]],
  ['forever', { duration: 'forever' }, [1000, 1000, 1000, 1000]],
])('applies a discount %s for its duration', async (_, duration, taken) => {
  const plan = await plans.open({ discount: { type: 'fixed', amounts: { usd: 1000 }, ...duration } })
  for (let months = 0; months < 3; months++) await renewed(plan)
  expect((await plan.orders()).map(({ discount_amount }) => discount_amount)).toEqual(taken)
  expect(await plan.charged()).toEqual(taken.map((off) => 2900 - off))
  expect((await plan.row()).discount_id === null).toBe(taken.at(-1) === 0)
})

test('starts the duration of a discount with the first billed period after a trial', async () => {
  const plan = await plans.open({
    plan: { trial_interval: 'month', trial_interval_count: 1 },
    discount: { type: 'fixed', amounts: { usd: 1000 }, duration: 'once' },
  })
  for (let months = 0; months < 2; months++) await renewed(plan)
  expect((await plan.orders()).map(({ discount_amount }) => discount_amount)).toEqual([0, 1000, 0])
})

test('taxes a renewal by the customer’s address on the day of the renewal', async () => {
  const plan = await plans.open()
  await plan.api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: false }] } })
  await renewed(plan)
  const [, order] = await plan.orders()
  const inclusive = order!.total_amount === 2900
  expect(order).toMatchObject(inclusive ? { net_amount: 2437, tax_amount: 463, total_amount: 2900 } : { net_amount: 2900, tax_amount: 551, total_amount: 3451 })
  expect(await plan.charged()).toEqual([2900, order!.total_amount])
})

test('delays a renewal until the customer’s address determines the tax', async () => {
  const plan = await plans.open()
  await plan.api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'US', state: 'US-CA', rate: '8', reverse_charge: false }] } })
  const live = (address: object) => owner('update customers set billing_address = $2 where id = $1', [plan.customer.id, JSON.stringify(address)])
  const blank = { line1: null, line2: null, postal_code: null, city: null }
  await live({ ...blank, country: 'US', state: null })
  const end = await plan.end()
  await plans.until(new Date(end.getTime() + 30 * 60_000))
  expect(await plan.orders()).toHaveLength(1)
  expect(await plan.seen()).toMatchObject({ current_period_end: end.toISOString(), status: 'active' })
  // A change that is charged at once gets a 422 error instead.
  const yearly = await plan.sell(58_000, { recurring_interval: 'year' })
  const told = await plan.api.send(updateSubscription, { params: plan.params, body: { product_id: yearly.id, proration_behavior: 'prorate' } })
  expect([told.status, JSON.stringify(told.body)]).toEqual([422, expect.stringContaining('The tax cannot be computed') as string])
  await live({ ...blank, country: 'US', state: 'US-CA' })
  await plans.until(new Date(end.getTime() + 90 * 60_000))
  const [, order] = await plan.orders()
  expect(order).toMatchObject({ status: 'paid', tax_amount: expect.any(Number) as number })
  expect(order!.tax_amount).toBeGreaterThan(0)
  expect(order).toMatchObject({ billing_reason: 'subscription_cycle' })
})

test('uses credit before it charges, and collects debt with the next order', async () => {
  const plan = await plans.open()
  await give(plan, 1000)
  await renewed(plan)
  expect((await plan.orders()).at(-1)).toMatchObject({ status: 'paid', total_amount: 2900, applied_balance_amount: -1000, due_amount: 1900 })
  await give(plan, 3000)
  await renewed(plan)
  // If credit covers the whole order, the order is paid at once without a charge.
  expect((await plan.orders()).at(-1)).toMatchObject({
    status: 'paid',
    applied_balance_amount: -2900,
    due_amount: 0,
    invoice_number: expect.any(String) as string,
  })
  await give(plan, -600)
  await renewed(plan)
  expect((await plan.orders()).at(-1)).toMatchObject({ status: 'paid', applied_balance_amount: 500, due_amount: 3400 })
  expect(await plan.charged()).toEqual([2900, 1900, 3400])
  expect(await plan.accounts()).toMatchObject({ processor: 8200 })
})

test('carries an amount below the minimum charge to the next order', async () => {
  const plan = await plans.open()
  await give(plan, 2870)
  await renewed(plan)
  expect((await plan.orders()).at(-1)).toMatchObject({ status: 'paid', due_amount: 30, applied_balance_amount: -2870 })
  await renewed(plan)
  expect((await plan.orders()).at(-1)).toMatchObject({ status: 'paid', applied_balance_amount: 30, due_amount: 2930 })
  expect(await plan.charged()).toEqual([2900, 2930])
})

test('renews a free period without an order', async () => {
  const plan = await plans.open({ plan: { prices: [{ amount_type: 'fixed', price_amount: 0, price_currency: 'usd' }] } })
  const before = await plan.orders()
  const end = await plan.end()
  await renewed(plan)
  expect(await plan.orders()).toHaveLength(before.length)
  expect(new Date((await plan.seen()).current_period_start)).toEqual(end)
  expect(await plan.told()).toEqual(['subscription.updated', 'subscription.cycled'])
})

test('creates one order for each of three missed periods after an outage', async () => {
  const plan = await plans.open()
  const end = await plan.end()
  plans.moveTo(new Date(end.getTime() + 70 * day))
  await plans.until(world.clock.business())
  const periods = await periodsOf(plan.id)
  expect(periods).toHaveLength(4)
  for (const [at, { period_start }] of periods.slice(1).entries()) expect(period_start).toEqual(periods[at]!.period_end)
  expect((await plan.orders()).map(({ status }) => status)).toEqual(['paid', 'paid', 'paid', 'paid'])
  expect(await plan.charged()).toEqual([2900, 2900, 2900, 2900])
  expect((await plan.seen()).current_period_end > world.clock.business().toISOString()).toBe(true)
  expect((await plan.told()).filter((type) => type === 'subscription.cycled')).toHaveLength(3)
})

test('ends a canceled subscription at the end of its period without an order, and emits its events once', async () => {
  const plan = await plans.open()
  await plan.change({ cancel_at_period_end: true })
  expect(await plan.told()).toEqual(['subscription.updated', 'subscription.canceled'])
  const end = await plan.end()
  await renewed(plan)
  expect(await plan.seen()).toMatchObject({ status: 'canceled', ended_at: end.toISOString(), ends_at: end.toISOString() })
  expect(await plan.told()).toEqual(['subscription.updated', 'subscription.revoked'])
  await plans.until(new Date(end.getTime() + 90 * day))
  expect(await plan.orders()).toHaveLength(1)
  expect(await plan.charged()).toEqual([2900])
})

test('bills open proration when a canceled subscription ends', async () => {
  const plan = await plans.open()
  const better = await plan.sell(5800)
  await plans.until(new Date((await plan.end()).getTime() - 10 * day))
  await plan.change({ product_id: better.id, proration_behavior: 'prorate' })
  await plan.change({ cancel_at_period_end: true })
  await renewed(plan)
  const orders = await plan.orders()
  expect(orders.map(({ status, billing_reason }) => [status, billing_reason])).toEqual([
    ['paid', 'subscription_create'],
    ['paid', 'subscription_cycle'],
  ])
  expect(orders[1]!.items.every(({ proration }) => proration)).toBe(true)
  expect(orders[1]!.total_amount).toBeGreaterThan(0)
  expect((await plan.seen()).status).toBe('canceled')
  expect(await plan.charged()).toEqual([2900, orders[1]!.total_amount])
})

test('bills open proration when a pause begins, because the pause may never end', async () => {
  const plan = await plans.open()
  const better = await plan.sell(5800)
  await plans.until(new Date((await plan.end()).getTime() - 10 * day))
  await plan.change({ product_id: better.id, proration_behavior: 'prorate' })
  await plan.change({ pause_at_period_end: true })
  await renewed(plan)
  const orders = await plan.orders()
  expect(orders).toHaveLength(2)
  expect(orders[1]).toMatchObject({ status: 'paid' })
  expect(orders[1]!.items.every(({ proration }) => proration)).toBe(true)
  expect((await plan.seen()).status).toBe('paused')
  expect(await plan.charged()).toEqual([2900, orders[1]!.total_amount])
})

test('voids the final order of an ended subscription if its payment fails, and does not make the subscription past due', async () => {
  const plan = await plans.open({ card: 'tok_declined_later' })
  const better = await plan.sell(5800)
  await plans.until(new Date((await plan.end()).getTime() - 10 * day))
  await plan.change({ product_id: better.id, proration_behavior: 'prorate' })
  await plan.change({ cancel_at_period_end: true })
  await renewed(plan)
  expect((await plan.orders()).map(({ status }) => status)).toEqual(['paid', 'void'])
  expect(await plan.seen()).toMatchObject({ status: 'canceled', past_due_at: null })
  expect(await plan.accounts()).toEqual({ processor: 2900, revenue: -2900 })
  expect(await plans.nextDue()).toBeNull()
})

test('pauses at the end of the period without a charge, and resumes at resumes_at', async () => {
  const plan = await plans.open()
  const end = await plan.end()
  const resumes_at = new Date(end.getTime() + 45 * day)
  await plan.change({ pause_at_period_end: true, resumes_at })
  await plan.told()
  await renewed(plan)
  expect(await plan.seen()).toMatchObject({ status: 'paused', pause_at_period_end: false, resumes_at: resumes_at.toISOString() })
  expect(await plan.told()).toEqual(['subscription.updated', 'subscription.paused'])
  await plans.until(new Date(resumes_at.getTime() - 1000))
  expect(await plan.orders()).toHaveLength(1)
  await plans.until(new Date(resumes_at.getTime() + 1000))
  await plans.pass()
  const after = await plan.seen()
  expect(after).toMatchObject({ status: 'active', resumes_at: null })
  // The new period begins at the moment of resumption and sets the anchor day.
  expect(date(after.current_period_start)).toBe(date(resumes_at))
  expect((await plan.row()).anchor_day).toBe(resumes_at.getUTCDate())
  expect(await plan.told()).toEqual([
    'subscription.updated',
    'subscription.active',
    'subscription.resumed',
    'subscription.cycled',
    'order.created',
    'order.updated',
    'order.paid',
  ])
  expect(await plan.charged()).toEqual([2900, 2900])
})

test('keeps a subscription paused without resumes_at until a request resumes it', async () => {
  const plan = await plans.open()
  await plan.change({ pause_at_period_end: true })
  await renewed(plan)
  await plans.until(new Date(world.clock.business().getTime() + 200 * day))
  expect((await plan.seen()).status).toBe('paused')
  await plan.change({ resume: true })
  await plans.until(world.clock.business())
  expect((await plan.orders()).map(({ status }) => status)).toEqual(['paid', 'paid'])
  expect(await plan.charged()).toEqual([2900, 2900])
})

test('ends the subscriptions of a deleted customer even if the renewal sweep runs before the job', async () => {
  const plan = await plans.open()
  await plan.api.send(deleteCustomer, { params: { id: plan.customer.id } })
  plans.moveTo((await plan.row()).current_period_end)
  await deployment.sweep()
  expect((await plan.row()).status).toBe('canceled')
  await deployment.work()
  expect((await plan.told()).filter((type) => type.startsWith('subscription'))).toEqual([
    'subscription.updated',
    'subscription.canceled',
    'subscription.revoked',
  ])
  expect(await plan.charged()).toEqual([2900])
})

test('renews and charges nothing while the seller may not renew subscriptions, and catches up afterwards', async () => {
  const owing = await plans.open({ card: 'tok_recovers_later' })
  await plans.until(new Date((await owing.end()).getTime() + day))
  expect((await owing.seen()).status).toBe('past_due')
  const plan = await plans.open({ plan: { recurring_interval: 'day' } })
  const status = (to: string) => owner('update organizations set status = $1 where id = any($2)', [to, [plan.organization.id, owing.organization.id]])
  const tried = async () => (await owing.attempts((await owing.orders())[1]!.id)).length
  await status('denied')
  plans.moveTo(new Date(world.clock.business().getTime() + 3 * day))
  await plans.pass()
  await plans.pass()
  expect([(await plan.orders()).length, await plan.charged(), await tried()]).toEqual([1, [2900], 1])
  await status('active')
  await plans.until(new Date(world.clock.business().getTime() + 2 * 3_600_000))
  expect([(await plan.orders()).length, await plan.charged(), await tried()]).toEqual([4, [2900, 2900, 2900, 2900], 2])
})

test('parks a subscription that would be billed too often: bills nothing and logs an error', async () => {
  const plan = await plans.open()
  await renewed(plan)
  const better = await plan.sell(5800)
  await plan.change({ product_id: better.id, proration_behavior: 'next_period' })
  // Simulates a wrong calendar: the period that was just billed ends after one day.
  await owner(
    `update subscriptions set current_period_end = current_period_start + interval '1 day', due_at = current_period_start + interval '1 day' where id = $1`,
    [plan.id],
  )
  await plan.told()
  await plans.until(new Date(world.clock.business().getTime() + 40 * day))
  const row = await plan.row()
  expect(row.parked_at).not.toBeNull()
  expect(row.due_at).toBeNull()
  expect(await plan.orders()).toHaveLength(2)
  expect(await plan.charged()).toEqual([2900, 2900])
  expect(await plan.told()).toEqual([])
  // The pending change is kept.
  expect(await plan.seen()).toMatchObject({ product_id: plan.product.id, pending_update: { product_id: better.id } })
  expect((await plan.seen()).prices.map(({ id }) => id)).toEqual(plan.product.prices.map(({ id }) => id))
  expect(world.lines.filter((line) => line.includes('subscription_parked') && line.includes(plan.id))).toHaveLength(1)
})

test('sends one reminder a week before a yearly renewal, and one before a trial ends', async () => {
  const plan = await plans.open({ plan: { recurring_interval: 'year' } })
  const end = await plan.end()
  const promised = () => owner<{ kind: string; moment: Date }>(`select kind, moment from mails where reference = $1`, [plan.id])
  await plans.until(new Date(end.getTime() - 7 * day - 1000))
  expect(await promised()).toEqual([])
  await plans.until(new Date(end.getTime() - 7 * day + 1000))
  await owner(`update subscriptions set reminded_for = null, due_at = $2 where id = $1`, [plan.id, world.clock.business()])
  await plans.pass()
  expect(await promised()).toEqual([{ kind: 'mail.renewal_reminder', moment: end }])
  expect(await plan.told()).toEqual([])
  expect((await plan.row()).due_at).toEqual(end)
  const trial = await plans.open({ plan: { trial_interval: 'day', trial_interval_count: 14 } })
  await plans.until(new Date((await trial.end()).getTime() - 2 * day))
  const [mail, ...others] = await owner<{ kind: string; moment: Date }>(`select kind, moment from mails where reference = $1`, [trial.id])
  expect([mail, others]).toEqual([{ kind: 'mail.trial_ending', moment: await trial.end() }, []])
})

test('a worker whose lease was taken over changes nothing, even if it was stopped between charge and settle', async () => {
  const plan = await plans.open()
  plans.moveTo(await plan.end())
  const taking = { limit: 1, lease_ms: sweeps['billing.renew'].lease_ms }
  const [slow] = await claim(deployment.deps.transact, 'subscriptions', { holder: 'slow', ...taking })
  world.clock.advance(taking.lease_ms + 1)
  const [quick] = await claim(deployment.deps.transact, 'subscriptions', { holder: 'quick', ...taking })
  await expect(renew(deployment.deps, slow!)).rejects.toThrow(LeaseLost)
  expect(await plan.orders()).toHaveLength(1)
  // The second worker stops after the charge. A third worker continues with the order.
  let charged = false
  const { transact, gateways } = deployment.deps
  const stopped = {
    ...deployment.deps,
    transact: (async (work) => {
      if (!charged) return transact(work)
      world.clock.advance(sweeps['billing.collect'].lease_ms + 1)
      await plans.pass()
      return transact(work)
    }) as typeof transact,
    gateways: {
      ...gateways,
      payments: {
        ...gateways.payments,
        of: (account: Parameters<typeof gateways.payments.of>[0]) => {
          const processor = gateways.payments.of(account)
          return new Proxy(processor, {
            get: (target, name: keyof typeof processor) =>
              name === 'confirmIntent'
                ? async (...args: Parameters<typeof processor.confirmIntent>) => {
                    const answer = await target.confirmIntent(...args)
                    charged = true
                    return answer
                  }
                : target[name],
          })
        },
      },
    },
  }
  await expect(renew(stopped, quick!)).rejects.toThrow(LeaseLost)
  expect((await plan.orders()).map(({ status }) => status)).toEqual(['paid', 'paid'])
  expect(await plan.told()).toEqual(['subscription.updated', 'subscription.cycled', 'order.created', 'order.updated', 'order.paid'])
  expect(await plan.charged()).toEqual([2900, 2900])
  const { ours, theirs } = await compareBooks(world, plan.organization.id)
  expect(ours).toEqual(theirs)
})
