import {
  confirmClientCheckout,
  confirmPortalPayment,
  createCheckout,
  createCustomer,
  createCustomerSession,
  createMember,
  createProduct,
  getOrder,
  getPortalPaymentStatus,
  listCustomerMembers,
  listPayments,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openSales } from '../../../../test/harness/sales.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { openTestProcessor } from '../../../gateways/payments/test/processor.ts'
import { newId } from '../../../kernel/ids.ts'
import { regularWork } from '../../../main/wire.ts'
import { orderPaymentSettled } from '../invoicing/collecting.ts'

let world: World
let sales: ReturnType<typeof openSales>
let deployment: Awaited<ReturnType<typeof openDeployment>>
beforeAll(async () => {
  world = await openWorld()
  sales = openSales(world)
  deployment = await openDeployment(world, openLife(null))
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

const errorOf = (answer: { status: number; body: unknown }) => `${answer.status} ${(answer.body as { error: string }).error}`
const locs = (answer: { body: unknown }) => (answer.body as { detail: { loc: (string | number)[] }[] }).detail.map(({ loc }) => loc.join('.'))

/** A customer with a pending order of 10.00. */
const open = async () => {
  const shop = await world.shop()
  const { api, organization } = shop
  const anna = await api.call(createCustomer, { body: { email: 'anna@people.test' } })
  const order = await sales.order(anna, { status: 'pending', billing_reason: 'subscription_cycle', next_payment_attempt_at: world.clock.business() })
  const session = async (customer_id: string, extra: Record<string, string> = {}) =>
    world.client({ token: (await api.call(createCustomerSession, { body: { customer_id } })).token }, extra)
  const portal = await session(anna.id)
  const params = { id: order.id }
  return {
    ...shop,
    anna,
    order,
    session,
    params,
    portal,
    pay: (body: Record<string, unknown>, client = portal) => client.send(confirmPortalPayment, { params, body: body }),
    seen: () => api.call(getOrder, { params }),
    attempts: async () =>
      (await api.call(listPayments, { query: { order_id: [order.id] } })).items.map(({ status, amount, trigger }) => [status, amount, trigger]),
    /** All charges in the records of the test processor. */
    charged: async () => {
      const processor = openTestProcessor({ url: world.config.database_url, environment: 'sandbox', clock: world.clock, log: world.base.log })
      const { charges } = await processor.books()
      await processor.close()
      return charges.filter(({ metadata }) => metadata.organization_id === organization.id).map(({ amount }) => amount)
    },
    /** The id of a saved card of the customer, from a subscription purchase. */
    kept: async (card = 'tok_visa') => {
      const { id } = await api.call(createProduct, {
        body: { name: 'Plan', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 500, price_currency: 'usd' }] },
      })
      const { client_secret } = await api.call(createCheckout, { body: { products: [id], customer_id: anna.id } })
      await world.client().call(confirmClientCheckout, {
        params: { client_secret },
        body: { customer_billing_address: { country: 'DE' }, confirmation_token_id: card },
      })
      await deployment.work()
      const { rows } = await world.database.owner((owner) => owner.query<{ id: string }>('select id from payment_methods where customer_id = $1', [anna.id]))
      return rows[0]!.id
    },
  }
}
const succeeded = { status: 'succeeded', client_secret: null, publishable_key: null, error: null }

test('pays a pending order with a new card once and emits its events once', async () => {
  const { organization, pay, seen, attempts, charged, events, portal, params } = await open()
  expect(await pay({ confirmation_token_id: 'tok_visa' })).toMatchObject({ status: 200, body: succeeded })
  await deployment.work()
  expect(await seen()).toMatchObject({ status: 'paid', paid: true, next_payment_attempt_at: null, modified_at: expect.any(String) as string })
  expect(await attempts()).toEqual([['succeeded', 1000, 'retry_customer']])
  expect(await portal.call(getPortalPaymentStatus, { params })).toEqual({ status: 'succeeded', error: null })
  expect(errorOf(await pay({ confirmation_token_id: 'tok_visa' }))).toBe('422 OrderNotEligibleForRetry')
  const { rows } = await world.database.owner((owner) => owner.query<{ id: string }>('select id from payments where organization_id = $1', [organization.id]))
  await orderPaymentSettled(deployment.deps, { organization_id: organization.id, payment_id: rows[0]!.id })
  expect((await events('order.updated', 'order.paid')).map(({ type }) => type)).toEqual(['order.updated', 'order.paid'])
  expect(await charged()).toEqual([1000])
})

test('pays with a saved card of the customer, and requires either a token or a saved card', async () => {
  const { pay, kept, seen, charged } = await open()
  const payment_method_id = await kept()
  const other = await (await open()).kept()
  for (const id of [newId(world.clock.wall()), other]) expect(locs(await pay({ payment_method_id: id }))).toEqual(['body.payment_method_id'])
  expect(locs(await pay({}))).toEqual(['body.confirmation_token_id'])
  expect(locs(await pay({ payment_method_id, confirmation_token_id: 'tok_visa' }))).toEqual(['body.confirmation_token_id'])
  expect((await pay({ payment_method_id })).body).toEqual(succeeded)
  expect((await seen()).status).toBe('paid')
  expect(await charged()).toEqual([500, 1000])
})

