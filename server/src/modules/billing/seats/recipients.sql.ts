import { ExpressionWrapper, sql, type RawBuilder } from 'kysely'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { seatInsertion, type SeatRow } from './seats.sql.ts'

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

/** Numbers of distinct addresses that may be invited within the time window. */
export interface RecipientLimits {
  readonly organization: number
  readonly purchase: number
  /** The limit of a purchase that is not paid yet. */
  readonly unpaid: number
}

export interface NotedInvitation {
  /** False if the purchase has already invited the same address within the time window. */
  readonly is_new: boolean
  /** Number of earlier invitations to the address of the seat within the last hour, over all seats of the organization. */
  readonly invited: number
  /** Whether the purchase has a paid order with a positive total. A subscription in its trial counts as unpaid. */
  readonly is_paid: boolean
  /**
   * For each limit that a new address exceeds, the time of the invitation that must leave the time window first. Null
   * for a limit that is not exceeded.
   */
  readonly beyond: Readonly<Record<keyof RecipientLimits, Date | null>>
}

type Columns = Pick<NotedInvitation, 'is_new' | 'invited' | 'is_paid'> & { [K in keyof RecipientLimits as `beyond_${K}`]: Date | null }

interface Invitation {
  readonly recipient: Recipient
  readonly limits: RecipientLimits
  /** The beginnings of the time windows in which recipients and invitations are counted. */
  readonly since: { readonly recipients: Date; readonly invitations: Date }
}

/**
 * Records that a purchase invites an address, and that the invitation of a seat is mailed. Inserts the seat in the same
 * statement if it is new. Also returns the numbers that limit invitations. They count other addresses only, because a
 * statement does not see its own inserts. The caller rolls the records back if a limit is exceeded.
 */
export const noteInvitation = async (
  tx: Tx,
  seat: SeatRow,
  { recipient: { organization_id, purchase_id, address }, limits, since }: Invitation,
  is: 'new' | 'known',
): Promise<{ seat: SeatRow; noted: NotedInvitation }> => {
  const now = tx.clock.wall()
  const { id, email, subscription_id, order_id } = seat
  const ofPurchase = sql`organization_id = ${organization_id} and purchase_id = ${purchase_id}`
  // The new address is the latest one. The limit is exceeded if there are as many others.
  const beyond = (others: RawBuilder<unknown>, limit: number) => sql`(
    select invited_at from seat_recipients where ${others} and invited_at > ${since.recipients} order by invited_at desc offset ${limit - 1} limit 1)`
  const others = sql`${ofPurchase} and address <> ${address}`
  const orders = subscription_id === null ? sql`id = ${order_id}` : sql`subscription_id = ${subscription_id}`
  const [made, from] =
    is === 'new' ? [sql`made as (${new ExpressionWrapper(seatInsertion(tx, seat).toOperationNode())}), `, sql`made`] : [sql``, sql`(select) known`]
  const { rows } = await sql<SeatRow & Columns>`
    with ${made}noted as (
      insert into seat_recipients as r (organization_id, purchase_id, address, invited_at) values (${organization_id}, ${purchase_id}, ${address}, ${now})
      on conflict (organization_id, purchase_id, address) do update set invited_at = excluded.invited_at where r.invited_at <= ${since.recipients}
      returning r.address
    ), mailed as (
      insert into mails (organization_id, kind, reference, moment, promised_at) values (${organization_id}, 'mail.seat_invitation', ${id}, ${now}, ${now})
      on conflict do nothing
    )
    select *, exists (select from noted) as is_new, (
        select count(*) from seats s join mails m on m.organization_id = s.organization_id and m.kind = 'mail.seat_invitation' and m.reference = s.id
        where s.organization_id = ${organization_id} and lower(s.email) = ${email?.toLowerCase() ?? null} and m.moment > ${since.invitations}) as invited,
      exists (select from orders where organization_id = ${organization_id} and ${orders}
          and status in ('paid', 'partially_refunded', 'refunded') and total_amount > 0)
        and not exists (select from subscriptions where organization_id = ${organization_id} and id = ${subscription_id} and status = 'trialing') as is_paid,
      ${beyond(sql`organization_id = ${organization_id} and not (${ofPurchase} and address = ${address})`, limits.organization)} as beyond_organization,
      ${beyond(others, limits.purchase)} as beyond_purchase, ${beyond(others, limits.unpaid)} as beyond_unpaid
    from ${from}`.execute(tx.q)
  const { is_new, invited, is_paid, beyond_organization, beyond_purchase, beyond_unpaid, ...inserted } = rows[0]!
  const noted = { is_new, invited, is_paid, beyond: { organization: beyond_organization, purchase: beyond_purchase, unpaid: beyond_unpaid } }
  return { seat: is === 'new' ? inserted : seat, noted }
}

export const purgeRecipients = async (tx: Tx, before: Date): Promise<void> => {
  await tx.q.deleteFrom('seat_recipients').where('invited_at', '<=', before).execute()
}
