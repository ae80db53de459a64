import {
  confirmClientCheckout,
  createCheckout,
  createProduct,
  deleteCustomer,
  getCheckout,
  listOrders,
  listPayments,
  listSubscriptions,
  receiveProcessorEvent,
  type CheckoutPublicConfirmed,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { eventually, exchange, openWorld, type World } from '../../../../test/harness/world.ts'
import { openTestProcessor, type ProcessorCall, type TestProcessor } from '../../../gateways/payments/test/processor.ts'
import { openPayments } from '../../../gateways/payments/open.ts'
import { newId } from '../../../kernel/ids.ts'
import { openWorker, regularWork } from '../../../main/wire.ts'
import { findAccountAnywhere, openAccount } from './attempts.sql.ts'
import { follow } from './attempts.ts'

let world: World
let processor: TestProcessor
let deployment: Awaited<ReturnType<typeof openDeployment>>
beforeAll(async () => {
  world = await openWorld()
  processor = openTestProcessor({ url: world.config.database_url, environment: 'sandbox', clock: world.clock, log: world.base.log })
  deployment = await openDeployment(world, openLife(null))
})
afterAll(async () => {
  await processor.close()
  await deployment.close()
  await world.close()
})

const second = 1000
const hour = 3600 * second
const price = { amount_type: 'fixed' as const, price_amount: 2900, price_currency: 'usd' as const }
const errorOf = (answer: { status: number; body: unknown }) => `${answer.status} ${(answer.body as { error: string }).error}`

const open = async () => {
  const shop = await world.shop()
  const { api } = shop
  const once = await api.call(createProduct, { body: { name: 'Guide', prices: [price] } })
  const monthly = await api.call(createProduct, { body: { name: 'Plan', recurring_interval: 'month', prices: [price] } })
  const checkout = (product = once.id) => api.call(createCheckout, { body: { products: [product] } })
  const confirm = ({ client_secret }: { client_secret: string }, confirmation_token_id: string, client = world.client()) =>
    client.send(confirmClientCheckout, {
      params: { client_secret },
      body: { customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' }, confirmation_token_id },
    })
  return {
    ...shop,
    once,
    monthly,
    checkout,
    confirm,
    /** Confirms a new checkout with this card and returns the checkout and the payment data sent to the buyer. */
    bought: async (card: string, product = once.id) => {
      const made = await checkout(product)
      const answer = await confirm(made, card)
      expect(answer.status).toBe(200)
      return { ...made, told: (answer.body as unknown as CheckoutPublicConfirmed).payment_processor_metadata }
    },
    /** State of a checkout: its status, the statuses of its payments, and the number of its orders. */
    stands: async ({ id }: { id: string }) => [
      (await api.call(getCheckout, { params: { id } })).status,
      (await api.call(listPayments, { query: { checkout_id: [id] } })).items.map(({ status }) => status).join(),
      (await api.call(listOrders, { query: { checkout_id: [id] } })).items.length,
    ],
  }
}

/** The payment account of an organization, with its pending webhook events exactly as the processor would post them. */
const accountOf = async (organization_id: string) => {
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ id: string }>('select id from payment_accounts where organization_id = $1', [organization_id]),
  )
  const row = (await findAccountAnywhere(deployment.deps.db, rows[0]!.id))!
  return { id: row.id, ...processor.account(row.id, openAccount(world.platform.sealer, row).secret) }
}
const address = (organization_id: string, account_id: string) => `/v1/payment-accounts/${organization_id}/${account_id}/events`
const post = async (path: string, headers: Readonly<Record<string, string>>, body: string) => {
  const { status, text } = await exchange(world.port, receiveProcessorEvent.method, path, { ...headers }, body)
  return { status, body: JSON.parse(text) as unknown }
}
/** Posts every due event to its endpoint and returns their number. */
const deliver = async (organization_id: string) => {
  const account = await accountOf(organization_id)
  const callbacks = await account.takeCallbacks(100)
  for (const { headers, body } of callbacks) expect((await post(address(organization_id, account.id), headers, body)).status).toBe(200)
  await deployment.work()
  return callbacks.length
}
const tidy = async () => {
  await deployment.sweep()
  await deployment.work()
}
/** The amounts that the test processor has charged for an organization, according to its own records. */
const charged = async (organization_id: string) =>
  (await processor.books()).charges.filter(({ metadata }) => metadata.organization_id === organization_id).map(({ amount }) => amount)

