import {
  confirmClientCheckout,
  connectPaymentAccount,
  createCheckout,
  createProduct,
  createRefund,
  getCheckout,
  getClientCheckout,
  getOrder,
  getPaymentAccount,
  listDisputes,
  listOrders,
  listRefunds,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openStripeTill } from '../../../../test/harness/processors.ts'
import { signed } from '../../../../test/harness/stripe.ts'
import { exchange, openClock, openWorld, type World } from '../../../../test/harness/world.ts'
import { readConfig } from '../../../platform/config.ts'

let world: World
let till: Awaited<ReturnType<typeof openStripeTill>>
let deployment: Awaited<ReturnType<typeof openDeployment>>
beforeAll(async () => {
  const clock = openClock()
  till = await openStripeTill(clock)
  world = await openWorld({ clock, settings: till.settings })
  deployment = await openDeployment(world, openLife(null))
})
afterAll(async () => {
  await deployment.close()
  await world.close()
  await till.close()
})

const errorOf = (answer: { status: number; body: unknown }) => `${answer.status} ${(answer.body as { error: string }).error}`

const open = async () => {
  const shop = await world.shop()
  const { api, organization } = shop
  const dashboard = await shop.dashboard()
  const params = { id: organization.id }
  const account = till.standIn.account()
  const { secret_key, publishable_key, webhook_secret } = account
  const connect = (more: object = {}) => dashboard.send(connectPaymentAccount, { params, body: { secret_key, publishable_key, ...more } })
  const product = await api.call(createProduct, {
    body: { name: 'Field guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] },
  })
  const checkout = () => api.call(createCheckout, { body: { products: [product.id] } })
  const confirm = ({ client_secret }: { client_secret: string }, confirmation_token_id: string) =>
    world.client().send(confirmClientCheckout, {
      params: { client_secret },
      body: { customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' }, confirmation_token_id },
    })
  return { ...shop, params, account, connect, keys: { secret_key, publishable_key, webhook_secret }, checkout, confirm }
}

test('connects an account after testing its key, encrypts the secrets and never shows them', async () => {
  const { api, params, account, connect, keys, organization } = await open()
  expect(errorOf(await api.send(getPaymentAccount, { params }))).toBe('404 ResourceNotFound')
  const answer = await connect({ webhook_secret: keys.webhook_secret })
  expect(answer.status).toBe(200)
  const shown = await api.call(getPaymentAccount, { params })
  expect(answer.body).toEqual(JSON.parse(JSON.stringify(shown)))
  expect(shown).toMatchObject({
    organization_id: organization.id,
    processor: 'stripe',
    processor_account_id: account.id,
    publishable_key: keys.publishable_key,
    secret_key_hint: `sk_test_…${keys.secret_key.slice(-4)}`,
    webhook_secret_hint: `whsec_…${keys.webhook_secret.slice(-4)}`,
    events_url: `https://bursar.test/v1/payment-accounts/${organization.id}/${shown.id}/events`,
  })
  const everything = await world.database.owner(async (owner) => {
    const accounts = await owner.query('select * from payment_accounts where organization_id = $1', [organization.id])
    const notes = await owner.query('select * from audit_log where organization_id = $1', [organization.id])
    const asked = await owner.query('select * from idempotency_keys')
    return JSON.stringify([accounts.rows, notes.rows, asked.rows, answer.body, world.lines])
  })
  for (const secret of [keys.secret_key, keys.webhook_secret]) expect(everything).not.toContain(secret)
})

test('rejects keys of the wrong mode, malformed keys and unknown keys, and answers 503 while the processor is down', async () => {
  const { api, connect, keys, params } = await open()
  expect(errorOf(await connect({ secret_key: keys.secret_key.replace('test', 'live') }))).toBe('422 RequestValidationError')
  expect(errorOf(await connect({ publishable_key: keys.publishable_key.replace('test', 'live') }))).toBe('422 RequestValidationError')
  expect(errorOf(await connect({ secret_key: keys.publishable_key }))).toBe('422 RequestValidationError')
  expect(errorOf(await connect({ secret_key: 'sk_test_nobodyknows' }))).toBe('400 PaymentAccountRefused')
  till.standIn.misbehave(() => 'broken')
  expect(errorOf(await connect())).toBe('503 ServiceUnavailable')
  till.standIn.misbehave(() => undefined)
  expect(errorOf(await api.send(getPaymentAccount, { params }))).toBe('404 ResourceNotFound')
})

test('updates the keys of an account that is connected again, and makes a new account the default', async () => {
  const { api, params, connect, keys } = await open()
  const first = (await connect({ webhook_secret: keys.webhook_secret })).body as unknown as { id: string }
  // If the request has no signing secret, the stored one stays.
  const again = (await connect()).body as unknown as { id: string; webhook_secret_hint: string }
  expect(again).toMatchObject({ id: first.id, webhook_secret_hint: `whsec_…${keys.webhook_secret.slice(-4)}` })
  const another = till.standIn.account()
  const { secret_key, publishable_key } = another
  expect((await connect({ secret_key, publishable_key })).body).toMatchObject({ processor_account_id: another.id, webhook_secret_hint: null })
  expect((await api.call(getPaymentAccount, { params })).id).not.toBe(first.id)
  expect((await connect()).body).toMatchObject({ id: first.id })
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ is_default: boolean }>('select is_default from payment_accounts where organization_id = $1', [params.id]),
  )
  expect(rows.filter(({ is_default }) => is_default)).toHaveLength(1)
  expect(rows).toHaveLength(2)
})

