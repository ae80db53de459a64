import { BadRequest, HostNotAllowed, MethodNotAllowed, RouteNotFound, TooManyRequests, successStatus, type Operation } from '@bursar/contract'
import { checkAnswer } from '../../harness/contract.ts'
import { findOperation } from '../../harness/world.ts'
import type { Answer, Attempt } from './wire.ts'

/** Size that the body of a refusal must not exceed. */
export const largestRefusal = 64 * 1024
/** CPU time that one request may take, in milliseconds. */
const longestCpu = 50
/** Bytes of about 500 small elements. An operation that reads its body in slices yields to other requests after each slice. */
const sliceBytes = 32 * 1024

/** Returns the CPU time that a request may take, in milliseconds. An operation with slices may take this time for each slice. */
export const allowedCpu = ({ slices }: Operation, { body }: Attempt): number =>
  slices === undefined ? longestCpu : longestCpu * (1 + Math.floor((body?.length ?? 0) / sliceBytes))

/** Failures of a request that reaches no operation. */
const unrouted = [RouteNotFound, MethodNotAllowed, BadRequest, HostNotAllowed, TooManyRequests]

export const isSuccess = (operation: Operation, { status }: Answer): boolean => status === successStatus(operation) || (status >= 200 && status < 300)

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Explains why an answer is not declared. Returns undefined if it is. */
export const undeclared = (attempt: Attempt, answer: Answer): string | undefined => {
  const { status, headers, text } = answer
  if (attempt.method === 'HEAD' || (attempt.method === 'OPTIONS' && status === 204)) return text === '' ? undefined : 'a body where none is allowed'
  const isJson = (headers.get('content-type') ?? '').includes('json')
  const body = isJson && text !== '' ? parsed(text) : text
  if (body === undefined) return 'a body that is not JSON'
  // RFC 9112: a server accepts the absolute form of an address too.
  const path = attempt.path.replace(/^http:\/\/[^/]*/, '')
  // OpenID Connect allows POST for the user info too.
  const method = attempt.method === 'POST' && /^\/v1\/oauth2\/userinfo\b/.test(path) ? 'GET' : attempt.method
  const operation = findOperation(method, path)
  if (operation) {
    try {
      checkAnswer(operation, { status, headers, body })
      return undefined
    } catch (error) {
      return (error as Error).message.slice(0, 600)
    }
  }
  if (!isJson) return status === 404 || status < 400 ? undefined : `status ${status} with a body that is not JSON`
  const { error, detail } = (body ?? {}) as { error?: unknown; detail?: unknown }
  if (typeof detail !== 'string' && status !== 422) return 'a failure without a detail'
  return unrouted.some((kind) => kind.status === status && kind.error === error) || status === 431 || (status === 422 && error === 'RequestValidationError')
    ? undefined
    : `${status} ${String(error)} where no operation is`
}
