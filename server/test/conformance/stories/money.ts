import assert from 'node:assert/strict'
import { updateTaxSettings, contractKinds } from '@bursar/contract'
import { webhooks as currentWebhooks } from 'polar-sdk/2026-04'
import { validateEvent } from 'polar-sdk-strict/webhooks'
import { openSales } from '../../harness/sales.ts'
import { openSink, type Sink } from '../../harness/sink.ts'
import { eventually } from '../../harness/world.ts'
import { isBeyond } from '../clients.ts'
import type { Stage, Story } from '../run.ts'

/** Webhook kinds that a sale emits, from the creation of the product to the refund. */
const told = [
  'product.created',
  'product.updated',
  'benefit.created',
  'benefit.updated',
  'discount.created',
  'discount.updated',
  'discount.deleted',
  'customer.created',
  'checkout.created',
  'checkout.updated',
  'checkout.expired',
  'order.created',
  'order.updated',
  'order.paid',
  'order.refunded',
  'refund.created',
  'refund.updated',
  'subscription.created',
  'subscription.active',
]

/** Pairs of event kinds. For the same resource, the first must be delivered before the second. */
const sequences = [
  ['checkout.created', 'checkout.updated'],
  ['order.created', 'order.updated'],
  ['order.created', 'order.paid'],
  ['order.paid', 'order.refunded'],
  ['refund.created', 'refund.updated'],
  ['subscription.created', 'subscription.active'],
] as const

const address = { country: 'DE' as const }

/** Sells with a declined card, a payment, a partial refund and a subscription, once with each client. */
export const money: Story = async (stage) => {
  const sink = await openSink()
  try {
    await sell(stage, sink)
  } finally {
    sink.close()
  }
}

const sell = async ({ world, clients }: Stage, sink: Sink): Promise<void> => {
  const { organization, api } = await world.shop()
  await api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: false }] } })
  const token = (await organization.token()).secret.reveal()
  const { secret } = await clients.current(token).webhooks.createWebhookEndpoint({ url: sink.url('/money'), format: 'raw', events: [...contractKinds] })

  const owed = new Set<string>()
  /** Inserts a pending order. A checkout never creates a pending order, because the payment comes before the order. */
  const waiting = async (customer_id: string, product_id: string) => {
    const customer = { organization_id: organization.id, id: customer_id }
    const order = await openSales(world).order(customer, {
      status: 'pending',
      billing_reason: 'subscription_cycle',
      product_id,
      invoice_number: `OWED-${owed.size}`,
    })
    owed.add(order.id)
    return order
  }
  await withCurrent(clients, token, waiting)
  await withStrict(clients, token, waiting)

  // Creates a checkout that is never paid, and moves its expiry to the past.
  const catalog = await clients.current(token).products.list({})
  const left = await clients.current(token).checkouts.create({ products: [catalog.items[0]!.id] })
  await world.database.owner((owner) =>
    owner.query(`update checkouts set expires_at = now() - interval '1 second', due_at = now() where organization_id = $1 and id = $2`, [
      organization.id,
      left.id,
    ]),
  )
  await eventually('the checkout expires', async () => (await clients.current(token).checkouts.get(left.id)).status === 'expired')
  // The client secret of an expired checkout no longer gives access to the checkout.
  await assert.rejects(clients.current('undefined').checkouts.clientGet(left.client_secret), (error: { name: string }) => error.name === 'ExpiredCheckoutError')

  const kinds = () => new Set(sink.of('/money').map(({ body }) => (JSON.parse(body) as { type: string }).type))
  await eventually('every expected webhook has arrived', async () => told.every((kind) => kinds().has(kind)))
  const heard: { kind: string; id: string }[] = []
  for (const { body, headers } of sink.of('/money')) {
    const event = await currentWebhooks.validateEvent(body, headers, secret)
    if (!isBeyond(event)) assert.equal(validateEvent(body, headers, secret).type, event.type)
    heard.push({ kind: event.type, id: (event.data as { id: string }).id })
  }
  const first = (kind: string, id: string) => heard.findIndex((one) => one.kind === kind && one.id === id)
  for (const [before, then] of sequences)
    // Ignores orders that the test inserted directly into the database, because these emitted no events.
    for (const { id } of heard.filter((one) => one.kind === then && !owed.has(one.id)))
      assert.ok(first(before, id) >= 0 && first(before, id) < first(then, id), `${before} comes before ${then}`)
}

