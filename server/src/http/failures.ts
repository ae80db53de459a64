import {
  BadRequest,
  Failure,
  InternalServerError,
  InvalidRequest,
  RequestBodyTooLarge,
  ServiceUnavailable,
  Unauthorized,
  UnsupportedMediaType,
} from '@bursar/contract'
import { Refused } from '@bursar/contract/client'
import { ProcessorSilent } from '../gateways/payments/payments.ts'
import { StorageRefusal, StorageSilent } from '../gateways/storage/storage.ts'
import { isUnavailable } from '../platform/postgres/postgres.ts'

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

export const unauthorized = (detail?: string) => new Unauthorized(detail, { 'www-authenticate': 'Bearer realm="bursar"' })

export interface FailedAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
  /** Ours to mend, so worth a line in the log. */
  readonly fault: boolean
}

/** The one place where anything that was thrown becomes an answer. What nobody foresaw is a constant 500. */
export const answerFailure = (error: unknown): FailedAnswer => {
  if (error instanceof Failure) return answer(error)
  if (error instanceof InvalidRequest) return { status: 422, headers: {}, body: { error: 'RequestValidationError', detail: error.problems }, fault: false }
  if (error instanceof BearerRefusal) return { status: error.status, headers: { 'www-authenticate': error.challenge }, body: error.body, fault: false }
  // A page that asked the API, and was refused what it did not foresee.
  if (error instanceof Refused) return passedOn(error)
  const { code = '', statusCode = 500 } = error as { code?: string; statusCode?: number }
  const unreadable = framework[code] ?? (code.startsWith('FST_') && statusCode < 500 ? new BadRequest() : undefined)
  if (unreadable) return answer(unreadable)
  return { ...answer(faultOf(error)), fault: true }
}

const passedOn = ({ reply: { status, body, headers } }: Refused): FailedAnswer => {
  const wait = headers.get('retry-after')
  return { status, headers: wait === null ? {} : { 'retry-after': wait }, body, fault: false }
}

const faultOf = (error: unknown): Failure => {
  if (isUnavailable(error)) return new ServiceUnavailable(undefined, { 'retry-after': '1' })
  if (error instanceof ProcessorSilent) return new ServiceUnavailable('The payment processor does not answer. Try again shortly.', { 'retry-after': '5' })
  if (error instanceof StorageSilent) return new ServiceUnavailable('The storage of files does not answer. Try again shortly.', { 'retry-after': '5' })
  if (error instanceof StorageRefusal && error.code === 'misconfigured')
    return new ServiceUnavailable('Files cannot be kept here now: whoever runs this deployment has to set up its storage, and finds why in its log.')
  return new InternalServerError()
}

const answer = (failure: Failure): FailedAnswer => ({
  status: failure.status,
  headers: failure.headers,
  body: { error: failure.error, detail: failure.message, ...failure.more },
  fault: false,
})

/** What the framework refuses before we see it, in our words. */
const framework: Record<string, Failure | undefined> = {
  FST_ERR_CTP_BODY_TOO_LARGE: new RequestBodyTooLarge(),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: new UnsupportedMediaType(),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: new BadRequest('The body is not as long as content-length says.'),
  FST_ERR_BAD_URL: new BadRequest('The address contains an escape that cannot be decoded.'),
}