test('lets an admin connect an account, but not finance users, members or other organizations', async () => {
  const { organization, params, keys } = await open()
  const body = { secret_key: keys.secret_key, publishable_key: keys.publishable_key }
  for (const [role, expected] of [
    ['admin', 200],
    ['finance', 403],
    ['member', 403],
  ] as const) {
    const person = await world.person()
    await world.join(organization.id, person.id, role)
    const api = world.client({ cookie: await person.cookie() })
    expect((await api.send(connectPaymentAccount, { params, body })).status, role).toBe(expected)
  }
  const { api: stranger, dashboard } = await world.shop()
  expect(errorOf(await (await dashboard()).send(connectPaymentAccount, { params, body }))).toBe('404 ResourceNotFound')
  expect(errorOf(await stranger.send(getPaymentAccount, { params }))).toBe('404 ResourceNotFound')
})

test('returns the data that opens the payment form, and after the confirmation the data to continue the payment', async () => {
  const { connect, checkout, confirm, account, keys, api, organization } = await open()
  const before = await checkout()
  expect(before.payment_processor_metadata).toEqual({})
  await connect()
  const made = await checkout()
  expect(made).toMatchObject({ payment_processor: 'stripe', payment_processor_metadata: { publishable_key: keys.publishable_key } })
  const seen = await world.client().call(getClientCheckout, { params: { client_secret: made.client_secret } })
  expect(seen.payment_processor_metadata).toEqual({ payment_method_types: 'card link sepa_debit paypal', publishable_key: keys.publishable_key })
  expect(errorOf(await confirm(made, 'tok_visa'))).toBe('422 RequestValidationError')
  const answer = await confirm(made, account.token('pm_card_authenticationRequired'))
  const told = (answer.body as unknown as { payment_processor_metadata: Record<string, string> }).payment_processor_metadata
  expect(told).toEqual({
    publishable_key: keys.publishable_key,
    customer_id: expect.stringMatching(/^cus_/) as string,
    intent_client_secret: expect.stringMatching(/^pi_\w+_secret_\w+$/) as string,
    intent_status: 'requires_action',
  })
  account.complete(told.intent_client_secret!, true)
  world.clock.advance(31_000)
  await deployment.sweep()
  await deployment.work()
  expect(await api.call(getCheckout, { params: { id: made.id } })).toMatchObject({ status: 'succeeded' })
  // The processor also has only one customer for this buyer.
  expect((await confirm(await checkout(), account.token('pm_card_visa'))).status).toBe(200)
  const { rows } = await world.database.owner((owner) =>
    owner.query('select processor_customer_id from processor_customers where organization_id = $1', [organization.id]),
  )
  expect(rows).toHaveLength(1)
})

