import {
  confirmClientCheckout,
  correctEvents,
  createBenefit,
  createCheckout,
  createCustomer,
  createMeter,
  createProduct,
  ingestEvents,
  listSubscriptions,
  updateProductBenefits,
  updateSubscription,
  type Aggregation,
} from '@bursar/contract'
import { mergeUsage } from '../../../src/modules/usage/index.ts'
import type { Deps } from '../../../src/modules/handlers.ts'
import type { World } from '../../harness/world.ts'
import { openChance, type Clock } from './stories.ts'

/** A usage event, or the replacement of one. */
interface Usage {
  readonly id: string
  readonly at: number
  readonly units: number
}

/** The actions of a metered customer at one of the times at which its test clock stops. */
interface MeteredStop {
  readonly at: number
  readonly events: readonly Usage[]
  readonly voided: readonly string[]
  readonly replaced: readonly { readonly id: string; readonly by: Usage }[]
  readonly act: 'buy' | 'revoke' | 'top_up' | null
  readonly change: { readonly plan: 0 | 1; readonly way: 'prorate' | 'invoice' | 'next_period' } | null
}

/** A customer with a subscription to metered prices. If the subscription is revoked, the customer buys another at the next stop. */
export interface MeteredStory {
  readonly name: string
  readonly clock: number
  readonly interval: 'quarter' | 'year'
  readonly stops: readonly MeteredStop[]
}

const DAY = 86_400_000

/** Generates the metered customers of a run. The same seed gives the same customers. Every second one is billed once a year. */
export const composeMetered = (seed: number, count: number, clocks: readonly Clock[]): MeteredStory[] =>
  Array.from({ length: count }, (_, n) => {
    const chance = openChance(seed * 104_729 + n)
    const clock = n % clocks.length
    const { stops } = clocks[clock]!
    const known: Usage[] = []
    const draw = (at: number): Usage => ({ id: `${n}-${known.length}`, at, units: chance.between(-20, 300) / 10 })
    let owner = false
    let plan: 0 | 1 = 0
    const days = stops.map((at, stop): MeteredStop => {
      // Most usage is of the last weeks. Some of it is late by months or years, also after the end of its subscription.
      const drawTime = () => (chance.next() < 0.1 ? chance.between(stops[0]!, at) : Math.max(stops[0]!, at - chance.between(0, 110 * DAY)))
      const events: Usage[] = []
      for (let left = stop === 0 ? 0 : chance.between(2, 6); left > 0; left--) {
        const one = draw(drawTime())
        known.push(one)
        events.push(one)
      }
      const earlier = known.slice(0, known.length - events.length)
      const pickEarlier = (): Usage[] => {
        if (earlier.length === 0 || chance.next() < 0.6) return []
        const [one] = earlier.splice(chance.below(earlier.length), 1)
        known.splice(known.indexOf(one!), 1, { ...one!, id: '' })
        return one!.id === '' ? [] : [one!]
      }
      const voided = pickEarlier().map(({ id }) => id)
      const replaced = pickEarlier().map(({ id, at: time }) => {
        const by = draw(time)
        known.push(by)
        return { id, by }
      })
      let act: MeteredStop['act'] = null
      let change: MeteredStop['change'] = null
      const dice = chance.next()
      if (!owner) [owner, act, plan] = [true, 'buy', 0]
      else if (dice < 0.03) [owner, act] = [false, 'revoke']
      else if (dice < 0.15) act = 'top_up'
      else if (dice < 0.3) {
        plan = plan === 0 ? 1 : 0
        change = { plan, way: chance.pick(['prorate', 'invoice', 'next_period']) }
      }
      return { at, events, voided, replaced, act, change }
    })
    return { name: `metered ${n}`, clock, interval: n % 2 === 0 ? 'quarter' : 'year', stops: days }
  })

const aggregations: readonly Aggregation[] = [
  { func: 'count' },
  ...(['sum', 'max', 'min', 'avg', 'unique'] as const).map((func) => ({ func, property: 'units' })),
]
/** The functions that the plans of an interval have prices on. */
const functions: Record<MeteredStory['interval'], readonly Aggregation['func'][]> = {
  quarter: ['count', 'sum', 'unique', 'min'],
  year: ['count', 'sum', 'max', 'avg'],
}
/** Prices of one unit in cents, for the two plans of each interval. */
const rates = [
  { count: '3.5', sum: '1.5', max: '3', min: '2', avg: '1.25', unique: '10' },
  { count: '4', sum: '0.333', max: '4', min: '5', avg: '2.5', unique: '7' },
] as const
/** Units of the meter with `sum` that the yearly plans include, and that a top-up gives. */
const included = 40
const topUp = 25

interface Tools {
  readonly world: World
  readonly deps: Deps
  readonly api: Awaited<ReturnType<World['shop']>>['api']
  readonly clockIds: readonly string[]
  /** Runs the waiting jobs. */
  readonly work: () => Promise<void>
  /** Processes the due rows of sweeps that no test clock runs. */
  readonly sweep: () => Promise<void>
}

