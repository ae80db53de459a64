import type { KeyObject } from 'node:crypto'
import { outOfTime } from '../../../gateways/egress/egress.ts'
import { TargetRefused } from '../../../gateways/egress/targets.ts'
import { newId } from '../../../kernel/ids.ts'
import { chance, type Sealer } from '../../../kernel/secrets.ts'
import { days, hours, later, seconds, stopwatch } from '../../../platform/clock.ts'
import type { EngineLife } from '../../../platform/jobs/queue.ts'
import { chain, findUnchained } from '../../../platform/audit/audit.sql.ts'
import { findUnnumbered, sequence } from '../../../platform/outbox/outbox.sql.ts'
import type { Transact } from '../../../platform/postgres/postgres.ts'
import type { Means } from '../../handlers.ts'
import { lockEndpointOf, markHealth } from '../endpoints/endpoints.sql.ts'
import { pause } from '../endpoints/endpoints.ts'
import { claimDue, fanOut, record, roomForEvents, type Claimed, type Outcome } from './deliveries.sql.ts'
import { render, sign, signingKeys } from './signing.ts'

/** How many one worker has under way to one endpoint: one that hangs holds up no more than its own few. */
const perEndpoint = 16
/** An endpoint that has failed so often in a row has no more than so many under way, until one arrives. */
const failsInARow = 8
const whileFailing = 2
/** Results are written together: so long the first may wait for others. */
const gather = 8
/** With so many under way a worker is busy, and takes a breath between two looks for more. */
const plenty = 64
const breath = 15
const failingFor = 3 * days
/** Before every endpoint. */
const beginning = '00000000-0000-0000-0000-000000000000'
const longestWait = 24 * hours

/**
 * The delivery engine: numbers what was committed, makes deliveries of it, and hands them over. It hears of events by
 * notice, looks for itself every second, and leaves nothing half done that another worker could not take up.
 */
export const deliver = async (means: Means, life: EngineLife): Promise<void> => {
  const { log } = means.platform
  const bell = openBell(life.signal)
  life.onFreed(bell.ring)
  const numbering = runNumbering(means, life, bell.ring)
  const chaining = runChaining(means, life)
  const sending = openSending(means, life, bell.ring)
  while (!life.signal.aborted) {
    try {
      // As long as there is more than was taken, go on at once.
      if (await sending.take()) continue
    } catch (error) {
      log.warn('webhooks_claim_failed', { error })
    }
    // With plenty under way, a little later is soon enough, and finds more at once.
    if (sending.busy()) await pauseFor(breath)
    await bell.wait(1 * seconds)
  }
  await Promise.all([numbering, chaining, sending.end()])
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

/** Numbers and fans out, a few organizations at a time, each as soon as it is heard of; one that fails holds up no other. */
const runNumbering = async ({ db, transact, platform }: Means, life: EngineLife, done: () => void): Promise<void> => {
  const heard = new Set<string>()
  const bell = openBell(life.signal)
  const hear = (organization_id: string) => {
    heard.add(organization_id)
    bell.ring()
  }
  life.onEvent(hear)
  const number = async (organization_id: string): Promise<void> => {
    try {
      const again = await transact(async (tx) => {
        const range = await sequence(tx, organization_id, await roomForEvents(tx, organization_id))
        if (range === 'taken') return range
        if (range.upto > range.after) await fanOut(tx, organization_id, range, tx.clock.wall())
        return range.full ? 'more' : undefined
      })
      done()
      // Somebody else is at it, and may have looked before our event was there; or there was more than fits into one go.
      if (again) setTimeout(hear, again === 'more' ? 0 : 20, organization_id).unref()
    } catch (error) {
      platform.log.warn('webhooks_numbering_failed', { organization_id, error })
    }
  }
  let looked = -Infinity
  const age = stopwatch()
  while (!life.signal.aborted) {
    if (age() - looked >= 1 * seconds) {
      looked = age()
      try {
        for (const organization_id of await findUnnumbered(db)) heard.add(organization_id)
      } catch (error) {
        platform.log.warn('webhooks_numbering_failed', { error })
      }
    }
    const round = [...heard]
    heard.clear()
    for (let at = 0; at < round.length; at += 4) await Promise.all(round.slice(at, at + 4).map(number))
    if (heard.size === 0) await bell.wait(1 * seconds)
  }
}

/** Chains the audit log beside all that: nobody waits for it, so what has come in since the last look is done in one go. */
const runChaining = async ({ db, transact, platform }: Means, life: EngineLife): Promise<void> => {
  const bell = openBell(life.signal)
  while (!life.signal.aborted) {
    try {
      for (const organization_id of await findUnchained(db)) while (await transact((tx) => chain(tx, organization_id)));
    } catch (error) {
      platform.log.warn('audit_chaining_failed', { error })
    }
    await bell.wait(1 * seconds)
  }
}

const pauseFor = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))