test("accepts an event only with its account's signature, and reads the object itself from the processor", async () => {
  const { connect, keys, checkout, confirm, account, api } = await open()
  const shown = (await connect({ webhook_secret: keys.webhook_secret })).body as unknown as { id: string; events_url: string }
  const path = new URL(shown.events_url).pathname
  const post = (headers: Record<string, string>, body: string) => exchange(world.port, 'POST', path, { 'content-type': 'application/json', ...headers }, body)
  const made = await checkout()
  const answer = await confirm(made, account.token('pm_card_authenticationRequired'))
  const secret = (answer.body as unknown as { payment_processor_metadata: { intent_client_secret: string } }).payment_processor_metadata.intent_client_secret
  const intent = secret.split('_secret_')[0]!
  const event = (id: string, type: string, object: string) =>
    JSON.stringify({ id, object: 'event', type, created: 1_790_000_000, data: { object: { id: object } } })
  const claim = event('evt_claim', 'payment_intent.succeeded', intent)
  const heard = () => world.database.owner(async (owner) => (await owner.query('select 1 from processor_events where account_id = $1', [shown.id])).rowCount)
  for (const headers of [
    {},
    signed('whsec_another', claim, world.clock.wall()),
    signed(keys.webhook_secret, `${claim} `, world.clock.wall()),
    signed(keys.webhook_secret, claim, new Date(0)),
  ])
    expect((await post(headers, claim)).status).toBe(403)
  expect(await heard()).toBe(0)
  // The event has a valid signature but reports a wrong status: the intent still waits for its payer.
  expect((await post(signed(keys.webhook_secret, claim, world.clock.wall()), claim)).status).toBe(200)
  await deployment.work()
  expect(await api.call(getCheckout, { params: { id: made.id } })).toMatchObject({ status: 'confirmed' })
  account.complete(secret, true)
  const truth = event('evt_truth', 'payment_intent.succeeded', intent)
  for (let at = 0; at < 2; at++) expect((await post(signed(keys.webhook_secret, truth, world.clock.wall()), truth)).status).toBe(200)
  const other = event('evt_other', 'invoice.created', 'in_1')
  expect((await post(signed(keys.webhook_secret, other, world.clock.wall()), other)).status).toBe(200)
  expect(await heard()).toBe(2)
  await deployment.work()
  expect(await api.call(getCheckout, { params: { id: made.id } })).toMatchObject({ status: 'succeeded' })
  expect((await api.call(listOrders, { query: { checkout_id: [made.id] } })).items).toHaveLength(1)
})

test('records a refund made at Stripe once as a refund of the order, and ignores unrelated events', async () => {
  const { connect, keys, checkout, confirm, account, api, organization } = await open()
  const { events_url } = (await connect({ webhook_secret: keys.webhook_secret })).body as unknown as { events_url: string }
  const tell = async () => {
    await till.standIn.deliver((_, headers, body) => exchange(world.port, 'POST', new URL(events_url).pathname, headers, body))
    await deployment.work()
  }
  const made = await checkout()
  await confirm(made, account.token('pm_card_visa'))
  await deployment.work()
  await tell()
  const [charge] = account.books().charges
  const find = async () => (await api.call(listOrders, { query: { checkout_id: [made.id] } })).items[0]!
  const refunds = async () => (await api.call(listRefunds, { query: { order_id: [(await find()).id] } })).items
  till.standIn.tell(() => ({ copies: 2, late_ms: 0, place: 0 }))
  account.ask('POST', '/v1/refunds', { payment_intent: charge!.intent_id, amount: 1000 })
  await tell()
  expect(await find()).toMatchObject({ status: 'partially_refunded', refunded_amount: 1000 })
  expect(await refunds()).toMatchObject([{ status: 'succeeded', amount: 1000, reason: 'other' }])
  // Stripe also sends this event for our own refunds. Our own refund must not be recorded twice.
  await api.call(createRefund, { body: { order_id: (await find()).id, reason: 'other', amount: 400 } })
  await tell()
  account.ask('POST', '/v1/refunds', { payment_intent: charge!.intent_id, amount: 1500 })
  await tell()
  till.standIn.tell(() => ({ copies: 1, late_ms: 0, place: 0 }))
  expect(await find()).toMatchObject({ status: 'refunded', refunded_amount: 2900 })
  expect((await refunds()).map(({ amount }) => amount).toSorted((a, b) => a - b)).toEqual([400, 1000, 1500])
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ amount: number }>(`select coalesce(sum(amount), 0)::int as amount from ledger_entries where organization_id = $1 and account = 'processor'`, [
      organization.id,
    ]),
  )
  expect(rows[0]!.amount).toBe(0)
})

