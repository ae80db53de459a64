import type { PageRequest } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, containing, inScope, isOneOf } from '../../../platform/postgres/parts.sql.ts'
import { markLocked } from '../../../platform/postgres/locks.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { loadProducts, type DiscountRow, type LoadedProduct, type PriceRow } from '../../catalog/index.ts'
import { fromJson, type JsonRow } from '../../../platform/postgres/json-rows.ts'
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

/** A loaded checkout with its seller. */
export interface Opened extends LoadedCheckout {
  readonly seller: Seller
}

type DiscountTerms = Omit<DiscountRow, 'products'>
type DiscountProduct = DiscountRow['products'][number]

interface RelatedRows {
  readonly product_ids: readonly string[]
  /** The ad-hoc prices. After the confirmation also the catalog prices that the buyer confirmed. */
  readonly prices: readonly JsonRow<PriceRow>[]
  readonly discount: (JsonRow<DiscountTerms> & { readonly products: readonly JsonRow<DiscountProduct>[] }) | null
  readonly publishable_key: string | null
}

/**
 * The rows that belong to a checkout `c`. The confirmed prices apply even if they were changed or archived since. A
 * deleted discount still applies to a checkout that is already confirmed.
 */
const related = sql<{ related: RelatedRows }>`json_build_object(
  'product_ids', array(select p.product_id from checkout_products p where p.organization_id = c.organization_id and p.checkout_id = c.id order by p.position),
  'prices', array(
    select to_json(l) from (
      select r.*, case when m.id is null then null else json_build_object(
        'id', m.id, 'name', m.name, 'unit', m.unit, 'custom_label', m.custom_label, 'custom_multiplier', m.custom_multiplier) end as meter
      from product_prices r left join meters m on m.organization_id = r.organization_id and m.id = r.meter_id
      where r.organization_id = c.organization_id
        and (r.checkout_id = c.id or (r.id = any(c.price_ids) and r.source = 'catalog' and c.status not in ('open', 'expired')))) l
    order by l.position, l.id),
  'discount', (
    select to_json(l) from (
      select d.*, array(
        select json_build_object(
          'id', p.id, 'organization_id', p.organization_id, 'created_at', p.created_at, 'modified_at', p.modified_at, 'name', p.name,
          'description', p.description, 'visibility', p.visibility, 'recurring_interval', p.recurring_interval,
          'recurring_interval_count', p.recurring_interval_count, 'trial_interval', p.trial_interval, 'trial_interval_count', p.trial_interval_count,
          'meter_interval', p.meter_interval, 'meter_interval_count', p.meter_interval_count, 'is_archived', p.is_archived,
          'is_recurring', p.recurring_interval is not null, 'metadata', p.metadata)
        from discount_products b join products p on p.organization_id = b.organization_id and p.id = b.product_id
        where b.organization_id = d.organization_id and b.discount_id = d.id order by b.position) as products
      from discounts d where d.organization_id = c.organization_id and d.id = c.discount_id
        and (d.deleted_at is null or c.status in ('confirmed', 'succeeded'))) l),
  'publishable_key', ${publishableKey('c.organization_id')}) as related`

const row = sql.join(columns.map((column) => sql.ref(`c.${column}`)))

const select = async <More>(db: Db, more: RawBuilder<More>, from: RawBuilder<unknown>): Promise<(CheckoutRow & More)[]> => {
  const { rows } = await sql<CheckoutRow & More>`select ${row}, ${more} from ${from}`.execute(db.q)
  return rows
}

