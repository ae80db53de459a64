import { Failure, InvalidRequest } from '@bursar/contract'

/** A refusal about the credential itself, in the words of RFC 6750. */
export class BearerRefusal extends Error {
  readonly status: 401 | 403
  readonly body: Record<string, string>
  readonly challenge: string

  constructor(status: 401 | 403, error: 'invalid_token' | 'insufficient_scope', description: string, scopes: readonly string[] = []) {
    super(description)
    this.status = status
    this.body = { error, error_description: description }
    const scope = scopes.length > 0 ? `, scope="${scopes.join(' ')}"` : ''
    this.challenge = `Bearer realm="bursar"${scope}, error="${error}", error_description="${description.replace(/["\\]/g, "'")}"`
  }
}

export const unauthorized = (detail = 'Send a credential: Authorization: Bearer <token>.') =>
  new Failure('Unauthorized', 401, detail, { 'www-authenticate': 'Bearer realm="bursar"' })

export interface FailedAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
  /** Ours to mend, so worth a line in the log. */
  readonly fault: boolean
}

/** The one place where anything that was thrown becomes an answer. What nobody foresaw is a constant 500. */
export const answerFailure = (error: unknown): FailedAnswer => {
  if (error instanceof Failure) return { status: error.status, headers: error.headers, body: { error: error.error, detail: error.message }, fault: false }
  if (error instanceof InvalidRequest) return { status: 422, headers: {}, body: { error: 'RequestValidationError', detail: error.problems }, fault: false }
  if (error instanceof BearerRefusal) return { status: error.status, headers: { 'www-authenticate': error.challenge }, body: error.body, fault: false }
  const { code = '', statusCode = 500 } = error as { code?: string; statusCode?: number }
  const framework = frameworkFailures[code]
  if (framework) return { status: framework.status, headers: {}, body: { error: framework.error, detail: framework.detail }, fault: false }
  if (code.startsWith('FST_') && statusCode < 500)
    return { status: statusCode, headers: {}, body: { error: 'BadRequest', detail: 'The request could not be read.' }, fault: false }
  if (isAway(error, code))
    return {
      status: 503,
      headers: { 'retry-after': '1' },
      body: { error: 'ServiceUnavailable', detail: 'The service is busy or restarting. Nothing was changed; try again shortly.' },
      fault: true,
    }
  return {
    status: 500,
    headers: {},
    body: { error: 'InternalServerError', detail: 'Something went wrong on our side. Quote the x-request-id of this answer when you report it.' },
    fault: true,
  }
}

const frameworkFailures: Record<string, { status: number; error: string; detail: string } | undefined> = {
  FST_ERR_CTP_BODY_TOO_LARGE: { status: 413, error: 'RequestBodyTooLarge', detail: 'The body is larger than this operation accepts.' },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: { status: 415, error: 'UnsupportedMediaType', detail: 'Send the body as application/json.' },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: { status: 400, error: 'BadRequest', detail: 'The body is not as long as content-length says.' },
  FST_ERR_BAD_URL: { status: 400, error: 'BadRequest', detail: 'The address contains an escape that cannot be decoded.' },
}

/** The database is unreachable, overloaded, or gave up waiting: nothing was changed, and a retry may succeed. */
const isAway = (error: unknown, code: string) =>
  (error as { severity?: string }).severity === 'FATAL' ||
  ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', '57P01', '57P02', '57P03', '57014', '55P03', '53300', '53200', '08006', '08001'].includes(code) ||
  (error instanceof Error && /timeout exceeded when trying to connect|Connection terminated/.test(error.message))
