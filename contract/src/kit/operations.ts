import type { z } from 'zod'
import type { Access } from './access.ts'
import {
  BadRequest,
  HostNotAllowed,
  InternalServerError,
  NotPermitted,
  AnswerForgotten,
  AnswerSealed,
  RequestBodyTooLarge,
  RequestInFlight,
  ServiceUnavailable,
  SessionNotFreshError,
  TooManyRequests,
  Unauthorized,
  UnknownVersion,
  UnsupportedMediaType,
  type FailureKind,
} from './failures.ts'
import type { BudgetName } from './limits.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/**
 * The shared resources that a call can use up, so that other tenants wait. `mail`: sends a mail. `money`: calls the
 * payment processor. `jobs`: adds a background job, or makes a row due for a worker. `polls`: keeps the request open
 * until there is news. `storage`: stores a file or a document.
 */
export const costKinds = ['mail', 'money', 'jobs', 'polls', 'storage'] as const
export type Cost = (typeof costKinds)[number]

/** The declaration of an API operation: method and path, access rule, input, output and failures. */
export interface Operation<
  Params extends z.ZodType = z.ZodType,
  Query extends z.ZodType = z.ZodType,
  Body extends z.ZodType = z.ZodType,
  Returns extends z.ZodType = z.ZodType,
> {
  readonly id: string
  readonly method: Method
  readonly path: `/${string}`
  readonly summary: string
  readonly description?: string
  readonly access: Access
  /**
   * The costs of a successful call for other tenants, at once or through a job that it adds. Every operation must declare it.
   * `pnpm matrix` compares it with the running server, and `pnpm abuse` attacks with the operations of each kind.
   */
  readonly costs: 'none' | Cost | readonly [Cost, Cost, ...Cost[]]
  readonly params?: Params
  readonly query?: Query
  readonly body?: Body
  /** Schema of the success response. The default status is 200. Without `returns` the response has no body. Status 302 redirects. */
  readonly returns?: Returns
  readonly status?: 200 | 201 | 202 | 204 | 302
  /** Status of a response whose result is not ready yet. The response has no body, and the client polls again. */
  readonly pending?: 202
  /** Media type of the response if it is not JSON. */
  readonly media?: 'text/csv' | 'text/event-stream'
  /** An additional success status for the OpenAPI document, because existing clients expect it. The server never sends it. */
  readonly alsoDeclares?: 200
  /** True if the request body is a form (application/x-www-form-urlencoded) instead of JSON. */
  readonly form?: boolean
  readonly fails: readonly FailureKind[]
  /** The rate limit that a call is charged to. Defaults to `api`. */
  readonly budget?: BudgetName
  /** Days for which a retry with the same idempotency key is recognised. Defaults to 1; 30 for operations that move money. */
  readonly keptDays?: number
  /** True if the response contains a secret that is shown once. */
  readonly reveals?: boolean
  /** True if buyers open the address in a browser. Errors are then pages if the client prefers HTML, and HEAD works. */
  readonly browser?: true
  /** Maximum size of the request body in bytes. Defaults to 1 MiB. */
  readonly bodyLimit?: number
  /**
   * The name of a list in the body that may be very long. The server reads and validates it in slices, and answers other
   * requests in between. The limit for the number of elements of a list does not apply to it.
   */
  readonly slices?: string
}

/** Declares an operation. Exporting it from its resource's file is enough to route, document and test it. */
export const operation = <
  const Id extends string,
  Params extends z.ZodType = z.ZodUndefined,
  Query extends z.ZodType = z.ZodUndefined,
  Body extends z.ZodType = z.ZodUndefined,
  Returns extends z.ZodType = z.ZodUndefined,
  const A extends Access = Access,
>(
  declared: Omit<Operation<Params, Query, Body, Returns>, 'id' | 'access'> & { readonly id: Id; readonly access: A },
) => declared

type Part<O, K extends 'params' | 'query' | 'body' | 'returns'> = O extends { readonly [key in K]?: infer S }
  ? NonNullable<S> extends z.ZodType
    ? NonNullable<S>
    : z.ZodUndefined
  : z.ZodUndefined

/** True if an operation declares this part of a request. */
export type Takes<O, K extends 'params' | 'query' | 'body'> = Part<O, K> extends z.ZodUndefined ? false : true

/** The parsed input that a handler receives. */
export type Parsed<O, K extends 'params' | 'query' | 'body'> = z.output<Part<O, K>>
/** The value that a handler returns before encoding. Void if the operation declares no body. */
export type Answer<O> = Part<O, 'returns'> extends z.ZodUndefined ? void : z.output<Part<O, 'returns'>>
/** The input that a caller may send. */
export type Sent<O, K extends 'params' | 'query' | 'body'> = z.input<Part<O, K>>
/** The response body that a caller receives. */
export type Received<O> = z.input<Part<O, 'returns'>>

/** Lists what an operation costs others. */
export const costsOf = ({ costs }: Pick<Operation, 'costs'>): readonly Cost[] => (costs === 'none' ? [] : typeof costs === 'string' ? [costs] : costs)

export const successStatus = (operation: Pick<Operation, 'status' | 'returns'>): number => operation.status ?? (operation.returns ? 200 : 204)

/** Lists every failure that an operation may answer: its own, and those of the pipeline stages that it passes through. */
export const failuresOf = (operation: Pick<Operation, 'access' | 'method' | 'fails' | 'reveals'>): readonly FailureKind[] => {
  const { access, method, fails, reveals } = operation
  if (access.kind === 'protocol')
    return [
      ...new Set([
        ...fails,
        BadRequest,
        UnknownVersion,
        ...(method === 'GET' ? [] : [UnsupportedMediaType]),
        TooManyRequests,
        HostNotAllowed,
        InternalServerError,
        ServiceUnavailable,
      ]),
    ]
  const unguarded = access.kind === 'open' || access.kind === 'visitor'
  const guarded =
    access.kind === 'open' || access.kind === 'visitor'
      ? access.kind === 'visitor' && method !== 'GET'
        ? [NotPermitted]
        : []
      : [
          Unauthorized,
          ...(access.kind === 'session' || method !== 'GET' ? [NotPermitted] : []),
          ...(access.kind === 'session' && access.fresh ? [SessionNotFreshError] : []),
        ]
  const repeatable = !unguarded && method !== 'GET' ? [RequestInFlight, AnswerForgotten, ...(reveals ? [AnswerSealed] : [])] : []
  // The server reads the body of every request except GET, also if the operation does not use it.
  const carrying = method === 'GET' ? [] : [RequestBodyTooLarge, UnsupportedMediaType]
  return [
    ...new Set([
      ...fails,
      ...guarded,
      ...repeatable,
      ...carrying,
      BadRequest,
      UnknownVersion,
      TooManyRequests,
      HostNotAllowed,
      InternalServerError,
      ServiceUnavailable,
    ]),
  ]
}
