import type { z } from 'zod'
import type { Access } from './access.ts'
import {
  BadRequest,
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

/** The rate budgets: who is charged and how much each holds is the server's table. */
export type BudgetName = 'api' | 'license_keys' | 'sign_in' | 'registration' | 'checkout_confirm' | 'checkout_link'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** A promise to callers: one method and path, who may call, what goes in, what comes out, what may be refused. */
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
  readonly params?: Params
  readonly query?: Query
  readonly body?: Body
  /** Success: 200 with a body, unless said otherwise. Without `returns` the answer has no body; 302 sends on to another address. */
  readonly returns?: Returns
  readonly status?: 200 | 201 | 202 | 204 | 302
  /** Success, but not there yet: answered without a body, and asked for again. */
  readonly pending?: 202
  /** What the answer is, where it is not JSON. */
  readonly media?: 'text/csv'
  /** A success that clients may expect besides; it is documented and never answered. */
  readonly alsoDeclares?: 200
  /** The body comes as a form (application/x-www-form-urlencoded) instead of JSON. */
  readonly form?: boolean
  readonly fails: readonly FailureKind[]
  /** Which rate budget a call is charged to; `api` unless said otherwise. */
  readonly budget?: BudgetName
  /** For how many days a repetition under the same idempotency key is recognised: 1 unless said otherwise, 30 where money moves. */
  readonly keptDays?: number
  /** The answer holds a secret that is shown once. */
  readonly reveals?: boolean
  /** Bytes of request body that are read before the request is refused; 1 MiB unless said otherwise. */
  readonly bodyLimit?: number
}

/** Declares an operation. Exporting it from its resource's file is all it takes to be routed, documented and tested. */
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

/** Whether an operation declares this part of a request. */
export type Takes<O, K extends 'params' | 'query' | 'body'> = Part<O, K> extends z.ZodUndefined ? false : true

/** What a handler receives after parsing. */
export type Parsed<O, K extends 'params' | 'query' | 'body'> = z.output<Part<O, K>>
/** What a handler answers, before encoding: nothing, where no body is declared. */
export type Answer<O> = Part<O, 'returns'> extends z.ZodUndefined ? void : z.output<Part<O, 'returns'>>
/** What a caller may send. */
export type Sent<O, K extends 'params' | 'query' | 'body'> = z.input<Part<O, K>>
/** What a caller receives. */
export type Received<O> = z.input<Part<O, 'returns'>>

export const successStatus = (operation: Pick<Operation, 'status' | 'returns'>): number => operation.status ?? (operation.returns ? 200 : 204)

/** Every failure that an operation may answer: its own, and those of the stages that its declaration sends it through. */
export const failuresOf = (operation: Pick<Operation, 'access' | 'method' | 'body' | 'fails' | 'reveals'>): readonly FailureKind[] => {
  const { access, method, body, fails, reveals } = operation
  if (access.kind === 'protocol') return [...new Set([...fails, BadRequest, UnknownVersion, TooManyRequests, InternalServerError, ServiceUnavailable])]
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
  const carrying = body ? [RequestBodyTooLarge, UnsupportedMediaType] : []
  return [...new Set([...fails, ...guarded, ...repeatable, ...carrying, BadRequest, UnknownVersion, TooManyRequests, InternalServerError, ServiceUnavailable])]
}
