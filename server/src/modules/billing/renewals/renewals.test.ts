import { deleteCustomer, updatePortalCustomer, updateSubscription, updateTaxSettings } from '@bursar/contract'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/doom.ts'
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
/** The next moment, from now on, that is a day of a year at noon. */
const next = (month: number, date: number): Date => {
  const now = world.clock.business()
  const moment = new Date(Date.UTC(now.getUTCFullYear(), month - 1, date, 12))
  return moment > now ? moment : new Date(Date.UTC(now.getUTCFullYear() + 1, month - 1, date, 12))
}
const date = (moment: Date | string | null) => (moment === null ? null : new Date(moment).toISOString().slice(5, 10))
const give = ({ organization, customer }: Plan, amount: number) =>
  world.transact((tx) => moveBalance(tx, { organization_id: organization.id, id: newId(tx.clock.wall()), customer_id: customer.id, currency: 'usd', amount }))
/** Passes the end of this period, and what is due there. */
const renewed = async (plan: Plan) => {
  await plans.until(await plan.end())
  await plans.until(world.clock.business())
}
const periodsOf = (id: string) =>
  owner<{ period_start: Date; period_end: Date; billing_reason: string; status: string }>(
    'select period_start, period_end, billing_reason, status from orders where subscription_id = $1 order by period_start',
    [id],
  )

test('a new period is one order, charged to the card that was left, and told in order', async () => {
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

test('the same due period, seen by many workers at once, is one order', async () => {
  const plan = await plans.open()
  plans.moveTo(await plan.end())
  const [lease] = await claim(deployment.means.transact, 'subscriptions', { holder: 'test', limit: 1, lease_ms: sweeps['billing.renew'].lease_ms })
  await Promise.all(Array.from({ length: 5 }, () => renew(deployment.means, lease!).catch((error: unknown) => expect(error).toBeInstanceOf(LeaseLost))))
  await plans.until(world.clock.business())
  expect((await plan.orders()).map(({ status }) => status)).toEqual(['paid', 'paid'])
  expect(await plan.charged()).toEqual([2900, 2900])
})

test('a subscription follows its customer’s default card, unless it has one of its own', async () => {
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
  // Another default: what follows it follows, what has its own keeps it.
  const third = await plan.buy('tok_wallet')
  const wallet = (await plan.row(third)).payment_method_id
  await (await plan.portal()).call(updatePortalCustomer, { body: { default_payment_method_id: wallet } })
  await renewed(plan)
  await plans.until((await plan.row(own)).current_period_end)
  await plans.pass()
  expect([await last4(plan.id), await last4(own)]).toEqual([['0003'], ['0002']])
})

test('a period ends on the day it was first bought, or on the last day of a shorter month, and the day comes back', async () => {
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

test('a trial becomes a paid period, with its first order on the day the trial ends', async () => {
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
])('a discount %s is taken off as long as it lasts', async (_, duration, taken) => {
  const plan = await plans.open({ discount: { type: 'fixed', amounts: { usd: 1000 }, ...duration } })
  for (let months = 0; months < 3; months++) await renewed(plan)
  expect((await plan.orders()).map(({ discount_amount }) => discount_amount)).toEqual(taken)
  expect(await plan.charged()).toEqual(taken.map((off) => 2900 - off))
  expect((await plan.row()).discount_id === null).toBe(taken.at(-1) === 0)
})

test('a discount bought with a trial begins to run with the first period that is billed', async () => {
  const plan = await plans.open({
    plan: { trial_interval: 'month', trial_interval_count: 1 },
    discount: { type: 'fixed', amounts: { usd: 1000 }, duration: 'once' },
  })
  for (let months = 0; months < 2; months++) await renewed(plan)
  expect((await plan.orders()).map(({ discount_amount }) => discount_amount)).toEqual([0, 1000, 0])
})

test('tax is what the customer’s place asks for on the day of the renewal', async () => {
  const plan = await plans.open()
  await plan.api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: false }] } })
  await renewed(plan)
  const [, order] = await plan.orders()
  const inclusive = order!.total_amount === 2900
  expect(order).toMatchObject(inclusive ? { net_amount: 2437, tax_amount: 463, total_amount: 2900 } : { net_amount: 2900, tax_amount: 551, total_amount: 3451 })
  expect(await plan.charged()).toEqual([2900, order!.total_amount])
})

