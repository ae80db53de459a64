import { createRefund, type Aggregation } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openMetered } from '../../../../test/harness/metered.ts'
import { openPlans } from '../../../../test/harness/plans.ts'
import { regularWork } from '../../../main/wire.ts'
import { openUsageAudit } from '../../../../test/simulation/years/usage-audit.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
let plans: ReturnType<typeof openPlans>
let { use, merge, renewed, usageOf, linesOf } = {} as ReturnType<typeof openMetered>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
  plans = openPlans(world, deployment)
  ;({ use, merge, renewed, usageOf, linesOf } = openMetered(world, deployment, plans))
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

const audit = () => openUsageAudit(world).credits()

const averaged = { aggregation: { func: 'avg', property: 'units' } as Aggregation, unit_amount: '100' }

test('a refund of usage takes back the credit that was given for it, also in parts, and a failed refund restores it', async () => {
  const plan = await plans.open({ meter: averaged, card: 'tok_refund_fails_later' })
  const early = world.clock.business()
  await use(plan, 10)
  await renewed(plan)
  await use(plan, 0, early)
  await merge()
  await renewed(plan)
  expect(await usageOf(plan)).toEqual([[], [1000], [-500]])
  const { id: order_id, total_amount } = (await plan.orders())[1]!
  expect(total_amount).toBe(3900)
  const refund = (amount: number) => plan.api.call(createRefund, { body: { order_id, amount, reason: 'customer_request' } as never })
  const credits = async () =>
    (await linesOf(plan))
      .flat()
      .filter(([label]) => label.startsWith('Credit'))
      .map(([label, amount]) => [label.replace(/\d{4}-\d\d-\d\d/g, 'day'), amount])
  // The order is worth 39.00, of which 10.00 are usage. A quarter of it is refunded, and 7.50 are left for the credit of 5.00.
  await refund(975)
  expect(await credits()).toEqual([])
  await refund(2925)
  expect(await credits()).toEqual([['Credit taken back: Calls, day to day', 500]])
  // The debt waits for the next renewal. The customer gets back what was paid for the refunded order, and no more.
  const balance = async () =>
    (
      await world.database.owner((owner) =>
        owner.query<{ amount: string }>('select amount::text as amount from customer_balances where customer_id = $1', [plan.customer.id]),
      )
    ).rows.map(({ amount }) => amount)
  expect(await balance()).toEqual(['-500'])
  expect(await audit()).toEqual([])
  // Both refunds fail at the bank.
  world.clock.advance(61_000)
  for (let round = 0; round < 2; round++) {
    await regularWork.find(({ name }) => name === 'billing.hear')!.run(deployment.deps)
    await deployment.work()
  }
  const [, ...restored] = await credits()
  expect(new Set(restored.map(([label]) => label))).toEqual(new Set(['Credit restored: Calls, day to day']))
  expect(restored.reduce((sum, [, amount]) => sum + Number(amount), 0)).toBe(-500)
  expect(await balance()).toEqual(['0'])
  expect(await audit()).toEqual([])
})

test('a later charge for the same period gives back no credit that was taken back', async () => {
  const plan = await plans.open({ meter: averaged })
  const early = world.clock.business()
  await use(plan, 10)
  await renewed(plan)
  await use(plan, 0, early)
  await merge()
  await renewed(plan)
  const { id: order_id } = (await plan.orders())[1]!
  await plan.api.call(createRefund, { body: { order_id, amount: 3900, reason: 'customer_request' } as never })
  await use(plan, 25, early)
  await merge()
  await renewed(plan)
  const last = (await plan.orders()).at(-1)!
  expect(last.items.map(({ amount }) => amount).toSorted((a, b) => a - b)).toEqual([667, 2900])
  await plan.api.call(createRefund, { body: { order_id: last.id, amount: 100, reason: 'customer_request' } as never })
  expect((await linesOf(plan)).flat().filter(([label]) => label.startsWith('Credit restored'))).toEqual([])
  expect(await audit()).toEqual([])
})
