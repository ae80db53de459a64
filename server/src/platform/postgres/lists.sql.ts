import { InvalidRequest, pageSizeLimit, window, type PageRequest } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import type { Db } from './postgres.ts'

declare module './postgres.ts' {
  interface Tables {
    collection_deltas: { organization_id: string; collection: string; delta: number }
  }
}

/** A sort key of a list: an SQL expression that is never null, and its type. */
export interface SortKey {
  readonly expression: string
  readonly type: 'timestamptz' | 'text' | 'bigint' | 'numeric' | 'uuid'
}

export interface ListSpec<K extends string> {
  readonly table: string
  /** A subquery with an alias that replaces the table, for lists of computed rows. */
  readonly rows?: RawBuilder<unknown>
  /** The column of the owning tenant, and the id column. */
  readonly tenant: string
  readonly id: string
  readonly sortable: Record<K, SortKey>
  /** A condition for every row of the list, besides the filters. */
  readonly always?: RawBuilder<unknown>
  /**
   * The collection whose stored counter gives the total, or a function that returns each tenant's collections. Without
   * it the rows are counted for each request.
   */
  readonly counted?: string | ((tenant: string) => readonly string[])
  /** Returns an expression that is added to the stored counter, for a list of several tables. */
  readonly besides?: (tenants: readonly string[]) => RawBuilder<unknown>
  /** Returns a statement for the number of rows of one tenant that match the filters, from stored counts. Without it they are counted for each request. */
  readonly matching?: (tenant: string) => RawBuilder<unknown>
  /** True if the filters of the list always select few rows, such as the rows of one customer. */
  readonly few?: boolean
}

/** A condition for the listed rows, or a function that returns the condition for one tenant. */
export type Filter = RawBuilder<unknown> | ((tenant: string) => RawBuilder<unknown>)

export interface Key {
  readonly tenant: string
  readonly id: string
}

export interface Listed {
  readonly keys: readonly Key[]
  readonly total: number
  readonly next_cursor: string | null
}

/** The records that a list loads together with its keys: the columns of each, and the alias under which they name its table. */
export interface Records<Row, Item> {
  readonly alias: string
  readonly columns: RawBuilder<unknown>
  readonly parse: (row: Row) => Item
}

interface Order extends SortKey {
  readonly descending: boolean
}

/** A position in a list: the sort keys of a row, and the total of the first page if the pages after it need not count again. */
export interface Position {
  readonly values: readonly string[]
  readonly total: number | undefined
}

/** A filtered total above this number is counted for the first page only. Counting up to this number takes milliseconds. */
const countedOnce = 10_000

/**
 * Finds one page of keys: one index scan per tenant, merged. The id is the tie-breaker, so that no row is skipped or
 * shown twice. The caller loads the rows of this page afterwards. The total is exact: the sum of the stored counters, or
 * a count with the filters.
 *
 * Without filters, and for a list of few rows, page and total are one statement. Otherwise the rows are counted first,
 * and a concurrent insert may be visible to only one of the two statements. The total is therefore raised to the number
 * of rows seen. If rows follow the page, the total leads to another page. A large total is counted for the first page only:
 * the cursor carries it to the next pages.
 */
export const listKeys = async <K extends string>(
  db: Db,
  spec: ListSpec<K>,
  tenants: readonly string[],
  request: PageRequest & { sorting: readonly string[] },
  filters: readonly Filter[] = [],
): Promise<Listed> => {
  const { keys, total, next_cursor } = await listPage(db, spec, tenants, request, filters, undefined)
  return { keys, total, next_cursor }
}

/**
 * Loads one page of a list: its keys and their records in one statement. The rows also hold the sort keys, in columns with
 * the prefix `list_`, which no answer shows.
 */
export const listRecords = async <Row, Item>(
  db: Db,
  spec: ListSpec<string>,
  tenants: readonly string[],
  request: PageRequest & { sorting: readonly string[] },
  filters: readonly Filter[],
  records: Records<Row, Item>,
): Promise<{ items: Item[]; total: number; next_cursor: string | null }> => {
  const { rows, total, next_cursor } = await listPage(db, spec, tenants, request, filters, records)
  return { items: rows.map((row) => records.parse(row as Row)), total, next_cursor }
}