test('waits for 3-D Secure and completes the purchase after the bank approved it', async () => {
  const { organization, bought, stands, confirm, events } = await open()
  const made = await bought('tok_3ds')
  expect(made.told).toMatchObject({ intent_status: 'requires_action', intent_client_secret: expect.any(String) as string })
  await deployment.work()
  expect(await stands(made)).toEqual(['confirmed', 'pending', 0])
  // A buyer who closed the page gets the same 3-D Secure challenge again.
  const again = await confirm(made, 'tok_3ds')
  expect(again.body).toMatchObject({ payment_processor_metadata: made.told })
  await processor.completeAction(made.told.intent_client_secret!, true)
  expect(await deliver(organization.id)).toBe(2)
  expect(await stands(made)).toEqual(['succeeded', 'succeeded', 1])
  expect(await charged(organization.id)).toEqual([2900])
  expect(await events('order.paid')).toHaveLength(1)
})

test('lets the buyer pay with another card after a refused 3-D Secure challenge', async () => {
  const { organization, bought, stands, confirm } = await open()
  const made = await bought('tok_3ds')
  await processor.completeAction(made.told.intent_client_secret!, false)
  await deliver(organization.id)
  expect(await stands(made)).toEqual(['open', 'failed', 0])
  expect((await confirm(made, 'tok_visa')).status).toBe(200)
  await deployment.work()
  expect(await stands(made)).toEqual(['succeeded', 'succeeded,failed', 1])
  expect(await charged(organization.id)).toEqual([2900])
})

test('starts a subscription once the bank has approved the card', async () => {
  const { organization, api, bought, monthly } = await open()
  const made = await bought('tok_3ds', monthly.id)
  await deployment.work()
  expect((await api.call(listSubscriptions, {})).items).toEqual([])
  await processor.completeAction(made.told.intent_client_secret!, true)
  await deliver(organization.id)
  expect((await api.call(listSubscriptions, {})).items).toMatchObject([{ status: 'active', checkout_id: made.id }])
})

test('cancels an attempt whose 3-D Secure challenge is not answered within an hour', async () => {
  const { organization, bought, stands } = await open()
  const made = await bought('tok_3ds')
  world.clock.advance(59 * 60 * second)
  await tidy()
  expect(await stands(made)).toEqual(['confirmed', 'pending', 0])
  world.clock.advance(61 * 60 * second)
  await tidy()
  expect(await stands(made)).toEqual(['open', 'failed', 0])
  await expect(processor.completeAction(made.told.intent_client_secret!, true)).rejects.toThrow('This intent is canceled.')
  expect(await charged(organization.id)).toEqual([])
})

test('waits for a bank debit that settles later, and reopens the checkout if the debit fails', async () => {
  const { organization, bought, stands } = await open()
  const pays = await bought('tok_processing')
  const fails = await bought('tok_processing_fails')
  for (const made of [pays, fails]) expect(made.told.intent_status).toBe('processing')
  await deployment.work()
  world.clock.advance(61 * second)
  await deliver(organization.id)
  expect(await stands(pays)).toEqual(['succeeded', 'succeeded', 1])
  expect(await stands(fails)).toEqual(['open', 'failed', 0])
  expect(await charged(organization.id)).toEqual([2900])
})

test('ends a subscription at once if its customer was deleted while the bank debit was processing, and saves no payment method', async () => {
  const { api, monthly, bought, stands } = await open()
  const made = await bought('tok_processing', monthly.id)
  const { customer_id } = await api.call(getCheckout, { params: { id: made.id } })
  await api.call(deleteCustomer, { params: { id: customer_id! }, query: { anonymize: 'true' } })
  await deployment.work()
  world.clock.advance(61 * second)
  await tidy()
  expect(await stands(made)).toEqual(['succeeded', 'succeeded', 1])
  expect((await api.call(listSubscriptions, { query: { active: false } })).items.map(({ status }) => status)).toEqual(['canceled'])
  const { rows } = await world.database.owner((owner) =>
    owner.query(
      `select p.processor_method, m.fingerprint, m.deleted_at is not null as gone, t.forgotten_at is not null as forgotten
       from payments p join payment_methods m on m.customer_id = p.customer_id join test_processor.methods t on t.id = m.processor_method_id
       where p.customer_id = $1`,
      [customer_id],
    ),
  )
  expect(rows).toEqual([{ processor_method: null, fingerprint: null, gone: true, forgotten: true }])
})

test('changes nothing if a buyer confirms again while a bank debit is processing, even after the idempotency key has expired', async () => {
  const { organization, checkout, confirm, stands } = await open()
  const made = await checkout()
  expect((await confirm(made, 'tok_processing')).status).toBe(200)
  // Delays the settlement by days, like a real bank, so that the idempotency key expires.
  const slow = (days: number) =>
    world.database.owner((owner) =>
      owner.query(`update test_processor.intents set settles_at = settles_at + make_interval(days => $1) where settles_at is not null`, [days]),
    )
  await slow(3)
  world.clock.advance(30 * hour)
  expect((await confirm(made, 'tok_processing')).body).toMatchObject({ payment_processor_metadata: { intent_status: 'processing' } })
  await tidy()
  expect(await stands(made)).toEqual(['confirmed', 'pending', 0])
  world.clock.advance(72 * hour)
  await tidy()
  expect(await stands(made)).toEqual(['succeeded', 'succeeded', 1])
  expect(await charged(organization.id)).toEqual([2900])
})

