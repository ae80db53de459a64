import { sql } from 'kysely'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { exactly, nothing, type Sum } from '../calc/evaluating.ts'
import type { Measure } from '../calc/figures.ts'
import { all, conditionsOf, moments, ofOrganizations, ofSubjects } from './filters.sql.ts'
import type { Question } from '../calc/question.ts'

/** The measures to read. Those in `since_ever` are read from the first fact on, the others from the first edge on. */
export interface Chosen {
  readonly since_ever: readonly Measure[]
  readonly in_range: readonly Measure[]
}

/** Sums of measures before each of the given moments, and the number of amounts in other currencies. */
export interface Sums {
  readonly before: (measure: Measure, at: Date) => Sum
  readonly left_out: number
}

/**
 * Reads the sums of measures between the given moments, in one statement. Folded facts are read by quarter hours, later
 * facts one by one, so that the sums contain every committed fact. Facts of single customers have an index of their own.
 */
export const loadSums = async (db: Db, question: Question, { since_ever, in_range }: Chosen, edges: readonly Date[]): Promise<Sums> => {
  const [first, last] = [edges[0]!, edges.at(-1)!]
  const isAsked = sql`(measure = any(${since_ever}::text[]) or (measure = any(${in_range}::text[]) and at >= ${first})) and at < ${last}`
  const facts = (where: ReturnType<typeof sql>) => sql`
    select measure, at, count, amount::numeric as amount, currency, 1::bigint as facts from metric_facts where ${all(conditionsOf(question))} and ${where} and ${isAsked}`
  const [usesUsage, usageSince] = [[...since_ever, ...in_range].includes('usage'), since_ever.includes('usage') ? sql`true` : sql`starts_at >= ${first}`]
  const usage = (where: ReturnType<typeof sql>) => sql`
    select 'usage' as measure, starts_at as at, events as count, cost as amount, 'usd' as currency, 1::bigint as facts
    from metric_usage where ${ofOrganizations(question)} and ${ofSubjects(question)} and ${where} and ${usageSince} and starts_at < ${last}`
  const folded = (isUsage: boolean) => sql`
    select * from (select measure, starts_at as at, count, amount, currency, facts from metric_quarters
      where ${isUsage ? sql`${ofOrganizations(question)} and measure = 'usage'` : all(conditionsOf(question, { customers: false }))}) q where ${isAsked}`
  const ofCustomers = question.customer_id.length > 0
  const isFiltered = question.product_id.length > 0 || question.billing_type.length > 0
  const parts = ofCustomers ? [facts(sql`true`)] : [folded(false), facts(sql`not is_folded`)]
  if (usesUsage) parts.push(usage(ofCustomers ? sql`true` : sql`not is_merged`))
  // Usage has no product. So a filter by product leaves out its quarter hours above, and they are read without it.
  if (usesUsage && isFiltered && !ofCustomers) parts.push(folded(true))
  // Each part is grouped alone, behind a subquery that the planner does not merge. It then expects few groups and hashes
  // them. Otherwise it expects a group for each quarter hour, and sorts all rows on disk.
  const grouped = parts.map(
    (part) => sql`
    select measure, slot, sum(count)::text as count, (sum(amount) filter (where currency = ${question.currency}))::text as amount,
      coalesce(sum(facts) filter (where currency <> ${question.currency} and amount <> 0), 0)::int as left_out
    from (select measure, width_bucket(at, ${moments(edges)}) as slot, count, amount, currency, facts from (${part}) f offset 0) f group by 1, 2`,
  )
  const { rows } = await sql<{ measure: Measure; slot: number; count: string; amount: string | null; left_out: number }>`${sql.join(
    grouped,
    sql` union all `,
  )}`.execute(db.q)
  const slots = new Map<Measure, Map<number, Sum>>()
  for (const { measure, slot, count, amount } of rows) {
    const of = slots.get(measure) ?? new Map<number, Sum>()
    const before = of.get(slot) ?? nothing
    of.set(slot, { count: before.count + BigInt(count), amount: before.amount + exactly(amount ?? '0') })
    slots.set(measure, of)
  }
  // Slot n contains the facts from edge n on (counted from 1) and before the next edge. Slot 0 contains earlier facts.
  const running = new Map<Measure, Sum[]>()
  for (const [measure, of] of slots) {
    let sum = nothing
    running.set(
      measure,
      edges.map((_, at) => {
        const slot = of.get(at) ?? nothing
        return (sum = { count: sum.count + slot.count, amount: sum.amount + slot.amount })
      }),
    )
  }
  const places = new Map(edges.map((edge, at) => [edge.getTime(), at]))
  return {
    before: (measure, at) => running.get(measure)?.[places.get(at.getTime())!] ?? nothing,
    left_out: rows.reduce((total, { left_out }) => total + left_out, 0),
  }
}
