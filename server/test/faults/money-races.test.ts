import { confirmClientCheckout, createCheckout, createDiscount, createProduct, createRefund, getDiscount, listOrders, listPayments } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readBooks, type Ticket } from '../harness/books.ts'
import { openDeployment, openLife } from '../harness/crashes.ts'
import { openWorld, type World } from '../harness/world.ts'
import { counted } from '../harness/pace.ts'

const rounds = counted('ROUNDS', 40, 10)

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
beforeAll(async () => {
  world = await openWorld()
  // No worker runs. The test runs the jobs itself, so that only requests race.
  deployment = await openDeployment(world, openLife(null))
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

const times = <T>(count: number, work: (at: number) => Promise<T>): Promise<T[]> => Promise.all(Array.from({ length: count }, (_, at) => work(at)))
const price = { amount_type: 'fixed' as const, price_amount: 2900, price_currency: 'usd' as const }
const pay = (checkout: Ticket, email: string, card = 'tok_visa') =>
  world.client().send(confirmClientCheckout, {
    params: { client_secret: checkout.client_secret },
    body: { customer_email: email, customer_billing_address: { country: 'DE' }, confirmation_token_id: card },
  })

test("charges a checkout once for two parallel confirmations with one card or two, by the processor's own records", { timeout: 600_000 }, async () => {
  const { api, organization } = await world.shop()
  const product = await api.call(createProduct, { body: { name: 'Field guide', prices: [price] } })
  for (let round = 0; round < rounds; round++) {
    const checkout = await api.call(createCheckout, { body: { products: [product.id] } })
    // A double click sends the same token twice, so both requests may succeed. With two cards, only one request may.
    const same = round % 2 === 0
    const answers = await times(2, (at) => pay(checkout, `buyer-${round}@people.test`, same ? 'tok_visa' : `tok_visa:${at}`))
    const accepted = answers.filter(({ status }) => status === 200).length
    expect(same ? [1, 2] : [1]).toContain(accepted)
    for (const { status, body } of answers)
      if (status !== 200) expect(['NotOpenCheckout', 'CheckoutLocked']).toContain((body as unknown as { error: string }).error)
    await deployment.work()
    expect((await api.call(listPayments, { query: { checkout_id: [checkout.id] } })).items.map(({ status }) => status)).toEqual(['succeeded'])
    expect((await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items).toHaveLength(1)
  }
  const { charges } = await readBooks(world, organization.id)
  expect(charges.map(({ amount }) => amount)).toEqual(Array.from({ length: rounds }, () => 2900))
})

test('refunds no more than was paid if five refunds of an order are requested in parallel', { timeout: 600_000 }, async () => {
  const { api, organization } = await world.shop()
  const product = await api.call(createProduct, { body: { name: 'Field guide', prices: [price] } })
  for (let round = 0; round < rounds; round++) {
    const checkout = await api.call(createCheckout, { body: { products: [product.id] } })
    expect((await pay(checkout, `buyer-${round}@people.test`)).status).toBe(200)
    await deployment.work()
    const [order] = (await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items
    const answers = await times(5, () => api.send(createRefund, { body: { order_id: order!.id, reason: 'other', amount: 1000 } }))
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(2)
    expect(answers.filter(({ status }) => status === 422)).toHaveLength(3)
    const [after] = (await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items
    expect([after!.refunded_amount, after!.refundable_amount]).toEqual([2000, 900])
  }
  const { refunds } = await readBooks(world, organization.id)
  expect(refunds.map(({ amount }) => amount)).toEqual(Array.from({ length: 2 * rounds }, () => 1000))
})

test('lets no more of fifty parallel buyers use a discount than it has redemptions left', { timeout: 900_000 }, async () => {
  const { api } = await world.shop()
  const product = await api.call(createProduct, { body: { name: 'Field guide', prices: [price] } })
  const few = Math.max(1, Math.floor(rounds / 10))
  for (let round = 0; round < few; round++) {
    const uses = 1 + (round % 3)
    const discount = await api.call(createDiscount, {
      body: { name: 'Last ones', type: 'percentage', basis_points: 5000, duration: 'once', max_redemptions: uses },
    })
    const checkouts = await times(50, () => api.call(createCheckout, { body: { products: [product.id], discount_id: discount.id } }))
    const answers = await times(50, (at) => pay(checkouts[at]!, `buyer-${round}-${at}@people.test`, `tok_visa:${at}`))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(uses)
    expect(answers.filter(({ status }) => status === 422)).toHaveLength(50 - uses)
    await deployment.work()
    expect((await api.call(getDiscount, { params: { id: discount.id } })).redemptions_count).toBe(uses)
  }
})

test('does not count the redemption of a discount if the card is declined', async () => {
  const { api } = await world.shop()
  const product = await api.call(createProduct, { body: { name: 'Field guide', prices: [price] } })
  const discount = await api.call(createDiscount, { body: { name: 'One', type: 'fixed', amounts: { usd: 900 }, duration: 'once', max_redemptions: 1 } })
  const [first, second] = await times(2, () => api.call(createCheckout, { body: { products: [product.id], discount_id: discount.id } }))
  expect((await pay(first!, 'a@people.test', 'tok_do_not_honor')).status).toBe(400)
  expect((await api.call(getDiscount, { params: { id: discount.id } })).redemptions_count).toBe(0)
  expect((await pay(second!, 'b@people.test')).status).toBe(200)
  expect((await pay(first!, 'a@people.test')).status).toBe(422)
})
