import type { Address, CheckoutStatus, CustomFieldData, Metadata, TaxBehavior, TaxIDFormat, TrialInterval } from '@bursar/contract'
import { sql } from 'kysely'
import type { z } from 'zod'
import type { TenantScope } from '../../../kernel/actors.ts'
import { firstIdAt, timeOf } from '../../../kernel/ids.ts'
import type { Hasher, Secret } from '../../../kernel/secrets.ts'
import { markLocked } from '../../../platform/postgres/locks.ts'
import { json, inScope } from '../../../platform/postgres/parts.sql.ts'
import type { BusinessTx, Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { RedemptionTable, TaxQuote, Totals, UpfrontLine } from '../../billing/index.ts'
import { insertCredential } from '../../identity/index.ts'

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
  customer_tax_id_status: 'valid' | 'unverified' | null
  customer_metadata: Metadata
  locale: string | null
  payment_method_type: string | null
  custom_field_data: CustomFieldData
  metadata: Metadata
  subscription_id: string | null
  success_url: string | null
  return_url: string | null
  embed_origin: string | null
  /** The totals that the buyer confirmed; null before the confirmation. */
  figures: Totals<AgreedLine> | null
  confirmed_with: string | null
  confirmed_at: Date | null
  payment_id: string | null
  is_bound: boolean
  knows_customer: boolean
  /** Time at which the client secret expires, by the wall clock. Null until the checkout has succeeded. */
  secret_until: Date | null
  /** The expired checkout that this one renews. */
  renews: string | null
}

/**
 * Time of the next sweep, and the clock by which that time is reached. An open checkout uses its customer's clock. A
 * checkout with a pending payment uses the wall clock.
 */
interface DueColumns {
  due_at: Date | null
  clock_id: string | null
}

/** A trial that a person has reserved or used. */
type TrialTable = Omit<RedemptionTable, 'discount_id' | 'subscription_id' | 'checkout_id'> & { checkout_id: string }

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    checkouts: CheckoutRow & DueColumns
    checkout_products: { organization_id: string; checkout_id: string; product_id: string; position: number }
    trial_redemptions: TrialTable
  }
}

/** The columns of `CheckoutRow`. */
export const columns = [
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
  'customer_tax_id_status',
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
  'secret_until',
  'renews',
] as const

/** Locks the checkout. If another transaction has locked it, fails immediately; with `wait`, waits for the lock. */
export const lockCheckout = async (tx: Tx, scope: TenantScope, id: string, { wait = false } = {}): Promise<Locked<CheckoutRow> | undefined> => {
  const found = tx.q.selectFrom('checkouts').select(columns).where('organization_id', '=', inScope(scope)).where('id', '=', id).forUpdate()
  return markLocked(await (wait ? found : found.noWait()).executeTakeFirst())
}

/** Locks the checkout that renews this one. Fails immediately if another transaction has locked it. */
export const lockSuccessor = async (tx: Tx, { organization_id, id }: CheckoutRow): Promise<Locked<CheckoutRow> | undefined> =>
  markLocked(
    await tx.q
      .selectFrom('checkouts')
      .select(columns)
      .where('organization_id', '=', organization_id)
      .where('renews', '=', id)
      .forUpdate()
      .noWait()
      .executeTakeFirst(),
  )

const written = <T extends Partial<CheckoutRow>>(row: T) => ({
  ...row,
  ...(row.figures === undefined ? {} : { figures: row.figures === null ? null : json(row.figures) }),
  ...(row.tax === undefined ? {} : { tax: row.tax === null ? null : json(row.tax) }),
  ...(row.metadata === undefined ? {} : { metadata: json(row.metadata) }),
  ...(row.customer_metadata === undefined ? {} : { customer_metadata: json(row.customer_metadata) }),
  ...(row.custom_field_data === undefined ? {} : { custom_field_data: json(row.custom_field_data) }),
  ...(row.customer_billing_address ? { customer_billing_address: json(row.customer_billing_address) } : {}),
})

/** Inserts the checkout, the products that it offers and its client secret, in one statement. */
export const insertCheckout = async (
  tx: Tx,
  hasher: Hasher,
  { checkout, clock_id, products, secret }: { checkout: CheckoutRow; clock_id: string | null; products: readonly string[]; secret: Secret },
): Promise<void> => {
  const { organization_id, id } = checkout
  await tx.q
    .with('secret', (q) => insertCredential(q, hasher, secret, { kind: 'checkout', subject_id: id, organization_id }))
    .with('made', (q) =>
      q
        .insertInto('checkouts')
        .values({ ...written(checkout), due_at: checkout.expires_at, clock_id })
        .returning(['organization_id', 'id']),
    )
    .insertInto('checkout_products')
    .columns(['organization_id', 'checkout_id', 'product_id', 'position'])
    .expression((q) =>
      q
        .selectFrom(['made', sql<{ id: string; place: number }>`unnest(${products}::uuid[]) with ordinality`.as<'o'>(sql`o (id, place)`)])
        .select(['made.organization_id', 'made.id', 'o.id as product_id', sql<number>`o.place - 1`.as('position')]),
    )
    .execute()
}

