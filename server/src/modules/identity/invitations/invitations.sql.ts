import { window, type Invitation, type PageRequest } from '@bursar/contract'
import { sql } from 'kysely'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import type { Lease } from '../../../platform/jobs/leases.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    organization_invitations: Invitation & {
      invited_by: string | null
      due_at: Date | null
      clock_id: string | null
      lease_until: Date | null
      lease_token: string | null
      lease_holder: string | null
    }
  }
}

const columns = ['organization_id', 'id', 'created_at', 'modified_at', 'email', 'role', 'status', 'expires_at'] as const

const within = (db: Db, reach: Reach, organization_id: string) =>
  db.q
    .selectFrom('organization_invitations')
    .where('organization_id', '=', organization_id)
    .where('organization_id', '=', sql<string>`any(${organizationIds(reach)}::uuid[])`)

export const listInvitations = async (db: Db, reach: Reach, organization_id: string, query: PageRequest) => {
  const { size, offset } = window(query)
  const [items, count] = await Promise.all([
    within(db, reach, organization_id).select(columns).orderBy('created_at', 'desc').orderBy('id').limit(size).offset(offset).execute(),
    within(db, reach, organization_id)
      .select((all) => all.fn.countAll<number>().as('total'))
      .executeTakeFirstOrThrow(),
  ])
  return { items, total: count.total }
}

export const insertInvitation = (tx: Tx, invitation: Invitation & { invited_by: string | null }): Promise<Invitation> =>
  tx.q
    .insertInto('organization_invitations')
    .values({ ...invitation, due_at: invitation.expires_at, clock_id: null, lease_until: null, lease_token: null, lease_holder: null })
    .returning(columns)
    .executeTakeFirstOrThrow()

/** Holds a pending invitation, so that it is accepted, withdrawn or expired once. */
export const lockPending = async (tx: Tx, organization_id: string, id: string): Promise<Locked<Invitation> | undefined> =>
  (await tx.q
    .selectFrom('organization_invitations')
    .select(columns)
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .where('status', '=', 'pending')
    .forUpdate()
    .executeTakeFirst()) as Locked<Invitation> | undefined

export const readPending = (db: Db, organization_id: string, id: string) =>
  db.q
    .selectFrom('organization_invitations as i')
    .innerJoin('organizations as o', 'o.id', 'i.organization_id')
    .select(['i.organization_id', 'i.id', 'i.email', 'i.expires_at', 'i.role', 'o.name as organization_name'])
    .where('i.organization_id', '=', organization_id)
    .where('i.id', '=', id)
    .where('i.status', '=', 'pending')
    .executeTakeFirst()

/** Removes the invitation by address or by id; its secret goes with it, see `forgetSecret`. */
export const deletePending = (tx: Tx, reach: Reach, organization_id: string, by: { email: string } | { id: string }): Promise<{ id: string } | undefined> =>
  tx.q
    .deleteFrom('organization_invitations')
    .where('organization_id', '=', organization_id)
    .where('organization_id', '=', sql<string>`any(${organizationIds(reach)}::uuid[])`)
    .where('status', '=', 'pending')
    .where((row) => ('email' in by ? row(sql`lower(email)`, '=', by.email.toLowerCase()) : row('id', '=', by.id)))
    .returning('id')
    .executeTakeFirst()

export const markAccepted = async (tx: Tx, invitation: Locked<Invitation>, now: Date): Promise<void> => {
  await tx.q
    .updateTable('organization_invitations')
    .set({ status: 'accepted', modified_at: now, due_at: null })
    .where('organization_id', '=', invitation.organization_id)
    .where('id', '=', invitation.id)
    .execute()
}

export const markExpired = async (tx: Tx, lease: Lease, now: Date): Promise<void> => {
  await tx.q
    .updateTable('organization_invitations')
    .set({ status: 'expired', modified_at: now })
    .where('organization_id', '=', lease.organization_id)
    .where('id', '=', lease.id)
    .where('status', '=', 'pending')
    .execute()
}
