import {
  correctEvents,
  createBenefit,
  createCustomer,
  createRefund,
  ingestEvents,
  updateCustomer,
  updateMeter,
  updateProduct,
  updateProductBenefits,
  type Aggregation,
  type Filter,
} from '@bursar/contract'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openMetered } from '../../../../test/harness/metered.ts'
import { openPlans, type Plan } from '../../../../test/harness/plans.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { stopArchivedMeters } from '../../usage/index.ts'
import { newId } from '../../../kernel/ids.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
let plans: ReturnType<typeof openPlans>
let { owner, use, merge, renewed, usageOf, periodsOf, days } = {} as ReturnType<typeof openMetered>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
  plans = openPlans(world, deployment)
  ;({ owner, use, merge, renewed, usageOf, periodsOf, days } = openMetered(world, deployment, plans))
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})
beforeEach(() => plans.retire())

const sumOfUnits: Aggregation = { func: 'sum', property: 'units' }
const byUnits = { aggregation: sumOfUnits, unit_amount: '10' }
const revoke = (plan: Plan) => plan.change({ revoke: true } as never)
/** The usage lines of the last order. */
const lastUsageOf = async (plan: Plan) => (await usageOf(plan)).at(-1)

test('the last order bills late usage of old periods that were settled long before the end', async () => {
  const plan = await plans.open({ meter: byUnits })
  const early = world.clock.business()
  await use(plan, 1)
  for (let months = 0; months < 3; months++) await renewed(plan)
  await revoke(plan)
  await days(1)
  await use(plan, 4, early)
  await merge()
  await days(36)
  expect(await lastUsageOf(plan)).toEqual([40])
  expect((await periodsOf(plan)).map(({ final_at, is_unsettled }) => [final_at !== null, is_unsettled])).toEqual(Array.from({ length: 4 }, () => [true, false]))
  // Usage that arrives after the last order is listed for old periods too.
  await use(plan, 2, early)
  await merge()
  await days(1)
  expect((await periodsOf(plan))[0]).toMatchObject({ billed_amount: 50, unbilled_amount: 20, is_unsettled: false })
})

const billedAt = async (plan: Plan) => (await owner<{ billed_at: Date | null }>('select billed_at from meters where id = $1', [plan.meter_id]))[0]!.billed_at

test('a merge does not wait for a settlement, and marks late usage after it', async () => {
  const plan = await plans.open({ meter: byUnits })
  const early = world.clock.business()
  await use(plan, 4)
  await renewed(plan)
  await use(plan, 3, early)
  const merged = async () =>
    (await owner<{ merged: boolean }>('select bool_and(is_merged) as merged from usage_quarters where organization_id = $1', [plan.organization.id]))[0]!.merged
  await world.database.owner(async (settlement) => {
    await settlement.query('begin')
    await settlement.query('select from usage_periods where organization_id = $1 for no key update', [plan.organization.id])
    await merge()
    expect(await merged()).toBe(false)
    expect((await periodsOf(plan))[0]!.is_unsettled).toBe(false)
    await settlement.query('rollback')
  })
  await merge()
  expect(await merged()).toBe(true)
  expect((await periodsOf(plan))[0]!.is_unsettled).toBe(true)
  await renewed(plan)
  expect(await lastUsageOf(plan)).toEqual([30])
})

test('fixes a meter with its first settled quantity, also if the quantity costs nothing', async () => {
  const plan = await plans.open({ meter: { aggregation: sumOfUnits, unit_amount: '0.001' } })
  await renewed(plan)
  expect(await billedAt(plan)).toBeNull()
  await use(plan, 3)
  await renewed(plan)
  expect(await usageOf(plan)).toEqual([[], [], []])
  expect(await billedAt(plan)).not.toBeNull()
})

test('totals of a backfill mark no ended period as unsettled', async () => {
  const plan = await plans.open({ meter: byUnits })
  await plan.api.call(ingestEvents, {
    body: { events: [{ name: 'other', customer_id: plan.customer.id, timestamp: world.clock.business().toISOString(), metadata: { units: 7 } }] },
  })
  await plan.api.call(updateMeter, {
    params: { id: plan.meter_id! },
    body: { filter: { conjunction: 'and', clauses: [{ property: 'name', operator: 'eq', value: 'call' }] } },
  })
  await deployment.sweep()
  await renewed(plan)
  // The new filter counts the event, and the period is settled already.
  await plan.api.call(updateMeter, { params: { id: plan.meter_id! }, body: { filter: { conjunction: 'and', clauses: [] } } })
  await deployment.sweep()
  await merge()
  expect((await periodsOf(plan))[0]).toMatchObject({ is_unsettled: false, billed_quantity: '0' })
  await renewed(plan)
  expect((await usageOf(plan)).flat()).toEqual([])
  await revoke(plan)
  await days(36)
  expect((await usageOf(plan)).flat()).toEqual([])
  expect((await periodsOf(plan))[0]).toMatchObject({ billed_amount: 0, unbilled_amount: 0, is_unsettled: false })
})

