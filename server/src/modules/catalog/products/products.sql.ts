import type { CustomField, Product, ProductPrice, ProductPriceCreate, ProductPriceSeatTier } from '@bursar/contract'
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { inOrder, listKeys, sidesOf, type Key, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, containing, isOneOf, json, metadataHas, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { benefitsOf, type BenefitTable } from '../benefits/benefits.sql.ts'
import { mediasOf, type FileRow } from '../files/files.sql.ts'

type Stored = Omit<Product, 'prices' | 'benefits' | 'medias' | 'attached_custom_fields' | 'is_recurring'>

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    products: Stored & { price_amount_type: string; price_amount: number }
    product_prices: PriceTable
    product_custom_fields: { organization_id: string; product_id: string; custom_field_id: string; position: number; required: boolean }
  }
}

export interface PriceTable {
  organization_id: string
  id: string
  product_id: string
  position: number
  created_at: Date
  modified_at: Date | null
  source: ProductPrice['source']
  amount_type: ProductPrice['amount_type']
  price_currency: string
  tax_behavior: ProductPrice['tax_behavior']
  is_archived: boolean
  /** The one checkout that a price was made for; null in the catalog. */
  checkout_id: string | null
  price_amount: number | null
  minimum_amount: number | null
  maximum_amount: number | null
  preset_amount: number | null
  seat_tiers: { seat_tier_type: 'volume' | 'graduated'; tiers: ProductPriceSeatTier[] } | null
  meter_id: string | null
  unit_amount: string | null
  cap_amount: number | null
}

/** A price, with what is to be shown of its meter. */
export type PriceRow = PriceTable & { meter: Extract<ProductPrice, { amount_type: 'metered_unit' }>['meter'] | null }

export type ProductRow = Selectable<Stored>
export interface Loaded {
  readonly product: ProductRow
  readonly prices: readonly PriceRow[]
  readonly benefits: readonly BenefitTable[]
  readonly medias: readonly FileRow[]
  readonly fields: readonly { custom_field: CustomField; position: number; required: boolean }[]
}

const columns = [
  'organization_id',
  'id',
  'created_at',
  'modified_at',
  'name',
  'description',
  'visibility',
  'recurring_interval',
  'recurring_interval_count',
  'trial_interval',
  'trial_interval_count',
  'meter_interval',
  'meter_interval_count',
  'is_archived',
  'metadata',
] as const

const list = {
  table: 'products',
  tenant: 'organization_id',
  id: 'id',
  counted: 'products',
  sortable: {
    created_at: { expression: 'created_at', type: 'timestamptz' },
    name: { expression: 'name', type: 'text' },
    price_amount_type: { expression: 'price_amount_type', type: 'text' },
    price_amount: { expression: 'price_amount', type: 'bigint' },
  },
} as const satisfies ListSpec<string>

export interface ProductFilters {
  readonly id: readonly string[]
  readonly organization_id: readonly string[]
  readonly query?: string | undefined
  readonly is_archived?: boolean | undefined
  readonly is_recurring?: boolean | undefined
  readonly benefit_id: readonly string[]
  readonly visibility: readonly string[]
  readonly metadata?: Record<string, string[]> | undefined
}

export const listProducts = async (
  db: Db,
  reach: Reach,
  query: ProductFilters & { page: number; limit: number; cursor?: string | undefined; sorting: readonly string[] },
) => {
  const filters = [...anyOf('id', query.id), ...anyOf('visibility', query.visibility, 'text')]
  if (query.query) filters.push(sql`name ilike ${containing(query.query)}`)
  if (query.is_archived !== undefined) filters.push(sql`is_archived = ${query.is_archived}`)
  if (query.is_recurring !== undefined) filters.push(sql`(recurring_interval is not null) = ${query.is_recurring}`)
  if (query.benefit_id.length > 0)
    filters.push(
      sql`exists (select from product_benefits a where a.organization_id = products.organization_id and a.product_id = products.id and ${isOneOf('a.benefit_id', query.benefit_id)})`,
    )
  filters.push(...metadataHas(query.metadata))
  const ids = organizationIds(reach, query.organization_id)
  const { keys, total, next_cursor } = await listKeys(db, list, ids, query, filters)
  return { items: await loadProducts(db, keys), total, next_cursor }
}