/** Creates meters and products. Returns functions that let the metered customers act over HTTP. */
export const openMeteredLife = async ({ world, deps, api, clockIds, work, sweep }: Tools, stories: readonly MeteredStory[]) => {
  const meters = []
  for (const aggregation of aggregations)
    meters.push(await api.call(createMeter, { body: { name: aggregation.func, filter: { conjunction: 'and', clauses: [] }, aggregation } }))
  await sweep()
  const [, { id: sum }] = meters as [unknown, { id: string }]
  const credit = async (units: number, product_id: string) => {
    const properties = { meter_id: sum, units, rollover: false }
    const { id } = await api.call(createBenefit, { body: { type: 'meter_credit', description: 'Included units', properties } as never })
    await api.call(updateProductBenefits, { params: { id: product_id }, body: { benefits: [id] } })
  }
  const fixed = { amount_type: 'fixed', price_amount: 500, price_currency: 'usd' } as const
  const plans: Record<MeteredStory['interval'], string[]> = { quarter: [], year: [] }
  for (const interval of ['quarter', 'year'] as const)
    for (const rate of rates) {
      const own = meters.filter(({ aggregation: { func } }) => functions[interval].includes(func))
      const metered = own.map(({ id, aggregation: { func } }) => ({
        amount_type: 'metered_unit' as const,
        meter_id: id,
        unit_amount: rate[func],
        price_currency: 'usd' as const,
      }))
      const every = interval === 'year' ? { recurring_interval: 'year' as const } : { recurring_interval: 'month' as const, recurring_interval_count: 3 }
      const { id } = await api.call(createProduct, { body: { name: 'Metered', ...every, prices: [fixed, ...metered] } })
      if (interval === 'year') await credit(included, id)
      plans[interval].push(id)
    }
  const { id: more } = await api.call(createProduct, { body: { name: 'More units', prices: [fixed] } })
  await credit(topUp, more)

  const customers = new Map<MeteredStory, string>()
  const subscriptions = new Map<MeteredStory, string>()
  const buy = async (story: MeteredStory, product_id: string) => {
    const address = { country: 'DE' as const }
    if (!customers.has(story)) {
      const email = `${story.name.replace(' ', '-')}@people.test`
      customers.set(story, (await api.call(createCustomer, { body: { email, billing_address: address, test_clock_id: clockIds[story.clock]! } })).id)
    }
    const customer_id = customers.get(story)!
    const checkout = await api.call(createCheckout, { body: { products: [product_id], customer_id } })
    await world.client().call(confirmClientCheckout, {
      params: { client_secret: checkout.client_secret },
      body: { customer_billing_address: address, confirmation_token_id: `tok_visa:${story.name.replace(' ', '')}` },
    })
    await work()
    const found = (await api.call(listSubscriptions, { query: { customer_id: [customer_id], active: true } })).items[0]
    if (found) subscriptions.set(story, found.id)
  }
  const eventOf = (story: MeteredStory, { id, at, units }: Usage) => ({
    name: 'call',
    external_id: `m${id}`,
    customer_id: customers.get(story)!,
    timestamp: new Date(at).toISOString(),
    metadata: { units },
  })
  const update = (story: MeteredStory, body: object) => api.call(updateSubscription, { params: { id: subscriptions.get(story)! }, body: body })

  const revoke = async (story: MeteredStory) => {
    await update(story, { revoke: true })
    subscriptions.delete(story)
  }

  const perform = async (story: MeteredStory, { events, voided, replaced, act, change }: MeteredStop) => {
    if (act === 'buy') await buy(story, plans[story.interval][0]!)
    if (events.length > 0) await api.call(ingestEvents, { body: { events: events.map((one) => eventOf(story, one)) } })
    const corrections = [
      ...voided.map((id) => ({ action: 'void' as const, event_id: `m${id}`, reason: 'wrong' })),
      ...replaced.map(({ id, by }) => ({ action: 'replace' as const, event_id: `m${id}`, reason: 'wrong', replacement: eventOf(story, by) })),
    ]
    if (corrections.length > 0) await api.call(correctEvents, { body: { corrections } })
    if (act === 'top_up') await buy(story, more)
    if (act === 'revoke') await revoke(story)
    if (change) await update(story, { product_id: plans[story.interval][change.plan]!, proration_behavior: change.way })
  }

  return {
    /** Performs everything that the customers of a clock do at one of its stops. */
    perform: async (clock: number, at: number) => {
      for (const story of stories) {
        if (story.clock !== clock) continue
        for (const stop of story.stops) if (stop.at === at) await perform(story, stop)
      }
    },
    /** Ends all subscriptions. Their last orders are due 35 days later. */
    revokeAll: async () => {
      for (const story of subscriptions.keys()) await revoke(story)
    },
    /** Does the work of the periodic tasks, so that late usage is noticed before the clocks advance. */
    settle: async () => {
      await sweep()
      await work()
      await mergeUsage(deps)
    },
  }
}
