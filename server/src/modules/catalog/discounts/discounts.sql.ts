import type { DiscountProduct, Metadata, PageRequest } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { lockRow } from '../../../platform/postgres/locks.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { containing, json, inScope, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { fromJson, type JsonRow } from '../../../platform/postgres/json-rows.ts'
import { jsonList } from '../parts.sql.ts'

export interface DiscountTable {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  deleted_at: Date | null
  type: 'fixed' | 'percentage'
  duration: 'once' | 'forever' | 'repeating'
  duration_in_months: number | null
  amounts: Record<string, number> | null
  basis_points: number | null
  name: string
  code: string | null
  starts_at: Date | null
  ends_at: Date | null
  max_redemptions: number | null
  max_redemptions_per_customer: number | null
  redemptions_count: number
  metadata: Metadata
}
export type DiscountRow = DiscountTable & { products: DiscountProduct[] }

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    discounts: DiscountTable
    discount_products: { organization_id: string; discount_id: string; product_id: string; position: number }
  }
}

const list = {
  table: 'discounts',
  tenant: 'organization_id',
  id: 'id',
  always: sql`deleted_at is null`,
  sortable: {
    created_at: { expression: 'created_at', type: 'timestamptz' },
    name: { expression: 'name', type: 'text' },
    code: { expression: `coalesce(code, '')`, type: 'text' },
    redemptions_count: { expression: 'redemptions_count', type: 'bigint' },
    ends_at: { expression: `coalesce(ends_at, '9999-12-31Z'::timestamptz)`, type: 'timestamptz' },
  },
} satisfies ListSpec<string>

const live = (db: Db, scope: TenantScope) =>
  db.q.selectFrom('discounts').selectAll().where('organization_id', '=', inScope(scope)).where('deleted_at', 'is', null)

type ProductJson = JsonRow<Omit<DiscountProduct, 'is_recurring'>>

const productColumns = sql`
  p.metadata, p.id, p.created_at, p.modified_at, p.trial_interval, p.trial_interval_count, p.name, p.description, p.visibility, p.recurring_interval,
  p.recurring_interval_count, p.meter_interval, p.meter_interval_count, p.is_archived, p.organization_id`

/** The products that a discount is restricted to, as a JSON list in the order of the discount. */
const products = jsonList<ProductJson>(sql`
  select ${productColumns} from discount_products a join products p on p.organization_id = a.organization_id and p.id = a.product_id
  where a.organization_id = discounts.organization_id and a.discount_id = discounts.id order by a.position`).as('products')

const parseProducts = ({ products, ...discount }: DiscountTable & { products: ProductJson[] }): DiscountRow => ({
  ...discount,
  products: products.map((product) => presentRestriction(fromJson<Omit<DiscountProduct, 'is_recurring'>>(product, { created_at: true, modified_at: true }))),
})

const presentRestriction = (product: Omit<DiscountProduct, 'is_recurring'>): DiscountProduct => ({
  ...product,
  is_recurring: product.recurring_interval !== null,
})

/** A discount with the products that it is restricted to, inside a JSON result. */
export type JsonDiscount = JsonRow<DiscountTable> & { readonly products: ProductJson[] }

/**
 * SQL for a discount as JSON. `key` names the columns of another table that reference the discount. The caller must
 * restrict that table to the scope. A deleted discount is included only if `evenDeleted` is true.
 */
export const discountJson = (key: { readonly organization_id: string; readonly id: string }, evenDeleted: RawBuilder<unknown>): RawBuilder<unknown> => sql`(
  select to_json(w) from (
    select discounts.*, ${products} from discounts
    where discounts.organization_id = ${sql.ref(key.organization_id)} and discounts.id = ${sql.ref(key.id)}
      and (discounts.deleted_at is null or ${evenDeleted})) w)`

export const discountFromJson = ({ products: restricted, ...terms }: JsonDiscount): DiscountRow =>
  parseProducts({
    ...fromJson<DiscountTable>(terms, { created_at: true, modified_at: true, deleted_at: true, starts_at: true, ends_at: true }),
    products: restricted,
  })

/** Runs the query and returns its discounts with the products that each is restricted to. */
const withProducts = async (query: ReturnType<typeof live>): Promise<DiscountRow[]> => (await query.select(products).execute()).map(parseProducts)

