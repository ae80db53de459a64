import { revokeSubscription, updateSubscription } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sweeps } from '../../src/platform/jobs/catalogue.ts'
import { claim } from '../../src/platform/jobs/leases.sql.ts'
import { renew } from '../../src/modules/billing/renewals/renewals.ts'
import { openDeployment, openLife } from '../harness/doom.ts'
import { compareBooks, day, openPlans, type Plan } from '../harness/plans.ts'
import { openSales } from '../harness/sales.ts'
import { openWorld, type World } from '../harness/world.ts'

const rounds = Number(process.env.BURSAR_TEST_ROUNDS ?? 40)

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
let plans: ReturnType<typeof openPlans>
let sales: ReturnType<typeof openSales>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
  plans = openPlans(world, deployment)
  sales = openSales(world)
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

type Flag = 'cancel_at_period_end' | 'pause_at_period_end' | 'revoke'
const stopped = { cancel_at_period_end: 'canceled', pause_at_period_end: 'paused', revoke: 'canceled' }

/** Somebody asks for something at the instant at which the period ends; which of both was first, and what became of it. */
const race = async (flag: Flag, ask: (plan: Plan, id: string) => Promise<{ status: number }>) => {
  const plan = await plans.open()
  const outcomes = { renewed: 0, stopped: 0, called_off: 0 }
  for (let round = 0; round < rounds; round++) {
    await plans.retire()
    const end = world.clock.business()
    const start = new Date(end.getTime() - day)
    const { id } = await sales.subscription(
      plan.customer,
      plan.product,
      plan.product.prices.map((price) => price.id),
      { amount: 2900, recurring_interval: 'day', current_period_start: start, current_period_end: end, calendar_from: start, due_at: end },
    )
    const [lease] = await claim(deployment.means.transact, 'subscriptions', { holder: 'test', limit: 1, lease_ms: sweeps['billing.renew'].lease_ms })
    expect(lease!.id).toBe(id)
    // The request has a longer way: the worker begins a little later in every other round, and both come first now and then.
    const late = async () => {
      for (let at = 0; at < (round % 2) * (round % 12); at++) await deployment.means.db.q.selectFrom('customers').select('id').limit(1).execute()
      await renew(deployment.means, lease!)
    }
    const [answer] = await Promise.all([ask(plan, id), late()])
    expect(answer.status).toBe(200)
    const row = await plan.row(id)
    const orders = (await plan.orders(id)).map(({ status }) => status)
    // Either it was renewed first, and what was asked for counts for the next period; or it was stopped, and nothing was billed.
    const renewed = orders.length > 0
    // What is revoked between the order and its charge is not charged any more.
    const calledOff = flag === 'revoke' && orders[0] === 'void'
    expect(orders, `round ${round}`).toEqual(renewed ? [calledOff ? 'void' : 'paid'] : [])
    expect(row.status, `round ${round}`).toBe(renewed && flag !== 'revoke' ? 'active' : stopped[flag])
    expect(row.current_period_start, `round ${round}`).toEqual(renewed ? end : start)
    if (renewed && flag !== 'revoke') expect(row[flag], `round ${round}`).toBe(true)
    outcomes[calledOff ? 'called_off' : renewed ? 'renewed' : 'stopped']++
  }
  const { ours, theirs } = await compareBooks(world, plan.organization.id)
  expect(ours).toEqual(theirs)
  // The first one was bought.
  expect(Object.keys(theirs)).toHaveLength(1 + outcomes.renewed)
  process.stdout.write(
    `${flag} against renew: ${rounds} rounds, ${outcomes.renewed} renewed first, ${outcomes.stopped} stopped first, ${outcomes.called_off} called off in between\n`,
  )
}

test('cancel against renew at one instant: renewed once, or ended unbilled, every time', { timeout: 900_000 }, () =>
  race('cancel_at_period_end', (plan, id) => plan.api.send(updateSubscription, { params: { id }, body: { cancel_at_period_end: true } })),
)

test('pause against renew at one instant: renewed once, or paused unbilled, every time', { timeout: 900_000 }, () =>
  race('pause_at_period_end', (plan, id) => plan.api.send(updateSubscription, { params: { id }, body: { pause_at_period_end: true } })),
)

test('revoke against renew at one instant: what is charged is paid, and it is over, every time', { timeout: 900_000 }, () =>
  race('revoke', (plan, id) => plan.api.send(revokeSubscription, { params: { id } })),
)
