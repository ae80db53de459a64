import {
  confirmClientCheckout,
  createCheckout,
  createCustomer,
  createCustomerSession,
  createDiscount,
  createMeter,
  createProduct,
  getSubscription,
  listOrders,
  listPayments,
  updateSubscription,
  type Aggregation,
  type SubscriptionUpdate,
} from '@bursar/contract'
import type { SubscriptionRow } from '../../src/modules/billing/index.ts'
import { readBooks } from './books.ts'
import type { openDeployment } from './crashes.ts'
import type { World } from './world.ts'

type Deployment = Awaited<ReturnType<typeof openDeployment>>
export const day = 86_400_000

/** Returns functions that sell subscriptions, advance the clock of the test system and run the work that is due. */
export const openPlans = (world: World, deployment: Deployment) => {
  const { clock, database } = world

  /** Runs all due sweeps once, then the waiting jobs. */
  const pass = async () => {
    await deployment.sweep()
    await deployment.work()
  }

  /** Returns the next time at which a subscription, order or payment is due and not leased. Null if none is. */
  const nextDue = () =>
    database.owner(async (owner) => {
      const { rows } = await owner.query<{ at: Date | null }>(
        `select min(greatest(due_at, lease_until)) as at from (
           select due_at, lease_until from subscriptions union all select due_at, lease_until from orders union all select due_at, lease_until from payments
           union all select due_at, lease_until from usage_periods
         ) d where due_at is not null`,
      )
      return rows[0]!.at
    })

  const moveTo = (moment: Date) => clock.advance(Math.max(0, moment.getTime() - clock.business().getTime()))

  /** Advances the clock to a time. Stops at each due time on the way, and runs the work that is due then. */
  const until = async (moment: Date) => {
    for (let turns = 0; ; turns++) {
      if (turns > 500) throw new Error('something is due again and again')
      const next = await nextDue()
      if (next === null || next > moment) break
      moveTo(next)
      await pass()
    }
    moveTo(moment)
  }

  /** Clears all due times, so that subscriptions and orders of earlier tests cause no work in the next test. */
  const retire = () =>
    database.owner((owner) =>
      owner.query(`update subscriptions set due_at = null; update orders set due_at = null; update payments set due_at = null where due_at is not null;
         update usage_periods set due_at = null where due_at is not null`),
    )

  interface Sale {
    readonly card?: string
    readonly price?: number
    readonly plan?: Record<string, unknown>
    readonly discount?: Record<string, unknown>
    /** A meter that the plan has a price on. */
    readonly meter?: { readonly aggregation: Aggregation; readonly unit_amount: string; readonly cap_amount?: number }
  }

  /** Opens a seller with a plan of 29.00 a month and one subscriber. */
  const open = async ({ card = 'tok_visa', price = 2900, plan = {}, discount, meter }: Sale = {}) => {
    const shop = await world.shop()
    const { api, organization } = shop
    await database.owner((owner) =>
      owner.query(`update organizations set subscription_settings = subscription_settings || '{"allow_multiple_subscriptions": true}' where id = $1`, [
        organization.id,
      ]),
    )
    const product = (amount: number, more: Record<string, unknown> = {}) =>
      api.call(createProduct, {
        body: {
          name: 'Plan',
          recurring_interval: 'month',
          prices: [{ amount_type: 'fixed', price_amount: amount, price_currency: 'usd' }],
          ...more,
        } as never,
      })
    const made =
      meter && (await api.call(createMeter, { body: { name: 'Calls', filter: { conjunction: 'and', clauses: [] }, aggregation: meter.aggregation } }))
    const fixed = price > 0 ? [{ amount_type: 'fixed', price_amount: price, price_currency: 'usd' }] : []
    const { aggregation: _, ...rate } = meter ?? {}
    const priced = made ? { prices: [...fixed, { amount_type: 'metered_unit', meter_id: made.id, price_currency: 'usd', ...rate }] } : {}
    const sold = await product(price, { ...priced, ...plan })
    const customer = await api.call(createCustomer, { body: { email: `ada-${organization.slug}@people.test` } })
    const discount_id = discount && (await api.call(createDiscount, { body: { name: 'Less', ...discount } as never })).id
    /** Buys the plan. Returns the id of the subscription. */
    const buy = async (token = card, more: Record<string, unknown> = {}): Promise<string> => {
      const checkout = await api.call(createCheckout, {
        body: { products: [sold.id], customer_id: customer.id, ...(discount_id ? { discount_id } : {}), ...more },
      })
      await world.client().call(confirmClientCheckout, {
        params: { client_secret: checkout.client_secret },
        body: { customer_billing_address: { country: 'DE' }, confirmation_token_id: token },
      })
      await deployment.work()
      const { rows } = await database.owner((owner) => owner.query<{ id: string }>('select id from subscriptions where checkout_id = $1', [checkout.id]))
      return rows[0]!.id
    }
    const id = await buy()
    const params = { id }
    let heard = (await shop.events()).length
    return {
      ...shop,
      customer,
      product: sold,
      meter_id: made?.id,
      sell: product,
      buy,
      id,
      params,
      seen: () => api.call(getSubscription, { params }),
      change: (body: SubscriptionUpdate) => api.call(updateSubscription, { params, body: body as never }),
      row: async (subscription_id = id): Promise<SubscriptionRow> =>
        (await database.owner((owner) => owner.query<SubscriptionRow>('select * from subscriptions where id = $1', [subscription_id]))).rows[0]!,
      end: async () => new Date((await api.call(getSubscription, { params })).current_period_end),
      /** Orders of the subscription, oldest first. */
      orders: async (subscription_id = id) =>
        (await api.call(listOrders, { query: { subscription_id: [subscription_id], sorting: ['created_at'], limit: 100 } })).items,
      /** Payment attempts of an order, oldest first. */
      attempts: async (order_id: string) => (await api.call(listPayments, { query: { order_id: [order_id], limit: 100 } })).items.toReversed(),
      /** Amounts that the processor has charged according to its own records, oldest first. */
      charged: async () => (await readBooks(world, organization.id)).charges.map(({ amount }) => amount),
      /** Balance of each ledger account that is not zero. */
      accounts: async () => {
        const { rows } = await database.owner((owner) =>
          owner.query<{ account: string; amount: number }>(
            'select account, sum(amount)::int as amount from ledger_entries where organization_id = $1 group by 1 having sum(amount) <> 0 order by 1',
            [organization.id],
          ),
        )
        return Object.fromEntries(rows.map(({ account, amount }) => [account, amount]))
      },
      /** Types of the subscription and order events that were emitted since the last call. */
      told: async () => {
        const all = await shop.events()
        const news = all.slice(heard).map(({ type }) => type)
        heard = all.length
        return news.filter((type) => type.startsWith('subscription.') || type.startsWith('order.'))
      },
      portal: async () => world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: customer.id } })).token }),
    }
  }

  return { pass, until, moveTo, retire, open, nextDue }
}
export type Plan = Awaited<ReturnType<ReturnType<typeof openPlans>['open']>>

/** Compares the ledger with the processor's own records, by payment attempt. */
export const compareBooks = async (world: World, organization_id?: string) => {
  const { charges } = await readBooks(world, organization_id)
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ reference: string; amount: number }>(
      `select t.reference, sum(e.amount)::int as amount from ledger_transactions t
       join ledger_entries e on e.organization_id = t.organization_id and e.transaction_id = t.id
       where e.account = 'processor' and t.kind = 'payment_received' and ($1::uuid is null or t.organization_id = $1) group by 1`,
      [organization_id ?? null],
    ),
  )
  return {
    ours: Object.fromEntries(rows.map(({ reference, amount }) => [reference, amount])),
    theirs: Object.fromEntries(charges.map(({ metadata, amount }) => [metadata.payment_id, amount])),
    charges,
  }
}