const named = (value: string): Filter => ({ conjunction: 'and', clauses: [{ property: 'name', operator: 'eq', value }] })
const filterBy = (plan: Plan, filter: Filter) => plan.api.call(updateMeter, { params: { id: plan.meter_id! }, body: { filter } })

test('a new filter bills the open period, and no period that was settled with the earlier filter', async () => {
  const plan = await plans.open({ meter: byUnits })
  await filterBy(plan, named('misspelled'))
  const early = world.clock.business()
  for (let months = 0; months < 5; months++) {
    await use(plan, 100)
    await renewed(plan)
  }
  await use(plan, 4)
  await filterBy(plan, named('call'))
  await deployment.sweep()
  // A late event makes the first period due. It stays as it was settled.
  await use(plan, 3, early)
  await merge()
  expect((await periodsOf(plan))[0]).toMatchObject({ is_unsettled: true })
  await renewed(plan)
  expect((await usageOf(plan)).flat()).toEqual([40])
  await use(plan, 2)
  await revoke(plan)
  await use(plan, 1, early)
  await merge()
  await days(36)
  expect((await usageOf(plan)).flat()).toEqual([40, 20])
  const periods = await periodsOf(plan)
  expect(periods.map(({ billed_amount }) => billed_amount)).toEqual([0, 0, 0, 0, 0, 40, 20])
  for (const period of periods) expect(period).toMatchObject({ is_unsettled: false, unbilled_amount: 0, final_at: expect.any(Date) as Date })
})

test('a period of a change that was not paid is billed with the filter of its end', async () => {
  const plan = await plans.open({ meter: byUnits, card: 'tok_declined_later' })
  const dearer = await plan.sell(5900)
  await filterBy(plan, named('misspelled'))
  await use(plan, 5)
  await expect(plan.change({ product_id: dearer.id, proration_behavior: 'invoice' })).rejects.toMatchObject({ reply: { status: 402 } })
  await filterBy(plan, named('call'))
  await renewed(plan)
  expect((await periodsOf(plan))[0]).toMatchObject({ billed_amount: 50 })
})

/** Changes the filter, and holds the backfill of the meter back until the returned function is called. */
const holdBackfill = async (plan: Plan) => {
  await filterBy(plan, named('call'))
  const due = (at: Date | null) => owner('update usage_meters set due_at = $2 where id = $1', [plan.meter_id, at])
  await due(null)
  return async () => {
    await due(world.clock.wall())
    await deployment.sweep()
    expect(await owner('select from usage_meters where id = $1 and counted_at is not null', [plan.meter_id])).toHaveLength(1)
  }
}
const called = (plan: Plan, event: object) =>
  plan.api.call(ingestEvents, { body: { events: [{ name: 'call', timestamp: world.clock.business().toISOString(), ...event } as never] } })

test.each<[Aggregation, number[]]>([
  [sumOfUnits, [80, -50]],
  [{ func: 'max', property: 'units' }, [50, -20]],
])('a correction during a backfill lowers a settled period: %o', async (aggregation, expected) => {
  const plan = await plans.open({ meter: { aggregation, unit_amount: '10' } })
  // So ingest counts none of the events.
  await filterBy(plan, named('misspelled'))
  await called(plan, { customer_id: plan.customer.id, external_id: `wrong ${plan.id}`, metadata: { units: 5 } })
  await called(plan, { customer_id: plan.customer.id, metadata: { units: 3 } })
  const resume = await holdBackfill(plan)
  await renewed(plan)
  await plan.api.call(correctEvents, { body: { corrections: [{ action: 'void', event_id: `wrong ${plan.id}`, reason: 'sent by mistake' }] } })
  await merge()
  await resume()
  await merge()
  await renewed(plan)
  expect((await usageOf(plan)).flat()).toEqual(expected)
})

test('a subject that gets its customer during a backfill is billed in a settled period', async () => {
  const plan = await plans.open({ meter: byUnits })
  await filterBy(plan, named('misspelled'))
  await called(plan, { external_customer_id: 'later', metadata: { units: 6 } })
  const resume = await holdBackfill(plan)
  await use(plan, 1)
  await renewed(plan)
  await plan.api.call(updateCustomer, { params: { id: plan.customer.id }, body: { external_id: 'later' } })
  expect((await periodsOf(plan))[0]).toMatchObject({ is_unsettled: true })
  await resume()
  await merge()
  await renewed(plan)
  expect((await usageOf(plan)).flat()).toEqual([10, 60])
})

