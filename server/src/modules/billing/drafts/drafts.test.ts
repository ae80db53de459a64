import {
  confirmClientCheckout,
  createBenefit,
  createCheckout,
  createCustomer,
  createCustomerSession,
  createCustomField,
  createOrder,
  createProduct,
  createRefund,
  deleteCustomer,
  finalizeOrder,
  getOrder,
  getPortalOrder,
  listBenefitGrants,
  listOrders,
  listPayments,
  listPortalOrders,
  updateProductBenefits,
  updateProduct,
  updateTaxSettings,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readBooks } from '../../../../test/harness/books.ts'
import { openDeployment, openLife, type End } from '../../../../test/harness/crashes.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { counted } from '../../../../test/harness/pace.ts'
import { openTestProcessor } from '../../../gateways/payments/test/processor.ts'
import { newId } from '../../../kernel/ids.ts'
import { regularWork } from '../../../main/wire.ts'

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

type Given = Record<string, unknown>
const fixed = (price_amount: number, price_currency = 'usd') => ({ amount_type: 'fixed', price_amount, price_currency }) as const
const errorOf = (answer: { status: number; body: unknown }) => `${answer.status} ${(answer.body as { error: string }).error}`
const locs = (answer: { body: unknown }) => (answer.body as { detail: { loc: (string | number)[] }[] }).detail.map(({ loc }) => loc.join('.'))
/** Confirms the payment at the bank, as the customer would, and processes the processor's events. */
const answerBank = async (client_secret: string) => {
  const processor = openTestProcessor({ url: world.config.database_url, environment: 'sandbox', clock: world.clock, log: world.base.log })
  await processor.completeAction(client_secret, true)
  await processor.close()
  await regularWork.find(({ name }) => name === 'billing.hear')!.run(deployment.deps)
}
const rounds = counted('ROUNDS', 20, 5)

/** A seller that collects 19 % tax in Germany, and a German customer with the given saved card. */
const open = async (card: string | null = 'tok_visa') => {
  const shop = await world.shop()
  const { api, organization } = shop
  await api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: false }] } })
  const product = (prices: readonly object[], more: Given = {}) => api.call(createProduct, { body: { name: 'Guide', prices, ...more } as never })
  const book = await product([{ ...fixed(1000), tax_behavior: 'exclusive' }])
  const anna = await api.call(createCustomer, { body: { email: 'anna@people.test', billing_address: { country: 'DE' } } })
  if (card !== null) {
    const plan = await product([fixed(500)], { name: 'Plan', recurring_interval: 'month' })
    const { client_secret } = await api.call(createCheckout, { body: { products: [plan.id], customer_id: anna.id } })
    const { payment_processor_metadata: asked } = await world
      .client()
      .call(confirmClientCheckout, { params: { client_secret }, body: { confirmation_token_id: card } })
    if (asked.intent_status === 'requires_action') await answerBank(asked.intent_client_secret!)
    await deployment.work()
  }
  const wish = (body: Given = {}) => ({ customer_id: anna.id, product_id: book.id, ...body }) as never
  return {
    ...shop,
    product,
    book,
    anna,
    draft: (body: Given = {}) => api.call(createOrder, { body: wish(body) }),
    wrong: async (body: Given) => locs(await api.send(createOrder, { body: wish(body) })),
    finalize: ({ id }: { id: string }, body: Given = {}, client = api) => client.send(finalizeOrder, { params: { id }, body }),
    seen: ({ id }: { id: string }) => api.call(getOrder, { params: { id } }),
    attempts: async ({ id }: { id: string }) =>
      (await api.call(listPayments, { query: { order_id: [id] } })).items.map(({ status, amount, trigger }) => [status, amount, trigger]),
    /** The amounts that the processor charged for drafts, according to the records of the test processor. */
    charged: async () => (await readBooks(world, organization.id)).charges.map(({ amount }) => amount).filter((amount) => amount !== 595 && amount !== 500),
    flag: (on: boolean) =>
      world.database.owner((owner) =>
        owner.query(`update organizations set feature_settings = jsonb_set(feature_settings, '{off_session_charges_enabled}', $2) where id = $1`, [
          organization.id,
          String(on),
        ]),
      ),
    /** The ledger entries of an order and its payments. */
    ledger: async ({ id }: { id: string }) =>
      (
        await world.database.owner((owner) =>
          owner.query<{ kind: string; account: string; amount: string }>(
            `select t.kind, e.account, e.amount::text from ledger_transactions t join ledger_entries e on e.organization_id = t.organization_id and e.transaction_id = t.id
             where t.organization_id = $1 and (t.reference = $2 or t.reference in (select id from payments where order_id = $2)) order by 1, 2`,
            [organization.id, id],
          ),
        )
      ).rows.map(({ kind, account, amount }) => `${kind} ${account} ${amount}`),
    method: async () =>
      (await world.database.owner((owner) => owner.query<{ id: string }>('select id from payment_methods where customer_id = $1', [anna.id]))).rows[0]!.id,
    portal: async () => world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: anna.id } })).token }),
  }
}

