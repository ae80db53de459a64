import { createCipheriv, createDecipheriv, hash, hkdfSync, randomBytes } from 'node:crypto'
import { AnswerForgotten, AnswerSealed, InvalidRequest, RequestInFlight, type Operation } from '@bursar/contract'
import type { Actor } from '../kernel/actors.ts'
import type { Secret } from '../kernel/secrets.ts'
import { days, later } from '../platform/clock.ts'
import type { Tx } from '../platform/postgres/postgres.ts'
import { isRefusal, type Refusal } from '../modules/handlers.ts'
import { findKept, keep, takeKey, type Kept } from './idempotency.sql.ts'

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
  const { operation, actor, key } = request
  const owner = ownerOf(actor)
  if (owner === undefined) return effect()
  if (!(await takeKey(tx, owner, key))) throw new RequestInFlight(undefined, { 'retry-after': '1' })
  const fingerprint = hash('sha256', Buffer.concat(request.asked.flatMap((part) => [Buffer.from(part), Buffer.from([0])])))
  const now = tx.clock.wall()
  const kept = await findKept(tx, owner, key, now)
  if (kept) {
    if (kept.operation !== operation.id || kept.fingerprint !== fingerprint)
      throw new InvalidRequest({
        loc: ['header', 'idempotency-key'],
        msg: `This key was used for another request (${kept.operation}). Use a new key for each new request.`,
        type: 'value_error',
        input: key,
      })
    return { status: kept.status, headers: { ...kept.headers, 'idempotent-replayed': 'true' }, text: open(kept, request.credential) }
  }
  const answer = await effect()
  // A refusal stays a refusal: the next attempt is judged anew.
  if (isRefusal(answer)) return answer
  const sealed = operation.reveals === true && answer.text !== undefined
  const body = answer.text === undefined ? null : sealed ? seal(answer.text, request.credential) : answer.text
  await keep(tx, {
    owner,
    key,
    operation: operation.id,
    fingerprint,
    status: answer.status,
    headers: { ...answer.headers },
    body,
    sealed,
    mentions: mentionedIn(answer.text),
    created_at: now,
    expires_at: later(now, (operation.keptDays ?? 1) * days),
  })
  return answer
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
