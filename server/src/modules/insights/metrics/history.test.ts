import { everyMetric, ingestEvents, type MetricSlug } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newId } from '../../../kernel/ids.ts'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openMetricHistory, seededNumbers } from '../../../../test/harness/metric-history.ts'
import { anyMetricQuestion } from '../../../../test/harness/metric-questions.ts'
import { counted } from '../../../../test/harness/pace.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { evaluate, type Reading } from '../calc/evaluating.ts'
import { figures, withSources } from '../calc/figures.ts'
import { bucketsOf, bucketAround } from './ranges.ts'
import { foldMetrics } from '../folding/folding.ts'
import { readScratch } from '../verifying/scratch.sql.ts'
import { checkMetrics, metricDrift, rebuildMetrics, verifyMetrics } from '../verifying/verifying.ts'
import { listFacts } from './facts.sql.ts'
import { computeMetrics, readStored } from './metrics.ts'
import type { Question } from '../calc/question.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

const db = (): Db => deployment.deps.db
const query = <T extends object>(text: string, values: readonly unknown[] = []) =>
  world.database.owner(async (owner) => (await owner.query<T>(text, [...values])).rows)

const open = async (seed: number) => {
  const numbers = seededNumbers(seed)
  const shop = await world.shop()
  const history = await openMetricHistory(query, shop.organization.id, numbers)
  const question: Question = { organizations: [shop.organization.id], currency: 'usd', product_id: [], billing_type: [], customer_id: [] }
  const use = async (from: Date, to: Date, events: number) => {
    await shop.api.call(ingestEvents, {
      body: {
        events: Array.from({ length: events }, () => ({
          name: 'call',
          timestamp: new Date(from.getTime() + Math.floor(numbers.next() * (to.getTime() - from.getTime()))).toISOString(),
          ...(numbers.chance(0.2) ? { external_customer_id: `stranger ${numbers.below(5)}` } : { customer_id: numbers.pick(history.people) }),
          metadata: numbers.chance(0.7)
            ? { _cost: { amount: `${numbers.below(900)}.${String(numbers.below(1e9)).padStart(12, '0')}`, currency: 'usd' as const } }
            : {},
        })),
      },
    })
  }
  return { ...shop, numbers, history, question, use }
}

test('answers random questions as the records themselves do: zones, changes of the clock, filters and intervals', async () => {
  const { numbers, history, question, use, organization } = await open(24)
  // Another seller with its own sales, which must not be counted.
  const other = await open(7)
  await other.history.run(new Date('2023-01-01T00:00:00Z'), new Date('2026-01-01T00:00:00Z'), 150)
  await history.run(new Date('2022-11-01T00:00:00Z'), new Date('2024-11-10T00:00:00Z'), 500)
  await use(new Date('2022-12-01T00:00:00Z'), new Date('2026-01-01T00:00:00Z'), 600)
  await foldMetrics(deployment.deps)
  // The rest stays unfolded.
  await history.run(new Date('2024-11-10T00:00:00Z'), new Date('2026-01-01T00:00:00Z'), 250)
  await use(new Date('2024-03-01T00:00:00Z'), new Date('2024-04-01T00:00:00Z'), 200)
  const products = history.products.map(({ id }) => id)
  const differences: unknown[] = []
  let values = 0
  let other_than_zero = 0
  for (let at = 0; at < counted('QUESTIONS', 60, 20); at++) {
    const { range, chosen, question: asked } = anyMetricQuestion(numbers, question, products, history.people)
    const buckets = bucketsOf(range)
    const names = withSources(chosen)
    const stored = await readStored(db(), asked, names, buckets)
    const scratch = await readScratch(db(), asked, names, buckets)
    const [one, two] = [computeMetrics(chosen, stored.of, stored.whole), computeMetrics(chosen, scratch.of, scratch.whole)]
    values += buckets.length * chosen.length
    other_than_zero += one.periods.flatMap((period) => Object.values(period)).filter((value) => value !== 0).length
    if (JSON.stringify(one) !== JSON.stringify(two)) differences.push({ range, chosen, one, two })
  }
  expect(differences).toEqual([])
  expect(values).toBeGreaterThan(1000)
  expect(other_than_zero).toBeGreaterThan(values / 10)
  expect(
    (await query<{ left: number }>('select count(*)::int as left from metric_facts where organization_id = $1 and not is_folded', [organization.id]))[0]!.left,
  ).toBeGreaterThan(100)
})

