import type { MemberMigrationProblem, MemberMigrationState, MemberMigrationWork } from '@bursar/contract'
import { sql, type Selectable } from 'kysely'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { unpreparedGrant, unpreparedSeat } from './planning.sql.ts'

export interface MigrationTable {
  organization_id: string
  id: string
  state: MemberMigrationState
  work: MemberMigrationWork | null
  /** Where the work is, and after which row it goes on. */
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

/** Of an organization that has never begun: what its phase says. */
export const unbegun = (organization_id: string, phase: 'before' | 'phase1' | 'phase2'): MigrationRow => ({
  ...unleased,
  clock_id: null,
  organization_id,
  id: organization_id,
  // Whoever was born with members has nothing to go back to.
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

/** Held: one step at a time, and none beside the work. */
export const lockMigration = async (tx: Tx, born: MigrationRow): Promise<Locked<MigrationRow>> => {
  await tx.q
    .insertInto('member_migrations')
    .values(born)
    .onConflict((twin) => twin.columns(['organization_id', 'id']).doNothing())
    .execute()
  return (await tx.q
    .selectFrom('member_migrations')
    .selectAll()
    .where('organization_id', '=', born.organization_id)
    .forNoKeyUpdate()
    .executeTakeFirstOrThrow()) as Locked<MigrationRow>
}

export const changeMigration = (tx: Tx, { organization_id }: Locked<MigrationRow>, changes: Partial<MigrationRow>): Promise<MigrationRow> =>
  tx.q.updateTable('member_migrations').set(changes).where('organization_id', '=', organization_id).returningAll().executeTakeFirstOrThrow()

/** How many seats and grants have no member. */
export const countUnprepared = async (db: Db, organization_id: string): Promise<number> => {
  const { rows } = await sql<{ count: number }>`
    select (select count(*) from seats s where s.organization_id = ${organization_id} and ${unpreparedSeat('s')})
      + (select count(*) from benefit_grants g where g.organization_id = ${organization_id} and ${unpreparedGrant('g')}) as count`.execute(db.q)
  return rows[0]!.count
}

/** Whether there is any: what the switch asks while everybody waits. */
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
 * For how long the switch may keep others waiting at a time. Little at first, which is enough where writes are as quick as
 * they should be; more and more where they are not, because otherwise it would never have its turn among slow ones.
 */
const patience = { waits_ms: [...Array<number>(10).fill(50), 75, 115, 170, 260, 390, 580, 870, 1300, 1950], pause_s: 0.025 }

/**
 * Waits until nobody is writing seats or grants, and keeps everybody from it until the transaction ends. Whoever comes
 * meanwhile waits no longer than this waits: it lets them pass and tries again. False: it never had its turn.
 */
export const holdPhaseAlone = async (tx: Tx, organization_id: string): Promise<boolean> => {
  await sql`savepoint turn`.execute(tx.q)
  for (const wait_ms of patience.waits_ms) {
    await sql`set local lock_timeout = ${sql.lit(wait_ms)}`.execute(tx.q)
    try {
      await sql`select pg_advisory_xact_lock(hashtextextended('member phase ' || ${organization_id}, 0))`.execute(tx.q)
      // What is left to do waits as long as anything else does.
      await sql`set local lock_timeout to default`.execute(tx.q)
      return true
    } catch (error) {
      if ((error as { code?: string }).code !== '55P03') throw error
      await sql`rollback to savepoint turn`.execute(tx.q)
      await sql`select pg_sleep(${patience.pause_s})`.execute(tx.q)
    }
  }
  return false
}

/** A plan over everything may take longer than an answer usually does. */
export const allowTime = async (db: Db): Promise<void> => {
  await sql`set local statement_timeout = '120s'`.execute(db.q)
}
