import { acceptInvitation, inviteMember, listInvitations, paginate, ResourceNotFound, revokeInvitation } from '@bursar/contract'
import { job, read, sweep, write } from '../../handlers.ts'
import { permit } from '../../organizations/index.ts'
import { listInvitations as list } from './invitations.sql.ts'
import { accept, expire, invite, mailInvitation, withdraw } from './invitations.ts'

export const operations = [
  write(inviteMember, (tx, { actor, reach, params, body }) => invite(tx, reach, params.id, body, actor.kind === 'user' ? actor.user_id : null)),
  read(listInvitations, async (db, { reach, params, query }) => {
    if (!reach.organizations.has(params.id)) throw new ResourceNotFound()
    permit(reach, params.id, 'members:read')
    const { items, total, next_cursor } = await list(db, reach, params.id, query)
    return paginate(query, items, total, next_cursor)
  }),
  write(revokeInvitation, async (tx, { reach, params }) => {
    await withdraw(tx, reach, params.id, params.invitation_id)
  }),
  write(acceptInvitation, (tx, { actor, body, platform }) => accept(tx, platform, actor, body.token)),
]

export const jobs = [job('mail.organization_invitation', mailInvitation)]
export const sweeps = [sweep('identity.expire_invitations', expire)]
