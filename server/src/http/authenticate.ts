import { NotPermitted, SessionNotFreshError, type Access } from '@bursar/contract'
import { anonymous, type Actor, type OrganizationActor, type UserActor } from '../kernel/actors.ts'
import { Secret, type TokenKind } from '../kernel/secrets.ts'
import { InvalidToken, readCookie as cookieOf, resolve, type Keys, type Usage } from '../modules/identity/index.ts'
import { hours } from '../platform/clock.ts'
import type { Db } from '../platform/postgres/postgres.ts'
import { BearerRefusal, unauthorized } from './failures.ts'

export interface Presented {
  readonly authorization: readonly string[]
  readonly cookie: string | undefined
  readonly method: string
  readonly origin: string | undefined
  readonly site: string | undefined
  readonly asked: string | undefined
  /** The organization that the request confines itself to. */
  readonly organization: string | undefined
}

export interface Doorman {
  readonly db: Db
  readonly keys: Keys
  readonly usage: Usage
  readonly cookies: { readonly session: string; readonly portal: string }
  readonly origin: string
}

/** Which secrets each surface takes. What is meant for the other one is refused by its form. */
const accepted = {
  merchant: { bearer: ['organization', 'personal', 'oauth_access'], cookie: ['session'] },
  session: { bearer: ['organization', 'personal', 'oauth_access'], cookie: ['session'] },
  portal: { bearer: ['customer_session', 'member_session'], cookie: ['customer_session', 'member_session'] },
} as const satisfies Record<string, { bearer: readonly TokenKind[]; cookie: readonly TokenKind[] }>
type Surface = keyof typeof accepted

/** Finds out who calls. A bearer token speaks first; without one, the cookie of this surface does. */
export const authenticate = async (door: Doorman, surface: Surface, presented: Presented): Promise<Actor> => {
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

/** Who is signed in in this browser, if anybody is and the request did not bring a token of its own to speak for it. */
export const recognise = async (door: Doorman, presented: Presented): Promise<Actor> => {
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

/** A portal session is of one organization: a request that names another has come with the wrong session. */
const confined = ({ organization }: Presented, actor: Actor): Actor => {
  if (actor.kind === 'portal' && organization !== undefined && organization !== actor.organization_id)
    throw new InvalidToken('This session belongs to another organization than the request names.')
  return actor
}

/** The secret that a request came with, if any. */
export const secretOf = (door: Doorman, surface: Surface, presented: Presented): Secret | undefined =>
  readBearer(presented.authorization) ?? readCookie(door, surface, presented)

const enter = async (door: Doorman, secret: Secret, kinds: readonly TokenKind[]): Promise<Actor> => {
  const { actor, found } = await resolve(door.db, door.keys, secret, kinds)
  door.usage.note(found, secret)
  return actor
}

const readBearer = (headers: readonly string[]): Secret | undefined => {
  if (headers.length === 0) return undefined
  if (headers.length > 1) throw new InvalidToken('Send one Authorization header, not several.')
  const [, token] = /^Bearer +([\x21-\x7e]+) *$/i.exec(headers[0]!) ?? []
  return token === undefined ? undefined : new Secret(token)
}

/** A browser may be in the portals of several sellers at once, one cookie each: the request then says which one it means. */
const readCookie = (door: Doorman, surface: Surface, { cookie, organization }: Presented): Secret | undefined => {
  const pairs = (cookie?.split(';') ?? []).map((pair) => pair.trim().split('=', 2))
  const named = (name: string) => pairs.find(([key, value]) => key === name && value)?.[1]
  if (surface !== 'portal') return secretly(cookieOf(cookie, door.cookies.session))
  if (organization !== undefined) return secretly(named(door.cookies.portal + organization))
  const portals = pairs.filter(([key, value]) => key?.startsWith(door.cookies.portal) && value)
  if (portals.length > 1) throw new InvalidToken('This browser is in several portals: name the organization in the header bursar-organization.')
  return secretly(portals[0]?.[1])
}

const secretly = (value: string | undefined) => (value ? new Secret(value) : undefined)

/** A page elsewhere can make a browser send the cookie, but not these headers together. */
const refuseForgery = (door: Doorman, { method, origin, site, asked }: Presented) => {
  if (method === 'GET' || method === 'HEAD') return
  const ownPage = site === 'same-origin' || (site === undefined && origin === door.origin)
  if (!ownPage || asked === undefined)
    throw new NotPermitted('A change made with the session cookie must come from our own pages, with the header bursar-csrf.')
}

/** Refuses callers of the wrong kind and callers without a scope. Nothing is open unless its operation says so. */
export const authorize = (access: Access, actor: Actor, wall: Date): void => {
  if (access.kind === 'open' || access.kind === 'visitor' || access.kind === 'protocol') return
  if (actor.kind === 'anonymous') throw unauthorized()
  if (access.kind === 'portal') {
    if (actor.kind !== 'portal') throw unauthorized()
    if (!access.credentials.includes(actor.member_id === null ? 'customer_session' : 'member_session'))
      throw unauthorized('This operation is for members: create the session for one of them.')
  } else if (actor.kind === 'portal') {
    throw unauthorized()
  } else if (access.kind === 'session') {
    if (actor.kind !== 'user' || actor.via !== 'session') throw new NotPermitted('Tokens cannot do this: sign in with your browser.')
    if (access.fresh && wall.getTime() - actor.credential_created_at.getTime() > 1 * hours) throw new SessionNotFreshError()
  } else {
    const taken = actor.kind === 'user' && actor.via === 'session' ? true : access.credentials.includes(schemeOf(actor))
    if (!taken) throw unauthorized('This operation acts for a person: an organization token is not accepted.')
  }
  if (!access.scopes.some((scope) => actor.scopes.has(scope)))
    throw new BearerRefusal(403, 'insufficient_scope', `This operation needs one of the scopes: ${access.scopes.join(', ')}.`, access.scopes)
}

/** The contract's name for the kind of token that somebody came with. */
const schemeOf = (actor: OrganizationActor | UserActor) => (actor.kind === 'organization' ? 'oat' : actor.via === 'oauth' ? 'oidc' : 'pat')
