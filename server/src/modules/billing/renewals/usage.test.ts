import {
  confirmClientCheckout,
  createBenefit,
  createCheckout,
  createProduct,
  getCustomerState,
  getSubscription,
  ingestEvents,
  previewSubscription,
  revokeSubscription,
  updateCustomer,
  updateMeter,
  updateProductBenefits,
  type Aggregation,
} from '@bursar/contract'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openMetered } from '../../../../test/harness/metered.ts'
import { compareBooks, day, openPlans, type Plan } from '../../../../test/harness/plans.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
let plans: ReturnType<typeof openPlans>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
  plans = openPlans(world, deployment)
  ;({ owner, use, merge, renewed, linesOf, usageOf, periodsOf, days } = openMetered(world, deployment, plans))
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})
beforeEach(() => plans.retire())

const sumOfUnits: Aggregation = { func: 'sum', property: 'units' }
const byUnits = { aggregation: sumOfUnits, unit_amount: '10' }

type Metered = ReturnType<typeof openMetered>
let { owner, use, merge, renewed, linesOf, usageOf, periodsOf, days } = {} as Metered
const date = (at: string | Date) => new Date(at).toISOString().slice(0, 10)

test('bills the usage of the ended period beside the price of the new one, at the rate of the plan', async () => {
  const plan = await plans.open({ meter: byUnits })
  const before = await plan.seen()
  await use(plan, [1, 2.5])
  await days(3)
  await use(plan, 4)
  await renewed(plan)
  const range = `${date(before.current_period_start)} to ${date(before.current_period_end)}`
  expect(await linesOf(plan)).toEqual([
    [['Plan', 2900]],
    [
      ['Plan', 2900],
      [`Calls: 7.5 units at 0.1 USD, ${range}`, 75],
    ],
  ])
  expect(await plan.charged()).toEqual([2900, 2975])
  expect((await plan.orders())[1]).toMatchObject({ status: 'paid', billing_reason: 'subscription_cycle' })
  const [first, second, ...others] = await periodsOf(plan)
  expect(others).toEqual([])
  expect(first).toMatchObject({ ends_at: new Date(before.current_period_end), billed_quantity: '7.5', billed_amount: 75, is_unsettled: false })
  expect(second).toMatchObject({ starts_at: new Date(before.current_period_end), ends_at: null, billed_amount: 0 })
  const { ours, theirs } = await compareBooks(world, plan.organization.id)
  expect(ours).toEqual(theirs)
})

test('bills nothing twice, and nothing for a period without usage', async () => {
  const plan = await plans.open({ meter: byUnits })
  await use(plan, 5)
  await renewed(plan)
  await merge()
  await renewed(plan)
  await renewed(plan)
  expect(await usageOf(plan)).toEqual([[], [50], [], []])
})

test('an event at the end of a period belongs to the next period', async () => {
  const plan = await plans.open({ meter: byUnits })
  const end = await plan.end()
  await renewed(plan)
  await use(plan, 1, new Date(end.getTime() - 1))
  await use(plan, 10, end)
  await merge()
  await renewed(plan)
  expect((await usageOf(plan)).at(-1)!.toSorted((a, b) => a - b)).toEqual([10, 100])
})

test.each<[Aggregation['func'], number, number]>([
  ['count', 30, 10],
  ['sum', 70, 90],
  ['max', 40, 50],
  ['min', 10, 0],
  ['avg', 23, 17],
  ['unique', 30, 10],
])('bills %s by its quantity, and late usage by the difference', async (func, first, late) => {
  const aggregation = func === 'count' ? { func } : { func, property: 'units' }
  const plan = await plans.open({ meter: { aggregation, unit_amount: '10' } })
  const at = world.clock.business()
  await use(plan, [2, 1, 4])
  await renewed(plan)
  expect((await usageOf(plan))[1]).toEqual([first])
  await use(plan, 9, at)
  await merge()
  await renewed(plan)
  expect((await usageOf(plan))[2]).toEqual(late === 0 ? [] : [late])
})

test('rounds the amount once, half away from zero, and bills at most the cap', async () => {
  const plan = await plans.open({ meter: { aggregation: sumOfUnits, unit_amount: '0.5', cap_amount: 40 } })
  await use(plan, [1, 1, 1])
  await renewed(plan)
  await use(plan, 500)
  await renewed(plan)
  expect(await usageOf(plan)).toEqual([[], [2], [40]])
})