type Waiting = (customer_id: string, product_id: string) => Promise<{ id: string }>

const withCurrent = async (clients: Stage['clients'], token: string, waiting: Waiting): Promise<void> => {
  const seller = clients.current(token)
  const buyer = clients.current('undefined').checkouts
  const product = await seller.products.create({ name: 'Field guide', prices: [{ amount_type: 'fixed', price_amount: 2900 }] })
  await seller.products.update(product.id, { description: 'With pictures' })
  const benefit = await seller.benefits.create({ type: 'custom', description: 'A handshake', properties: {} })
  await seller.benefits.update(benefit.id, { type: 'custom', description: 'A wink' })
  const tenth = await seller.discounts.create({ name: 'Tenth', type: 'percentage', duration: 'once', basis_points: 1000, code: 'TENTH' })
  const fifth = await seller.discounts.create({ name: 'Fifth', type: 'percentage', duration: 'once', basis_points: 2000 })
  await seller.discounts.update(tenth.id, { name: 'A tenth' })
  await seller.discounts.delete(fifth.id)

  const made = await seller.checkouts.create({ products: [product.id], success_url: 'https://shop.example/thanks', metadata: { campaign: 'spring' } })
  assert.deepEqual([made.status, made.amount, made.tax_amount], ['open', 2900, null])
  assert.deepEqual(
    (await seller.checkouts.list({ status: 'open' })).items.map(({ id }) => id),
    [made.id],
  )
  assert.equal((await seller.checkouts.get(made.id)).client_secret, made.client_secret)
  assert.deepEqual((await seller.checkouts.update(made.id, { metadata: { campaign: 'summer' } })).metadata, { campaign: 'summer' })

  assert.equal((await buyer.clientGet(made.client_secret)).organization.id, made.organization_id)
  const filled = await buyer.clientUpdate(made.client_secret, { customer_email: 'ada@people.test', customer_billing_address: address, discount_code: 'TENTH' })
  assert.deepEqual([filled.discount_amount, filled.total_amount], [290, 2610])
  await assert.rejects(
    buyer.clientConfirm(made.client_secret, { confirmation_token_id: 'tok_insufficient_funds' }),
    (error: { name: string }) => error.name === 'PaymentError',
  )
  const confirmed = await buyer.clientConfirm(made.client_secret, { customer_name: 'Ada', confirmation_token_id: 'tok_visa' })
  assert.equal(confirmed.status, 'confirmed')
  await assert.rejects(buyer.clientUpdate(made.client_secret, { customer_name: 'Bob' }))

  const order = await eventually('the order exists', async () => (await seller.orders.list({ checkout_id: made.id })).items[0])
  assert.deepEqual([order.status, order.total_amount, order.metadata], ['paid', 2610, { campaign: 'summer' }])
  assert.equal((await seller.orders.get(order.id)).discount?.id, tenth.id)
  assert.match(await seller.orders.export({ columns: ['email', 'status'] }), /^Email,Status\r\n/)
  assert.equal((await seller.orders.update(order.id, { billing_name: 'Ada Ltd', billing_address: { ...address, city: 'Berlin' } })).billing_name, 'Ada Ltd')
  const payments = (await seller.payments.list({ checkout_id: made.id })).items
  assert.deepEqual(
    payments.map(({ status }) => status),
    ['succeeded', 'failed'],
  )
  assert.equal(payments[0]!.order_id, order.id)
  assert.equal((await seller.payments.get(payments[1]!.id)).decline_reason, 'insufficient_funds')
  const refund = await seller.refunds.create({ order_id: order.id, reason: 'customer_request', amount: 1000 })
  assert.deepEqual([refund.status, refund.tax_amount], ['succeeded', 190])
  assert.deepEqual(
    (await seller.refunds.list({ order_id: order.id })).items.map(({ id }) => id),
    [refund.id],
  )
  assert.equal((await seller.orders.get(order.id)).status, 'partially_refunded')

  const { orders } = clients.current((await seller.customerSessions.create({ customer_id: order.customer_id })).token).customerPortal
  assert.deepEqual(
    (await orders.list({})).items.map(({ id }) => id),
    [order.id],
  )
  await seller.orders.generateInvoice(order.id)
  assert.match((await eventually('the invoice is created', () => seller.orders.invoice(order.id).catch(() => undefined))).url, /\.pdf/)
  assert.match(
    (await eventually('the receipt is created', async () => (await seller.orders.receipt(order.id).catch(() => undefined)) || undefined)).url,
    /\.pdf/,
  )
  assert.equal((await orders.get(order.id)).billing_name, 'Ada Ltd')
  assert.equal((await orders.update(order.id, { billing_name: 'Ada & Co' })).billing_name, 'Ada & Co')
  await orders.generateInvoice(order.id)
  assert.match((await eventually('the invoice is created again', () => orders.invoice(order.id).catch(() => undefined))).url, /\.pdf/)
  assert.match(
    (await eventually('the receipt is created again', async () => (await orders.receipt(order.id).catch(() => undefined)) || undefined)).url,
    /\.pdf/,
  )
  assert.equal((await orders.getPaymentStatus(order.id)).status, 'succeeded')
  await assert.rejects(orders.confirmRetryPayment(order.id, { confirmation_token_id: 'tok_visa' }))
  const owed = await waiting(order.customer_id, product.id)
  assert.equal((await orders.getPaymentStatus(owed.id)).status, 'no_payment')
  assert.equal((await orders.confirmRetryPayment(owed.id, { confirmation_token_id: 'tok_do_not_honor' })).status, 'failed')
  assert.equal((await orders.confirmRetryPayment(owed.id, { confirmation_token_id: 'tok_visa' })).status, 'succeeded')
  assert.equal((await seller.orders.get(owed.id)).status, 'paid')

  const plan = await seller.products.create({ name: 'Plan', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 900 }] })
  const monthly = await seller.checkouts.create({ products: [plan.id], customer_id: order.customer_id, customer_billing_address: address })
  await buyer.clientConfirm(monthly.client_secret, { confirmation_token_id: 'tok_visa' })
  const subscription = await eventually('the subscription exists', async () => (await seller.subscriptions.list({ product_id: plan.id })).items[0])
  assert.deepEqual([subscription.status, subscription.checkout_id], ['active', monthly.id])
  assert.equal((await seller.subscriptions.get(subscription.id)).customer.id, order.customer_id)
}