test('creates a draft that only the seller sees, and charges, posts and numbers the order when it is finalized', async () => {
  const { api, book, anna, draft, finalize, attempts, charged, ledger, events, portal } = await open()
  const benefit = await api.call(createBenefit, { body: { type: 'custom', description: 'A handshake', properties: {} } })
  await api.call(updateProductBenefits, { params: { id: book.id }, body: { benefits: [benefit.id] } })
  const made = await draft({ description: 'Two hours of advice', metadata: { visit: 7 } })
  expect(made).toMatchObject({
    status: 'draft',
    paid: false,
    billing_reason: 'purchase',
    subtotal_amount: 1000,
    tax_amount: 190,
    total_amount: 1190,
    due_amount: 1190,
    invoice_number: null,
    description: 'Two hours of advice',
    metadata: { visit: 7 },
    items: [{ label: 'Guide', amount: 1000, tax_amount: 190, product_price_id: book.prices[0]!.id }],
  })
  const own = await portal()
  expect((await own.call(listPortalOrders, {})).items.map(({ id }) => id)).not.toContain(made.id)
  expect(errorOf(await own.send(getPortalOrder, { params: { id: made.id } }))).toBe('404 ResourceNotFound')
  expect(await ledger(made)).toEqual([])
  const { status, body } = await finalize(made)
  expect([status, body]).toMatchObject([200, { id: made.id, status: 'paid', paid: true, total_amount: 1190, invoice_number: expect.any(String) as string }])
  expect(await attempts(made)).toEqual([['succeeded', 1190, 'purchase']])
  expect(await charged()).toEqual([1190])
  expect(await ledger(made)).toEqual([
    'order_billed receivable 1190',
    'order_billed revenue -1000',
    'order_billed tax -190',
    'payment_received processor 1190',
    'payment_received receivable -1190',
  ])
  const told = (await events('order.created', 'order.updated', 'order.paid')).filter(({ data }) => data.id === made.id)
  expect(told.map(({ type, data }) => `${type} ${String(data.status)}`)).toEqual([
    'order.created draft',
    'order.updated pending',
    'order.updated paid',
    'order.paid paid',
  ])
  await deployment.work()
  expect((await api.call(listBenefitGrants, { query: { customer_id: [anna.id] } })).items).toMatchObject([{ order_id: made.id, is_granted: true }])
  expect((await own.call(getPortalOrder, { params: { id: made.id } })).status).toBe('paid')
  expect(errorOf(await finalize(made))).toBe('412 OrderNotDraft')
  expect((await api.call(createRefund, { body: { order_id: made.id, reason: 'other', amount: 1000 } })).status).toBe('succeeded')
})

test('creates drafts with a custom amount, in another currency, and with a total of zero', async () => {
  const { draft, product, finalize, charged, attempts } = await open()
  expect(await draft({ amount: 2500 })).toMatchObject({ subtotal_amount: 2500, tax_amount: 475, total_amount: 2975, description: 'Guide' })
  const abroad = await product([fixed(1000), { ...fixed(3000, 'eur'), tax_behavior: 'inclusive' }])
  expect(await draft({ product_id: abroad.id, currency: 'eur' })).toMatchObject({ currency: 'eur', total_amount: 3000, tax_amount: 479, net_amount: 2521 })
  for (const made of [await draft({ amount: 0 }), await draft({ product_id: (await product([fixed(0)])).id })]) {
    expect(made).toMatchObject({ status: 'draft', total_amount: 0, tax_amount: 0 })
    expect((await finalize(made)).body).toMatchObject({ status: 'paid', invoice_number: expect.any(String) as string })
    expect(await attempts(made)).toEqual([])
  }
  expect(await charged()).toEqual([])
})

