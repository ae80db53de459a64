import { sql } from 'kysely'
import { later, seconds, stopwatch } from '../clock.ts'
import type { Db, Transact } from '../postgres/postgres.ts'
import { clocked, sweeps } from './catalogue.ts'
import { checkLease, claim, underLease, type ClockTime, type Lease } from './leases.sql.ts'

/** How long one worker leads a clock before others have their turn: well within the lease. */
const turn = 5 * seconds
/** So long after it had to stand still it is looked at again. */
const rest = 250

type ClockedName = (typeof clocked)[number]

export interface Guide {
  readonly db: Db
  readonly transact: Transact
  /** Does one piece of due work. */
  readonly run: (name: ClockedName, lease: Lease) => Promise<void>
  /** Whether something is still under way on this clock, so that it must not move. */
  readonly isBusy: (db: Db, clock: ClockTime) => Promise<boolean>
}

/**
 * Leads a clock to where it is to go, from due instant to due instant: it stands still while anything that is due by it
 * is left undone or under way, so that whatever happens on the way happens at its own time. One turn; what is left is
 * due again at once. Whoever loses the lease moves nothing any more, and whoever has it next goes on from where it stands.
 */
export const travel = async (guide: Guide, lease: Lease): Promise<void> => {
  const elapsed = stopwatch()
  let step: Step = 'moved'
  while (step === 'moved' && elapsed() < turn) {
    while ((await work(guide, lease)) && elapsed() < turn);
    step = await move(guide, lease)
  }
  await underLease(guide.transact, lease, async (tx) => {
    // It may have been sent on since it arrived.
    const { target_at } = await readClock(tx, lease)
    return target_at === null ? null : later(tx.clock.wall(), step === 'stands' ? rest : 0)
  })
}

/** Does what is due now and free to take, side by side. True: there was something. */
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

/** Moved to the next due instant; stood still, because something is undone; or reached its goal, and stays. */
type Step = 'moved' | 'stands' | 'arrived'

/**
 * Moves to the next due instant, or straight to the end of the way where nothing is due before. Looked at and moved in
 * one transaction that holds the clock: everybody who dates something by it has finished, and what they left is seen.
 */
const move = ({ transact, isBusy }: Guide, lease: Lease): Promise<Step> =>
  transact(async (tx) => {
    await checkLease(tx, lease)
    const { organization_id, id } = lease
    const clock = await readClock(tx, lease)
    const { now_at, next_at, target_at } = clock
    if (target_at === null) return 'arrived'
    // What is due and was not done is in somebody's hands, or was refused and is tried again.
    if ((next_at !== null && next_at <= now_at) || (await isBusy(tx, clock))) return 'stands'
    const arrived = next_at === null || next_at > target_at
    const wall = tx.clock.wall()
    await sql`
      update test_clocks set now_at = ${arrived ? target_at : next_at}, target_at = ${arrived ? null : target_at},
        modified_at = ${wall}, lease_until = ${later(wall, sweeps['clocks.travel'].lease_ms)}
      where organization_id = ${organization_id} and id = ${id}`.execute(tx.q)
    return arrived ? 'arrived' : 'moved'
  })

/** Where a clock stands, where it is to go, and when something is due by it next. */
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
