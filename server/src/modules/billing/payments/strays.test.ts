import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/doom.ts'
import { openPlans, type Plan } from '../../../../test/harness/plans.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { dismissStray, findStrays } from './strays.ts'

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

/** The processor charges a customer behind our back: to us, it is as if we had forgotten. */
const chargeBehind = async ({ customer, organization }: Plan, amount: number, trigger: string) => {
  const [account] = await owner<{ id: string }>('select id from payment_accounts where organization_id = $1', [organization.id])
  const [method] = await owner<{ processor_method_id: string }>('select processor_method_id from payment_methods where customer_id = $1', [customer.id])
  const processor = deployment.means.gateways.payments.of({ id: account!.id, processor: 'test', secret: { reveal: () => '' } as never, key: null })
  const metadata = { payment_id: crypto.randomUUID(), organization_id: organization.id, trigger }
  const { id } = await processor.createIntent({
    key: metadata.payment_id,
    kind: 'payment',
    amount,
    currency: 'usd',
    customer: customer.id,
    metadata,
    reusable: true,
  })
  await processor.confirmIntent(id, { key: `${id}:confirm`, means: { kind: 'method', id: method!.processor_method_id }, off_session: true, require_3ds: false })
  return id
}
const find = () => findStrays({ ...deployment.means, payments: deployment.means.gateways.payments }, () => undefined)
const strayOf = async ({ customer }: Plan) => (await find()).filter(({ customer_id }) => customer_id === customer.id).map(({ intent_id }) => intent_id)
const renew = async (plan: Plan) => plans.until(new Date((await plan.end()).getTime() + 1000))

test('what the processor has charged for a renewal that we have forgotten is what that renewal is paid with, once', async () => {
  const plan = await plans.open()
  const forgotten = await chargeBehind(plan, 2900, 'subscription_cycle')
  expect(await strayOf(plan)).toEqual([forgotten])
  expect(await strayOf(plan)).toEqual([forgotten])
  await renew(plan)
  expect((await plan.orders()).map(({ status }) => status)).toEqual(['paid', 'paid'])
  expect(await plan.charged()).toEqual([2900, 2900])
  expect(await plan.accounts()).toEqual({ processor: 5800, revenue: -5800 })
  expect(await strayOf(plan)).toEqual([])
  // The next one is charged as ever.
  await renew(plan)
  expect(await plan.charged()).toEqual([2900, 2900, 2900])
})

test('where the processor has charged something else, nothing is charged until a person has looked', async () => {
  const plan = await plans.open()
  const forgotten = await chargeBehind(plan, 4900, 'subscription_cycle')
  expect(await strayOf(plan)).toEqual([forgotten])
  await renew(plan)
  const order = (await plan.orders())[1]!
  expect(order.status).toBe('pending')
  expect(await plan.charged()).toEqual([2900, 4900])
  expect((await plan.attempts(order.id)).map(({ status }) => status)).toEqual(['pending'])
  expect(world.lines.some((line) => line.includes('charge_unclear'))).toBe(true)
  expect(await dismissStray(deployment.means, forgotten)).toBe(true)
  expect(await dismissStray(deployment.means, forgotten)).toBe(false)
  await plans.until(new Date(world.clock.wall().getTime() + 3_600_000))
  expect((await plan.orders())[1]!.status).toBe('paid')
  expect(await plan.charged()).toEqual([2900, 4900, 2900])
})

test('a purchase that we have forgotten is told of, and keeps nobody from being charged', async () => {
  const plan = await plans.open()
  const forgotten = await chargeBehind(plan, 2900, 'purchase')
  expect(await strayOf(plan)).toEqual([forgotten])
  await renew(plan)
  expect(await plan.charged()).toEqual([2900, 2900, 2900])
  expect(await strayOf(plan)).toEqual([forgotten])
})
