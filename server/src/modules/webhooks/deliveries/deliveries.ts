import { TargetRefused } from '../../../gateways/egress/targets.ts'
import { newId } from '../../../kernel/ids.ts'
import { chance, type Secret } from '../../../kernel/secrets.ts'
import { days, hours, later, seconds, stopwatch } from '../../../platform/clock.ts'
import type { EngineLife } from '../../../platform/jobs/queue.ts'
import { findUnnumbered, sequence } from '../../../platform/outbox/outbox.sql.ts'
import type { Means } from '../../handlers.ts'
import { changeEndpoint, lockEndpointOf } from '../endpoints/endpoints.sql.ts'
import { pause } from '../endpoints/endpoints.ts'
import { claimDue, fanOut, record, type Claimed, type Outcome } from './deliveries.sql.ts'
import { render, sign } from './signing.ts'

/** How many one worker has under way: to one endpoint, and in all. An endpoint that hangs holds up no more than its own few. */
const perEndpoint = 16
const inAll = 512
/** Results are written together: so long the first may wait for others. */
const gather = 4
const failingFor = 3 * days
const longestWait = 24 * hours

/**
 * The delivery engine: numbers what was committed, makes deliveries of it, and hands them over. It hears of events by
 * notice, looks for itself every second, and leaves nothing half done that another worker could not take up.
 */
export const deliver = async (means: Means, life: EngineLife): Promise<void> => {
  const { log } = means.platform
  const bell = openBell(life.signal)
  const numbering = runNumbering(means, life, bell.ring)
  const sending = openSending(means, life, bell.ring)
  while (!life.signal.aborted) {
    try {
      // As long as there is more than was taken, go on at once.
      if (await sending.take()) continue
    } catch (error) {
      log.warn('webhooks_claim_failed', { error })
    }
    await bell.wait(1 * seconds)
  }
  await Promise.all([numbering, sending.end()])
}

/** Rings once for any number of pulls; whoever waits wakes up. */
const openBell = (signal: AbortSignal) => {
  let rung = false
  let wake: (() => void) | undefined
  const ring = () => {
    rung = true
    wake?.()
  }
  signal.addEventListener('abort', ring, { once: true })
  return {
    ring,
    wait: async (most: number) => {
      if (!rung) {
        let timer: NodeJS.Timeout | undefined
        await new Promise<void>((resolve) => {
          wake = resolve
          timer = setTimeout(resolve, most)
        })
        clearTimeout(timer)
        wake = undefined
      }
      rung = false
    },
  }
}

/** Numbers and fans out, one organization at a time, each as soon as it is heard of. */
const runNumbering = async ({ db, transact, platform }: Means, life: EngineLife, done: () => void): Promise<void> => {
  const heard = new Set<string>()
  const bell = openBell(life.signal)
  life.onEvent((organization_id) => {
    heard.add(organization_id)
    bell.ring()
  })
  let looked = -Infinity
  const age = stopwatch()
  while (!life.signal.aborted) {
    try {
      if (age() - looked >= 1 * seconds) {
        looked = age()
        for (const organization_id of await findUnnumbered(db)) heard.add(organization_id)
      }
      const round = [...heard]
      heard.clear()
      for (const organization_id of round) {
        await transact(async (tx) => {
          const range = await sequence(tx, organization_id)
          if (range.upto > range.after) await fanOut(tx, organization_id, range, tx.clock.wall())
          if (range.full) heard.add(organization_id)
        })
        done()
      }
    } catch (error) {
      platform.log.warn('webhooks_numbering_failed', { error })
      await pauseFor(100)
    }
    if (heard.size === 0) await bell.wait(1 * seconds)
  }
}

const pauseFor = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))

const openSending = (means: Means, life: EngineLife, ring: () => void) => {
  const { transact, platform } = means
  const under = new Map<string, number>()
  const attempts = new Set<Promise<void>>()
  const results: Outcome[] = []
  let writing: Promise<void> | undefined

  /** Writes what has come in, and again for as long as more comes in meanwhile. */
  const write = async (): Promise<void> => {
    await pauseFor(gather)
    while (results.length > 0) {
      const batch = results.splice(0, 500)
      try {
        const released = await record(transact, batch)
        await judge(means, batch)
        if (released > 0) ring()
        wakeFor(batch)
      } catch (error) {
        // Not written: the leases run out, and they are sent again.
        platform.log.warn('webhooks_record_failed', { error })
      }
    }
    writing = undefined
  }

  /** Retries that are due before the next look are looked for on time. */
  const wakeFor = (batch: readonly Outcome[]) => {
    const now = platform.clock.wall().getTime()
    const soon = batch.flatMap(({ due_at }) => (due_at ? [due_at.getTime() - now] : [])).filter((wait) => wait < 1 * seconds)
    for (const wait of new Set(soon.map((one) => Math.max(1, Math.ceil(one / 10) * 10)))) setTimeout(ring, wait).unref()
  }

  const start = (claimed: Claimed) => {
    under.set(claimed.endpoint_id, (under.get(claimed.endpoint_id) ?? 0) + 1)
    const attempt = tryOne(means, claimed)
      .then((outcome) => {
        results.push(outcome)
        writing ??= write()
      })
      .finally(() => {
        const left = under.get(claimed.endpoint_id)! - 1
        if (left > 0) under.set(claimed.endpoint_id, left)
        else under.delete(claimed.endpoint_id)
        attempts.delete(attempt)
        if (left === perEndpoint - 1 || attempts.size === inAll - 1) ring()
      })
    attempts.add(attempt)
  }

  return {
    /** Takes what is due and starts on it. True: there may be more. */
    take: async (): Promise<boolean> => {
      const room = inAll - attempts.size
      if (room <= 0) return false
      const busy = [...under].flatMap(([endpoint_id, count]) => (count >= perEndpoint ? [endpoint_id] : []))
      const lease_ms = platform.config.webhooks.timeout_ms + 20 * seconds
      const claimed = await claimDue(transact, { holder: life.holder, token: newId(platform.clock.wall()), busy, each: perEndpoint, limit: room, lease_ms })
      claimed.forEach(start)
      return claimed.length > 0
    },
    end: async (): Promise<void> => {
      await Promise.all(attempts)
      // What came last is being written, or was just before.
      await writing
    },
  }
}

