import { everyMetric } from '@bursar/contract'
import { openMetricHistory, seededNumbers } from '../../server/test/harness/metric-history.ts'
import { anyMetricQuestion } from '../../server/test/harness/metric-questions.ts'
import type { World } from '../../server/test/harness/world.ts'
import { withSources } from '../../server/src/modules/insights/calc/figures.ts'
import type { Question } from '../../server/src/modules/insights/calc/question.ts'
import { foldMetrics } from '../../server/src/modules/insights/folding/folding.ts'
import { computeMetrics, readStored } from '../../server/src/modules/insights/metrics/metrics.ts'
import { bucketsOf } from '../../server/src/modules/insights/metrics/ranges.ts'
import { readScratch } from '../../server/src/modules/insights/verifying/scratch.sql.ts'
import { systemClock } from '../../server/src/platform/clock.ts'
import { openPostgres } from '../../server/src/platform/postgres/postgres.ts'
import { median } from './measuring.ts'
import { options } from './options.ts'
import type { Outcome } from './results.ts'

const hour = 3_600_000
const year = { start_date: '2024-01-01', end_date: '2024-12-31', interval: 'day', timezone: 'America/New_York' } as const

/** A year of sales: each subscription has orders, a third changes its price, and a quarter ends. */
const seed = async (world: World, organization_id: string, products: readonly string[], people: readonly string[]): Promise<void> => {
  const count = options.subscriptions
  const moment = `timestamptz '2023-06-01 00:00:00Z' + make_interval(secs => (n * 7919 % ${count}) * (18.0 * 30 * 86400 / ${count}))`
  await world.database.owner(async (owner) => {
    await owner.query('set synchronous_commit = off')
    await owner.query(
      `insert into subscriptions (organization_id, id, created_at, status, customer_id, product_id, amount, currency, recurring_interval, recurring_interval_count, anchor_day,
         current_period_start, current_period_end, started_at, seats, metadata, custom_field_data, calendar_from)
       select $1, gen_random_uuid(), at, case when n % 5 = 0 then 'trialing' else 'active' end, ($3::uuid[])[1 + n % cardinality($3::uuid[])], ($2::uuid[])[1 + n % cardinality($2::uuid[])],
         1000 + n % 50, 'usd', 'month', 1, 1, at, at, at, case when n % 3 = 0 then 1 + n % 7 end, '{}', '{}', at
       from (select n, ${moment} as at from generate_series(1, $4::int) n) s`,
      [organization_id, products, people, count],
    )
    const change = (set: string, days: number, share: number) =>
      owner.query(
        `update subscriptions set modified_at = started_at + make_interval(days => ${days}), ${set} where organization_id = $1 and ('x' || substr(id::text, 1, 4))::bit(16)::int % ${share} = 0`,
        [organization_id],
      )
    await change(`status = 'active'`, 14, 1)
    await change('amount = amount + 500', 40, 3)
    await change(`cancel_at_period_end = true, canceled_at = started_at + interval '60 days', customer_cancellation_reason = 'unused'`, 60, 4)
    await change(`status = 'canceled', ended_at = started_at + interval '90 days'`, 90, 4)
    for (const [reason, days] of [
      ['subscription_create', 0],
      ['subscription_cycle', 30],
      ['subscription_cycle', 60],
    ] as const)
      await owner.query(
        `insert into orders (organization_id, id, created_at, status, billing_reason, currency, subtotal_amount, discount_amount, net_amount, tax_amount, total_amount,
           applied_balance_amount, due_amount, carried_amount, customer_id, product_id, subscription_id, description, metadata, custom_field_data, period_start)
         select organization_id, gen_random_uuid(), started_at + make_interval(days => $2), 'paid', $3, currency, amount, 0, amount, 0, amount, 0, 0, 0, customer_id, product_id, id, 'Plan',
           '{}', '{}', started_at + make_interval(days => $2) from subscriptions where organization_id = $1`,
        [organization_id, days, reason],
      )
    await owner.query(
      `with people as (insert into usage_subjects (organization_id, id, created_at, customer_id) select $1, c, now(), c from unnest($2::uuid[]) c on conflict do nothing)
       insert into usage_events (organization_id, id, batch_id, subject_id, timestamp, name, source, metadata, depth)
       select $1, gen_random_uuid(), gen_random_uuid(), ($2::uuid[])[1 + n % cardinality($2::uuid[])], ${moment}, 'call', 'user', '{"_cost": {"amount": 0.25, "currency": "usd"}}', 0
       from generate_series(1, $3::int) n`,
      [organization_id, people, count],
    )
    await owner.query('analyze; set synchronous_commit = on')
  })
}

