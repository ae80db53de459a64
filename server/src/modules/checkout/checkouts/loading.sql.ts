import type { CheckoutPaymentMethod, PageRequest } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, containing, inScope, isOneOf } from '../../../platform/postgres/parts.sql.ts'
import { markLocked } from '../../../platform/postgres/locks.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import {
  discountFromJson,
  discountJson,
  priceFromJson,
  pricesJson,
  productFromJson,
  productJson,
  type DiscountRow,
  type JsonDiscount,
  type JsonProduct,
  type LoadedProduct,
  type PriceRow,
} from '../../catalog/index.ts'
import type { JsonRow } from '../../../platform/postgres/json-rows.ts'
import { parseSeller, publishableKey, sellerColumn, type Seller } from '../records/sellers.sql.ts'
import { columns, type CheckoutRow } from './checkouts.sql.ts'

/** A checkout with all data needed to compute its amounts and to present it. */
export interface LoadedCheckout {
  readonly checkout: CheckoutRow
  /** The offered products in the order of the create request, with the prices that apply in this checkout. */
  readonly products: readonly LoadedProduct[]
  readonly discount: DiscountRow | null
  /** Publishable key for the payment form of the seller's processor. */
  readonly publishable_key: string | null
}

/** A loaded checkout with its seller, for its buyer. */
export interface Opened extends LoadedCheckout {
  readonly seller: Seller
  /** The saved payment methods of a customer whom the seller has named, the default first. Empty for all other buyers, and unless the seller offers them. */
  readonly saved: readonly CheckoutPaymentMethod[]
}

interface RelatedRows {
  readonly product_ids: readonly string[]
  /** The ad-hoc prices. After the confirmation also the catalog prices that the buyer confirmed. */
  readonly prices: readonly JsonRow<PriceRow>[]
  readonly discount: JsonDiscount | null
  readonly publishable_key: string | null
}

interface LoadedRow extends CheckoutRow {
  readonly related: RelatedRows
  /** In one row: the products of all rows of the statement, each once. In the other rows: null. */
  readonly offered: readonly JsonProduct[] | null
}

/**
 * The rows that belong to a checkout `c`, except its products. The confirmed prices apply even if they were changed or
 * archived since. A deleted discount still applies to a checkout that is already confirmed.
 */
const related = sql`json_build_object(
  'product_ids', array(select p.product_id from checkout_products p where p.organization_id = c.organization_id and p.checkout_id = c.id order by p.position),
  'prices', ${pricesJson(sql`r.organization_id = c.organization_id
    and (r.checkout_id = c.id or (r.id = any(c.price_ids) and r.source = 'catalog' and c.status not in ('open', 'expired')))`)},
  'discount', ${discountJson({ organization_id: 'c.organization_id', id: 'c.discount_id' }, sql`c.status in ('confirmed', 'succeeded')`)},
  'publishable_key', ${publishableKey('c.organization_id')}) as related`

/**
 * The saved payment methods of the buyer. A typed e-mail address does not prove who the buyer is, so only a customer whom
 * the seller has named sees them, and only if the seller `o` offers them. A renewed checkout was not created by the seller, so it has none.
 */
const savedColumn = sql`case when c.is_bound and c.renews is null and c.status = 'open' and (o.feature_settings ->> 'saved_payment_methods_enabled')::boolean then array_to_json(array(
  select json_build_object('id', m.id, 'type', m.type, 'brand', m.method_metadata ->> 'brand', 'last4', m.method_metadata ->> 'last4',
    'exp_month', (m.method_metadata ->> 'exp_month')::int, 'exp_year', (m.method_metadata ->> 'exp_year')::int)
  from payment_methods m join customers u on u.organization_id = m.organization_id and u.id = m.customer_id
  where m.organization_id = c.organization_id and m.customer_id = c.customer_id and m.deleted_at is null and m.processor_method_id is not null
  order by m.id = u.default_payment_method_id desc, m.created_at desc, m.id desc limit 5)) end as saved`

/** A row of a statement that selects `savedColumn`. */
interface SavedColumn {
  readonly saved: readonly CheckoutPaymentMethod[] | null
}

const row = sql.join(columns.map((column) => sql.ref(`c.${column}`)))

