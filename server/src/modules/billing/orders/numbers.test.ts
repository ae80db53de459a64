import { inWallTime } from '../../../platform/clocks.sql.ts'
import { createOrganization, getOrganization, listOrders, updateOrganization } from '@bursar/contract'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { day, openPlans, type Plan } from '../../../../test/harness/plans.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { within } from '../../../kernel/actors.ts'
import { findCustomers } from '../../customers/index.ts'
import { findLivingOrganization } from '../../organizations/index.ts'
import { callOff } from '../invoicing/ending.ts'
import { issue, markPaid } from '../invoicing/issuing.ts'
import { loadOrders, lockOrder } from '../records/orders.sql.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
let plans: ReturnType<typeof openPlans>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
  plans = openPlans(world, deployment)
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})
beforeEach(() => plans.retire())

type Choice = 'creation' | 'payment'
const choose = ({ api, organization }: Plan, invoice_number_at: Choice) =>
  api.call(updateOrganization, { params: { id: organization.id }, body: { order_settings: { invoice_number_at } } })
const sequenceOf = ({ invoice_number }: { invoice_number: string | null }) => (invoice_number === null ? null : Number(invoice_number.slice(-4)))
const numbersOf = async (plan: Plan) => (await plan.orders()).map((order) => [order.status, sequenceOf(order)])
/** Returns for each event about a pending order whether the order has an invoice number. */
const toldUnpaid = async (plan: Plan) =>
  (await plan.events('order.created', 'order.updated')).filter(({ data }) => data.status === 'pending').map(({ data }) => data.invoice_number !== null)

const figures = {
  subtotal_amount: 1000,
  discount_amount: 0,
  net_amount: 1000,
  tax_amount: 0,
  total_amount: 1000,
  applied_balance_amount: 0,
  due_amount: 1000,
  carried_amount: 0,
  balance_movement_amount: 0,
}

/** Functions that create, pay and void an order, each in its own transaction. */
const openCounter = (plan: Plan) => {
  const scope = within(plan.organization.id, 'machine', 'phase2')
  const seller = async () => (await findLivingOrganization(deployment.deps.db, { id: plan.organization.id }))!
  return {
    create: async () =>
      world.transact(async (tx) => {
        const [customer] = await findCustomers(tx, scope, { id: plan.customer.id })
        const { order } = await issue(inWallTime(tx), {
          seller: await seller(),
          parties: { customer: customer!, product: null, discount: null, subscription: null },
          status: 'pending',
          billing_reason: 'purchase',
          currency: 'usd',
          figures,
          lines: [],
          quote: null,
          billed_to: { billing_name: null, billing_address: null, tax_id: null, tax_id_format: null },
          seats: null,
          checkout_id: null,
          description: 'A thing',
          metadata: {},
          custom_field_data: {},
        })
        return order.id
      }),
    pay: (id: string) =>
      world.transact(async (tx) => {
        const order = (await lockOrder(tx, scope, id))!
        await markPaid(inWallTime(tx), await seller(), { ...(await loadOrders(tx, scope, [order]))[0]!, order })
      }),
    cancel: (id: string) => world.transact(async (tx) => callOff(inWallTime(tx), scope, (await lockOrder(tx, scope, id))!)),
    all: async () =>
      (await plan.api.call(listOrders, { query: { limit: 100, sorting: ['created_at'] } })).items.map((order) => ({
        status: order.status,
        number: sequenceOf(order),
      })),
  }
}

test('assigns invoice numbers at creation for new organizations, and at payment for organizations from before the migration', async () => {
  const operator = await world.person()
  await world.database.owner((owner) => owner.query('update users set is_operator = true where id = $1', [operator.id]))
  const api = world.client({ token: (await operator.token()).secret })
  const made = await api.call(createOrganization, { body: { name: 'New seller', slug: 'new-seller' } })
  expect(made.order_settings).toEqual({ invoice_number_at: 'creation' })
  const chosen = await api.call(createOrganization, { body: { name: 'Gap-free', slug: 'gap-free', order_settings: { invoice_number_at: 'payment' } } })
  expect((await api.call(getOrganization, { params: { id: chosen.id } })).order_settings).toEqual({ invoice_number_at: 'payment' })
  const wrong = await api.sendRaw(updateOrganization, { params: { id: made.id }, body: { order_settings: { invoice_number_at: 'never' } } })
  expect(wrong.status).toBe(422)
  // Organizations from before the migration have the default value of the column.
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ set: string }>(
      `select column_default as set from information_schema.columns where table_name = 'organizations' and column_name = 'order_settings'`,
    ),
  )
  expect(rows[0]!.set).toContain('"invoice_number_at": "payment"')
})