test('marks our refund as failed if Stripe never received it, and records the refund that the seller made at Stripe instead', async () => {
  const { connect, checkout, confirm, account, api } = await open()
  await connect()
  const made = await checkout()
  await confirm(made, account.token('pm_card_visa'))
  await deployment.work()
  const order = (await api.call(listOrders, { query: { checkout_id: [made.id] } })).items[0]!
  const refunds = async () =>
    (await api.call(listRefunds, { query: { order_id: [order.id] } })).items.map(({ status, amount }) => `${status} ${amount}`).toSorted()
  till.standIn.misbehave(({ method, path }) => (method === 'POST' && path === '/v1/refunds' ? 'request_lost' : undefined))
  expect((await api.send(createRefund, { body: { order_id: order.id, reason: 'other', amount: 2900 } })).status).toBe(201)
  till.standIn.misbehave(() => undefined)
  // The seller refunds at Stripe, with the metadata key `refund_id` that our own refunds use too.
  account.ask('POST', '/v1/refunds', { payment_intent: account.books().charges[0]!.intent_id, amount: 2900, metadata: { refund_id: 'RMA-17' } })
  world.clock.advance(3_600_000)
  await deployment.sweep('billing.read_up')
  await deployment.work()
  expect(await refunds()).toEqual(['pending 2900'])
  await deployment.sweep('billing.follow_refunds')
  await deployment.work()
  expect(await refunds()).toEqual(['failed 2900', 'succeeded 2900'])
  expect(await api.call(getOrder, { params: { id: order.id } })).toMatchObject({ status: 'refunded', refunded_amount: 2900 })
})

test('records a refund that failed later and its replacement made at Stripe, even if the newest event is read first', async () => {
  const { connect, checkout, confirm, account, api } = await open()
  await connect()
  till.standIn.tell(() => ({ copies: 0, late_ms: 0, place: 0 }))
  const made = await checkout()
  await confirm(made, account.token('pm_card_refundFail'))
  await deployment.work()
  const order = (await api.call(listOrders, { query: { checkout_id: [made.id] } })).items[0]!
  expect((await api.send(createRefund, { body: { order_id: order.id, reason: 'other', amount: 2900 } })).body).toMatchObject({ status: 'succeeded' })
  world.clock.advance(61_000)
  const { intent_id } = account.books().charges[0]!
  account.ask('POST', '/v1/refunds', { payment_intent: intent_id, amount: 2900 })
  // Connecting the account again makes the read of its event list due at once. Stripe lists the newest events first.
  await connect()
  await deployment.sweep('billing.read_up')
  await deployment.work()
  till.standIn.tell(() => ({ copies: 1, late_ms: 0, place: 0 }))
  const refunds = (await api.call(listRefunds, { query: { order_id: [order.id] } })).items.map(({ status }) => status).toSorted()
  expect([refunds, (await api.call(getOrder, { params: { id: order.id } })).refunded_amount]).toEqual([['failed', 'succeeded'], 2900])
})

test('marks a refund that Stripe never made as failed after its idempotency key has expired, and allows another refund', async () => {
  const { connect, checkout, confirm, account, api } = await open()
  await connect()
  const made = await checkout()
  await confirm(made, account.token('pm_card_visa'))
  await deployment.work()
  const order = (await api.call(listOrders, { query: { checkout_id: [made.id] } })).items[0]!
  const refund = () => api.send(createRefund, { body: { order_id: order.id, reason: 'other', amount: 2900 } })
  till.standIn.misbehave(({ method, path }) => (method === 'POST' && path === '/v1/refunds' ? 'broken' : undefined))
  expect((await refund()).status).toBe(201)
  till.standIn.misbehave(() => undefined)
  for (const hours of [1, 20, 6]) {
    expect(errorOf(await refund())).toBe('403 RefundedAlready')
    world.clock.advance(hours * 3_600_000)
    await deployment.sweep('billing.follow_refunds')
    await deployment.work()
  }
  expect((await refund()).body).toMatchObject({ status: 'succeeded', amount: 2900 })
  expect(account.books().refunds).toHaveLength(1)
})

