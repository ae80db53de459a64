import {
  confirmClientCheckout,
  createCheckout,
  createCustomer,
  createMeter,
  createProduct,
  listSubscriptions,
  revokeSubscription,
  type Aggregation,
  type Filter,
  type Meter,
} from '@bursar/contract'
import { openDeployment, openLife } from '../../harness/crashes.ts'
import { day } from '../../harness/plans.ts'
import type { World } from '../../harness/world.ts'
import type { Dice } from '../kills/plan.ts'

export const aggregations: readonly Aggregation[] = [
  { func: 'count' },
  ...(['sum', 'max', 'min', 'avg', 'unique'] as const).map((func) => ({ func, property: 'units' })),
]
export const filter: Filter = { conjunction: 'and', clauses: [{ property: 'name', operator: 'eq', value: 'call' }] }

/** A customer whose usage is billed. */
export interface Subscriber {
  /** The external id of the customer. */
  readonly customer: string
  readonly subscription_id: string
  /** Start of the subscription. */
  readonly since: number
  /** End of the subscription, if it ended before the run. */
  readonly until: number | null
  /** False if the card is declined at each renewal. */
  readonly pays: boolean
}

/** Prices of one unit in cents, by product and function. */
const rates = {
  first: { count: '0.7', sum: '1.5', max: '3', min: '2', avg: '1.25', unique: '10' },
  second: { count: '0.9', sum: '0.333', max: '4', min: '5', avg: '2.5', unique: '7' },
} as const

/** Days before the run on which daily subscriptions begin. Each is due for as many renewals. */
const ages = [3, 2, 1]
const subscribersOfAge = 3
const endedSubscribers = 3
/** Usage of an ended subscription is billed with a last order after this number of days. */
const lateDays = 35

/**
 * Sells subscriptions with a price for each function. The clock of the test system is set back for each sale, so that periods of the
 * past are due at the start of the run. Some subscriptions have ended 35 days ago, so that their last order is due.
 */
export const sellMetered = async (world: World, shop: Awaited<ReturnType<World['shop']>>, dice: Dice) => {
  const { api } = shop
  const { clock, database } = world
  const deployment = await openDeployment(world, openLife(null))
  const meters: Pick<Meter, 'id' | 'filter' | 'aggregation'>[] = []
  for (const aggregation of aggregations) meters.push(await api.call(createMeter, { body: { name: 'Calls', filter, aggregation } }))
  const sell = (rate: (typeof rates)['first' | 'second'], recurring_interval: 'day' | 'month') =>
    api.call(createProduct, {
      body: {
        name: 'Metered',
        recurring_interval,
        prices: [
          { amount_type: 'fixed', price_amount: 100, price_currency: 'usd' },
          ...meters.map(({ id, aggregation: { func } }) => ({
            amount_type: 'metered_unit' as const,
            meter_id: id,
            unit_amount: rate[func],
            price_currency: 'usd' as const,
          })),
        ],
      },
    })
  const daily = [(await sell(rates.first, 'day')).id, (await sell(rates.second, 'day')).id] as const
  const monthly = (await sell(rates.first, 'month')).id

  const moveTo = (at: number) => clock.advance(at - clock.business().getTime())
  const buy = async (customer: string, product_id: string, pays = true) => {
    const { id: customer_id } = await api.call(createCustomer, { body: { email: `${customer}@people.test`, external_id: customer } })
    const checkout = await api.call(createCheckout, { body: { products: [product_id], customer_id } })
    await world.client().call(confirmClientCheckout, {
      params: { client_secret: checkout.client_secret },
      body: { customer_billing_address: { country: 'DE' }, confirmation_token_id: pays ? 'tok_visa' : 'tok_declined_later' },
    })
    return { customer, customer_id, pays }
  }
  const subscriberOf = async ({ customer, customer_id, pays }: Awaited<ReturnType<typeof buy>>, until: number | null): Promise<Subscriber> => {
    const [subscription] = (await api.call(listSubscriptions, { query: { customer_id: [customer_id] } })).items
    if (!subscription) throw new Error(`${customer} has no subscription`)
    return { customer, subscription_id: subscription.id, since: Date.parse(subscription.started_at!), until, pays }
  }

  const now = Date.now()
  const subscribers: Subscriber[] = []
  moveTo(now - (lateDays + 5) * day)
  const former = await Promise.all(Array.from({ length: endedSubscribers }, (_, at) => buy(`former-${at}`, monthly)))
  await deployment.work()
  const end = now - lateDays * day
  moveTo(end)
  for (const one of former) {
    const subscriber = await subscriberOf(one, end)
    await api.call(revokeSubscription, { params: { id: subscriber.subscription_id } })
    subscribers.push(subscriber)
  }
  for (const age of ages) {
    moveTo(now - age * day)
    const sold = await Promise.all(
      // Some cards are declined at each renewal. So some orders stay unpaid.
      Array.from({ length: subscribersOfAge }, (_, at) => buy(`daily-${age}-${at}`, daily[0], age === 1 || at > 0)),
    )
    await deployment.work()
    for (const one of sold) subscribers.push(await subscriberOf(one, null))
  }
  await deployment.work()
  moveTo(Date.now())
  await deployment.close()

  /** Sets the due times of renewals and last orders. */
  const setDue = (dueAt: () => number) =>
    database.owner(async (owner) => {
      for (const table of ['subscriptions', 'usage_periods']) {
        const { rows } = await owner.query<{ id: string }>(`select id from ${table} where due_at is not null order by id`)
        await owner.query(`update ${table} t set due_at = v.due_at from unnest($1::uuid[], $2::timestamptz[]) v (id, due_at) where t.id = v.id`, [
          rows.map(({ id }) => id),
          rows.map(() => new Date(dueAt())),
        ])
      }
    })
  // Nothing is due until the traffic starts.
  await setDue(() => now + 10 * day)
  return {
    subscribers,
    meters,
    daily,
    /** Makes renewals and last orders due at pseudorandom times within the given milliseconds. */
    spreadDue: (within: number) => setDue(() => Date.now() + dice.below(within)),
  }
}
export type Sale = Awaited<ReturnType<typeof sellMetered>>

/**
 * Changes the rows as if the subscriptions that ended in this run had ended 35 days earlier. Their last orders are then due. The periods
 * of usage stay as they are.
 */
export const makeLastOrdersDue = (world: World): Promise<void> =>
  world.database.owner(async (owner) => {
    await owner.query(`update subscriptions set ended_at = ended_at - interval '${lateDays} days' where ended_at > clock_timestamp() - interval '1 day'`)
    await owner.query(`update usage_periods set due_at = due_at - interval '${lateDays} days' where due_at > clock_timestamp()`)
  })