test('rejects an invalid draft with the location of each problem', async () => {
  const { api, wrong, product, draft, book } = await open()
  const nothing = newId(world.clock.wall())
  const stranger = await open(null)
  expect(await wrong({ customer_id: nothing, product_id: nothing })).toEqual(['body.product_id', 'body.customer_id'])
  expect(await wrong({ customer_id: stranger.anna.id })).toEqual(['body.customer_id'])
  expect(await wrong({ product_id: stranger.book.id })).toEqual(['body.product_id'])
  const plan = await product([fixed(900)], { recurring_interval: 'month' })
  const gift = await product([{ amount_type: 'custom', price_currency: 'usd', minimum_amount: 500 }])
  const hidden = await product([fixed(900)], { visibility: 'draft' })
  const gone = await product([fixed(900)])
  await api.call(updateProduct, { params: { id: gone.id }, body: { is_archived: true } })
  for (const { id } of [plan, gift, hidden, gone]) expect(await wrong({ product_id: id })).toEqual(['body.product_id'])
  expect(await wrong({ currency: 'eur' })).toEqual(['body.currency'])
  for (const amount of [1, 49, 100_000_000, -5, 1.5]) expect(await wrong({ amount })).toEqual(['body.amount'])
  expect(await wrong({ description: 'x'.repeat(501) })).toEqual(['body.description'])
  const field = await api.call(createCustomField, { body: { type: 'number', slug: 'size', name: 'Size', properties: {} } })
  const asked = await product([fixed(900)], { attached_custom_fields: [{ custom_field_id: field.id, required: true }] })
  expect(await wrong({ product_id: asked.id, custom_field_data: { size: 'large' } })).toEqual(['body.custom_field_data.size'])
  expect((await draft({ product_id: asked.id, custom_field_data: { size: 7, other: 1 } })).custom_field_data).toEqual({ size: 7 })
  // Without an address the tax is unknown, so the draft is rejected. A free draft needs no tax.
  const bert = await api.call(createCustomer, { body: { email: 'bert@people.test' } })
  expect(await wrong({ customer_id: bert.id })).toEqual(['body.customer_id'])
  expect((await draft({ customer_id: bert.id, amount: 0 })).total_amount).toBe(0)
  expect((await api.call(listOrders, { query: { product_id: [book.id], status: ['draft'] } })).items).toHaveLength(1)
})

test('returns the order to draft with the decline reason if the payment fails, and can finalize it again', async () => {
  const { draft, finalize, seen, attempts, ledger, events } = await open('tok_recovers_later')
  const made = await draft()
  const answer = await finalize(made)
  expect(answer).toMatchObject({ status: 402, body: { error: 'PaymentFailed', detail: 'The card has insufficient funds. The order stays a draft.' } })
  expect(await seen(made)).toMatchObject({ status: 'draft', invoice_number: expect.stringMatching(/-000\d$/) as string, next_payment_attempt_at: null })
  await deployment.work()
  expect(await ledger(made)).toEqual([])
  let tries = 1
  for (; errorOf(await finalize(made)) === '402 PaymentFailed'; tries++) expect(tries).toBeLessThan(10)
  expect((await seen(made)).status).toBe('paid')
  expect((await attempts(made)).filter(([status]) => status === 'failed')).toHaveLength(tries)
  expect((await ledger(made)).filter((line) => line.startsWith('order_billed'))).toHaveLength(3)
  expect((await events('order.paid')).filter(({ data }) => data.id === made.id)).toHaveLength(1)
})

test('refuses to finalize if the bank requires an action, without a payment method, or with a method of another customer', async () => {
  const strict = await open('tok_3ds_always')
  const asked = await strict.draft()
  expect(errorOf(await strict.finalize(asked))).toBe('402 PaymentActionRequired')
  expect((await strict.seen(asked)).status).toBe('draft')
  const none = await open(null)
  const bare = await none.draft()
  expect(errorOf(await none.finalize(bare))).toBe('402 PaymentFailed')
  expect((await none.seen(bare)).status).toBe('draft')
  const { draft, finalize, method } = await open()
  const made = await draft()
  const others = await (await open()).method()
  for (const payment_method_id of [newId(world.clock.wall()), others])
    expect(locs(await finalize(made, { payment_method_id }))).toEqual(['body.payment_method_id'])
  expect((await finalize(made, { payment_method_id: await method() })).body).toMatchObject({ status: 'paid' })
})

