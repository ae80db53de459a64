import type { Address, CheckoutStatus, CustomFieldData, Metadata, PageRequest, TaxBehavior, TaxIDFormat, TrialInterval } from '@bursar/contract'
import { sql } from 'kysely'
import type { z } from 'zod'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, containing, isOneOf, json, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { RedemptionTable, TaxQuote, Totals, UpfrontLine } from '../../billing/index.ts'

type AgreedLine = UpfrontLine & { readonly proration: boolean }

export interface CheckoutRow {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  status: CheckoutStatus
  secret_sealed: string
  expires_at: Date
  product_id: string
  currency: string
  /** The prices that the amounts were computed from. */
  price_ids: string[]
  chosen_amount: number | null
  seats: number | null
  min_seats: number | null
  max_seats: number | null
  amount: number
  discount_amount: number
  net_amount: number
  tax_amount: number | null
  tax_behavior: TaxBehavior | null
  tax: TaxQuote | null
  total_amount: number
  allow_trial: boolean | null
  trial_interval: z.output<typeof TrialInterval> | null
  trial_interval_count: number | null
  trial_end: Date | null
  discount_id: string | null
  allow_discount_codes: boolean
  require_billing_address: boolean
  is_business_customer: boolean
  customer_id: string | null
  external_customer_id: string | null
  customer_name: string | null
  customer_email: string | null
  customer_ip_address: string | null
  customer_billing_name: string | null
  customer_billing_address: Address | null
  customer_tax_id: string | null
  customer_tax_id_format: TaxIDFormat | null
  customer_metadata: Metadata
  locale: string | null
  payment_method_type: string | null
  custom_field_data: CustomFieldData
  metadata: Metadata
  subscription_id: string | null
  success_url: string | null
  return_url: string | null
  embed_origin: string | null
  /** What the buyer agreed to; null until they did. */
  figures: Totals<AgreedLine> | null
  confirmed_with: string | null
  confirmed_at: Date | null
  payment_id: string | null
  is_bound: boolean
  knows_customer: boolean
}

/** When somebody looks after it, and by which clock: that of its customer while it is open, the wall's while money is on its way. */
interface DueColumns {
  due_at: Date | null
  clock_id: string | null
}

/** One trial that somebody had. */
type TrialTable = Omit<RedemptionTable, 'discount_id' | 'subscription_id' | 'checkout_id'> & { checkout_id: string }

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    checkouts: CheckoutRow & DueColumns
    checkout_products: { organization_id: string; checkout_id: string; product_id: string; position: number }
    trial_redemptions: TrialTable
  }
}

const columns = [
  'organization_id',
  'id',
  'created_at',
  'modified_at',
  'status',
  'secret_sealed',
  'expires_at',
  'product_id',
  'currency',
  'price_ids',
  'chosen_amount',
  'seats',
  'min_seats',
  'max_seats',
  'amount',
  'discount_amount',
  'net_amount',
  'tax_amount',
  'tax_behavior',
  'tax',
  'total_amount',
  'allow_trial',
  'trial_interval',
  'trial_interval_count',
  'trial_end',
  'discount_id',
  'allow_discount_codes',
  'require_billing_address',
  'is_business_customer',
  'customer_id',
  'external_customer_id',
  'customer_name',
  'customer_email',
  'customer_ip_address',
  'customer_billing_name',
  'customer_billing_address',
  'customer_tax_id',
  'customer_tax_id_format',
  'customer_metadata',
  'locale',
  'payment_method_type',
  'custom_field_data',
  'metadata',
  'subscription_id',
  'success_url',
  'return_url',
  'embed_origin',
  'figures',
  'confirmed_with',
  'confirmed_at',
  'payment_id',
  'is_bound',
  'knows_customer',
] as const

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

export const listCheckouts = async (db: Db, reach: Reach, query: CheckoutFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters = [...anyOf('product_id', query.product_id), ...anyOf('customer_id', query.customer_id), ...anyOf('status', query.status, 'text')]
  if (query.external_customer_id.length > 0) {
    const { rows } = await sql<{ id: string }>`
      select id from customers where organization_id = ${withinReach(reach)} and ${isOneOf('external_id', query.external_customer_id, 'text')}`.execute(db.q)
    const known = rows.map(({ id }) => id)
    filters.push(sql`(${isOneOf('external_customer_id', query.external_customer_id, 'text')} or ${isOneOf('customer_id', known)})`)
  }
  if (query.query) filters.push(sql`(customer_name ilike ${containing(query.query)} or customer_email ilike ${containing(query.query)})`)
  const ids = organizationIds(reach, query.organization_id)
  return listRows(db, list, ids, query, filters, async (found) =>
    db.q.selectFrom('checkouts').select(columns).where('organization_id', '=', withinReach(reach)).where('id', 'in', found).execute(),
  )
}

