import {
  confirmClientCheckout,
  createCheckout,
  createCustomerSession,
  createProduct,
  createRefund,
  getCheckout,
  getClientCheckout,
  getOrder,
  listCustomerMembers,
  getPortalPaymentStatus,
  listOrders,
  listPayments,
  listPortalOrders,
  listSubscriptions,
  updateCheckout,
  updateClientCheckout,
  updateTaxSettings,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, openWorld, type World } from '../harness/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

test('sells a product through a declined card, a payment and a partial refund [S1-11, S1-14, S6-02]', async () => {
  const { api, events } = await world.shop()
  await api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: false }] } } as never)
  const product = await api.call(createProduct, {
    body: { name: 'Field guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }], metadata: { shelf: 'a' } },
  })

  // The seller creates a checkout and sends the buyer to it.
  const checkout = await api.call(createCheckout, {
    body: { products: [product.id], success_url: 'https://shop.example/thanks?id={CHECKOUT_ID}', metadata: { campaign: 'spring' } },
  })
  expect(checkout).toMatchObject({ status: 'open', amount: 2900, tax_amount: null, is_payment_form_required: true })
  expect(checkout.success_url).toBe(`https://shop.example/thanks?id=${checkout.id}`)
  const [created] = await events('checkout.created')
  // The stored events contain placeholders instead of the secrets of the checkout.
  const redacted = { client_secret: 'redacted', url: 'https://bursar.test/redacted', success_url: 'https://shop.example/redacted' }
  expect(created).toMatchObject({ type: 'checkout.created', data: { ...checkout, ...redacted, created_at: expect.anything() as unknown } })
  const buyer = world.client()
  const params = { client_secret: checkout.client_secret }
  const details = { customer_email: 'ada@people.test', customer_name: 'Ada Byron', customer_billing_address: { country: 'DE' as const } }

  // The first card is declined. The checkout stays open, and the attempt is recorded.
  const declined = await buyer.send(confirmClientCheckout, { params, body: { ...details, confirmation_token_id: 'tok_insufficient_funds' } })
  expect(declined).toMatchObject({ status: 400, body: { error: 'PaymentError' } })
  expect((await api.call(getCheckout, { params: { id: checkout.id } })).status).toBe('open')

  // The second card pays.
  const confirmed = await buyer.call(confirmClientCheckout, { params, body: { ...details, confirmation_token_id: 'tok_visa' } })
  expect(confirmed).toMatchObject({
    status: 'confirmed',
    total_amount: 2900,
    tax_amount: 463,
    tax_behavior: 'inclusive',
    // The first attempt created the customer, and no other checkout has used it. The buyer therefore still gets a portal session.
    customer_session_token: expect.any(String) as unknown,
  })
  const order = await eventually('the order exists', async () => (await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items[0])
  expect(order).toMatchObject({
    status: 'paid',
    paid: true,
    billing_reason: 'purchase',
    subtotal_amount: 2900,
    tax_amount: 463,
    net_amount: 2437,
    total_amount: 2900,
    metadata: { campaign: 'spring' },
    items: [{ label: 'Field guide', amount: 2900, tax_amount: 463 }],
  })
  expect(order.invoice_number).toMatch(/-0001$/)
  const payments = (await api.call(listPayments, { query: { checkout_id: [checkout.id] } })).items
  expect(payments.map(({ status, amount, decline_reason }) => [status, amount, decline_reason])).toEqual([
    ['succeeded', 2900, null],
    ['failed', 2900, 'insufficient_funds'],
  ])
  expect((await api.call(listPayments, { query: { order_id: [order.id] } })).items.map(({ id }) => id)).toEqual([payments[0]!.id])
  expect((await api.call(getCheckout, { params: { id: checkout.id } })).status).toBe('succeeded')
  const [owner] = (await api.call(listCustomerMembers, { params: { id: order.customer_id } })).items
  const portal = world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: order.customer_id, member_id: owner!.id } })).token })
  expect((await portal.call(listPortalOrders, {})).items.map(({ id }) => id)).toEqual([order.id])
  expect((await portal.call(getPortalPaymentStatus, { params: { id: order.id } })).status).toBe('succeeded')

  // A partial refund returns its share of the tax.
  const refund = await api.call(createRefund, { body: { order_id: order.id, reason: 'customer_request', amount: 1000 } })
  expect(refund).toMatchObject({ status: 'succeeded', amount: 1000, tax_amount: 190 })
  expect(await api.call(getOrder, { params: { id: order.id } })).toMatchObject({
    status: 'partially_refunded',
    paid: true,
    refunded_amount: 1000,
    refunded_tax_amount: 190,
    refundable_amount: 1437,
    refundable_tax_amount: 273,
  })

  // Subscribers of events receive them in this order.
  const told = (await events()).map(({ type }) => type)
  expect(told.filter((kind) => /^(checkout|order|refund|customer\.created)/.test(kind))).toEqual([
    'checkout.created',
    'customer.created',
    'checkout.updated',
    'checkout.updated',
    'checkout.updated',
    'order.created',
    'order.updated',
    'order.paid',
    'checkout.updated',
    'refund.created',
    'order.updated',
    'order.refunded',
    'refund.updated',
  ])
})

