import {
  describeConsent,
  getUserInfo,
  InvalidAuthorizationRequest,
  isScope,
  introspectToken,
  NotPermitted,
  requestToken,
  revokeToken,
  scopeSentences,
  SignInNeeded,
  type Scope,
} from '@bursar/contract'
import { periodicTask, job, read, speak } from '../../handlers.ts'
import { mailAllowed } from '../grants/grants.ts'
import { presentPublicly } from '../clients/clients.ts'
import { findClient } from '../clients/clients.sql.ts'
import { organizationsOf } from '../grants/grants.sql.ts'
import { tendKeys } from '../keys/keys.ts'
import { findUser } from '../sessions/sessions.sql.ts'
import { purgeOAuth } from '../grants/oauth.sql.ts'

export const operations = [
  speak(requestToken),
  speak(revokeToken),
  speak(introspectToken),
  speak(getUserInfo),
  read(describeConsent, async (db, { actor, raw, query }) => {
    // One of the official clients sends `Bearer undefined` if it has no token.
    if (raw.headers.authorization !== undefined && /^Bearer (?!undefined$)/i.test(String(raw.headers.authorization)))
      throw new NotPermitted('Tokens cannot use this operation. Sign in with your browser.')
    const refuse = (why: string) => new InvalidAuthorizationRequest(why)
    if (query.response_type !== 'code') throw refuse('response_type must be code.')
    const client = query.client_id === undefined ? undefined : await findClient(db, query.client_id)
    if (!client) throw refuse('client_id is not the id of a client.')
    if (query.redirect_uri !== undefined && !client.redirect_uris.includes(query.redirect_uri)) throw refuse('redirect_uri is not registered with the client.')
    const wanted = query.scope === undefined || query.scope === '' ? client.scopes : [...new Set(query.scope.split(' '))]
    const beyond = wanted.find((scope) => !client.scopes.includes(scope) || !isScope(scope))
    if (beyond !== undefined) throw refuse(`scope ${beyond} is not allowed for this client.`)
    const scopes = wanted as Scope[]
    if (actor.kind === 'anonymous' && scopes.includes('openid')) throw new SignInNeeded()
    const sub_type = query.sub_type ?? client.default_sub_type
    const user = actor.kind === 'user' ? await findUser(db, actor.user_id) : undefined
    const organizations = actor.kind === 'user' ? await organizationsOf(db, [...actor.memberships.keys()]) : []
    const described = {
      client: presentPublicly(client),
      scopes,
      organizations: organizations.map(({ id, slug, avatar_url }) => ({ id, slug, avatar_url })),
      requires_single_organization: sub_type === 'organization',
      scope_display_names: Object.fromEntries(scopes.map((scope) => [scope, scopeSentences[scope]])),
    }
    if (sub_type === 'organization') return { ...described, sub_type, sub: null }
    return { ...described, sub_type, sub: user ? { id: user.id, email: user.email, avatar_url: user.avatar_url } : null }
  }),
]

export const periodicTasks = [
  periodicTask('identity.keys', tendKeys),
  periodicTask('identity.purge_oauth', ({ transact, platform }) => transact((tx) => purgeOAuth(tx, platform.clock.wall()))),
]
export const jobs = [job('mail.app_allowed', mailAllowed)]