export const listDiscounts = (
  db: Db,
  scope: TenantScope,
  query: PageRequest & { organization_id: readonly string[]; query?: string | undefined; sorting: readonly string[] },
) => {
  const filters: RawBuilder<unknown>[] = []
  if (query.query) filters.push(sql`(name ilike ${containing(query.query)} or code ilike ${containing(query.query)})`)
  const ids = organizationIds(scope, query.organization_id)
  return listRows(db, list, ids, query, filters, (found) => withProducts(live(db, scope).where('id', '=', oneOf(found))))
}

export const findDiscount = async (db: Db, scope: TenantScope, id: string): Promise<DiscountRow | undefined> =>
  (await withProducts(live(db, scope).where('id', '=', id)))[0]

/** Finds a discount by its code, case-insensitively. */
export const findDiscountByCode = async (db: Db, scope: TenantScope, code: string): Promise<DiscountRow | undefined> =>
  (await withProducts(live(db, scope).where(sql`lower(code)`, '=', code.toLowerCase())))[0]

/** Finds a discount even if it was deleted, because confirmed checkouts and subscriptions keep their discount. */
export const findDiscountEver = async (db: Db, organization_id: string, id: string): Promise<DiscountRow | undefined> =>
  (await withProducts(db.q.selectFrom('discounts').selectAll().where('organization_id', '=', organization_id).where('id', '=', id)))[0]

/** Locks the discount. Serializes changes of its limits and terms. Concurrent redemptions wait for the lock. */
export const lockDiscount = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<DiscountTable> | undefined> =>
  await lockRow(live(tx, scope).where('id', '=', id), 'update')

const stored = <T extends Partial<DiscountTable>>(changes: T) => ({
  ...changes,
  ...(changes.amounts ? { amounts: json(changes.amounts) } : {}),
  ...(changes.metadata === undefined ? {} : { metadata: json(changes.metadata) }),
})

export const insertDiscount = (tx: Tx, discount: DiscountTable): Promise<DiscountTable> =>
  tx.q.insertInto('discounts').values(stored(discount)).returningAll().executeTakeFirstOrThrow()

/** Changes the discount and returns it with its products. */
export const changeDiscount = async (tx: Tx, discount: Locked<DiscountTable>, changes: Partial<DiscountTable>): Promise<DiscountRow> =>
  parseProducts(
    await tx.q
      .updateTable('discounts')
      .set(stored(changes))
      .where('organization_id', '=', discount.organization_id)
      .where('id', '=', discount.id)
      .returningAll()
      .returning(products)
      .executeTakeFirstOrThrow(),
  )

/** Restricts a discount without products to the given ones. Returns them in the given order. */
export const insertProducts = async (tx: Tx, discount: { organization_id: string; id: string }, ids: readonly string[]): Promise<DiscountProduct[]> => {
  if (ids.length === 0) return []
  const { rows } = await sql<Omit<DiscountProduct, 'is_recurring'>>`
    with inserted as (
      insert into discount_products (organization_id, discount_id, product_id, position)
      select ${discount.organization_id}, ${discount.id}, l.id, l.place - 1 from unnest(${ids}::uuid[]) with ordinality l (id, place)
      returning *
    )
    select ${productColumns} from inserted a join products p on p.organization_id = a.organization_id and p.id = a.product_id order by a.position`.execute(tx.q)
  return rows.map(presentRestriction)
}

export const replaceProducts = async (tx: Tx, discount: Locked<DiscountTable>, ids: readonly string[]): Promise<DiscountProduct[]> => {
  await tx.q.deleteFrom('discount_products').where('organization_id', '=', discount.organization_id).where('discount_id', '=', discount.id).execute()
  return insertProducts(tx, discount, ids)
}

/** Returns the ids that belong to products of the organization. Locks these products in share mode until the transaction ends. */
export const holdProducts = async (tx: Tx, organization_id: string, ids: readonly string[]): Promise<ReadonlySet<string>> => {
  if (ids.length === 0) return new Set()
  const found = await tx.q.selectFrom('products').select('id').where('organization_id', '=', organization_id).where('id', '=', oneOf(ids)).forShare().execute()
  return new Set(found.map(({ id }) => id))
}
