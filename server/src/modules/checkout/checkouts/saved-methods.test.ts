import {
  confirmClientCheckout,
  createCheckout,
  createCustomer,
  createProduct,
  getCheckout,
  getClientCheckout,
  getOrganization,
  listOrders,
  listPaymentMethods,
  listSubscriptions,
  renewClientCheckout,
  updateOrganization,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readBooks } from '../../../../test/harness/books.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { days, minutes } from '../../../platform/clock.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

const price = { amount_type: 'fixed' as const, price_amount: 2900, price_currency: 'usd' as const }
const address = { customer_billing_address: { country: 'DE' as const } }

/** A seller who offers saved payment methods, and a customer whose card was saved by the purchase of a subscription. */
const open = async (card = 'tok_visa') => {
  const { api, organization } = await world.shop()
  const [plan, guide] = await Promise.all([
    api.call(createProduct, { body: { name: 'Plan', recurring_interval: 'month', prices: [price] } }),
    api.call(createProduct, { body: { name: 'Guide', prices: [price] } }),
  ])
  const offers = (saved_payment_methods_enabled: boolean) =>
    api.call(updateOrganization, { params: { id: organization.id }, body: { feature_settings: { saved_payment_methods_enabled } } })
  await offers(true)
  const customer = await api.call(createCustomer, { body: { email: 'ada@people.test' } })
  const start = (product: string, more: object = { customer_id: customer.id }) =>
    api.call(createCheckout, { body: { products: [product], ...address, ...more } })
  const confirm = ({ client_secret }: { client_secret: string }, body: object) =>
    world.client().send(confirmClientCheckout, { params: { client_secret }, body })
  const shown = async ({ client_secret }: { client_secret: string }) =>
    (await world.client().call(getClientCheckout, { params: { client_secret } })).saved_payment_methods
  const done = ({ id }: { id: string }) =>
    eventually('the checkout is fulfilled', async () => (await api.call(getCheckout, { params: { id } })).status === 'succeeded')
  const first = await start(plan.id)
  expect(await shown(first)).toEqual([])
  expect((await confirm(first, { confirmation_token_id: card })).status).toBe(200)
  await done(first)
  const [method] = (await api.call(listPaymentMethods, { params: { id: customer.id } })).items
  return { api, organization, plan, guide, customer, method: method!, offers, start, confirm, shown, done }
}
const chargesOf = async (organization_id: string) => (await readBooks(world, organization_id)).charges.length