/** Selects checkouts `c` with everything that belongs to them in one statement. The checkouts of a page share their products. */
const select = async <More = unknown>(db: Db, from: RawBuilder<unknown>, more: readonly RawBuilder<unknown>[] = []): Promise<(LoadedRow & More)[]> => {
  const { rows } = await sql<LoadedRow & More>`
    with found as materialized (select ${sql.join([row, related, ...more])} from ${from})
    select found.*, case when row_number() over () = 1 then array_to_json(array(
      select ${productJson({ organization_id: 'k.organization_id', id: 'k.product_id' })}
      from (
        select distinct o.organization_id, o.product_id
        from found f join checkout_products o on o.organization_id = f.organization_id and o.checkout_id = f.id) k)) end as offered
    from found`.execute(db.q)
  return rows
}

const parseCheckouts = (rows: readonly LoadedRow[]): LoadedCheckout[] => {
  const products = new Map(rows.flatMap(({ offered }) => offered ?? []).map((product) => [product.id, productFromJson(product)]))
  return rows.map(({ offered: _, related: { product_ids, prices, discount, publishable_key }, ...checkout }) => ({
    checkout,
    products: withPrices(
      product_ids.flatMap((id) => products.get(id) ?? []),
      prices.map(priceFromJson),
    ),
    discount: discount && discountFromJson(discount),
    publishable_key,
  }))
}

/** Replaces the catalog prices of each product that has prices of its own in this checkout. */
export const withPrices = (products: readonly LoadedProduct[], prices: readonly PriceRow[]): LoadedProduct[] =>
  prices.length === 0
    ? [...products]
    : products.map((product) => {
        const own = prices.filter(({ product_id }) => product_id === product.product.id)
        return own.length > 0 ? { ...product, prices: own } : product
      })

const list = {
  table: 'checkouts',
  tenant: 'organization_id',
  id: 'id',
  counted: 'checkouts',
  sortable: {
    created_at: { expression: 'created_at', type: 'timestamptz' },
    expires_at: { expression: 'expires_at', type: 'timestamptz' },
    status: { expression: 'status', type: 'text' },
  },
} as const satisfies ListSpec<string>

export interface CheckoutFilters {
  readonly organization_id: readonly string[]
  readonly product_id: readonly string[]
  readonly customer_id: readonly string[]
  readonly external_customer_id: readonly string[]
  readonly status: readonly string[]
  readonly query?: string | undefined
}

export const listCheckouts = async (db: Db, scope: TenantScope, query: CheckoutFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters = [...anyOf('product_id', query.product_id), ...anyOf('customer_id', query.customer_id), ...anyOf('status', query.status, 'text')]
  if (query.external_customer_id.length > 0) {
    const { rows } = await sql<{ id: string }>`
      select id from customers where organization_id = ${inScope(scope)} and ${isOneOf('external_id', query.external_customer_id, 'text')}`.execute(db.q)
    const known = rows.map(({ id }) => id)
    filters.push(sql`(${isOneOf('external_customer_id', query.external_customer_id, 'text')} or ${isOneOf('customer_id', known)})`)
  }
  if (query.query) filters.push(sql`(customer_name ilike ${containing(query.query)} or customer_email ilike ${containing(query.query)})`)
  const ids = organizationIds(scope, query.organization_id)
  const { items, total, next_cursor } = await listRows(db, list, ids, query, filters, async (found) => {
    const rows = await select(db, sql`checkouts c where c.organization_id = ${inScope(scope)} and c.id = any(${found}::uuid[])`)
    return parseCheckouts(rows).map((loaded) => ({ id: loaded.checkout.id, loaded }))
  })
  return { items: items.map(({ loaded }) => loaded), total, next_cursor }
}

export const findCheckout = async (db: Db, scope: TenantScope, id: string): Promise<LoadedCheckout | undefined> =>
  parseCheckouts(await select(db, sql`checkouts c where c.organization_id = ${inScope(scope)} and c.id = ${id}`))[0]

type Key = Pick<CheckoutRow, 'organization_id' | 'id'>

