import type { OrganizationRole } from '@bursar/contract'
import { sql } from 'kysely'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

/** Returns the amounts of the open prorations of a subscription, which its next order will bill. */
export const waitingAmounts = async (db: Db, { organization_id, id }: { organization_id: string; id: string }): Promise<number[]> =>
  (
    await db.q
      .selectFrom('billing_entries')
      .select('amount')
      .where('organization_id', '=', organization_id)
      .where('subscription_id', '=', id)
      .where('order_id', 'is', null)
      .execute()
  ).map(({ amount }) => amount)

/** Returns the ids of the people of an organization who have one of the roles. */
export const findPeople = async (db: Db, organization_id: string, roles: readonly OrganizationRole[]): Promise<string[]> =>
  (
    await db.q
      .selectFrom('organization_members as m')
      .innerJoin('users as u', (on) => on.onRef('u.id', '=', 'm.user_id').on('u.deleted_at', 'is', null).on('u.blocked_at', 'is', null))
      .select('m.user_id')
      .where('m.organization_id', '=', organization_id)
      .where('m.role', 'in', [...roles])
      .orderBy('m.user_id')
      .execute()
  ).map(({ user_id }) => user_id)

/** Returns the address of a person who still belongs to the organization. */
export const findPerson = async (db: Db, organization_id: string, user_id: string): Promise<string | undefined> =>
  (
    await db.q
      .selectFrom('organization_members as m')
      .innerJoin('users as u', (on) => on.onRef('u.id', '=', 'm.user_id').on('u.deleted_at', 'is', null))
      .select('u.email')
      .where('m.organization_id', '=', organization_id)
      .where('m.user_id', '=', user_id)
      .executeTakeFirst()
  )?.email

/** A live subscription that renews and is paid with the method `m`: its own, or the customer's default. */
const paysFor = sql<boolean>`exists (
  select from subscriptions s join customers c on c.organization_id = s.organization_id and c.id = s.customer_id
  where s.organization_id = m.organization_id and s.customer_id = m.customer_id and s.status in ('active', 'trialing', 'past_due')
    and not s.cancel_at_period_end and c.deleted_at is null and coalesce(s.payment_method_id, c.default_payment_method_id) = m.id)`

/** Returns cards that expire in a month, pay for a subscription and were not announced yet. */
export const findExpiringCards = async (
  tx: Tx,
  { year, month, end }: { year: number; month: number; end: Date },
  most: number,
): Promise<{ organization_id: string; id: string }[]> =>
  (
    await sql<{ organization_id: string; id: string }>`
      select m.organization_id, m.id from payment_methods m
      where m.deleted_at is null and m.type = 'card' and m.method_metadata ->> 'exp_year' = ${String(year)} and m.method_metadata ->> 'exp_month' = ${String(month)}
        and ${paysFor}
        and not exists (select from mails p where p.organization_id = m.organization_id and p.kind = 'mail.card_expiring' and p.reference = m.id and p.moment = ${end})
      order by m.organization_id, m.id limit ${most}`.execute(tx.q)
  ).rows

/** Returns a card that still pays for a subscription. */
export const findCard = async (
  db: Db,
  organization_id: string,
  id: string,
): Promise<{ customer_id: string; brand: string; last4: string; month: number; year: number } | undefined> =>
  (
    await sql<{ customer_id: string; brand: string; last4: string; month: number; year: number }>`
      select m.customer_id, m.method_metadata ->> 'brand' as brand, m.method_metadata ->> 'last4' as last4,
        (m.method_metadata ->> 'exp_month')::int as month, (m.method_metadata ->> 'exp_year')::int as year
      from payment_methods m where m.organization_id = ${organization_id} and m.id = ${id} and m.deleted_at is null and ${paysFor}`.execute(db.q)
  ).rows[0]
