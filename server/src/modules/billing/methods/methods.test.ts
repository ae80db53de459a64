import {
  addPortalPaymentMethod,
  confirmPortalPaymentMethod,
  createCustomer,
  createCustomerSession,
  deleteCustomer,
  deletePortalPaymentMethod,
  getCustomer,
  listPaymentMethods,
  listPayments,
  listPortalPaymentMethods,
  type CustomerPaymentMethodCreateResponse,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readBooks } from '../../../../test/harness/books.ts'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openPlans } from '../../../../test/harness/plans.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { openTestProcessor, type TestProcessor } from '../../../gateways/payments/test/processor.ts'
import { within, type PortalActor } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { regularWork } from '../../../main/wire.ts'
import { sweeps } from '../../../platform/jobs/catalogue.ts'
import { claim } from '../../../platform/jobs/leases.sql.ts'
import { renew } from '../renewals/renewals.ts'
import { begin, proceed, type Intended } from './methods.ts'

let world: World
let processor: TestProcessor
let deployment: Awaited<ReturnType<typeof openDeployment>>
let plans: ReturnType<typeof openPlans>
beforeAll(async () => {
  world = await openWorld()
  processor = openTestProcessor({ url: world.config.database_url, environment: 'sandbox', clock: world.clock, log: world.base.log })
  deployment = await openDeployment(world, openLife(null))
  plans = openPlans(world, deployment)
})
afterAll(async () => {
  await processor.close()
  await deployment.close()
  await world.close()
})

const errorOf = (answer: { status: number; body: unknown }) => `${answer.status} ${(answer.body as { error: string }).error}`
const rowsOf = async <T extends object>(text: string, values: unknown[]) => (await world.database.owner((owner) => owner.query<T>(text, values))).rows
const hear = async () => {
  await regularWork.find(({ name }) => name === 'billing.hear')!.run(deployment.deps)
  await deployment.work()
}
type Client = ReturnType<World['client']>
const wish = (confirmation_token_id: string, set_default = false) => ({
  body: { confirmation_token_id, set_default, return_url: 'https://shop.example/portal' },
})
const add = (portal: Client, token: string, set_default = false) => portal.send(addPortalPaymentMethod, wish(token, set_default))
const kept = async (portal: Client, token: string, set_default = false): Promise<string> => {
  const answer = await portal.call(addPortalPaymentMethod, wish(token, set_default))
  if (answer.status !== 'succeeded') throw new Error('the card asks for more')
  return answer.payment_method.id
}
/** The client secret of a 3-D Secure challenge and the processor's id of the setup. */
const asked = (answer: { body: unknown }) => {
  const { client_secret } = answer.body as Extract<CustomerPaymentMethodCreateResponse, { status: 'requires_action' }>
  return { client_secret, setup_intent_id: client_secret.split('_secret_')[0]! }
}
/** Tokens of the customer's cards that the processor has deleted. */
const forgotten = (customer_id: string) =>
  rowsOf<{ token: string }>('select token from test_processor.methods where customer = $1 and forgotten_at is not null order by forgotten_at, id', [
    customer_id,
  ]).then((rows) => rows.map(({ token }) => token))

/** Creates a customer without payment methods, with a portal session. */
const open = async () => {
  const shop = await world.shop()
  const { api, organization } = shop
  const anna = await api.call(createCustomer, { body: { email: 'anna@people.test' } })
  const session = async (customer_id: string, extra: Record<string, string> = {}) =>
    world.client({ token: (await api.call(createCustomerSession, { body: { customer_id } })).token }, extra)
  const list = async () =>
    (await api.call(listPaymentMethods, { params: { id: anna.id } })).items
      .map((one) => `${'method_metadata' in one ? one.method_metadata.last4 : one.type}${one.is_default ? ' default' : ''}`)
      .toReversed()
  return { ...shop, organization, anna, session, portal: await session(anna.id), list }
}