test('bills late usage with the next order, at the price of its own period, and names that period', async () => {
  const plan = await plans.open({ meter: byUnits })
  const before = await plan.seen()
  const early = world.clock.business()
  await use(plan, 3)
  await renewed(plan)
  const issued = (await plan.orders())[1]!
  const dearer = await plan.sell(2900, {
    prices: [
      { amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' },
      { amount_type: 'metered_unit', meter_id: plan.meter_id!, unit_amount: '99', price_currency: 'usd' },
    ],
  })
  await plan.change({ product_id: dearer.id, proration_behavior: 'prorate' })
  await use(plan, 2, early)
  await merge()
  await renewed(plan)
  const range = `${date(before.current_period_start)} to ${date(before.current_period_end)}`
  expect((await linesOf(plan)).at(-1)!.filter(([label]) => label.startsWith('Calls'))).toEqual([
    [`Calls: corrected from 3 to 5 units at 0.1 USD, ${range}`, 20],
  ])
  const { items, total_amount, status, invoice_number } = (await plan.orders())[1]!
  expect({ items, total_amount, status, invoice_number }).toEqual({
    items: issued.items,
    total_amount: issued.total_amount,
    status: 'paid',
    invoice_number: issued.invoice_number,
  })
})

test('gives a credit line if late usage lowers an average', async () => {
  const plan = await plans.open({ meter: { aggregation: { func: 'avg', property: 'units' }, unit_amount: '100' } })
  const early = world.clock.business()
  await use(plan, 10)
  await renewed(plan)
  await use(plan, 0, early)
  await merge()
  await renewed(plan)
  expect(await usageOf(plan)).toEqual([[], [1000], [-500]])
  expect(await plan.charged()).toEqual([2900, 3900, 2400])
})

test('never bills usage of a trial, also if it arrives after the trial', async () => {
  const plan = await plans.open({ meter: byUnits, plan: { trial_interval: 'day', trial_interval_count: 5 } })
  const inTrial = world.clock.business()
  await use(plan, 1)
  await renewed(plan)
  expect((await plan.seen()).status).toBe('active')
  await use(plan, 20, inTrial)
  await use(plan, 300)
  await merge()
  await renewed(plan)
  expect((await usageOf(plan)).flat()).toEqual([3000])
})

test('a plan change that replaces the metered price ends its period, and bills each part at its own price', async () => {
  const plan = await plans.open({ meter: byUnits })
  const cheaper = await plan.sell(2900, {
    prices: [
      { amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' },
      { amount_type: 'metered_unit', meter_id: plan.meter_id!, unit_amount: '1', price_currency: 'usd' },
    ],
  })
  await use(plan, 5)
  await days(10)
  await plan.change({ product_id: cheaper.id, proration_behavior: 'prorate' })
  await use(plan, 7)
  await renewed(plan)
  expect((await usageOf(plan)).at(-1)).toEqual([50, 7])
  const [first, second] = await periodsOf(plan)
  expect(second!.starts_at).toEqual(first!.ends_at)
})

test('the order of a change bills the usage that the change ends, and only then', async () => {
  const plan = await plans.open({ meter: byUnits })
  const dearer = await plan.sell(5900)
  const early = world.clock.business()
  await use(plan, 5)
  await days(10)
  await plan.change({ product_id: dearer.id, proration_behavior: 'invoice' })
  const [, update] = await plan.orders()
  expect(update).toMatchObject({ status: 'paid', billing_reason: 'subscription_update' })
  expect(await usageOf(plan)).toEqual([[], [50]])
  await renewed(plan)
  expect(await usageOf(plan)).toEqual([[], [50], []])
  expect((await periodsOf(plan)).map(({ ends_at }) => ends_at === null)).toEqual([false])
  // The plan has no metered price any more. Late usage of the earlier plan is still billed.
  await use(plan, 1, early)
  await merge()
  await renewed(plan)
  expect(await usageOf(plan)).toEqual([[], [50], [], [10]])
})

test('changes that end no period bill no usage', async () => {
  const plan = await plans.open({ meter: byUnits })
  const dearer = await plan.sell(5900, {
    prices: [{ amount_type: 'fixed', price_amount: 5900, price_currency: 'usd' }],
  })
  await use(plan, 5)
  await plan.change({ product_id: dearer.id, proration_behavior: 'next_period' })
  expect(await plan.orders()).toHaveLength(1)
  expect(await periodsOf(plan)).toMatchObject([{ ends_at: null, billed_amount: 0 }])
  await renewed(plan)
  expect(await usageOf(plan)).toEqual([[], [50]])
  expect((await periodsOf(plan)).map(({ ends_at }) => ends_at === null)).toEqual([false])
})

test('bills usage of an external id that the customer gets after the period was billed', async () => {
  const plan = await plans.open({ meter: byUnits })
  const events = [{ name: 'call', external_customer_id: 'later', timestamp: world.clock.business().toISOString(), metadata: { units: 6 } }]
  await plan.api.call(ingestEvents, { body: { events } })
  await merge()
  await renewed(plan)
  expect(await usageOf(plan)).toEqual([[], []])
  await plan.api.call(updateCustomer, { params: { id: plan.customer.id }, body: { external_id: 'later' } })
  await renewed(plan)
  expect(await usageOf(plan)).toEqual([[], [], [60]])
})

test('takes back the usage of a change whose payment fails', async () => {
  const plan = await plans.open({ meter: byUnits, card: 'tok_declined_later' })
  const dearer = await plan.sell(5900)
  await use(plan, 5)
  await expect(plan.change({ product_id: dearer.id, proration_behavior: 'invoice' })).rejects.toMatchObject({ reply: { status: 402 } })
  expect((await plan.orders()).map(({ status }) => status)).toEqual(['paid', 'void'])
  expect(await periodsOf(plan)).toMatchObject([{ ends_at: null, billed_amount: 0, billed_quantity: '0' }])
})

test('bills the usage of a subscription that ends by non-payment with the last order, and lists it as unbilled if this fails too', async () => {
  const plan = await plans.open({ meter: byUnits, card: 'tok_declined_later' })
  await use(plan, 5)
  await renewed(plan)
  expect((await plan.seen()).status).toBe('past_due')
  await use(plan, 30)
  await days(22)
  const { status, ended_at } = await plan.row()
  expect(status).toBe('canceled')
  // The order of the first period is void. Its usage waits for the last order, and is not final.
  expect(await periodsOf(plan)).toMatchObject([
    { billed_amount: 0, unbilled_amount: 0, final_at: null, due_at: new Date(ended_at!.getTime() + 35 * day) },
    { billed_amount: 0, unbilled_amount: 0, final_at: null, due_at: new Date(ended_at!.getTime() + 35 * day) },
  ])
  await days(36)
  expect((await plan.orders()).map((order) => [order.status, order.subtotal_amount])).toEqual([
    ['paid', 2900],
    ['void', 2950],
    ['void', 350],
  ])
  expect(await periodsOf(plan)).toMatchObject([
    { billed_amount: 0, unbilled_amount: 50, is_unsettled: false },
    { ends_at: ended_at, billed_amount: 0, unbilled_amount: 300, is_unsettled: false },
  ])
})

test('bills usage when a canceled subscription ends, and late usage with one last order', async () => {
  const plan = await plans.open({ meter: byUnits })
  await use(plan, 5)
  const early = world.clock.business()
  await plan.change({ cancel_at_period_end: true })
  await renewed(plan)
  expect((await plan.seen()).status).toBe('canceled')
  expect(await usageOf(plan)).toEqual([[], [50]])
  await use(plan, 1, early)
  await merge()
  await days(10)
  await use(plan, 2, early)
  await merge()
  await days(20)
  expect(await usageOf(plan)).toEqual([[], [50]])
  await days(10)
  expect(await usageOf(plan)).toEqual([[], [50], [30]])
  expect((await plan.orders()).at(-1)).toMatchObject({ status: 'paid', billing_reason: 'subscription_cycle' })
  // Usage that arrives after the last order is listed, and not billed.
  await use(plan, 7, early)
  await merge()
  await days(40)
  expect(await usageOf(plan)).toEqual([[], [50], [30]])
  expect(await periodsOf(plan)).toMatchObject([{ billed_amount: 80, unbilled_amount: 70, is_unsettled: false }])
})

test('bills the usage of a revoked subscription at once', async () => {
  const plan = await plans.open({ meter: byUnits })
  await use(plan, 8)
  await days(2)
  await plan.change({ revoke: true } as never)
  await days(1)
  expect(await usageOf(plan)).toEqual([[], [80]])
  expect((await plan.orders()).at(-1)).toMatchObject({ status: 'paid' })
  expect((await periodsOf(plan))[0]!.ends_at).toEqual((await plan.row()).ended_at)
})

test('bills usage before a pause, and none during it', async () => {
  const plan = await plans.open({ meter: byUnits })
  await use(plan, 3)
  await plan.change({ pause_at_period_end: true })
  await renewed(plan)
  expect((await plan.seen()).status).toBe('paused')
  await days(3)
  await use(plan, 100)
  await merge()
  await days(2)
  await plan.change({ resume: true } as never)
  await use(plan, 7)
  await renewed(plan)
  expect((await usageOf(plan)).flat()).toEqual([30, 70])
})

test('one subscription of a customer is billed for a meter at a time, and the next takes over', async () => {
  const plan = await plans.open({ meter: byUnits })
  const second = await plan.buy()
  await use(plan, 4)
  await renewed(plan)
  await plans.until((await plan.row(second)).current_period_end)
  await plans.pass()
  expect([(await usageOf(plan)).flat(), (await usageOf(plan, second)).flat()]).toEqual([[40], []])
  await use(plan, 1)
  await plan.change({ revoke: true } as never)
  await plans.pass()
  await days(1)
  await use(plan, 6)
  await plans.until((await plan.row(second)).current_period_end)
  await plans.pass()
  expect([(await usageOf(plan)).flat(), (await usageOf(plan, second)).flat()]).toEqual([[40, 10], [60]])
})

test('fixes the filter and the aggregation of a meter with its first billed usage', async () => {
  const plan = await plans.open({ meter: byUnits })
  const change = () => plan.api.call(updateMeter, { params: { id: plan.meter_id! }, body: { aggregation: { func: 'max', property: 'units' } } })
  await renewed(plan)
  const [open] = await owner<{ billed_at: Date | null }>('select billed_at from meters where id = $1', [plan.meter_id])
  expect(open!.billed_at).toBeNull()
  await use(plan, 1)
  await renewed(plan)
  await expect(change()).rejects.toMatchObject({ reply: { status: 422 } })
})

test('a preview shows the usage that the change bills', async () => {
  const plan = await plans.open({ meter: byUnits })
  const dearer = await plan.sell(5900)
  await use(plan, 5)
  await days(10)
  const seen = await plan.api.call(previewSubscription, { params: plan.params, body: { product_id: dearer.id, proration_behavior: 'invoice' } as never })
  expect(seen.now!.lines.filter(({ label }) => label.startsWith('Calls')).map(({ amount }) => amount)).toEqual([50])
  expect(await periodsOf(plan)).toMatchObject([{ ends_at: null, billed_amount: 0 }])
})

test('a preview without a change shows the usage line of the next renewal', async () => {
  const plan = await plans.open({ meter: byUnits })
  await use(plan, 5)
  await days(10)
  const { now, next } = await plan.api.call(previewSubscription, { params: plan.params, body: {} })
  const lines = next!.lines.map(({ label, amount }) => [label, amount])
  expect(now).toBeNull()
  expect(lines).toEqual([
    ['Plan', 2900],
    [expect.stringMatching(/^Calls: 5 units at /) as string, 50],
  ])
  await renewed(plan)
  expect((await linesOf(plan)).at(-1)).toEqual(lines)
  expect((await plan.orders()).at(-1)).toMatchObject({ total_amount: next!.total_amount })
})

/** Units and amounts that a subscription shows. */
const shownOf = async (plan: Plan, id = plan.id) =>
  (await plan.api.call(getSubscription, { params: { id } })).meters.map(({ consumed_units, amount }) => [consumed_units, amount])
/** The amounts of the active subscriptions of the customer state. */
const amountsOfState = async (plan: Plan) =>
  (await plan.api.call(getCustomerState, { params: { id: plan.customer.id } })).active_subscriptions.flatMap(({ meters }) => meters.map(({ amount }) => amount))

test('shows the amount of usage at the subscription that is billed, up to its end', async () => {
  const plan = await plans.open({ meter: byUnits })
  const second = await plan.buy()
  await use(plan, 4)
  expect([await shownOf(plan), await shownOf(plan, second)]).toEqual([[[4, 40]], [[4, 0]]])
  expect(await amountsOfState(plan)).toEqual([40, 0])
  await days(2)
  await plan.change({ revoke: true } as never)
  await plans.pass()
  await days(1)
  await use(plan, 6)
  expect([await shownOf(plan), await shownOf(plan, second)]).toEqual([[[4, 40]], [[10, 60]]])
  expect(await amountsOfState(plan)).toEqual([60])
})

test('shows no amount of usage during a trial', async () => {
  const plan = await plans.open({ meter: byUnits, plan: { trial_interval: 'day', trial_interval_count: 5 } })
  await use(plan, 3)
  expect([await shownOf(plan), await amountsOfState(plan)]).toEqual([[[3, 0]], [0]])
  await renewed(plan)
  await use(plan, 2)
  expect([await shownOf(plan), await amountsOfState(plan)]).toEqual([[[2, 20]], [20]])
})

/** Gives the subscribers of the plan a credit in each period. */
const credit = async (plan: Plan, units: number, rollover: boolean, product_id = plan.product.id) => {
  const { id } = await plan.api.call(createBenefit, {
    body: { type: 'meter_credit', description: 'Included calls', properties: { meter_id: plan.meter_id!, units, rollover } } as never,
  })
  await plan.api.call(updateProductBenefits, { params: { id: product_id }, body: { benefits: [id] } })
  await plans.pass()
}
/** Buys a one-time product that credits units. */
const topUp = async (plan: Plan, units: number) => {
  const product = await plan.api.call(createProduct, {
    body: { name: 'Top-up', recurring_interval: null, prices: [{ amount_type: 'fixed', price_amount: 500, price_currency: 'usd' }] } as never,
  })
  await credit(plan, units, false, product.id)
  const { client_secret } = await plan.api.call(createCheckout, { body: { products: [product.id], customer_id: plan.customer.id } })
  await world.client().call(confirmClientCheckout, {
    params: { client_secret },
    body: { customer_billing_address: { country: 'DE' }, confirmation_token_id: 'tok_visa' },
  })
  await plans.pass()
}

test('credits reduce the billed usage of their period, and end with it', async () => {
  const plan = await plans.open({ meter: byUnits })
  await credit(plan, 10, false)
  await use(plan, 4)
  await renewed(plan)
  await use(plan, 12)
  await renewed(plan)
  expect(await usageOf(plan)).toEqual([[], [], [20]])
  expect((await linesOf(plan)).at(-1)!.at(-1)![0]).toMatch(/^Calls: 12 units \(10 credited\) at 0\.1 USD, /)
})

test('credits with rollover keep their remainder, and a period beyond its credits takes none from the next', async () => {
  const plan = await plans.open({ meter: byUnits })
  await credit(plan, 10, true)
  await use(plan, 4)
  await renewed(plan)
  // 6 units are left from the first period, and 10 are new.
  await use(plan, 20)
  await renewed(plan)
  await use(plan, 11)
  await renewed(plan)
  expect(await usageOf(plan)).toEqual([[], [], [40], [10]])
})

test('uses credits that end with the period before a top-up, and keeps the rest of the top-up', async () => {
  const plan = await plans.open({ meter: byUnits })
  await topUp(plan, 10)
  await credit(plan, 5, false)
  await use(plan, 8)
  await renewed(plan)
  await use(plan, 13)
  await renewed(plan)
  expect((await usageOf(plan)).filter((lines) => lines.length > 0)).toEqual([[10]])
})

/** Buys a monthly add-on of the plan's customer that credits units in each month. Returns the id of its subscription. */
const addOn = async (plan: Plan, units: number) => {
  const product = await plan.sell(500)
  await credit(plan, units, false, product.id)
  const id = await plan.buy('tok_visa', { products: [product.id] })
  await plans.pass()
  return id
}

test('each monthly credit of an add-on applies to the usage of its month, also if the plan is billed once a year', async () => {
  const plan = await plans.open({ meter: byUnits, plan: { recurring_interval: 'year' } })
  await addOn(plan, 10)
  for (const units of [4, 12, 10, 9, 10]) {
    await use(plan, units)
    await days(31)
  }
  await renewed(plan)
  // In the second month, the usage was 2 units more than the credit. The other credits end with their months.
  expect(await usageOf(plan)).toEqual([[], [20]])
  expect((await linesOf(plan)).at(-1)!.at(-1)![0]).toContain('45 units (43 credited)')
})

test('credits of an add-on apply to the usage before it ended', async () => {
  const plan = await plans.open({ meter: byUnits, plan: { recurring_interval: 'year' } })
  await use(plan, 1)
  await days(1)
  const id = await addOn(plan, 10)
  await use(plan, 9)
  await days(31)
  await use(plan, 7)
  await plan.api.call(revokeSubscription, { params: { id } })
  await plans.pass()
  await days(1)
  await use(plan, 3)
  await renewed(plan)
  // 1 unit was used before the add-on began, and 3 after it ended.
  expect(await usageOf(plan)).toEqual([[], [40]])
})

test('late usage takes what is left of the credits of its period', async () => {
  const plan = await plans.open({ meter: byUnits })
  await credit(plan, 10, false)
  const early = world.clock.business()
  await use(plan, 4)
  await renewed(plan)
  await use(plan, 9, early)
  await merge()
  await renewed(plan)
  expect(await usageOf(plan)).toEqual([[], [], [30]])
})
