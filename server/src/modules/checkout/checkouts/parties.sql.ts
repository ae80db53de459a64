import { sql } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { JsonRow } from '../../../platform/postgres/json-rows.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { discountFromJson, discountJson, type DiscountRow, type JsonDiscount } from '../../catalog/index.ts'
import { customerColumns, customerFromJson, exists, type CustomerRow } from '../../customers/index.ts'
import { parseSeller, publishableKey, sellerColumn, type Seller } from '../records/sellers.sql.ts'

/** The seller of a new checkout, and the customer and the discount that the create request names. */
export interface Parties {
  readonly seller: Seller
  /** Publishable key for the payment form of the seller's processor. */
  readonly publishable_key: string | null
  readonly customer: CustomerRow | null
  readonly discount: DiscountRow | null
}

export interface NamedParties {
  /** The customer's id, or else the external id that the seller gave it. */
  readonly customer: { readonly id: string } | { readonly external_id: string } | null
  readonly discount_id: string | null
}

/** Loads the parties of a new checkout in one statement. A customer or a discount that does not exist or is deleted is null. */
export const findParties = async (db: Db, scope: TenantScope, organization_id: string, { customer, discount_id }: NamedParties): Promise<Parties> => {
  const named = customer === null ? sql`false` : 'id' in customer ? sql`customers.id = ${customer.id}` : sql`customers.external_id = ${customer.external_id}`
  const { rows } = await sql<{
    seller: JsonRow<Seller>
    publishable_key: string | null
    customer: JsonRow<CustomerRow> | null
    discount: JsonDiscount | null
  }>`
    select ${sellerColumn}, ${publishableKey('o.id')} as publishable_key,
      (select to_json(w) from (
        select ${customerColumns(scope)} from customers where customers.organization_id = o.id and ${exists(scope)} and ${named} limit 1) w) as customer,
      ${discountJson({ organization_id: 'o.id', id: 'asked.discount_id' }, sql`false`)} as discount
    from organizations o cross join (select ${discount_id}::uuid as discount_id) asked
    where o.id = ${organization_id} and o.deleted_at is null`.execute(db.q)
  const found = rows[0]!
  return {
    seller: parseSeller(found.seller),
    publishable_key: found.publishable_key,
    customer: found.customer && customerFromJson(found.customer),
    discount: found.discount && discountFromJson(found.discount),
  }
}
