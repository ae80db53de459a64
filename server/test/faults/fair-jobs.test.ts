import { inviteMember, requestSignInCode } from '@bursar/contract'
import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { newId } from '../../src/kernel/ids.ts'
import { jobClasses } from '../../src/platform/jobs/catalogue.ts'
import { enqueue } from '../../src/platform/jobs/enqueue.sql.ts'
import { fairStopwatch } from '../harness/fair.ts'
import { eventually, openWorld, type World } from '../harness/world.ts'

let world: World
let blocker: pg.Client

beforeEach(async () => {
  // More connections than blocked jobs, so that a job waits for a slot and never for a connection.
  world = await openWorld({ worker: true, settings: { BURSAR_DATABASE_CONNECTIONS: '24' } })
  blocker = new pg.Client({ connectionString: world.database.owner_url })
  await blocker.connect()
})
afterEach(async () => {
  await blocker.end()
  await world.close()
})

const fresh = () => newId(world.clock.wall())

/** Creates an organization whose jobs run until the test ends, because another session holds the lock that each of them needs. */
const slowOrganization = async () => {
  const organization = await world.organization()
  await blocker.query(`select pg_advisory_lock(hashtextextended('member phase ' || $1, 0))`, [organization.id])
  return organization.id
}

/** Counts the running jobs by name, except mails, which end by themselves. */
const running = async () =>
  (
    await world.database.owner((owner) =>
      owner.query<{ name: string; count: number }>(
        `select t.identifier as name, count(*)::int as count from graphile_worker._private_jobs j join graphile_worker._private_tasks t on t.id = j.task_id
         where j.locked_at is not null and t.identifier not like 'mail.%' group by 1`,
      ),
    )
  ).rows
/** Waits until this number of jobs runs, and no further job of the queue starts. */
const busy = (count: number) => eventually(`${count} jobs run`, async () => (await running()).reduce((sum, one) => sum + one.count, 0) === count, 20_000)

/** Waits for the mail of one person. Fails after ten seconds, because the mail then waits for the slow jobs. */
const mailed = async (email: string) => {
  const since = fairStopwatch()
  await eventually(`the mail to ${email} is sent`, async () => world.mail.letters.some(({ to }) => to === email), 10_000)
  return since()
}
const signIn = async () => {
  const { email } = await world.person()
  await world.client().call(requestSignInCode, { body: { email } })
  return mailed(email)
}

test('sends a sign-in code at once while forty bulk jobs of one organization wait', async () => {
  const organization_id = await slowOrganization()
  await world.transact(async (tx) => {
    for (let at = 0; at < 40; at++) await enqueue(tx, 'entitlements.benefit_changed', { organization_id, benefit_id: fresh() })
  })
  await busy(jobClasses.bulk.per_organization)
  expect(await signIn()).toBeLessThan(3_000)
  expect(await running()).toEqual([{ name: 'entitlements.benefit_changed', count: jobClasses.bulk.per_organization }])
})

test('sends the mail of another organization at once while forty ordinary jobs of one organization wait', async () => {
  const organization_id = await slowOrganization()
  await world.transact(async (tx) => {
    for (let at = 0; at < 40; at++) await enqueue(tx, 'entitlements.reconcile', { organization_id, subscription_id: fresh(), order_id: null, seat_id: null })
  })
  await busy(jobClasses.ordinary.per_organization)
  const shop = await world.shop()
  await (await shop.dashboard()).call(inviteMember, { params: { id: shop.organization.id }, body: { email: 'invited@people.test' } })
  expect(await mailed('invited@people.test')).toBeLessThan(3_000)
  expect(await running()).toEqual([{ name: 'entitlements.reconcile', count: jobClasses.ordinary.per_organization }])
})

test('keeps slots free for urgent jobs while ordinary and bulk jobs of many organizations wait', async () => {
  for (let at = 0; at < 6; at++) {
    const organization_id = await slowOrganization()
    await world.transact(async (tx) => {
      await enqueue(tx, 'entitlements.product_changed', { organization_id, product_id: fresh() })
      for (let job = 0; job < 3; job++) await enqueue(tx, 'entitlements.owner_changed', { organization_id, customer_id: fresh() })
    })
  }
  await busy(jobClasses.ordinary.slots)
  expect(await signIn()).toBeLessThan(3_000)
  expect((await running()).reduce((sum, one) => sum + one.count, 0)).toBe(jobClasses.ordinary.slots)
})

test('orders waiting jobs by class: urgent, ordinary, bulk', async () => {
  await world.working!.close()
  const { id: organization_id } = await world.organization()
  await world.transact(async (tx) => {
    await enqueue(tx, 'customers.forget', { organization_id, customer_id: fresh() })
    await enqueue(tx, 'entitlements.owner_changed', { organization_id, customer_id: fresh() })
    await enqueue(tx, 'mail.sign_in_code', { sign_in_code_id: fresh() })
  })
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ name: string }>(
      `select t.identifier as name from graphile_worker._private_jobs j join graphile_worker._private_tasks t on t.id = j.task_id order by j.priority, j.run_at`,
    ),
  )
  expect(rows.map(({ name }) => name)).toEqual(['mail.sign_in_code', 'entitlements.owner_changed', 'customers.forget'])
})