const openSending = (means: Means, life: EngineLife, ring: () => void) => {
  const { transact, platform } = means
  const inAll = platform.config.webhooks.concurrency
  const under = new Map<string, number>()
  /** How often an endpoint has failed in a row: one that does gets less room until it answers again. */
  const failures = new Map<string, number>()
  const attempts = new Set<Promise<void>>()
  const results: Outcome[] = []
  let writing: Promise<void> | undefined
  let judging: Promise<void> = Promise.resolve()
  let last = beginning

  /** Writes what has come in, and again for as long as more comes in meanwhile. */
  const write = async (): Promise<void> => {
    await pauseFor(gather)
    while (results.length > 0) await writeBatch(results.splice(0, 500))
    writing = undefined
  }
  const writeBatch = async (batch: readonly Outcome[]): Promise<void> => {
    for (let tries = 1; ; tries++)
      try {
        const { released, accepted } = await record(transact, batch)
        if (released > 0) ring()
        wakeFor(batch)
        judging = judging.then(() =>
          judge(
            means,
            batch.filter(({ claimed }) => accepted.has(claimed.id)),
          ),
        )
        return
      } catch (error) {
        platform.log.warn('webhooks_record_failed', { error })
        // Not written at all: the leases run out, and they are sent again.
        if (tries === 5) return
        await pauseFor(200 * tries)
      }
  }

  /** Retries that are due before the next look are looked for on time. */
  const wakeFor = (batch: readonly Outcome[]) => {
    const now = platform.clock.wall().getTime()
    const soon = batch.flatMap(({ due_at }) => (due_at ? [due_at.getTime() - now] : [])).filter((wait) => wait < 1 * seconds)
    for (const wait of new Set(soon.map((one) => Math.max(1, Math.ceil(one / 10) * 10)))) setTimeout(ring, wait).unref()
  }

  const ready = new Map<string, Claimed[]>()
  const held = (endpoint_id: string) => (under.get(endpoint_id) ?? 0) + (ready.get(endpoint_id)?.length ?? 0)
  const roomOf = (endpoint_id: string) => ((failures.get(endpoint_id) ?? 0) >= failsInARow ? whileFailing : perEndpoint)

  /** The next that was laid ready. One whose lease would run out on the way is left: somebody else has it by then. */
  const nextReady = (endpoint_id: string): Claimed | undefined => {
    const list = ready.get(endpoint_id) ?? []
    const enough = later(platform.clock.wall(), platform.config.webhooks.timeout_ms)
    let next = list.shift()
    while (next && next.lease_until <= enough) next = list.shift()
    if (list.length === 0) ready.delete(endpoint_id)
    return next
  }

  /** Starts on a delivery, or lays it ready for when there is room: the next ones are at hand before they are asked for. */
  const start = (claimed: Claimed) => {
    const { endpoint_id } = claimed
    if ((under.get(endpoint_id) ?? 0) >= roomOf(endpoint_id)) {
      const list = ready.get(endpoint_id)
      if (list) list.push(claimed)
      else ready.set(endpoint_id, [claimed])
      return
    }
    under.set(endpoint_id, (under.get(endpoint_id) ?? 0) + 1)
    const attempt = tryOne(means, claimed)
      .then((outcome) => {
        if (outcome.status === 'delivered') failures.delete(endpoint_id)
        else if (outcome.attempt) failures.set(endpoint_id, (failures.get(endpoint_id) ?? 0) + 1)
        results.push(outcome)
        writing ??= write()
      })
      .finally(() => {
        const left = under.get(endpoint_id)! - 1
        if (left > 0) under.set(endpoint_id, left)
        else under.delete(endpoint_id)
        attempts.delete(attempt)
        const following = nextReady(endpoint_id)
        if (following) start(following)
        // More is asked for when half of what was at hand is gone: often enough to be always busy, seldom enough to take many at once.
        if (held(endpoint_id) === roomOf(endpoint_id) || attempts.size === Math.floor(inAll / 2)) ring()
      })
    attempts.add(attempt)
  }

  return {
    /** Takes what is due and starts on it. True: there may be more. */
    take: async (): Promise<boolean> => {
      const limit = inAll - attempts.size
      if (limit <= 0) return false
      // Those that fail count as having most of their room taken already.
      const taken = new Map([...under.keys(), ...failures.keys()].map((id) => [id, held(id) + 2 * (perEndpoint - roomOf(id))]))
      // Time to wait for its turn behind as many others, to be tried, and to be written down.
      const lease_ms = 2 * platform.config.webhooks.timeout_ms + 20 * seconds
      const claimed = await claimDue(transact, {
        holder: life.holder,
        token: newId(platform.clock.wall()),
        under: taken,
        from: last,
        each: 2 * perEndpoint,
        limit,
        lease_ms,
      })
      claimed.forEach(start)
      last = claimed.reduce((most, { endpoint_id }) => (endpoint_id > most ? endpoint_id : most), claimed.length < limit ? beginning : last)
      if (failures.size > 10_000) failures.clear()
      return claimed.length === limit
    },
    busy: (): boolean => attempts.size >= plenty,
    end: async (): Promise<void> => {
      // What was only laid ready is left to others, as soon as this worker is gone.
      ready.clear()
      await Promise.all(attempts)
      // What came last is being written, or was just before.
      await writing
      await judging
    },
  }
}

