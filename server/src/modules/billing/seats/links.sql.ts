import { sql } from 'kysely'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { SeatRow } from './seats.sql.ts'

/** What became of an invitation that cannot be accepted any more. */
export type InvitationEnd = 'claimed' | 'expired' | 'revoked'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    ended_invitations: { organization_id: string; seat_id: string; hash: string; ended: InvitationEnd; ended_at: Date }
  }
}

/** The link of a seat opens nothing from now on, and whoever has it can still be told why. */
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

/** Notes that a new invitation was asked for; false where it was so since that moment. The seat is held: one of two at once is the first. */
export const noteRequest = async (tx: Tx, { organization_id, id }: SeatRow, since: Date): Promise<boolean> => {
  const now = tx.clock.wall()
  const { numAffectedRows } = await sql`
    insert into mails (organization_id, kind, reference, moment, promised_at)
    select ${organization_id}, 'mail.seat_requested', ${id}, ${now}, ${now}
    where not exists (
      select from mails where organization_id = ${organization_id} and kind = 'mail.seat_requested' and reference = ${id} and moment > ${since})`.execute(tx.q)
  return (numAffectedRows ?? 0n) > 0n
}
