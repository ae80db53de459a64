import { createCustomerSession, getSubscription, listOrders, revokeSubscription, updatePortalCustomer, updateSubscription } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { renew } from '../../src/modules/billing/renewals/renewals.ts'
import { sweeps } from '../../src/platform/jobs/catalogue.ts'
import { claim } from '../../src/platform/jobs/leases.sql.ts'
import { Died, openDeployment, openLife, type Life } from '../harness/crashes.ts'
import { compareBooks, day, openPlans, type Plan } from '../harness/plans.ts'
import { openWorld, type World } from '../harness/world.ts'

let world: World
let healthy: Awaited<ReturnType<typeof openDeployment>>
let plans: ReturnType<typeof openPlans>
beforeAll(async () => {
  world = await openWorld()
  healthy = await openDeployment(world, openLife(null))
  plans = openPlans(world, healthy)
})
afterAll(async () => {
  await healthy.close()
  await world.close()
})

interface Flow {
  /** Options of the purchase of the plan. */
  readonly sale: Parameters<typeof plans.open>[0]
  /** Brings the subscription into the state in which the flow starts. */
  readonly ready: (plan: Plan) => Promise<void>
  /** Runs the flow until it is done or the simulated process ends. */
  readonly run: (plan: Plan, deployment: Awaited<ReturnType<typeof openDeployment>>) => Promise<void>
  /** Checks the state after recovery. `first` is true if the process ended before its first effect. */
  readonly expected: (plan: Plan, at: string, first: boolean) => Promise<void>
}

const tokens = new Map<string, string>()
const tokenOf = async ({ organization }: Plan) => {
  const known = tokens.get(organization.id) ?? (await organization.token()).secret.reveal()
  tokens.set(organization.id, known)
  return known
}

const begin = async ({ sale, ready }: Flow) => {
  await plans.retire()
  const plan = await plans.open(sale)
  await ready(plan)
  await plan.told()
  await tokenOf(plan)
  return plan
}

const live = async (life: Life, flow: Flow, plan: Plan) => {
  const deployment = await openDeployment(world, life)
  try {
    await flow.run(plan, deployment)
  } catch (error) {
    if (!(error instanceof Died)) throw error
  } finally {
    await deployment.close()
  }
}

/** Lets another process finish the interrupted work after the leases of the crashed process have expired. Sends no new requests. */
const recover = async () => {
  for (const wait of [0, 31_000, 61_000, 601_000]) {
    world.clock.advance(wait)
    await plans.pass()
  }
}

/** Checks that payment attempts and charges match one to one, and that no order is paid twice or in part. */
const judge = async (plan: Plan, at: string) => {
  const { ours, theirs, charges } = await compareBooks(world, plan.organization.id)
  expect(ours, at).toEqual(theirs)
  const orders = (await plan.api.call(listOrders, { query: { limit: 100 } })).items
  const paid = orders.filter(({ status }) => status === 'paid')
  expect(
    charges.map(({ amount }) => amount).toSorted((a, b) => a - b),
    at,
  ).toEqual(
    paid
      .map(({ due_amount }) => due_amount)
      .filter((amount) => amount > 0)
      .toSorted((a, b) => a - b),
  )
  expect((await plan.accounts()).receivable ?? 0, at).toBe(
    orders.filter(({ status }) => status === 'pending').reduce((sum, { due_amount }) => sum + due_amount, 0),
  )
}

const enumerate = (what: string, flow: Flow) =>
  test(
    `survives a crash before and after every effect of ${what}: the processor's own records show no lost and no duplicate charge`,
    { timeout: 900_000 },
    async () => {
      const first = await begin(flow)
      const whole = openLife(null)
      await live(whole, flow, first)
      await flow.expected(first, 'undisturbed', false)
      await judge(first, 'undisturbed')
      const heard = await first.told()
      const { effects } = whole
      expect(effects.length).toBeGreaterThan(2)
      process.stdout.write(`${what}: ${effects.length} effects (${effects.join(', ')}), ${effects.length * 2} ends\n`)
      for (let point = 1; point <= effects.length; point++)
        for (const side of ['before', 'after'] as const) {
          const at = `${point} ${effects[point - 1]} ${side}`
          const plan = await begin(flow)
          const life = openLife({ point, side })
          await live(life, flow, plan)
          expect(life.isDead(), at).toBe(true)
          await recover()
          await flow.expected(plan, at, point === 1 && side === 'before')
          await judge(plan, at)
          const news = await plan.told()
          // The flow emits the same events as without a crash, each once. It emits none if it ended before its first commit.
          if (news.length > 0) expect(news.toSorted(), at).toEqual(heard.toSorted())
        }
    },
  )

