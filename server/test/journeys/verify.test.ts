import { createMeter, getMetrics, ingestEvents } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { foldMetrics } from '../../src/modules/insights/folding/folding.ts'
import { mergeUsage } from '../../src/modules/usage/index.ts'
import { openDeployment, openLife } from '../harness/crashes.ts'
import { day, openPlans } from '../harness/plans.ts'
import { launch } from '../harness/process.ts'
import { openWorld, type World } from '../harness/world.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

interface Verified {
  readonly checks: readonly { readonly organization: string; readonly check: string; readonly differences: number }[]
  readonly differences: number
}
const verify = async (...args: string[]) => {
  const program = launch(['verify', ...args, '--json'], world.environmentVariables)
  const code = await program.exited
  const { checks, differences } = JSON.parse(program.output()) as Verified
  return { code, checks: checks.length, differences: differences > 0, wrong: checks.filter((one) => one.differences > 0).map(({ check }) => check) }
}
const query = (text: string, values: readonly unknown[] = []) => world.database.owner((owner) => owner.query(text, [...values]))

test('the command finds changed sums of metrics and of meters, and rebuilds those of metrics', async () => {
  const plans = openPlans(world, deployment)
  const { api, organization, customer } = await plans.open({ meter: { aggregation: { func: 'sum', property: 'units' }, unit_amount: '1' } })
  await api.call(createMeter, { body: { name: 'Distinct', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'unique', property: 'who' } } })
  await deployment.sweep('usage.backfill_meters')
  const events = [1, 2, 2].map((units) => ({ name: 'call', customer_id: customer.id, metadata: { units, who: `${units}` } }))
  await api.call(ingestEvents, { body: { events } })
  await plans.until(new Date(world.clock.business().getTime() + 40 * day))
  await mergeUsage(deployment.deps)
  await foldMetrics(deployment.deps)
  const only = ['--organization', organization.slug]
  expect(await verify('metrics', ...only)).toEqual({ code: 0, checks: 10, differences: false, wrong: [] })
  expect(await verify('usage', ...only)).toEqual({ code: 0, checks: 2, differences: false, wrong: [] })

  const today = world.clock.business().toISOString().slice(0, 10)
  const revenue = async () =>
    (await api.call(getMetrics, { query: { start_date: today, end_date: today, interval: 'day', metrics: ['cumulative_revenue'] } })).totals.cumulative_revenue
  const before = await revenue()
  await query('update metric_quarters set amount = amount * 2 where organization_id = $1', [organization.id])
  expect(await revenue()).not.toBe(before)
  expect((await verify('metrics', ...only, '--samples', '0')).wrong).toContain('quarter hours equal the facts')
  expect(await verify('metrics', ...only, '--rebuild')).toMatchObject({ code: 0, wrong: [] })
  expect(await revenue()).toBe(before)

  await query('update usage_quarters set total = total + 1 where organization_id = $1', [organization.id])
  await query('delete from usage_uniques where organization_id = $1', [organization.id])
  expect(await verify('usage', ...only)).toEqual({ code: 1, checks: 2, differences: true, wrong: ['meter Calls', 'meter Distinct'] })
})

test('the command refuses other words', async () => {
  for (const args of [['verify'], ['verify', 'books'], ['verify', 'usage', '--rebuild'], ['verify', 'metrics', '--samples', 'many']]) {
    const program = launch(args, world.environmentVariables)
    expect(await program.exited, args.join(' ')).toBe(2)
  }
})
