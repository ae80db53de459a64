import type { Membership, OrganizationRole, PageRequest } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { markLocked } from '../../../platform/postgres/locks.ts'
import { inOrder, listKeys, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { inScope } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

const within = (db: Db, scope: TenantScope, organization_id: string) =>
  db.q
    .selectFrom('organization_members as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .select(['m.organization_id', 'm.user_id', 'm.role', 'm.created_at', 'm.modified_at', 'u.email', 'u.avatar_url'])
    .where('m.organization_id', '=', organization_id)
    .where('m.organization_id', '=', inScope(scope))

export const findMembership = (db: Db, scope: TenantScope, organization_id: string, user_id: string): Promise<Membership | undefined> =>
  within(db, scope, organization_id).where('m.user_id', '=', user_id).executeTakeFirst()

/** Locks the membership, so that its role cannot change between check and update. */
export const lockMembership = async (tx: Tx, scope: TenantScope, organization_id: string, user_id: string): Promise<Locked<Membership> | undefined> =>
  markLocked(await within(tx, scope, organization_id).where('m.user_id', '=', user_id).forUpdate('m').executeTakeFirst())

const list = {
  table: 'organization_members',
  tenant: 'organization_id',
  id: 'user_id',
  sortable: { created_at: { expression: 'created_at', type: 'timestamptz' } },
} as const satisfies ListSpec<string>

export const listMemberships = async (db: Db, scope: TenantScope, organization_id: string, query: PageRequest) => {
  const { keys, total, next_cursor } = await listKeys(db, list, [organization_id], { ...query, sorting: ['created_at'] })
  const rows =
    keys.length === 0
      ? []
      : await within(db, scope, organization_id)
          .where(
            'm.user_id',
            'in',
            keys.map(({ id }) => id),
          )
          .execute()
  return { items: inOrder(keys, rows, ({ user_id }) => user_id), total, next_cursor }
}

export const changeRole = async (tx: Tx, membership: Locked<Membership>, role: OrganizationRole, now: Date): Promise<Membership> => {
  await tx.q
    .updateTable('organization_members')
    .set({ role, modified_at: now })
    .where('organization_id', '=', membership.organization_id)
    .where('user_id', '=', membership.user_id)
    .execute()
  return { ...membership, role, modified_at: now }
}

export const deleteMembership = async (tx: Tx, membership: Locked<Membership>): Promise<void> => {
  await tx.q.deleteFrom('organization_members').where('organization_id', '=', membership.organization_id).where('user_id', '=', membership.user_id).execute()
}
