import type { CustomField, Product, ProductPrice, ProductPriceCreate, ProductPriceSeatTier } from '@bursar/contract'
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { listRecords, sidesOf, type Key, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, constant, containing, isOneOf, json, metadataHas, inScope, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { BenefitTable } from '../benefits/benefits.sql.ts'
import type { FileRow } from '../files/files.sql.ts'
import { fromJson, rowFromJson, type JsonRow } from '../../../platform/postgres/json-rows.ts'
import { jsonList } from '../parts.sql.ts'

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
  /** Checkout for which an ad-hoc price was created. Null for catalog prices. */
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

/** A price with the displayed fields of its meter. */
export type PriceRow = PriceTable & { meter: Extract<ProductPrice, { amount_type: 'metered_unit' }>['meter'] | null }

export type ProductRow = Selectable<Stored>
export interface LoadedProduct {
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
  scope: TenantScope,
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
  const ids = organizationIds(scope, query.organization_id)
  return listRecords(db, list, ids, query, filters, { alias: 'p', columns: loadedColumns, parse: parseLists })
}

/** Loads products with their catalog prices, fields, benefits and media, in the order of the keys. */
export const loadProducts = async (db: Db, keys: readonly Key[]): Promise<LoadedProduct[]> =>
  keys.length === 0 ? [] : selectProducts(db, sql`${wanted(keys)} order by k.place`)

export const findProduct = async (db: Db, scope: TenantScope, id: string): Promise<LoadedProduct | undefined> =>
  (await selectProducts(db, sql`products p where p.organization_id = ${inScope(scope)} and p.id = ${id}`))[0]

/** Returns the `from` clause that finds the products of the keys. `k.place` is the position of a key in the list. */
const wanted = (keys: readonly Key[]) => sql`
  unnest(${keys.map(({ tenant }) => tenant)}::uuid[], ${keys.map(({ id }) => id)}::uuid[]) with ordinality k (organization_id, id, place)
  join products p on p.organization_id = k.organization_id and p.id = k.id`

const productColumns = constant(sql`${sql.join(columns.map((column) => sql.ref(`p.${column}`)))}`)

/** A price with the displayed fields of its meter. */
const priceColumns = sql`r.*, case when m.id is null then null else jsonb_build_object(
  'id', m.id, 'name', m.name, 'unit', m.unit, 'custom_label', m.custom_label, 'custom_multiplier', m.custom_multiplier) end as meter`

/** The prices `r` that meet the condition, in the order of their positions. The condition must restrict the tenant. */
const pricesWhere = (condition: RawBuilder<unknown>) => sql`
  select ${priceColumns} from product_prices r left join meters m on m.organization_id = r.organization_id and m.id = r.meter_id
  where ${condition} order by r.position, r.id`

/** The lists of a product `p`. */
const lists = {
  // Excludes ad-hoc prices, which belong to one checkout and not to the catalog.
  prices: pricesWhere(sql`r.organization_id = p.organization_id and r.product_id = p.id and r.is_archived = false and r.source = 'catalog'`),
  fields: sql`
    select a.position, a.required, f.organization_id, f.id, f.created_at, f.modified_at, f.type, f.slug, f.name, f.properties, f.metadata
    from product_custom_fields a join custom_fields f on f.organization_id = a.organization_id and f.id = a.custom_field_id and f.deleted_at is null
    where a.organization_id = p.organization_id and a.product_id = p.id order by a.position`,
  benefits: sql`
    select b.* from product_benefits a join benefits b on b.organization_id = a.organization_id and b.id = a.benefit_id and b.deleted_at is null
    where a.organization_id = p.organization_id and a.product_id = p.id order by a.position`,
  medias: sql`
    select f.* from product_medias a join files f on f.organization_id = a.organization_id and f.id = a.file_id
    where a.organization_id = p.organization_id and a.product_id = p.id order by a.position`,
}

interface JsonLists {
  prices: JsonRow<PriceRow>[]
  fields: (JsonRow<CustomField> & { position: number; required: boolean })[]
  benefits: JsonRow<BenefitTable>[]
  medias: JsonRow<FileRow>[]
}

const listOf = <K extends keyof JsonLists>(name: K) => jsonList<JsonLists[K][number]>(lists[name]).as(name)
const listColumns = [listOf('prices'), listOf('fields'), listOf('benefits'), listOf('medias')]

const loadedColumns = constant(sql`${productColumns}, ${sql.join(listColumns)}`)

/**
 * SQL for the prices `r` that meet a condition, as a JSON list. Includes archived prices and ad-hoc prices. The condition
 * must restrict the tenant.
 */
export const pricesJson = (condition: RawBuilder<unknown>): RawBuilder<unknown> => jsonList(pricesWhere(condition))

export const priceFromJson = rowFromJson<PriceRow>({ created_at: true, modified_at: true })

const parseLists = ({ prices, fields, benefits, medias, ...product }: ProductRow & JsonLists): LoadedProduct => ({
  product,
  prices: prices.map(priceFromJson),
  fields: fields.map(({ position, required, ...field }) => ({
    position,
    required,
    custom_field: fromJson<CustomField>(field as JsonRow<CustomField>, { created_at: true, modified_at: true }),
  })),
  benefits: benefits.map((benefit) => fromJson<BenefitTable>(benefit, { created_at: true, modified_at: true, deleted_at: true })),
  medias: medias.map((file) =>
    fromJson<FileRow>(file, { created_at: true, modified_at: true, deleted_at: true, last_modified_at: true, due_at: true, lease_until: true }),
  ),
})

/** A product with its lists, inside a JSON result. */
export type JsonProduct = JsonRow<ProductRow> & JsonLists

const productWith = (key: { readonly organization_id: string; readonly id: string }, selected: RawBuilder<unknown>): RawBuilder<unknown> => sql`(
  select to_json(w) from (select ${selected} from products p where p.organization_id = ${sql.ref(key.organization_id)} and p.id = ${sql.ref(key.id)}) w)`

/**
 * SQL for a product as JSON, including archived products. `key` names the columns of another table that reference the
 * product. The caller must restrict that table to the scope.
 */
export const productRowJson = (key: { readonly organization_id: string; readonly id: string }): RawBuilder<unknown> => productWith(key, productColumns)

/** The same with prices, custom fields, benefits and media. */
export const productJson = (key: { readonly organization_id: string; readonly id: string }): RawBuilder<unknown> => productWith(key, loadedColumns)

export const productRowFromJson = rowFromJson<ProductRow>({ created_at: true, modified_at: true })

export const productFromJson = ({ prices, fields, benefits, medias, ...product }: JsonProduct): LoadedProduct =>
  parseLists({ ...productRowFromJson(product), prices, fields, benefits, medias })

/** Selects products with all their lists in one statement. */
const selectProducts = async (db: Db, from: RawBuilder<unknown>): Promise<LoadedProduct[]> => {
  const { rows } = await sql<ProductRow & JsonLists>`select ${loadedColumns} from ${from}`.execute(db.q)
  return rows.map(parseLists)
}

/** Loads only the product rows, in the order of the keys, including archived ones. */
export const loadProductRows = async (db: Db, keys: readonly Key[]): Promise<ProductRow[]> => {
  if (keys.length === 0) return []
  const { rows } = await sql<ProductRow>`select ${productColumns} from ${wanted(keys)} order by k.place`.execute(db.q)
  return rows
}

/** Loads prices, including archived prices and ad-hoc prices of checkouts. */
export const loadPrices = async (db: Db, keys: readonly Key[]): Promise<PriceRow[]> => {
  if (keys.length === 0) return []
  const { tenants, ids } = sidesOf(keys)
  const { rows } = await sql<PriceRow>`${pricesWhere(sql`r.organization_id = any(${tenants}::uuid[]) and r.id = any(${ids}::uuid[])`)}`.execute(db.q)
  return rows
}

/** Locks the product. Serializes changes of its prices and fields. */
export const lockProduct = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<ProductRow> | undefined> =>
  (await tx.q.selectFrom('products').select(columns).where('organization_id', '=', inScope(scope)).where('id', '=', id).forUpdate().executeTakeFirst()) as
    | Locked<ProductRow>
    | undefined

export const insertProduct = (tx: Tx, product: Stored & { price_amount_type: string; price_amount: number }): Promise<ProductRow> =>
  tx.q
    .insertInto('products')
    .values({ ...product, metadata: json(product.metadata) })
    .returning(columns)
    .executeTakeFirstOrThrow()

/** Changes the product. Returns it with its lists, including changes that this transaction made to them before. */
export const changeProduct = async (
  tx: Tx,
  product: Locked<ProductRow>,
  changes: Partial<Stored> & { price_amount_type?: string; price_amount?: number },
): Promise<LoadedProduct> =>
  parseLists(
    await tx.q
      .updateTable('products as p')
      .set({ ...changes, ...(changes.metadata === undefined ? {} : { metadata: json(changes.metadata) }) })
      .where('organization_id', '=', product.organization_id)
      .where('id', '=', product.id)
      .returning([...columns, ...listColumns])
      .executeTakeFirstOrThrow(),
  )

/** Deletes the product. Fails with a foreign-key error if another row references it. */
export const deleteProductRow = async (tx: Tx, product: Locked<ProductRow>): Promise<void> => {
  await tx.q.deleteFrom('products').where('organization_id', '=', product.organization_id).where('id', '=', product.id).execute()
}

export type NewPrice = ProductPriceCreate & { id: string; position: number }

/** Builds the row of a price. With a `checkout_id` it is an ad-hoc price of that checkout, otherwise a catalog price. */
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

/** Inserts the prices. Returns them with their meters, in the order of their positions. */
export const insertPrices = async (tx: Tx, prices: readonly PriceTable[]): Promise<PriceRow[]> => {
  if (prices.length === 0) return []
  const { rows } = await sql<PriceRow>`
    with inserted as (insert into product_prices select * from jsonb_populate_recordset(null::product_prices, ${json(prices)}) returning *)
    select ${priceColumns} from inserted r left join meters m on m.organization_id = r.organization_id and m.id = r.meter_id
    order by r.position, r.id`.execute(tx.q)
  return rows
}

/** Returns the position for the next price of the product. Archived prices keep their positions. */
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
    .where('id', '=', oneOf(ids))
    .execute()
}

type AttachedField = { readonly custom_field_id: string; readonly required: boolean }

/** Attaches the fields to a product that has none, in the given order. */
export const insertFields = async (tx: Tx, product: { organization_id: string; id: string }, fields: readonly AttachedField[]): Promise<void> => {
  if (fields.length === 0) return
  await sql`
    insert into product_custom_fields (organization_id, product_id, custom_field_id, position, required)
    select ${product.organization_id}, ${product.id}, l.id, l.place - 1, l.required
    from unnest(${fields.map(({ custom_field_id }) => custom_field_id)}::uuid[], ${fields.map(({ required }) => required)}::boolean[])
      with ordinality l (id, required, place)`.execute(tx.q)
}

export const replaceFields = async (tx: Tx, product: Locked<ProductRow>, fields: readonly AttachedField[]): Promise<void> => {
  await tx.q.deleteFrom('product_custom_fields').where('organization_id', '=', product.organization_id).where('product_id', '=', product.id).execute()
  await insertFields(tx, product, fields)
}
