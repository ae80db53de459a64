import type { z } from 'zod'

/** A refusal that a caller can act on: the name is stable, the status fixed, the detail says what is wrong and what would be right. */
export class Failure extends Error {
  readonly error: string
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** What is told beside the error and the detail, as its kind declares it. */
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
  /** What it is called where it is described; its wire name unless said otherwise. */
  readonly schema?: string
  readonly more?: z.ZodObject
}

const known = new Map<string, FailureKind>()

/** Declares a failure by its wire name, status and default text. Listing it on an operation documents it; throwing it answers it. */
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

/** The same failure where some callers are told more than its name and text: the fields, each of which may be absent. */
export const telling = (kind: FailureKind, schema: string, more: z.ZodObject): FailureKind =>
  class extends kind {
    static override readonly schema = schema
    static override readonly more = more
  }

/** One thing wrong with a request: where, what, what was received. */
export interface Invalid {
  loc: (string | number)[]
  msg: string
  type: string
  input?: unknown
  ctx?: Record<string, unknown>
}

/** A value that a rule refuses: where it stands, why, and what came. */
export const invalidAt = (loc: (string | number)[], msg: string, input?: unknown): Invalid => ({
  loc,
  msg,
  type: 'value_error',
  ...(input === undefined ? {} : { input }),
})

/** Input that no retry can mend. Every problem of the request is reported together. */
export class InvalidRequest extends Error {
  readonly problems: readonly Invalid[]

  constructor(problems: Invalid | readonly Invalid[]) {
    super('The request is not valid.')
    this.problems = Array.isArray(problems) ? (problems as readonly Invalid[]) : [problems as Invalid]
  }
}

export const NotPermitted = failure('NotPermitted', 403, 'Not permitted')
export const ResourceNotFound = failure('ResourceNotFound', 404, 'Not found')

// What the pipeline itself may answer, whatever the operation.
export const BadRequest = failure('BadRequest', 400, 'The request could not be read.')
export const Unauthorized = failure('Unauthorized', 401, 'Send a credential: Authorization: Bearer <token>.')
export const SessionNotFreshError = failure('SessionNotFreshError', 403, 'Sign in again to do this: your sign-in is more than an hour old.')
export const UnknownVersion = failure('UnknownVersion', 404, 'This version of the API is not served.')
export const RouteNotFound = failure('RouteNotFound', 404, 'There is nothing at this address.')
export const MethodNotAllowed = failure('MethodNotAllowed', 405, 'This address does not answer to this method.')
export const RequestInFlight = failure(
  'RequestInFlight',
  409,
  'A request with this idempotency key is under way. Wait as many seconds as retry-after says, and send it again.',
)
export const AnswerSealed = failure('AnswerSealed', 409, 'This was done, and its answer holds a secret that only the credential which asked first can see.')
export const AnswerForgotten = failure('AnswerForgotten', 409, 'This was done, and its answer is gone: it spoke of somebody who was forgotten since.')
export const RequestBodyTooLarge = failure('RequestBodyTooLarge', 413, 'The body is larger than this operation accepts.')
export const UnsupportedMediaType = failure('UnsupportedMediaType', 415, 'Send the body as application/json.')
export const TooManyRequests = failure('TooManyRequests', 429, 'The rate budget is spent: wait as many seconds as retry-after says.')
export const InternalServerError = failure(
  'InternalServerError',
  500,
  'Something went wrong on our side. Quote the x-request-id of this answer when you report it.',
)
export const ServiceUnavailable = failure('ServiceUnavailable', 503, 'The service is busy or restarting. Try again shortly.')
