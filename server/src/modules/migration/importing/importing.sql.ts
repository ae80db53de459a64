import { sql, type Selectable } from 'kysely'
import { json, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Tables, Tx } from '../../../platform/postgres/postgres.ts'

/** Tables whose rows a bundle can add or refer to. */
export type Table = 'benefits' | 'products' | 'customers' | 'subscriptions' | 'orders' | 'seats' | 'benefit_grants' | 'license_keys' | 'downloadables' | 'files'
export type Row<T extends Table> = Selectable<Tables[T]>

/** Returns the existing rows with these ids. */
export const rowsOf = async <T extends Table>(db: Db, table: T, organization_id: string, ids: readonly string[]): Promise<Row<T>[]> => {
  if (ids.length === 0) return []
  const { rows } = await sql<Row<T>>`select * from ${sql.table(table)} where organization_id = ${organization_id} and id = any(${ids}::uuid[])`.execute(db.q)
  return rows
}

/** Returns the state of an organization's member migration. Returns undefined if it was never started. */
export const migrationState = async (db: Db, organization_id: string): Promise<string | undefined> => {
  const { rows } = await sql<{ state: string }>`select state from member_migrations where organization_id = ${organization_id}`.execute(db.q)
  return rows[0]?.state
}

export interface ProductParts {
  readonly prices: {
    readonly id: string
    readonly amount_type: string
    readonly price_currency: string
    readonly price_amount: number | null
    readonly seat_tiers: unknown
  }[]
  readonly benefits: string[]
}

/** Returns the prices and benefits of products, in the order of the product. */
export const partsOf = async (db: Db, organization_id: string, ids: readonly string[]): Promise<Map<string, ProductParts>> => {
  if (ids.length === 0) return new Map()
  const prices = await db.q
    .selectFrom('product_prices')
    .select(['product_id', 'id', 'amount_type', 'price_currency', 'price_amount', 'seat_tiers'])
    .where('organization_id', '=', organization_id)
    .where('product_id', '=', oneOf(ids))
    .where('source', '=', 'catalog')
    .orderBy('position')
    .execute()
  const benefits = await db.q
    .selectFrom('product_benefits')
    .select(['product_id', 'benefit_id'])
    .where('organization_id', '=', organization_id)
    .where('product_id', '=', oneOf(ids))
    .orderBy('position')
    .execute()
  return new Map(
    ids.map((id) => [
      id,
      {
        prices: prices.filter(({ product_id }) => product_id === id).map(({ product_id: _, ...price }) => price),
        benefits: benefits.filter(({ product_id }) => product_id === id).map(({ benefit_id }) => benefit_id),
      },
    ]),
  )
}

/**
 * Returns customers that are not deleted and have one of these email addresses or external ids. Addresses are returned
 * in lower case, as the database compares them.
 */
export const customersCalled = async (
  db: Db,
  organization_id: string,
  emails: readonly string[],
  external_ids: readonly string[],
): Promise<{ id: string; email: string | null; external_id: string | null }[]> => {
  const { rows } = await sql<{ id: string; email: string | null; external_id: string | null }>`
    select id, lower(email) as email, external_id from customers where organization_id = ${organization_id} and deleted_at is null and not pure_holder
      and (lower(email) = any(${emails}::text[]) or external_id = any(${external_ids}::text[]))`.execute(db.q)
  return rows
}

/** Returns these texts in lower case as computed by the database. */
export const lowered = async (db: Db, texts: readonly string[]): Promise<Map<string, string>> => {
  const { rows } = await sql<{ text: string; lower: string }>`select text, lower(text) as lower from unnest(${texts}::text[]) text`.execute(db.q)
  return new Map(rows.map(({ text, lower }) => [text, lower]))
}

export type GrantName = Pick<Row<'benefit_grants'>, 'buyer_customer_id' | 'benefit_id' | 'subscription_id' | 'order_id' | 'holder_customer_id'>

/** Returns existing grants with these benefits, purchases and customers. Each combination has at most one grant. */
export const grantsLike = async (db: Db, organization_id: string, names: readonly GrantName[]): Promise<(GrantName & { id: string })[]> => {
  if (names.length === 0) return []
  const { rows } = await sql<GrantName & { id: string }>`
    select g.id, g.buyer_customer_id, g.benefit_id, g.subscription_id, g.order_id, g.holder_customer_id
    from jsonb_to_recordset(${JSON.stringify(names)}::jsonb)
      as n (buyer_customer_id uuid, benefit_id uuid, subscription_id uuid, order_id uuid, holder_customer_id uuid)
    join benefit_grants g on g.organization_id = ${organization_id} and g.buyer_customer_id = n.buyer_customer_id and g.benefit_id = n.benefit_id
      and g.subscription_id is not distinct from n.subscription_id and g.order_id is not distinct from n.order_id
      and g.holder_customer_id is not distinct from n.holder_customer_id and g.member_id is null`.execute(db.q)
  return rows
}

/** Returns existing license keys that have one of these hashes or belong to one of these grants. */
export const keysLike = async (
  db: Db,
  organization_id: string,
  hashes: readonly string[],
  grant_ids: readonly string[],
): Promise<{ id: string; hash: string; grant_id: string }[]> => {
  const { rows } = await sql<{ id: string; hash: string; grant_id: string }>`
    select id, hash, grant_id from license_keys
    where organization_id = ${organization_id} and (hash = any(${hashes}::text[]) or grant_id = any(${grant_ids}::uuid[]))`.execute(db.q)
  return rows
}

export const insertCustomers = async (tx: Tx, rows: readonly Row<'customers'>[]): Promise<void> => {
  if (rows.length > 0)
    await tx.q
      .insertInto('customers')
      .values(rows.map((row) => ({ ...row, metadata: json(row.metadata) })))
      .execute()
}

export const insertSeats = async (tx: Tx, rows: readonly Row<'seats'>[]): Promise<void> => {
  if (rows.length > 0)
    await tx.q
      .insertInto('seats')
      .values(rows.map((row) => ({ ...row, metadata: json(row.metadata) })))
      .execute()
}

/** Writes the license key or the files of a grant into its properties. */
export const nameGiven = async (tx: Tx, organization_id: string, grant_ids: readonly string[]): Promise<void> => {
  if (grant_ids.length === 0) return
  const theirs = sql`g.organization_id = ${organization_id} and g.id = any(${grant_ids}::uuid[])`
  await sql`
    update benefit_grants g set properties = jsonb_build_object('license_key_id', k.id, 'display_key', k.display_key)
    from license_keys k where ${theirs} and k.organization_id = g.organization_id and k.grant_id = g.id`.execute(tx.q)
  await sql`
    update benefit_grants g set properties = jsonb_build_object('files', d.files)
    from (
      select d.grant_id, jsonb_agg(d.file_id order by b.position) as files from downloadables d
      join benefit_files b on b.organization_id = d.organization_id and b.benefit_id = d.benefit_id and b.file_id = d.file_id
      where d.organization_id = ${organization_id} and d.grant_id = any(${grant_ids}::uuid[]) group by d.grant_id
    ) d where ${theirs} and d.grant_id = g.id`.execute(tx.q)
}