test('saves a card without a charge; the first card becomes the default, a later card only on request', async () => {
  const { api, organization, anna, portal, list, events } = await open()
  const answer = await add(portal, 'tok_visa')
  expect(answer).toMatchObject({
    status: 201,
    body: {
      status: 'succeeded',
      payment_method: {
        customer_id: anna.id,
        type: 'card',
        processor: 'stripe',
        method_metadata: { brand: 'visa', last4: '0001', exp_year: 2040, wallet: null },
      },
    },
  })
  world.clock.advance(1000)
  await add(portal, 'tok_mastercard')
  world.clock.advance(1000)
  expect(await list()).toEqual(['0001 default', '0002'])
  const third = await kept(portal, 'tok_wallet', true)
  expect(await list()).toEqual(['0001', '0002', '0003 default'])
  expect((await api.call(getCustomer, { params: { id: anna.id } })).default_payment_method_id).toBe(third)
  expect((await portal.call(listPortalPaymentMethods, {})).items.map(({ id }) => id)).toContain(third)
  expect((await events('customer.updated')).map(({ data }) => data.default_payment_method_id)).toEqual([expect.any(String), third])
  await hear()
  expect(await list()).toHaveLength(3)
  expect((await readBooks(world, organization.id)).charges).toEqual([])
  // A setup is not listed as a payment.
  expect((await api.call(listPayments, {})).items).toEqual([])
})

test('rejects declined and unknown cards with the reason, and limits failed setups per hour', async () => {
  const { portal, list, session, anna } = await open()
  expect(await add(portal, 'tok_lost_card')).toMatchObject({ status: 400, body: { error: 'PaymentMethodSetupFailed', detail: 'The card was declined.' } })
  expect(await add(portal, 'tok_nonsense')).toMatchObject({ status: 400, body: { detail: 'There is no such token.' } })
  const wrong = async (body: object) => (await portal.sendRaw(addPortalPaymentMethod, { body })).status
  expect(await wrong({ ...wish('tok_visa').body, return_url: 'javascript:alert(1)' })).toBe(422)
  expect(await wrong({ confirmation_token_id: 'tok_visa', return_url: 'https://shop.example' })).toBe(422)
  for (let at = 0; at < 8; at++) expect((await add(portal, 'tok_do_not_honor')).status).toBe(400)
  expect(errorOf(await add(portal, 'tok_visa'))).toBe('429 TooManyRequests')
  expect(await list()).toEqual([])
  world.clock.advance(3_601_000)
  expect((await add(await session(anna.id), 'tok_visa')).status).toBe(201)
})

test('saves a card once, and only after its 3-D Secure challenge has succeeded', async () => {
  const { portal, list, session, api } = await open()
  const answer = await add(portal, 'tok_3ds', true)
  expect(answer).toMatchObject({ status: 201, body: { status: 'requires_action', client_secret: expect.any(String) as string } })
  const { client_secret, setup_intent_id } = asked(answer)
  const confirm = (client = portal) => client.send(confirmPortalPaymentMethod, { body: { setup_intent_id, set_default: true } })
  expect((await confirm()).body).toEqual({ status: 'requires_action', client_secret })
  expect(await list()).toEqual([])
  const bob = await session((await api.call(createCustomer, { body: { email: 'bob@people.test' } })).id)
  expect(errorOf(await confirm(bob))).toBe('403 CustomerNotReady')
  await processor.completeAction(client_secret, true)
  const answers = await Promise.all([confirm(), confirm(), confirm(), hear()])
  for (const one of answers.slice(0, 3)) expect(one).toMatchObject({ status: 201, body: { status: 'succeeded', payment_method: { type: 'card' } } })
  expect(await list()).toEqual(['0020 default'])
  const refused = await add(portal, 'tok_3ds:other')
  await processor.completeAction(asked(refused).client_secret, false)
  const failed = await portal.send(confirmPortalPaymentMethod, { body: { setup_intent_id: asked(refused).setup_intent_id, set_default: false } })
  expect(errorOf(failed)).toBe('400 PaymentMethodSetupFailed')
  expect(await list()).toEqual(['0020 default'])
})

test('saves the card of a customer who never returns after 3-D Secure, and cancels an unanswered challenge after an hour', async () => {
  const { portal, list, anna } = await open()
  await kept(portal, 'tok_visa')
  world.clock.advance(1000)
  const { client_secret, setup_intent_id } = asked(await add(portal, 'tok_3ds'))
  await processor.completeAction(client_secret, true)
  await hear()
  expect(await list()).toEqual(['0001 default', '0020'])
  // The latest request decides whether the method becomes the default.
  expect((await portal.call(confirmPortalPaymentMethod, { body: { setup_intent_id, set_default: true } })).status).toBe('succeeded')
  expect(await list()).toEqual(['0001', '0020 default'])
  const left = asked(await add(portal, 'tok_3ds:left'))
  world.clock.advance(3_700_000)
  await deployment.sweep('billing.follow_payments')
  await expect(processor.completeAction(left.client_secret, true)).rejects.toMatchObject({ code: 'intent_canceled' })
  expect(await rowsOf(`select 1 from payments where customer_id = $1 and status = 'pending'`, [anna.id])).toEqual([])
})