export const changeCheckout = async (
  tx: BusinessTx,
  checkout: Locked<CheckoutRow>,
  changes: Partial<CheckoutRow & DueColumns>,
): Promise<Locked<CheckoutRow>> => {
  await tx.q
    .updateTable('checkouts')
    .set({ ...written(changes), modified_at: tx.clock.business() })
    .where('organization_id', '=', checkout.organization_id)
    .where('id', '=', checkout.id)
    .execute()
  return { ...checkout, ...changes, modified_at: tx.clock.business() }
}

/**
 * Returns the wall time of the n-th last declined payment of a checkout since a given time. Returns undefined if fewer
 * than n were declined. The time is taken from the id, because `created_at` may be the time of a test clock. Canceled
 * attempts do not count.
 */
export const nthLastDecline = async (db: Db, { organization_id, id }: CheckoutRow, n: number, since: Date): Promise<Date | undefined> => {
  const found = await db.q
    .selectFrom('payments')
    .select('id')
    .where('organization_id', '=', organization_id)
    .where('checkout_id', '=', id)
    .where('status', '=', 'failed')
    .where('decline_reason', '<>', 'canceled')
    .where('id', '>=', firstIdAt(since))
    .orderBy('id', 'desc')
    .offset(n - 1)
    .limit(1)
    .executeTakeFirst()
  return found && timeOf(found.id)
}

/** Counts a person's redemptions of a discount, by customer, normalized email address or card. Fully refunded ones do not count. */
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

/** Releases the reserved trial and discount redemption of a checkout that was not paid. */
export const releaseUses = async (tx: Tx, { organization_id, id }: { organization_id: string; id: string }): Promise<void> => {
  await tx.q.deleteFrom('trial_redemptions').where('organization_id', '=', organization_id).where('checkout_id', '=', id).execute()
  await sql`
    with gone as (delete from discount_redemptions where organization_id = ${organization_id} and checkout_id = ${id} returning organization_id, discount_id)
    update discounts d set redemptions_count = redemptions_count - 1 from gone where d.organization_id = gone.organization_id and d.id = gone.discount_id`.execute(
    tx.q,
  )
}

/**
 * Takes advisory locks on the email address and the card of a person. Confirmations of one person then run one at a
 * time. Otherwise two confirmations could both pass the limit of a discount or trial.
 */
export const holdPerson = async (tx: Tx, organization_id: string, { email_key, card_key }: { email_key: string; card_key: string | null }): Promise<void> => {
  for (const key of [email_key, card_key].filter((one) => one !== null).toSorted((a, b) => (a < b ? -1 : 1)))
    await sql`select pg_advisory_xact_lock(hashtextextended(${`bursar.person.${organization_id}.${key}`}, 0))`.execute(tx.q)
}

/** Returns true if a customer on this test clock has a confirmed checkout that is not fulfilled yet. */
export const isConfirming = async (db: Db, clock: { organization_id: string; id: string }): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from customers p join checkouts c on c.organization_id = p.organization_id and c.customer_id = p.id
    where p.organization_id = ${clock.organization_id} and p.clock_id = ${clock.id} and c.status = 'confirmed' limit 1`.execute(db.q)
  return rows.length > 0
}

/** Returns true if this customer has another confirmed checkout that will create a subscription when it is paid. */
export const isSubscribing = async (tx: Tx, organization_id: string, customer_id: string, besides: string): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from checkouts c join products p on p.organization_id = c.organization_id and p.id = c.product_id
    where c.organization_id = ${organization_id} and c.customer_id = ${customer_id} and c.status = 'confirmed' and c.id <> ${besides} and p.recurring_interval is not null limit 1`.execute(
    tx.q,
  )
  return rows.length > 0
}

/**
 * Returns true if the last payment attempt of this checkout was for this customer, and nothing else uses the customer.
 * The customer's address must be unverified. An external id must equal the external id of the checkout. The customer
 * must have no order, subscription, seat, session, second member, other payment attempt or other checkout.
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
