import { sql } from 'kysely'
import type { Address } from '@bursar/contract'
import type { TaxedSale, TaxReversal } from '../../../gateways/tax/tax.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'

/** Returns an order with the quote of the tax service that it used. Undefined if it used none. */
export const findTaxedSale = async (db: Db, organization_id: string, order_id: string): Promise<TaxedSale | undefined> => {
  const { rows } = await sql<Omit<TaxedSale, 'tax_id' | 'address'> & { address: Address | null; tax_id: TaxedSale['tax_id'] }>`
    select o.organization_id, q.service_quote_id as quote_id, o.id as order_id, o.currency, q.behavior, q.address, q.lines,
      case when q.tax_id is null then null else json_build_object('value', q.tax_id, 'format', q.tax_id_format) end as tax_id
    from orders o join tax_quotes q on q.organization_id = o.organization_id and q.id = o.tax_quote_id
    where o.organization_id = ${organization_id} and o.id = ${order_id}`.execute(db.q)
  return rows[0]
}

type Reversed = Pick<TaxReversal, 'amount' | 'tax_amount'> & { readonly order_id: string; readonly status: string }

/** Returns the order, status and amounts of a refund. */
export const findRefundFigures = async (db: Db, organization_id: string, id: string): Promise<Reversed | undefined> => {
  const { rows } = await sql<Reversed>`
    select order_id, status, amount, tax_amount from refunds where organization_id = ${organization_id} and id = ${id}`.execute(db.q)
  return rows[0]
}

/** Returns the order, status and amounts of a dispute. */
export const findDisputeFigures = async (db: Db, organization_id: string, id: string): Promise<Reversed | undefined> => {
  const { rows } = await sql<Reversed>`
    select order_id, status, amount, tax_amount from disputes where organization_id = ${organization_id} and id = ${id}`.execute(db.q)
  return rows[0]
}
