import { reservedScopes, scopes, type AnyScope } from '@bursar/contract'
import type { Actor } from '../../../kernel/actors.ts'
import { readToken, tokenKinds, type Secret, type Environment, type Hasher, type TokenKind } from '../../../kernel/secrets.ts'
import { minutes, type WallClock } from '../../../platform/clock.ts'
import type { Transact } from '../../../platform/postgres/postgres.ts'
import { capabilities } from '../../organizations/index.ts'
import { rehash, touchTokens, type FindCredential, type Resolved } from './credentials.sql.ts'

/** An error for a rejected bearer token. The message states the reason for the token's owner, without any secret. */
export class InvalidToken extends Error {}

export interface Keys {
  readonly environment: Environment
  readonly hasher: Hasher
  readonly clock: WallClock
}

/** Statuses in which an organization's tokens are rejected and its users do not see it. */
export const closedStatuses = Object.entries(capabilities).flatMap(([status, able]) => (able.api_access ? [] : [status]))

const everyScope: ReadonlySet<AnyScope> = new Set<AnyScope>([...scopes, ...reservedScopes])

/** Scopes of an operator without a second factor. They allow only viewing the account and setting up a second factor. */
const enrolling: ReadonlySet<AnyScope> = new Set<AnyScope>(['user:read'])

/** Resolves a secret to its actor. A malformed secret, or a secret of the other environment, is rejected without a query. */
export const resolve = async (find: FindCredential, keys: Keys, secret: Secret, accepted: readonly TokenKind[]): Promise<{ actor: Actor; found: Resolved }> => {
  const reading = readToken(secret.reveal())
  if (reading === 'foreign') throw new InvalidToken('This is not a token of this service.')
  if (reading === 'damaged') throw new InvalidToken('This token is damaged: part of it is missing or mistyped.')
  if (reading.environment !== keys.environment)
    throw new InvalidToken(`This token belongs to ${reading.environment}, and this is ${keys.environment}. Each environment has its own tokens.`)
  if (!accepted.includes(reading.kind))
    throw new InvalidToken(`This token has the kind "${named(reading.kind)}". Accepted here: ${accepted.map(named).join(', ')}.`)
  const found = await find({ kind: reading.kind, hashes: keys.hasher.candidates(secret), closed: closedStatuses })
  if (!found || found.kind !== reading.kind) throw new InvalidToken('This token is unknown or has been revoked.')
  if (found.expires_at && found.expires_at <= keys.clock.wall()) throw new InvalidToken('This token has expired.')
  return { actor: actorOf(found), found }
}

const named = (kind: TokenKind) => tokenKinds[kind].report.replace('bursar_', '').replaceAll('_', ' ')

/** Scopes of every portal session. The role of the portal user decides which actions are permitted. */
const portalScopes: ReadonlySet<AnyScope> = new Set<AnyScope>(['customer_portal:read', 'customer_portal:write'])

const actorOf = (found: Resolved): Actor => {
  const { credential_id } = found
  switch (found.kind) {
    case 'organization':
      return { kind: 'organization', organization_id: found.organization_id!, phase: found.member_phase!, credential_id, scopes: found.scopes }
    case 'customer_session':
    case 'member_session':
      return {
        kind: 'portal',
        organization_id: found.organization_id!,
        phase: found.member_phase!,
        customer_id: found.customer_id!,
        member_id: found.member_id,
        role: found.member_role ?? 'customer',
        credential_id,
        expires_at: found.expires_at!,
        scopes: portalScopes,
      }
    case 'personal':
    case 'session':
    case 'oauth_access':
      return {
        kind: 'user',
        via: found.kind === 'oauth_access' ? 'oauth' : found.kind,
        client_id: found.client_id,
        restricted: found.restricted,
        user_id: found.user_id!,
        email: found.email!,
        // An OAuth app never gets operator rights, even if its user is an operator.
        is_operator: found.kind !== 'oauth_access' && found.is_operator!,
        credential_id,
        credential_created_at: found.created_at,
        scopes: found.kind !== 'session' ? found.scopes : found.is_operator && !found.second_factor ? enrolling : everyScope,
        memberships: new Map(found.memberships.map(({ organization_id, role }) => [organization_id, role])),
        phases: new Map(found.memberships.map(({ organization_id, phase }) => [organization_id, phase])),
      }
    case 'invitation':
    case 'portal_code':
    case 'email_change':
    case 'seat_invitation':
    case 'oauth_refresh':
    case 'oauth_code':
    case 'client_secret':
    case 'client_registration':
    case 'sign_in':
      throw new InvalidToken('This kind of token is not accepted here.')
  }
}

/** Collects the ids of used tokens in memory and writes their last use periodically. A crash loses at most the last few seconds. */
export const openUsage = (transact: Transact, keys: Keys) => {
  const seen = new Set<string>()
  const outdated = new Map<string, Secret>()
  return {
    note: (found: Resolved, secret: Secret) => {
      const stale = !found.last_used_at || keys.clock.wall().getTime() - found.last_used_at.getTime() > minutes
      if (stale && (found.kind === 'organization' || found.kind === 'personal') && seen.size < 10_000) seen.add(found.credential_id)
      if (found.pepper !== keys.hasher.current && outdated.size < 1_000) outdated.set(found.credential_id, secret)
    },
    flush: async (): Promise<void> => {
      if (seen.size === 0 && outdated.size === 0) return
      const ids = [...seen]
      const secrets = [...outdated.values()]
      seen.clear()
      outdated.clear()
      await transact(async (tx) => {
        if (ids.length > 0) await touchTokens(tx, ids, keys.clock.wall())
        for (const secret of secrets) await rehash(tx, keys.hasher, secret)
      })
    },
  }
}
export type Usage = ReturnType<typeof openUsage>
