import { customerCreated, customerDeleted, customerUpdated, memberCreated, memberDeleted } from '@bursar/contract'
import { within, type Reach } from '../../../kernel/actors.ts'
import { later, seconds } from '../../../platform/clock.ts'
import { checkLease, extendLease, LeaseLost, releaseLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { emitEach } from '../../../platform/outbox/outbox.sql.ts'
import { isUnavailable, type Locked, type Tx } from '../../../platform/postgres/postgres.ts'
import { loadCustomers, presentCustomer, presentMember, type CustomerRow, type MemberRow } from '../../customers/index.ts'
import type { Means, Platform } from '../../handlers.ts'
import { changePhase, holdPhase } from '../../organizations/index.ts'
import { changeMigration, isPrepared, lockMigration, noteProblem, unbegun, type MigrationRow } from './migrations.sql.ts'
import { sealed } from './migrating.ts'
import * as rows from './preparing.sql.ts'

/** What is said of a part is little at a time: other events of the seller are not to wait behind it. */
const pace = { events: 200, pause: 1 * seconds }

/** A part of a work: the rows it goes through, and what is done with some of them. */
interface Step {
  readonly page: (tx: Tx, at: rows.Cursor) => Promise<string[]>
  readonly run: (tx: Tx, row: Locked<MigrationRow>, ids: readonly string[], platform: Platform) => Promise<void>
  /** What a row of it is called: one that fails is passed over and told. */
  readonly resource: 'customer' | 'seat' | 'grant' | 'member'
  /** Every row of it is said to the world. */
  readonly told?: true
}

const subject = ({ organization_id, id, customer_id }: MemberRow) => ({ organization_id, resource_id: id, customer_id, is_migration: true })

const preparing =
  (scope: 'owners' | 'seats' | 'grants'): Step['run'] =>
  async (tx, { organization_id, started_at }, ids) => {
    await holdPhase(tx, organization_id)
    const made = await rows.prepare(tx, organization_id, { [scope]: ids } as Parameters<typeof rows.prepare>[2], started_at!)
    if (made.length > 0 && (await rows.isHeard(tx, organization_id)))
      await emitEach(
        tx,
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
      tx,
      memberDeleted,
      gone.map((member) => [subject(member), presentMember(member)]),
    )
}

/** Customers, as the phase that the organization is in shows them. */
const shown = async (tx: Tx, organization_id: string, ids: readonly string[], still: Parameters<typeof rows.holdStill>[3]): Promise<CustomerRow[]> => {
  const reach: Reach = within(organization_id, 'machine', await holdPhase(tx, organization_id))
  const held = await rows.holdStill(tx, organization_id, ids, still)
  return (await loadCustomers(tx, reach, held)).toSorted((a, b) => (a.id < b.id ? -1 : 1))
}

const idsOf = (customers: readonly CustomerRow[]) => customers.map(({ id }) => id)
const about = ({ organization_id, id }: CustomerRow) => ({ organization_id, resource_id: id, customer_id: id })

const entombing: Step['run'] = async (tx, { organization_id, switched_at }, ids) => {
  const customers = await shown(tx, organization_id, ids, 'holders')
  await emitEach(
    tx,
    customerDeleted,
    customers.map((customer) => [about(customer), presentCustomer({ ...customer, deleted_at: switched_at })]),
  )
  await rows.entomb(tx, organization_id, idsOf(customers), switched_at)
}

const reviving: Step['run'] = async (tx, { organization_id }, ids) => {
  const customers = await shown(tx, organization_id, ids, 'tombstones')
  await emitEach(
    tx,
    customerCreated,
    customers.map((customer) => [about(customer), presentCustomer(customer)]),
  )
  await rows.entomb(tx, organization_id, idsOf(customers), null)
}

const retelling: Step['run'] = async (tx, { organization_id }, ids) => {
  const customers = await shown(tx, organization_id, ids, 'teams')
  await emitEach(
    tx,
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

/** When the next part is to be done. */
type Next = 'at once' | 'later'

/** So many parts are done in a row before others have a turn. */
const atOnce = 50

/**
 * The work behind a step of the migration. Each part is a transaction that also says how far it came: a worker that dies
 * anywhere is followed by one that goes on after the last part that is done, and what was done is not done again.
 */
export const work = async (means: Means, lease: Lease): Promise<void> => {
  for (let turn = 0; turn < atOnce; turn++) {
    const next = await means
      .transact((tx) => proceed(tx, means.platform, lease, means.platform.config.member_migration.batch))
      .catch((error: unknown) => {
        if (error instanceof LeaseLost || (isUnavailable(error) && !tookTooLong(error))) throw error
        return oneByOne(means, lease, error)
      })
    if (next !== 'at once') return
  }
  await means.transact(async (tx) => {
    await checkLease(tx, lease)
    await releaseLease(tx, lease, tx.clock.wall())
  })
}

/** It waited for somebody, or was too much at once: less of it may do. */
const tookTooLong = (error: unknown) => ['55P03', '57014'].includes((error as { code?: string }).code ?? '')

const hold = (tx: Tx, { organization_id }: Lease) => lockMigration(tx, unbegun(organization_id, 'before'))

/** Does the next part. Whatever comes after it is said in the same transaction. */
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

/** A part that fails as a whole is done row by row: the row that cannot be is told, and passed over. */
const oneByOne = async (means: Means, lease: Lease, error: unknown): Promise<Next> => {
  try {
    return await means.transact((tx) => proceed(tx, means.platform, lease, 1))
  } catch (again) {
    if (again instanceof LeaseLost || isUnavailable(again)) throw again
    return means.transact(async (tx): Promise<Next> => {
      await checkLease(tx, lease)
      const row = await hold(tx, lease)
      const step = row.work === null || row.step === '' ? undefined : works[row.work][row.step]
      const [id] = step ? await step.page(tx, { organization_id: row.organization_id, after: row.after, limit: 1 }) : []
      if (!step || id === undefined) throw error
      means.platform.log.error('migration_row_failed', { organization_id: row.organization_id, error: again })
      await noteProblem(tx, row.organization_id, {
        resource: step.resource,
        id,
        problem: 'Something went wrong with it on our side. Prepare again; if it stays, ask the operator.',
        blocks: true,
      })
      await changeMigration(tx, row, { after: id, done: row.done + 1 })
      return 'at once'
    })
  }
}

/** Everything of a work is done. */
const finish = async (tx: Tx, row: Locked<MigrationRow>): Promise<Date | null> => {
  const reach = within(row.organization_id, 'machine', 'before')
  const done: Partial<MigrationRow> = { work: null, step: '', after: null }
  if (row.work !== 'prepare') {
    await changeMigration(tx, row, done)
    return rest(tx, { ...row, work: null })
  }
  // Whatever has no member keeps the organization where it is, until somebody has looked at it.
  const prepared = await isPrepared(tx, row.organization_id)
  if (prepared) await changePhase(tx, reach, row.organization_id, 'phase1')
  await changeMigration(tx, row, { ...done, ...(prepared ? { state: 'phase1' as const, prepared_at: tx.clock.wall() } : {}) })
  return null
}

/** When it is due without any work: to be sealed, and then at once. */
const rest = async (tx: Tx, row: Locked<MigrationRow>): Promise<Date | null> => {
  if (row.state !== 'phase2' || row.seal_at === null) return null
  if (row.seal_at > tx.clock.wall()) return row.seal_at
  await sealed(tx, row)
  return tx.clock.wall()
}
