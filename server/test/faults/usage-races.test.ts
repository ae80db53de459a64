import { ingestEvents } from '@bursar/contract'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { mergeUsage } from '../../src/modules/usage/index.ts'
import { openDeployment, openLife } from '../harness/crashes.ts'
import { openPlans, type Plan } from '../harness/plans.ts'
import { eventually, openWorld, type World } from '../harness/world.ts'

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

const meter = { aggregation: { func: 'sum' as const, property: 'units' }, unit_amount: '1' }
const use = (plan: Plan, units: number, at: Date) =>
  plan.api.call(ingestEvents, {
    body: { events: [{ name: 'call', customer_id: plan.customer.id, timestamp: at.toISOString(), metadata: { units } }] },
  })
const merge = () => mergeUsage(deployment.deps)
const billedOf = async (plan: Plan) =>
  (await plan.orders())
    .flatMap(({ items }) => items)
    .filter(({ label }) => label.startsWith('Calls'))
    .reduce((sum, { amount }) => sum + amount, 0)
const renewed = async (plan: Plan) => {
  await plans.until(await plan.end())
  await plans.until(world.clock.business())
}

test('bills usage that is merged between the snapshot and the commit of a settlement', async () => {
  const plan = await plans.open({ meter })
  await use(plan, 100, world.clock.business())
  const end = await plan.end()
  plans.moveTo(end)
  await world.database.owner(async (blocker) => {
    // The settlement has read the usage, and waits for its invoice number.
    await blocker.query('begin; lock table invoice_counters in access exclusive mode')
    const settling = deployment.sweep('billing.renew')
    await eventually('the settlement waits for the lock', async () => {
      const { rows } = await blocker.query(`select from pg_locks where not granted and relation = 'invoice_counters'::regclass`)
      return rows.length > 0
    })
    await use(plan, 7, new Date(end.getTime() - 60_000))
    const merging = merge()
    await Promise.race([
      merging,
      eventually(
        'the merge waits for the settlement',
        async () => (await blocker.query(`select from pg_locks where not granted and locktype in ('transactionid', 'tuple')`)).rows.length > 0,
      ),
    ])
    await blocker.query('rollback')
    await Promise.all([settling, merging])
  })
  // The merge skipped the rows that the settlement had locked. The next one takes them.
  await merge()
  await plans.pass()
  expect(await billedOf(plan)).toBe(100)
  await renewed(plan)
  expect(await billedOf(plan)).toBe(107)
})

test('periods of two subscriptions do not overlap if one ends while the other is renewed', async () => {
  const plan = await plans.open({ meter })
  const daily = await plan.sell(900, {
    recurring_interval: 'day',
    prices: [
      { amount_type: 'fixed', price_amount: 900, price_currency: 'usd' },
      { amount_type: 'metered_unit', meter_id: plan.meter_id!, unit_amount: '1', price_currency: 'usd' },
    ],
  })
  const other = await plan.buy('tok_visa', { products: [daily.id] })
  await use(plan, 500, world.clock.business())
  // The daily subscription is renewed an hour late. In this hour, its new period and the ending one could overlap.
  plans.moveTo(new Date((await plan.row(other)).current_period_end.getTime() + 3_600_000))
  await world.database.owner(async (blocker) => {
    await blocker.query('begin; lock table invoice_counters in access exclusive mode')
    const ending = plan.change({ revoke: true } as never)
    await eventually('the end waits for its invoice number', async () => {
      const { rows } = await blocker.query(`select from pg_locks where not granted and relation = 'invoice_counters'::regclass`)
      return rows.length > 0
    })
    const renewing = deployment.sweep('billing.renew')
    await eventually('the renewal waits for the end', async () => {
      const { rows } = await blocker.query(`select from pg_locks where not granted and locktype in ('transactionid', 'tuple', 'advisory')`)
      return rows.length > 0
    })
    await blocker.query('rollback')
    await Promise.all([ending, renewing])
    const { rows } = await blocker.query<{ subscription_id: string; starts_at: Date; ends_at: Date | null }>(
      'select subscription_id, starts_at, ends_at from usage_periods where customer_id = $1 order by starts_at',
      [plan.customer.id],
    )
    expect(rows.map(({ subscription_id }) => subscription_id)).toEqual([plan.id, other])
    expect(rows[1]!.starts_at).toEqual(rows[0]!.ends_at)
  })
})

test('bills all usage that is sent while periods are settled, once', async () => {
  const plan = await plans.open({ meter, plan: { recurring_interval: 'day' } })
  let sent = 0
  const send = async (end: Date) => {
    for (let at = 0; at < 3; at++) {
      const units = 1 + ((sent * 7) % 50)
      sent += units
      await use(plan, units, new Date(end.getTime() - 1000 * (1 + ((sent * 13) % 7200))))
    }
  }
  for (let round = 0; round < 25; round++) {
    const end = await plan.end()
    plans.moveTo(end)
    const merges = async () => {
      for (let at = 0; at < 4; at++) await merge()
    }
    await Promise.all([send(end), send(end), deployment.sweep('billing.renew'), merges(), send(end)])
    await deployment.work()
  }
  await merge()
  await renewed(plan)
  await renewed(plan)
  expect(await billedOf(plan)).toBe(sent)
}, 120_000)
