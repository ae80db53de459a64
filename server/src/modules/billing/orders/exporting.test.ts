import { createCustomer, createProduct, deleteCustomer, exponents, exportOrders } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { digest } from '../../../../test/harness/digest.ts'
import { openSales } from '../../../../test/harness/sales.ts'
import { openApp, openVisitor } from '../../../../test/harness/visitor.ts'
import { exchange, openWorld, type World } from '../../../../test/harness/world.ts'
import { formatAmount } from '../../../kernel/money.ts'

let world: World
let sales: ReturnType<typeof openSales>
beforeAll(async () => {
  world = await openWorld()
  sales = openSales(world)
})
afterAll(() => world.close())

const open = async () => {
  const shop = await world.shop()
  const { api } = shop
  const prices = [{ amount_type: 'fixed' as const, price_amount: 1000 }]
  return {
    ...shop,
    book: await api.call(createProduct, { body: { name: 'Book', prices } }),
    anna: await api.call(createCustomer, { body: { email: 'anna@people.test', name: 'Anna "Ann", A' } }),
  }
}
type Shop = Awaited<ReturnType<typeof open>>

const linesOf = (text: string) => text.split('\r\n').slice(1, -1)

describe('export file', () => {
  test('lists orders newest first in seven default columns and changes no data [S4-01] [S4-02]', async () => {
    const { api, anna, book } = await open()
    const first = await sales.order(anna, { product_id: book.id, description: 'Book', net_amount: 1234, invoice_number: 'A-0001' })
    const second = await sales.order(anna, { product_id: book.id, description: 'Book, signed', net_amount: 500, currency: 'jpy', status: 'pending' })
    const before = await digest(world)
    const reply = await api.send(exportOrders, {})
    expect(reply.status).toBe(200)
    expect(reply.headers.get('content-type')).toBe('text/csv; charset=utf-8')
    expect(reply.headers.get('content-disposition')).toBe('attachment; filename="orders.csv"')
    expect(reply.headers.get('x-total-count')).toBe('2')
    expect(reply.headers.get('x-content-type-options')).toBe('nosniff')
    const at = (date: Date) => date.toISOString().replace('Z', '+00:00')
    expect(reply.body).toBe(
      [
        'Email,Created At,Product,Net Amount,Currency,Status,Invoice number',
        `anna@people.test,${at(second.created_at)},"Book, signed",500,jpy,pending,`,
        `anna@people.test,${at(first.created_at)},Book,12.34,usd,paid,A-0001`,
        '',
      ].join('\r\n'),
    )
    expect(await digest(world)).toEqual(before)
  })

  test('contains the requested columns in their order, with times in the requested time zone', async () => {
    const { api, anna } = await open()
    const given = {
      created_at: new Date('2026-03-28T23:30:00.5Z'),
      billing_name: 'A\r\nB',
      billing_address: { line1: null, line2: null, postal_code: null, city: null, state: null, country: 'AT' as const },
      subtotal_amount: 1500,
      discount_amount: 500,
      net_amount: 1000,
      tax_amount: 200,
      refunded_amount: 7,
      billing_reason: 'subscription_cycle' as const,
    }
    await sales.order(anna, given)
    const reply = await api.send(exportOrders, {
      query: {
        timezone: 'Europe/Vienna',
        columns: [
          'billing_reason',
          'customer_name',
          'created_at',
          'billing_name',
          'billing_country',
          'subtotal_amount',
          'discount_amount',
          'tax_amount',
          'total_amount',
          'refunded_amount',
          'billing_reason',
        ],
        created_after: '2026-03-28T23:29:00Z',
        created_before: '2026-03-30T01:00:00+02:00',
      },
    })
    expect(reply.headers.get('content-disposition')).toBe('attachment; filename="orders-2026-03-29-2026-03-30.csv"')
    expect(reply.body).toBe(
      'Billing Reason,Customer Name,Created At,Billing Name,Billing Country,Subtotal,Discount,Tax,Total,Refunded Amount,Billing Reason\r\n' +
        'subscription_cycle,"Anna ""Ann"", A",2026-03-29T00:30:00.500+01:00,"A\r\nB",AT,15.00,5.00,2.00,12.00,0.07,subscription_cycle\r\n',
    )
  })

  test('formats amounts with the decimal places of their currency, and negative amounts as numbers', async () => {
    const { api, anna } = await open()
    const written: string[] = []
    for (const currency of ['usd', 'eur', ...exponents.keys()])
      for (const net_amount of [0, 1, -1, 99, 100, -12_300, 123_456_789]) {
        await sales.order(anna, { currency, net_amount, due_amount: Math.max(0, net_amount) })
        written.push(formatAmount(net_amount, currency))
      }
    const { body } = await api.send(exportOrders, { query: { columns: ['net_amount'] } })
    expect(linesOf(body)).toEqual(written.toReversed())
  })

  test('has a header even if there are no orders, and includes orders of deleted customers', async () => {
    const { api, anna } = await open()
    const empty = await api.send(exportOrders, { query: { columns: ['email', 'email'] } })
    expect([empty.body, empty.headers.get('x-total-count')]).toEqual(['Email,Email\r\n', '0'])
    await sales.order(anna)
    await api.call(deleteCustomer, { params: { id: anna.id } })
    const { body } = await api.send(exportOrders, { query: { columns: ['status'] } })
    expect(linesOf(body)).toEqual(['paid'])
  })

  test('sorts orders of the same time by id', async () => {
    const { api, anna } = await open()
    const created_at = new Date('2026-05-01T00:00:00Z')
    const made = await Promise.all(Array.from({ length: 20 }, (_, at) => sales.order(anna, { created_at, description: `N${at}` })))
    const { body } = await api.send(exportOrders, { query: { columns: ['product'] } })
    const names = made.toSorted((a, b) => (a.id < b.id ? 1 : -1))
    expect(linesOf(body)).toEqual(names.map(({ description }) => description))
  })
})