test('the facts behind an interval sum to its value, and revenue is what the ledger says', async () => {
  const { numbers, history, question, use, organization } = await open(31)
  await history.run(new Date('2023-01-01T00:00:00Z'), new Date('2025-06-01T00:00:00Z'), 500)
  await use(new Date('2023-01-01T00:00:00Z'), new Date('2025-06-01T00:00:00Z'), 300)
  await foldMetrics(deployment.deps)
  await history.run(new Date('2025-06-01T00:00:00Z'), new Date('2026-01-01T00:00:00Z'), 100)
  const traceable = everyMetric.filter((slug) => figures[slug].kind === 'sum' || figures[slug].kind === 'distinct')
  const products = history.products.map(({ id }) => id)
  let paged = 0
  for (let at = 0; at < counted('TRACES', 80, 30); at++) {
    const { range, question: asked } = anyMetricQuestion(numbers, question, products, history.people)
    const slug = numbers.pick(traceable)
    const buckets = bucketsOf(range)
    const place = numbers.below(buckets.length)
    const { of } = await readStored(db(), asked, withSources([slug]), buckets)
    const value = evaluate(slug, of[place]!)
    const figure = figures[slug] as Parameters<typeof listFacts>[2]
    const bucket = bucketAround(buckets[place]!.starts_at, range)
    expect(bucket).toEqual(buckets[place])
    const found = await listFacts(db(), asked, figure, bucket, { size: 10_000, offset: 0 })
    expect({ slug, range, value: Number(found.value) }).toEqual({ slug, range, value })
    expect(found.total).toBe(found.rows.length)
    if (found.total > 1) {
      const rest = await listFacts(db(), asked, figure, bucket, { size: 10_000, offset: 1 })
      expect(rest.rows).toEqual(found.rows.slice(1))
      paged++
    }
  }
  expect(paged).toBeGreaterThan(5)
  const everything = bucketsOf({ start_date: '2023-01-01', end_date: '2026-12-31', interval: 'year', timezone: 'UTC' })
  const { whole } = await readStored(db(), question, withSources(['revenue', 'net_revenue']), everything)
  const [ledger] = await query<{ billed: number; returned: number }>(
    `select -sum(e.amount) filter (where t.kind = 'order_billed')::int as billed, sum(e.amount) filter (where t.kind in ('refund_paid', 'refund_reversed'))::int as returned
     from ledger_transactions t join ledger_entries e on e.organization_id = t.organization_id and e.transaction_id = t.id
     left join orders o on o.organization_id = t.organization_id and o.id = t.reference
     where t.organization_id = $1 and e.account = 'revenue' and e.currency = 'usd' and (o.id is null or o.status <> 'void')`,
    [organization.id],
  )
  expect(evaluate('revenue', whole)).toBe(ledger!.billed)
  expect(evaluate('net_revenue', whole)).toBe(ledger!.billed - ledger!.returned)
})

test('a past day keeps its states over ten years of later upgrades, cancellations and ends', async () => {
  const { history, question } = await open(52)
  const states = everyMetric.filter((slug) => {
    const figure = figures[slug]
    return (figure.kind === 'sum' && figure.span === 'state') || slug === 'seat_customers' || slug === 'average_revenue_per_user'
  })
  const names = withSources(states)
  const seen: { year: number; values: string }[] = []
  const look = async (year: number): Promise<string> => {
    const buckets = bucketsOf({ start_date: `${year}-01-01`, end_date: `${year}-12-30`, interval: 'day', timezone: 'America/New_York' })
    const { of } = await readStored(db(), question, names, buckets)
    return JSON.stringify(of.map((reading: Reading) => states.map((slug: MetricSlug) => evaluate(slug, reading))))
  }
  for (let year = 2023; year < 2033; year++) {
    await history.run(new Date(`${year}-01-01T05:00:00Z`), new Date(`${year + 1}-01-01T05:00:00Z`), 120)
    for (const past of seen) expect({ year: past.year, values: await look(past.year) }).toEqual(past)
    seen.push({ year, values: await look(year) })
    if (year % 2 === 0) await foldMetrics(deployment.deps)
  }
  expect(new Set(seen.map(({ values }) => values)).size).toBe(10)
})