const sweepOnce = async (_: Plan, deployment: Awaited<ReturnType<typeof openDeployment>>) => {
  await deployment.sweep('billing.renew', 'billing.collect')
  await deployment.work()
}
const statuses = async (plan: Plan) => (await plan.orders()).map(({ status }) => status)

enumerate('a renewal', {
  sale: {},
  ready: async (plan) => plans.moveTo(await plan.end()),
  run: sweepOnce,
  expected: async (plan, at) => {
    expect(await statuses(plan), at).toEqual(['paid', 'paid'])
    expect((await plan.seen()).status, at).toBe('active')
    expect(await plan.charged(), at).toEqual([2900, 2900])
  },
})

enumerate('a renewal outside a group', {
  sale: {},
  ready: async (plan) => plans.moveTo(await plan.end()),
  run: async (_, { deps, sweep, work }) => {
    const leases = await claim(deps.transact, 'subscriptions', { holder: 'test', limit: 1, lease_ms: sweeps['billing.renew'].lease_ms })
    for (const lease of leases) await renew(deps, lease)
    await sweep('billing.collect')
    await work()
  },
  expected: async (plan, at) => {
    expect(await statuses(plan), at).toEqual(['paid', 'paid'])
    expect((await plan.seen()).status, at).toBe('active')
    expect(await plan.charged(), at).toEqual([2900, 2900])
  },
})

enumerate('a renewal that is declined', {
  sale: { card: 'tok_declined_later' },
  ready: async (plan) => plans.moveTo(await plan.end()),
  run: sweepOnce,
  expected: async (plan, at) => {
    expect(await statuses(plan), at).toEqual(['paid', 'pending'])
    expect((await plan.seen()).status, at).toBe('past_due')
    expect(
      (await plan.attempts((await plan.orders())[1]!.id)).map(({ status }) => status),
      at,
    ).toEqual(['failed'])
    const [row] = await world.database.owner(
      async (owner) =>
        (
          await owner.query<{ first_failed_at: Date; due_at: Date }>(
            `select first_failed_at, due_at from orders where subscription_id = $1 and status = 'pending'`,
            [plan.id],
          )
        ).rows,
    )
    expect(row!.due_at.getTime() - row!.first_failed_at.getTime(), at).toBe(2 * day)
  },
})

enumerate('a dunning retry', {
  sale: { card: 'tok_recovers_later' },
  ready: async (plan) => {
    await plans.until(await plan.end())
    await plans.until(new Date(world.clock.business().getTime() + 3 * day))
    plans.moveTo((await plans.nextDue())!)
  },
  run: sweepOnce,
  expected: async (plan, at) => {
    expect(await statuses(plan), at).toEqual(['paid', 'paid'])
    expect((await plan.seen()).status, at).toBe('active')
    expect(
      (await plan.attempts((await plan.orders())[1]!.id)).map(({ status }) => status),
      at,
    ).toEqual(['failed', 'failed', 'succeeded'])
  },
})

const cards = new Map<string, string>()
const better = new Map<string, string>()
const upgrade = {
  sale: {},
  ready: async (plan: Plan) => {
    better.set(plan.id, (await plan.sell(9900)).id)
    await plans.until(new Date((await plan.end()).getTime() - 15 * day))
  },
  run: async (plan: Plan, deployment: Awaited<ReturnType<typeof openDeployment>>) => {
    await deployment
      .client(await tokenOf(plan), { 'idempotency-key': `upgrade-${plan.id}` })
      .send(updateSubscription, { params: plan.params, body: { product_id: better.get(plan.id)!, proration_behavior: 'invoice' } })
    await deployment.work()
  },
}
const upgraded = async (plan: Plan, at: string) => {
  expect((await plan.seen()).product_id, at).toBe(better.get(plan.id))
  const orders = await plan.orders()
  expect(
    orders.map(({ status, billing_reason }) => [status, billing_reason]),
    at,
  ).toEqual([
    ['paid', 'subscription_create'],
    ['paid', 'subscription_update'],
  ])
}