const listPage = async <K extends string>(
  db: Db,
  spec: ListSpec<K>,
  tenants: readonly string[],
  request: PageRequest & { sorting: readonly string[] },
  filters: readonly Filter[],
  records: Columns | undefined,
): Promise<Listed & { rows: readonly PageRow[] }> => {
  if (tenants.length === 0) return { keys: [], rows: [], total: 0, next_cursor: null }
  const orders: Order[] = request.sorting.map((key) => ({ ...spec.sortable[key.replace(/^-/, '') as K], descending: key.startsWith('-') }))
  orders.push({ expression: spec.id, type: 'uuid', descending: orders[0]?.descending ?? false })
  const after = request.cursor === undefined ? undefined : readCursor(request.cursor, request.sorting, orders)
  const find = (among: readonly string[], sought: Pick<Sought, 'whole' | 'total'>) =>
    findKeys(db, spec, among, request, orders, { filters, after: after?.values, records, ...sought })
  const answer = ({ keys, rows, end }: Pick<Found, 'keys' | 'rows' | 'end'>, total: number, carried?: number) => ({
    keys,
    rows,
    total,
    next_cursor: end === null ? null : writeCursor(request.sorting, end, carried),
  })
  if (spec.counted !== undefined && filters.length === 0) {
    const counter = sumUp(spec.counted, tenants)
    const found = await find(tenants, { whole: false, total: spec.besides ? sql`(${counter} + ${spec.besides(tenants)})` : counter })
    return answer(found, Math.max(found.total, found.seen))
  }
  if (spec.few) {
    const found = await find(tenants, { whole: true, total: undefined })
    return answer(found, Math.max(found.total, found.seen))
  }
  if (after?.total !== undefined) return answer(await find(tenants, { whole: false, total: sql`0::bigint` }), after.total, after.total)
  const counts = await countEach(db, spec, tenants, filters)
  const total = counts.reduce((sum, { rows }) => sum + rows, 0)
  // A stored count decides only how the page is read. If it were wrong, no row would be missing.
  const having = spec.matching ? tenants : counts.filter(({ rows }) => rows > 0).map(({ tenant }) => tenant)
  if (having.length === 0) return { keys: [], rows: [], total, next_cursor: null }
  const found = await find(having, { whole: filters.length > 0 && total <= pageSizeLimit, total: sql`0::bigint` })
  return answer(found, Math.max(total, found.seen), total > countedOnce && !spec.matching ? total : undefined)
}

/** Wraps each condition in parentheses, so that an `or` in one does not bypass the others. */
const and = (conditions: readonly RawBuilder<unknown>[]) =>
  conditions.length === 0
    ? sql`true`
    : sql.join(
        conditions.map((condition) => sql`(${condition})`),
        sql` and `,
      )

const rowsOf = (spec: ListSpec<string>): RawBuilder<unknown> => spec.rows ?? sql`${sql.table(spec.table)}`

/** Returns the condition for the matching rows of one tenant. */
const within = (spec: ListSpec<string>, tenant: string, filters: readonly Filter[], besides: readonly RawBuilder<unknown>[] = []): RawBuilder<unknown> => {
  const passing = filters.map((filter) => (typeof filter === 'function' ? filter(tenant) : filter))
  return and([sql`${sql.ref(spec.tenant)} = ${tenant}::uuid`, ...(spec.always ? [spec.always] : []), ...passing, ...besides])
}

/** A row of the page: the tenant and the sort keys, in columns with the prefix `list_`, and the columns of its record. */
type PageRow = Record<string, unknown> & { readonly list_tenant: string }

type Columns = Pick<Records<never, unknown>, 'alias' | 'columns'>

