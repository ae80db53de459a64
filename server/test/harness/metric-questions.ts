import { everyMetric, type TimeInterval } from '@bursar/contract'
import type { Question } from '../../src/modules/insights/calc/question.ts'
import type { Numbers } from './metric-history.ts'

const zones = [
  'UTC',
  'America/New_York',
  'Asia/Kathmandu',
  'Asia/Calcutta',
  'Australia/Lord_Howe',
  'America/St_Johns',
  'Pacific/Chatham',
  'Europe/Berlin',
  'Factory',
]
const lengths: Record<TimeInterval, number> = { hour: 3, day: 40, week: 150, month: 700, year: 2000 }

/** Returns a random question, often around a change of the clock. */
export const anyMetricQuestion = (numbers: Numbers, question: Question, products: readonly string[], people: readonly string[]) => {
  const interval = numbers.pick(['hour', 'day', 'week', 'month', 'year'] as const)
  const first = numbers.chance(0.4)
    ? Date.parse(numbers.pick(['2024-03-09', '2024-03-30', '2024-11-02', '2024-10-26', '2025-04-05']))
    : Date.parse('2023-01-01') + numbers.below(1000) * 86_400_000
  const day = (at: number) => new Date(at).toISOString().slice(0, 10)
  const chosen = Array.from({ length: 1 + numbers.below(6) }, () => numbers.pick(everyMetric))
  return {
    range: { start_date: day(first), end_date: day(first + numbers.below(lengths[interval]) * 86_400_000), interval, timezone: numbers.pick(zones) },
    chosen: everyMetric.filter((slug) => chosen.includes(slug)),
    question: {
      ...question,
      product_id: numbers.chance(0.3) ? [numbers.pick(products), numbers.pick(products)] : [],
      billing_type: numbers.chance(0.2) ? [numbers.pick(['one_time', 'recurring'] as const)] : [],
      customer_id: numbers.chance(0.3) ? [numbers.pick(people), numbers.pick(people), numbers.pick(people)] : [],
    },
  }
}
