import {
  confirmClientCheckout,
  createBenefit,
  createCheckout,
  createProduct,
  createRefund,
  getOrder,
  listOrderLedgerEntries,
  listOrders,
  listBenefitGrants,
  listRefunds,
  previewRefund,
  updateProductBenefits,
  updateTaxSettings,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readBooks } from '../../../../test/harness/books.ts'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'

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

/** A purchase of 29.00, of which 4.63 are tax, with two benefits. */
const open = async () => {
  const shop = await world.shop()
  const { api } = shop
  await api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: false }] } })
  const benefits = []
  for (const description of ['Guide', 'Map'])
    benefits.push((await api.call(createBenefit, { body: { type: 'custom', description, properties: { note: null } } as never })).id)
  const { id } = await api.call(createProduct, { body: { name: 'Guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] } })
  await api.call(updateProductBenefits, { params: { id }, body: { benefits } })
  const checkout = await api.call(createCheckout, { body: { products: [id] } })
  await world.client().call(confirmClientCheckout, {
    params: { client_secret: checkout.client_secret },
    body: { customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' }, confirmation_token_id: 'tok_visa' },
  })
  await deployment.work()
  const order = (await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items[0]!
  const wish = (amount: number, more: object = {}) => ({ body: { order_id: order.id, reason: 'customer_request' as const, amount, ...more } })
  return { ...shop, order, benefits, wish }
}

test('a preview tells what the refund then does, and changes nothing', async () => {
  const { api, organization, order, benefits, wish, events } = await open()
  const before = [await api.call(getOrder, { params: { id: order.id } }), (await events()).length]
  const preview = await api.call(previewRefund, wish(1000, { revoke_benefits: true }))
  expect([await api.call(getOrder, { params: { id: order.id } }), (await events()).length]).toEqual(before)
  expect((await api.call(listRefunds, {})).items).toEqual([])
  expect((await readBooks(world, organization.id)).refunds).toEqual([])
  expect(preview).toMatchObject({
    order_id: order.id,
    currency: 'usd',
    net_amount: 1000,
    order_status: 'partially_refunded',
    credit_note: true,
    access_ends_count: 2,
  })
  expect(preview.gross_amount).toBe(preview.net_amount + preview.tax_amount)
  expect(preview.access_ends.map(({ benefit_id }) => benefit_id).toSorted()).toEqual(benefits.toSorted())
  for (const { entries } of preview.postings) expect(entries.reduce((sum, { amount }) => sum + amount, 0)).toBe(0)
  const refund = await api.call(createRefund, wish(1000, { revoke_benefits: true }))
  await deployment.work()
  expect(refund).toMatchObject({ status: 'succeeded', amount: preview.net_amount, tax_amount: preview.tax_amount })
  const after = await api.call(getOrder, { params: { id: order.id } })
  expect(after).toMatchObject({
    status: preview.order_status,
    refundable_amount: preview.refundable_amount_left,
    refundable_tax_amount: preview.refundable_tax_amount_left,
  })
  const posted = (await api.call(listOrderLedgerEntries, { params: { id: order.id } })).items.filter(({ reference_id }) => reference_id === refund.id)
  expect(posted.map(({ kind, entries }) => ({ kind, entries }))).toEqual(preview.postings.map(({ kind, entries }) => ({ kind, entries })))
  const told = (await events()).map(({ type }) => type)
  expect(told.slice(told.indexOf('refund.created')).filter((type) => preview.events.includes(type))).toEqual(preview.events)
  expect((await api.call(listBenefitGrants, {})).items.filter(({ is_granted }) => is_granted)).toEqual([])
})

test('a preview fails with the errors of the refund, and ends no access without being asked', async () => {
  const { api, organization, order, wish } = await open()
  expect((await api.call(previewRefund, wish(500))).access_ends).toEqual([])
  const whole = await api.call(previewRefund, wish(order.refundable_amount))
  expect(whole).toMatchObject({ order_status: 'refunded', refundable_amount_left: 0, refundable_tax_amount_left: 0, gross_amount: 2900 })
  expect((await api.send(previewRefund, wish(2901))).status).toBe(422)
  await api.call(createRefund, wish(order.refundable_amount))
  expect(await api.send(previewRefund, wish(1))).toMatchObject({ status: 403, body: { error: 'RefundedAlready' } })
  expect((await (await world.shop()).api.send(previewRefund, wish(100))).status).toBe(422)
  const reader = world.client({ token: (await organization.token(['refunds:read'])).secret })
  expect((await reader.send(previewRefund, wish(100))).status).toBe(403)
})
