import { sql } from 'kysely'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { comingSeats, type PoolKey } from './pools.sql.ts'
import type { SeatRow } from './seats.sql.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    seat_recipients: { organization_id: string; purchase_id: string; address: string; invited_at: Date }
  }
}

export interface Recipient {
  readonly organization_id: string
  /** The subscription or order of the seats. */
  readonly purchase_id: string
  /** Keyed digest of the invited address. */
  readonly address: string
}

export interface NotedInvitation {
  /** False if the purchase has already invited the same address within the time window. */
  readonly is_new: boolean
  /** Number of earlier invitations to the address of the seat within the last hour, over all seats of the organization. */
  readonly invited: number
  /** The lowest number of seats in the scheduled changes of the purchase. Null if no change is scheduled. */
  readonly coming: number | null
}

/**
 * Records that a purchase invites an address, and that the invitation of a seat is mailed. Also returns the numbers that
 * limit invitations. The caller rolls the records back if a limit is exceeded.
 */
export const noteInvitation = async (
  tx: Tx,
  { organization_id, id, email, subscription_id }: SeatRow,
  { purchase_id, address }: Recipient,
  since: { readonly recipients: Date; readonly invitations: Date },
): Promise<NotedInvitation> => {
  const now = tx.clock.wall()
  const { rows } = await sql<NotedInvitation>`
    with noted as (
      insert into seat_recipients as r (organization_id, purchase_id, address, invited_at) values (${organization_id}, ${purchase_id}, ${address}, ${now})
      on conflict (organization_id, purchase_id, address) do update set invited_at = excluded.invited_at where r.invited_at <= ${since.recipients}
      returning r.address
    ), mailed as (
      insert into mails (organization_id, kind, reference, moment, promised_at) values (${organization_id}, 'mail.seat_invitation', ${id}, ${now}, ${now})
      on conflict do nothing
    )
    select exists (select from noted) as is_new, (
        select count(*) from seats s join mails m on m.organization_id = s.organization_id and m.kind = 'mail.seat_invitation' and m.reference = s.id
        where s.organization_id = ${organization_id} and lower(s.email) = ${email?.toLowerCase() ?? null} and m.moment > ${since.invitations}) as invited,
      ${comingSeats(sql`${organization_id}`, sql`${subscription_id}`)} as coming`.execute(tx.q)
  return rows[0]!
}

/**
 * Returns, for each limit that is exceeded, the time of the invitation that must leave the time window first. Null for
 * a limit that is not exceeded.
 */
export const beyondLimits = async (
  tx: Tx,
  { organization_id, purchase_id }: Recipient,
  limits: { readonly purchase: number; readonly organization: number },
  since: Date,
): Promise<{ purchase: Date | null; organization: Date | null }> => {
  const { rows } = await sql<{ purchase: Date | null; organization: Date | null }>`
    select
      (select invited_at from seat_recipients where organization_id = ${organization_id} and purchase_id = ${purchase_id} and invited_at > ${since}
        order by invited_at desc offset ${limits.purchase} limit 1) as purchase,
      (select invited_at from seat_recipients where organization_id = ${organization_id} and invited_at > ${since}
        order by invited_at desc offset ${limits.organization} limit 1) as organization`.execute(tx.q)
  return rows[0]!
}

/** Whether the purchase has a paid order with a positive total. A subscription in its trial counts as unpaid. */
export const isPaid = async (tx: Tx, { organization_id, subscription_id, order_id }: PoolKey): Promise<boolean> => {
  const own = subscription_id === null ? sql`id = ${order_id}` : sql`subscription_id = ${subscription_id}`
  const { rows } = await sql<{ paid: boolean }>`
    select exists (select from orders where organization_id = ${organization_id} and ${own}
        and status in ('paid', 'partially_refunded', 'refunded') and total_amount > 0)
      and not exists (select from subscriptions where organization_id = ${organization_id} and id = ${subscription_id} and status = 'trialing') as paid`.execute(
    tx.q,
  )
  return rows[0]!.paid
}

export const purgeRecipients = async (tx: Tx, before: Date): Promise<void> => {
  await tx.q.deleteFrom('seat_recipients').where('invited_at', '<=', before).execute()
}