interface Sought {
  readonly filters: readonly Filter[]
  /** The sort keys of the row before the page, if the request has a cursor. */
  readonly after: readonly string[] | undefined
  /**
   * True if few rows match the filters. The matching rows are then fetched first and sorted afterwards. Otherwise the
   * planner might scan the whole list in sort order, because it expects to find matches early.
   */
  readonly whole: boolean
  /** An expression for the total, which is returned with the page. Without it, the statement counts the matching rows that it fetches. */
  readonly total: RawBuilder<unknown> | undefined
  readonly records: Columns | undefined
}

const findKeys = async (
  db: Db,
  spec: ListSpec<string>,
  tenants: readonly string[],
  request: PageRequest & { sorting: readonly string[] },
  orders: readonly Order[],
  { filters, after, whole, total, records }: Sought,
) => {
  const { size, offset: paged } = window(request)
  const offset = request.cursor === undefined ? paged : 0
  const values = sql.join(orders.map((order, at) => sql`${sql.raw(order.expression)} as ${sql.ref(`list_${at}`)}`))
  const ordering = (name: (order: Order, at: number) => RawBuilder<unknown>) =>
    sql.join(orders.map((order, at) => sql`${name(order, at)} ${sql.raw(order.descending ? 'desc' : 'asc')}`))
  const matching = (tenant: string, besides: readonly RawBuilder<unknown>[] = []) =>
    sql`select ${sql.ref(spec.tenant)} as list_tenant, ${values} from ${rowsOf(spec)} where ${within(spec, tenant, filters, besides)}`
  const named = orders.map((order, at): Order => ({ ...order, expression: `list_${at}` }))
  const ordered = ordering((_, at) => sql.ref(`list_${at}`))
  const cut = (rows: RawBuilder<unknown>, most: number, skip: number) =>
    sql`select * from ${rows} where ${and(after ? [beyond(named, after)] : [])} order by ${ordered} limit ${most} offset ${skip}`
  const branch = (tenant: string, most: number, skip: number) =>
    whole
      ? sql`(with passing as materialized (${matching(tenant)}) ${cut(sql`passing`, most, skip)})`
      : sql`(${matching(tenant, after ? [beyond(orders, after)] : [])} order by ${ordering((order) => sql.raw(order.expression))} ${most === size + 1 && skip === 0 ? first(most) : sql`limit ${most} offset ${skip}`})`
  const united = (parts: readonly RawBuilder<unknown>[]) => sql.join(parts, sql` union all `)
  const [only] = tenants
  const page =
    total === undefined
      ? sql`(${cut(sql`passing`, size + 1, offset)})`
      : tenants.length === 1
        ? branch(only!, size + 1, offset)
        : sql`(select * from (${united(tenants.map((tenant) => branch(tenant, offset + size + 1, 0)))}) merged order by ${ordered} limit ${size + 1} offset ${offset})`
  // Rows that are counted and paged are fetched once.
  const fetched = total === undefined ? sql`with passing as materialized (${united(tenants.map((tenant) => matching(tenant)))})` : sql``
  const last = orders.length - 1
  // `limit 1` makes the database look up each record by its key. Otherwise it might read the whole table, because it cannot
  // know how few keys a page has.
  const joined = records
    ? sql`left join lateral (
        select ${records.columns} from ${sql.table(spec.table)} ${sql.ref(records.alias)}
        where ${sql.ref(`${records.alias}.${spec.tenant}`)} = page.list_tenant and ${sql.ref(`${records.alias}.${spec.id}`)} = page.${sql.ref(`list_${last}`)} limit 1
      ) record on true`
    : sql``
  // The total is returned with every row of the page, and alone if the page is empty.
  const found = await sql<Record<string, unknown> & { list_tenant: string | null; list_total: number }>`
    ${fetched} select totals.list_total, page.*${records ? sql`, record.*` : sql``}
    from (select ${total ?? sql`(select count(*) from passing)`} as list_total) totals left join ${page} page on true ${joined}
    order by ${ordered}`.execute(db.q)
  const rows = found.rows.filter((row): row is typeof row & { list_tenant: string } => row.list_tenant !== null)
  const shown = rows.slice(0, size)
  const keys = shown.map((row) => ({ tenant: row.list_tenant, id: String(row[`list_${last}`]) }))
  const end = shown.at(-1)
  return {
    keys,
    rows: shown,
    total: found.rows[0]!.list_total,
    /** The number of rows that are known to exist: the rows before this page and the rows that were fetched for it. */
    seen: request.cursor === undefined && rows.length > 0 ? offset + rows.length : 0,
    /** The sort keys of the last row of the page, if another page follows. */
    end: rows.length > size && end ? orders.map((_, at) => end[`list_${at}`]) : null,
  }
}
type Found = Awaited<ReturnType<typeof findKeys>>

