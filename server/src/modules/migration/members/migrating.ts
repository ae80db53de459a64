import { MigrationIncomplete, MigrationNotPossible, MigrationSealed, type MemberMigration } from '@bursar/contract'
import { phaseOf, type TenantScope } from '../../../kernel/actors.ts'
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

/** Returns the organization to migrate: the one named in the request, or the caller's only one. Requires the permission to manage it. */
export const choose = (scope: TenantScope, given: string | null | undefined): string => {
  const organization_id = chooseOne(scope, given ? [given] : [])
  permit(scope, organization_id, 'organization:manage')
  return organization_id
}

/** Presents the progress of the migration. */
export const presentMigration = async (db: Db, { organization_id, work, done, total, ...row }: MigrationRow): Promise<MemberMigration> => ({
  ...row,
  organization_id,
  work: work === null ? null : { kind: work, done, total: Math.max(done, total) },
  unprepared: row.state === 'sealed' || row.state === 'phase2' ? 0 : await countUnprepared(db, organization_id),
  problems: await listProblems(db, organization_id, 100),
})

export const requireMigration = async (db: Db, scope: TenantScope, organization_id: string): Promise<MigrationRow> =>
  (await findMigration(db, organization_id)) ?? unbegun(organization_id, phaseOf(scope, organization_id))

const hold = (tx: Tx, scope: TenantScope, organization_id: string): Promise<Locked<MigrationRow>> =>
  lockMigration(tx, unbegun(organization_id, phaseOf(scope, organization_id)))

const notFrom = (row: MigrationRow, wanted: string): Error =>
  row.state === 'sealed'
    ? new MigrationSealed()
    : new MigrationNotPossible(
        row.work === null
          ? `The migration is in the state "${row.state}". This step needs the state ${wanted}.`
          : `The migration is in the state "${row.state}", and "${row.work}" is in progress. Wait until it is done.`,
      )

/** Returns the columns that start a kind of background work from its first row, due at once. */
const begin = (tx: Tx, work: MigrationRow['work']): Partial<MigrationRow> => ({ work, step: '', after: null, done: 0, total: 0, due_at: tx.clock.wall() })

/** Starts the preparation of members, or continues it after problems. Rows that are prepared already are not processed again. */
export const startMigration = async (tx: Tx, scope: TenantScope, organization_id: string): Promise<MigrationRow> => {
  const row = await hold(tx, scope, organization_id)
  if (row.state === 'preparing' && row.work === 'prepare') return row
  if (row.work !== null || (row.state !== 'before' && row.state !== 'preparing')) throw notFrom(row, '"before", or "preparing" after problems')
  await clearProblems(tx, organization_id)
  return changeMigration(tx, row, { ...begin(tx, 'prepare'), state: 'preparing', started_at: row.started_at ?? tx.clock.wall(), undone_at: null })
}

/**
 * Switches to phase 2 by changing one row. Every transaction that writes seats or grants runs entirely before or after
 * this commit. While such writers are blocked, checks again that every seat and grant has a member.
 */
export const switchOn = async (tx: Tx, scope: TenantScope, { config }: Platform, organization_id: string): Promise<MigrationRow> => {
  const row = await hold(tx, scope, organization_id)
  if (row.state !== 'phase1' || row.work !== null) throw notFrom(row, '"phase1"')
  // Checks once before writers are blocked, because the first run is slower than the second.
  if (!(await isPrepared(tx, organization_id))) throw new MigrationIncomplete()
  await take(tx, organization_id)
  if (!(await isPrepared(tx, organization_id))) throw new MigrationIncomplete()
  await changePhase(tx, scope, organization_id, 'phase2')
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
    throw new MigrationNotPossible('Other requests kept changing seats or benefits, so the switch did not start. Try again.')
}

/** Undoes the last step. Returns from phase 2 to phase 1 at once, and from phase 1 to the original state in the background. */
export const undo = async (tx: Tx, scope: TenantScope, organization_id: string): Promise<MigrationRow> => {
  const row = await hold(tx, scope, organization_id)
  const now = tx.clock.wall()
  if (row.state === 'phase2') {
    if (row.work === 'untell' || row.work === 'purge') throw notFrom(row, '"phase1" or "phase2"')
    await take(tx, organization_id)
    await changePhase(tx, scope, organization_id, 'phase1')
    return changeMigration(tx, row, { ...begin(tx, 'untell'), state: 'phase1', switched_at: null, seal_at: null, undone_at: now })
  }
  if (row.state === 'preparing' || (row.state === 'phase1' && row.work === null)) {
    await changePhase(tx, scope, organization_id, 'before')
    await clearProblems(tx, organization_id)
    return changeMigration(tx, row, { ...begin(tx, 'unprepare'), state: 'before', started_at: null, prepared_at: null, undone_at: now })
  }
  throw notFrom(row, '"preparing", "phase1" or "phase2"')
}

/** Seals the migration. A sealed migration cannot be undone. */
export const seal = async (tx: Tx, scope: TenantScope, organization_id: string): Promise<MigrationRow> => {
  const row = await hold(tx, scope, organization_id)
  if (row.state !== 'phase2' || row.work !== null) throw notFrom(row, '"phase2"')
  return sealed(tx, row)
}

export const sealed = (tx: Tx, row: Locked<MigrationRow>): Promise<MigrationRow> =>
  changeMigration(tx, row, { ...begin(tx, 'purge'), state: 'sealed', sealed_at: tx.clock.wall(), seal_at: null })

/** Rejects a dry run after the switch, because there is nothing left to plan. */
export const needAhead = (scope: TenantScope, organization_id: string): void => {
  if (phaseOf(scope, organization_id) === 'phase2') throw new MigrationNotPossible('The switch was already made, so there is nothing to dry-run.')
}
