import { listCustomerMeters, listUsageEvents, ingestEvents, type Operation } from '@bursar/contract'
import { openDeployment, openLife } from '../../server/test/harness/crashes.ts'
import { openMetered } from '../../server/test/harness/metered.ts'
import { openPlans, type Plan } from '../../server/test/harness/plans.ts'
import type { World } from '../../server/test/harness/world.ts'
import { cpuOf, databaseCpu } from './cpu.ts'
import { startApi } from './exporting.ts'
import { median, quotients, sendLoad } from './measuring.ts'
import { options } from './options.ts'
import type { Outcome } from './results.ts'
import { seedUsage, type Usage } from './seed-usage.ts'

/** Numbers of events of the customers. The larger ones follow from the option `--events`. */
const few = { balance: 10_000, closing: 1000 }
const many = { balance: options.events, closing: Math.ceil(options.events / 10) }
const reads = 200
const hour = 3_600_000

type Api = Awaited<ReturnType<typeof startApi>>
type Plans = ReturnType<typeof openPlans>
/** Two plans. The customer of the second has `count` events. */
interface Pair {
  readonly small: Plan
  readonly large: Plan
  readonly count: number
}
type Deployment = Awaited<ReturnType<typeof openDeployment>>

/**
 * Measures customers with few and with many usage events in one billing period. All events of a comparison belong to one customer,
 * and their period begins within a quarter hour, so that a part of it has no stored total.
 */
export const usage = async (world: World): Promise<Record<string, Outcome>> => {
  const deployment = await openDeployment(world, openLife(null))
  const plans = openPlans(world, deployment)
  const sell = () => plans.open({ meter: { aggregation: { func: 'sum', property: 'units' }, unit_amount: '0.001' } })
  const balance = { small: await sell(), large: await sell() }
  const closing: Pair[] = []
  for (let round = 0; round <= options.rounds; round++) {
    // The periods end one after the other.
    world.clock.advance(hour)
    const small = await sell()
    world.clock.advance(hour)
    // The first round is a warm-up.
    closing.push({ small, large: await sell(), count: round === 0 ? few.closing : many.closing })
  }
  // Without earlier events, the meters count from now on.
  await deployment.sweep('usage.backfill_meters')

  const began = performance.now()
  const usages = [await usageOf(balance.small, few.balance), await usageOf(balance.large, many.balance)]
  for (const { small, large, count } of closing) usages.push(await usageOf(small, few.closing), await usageOf(large, count))
  await world.database.owner((owner) => seedUsage(owner, usages))
  const seeding = (performance.now() - began) / 1000
  const api = await startApi(world)
  const read = await readBalances(world, api, deployment, balance)
  const pages = await readPages(api, balance.large)
  await api.stop()
  const closed = await closePeriods(world, plans, closing)
  await deployment.close()
  return {
    balance: {
      ratio: read.wrong,
      figures: [
        { what: 'reads', value: 2 * reads, unit: '' },
        { what: 'time to insert the events', value: seeding, unit: ' s' },
      ],
      rows: many.balance,
      rounds: 1,
    },
    'balance-size': outcomeOf(read.costs, many.balance),
    'usage-closing': outcomeOf(closed, many.closing),
    'events-pages': {
      ratio: Math.max(...pages.map(({ value }) => value)),
      figures: pages,
      rows: many.balance,
      rounds: options.rounds,
    },
  }
}

/** CPU time in milliseconds. */
interface Cost {
  readonly process_ms: number
  readonly database_ms: number
}
interface Costs {
  readonly small: readonly Cost[]
  readonly large: readonly Cost[]
  readonly process: string
}

const outcomeOf = ({ small, large, process }: Costs, rows: number): Outcome => {
  const total = (costs: readonly Cost[]) => costs.map(({ process_ms, database_ms }) => process_ms + database_ms)
  const figures = (what: string, costs: readonly Cost[]) => [
    { what: `${what}, CPU of the ${process}`, value: median(costs.map(({ process_ms }) => process_ms)), unit: ' ms' },
    { what: `${what}, CPU of the database`, value: median(costs.map(({ database_ms }) => database_ms)), unit: ' ms' },
  ]
  return {
    ratio: median(total(large)) / median(total(small)),
    ratios: quotients(total(large), total(small)),
    figures: [...figures('few events', small), ...figures(`${rows.toLocaleString('en')} events`, large)],
    rows,
    rounds: small.length,
  }
}

/** Spreads usage over the billing period of a plan. */
const usageOf = async (plan: Plan, count: number): Promise<Usage> => {
  const { current_period_start, current_period_end } = await plan.seen()
  return {
    organization_id: plan.organization.id,
    customer_id: plan.customer.id,
    meter_id: plan.meter_id!,
    from: new Date(current_period_start),
    until: new Date(current_period_end),
    count,
  }
}

