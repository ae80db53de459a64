import type { KeyObject } from 'node:crypto'
import { outOfTime } from '../../../gateways/egress/egress.ts'
import { TargetRefused } from '../../../gateways/egress/targets.ts'
import { newId } from '../../../kernel/ids.ts'
import { chance, withoutTokens, type Sealer } from '../../../kernel/secrets.ts'
import { hours, later, seconds, stopwatch } from '../../../platform/clock.ts'
import { openPayload } from '../../../platform/outbox/outbox.sql.ts'
import type { Deps } from '../../handlers.ts'
import { type Claimed, type Outcome } from '../records/deliveries.sql.ts'
import { render, sign, signingKeys } from './signing.ts'

const longestWait = 24 * hours

/** Makes one delivery attempt. Never throws, because every failure becomes an outcome. */
export const tryOne = async ({ gateways, platform }: Deps, claimed: Claimed): Promise<Outcome> => {
  if (!claimed.wanted) return { claimed, status: claimed.enabled ? 'skipped' : 'parked', due_at: null, attempt: null }
  const { payload } = claimed
  if (payload === null) return { claimed, status: 'skipped', due_at: null, attempt: null }
  const at = platform.clock.wall()
  let keys: readonly KeyObject[]
  let whole: string
  try {
    keys = keysOf(platform.sealer, claimed, at)
    whole = openPayload(platform.sealer, { ...claimed, payload })
  } catch (error) {
    // The secret cannot be opened, which is not the receiver's fault. The failure does not count as an attempt, and is retried.
    platform.log.error('webhooks_cannot_sign', { organization_id: claimed.organization_id, error })
    return { claimed, status: 'waiting', due_at: later(at, 60 * seconds), attempt: null }
  }
  const elapsed = stopwatch()
  const finish = (http_code: number | null, response: string, delivered: boolean, retry_after?: string): Outcome => ({
    claimed,
    ...(delivered
      ? { status: 'delivered' as const, due_at: null }
      : next(platform.config.webhooks.schedule, claimed.attempts, platform.clock.wall(), retry_after)),
    // Some receivers echo the request body, so secrets are removed from the stored response.
    attempt: { id: newId(at), at, http_code, response: withoutTokens(response), duration_ms: Math.round(elapsed()) },
  })
  try {
    const body = render(claimed.format, whole)
    const timestamp = Math.floor(at.getTime() / 1000)
    const answer = await gateways.egress.post(claimed.url, {
      headers: {
        'content-type': 'application/json',
        'user-agent': 'bursar-webhooks',
        'webhook-id': claimed.event_id,
        'webhook-timestamp': String(timestamp),
        'webhook-signature': sign(keys, claimed.event_id, timestamp, body),
        'bursar-sequence': String(claimed.sequence),
      },
      body,
      timeout_ms: platform.config.webhooks.timeout_ms,
    })
    return finish(answer.status, answer.excerpt, answer.status >= 200 && answer.status <= 299, answer.retry_after)
  } catch (error) {
    return finish(null, reasonOf(error as Error & { code?: string }), false)
  }
}

const known = new Map<string, readonly KeyObject[]>()

/** Returns the keys that sign deliveries of this endpoint now. Unsealed keys are cached. */
const keysOf = (sealer: Sealer, claimed: Claimed, now: Date): readonly KeyObject[] => {
  const { secret_sealed, previous_sealed, previous_secret_until, endpoint_id } = claimed
  const opened = (sealed: string) => {
    const found = known.get(sealed)
    if (found) return found
    const keys = signingKeys(sealer.open(sealed, endpoint_id))
    if (known.size >= 10_000) known.clear()
    known.set(sealed, keys)
    return keys
  }
  return previous_sealed && previous_secret_until && previous_secret_until > now
    ? [...opened(secret_sealed), ...opened(previous_sealed)]
    : opened(secret_sealed)
}

/**
 * Computes the time of the next attempt from the schedule, with a jitter of 20 %. A Retry-After header of the receiver
 * can delay it further. Parks the delivery after the last attempt.
 */
const next = (schedule: readonly number[], before: number, now: Date, retry_after: string | undefined) => {
  const wait = schedule[before]
  if (wait === undefined) return { status: 'parked' as const, due_at: null }
  const asked = Math.min(readRetryAfter(retry_after, now), longestWait)
  return { status: 'waiting' as const, due_at: later(now, Math.max(spread(wait * seconds), asked)) }
}

/** Adds jitter, so that deliveries that failed together are not all retried together. */
const spread = (milliseconds: number) => milliseconds * (0.8 + 0.4 * chance())

/** Parses a Retry-After header: seconds or a date. Returns milliseconds. */
const readRetryAfter = (text: string | undefined, now: Date): number => {
  if (text === undefined) return 0
  if (/^\d{1,9}$/.test(text)) return Number(text) * seconds
  const date = Date.parse(text)
  return Number.isNaN(date) ? 0 : Math.max(0, date - now.getTime())
}

const reasonOf = (error: Error & { code?: string }): string => {
  if (error instanceof TargetRefused) return error.message
  if (error.message === outOfTime) return 'No answer in time.'
  return `No answer: ${error.code ?? error.message}`.slice(0, 500)
}
