import {
  createBenefit,
  createCustomField,
  createMeter,
  createProduct,
  deleteCustomField,
  deleteProduct,
  getProduct,
  listProducts,
  Product,
  updateOrganization,
  updateProduct,
  updateProductBenefits,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { foldDeltas } from '../../../platform/postgres/lists.sql.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

const shop = async () => {
  const organization = await world.organization()
  return { organization, api: world.client({ token: (await organization.token()).secret }) }
}
const simple = (name: string, price_amount = 1000) => ({ name, prices: [{ amount_type: 'fixed' as const, price_amount }] })

describe('products', () => {
  test('creates, finds and updates a product, and emits events [S1-01]', async () => {
    const { organization, api } = await shop()
    const made = await api.call(createProduct, {
      body: {
        name: 'Team plan',
        description: '',
        recurring_interval: 'month',
        trial_interval: 'day',
        trial_interval_count: 14,
        metadata: { plan: 'team', seats: 5, beta: true },
        prices: [
          {
            amount_type: 'seat_based',
            seat_tiers: {
              tiers: [
                { min_seats: 2, max_seats: 10, price_per_seat: 800 },
                { min_seats: 11, price_per_seat: 600 },
              ],
            },
          },
          { amount_type: 'fixed', price_amount: 2000 },
        ],
      },
    })
    expect(made).toMatchObject({
      description: null,
      visibility: 'public',
      recurring_interval_count: 1,
      is_recurring: true,
      is_archived: false,
      modified_at: null,
      organization_id: organization.id,
    })
    expect(made.prices.map(({ amount_type }) => amount_type)).toEqual(['fixed', 'seat_based'])
    expect(made.prices[1]).toMatchObject({
      source: 'catalog',
      price_currency: 'usd',
      seat_tiers: { seat_tier_type: 'volume', minimum_seats: 2, maximum_seats: null },
    })
    expect(await api.call(getProduct, { params: { id: made.id } })).toEqual(made)
    const changed = await api.call(updateProduct, {
      params: { id: made.id },
      body: { name: 'Team plan, renamed', description: 'For teams', visibility: 'private', metadata: {} },
    })
    expect(changed).toMatchObject({ name: 'Team plan, renamed', description: 'For teams', visibility: 'private', metadata: {}, prices: made.prices })
    const events = await eventually('both events have a sequence number', async () => {
      const { rows } = await world.database.owner((owner) =>
        owner.query<{ kind: string; payload: { data: unknown } }>(
          'select kind, payload from events where organization_id = $1 and sequence is not null order by sequence',
          [organization.id],
        ),
      )
      return rows.length === 2 && rows
    })
    expect(events.map(({ kind }) => kind)).toEqual(['product.created', 'product.updated'])
    expect(events[1]!.payload.data).toEqual(changed)
    expect(Product.safeParse(events[0]!.payload.data).success).toBe(true)
  })

  test('an update keeps prices named by id, adds new ones, archives omitted ones, and never changes an amount', async () => {
    const { organization, api } = await shop()
    const made = await api.call(createProduct, { body: simple('Priced') })
    const [first] = made.prices
    const params = { id: made.id }
    const both = await api.call(updateProduct, {
      params,
      body: { prices: [{ id: first!.id }, { amount_type: 'fixed', price_currency: 'eur', price_amount: 900 }] },
    })
    expect(both.prices.map(({ price_currency }) => price_currency)).toEqual(['usd', 'eur'])
    expect(both.prices[0]).toEqual(first)
    const replaced = await api.call(updateProduct, { params, body: { prices: [{ amount_type: 'fixed', price_amount: 1500 }] } })
    expect(replaced.prices).toMatchObject([{ price_amount: 1500 }])
    const { rows } = await world.database.owner((owner) =>
      owner.query('select id, price_amount::int, is_archived from product_prices where organization_id = $1 order by position', [organization.id]),
    )
    expect(rows).toMatchObject([
      { id: first!.id, price_amount: 1000, is_archived: true },
      { price_amount: 900, is_archived: true },
      { price_amount: 1500, is_archived: false },
    ])
    for (const prices of [[{ id: first!.id }], [], [{ id: organization.id }]])
      expect((await api.send(updateProduct, { params, body: { prices } })).status).toBe(422)
    await expect(world.transact((tx) => tx.q.updateTable('product_prices').set({ price_amount: 1 }).execute())).rejects.toThrow(/permission denied/)
  })

  test('shows prices in the order of their creation, even after many replacements', async () => {
    const { api } = await shop()
    const price = (price_currency: 'usd' | 'eur' | 'gbp' | 'cad' | 'chf' | 'nzd', price_amount = 1000) => ({
      amount_type: 'fixed' as const,
      price_currency,
      price_amount,
    })
    const made = await api.call(createProduct, { body: { name: 'Often', prices: [price('usd'), price('eur'), price('gbp')] } })
    const params = { id: made.id }
    await api.call(updateProduct, { params, body: { prices: [price('cad'), price('usd', 2000)] } })
    const third = await api.call(updateProduct, {
      params,
      body: {
        prices: [
          price('chf'),
          ...(await api.call(getProduct, { params })).prices.filter(({ price_currency }) => price_currency === 'usd').map(({ id }) => ({ id })),
        ],
      },
    })
    const last = await api.call(updateProduct, { params, body: { prices: [price('nzd'), ...third.prices.map(({ id }) => ({ id }))] } })
    expect(last.prices.map(({ price_currency }) => price_currency)).toEqual(['usd', 'chf', 'nzd'])
    const { rows } = await world.database.owner((owner) => owner.query('select price_amount::int from products where id = $1', [made.id]))
    expect(rows).toEqual([{ price_amount: 2000 }])
  })

  test('every write answers and emits the product as a later read returns it', async () => {
    const { api, events } = await world.shop()
    const meter = await api.call(createMeter, { body: { name: 'Calls', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'count' } } })
    const field = (slug: string) => api.call(createCustomField, { body: { type: 'text', slug, name: slug, properties: { min_length: 2 } } })
    const [one, two] = [await field('one'), await field('two')]
    const benefit = (description: string) => api.call(createBenefit, { body: { type: 'custom', description, properties: { note: null } } })
    const [first, second] = [await benefit('First'), await benefit('Second')]
    const metered = { amount_type: 'metered_unit' as const, meter_id: meter.id, unit_amount: '0.125', cap_amount: 9000 }
    const created = await api.call(createProduct, {
      body: {
        name: 'Whole',
        recurring_interval: 'month',
        metadata: { longest: 'a', b: 2 },
        prices: [metered, { amount_type: 'custom', minimum_amount: 500, preset_amount: 700 }],
        attached_custom_fields: [two, one].map(({ id }) => ({ custom_field_id: id, required: true })),
      },
    })
    const params = { id: created.id }
    const reads = async () => [await api.call(getProduct, { params }), ...(await api.call(listProducts, { query: {} })).items]
    expect(await reads()).toEqual([created, created])
    expect(created.prices[1]).toMatchObject({ unit_amount: '0.125', cap_amount: 9000, meter: { id: meter.id, name: 'Calls' } })
    const granting = await api.call(updateProductBenefits, { params, body: { benefits: [second.id, first.id] } })
    expect(granting.benefits).toEqual([second, first])
    expect(await reads()).toEqual([granting, granting])
    const [kept] = created.prices
    const updated = await api.call(updateProduct, {
      params,
      body: { prices: [{ id: kept!.id }, metered], attached_custom_fields: [{ custom_field_id: one.id, required: false }] },
    })
    expect(updated.benefits).toEqual([second, first])
    expect(await reads()).toEqual([updated, updated])
    expect((await events('product.created', 'product.updated')).map(({ data }) => data)).toEqual([created, granting, updated])
  })

  test('concurrent replacements of the prices leave the prices of one request', async () => {
    const { organization, api } = await shop()
    const { id } = await api.call(createProduct, { body: simple('Raced') })
    const amounts = [1100, 1200, 1300, 1400, 1500]
    const answers = await Promise.all(
      amounts.map((price_amount) => api.call(updateProduct, { params: { id }, body: { prices: [{ amount_type: 'fixed', price_amount }] } })),
    )
    for (const { prices } of answers) expect(prices).toHaveLength(1)
    expect((await api.call(getProduct, { params: { id } })).prices).toHaveLength(1)
    const { rows } = await world.database.owner((owner) =>
      owner.query('select position from product_prices where organization_id = $1 order by position', [organization.id]),
    )
    expect(rows).toEqual([0, 1, 2, 3, 4, 5].map((position) => ({ position })))
  })

  test('reports all problems of a create request together', async () => {
    const { api } = await shop()
    const answer = await api.sendRaw(createProduct, {
      body: {
        name: 'Wrong in many ways',
        trial_interval: 'day',
        recurring_interval_count: 2,
        prices: [
          { amount_type: 'fixed', price_amount: 10 },
          { amount_type: 'custom', price_currency: 'eur' },
        ],
        attached_custom_fields: [{ custom_field_id: '6f1c3f5e-0000-4000-8000-000000000000', required: true }],
        medias: ['6f1c3f5e-0000-4000-8000-000000000000'],
      },
    })
    expect(answer.status).toBe(422)
    expect((answer.body as { detail: { loc: unknown[] }[] }).detail.map(({ loc }) => loc.slice(1).join('.')).toSorted()).toEqual(
      ['attached_custom_fields.0.custom_field_id', 'medias.0', 'prices.0.price_amount', 'prices.1', 'recurring_interval_count', 'trial_interval'].toSorted(),
    )
  })

  test('rejects a change of the billing interval and invalid trial or meter intervals', async () => {
    const { api } = await shop()
    const monthly = await api.call(createProduct, { body: { ...simple('Monthly'), recurring_interval: 'month', meter_interval: 'day' } })
    expect(monthly).toMatchObject({ meter_interval: 'day', meter_interval_count: 1 })
    const params = { id: monthly.id }
    expect((await api.send(updateProduct, { params, body: { recurring_interval: 'year' } })).status).toBe(422)
    expect((await api.send(updateProduct, { params, body: { recurring_interval: 'month', trial_interval: 'week' } })).status).toBe(422)
    expect(await api.call(updateProduct, { params, body: { trial_interval: 'week', trial_interval_count: 2 } })).toMatchObject({
      trial_interval: 'week',
      trial_interval_count: 2,
    })
    expect(await api.call(updateProduct, { params, body: { trial_interval: null } })).toMatchObject({ trial_interval: null, trial_interval_count: null })
    expect((await api.send(createProduct, { body: { ...simple('Odd'), recurring_interval: 'month', meter_interval: 'week' } })).status).toBe(422)
    const single = await api.call(createProduct, { body: simple('Once') })
    expect((await api.send(updateProduct, { params: { id: single.id }, body: { trial_interval: 'day', trial_interval_count: 1 } })).status).toBe(422)
  })

  test('requires a price in the organization’s default currency', async () => {
    const { organization, api } = await shop()
    await api.call(updateOrganization, { params: { id: organization.id }, body: { default_presentment_currency: 'jpy' } })
    expect(await api.send(createProduct, { body: simple('Dollars only') })).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'prices'] }] } })
    const yen = await api.call(createProduct, { body: { name: 'Yen', prices: [{ amount_type: 'fixed', price_currency: 'jpy', price_amount: 80 }] } })
    expect(yen.prices).toMatchObject([{ price_currency: 'jpy', price_amount: 80 }])
  })

  test('attaches custom fields to a product in order, and removes a deleted field from it', async () => {
    const { api } = await shop()
    const [one, two] = [
      await api.call(createCustomField, { body: { type: 'text', slug: 'one', name: 'One', properties: {} } }),
      await api.call(createCustomField, { body: { type: 'checkbox', slug: 'two', name: 'Two', properties: {} } }),
    ]
    const product = await api.call(createProduct, {
      body: {
        ...simple('Asking'),
        attached_custom_fields: [
          { custom_field_id: two.id, required: true },
          { custom_field_id: one.id, required: false },
        ],
      },
    })
    expect(product.attached_custom_fields).toMatchObject([
      { custom_field_id: two.id, order: 0, required: true, custom_field: two },
      { custom_field_id: one.id, order: 1, required: false, custom_field: one },
    ])
    await api.call(deleteCustomField, { params: { id: two.id } })
    expect((await api.call(getProduct, { params: { id: product.id } })).attached_custom_fields).toMatchObject([{ custom_field_id: one.id }])
    const twice = [
      { custom_field_id: one.id, required: true },
      { custom_field_id: one.id, required: true },
    ]
    expect((await api.send(updateProduct, { params: { id: product.id }, body: { attached_custom_fields: twice } })).status).toBe(422)
  })

  test('deletes a product only if no row references it, and otherwise allows archiving it', async () => {
    const { organization, api } = await shop()
    const [free, used] = [await api.call(createProduct, { body: simple('Free') }), await api.call(createProduct, { body: simple('Used') })]
    await world.database.owner((owner) =>
      owner.query(
        `create table if not exists sold (organization_id uuid, product_id uuid, foreign key (organization_id, product_id) references products (organization_id, id)); insert into sold values ('${organization.id}', '${used.id}')`,
      ),
    )
    expect((await api.send(deleteProduct, { params: { id: free.id } })).status).toBe(204)
    expect((await api.send(getProduct, { params: { id: free.id } })).status).toBe(404)
    expect(await api.send(deleteProduct, { params: { id: used.id } })).toMatchObject({ status: 409, body: { error: 'ProductInUse' } })
    expect((await api.call(updateProduct, { params: { id: used.id }, body: { is_archived: true } })).is_archived).toBe(true)
  })
})

