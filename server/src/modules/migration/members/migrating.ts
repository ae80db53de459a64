import { MigrationIncomplete, MigrationNotPossible, MigrationSealed, type MemberMigration } from '@bursar/contract'
import { phaseOf, type Reach } from '../../../kernel/actors.ts'
import { days, later } from '../../../platform/clock.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { changePhase, chooseOne, permit } from '../../organizations/index.ts'
import {
  changeMigration,
  clearProblems,
  countUnprepared,
  findMigration,
  holdPhaseAlone,
  isPrepared,
  listProblems,
  lockMigration,
  unbegun,
  type MigrationRow,
} from './migrations.sql.ts'

/** The organization that is meant: the caller's only one, or the one that is named. */
export const choose = (reach: Reach, given: string | null | undefined): string => {
  const organization_id = chooseOne(reach, given ? [given] : [])
  permit(reach, organization_id, 'organization:manage')
  return organization_id
}

/** How far it is, as the wire shows it. */
export const present = async (db: Db, { organization_id, work, done, total, ...row }: MigrationRow): Promise<MemberMigration> => ({
  ...row,
  organization_id,
  work: work === null ? null : { kind: work, done, total: Math.max(done, total) },
  unprepared: row.state === 'sealed' || row.state === 'phase2' ? 0 : await countUnprepared(db, organization_id),
  problems: await listProblems(db, organization_id, 100),
})

export const find = async (db: Db, reach: Reach, organization_id: string): Promise<MigrationRow> =>
  (await findMigration(db, organization_id)) ?? unbegun(organization_id, phaseOf(reach, organization_id))

const hold = (tx: Tx, reach: Reach, organization_id: string): Promise<Locked<MigrationRow>> =>
  lockMigration(tx, unbegun(organization_id, phaseOf(reach, organization_id)))

const notFrom = (row: MigrationRow, wanted: string): Error =>
  row.state === 'sealed'
    ? new MigrationSealed()
    : new MigrationNotPossible(
        row.work === null
          ? `The migration is at "${row.state}"; this is possible at ${wanted}.`
          : `The migration is at "${row.state}", and "${row.work}" is under way: wait until it is done.`,
      )

/** A work begins from its first row, at once. */
const begin = (tx: Tx, work: MigrationRow['work']): Partial<MigrationRow> => ({ work, step: '', after: null, done: 0, total: 0, due_at: tx.clock.wall() })

/** Prepares members, or goes on with it: what is done already is not done again. */
export const start = async (tx: Tx, reach: Reach, organization_id: string): Promise<MigrationRow> => {
  const row = await hold(tx, reach, organization_id)
  if (row.state === 'preparing' && row.work === 'prepare') return row
  if (row.work !== null || (row.state !== 'before' && row.state !== 'preparing')) throw notFrom(row, '"before", or at "preparing" after problems')
  await clearProblems(tx, organization_id)
  return changeMigration(tx, row, { ...begin(tx, 'prepare'), state: 'preparing', started_at: row.started_at ?? tx.clock.wall(), undone_at: null })
}

/**
 * The switch: one row says from this commit on that members are what is shown. Whoever writes seats or grants does so
 * wholly before it or wholly after it. That everything is prepared is asked again while they wait.
 */
export const switchOn = async (tx: Tx, reach: Reach, { config }: Platform, organization_id: string): Promise<MigrationRow> => {
  const row = await hold(tx, reach, organization_id)
  if (row.state !== 'phase1' || row.work !== null) throw notFrom(row, '"phase1"')
  // Asked before anybody waits as well: what takes long to find out is known by then.
  if (!(await isPrepared(tx, organization_id))) throw new MigrationIncomplete()
  await take(tx, organization_id)
  if (!(await isPrepared(tx, organization_id))) throw new MigrationIncomplete()
  await changePhase(tx, reach, organization_id, 'phase2')
  const now = tx.clock.wall()
  return changeMigration(tx, row, {
    ...begin(tx, 'tell'),
    state: 'phase2',
    switched_at: now,
    seal_at: later(now, config.member_migration.seal_days * days),
    undone_at: null,
  })
}

const take = async (tx: Tx, organization_id: string): Promise<void> => {
  if (!(await holdPhaseAlone(tx, organization_id)))
    throw new MigrationNotPossible('Somebody was writing seats or benefits all the time, and nobody is kept waiting for long. Try again.')
}

/** One step back: from phase 2 at one instant, from phase 1 in the background. */
export const undo = async (tx: Tx, reach: Reach, organization_id: string): Promise<MigrationRow> => {
  const row = await hold(tx, reach, organization_id)
  const now = tx.clock.wall()
  if (row.state === 'phase2') {
    if (row.work === 'untell' || row.work === 'purge') throw notFrom(row, '"phase1" or "phase2"')
    await take(tx, organization_id)
    await changePhase(tx, reach, organization_id, 'phase1')
    return changeMigration(tx, row, { ...begin(tx, 'untell'), state: 'phase1', switched_at: null, seal_at: null, undone_at: now })
  }
  if (row.state === 'preparing' || (row.state === 'phase1' && row.work === null)) {
    await changePhase(tx, reach, organization_id, 'before')
    await clearProblems(tx, organization_id)
    return changeMigration(tx, row, { ...begin(tx, 'unprepare'), state: 'before', started_at: null, prepared_at: null, undone_at: now })
  }
  throw notFrom(row, '"preparing", "phase1" or "phase2"')
}

/** For good. */
export const seal = async (tx: Tx, reach: Reach, organization_id: string): Promise<MigrationRow> => {
  const row = await hold(tx, reach, organization_id)
  if (row.state !== 'phase2' || row.work !== null) throw notFrom(row, '"phase2"')
  return sealed(tx, row)
}

export const sealed = (tx: Tx, row: Locked<MigrationRow>): Promise<MigrationRow> =>
  changeMigration(tx, row, { ...begin(tx, 'purge'), state: 'sealed', sealed_at: tx.clock.wall(), seal_at: null })

/** A rehearsal is of what is still to come. */
export const needAhead = (reach: Reach, organization_id: string): void => {
  if (phaseOf(reach, organization_id) === 'phase2') throw new MigrationNotPossible('The switch has been made: there is nothing left to rehearse.')
}
