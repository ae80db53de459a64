import {
  createCustomer,
  createProduct,
  deleteCustomer,
  deleteProduct,
  listCustomers,
  listOrders,
  listProducts,
  type Pagination as PaginationSchema,
  type Operation,
} from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { z } from 'zod'
import { openSales } from '../harness/sales.ts'
import { openWorld, type World } from '../harness/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

interface Page {
  readonly items: readonly { readonly id: string }[]
  readonly pagination: z.output<typeof PaginationSchema>
}

const limit = 7
const before = 60
/** So many are added at most: the reader has to come to an end. */
const meanwhile = 120

const read = async (api: Client, list: Operation, query: object): Promise<Page> => {
  const { status, body } = await api.sendRaw(list, { query: { limit, ...query } })
  expect(status).toBe(200)
  return body as Page
}

type Pause = () => Promise<unknown>
const atOnce: Pause = async () => undefined

const byCursor = async (api: Client, list: Operation, query: object = {}, pause = atOnce): Promise<string[]> => {
  const seen: string[] = []
  let cursor: string | null = null
  do {
    const { items, pagination }: Page = await read(api, list, { ...query, ...(cursor === null ? {} : { cursor }) })
    seen.push(...items.map(({ id }) => id))
    cursor = pagination.next_cursor
    await pause()
  } while (cursor !== null)
  return seen
}

const byPage = async (api: Client, list: Operation, query: object = {}, pause = atOnce): Promise<string[]> => {
  const seen: string[] = []
  for (let page = 1; ; page++) {
    const { items, pagination } = await read(api, list, { ...query, page })
    seen.push(...items.map(({ id }) => id))
    if (page >= pagination.max_page) return seen
    await pause()
  }
}

/** Adds, and where it may removes again half of what it has added, as long as there are readers; who pauses sees at least one more. */
const whileWriting = async <T>(
  add: () => Promise<string>,
  remove: ((id: string) => Promise<unknown>) | undefined,
  readers: (pause: Pause) => Promise<T>,
): Promise<T> => {
  const state = { reading: true, added: 0, waiting: [] as (() => void)[] }
  const pause = () => new Promise<void>((resolve) => (state.added < meanwhile ? state.waiting.push(resolve) : resolve()))
  const wake = () => state.waiting.splice(0).forEach((resolve) => resolve())
  const writer = async () => {
    while (state.reading && state.added < meanwhile) {
      state.added++
      const id = await add()
      if (remove && state.added % 2 === 0) await remove(id)
      wake()
    }
  }
  const read = readers(pause).finally(() => (state.reading = false))
  await Promise.all([writer(), writer()])
  wake()
  expect(state.added).toBeGreaterThan(before / limit)
  return read
}

const shopWith = async () => {
  const { api, organization } = await world.shop()
  const sales = openSales(world)
  let number = 0
  const customer = () => api.call(createCustomer, { body: { email: `buyer-${organization.slug}-${++number}@people.test`, name: 'A buyer' } })
  const one = { organization_id: organization.id, id: (await customer()).id }
  return {
    api,
    kinds: {
      orders: { list: listOrders, add: async () => (await sales.order(one)).id, remove: undefined, filter: { status: 'paid' } },
      customers: {
        list: listCustomers,
        add: async () => (await customer()).id,
        remove: (id: string) => api.call(deleteCustomer, { params: { id } }),
        filter: { query: 'a buyer' },
      },
      products: {
        list: listProducts,
        add: async () =>
          (await api.call(createProduct, { body: { name: 'A thing', prices: [{ amount_type: 'fixed', price_amount: 100, price_currency: 'usd' }] } })).id,
        remove: (id: string) => api.call(deleteProduct, { params: { id } }),
        filter: { is_archived: false },
      },
    },
  }
}

describe.each(['orders', 'customers', 'products'] as const)('%s', (kind) => {
  test('while others are added and removed, the cursor yields what was there throughout exactly once [S8-05]', async () => {
    const { api, kinds } = await shopWith()
    const { list, add, remove, filter } = kinds[kind]
    for (let at = 0; at < before; at++) await add()
    const there = await byCursor(api, list)
    const read = await whileWriting(add, remove, (pause) => Promise.all([byCursor(api, list, {}, pause), byCursor(api, list, filter, pause)]))
    for (const seen of read) {
      expect(seen.length).toBe(new Set(seen).size)
      expect(there.filter((id) => !seen.includes(id))).toEqual([])
    }
  })

  test(
    'while others are added, going on until `page` reaches `max_page` yields what was there throughout at least once [S8-05]',
    { timeout: 120_000 },
    async () => {
      const { api, kinds } = await shopWith()
      const { list, add, filter } = kinds[kind]
      for (let at = 0; at < before; at++) await add()
      const there = await byPage(api, list)
      expect(there.length).toBe(new Set(there).size)
      const read = await whileWriting(add, undefined, (pause) => Promise.all([byPage(api, list, {}, pause), byPage(api, list, filter, pause)]))
      for (const seen of read) expect(there.filter((id) => !seen.includes(id))).toEqual([])
    },
  )
})

/** Lets somebody do something after a page was counted and before it is looked up. */
const between = async <T>(work: () => Promise<T>, something: () => Promise<unknown>): Promise<T> => {
  // oxlint-disable-next-line typescript/unbound-method -- put back as it was
  const original = pg.Client.prototype.query
  const send = (client: pg.Client, args: unknown[]) => (original as (...all: unknown[]) => unknown).apply(client, args) as Promise<unknown>
  let counted: () => void
  const isCounted = new Promise<void>((resolve) => (counted = resolve))
  let once: Promise<unknown> | undefined
  pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
    const text = typeof args[0] === 'string' ? args[0] : ''
    const looksUp = / as tenant, .* order by /s.test(text)
    if (/collection_deltas where|count\(\*\) as rows/.test(text)) return send(this, args).finally(counted)
    if (!looksUp) return send(this, args)
    return (async () => {
      await isCounted
      await (once ??= something())
      return send(this, args)
    })()
  } as typeof original
  try {
    return await work()
  } finally {
    pg.Client.prototype.query = original
  }
}

test.each(['orders', 'customers', 'products'] as const)(
  'a page of %s that was counted before somebody added one, and read after, still leads on to the last one [S8-05]',
  async (kind) => {
    const { api, kinds } = await shopWith()
    const { list, add, filter } = kinds[kind]
    const last = (await byPage(api, list)).at(-1) ?? (await add())
    for (let at = (await byPage(api, list)).length; at < 2 * limit; at++) await add()
    for (const query of [{}, filter]) {
      const size = (await byPage(api, list, query)).length
      const max = Math.ceil(size / limit)
      // The last page is full, so that whoever is added moves the oldest to a page of its own.
      expect(size % limit).toBe(0)
      const page = await between(() => read(api, list, { ...query, page: max }), add)
      expect(page.items.map(({ id }) => id)).not.toContain(last)
      expect(page.pagination.max_page).toBe(max + 1)
      expect((await read(api, list, { ...query, page: max + 1 })).items.map(({ id }) => id)).toEqual([last])
      for (let at = size + 1; at % limit !== 0; at++) await add()
    }
  },
)