enumerate('a paid upgrade that the caller retries with the same idempotency key', {
  ...upgrade,
  expected: async (plan, at) => {
    const again = await healthy
      .client(await tokenOf(plan), { 'idempotency-key': `upgrade-${plan.id}` })
      .send(updateSubscription, { params: plan.params, body: { product_id: better.get(plan.id)!, proration_behavior: 'invoice' } })
    expect([again.status, (again.body as { product_id?: string }).product_id], at).toEqual([200, better.get(plan.id)])
    await healthy.work()
    await upgraded(plan, at)
  },
})

enumerate('a paid upgrade that the caller does not retry', {
  ...upgrade,
  expected: async (plan, at, first) => {
    if (!first) return upgraded(plan, at)
    expect((await plan.seen()).product_id, at).toBe(plan.product.id)
    expect(await statuses(plan), at).toEqual(['paid'])
  },
})

enumerate('an upgrade that is declined', {
  ...upgrade,
  sale: { card: 'tok_declined_later' },
  expected: async (plan, at, first) => {
    expect((await plan.seen()).product_id, at).toBe(plan.product.id)
    expect(await statuses(plan), at).toEqual(first ? ['paid'] : ['paid', 'void'])
    // The declined change is deleted, so that it does not block the next change.
    const { rows } = await world.database.owner((owner) => owner.query('select 1 from subscription_updates where subscription_id = $1', [plan.id]))
    expect(rows, at).toEqual([])
  },
})

enumerate('a revocation with an open order', {
  sale: { card: 'tok_declined_later' },
  ready: async (plan) => {
    await plans.until(await plan.end())
    await plans.pass()
    expect((await plan.seen()).status).toBe('past_due')
  },
  run: async (plan, deployment) => {
    await deployment.client(await tokenOf(plan), { 'idempotency-key': `revoke-${plan.id}` }).send(revokeSubscription, { params: plan.params })
    // Also runs the sweep that collects overdue orders, because it races the revocation.
    await deployment.sweep('billing.collect')
    await deployment.work()
  },
  expected: async (plan, at) => {
    const again = await healthy.client(await tokenOf(plan), { 'idempotency-key': `revoke-${plan.id}` }).send(revokeSubscription, { params: plan.params })
    expect(again.status, at).toBe(200)
    await plans.pass()
    const api = healthy.client(await tokenOf(plan))
    expect((await api.call(getSubscription, { params: plan.params })).status, at).toBe('canceled')
    expect(
      (await api.call(listOrders, { query: { subscription_id: [plan.id], sorting: ['created_at'] } })).items.map(({ status }) => status),
      at,
    ).toEqual(['paid', 'void'])
    expect(await plan.accounts(), at).toEqual({ processor: 2900, revenue: -2900 })
  },
})

enumerate('the payment of an overdue order with a new card', {
  sale: { card: 'tok_declined_later' },
  ready: async (plan) => {
    await plans.until(await plan.end())
    await plans.pass()
    const { payment_method_id } = await plan.row(await plan.buy('tok_mastercard'))
    await world.database.owner((owner) => owner.query('update subscriptions set payment_method_id = null where id = $1', [plan.id]))
    cards.set(plan.id, payment_method_id!)
  },
  run: async (plan, deployment) => {
    const { token } = await plan.api.call(createCustomerSession, { body: { customer_id: plan.customer.id } })
    await deployment.client(token).send(updatePortalCustomer, { body: { default_payment_method_id: cards.get(plan.id)! } })
    await deployment.work()
  },
  expected: async (plan, at, first) => {
    expect((await plan.seen()).status, at).toBe(first ? 'past_due' : 'active')
    expect(await statuses(plan), at).toEqual(first ? ['paid', 'pending'] : ['paid', 'paid'])
    expect(await plan.charged(), at).toHaveLength(first ? 2 : 3)
  },
})