/** Loads the products of all found checkouts with one more statement. Checkouts share the loaded products. */
const withProducts = async (db: Db, found: readonly (CheckoutRow & { related: RelatedRows })[]): Promise<LoadedCheckout[]> => {
  const keys = new Map(found.flatMap(({ organization_id, related: { product_ids } }) => product_ids.map((id) => [id, { tenant: organization_id, id }])))
  const loaded = new Map((await loadProducts(db, [...keys.values()])).map((one) => [one.product.id, one]))
  return found.map(({ related: { product_ids, prices, discount, publishable_key }, ...checkout }) => ({
    checkout,
    products: withPrices(
      product_ids.flatMap((id) => loaded.get(id) ?? []),
      prices.map((price) => fromJson<PriceRow>(price, { created_at: true, modified_at: true })),
    ),
    discount: discount && parseDiscount(discount),
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

const parseDiscount = ({ products, ...terms }: NonNullable<RelatedRows['discount']>): DiscountRow => ({
  ...fromJson<DiscountTerms>(terms, { created_at: true, modified_at: true, deleted_at: true, starts_at: true, ends_at: true }),
  products: products.map((product) => fromJson<DiscountProduct>(product, { created_at: true, modified_at: true })),
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
  const { items, total, next_cursor } = await listRows(db, list, ids, query, filters, (found) =>
    select(db, related, sql`checkouts c where c.organization_id = ${inScope(scope)} and c.id = any(${found}::uuid[])`),
  )
  return { items: await withProducts(db, items), total, next_cursor }
}

export const findCheckout = async (db: Db, scope: TenantScope, id: string): Promise<LoadedCheckout | undefined> =>
  (await withProducts(db, await select(db, related, sql`checkouts c where c.organization_id = ${inScope(scope)} and c.id = ${id}`)))[0]

type Key = Pick<CheckoutRow, 'organization_id' | 'id'>

export const loadCheckout = async (db: Db, { organization_id, id }: Key): Promise<LoadedCheckout> =>
  (await withProducts(db, await select(db, related, sql`checkouts c where c.organization_id = ${organization_id} and c.id = ${id}`)))[0]!

/** Loads the checkout and its seller. */
export const openCheckout = async (db: Db, { organization_id, id }: Key): Promise<Opened> => {
  const from = sql`checkouts c join organizations o on o.id = c.organization_id and o.deleted_at is null where c.organization_id = ${organization_id} and c.id = ${id}`
  const [found] = await select(db, sql<{ seller: JsonRow<Seller>; related: RelatedRows }>`${sellerColumn}, ${related}`, from)
  const { seller, ...checkout } = found!
  return { ...(await withProducts(db, [checkout]))[0]!, seller: parseSeller(seller) }
}

/** A client secret: the hashes under which it may be stored, and the wall time at which it is presented. */
export interface PresentedSecret {
  readonly hashes: readonly string[]
  readonly at: Date
}

/** The checkout of a client secret, if the secret has not expired and the seller is not deleted. */
const ofSecret = ({ hashes, at }: PresentedSecret) => sql`
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
  const [found] = await select(tx, sql<{ seller: JsonRow<Seller> }>`${sellerColumn}`, sql`${ofSecret(secret)} for update of c nowait`)
  if (!found) return undefined
  const { seller, ...checkout } = found
  return { checkout: markLocked(checkout), seller: parseSeller(seller) }
}

interface BuyerView {
  readonly seller: JsonRow<Seller>
  /** The time of the customer's test clock, or null if the customer has none. */
  readonly test_time: Date | null
  /** The processor's reason why the last payment failed, or null if that payment did not fail. */
  readonly decline: string | null
  readonly related: RelatedRows
}

/** Loads the checkout with this client secret for its buyer. Takes no lock, so that read handlers can call it. */
export const openCheckoutBySecret = async (
  db: Db,
  secret: PresentedSecret,
): Promise<{ opened: Opened; test_time: Date | null; decline: string | null } | undefined> => {
  const columnsForBuyer = sql<BuyerView>`${sellerColumn},
    (select t.now_at from customers u join test_clocks t on t.organization_id = u.organization_id and t.id = u.clock_id
     where u.organization_id = c.organization_id and u.id = c.customer_id) as test_time,
    (select case when p.status = 'failed' then p.decline_message end from payments p
     where p.organization_id = c.organization_id and p.checkout_id = c.id order by p.created_at desc, p.id desc limit 1) as decline,
    ${related}`
  const [found] = await select(db, columnsForBuyer, ofSecret(secret))
  if (!found) return undefined
  const { seller, test_time, decline, ...checkout } = found
  return { opened: { ...(await withProducts(db, [checkout]))[0]!, seller: parseSeller(seller) }, test_time, decline }
}
