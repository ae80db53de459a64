import { confirmClientCheckout, createCheckout, createProduct, createRefund, listOrders, listRefunds, updateTaxSettings } from '@bursar/contract'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { settlesAfter } from '../../src/gateways/payments/test/cards.ts'
import { TaxUnavailable } from '../../src/gateways/tax/tax.ts'
import { regularWork } from '../../src/main/wire.ts'
import { Died, openDeployment, openLife, type Life } from '../harness/crashes.ts'
import { openTaxStandIn, type TaxStandIn } from '../harness/tax-service.ts'
import { openClock, openWorld, type World } from '../harness/world.ts'

let world: World
let service: TaxStandIn
let healthy: Awaited<ReturnType<typeof openDeployment>>
let shop: Awaited<ReturnType<World['shop']>>
let product_id: string
let token: string
beforeAll(async () => {
  const clock = openClock()
  service = await openTaxStandIn(clock)
  world = await openWorld({ clock, settings: service.settings })
  healthy = await openDeployment(world, openLife(null))
})
beforeEach(async () => {
  shop = await world.shop()
  token = (await shop.organization.token()).secret.reveal()
  await shop.api.call(updateTaxSettings, { body: { provider: 'service', rates: [] } })
  const price = { amount_type: 'fixed' as const, price_amount: 2900, price_currency: 'usd' as const }
  product_id = (await shop.api.call(createProduct, { body: { name: 'Guide', prices: [price] } })).id
})
afterEach(() => {
  service.behave()
  service.release()
})
afterAll(async () => {
  await healthy.close()
  await world.close()
  await service.close()
})

const openCheckout = () => shop.api.call(createCheckout, { body: { products: [product_id] } })
const confirmation = (card: string) => ({
  customer_email: 'ada@people.test',
  customer_billing_address: { country: 'DE' as const },
  confirmation_token_id: card,
})
const orders = async () => (await shop.api.call(listOrders, { query: { limit: 100 } })).items
/** Buys the product for 29.00, of which 4.63 are tax. */
const buy = async (card = 'tok_visa') => {
  const { id, client_secret } = await openCheckout()
  await world.client().call(confirmClientCheckout, { params: { client_secret }, body: confirmation(card) })
  await healthy.work()
  return (await orders()).find(({ checkout_id }) => checkout_id === id)!
}
const refund = (order_id: string, amount: number) => shop.api.call(createRefund, { body: { order_id, amount, reason: 'other' } })
const hear = async () => {
  await regularWork.find(({ name }) => name === 'billing.hear')!.run(healthy.deps)
  await healthy.work()
}
/** The reports about an order in the books of the service. */
const booked = (order_id: string) => ({
  confirmed: service.books.confirmed.get(order_id),
  reversed: [...service.books.reversed].filter(([, one]) => one.order_id === order_id).map(([key, { amount, tax_amount }]) => [key, amount, tax_amount]),
})
const quoteOf = async (order_id: string) =>
  world.database.owner(
    async (client) =>
      (
        await client.query<{ id: string }>(
          'select q.service_quote_id as id from orders o join tax_quotes q on q.organization_id = o.organization_id and q.id = o.tax_quote_id where o.id = $1',
          [order_id],
        )
      ).rows[0]!.id,
  )

test('confirms the tax of a paid order, and reverses the tax of each refund', async () => {
  const order = await buy()
  expect(order).toMatchObject({ status: 'paid', net_amount: 2437, tax_amount: 463 })
  expect(booked(order.id)).toEqual({
    confirmed: {
      organization_id: shop.organization.id,
      quote_id: await quoteOf(order.id),
      order_id: order.id,
      currency: 'usd',
      behavior: 'inclusive',
      address: { country: 'DE', state: null, city: null, postal_code: null, line1: null, line2: null },
      tax_id: null,
      lines: [
        {
          reference: '1',
          amount: 2900,
          tax_code: 'general_electronically_supplied_services',
          taxes: [{ jurisdiction: 'DE', rate: 190_000, tax_amount: 463, reason: 'standard_rated' }],
        },
      ],
    },
    reversed: [],
  })
  const [first, second] = [await refund(order.id, 1000), await refund(order.id, 1437)]
  await healthy.work()
  expect(booked(order.id).reversed).toEqual([
    [first.id, 1000, 190],
    [second.id, 1437, 273],
  ])
})

test('asks nothing and reports nothing for a seller with its own rates', async () => {
  await shop.api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: false }] } })
  const before = service.requests.length
  const order = await buy()
  await refund(order.id, 1000)
  await healthy.work()
  expect([order.tax_amount, service.requests.length - before]).toEqual([463, 0])
})