test('saves a card once or not at all if the process crashes at any step', async () => {
  const clean = openLife(null)
  const outcomes: string[] = []
  for (let point = 0; point === 0 || point <= clean.effects.length; point++) {
    const { anna, list, organization } = await open()
    // Crashes after each effect, which is also before the next one.
    const life = point === 0 ? clean : openLife({ point, side: 'after' })
    const { gateways, platform } = deployment.deps
    // Makes the same calls as the API handler.
    const doomed = { ...deployment.deps, transact: life.around(world.transact), gateways: { ...gateways, payments: life.watched(gateways.payments) } }
    const scope = within(organization.id, 'portal', 'phase2')
    const actor = { organization_id: organization.id, customer_id: anna.id, member_id: null } as PortalActor
    life.begin()
    let intended: Intended | undefined
    const answer = await (async () => {
      intended = await doomed.transact((tx) => begin(tx, scope, platform, 'test', actor, wish('tok_visa').body))
      return proceed(doomed, 'tok_visa', intended)
    })().catch(() => undefined)
    world.clock.advance(61_000)
    await deployment.sweep('billing.follow_payments')
    await hear()
    const theirs = await rowsOf(`select 1 from test_processor.intents where customer = $1 and status = 'succeeded'`, [anna.id])
    expect((await list()).length, `after ${life.effects.at(-1)}`).toBe(theirs.length)
    if (answer) expect(theirs).toHaveLength(1)
    expect(await rowsOf(`select 1 from payments where customer_id = $1 and status = 'pending'`, [anna.id])).toEqual([])
    outcomes.push(theirs.length === 1 ? 'kept' : 'nothing')
    // A repeated request with the same idempotency key continues at the crashed step, and never saves a second card.
    if (intended) await proceed(deployment.deps, 'tok_visa', intended)
    expect(await list()).toHaveLength(theirs.length)
  }
  expect(clean.effects.filter((effect) => effect.startsWith('processor'))).toEqual(['processor.createIntent', 'processor.confirmIntent'])
  expect(new Set(outcomes)).toEqual(new Set(['kept', 'nothing']))
})

test('charges open orders at once with a new default card, and records the trigger [retry_payment_method_update]', async () => {
  const plan = await plans.open({ card: 'tok_declined_later' })
  await plans.until(await plan.end())
  const portal = await plan.portal()
  expect((await plan.seen()).status).toBe('past_due')
  const order = (await plan.orders())[1]!
  await kept(portal, 'tok_mastercard', true)
  await deployment.work()
  expect((await plan.seen()).status).toBe('active')
  expect((await plan.attempts(order.id)).map(({ status, trigger }) => [status, trigger])).toEqual([
    ['failed', 'subscription_cycle'],
    ['succeeded', 'retry_payment_method_update'],
  ])
  // The subscription uses the default method and has none of its own.
  expect((await plan.row()).payment_method_id).toBeNull()
  await plans.retire()
})

test('treats a processing debit that fails as a failed payment as soon as the result is known', async () => {
  const plan = await plans.open()
  const portal = await plan.portal()
  await kept(portal, 'tok_processing_fails', true)
  await plans.until(await plan.end())
  const order = (await plan.orders())[1]!
  expect((await plan.attempts(order.id)).map(({ status }) => status)).toEqual(['pending'])
  await plans.until(new Date(world.clock.wall().getTime() + 10 * 60_000))
  expect((await plan.attempts(order.id)).map(({ status, decline_reason }) => [status, decline_reason])).toEqual([['failed', 'insufficient_funds']])
  expect((await plan.seen()).status).toBe('past_due')
  await plans.retire()
})