test('starts a subscription for a plan with a trial and seats, with an order of zero, and saves the card', async () => {
  const { api, events } = await world.shop()
  const product = await api.call(createProduct, {
    body: {
      name: 'Team plan',
      recurring_interval: 'month',
      trial_interval: 'day',
      trial_interval_count: 14,
      prices: [
        {
          amount_type: 'seat_based',
          price_currency: 'usd',
          seat_tiers: {
            seat_tier_type: 'graduated',
            tiers: [
              { min_seats: 1, max_seats: 10, price_per_seat: 800 },
              { min_seats: 11, price_per_seat: 600 },
            ],
          },
        },
      ],
    },
  } as never)
  const checkout = await api.call(createCheckout, { body: { products: [product.id], seats: 12 } })
  expect(checkout).toMatchObject({ amount: 9200, seats: 12, is_payment_required: false, is_payment_setup_required: true, active_trial_interval: 'day' })
  await world.client().call(confirmClientCheckout, {
    params: { client_secret: checkout.client_secret },
    body: { customer_email: 'team@people.test', customer_billing_address: { country: 'DE' }, confirmation_token_id: 'tok_visa' },
  })
  const subscription = await eventually('the subscription exists', async () => (await api.call(listSubscriptions, {})).items[0])
  expect(subscription).toMatchObject({ status: 'trialing', seats: 12, amount: 9200, checkout_id: checkout.id })
  const [order] = (await api.call(listOrders, {})).items
  expect(order).toMatchObject({ status: 'paid', billing_reason: 'subscription_create', total_amount: 0, subscription_id: subscription.id })
  const told = (await events()).map(({ type }) => type).filter((kind) => /^(subscription|order)/.test(kind))
  expect(told).toEqual(['subscription.created', 'subscription.active', 'subscription.updated', 'order.created', 'order.updated', 'order.paid'])
  const { rows } = await world.database.owner((owner) => owner.query('select type, method_metadata from payment_methods'))
  expect(rows).toMatchObject([{ type: 'card', method_metadata: { brand: 'visa' } }])
})

test('expires an unpaid checkout after a day, and refuses every later request', async () => {
  const { api, events } = await world.shop()
  const product = await api.call(createProduct, {
    body: { name: 'Field guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] },
  })
  const checkout = await api.call(createCheckout, { body: { products: [product.id] } })
  world.clock.advance(24 * 60 * 60 * 1000)
  const params = { client_secret: checkout.client_secret }
  const buyer = world.client()
  const wish = { customer_email: 'late@people.test' }
  const over = { status: 410, body: { error: 'ExpiredCheckoutError' } }
  expect(await buyer.send(getClientCheckout, { params })).toMatchObject(over)
  // Waits until the worker has expired the checkout. Before that the worker may lock it, and a change would answer 409.
  await eventually('the checkout expires', async () => (await api.call(getCheckout, { params: { id: checkout.id } })).status === 'expired')
  expect(await buyer.send(updateClientCheckout, { params, body: wish })).toMatchObject(over)
  expect(await buyer.send(confirmClientCheckout, { params, body: { ...wish, confirmation_token_id: 'tok_visa' } })).toMatchObject(over)
  expect(await api.send(updateCheckout, { params: { id: checkout.id }, body: wish })).toMatchObject({ status: 403, body: { error: 'NotOpenCheckout' } })
  expect((await events()).map(({ type }) => type)).toEqual(['product.created', 'checkout.created', 'checkout.expired'])
  expect((await events('checkout.expired'))[0]!.data).toMatchObject({ id: checkout.id, status: 'expired' })
})