test('returns a decline as the result of the payment, and another card can pay', async () => {
  const { pay, seen, attempts, portal, params } = await open()
  const declined = { status: 'failed', client_secret: null, publishable_key: null, error: 'The card has insufficient funds.' }
  expect(await pay({ confirmation_token_id: 'tok_insufficient_funds' })).toMatchObject({ status: 200, body: declined })
  await deployment.work()
  expect((await seen()).status).toBe('pending')
  expect(await portal.call(getPortalPaymentStatus, { params })).toMatchObject({ status: 'failed', error: declined.error })
  expect(await pay({ confirmation_token_id: 'tok_nonsense' })).toMatchObject({ status: 200, body: { status: 'failed', error: 'There is no such token.' } })
  expect((await pay({ confirmation_token_id: 'tok_visa' })).body).toEqual(succeeded)
  expect((await attempts()).map(([status]) => status)).toEqual(['succeeded', 'failed', 'failed'])
})

test('refuses a second attempt while one is processing, and marks the order paid when the first succeeds', async () => {
  const { pay, seen, charged } = await open()
  expect((await pay({ confirmation_token_id: 'tok_processing' })).body).toMatchObject({ status: 'processing', client_secret: null, error: null })
  expect(errorOf(await pay({ confirmation_token_id: 'tok_visa' }))).toBe('409 PaymentAlreadyInProgress')
  world.clock.advance(61_000)
  await deployment.sweep()
  await deployment.work()
  expect((await seen()).status).toBe('paid')
  expect(await charged()).toEqual([1000])
})

test('returns the client secret if the bank requires an action, and marks the order paid afterwards', async () => {
  const { pay, seen } = await open()
  const { body } = await pay({ confirmation_token_id: 'tok_3ds' })
  expect(body).toMatchObject({ status: 'requires_action', client_secret: expect.any(String) as string, error: null })
  const processor = openTestProcessor({ url: world.config.database_url, environment: 'sandbox', clock: world.clock, log: world.base.log })
  await processor.completeAction((body as { client_secret: string }).client_secret, true)
  await processor.close()
  await regularWork.find(({ name }) => name === 'billing.hear')!.run(deployment.deps)
  await deployment.work()
  expect((await seen()).status).toBe('paid')
})

test('charges once when six payments of the same order race', async () => {
  const { pay, charged, attempts } = await open()
  const answers = await Promise.all(Array.from({ length: 6 }, (_, at) => pay({ confirmation_token_id: `tok_visa:${at}` })))
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
  for (const refused of answers.filter(({ status }) => status !== 200))
    expect(['409 PaymentAlreadyInProgress', '422 OrderNotEligibleForRetry']).toContain(errorOf(refused))
  expect(await charged()).toEqual([1000])
  expect(await attempts()).toHaveLength(1)
})

test('makes one attempt for two requests with the same idempotency key', async () => {
  const { anna, session, pay, attempts } = await open()
  const keyed = await session(anna.id, { 'idempotency-key': 'again' })
  for (const _ of [1, 2]) expect((await pay({ confirmation_token_id: 'tok_insufficient_funds' }, keyed)).body).toMatchObject({ status: 'failed' })
  expect(await attempts()).toHaveLength(1)
  expect(locs(await pay({ confirmation_token_id: 'tok_visa' }, keyed))).toEqual(['header.idempotency-key'])
})

test('refuses more than five attempts by the customer for one order', async () => {
  const { pay, attempts } = await open()
  for (let at = 0; at < 5; at++) expect((await pay({ confirmation_token_id: 'tok_insufficient_funds' })).status).toBe(200)
  expect(errorOf(await pay({ confirmation_token_id: 'tok_visa' }))).toBe('429 ManualRetryLimitExceeded')
  expect(await attempts()).toHaveLength(5)
})

test('refuses to pay an order that is not pending', async () => {
  const { anna, portal } = await open()
  for (const status of ['paid', 'refunded', 'void', 'draft'] as const) {
    const { id } = await sales.order(anna, { status })
    const answer = await portal.send(confirmPortalPayment, { params: { id }, body: { confirmation_token_id: 'tok_visa' } })
    expect([status, errorOf(answer)]).toEqual([status, '422 OrderNotEligibleForRetry'])
  }
})

test('refuses a payment if the seller cannot take payments', async () => {
  const { organization, pay, attempts } = await open()
  await world.database.owner((owner) => owner.query(`update organizations set status = 'denied' where id = $1`, [organization.id]))
  expect(errorOf(await pay({ confirmation_token_id: 'tok_visa' }))).toBe('422 OrderNotEligibleForRetry')
  expect(await attempts()).toEqual([])
})

test('returns 403 to a plain member and 404 for the order of another customer', async () => {
  const { api, portal, session, pay, attempts } = await open()
  const bert = await api.call(createCustomer, { body: { email: 'bert@people.test' } })
  const body = { confirmation_token_id: 'tok_visa' }
  const absent = await portal.send(confirmPortalPayment, { params: { id: newId(world.clock.wall()) }, body })
  const answer = await pay(body, await session(bert.id))
  expect([answer.status, answer.body]).toEqual([404, absent.body])
  expect((await pay(body, world.client())).status).toBe(401)
  const team = await api.call(createCustomer, { body: { type: 'team', email: 'team@people.test', name: 'Works' } })
  const member = await api.call(createMember, { params: { id: team.id }, body: { email: 'uma@people.test' } })
  const [owner] = (await api.call(listCustomerMembers, { params: { id: team.id }, query: { role: 'owner' } })).items
  const theirs = await sales.order(team, { status: 'pending' })
  const as = async (member_id: string) => world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: team.id, member_id } })).token })
  const by = async (member_id: string) => (await as(member_id)).send(confirmPortalPayment, { params: { id: theirs.id }, body })
  expect(errorOf(await by(member.id))).toBe('403 NotPermitted')
  expect((await by(owner!.id)).body).toEqual(succeeded)
  expect(await attempts()).toEqual([])
})