test('reads missed events within the hour: disputes, refunds made at Stripe, and refunds that failed later', async () => {
  const { connect, checkout, confirm, account, api } = await open()
  await connect()
  till.standIn.tell(() => ({ copies: 0, late_ms: 0, place: 0 }))
  const buy = async (card: string) => {
    const made = await checkout()
    await confirm(made, account.token(card))
    await deployment.work()
    return (await api.call(listOrders, { query: { checkout_id: [made.id] } })).items[0]!
  }
  const disputed = await buy('pm_card_createDispute')
  const given = await buy('pm_card_visa')
  const failing = await buy('pm_card_refundFail')
  await api.call(createRefund, { body: { order_id: failing.id, reason: 'other', amount: 2900 } })
  account.ask('POST', '/v1/refunds', { payment_intent: account.books().charges[1]!.intent_id, amount: 900 })
  world.clock.advance(61_000)
  // Creates more events than fit on one page. The Stripe test server reports the failed refund with its next request.
  const [dispute] = (account.ask('GET', '/v1/disputes', {}) as { data: { id: string }[] }).data
  for (let at = 0; at < 120; at++) account.change(dispute!.id, {})
  const stands = async () => [
    (await api.call(listDisputes, { query: { order_id: [disputed.id] } })).items.map(({ status }) => status),
    (await api.call(listRefunds, { query: { order_id: [given.id] } })).items.map(({ status, amount }) => [status, amount]),
    (await api.call(listRefunds, { query: { order_id: [failing.id] } })).items.map(({ status }) => status),
  ]
  const readUp = async () => {
    world.clock.advance(3_600_000)
    await deployment.sweep('billing.read_up')
    await deployment.work()
  }
  const unknown = [[], [], ['succeeded']]
  expect(await stands()).toEqual(unknown)
  // The second page fails. The next run must request all of the events again.
  till.standIn.misbehave(({ path, params }) => (path === '/v1/events' && params.starting_after !== undefined ? 'broken' : undefined))
  await readUp()
  till.standIn.misbehave(() => undefined)
  expect(world.lines.some((line) => JSON.stringify(line).includes('account_silent'))).toBe(true)
  await readUp()
  const known = [['needs_response'], [['succeeded', 900]], ['failed']]
  expect(await stands()).toEqual(known)
  // From now on only new events are requested.
  const asked = till.standIn.asked.length
  await readUp()
  const before = world.clock.wall().getTime() / 1000 - 3600 - 660
  const lists = till.standIn.asked.slice(asked).filter(({ path }) => path === '/v1/events')
  expect(lists.length).toBeGreaterThan(0)
  for (const { params } of lists) expect(Number((params.created as { gte: string }).gte)).toBeGreaterThan(before)
  expect(await stands()).toEqual(known)
  till.standIn.tell(() => ({ copies: 1, late_ms: 0, place: 0 }))
})

test('reads events again whose jobs failed after all retries while the account did not answer', async () => {
  const { connect, keys, checkout, confirm, account, api } = await open()
  const { events_url } = (await connect({ webhook_secret: keys.webhook_secret })).body as unknown as { events_url: string }
  const made = await checkout()
  await confirm(made, account.token('pm_card_createDispute'))
  await deployment.work()
  await till.standIn.deliver((_, headers, body) => exchange(world.port, 'POST', new URL(events_url).pathname, headers, body))
  const [order] = (await api.call(listOrders, { query: { checkout_id: [made.id] } })).items
  const disputes = async () => (await api.call(listDisputes, { query: { order_id: [order!.id] } })).items.map(({ status }) => status)
  // Deletes the job, as if it had failed after all retries.
  const given = await world.database.owner((owner) =>
    owner.query(
      `delete from graphile_worker._private_jobs j using graphile_worker._private_tasks t where t.id = j.task_id and t.identifier = 'billing.follow_dispute'`,
    ),
  )
  expect(given.rowCount).toBe(1)
  await deployment.work()
  expect(await disputes()).toEqual([])
  world.clock.advance(3_600_000)
  await deployment.sweep('billing.read_up')
  await deployment.work()
  expect(await disputes()).toEqual(['needs_response'])
})

test('records no refund for a dispute that Stripe blocked, and a refund for a dispute that Stripe resolved', async () => {
  const { connect, checkout, confirm, account, api } = await open()
  await connect()
  const prevented = async (case_type: string) => {
    const made = await checkout()
    await confirm(made, account.token('pm_card_createDispute'))
    await deployment.work()
    const intent_id = account.books().charges.at(-1)!.intent_id
    const [dispute] = (account.ask('GET', '/v1/disputes', { payment_intent: intent_id }) as { data: { id: string }[] }).data
    account.change(dispute!.id, { status: 'prevented', payment_method_details: { card: { brand: 'visa', case_type }, type: 'card' } })
    world.clock.advance(3_600_000)
    await deployment.sweep('billing.read_up')
    await deployment.work()
    const [order] = (await api.call(listOrders, { query: { checkout_id: [made.id] } })).items
    const { items } = await api.call(listDisputes, { query: { order_id: [order!.id] } })
    return [items.map(({ status }) => status), order!.status, (await api.call(listRefunds, { query: { order_id: [order!.id] } })).items.length]
  }
  expect(await prevented('block')).toEqual([['prevented'], 'paid', 0])
  expect(await prevented('resolution')).toEqual([['prevented'], 'refunded', 1])
})

