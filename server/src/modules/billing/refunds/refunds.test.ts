import {
  confirmClientCheckout,
  createBenefit,
  createCheckout,
  createCustomer,
  createProduct,
  createRefund,
  getOrder,
  listBenefitGrants,
  listOrders,
  listRefunds,
  updateProductBenefits,
  updateTaxSettings,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readBooks } from '../../../../test/harness/books.ts'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openSales } from '../../../../test/harness/sales.ts'
import { openTeams } from '../../../../test/harness/teams.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { openPayments } from '../../../gateways/payments/open.ts'
import { type ProcessorCall } from '../../../gateways/payments/test/processor.ts'
import { newId } from '../../../kernel/ids.ts'
import { regularWork } from '../../../main/wire.ts'
import { follow } from './refunds.ts'

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

const second = 1000
const hour = 3600 * second
const errorOf = (answer: { status: number; body: unknown }) => `${answer.status} ${(answer.body as { error: string }).error}`
const locs = (answer: { body: unknown }) => (answer.body as { detail: { loc: (string | number)[] }[] }).detail.map(({ loc }) => loc.join('.'))

/** A purchase of 29.00, of which 4.63 are tax. */
const open = async (card = 'tok_visa', product: Record<string, unknown> = {}) => {
  const shop = await world.shop()
  const { api, organization } = shop
  await api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: false }] } })
  const { id } = await api.call(createProduct, {
    body: { name: 'Guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }], ...product } as never,
  })
  const checkout = await api.call(createCheckout, { body: { products: [id] } })
  await world.client().call(confirmClientCheckout, {
    params: { client_secret: checkout.client_secret },
    body: { customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' }, confirmation_token_id: card },
  })
  await deployment.work()
  const order = (await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items[0]!
  const wish = (amount: number, more: object = {}) => ({ body: { order_id: order.id, reason: 'customer_request' as const, amount, ...more } })
  return {
    ...shop,
    order,
    wish,
    refund: (amount: number, more: object = {}) => api.send(createRefund, wish(amount, more)),
    /** The status of the order, its refunded amounts and its refundable amounts. */
    stands: async () => {
      const { status, paid, ...now } = await api.call(getOrder, { params: { id: order.id } })
      expect(paid).toBe(true)
      return [status, now.refunded_amount, now.refunded_tax_amount, now.refundable_amount, now.refundable_tax_amount]
    },
    /** The balance of the processor account in the ledger. */
    held: async () => {
      const { rows } = await world.database.owner((owner) =>
        owner.query<{ held: number }>(`select sum(amount)::int as held from ledger_entries where organization_id = $1 and account = 'processor'`, [
          organization.id,
        ]),
      )
      return rows[0]!.held
    },
    told: async () => (await shop.events()).map(({ type }) => type).slice((await shop.events()).findIndex(({ type }) => type === 'refund.created')),
  }
}
const processorsBooks = async (organization_id: string) => (await readBooks(world, organization_id)).refunds.map(({ amount, status }) => [amount, status])
/** Fetches and applies the processor's events. */
const hear = async () => {
  await regularWork.find(({ name }) => name === 'billing.hear')!.run(deployment.deps)
  await deployment.work()
}

test('refunds a whole order with its tax and emits the events', async () => {
  const { organization, refund, stands, held, told, order } = await open()
  expect(await stands()).toEqual(['paid', 0, 0, 2437, 463])
  const answer = await refund(2437, { comment: 'between us', metadata: { ticket: 7 } })
  expect(answer).toMatchObject({
    status: 201,
    body: {
      status: 'succeeded',
      amount: 2437,
      tax_amount: 463,
      order_id: order.id,
      customer_id: order.customer_id,
      metadata: { ticket: 7 },
      subscription_id: null,
    },
  })
  expect(answer.body).not.toHaveProperty('comment')
  expect((answer.body as { modified_at: unknown }).modified_at).not.toBeNull()
  expect(await stands()).toEqual(['refunded', 2437, 463, 0, 0])
  expect(await held()).toBe(0)
  expect(await processorsBooks(organization.id)).toEqual([[2900, 'succeeded']])
  expect(await told()).toEqual(['refund.created', 'order.updated', 'order.refunded', 'refund.updated'])
  expect(errorOf(await refund(1))).toBe('403 RefundedAlready')
})

test('mails the customer about a refund once it succeeds, with its amount and card', async () => {
  const { post } = await openTeams(world, deployment)
  const { refund } = await open()
  // Earlier tests have left mails in the queue.
  await post('mail.order_refunded')
  world.mail.letters.length = 0
  await refund(1000)
  await post('mail.order_refunded')
  const letters = world.mail.letters.filter(({ subject }) => subject.startsWith('Ihre Erstattung von '))
  expect(letters).toHaveLength(1)
  expect(letters[0]!.to).toBe('ada@people.test')
  for (const part of ['11,90', 'Das Geld geht zurück auf Visa mit Endziffern 0001']) expect(letters[0]!.text).toContain(part)
})

test('refunds an order in parts that add up exactly to its amount and tax', async () => {
  const { organization, refund, stands, held } = await open()
  const taxes = []
  for (const amount of [1, 2, 333, 1000, 1100]) taxes.push(((await refund(amount)).body as { tax_amount: number }).tax_amount)
  expect((await stands())[0]).toBe('partially_refunded')
  expect(locs(await refund(2))).toEqual(['body.amount'])
  taxes.push(((await refund(1)).body as { tax_amount: number }).tax_amount)
  expect(taxes.reduce((sum, tax) => sum + tax, 0)).toBe(463)
  expect(await stands()).toEqual(['refunded', 2437, 463, 0, 0])
  expect(await held()).toBe(0)
  expect((await processorsBooks(organization.id)).reduce((sum, [amount]) => sum + Number(amount), 0)).toBe(2900)
})

test('rejects amounts of zero or above the paid amount, and reasons that a seller cannot give', async () => {
  const { organization, refund, stands } = await open()
  for (const amount of [2438, 2900, 0, -1, 1.5]) expect(locs(await refund(amount))).toEqual(['body.amount'])
  expect(locs(await refund(100, { reason: 'dispute_prevention' }))).toEqual(['body.reason'])
  expect(await stands()).toEqual(['paid', 0, 0, 2437, 463])
  expect(await processorsBooks(organization.id)).toEqual([])
})

test('rejects a refund of an order that was settled without a payment', async () => {
  const { api } = await world.shop()
  const { id } = await api.call(createProduct, { body: { name: 'Free', prices: [{ amount_type: 'fixed', price_amount: 0, price_currency: 'usd' }] } })
  const { client_secret } = await api.call(createCheckout, { body: { products: [id] } })
  await world.client().call(confirmClientCheckout, { params: { client_secret }, body: { customer_email: 'ada@people.test' } })
  await deployment.work()
  const [order] = (await api.call(listOrders, {})).items
  expect(errorOf(await api.send(createRefund, { body: { order_id: order!.id, reason: 'other', amount: 1 } }))).toBe('404 RefundUnknownPayment')
})

test('refunds a subscription order, but refuses to revoke its benefits', async () => {
  const { refund, stands } = await open('tok_visa', { recurring_interval: 'month' })
  expect(errorOf(await refund(100, { revoke_benefits: true }))).toBe('400 RevokeSubscriptionBenefitsProhibited')
  expect((await refund(100)).status).toBe(201)
  expect(await stands()).toEqual(['partially_refunded', 100, 19, 2337, 444])
})

test('rejects a refund if refunds are blocked for the seller', async () => {
  const { organization, refund, stands } = await open()
  await world.database.owner((owner) => owner.query(`update organizations set status = 'denied' where id = $1`, [organization.id]))
  expect(errorOf(await refund(100))).toBe('403 RefundsBlocked')
  expect(await stands()).toEqual(['paid', 0, 0, 2437, 463])
})

test('makes one refund per idempotency key and rejects another amount under the same key', async () => {
  const { organization, wish, api } = await open()
  const keyed = world.client({ token: (await organization.token()).secret }, { 'idempotency-key': 'refund-1' })
  const first = await keyed.call(createRefund, wish(1000))
  const again = await keyed.send(createRefund, wish(1000))
  expect(again.body).toEqual(first)
  expect(again.headers.get('idempotent-replayed')).toBe('true')
  expect(locs(await keyed.send(createRefund, wish(900)))).toEqual(['header.idempotency-key'])
  expect((await api.call(listRefunds, {})).items.map(({ amount }) => amount)).toEqual([1000])
  expect(await processorsBooks(organization.id)).toEqual([[1190, 'succeeded']])
})

test('counts a pending refund as refunded until it is settled', async () => {
  const { refund, stands, held, told, order, api } = await open('tok_refund_pending')
  expect(await refund(2000)).toMatchObject({ status: 201, body: { status: 'pending', amount: 2000, tax_amount: 380 } })
  expect(await stands()).toEqual(['paid', 0, 0, 2437, 463])
  expect(await held()).toBe(2900)
  expect(locs(await refund(438))).toEqual(['body.amount'])
  expect((await refund(437)).status).toBe(201)
  expect(errorOf(await refund(1))).toBe('403 RefundedAlready')
  world.clock.advance(61 * second)
  await hear()
  expect(await stands()).toEqual(['refunded', 2437, 463, 0, 0])
  expect(await held()).toBe(0)
  expect((await api.call(listRefunds, { query: { order_id: [order.id] } })).items.map(({ status }) => status)).toEqual(['succeeded', 'succeeded'])
  expect((await told()).filter((kind) => kind === 'order.refunded')).toHaveLength(2)
})

test('settles a pending refund by polling if no event arrives', async () => {
  const { refund, stands } = await open('tok_refund_pending')
  await refund(2437)
  for (const wait of [31, 31, 61]) {
    world.clock.advance(wait * second)
    await deployment.sweep()
  }
  expect(await stands()).toEqual(['refunded', 2437, 463, 0, 0])
})

test('reverses a refund that fails later, emits the events, and allows another refund', async () => {
  const { api, order, refund, stands, held, told } = await open('tok_refund_fails_later')
  expect(await refund(1000)).toMatchObject({ body: { status: 'succeeded', tax_amount: 190 } })
  expect(await stands()).toEqual(['partially_refunded', 1000, 190, 1437, 273])
  expect(await held()).toBe(2900 - 1190)
  await hear()
  expect((await stands())[0]).toBe('partially_refunded')
  world.clock.advance(61 * second)
  for (const _ of [1, 2]) await hear()
  expect(await stands()).toEqual(['paid', 0, 0, 2437, 463])
  expect(await held()).toBe(2900)
  expect((await api.call(listRefunds, { query: { order_id: [order.id] } })).items.map(({ status }) => status)).toEqual(['failed'])
  expect(await told()).toEqual(['refund.created', 'order.updated', 'order.refunded', 'refund.updated', 'order.updated', 'refund.updated'])
  expect((await refund(2437)).status).toBe(201)
})

test('restores the benefits when a refund fails, unless another refund also revokes them', async () => {
  const { api, order, refund } = await open('tok_refund_fails_later')
  const flag = await api.call(createBenefit, { body: { type: 'feature_flag', description: 'Beta', properties: {} } })
  await api.call(updateProductBenefits, { params: { id: order.product_id! }, body: { benefits: [flag.id] } })
  await deployment.work()
  const granted = async () => (await api.call(listBenefitGrants, { query: { order_id: [order.id] } })).items.map(({ is_granted }) => is_granted)
  const statuses = async () => (await api.call(listRefunds, { query: { order_id: [order.id], sorting: ['created_at'] } })).items.map(({ status }) => status)
  const taking = async (amount: number) => {
    expect((await refund(amount, { revoke_benefits: true })).status).toBe(201)
    await deployment.work()
  }
  const after = async (milliseconds: number) => {
    world.clock.advance(milliseconds)
    for (const _ of [1, 2]) await hear()
  }
  expect(await granted()).toEqual([true])
  await taking(1000)
  expect(await granted()).toEqual([false])
  await after(40 * second)
  await taking(500)
  await after(21 * second)
  expect([await statuses(), await granted()]).toEqual([['failed', 'succeeded'], [false]])
  await after(40 * second)
  expect([await statuses(), await granted()]).toEqual([['failed', 'failed'], [true]])
})

test('ignores an outdated status from the processor: a settled refund stays settled, a failed one stays failed', async () => {
  const { organization, refund, stands, held } = await open('tok_refund_pending')
  const { id } = (await refund(1000)).body as unknown as { id: string }
  const tells = (status: string) =>
    follow(
      {
        ...deployment.deps,
        gateways: {
          ...deployment.deps.gateways,
          payments: { of: () => ({ readRefund: async () => ({ id: 'any', status }), findDisputes: async () => [], findRefunds: async () => [] }) } as never,
        },
      },
      organization.id,
      id,
    )
  await tells('succeeded')
  await tells('pending')
  expect(await stands()).toEqual(['partially_refunded', 1000, 190, 1437, 273])
  await tells('failed')
  await tells('succeeded')
  expect(await stands()).toEqual(['paid', 0, 0, 2437, 463])
  expect(await held()).toBe(2900)
})

for (const [side, calls, status] of [
  ['after', ['findRefunds'], 'succeeded'],
  // The processor does not list the refund yet, so the refund stays pending.
  ['before', ['findRefunds'], 'pending'],
] as const)
  test(`finds a refund that got no answer by its metadata after 20 hours (answer lost ${side} the refund was made: ${status})`, async () => {
    const { organization, order, api, stands } = await open()
    const heard: ProcessorCall[] = []
    const payments = openPayments(world.config, {
      ...world.base,
      misbehave: (call) => {
        heard.push(call)
        return call === 'createRefund' ? side : undefined
      },
    })
    const deaf = await openDeployment(world, { ...openLife(null), watched: () => ({ ...payments, close: async () => undefined }) })
    const answer = await deaf
      .client((await organization.token()).secret.reveal())
      .send(createRefund, { body: { order_id: order.id, reason: 'other', amount: 1000 } })
    expect(answer).toMatchObject({ status: 201, body: { status: 'pending' } })
    world.clock.advance(20 * hour)
    heard.length = 0
    await follow(deaf.deps, organization.id, (answer.body as unknown as { id: string }).id)
    await deaf.close()
    await payments.close()
    expect(heard).toEqual(calls)
    expect((await api.call(listRefunds, {})).items.map((one) => one.status)).toEqual([status])
    expect((await stands())[1]).toBe(status === 'succeeded' ? 1000 : 0)
    expect(await processorsBooks(organization.id)).toEqual(status === 'succeeded' ? [[1190, 'succeeded']] : [])
  })

test('rejects orders of other organizations like unknown ones, and callers without scope or token', async () => {
  const { organization, order, wish, stands } = await open()
  const stranger = await world.shop()
  const theirs = await stranger.api.send(createRefund, wish(100))
  const id = newId(world.clock.wall())
  const absent = await stranger.api.send(createRefund, { body: { order_id: id, reason: 'other', amount: 100 } })
  expect([theirs.status, locs(theirs)]).toEqual([422, ['body.order_id']])
  expect(JSON.stringify(theirs.body)).toBe(JSON.stringify(absent.body).replace(id, order.id))
  const reader = world.client({ token: (await organization.token(['refunds:read'])).secret })
  expect(errorOf(await reader.send(createRefund, wish(100)))).toBe('403 insufficient_scope')
  expect((await world.client().send(createRefund, wish(100))).status).toBe(401)
  expect(await stands()).toEqual(['paid', 0, 0, 2437, 463])
})

test('rejects a refund of a pending order', async () => {
  const { api } = await world.shop()
  const anna = await api.call(createCustomer, { body: { email: 'anna@people.test' } })
  const order = await openSales(world).order(anna, { status: 'pending' })
  expect(errorOf(await api.send(createRefund, { body: { order_id: order.id, reason: 'other', amount: 100 } }))).toBe('404 RefundUnknownPayment')
})
