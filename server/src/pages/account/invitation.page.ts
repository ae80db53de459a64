import { InvitationInvalid } from '@bursar/contract'
import type { Page, PageAnswer, PageCall } from '../../modules/handlers.ts'
import { acceptInvitation, findInvitation } from '../../modules/identity/index.ts'
import type { PageDeps } from './deps.ts'

/** The invitation to an organization, which a mail links. The reader signs in first, and then accepts it. */
export const invitationPages = ({ platform, postgres: { db } }: PageDeps): Page[] => {
  const show = async ({ actor }: PageCall, token: string): Promise<PageAnswer> => {
    const found = actor.kind === 'user' && token !== '' ? await findInvitation(db, platform, actor, token) : undefined
    const invited = found ? { organization: found.organization_name, role: found.role, until: found.expires_at } : null
    return { view: { kind: 'invitation', token: found ? token : '', invited } }
  }
  return [
    { method: 'GET', path: '/invitations', signedIn: true, handle: (call) => show(call, call.query.get('token') ?? '') },
    {
      method: 'POST',
      path: '/invitations',
      signedIn: true,
      handle: async (call) => {
        const { actor, form } = call
        if (actor.kind !== 'user') return { redirect: '/login' }
        try {
          await call.transact((tx) => acceptInvitation(tx, platform, actor, form.get('token') ?? ''))
        } catch (error) {
          if (!(error instanceof InvitationInvalid)) throw error
          return { ...(await show(call, '')), status: 404 }
        }
        return { redirect: '/settings/apps' }
      },
    },
  ]
}
