import {
  BadRequest,
  Failure,
  InternalServerError,
  InvalidRequest,
  RequestBodyTooLarge,
  requestLimits,
  ServiceUnavailable,
  Unauthorized,
  UnsupportedMediaType,
  type Invalid,
} from '@bursar/contract'
import { Refused } from '@bursar/contract/client'
import { ProcessorSilent } from '../gateways/payments/payments.ts'
import { StorageRefusal, StorageSilent } from '../gateways/storage/storage.ts'
import { TaxUnavailable } from '../gateways/tax/tax.ts'
import { isUnavailable } from '../platform/postgres/outage.ts'

/**
 * An error about the credential itself. Its response has `error_description` besides `error` and `detail`, for clients
 * that follow RFC 6750.
 */
export class BearerRefusal extends Error {
  readonly status: 401 | 403
  readonly body: Record<string, string>
  readonly challenge: string

  constructor(status: 401 | 403, error: 'invalid_token' | 'insufficient_scope', description: string, scopes: readonly string[] = []) {
    super(description)
    this.status = status
    this.body = { error, detail: description, error_description: description }
    const scope = scopes.length > 0 ? `, scope="${scopes.join(' ')}"` : ''
    this.challenge = `Bearer realm="bursar"${scope}, error="${error}", error_description="${description.replace(/["\\]/g, "'")}"`
  }
}

export const unauthorized = (detail?: string) => new Unauthorized(detail, { 'www-authenticate': 'Bearer realm="bursar"' })

export interface FailedAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
  /** True if the server caused the error. Such an error is logged. */
  readonly fault: boolean
}

/** Maps every thrown error to a response. An unexpected error becomes a 500 whose text is always the same. */
export const answerFailure = (error: unknown): FailedAnswer => {
  if (error instanceof Failure) return answer(error)
  if (error instanceof InvalidRequest) return { status: 422, headers: {}, body: { error: 'RequestValidationError', ...reportOf(error) }, fault: false }
  if (error instanceof BearerRefusal) return { status: error.status, headers: { 'www-authenticate': error.challenge }, body: error.body, fault: false }
  // A page of ours called the API and received an error that the page does not handle.
  if (error instanceof Refused) return passedOn(error)
  const { code = '', statusCode = 500 } = error as { code?: string; statusCode?: number }
  const unreadable = framework[code] ?? (code.startsWith('FST_') && statusCode < 500 ? new BadRequest() : undefined)
  if (unreadable) return answer(unreadable)
  return { ...answer(faultOf(error)), fault: true }
}

/** Maximum size of the reported problems, in characters of JSON. A character has up to three bytes. */
const reportSize = 20_000

/** Returns the first problems of a request, limited in number and size, and how many more were found. */
const reportOf = ({ problems, leftOut }: InvalidRequest): { detail: Invalid[]; left_out?: number } => {
  const detail: Invalid[] = []
  let size = 0
  for (const problem of problems.slice(0, requestLimits.reported_problems).map(bounded)) {
    size += JSON.stringify(problem).length
    if (size > reportSize && detail.length > 0) break
    detail.push(problem)
  }
  const missing = problems.length - detail.length + leftOut
  return { detail, ...(missing > 0 ? { left_out: missing } : {}) }
}

/** Cuts the texts that come from the request: keys in the location, the message, and a received value that is too large. */
const bounded = ({ loc, msg, type, input, ctx }: Invalid): Invalid => ({
  loc: loc.map((part) => (typeof part === 'string' ? cut(part, 100) : part)),
  msg: cut(msg, 2000),
  type,
  ...(input === undefined || (JSON.stringify(input)?.length ?? 0) > 4000 ? {} : { input }),
  ...(ctx ? { ctx } : {}),
})
const cut = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most)}…`.toWellFormed() : text)

const passedOn = ({ reply: { status, body, headers } }: Refused): FailedAnswer => {
  const wait = headers.get('retry-after')
  return { status, headers: wait === null ? {} : { 'retry-after': wait }, body, fault: false }
}

const faultOf = (error: unknown): Failure => {
  if (isUnavailable(error)) return new ServiceUnavailable(undefined, { 'retry-after': '1' })
  if (error instanceof ProcessorSilent) return new ServiceUnavailable('The payment processor does not answer. Try again shortly.', { 'retry-after': '5' })
  if (error instanceof TaxUnavailable) return new ServiceUnavailable('The tax cannot be computed at the moment. Try again shortly.', { 'retry-after': '5' })
  if (error instanceof StorageSilent) return new ServiceUnavailable('The file storage does not answer. Try again shortly.', { 'retry-after': '5' })
  if (error instanceof StorageRefusal && error.code === 'misconfigured')
    return new ServiceUnavailable('Files cannot be stored at the moment. The operator of this deployment must configure the storage; the log has the reason.')
  return new InternalServerError()
}

const answer = (failure: Failure): FailedAnswer => ({
  status: failure.status,
  headers: failure.headers,
  body: { error: failure.error, detail: failure.message, ...failure.more },
  fault: false,
})

/** Errors that the framework raises before our code runs, mapped to our failures. */
const framework: Record<string, Failure | undefined> = {
  FST_ERR_CTP_BODY_TOO_LARGE: new RequestBodyTooLarge(),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: new UnsupportedMediaType(),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: new BadRequest('The length of the body differs from content-length.'),
  FST_ERR_BAD_URL: new BadRequest('The address contains a percent-encoding that cannot be decoded.'),
}
