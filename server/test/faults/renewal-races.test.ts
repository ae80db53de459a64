import { revokeSubscription, updateSubscription } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sweeps } from '../../src/platform/jobs/catalogue.ts'
import { claim } from '../../src/platform/jobs/leases.sql.ts'
import { renewGroup } from '../../src/modules/billing/renewals/group.ts'
import { renew } from '../../src/modules/billing/renewals/renewals.ts'
import { openDeployment, openLife } from '../harness/crashes.ts'
import { compareBooks, day, openPlans, type Plan } from '../harness/plans.ts'
import { openSales } from '../harness/sales.ts'
import { openWorld, type World } from '../harness/world.ts'
import { counted } from '../harness/pace.ts'

const rounds = counted('ROUNDS', 40, 10)

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

/**
 * Races a request against the renewal at the end of the period. Checks that the subscription and its orders match the
 * side (request or renewal) that committed first.
 */
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
    const [lease] = await claim(deployment.deps.transact, 'subscriptions', { holder: 'test', limit: 1, lease_ms: sweeps['billing.renew'].lease_ms })
    expect(lease!.id).toBe(id)
    // The request takes longer than the renewal. In every other round the renewal is delayed, so that each side wins sometimes.
    const late = async () => {
      for (let at = 0; at < (round % 2) * (round % 12); at++) await deployment.deps.db.q.selectFrom('customers').select('id').limit(1).execute()
      // Every third round renews outside a group.
      await (round % 3 === 0 ? renew(deployment.deps, lease!) : renewGroup(deployment.deps, [lease!])[0])
    }
    const [answer] = await Promise.all([ask(plan, id), late()])
    expect(answer.status).toBe(200)
    const row = await plan.row(id)
    const orders = (await plan.orders(id)).map(({ status }) => status)
    // If the renewal came first, the request applies to the next period. If the request came first, no order exists.
    const renewed = orders.length > 0
    // A revocation after the order was created and before it is charged voids the order.
    const calledOff = flag === 'revoke' && orders[0] === 'void'
    expect(orders, `round ${round}`).toEqual(renewed ? [calledOff ? 'void' : 'paid'] : [])
    expect(row.status, `round ${round}`).toBe(renewed && flag !== 'revoke' ? 'active' : stopped[flag])
    expect(row.current_period_start, `round ${round}`).toEqual(renewed ? end : start)
    if (renewed && flag !== 'revoke') expect(row[flag], `round ${round}`).toBe(true)
    outcomes[calledOff ? 'called_off' : renewed ? 'renewed' : 'stopped']++
  }
  const { ours, theirs } = await compareBooks(world, plan.organization.id)
  expect(ours).toEqual(theirs)
  // There is one charge for each renewal, and one for the purchase of the plan.
  expect(Object.keys(theirs)).toHaveLength(1 + outcomes.renewed)
  process.stdout.write(
    `${flag} against renew: ${rounds} rounds, ${outcomes.renewed} renewed first, ${outcomes.stopped} stopped first, ${outcomes.called_off} called off in between\n`,
  )
}

test('renews a subscription once, or ends it without an order, when a cancellation races the renewal', { timeout: 900_000 }, () =>
  race('cancel_at_period_end', (plan, id) => plan.api.send(updateSubscription, { params: { id }, body: { cancel_at_period_end: true } })),
)

test('renews a subscription once, or pauses it without an order, when a pause races the renewal', { timeout: 900_000 }, () =>
  race('pause_at_period_end', (plan, id) => plan.api.send(updateSubscription, { params: { id }, body: { pause_at_period_end: true } })),
)

test('ends a subscription without an unpaid order when a revocation races the renewal', { timeout: 900_000 }, () =>
  race('revoke', (plan, id) => plan.api.send(revokeSubscription, { params: { id } })),
)
