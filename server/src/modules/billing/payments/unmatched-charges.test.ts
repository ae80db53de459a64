import { inWallTime } from '../../../platform/clocks.sql.ts'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openPlans, type Plan } from '../../../../test/harness/plans.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import type { Intent } from '../../../gateways/payments/payments.ts'
import type { Deps } from '../../handlers.ts'
import { findAccount, nameIntents } from './attempts.sql.ts'
import { charge, openAttempt, settle } from './attempts.ts'
import { dismissUnmatchedCharge, findUnmatchedCharges } from './unmatched-charges.ts'

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

/** Charges a customer at the processor without a record here, as after the restore of an older backup. */
const chargeBehind = async ({ customer, organization }: Plan, amount: number, trigger: string) => {
  const [account] = await owner<{ id: string }>('select id from payment_accounts where organization_id = $1', [organization.id])
  const [method] = await owner<{ processor_method_id: string }>('select processor_method_id from payment_methods where customer_id = $1', [customer.id])
  const processor = deployment.deps.gateways.payments.of({ id: account!.id, processor: 'test', secret: { reveal: () => '' } as never, key: null })
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
  await processor.confirmIntent(id, { key: `${id}:confirm`, deps: { kind: 'method', id: method!.processor_method_id }, off_session: true, require_3ds: false })
  return id
}
const find = () => findUnmatchedCharges({ ...deployment.deps, payments: deployment.deps.gateways.payments }, () => undefined)
const unmatchedChargeOf = async ({ customer }: Plan) =>
  (await find()).filter(({ customer_id }) => customer_id === customer.id).map(({ intent_id }) => intent_id)
const renew = async (plan: Plan) => plans.until(new Date((await plan.end()).getTime() + 1000))

test('settles a renewal with an earlier charge that the restored database does not know, and charges once', async () => {
  const plan = await plans.open()
  const forgotten = await chargeBehind(plan, 2900, 'subscription_cycle')
  expect(await unmatchedChargeOf(plan)).toEqual([forgotten])
  expect(await unmatchedChargeOf(plan)).toEqual([forgotten])
  await renew(plan)
  expect((await plan.orders()).map(({ status }) => status)).toEqual(['paid', 'paid'])
  expect(await plan.charged()).toEqual([2900, 2900])
  expect(await plan.accounts()).toEqual({ processor: 5800, revenue: -5800 })
  expect(await unmatchedChargeOf(plan)).toEqual([])
  // The next renewal is charged as usual.
  await renew(plan)
  expect(await plan.charged()).toEqual([2900, 2900, 2900])
})

test('charges nothing after an unknown charge of another amount, until an operator has dismissed it', async () => {
  const plan = await plans.open()
  const forgotten = await chargeBehind(plan, 4900, 'subscription_cycle')
  expect(await unmatchedChargeOf(plan)).toEqual([forgotten])
  await renew(plan)
  const order = (await plan.orders())[1]!
  expect(order.status).toBe('pending')
  expect(await plan.charged()).toEqual([2900, 4900])
  expect((await plan.attempts(order.id)).map(({ status }) => status)).toEqual(['pending'])
  expect(world.lines.some((line) => line.includes('charge_unclear'))).toBe(true)
  expect(await dismissUnmatchedCharge(deployment.deps, forgotten)).toBe(true)
  expect(await dismissUnmatchedCharge(deployment.deps, forgotten)).toBe(false)
  await plans.until(new Date(world.clock.wall().getTime() + 3_600_000))
  expect((await plan.orders())[1]!.status).toBe('paid')
  expect(await plan.charged()).toEqual([2900, 4900, 2900])
})

test('reports an unknown charge of a purchase, and still charges the renewals of its customer', async () => {
  const plan = await plans.open()
  const forgotten = await chargeBehind(plan, 2900, 'purchase')
  expect(await unmatchedChargeOf(plan)).toEqual([forgotten])
  await renew(plan)
  expect(await plan.charged()).toEqual([2900, 2900, 2900])
  expect(await unmatchedChargeOf(plan)).toEqual([forgotten])
})

/**
 * The dependencies of the deployment, with a concurrent call between the creation of an intent and the commit of its
 * id.
 */
const overtaken = (quicker: () => Promise<unknown>): Deps => {
  const { gateways } = deployment.deps
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
  return { ...deployment.deps, gateways: { ...gateways, payments: { ...gateways.payments, of } } }
}
const attempt = async ({ customer, organization }: Plan) => {
  const [{ id } = { id: '' }] = await owner<{ id: string }>('select id from payment_accounts where organization_id = $1', [organization.id])
  return deployment.deps.transact(async (tx) =>
    openAttempt(inWallTime(tx), (await findAccount(tx, organization.id, id))!, {
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

test('cancels its own intent and charges the stored one if a concurrent call stored its intent first', async () => {
  const plan = await plans.open()
  const payment = await attempt(plan)
  const theirs = await chargeBehind(plan, 2900, 'purchase')
  const named = () =>
    deployment.deps.transact((tx) => nameIntents(tx, payment.organization_id, [{ id: payment.id, intent_id: theirs, intent_status: 'processing' }]))
  expect(await charge(overtaken(named), payment, { kind: 'token', token: 'tok_visa' })).toMatchObject({ id: theirs, status: 'succeeded' })
  expect(await intentsOf(payment.id)).toEqual([{ status: 'canceled' }])
  expect(await plan.charged()).toEqual([2900, 2900])
})

test('does not charge an attempt that was settled as failed while its intent was being created', async () => {
  const plan = await plans.open()
  const payment = await attempt(plan)
  const lost: Intent = {
    id: '',
    kind: 'payment',
    status: 'failed',
    amount: 2900,
    currency: 'usd',
    client_secret: '',
    redirect_url: null,
    metadata: {},
    method: null,
    charged_at: null,
    decline: { code: 'lost', message: 'The processor did not answer.', final: false },
  }
  expect(
    await charge(
      overtaken(() => deployment.deps.transact((tx) => settle(tx, payment, lost))),
      payment,
      { kind: 'token', token: 'tok_visa' },
    ),
  ).toBeUndefined()
  expect(await intentsOf(payment.id)).toEqual([{ status: 'canceled' }])
  expect(await plan.charged()).toEqual([2900])
  // If the intent is stored first, a later settlement without an intent id does not settle the attempt.
  const second = await attempt(plan)
  await charge(deployment.deps, second, { kind: 'token', token: 'tok_visa' })
  expect((await deployment.deps.transact((tx) => settle(tx, second, lost))).status).toBe('pending')
})