/** Credits units to the subscribers of the plan in each period that begins from now on. */
const credit = async (plan: Plan, units: number) => {
  const { id } = await plan.api.call(createBenefit, {
    body: { type: 'meter_credit', description: 'Included calls', properties: { meter_id: plan.meter_id!, units, rollover: false } } as never,
  })
  await plan.api.call(updateProductBenefits, { params: { id: plan.product.id }, body: { benefits: [id] } })
  await plans.pass()
}

test('a credit that is given after the end of its period applies to this period', async () => {
  const plan = await plans.open({ meter: byUnits })
  const { current_period_start } = await plan.row()
  await use(plan, 12)
  await renewed(plan)
  expect(await lastUsageOf(plan)).toEqual([120])
  await credit(plan, 10)
  // The job that follows a late payment of the first period inserts this row.
  await owner(
    `insert into meter_credits (organization_id, id, created_at, grant_id, meter_id, customer_id, units, rollover, period_start)
     select organization_id, gen_random_uuid(), created_at, grant_id, meter_id, customer_id, units, rollover, $2 from meter_credits where customer_id = $1`,
    [plan.customer.id, current_period_start],
  )
  expect((await periodsOf(plan))[0]).toMatchObject({ is_unsettled: true, billed_amount: 120 })
  await renewed(plan)
  expect(await lastUsageOf(plan)).toEqual([-100])
})

const half = { discount: { type: 'percentage', basis_points: 5000, duration: 'forever' } }

test.each<[string, (plan: Plan) => Promise<unknown>]>([
  ['the end', (plan) => plan.change({ cancel_at_period_end: true })],
  ['a pause', (plan) => plan.change({ pause_at_period_end: true })],
  ['a revocation', revoke],
])('the order of %s bills usage without the discount of a period', async (_, stop) => {
  const plan = await plans.open({ meter: byUnits, ...half })
  await use(plan, 4)
  await renewed(plan)
  expect((await plan.orders()).at(-1)).toMatchObject({ subtotal_amount: 2940, discount_amount: 1470 })
  const early = world.clock.business()
  await use(plan, 6)
  await stop(plan)
  await renewed(plan)
  expect((await plan.orders()).at(-1)).toMatchObject({ subtotal_amount: 60, discount_amount: 0, discount_id: null })
  if ((await plan.row()).status === 'paused') return
  await use(plan, 1, early)
  await merge()
  await days(36)
  expect((await plan.orders()).at(-1)).toMatchObject({ subtotal_amount: 10, discount_amount: 0 })
})

const averaged = { aggregation: { func: 'avg', property: 'units' } as Aggregation, unit_amount: '100' }
/** Bills an average of 10 units, and lowers it to 5 afterwards. */
const lowered = async (plan: Plan, between: () => Promise<unknown> = async () => {}) => {
  const early = world.clock.business()
  await use(plan, 10)
  await renewed(plan)
  await between()
  await use(plan, 0, early)
  await merge()
}

test('the credit for lowered usage is reduced by the discount that the usage was billed with', async () => {
  const plan = await plans.open({ meter: averaged, ...half })
  await lowered(plan)
  await renewed(plan)
  expect(await usageOf(plan)).toEqual([[], [1000], [-250]])
})

test('gives no credit for usage whose order was refunded', async () => {
  const plan = await plans.open({ meter: averaged })
  await lowered(plan, async () => {
    const { id, total_amount } = (await plan.orders())[1]!
    await plan.api.call(createRefund, { body: { order_id: id, amount: total_amount, reason: 'customer_request' } as never })
    await plans.pass()
  })
  await renewed(plan)
  expect(await usageOf(plan)).toEqual([[], [1000], []])
  expect((await periodsOf(plan))[0]).toMatchObject({ billed_amount: 500, is_unsettled: false })
})

test('gives the credit for usage only after the order of the usage is paid', async () => {
  const plan = await plans.open({ meter: averaged, plan: { recurring_interval: 'day' }, card: 'tok_declined_later' })
  await lowered(plan)
  expect((await plan.orders())[1]).toMatchObject({ status: 'pending', subtotal_amount: 3900 })
  await plans.until((await plan.row()).current_period_end)
  expect((await usageOf(plan)).flat()).toEqual([1000])
  expect((await periodsOf(plan))[0]).toMatchObject({ billed_amount: 1000, is_unsettled: true })
})

