import type { MemberMigrationProblem, MemberMigrationState, MemberMigrationWork } from '@bursar/contract'
import { sql, type Selectable } from 'kysely'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import { lockRow } from '../../../platform/postgres/locks.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { unpreparedGrant, unpreparedSeat } from './planning.sql.ts'

export interface MigrationTable {
  organization_id: string
  id: string
  state: MemberMigrationState
  work: MemberMigrationWork | null
  /** Current step of the background work. `after` is the id of the last processed row. */
  step: string
  after: string | null
  done: number
  total: number
  started_at: Date | null
  prepared_at: Date | null
  switched_at: Date | null
  undone_at: Date | null
  seal_at: Date | null
  sealed_at: Date | null
  due_at: Date | null
  clock_id: null
  lease_until: Date | null
  lease_token: string | null
  lease_holder: string | null
}
export type MigrationRow = Selectable<MigrationTable>

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    member_migrations: MigrationTable
    member_migration_problems: MemberMigrationProblem & { organization_id: string }
  }
}

/** Returns the migration row for an organization that never started a migration, derived from its phase. */
export const unbegun = (organization_id: string, phase: 'before' | 'phase1' | 'phase2'): MigrationRow => ({
  ...unleased,
  clock_id: null,
  organization_id,
  id: organization_id,
  // An organization created with the member model has no earlier state to undo to, so it counts as sealed.
  state: phase === 'phase2' ? 'sealed' : phase,
  work: null,
  step: '',
  after: null,
  done: 0,
  total: 0,
  started_at: null,
  prepared_at: null,
  switched_at: null,
  undone_at: null,
  seal_at: null,
  sealed_at: null,
})

export const findMigration = (db: Db, organization_id: string): Promise<MigrationRow | undefined> =>
  db.q.selectFrom('member_migrations').selectAll().where('organization_id', '=', organization_id).executeTakeFirst()

/** Locks the migration row, so that only one transition or one batch of work runs at a time. Inserts the row if it does not exist. */
export const lockMigration = async (tx: Tx, born: MigrationRow): Promise<Locked<MigrationRow>> => {
  await tx.q
    .insertInto('member_migrations')
    .values(born)
    .onConflict((twin) => twin.columns(['organization_id', 'id']).doNothing())
    .execute()
  return (await lockRow(tx.q.selectFrom('member_migrations').selectAll().where('organization_id', '=', born.organization_id)))!
}

export const changeMigration = (tx: Tx, { organization_id }: Locked<MigrationRow>, changes: Partial<MigrationRow>): Promise<MigrationRow> =>
  tx.q.updateTable('member_migrations').set(changes).where('organization_id', '=', organization_id).returningAll().executeTakeFirstOrThrow()

/** Counts the seats and grants that have no member yet. */
export const countUnprepared = async (db: Db, organization_id: string): Promise<number> => {
  const { rows } = await sql<{ count: number }>`
    select (select count(*) from seats s where s.organization_id = ${organization_id} and ${unpreparedSeat('s')})
      + (select count(*) from benefit_grants g where g.organization_id = ${organization_id} and ${unpreparedGrant('g')}) as count`.execute(db.q)
  return rows[0]!.count
}

/**
 * Returns true if every seat and grant has a member and no problem blocks the switch. Stops at the first row that lacks
 * a member, because writers wait during this query.
 */
export const isPrepared = async (tx: Tx, organization_id: string): Promise<boolean> => {
  const { rows } = await sql<{ prepared: boolean }>`
    select (select s.id from seats s where s.organization_id = ${organization_id} and ${unpreparedSeat('s')} order by s.id limit 1) is null
      and (select g.id from benefit_grants g where g.organization_id = ${organization_id} and ${unpreparedGrant('g')} order by g.id limit 1) is null
      and not exists (select from member_migration_problems where organization_id = ${organization_id} and blocks) as prepared`.execute(tx.q)
  return rows[0]!.prepared
}

export const listProblems = (db: Db, organization_id: string, limit: number): Promise<MemberMigrationProblem[]> =>
  db.q
    .selectFrom('member_migration_problems')
    .select(['resource', 'id', 'problem', 'blocks'])
    .where('organization_id', '=', organization_id)
    .orderBy('blocks', 'desc')
    .orderBy('resource')
    .orderBy('id')
    .limit(limit)
    .execute()

export const clearProblems = async (tx: Tx, organization_id: string): Promise<void> => {
  await tx.q.deleteFrom('member_migration_problems').where('organization_id', '=', organization_id).execute()
}

export const noteProblem = async (tx: Tx, organization_id: string, problem: MemberMigrationProblem): Promise<void> => {
  await tx.q
    .insertInto('member_migration_problems')
    .values({ organization_id, ...problem })
    .onConflict((twin) => twin.doNothing())
    .execute()
}

/**
 * Lock timeouts of successive attempts of the switch. The first timeouts are short and suffice if writes are fast.
 * Later ones are longer, because the switch would otherwise never get the lock among slow writes.
 */
const timeout = { waits_ms: [...Array<number>(10).fill(50), 75, 115, 170, 260, 390, 580, 870, 1300, 1950], pause_s: 0.025 }

/**
 * Waits until no transaction writes seats or grants, and blocks such writes until this transaction ends. A concurrent
 * writer waits at most one lock timeout, because the lock request is then canceled and retried. Returns false if the
 * lock was never acquired.
 */
export const holdPhaseAlone = async (tx: Tx, organization_id: string): Promise<boolean> => {
  await sql`savepoint turn`.execute(tx.q)
  for (const wait_ms of timeout.waits_ms) {
    await sql`set local lock_timeout = ${sql.lit(wait_ms)}`.execute(tx.q)
    try {
      await sql`select pg_advisory_xact_lock(hashtextextended('member phase ' || ${organization_id}, 0))`.execute(tx.q)
      // The rest of the transaction uses the default lock timeout.
      await sql`set local lock_timeout to default`.execute(tx.q)
      return true
    } catch (error) {
      if ((error as { code?: string }).code !== '55P03') throw error
      await sql`rollback to savepoint turn`.execute(tx.q)
      await sql`select pg_sleep(${timeout.pause_s})`.execute(tx.q)
    }
  }
  return false
}

/** Raises the statement timeout, because planning a whole organization may take longer than a usual request. */
export const allowTime = async (db: Db): Promise<void> => {
  await sql`set local statement_timeout = '120s'`.execute(db.q)
}
