import type { z } from 'zod'

/** An error that the caller can act on. The name and status are stable. The detail says what is wrong and what is allowed. */
export class Failure extends Error {
  readonly error: string
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Additional fields beside `error` and `detail`, as the failure kind declares them. */
  readonly more: Readonly<Record<string, unknown>>

  constructor(error: string, status: number, detail: string, headers: Readonly<Record<string, string>> = {}, more: Readonly<Record<string, unknown>> = {}) {
    super(detail)
    this.error = error
    this.status = status
    this.headers = headers
    this.more = more
  }
}

export interface FailureKind {
  new (detail?: string, headers?: Readonly<Record<string, string>>, more?: Readonly<Record<string, unknown>>): Failure
  readonly error: string
  readonly status: number
  readonly detail: string
  /** Name of the OpenAPI schema. Defaults to the wire name. */
  readonly schema?: string
  readonly more?: z.ZodObject
}

const known = new Map<string, FailureKind>()

/**
 * Declares a failure by its wire name, status and default text. An operation lists the failures that it can return, and
 * its handler throws them.
 */
export const failure = (error: string, status: number, detail: string): FailureKind => {
  if (known.has(error)) throw new Error(`failure ${error} is declared twice`)
  const kind = class extends Failure {
    static readonly error = error
    static readonly status = status
    static readonly detail = detail
    constructor(text: string = detail, headers: Readonly<Record<string, string>> = {}, more: Readonly<Record<string, unknown>> = {}) {
      super(error, status, text, headers, more)
    }
  }
  known.set(error, kind)
  return kind
}

/** Extends a failure with additional optional fields for its response. Only some callers receive these fields. */
export const telling = (kind: FailureKind, schema: string, more: z.ZodObject): FailureKind =>
  class extends kind {
    static override readonly schema = schema
    static override readonly more = more
  }

/** One validation error of a request: the location, the message and the received value. */
export interface Invalid {
  loc: (string | number)[]
  msg: string
  type: string
  input?: unknown
  ctx?: Record<string, unknown>
}

/** Builds a validation error for a value that violates a rule. */
export const invalidAt = (loc: (string | number)[], msg: string, input?: unknown): Invalid => ({
  loc,
  msg,
  type: 'value_error',
  ...(input === undefined ? {} : { input }),
})

/** A validation failure of a request. Retrying it unchanged cannot succeed. The errors of the request are reported together. */
export class InvalidRequest extends Error {
  readonly problems: readonly Invalid[]
  /** Number of further errors that were found and are not in the list. */
  readonly leftOut: number

  constructor(problems: Invalid | readonly Invalid[], leftOut = 0) {
    super('The request is not valid.')
    this.problems = Array.isArray(problems) ? (problems as readonly Invalid[]) : [problems as Invalid]
    this.leftOut = leftOut
  }
}

export const NotPermitted = failure('NotPermitted', 403, 'Not permitted')
export const ResourceNotFound = failure('ResourceNotFound', 404, 'Not found')

// Failures that the request pipeline itself may answer, for any operation.
export const BadRequest = failure('BadRequest', 400, 'The request could not be read.')
export const Unauthorized = failure('Unauthorized', 401, 'Send a credential: Authorization: Bearer <token>.')
export const SessionNotFreshError = failure('SessionNotFreshError', 403, 'Sign in again to do this: your sign-in is more than an hour old.')
export const UnknownVersion = failure('UnknownVersion', 404, 'This API version is not supported.')
export const RouteNotFound = failure('RouteNotFound', 404, 'There is nothing at this path.')
export const MethodNotAllowed = failure('MethodNotAllowed', 405, 'This path does not support this method.')
export const RequestInFlight = failure(
  'RequestInFlight',
  409,
  'A request with this idempotency key is in progress. Wait for the seconds in retry-after, then send it again.',
)
export const AnswerSealed = failure(
  'AnswerSealed',
  409,
  'The request already succeeded. Its answer contains a secret, which only the credential of the first request can read.',
)
export const AnswerForgotten = failure(
  'AnswerForgotten',
  409,
  'The request already succeeded. Its answer was deleted, because it contained data of a person who has since been erased.',
)
export const RequestBodyTooLarge = failure('RequestBodyTooLarge', 413, 'The body is larger than this operation accepts.')
export const UnsupportedMediaType = failure('UnsupportedMediaType', 415, 'Send the body as application/json.')
export const HostNotAllowed = failure('HostNotAllowed', 421, 'This server does not serve the host in this request.')
export const TooManyRequests = failure('TooManyRequests', 429, 'The rate limit is exceeded. Wait for the seconds in retry-after.')
export const InternalServerError = failure('InternalServerError', 500, 'An internal error occurred. Quote the x-request-id of this answer when you report it.')
export const ServiceUnavailable = failure('ServiceUnavailable', 503, 'The service is busy or restarting. Try again shortly.')
