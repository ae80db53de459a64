import { leaveOrganization, listMemberships, paginate, removeMembership, ResourceNotFound, updateMembership } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { permit } from '../../organizations/index.ts'
import { listMemberships as list } from './memberships.sql.ts'
import { leave, remove, setRole } from './memberships.ts'

export const operations = [
  read(listMemberships, async (db, { reach, params, query }) => {
    if (!reach.organizations.has(params.id)) throw new ResourceNotFound()
    permit(reach, params.id, 'members:read')
    const { items, total, next_cursor } = await list(db, reach, params.id, query)
    return paginate(query, items, total, next_cursor)
  }),
  write(updateMembership, (tx, { reach, params, body }) => setRole(tx, reach, params.id, params.user_id, body.role)),
  write(removeMembership, (tx, { reach, params }) => remove(tx, reach, params.id, params.user_id)),
  write(leaveOrganization, (tx, { actor, reach, params }) => leave(tx, reach, params.id, actor.user_id)),
]
