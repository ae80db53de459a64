import { seconds, stopwatch } from '../../../platform/clock.ts'
import type { DaemonLife } from '../../../platform/jobs/queue.ts'
import { findUnnumbered, sequence } from '../../../platform/outbox/outbox.sql.ts'
import type { Deps } from '../../handlers.ts'
import { fanOut, roomForEvents } from '../records/deliveries.sql.ts'
import { openSending, pauseFor } from './sending.ts'

/** Milliseconds that a busy worker pauses before it claims more deliveries. */
const breath = 15

/**
 * The delivery daemon: numbers committed events, creates their deliveries and sends them. The daemon is notified of
 * events and also polls every second. Its state is stored in the database, so that another worker can take over.
 */
export const deliver = async (deps: Deps, life: DaemonLife): Promise<void> => {
  const { log } = deps.platform
  const bell = openBell(life.signal)
  life.onFreed(bell.ring)
  const numbering = runNumbering(deps, life, bell.ring)
  const sending = openSending(deps, life, bell.ring)
  while (!life.signal.aborted) {
    try {
      // Claims again at once if there may be more due deliveries.
      if (await sending.take()) continue
    } catch (error) {
      log.warn('webhooks_claim_failed', { error })
    }
    // When many attempts are running, a short pause makes the next claim larger.
    if (sending.busy()) await pauseFor(breath)
    await bell.wait(1 * seconds)
  }
  await Promise.all([numbering, sending.end()])
}

/** Creates a wake-up signal. Several signals before the next wait cause only one wake-up. */
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

/**
 * Numbers and fans out the events of an organization when a notification or a poll reports new events. Processes four
 * organizations at a time. A failing organization does not block the others.
 */
const runNumbering = async ({ db, transact, platform }: Deps, life: DaemonLife, done: () => void): Promise<void> => {
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
      // Tries again if another worker has the lock, because that worker may have missed our event. Also continues if
      // there were more events than fit into one batch.
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
