import { sql } from 'kysely'
import type { Db } from '../../../platform/postgres/postgres.ts'
import type { Bucket } from '../calc/buckets.ts'
import { all, conditionsOf, moments, ofOrganizations, ofSubjects } from './filters.sql.ts'
import type { Question } from '../calc/question.ts'

/** Numbers of customers with a state: at a moment, and those who got it or lost it before a moment. */
export interface Holders {
  readonly at: (edge: Date) => number
  readonly began: (edge: Date) => number
  readonly ended: (edge: Date) => number
}

/**
 * Counts the customers with a subscription, or with seats. The spans of a customer that touch or overlap are joined, so that
 * a customer counts once. The work grows with the number of spans, not with that of the edges.
 */
export const loadHolders = async (db: Db, question: Question, of: 'subscribers' | 'seat_customers', edges: readonly Date[]): Promise<Holders> => {
  const { rows } = await sql<{ from_slot: number; to_slot: number; people: number }>`
    with spans as (
      select customer_id, starts_at, coalesce(ends_at, 'infinity') as ends_at from metric_spans
      where ${all(conditionsOf(question))} and ${of === 'subscribers' ? sql`resource = 'subscription'` : sql`resource in ('subscription', 'order') and seats > 0`}
        and starts_at < ${edges.at(-1)!} and (ends_at is null or ends_at > starts_at)
    ), marked as (
      select *, starts_at > max(ends_at) over (partition by customer_id order by starts_at, ends_at rows between unbounded preceding and 1 preceding) as is_apart from spans
    ), numbered as (
      select *, count(*) filter (where is_apart) over (partition by customer_id order by starts_at, ends_at rows unbounded preceding) as number from marked
    ), joined as (
      select min(starts_at) as starts_at, max(ends_at) as ends_at from numbered group by customer_id, number
    )
    select width_bucket(starts_at, ${moments(edges)}) as from_slot, width_bucket(ends_at, ${moments(edges)}) as to_slot, count(*)::int as people
    from joined group by 1, 2`.execute(db.q)
  const places = new Map(edges.map((edge, at) => [edge.getTime(), at]))
  const count = (holds: (row: (typeof rows)[number], place: number) => boolean) => (edge: Date) => {
    const place = places.get(edge.getTime())!
    return rows.reduce((sum, row) => sum + (holds(row, place) ? row.people : 0), 0)
  }
  return {
    at: count(({ from_slot, to_slot }, place) => from_slot <= place && to_slot > place),
    began: count(({ from_slot }, place) => from_slot <= place),
    ended: count(({ to_slot }, place) => to_slot <= place),
  }
}

/** Counts the customers with usage events in each interval, and in all together. A customer with several subjects counts once. */
export const loadUsers = async (db: Db, question: Question, buckets: readonly Bucket[]): Promise<{ of: number[]; all: number }> => {
  const [since, until] = [buckets[0]!.since, buckets.at(-1)!.until]
  const { rows } = await sql<{ slot: number | null; people: number }>`
    with used as materialized (
      select width_bucket(u.starts_at, ${moments(buckets.map((bucket) => bucket.since))}) as slot, coalesce(s.customer_id, u.subject_id) as who
      from (select organization_id, subject_id, starts_at, events from metric_usage
        where ${ofOrganizations(question)} and ${ofSubjects(question)} and starts_at >= ${since} and starts_at < ${until}) u
      join usage_subjects s on s.organization_id = u.organization_id and s.id = u.subject_id
      group by 1, 2 having sum(u.events) > 0
    )
    select slot, count(*)::int as people from used group by 1 union all select null, count(distinct who)::int from used`.execute(db.q)
  const found = new Map(rows.map(({ slot, people }) => [slot, people]))
  return { of: buckets.map((_, at) => found.get(at + 1) ?? 0), all: found.get(null) ?? 0 }
}