test('updates a card that the bank has renewed, and replaces the default if its card is detached at Stripe', async () => {
  const { connect, confirm, account, api, organization } = await open()
  await connect()
  const price = { amount_type: 'fixed' as const, price_amount: 900, price_currency: 'usd' as const }
  const plan = await api.call(createProduct, { body: { name: 'Plan', recurring_interval: 'month', prices: [price] } })
  await world.database.owner((owner) =>
    owner.query(`update organizations set subscription_settings = subscription_settings || '{"allow_multiple_subscriptions": true}' where id = $1`, [
      organization.id,
    ]),
  )
  const subscribe = async (card: string) => {
    await confirm(await api.call(createCheckout, { body: { products: [plan.id] } }), account.token(card))
    await deployment.work()
  }
  const kept = async () =>
    (
      await world.database.owner((owner) =>
        owner.query<{ id: string; name: string; year: number; gone: boolean; standard: boolean }>(
          `select m.id, m.processor_method_id as name, (m.method_metadata->>'exp_year')::int as year, m.deleted_at is not null as gone, c.default_payment_method_id = m.id as standard
           from payment_methods m join customers c on c.organization_id = m.organization_id and c.id = m.customer_id
           where m.organization_id = $1 order by m.created_at, m.id`,
          [organization.id],
        ),
      )
    ).rows
  await subscribe('pm_card_visa')
  await subscribe('pm_card_mastercard')
  const [first, second] = await kept()
  expect([first!.standard, second!.standard]).toEqual([true, false])
  const readUp = async () => {
    world.clock.advance(3_600_000)
    await deployment.sweep('billing.read_up')
    await deployment.work()
  }
  account.renewCard(first!.name, { exp_month: 5, exp_year: 2044 })
  await readUp()
  expect((await kept()).map(({ year, gone }) => [year, gone])).toEqual([
    [2044, false],
    [second!.year, false],
  ])
  account.ask('POST', `/v1/payment_methods/${first!.name}/detach`, {})
  await readUp()
  expect((await kept()).map(({ id, gone, standard }) => [id, gone, standard])).toEqual([
    [first!.id, true, false],
    [second!.id, false, true],
  ])
})

test('marks an unconfirmed payment as failed if its account does not answer for three days', async () => {
  const { connect, checkout, confirm, account, api } = await open()
  await connect()
  // Creates a customer that Stripe knows.
  await confirm(await checkout(), account.token('pm_card_visa'))
  const made = await checkout()
  till.standIn.misbehave(({ path }) => (path.includes('confirmation_tokens') ? undefined : 'request_lost'))
  expect((await confirm(made, account.token('pm_card_visa'))).status).toBe(200)
  const status = async () => (await api.call(getCheckout, { params: { id: made.id } })).status
  expect(await status()).toBe('confirmed')
  for (const hours of [1, 25, 50]) {
    expect(await status()).toBe('confirmed')
    world.clock.advance(hours * 3_600_000)
    await deployment.sweep('billing.follow_payments')
    await deployment.work()
  }
  expect(['open', 'expired']).toContain(await status())
  till.standIn.misbehave(() => undefined)
  expect(account.books().charges).toHaveLength(1)
})

test('refuses to start in production if BURSAR_STRIPE_API_BASE is set', () => {
  const settings = { ...world.environmentVariables, BURSAR_ENV: 'production', BURSAR_EGRESS_LOOPBACK: '' }
  expect(() => readConfig(settings)).toThrow(/BURSAR_STRIPE_API_BASE: points to a replacement/)
})

test('refuses payments in production until an account is connected', async () => {
  const production = await openWorld({ environment: 'production' })
  try {
    const { api, dashboard, organization } = await production.shop()
    const product = await api.call(createProduct, {
      body: { name: 'Field guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] },
    })
    const made = await api.call(createCheckout, { body: { products: [product.id] } })
    const answer = await production.client().send(confirmClientCheckout, {
      params: { client_secret: made.client_secret },
      body: { customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' }, confirmation_token_id: 'ctoken_1' },
    })
    expect(errorOf(answer)).toBe('403 PaymentNotReady')
    const test_key = { secret_key: 'sk_test_12345678', publishable_key: 'pk_test_12345678' }
    expect(errorOf(await (await dashboard()).send(connectPaymentAccount, { params: { id: organization.id }, body: test_key }))).toBe(
      '422 RequestValidationError',
    )
  } finally {
    await production.close()
  }
})