test('refuses to finalize if off-session charges or payments are disabled, the customer is deleted, or the caller is another organization', async () => {
  const { api, anna, organization, draft, finalize, seen, flag, charged } = await open()
  const made = await draft()
  await flag(false)
  expect(errorOf(await finalize(made))).toBe('403 OffSessionChargesNotEnabled')
  await flag(true)
  const status = (to: string) => world.database.owner((owner) => owner.query('update organizations set status = $2 where id = $1', [organization.id, to]))
  await status('denied')
  expect(errorOf(await finalize(made))).toBe('403 OrganizationNotReadyForPayments')
  await status('active')
  await api.call(deleteCustomer, { params: { id: anna.id } })
  expect(errorOf(await finalize(made))).toBe('402 PaymentFailed')
  expect((await seen(made)).status).toBe('draft')
  expect(await charged()).toEqual([])
  const stranger = await open(null)
  expect(errorOf(await finalize(made, {}, stranger.api))).toBe('404 ResourceNotFound')
})

test(`charges a draft once when two requests finalize it concurrently, ${rounds} times`, async () => {
  const { draft, finalize, seen, charged, attempts } = await open()
  for (let round = 0; round < rounds; round++) {
    const made = await draft()
    const answers = await Promise.all([finalize(made), finalize(made)])
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 412])
    expect((await seen(made)).status).toBe('paid')
    expect(await attempts(made)).toEqual([['succeeded', 1190, 'purchase']])
  }
  expect(await charged()).toEqual(Array.from({ length: rounds }, () => 1190))
})

test('charges once per idempotency key, also if the payment is declined', async () => {
  const { organization, draft, attempts } = await open()
  const token = (await organization.token()).secret
  const keyed = (key: string) => world.client({ token }, { 'idempotency-key': key })
  const made = await draft()
  for (const _ of [1, 2]) expect((await keyed('once').send(finalizeOrder, { params: { id: made.id }, body: {} })).body).toMatchObject({ status: 'paid' })
  expect(await attempts(made)).toHaveLength(1)
  const poor = await open('tok_declined_later')
  const other = await poor.draft()
  const theirs = world.client({ token: (await poor.organization.token()).secret }, { 'idempotency-key': 'once' })
  for (const _ of [1, 2]) expect(errorOf(await theirs.send(finalizeOrder, { params: { id: other.id }, body: {} }))).toBe('402 PaymentFailed')
  expect(await poor.attempts(other)).toHaveLength(1)
})

test('charges once and marks the order paid after a crash following any effect of finalizing', { timeout: 240_000 }, async () => {
  const { organization, draft, seen, charged, ledger } = await open()
  const token = (await organization.token()).secret.reveal()
  /** Finalizes in a process that crashes at the given point, and returns its effects. */
  const run = async (id: string, end: End | null) => {
    const life = openLife(end)
    const doomed = await openDeployment(world, life)
    const answer = await doomed.client(token).send(finalizeOrder, { params: { id }, body: {} })
    // Copies the effects now, because closing the deployment adds one: the commit that stores when the token was last used.
    const effects = [...life.effects]
    await doomed.close()
    expect(answer.status).toBe(end === null ? 200 : 500)
    return effects
  }
  const effects = await run((await draft()).id, null)
  expect(effects.filter((effect) => effect !== 'commit')).toEqual(['processor.createIntent', 'processor.confirmIntent'])
  let paid = 1
  // A crash before an effect is the same as a crash after the previous effect. After the last effect nothing is left to
  // do.
  for (let point = 1; point <= effects.indexOf('processor.confirmIntent') + 1; point++) {
    const end: End = { point, side: 'after' }
    const made = await draft()
    await run(made.id, end)
    world.clock.advance(31_000)
    await deployment.sweep('billing.follow_payments')
    await deployment.work()
    expect((await seen(made)).status, effects[point - 1]).toBe('paid')
    expect(await ledger(made)).toHaveLength(5)
    expect(await charged()).toHaveLength(++paid)
  }
})