test('an archived meter counts while late usage of an ended subscription can still be billed', async () => {
  const plan = await plans.open({ meter: byUnits })
  const early = world.clock.business()
  await use(plan, 3)
  await renewed(plan)
  await revoke(plan)
  await plan.api.call(updateProduct, { params: { id: plan.product.id }, body: { is_archived: true } })
  const isStopped = async () => (await owner<{ is_stopped: boolean }>('select is_stopped from usage_meters where id = $1', [plan.meter_id]))[0]!.is_stopped
  await plan.api.call(updateMeter, { params: { id: plan.meter_id! }, body: { is_archived: true } })
  await stopArchivedMeters(deployment.deps)
  expect(await isStopped()).toBe(false)
  await use(plan, 4, early)
  await merge()
  await days(36)
  expect(await lastUsageOf(plan)).toEqual([40])
  // All periods are final now. The meter stops, and gives its place to another.
  await stopArchivedMeters(deployment.deps)
  expect(await isStopped()).toBe(true)
  await deployment.sweep()
  expect(await owner('select from usage_quarters where meter_id = $1', [plan.meter_id])).toEqual([])
  await stopArchivedMeters(deployment.deps)
  expect(await owner('select version from usage_meters where id = $1', [plan.meter_id])).toEqual([{ version: 2 }])
})

test('the cap of a price holds for all its periods in a billing period together', async () => {
  const plan = await plans.open({ meter: { ...byUnits, cap_amount: 100 } })
  const other = await plan.sell(2900)
  await use(plan, 7)
  await days(5)
  await plan.change({ product_id: other.id, proration_behavior: 'invoice' })
  await days(5)
  await plan.change({ product_id: plan.product.id, proration_behavior: 'invoice' })
  const later = world.clock.business()
  await use(plan, 8)
  await merge()
  await renewed(plan)
  expect((await usageOf(plan)).flat()).toEqual([70, 30])
  // Late usage settles the second period alone, which is still limited by the first.
  await use(plan, 1, later)
  await merge()
  // The cap is free again in the next billing period.
  await use(plan, 8)
  await renewed(plan)
  expect((await usageOf(plan)).flat()).toEqual([70, 30, 80])
})

test('periods that are settled together share the cap of their price', async () => {
  const plan = await plans.open({ meter: { ...byUnits, cap_amount: 100 } })
  const other = await plan.sell(2900)
  await use(plan, 7)
  await days(5)
  await plan.change({ product_id: other.id, proration_behavior: 'prorate' })
  await days(5)
  await plan.change({ product_id: plan.product.id, proration_behavior: 'prorate' })
  await use(plan, 8)
  await renewed(plan)
  expect((await usageOf(plan)).flat().toSorted((a, b) => a - b)).toEqual([30, 70])
})

test('usage of seat holders is billed to the buyer from the switch to phase 2 on', async () => {
  const plan = await plans.open({ meter: byUnits })
  const { organization, customer, api } = plan
  const holder = await api.call(createCustomer, { body: { email: `holder-${organization.slug}@people.test`, external_id: 'holder' } })
  const hold = (units: number, at: Date) =>
    api.call(ingestEvents, { body: { events: [{ name: 'call', external_customer_id: 'holder', timestamp: at.toISOString(), metadata: { units } }] } })
  const early = world.clock.business()
  const [member] = await owner<{ id: string }>(`select id from members where customer_id = $1 and role = 'owner'`, [customer.id])
  await hold(3, early)
  await owner('update customers set pure_holder = true where id = $1', [holder.id])
  await owner(
    `insert into seats (organization_id, id, created_at, subscription_id, buyer_customer_id, holder_customer_id, member_id, status, email, claimed_at, metadata)
     values ($1, $2, $3, $4, $5, $6, $7, 'claimed', $8, $3, '{}')`,
    [organization.id, newId(early), early, plan.id, customer.id, holder.id, member!.id, holder.email],
  )
  await plan.phase('phase1')
  await use(plan, 1)
  await renewed(plan)
  await days(3)
  await hold(20, world.clock.business())
  await days(1)
  await plan.phase('phase2')
  await owner(`insert into member_migrations (organization_id, id, state, switched_at) values ($1, $1, 'phase2', $2)`, [organization.id, world.clock.wall()])
  await days(1)
  await hold(400, world.clock.business())
  // Late usage of the buyer: the ended period is computed again, without the usage of the holder.
  await use(plan, 1, early)
  await merge()
  await renewed(plan)
  expect((await usageOf(plan)).map((lines) => lines.toSorted((a, b) => a - b))).toEqual([[], [10], [10, 4000]])
})