test('undoes the reversal of a refund that fails after it has succeeded', async () => {
  const order = await buy('tok_refund_fails_later')
  const { id } = await refund(order.id, 1000)
  await healthy.work()
  expect(booked(order.id).reversed).toEqual([[id, 1000, 190]])
  world.clock.advance(settlesAfter)
  await hear()
  expect((await shop.api.call(listRefunds, { query: { order_id: [order.id] } })).items.map(({ status }) => status)).toEqual(['failed'])
  expect(booked(order.id).reversed).toEqual([
    [id, 1000, 190],
    [`${id}:undone`, -1000, -190],
  ])
})

test('reverses the tax of a lost dispute once', async () => {
  const order = await buy('tok_dispute_lost')
  await hear()
  expect(booked(order.id).reversed).toEqual([])
  world.clock.advance(settlesAfter)
  await hear()
  await hear()
  expect(booked(order.id).reversed).toEqual([[expect.any(String), 2437, 463]])
})

test.each(['fail', 'lose_answer'] as const)('completes the sale and the refund while the reports of tax %s, and repeats the reports', async (fault) => {
  service.misbehave(({ path }) => (path === '/tax/quotes' ? undefined : fault))
  const { id, client_secret } = await openCheckout()
  await world.client().call(confirmClientCheckout, { params: { client_secret }, body: confirmation('tok_visa') })
  // The job stays in the queue, which repeats it.
  await expect(healthy.work()).rejects.toThrow(TaxUnavailable)
  const [order] = await orders()
  expect(order).toMatchObject({ checkout_id: id, status: 'paid', tax_amount: 463 })
  const { id: refund_id, status } = await refund(order!.id, 1000)
  expect(status).toBe('succeeded')
  await expect(healthy.work()).rejects.toThrow(TaxUnavailable)
  service.behave()
  await healthy.work()
  const { confirmed, reversed } = booked(order!.id)
  expect(confirmed).toMatchObject({ order_id: order!.id })
  expect(reversed).toEqual([[refund_id, 1000, 190]])
})

test('confirms an order before it reverses its tax, even if the job of the refund runs first', async () => {
  const order = await buy()
  service.books.confirmed.delete(order.id)
  const { id } = await refund(order.id, 1000)
  await healthy.work()
  expect(booked(order.id)).toMatchObject({ confirmed: { order_id: order.id }, reversed: [[id, 1000, 190]] })
})

/** Runs the work in a process that ends at the chosen effect. */
const survive = async (life: Life, work: (process: Awaited<ReturnType<typeof openDeployment>>) => Promise<void>) => {
  const process = await openDeployment(world, life)
  try {
    await work(process)
  } catch (error) {
    if (!(error instanceof Died)) throw error
  } finally {
    await process.close()
  }
}
/** Lets another process finish the interrupted work after the leases have expired. */
const recover = async () => {
  for (const wait of [0, 31_000, 601_000]) {
    world.clock.advance(wait)
    await healthy.sweep()
    await healthy.work()
  }
}

test('confirms each paid order once and reverses each refund once, also after a crash before or after any effect', { timeout: 600_000 }, async () => {
  const steps = {
    purchase: async () => {
      const { client_secret } = await openCheckout()
      return async (process: Awaited<ReturnType<typeof openDeployment>>) => {
        await process.client().send(confirmClientCheckout, { params: { client_secret }, body: confirmation('tok_visa') })
        await process.work()
      }
    },
    refund: async () => {
      const { id: order_id } = await buy()
      return async (process: Awaited<ReturnType<typeof openDeployment>>) => {
        await process.client(token).send(createRefund, { body: { order_id, amount: 1000, reason: 'other' } })
        await process.work()
      }
    },
  }
  for (const [name, prepare] of Object.entries(steps)) {
    const watched = openLife(null)
    await survive(watched, await prepare())
    expect(watched.effects).toContain(name === 'purchase' ? 'tax.confirm' : 'tax.reverse')
    process.stdout.write(`${name}: ${watched.effects.length} effects (${watched.effects.join(', ')})\n`)
    for (let point = 1; point <= watched.effects.length; point++)
      for (const side of ['before', 'after'] as const) {
        const life = openLife({ point, side })
        await survive(life, await prepare())
        expect(life.isDead(), `${name} ${point} ${side}`).toBe(true)
        await recover()
      }
  }
  const paid = await orders()
  const refunds = (await shop.api.call(listRefunds, { query: { limit: 100 } })).items
  expect([paid.length > 10, refunds.length > 10, refunds.every(({ status }) => status === 'succeeded')]).toEqual([true, true, true])
  for (const order of paid) {
    const { confirmed, reversed } = booked(order.id)
    expect(confirmed).toMatchObject({ quote_id: await quoteOf(order.id) })
    expect(reversed).toEqual(refunds.filter(({ order_id }) => order_id === order.id).map(({ id, amount, tax_amount }) => [id, amount, tax_amount]))
  }
  // The service has booked nothing else for this seller.
  const ours = [...service.books.confirmed.values()].filter(({ organization_id }) => organization_id === shop.organization.id)
  expect(ours.map(({ order_id }) => order_id).toSorted()).toEqual(paid.map(({ id }) => id).toSorted())
})