const fetchFrom = async (api: Api, token: string, path: string, body?: object): Promise<unknown> => {
  const response = await fetch(`http://127.0.0.1:${api.port}${path}`, {
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
  })
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`)
  return response.json()
}

/** Counts wrong balances, each read once directly after an ingest. Then measures reads of both balances in turn. */
const readBalances = async (world: World, api: Api, deployment: Deployment, { small, large }: { small: Plan; large: Plan }) => {
  let wrong = 0
  const sides: { readonly path: string; readonly token: string; readonly costs: Cost[] }[] = []
  for (const { organization, customer } of [small, large]) {
    const token = (await organization.token()).secret.reveal()
    const ingest = (tenths: number) =>
      fetchFrom(api, token, ingestEvents.path, { events: [{ name: 'call.1', customer_id: customer.id, metadata: { units: tenths / 10 } }] })
    const consumed = async (): Promise<{ id: string; consumed_units: number }> => {
      const { items } = (await fetchFrom(api, token, `${listCustomerMeters.path}?customer_id=${customer.id}`)) as {
        items: { id: string; consumed_units: number }[]
      }
      return items[0]!
    }
    await ingest(1)
    const { id, consumed_units } = await consumed()
    const path = `${listCustomerMeters.path}${id}`
    let tenths = Math.round(consumed_units * 10)
    for (let at = 0; at < reads; at++) {
      tenths += at % 17
      await ingest(at % 17)
      const seen = (await fetchFrom(api, token, path)) as { consumed_units: number }
      if (seen.consumed_units !== tenths / 10) wrong++
    }
    sides.push({ path, token, costs: [] })
  }
  const { merge } = openMetered(world, deployment, openPlans(world, deployment))
  await merge()
  for (let round = 0; round <= options.rounds; round++)
    for (const { path, token, costs } of sides) {
      const used = () => ({ process: cpuOf(api.pid), database: databaseCpu(world.database.name) })
      const before = used()
      const { answers } = await sendLoad(api.port, path, token, { connections: 1 })
      const after = used()
      // The first round is a warm-up.
      if (round > 0) costs.push({ process_ms: (after.process - before.process) / answers, database_ms: (after.database - before.database) / answers })
    }
  return { wrong, costs: { small: sides[0]!.costs, large: sides[1]!.costs, process: 'API' } }
}

/** Ends the billing periods one after the other. The work of a renewal runs in this process. */
const closePeriods = async (world: World, plans: Plans, closing: readonly Pair[]): Promise<Costs> => {
  const close = async (plan: Plan, count: number): Promise<Cost> => {
    const end = await plan.end()
    // Runs everything that is due before, such as the renewals of other plans.
    await plans.until(new Date(end.getTime() - 1))
    const used = () => ({ process: process.cpuUsage(), database: databaseCpu(world.database.name) })
    const before = used()
    await plans.until(end)
    const after = used()
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ units: string }>('select billed_quantity::text as units from usage_periods where customer_id = $1 and ends_at is not null', [
        plan.customer.id,
      ]),
    )
    // Ten events have 55 units.
    if (Number(rows[0]?.units) !== 5.5 * count) throw new Error(`billed ${rows[0]?.units} units of ${5.5 * count}`)
    const own = (used: NodeJS.CpuUsage) => (used.user + used.system) / 1000
    return { process_ms: own(after.process) - own(before.process), database_ms: after.database - before.database }
  }
  const costs = { small: [] as Cost[], large: [] as Cost[], process: 'worker' }
  for (const { small, large, count } of closing) {
    costs.small.push(await close(small, few.closing))
    costs.large.push(await close(large, count))
  }
  return { ...costs, small: costs.small.slice(1), large: costs.large.slice(1) }
}

/** Reads first pages of events with each filter that has an index. Returns the median time of each. */
const readPages = async (api: Api, { organization, customer, meter_id }: Plan) => {
  const token = (await organization.token()).secret.reveal()
  const path = ({ path }: Operation, query: string) => `${path}?limit=10&${query}`
  const pages: { what: string; value: number; unit: string }[] = []
  for (const [what, query] of [
    ['all', ''],
    ['by cursor', 'cursor_pagination=true'],
    ['oldest first', 'cursor_pagination=true&sorting=timestamp'],
    ['of a name', 'cursor_pagination=true&name=call.1'],
    ['of an unknown name', 'cursor_pagination=true&name=none'],
    ['of a customer', `cursor_pagination=true&customer_id=${customer.id}`],
    ['of a meter', `cursor_pagination=true&meter_id=${meter_id}`],
  ] as const) {
    const times: number[] = []
    for (let at = 0; at < 20; at++) {
      const began = performance.now()
      await fetchFrom(api, token, path(listUsageEvents, query))
      times.push(performance.now() - began)
    }
    pages.push({ what, value: median(times), unit: ' ms' })
  }
  return pages
}
