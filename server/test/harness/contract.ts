import { isDeepStrictEqual } from 'node:util'
import { failuresOf, MethodNotAllowed, successStatus, type Operation } from '@bursar/contract'
import { z } from 'zod'

const ValidationBody = z.strictObject({
  error: z.literal('RequestValidationError'),
  detail: z
    .array(
      z.strictObject({
        loc: z.array(z.union([z.string(), z.int()])).min(1),
        msg: z.string().min(1),
        type: z.string().min(1),
        input: z.unknown().optional(),
        ctx: z.record(z.string(), z.unknown()).optional(),
      }),
    )
    .min(1)
    .max(50),
  left_out: z.int().min(1).optional(),
})
const ServiceBody = z.strictObject({ error: z.string().min(1), detail: z.string().min(1) })
const ProtocolBody = z.object({ error: z.string().min(1), error_description: z.string().optional(), state: z.string().optional() })
const BearerBody = z.strictObject({ error: z.enum(['invalid_token', 'insufficient_scope']), detail: z.string().min(1), error_description: z.string().min(1) })

/** Throws unless the contract allows the answer: a declared status and exactly the declared body. */
export const checkAnswer = (operation: Operation, answer: { status: number; headers: Headers; body: unknown }): void => {
  const { status, body, headers } = answer
  const where = `${operation.id} answered ${status}`
  const want = (condition: boolean, what: string) => {
    if (!condition) throw new Error(`${where}: ${what}\n${JSON.stringify(body, null, 1)}`)
  }
  want(/^[0-9a-f-]{36}$/.test(headers.get('x-request-id') ?? ''), 'without x-request-id')
  if ((body as { error?: unknown }).error === 'TooManyRequests') {
    want(/^[1-9]\d*$/.test(headers.get('retry-after') ?? ''), 'without seconds in retry-after')
    want(headers.has('ratelimit') && headers.has('ratelimit-policy'), 'without the headers of the rate limit')
  }
  if (operation.access.kind === 'protocol') {
    // RFC 7662: an inactive token is answered with `active: false` alone.
    if (operation.id === 'oauth2:introspect_token' && isDeepStrictEqual(body, { active: false })) return
    if (status === 204 || status === 405) return
    if (operation.id === 'oauth2:userinfo' && (status === 401 || status === 403))
      return want(BearerBody.loose().safeParse(body).success, 'with a body that is no bearer refusal')
    if (status === 400 || status === 401) return want(ProtocolBody.safeParse(body).success, 'with a body that is no OAuth error')
  }
  if (status === successStatus(operation)) {
    if (!operation.returns) return want(body === '', 'with a body where none is declared')
    const parsed = operation.returns.safeParse(body)
    want(parsed.success, `with a body that breaks the contract: ${parsed.error?.message}`)
    return want(isDeepStrictEqual(z.encode(operation.returns, parsed.data), body), 'with fields that are not declared')
  }
  if (status === operation.pending) return want(body === '' && headers.has('retry-after'), 'with more than that it is not there yet')
  want(status >= 400, 'a success that is not declared')
  if (operation.browser && (headers.get('content-type') ?? '').startsWith('text/html')) return
  const invalid = ValidationBody.safeParse(body).success
  // A few operations also declare failures with status 422. Those are checked like other failures.
  if (status === 422 && (invalid || !operation.fails.some((kind) => kind.status === 422))) return want(invalid, 'with a body that is no validation error')
  const guarded = !['open', 'visitor', 'protocol'].includes(operation.access.kind) && (status === 401 || status === 403)
  if (guarded && BearerBody.safeParse(body).success) return want(headers.has('www-authenticate'), 'without www-authenticate')
  want(ServiceBody.loose().safeParse(body).success, 'with a body that is no service error')
  const { error } = body as { error: string }
  // These two statuses are sent before the operation is looked up, because the server could not parse the request as HTTP.
  if (error === 'BadRequest' && (status === 408 || status === 431)) return want(ServiceBody.safeParse(body).success, 'with more than its failure declares')
  const declared = [...failuresOf(operation), MethodNotAllowed].filter((kind) => kind.status === status && kind.error === error)
  want(declared.length > 0, 'with a failure that is not declared')
  want(
    declared.some(({ more }) => ServiceBody.extend(more?.shape ?? {}).safeParse(body).success),
    'with more than its failure declares',
  )
}
