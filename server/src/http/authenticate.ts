import { NotPermitted, SessionNotFreshError, type Access } from '@bursar/contract'
import { anonymous, type Actor, type OrganizationActor, type UserActor } from '../kernel/actors.ts'
import { Secret, type TokenKind } from '../kernel/secrets.ts'
import { freshFor, InvalidToken, readCookie as cookieOf, resolve, type FindCredential, type Keys, type Usage } from '../modules/identity/index.ts'
import { BearerRefusal, unauthorized } from './failures.ts'

export interface Presented {
  readonly authorization: readonly string[]
  readonly cookie: string | undefined
  readonly method: string
  readonly origin: string | undefined
  readonly site: string | undefined
  readonly asked: string | undefined
  /** The organization that the request names in a header to limit its scope. */
  readonly organization: string | undefined
}

export interface AuthContext {
  readonly find: FindCredential
  readonly keys: Keys
  readonly usage: Usage
  readonly cookies: { readonly session: string; readonly portal: string }
  readonly origin: string
}

/** The token kinds that each surface of the API accepts. The prefix of a token shows its kind, so that all other kinds are rejected. */
const accepted = {
  merchant: { bearer: ['organization', 'personal', 'oauth_access'], cookie: ['session'] },
  session: { bearer: ['organization', 'personal', 'oauth_access'], cookie: ['session'] },
  portal: { bearer: ['customer_session', 'member_session'], cookie: ['customer_session', 'member_session'] },
} as const satisfies Record<string, { bearer: readonly TokenKind[]; cookie: readonly TokenKind[] }>
type Surface = keyof typeof accepted

/** Authenticates the caller. A bearer token takes precedence. Without one, the cookie for this surface of the API is used. */
export const authenticate = async (door: AuthContext, surface: Surface, presented: Presented): Promise<Actor> => {
  try {
    const bearer = readBearer(presented.authorization)
    if (bearer) return confined(presented, await enter(door, bearer, accepted[surface].bearer))
    const session = readCookie(door, surface, presented)
    if (!session) return anonymous
    refuseForgery(door, presented)
    return confined(presented, await enter(door, session, accepted[surface].cookie))
  } catch (error) {
    if (error instanceof InvalidToken) throw new BearerRefusal(401, 'invalid_token', error.message)
    throw error
  }
}

/** Returns the user of this browser's session cookie. A request with a bearer token is anonymous here, even if it has the cookie. */
export const recognise = async (door: AuthContext, presented: Presented): Promise<Actor> => {
  const session = presented.authorization.length > 0 ? undefined : readCookie(door, 'session', presented)
  if (!session) return anonymous
  refuseForgery(door, presented)
  try {
    return await enter(door, session, accepted.session.cookie)
  } catch (error) {
    if (error instanceof InvalidToken) return anonymous
    throw error
  }
}

/** Rejects a portal session if the request names another organization than that of the session. */
const confined = ({ organization }: Presented, actor: Actor): Actor => {
  if (actor.kind === 'portal' && organization !== undefined && organization !== actor.organization_id)
    throw new InvalidToken('This session belongs to another organization than the one in the request.')
  return actor
}

/** Returns the secret that the request carries, if any. */
export const secretOf = (door: AuthContext, surface: Surface, presented: Presented): Secret | undefined =>
  readBearer(presented.authorization) ?? readCookie(door, surface, presented)

const enter = async (door: AuthContext, secret: Secret, kinds: readonly TokenKind[]): Promise<Actor> => {
  const { actor, found } = await resolve(door.find, door.keys, secret, kinds)
  door.usage.note(found, secret)
  return actor
}

const readBearer = (headers: readonly string[]): Secret | undefined => {
  if (headers.length === 0) return undefined
  if (headers.length > 1) throw new InvalidToken('Send one Authorization header, not several.')
  const [, token] = /^Bearer +([\x21-\x7e]+) *$/i.exec(headers[0]!) ?? []
  return token === undefined ? undefined : new Secret(token)
}

/**
 * Reads the cookie of this surface. A browser may have portal sessions of several sellers, in one cookie each. The
 * request must then name the organization.
 */
const readCookie = (door: AuthContext, surface: Surface, { cookie, organization }: Presented): Secret | undefined => {
  const pairs = (cookie?.split(';') ?? []).map((pair) => pair.trim().split('=', 2))
  const named = (name: string) => pairs.find(([key, value]) => key === name && value)?.[1]
  if (surface !== 'portal') return secretly(cookieOf(cookie, door.cookies.session))
  if (organization !== undefined) return secretly(named(door.cookies.portal + organization))
  const portals = pairs.filter(([key, value]) => key?.startsWith(door.cookies.portal) && value)
  if (portals.length > 1) throw new InvalidToken('This browser is signed in to several portals. Name the organization in the header bursar-organization.')
  return secretly(portals[0]?.[1])
}

const secretly = (value: string | undefined) => (value ? new Secret(value) : undefined)

/** Rejects cross-site request forgery. A foreign page can make a browser send the cookie, but not these headers together. */
const refuseForgery = (door: AuthContext, { method, origin, site, asked }: Presented) => {
  if (method === 'GET' || method === 'HEAD') return
  const ownPage = site === 'same-origin' || (site === undefined && origin === door.origin)
  if (!ownPage || asked === undefined) throw new NotPermitted('A change with the session cookie must come from our own pages and needs the header bursar-csrf.')
}

/** Rejects callers of the wrong kind and callers without a required scope. An operation is open only if its access rule says so. */
export const authorize = (access: Access, actor: Actor, wall: Date): void => {
  if (access.kind === 'open' || access.kind === 'visitor' || access.kind === 'protocol') return
  if (actor.kind === 'anonymous') throw unauthorized()
  if (access.kind === 'portal') {
    if (actor.kind !== 'portal') throw unauthorized()
    if (!access.credentials.includes(actor.member_id === null ? 'customer_session' : 'member_session'))
      throw unauthorized('This operation is for members. Create the session for a member.')
  } else if (actor.kind === 'portal') {
    throw unauthorized()
  } else if (access.kind === 'session') {
    if (actor.kind !== 'user' || actor.via !== 'session') throw new NotPermitted('Tokens cannot use this operation. Sign in with your browser.')
    if (access.fresh && wall.getTime() - actor.credential_created_at.getTime() > freshFor) throw new SessionNotFreshError()
  } else {
    const taken = actor.kind === 'user' && actor.via === 'session' ? true : access.credentials.includes(schemeOf(actor))
    if (!taken) throw unauthorized('This operation acts for a person. Organization tokens are not accepted.')
  }
  if (!access.scopes.some((scope) => actor.scopes.has(scope)))
    throw new BearerRefusal(403, 'insufficient_scope', `This operation needs one of these scopes: ${access.scopes.join(', ')}.`, access.scopes)
}

/** Returns the credential kind of the actor's token as the contract names it: `oat`, `oidc` or `pat`. */
const schemeOf = (actor: OrganizationActor | UserActor) => (actor.kind === 'organization' ? 'oat' : actor.via === 'oauth' ? 'oidc' : 'pat')