/** Numbers of rows that a first page reads. Each is one more than a page size, to see whether another page follows. */
const firstPages = [2, 6, 11, 21, 31, 51, pageSizeLimit + 1]

/**
 * Returns the limit of a first page as part of the statement's text: `most` rows, rounded up to one of a few sizes. The
 * caller drops the surplus rows. With a parameter as limit, the database expects many rows and plans the statement again
 * for each request. Planning takes three times as long as the page.
 */
const first = (most: number): RawBuilder<unknown> => sql`limit ${sql.lit(firstPages.find((rows) => rows >= most)!)}`

/** Counts the matching rows of each tenant, or reads their stored count. */
const countEach = async (
  db: Db,
  spec: ListSpec<string>,
  tenants: readonly string[],
  filters: readonly Filter[],
): Promise<{ tenant: string; rows: number }[]> => {
  const one = (tenant: string) =>
    spec.matching
      ? sql`select ${tenant}::uuid as tenant, (${spec.matching(tenant)}) as rows`
      : sql`select ${tenant}::uuid as tenant, count(*) as rows from ${rowsOf(spec)} where ${within(spec, tenant, filters)}`
  const { rows } = await sql<{ tenant: string; rows: number }>`${sql.join(tenants.map(one), sql` union all `)}`.execute(db.q)
  return rows
}

/** Returns an expression for the total number of rows of the tenants, from the stored counters. */
const sumUp = (counted: NonNullable<ListSpec<string>['counted']>, tenants: readonly string[]): RawBuilder<unknown> =>
  sql`(select coalesce(sum(delta), 0)::bigint from collection_deltas where ${counters(counted, tenants)})`

const counters = (counted: NonNullable<ListSpec<string>['counted']>, tenants: readonly string[]): RawBuilder<unknown> => {
  if (typeof counted === 'string' && tenants.length === 1) return sql`organization_id = ${tenants[0]}::uuid and collection = ${counted}`
  if (typeof counted === 'string') return sql`organization_id = any(${tenants}::uuid[]) and collection = ${counted}`
  const named = tenants.flatMap((tenant) => counted(tenant).map((name) => [tenant, name] as const))
  return sql`(organization_id, collection) in (select * from unnest(${named.map(([tenant]) => tenant)}::uuid[], ${named.map(([, name]) => name)}::text[]))`
}

/** Returns the distinct tenants and the distinct ids of many keys. */
export const sidesOf = (keys: readonly Key[]): { tenants: string[]; ids: string[] } => ({
  tenants: [...new Set(keys.map(({ tenant }) => tenant))],
  ids: [...new Set(keys.map(({ id }) => id))],
})

/** Returns the keys of referenced rows, each once. */
export const referred = <R extends { organization_id: string }>(rows: readonly R[], idOf: (row: R) => string | null): Key[] => {
  const keys = new Map<string, Key>()
  for (const row of rows) {
    const id = idOf(row)
    if (id !== null) keys.set(id, { tenant: row.organization_id, id })
  }
  return [...keys.values()]
}

/** Sorts loaded rows in the order of their keys. Omits rows that were deleted in between. */
export const inOrder = <T>(keys: readonly Key[], rows: readonly T[], keyOf: (row: T) => string): T[] => {
  const byId = new Map(rows.map((row) => [keyOf(row), row]))
  return keys.flatMap(({ id }) => byId.get(id) ?? [])
}