/** The rows of products and of all that hangs on them, in the order of the keys. */
export const loadProducts = async (db: Db, keys: readonly Key[]): Promise<Loaded[]> => {
  if (keys.length === 0) return []
  const { tenants, ids } = sidesOf(keys)
  const [products, prices, { rows: fields }, benefits, medias] = await Promise.all([
    loadProductRows(db, keys),
    // A price that was made for one checkout is no part of the catalog.
    selectPrices(
      db,
      sql`r.organization_id = any(${tenants}::uuid[]) and r.product_id = any(${ids}::uuid[]) and r.is_archived = false and r.source = 'catalog'`,
    ),
    sql<CustomField & { product_id: string; position: number; required: boolean }>`
      select a.product_id, a.position, a.required, f.organization_id, f.id, f.created_at, f.modified_at, f.type, f.slug, f.name, f.properties, f.metadata
      from product_custom_fields a join custom_fields f on f.organization_id = a.organization_id and f.id = a.custom_field_id and f.deleted_at is null
      where a.organization_id = any(${tenants}::uuid[]) and a.product_id = any(${ids}::uuid[])
      order by a.position`.execute(db.q),
    benefitsOf(db, tenants, ids),
    mediasOf(db, tenants, ids),
  ])
  return products.map((product) => ({
    product,
    prices: prices.filter(({ product_id }) => product_id === product.id),
    benefits: benefits.filter(({ product_id }) => product_id === product.id).map(({ product_id: _, ...benefit }) => benefit),
    medias: medias.filter(({ product_id }) => product_id === product.id).map(({ product_id: _, ...file }) => file),
    fields: fields
      .filter(({ product_id }) => product_id === product.id)
      .map(({ product_id: _product, position, required, ...custom_field }) => ({ position, required, custom_field })),
  }))
}

/** The products alone, without what hangs on them, in the order of the keys; archived ones too. */
export const loadProductRows = async (db: Db, keys: readonly Key[]): Promise<ProductRow[]> => {
  if (keys.length === 0) return []
  const { tenants, ids } = sidesOf(keys)
  const rows = await db.q.selectFrom('products').select(columns).where('organization_id', 'in', tenants).where('id', 'in', ids).execute()
  return inOrder(keys, rows, ({ id }) => id)
}

/** Prices as they are, whoever sells at them still: archived ones too, and those that were made for one checkout. */
export const loadPrices = async (db: Db, keys: readonly Key[]): Promise<PriceRow[]> => {
  if (keys.length === 0) return []
  const { tenants, ids } = sidesOf(keys)
  return selectPrices(db, sql`r.organization_id = any(${tenants}::uuid[]) and r.id = any(${ids}::uuid[])`)
}

/** The prices that were made for one checkout. */
export const loadPricesOf = (db: Db, organization_id: string, checkout_id: string): Promise<PriceRow[]> =>
  selectPrices(db, sql`r.organization_id = ${organization_id} and r.checkout_id = ${checkout_id}`)

const selectPrices = async (db: Db, condition: RawBuilder<unknown>): Promise<PriceRow[]> => {
  const { rows } = await sql<PriceRow>`
    select r.*, case when m.id is null then null else jsonb_build_object(
      'id', m.id, 'name', m.name, 'unit', m.unit, 'custom_label', m.custom_label, 'custom_multiplier', m.custom_multiplier) end as meter
    from product_prices r left join meters m on m.organization_id = r.organization_id and m.id = r.meter_id
    where ${condition} order by r.position, r.id`.execute(db.q)
  return rows
}

export const findProduct = async (db: Db, reach: Reach, id: string): Promise<Loaded | undefined> => {
  const found = await db.q
    .selectFrom('products')
    .select('organization_id')
    .where('organization_id', '=', withinReach(reach))
    .where('id', '=', id)
    .executeTakeFirst()
  return found && (await loadProducts(db, [{ tenant: found.organization_id, id }]))[0]
}

/** Holds the product: its prices and fields change by one caller at a time. */
export const lockProduct = async (tx: Tx, reach: Reach, id: string): Promise<Locked<ProductRow> | undefined> =>
  (await tx.q.selectFrom('products').select(columns).where('organization_id', '=', withinReach(reach)).where('id', '=', id).forUpdate().executeTakeFirst()) as
    | Locked<ProductRow>
    | undefined

