import {
  exportMemberMigration,
  getMemberMigration,
  dryRunMemberMigration,
  startMemberMigration,
  switchMemberMigration,
  undoMemberMigration,
  type MemberMigrationPlan,
} from '@bursar/contract'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { z } from 'zod'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { importBundle, randomBundle } from '../../../../test/harness/golden.ts'
import { saidOf, summaryOf, type Summary } from '../../../../test/harness/legacy.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { counted } from '../../../../test/harness/pace.ts'

/** Number of random organizations. Set BURSAR_TEST_PLANS=1000 for a thousand. */
const rounds = counted('PLANS', 25, 6)

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
beforeAll(async () => {
  world = await openWorld({ settings: { BURSAR_MEMBER_MIGRATION_BATCH: '3' } })
  deployment = await openDeployment(world, openLife(null))
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

type Row = Record<string, unknown> & { id: string }
const byId = (rows: readonly unknown[]) => new Map((rows as Row[]).map((row) => [row.id, row]))

/** Returns the changes between two summaries, in the form of a plan. */
const changesOf = (before: Summary, after: Summary) => {
  const filled = (table: string) => {
    const was = byId(before[table]!)
    return (after[table] as Row[]).filter((row) => was.get(row.id)?.member_id !== row.member_id).map(({ id, member_id }) => ({ id, member_id }))
  }
  const people = byId(before.members!)
  return {
    members: (after.members as Row[])
      .filter(({ id }) => !people.has(id))
      .map(({ id, customer_id, email, name, external_id, role }) => ({ id, customer_id, email, name, external_id, role })),
    seats: filled('seats'),
    grants: filled('benefit_grants'),
    license_keys: filled('license_keys').length,
    gone: (after.customers as Row[]).filter((row) => row.pure_holder && row.deleted_at === null).map(({ id }) => id),
    teams: (after.customers as Row[]).filter((row) => row.becomes_team && row.type !== 'team' && row.deleted_at === null).map(({ id }) => id),
    problems: (after.member_migration_problems as Row[]).map(({ resource, id, problem, blocks }) => ({ resource, id, problem, blocks })),
  }
}

type Plan = z.input<typeof MemberMigrationPlan>
const planned = (plan: Plan) => ({
  members: plan.members,
  seats: plan.seats.map(({ id, member_id }) => ({ id, member_id })),
  grants: plan.grants.map(({ id, member_id }) => ({ id, member_id })),
  license_keys: plan.counts.license_keys,
  gone: plan.gone,
  teams: plan.teams,
  problems: plan.problems,
})

const sorted = <T extends object>(found: T): T =>
  Object.fromEntries(
    Object.entries(found).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.map((one) => JSON.stringify(one)).toSorted((a, b) => (a < b ? -1 : 1)) : value,
    ]),
  ) as T

let serial = 0
test(
  `${rounds} random organizations: the migration does what the dry run planned, undo restores the state, and a repeat changes nothing [S3-01] [S3-02] [S3-03] [S3-08]`,
  { timeout: 3_600_000 },
  async () => {
    const seen = { members: 0, gone: 0, problems: 0, staying: 0 }
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(), { minLength: 60, maxLength: 60 }), async (numbers) => {
        const { api, organization } = await importBundle(world, randomBundle(numbers, `random-${serial++}`))
        const summary = () => summaryOf(world.database, organization.id)
        const work = async () => {
          while ((await api.call(getMemberMigration, {})).work !== null) {
            await deployment.sweep('migration.work')
            world.clock.advance(2000)
          }
        }
        const before = await summary()
        const plan = await api.call(dryRunMemberMigration, {})
        const file = await api.sendRaw(exportMemberMigration, {})
        for (const id of [...plan.gone, ...plan.seats.map((seat) => seat.id), ...plan.members.map((member) => member.id)]) expect(file.body).toContain(id)
        expect(await summary()).toEqual(before)
        await api.call(startMemberMigration, { body: {} })
        await work()
        const prepared = await summary()
        expect(sorted(changesOf(before, prepared))).toEqual(sorted(planned(plan)))
        const { state } = await api.call(getMemberMigration, {})
        expect(state).toBe(plan.problems.some(({ blocks }) => blocks) ? 'preparing' : 'phase1')
        if (state === 'phase1') {
          await api.call(switchMemberMigration, { body: {} })
          await work()
          expect((await saidOf(world.database, organization.id)).filter((said) => said.startsWith('customer.deleted'))).toEqual(
            plan.gone.map((id) => `customer.deleted ${id}`).toSorted((a, b) => (a < b ? -1 : 1)),
          )
          await api.call(undoMemberMigration, { body: {} })
          await work()
          expect(await summary()).toEqual(prepared)
        } else {
          // A second preparation changes nothing.
          await api.call(startMemberMigration, { body: {} })
          await work()
          expect(await summary()).toEqual(prepared)
        }
        await api.call(undoMemberMigration, { body: {} })
        await work()
        expect(await summary()).toEqual(before)
        seen.members += plan.counts.members
        seen.gone += plan.counts.gone
        seen.problems += plan.counts.problems
        seen.staying += plan.counts.staying
      }),
      // Disables shrinking, because each attempt takes a minute. The printed numbers suffice to reproduce a failure.
      { numRuns: rounds, endOnFailure: true },
    )
    // Every case must have occurred at least once, otherwise the test did not cover it.
    expect(Object.entries(seen).filter(([name, count]) => count === 0 && name !== 'problems')).toEqual([])
  },
)
