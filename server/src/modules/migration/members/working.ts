import { customerCreated, customerDeleted, customerUpdated, memberCreated, memberDeleted } from '@bursar/contract'
import { within, type TenantScope } from '../../../kernel/actors.ts'
import { later, seconds } from '../../../platform/clock.ts'
import { checkLease, extendLease, LeaseLost, releaseLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { emitEach } from '../../../platform/outbox/outbox.sql.ts'
import { isUnavailable, tookTooLong } from '../../../platform/postgres/outage.ts'
import { inWallTime } from '../../../platform/clocks.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { loadCustomers, presentCustomer, presentMember, type CustomerRow, type MemberRow } from '../../customers/index.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { changePhase, holdPhase } from '../../organizations/index.ts'
import { changeMigration, isPrepared, lockMigration, noteProblem, unbegun, type MigrationRow } from './migrations.sql.ts'
import { sealed } from './migrating.ts'
import * as rows from './preparing.sql.ts'

/** Number of migration events per batch, and the pause after each batch. Without the pause, other events of the seller would be delayed. */
const pace = { events: 200, pause: 1 * seconds }

/** A step of background work: the rows that it pages through, and the action for one batch of rows. */
interface Step {
  readonly page: (tx: Tx, at: rows.Cursor) => Promise<string[]>
  readonly run: (tx: Tx, row: Locked<MigrationRow>, ids: readonly string[], platform: Platform) => Promise<void>
  /** Name of the step's rows in a problem report. A row that fails is skipped and reported. */
  readonly resource: 'customer' | 'seat' | 'grant' | 'member'
  /** Set if the step emits an event for every row. */
  readonly told?: true
}

const subject = ({ organization_id, id, customer_id }: MemberRow) => ({ organization_id, resource_id: id, customer_id, is_migration: true })

const preparing =
  (part: 'owners' | 'seats' | 'grants'): Step['run'] =>
  async (tx, { organization_id, started_at }, ids) => {
    await holdPhase(tx, organization_id)
    const made = await rows.prepare(tx, organization_id, { [part]: ids } as Parameters<typeof rows.prepare>[2], started_at!)
    if (made.length > 0 && (await rows.isHeard(tx, organization_id)))
      await emitEach(
        inWallTime(tx),
        memberCreated,
        made.map((member) => [subject(member), presentMember(member)]),
      )
  }

const holding =
  (work: (tx: Tx, organization_id: string, ids: readonly string[]) => Promise<void>): Step['run'] =>
  async (tx, { organization_id }, ids) => {
    await holdPhase(tx, organization_id)
    await work(tx, organization_id, ids)
  }

const removing: Step['run'] = async (tx, { organization_id }, ids) => {
  const gone = await rows.removeMembers(tx, organization_id, ids)
  if (gone.length > 0 && (await rows.isHeard(tx, organization_id)))
    await emitEach(
      inWallTime(tx),
      memberDeleted,
      gone.map((member) => [subject(member), presentMember(member)]),
    )
}

/** Locks the customers that still meet the condition. Loads them as the current phase of the organization shows them. */
const shown = async (tx: Tx, organization_id: string, ids: readonly string[], still: Parameters<typeof rows.holdStill>[3]): Promise<CustomerRow[]> => {
  const scope: TenantScope = within(organization_id, 'machine', await holdPhase(tx, organization_id))
  const held = await rows.holdStill(tx, organization_id, ids, still)
  return (await loadCustomers(tx, scope, held)).toSorted((a, b) => (a.id < b.id ? -1 : 1))
}

const idsOf = (customers: readonly CustomerRow[]) => customers.map(({ id }) => id)
const about = ({ organization_id, id }: CustomerRow) => ({ organization_id, resource_id: id, customer_id: id })

const entombing: Step['run'] = async (tx, { organization_id, switched_at }, ids) => {
  const customers = await shown(tx, organization_id, ids, 'holders')
  await emitEach(
    inWallTime(tx),
    customerDeleted,
    customers.map((customer) => [about(customer), presentCustomer({ ...customer, deleted_at: switched_at })]),
  )
  await rows.entomb(tx, organization_id, idsOf(customers), switched_at)
}

const reviving: Step['run'] = async (tx, { organization_id }, ids) => {
  const customers = await shown(tx, organization_id, ids, 'tombstones')
  await emitEach(
    inWallTime(tx),
    customerCreated,
    customers.map((customer) => [about(customer), presentCustomer(customer)]),
  )
  await rows.entomb(tx, organization_id, idsOf(customers), null)
}

const retelling: Step['run'] = async (tx, { organization_id }, ids) => {
  const customers = await shown(tx, organization_id, ids, 'teams')
  await emitEach(
    inWallTime(tx),
    customerUpdated,
    customers.map((customer) => [about(customer), presentCustomer(customer)]),
  )
}

const works: Record<NonNullable<MigrationRow['work']>, Readonly<Record<string, Step>>> = {
  prepare: {
    owners: { page: rows.pages.owners, run: preparing('owners'), resource: 'customer' },
    seats: { page: rows.pages.seats, run: preparing('seats'), resource: 'seat' },
    grants: { page: rows.pages.grants, run: preparing('grants'), resource: 'grant' },
    marks: { page: rows.pages.marks, run: holding(rows.mark), resource: 'customer' },
  },
  unprepare: {
    seats: { page: rows.pages.prepared_seats, run: holding(rows.unprepareSeats), resource: 'seat' },
    grants: { page: rows.pages.prepared_grants, run: holding(rows.unprepareGrants), resource: 'grant' },
    marks: { page: rows.pages.prepared_marks, run: holding(rows.unmark), resource: 'customer' },
    members: { page: rows.pages.prepared_members, run: removing, resource: 'member' },
  },
  tell: {
    holders: { page: rows.pages.holders, run: entombing, resource: 'customer', told: true },
    teams: { page: rows.pages.teams, run: retelling, resource: 'customer', told: true },
  },
  untell: {
    tombstones: { page: rows.pages.tombstones, run: reviving, resource: 'customer', told: true },
    teams: { page: rows.pages.teams, run: retelling, resource: 'customer', told: true },
  },
  purge: {
    tombstones: {
      page: rows.pages.tombstones,
      run: (tx, { organization_id, sealed_at }, ids, { discretion }) => rows.purge(tx, discretion, organization_id, ids, sealed_at!),
      resource: 'customer',
    },
  },
}

/** Whether this worker runs the next batch at once. */
type Next = 'at once' | 'later'

/** Number of batches that one worker runs in a row before it releases the lease. */
const atOnce = 50

/**
 * Runs the background work of a migration. Each batch is one transaction that also stores the progress. After a crash,
 * another worker continues after the last committed batch. No batch is applied twice.
 */
export const work = async (deps: Deps, lease: Lease): Promise<void> => {
  for (let turn = 0; turn < atOnce; turn++) {
    const next = await deps
      .transact((tx) => proceed(tx, deps.platform, lease, deps.platform.config.member_migration.batch))
      .catch((error: unknown) => {
        if (error instanceof LeaseLost || (isUnavailable(error) && !tookTooLong(error))) throw error
        return oneByOne(deps, lease, error)
      })
    if (next !== 'at once') return
  }
  await deps.transact(async (tx) => {
    await checkLease(tx, lease)
    await releaseLease(tx, lease, tx.clock.wall())
  })
}

const hold = (tx: Tx, { organization_id }: Lease) => lockMigration(tx, unbegun(organization_id, 'before'))

/** Runs the next batch and stores the progress in the same transaction. */
const proceed = async (tx: Tx, platform: Platform, lease: Lease, most: number): Promise<Next> => {
  await checkLease(tx, lease)
  const row = await hold(tx, lease)
  if (row.work === null) {
    await releaseLease(tx, lease, await rest(tx, row))
    return 'later'
  }
  const names = Object.keys(works[row.work])
  if (row.step === '') {
    await changeMigration(tx, row, { step: names[0]!, total: await rows.countWork(tx, row.organization_id, row.work) })
    return 'at once'
  }
  await rows.beBrief(tx)
  const step = works[row.work][row.step]!
  const heard = step.told === true || (row.work === 'prepare' && (await rows.isHeard(tx, row.organization_id)))
  const limit = heard ? Math.min(most, pace.events) : most
  const ids = await step.page(tx, { organization_id: row.organization_id, after: row.after, limit })
  if (ids.length > 0) {
    await step.run(tx, row, ids, platform)
    await changeMigration(tx, row, { after: ids.at(-1)!, done: row.done + ids.length })
    if (heard) {
      await releaseLease(tx, lease, later(tx.clock.wall(), pace.pause))
      return 'later'
    }
    await extendLease(tx, lease, 60 * seconds)
    return 'at once'
  }
  const following = names[names.indexOf(row.step) + 1]
  if (following !== undefined) {
    await changeMigration(tx, row, { step: following, after: null })
    return 'at once'
  }
  await releaseLease(tx, lease, await finish(tx, row))
  return 'later'
}

/** Retries the first row of a failed batch alone. A row that fails again is reported and skipped. */
const oneByOne = async (deps: Deps, lease: Lease, error: unknown): Promise<Next> => {
  try {
    return await deps.transact((tx) => proceed(tx, deps.platform, lease, 1))
  } catch (again) {
    if (again instanceof LeaseLost || isUnavailable(again)) throw again
    return deps.transact(async (tx): Promise<Next> => {
      await checkLease(tx, lease)
      const row = await hold(tx, lease)
      const step = row.work === null || row.step === '' ? undefined : works[row.work][row.step]
      const [id] = step ? await step.page(tx, { organization_id: row.organization_id, after: row.after, limit: 1 }) : []
      if (!step || id === undefined) throw error
      deps.platform.log.error('migration_row_failed', { organization_id: row.organization_id, error: again })
      await noteProblem(tx, row.organization_id, {
        resource: step.resource,
        id,
        problem: 'An internal error occurred for this record. Prepare again. If the error stays, contact the operator.',
        blocks: true,
      })
      await changeMigration(tx, row, { after: id, done: row.done + 1 })
      return 'at once'
    })
  }
}

/** Finishes background work whose steps are all done. A finished preparation moves the organization to phase 1. */
const finish = async (tx: Tx, row: Locked<MigrationRow>): Promise<Date | null> => {
  const scope = within(row.organization_id, 'machine', 'before')
  const done: Partial<MigrationRow> = { work: null, step: '', after: null }
  if (row.work !== 'prepare') {
    await changeMigration(tx, row, done)
    return rest(tx, { ...row, work: null })
  }
  // If a seat or grant still has no member, the organization stays in its phase until the problem is solved.
  const prepared = await isPrepared(tx, row.organization_id)
  if (prepared) await changePhase(tx, scope, row.organization_id, 'phase1')
  await changeMigration(tx, row, { ...done, ...(prepared ? { state: 'phase1' as const, prepared_at: tx.clock.wall() } : {}) })
  return null
}

/** Returns the time at which the migration will be sealed. Seals the migration at once if that time has passed. */
const rest = async (tx: Tx, row: Locked<MigrationRow>): Promise<Date | null> => {
  if (row.state !== 'phase2' || row.seal_at === null) return null
  if (row.seal_at > tx.clock.wall()) return row.seal_at
  await sealed(tx, row)
  return tx.clock.wall()
}
