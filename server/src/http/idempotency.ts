import { createCipheriv, createDecipheriv, hash, hkdfSync, randomBytes } from 'node:crypto'
import { AnswerForgotten, AnswerSealed, InvalidRequest, RequestInFlight, type Operation } from '@bursar/contract'
import type { Actor } from '../kernel/actors.ts'
import type { Secret } from '../kernel/secrets.ts'
import { days, later, seconds } from '../platform/clock.ts'
import type { Tx } from '../platform/postgres/postgres.ts'
import { isRefusal, type Refusal } from '../modules/handlers.ts'
import { findKept, keep, takeKey, updateKept, type Kept } from './idempotency.sql.ts'

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string | undefined
}

export interface Repeatable {
  readonly operation: Operation
  readonly actor: Actor
  readonly key: string
  /** What was asked, byte for byte. */
  readonly asked: readonly (string | Buffer)[]
  /** The secret the caller came with: only it can open an answer that holds secrets. */
  readonly credential: Secret
}

/** The key of a request that must happen once, however often it is sent; nothing where none is given. */
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
 * Runs an effect once per key, and answers every repetition with the first answer. The key belongs to the organization
 * (or the person), so that a rotated token does not repeat an effect; it is kept in the effect's own transaction, so
 * that either both are there or neither.
 */
export const once = async (tx: Tx, request: Repeatable, effect: () => Promise<Answer | Refusal>): Promise<Answer | Refusal> => {
  const owner = ownerOf(request.actor)
  if (owner === undefined) return effect()
  const kept = await findSame(tx, owner, request)
  if (kept) return replay(kept, request.credential)
  const answer = await effect()
  // A refusal stays a refusal: the next attempt is judged anew.
  if (isRefusal(answer)) return answer
  await keep(tx, { ...labels(tx, owner, request), ...told(request, answer), intent: null, busy_until: null })
  return answer
}

/** How long whoever is at a request of several steps is left alone; after that it was stopped, and the next one goes on. */
const patience = 15 * seconds

/**
 * The same for a request that takes several steps: what is intended is kept with its key, in the transaction that begins
 * it. Whoever repeats the request goes on with that intent, and nothing begins twice.
 */
export const beginOnce = async <Intent extends object>(
  tx: Tx,
  request: Repeatable,
  begin: () => Promise<Intent | Refusal>,
): Promise<{ answer: Answer } | { intent: Intent; busy_until: Date | null } | Refusal> => {
  const owner = ownerOf(request.actor)
  const now = tx.clock.wall()
  const busy = later(now, patience)
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
  const intent = await begin()
  if (isRefusal(intent)) return intent
  if (owner !== undefined)
    await keep(tx, {
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

/** Writes down what came of it; or that nobody is at it any more, and it can be gone on with at once. */
export const finishOnce = async (tx: Tx, request: Repeatable, answer: Answer | undefined, since: Date | null): Promise<void> => {
  const owner = ownerOf(request.actor)
  if (owner === undefined) return
  // Somebody else may have gone on meanwhile: their time is theirs.
  if (answer) await updateKept(tx, owner, request.key, { ...told(request, answer), busy_until: null })
  else await updateKept(tx, owner, request.key, { busy_until: null }, since)
}

const findSame = async (tx: Tx, owner: string, request: Repeatable) => {
  if (!(await takeKey(tx, owner, request.key))) throw new RequestInFlight(undefined, { 'retry-after': '1' })
  const kept = await findKept(tx, owner, request.key, tx.clock.wall())
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

/** Everything an answer names by id: when a person among them is forgotten, so is the answer. */
const mentionedIn = (text: string | undefined): string[] => [...new Set(text?.match(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g))]

const ownerOf = (actor: Actor): string | undefined => {
  switch (actor.kind) {
    case 'organization':
      return `organization:${actor.organization_id}`
    case 'user':
      // Each app of a person keeps its own keys.
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