test('deletes a deleted customer’s cards here and at the processor', async () => {
  const plan = await plans.open()
  const portal = await plan.portal()
  await kept(portal, 'tok_mastercard')
  // A payment method that is not a card has no display data.
  await kept(portal, 'tok_processing')
  expect((await plan.api.send(deleteCustomer, { params: { id: plan.customer.id }, query: { anonymize: 'true' } })).status).toBe(204)
  await deployment.work()
  expect((await forgotten(plan.customer.id)).toSorted()).toEqual(['tok_mastercard', 'tok_processing', 'tok_visa'])
  const left = await rowsOf(
    'select method_metadata, fingerprint, deleted_at is null as living from payment_methods where customer_id = $1 order by created_at, id',
    [plan.customer.id],
  )
  expect(left).toEqual([{}, {}, null].map((method_metadata) => ({ method_metadata, fingerprint: null, living: false })))
  await plans.retire()
})

test('discards a payment method that the bank confirms after its customer was deleted', async () => {
  const { portal, api, anna } = await open()
  const { client_secret } = asked(await add(portal, 'tok_3ds'))
  await api.call(deleteCustomer, { params: { id: anna.id }, query: { anonymize: 'true' } })
  await deployment.work()
  await processor.completeAction(client_secret, true)
  await hear()
  expect(await forgotten(anna.id)).toEqual(['tok_3ds'])
  expect(await rowsOf('select 1 from payment_methods where customer_id = $1 and (deleted_at is null or fingerprint is not null)', [anna.id])).toEqual([])
})

test('allows the deletion of a card that is no longer needed: for free subscriptions and those that end', async () => {
  for (const how of ['free', 'ends'] as const) {
    const plan = await plans.open(how === 'free' ? { price: 0 } : {})
    const portal = await plan.portal()
    if (how === 'free') await kept(portal, 'tok_visa')
    else await plan.change({ cancel_at_period_end: true })
    const [only] = (await portal.call(listPortalPaymentMethods, {})).items
    expect([how, (await portal.send(deletePortalPaymentMethod, { params: { id: only!.id } })).status]).toEqual([how, 204])
    await plans.retire()
  }
})

test('keeps the card of a subscription that ends and still owes money', async () => {
  const plan = await plans.open({ card: 'tok_declined_later' })
  await plans.until(await plan.end())
  expect((await plan.seen()).status).toBe('past_due')
  await plan.change({ cancel_at_period_end: true })
  const portal = await plan.portal()
  const [only] = (await portal.call(listPortalPaymentMethods, {})).items
  const drop = () => portal.send(deletePortalPaymentMethod, { params: { id: only!.id } })
  expect(errorOf(await drop())).toBe('400 PaymentMethodInUseByActiveSubscription')
  await rowsOf(`update orders set status = 'void' where subscription_id = $1 and status = 'pending'`, [plan.id])
  expect((await drop()).status).toBe(204)
  await plans.retire()
})

test('refuses to delete the only card of a subscription; otherwise another card replaces it and the processor deletes it', async () => {
  const plan = await plans.open()
  const portal = await plan.portal()
  const first = (await portal.call(listPortalPaymentMethods, {})).items[0]!.id
  const drop = (id: string, client = portal) => client.send(deletePortalPaymentMethod, { params: { id } })
  expect(errorOf(await drop(first))).toBe('400 PaymentMethodInUseByActiveSubscription')
  expect(await forgotten(plan.customer.id)).toEqual([])
  const second = await kept(portal, 'tok_mastercard')
  expect((await drop(first)).status).toBe(204)
  expect(await forgotten(plan.customer.id)).toEqual([])
  await deployment.work()
  expect(await forgotten(plan.customer.id)).toEqual(['tok_visa'])
  expect((await plan.api.call(getCustomer, { params: { id: plan.customer.id } })).default_payment_method_id).toBe(second)
  for (const id of [first, newId(world.clock.wall()), await kept((await open()).portal, 'tok_visa')])
    expect(errorOf(await drop(id))).toBe('404 ResourceNotFound')
  // After the own card of a subscription is deleted, the subscription uses the default.
  const other = await plan.buy('tok_visa:own')
  const { payment_method_id: own } = await plan.row(other)
  expect(own).not.toBeNull()
  expect((await drop(own!)).status).toBe(204)
  expect((await plan.row(other)).payment_method_id).toBeNull()
  await plans.until(await plan.end())
  const renewal = (await plan.orders())[1]!
  expect(renewal.status).toBe('paid')
  expect((await plan.attempts(renewal.id)).map((one) => ('method_metadata' in one ? one.method_metadata.last4 : null))).toEqual(['0002'])
  expect(await forgotten(plan.customer.id)).toEqual(['tok_visa', 'tok_visa:own'])
  await plans.retire()
})