test('whoever collects tax bills nothing while nobody can tell which: it waits until the address says', async () => {
  const plan = await plans.open()
  await plan.api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'US', state: 'US-CA', rate: '8', reverse_charge: false }] } })
  const live = (address: object) => owner('update customers set billing_address = $2 where id = $1', [plan.customer.id, JSON.stringify(address)])
  const blank = { line1: null, line2: null, postal_code: null, city: null }
  await live({ ...blank, country: 'US', state: null })
  const end = await plan.end()
  await plans.until(new Date(end.getTime() + 30 * 60_000))
  expect(await plan.orders()).toHaveLength(1)
  expect(await plan.seen()).toMatchObject({ current_period_end: end.toISOString(), status: 'active' })
  // Whoever asks for what is charged at once is told.
  const yearly = await plan.sell(58_000, { recurring_interval: 'year' })
  const told = await plan.api.send(updateSubscription, { params: plan.params, body: { product_id: yearly.id, proration_behavior: 'prorate' } })
  expect([told.status, JSON.stringify(told.body)]).toEqual([422, expect.stringContaining('which tax is due') as string])
  await live({ ...blank, country: 'US', state: 'US-CA' })
  await plans.until(new Date(end.getTime() + 90 * 60_000))
  const [, order] = await plan.orders()
  expect(order).toMatchObject({ status: 'paid', tax_amount: expect.any(Number) as number })
  expect(order!.tax_amount).toBeGreaterThan(0)
  expect(order).toMatchObject({ billing_reason: 'subscription_cycle' })
})

test('credit is used up before anything is charged, and debt is collected', async () => {
  const plan = await plans.open()
  await give(plan, 1000)
  await renewed(plan)
  expect((await plan.orders()).at(-1)).toMatchObject({ status: 'paid', total_amount: 2900, applied_balance_amount: -1000, due_amount: 1900 })
  await give(plan, 3000)
  await renewed(plan)
  // All of it by credit: nobody is charged, and it is paid at once.
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

test('what is too little to charge is carried to the next order', async () => {
  const plan = await plans.open()
  await give(plan, 2870)
  await renewed(plan)
  expect((await plan.orders()).at(-1)).toMatchObject({ status: 'paid', due_amount: 30, applied_balance_amount: -2870 })
  await renewed(plan)
  expect((await plan.orders()).at(-1)).toMatchObject({ status: 'paid', applied_balance_amount: 30, due_amount: 2930 })
  expect(await plan.charged()).toEqual([2900, 2930])
})

test('a period that costs nothing has no order, and goes on', async () => {
  const plan = await plans.open({ plan: { prices: [{ amount_type: 'fixed', price_amount: 0, price_currency: 'usd' }] } })
  const before = await plan.orders()
  const end = await plan.end()
  await renewed(plan)
  expect(await plan.orders()).toHaveLength(before.length)
  expect(new Date((await plan.seen()).current_period_start)).toEqual(end)
  expect(await plan.told()).toEqual(['subscription.updated', 'subscription.cycled'])
})

test('after an outage of three periods there are three orders, each for its own period, once', async () => {
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

test('what is canceled ends with its period, unbilled, and says so once', async () => {
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

test('what a change has cost and nobody has billed is billed when it ends', async () => {
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

test('and when a pause begins, for nobody knows whether it ends', async () => {
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

test('and when nobody pays that, it is called off: what has ended is not past due', async () => {
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

test('a pause begins with the next period, costs nothing, and ends when it was said', async () => {
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
  // A fresh period, counted from the day it goes on.
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

test('a pause without an end lasts until somebody ends it', async () => {
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

test('the subscriptions of a customer that is deleted end, and are not renewed, whoever comes first', async () => {
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

test('a seller that may not renew renews nothing and collects nothing; when it may again, everything is made up for', async () => {
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

test('what would be billed more often than its calendar allows is parked: nothing is billed, and somebody is told', async () => {
  const plan = await plans.open()
  await renewed(plan)
  const better = await plan.sell(5800)
  await plan.change({ product_id: better.id, proration_behavior: 'next_period' })
  // A calendar gone wrong: the period that was just billed ends a day later.
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
  // What it waited for waits still.
  expect(await plan.seen()).toMatchObject({ product_id: plan.product.id, pending_update: { product_id: better.id } })
  expect((await plan.seen()).prices.map(({ id }) => id)).toEqual(plan.product.prices.map(({ id }) => id))
  expect(world.lines.filter((line) => line.includes('subscription_parked') && line.includes(plan.id))).toHaveLength(1)
})

test('a long cycle is announced once, a week ahead, and a trial as it says', async () => {
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
  const [slow] = await claim(deployment.means.transact, 'subscriptions', { holder: 'slow', ...taking })
  world.clock.advance(taking.lease_ms + 1)
  const [quick] = await claim(deployment.means.transact, 'subscriptions', { holder: 'quick', ...taking })
  await expect(renew(deployment.means, slow!)).rejects.toThrow(LeaseLost)
  expect(await plan.orders()).toHaveLength(1)
  // The second is stopped when the money has moved, and a third goes on with the order.
  let charged = false
  const { transact, gateways } = deployment.means
  const stopped = {
    ...deployment.means,
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
