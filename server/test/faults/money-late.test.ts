import {
  confirmClientCheckout,
  createCheckout,
  createDiscount,
  createProduct,
  createRefund,
  getCheckout,
  getDiscount,
  getOrder,
  listOrders,
  listPayments,
  updateClientCheckout,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Payments, Processor, ProcessorRefund } from '../../src/gateways/payments/payments.ts'
import { reopen } from '../../src/modules/checkout/checkouts/fulfilment.ts'
import { follow as followRefund } from '../../src/modules/billing/refunds/refunds.ts'
import { openDeployment, openLife } from '../harness/crashes.ts'
import { openWorld, type World } from '../harness/world.ts'

// Late results from the processor: of a payment attempt that was replaced by another, or older than the stored state.
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

const open = async (uses: number | null = null) => {
  const { api } = await world.shop()
  const product = await api.call(createProduct, {
    body: { name: 'Field guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] },
  })
  const discount = await api.call(createDiscount, {
    body: { name: 'Half', type: 'percentage', basis_points: 5000, duration: 'once', ...(uses ? { max_redemptions: uses } : {}) },
  })
  const checkout = await api.call(createCheckout, { body: { products: [product.id], ...(uses ? { discount_id: discount.id } : {}) } })
  const params = { client_secret: checkout.client_secret }
  const confirm = (card?: string, more: object = {}) =>
    world.client().send(confirmClientCheckout, {
      params,
      body: { customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' }, ...(card ? { confirmation_token_id: card } : {}), ...more },
    })
  const status = async () => (await api.call(getCheckout, { params: { id: checkout.id } })).status
  return { api, product, discount, checkout, params, confirm, status }
}

test('ignores the late result of an abandoned payment attempt, which says nothing about its successor: checkout and discount stay confirmed', async () => {
  const { api, checkout, discount, confirm, status } = await open(1)
  expect((await confirm('tok_3ds')).status).toBe(200)
  const [given_up] = (await api.call(listPayments, { query: { checkout_id: [checkout.id] } })).items
  // The buyer does not complete the bank authentication for more than an hour, so the payment attempt is abandoned.
  world.clock.advance(3_700_000)
  await deployment.sweep()
  await deployment.work()
  expect(await status()).toBe('open')
  expect((await confirm('tok_processing')).status).toBe(200)
  expect(await status()).toBe('confirmed')
  // A slow process handles the failure of the first payment attempt only now.
  await deployment.deps.transact((tx) =>
    reopen(tx, deployment.deps.platform, { organization_id: checkout.organization_id, checkout_id: checkout.id }, given_up!.id),
  )
  expect(await status()).toBe('confirmed')
  expect((await api.call(getDiscount, { params: { id: discount.id } })).redemptions_count).toBe(1)
  world.clock.advance(120_000)
  await deployment.sweep()
  await deployment.work()
  expect(await status()).toBe('succeeded')
  expect((await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items).toMatchObject([{ status: 'paid', total_amount: 1450 }])
})

test('completes a checkout without payment if a discount makes it free after a declined card', async () => {
  const { api, checkout, params, confirm, status } = await open()
  expect((await confirm('tok_do_not_honor')).status).toBe(400)
  await api.call(createDiscount, { body: { name: 'All', code: 'ALLOFIT', type: 'percentage', basis_points: 10_000, duration: 'once' } })
  expect((await world.client().send(updateClientCheckout, { params, body: { discount_code: 'allofit' } })).status).toBe(200)
  expect((await confirm()).status).toBe(200)
  await deployment.work()
  expect(await status()).toBe('succeeded')
  expect((await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items).toMatchObject([{ status: 'paid', total_amount: 0 }])
})

test('keeps a refund succeeded if an older answer of the processor still shows it as pending', async () => {
  const { api, checkout, confirm } = await open()
  expect((await confirm('tok_visa')).status).toBe(200)
  await deployment.work()
  const [order] = (await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items
  const refund = await api.call(createRefund, { body: { order_id: order!.id, reason: 'other', amount: 1000 } })
  expect(refund.status).toBe('succeeded')
  const stale = (payments: Payments): Payments => ({
    ...payments,
    of: (account) => {
      const processor = payments.of(account)
      const readRefund = async (id: string): Promise<ProcessorRefund> => ({ ...(await processor.readRefund(id)), status: 'pending' })
      return { ...processor, readRefund } satisfies Processor
    },
  })
  const { deps } = deployment
  await followRefund({ ...deps, gateways: { ...deps.gateways, payments: stale(deps.gateways.payments) } }, checkout.organization_id, refund.id)
  expect(await api.call(getOrder, { params: { id: order!.id } })).toMatchObject({ status: 'partially_refunded', refunded_amount: 1000 })
})
