import type { SearchHit, SearchKind } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import { exists } from '../../customers/index.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'

/** The meanings that a query may have. Each is looked up by an index of its own. */
export interface SearchTerms {
  /** The query as it was typed. */
  readonly exact: string
  /** The query in lower case. */
  readonly text: string
  /** The query as an id, or null. */
  readonly id: string | null
  /** The hashes of the query as a license key, one for each pepper. Empty if it cannot be a key. */
  readonly key_hashes: readonly string[]
  /** The displayed end of a license key in lower case, or null. */
  readonly key_end: string | null
}

interface Lookup {
  readonly kind: SearchKind
  readonly matched: SearchHit['matched']
  /** Rank among the matches of a kind: 0 for exact matches, 1 for others. */
  readonly rank: 0 | 1
  readonly statement: RawBuilder<unknown>
}

/** The pattern of a text that begins with the query. */
const beginning = (text: string): string => `${text.replace(/[\\%_]/g, '\\$&')}%`

/** Finds the resources of one organization that a query may mean, of the given kinds. Each lookup reads at most `limit` rows of an index. */
export const findHits = async (
  db: Db,
  scope: TenantScope,
  organization_id: string,
  kinds: readonly SearchKind[],
  { exact, text, id, key_hashes, key_end }: SearchTerms,
  limit: number,
): Promise<SearchHit[]> => {
  const tenant = sql`${organization_id}::uuid`
  const most = sql`limit ${limit}`
  const pattern = beginning(text)
  const name = (table: string) => sql`coalesce(${sql.ref(`${table}.name`)}, ${sql.ref(`${table}.email`)}, '')`
  const customer = (where: RawBuilder<unknown>, order: RawBuilder<unknown> = sql`c.id`) => sql`
    select c.id, ${name('c')} as title, c.email as detail, c.id as customer_id, c.created_at from customers c
    where c.organization_id = ${tenant} and ${exists(scope, 'c')} and ${where} order by ${order} ${most}`
  const member = (where: RawBuilder<unknown>) => sql`
    select m.id, ${name('m')} as title, m.email as detail, m.customer_id, m.created_at from members m
    where m.organization_id = ${tenant} and m.deleted_at is null and ${where} order by m.id ${most}`
  const order = (where: RawBuilder<unknown>) => sql`
    select o.id, coalesce(o.invoice_number, o.description) as title, concat_ws(' · ', o.status, c.email) as detail, o.customer_id, o.created_at from orders o
    join customers c on c.organization_id = o.organization_id and c.id = o.customer_id
    where o.organization_id = ${tenant} and ${where} order by o.id ${most}`
  const product = (where: RawBuilder<unknown>) => sql`
    select p.id, p.name as title, case when p.is_archived then 'archived' end as detail, null::uuid as customer_id, p.created_at from products p
    where p.organization_id = ${tenant} and ${where} order by p.name, p.id ${most}`
  const key = (where: RawBuilder<unknown>) => sql`
    select k.id, k.display_key as title, k.status as detail, case when ${scope.phases.get(organization_id) === 'phase2'}::boolean then k.buyer_customer_id else coalesce(k.holder_customer_id, k.buyer_customer_id) end as customer_id,
      k.created_at from license_keys k where k.organization_id = ${tenant} and ${where} order by k.id desc ${most}`
  const byId = (
    table: string,
    title: RawBuilder<unknown>,
    detail: RawBuilder<unknown>,
    customer_id: RawBuilder<unknown>,
    living: RawBuilder<unknown> = sql`true`,
  ) => sql`
    select x.id, ${title} as title, ${detail} as detail, ${customer_id} as customer_id, x.created_at from ${sql.table(table)} x
    where x.organization_id = ${tenant} and x.id = ${id} and ${living}`
  const none = sql`null::text`
  const nobody = sql`null::uuid`
  const lookups: readonly Lookup[] = [
    ...(id === null
      ? []
      : ([
          { kind: 'customer', matched: 'id', rank: 0, statement: customer(sql`c.id = ${id}`) },
          { kind: 'member', matched: 'id', rank: 0, statement: member(sql`m.id = ${id}`) },
          { kind: 'order', matched: 'id', rank: 0, statement: order(sql`o.id = ${id}`) },
          { kind: 'subscription', matched: 'id', rank: 0, statement: byId('subscriptions', sql`'Subscription'`, sql`x.status`, sql`x.customer_id`) },
          { kind: 'product', matched: 'id', rank: 0, statement: product(sql`p.id = ${id}`) },
          { kind: 'benefit', matched: 'id', rank: 0, statement: byId('benefits', sql`x.description`, sql`x.type`, nobody, sql`x.deleted_at is null`) },
          { kind: 'license_key', matched: 'id', rank: 0, statement: key(sql`k.id = ${id}`) },
          { kind: 'refund', matched: 'id', rank: 0, statement: byId('refunds', sql`'Refund'`, sql`x.status`, sql`x.customer_id`) },
          { kind: 'payment', matched: 'id', rank: 0, statement: byId('payments', sql`'Payment'`, sql`x.status`, sql`x.customer_id`, sql`x.kind = 'payment'`) },
          { kind: 'checkout', matched: 'id', rank: 0, statement: byId('checkouts', sql`'Checkout'`, sql`x.status`, sql`x.customer_id`) },
          { kind: 'discount', matched: 'id', rank: 0, statement: byId('discounts', sql`x.name`, sql`x.code`, nobody, sql`x.deleted_at is null`) },
          {
            kind: 'event',
            matched: 'id',
            rank: 0,
            statement: sql`select x.id, x.kind as title, ${none} as detail, x.customer_id, x.wall_at as created_at from events x where x.organization_id = ${tenant} and x.id = ${id}`,
          },
          {
            kind: 'webhook_endpoint',
            matched: 'id',
            rank: 0,
            statement: byId('webhook_endpoints', sql`coalesce(x.name, x.url)`, sql`x.url`, nobody, sql`x.deleted_at is null`),
          },
        ] satisfies readonly Lookup[])),
    { kind: 'customer', matched: 'external_id', rank: 0, statement: customer(sql`c.external_id = ${exact}`) },
    { kind: 'customer', matched: 'email', rank: 1, statement: customer(sql`lower(c.email) like ${pattern}`, sql`lower(c.email) using ~<~`) },
    {
      kind: 'customer',
      matched: 'name',
      rank: 1,
      statement: customer(sql`lower(c.name) like ${pattern} and c.name is not null`, sql`lower(c.name) using ~<~`),
    },
    { kind: 'member', matched: 'email', rank: 0, statement: member(sql`lower(m.email) = ${text}`) },
    { kind: 'order', matched: 'invoice_number', rank: 0, statement: order(sql`o.invoice_number = ${text.toUpperCase()}`) },
    { kind: 'product', matched: 'name', rank: 1, statement: product(sql`p.name ilike ${pattern}`) },
    ...(key_hashes.length === 0
      ? []
      : [{ kind: 'license_key', matched: 'key', rank: 0, statement: key(sql`k.hash = any(${[...key_hashes]}::text[])`) } satisfies Lookup]),
    ...(key_end === null
      ? []
      : [{ kind: 'license_key', matched: 'key_end', rank: 1, statement: key(sql`lower(k.display_key) = ${key_end}`) } satisfies Lookup]),
  ]
  const wanted = lookups.filter(({ kind }) => kinds.includes(kind))
  if (wanted.length === 0) return []
  const parts = wanted.map(
    ({ kind, matched, rank, statement }) => sql`select ${kind} as kind, ${matched} as matched, ${rank}::int as rank, f.* from (${statement}) f`,
  )
  const { rows } = await sql<SearchHit & { rank: number }>`
    select kind, matched, rank, id, title, detail, customer_id, created_at, ${tenant} as organization_id from (${sql.join(parts, sql` union all `)}) h`.execute(
    db.q,
  )
  return best(rows, kinds, limit)
}

/** Sorts hits by kind and rank, and keeps the best hit of each resource. */
const best = (rows: readonly (SearchHit & { rank: number })[], kinds: readonly SearchKind[], limit: number): SearchHit[] =>
  kinds.flatMap((kind) => {
    const ofKind = rows.filter((row) => row.kind === kind).toSorted((one, other) => one.rank - other.rank)
    const unique = new Map<string, SearchHit>()
    for (const { rank: _, ...hit } of ofKind) if (!unique.has(hit.id)) unique.set(hit.id, hit)
    return [...unique.values()].slice(0, limit)
  })
