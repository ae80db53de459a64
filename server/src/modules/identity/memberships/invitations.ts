import { InvalidRequest, InvitationInvalid, ResourceNotFound, type Invitation, type Membership } from '@bursar/contract'
import { within, type TenantScope, type UserActor } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { newToken, Secret } from '../../../kernel/secrets.ts'
import { days, later } from '../../../platform/clock.ts'
import { underLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { accountUrl, insertMembership, languageOfSeller, permit, sendMail } from '../../organizations/index.ts'
import { addCredential, dropCredentials, findSubject, takeSubject } from '../credentials/credentials.sql.ts'
import { findMembership } from './memberships.sql.ts'
import {
  deleteAllPending,
  deletePending,
  isMember,
  lockPending,
  markAccepted,
  markExpired,
  mayInvite,
  readPending,
  replaceInvitation,
} from './invitations.sql.ts'

const life = 7 * days

/** Invites an email address. Each address has at most one pending invitation. A repeated invitation renews it, and the old link stops working. */
export const invite = async (
  tx: Tx,
  scope: TenantScope,
  organization_id: string,
  wish: { email: string; role: Invitation['role'] },
  invited_by: string | null,
): Promise<Invitation> => {
  manage(scope, organization_id)
  if (await isMember(tx, organization_id, wish.email))
    throw new InvalidRequest({ loc: ['body', 'email'], msg: 'This person already belongs to the organization.', type: 'value_error', input: wish.email })
  const wall = tx.clock.wall()
  const invitation = await replaceInvitation(tx, {
    id: newId(wall),
    organization_id,
    created_at: wall,
    modified_at: null,
    ...wish,
    status: 'pending',
    expires_at: later(wall, life),
    invited_by,
  })
  await dropCredentials(tx, 'invitation', invitation.id)
  await enqueue(tx, 'mail.organization_invitation', { organization_id, invitation_id: invitation.id })
  return invitation
}

/** Withdraws an invitation and revokes its secret, so that the invitation can no longer be accepted. */
export const withdraw = async (tx: Tx, scope: TenantScope, organization_id: string, id: string): Promise<void> => {
  manage(scope, organization_id)
  if (!(await deletePending(tx, scope, organization_id, id))) throw new ResourceNotFound()
  await dropCredentials(tx, 'invitation', id)
}

/** Creates the secret of the invitation link, stores its hash and mails the link. If the job runs again, the new link replaces the first. */
export const mailInvitation = async (deps: Deps, { organization_id, invitation_id }: { organization_id: string; invitation_id: string }): Promise<void> => {
  const { db, transact, platform } = deps
  const invitation = await readPending(db, organization_id, invitation_id)
  if (!invitation) return
  const secret = newToken('invitation', platform.config.environment)
  const open = await transact(async (tx) => {
    if (!(await lockPending(tx, organization_id, invitation_id))) return false
    await dropCredentials(tx, 'invitation', invitation_id)
    await addCredential(tx, platform.hasher, secret, { kind: 'invitation', subject_id: invitation_id, organization_id })
    return true
  })
  if (!open) return
  const { organization_name: organization, invited_by, role, expires_at: until } = invitation
  const accept_url = accountUrl(platform, `/invitations?token=${secret.reveal()}`)
  await sendMail(deps, {
    to: invitation.email,
    seller: null,
    language: languageOfSeller(invitation),
    view: { kind: 'organization_invitation', organization, invited_by, role, until, accept_url },
  })
}

/** Returns the invitation of a link, if this person can accept it now. Does not use up the link. */
export const findInvitation = async (db: Db, platform: Platform, actor: UserActor, token: string) => {
  const subject = await findSubject(db, platform.hasher, new Secret(token))
  if (subject?.kind !== 'invitation' || subject.organization_id === null) return undefined
  const invitation = await readPending(db, subject.organization_id, subject.subject_id)
  const isOpen = invitation !== undefined && invitation.expires_at > platform.clock.wall() && invitation.email.toLowerCase() === actor.email.toLowerCase()
  return isOpen ? invitation : undefined
}

/**
 * Accepts an invitation, once, and only for the owner of the invited address. The secret is deleted on use, so only one
 * of several concurrent requests succeeds. An invitation is valid only as long as its sender may still invite.
 */
export const accept = async (tx: Tx, platform: Platform, actor: UserActor, token: string): Promise<Membership> => {
  const subject = await takeSubject(tx, platform.hasher, new Secret(token), 'invitation')
  const invitation = subject?.organization_id ? await lockPending(tx, subject.organization_id, subject.subject_id) : undefined
  if (!invitation || invitation.expires_at <= tx.clock.wall() || invitation.email.toLowerCase() !== actor.email.toLowerCase()) throw new InvitationInvalid()
  if (!(await mayInvite(tx, invitation))) throw new InvitationInvalid()
  const now = tx.clock.wall()
  await insertMembership(tx, invitation.organization_id, actor.user_id, invitation.role, now)
  await markAccepted(tx, invitation, now)
  const inside = within(invitation.organization_id, invitation.role, 'phase2')
  return (await findMembership(tx, inside, invitation.organization_id, actor.user_id))!
}

/** Closes an invitation that was not accepted in time, and revokes its secret. */
export const expire = ({ transact }: Deps, lease: Lease): Promise<void> =>
  underLease(transact, lease, async (tx) => {
    await markExpired(tx, lease, tx.clock.wall())
    await dropCredentials(tx, 'invitation', lease.id)
    return null
  })

/** Withdraws all pending invitations sent by or to a user. Otherwise a user could regain a lost right with an old invitation. */
export const withdrawAll = async (tx: Tx, organization_id: string, person: { user_id: string; email: string }): Promise<void> => {
  for (const id of await deleteAllPending(tx, organization_id, person)) await dropCredentials(tx, 'invitation', id)
}

const manage = (scope: TenantScope, organization_id: string) => {
  if (!scope.organizations.has(organization_id)) throw new ResourceNotFound()
  permit(scope, organization_id, 'members:manage')
}