/** One attempt. Whatever happens is an outcome. */
const tryOne = async ({ gateways, platform }: Means, claimed: Claimed): Promise<Outcome> => {
  if (!claimed.wanted) return { claimed, status: claimed.enabled ? 'skipped' : 'parked', due_at: null, attempt: null }
  if (claimed.payload === null) return { claimed, status: 'skipped', due_at: null, attempt: null }
  const at = platform.clock.wall()
  let keys: readonly KeyObject[]
  try {
    keys = keysOf(platform.sealer, claimed, at)
  } catch (error) {
    // Our own trouble, not the receiver's: nothing is counted, and it is tried again.
    platform.log.error('webhooks_cannot_sign', { organization_id: claimed.organization_id, error })
    return { claimed, status: 'waiting', due_at: later(at, 60 * seconds), attempt: null }
  }
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

/** The keys to sign with now, opened once and remembered for as long as they are the same. */
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
  if (error.message === outOfTime) return 'No answer in time.'
  return `No answer: ${error.code ?? error.message}`.slice(0, 500)
}

/** Endpoints that this worker has seen fail since they last accepted something: their row may say so. */
const suspects = new Set<string>()

/** Keeps count of endpoints that accept nothing: since when, and whether it is time to switch them off. An address that was changed meanwhile is not judged by what the one before did. */
const judge = async ({ transact, platform }: Means, outcomes: readonly Outcome[]): Promise<void> => {
  try {
    const now = platform.clock.wall()
    const tried = outcomes.filter(({ attempt }) => attempt !== null)
    const verdicts = (own: readonly Outcome[]) => [...Map.groupBy(own, ({ claimed }) => claimed.endpoint_id).values()].map(([first]) => first!.claimed)
    const good = verdicts(tried.filter(({ status }) => status === 'delivered'))
    const bad = verdicts(tried).filter(({ endpoint_id }) => !good.some((one) => one.endpoint_id === endpoint_id))
    for (const { endpoint_id } of bad) suspects.add(endpoint_id)
    const cleared = good.filter(({ endpoint_id, failing_since }) => failing_since !== null || suspects.delete(endpoint_id))
    if (cleared.length > 0 || bad.length > 0) {
      const overdue = await transact((tx) => markHealth(tx, cleared, bad, now, later(now, -failingFor)))
      for (const { organization_id, id } of overdue) await switchOff(transact, organization_id, id, 'failing')
    }
    for (const { claimed } of tried.filter(({ attempt }) => attempt?.http_code === 410))
      await switchOff(transact, claimed.organization_id, claimed.endpoint_id, 'gone', claimed.url)
    if (suspects.size > 100_000) suspects.clear()
  } catch (error) {
    platform.log.warn('webhooks_judging_failed', { error })
  }
}

const switchOff = (transact: Transact, organization_id: string, id: string, reason: 'failing' | 'gone', url?: string): Promise<void> =>
  transact(async (tx) => {
    const endpoint = await lockEndpointOf(tx, organization_id, id)
    if (endpoint && (url === undefined || endpoint.url === url)) await pause(tx, endpoint, reason)
  })