const withStrict = async (clients: Stage['clients'], token: string, waiting: Waiting): Promise<void> => {
  const seller = clients.strict(token)
  const buyer = clients.strict('').checkouts
  const all = async <T>(pages: Promise<AsyncIterable<{ result: { items: T[] } }>>): Promise<T[]> => {
    const items: T[] = []
    for await (const { result } of await pages) items.push(...result.items)
    return items
  }
  const product = await seller.products.create({ name: 'Atlas', prices: [{ amountType: 'fixed', priceAmount: 5900 }] })
  const made = await seller.checkouts.create({ products: [product.id], metadata: { campaign: 'autumn' } })
  assert.deepEqual(
    (await all(seller.checkouts.list({ status: 'open' }))).map(({ id }) => id),
    [made.id],
  )
  assert.equal((await seller.checkouts.get({ id: made.id })).clientSecret, made.clientSecret)
  assert.deepEqual((await seller.checkouts.update({ id: made.id, checkoutUpdate: { metadata: { campaign: 'winter' } } })).metadata, { campaign: 'winter' })
  const { clientSecret } = made
  assert.equal((await buyer.clientGet({ clientSecret })).organization.id, made.organizationId)
  const filled = await buyer.clientUpdate({
    clientSecret,
    checkoutUpdatePublic: { customerEmail: 'bob@people.test', customerBillingAddress: address, discountCode: 'TENTH' },
  })
  assert.equal(filled.totalAmount, 5310)
  await assert.rejects(
    buyer.clientConfirm({ clientSecret, checkoutConfirmStripe: { confirmationTokenId: 'tok_lost_card' } }),
    (error: { name: string }) => error.name === 'PaymentError',
  )
  const confirmed = await buyer.clientConfirm({ clientSecret, checkoutConfirmStripe: { customerName: 'Bob', confirmationTokenId: 'tok_mastercard' } })
  assert.equal(confirmed.status, 'confirmed')

  const order = await eventually('the order exists', async () => (await all(seller.orders.list({ checkoutId: made.id })))[0])
  assert.equal((await seller.orders.get({ id: order.id })).totalAmount, 5310)
  assert.match(String(await seller.orders.export({ productId: null })), /^Email,Created At,/)
  assert.equal((await seller.orders.update({ id: order.id, orderUpdate: { billingName: 'Bob Ltd' } })).billingName, 'Bob Ltd')
  await seller.orders.generateInvoice({ id: order.id })
  assert.match((await eventually('the invoice is created', () => seller.orders.invoice({ id: order.id }).catch(() => undefined))).url, /\.pdf/)
  const payments = await all(seller.payments.list({ checkoutId: made.id }))
  assert.deepEqual(
    payments.map(({ status }) => status),
    ['succeeded', 'failed'],
  )
  assert.equal((await seller.payments.get({ id: payments[1]!.id })).declineReason, 'lost_card')
  const refund = await seller.refunds.create({ orderId: order.id, reason: 'service_disruption', amount: order.netAmount })
  assert.deepEqual(
    (await all(seller.refunds.list({ orderId: order.id }))).map(({ id }) => id),
    [refund.id],
  )
  assert.equal((await seller.orders.get({ id: order.id })).status, 'refunded')

  const session = { customerSession: (await seller.customerSessions.create({ customerId: order.customerId })).token }
  const { orders } = seller.customerPortal
  assert.deepEqual(
    (await all(orders.list(session, {}))).map(({ id }) => id),
    [order.id],
  )
  assert.equal((await orders.get(session, { id: order.id })).status, 'refunded')
  assert.equal((await orders.update(session, { id: order.id, customerOrderUpdate: { billingName: 'Bob & Co' } })).billingName, 'Bob & Co')
  await orders.generateInvoice(session, { id: order.id })
  assert.match((await eventually('the invoice is created again', () => orders.invoice(session, { id: order.id }).catch(() => undefined))).url, /\.pdf/)
  const owed = await waiting(order.customerId, product.id)
  assert.equal((await orders.getPaymentStatus(session, { id: owed.id })).status, 'no_payment')
  const paid = await orders.confirmRetryPayment(session, { id: owed.id, customerOrderConfirmPayment: { confirmationTokenId: 'tok_visa' } })
  assert.equal(paid.status, 'succeeded')

  const plan = await seller.products.create({ name: 'Year', recurringInterval: 'year', prices: [{ amountType: 'fixed', priceAmount: 9900 }] })
  const yearly = await seller.checkouts.create({ products: [plan.id], customerId: order.customerId, customerBillingAddress: address })
  await buyer.clientConfirm({ clientSecret: yearly.clientSecret, checkoutConfirmStripe: { confirmationTokenId: 'tok_visa' } })
  const subscription = await eventually('the subscription exists', async () => (await all(seller.subscriptions.list({ productId: plan.id })))[0])
  assert.equal((await seller.subscriptions.get({ id: subscription.id })).status, 'active')
}
