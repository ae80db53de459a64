import type { DiscountProduct, Metadata, PageRequest } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { listRows, sidesOf, type Key, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { containing, json, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

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

const live = (db: Db, reach: Reach) =>
  db.q.selectFrom('discounts').selectAll().where('organization_id', '=', withinReach(reach)).where('deleted_at', 'is', null)

/** The products that discounts are bound to, as they are shown with them. */
const withProducts = async (db: Db, discounts: readonly DiscountTable[]): Promise<DiscountRow[]> => {
  if (discounts.length === 0) return []
  const found = await db.q
    .selectFrom('discount_products as d')
    .innerJoin('products as p', (on) => on.onRef('p.organization_id', '=', 'd.organization_id').onRef('p.id', '=', 'd.product_id'))
    .select(['d.discount_id', 'p.metadata', 'p.id', 'p.created_at', 'p.modified_at', 'p.trial_interval', 'p.trial_interval_count', 'p.name', 'p.description'])
    .select([
      'p.visibility',
      'p.recurring_interval',
      'p.recurring_interval_count',
      'p.meter_interval',
      'p.meter_interval_count',
      'p.is_archived',
      'p.organization_id',
    ])
    .where('d.organization_id', 'in', [...new Set(discounts.map(({ organization_id }) => organization_id))])
    .where(
      'd.discount_id',
      'in',
      discounts.map(({ id }) => id),
    )
    .orderBy('d.position')
    .execute()
  return discounts.map((discount) => ({
    ...discount,
    products: found
      .filter(({ discount_id }) => discount_id === discount.id)
      .map(({ discount_id: _, ...product }) => ({ ...product, is_recurring: product.recurring_interval !== null })),
  }))
}

export const listDiscounts = (
  db: Db,
  reach: Reach,
  query: PageRequest & { organization_id: readonly string[]; query?: string | undefined; sorting: readonly string[] },
) => {
  const filters: RawBuilder<unknown>[] = []
  if (query.query) filters.push(sql`(name ilike ${containing(query.query)} or code ilike ${containing(query.query)})`)
  const ids = organizationIds(reach, query.organization_id)
  return listRows(db, list, ids, query, filters, async (found) => withProducts(db, await live(db, reach).where('id', 'in', found).execute()))
}

/** Discounts as they are, deleted or not: whoever has one keeps it. */
export const loadDiscounts = async (db: Db, keys: readonly Key[]): Promise<DiscountTable[]> => {
  if (keys.length === 0) return []
  const { tenants, ids } = sidesOf(keys)
  return db.q.selectFrom('discounts').selectAll().where('organization_id', 'in', tenants).where('id', 'in', ids).execute()
}

export const findDiscount = async (db: Db, reach: Reach, id: string): Promise<DiscountRow | undefined> =>
  (await withProducts(db, await live(db, reach).where('id', '=', id).execute()))[0]

/** The discount that a code names, however it is written. */
export const findByCode = async (db: Db, reach: Reach, code: string): Promise<DiscountRow | undefined> =>
  (
    await withProducts(
      db,
      await live(db, reach)
        .where(sql`lower(code)`, '=', code.toLowerCase())
        .execute(),
    )
  )[0]

/** A discount whether or not it was deleted: whoever has it keeps it. */
export const findDiscountEver = async (db: Db, organization_id: string, id: string): Promise<DiscountRow | undefined> =>
  (await withProducts(db, await db.q.selectFrom('discounts').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).execute()))[0]

/** Holds the discount: its caps and terms change by one caller at a time, and nobody redeems it meanwhile. */
export const lockDiscount = async (tx: Tx, reach: Reach, id: string): Promise<Locked<DiscountTable> | undefined> =>
  (await live(tx, reach).where('id', '=', id).forUpdate().executeTakeFirst()) as Locked<DiscountTable> | undefined

const stored = <T extends Partial<DiscountTable>>(changes: T) => ({
  ...changes,
  ...(changes.amounts ? { amounts: json(changes.amounts) } : {}),
  ...(changes.metadata === undefined ? {} : { metadata: json(changes.metadata) }),
})

export const insertDiscount = async (tx: Tx, discount: DiscountTable): Promise<void> => {
  await tx.q.insertInto('discounts').values(stored(discount)).execute()
}

export const changeDiscount = async (tx: Tx, discount: Locked<DiscountTable>, changes: Partial<DiscountTable>): Promise<void> => {
  await tx.q.updateTable('discounts').set(stored(changes)).where('organization_id', '=', discount.organization_id).where('id', '=', discount.id).execute()
}

export const replaceProducts = async (tx: Tx, { organization_id, id }: { organization_id: string; id: string }, products: readonly string[]): Promise<void> => {
  await tx.q.deleteFrom('discount_products').where('organization_id', '=', organization_id).where('discount_id', '=', id).execute()
  if (products.length > 0)
    await tx.q
      .insertInto('discount_products')
      .values(products.map((product_id, position) => ({ organization_id, discount_id: id, product_id, position })))
      .execute()
}

/** Those of the ids that are products of the organization. They are held until the transaction ends. */
export const knownProducts = async (tx: Tx, organization_id: string, ids: readonly string[]): Promise<ReadonlySet<string>> => {
  if (ids.length === 0) return new Set()
  const found = await tx.q
    .selectFrom('products')
    .select('id')
    .where('organization_id', '=', organization_id)
    .where('id', 'in', [...ids])
    .forShare()
    .execute()
  return new Set(found.map(({ id }) => id))
}
