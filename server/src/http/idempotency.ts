import { createCipheriv, createDecipheriv, hash, hkdfSync, randomBytes } from 'node:crypto'
import { AnswerForgotten, AnswerSealed, InvalidRequest, RequestInFlight, type Operation } from '@bursar/contract'
import type { Actor } from '../kernel/actors.ts'
import type { Secret } from '../kernel/secrets.ts'
import { credentialsIn, type FindCredential } from '../modules/identity/index.ts'
import { days, later, seconds } from '../platform/clock.ts'
import type { Tx } from '../platform/postgres/postgres.ts'
import { isRefusal, type Refusal } from '../modules/handlers.ts'
import { storeIdempotentAnswer, takeKey, takeKeyAndCredential, updateKept, type Kept, type TakenKey } from './idempotency.sql.ts'

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[]>>
  readonly text: string | undefined
}

export interface Repeatable {
  readonly operation: Operation
  readonly actor: Actor
  readonly key: string
  /** The exact bytes of the request. Its fingerprint, which detects a different request under the same key, is computed from them. */
  readonly asked: readonly (string | Buffer)[]
  /** The caller's secret. A stored response that contains secrets can be decrypted only with it. */
  readonly credential: Secret
  /** The key, if this transaction has taken it already. */
  readonly taken?: TakenKey | undefined
}

/**
 * Finds the caller's credential again in a transaction, and takes the idempotency key of the request in the same
 * statement. The caller checks the credential before it uses the key.
 */
export const findAgain = (tx: Tx, actor: Actor, key: string | undefined): { find: FindCredential; taken: () => TakenKey | undefined } => {
  const owner = ownerOf(actor)
  let taken: TakenKey | undefined
  if (key === undefined || owner === undefined) return { find: credentialsIn(tx), taken: () => taken }
  const find: FindCredential = async (presented) => {
    const both = await takeKeyAndCredential(tx, owner, key, tx.clock.wall(), presented)
    taken = both.key
    return both.found
  }
  return { find, taken: () => taken }
}

/** Reads the idempotency key of a request. Returns undefined if there is none. */
export const readKey = (header: string | string[] | undefined): string | undefined => {
  if (header === undefined) return undefined
  if (typeof header === 'string' && /^[\x21-\x7e]{1,255}$/.test(header)) return header
  throw new InvalidRequest({
    loc: ['header', 'idempotency-key'],
    msg: 'Use 1 to 255 visible ASCII characters, for example a UUID.',
    type: 'value_error',
    input: header,
  })
}

/**
 * Executes an effect once per key, and answers every retry with the first response. The key belongs to the organization
 * or the user, so that a rotated token does not repeat an effect. The key is stored in the transaction of the effect,
 * so that both commit together or not at all.
 */
export const once = async (tx: Tx, request: Repeatable, effect: () => Promise<Answer | Refusal>): Promise<Answer | Refusal> => {
  const owner = ownerOf(request.actor)
  if (owner === undefined) return effect()
  const kept = await findSame(tx, owner, request)
  if (kept) return replay(kept, request.credential)
  const answer = await effect()
  // Error responses are not stored, so that a retry with the same key is executed again.
  if (isRefusal(answer)) return answer
  await storeIdempotentAnswer(tx, { ...labels(tx, owner, request), ...told(request, answer), intent: null, busy_until: null })
  return answer
}

/** Duration of the lease on a multi-step request. After it the request counts as interrupted, and the next retry resumes it. */
const timeout = 15 * seconds

/**
 * Begins a multi-step request once per key. Stores its intent with the key in the transaction that begins the request.
 * A retry resumes that intent, so that no step begins twice. If no step is left, stores the answer instead.
 */
export const beginOnce = async <Intent extends object>(
  tx: Tx,
  request: Repeatable,
  begin: () => Promise<{ answer: Answer } | { intent: Intent } | Refusal>,
): Promise<{ answer: Answer } | { intent: Intent; busy_until: Date | null } | Refusal> => {
  const owner = ownerOf(request.actor)
  const now = tx.clock.wall()
  const busy = later(now, timeout)
  if (owner !== undefined) {
    const kept = await findSame(tx, owner, request)
    if (kept && kept.status !== null) return { answer: replay(kept, request.credential) }
    if (kept?.busy_until && kept.busy_until > now)
      throw new RequestInFlight(undefined, { 'retry-after': String(Math.ceil((kept.busy_until.getTime() - now.getTime()) / 1000)) })
    if (kept) {
      await updateKept(tx, owner, request.key, { busy_until: busy })
      return { intent: kept.intent as Intent, busy_until: busy }
    }
  }
  const begun = await begin()
  if (isRefusal(begun)) return begun
  if ('answer' in begun) {
    if (owner !== undefined) await storeIdempotentAnswer(tx, { ...labels(tx, owner, request), ...told(request, begun.answer), intent: null, busy_until: null })
    return begun
  }
  const { intent } = begun
  if (owner !== undefined)
    await storeIdempotentAnswer(tx, {
      ...labels(tx, owner, request),
      status: null,
      headers: {},
      body: null,
      sealed: false,
      mentions: [],
      intent,
      busy_until: busy,
    })
  return { intent, busy_until: busy }
}

