import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/doom.ts'
import { openPlans, type Plan } from '../../../../test/harness/plans.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import type { Intent } from '../../../gateways/payments/payments.ts'
import type { Means } from '../../handlers.ts'
import { findAccount, nameIntent } from './attempts.sql.ts'
import { charge, openAttempt, settle } from './attempts.ts'
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

/** The same means, with somebody else who is quicker: what they do falls between an intent and our record of it. */
const overtaken = (quicker: () => Promise<unknown>): Means => {
  const { gateways } = deployment.means
  const of: typeof gateways.payments.of = (account) => {
    const processor = gateways.payments.of(account)
    return new Proxy(processor, {
      get: (target, name: keyof typeof processor) =>
        name === 'createIntent'
          ? async (wish: Parameters<typeof processor.createIntent>[0]) => {
              const made = await target.createIntent(wish)
              await quicker()
              return made
            }
          : target[name],
    })
  }
  return { ...deployment.means, gateways: { ...gateways, payments: { ...gateways.payments, of } } }
}
const attempt = async ({ customer, organization }: Plan) => {
  const [{ id } = { id: '' }] = await owner<{ id: string }>('select id from payment_accounts where organization_id = $1', [organization.id])
  return deployment.means.transact(async (tx) =>
    openAttempt(tx, (await findAccount(tx, organization.id, id))!, {
      organization_id: organization.id,
      customer_id: customer.id,
      kind: 'payment',
      amount: 2900,
      currency: 'usd',
      trigger: 'purchase',
      reusable: false,
    }),
  )
}
const intentsOf = (payment_id: string) =>
  owner<{ status: string }>(`select status from test_processor.intents where metadata->>'payment_id' = $1`, [payment_id])

test('of two who begin one attempt differently, the later takes back what it made and goes on with what the first has named: one charge', async () => {
  const plan = await plans.open()
  const payment = await attempt(plan)
  const theirs = await chargeBehind(plan, 2900, 'purchase')
  const named = () => deployment.means.transact((tx) => nameIntent(tx, payment.organization_id, payment.id, { id: theirs, status: 'processing' }))
  expect(await charge(overtaken(named), payment, { kind: 'token', token: 'tok_visa' })).toMatchObject({ id: theirs, status: 'succeeded' })
  expect(await intentsOf(payment.id)).toEqual([{ status: 'canceled' }])
  expect(await plan.charged()).toEqual([2900, 2900])
})

test('an attempt that was settled as never made while it was being made is not charged any more', async () => {
  const plan = await plans.open()
  const payment = await attempt(plan)
  const lost: Intent = {
    id: '',
    kind: 'payment',
    status: 'failed',
    amount: 2900,
    currency: 'usd',
    client_secret: '',
    metadata: {},
    method: null,
    charged_at: null,
    decline: { code: 'lost', message: 'The processor did not answer.', final: false },
  }
  expect(
    await charge(
      overtaken(() => deployment.means.transact((tx) => settle(tx, payment, lost))),
      payment,
      { kind: 'token', token: 'tok_visa' },
    ),
  ).toBeUndefined()
  expect(await intentsOf(payment.id)).toEqual([{ status: 'canceled' }])
  expect(await plan.charged()).toEqual([2900])
  // And the other way round: what has a name by now is not settled by whoever did not know of it.
  const second = await attempt(plan)
  await charge(deployment.means, second, { kind: 'token', token: 'tok_visa' })
  expect((await deployment.means.transact((tx) => settle(tx, second, lost))).status).toBe('pending')
})