for (const [card, told] of [
  ['tok_callback_twice', 2],
  ['tok_callback_late', 0],
  ['tok_callback_never', 0],
] as const)
  test(`fulfills a payment once, whether its event arrives twice, late or never: ${card}`, async () => {
    const { organization, bought, stands, events } = await open()
    const made = await bought(card)
    expect(await deliver(organization.id)).toBe(told)
    world.clock.advance(91 * second)
    expect(await deliver(organization.id)).toBe(card === 'tok_callback_late' ? 1 : 0)
    await tidy()
    expect(await stands(made)).toEqual(['succeeded', 'succeeded', 1])
    expect(await events('order.paid')).toHaveLength(1)
  })

test('finds the result of a bank debit by polling if no event arrives', async () => {
  const { organization, bought, stands } = await open()
  const made = await bought('tok_processing')
  await deployment.work()
  world.clock.advance(61 * second)
  // The event is lost in transit.
  expect(await (await accountOf(organization.id)).takeCallbacks(100)).toHaveLength(1)
  await tidy()
  expect(await stands(made)).toEqual(['succeeded', 'succeeded', 1])
})

test('accepts an event only with a fresh signature of its account, at the endpoint of that account', async () => {
  const { organization, bought, stands } = await open()
  const made = await bought('tok_processing')
  world.clock.advance(61 * second)
  const account = await accountOf(organization.id)
  const { headers, body } = (await account.takeCallbacks(1))[0]!
  const here = address(organization.id, account.id)
  const other = await open()
  await other.bought('tok_visa')
  const theirs = await accountOf(other.organization.id)
  const signature = headers['test-processor-signature']!
  const forged = { ...headers, 'test-processor-signature': signature.replace(/.$/, (last) => (last === '0' ? '1' : '0')) }
  const unsigned = { 'content-type': 'application/json' }
  for (const [where, how, what] of [
    [here, forged, body],
    [here, unsigned, body],
    [here, headers, body.replace('intent.succeeded', 'intent.failed')],
    [address(other.organization.id, theirs.id), headers, body],
  ] as const)
    expect(errorOf(await post(where, how, what))).toBe('403 ProcessorEventRefused')
  for (const where of [address(organization.id, theirs.id), address(other.organization.id, account.id), address(organization.id, newId(world.clock.wall()))])
    expect(errorOf(await post(where, headers, body))).toBe('404 ResourceNotFound')
  expect((await post(address(organization.id, 'x'), headers, body)).status).toBe(422)
  await deployment.work()
  expect(await stands(made)).toEqual(['confirmed', 'pending', 0])
  // An event with a valid signature is accepted repeatedly, until it is too old.
  for (const _ of [1, 2]) expect(await post(here, headers, body)).toEqual({ status: 200, body: { received: true } })
  await deployment.work()
  expect(await stands(made)).toEqual(['succeeded', 'succeeded', 1])
  world.clock.advance(301 * second)
  expect(errorOf(await post(here, headers, body))).toBe('403 ProcessorEventRefused')
})

test('completes the purchase and charges once if the response of the processor is lost after the charge', async () => {
  const { organization, bought, stands } = await open()
  const made = await bought('tok_charge_then_timeout')
  await deployment.work()
  expect(await stands(made)).toEqual(['succeeded', 'succeeded', 1])
  expect(await charged(organization.id)).toEqual([2900])
})

test('charges nothing if the request to the processor is lost; the buyer can retry, otherwise the attempt is canceled', async () => {
  const { organization, checkout, confirm, stands } = await open()
  const again = await checkout()
  expect((await confirm(again, 'tok_timeout_then_nothing')).body).toMatchObject({ payment_processor_metadata: { intent_status: 'requires_confirmation' } })
  expect(await stands(again)).toEqual(['confirmed', 'pending', 0])
  expect((await confirm(again, 'tok_timeout_then_nothing')).body).toMatchObject({ payment_processor_metadata: { intent_status: 'succeeded' } })
  const left = await checkout()
  await confirm(left, 'tok_timeout_then_nothing')
  world.clock.advance(15 * second)
  await tidy()
  expect(await stands(left)).toEqual(['confirmed', 'pending', 0])
  world.clock.advance(16 * second)
  await tidy()
  expect(await stands(left)).toEqual(['open', 'failed', 0])
  expect(await stands(again)).toEqual(['succeeded', 'succeeded', 1])
  expect(await charged(organization.id)).toEqual([2900])
})

