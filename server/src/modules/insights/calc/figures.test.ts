import { readFileSync } from 'node:fs'
import { everyMetric, metricSlugs, metricSources, type MetricUnit } from '@bursar/contract'
import { expect, test } from 'vitest'
import { evaluate, exactly, nothing, type Reading } from './evaluating.ts'
import { figures, metricsBehind, withSources, type Measure } from './figures.ts'

const units: Record<MetricUnit, string> = { scalar: 'number', currency: 'minor units', currency_sub_cent: 'fractions of minor units', percentage: 'share of 1' }

test('the guide lists every metric as it is declared', () => {
  const guide = readFileSync(new URL('../../../../../docs/guides/metrics.md', import.meta.url), 'utf8')
  const rows = everyMetric.map((slug) => {
    const figure = figures[slug]
    const total = figure.kind === 'sum' && figure.span === 'flow' ? 'sum' : figure.total === 'last' ? 'last' : 'whole range'
    return `| \`${slug}\` | ${metricSlugs[slug].is} | ${units[metricSlugs[slug].type]} | ${total} |`
  })
  expect(rows).toHaveLength(55)
  expect(guide.split('\n').filter((line) => line.startsWith('| `'))).toEqual(rows)
})

test('a derived metric brings all figures that it is computed from', () => {
  expect([...withSources(['ltv'])].toSorted()).toEqual(
    [
      'ltv',
      'average_revenue_per_user',
      'monthly_recurring_revenue',
      'subscribers',
      'cost_per_user',
      'costs',
      'active_user_by_event',
      'churn_rate',
      'canceled_recently',
      'active_before',
    ].toSorted(),
  )
})

test('the contract names the metrics behind exactly the metrics that have no facts of their own', () => {
  const derived = everyMetric.filter((slug) => figures[slug].kind === 'derived')
  expect(derived.map((slug) => [slug, metricsBehind(slug).toSorted()])).toEqual(
    derived.map((slug) => [slug, [...(metricSources as Partial<Record<string, readonly string[]>>)[slug]!].toSorted()]),
  )
  expect(Object.keys(metricSources).toSorted()).toEqual(derived.toSorted())
})

test('sums of decimals are exact, and quotients without a divisor are 0', () => {
  const reading = (values: Partial<Record<Measure, string>>, people = 0): Reading => ({
    sum: (measure) => ({ count: 0n, amount: exactly(values[measure] ?? '0') }),
    trailing: () => nothing,
    distinct: () => people,
  })
  expect(evaluate('costs', reading({ usage: '0.300000000001' }))).toBe(0.300000000001)
  expect(evaluate('gross_margin', reading({ 'orders.new': '100', usage: '0.1' }))).toBe(99.9)
  expect(evaluate('net_revenue', reading({ 'orders.new': '100', 'refunds.new': '250' }))).toBe(-150)
  expect(evaluate('cost_per_user', reading({ usage: '5' }))).toBe(0)
  expect(evaluate('average_revenue_per_user', reading({ 'subscriptions.paid.open': '1000' }, 3))).toBe(333)
  expect(evaluate('ltv', reading({ 'subscriptions.paid.open': '1000' }, 3))).toBe(0)
})
