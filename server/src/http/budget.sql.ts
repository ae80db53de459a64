import { sql } from 'kysely'
import type { Transact } from '../platform/postgres/postgres.ts'

export interface Window {
  readonly limit: number
  readonly seconds: number
}

/**
 * The slow second memory of budgets that stop guessing, for while Redis is away. The lock makes counting and writing
 * one step for all processes; a chore removes what no window reaches any more.
 */
export const spendInDatabase = (transact: Transact, key: string, windows: readonly Window[], look = false): Promise<{ allowed: boolean; wait_ms: number }> =>
  transact(async (tx) => {
    await sql`select pg_advisory_xact_lock(hashtextextended(${`bursar.budget.${key}`}, 0))`.execute(tx.q)
    const now = tx.clock.wall()
    let wait_ms = 0
    for (const { limit, seconds } of windows) {
      // The request that must leave the window before another may enter it.
      const { rows } = await sql<{ spent_at: Date }>`
        select spent_at from budget_spends where key = ${key} and spent_at > ${new Date(now.getTime() - seconds * 1000)} order by spent_at desc offset ${limit - 1} limit 1`.execute(
        tx.q,
      )
      const oldest = rows[0]?.spent_at
      if (oldest) wait_ms = Math.max(wait_ms, oldest.getTime() + seconds * 1000 - now.getTime())
    }
    if (wait_ms > 0) return { allowed: false, wait_ms }
    if (!look) await sql`insert into budget_spends (key, spent_at) values (${key}, ${now})`.execute(tx.q)
    return { allowed: true, wait_ms: 0 }
  })