describe('export filters', () => {
  const productsOf = async (api: Shop['api'], query: Parameters<typeof api.send<typeof exportOrders>>[1]['query']) =>
    linesOf((await api.send(exportOrders, { query: { ...query, columns: ['product'] } })).body)

  test('selects one organization, several, or all that the caller can access [S4-05]', async () => {
    const person = await world.person()
    const shops = await Promise.all([1, 2, 3].map(async () => world.organization({ owner: person.id })))
    const stranger = await open()
    await sales.order(stranger.anna, { description: 'theirs' })
    const ours: string[] = []
    for (const round of [1, 2])
      for (const { id } of shops) {
        const api = world.client({ token: (await shops.find((one) => one.id === id)!.token()).secret })
        const customer = await api.call(createCustomer, { body: { email: `c${round}@people.test` } })
        await sales.order(customer, { description: `${shops.findIndex((one) => one.id === id)} ${round}` })
      }
    ours.push('2 2', '1 2', '0 2', '2 1', '1 1', '0 1')
    const api = world.client({ token: (await person.token()).secret })
    const [a, b] = shops
    expect(await productsOf(api, {})).toEqual(ours)
    expect(await productsOf(api, { organization_id: '' })).toEqual(ours)
    expect(await productsOf(api, { organization_id: a!.id })).toEqual(['0 2', '0 1'])
    expect(await productsOf(api, { organization_id: [a!.id, b!.id] })).toEqual(['1 2', '0 2', '1 1', '0 1'])
    // An organization out of scope is ignored even if the request names it.
    expect(await productsOf(api, { organization_id: [stranger.organization.id] })).toEqual([])
    expect(await productsOf(api, { organization_id: [stranger.organization.id, a!.id] })).toEqual(['0 2', '0 1'])
    const total = await api.send(exportOrders, { query: { organization_id: [a!.id, b!.id] } })
    expect(total.headers.get('x-total-count')).toBe('4')
    const nowhere = world.client({ token: (await (await world.person()).token()).secret })
    expect(await productsOf(nowhere, {})).toEqual([])
  })

  test('filters by product, status and time range [S4-06]', async () => {
    const { api, anna, book } = await open()
    const cup = await api.call(createProduct, { body: { name: 'Cup', prices: [{ amount_type: 'fixed', price_amount: 500 }] } })
    const at = (second: number) => new Date(Date.UTC(2026, 5, 1, 0, 0, second))
    await sales.order(anna, { product_id: book.id, description: 'book', created_at: at(1) })
    await sales.order(anna, { product_id: cup.id, description: 'cup', created_at: at(2), status: 'refunded' })
    await sales.order(anna, { description: 'none', created_at: at(3), status: 'pending' })
    expect(await productsOf(api, { product_id: '' })).toEqual(['none', 'cup', 'book'])
    expect(await productsOf(api, { product_id: book.id })).toEqual(['book'])
    expect(await productsOf(api, { product_id: [book.id, cup.id] })).toEqual(['cup', 'book'])
    expect(await productsOf(api, { status: ['pending', 'refunded'] })).toEqual(['none', 'cup'])
    expect(await productsOf(api, { created_after: at(1).toISOString() })).toEqual(['none', 'cup'])
    expect(await productsOf(api, { created_before: at(3).toISOString() })).toEqual(['cup', 'book'])
    const one = await api.send(exportOrders, { query: { created_after: at(1).toISOString(), created_before: at(3).toISOString(), status: ['refunded'] } })
    expect(one.headers.get('x-total-count')).toBe('1')
    // Accepts the earliest and latest possible times.
    expect(await productsOf(api, { created_after: '0000-01-01T00:00:00Z', created_before: '9999-12-31T23:59:59-01:00' })).toEqual(['none', 'cup', 'book'])
  })

  test('rejects invalid parameters with their location [S4-07]', async () => {
    const { api } = await open()
    const wrong: [Record<string, unknown>, (string | number)[]][] = [
      [{ organization_id: 'nonsense' }, ['query', 'organization_id', 0]],
      [{ product_id: ['01a1e16a-5909-4421-ba2f-3b9f6da303f8', "x' or true --"] }, ['query', 'product_id', 1]],
      [{ status: 'lost' }, ['query', 'status', 0]],
      [{ created_after: '2026-01-01T00:00:00' }, ['query', 'created_after']],
      [{ timezone: 'Mars/Olympus' }, ['query', 'timezone']],
      [{ timezone: "UTC'; drop table orders" }, ['query', 'timezone']],
      [{ timezone: '+02:00' }, ['query', 'timezone']],
      [{ columns: 'secrets' }, ['query', 'columns', 0]],
    ]
    for (const [query, loc] of wrong) {
      const { status, body } = await api.sendRaw(exportOrders, { query })
      expect([query, status, (body as { detail: { loc: unknown }[] }).detail[0]!.loc]).toEqual([query, 422, loc])
    }
  })
})

