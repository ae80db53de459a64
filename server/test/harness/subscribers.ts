import { confirmClientCheckout, createCheckout, createCustomer, listOrders, listSubscriptions } from '@bursar/contract'
import { newId } from '../../src/kernel/ids.ts'
import { dueWork } from '../../src/main/wire.ts'
import { sweeps } from '../../src/platform/jobs/catalogue.ts'
import { claim } from '../../src/platform/jobs/leases.sql.ts'
import { readBooks } from './books.ts'
import { openDeployment, openLife } from './crashes.ts'
import type { World } from './world.ts'

type Shop = Awaited<ReturnType<World['shop']>>

/** The middle of June. Exactly half of its thirty days are over, so that prorated amounts are half of the price. */
export const june = { start: new Date('2026-06-01T00:00:00Z'), now: new Date('2026-06-16T00:00:00Z'), end: new Date('2026-07-01T00:00:00Z') }

/** Opens customers who bought a plan through a real checkout. Each has a test clock that shows the middle of June. */
export const openSubscribers = async (world: World) => {
  const deployment = await openDeployment(world, openLife(null))
  const query = <T extends object>(text: string, values: readonly unknown[]) =>
    world.database.owner(async (owner) => (await owner.query<T>(text, [...values])).rows)

  /** Buys a plan for a new customer, and sets the customer's test clock to the middle of June. */
  const subscribe = async (shop: Shop, product_id: string, wish: { card?: string; seats?: number; discount_id?: string; email?: string } = {}) => {
    const { api, organization } = shop
    const { card = 'tok_visa', email = `anna${newId(world.clock.wall())}@people.test`, ...rest } = wish
    const customer = await api.call(createCustomer, { body: { email } })
    const { client_secret } = await api.call(createCheckout, { body: { products: [product_id], customer_id: customer.id, ...rest } })
    await world.client().call(confirmClientCheckout, {
      params: { client_secret },
      body: { customer_billing_address: { country: 'DE' }, confirmation_token_id: card },
    })
    await deployment.work()
    if (card.startsWith('tok_processing')) {
      world.clock.advance(61_000)
      await deployment.sweep()
      await deployment.work()
    }
    const clock = { organization_id: organization.id, id: newId(world.clock.wall()) }
    await query('insert into test_clocks (organization_id, id, created_at, now_at) values ($1, $2, $3, $3)', [clock.organization_id, clock.id, june.now])
    await query('update customers set clock_id = $2 where id = $1', [customer.id, clock.id])
    const [{ id }] = (await query<{ id: string }>(
      `update subscriptions set clock_id = $2, started_at = $3, calendar_from = $3, current_period_start = $3, current_period_end = $4, anchor_day = 1, due_at = $4,
         trial_start = case when trial_start is not null then $3::timestamptz end, trial_end = case when trial_end is not null then $4::timestamptz end,
         discount_applied_at = case when discount_applied_at is not null then $3::timestamptz end
       where customer_id = $1 returning id`,
      [customer.id, clock.id, june.start, june.end],
    )) as [{ id: string }]
    await query('update orders set period_start = $2 where customer_id = $1 and period_start is not null', [customer.id, june.start])
    await query('update usage_periods set billing_start = $2, starts_at = $2, clock_id = $3 where customer_id = $1 and ends_at is null', [
      customer.id,
      june.start,
      clock.id,
    ])
    const told = (await shop.events()).length
    const params = { id }
    const find = async () => (await api.call(listSubscriptions, { query: { customer_id: [customer.id] } })).items.find((one) => one.id === id)!
    return {
      customer,
      clock,
      id,
      params,
      find,
      /** Types of the subscription and order events that were emitted for this customer since the purchase. */
      told: async () =>
        (await shop.events())
          .slice(told)
          .filter(({ data }) => data.customer_id === customer.id)
          .map(({ type }) => type)
          .filter((kind) => /^(subscription|order)\./.test(kind)),
      /** Orders of the customer except the first purchase, oldest first. */
      orders: async () =>
        (await api.call(listOrders, { query: { customer_id: [customer.id], sorting: ['created_at'] } })).items.filter(
          ({ billing_reason }) => billing_reason !== 'subscription_create',
        ),
      /** Amounts that the processor charged this customer after the purchase. */
      charged: async () =>
        (await readBooks(world, organization.id)).charges
          .filter((one) => one.customer === customer.id)
          .map(({ amount }) => amount)
          .slice(1),
      /** Balance of the customer. Negative if the customer owes money. */
      balance: async () =>
        (await query<{ amount: string }>('select amount from customer_balances where customer_id = $1', [customer.id])).map(({ amount }) => Number(amount)),
      /**
       * All rows of the subscription: prices, updates, entries, balances and ledger totals. Tests compare them before
       * and after a request.
       */
      everything: async () =>
        query(
          `select to_jsonb(s) - 'modified_at' as s, (select jsonb_agg(p order by position) from subscription_prices p where p.subscription_id = s.id) as prices,
             (select jsonb_agg(to_jsonb(u) - 'modified_at') from subscription_updates u where u.subscription_id = s.id) as updates,
             (select jsonb_agg(e order by id) from billing_entries e where e.subscription_id = s.id) as entries,
             (select jsonb_agg(b) from customer_balances b where b.customer_id = s.customer_id and b.amount <> 0) as balances,
             (select jsonb_object_agg(account, total) from (select account, sum(amount) as total from ledger_entries e where e.customer_id = s.customer_id
                group by 1) l where total <> 0) as ledger
           from subscriptions s where id = $1`,
          [id],
        ),
      /** Sets the test clock to another time, and runs all renewals and order work that is due by then. */
      travel: async (to: Date | string) => {
        await query('update test_clocks set now_at = $2 where id = $1', [clock.id, to])
        await settle(clock)
      },
    }
  }

  const settle = async (clock: { organization_id: string; id: string }) => {
    for (;;) {
      const [{ now_at }] = (await query<{ now_at: Date }>('select now_at from test_clocks where id = $1', [clock.id])) as [{ now_at: Date }]
      let done = 0
      for (const { name, run } of dueWork) {
        if (sweeps[name].table !== 'subscriptions' && sweeps[name].table !== 'orders') continue
        const leases = await claim(deployment.deps.transact, sweeps[name].table, {
          holder: 'test',
          limit: 10,
          lease_ms: sweeps[name].lease_ms,
          clock: { ...clock, now_at },
        })
        for (const lease of leases) await run(deployment.deps, lease)
        done += leases.length
      }
      await deployment.work()
      if (done === 0) return
    }
  }

  return { deployment, query, subscribe, settle, close: () => deployment.close() }
}
export type Subscribers = Awaited<ReturnType<typeof openSubscribers>>