/** Returns the condition for rows strictly after a given row. It is one tuple comparison if all keys have the same direction. */
const beyond = (orders: readonly Order[], values: readonly string[]): RawBuilder<unknown> => {
  const expression = (at: number) => sql.raw(orders[at]!.expression)
  const value = (at: number) => sql`${values[at]}::${sql.raw(orders[at]!.type)}`
  if (orders.every(({ descending }) => descending === orders[0]!.descending))
    return sql`(${sql.join(orders.map((_, at) => expression(at)))}) ${sql.raw(orders[0]!.descending ? '<' : '>')} (${sql.join(orders.map((_, at) => value(at)))})`
  const steps = orders.map((order, at) =>
    and([
      ...orders.slice(0, at).map((_, before) => sql`${expression(before)} = ${value(before)}`),
      sql`${expression(at)} ${sql.raw(order.descending ? '<' : '>')} ${value(at)}`,
    ]),
  )
  return sql`(${sql.join(
    steps.map((step) => sql`(${step})`),
    sql` or `,
  )})`
}

/** Writes the cursor of a page from the sort keys of its last row, and the total that the next pages need not count again. */
export const writeCursor = (sorting: readonly string[], values: readonly unknown[], total?: number): string =>
  Buffer.from(
    JSON.stringify([
      sorting.join(),
      ...values.map((value) => (value instanceof Date ? value.toISOString() : String(value))),
      ...(total === undefined ? [] : [total]),
    ]),
  ).toString('base64url')

/** Reads the position of a cursor. Throws if it is not a cursor of this list with this sorting. */
export const readCursor = (cursor: string, sorting: readonly string[], orders: readonly Pick<SortKey, 'type'>[]): Position => {
  try {
    const [order, ...parts] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as unknown[]
    const values = parts.slice(0, orders.length)
    const [total, ...surplus] = parts.slice(orders.length)
    if (
      order === sorting.join() &&
      values.length === orders.length &&
      values.every((value, at): value is string => typeof value === 'string' && fits[orders[at]!.type](value)) &&
      (total === undefined || (Number.isSafeInteger(total) && Number(total) > countedOnce)) &&
      surplus.length === 0
    )
      return { values, total: total as number | undefined }
  } catch {
    // The cursor could not be parsed. It is rejected below like any other invalid cursor.
  }
  throw new InvalidRequest({
    loc: ['query', 'cursor'],
    msg: 'Send the next_cursor of an earlier answer to the same list, with the same sorting.',
    type: 'value_error',
    input: cursor,
  })
}

/** Checks that the database can parse a value as its type, because a cursor is client input. */
const fits: Record<SortKey['type'], (value: string) => boolean> = {
  timestamptz: (value) => /^[1-9]\d{3}-/.test(value) && !Number.isNaN(Date.parse(value)) && new Date(value).toISOString() === value,
  text: (value) => !value.includes('\0') && value.isWellFormed(),
  bigint: (value) => /^-?\d{1,18}$/.test(value),
  numeric: (value) => /^-?\d{1,400}(\.\d{1,400})?$/.test(value),
  uuid: (value) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value),
}

/** Merges the counter rows of collections with more than 50 counter rows. The sum of each collection does not change. */
export const foldDeltas = async (db: Db): Promise<void> => {
  await sql`
    with crowded as (
      select organization_id, collection from collection_deltas group by 1, 2 having count(*) > 50 limit 1000
    ), gone as (
      delete from collection_deltas d using crowded c where d.organization_id = c.organization_id and d.collection = c.collection
      returning d.organization_id, d.collection, d.delta
    )
    insert into collection_deltas (organization_id, collection, delta) select organization_id, collection, sum(delta) from gone group by 1, 2`.execute(db.q)
}

/** Loads one page of a list: first its keys, then their rows in the same order. */
export const listRows = async <R extends { id: string }>(
  db: Db,
  spec: ListSpec<string>,
  tenants: readonly string[],
  request: PageRequest & { sorting: readonly string[] },
  filters: readonly Filter[],
  load: (ids: readonly string[]) => Promise<R[]>,
) => {
  const { keys, total, next_cursor } = await listKeys(db, spec, tenants, request, filters)
  const rows = keys.length === 0 ? [] : await load(keys.map(({ id }) => id))
  return { items: inOrder(keys, rows, ({ id }) => id), total, next_cursor }
}
