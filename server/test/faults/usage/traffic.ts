import { correctEvents, createCustomer, createMeter, ingestEvents, type Meter } from '@bursar/contract'
import { day } from '../../harness/plans.ts'
import type { Dice } from '../kills/plan.ts'
import { aggregations, filter, type Sale } from './sale.ts'
import { pause, type Sender } from './sender.ts'

/** An event as its sender knows it. */
export interface Known {
  readonly external_id: string
  /** The external id of the customer. */
  readonly customer: string
  readonly units: number
  readonly timestamp: Date
  /** True if the event was voided or replaced. */
  corrected: boolean
}

/**
 * The customers without a subscription, by external id. The last one is created during the run, so its first events have no customer
 * yet.
 */
const others = ['ada', 'bob', 'carl', 'dora'] as const
/** Quarter hours that events fall into. Few of them, so that many events share one. */
const quarters = 6

/** Sends events, corrections and meters until `end` is called. Each request is sent again, unchanged, until it is answered. */
export const openTraffic = ({ client, insist }: Sender, sale: Pick<Sale, 'subscribers' | 'meters'>, dice: Dice) => {
  const known = new Map<string, Known>()
  const meters: Pick<Meter, 'id' | 'filter' | 'aggregation'>[] = [...sale.meters]
  const figures = { sent: 0, corrections: 0, recognised: 0 }
  const life = { ending: false }
  const begun = Date.now()
  const customers = [...others, ...sale.subscribers.map(({ customer }) => customer)]
  const subscribers = new Map(sale.subscribers.map((subscriber) => [subscriber.customer, subscriber]))

  /**
   * Draws the time of an event. For subscribers, some events are near the boundary of a billing period or exactly on it. Most others
   * are late usage of a few quarter hours.
   */
  const drawTime = (customer: string): number => {
    const subscriber = subscribers.get(customer)
    if (!subscriber) return begun - dice.below(quarters * 900_000)
    const { since, until } = subscriber
    if (dice.below(4) === 0) {
      const distance = [-1, 0, 1, dice.below(240_000) - 120_000][dice.below(4)]!
      return Math.min(since + dice.below(5) * day + distance, Date.now())
    }
    const step = Math.floor(((until ?? begun) - since) / (quarters - 1))
    return Math.min(since + dice.below(quarters) * step + dice.below(900_000), Date.now())
  }

  let number = 0
  const draw = (prefix: string, customer = customers[dice.below(customers.length)]!): Known => ({
    external_id: `${prefix}-${++number}`,
    customer,
    units: (dice.below(2000) - 500) / 10,
    timestamp: new Date(drawTime(customer)),
    corrected: false,
  })
  const eventOf = ({ external_id, customer, units, timestamp }: Known) => ({
    name: 'call',
    external_id,
    external_customer_id: customer,
    timestamp: timestamp.toISOString(),
    metadata: { units },
  })
  const keep = (events: readonly Known[]) => events.forEach((event) => known.set(event.external_id, event))

  const ingest = async (lane: number) => {
    while (!life.ending) {
      const events = Array.from({ length: 1 + dice.below(60) }, () => draw(`s${lane}`))
      const send = () => insist('events:ingest', () => client.call(ingestEvents, { body: { events: events.map(eventOf) } }))
      const answer = await send()
      if (!answer) continue
      figures.sent += events.length
      figures.recognised += answer.duplicates
      // Some senders do not hear the answer, and send the events again.
      if (dice.below(8) === 0) figures.recognised += (await send())?.duplicates ?? 0
      keep(events)
      await pause(dice.below(30))
    }
  }

  /** Voids or replaces a few events that were answered. Half of the requests are also sent a second time, at the same time. */
  const correct = async (lane: number) => {
    while (!life.ending) {
      await pause(20 + dice.below(100))
      const standing = [...known.values()].filter(({ corrected }) => !corrected)
      const chosen = [...new Set(Array.from({ length: 1 + dice.below(4) }, () => standing[dice.below(standing.length)]))].filter((one) => one !== undefined)
      if (chosen.length === 0) continue
      // Marks the events at once, so that no other lane chooses them.
      for (const one of chosen) one.corrected = true
      const replacements: Known[] = []
      const corrections = chosen.map(({ external_id: event_id }) => {
        if (dice.below(2) === 0) return { action: 'void' as const, event_id, reason: 'fault' }
        const replacement = draw(`r${lane}`)
        replacements.push(replacement)
        return { action: 'replace' as const, event_id, reason: 'fault', replacement: eventOf(replacement) }
      })
      const send = () => insist('events:correct', () => client.call(correctEvents, { body: { corrections } }))
      const answers = await Promise.all(dice.below(2) === 0 ? [send(), send()] : [send()])
      if (answers.includes(undefined)) continue
      figures.corrections += chosen.length
      keep(replacements)
    }
  }

  /** Makes further meters of all functions. They count the events so far by backfill. */
  const makeMeters = async () => {
    for (let generation = 1; generation < 6 && !life.ending; generation++) {
      for (let waited = 0; waited < 8000 && !life.ending; waited += 100) await pause(100)
      for (const [at, aggregation] of aggregations.entries()) {
        const headers = { 'idempotency-key': `meter-${generation}-${at}` }
        const meter = await insist('meters:create', () => client.call(createMeter, { body: { name: 'Calls', filter, aggregation }, headers }))
        if (meter) meters.push(meter)
      }
    }
  }
  const makeCustomer = (external_id: string) =>
    insist('customers:create', () =>
      client.call(createCustomer, { body: { email: `${external_id}@people.test`, external_id }, headers: { 'idempotency-key': external_id } }),
    )

  const running = (async () => {
    for (const external_id of others.slice(0, -1)) await makeCustomer(external_id)
    const late = async () => {
      for (let waited = 0; waited < 6000 && !life.ending; waited += 100) await pause(100)
      await makeCustomer(others.at(-1)!)
    }
    await Promise.all([makeMeters(), late(), ...[0, 1, 2, 3].map(ingest), ...[0, 1].map(correct)])
  })()
  return {
    known,
    customers,
    subscribers,
    meters,
    figures,
    /** Starts no new requests, and finishes the pending ones. */
    end: async () => {
      life.ending = true
      await running
    },
  }
}
export type Traffic = ReturnType<typeof openTraffic>