/** One attempt. Whatever happens is an outcome. */
const tryOne = async ({ gateways, platform }: Means, claimed: Claimed): Promise<Outcome> => {
  if (!claimed.wanted) return { claimed, status: claimed.enabled ? 'skipped' : 'parked', due_at: null, attempt: null }
  if (claimed.payload === null) return { claimed, status: 'skipped', due_at: null, attempt: null }
  const at = platform.clock.wall()
  const elapsed = stopwatch()
  const finish = (http_code: number | null, response: string, delivered: boolean, retry_after?: string): Outcome => ({
    claimed,
    ...(delivered
      ? { status: 'delivered' as const, due_at: null }
      : next(platform.config.webhooks.schedule, claimed.attempts, platform.clock.wall(), retry_after)),
    attempt: { id: newId(at), at, http_code, response, duration_ms: Math.round(elapsed()) },
  })
  try {
    const body = render(claimed.format, claimed.payload)
    const timestamp = Math.floor(at.getTime() / 1000)
    const answer = await gateways.egress.post(claimed.url, {
      headers: {
        'content-type': 'application/json',
        'user-agent': 'bursar-webhooks',
        'webhook-id': claimed.event_id,
        'webhook-timestamp': String(timestamp),
        'webhook-signature': sign(secretsOf(platform.sealer, claimed, at), claimed.event_id, timestamp, body),
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

const secretsOf = (sealer: { open(text: string, belongsTo: string): Secret }, claimed: Claimed, now: Date): Secret[] => {
  const { secret_sealed, previous_sealed, previous_secret_until, endpoint_id } = claimed
  const current = sealer.open(secret_sealed, endpoint_id)
  return previous_sealed && previous_secret_until && previous_secret_until > now ? [current, sealer.open(previous_sealed, endpoint_id)] : [current]
}

/** When to try again: by the schedule, give or take a fifth, or later if the receiver says so. After the last attempt it is parked. */
const next = (schedule: readonly number[], before: number, now: Date, retry_after: string | undefined) => {
  const wait = schedule[before]
  if (wait === undefined) return { status: 'parked' as const, due_at: null }
  const asked = Math.min(readRetryAfter(retry_after, now), longestWait)
  return { status: 'waiting' as const, due_at: later(now, Math.max(spread(wait * seconds), asked)) }
}

/** A different moment for each, so that those who failed together do not all come back together. */
const spread = (milliseconds: number) => milliseconds * (0.8 + 0.4 * chance())

/** Seconds, or a date. */
const readRetryAfter = (text: string | undefined, now: Date): number => {
  if (text === undefined) return 0
  if (/^\d{1,9}$/.test(text)) return Number(text) * seconds
  const date = Date.parse(text)
  return Number.isNaN(date) ? 0 : Math.max(0, date - now.getTime())
}

const reasonOf = (error: Error & { code?: string }): string => {
  if (error instanceof TargetRefused) return error.message
  if (error.name === 'TimeoutError' || error.name === 'AbortError') return 'No answer in time.'
  return `No answer: ${error.code ?? error.message}`.slice(0, 500)
}

/** Keeps count of endpoints that accept nothing: since when, and whether it is time to switch them off. */
const judge = async ({ transact, platform }: Means, outcomes: readonly Outcome[]): Promise<void> => {
  const now = platform.clock.wall()
  for (const [endpoint_id, own] of Map.groupBy(
    outcomes.filter(({ attempt }) => attempt !== null),
    ({ claimed }) => claimed.endpoint_id,
  )) {
    const { organization_id, failing_since } = own[0]!.claimed
    const gone = own.some(({ attempt }) => attempt?.http_code === 410)
    const arrived = own.some(({ status }) => status === 'delivered')
    const overdue = failing_since !== null && now.getTime() - failing_since.getTime() >= failingFor
    if (arrived ? failing_since === null && !gone : failing_since !== null && !overdue && !gone) continue
    await transact(async (tx) => {
      const endpoint = await lockEndpointOf(tx, organization_id, endpoint_id)
      if (!endpoint?.enabled) return
      if (gone) return pause(tx, endpoint, 'gone')
      if (arrived) return void (endpoint.failing_since && (await changeEndpoint(tx, endpoint, { failing_since: null })))
      if (endpoint.failing_since === null) return void (await changeEndpoint(tx, endpoint, { failing_since: now }))
      if (now.getTime() - endpoint.failing_since.getTime() >= failingFor) await pause(tx, endpoint, 'failing')
    })
  }
}