export const loadCheckout = async (db: Db, { organization_id, id }: Key): Promise<LoadedCheckout> =>
  parseCheckouts(await select(db, sql`checkouts c where c.organization_id = ${organization_id} and c.id = ${id}`))[0]!

/** Loads the checkout and its seller. */
export const openCheckout = async (db: Db, { organization_id, id }: Key): Promise<Opened> => {
  const from = sql`checkouts c join organizations o on o.id = c.organization_id and o.deleted_at is null where c.organization_id = ${organization_id} and c.id = ${id}`
  const [found] = await select<{ seller: JsonRow<Seller> } & SavedColumn>(db, from, [sellerColumn, savedColumn])
  const { seller, saved, ...checkout } = found!
  return { ...parseCheckouts([checkout])[0]!, seller: parseSeller(seller), saved: saved ?? [] }
}

/** A client secret: the hashes under which it may be stored, and the wall time at which it is presented. */
export interface PresentedSecret {
  readonly hashes: readonly string[]
  readonly at: Date
}

/** The checkout of a client secret, if the secret has not expired and the seller is not deleted. */
export const ofSecret = ({ hashes, at }: PresentedSecret) => sql`
  credentials s join organizations o on o.id = s.organization_id and o.deleted_at is null
  join checkouts c on c.organization_id = s.organization_id and c.id = s.subject_id
  where s.hash = any(${hashes}::text[]) and s.kind = 'checkout' and (c.secret_until is null or c.secret_until > ${at})`

/** Finds the seller of the checkout with this client secret. */
export const findSellerBySecret = async (db: Db, secret: PresentedSecret): Promise<Seller | undefined> => {
  const { rows } = await sql<{ seller: JsonRow<Seller> }>`select ${sellerColumn} from ${ofSecret(secret)}`.execute(db.q)
  return rows[0] && parseSeller(rows[0].seller)
}

/** Locks the checkout with this client secret. Fails immediately if another transaction has locked it. */
export const lockCheckoutBySecret = async (tx: Tx, secret: PresentedSecret): Promise<{ checkout: Locked<CheckoutRow>; seller: Seller } | undefined> => {
  const { rows } = await sql<CheckoutRow & { seller: JsonRow<Seller> }>`
    select ${row}, ${sellerColumn} from ${ofSecret(secret)} for update of c nowait`.execute(tx.q)
  if (!rows[0]) return undefined
  const { seller, ...checkout } = rows[0]
  return { checkout: markLocked(checkout), seller: parseSeller(seller) }
}

interface BuyerView extends SavedColumn {
  readonly seller: JsonRow<Seller>
  /** The time of the customer's test clock, or null if the customer has none. */
  readonly test_time: Date | null
  /** The last payment of the checkout, or null if there is none. */
  readonly payment: LastPayment | null
}

/** The state of the last payment of a checkout. */
export interface LastPayment {
  readonly intent_status: string | null
  /** The type of the payment method, if the processor has reported it. */
  readonly method: string | null
  /** The processor's reason why the payment failed, or null if it did not fail. */
  readonly decline: string | null
}

/** Loads the checkout with this client secret for its buyer. Takes no lock, so that read handlers can call it. */
export const openCheckoutBySecret = async (
  db: Db,
  secret: PresentedSecret,
): Promise<{ opened: Opened; test_time: Date | null; payment: LastPayment | null } | undefined> => {
  const [found] = await select<BuyerView>(db, ofSecret(secret), [
    sellerColumn,
    savedColumn,
    sql`(select t.now_at from customers u join test_clocks t on t.organization_id = u.organization_id and t.id = u.clock_id
      where u.organization_id = c.organization_id and u.id = c.customer_id) as test_time`,
    sql`(select jsonb_build_object('intent_status', p.intent_status, 'method', p.method, 'decline', case when p.status = 'failed' then p.decline_message end)
      from payments p
      where p.organization_id = c.organization_id and p.checkout_id = c.id order by p.created_at desc, p.id desc limit 1) as payment`,
  ])
  if (!found) return undefined
  const { seller, saved, test_time, payment, ...checkout } = found
  return { opened: { ...parseCheckouts([checkout])[0]!, seller: parseSeller(seller), saved: saved ?? [] }, test_time, payment }
}
