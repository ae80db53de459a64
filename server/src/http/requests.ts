import { InvalidRequest, type Operation } from '@bursar/contract'
import type { FastifyRequest } from 'fastify'
import type { Actor } from '../kernel/actors.ts'
import { chargedTo } from './budget.ts'

/** Headers of operations that pages of any site may call. */
export const anyOrigin = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers':
    'x-request-id, bursar-version, polar-version, retry-after, ratelimit, ratelimit-policy, idempotent-replayed, bursar-member-phase, bursar-ignored',
}

/** Returns the resource id in the path of the request. */
export const namedBy = (params: unknown): string | undefined => {
  const { seat_id, grant_id, id = seat_id ?? grant_id } = (params ?? {}) as { id?: unknown; seat_id?: unknown; grant_id?: unknown }
  return typeof id === 'string' && uuid.test(id) ? id : undefined
}

/** Returns the headers that name the API version of the response, under both header names. */
export const versionHeaders = (version: string) => ({ 'bursar-version': version, 'polar-version': version })

/**
 * True for operations that pages of any site may call. They ignore cookies, so that a foreign page cannot use the
 * session of its visitor.
 */
export const isShared = ({ access }: Operation) => access.kind === 'portal' || (access.kind === 'open' && access.anyOrigin)

/** Returns the path of an operation in the router's notation. */
export const route = (operation: Operation) => operation.path.replace(/\{([^{}]+)\}/g, ':$1').replace(/\/$/, '')

/** Returns the raw query string. */
export const queryOf = ({ raw: { url = '' } }: FastifyRequest): string => (url.includes('?') ? url.slice(url.indexOf('?') + 1) : '')

/** Returns the headers of a request that are needed for authentication and for the protection against cross-site request forgery. */
export const presentedBy = (request: FastifyRequest) => {
  const { rawHeaders } = request.raw
  const authorization = rawHeaders.flatMap((name, at) => (at % 2 === 0 && name.toLowerCase() === 'authorization' ? [rawHeaders[at + 1]!] : []))
  const single = (name: string) => (typeof request.headers[name] === 'string' ? request.headers[name] : undefined)
  return {
    authorization,
    cookie: request.headers.cookie,
    method: request.method,
    origin: request.headers.origin,
    site: single('sec-fetch-site'),
    asked: single('bursar-csrf'),
    organization: narrowedTo(request),
  }
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/**
 * Returns the organization that the request names in a header to limit its scope. If the caller does not belong to that
 * organization, the request can access nothing.
 */
export const narrowedTo = (request: FastifyRequest): string | undefined => {
  for (const name of ['bursar-organization', 'polar-organization']) {
    const value = request.headers[name]
    if (value === undefined) continue
    if (typeof value === 'string' && uuid.test(value)) return value.toLowerCase()
    throw new InvalidRequest({ loc: ['header', name], msg: 'Expected the id of one organization, a UUID.', type: 'uuid_parsing', input: value })
  }
  return undefined
}

/**
 * Returns whose rate limit a request is charged to. The organization is read from the header, else from the path of an
 * organization's operation, else from the query. An `organization_id` in the body is not used, because the budget is
 * charged before the body is read.
 */
export const payerOf = (actor: Actor, { path }: Operation, request: FastifyRequest): string => {
  const inPath = path.startsWith('/v1/organizations/{id}') ? (request.params as { id?: unknown }).id : undefined
  const [asked, another] = [inPath ?? (request.query as { organization_id?: unknown }).organization_id ?? []].flat()
  const named = typeof asked === 'string' && another === undefined ? asked.toLowerCase() : undefined
  return chargedTo(actor, request.ip, narrowedTo(request) ?? named)
}

/**
 * True if the request asks for a preview of phase 2 of the member migration. Such a request is rejected if it changes
 * data, because changes always apply to the current phase.
 */
export const looksAhead = (request: FastifyRequest): boolean => {
  const name = 'bursar-member-phase'
  const value = request.headers[name]
  if (value === undefined) return false
  if (value !== '2')
    throw new InvalidRequest({
      loc: ['header', name],
      msg: 'Expected 2, the phase to preview. To get the current phase, leave the header out.',
      type: 'literal_error',
      input: value,
    })
  if (request.method === 'GET') return true
  throw new InvalidRequest({
    loc: ['header', name],
    msg: 'Only GET requests can preview a phase. Leave the header out to make a change.',
    type: 'value_error',
    input: value,
  })
}