test('invoice_number_at creation: numbers an unpaid order, which keeps the number when it is paid or voided', async () => {
  const plan = await plans.open({ card: 'tok_recovers_later' })
  await plans.until(new Date((await plan.end()).getTime() + 1000))
  const unpaid = await plan.orders()
  expect(unpaid.map((order) => [order.status, sequenceOf(order), order.receipt_number === null])).toEqual([
    ['paid', 1, false],
    ['pending', 2, true],
  ])
  await plans.until(new Date(world.clock.business().getTime() + 8 * day))
  const paid = (await plan.orders())[1]!
  expect([paid.status, paid.invoice_number]).toEqual(['paid', unpaid[1]!.invoice_number])
  expect(paid.receipt_number).toBe(`RCPT-${paid.invoice_number!.split('-').slice(1).join('-')}`)
  expect(await toldUnpaid(plan)).toEqual([true])

  await plans.retire()
  const lost = await plans.open({ card: 'tok_declined_later' })
  await plans.until(new Date((await lost.end()).getTime() + 22 * day))
  expect(await numbersOf(lost)).toEqual([
    ['paid', 1],
    ['void', 2],
  ])
})

test('invoice_number_at payment: gives no invoice number to an unpaid or voided order', async () => {
  const plan = await plans.open({ card: 'tok_declined_later' })
  await choose(plan, 'payment')
  await plans.until(new Date((await plan.end()).getTime() + 1000))
  expect(await numbersOf(plan)).toEqual([
    ['paid', 1],
    ['pending', null],
  ])
  expect(await toldUnpaid(plan)).toEqual([false])
  await plans.until(new Date(world.clock.business().getTime() + 22 * day))
  expect(await numbersOf(plan)).toEqual([
    ['paid', 1],
    ['void', null],
  ])
})

test.each(['creation', 'payment'] as const)(
  'invoice_number_at %s: assigns each invoice number once and without a gap when orders are created, paid and voided concurrently',
  { timeout: 120_000 },
  async (choice) => {
    const plan = await plans.open()
    await choose(plan, choice)
    const counter = openCounter(plan)
    const ids = await Promise.all(Array.from({ length: 24 }, () => counter.create()))
    await Promise.all(ids.map((id, at) => (at % 3 === 0 ? counter.cancel(id) : counter.pay(id))))
    const orders = (await counter.all()).slice(1)
    const numbers = (status: string) => orders.filter((order) => order.status === status).map(({ number }) => number)
    const sorted = (all: readonly (number | null)[]) => all.toSorted((one, other) => one! - other!)
    expect([numbers('paid').length, numbers('void').length]).toEqual([16, 8])
    // The first order of the subscription already has number 1, so these orders start at 2.
    if (choice === 'payment') {
      expect(sorted(numbers('paid'))).toEqual(Array.from({ length: 16 }, (_, at) => at + 2))
      expect(numbers('void')).toEqual(Array(8).fill(null))
    } else expect(sorted([...numbers('paid'), ...numbers('void')])).toEqual(Array.from({ length: 24 }, (_, at) => at + 2))
  },
)

test('keeps assigned invoice numbers when invoice_number_at changes, and numbers the other orders at payment', async () => {
  const plan = await plans.open()
  const counter = openCounter(plan)
  const numbered = await counter.create()
  await choose(plan, 'payment')
  const unnumbered = await counter.create()
  expect((await counter.all()).map(({ number }) => number)).toEqual([1, 2, null])
  await choose(plan, 'creation')
  await counter.pay(unnumbered)
  await counter.pay(numbered)
  expect((await counter.all()).map(({ status, number }) => [status, number])).toEqual([
    ['paid', 1],
    ['paid', 2],
    ['paid', 3],
  ])
})