test('requires orders:read from an OpenID Connect token, a personal or an organization token [S4-03] [S4-04]', async () => {
  const person = await world.person()
  const organization = await world.organization({ owner: person.id })
  const full = world.client({ token: (await organization.token()).secret })
  await sales.order(await full.call(createCustomer, { body: { email: 'zoe@people.test' } }))
  const visitor = openVisitor(world, await person.cookie())
  const app = await openApp(world)
  const kinds = {
    oidc: async (scope: 'orders:read' | 'orders:write') => (await app.tokens(visitor, { scope: `openid ${scope}` })).access_token,
    pat: async (scope: 'orders:read' | 'orders:write') => (await person.token([scope])).secret,
    oat: async (scope: 'orders:read' | 'orders:write') => (await organization.token([scope])).secret,
  }
  for (const [kind, issue] of Object.entries(kinds)) {
    const granted = await world.client({ token: await issue('orders:read') }).send(exportOrders, { query: { columns: ['email'] } })
    expect([kind, granted.status, granted.body]).toEqual([kind, 200, 'Email\r\nzoe@people.test\r\n'])
    expect([kind, (await world.client({ token: await issue('orders:write') }).send(exportOrders, {})).status]).toEqual([kind, 403])
  }
  expect((await exchange(world.port, 'GET', '/v1/orders/export')).status).toBe(401)
})