test('deletes the only payment method if no subscription needs it, and leaves no default', async () => {
  const { portal, list, anna, api } = await open()
  const id = await kept(portal, 'tok_visa')
  expect((await portal.send(deletePortalPaymentMethod, { params: { id } })).status).toBe(204)
  expect(await list()).toEqual([])
  expect((await api.call(getCustomer, { params: { id: anna.id } })).default_payment_method_id).toBeNull()
})

test('lets a running charge finish with its deleted method, and deletes the method at the processor afterwards', async () => {
  const plan = await plans.open()
  await rowsOf(`update test_processor.methods set token = 'tok_timeout_then_nothing' where customer = $1`, [plan.customer.id])
  const portal = await plan.portal()
  const other = await kept(portal, 'tok_mastercard')
  const first = (await portal.call(listPortalPaymentMethods, {})).items.find(({ id }) => id !== other)!.id
  plans.moveTo(await plan.end())
  await deployment.sweep('billing.renew')
  const later = await plan.portal()
  const order = (await plan.orders())[1]!
  expect((await plan.attempts(order.id)).map(({ status }) => status)).toEqual(['pending'])
  expect((await later.send(deletePortalPaymentMethod, { params: { id: first } })).status).toBe(204)
  await deployment.work()
  expect(await forgotten(plan.customer.id)).toEqual([])
  await plans.until(new Date(world.clock.business().getTime() + 120_000))
  expect((await plan.attempts(order.id)).map((one) => [one.status, 'method_metadata' in one ? one.method_metadata.last4 : null])).toEqual([
    ['succeeded', '0031'],
  ])
  expect((await plan.seen()).status).toBe('active')
  expect(await forgotten(plan.customer.id)).toEqual(['tok_timeout_then_nothing'])
  await plans.retire()
})

test('charges a renewal once, with either card, if the deletion of a card races the renewal [race]', async () => {
  const rounds = 8
  const plan = await plans.open()
  const charged = new Set<string>()
  for (let round = 0; round < rounds; round++) {
    await plans.retire()
    const portal = await plan.portal()
    // In every other round the card belongs to the subscription, otherwise it is the default.
    const next = await kept(portal, `tok_visa:${round}`, round % 2 === 0)
    if (round % 2 === 1) await rowsOf('update subscriptions set payment_method_id = $2 where id = $1', [plan.id, next])
    await deployment.work()
    const before = (await plan.orders()).length
    plans.moveTo(await plan.end())
    await rowsOf('update subscriptions set due_at = current_period_end where id = $1', [plan.id])
    const [lease] = await claim(deployment.deps.transact, 'subscriptions', { holder: 'test', limit: 1, lease_ms: sweeps['billing.renew'].lease_ms })
    const late = async () => {
      for (let at = 0; at < (round % 4) * 3; at++) await deployment.deps.db.q.selectFrom('customers').select('id').limit(1).execute()
      await renew(deployment.deps, lease!)
    }
    const [answer] = await Promise.all([(await plan.portal()).send(deletePortalPaymentMethod, { params: { id: next } }), late()])
    expect(answer.status).toBe(204)
    await deployment.work()
    const orders = await plan.orders()
    expect(orders.length, `round ${round}`).toBe(before + 1)
    expect(orders.at(-1)!.status, `round ${round}`).toBe('paid')
    expect((await plan.seen()).status, `round ${round}`).toBe('active')
    expect((await plan.attempts(orders.at(-1)!.id)).length, `round ${round}`).toBe(1)
    expect((await forgotten(plan.customer.id)).length, `round ${round}`).toBe(round + 1)
    const [paidWith] = await rowsOf<{ gone: boolean }>(
      `select m.deleted_at is not null as gone from payments p join payment_methods m on m.id = p.payment_method_id where p.order_id = $1`,
      [orders.at(-1)!.id],
    )
    charged.add(paidWith!.gone ? 'charged first' : 'deleted first')
  }
  process.stdout.write(`delete against renew: ${rounds} rounds, ${[...charged].toSorted().join(' and ')}\n`)
  await plans.retire()
})