/** Compares the time for all metrics of a year of days, and the answers to random questions, with the records themselves. */
export const metrics = async (world: World): Promise<Record<string, Outcome>> => {
  const { organization } = await world.shop()
  const query = <T extends object>(text: string, values: readonly unknown[] = []) =>
    world.database.owner(async (owner) => (await owner.query<T>(text, [...values])).rows)
  const numbers = seededNumbers(24)
  const large = await openMetricHistory(query, organization.id, numbers, Math.ceil(options.subscriptions / 5))
  const began = performance.now()
  const plans = large.products.filter(({ interval }) => interval !== null).map(({ id }) => id)
  await seed(world, organization.id, plans, large.people)
  const seeding = (performance.now() - began) / 1000
  const postgres = openPostgres(world.config.database_url, 'bursar_worker', { max: 5, clock: systemClock, log: world.base.log, timeout_ms: 2 * hour })
  const { db, transact } = postgres
  for (;;) {
    const [left] = await query<{ left: boolean }>(
      'select exists (select from metric_facts where not is_folded) or exists (select from metric_usage where not is_merged) as left',
    )
    if (!left!.left) break
    await foldMetrics({ db, transact })
  }
  await query('analyze')
  const question: Question = { organizations: [organization.id], currency: 'usd', product_id: [], billing_type: [], customer_id: [] }
  const buckets = bucketsOf(year)
  const names = withSources(everyMetric)
  const stored = async () => {
    const start = performance.now()
    const { of, whole } = await readStored(db, question, names, buckets)
    const values = computeMetrics(everyMetric, of, whole)
    return { values, took: performance.now() - start }
  }
  await stored()
  const takes = []
  for (let round = 0; round < Math.max(3, options.rounds); round++) takes.push((await stored()).took)
  const start = performance.now()
  const scratch = await readScratch(db, question, names, buckets)
  const slow = performance.now() - start
  const same = JSON.stringify(computeMetrics(everyMetric, scratch.of, scratch.whole)) === JSON.stringify((await stored()).values)

  const small = await world.shop()
  const history = await openMetricHistory(query, small.organization.id, numbers)
  await history.run(new Date('2022-11-01T00:00:00Z'), new Date('2025-06-01T00:00:00Z'), 800)
  await foldMetrics({ db, transact })
  await history.run(new Date('2025-06-01T00:00:00Z'), new Date('2026-01-01T00:00:00Z'), 200)
  let differing = same ? 0 : 1
  for (let at = 0; at < options.questions; at++) {
    const asked = anyMetricQuestion(
      numbers,
      { ...question, organizations: [small.organization.id] },
      history.products.map(({ id }) => id),
      history.people,
    )
    const [chosen, places] = [withSources(asked.chosen), bucketsOf(asked.range)]
    const [one, other] = [await readStored(db, asked.question, chosen, places), await readScratch(db, asked.question, chosen, places)]
    if (JSON.stringify(computeMetrics(asked.chosen, one.of, one.whole)) !== JSON.stringify(computeMetrics(asked.chosen, other.of, other.whole))) differing++
  }
  await postgres.close()
  return {
    metrics: {
      ratio: slow / median(takes),
      rows: options.subscriptions,
      rounds: takes.length,
      figures: [
        {
          what: `all metrics of 366 days from the stored sums, ${options.subscriptions.toLocaleString('en')} subscriptions`,
          value: median(takes),
          unit: ' ms',
        },
        { what: 'the same from the records, once', value: slow / 1000, unit: ' s' },
        { what: 'to seed the year, with the facts that the triggers note', value: seeding, unit: ' s' },
      ],
    },
    'metrics-differences': { ratio: differing, rounds: 1, figures: [{ what: 'random questions', value: options.questions, unit: '' }] },
  }
}