export const findCheckout = (db: Db, reach: Reach, id: string): Promise<CheckoutRow | undefined> =>
  db.q.selectFrom('checkouts').select(columns).where('organization_id', '=', withinReach(reach)).where('id', '=', id).executeTakeFirst()

/** Holds the checkout, or fails at once where somebody else does: a buyer who clicks twice is told, not queued. */
export const lockCheckout = async (tx: Tx, reach: Reach, id: string, { wait = false } = {}): Promise<Locked<CheckoutRow> | undefined> => {
  const found = tx.q.selectFrom('checkouts').select(columns).where('organization_id', '=', withinReach(reach)).where('id', '=', id).forUpdate()
  return (await (wait ? found : found.noWait()).executeTakeFirst()) as Locked<CheckoutRow> | undefined
}

const written = <T extends Partial<CheckoutRow>>(row: T) => ({
  ...row,
  ...(row.figures === undefined ? {} : { figures: row.figures === null ? null : json(row.figures) }),
  ...(row.tax === undefined ? {} : { tax: row.tax === null ? null : json(row.tax) }),
  ...(row.metadata === undefined ? {} : { metadata: json(row.metadata) }),
  ...(row.customer_metadata === undefined ? {} : { customer_metadata: json(row.customer_metadata) }),
  ...(row.custom_field_data === undefined ? {} : { custom_field_data: json(row.custom_field_data) }),
  ...(row.customer_billing_address ? { customer_billing_address: json(row.customer_billing_address) } : {}),
})

export const insertCheckout = async (tx: Tx, row: CheckoutRow, clock_id: string | null, products: readonly string[]): Promise<void> => {
  await tx.q
    .insertInto('checkouts')
    .values({ ...written(row), due_at: row.expires_at, clock_id })
    .execute()
  await tx.q
    .insertInto('checkout_products')
    .values(products.map((product_id, position) => ({ organization_id: row.organization_id, checkout_id: row.id, product_id, position })))
    .execute()
}

export const changeCheckout = async (tx: Tx, checkout: Locked<CheckoutRow>, changes: Partial<CheckoutRow & DueColumns>): Promise<Locked<CheckoutRow>> => {
  await tx.q
    .updateTable('checkouts')
    .set({ ...written(changes), modified_at: tx.clock.business() })
    .where('organization_id', '=', checkout.organization_id)
    .where('id', '=', checkout.id)
    .execute()
  return { ...checkout, ...changes, modified_at: tx.clock.business() }
}

/** The products of many checkouts, in the order they were named. */
export const productsOf = async (db: Db, checkouts: readonly CheckoutRow[]): Promise<{ checkout_id: string; organization_id: string; product_id: string }[]> =>
  checkouts.length === 0
    ? []
    : db.q
        .selectFrom('checkout_products')
        .select(['checkout_id', 'organization_id', 'product_id'])
        .where('organization_id', 'in', [...new Set(checkouts.map(({ organization_id }) => organization_id))])
        .where(
          'checkout_id',
          'in',
          checkouts.map(({ id }) => id),
        )
        .orderBy('position')
        .execute()

/** Why the last attempt to pay it failed, in the processor's words; null where it did not. */
export const lastDecline = async (db: Db, { organization_id, id }: { organization_id: string; id: string }): Promise<string | null> => {
  const last = await db.q
    .selectFrom('payments')
    .select(['status', 'decline_message'])
    .where('organization_id', '=', organization_id)
    .where('checkout_id', '=', id)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
  return last?.status === 'failed' ? last.decline_message : null
}

/** How often a person has used a discount: by account, by address however it is spelled, or by card. Fully refunded uses do not count. */
export const usesOf = async (
  tx: Tx,
  { organization_id, discount_id }: { organization_id: string; discount_id: string },
  person: { customer_id: string; email_key: string; card_key: string | null },
): Promise<number> => {
  const { rows } = await sql<{ uses: number }>`
    select count(*) as uses from discount_redemptions r
    where organization_id = ${organization_id} and discount_id = ${discount_id}
      and (customer_id = ${person.customer_id} or email_key = ${person.email_key} or (card_key is not null and card_key = ${person.card_key}))
      and not exists (select from orders o where o.organization_id = r.organization_id and o.checkout_id = r.checkout_id and o.status = 'refunded')`.execute(
    tx.q,
  )
  return rows[0]!.uses
}

