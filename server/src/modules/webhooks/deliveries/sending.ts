import { newId } from '../../../kernel/ids.ts'
import { later, seconds } from '../../../platform/clock.ts'
import type { DaemonLife } from '../../../platform/jobs/queue.ts'
import type { Deps } from '../../handlers.ts'
import { claimDue, record, type Claimed, type Outcome } from '../records/deliveries.sql.ts'
import { tryOne } from './attempting.ts'
import { judge } from './judging.ts'
import { openSendingSlots } from './sending-slots.ts'

/** Milliseconds to wait after the first result of a batch, so that more results join the batch. */
const gather = 8
/** Number of running attempts from which a worker counts as busy. A busy worker pauses before it claims more deliveries. */
const plenty = 64
/** The nil UUID, which sorts before every endpoint id. */
const beginning = '00000000-0000-0000-0000-000000000000'

export const pauseFor = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))

/** Sends due deliveries, and records their results in batches. */
export const openSending = (deps: Deps, life: DaemonLife, ring: () => void) => {
  const { transact, platform } = deps
  const inAll = platform.config.webhooks.concurrency
  const slots = openSendingSlots(inAll)
  const attempts = new Set<Promise<void>>()
  const results: Outcome[] = []
  let writing: Promise<void> | undefined
  let judging: Promise<void> = Promise.resolve()
  let last = beginning

  /** Writes the collected results in batches until none are left. */
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
            deps,
            batch.filter(({ claimed }) => accepted.has(claimed.id)),
          ),
        )
        return
      } catch (error) {
        platform.log.warn('webhooks_record_failed', { error })
        // Abandons the batch after five failed writes. The leases expire, and the deliveries are sent again.
        if (tries === 5) return
        await pauseFor(200 * tries)
      }
  }

  /** Wakes the delivery loop when retries become due before the next poll. */
  const wakeFor = (batch: readonly Outcome[]) => {
    const now = platform.clock.wall().getTime()
    const soon = batch.flatMap(({ due_at }) => (due_at ? [due_at.getTime() - now] : [])).filter((wait) => wait < 1 * seconds)
    for (const wait of new Set(soon.map((one) => Math.max(1, Math.ceil(one / 10) * 10)))) setTimeout(ring, wait).unref()
  }

  /** Starts the next waiting deliveries of an organization. Drops those whose lease would expire during the request, because another worker may claim them. */
  const startWaiting = (organization_id: string) => {
    const enough = later(platform.clock.wall(), platform.config.webhooks.timeout_ms)
    for (let next = slots.next(organization_id); next; next = slots.next(organization_id))
      if (next.lease_until > enough) start(next)
      else slots.free(next)
  }

  /** Sends a delivery that has a slot. */
  const start = (claimed: Claimed) => {
    const attempt = tryOne(deps, claimed).then((outcome) => {
      results.push(outcome)
      writing ??= write()
      slots.free(claimed, outcome)
      attempts.delete(attempt)
      startWaiting(claimed.organization_id)
      // Claims more deliveries when about half of the claimed ones are done. This keeps the worker busy and the batches large.
      if (slots.wantsMore(claimed.organization_id) || attempts.size === Math.floor(inAll / 2)) ring()
    })
    attempts.add(attempt)
  }

  return {
    /** Claims due deliveries and starts them. Returns true if there may be more. */
    take: async (): Promise<boolean> => {
      const limit = inAll - attempts.size
      if (limit <= 0) return false
      // The lease covers waiting for an earlier request, sending the delivery, and recording the result.
      const lease_ms = 2 * platform.config.webhooks.timeout_ms + 20 * seconds
      const claimed = await claimDue(transact, {
        holder: life.holder,
        token: newId(platform.clock.wall()),
        ...slots.limits(),
        from: last,
        limit,
        lease_ms,
      })
      slots.take(claimed)
      for (const organization_id of new Set(claimed.map((one) => one.organization_id))) startWaiting(organization_id)
      last = claimed.reduce((most, { endpoint_id }) => (endpoint_id > most ? endpoint_id : most), claimed.length < limit ? beginning : last)
      return claimed.length === limit
    },
    busy: (): boolean => attempts.size >= plenty,
    end: async (): Promise<void> => {
      slots.dropWaiting()
      await Promise.all(attempts)
      // Waits until the last results are written.
      await writing
      await judging
    },
  }
}
