import { sql, type RawBuilder } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import {
  productFromJson,
  productJson,
  productRowFromJson,
  productRowJson,
  type DiscountTable,
  type JsonProduct,
  type LoadedProduct,
  type PriceRow,
  type ProductRow,
} from '../../catalog/index.ts'
import { customerJson, type CustomerRow } from '../../customers/index.ts'
import type { OrganizationRow } from '../../organizations/index.ts'
import { fromJson, type JsonRow } from '../../../platform/postgres/json-rows.ts'

/**
 * SQL for rows that an order or a subscription references, as JSON, and the functions that parse them. `table` is the
 * alias of the referencing table. The caller must restrict that table to the scope, so that the related rows are in scope
 * too.
 */
const column = (table: string, name: string) => sql.ref(`${table}.${name}`)

/**
 * SQL for a related row in the first of all rows that reference it, and null in the others. A page of rows with the same
 * product or seller then selects and transfers it once.
 */
const once = (table: string, key: readonly string[], related: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`case when row_number() over (partition by ${sql.join(key.map((name) => column(table, name)))}) = 1 then ${related} end`

/** SQL for the customer of a row. Includes deleted customers, because an order or a subscription outlives them. */
export const customerOf = (scope: TenantScope, table: string): RawBuilder<unknown> =>
  customerJson(scope, { organization_id: `${table}.organization_id`, id: `${table}.customer_id` })

export const readCustomer = (row: JsonRow<CustomerRow>): CustomerRow =>
  fromJson<CustomerRow>(row, { created_at: true, modified_at: true, deleted_at: true, first_user_event_at: true, forgotten_at: true })

/** SQL for the discount of a row. Includes deleted discounts. Null if the row has none. */
export const discountOf = (table: string): RawBuilder<unknown> =>
  sql`(select to_json(d) from discounts d where d.organization_id = ${column(table, 'organization_id')} and d.id = ${column(table, 'discount_id')})`

export const readDiscount = (row: JsonRow<DiscountTable> | null): DiscountTable | null =>
  row && fromJson<DiscountTable>(row, { created_at: true, modified_at: true, deleted_at: true, starts_at: true, ends_at: true })

/** SQL for the organization of a row, once per organization. Null if the organization is deleted. */
export const sellerOf = (table: string): RawBuilder<unknown> =>
  once(table, ['organization_id'], sql`(select to_json(n) from organizations n where n.id = ${column(table, 'organization_id')} and n.deleted_at is null)`)

/** Returns the sellers of all rows, by id. */
export const readSellers = (rows: readonly { readonly seller: JsonRow<OrganizationRow> | null }[]): ReadonlyMap<string, OrganizationRow> =>
  new Map(rows.flatMap(({ seller }) => (seller ? [[seller.id, readSeller(seller)]] : [])))

const readSeller = (row: JsonRow<OrganizationRow>): OrganizationRow =>
  fromJson<OrganizationRow>(row, {
    created_at: true,
    modified_at: true,
    deleted_at: true,
    status_changed_at: true,
    details_submitted_at: true,
    onboarding_resubmission_requested_at: true,
  })

const productKey = (table: string) => ({ organization_id: `${table}.organization_id`, id: `${table}.product_id` })

/** SQL for the product of a row without its lists. Includes archived products. Null if the row has none. */
export const productRowOf = (table: string): RawBuilder<unknown> => productRowJson(productKey(table))

export const readProductRow = (row: JsonRow<ProductRow> | null): ProductRow | null => row && productRowFromJson(row)

/** SQL for the product of a row with its catalog prices, custom fields, benefits and media, once per product. */
export const productOf = (table: string): RawBuilder<unknown> => once(table, ['organization_id', 'product_id'], productJson(productKey(table)))

/** A price with its whole meter, inside a JSON result. */
export interface JsonPrice {
  readonly price: JsonRow<Omit<PriceRow, 'meter'>>
  readonly meter: { readonly [K in keyof NonNullable<PriceRow['meter']>]: NonNullable<PriceRow['meter']>[K] } | null
}

export const readPrice = ({ price, meter }: JsonPrice): PriceRow => ({
  ...fromJson<Omit<PriceRow, 'meter'>>(price, { created_at: true, modified_at: true }),
  meter: meter && { id: meter.id, name: meter.name, unit: meter.unit, custom_label: meter.custom_label, custom_multiplier: meter.custom_multiplier },
})

/** Returns the products of all rows, by id. */
export const readProducts = (rows: readonly { readonly product: JsonProduct | null }[]): ReadonlyMap<string, LoadedProduct> =>
  new Map(rows.flatMap(({ product }) => (product ? [[product.id, productFromJson(product)]] : [])))
