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
import { openSales } from '../../harness/sales.ts'
import { openWorld, type World } from '../../harness/world.ts'

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
/** Maximum number of rows that the writers add, so that the readers reach the end of the list. */
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

/**
 * Adds rows while readers page through a list. If `remove` is given, half of the added rows are removed again. A reader
 * that pauses continues only after one more row was added.
 */
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
  test('returns each row that exists all the time exactly once by cursor, while other rows are added and removed [S8-05]', async () => {
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

  test('returns each row that exists all the time at least once by page up to `max_page`, while rows are added [S8-05]', { timeout: 120_000 }, async () => {
    const { api, kinds } = await shopWith()
    const { list, add, filter } = kinds[kind]
    for (let at = 0; at < before; at++) await add()
    const there = await byPage(api, list)
    expect(there.length).toBe(new Set(there).size)
    const read = await whileWriting(add, undefined, (pause) => Promise.all([byPage(api, list, {}, pause), byPage(api, list, filter, pause)]))
    for (const seen of read) expect(there.filter((id) => !seen.includes(id))).toEqual([])
  })
})

/** Sends a list request, and runs `something` after the server has counted the rows and before it reads the page. */
const between = async <T>(work: () => Promise<T>, something: () => Promise<unknown>): Promise<T> => {
  // oxlint-disable-next-line typescript/unbound-method -- put back as it was
  const original = pg.Client.prototype.query
  const send = (client: pg.Client, args: unknown[]) => (original as (...all: unknown[]) => unknown).apply(client, args) as Promise<unknown>
  let counted: () => void
  const isCounted = new Promise<void>((resolve) => (counted = resolve))
  let once: Promise<unknown> | undefined
  pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
    const [first] = args
    const text = typeof first === 'string' ? first : ((first as { text?: string }).text ?? '')
    const looksUp = / as list_tenant, .* order by /s.test(text)
    if (/count\(\*\) as rows/.test(text)) return send(this, args).finally(counted)
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
  'leads from a page of filtered %s to the last page, even if a row is added between the count and the read [S8-05]',
  async (kind) => {
    const { api, kinds } = await shopWith()
    const { list, add, filter } = kinds[kind]
    const last = (await byPage(api, list)).at(-1) ?? (await add())
    for (let at = (await byPage(api, list)).length; at < 2 * limit; at++) await add()
    // Without filters, count and page are one statement, so that nothing can come between them.
    const size = (await byPage(api, list, filter)).length
    const max = Math.ceil(size / limit)
    // The last page is full, so one more row moves the oldest to a page of its own.
    expect(size % limit).toBe(0)
    const page = await between(() => read(api, list, { ...filter, page: max }), add)
    expect(page.items.map(({ id }) => id)).not.toContain(last)
    expect(page.pagination.max_page).toBe(max + 1)
    expect((await read(api, list, { ...filter, page: max + 1 })).items.map(({ id }) => id)).toEqual([last])
  },
)