test('verification finds a sum and a fact that differ from the records, and a rebuild repairs sums', async () => {
  const { history, use, organization } = await open(11)
  await history.run(new Date('2023-01-01T00:00:00Z'), new Date('2025-06-01T00:00:00Z'), 200)
  await use(new Date('2023-01-01T00:00:00Z'), new Date('2025-06-01T00:00:00Z'), 100)
  await foldMetrics(deployment.deps)
  const verify = async () =>
    (await verifyMetrics(db(), { slug: organization.slug, samples: 3 }, () => undefined)).filter(({ differences }) => differences > 0).map(({ check }) => check)
  const tamper = (text: string) => query(`${text} where organization_id = $1`, [organization.id])
  expect(await verify()).toEqual([])
  await tamper(`update metric_quarters set amount = amount + 1, count = count + 1`)
  expect(await verify()).toEqual([
    'quarter hours equal the facts',
    'quarter hours of usage equal the usage of all subjects',
    'metrics of 3 days equal the records',
  ])
  await rebuildMetrics(db(), deployment.deps.transact, organization.slug, () => undefined)
  expect(await verify()).toEqual([])
  await query(
    `delete from metric_facts where (organization_id, position) = (select organization_id, position from metric_facts where organization_id = $1 and measure = 'orders.new' and amount > 0 limit 1)`,
    [organization.id],
  )
  expect(await verify()).toEqual(
    expect.arrayContaining(['quarter hours equal the facts', 'paid orders have one fact with their net amount', 'revenue equals the ledger']),
  )
})

test('a periodic task compares random days, and the gauge shows how many metrics differ', async () => {
  await query('delete from metric_checks')
  await checkMetrics(deployment.deps)
  const now = world.clock.wall()
  expect((await query('select from metric_checks')).length).toBe(1)
  const before = await metricDrift(db(), now)
  // Each quarter hour of every organization is wrong, so that any random day is.
  await query(`update metric_quarters set amount = amount + 7, count = count + 3`)
  await checkMetrics(deployment.deps)
  expect(await metricDrift(db(), now)).toBeGreaterThan(before)
})

test.each(['the product changes first', 'the seat is revoked first'] as const)(
  'a change of product and the revocation of a seat at the same time end its span once: %s',
  async (order) => {
    const { history, organization } = await open(88)
    const [plan, other] = history.products
    const [subscription, seat] = [newId(new Date()), newId(new Date())]
    const at = (minutes: number) => new Date(Date.parse('2025-01-01T00:00:00Z') + minutes * 60_000)
    await query(
      `insert into subscriptions (organization_id, id, created_at, status, customer_id, product_id, amount, currency, recurring_interval, recurring_interval_count, anchor_day,
         current_period_start, current_period_end, started_at, seats, metadata, custom_field_data, calendar_from)
       values ($1, $2, $3, 'active', $4, $5, 1000, 'usd', 'month', 1, 1, $3, $3, $3, 3, '{}', '{}', $3)`,
      [organization.id, subscription, at(0), history.people[0], plan!.id],
    )
    await query(
      `insert into seats (organization_id, id, created_at, subscription_id, status, buyer_customer_id, claimed_at, metadata) values ($1, $2, $3, $4, 'claimed', $5, $3, '{}')`,
      [organization.id, seat, at(1), subscription, history.people[0]],
    )
    const change = [
      'update subscriptions set product_id = $3, modified_at = $4 where organization_id = $1 and id = $2',
      [organization.id, subscription, other!.id, at(2)],
    ] as const
    const revoke = [
      `update seats set status = 'revoked', revoked_at = $3, modified_at = $3 where organization_id = $1 and id = $2`,
      [organization.id, seat, at(3)],
    ] as const
    const [first, second] = order === 'the product changes first' ? [change, revoke] : [revoke, change]
    await world.database.owner((one) =>
      world.database.owner(async (two) => {
        const { pid } = (await two.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]!
        await one.query('begin')
        await one.query(first[0], [...first[1]])
        const waiting = two.query(second[0], [...second[1]])
        await expect.poll(async () => (await query<{ n: number }>('select cardinality(pg_blocking_pids($1)) as n', [pid]))[0]!.n).toBe(1)
        await one.query('commit')
        await waiting
      }),
    )
    const spans = await query<{ product_id: string; starts_at: Date; ends_at: Date | null }>(
      'select product_id, starts_at, ends_at from metric_spans where organization_id = $1 and resource_id = $2 order by position',
      [organization.id, seat],
    )
    expect(spans.filter(({ ends_at }) => ends_at === null)).toEqual([])
    // Each span begins when the one before it ends.
    expect(spans.slice(1).map(({ starts_at }) => starts_at)).toEqual(spans.slice(0, -1).map(({ ends_at }) => ends_at))
    const left = await query(
      `select product_id, sum(count)::int as count from metric_facts where organization_id = $1 and resource_id = $2 group by 1 having sum(count) <> 0`,
      [organization.id, seat],
    )
    expect(left).toEqual([])
  },
)
