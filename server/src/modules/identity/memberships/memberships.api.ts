import { leaveOrganization, listMemberships, paginate, removeMembership, ResourceNotFound, updateMembership } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { permit } from '../../organizations/index.ts'
import { listMemberships as list } from './memberships.sql.ts'
import * as memberships from './memberships.ts'

export const operations = [
  read(listMemberships, async (db, { scope, params, query }) => {
    if (!scope.organizations.has(params.id)) throw new ResourceNotFound()
    permit(scope, params.id, 'members:read')
    const { items, total, next_cursor } = await list(db, scope, params.id, query)
    return paginate(query, items, total, next_cursor)
  }),
  write(updateMembership, (tx, { scope, params, body }) => memberships.setRole(tx, scope, params.id, params.user_id, body.role)),
  write(removeMembership, (tx, { scope, params }) => memberships.removeMembership(tx, scope, params.id, params.user_id)),
  write(leaveOrganization, (tx, { actor, scope, params }) => memberships.leave(tx, scope, params.id, actor.user_id)),
]
