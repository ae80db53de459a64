import { sql } from 'kysely'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { SeatRow } from './seats.sql.ts'

/** Reason why an invitation can no longer be accepted. */
export type InvitationEnd = 'claimed' | 'expired' | 'revoked'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    ended_invitations: { organization_id: string; seat_id: string; hash: string; ended: InvitationEnd; ended_at: Date }
  }
}

/**
 * Invalidates the invitation link of a seat. Keeps the hash of the link with the reason, so that the claim page can
 * show the reason.
 */
export const endLink = async (tx: Tx, { organization_id, id }: Pick<SeatRow, 'organization_id' | 'id'>, ended: InvitationEnd): Promise<void> => {
  await sql`
    with gone as (delete from credentials where subject_id = ${id} and kind = 'seat_invitation' returning hash)
    insert into ended_invitations (organization_id, seat_id, hash, ended, ended_at)
    select ${organization_id}, ${id}, hash, ${ended}, ${tx.clock.wall()} from gone`.execute(tx.q)
}

export const findEndedLink = (db: Db, hashes: readonly string[]) =>
  db.q
    .selectFrom('ended_invitations')
    .select(['organization_id', 'seat_id', 'ended'])
    .where('hash', 'in', [...hashes])
    .executeTakeFirst()

export const purgeLinks = async (tx: Tx, before: Date): Promise<void> => {
  await tx.q.deleteFrom('ended_invitations').where('ended_at', '<', before).execute()
}

/**
 * Records a request for a new invitation. Returns false if a request was already recorded after `since`. The caller
 * must have locked the seat, so that concurrent calls record one request.
 */
export const noteRequest = async (tx: Tx, { organization_id, id }: SeatRow, since: Date): Promise<boolean> => {
  const now = tx.clock.wall()
  const { numAffectedRows } = await sql`
    insert into mails (organization_id, kind, reference, moment, promised_at)
    select ${organization_id}, 'mail.seat_requested', ${id}, ${now}, ${now}
    where not exists (
      select from mails where organization_id = ${organization_id} and kind = 'mail.seat_requested' and reference = ${id} and moment > ${since})`.execute(tx.q)
  return (numAffectedRows ?? 0n) > 0n
}
