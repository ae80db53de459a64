import { acceptInvitation, inviteMember, listInvitations, paginate, ResourceNotFound, revokeInvitation } from '@bursar/contract'
import { job, read, sweep, write } from '../../handlers.ts'
import { permit } from '../../organizations/index.ts'
import { listInvitations as list } from './invitations.sql.ts'
import { accept, expire, invite, mailInvitation, withdraw } from './invitations.ts'

export const operations = [
  write(inviteMember, (tx, { actor, scope, params, body }) => invite(tx, scope, params.id, body, actor.kind === 'user' ? actor.user_id : null)),
  read(listInvitations, async (db, { scope, params, query }) => {
    if (!scope.organizations.has(params.id)) throw new ResourceNotFound()
    permit(scope, params.id, 'members:read')
    const { items, total, next_cursor } = await list(db, scope, params.id, query)
    return paginate(query, items, total, next_cursor)
  }),
  write(revokeInvitation, async (tx, { scope, params }) => {
    await withdraw(tx, scope, params.id, params.invitation_id)
  }),
  write(acceptInvitation, (tx, { actor, body, platform }) => accept(tx, platform, actor, body.token)),
]

export const jobs = [job('mail.organization_invitation', mailInvitation)]
export const sweeps = [sweep('identity.expire_invitations', expire)]