/** Gives back what was reserved: the checkout was not paid. */
export const releaseUses = async (tx: Tx, { organization_id, id }: { organization_id: string; id: string }): Promise<void> => {
  await tx.q.deleteFrom('trial_redemptions').where('organization_id', '=', organization_id).where('checkout_id', '=', id).execute()
  await sql`
    with gone as (delete from discount_redemptions where organization_id = ${organization_id} and checkout_id = ${id} returning organization_id, discount_id)
    update discounts d set redemptions_count = redemptions_count - 1 from gone where d.organization_id = gone.organization_id and d.id = gone.discount_id`.execute(
    tx.q,
  )
}

/** Lets one confirmation of a person, or with a card, go at a time: what one of them uses up, the next one finds used. */
export const holdPerson = async (tx: Tx, organization_id: string, { email_key, card_key }: { email_key: string; card_key: string | null }): Promise<void> => {
  for (const key of [email_key, card_key].filter((one) => one !== null).toSorted((a, b) => (a < b ? -1 : 1)))
    await sql`select pg_advisory_xact_lock(hashtextextended(${`bursar.person.${organization_id}.${key}`}, 0))`.execute(tx.q)
}

/** Whether anybody who lives by this clock has confirmed a purchase and does not have it yet. */
export const isConfirming = async (db: Db, clock: { organization_id: string; id: string }): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from customers p join checkouts c on c.organization_id = p.organization_id and c.customer_id = p.id
    where p.organization_id = ${clock.organization_id} and p.clock_id = ${clock.id} and c.status = 'confirmed' limit 1`.execute(db.q)
  return rows.length > 0
}

/** Whether this customer is about to get a subscription by another checkout. */
export const isSubscribing = async (tx: Tx, organization_id: string, customer_id: string, besides: string): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from checkouts c join products p on p.organization_id = c.organization_id and p.id = c.product_id
    where c.organization_id = ${organization_id} and c.customer_id = ${customer_id} and c.status = 'confirmed' and c.id <> ${besides} and p.recurring_interval is not null limit 1`.execute(
    tx.q,
  )
  return rows.length > 0
}

/**
 * Whether the last attempt to pay this checkout was this customer's, and nothing else is known of them: nobody has proved
 * to own the address, and no order, attempt, subscription, seat, session, colleague or other checkout is theirs.
 */
export const isOnlyHere = async (tx: Tx, { organization_id, id }: { organization_id: string; id: string }, customer_id: string): Promise<boolean> => {
  const { rows } = await sql`
    select 1 where ${customer_id} = (select customer_id from payments where organization_id = ${organization_id} and checkout_id = ${id} order by created_at desc, id desc limit 1)
      and not exists (select 1 from payments where organization_id = ${organization_id} and customer_id = ${customer_id} and checkout_id is distinct from ${id})
      and not exists (select 1 from checkouts where organization_id = ${organization_id} and customer_id = ${customer_id} and id <> ${id})
      and not exists (select 1 from orders where organization_id = ${organization_id} and customer_id = ${customer_id})
      and not exists (select 1 from subscriptions where organization_id = ${organization_id} and customer_id = ${customer_id})
      and not exists (select 1 from seats where organization_id = ${organization_id} and (holder_customer_id = ${customer_id} or buyer_customer_id = ${customer_id}))
      and not exists (select 1 from customer_sessions where organization_id = ${organization_id} and customer_id = ${customer_id})
      and not exists (select 1 from members where organization_id = ${organization_id} and customer_id = ${customer_id} and (role <> 'owner' or modified_at is not null))
      and exists (
        select 1 from customers u join checkouts k on k.organization_id = u.organization_id and k.id = ${id}
        where u.organization_id = ${organization_id} and u.id = ${customer_id} and not u.email_verified and u.external_id is not distinct from k.external_customer_id)`.execute(
    tx.q,
  )
  return rows.length > 0
}

export const hadTrial = async (
  tx: Tx,
  organization_id: string,
  person: { customer_id: string; email_key: string; card_key: string | null },
): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from trial_redemptions where organization_id = ${organization_id}
      and (customer_id = ${person.customer_id} or email_key = ${person.email_key} or (card_key is not null and card_key = ${person.card_key})) limit 1`.execute(
    tx.q,
  )
  return rows.length > 0
}

export const insertTrial = async (tx: Tx, row: TrialTable): Promise<void> => {
  await tx.q.insertInto('trial_redemptions').values(row).execute()
}