/** Stores the response of a multi-step request. Without a response, releases the lease, so that a retry can resume the request at once. */
export const finishOnce = async (tx: Tx, request: Repeatable, answer: Answer | undefined, since: Date | null): Promise<void> => {
  const owner = ownerOf(request.actor)
  if (owner === undefined) return
  // A retry may have taken over the request meanwhile. The lease of that retry must not be released.
  if (answer) await updateKept(tx, owner, request.key, { ...told(request, answer), busy_until: null })
  else await updateKept(tx, owner, request.key, { busy_until: null }, since)
}

const findSame = async (tx: Tx, owner: string, request: Repeatable) => {
  const { taken, kept } = request.taken?.owner === owner ? request.taken : await takeKey(tx, owner, request.key, tx.clock.wall())
  if (!taken) throw new RequestInFlight(undefined, { 'retry-after': '1' })
  if (kept && (kept.operation !== request.operation.id || kept.fingerprint !== fingerprintOf(request)))
    throw new InvalidRequest({
      loc: ['header', 'idempotency-key'],
      msg: `This key was used for another request (${kept.operation}). Use a new key for each new request.`,
      type: 'value_error',
      input: request.key,
    })
  return kept
}

const fingerprintOf = ({ asked }: Repeatable) => hash('sha256', Buffer.concat(asked.flatMap((part) => [Buffer.from(part), Buffer.from([0])])))

const replay = (kept: Kept, credential: Secret): Answer => ({
  status: kept.status!,
  headers: { ...kept.headers, 'idempotent-replayed': 'true' },
  text: open(kept, credential),
})

const labels = (tx: Tx, owner: string, request: Repeatable) => {
  const created_at = tx.clock.wall()
  return {
    owner,
    key: request.key,
    operation: request.operation.id,
    fingerprint: fingerprintOf(request),
    created_at,
    expires_at: later(created_at, (request.operation.keptDays ?? 1) * days),
  }
}

const told = ({ operation, credential }: Repeatable, answer: Answer) => {
  const sealed = operation.reveals === true && answer.text !== undefined
  return {
    status: answer.status,
    headers: { ...answer.headers },
    body: answer.text === undefined ? null : sealed ? seal(answer.text, credential) : answer.text,
    sealed,
    mentions: mentionedIn(answer.text),
  }
}

/** Collects every id in a response. When one of these ids belongs to an erased person, the stored response is deleted too. */
const mentionedIn = (text: string | undefined): string[] => [...new Set(text?.match(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g))]

const ownerOf = (actor: Actor): string | undefined => {
  switch (actor.kind) {
    case 'organization':
      return `organization:${actor.organization_id}`
    case 'user':
      // Each OAuth app that acts for a user has its own idempotency keys.
      return actor.client_id === null ? `user:${actor.user_id}` : `user:${actor.user_id}:${actor.client_id}`
    case 'portal':
      return actor.member_id === null ? `customer:${actor.customer_id}` : `member:${actor.member_id}`
    case 'anonymous':
      return undefined
  }
}

const keyFor = (credential: Secret, salt: Buffer) => Buffer.from(hkdfSync('sha256', credential.reveal(), salt, 'bursar idempotent answer', 32))

const seal = (text: string, credential: Secret): string => {
  const salt = randomBytes(16)
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', keyFor(credential, salt), nonce)
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([salt, nonce, cipher.getAuthTag(), sealed]).toString('base64')
}

const open = ({ body, sealed }: Kept, credential: Secret): string | undefined => {
  if (body === null && sealed) throw new AnswerForgotten()
  if (body === null) return undefined
  if (!sealed) return body
  const bytes = Buffer.from(body, 'base64')
  const decipher = createDecipheriv('aes-256-gcm', keyFor(credential, bytes.subarray(0, 16)), bytes.subarray(16, 28)).setAuthTag(bytes.subarray(28, 44))
  try {
    return decipher.update(bytes.subarray(44), undefined, 'utf8') + decipher.final('utf8')
  } catch {
    throw new AnswerSealed()
  }
}
