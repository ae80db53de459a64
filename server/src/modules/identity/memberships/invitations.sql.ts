import type { Invitation, PageRequest } from '@bursar/contract'
import { sql } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Lease } from '../../../platform/jobs/leases.sql.ts'
import { lockRow } from '../../../platform/postgres/locks.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { inScope, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { permissions } from '../../organizations/index.ts'

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

const within = (db: Db, scope: TenantScope, organization_id: string) =>
  db.q.selectFrom('organization_invitations').where('organization_id', '=', organization_id).where('organization_id', '=', inScope(scope))

const list = {
  table: 'organization_invitations',
  tenant: 'organization_id',
  id: 'id',
  sortable: { created_at: { expression: 'created_at', type: 'timestamptz' } },
} as const satisfies ListSpec<string>

export const listInvitations = async (db: Db, scope: TenantScope, organization_id: string, query: PageRequest) => {
  return listRows(db, list, [organization_id], { ...query, sorting: ['-created_at'] }, [], (found) =>
    within(db, scope, organization_id).select(columns).where('id', '=', oneOf(found)).execute(),
  )
}

/** Creates an invitation, or renews the pending one of the same address. */
export const replaceInvitation = (tx: Tx, invitation: Invitation & { invited_by: string | null }): Promise<Invitation> => {
  const lease = { due_at: invitation.expires_at, lease_until: null, lease_token: null, lease_holder: null }
  const { role, created_at, expires_at, invited_by } = invitation
  return tx.q
    .insertInto('organization_invitations')
    .values({ ...invitation, ...lease, clock_id: null })
    .onConflict((twin) =>
      twin
        .expression(sql`organization_id, lower(email)`)
        // A literal, because the index of a prepared statement must not depend on a parameter.
        .where(sql<boolean>`status = 'pending'`)
        .doUpdateSet({ role, expires_at, invited_by, modified_at: created_at, ...lease }),
    )
    .returning(columns)
    .executeTakeFirstOrThrow()
}

/** Locks a pending invitation, so that it is accepted, withdrawn or expired only once. */
export const lockPending = async (tx: Tx, organization_id: string, id: string): Promise<Locked<Invitation> | undefined> =>
  await lockRow(
    tx.q
      .selectFrom('organization_invitations')
      .select(columns)
      .where('organization_id', '=', organization_id)
      .where('id', '=', id)
      .where('status', '=', 'pending'),
    'update',
  )

export const readPending = (db: Db, organization_id: string, id: string) =>
  db.q
    .selectFrom('organization_invitations as i')
    .innerJoin('organizations as o', 'o.id', 'i.organization_id')
    .leftJoin('users as u', (on) => on.onRef('u.id', '=', 'i.invited_by').on('u.deleted_at', 'is', null))
    .select(['i.organization_id', 'i.id', 'i.email', 'i.expires_at', 'i.role', 'o.name as organization_name', 'o.country', 'u.email as invited_by'])
    .where('i.organization_id', '=', organization_id)
    .where('i.id', '=', id)
    .where('i.status', '=', 'pending')
    .executeTakeFirst()

export const deletePending = (tx: Tx, scope: TenantScope, organization_id: string, id: string): Promise<{ id: string } | undefined> =>
  tx.q
    .deleteFrom('organization_invitations')
    .where('organization_id', '=', organization_id)
    .where('organization_id', '=', inScope(scope))
    .where('status', '=', 'pending')
    .where('id', '=', id)
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

export const isMember = async (db: Db, organization_id: string, email: string): Promise<boolean> => {
  const found = await db.q
    .selectFrom('organization_members as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .select('m.user_id')
    .where('m.organization_id', '=', organization_id)
    .where(sql`lower(u.email)`, '=', email.toLowerCase())
    .where('u.deleted_at', 'is', null)
    .executeTakeFirst()
  return found !== undefined
}

/** Returns true if the sender still has a role that may invite users to the organization. */
export const mayInvite = async (db: Db, invitation: Invitation): Promise<boolean> => {
  const found = await db.q
    .selectFrom('organization_invitations as i')
    .innerJoin('organization_members as m', (on) => on.onRef('m.organization_id', '=', 'i.organization_id').onRef('m.user_id', '=', 'i.invited_by'))
    .select('m.role')
    .where('i.organization_id', '=', invitation.organization_id)
    .where('i.id', '=', invitation.id)
    .where('m.role', 'in', [...permissions['members:manage']])
    .executeTakeFirst()
  return found !== undefined
}

export const deleteAllPending = async (tx: Tx, organization_id: string, { user_id, email }: { user_id: string; email: string }): Promise<string[]> => {
  const gone = await tx.q
    .deleteFrom('organization_invitations')
    .where('organization_id', '=', organization_id)
    .where('status', '=', 'pending')
    .where((row) => row.or([row('invited_by', '=', user_id), row(sql`lower(email)`, '=', email.toLowerCase())]))
    .returning('id')
    .execute()
  return gone.map(({ id }) => id)
}

/** Returns true if there is a pending invitation for this address that has not expired. */
export const isInvited = async (db: Db, email: string, now: Date): Promise<boolean> => {
  const found = await db.q
    .selectFrom('organization_invitations')
    .select('id')
    .where('status', '=', 'pending')
    .where(sql`lower(email)`, '=', email.toLowerCase())
    .where('expires_at', '>', now)
    .limit(1)
    .executeTakeFirst()
  return found !== undefined
}