test('shows the saved card of the customer whom the seller has named, and charges it once', async () => {
  const { api, organization, guide, method, start, confirm, shown, done } = await open()
  const checkout = await start(guide.id)
  expect(await shown(checkout)).toEqual([{ id: method.id, type: 'card', brand: 'visa', last4: '0001', exp_month: 12, exp_year: 2040 }])
  // The second confirmation repeats the first one, for example because its answer was lost.
  for (let time = 0; time < 2; time++) {
    expect(await confirm(checkout, { payment_method_id: method.id })).toMatchObject({ status: 200, body: { status: 'confirmed' } })
    await done(checkout)
  }
  expect(await chargesOf(organization.id)).toBe(2)
  expect((await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items).toMatchObject([{ status: 'paid', total_amount: 2900 }])
})

const noSuchMethod = { status: 422, body: { detail: [{ loc: ['body', 'payment_method_id'], msg: 'There is no saved payment method with this id.' }] } }

test('shows and charges no saved card unless the seller has switched that on', async () => {
  const { api, organization, guide, method, offers, start, confirm, shown } = await open()
  const { api: fresh, organization: newcomer } = await world.shop()
  expect((await fresh.call(getOrganization, { params: { id: newcomer.id } })).feature_settings).toMatchObject({ saved_payment_methods_enabled: false })
  const checkout = await start(guide.id)
  expect(await shown(checkout)).toHaveLength(1)
  await offers(false)
  expect(await shown(checkout)).toEqual([])
  expect(await confirm(checkout, { payment_method_id: method.id })).toMatchObject(noSuchMethod)
  // An organization that was created before the switch existed has no value.
  await world.database.owner((owner) =>
    owner.query(`update organizations set feature_settings = feature_settings - 'saved_payment_methods_enabled' where id = $1`, [organization.id]),
  )
  expect(await shown(checkout)).toEqual([])
  expect(await confirm(checkout, { payment_method_id: method.id })).toMatchObject(noSuchMethod)
  expect(await chargesOf(organization.id)).toBe(1)
  expect((await api.call(getCheckout, { params: { id: checkout.id } })).status).toBe('open')
})

test('opens no portal session for a purchase with a saved card, because its buyer has proved nothing', async () => {
  const { guide, method, start, confirm, done } = await open()
  const token = async (checkout: { client_secret: string }, body: object) => {
    const answer = await confirm(checkout, body)
    expect(answer.status).toBe(200)
    return (answer.body as { customer_session_token: string | null }).customer_session_token
  }
  const saved = await start(guide.id)
  // A repeated confirmation gets the same answer.
  for (let time = 0; time < 2; time++) {
    expect(await token(saved, { payment_method_id: method.id })).toBeNull()
    await done(saved)
  }
  expect(await token(await start(guide.id), { confirmation_token_id: 'tok_visa' })).toEqual(expect.any(String))
})

test('opens no portal session for an order that charges a named customer nothing, while saved cards are on', async () => {
  const { api, offers, start, confirm } = await open()
  const gift = await api.call(createProduct, { body: { name: 'Gift', prices: [{ ...price, price_amount: 0 }] } })
  const token = async () => ((await confirm(await start(gift.id), {})).body as { customer_session_token: string | null }).customer_session_token
  expect(await token()).toBeNull()
  await offers(false)
  expect(await token()).toEqual(expect.any(String))
})

test('pays a subscription with the saved card, and saves no second one', async () => {
  const { api, plan, customer, method, start, confirm, done } = await open()
  await world.database.owner((owner) =>
    owner.query(`update organizations set subscription_settings = subscription_settings || '{"allow_multiple_subscriptions": true}'`),
  )
  const checkout = await start(plan.id)
  expect((await confirm(checkout, { payment_method_id: method.id })).status).toBe(200)
  await done(checkout)
  expect((await api.call(listPaymentMethods, { params: { id: customer.id } })).items).toHaveLength(1)
  expect((await api.call(listSubscriptions, { query: { customer_id: [customer.id] } })).items).toHaveLength(2)
})

test('shows no card to a buyer who only typed the address of the customer, and charges none', async () => {
  const { organization, guide, method, start, confirm, shown } = await open()
  const checkout = await start(guide.id, { customer_email: 'ada@people.test' })
  expect(await shown(checkout)).toEqual([])
  expect(await confirm(checkout, { payment_method_id: method.id })).toMatchObject(noSuchMethod)
  expect(await chargesOf(organization.id)).toBe(1)
})

test('rejects the card of another customer and of another seller, and a token beside a saved card', async () => {
  const { api, organization, guide, method, start, confirm } = await open()
  const other = await api.call(createCustomer, { body: { email: 'ben@people.test' } })
  const theirs = await open()
  expect(await confirm(await start(guide.id, { customer_id: other.id }), { payment_method_id: method.id })).toMatchObject(noSuchMethod)
  expect(await confirm(await start(guide.id), { payment_method_id: theirs.method.id })).toMatchObject(noSuchMethod)
  expect(await confirm(await start(guide.id), { payment_method_id: method.id, confirmation_token_id: 'tok_visa' })).toMatchObject({
    status: 422,
    body: { detail: [{ loc: ['body', 'payment_method_id'], msg: 'Give the token of a new payment method, or the id of a saved one.' }] },
  })
  expect(await chargesOf(organization.id)).toBe(1)
})

test('opens the checkout again after the saved card was declined, and takes another card', async () => {
  const { organization, guide, method, start, confirm, done } = await open('tok_visa')
  const checkout = await start(guide.id)
  await world.database.owner((owner) =>
    owner.query(
      `update test_processor.methods set token = 'tok_do_not_honor' where account in (select id::text from payment_accounts where organization_id = $1)`,
      [organization.id],
    ),
  )
  expect(await confirm(checkout, { payment_method_id: method.id })).toMatchObject({ status: 400, body: { error: 'PaymentError' } })
  const paid = await confirm(checkout, { confirmation_token_id: 'tok_mastercard' })
  // A new card opens the portal, also after a saved one was declined.
  expect(paid).toMatchObject({ status: 200, body: { customer_session_token: expect.any(String) as string } })
  await done(checkout)
  expect(await chargesOf(organization.id)).toBe(2)
})

test('offers no saved card in a renewed checkout, because its old address may be known to others', async () => {
  const { organization, guide, method, start, confirm, shown } = await open()
  const checkout = await start(guide.id)
  world.clock.advance(1 * days + 1 * minutes)
  const renewed = await world.client().call(renewClientCheckout, { params: { client_secret: checkout.client_secret } })
  expect(renewed.customer_email).toBe('ada@people.test')
  expect(await shown(renewed)).toEqual([])
  expect(await confirm(renewed, { payment_method_id: method.id })).toMatchObject(noSuchMethod)
  expect(await chargesOf(organization.id)).toBe(1)
  expect((await confirm(renewed, { confirmation_token_id: 'tok_visa' })).status).toBe(200)
})
