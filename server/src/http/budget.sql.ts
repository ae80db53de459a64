import { sql } from 'kysely'
import type { Transact } from '../platform/postgres/postgres.ts'

export interface Window {
  readonly limit: number
  readonly seconds: number
}

/**
 * How a request is counted. `spend` charges it. `look` only checks the limit. `reserve` charges it until the charge is
 * kept or returned.
 */
export type SpendMode = 'spend' | 'look' | 'reserve'

export interface Standing {
  readonly allowed: boolean
  readonly remaining: number
  /** For a rejected request: the time until the next request is allowed. Otherwise: the time until the oldest request leaves the window. */
  readonly wait_ms: number
  /** Identifies the admitted request in its windows, so that the charge can be returned. */
  readonly entry?: string | Date | number
}

/** Open reservations are stored twice: as a charge under the budget's key, and under this key. */
const heldKey = (key: string) => `held:${key}`

/**
 * Counts rate limits against guessing in the database while Redis is unavailable. The advisory lock makes the check and
 * the insert atomic across processes. A periodic task deletes rows that are outside every window.
 */
export const spendInDatabase = (
  transact: Transact,
  key: string,
  windows: readonly Window[],
  mode: SpendMode,
  inFlight: { readonly longest_ms: number; readonly wait_ms: number },
): Promise<Standing> =>
  transact(async (tx) => {
    await sql`select pg_advisory_xact_lock(hashtextextended(${`bursar.budget.${key}`}, 0))`.execute(tx.q)
    const now = tx.clock.wall()
    let [wait_ms, remaining, reset_ms] = [0, Infinity, 0]
    for (const { limit, seconds } of windows) {
      // The last `limit` requests in the window. Another request is allowed once the oldest of them has left the window.
      const { rows } = await sql<{ used: number; oldest: Date | null }>`
        select count(*) as used, min(spent_at) as oldest from (
          select spent_at from budget_spends where key = ${key} and spent_at > ${new Date(now.getTime() - seconds * 1000)} order by spent_at desc limit ${limit}
        ) s`.execute(tx.q)
      const { used, oldest } = rows[0]!
      const left_ms = (oldest ?? now).getTime() + seconds * 1000 - now.getTime()
      if (used >= limit) wait_ms = Math.max(wait_ms, left_ms)
      remaining = Math.min(remaining, limit - used)
      reset_ms = Math.max(reset_ms, left_ms)
    }
    if (wait_ms > 0) {
      const { rows } = await sql`
        select from budget_spends where key = ${heldKey(key)} and spent_at > ${new Date(now.getTime() - inFlight.longest_ms)} limit 1`.execute(tx.q)
      return { allowed: false, remaining: 0, wait_ms: rows.length > 0 ? Math.min(wait_ms, inFlight.wait_ms) : wait_ms }
    }
    if (mode === 'look') return { allowed: true, remaining, wait_ms: reset_ms }
    await sql`insert into budget_spends (key, spent_at) values (${key}, ${now})`.execute(tx.q)
    if (mode === 'reserve') await sql`insert into budget_spends (key, spent_at) values (${heldKey(key)}, ${now})`.execute(tx.q)
    return { allowed: true, remaining: remaining - 1, wait_ms: reset_ms, entry: now }
  })

/** Ends one reservation. `return` removes its charge from the windows; `keep` leaves the charge in place. */
export const settleInDatabase = (transact: Transact, key: string, entry: Date, outcome: 'keep' | 'return'): Promise<void> =>
  transact(async (tx) => {
    for (const one of outcome === 'return' ? [heldKey(key), key] : [heldKey(key)])
      await sql`
        delete from budget_spends where ctid = (select ctid from budget_spends where key = ${one} and spent_at = ${entry} limit 1)`.execute(tx.q)
  })
