import {
  createBenefit,
  createCustomer,
  exportMemberMigration,
  getCustomer,
  getProduct,
  getMemberMigration,
  getSeat,
  listBenefitGrants,
  listCustomerMembers,
  listCustomers,
  listLicenseKeys,
  dryRunMemberMigration,
  sealMemberMigration,
  startMemberMigration,
  switchMemberMigration,
  undoMemberMigration,
  updateCustomer,
  updateProductBenefits,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { degrade, summaryOf } from '../../../../test/harness/legacy.ts'
import { openTeams, type Team, type Teams } from '../../../../test/harness/teams.ts'
import { within } from '../../../kernel/actors.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { becomeBuyer, loadCustomers } from '../../customers/index.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
let teams: Teams
beforeAll(async () => {
  world = await openWorld()
  teams = await openTeams(world)
})
afterAll(async () => {
  await teams.close()
  await world.close()
})

/** Runs all due background work of the migration. */
const work = async () => {
  for (let turn = 0; turn < 50; turn++) {
    await teams.deployment!.sweep('migration.work')
    world.clock.advance(2000)
  }
}

/** Creates a team without the member model. Ada holds a seat, Bob holds a seat and has also bought one, and the buyer holds a seat. */
const openLegacy = async () => {
  const shop = await world.shop()
  const benefit = await shop.api.call(createBenefit, { body: { type: 'license_keys', description: 'Keys', properties: {} } as never })
  const team = await teams.buy({ shop, seats: 4, benefits: [benefit.id], phase: 'before', own: true })
  const ada = await teams.claim(await teams.assign(team, { email: 'Ada@people.test' }))
  const bob = await teams.claim(await teams.assign(team, { email: 'bob@people.test' }))
  // Bob also buys a seat himself, so he stays a customer after the switch.
  const own = await teams.buy({ shop, seats: 1, benefits: [benefit.id], customer_id: bob.seat.customer_id!, product_id: team.product_id, own: true })
  await degrade(world.database, team.organization.id)
  return { team, ada: ada.seat, bob: bob.seat, own }
}
/** Reconciles the benefits of a purchase. */
const reconcile = async ({ organization: { id: organization_id }, subscription_id }: Team) => {
  await world.transact((tx) => enqueue(tx, 'entitlements.reconcile', { organization_id, subscription_id, order_id: null, seat_id: null }))
  await teams.settle()
}

const forward = async ({ api }: Team) => {
  await api.call(startMemberMigration, { body: {} })
  await work()
  await api.call(switchMemberMigration, { body: {} })
  await work()
}
const state = (team: Team) => team.api.call(getMemberMigration, {})

describe('the member migration', () => {
  test('migrates an organization step by step, and undoes every step back to the original state [S2-02] [S2-10] [S3-01] [S3-02] [S3-03] [S3-04] [S3-05] [S3-06] [S3-07] [S3-08] [S3-09] [S7-03]', async () => {
    const { team, ada, bob } = await openLegacy()
    const { api } = team
    const seatOf = (id: string) => api.call(getSeat, { params: { seat_id: id } })
    const keysOf = async () => (await api.call(listLicenseKeys, { query: { limit: 100 } })).items.toSorted((a, b) => (a.id < b.id ? -1 : 1))
    expect(await state(team)).toMatchObject({ state: 'before', work: null, unprepared: expect.toSatisfy((n: number) => n > 0) })
    expect((await seatOf(ada.id)).member).toBeNull()
    const before = await summaryOf(world.database, team.organization.id)
    const keysBefore = await keysOf()

    // The dry run changes nothing.
    const plan = await api.call(dryRunMemberMigration, {})
    expect(plan.counts).toMatchObject({ problems: 0, gone: 1, staying: 1 })
    expect(plan.gone).toEqual([ada.customer_id])
    expect(plan.staying.map(({ id }) => id)).toEqual([bob.customer_id])
    const file = await api.sendRaw(exportMemberMigration, {})
    expect(file.status).toBe(200)
    expect(file.body).toContain(ada.customer_id)
    expect(await summaryOf(world.database, team.organization.id)).toEqual(before)

    expect(await api.call(startMemberMigration, { body: {} })).toMatchObject({ state: 'preparing', work: { kind: 'prepare' } })
    await work()
    expect(await state(team)).toMatchObject({ state: 'phase1', work: null, unprepared: 0, problems: [] })
    const prepared = await seatOf(ada.id)
    expect(prepared).toMatchObject({ customer_id: ada.customer_id, member: { email: 'Ada@people.test', customer_id: team.customer_id } })
    expect(plan.members.map(({ id }) => id)).toContain(prepared.member!.id)
    expect((await api.call(getCustomer, { params: { id: ada.customer_id! } })).type).toBe('individual')
    const grants = (await api.call(listBenefitGrants, { query: { limit: 100 } })).items
    expect(grants.every(({ member_id }) => member_id !== null)).toBe(true)
    expect((await keysOf()).map(({ id, key, customer_id, status }) => [id, key, customer_id, status])).toEqual(
      keysBefore.map(({ id, key, customer_id, status }) => [id, key, customer_id, status]),
    )
    const phase1 = await summaryOf(world.database, team.organization.id)

    expect(await api.call(switchMemberMigration, { body: {} })).toMatchObject({ state: 'phase2', work: { kind: 'tell' } })
    expect(await seatOf(ada.id)).toMatchObject({ customer_id: team.customer_id, member: prepared.member })
    expect((await api.sendRaw(getCustomer, { params: { id: ada.customer_id! } })).status).toBe(404)
    expect((await api.call(getCustomer, { params: { id: bob.customer_id! } })).id).toBe(bob.customer_id)
    expect((await api.call(getCustomer, { params: { id: team.customer_id } })).type).toBe('team')
    // License keys of seat holders are now shown with the buyer. The key that Bob bought is still shown with Bob.
    const moved = await keysOf()
    expect(moved.map(({ id, key }) => [id, key])).toEqual(keysBefore.map(({ id, key }) => [id, key]))
    expect(moved.filter(({ customer_id }) => customer_id === bob.customer_id)).toHaveLength(1)
    await work()
    expect((await team.events('customer.deleted')).map(({ data }) => data.id)).toEqual([ada.customer_id])

    expect(await api.call(undoMemberMigration, { body: {} })).toMatchObject({ state: 'phase1', work: { kind: 'untell' } })
    expect(await seatOf(ada.id)).toMatchObject({ customer_id: ada.customer_id, member: prepared.member })
    await work()
    expect(await summaryOf(world.database, team.organization.id)).toEqual(phase1)
    await api.call(undoMemberMigration, { body: {} })
    await work()
    expect(await state(team)).toMatchObject({ state: 'before', work: null })
    expect(await summaryOf(world.database, team.organization.id)).toEqual(before)
  })

  test('a migration is sealed on request or when the seal time is reached, and cannot be undone afterwards', async () => {
    const { team, ada } = await openLegacy()
    const { api } = team
    await api.call(startMemberMigration, { body: {} })
    expect((await api.sendRaw(switchMemberMigration, { body: {} })).status).toBe(409)
    await work()
    await api.call(switchMemberMigration, { body: {} })
    await work()
    world.clock.advance(31 * 86_400_000)
    await work()
    expect(await state(team)).toMatchObject({ state: 'sealed', work: null })
    expect(await api.sendRaw(undoMemberMigration, { body: {} })).toMatchObject({ status: 409, body: { error: 'MigrationSealed' } })
    expect((await api.sendRaw(sealMemberMigration, { body: {} })).status).toBe(409)
    const { rows } = await world.database.owner((owner) => owner.query<{ email: string }>('select email from customers where id = $1', [ada.customer_id]))
    expect(rows[0]!.email).toMatch(/anonymized/)
    expect(await api.call(getSeat, { params: { seat_id: ada.id } })).toMatchObject({ customer_id: team.customer_id, member: { email: 'Ada@people.test' } })
  })

  test('creating a customer with the address of a removed seat holder restores that customer, so that undo finds no duplicate', async () => {
    const { team, ada } = await openLegacy()
    const { api } = team
    await api.call(startMemberMigration, { body: {} })
    await work()
    await api.call(switchMemberMigration, { body: {} })
    await work()
    const anew = await api.call(createCustomer, { body: { email: 'ada@people.test', name: 'Ada again', external_id: 'ada' } })
    expect(anew).toMatchObject({ id: ada.customer_id, name: 'Ada again' })
    await api.call(undoMemberMigration, { body: {} })
    await work()
    expect((await api.call(listCustomers, { query: { email: 'ada@people.test' } })).items.map(({ id }) => id)).toEqual([ada.customer_id])
    expect(await api.call(getSeat, { params: { seat_id: ada.id } })).toMatchObject({ customer_id: ada.customer_id })
  })

  test('assigning a seat after the switch creates a member and not a customer [S3-10] [S3-11]', async () => {
    const { team } = await openLegacy()
    const { api } = team
    await forward(team)
    const { pagination } = await api.call(listCustomers, {})
    const seat = await teams.assign(team, { email: 'new@people.test' })
    expect(seat).toMatchObject({ customer_id: team.customer_id, member: { email: 'new@people.test', customer_id: team.customer_id } })
    expect((await api.call(listCustomers, {})).pagination).toEqual(pagination)
  })

  test('keeps a removed customer whose purchase completes after the switch, even after sealing', async () => {
    const { team, ada } = await openLegacy()
    const { api } = team
    await forward(team)
    // The payment was made before the switch and is processed after it.
    await world.transact(async (tx) => {
      const scope = within(team.organization.id, 'machine', 'phase2')
      const [customer] = await loadCustomers(tx, scope, [ada.customer_id!])
      await becomeBuyer(tx, scope, customer!, { seats: false })
    })
    expect((await team.events('customer.created')).filter(({ data }) => data.id === ada.customer_id)).toHaveLength(2)
    await api.call(sealMemberMigration, { body: {} })
    await work()
    expect(await api.call(getCustomer, { params: { id: ada.customer_id! } })).toMatchObject({ email: 'Ada@people.test' })
    expect((await api.call(listCustomerMembers, { params: { id: ada.customer_id! } })).items).toMatchObject([{ role: 'owner', email: 'Ada@people.test' }])
  })

  test('undoing the preparation keeps benefits that were added after it, including license keys', async () => {
    const { team } = await openLegacy()
    const { api } = team
    await api.call(startMemberMigration, { body: {} })
    await work()
    const more = await api.call(createBenefit, { body: { type: 'license_keys', description: 'More', properties: {} } as never })
    const product = await api.call(getProduct, { params: { id: team.product_id } })
    await api.call(updateProductBenefits, { params: { id: team.product_id }, body: { benefits: [...product.benefits.map(({ id }) => id), more.id] } })
    await teams.settle()
    const keys = async () =>
      (await api.call(listLicenseKeys, { query: { limit: 100 } })).items.map(({ id, key, status }) => [id, key, status].join(' ')).toSorted()
    const before = await keys()
    await api.call(undoMemberMigration, { body: {} })
    await work()
    await reconcile(team)
    expect(await keys()).toEqual(before)
  })

  test('benefits revoked for nonpayment return unchanged after the payment, even if members were created in between', async () => {
    const { team, ada } = await openLegacy()
    const { api } = team
    const keys = async () => (await api.call(listLicenseKeys, { query: { limit: 100 } })).items.map(({ id, status }) => `${id} ${status}`).toSorted()
    const before = await keys()
    const standing = (status: string) =>
      world.database.owner((owner) => owner.query('update subscriptions set status = $2 where id = $1', [team.subscription_id, status]))
    await standing('unpaid')
    await reconcile(team)
    expect(await keys()).not.toEqual(before)
    await api.call(startMemberMigration, { body: {} })
    await work()
    await standing('active')
    await reconcile(team)
    expect(await keys()).toEqual(before)
    expect((await api.call(getSeat, { params: { seat_id: ada.id } })).member).not.toBeNull()
  })

  test('reserves the address of a removed customer until sealing, and updates the member when the holder’s address changes in phase 1', async () => {
    const { team, ada, bob } = await openLegacy()
    const { api } = team
    await api.call(startMemberMigration, { body: {} })
    await work()
    await api.call(updateCustomer, { params: { id: ada.customer_id! }, body: { email: 'ada@elsewhere.test' } })
    expect(await api.call(getSeat, { params: { seat_id: ada.id } })).toMatchObject({ member: { email: 'ada@elsewhere.test' } })
    await api.call(switchMemberMigration, { body: {} })
    await work()
    expect(await api.sendRaw(updateCustomer, { params: { id: bob.customer_id! }, body: { email: 'ADA@elsewhere.test' } })).toMatchObject({ status: 422 })
  })
})