describe('lists', () => {
  test('a list returns records, the total count and the last page [S2-11, S2-12, S4-12, S8-01, S8-02]', async () => {
    const { api } = await shop()
    expect(await api.call(listProducts, {})).toEqual({ items: [], pagination: { total_count: 0, max_page: 0, next_cursor: null } })
    for (let at = 1; at <= 23; at++) await api.call(createProduct, { body: simple(`Product ${String(at).padStart(2, '0')}`, at * 100) })
    const first = await api.call(listProducts, {})
    expect([first.items.length, first.items[0]!.name]).toEqual([10, 'Product 23'])
    expect(first.pagination).toMatchObject({ total_count: 23, max_page: 3 })
    expect((await api.call(listProducts, { query: { page: 3 } })).items.map(({ name }) => name)).toEqual(['Product 03', 'Product 02', 'Product 01'])
    expect(await api.call(listProducts, { query: { page: 1_000_000_000 } })).toEqual({
      items: [],
      pagination: { total_count: 23, max_page: 3, next_cursor: null },
    })
  })

  test('a page holds up to 100 records, larger limits count as 100, and invalid limits are rejected [S8-03, S8-04]', async () => {
    const { organization, api } = await shop()
    await fill(organization.id, 250)
    for (const [limit, length, max_page] of [
      [100, 100, 3],
      [101, 100, 3],
      [100_000, 100, 3],
      [99, 99, 3],
      [1, 1, 250],
    ]) {
      const { items, pagination } = await api.call(listProducts, { query: { limit } })
      expect([limit, items.length, pagination.max_page, pagination.total_count]).toEqual([limit, length, max_page, 250])
    }
    expect((await api.call(listProducts, { query: { limit: '9'.repeat(25) } })).items).toHaveLength(100)
    for (const query of [{ limit: 0 }, { limit: -1 }, { limit: 'ten' }, { limit: '1e2' }, { limit: '1.5' }, { page: 0 }, { page: -3 }, { page: 'x' }])
      expect([query, (await api.sendRaw(listProducts, { query })).status]).toEqual([query, 422])
  })

  test('paging returns every record once, even if many have the same creation time [S8-05]', async () => {
    const { organization, api } = await shop()
    await fill(organization.id, 57, `'2026-01-01Z'`)
    for (const sorting of ['-created_at', 'created_at', 'name', '-price_amount', 'price_amount_type']) {
      const seen: string[] = []
      for (let page = 1; ; page++) {
        const { items, pagination } = await api.call(listProducts, { query: { page, limit: 10, sorting } })
        seen.push(...items.map(({ id }) => id))
        if (page >= pagination.max_page) break
      }
      expect([sorting, seen.length, new Set(seen).size]).toEqual([sorting, 57, 57])
    }
  })

  test('following the cursor returns every existing record once, despite concurrent inserts', async () => {
    const { organization, api } = await shop()
    await fill(organization.id, 40)
    for (const sorting of [['-created_at'], ['name'], ['price_amount', '-created_at'], ['-price_amount_type', 'name']]) {
      const before = new Set((await everything(api, {})).map(({ id }) => id))
      const seen: string[] = []
      let cursor: string | null | undefined
      do {
        const { items, pagination } = await api.call(listProducts, { query: { limit: 7, sorting, ...(cursor ? { cursor } : {}) } })
        seen.push(...items.map(({ id }) => id))
        cursor = pagination.next_cursor
        await api.call(createProduct, { body: simple(`Meanwhile ${seen.length}`, 5000) })
      } while (cursor)
      expect(new Set(seen).size).toBe(seen.length)
      for (const id of before) expect(seen).toContain(id)
    }
    const { pagination } = await api.call(listProducts, { query: { limit: 5 } })
    for (const query of [
      { cursor: 'nonsense' },
      { cursor: pagination.next_cursor!, sorting: 'name' },
      { cursor: Buffer.from('["-created_at","x","y"]').toString('base64url') },
    ])
      expect((await api.sendRaw(listProducts, { query })).status).toBe(422)
  })

  test('rejects a list request with a forged cursor', async () => {
    const { api } = await shop()
    const id = '6f1c3f5e-0000-4000-8000-000000000000'
    const forged = [
      ['-created_at', '2026-99-99T99:99:99.000Z', id],
      ['-created_at', '0000-01-01T00:00:00.000Z', id],
      ['-created_at', '2026-01-01T00:00:00.000Z', '-'.repeat(36)],
      ['-created_at', 7, id],
      // A cursor carries a total above 10,000 only.
      ['-created_at', '2026-01-01T00:00:00.000Z', id, 10_000],
      ['-created_at', '2026-01-01T00:00:00.000Z', id, 10_000.5],
      ['-created_at', '2026-01-01T00:00:00.000Z', id, '20000'],
      ['-created_at', '2026-01-01T00:00:00.000Z', id, 20_000, 1],
      { length: 3 },
      null,
    ]
    for (const parts of forged)
      expect((await api.sendRaw(listProducts, { query: { cursor: Buffer.from(JSON.stringify(parts)).toString('base64url') } })).status).toBe(422)
  })

  test('counts the matching records of a long filtered list for its first page only', async () => {
    const { organization, api } = await shop()
    await fill(organization.id, 10_003)
    const query = { is_archived: false, limit: 2 }
    const first = (await api.call(listProducts, { query })).pagination
    expect(first.total_count).toBe(10_003)
    await api.call(createProduct, { body: simple('Later') })
    const second = (await api.call(listProducts, { query: { ...query, cursor: first.next_cursor! } })).pagination
    const third = (await api.call(listProducts, { query: { ...query, cursor: second.next_cursor! } })).pagination
    expect([second, third]).toMatchObject([first, first].map(({ total_count, max_page }) => ({ total_count, max_page })))
    expect((await api.call(listProducts, { query })).pagination.total_count).toBe(10_004)
  })

  test('filters products by single and combined filters, and counts only the matching records in the total', async () => {
    const { api } = await shop()
    const make = (name: string, extra: object) => api.call(createProduct, { body: { ...simple(name), ...extra } })
    const a = await make('Alpha 100%', { metadata: { plan: 'pro', rank: 1, live: true } })
    const b = await make('Beta_test', { metadata: { plan: 'team', rank: 2, ratio: 1.5 }, recurring_interval: 'month' })
    const c = await make('Gamma', { visibility: 'draft', metadata: { plan: 'pro' } })
    await api.call(updateProduct, { params: { id: c.id }, body: { is_archived: true } })
    const names = async (query: object) => {
      const { items, pagination } = await api.call(listProducts, { query: { sorting: 'name', ...query } })
      expect(pagination.total_count).toBe(items.length)
      return items.map(({ name }) => name.split(/\W|_/)[0])
    }
    expect(await names({ id: [a.id, b.id] })).toEqual(['Alpha', 'Beta'])
    expect(await names({ query: 'a' })).toEqual(['Alpha', 'Beta', 'Gamma'])
    expect(await names({ query: '100%' })).toEqual(['Alpha'])
    expect(await names({ query: 'a_t' })).toEqual(['Beta'])
    expect(await names({ is_archived: true })).toEqual(['Gamma'])
    expect(await names({ is_archived: 'false', is_recurring: 'false' })).toEqual(['Alpha'])
    expect(await names({ visibility: ['draft', 'private'] })).toEqual(['Gamma'])
    expect(await names({ metadata: { plan: 'pro' } })).toEqual(['Alpha', 'Gamma'])
    expect(await names({ metadata: { plan: ['pro', 'team'], rank: '2' } })).toEqual(['Beta'])
    expect(await names({ metadata: { live: 'true' } })).toEqual(['Alpha'])
    expect(await names({ metadata: { ratio: '1.5' } })).toEqual(['Beta'])
    expect(await names({ metadata: { nothing: 'x' } })).toEqual([])
    expect((await api.sendRaw(listProducts, { query: { id: 'x', is_archived: 'maybe', visibility: 'hidden' } })).status).toBe(422)
    for (const name of ['metadata[a][b]', 'metadata[', 'metadata]'])
      expect(await api.sendRaw(listProducts, { query: { [name]: '1' } })).toMatchObject({ status: 422, body: { detail: [{ loc: ['query', name] }] } })
  })

  test('a person sees the products of all their organizations in one sorted list, or only those of the requested organizations', async () => {
    const person = await world.person()
    const shops = await Promise.all([0, 1, 2].map(() => world.organization({ owner: person.id })))
    const stranger = await shop()
    await stranger.api.call(createProduct, { body: simple('Not yours') })
    for (let at = 0; at < 9; at++) await world.client({ token: (await shops[at % 3]!.token()).secret }).call(createProduct, { body: simple(`Item ${at}`) })
    const api = world.client({ token: (await person.token()).secret })
    expect((await everything(api, { sorting: 'name' })).map(({ name }) => name)).toEqual(Array.from({ length: 9 }, (_, at) => `Item ${at}`))
    const two = await api.call(listProducts, { query: { organization_id: [shops[0]!.id, shops[2]!.id, stranger.organization.id] } })
    expect([two.items.length, two.pagination.total_count]).toEqual([6, 6])
    const pages = [await api.call(listProducts, { query: { limit: 4, page: 2, sorting: 'name' } })]
    expect(pages[0]!.items.map(({ name }) => name)).toEqual(['Item 4', 'Item 5', 'Item 6', 'Item 7'])
  })

  test('list totals stay exact after concurrent writes, rollbacks, compaction of deltas and a killed connection', async () => {
    const { organization, api } = await shop()
    const writers = Array.from({ length: 50 }, async (_, at) => {
      const made = await api.call(createProduct, { body: simple(`Writer ${at}`) })
      if (at % 3 === 0) await api.call(deleteProduct, { params: { id: made.id } })
    })
    const undone = Array.from({ length: 20 }, () =>
      world
        .transact(async (tx) => {
          await tx.q.deleteFrom('products').where('organization_id', '=', organization.id).execute()
          throw new Error('changed my mind')
        })
        .catch(() => {}),
    )
    const folding = Array.from({ length: 5 }, () => world.transactAsWorker((tx) => foldDeltas(tx)))
    await Promise.all([...writers, ...undone, ...folding])
    await world.database.owner(async (owner) => {
      // The connection of a writer is killed in the middle of its transaction.
      const { Client } = (await import('pg')).default
      const doomed = new Client({ connectionString: world.database.owner_url })
      doomed.on('error', () => {})
      await doomed.connect()
      const { rows } = await doomed.query<{ pid: number }>('select pg_backend_pid() as pid')
      await doomed.query('begin')
      await doomed.query('delete from products where organization_id = $1', [organization.id])
      await owner.query('select pg_terminate_backend($1)', [rows[0]!.pid])
      await doomed.end().catch(() => {})
    })
    for (let at = 0; at < 60; at++) await fill(organization.id, 1)
    await world.transactAsWorker((tx) => foldDeltas(tx))
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ real: string; deltas: string }>(
        'select (select count(*) from products where organization_id = $1) as real, (select count(*) from collection_deltas where organization_id = $1) as deltas',
        [organization.id],
      ),
    )
    expect((await api.call(listProducts, {})).pagination.total_count).toBe(Number(rows[0]!.real))
    expect([Number(rows[0]!.real), Number(rows[0]!.deltas)]).toEqual([50 - 17 + 60, 1])
  })
})

const everything = async (api: ReturnType<World['client']>, query: object) => {
  const items: { id: string; name: string }[] = []
  for (let page = 1; ; page++) {
    const answer = await api.call(listProducts, { query: { ...query, page, limit: 100 } })
    items.push(...answer.items)
    if (page >= answer.pagination.max_page) return items
  }
}

/** Inserts many products at once, each with a price. */
const fill = (organization_id: string, count: number, moment = `now() - n * interval '1 second'`) =>
  world.database.owner((owner) =>
    owner.query(
      `with made as (
         insert into products (organization_id, id, created_at, name, visibility, is_archived, metadata, price_amount_type, price_amount)
         select $1, gen_random_uuid(), ${moment}, 'Filled ' || n % 7, 'public', false, '{}', 'fixed', 100 + n % 5 from generate_series(1, $2) n returning organization_id, id, created_at
       )
       insert into product_prices (organization_id, id, product_id, position, created_at, source, amount_type, price_currency, is_archived, price_amount)
       select organization_id, gen_random_uuid(), id, 0, created_at, 'catalog', 'fixed', 'usd', false, 100 from made`,
      [organization_id, count],
    ),
  )