/** Opens a deployment whose processor does not answer the calls that `misbehave` selects. */
const silent = async (misbehave: (call: ProcessorCall) => 'before' | 'after' | undefined) => {
  const payments = openPayments(world.config, { ...world.base, misbehave })
  const life = openLife(null)
  const deaf = await openDeployment(world, { ...life, watched: () => ({ ...payments, close: async () => undefined }) })
  return {
    ...deaf,
    close: async () => {
      await deaf.close()
      await payments.close()
    },
  }
}

for (const side of ['before', 'after'] as const)
  test(`retries a create request that got no answer (${side} the intent was created) under the same key, and leaves one intent`, async () => {
    const { organization, checkout, confirm, stands } = await open()
    const made = await checkout()
    const deaf = await silent((call) => (call === 'createIntent' ? side : undefined))
    expect((await confirm(made, 'tok_visa', deaf.client())).body).toMatchObject({ payment_processor_metadata: { intent_status: 'processing' } })
    await deaf.close()
    expect(await stands(made)).toEqual(['confirmed', 'pending', 0])
    world.clock.advance(31 * second)
    await tidy()
    // By now the intent exists but was never confirmed, so it is canceled.
    expect(await stands(made)).toEqual(['open', 'failed', 0])
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ status: string }>(`select status from test_processor.intents where metadata->>'organization_id' = $1`, [organization.id]),
    )
    expect(rows).toEqual([{ status: 'canceled' }])
    expect(await charged(organization.id)).toEqual([])
  })

for (const side of ['before', 'after'] as const)
  test(`looks up the intent by its metadata after 20 hours, when its key may have expired (answer lost ${side} the intent was created)`, async () => {
    const { organization, checkout, confirm, stands } = await open()
    const made = await checkout()
    const calls: string[] = []
    const deaf = await silent((call) => {
      calls.push(call)
      return call === 'createIntent' ? side : undefined
    })
    await confirm(made, 'tok_visa', deaf.client())
    world.clock.advance(20 * hour)
    calls.length = 0
    const { rows: payments } = await world.database.owner((owner) => owner.query<{ id: string }>('select id from payments where checkout_id = $1', [made.id]))
    await follow(deaf.deps, organization.id, payments[0]!.id)
    await deaf.close()
    expect(calls).toEqual(side === 'after' ? ['findIntents', 'readIntent', 'cancelIntent'] : ['findIntents'])
    await deployment.work()
    expect(await stands(made)).toEqual(['open', 'failed', 0])
    expect(await charged(organization.id)).toEqual([])
  })

test('polls a processor that does not answer at growing intervals, and keeps the attempt pending', async () => {
  const { checkout, confirm, stands } = await open()
  const made = await checkout()
  const deaf = await silent((call) => (call === 'confirmIntent' || call === 'readIntent' ? 'after' : undefined))
  expect((await confirm(made, 'tok_visa', deaf.client())).body).toMatchObject({ payment_processor_metadata: { intent_status: 'processing' } })
  const dueIn = async () => {
    const { rows } = await world.database.owner((owner) => owner.query<{ due_at: Date }>('select due_at from payments where checkout_id = $1', [made.id]))
    return Math.round((rows[0]!.due_at.getTime() - world.clock.wall().getTime()) / second)
  }
  const waits: number[] = []
  for (let round = 0; round < 4; round++) {
    world.clock.advance((await dueIn()) * second + second)
    await deaf.sweep()
    waits.push(await dueIn())
  }
  expect(waits.every((wait, at) => at === 0 || wait > waits[at - 1]! * 1.5)).toBe(true)
  await deaf.close()
  expect(await stands(made)).toEqual(['confirmed', 'pending', 0])
  world.clock.advance(hour)
  await tidy()
  expect(await stands(made)).toEqual(['succeeded', 'succeeded', 1])
})

test('fetches the events of the test processor in the worker', async () => {
  const { organization, bought, stands } = await open()
  const made = await bought('tok_3ds')
  await processor.completeAction(made.told.intent_client_secret!, true)
  await regularWork.find(({ name }) => name === 'billing.hear')!.run(deployment.deps)
  await deployment.work()
  expect(await stands(made)).toEqual(['succeeded', 'succeeded', 1])
  expect(await (await accountOf(organization.id)).takeCallbacks(100)).toEqual([])
  // A running worker fetches the events periodically.
  const other = await bought('tok_3ds')
  await processor.completeAction(other.told.intent_client_secret!, true)
  const worker = await openWorker(world.base)
  await eventually('the processor callback settled the payment', async () => (await stands(other))[0] === 'succeeded')
  await worker.close()
})
