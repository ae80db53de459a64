import { NotPermitted, SessionNotFreshError, type Access } from '@bursar/contract'
import { anonymous, type Actor } from '../kernel/actors.ts'
import { Secret } from '../kernel/secrets.ts'
import { InvalidToken, resolve, type Keys, type Usage } from '../modules/identity/index.ts'
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
}

export interface Doorman {
  readonly db: Db
  readonly keys: Keys
  readonly usage: Usage
  readonly cookie: string
  readonly origin: string
}

/** Finds out who calls. A bearer token speaks first; without one, the cookie of a signed-in person does. */
export const authenticate = async (door: Doorman, presented: Presented): Promise<Actor> => {
  try {
    const bearer = readBearer(presented.authorization)
    if (bearer) return await enter(door, bearer, ['organization', 'personal'])
    const session = readCookie(presented.cookie, door.cookie)
    if (!session) return anonymous
    refuseForgery(door, presented)
    return await enter(door, session, ['session'])
  } catch (error) {
    if (error instanceof InvalidToken) throw new BearerRefusal(401, 'invalid_token', error.message)
    throw error
  }
}

/** The secret that a request came with, if any. */
export const secretOf = (door: Doorman, presented: Presented): Secret | undefined =>
  readBearer(presented.authorization) ?? readCookie(presented.cookie, door.cookie)

const enter = async (door: Doorman, secret: Secret, accepted: readonly ('organization' | 'personal' | 'session')[]): Promise<Actor> => {
  const { actor, found } = await resolve(door.db, door.keys, secret, accepted)
  door.usage.note(found, secret)
  return actor
}

const readBearer = (headers: readonly string[]): Secret | undefined => {
  if (headers.length === 0) return undefined
  if (headers.length > 1) throw new InvalidToken('Send one Authorization header, not several.')
  const [, token] = /^Bearer +([\x21-\x7e]+) *$/i.exec(headers[0]!) ?? []
  return token === undefined ? undefined : new Secret(token)
}

const readCookie = (header: string | undefined, name: string): Secret | undefined => {
  for (const pair of header?.split(';') ?? []) {
    const [key, value] = pair.trim().split('=', 2)
    if (key === name && value) return new Secret(value)
  }
  return undefined
}

/** A page elsewhere can make a browser send the cookie, but not these headers together. */
const refuseForgery = (door: Doorman, { method, origin, site, asked }: Presented) => {
  if (method === 'GET' || method === 'HEAD') return
  const ownPage = site === 'same-origin' || (site === undefined && origin === door.origin)
  if (!ownPage || asked === undefined)
    throw new NotPermitted('A change made with the session cookie must come from our own pages, with the header bursar-csrf.')
}

/** Refuses callers of the wrong kind and callers without a scope. Nothing is open unless its operation says so. */
export const authorize = (access: Access, actor: Actor, wall: Date): void => {
  if (access.kind === 'open') return
  if (actor.kind === 'anonymous') throw unauthorized()
  if (access.kind === 'portal') throw unauthorized('The customer portal takes customer sessions only.')
  if (access.kind === 'session') {
    if (actor.kind !== 'user' || actor.via !== 'session') throw new NotPermitted('Tokens cannot do this: sign in with your browser.')
    if (access.fresh && wall.getTime() - actor.credential_created_at.getTime() > 1 * hours) throw new SessionNotFreshError()
  } else {
    const accepted = actor.kind === 'organization' ? access.credentials.includes('oat') : actor.via === 'session' || access.credentials.includes('pat')
    if (!accepted) throw unauthorized('This operation acts for a person: an organization token is not accepted.')
  }
  if (!access.scopes.some((scope) => actor.scopes.has(scope)))
    throw new BearerRefusal(403, 'insufficient_scope', `This operation needs one of the scopes: ${access.scopes.join(', ')}.`, access.scopes)
}