export const insertProduct = async (tx: Tx, product: Stored & { price_amount_type: string; price_amount: number }): Promise<void> => {
  await tx.q
    .insertInto('products')
    .values({ ...product, metadata: json(product.metadata) })
    .execute()
}

export const changeProduct = async (
  tx: Tx,
  product: Locked<ProductRow>,
  changes: Partial<Stored> & { price_amount_type?: string; price_amount?: number },
): Promise<void> => {
  await tx.q
    .updateTable('products')
    .set({ ...changes, ...(changes.metadata === undefined ? {} : { metadata: json(changes.metadata) }) })
    .where('organization_id', '=', product.organization_id)
    .where('id', '=', product.id)
    .execute()
}

/** Fails where anything refers to the product: whoever sold it must still be able to show it. */
export const deleteProduct = async (tx: Tx, product: Locked<ProductRow>): Promise<void> => {
  await tx.q.deleteFrom('products').where('organization_id', '=', product.organization_id).where('id', '=', product.id).execute()
}

export type NewPrice = ProductPriceCreate & { id: string; position: number }

/** A price as it stands in its table: in the catalog, or made for one checkout. */
export const priceRow = (product: { organization_id: string; id: string }, price: NewPrice, now: Date, checkout_id: string | null = null): PriceTable => ({
  organization_id: product.organization_id,
  product_id: product.id,
  id: price.id,
  position: price.position,
  created_at: now,
  modified_at: null,
  source: checkout_id === null ? 'catalog' : 'ad_hoc',
  checkout_id,
  amount_type: price.amount_type,
  price_currency: price.price_currency,
  tax_behavior: price.tax_behavior ?? null,
  is_archived: false,
  price_amount: price.amount_type === 'fixed' ? price.price_amount : null,
  minimum_amount: price.amount_type === 'custom' ? price.minimum_amount : null,
  maximum_amount: price.amount_type === 'custom' ? (price.maximum_amount ?? null) : null,
  preset_amount: price.amount_type === 'custom' ? (price.preset_amount ?? null) : null,
  seat_tiers: price.amount_type === 'seat_based' ? price.seat_tiers : null,
  meter_id: price.amount_type === 'metered_unit' ? price.meter_id : null,
  unit_amount: price.amount_type === 'metered_unit' ? price.unit_amount : null,
  cap_amount: price.amount_type === 'metered_unit' ? (price.cap_amount ?? null) : null,
})

export const insertPrices = async (tx: Tx, rows: readonly PriceTable[]): Promise<void> => {
  if (rows.length > 0)
    await tx.q
      .insertInto('product_prices')
      .values(rows.map((row) => ({ ...row, seat_tiers: row.seat_tiers && json(row.seat_tiers) })))
      .execute()
}

/** After every price the product has ever had. */
export const nextPosition = async (tx: Tx, product: Locked<ProductRow>): Promise<number> => {
  const { rows } = await sql<{
    next: number
  }>`select coalesce(max(position) + 1, 0) as next from product_prices where organization_id = ${product.organization_id} and product_id = ${product.id}`.execute(
    tx.q,
  )
  return rows[0]!.next
}

export const archivePrices = async (tx: Tx, product: Locked<ProductRow>, ids: readonly string[], now: Date): Promise<void> => {
  if (ids.length === 0) return
  await tx.q
    .updateTable('product_prices')
    .set({ is_archived: true, modified_at: now })
    .where('organization_id', '=', product.organization_id)
    .where('product_id', '=', product.id)
    .where('id', 'in', [...ids])
    .execute()
}

export const replaceFields = async (
  tx: Tx,
  product: { organization_id: string; id: string },
  fields: readonly { custom_field_id: string; required: boolean }[],
): Promise<void> => {
  await tx.q.deleteFrom('product_custom_fields').where('organization_id', '=', product.organization_id).where('product_id', '=', product.id).execute()
  if (fields.length > 0)
    await tx.q
      .insertInto('product_custom_fields')
      .values(
        fields.map(({ custom_field_id, required }, position) => ({
          organization_id: product.organization_id,
          product_id: product.id,
          custom_field_id,
          position,
          required,
        })),
      )
      .execute()
}
