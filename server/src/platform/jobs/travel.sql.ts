import { sql } from 'kysely'
import { later, seconds, stopwatch } from '../clock.ts'
import type { Db, Transact } from '../postgres/postgres.ts'
import { clocked, sweeps } from './catalogue.ts'
import { checkLease, claim, underLease, type ClockTime, type Lease } from './leases.sql.ts'

/** Maximum milliseconds for which one call advances a clock, so that other clocks get their turn. Much shorter than the lease. */
const turn = 5 * seconds
/** Milliseconds until a clock that waits for unfinished work is checked again. */
const rest = 250

type ClockedName = (typeof clocked)[number]

export interface Guide {
  readonly db: Db
  readonly transact: Transact
  /** Processes one due row. */
  readonly run: (name: ClockedName, lease: Lease) => Promise<void>
  /** Returns true if work of this clock's customers is in progress. The clock must not move then. */
  readonly isBusy: (db: Db, clock: ClockTime) => Promise<boolean>
}

/**
 * Advances a test clock to its target, from due time to due time. The clock waits while due work is open or in
 * progress, so that all work runs at its own due time. One call lasts at most `turn`; if the target is not reached, the
 * clock is due again at once. A worker that loses the lease stops moving the clock, and the next holder continues from
 * the current time.
 */
export const travel = async (guide: Guide, lease: Lease): Promise<void> => {
  const elapsed = stopwatch()
  let step: Step = 'moved'
  while (step === 'moved' && elapsed() < turn) {
    while ((await work(guide, lease)) && elapsed() < turn);
    step = await move(guide, lease)
  }
  await underLease(guide.transact, lease, async (tx) => {
    // Reads the target again, because a new one may have been set after the clock reached the previous one.
    const { target_at } = await readClock(tx, lease)
    return target_at === null ? null : later(tx.clock.wall(), step === 'stands' ? rest : 0)
  })
}

/** Processes all rows that are due by this clock and not leased, concurrently. Returns true if there were any. */
const work = async ({ db, transact, run }: Guide, { organization_id, id, holder }: Lease): Promise<boolean> => {
  const { rows } = await sql<{ name: ClockedName; now_at: Date }>`
    select d.name, c.now_at from test_clocks c, lateral (${sql.join(
      clocked.map(
        (name) => sql`
        (select ${sql.lit(name)} as name from ${sql.table(sweeps[name].table)} r
         where r.organization_id = c.organization_id and r.clock_id = c.id and r.due_at <= c.now_at limit 1)`,
      ),
      sql` union all `,
    )}) d
    where c.organization_id = ${organization_id} and c.id = ${id} and c.target_at is not null`.execute(db.q)
  let found = false
  for (const { name, now_at } of rows) {
    const { table, at_once, lease_ms } = sweeps[name]
    const leases = await claim(transact, table, { holder, limit: at_once, lease_ms, clock: { organization_id, id, now_at } })
    found ||= leases.length > 0
    await Promise.all(leases.map((one) => run(name, one)))
  }
  return found
}

/** The result of one step: moved to the next due time, waits for unfinished work, or arrived at the target. */
type Step = 'moved' | 'stands' | 'arrived'

/**
 * Moves the clock to the next due time, or directly to its target if nothing is due before. Reads and moves in one
 * transaction that locks the clock. All transactions that use its time have then committed, and their work is visible.
 */
const move = ({ transact, isBusy }: Guide, lease: Lease): Promise<Step> =>
  transact(async (tx) => {
    await checkLease(tx, lease)
    const { organization_id, id } = lease
    const clock = await readClock(tx, lease)
    const { now_at, next_at, target_at } = clock
    if (target_at === null) return 'arrived'
    // Due rows that remain are leased by another worker, or have failed and will be retried.
    if ((next_at !== null && next_at <= now_at) || (await isBusy(tx, clock))) return 'stands'
    const arrived = next_at === null || next_at > target_at
    const wall = tx.clock.wall()
    await sql`
      update test_clocks set now_at = ${arrived ? target_at : next_at}, target_at = ${arrived ? null : target_at},
        modified_at = ${wall}, lease_until = ${later(wall, sweeps['clocks.travel'].lease_ms)}
      where organization_id = ${organization_id} and id = ${id}`.execute(tx.q)
    return arrived ? 'arrived' : 'moved'
  })

/** Reads the time of a clock, its target and the next due time. */
const readClock = async (db: Db, { organization_id, id }: Lease): Promise<ClockTime & { target_at: Date | null; next_at: Date | null }> => {
  const { rows } = await sql<ClockTime & { target_at: Date | null; next_at: Date | null }>`
    select organization_id, id, now_at, target_at, (
      select min(due_at) from (${sql.join(
        clocked.map(
          (name) =>
            sql`(select due_at from ${sql.table(sweeps[name].table)} where organization_id = ${organization_id} and clock_id = ${id} and due_at is not null order by due_at limit 1)`,
        ),
        sql` union all `,
      )}) d
    ) as next_at
    from test_clocks where organization_id = ${organization_id} and id = ${id}`.execute(db.q)
  return rows[0]!
}
