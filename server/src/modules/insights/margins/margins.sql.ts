import { sql, type RawBuilder } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { isOneOf, oneOf } from '../../../platform/postgres/parts.sql.ts'
import { enabled } from '../../customers/index.ts'
import { countedCustomer } from '../../usage/index.ts'
import { returned, sold } from '../calc/figures.ts'
import type { Question } from '../calc/question.ts'

export interface Asked {
  readonly question: Question
  /** The range does not contain its end. Both are ends of quarter hours. */
  readonly since: Date
  readonly until: Date
  /** Decimal text. */
  readonly margin_below: string | undefined
  readonly sorting: readonly string[]
  readonly size: number
  readonly offset: number
}

/** Amounts are exact decimal text. */
export interface MarginRow {
  readonly organization_id: string
  readonly customer_id: string | null
  readonly external_customer_id: string | null
  readonly revenue: string
  readonly cost: string
  readonly margin: string
}

export interface MarginTotals extends Pick<MarginRow, 'revenue' | 'cost' | 'margin'> {
  readonly customers: number
  readonly left_out: number
}

/**
 * The costs of an organization by the customer that the usage counts for. Usage of a holder of a seat counts for the buyer, which can change between
 * quarter hours. Only then each quarter hour is looked up.
 */
const costsOf = (scope: TenantScope, organization_id: string, { since, until }: Asked): RawBuilder<unknown> => {
  const isDivided = enabled(scope).includes(organization_id)
  const at = isDivided ? sql`starts_at` : sql`null::timestamptz`
  return sql`
    select u.organization_id, coalesce(${countedCustomer(scope, organization_id, sql`u.starts_at`)}, s.id) as who, u.cost, u.parts from (
      select organization_id, subject_id, ${at} as starts_at, sum(cost) as cost, count(*) filter (where cost <> 0) as parts from metric_usage
      where organization_id = ${organization_id} and starts_at >= ${since} and starts_at < ${until} group by 1, 2, 3
    ) u join usage_subjects s on s.organization_id = u.organization_id and s.id = u.subject_id`
}

const order = { margin: 'margin', revenue: 'revenue', cost: 'cost' } as const

const ordered = (sorting: readonly string[]): RawBuilder<unknown> =>
  sql.join([
    ...sorting.map((one) => sql`${sql.ref(order[one.replace(/^-/, '') as keyof typeof order])} ${sql.raw(one.startsWith('-') ? 'desc' : 'asc')}`),
    sql`who`,
  ])

/** Lists a page of margins with the sums over all pages, in one statement. Amounts in other currencies are left out and counted. */
export const listMargins = async (db: Db, scope: TenantScope, asked: Asked): Promise<{ rows: MarginRow[]; totals: MarginTotals }> => {
  const { question, since, until, margin_below, sorting, size, offset } = asked
  const { organizations, currency, customer_id } = question
  const chosen = customer_id.length > 0 ? sql`and ${isOneOf('who', customer_id)}` : sql``
  const below = margin_below === undefined ? sql`` : sql`and margin < ${margin_below}::numeric`
  const costs = organizations.map((organization_id) => costsOf(scope, organization_id, asked))
  const { rows } = await sql<MarginTotals & { row: MarginRow | null }>`
    with flows as materialized (
      select organization_id, customer_id as who, currency = ${currency} as counts,
        sum(case when measure = any(${sold}::text[]) then amount else -amount end) as revenue, count(*) filter (where amount <> 0) as parts
      from metric_facts
      where organization_id = ${oneOf(organizations)} and measure = any(${[...sold, ...returned]}::text[]) and at >= ${since} and at < ${until} and customer_id is not null
      group by 1, 2, 3
    ), costs as materialized (
      select organization_id, who, sum(cost) as cost, sum(parts)::bigint as parts from (${costs.length === 0 ? sql`select null::uuid as organization_id, null::uuid as who, 0::numeric as cost, 0 as parts where false` : sql.join(costs, sql` union all `)}) c
      group by 1, 2
    ), margins as materialized (
      select * from (
        select organization_id, who, sum(revenue) as revenue, sum(cost) as cost, sum(revenue) - sum(cost) as margin from (
          select organization_id, who, revenue, 0::numeric as cost from flows where counts
          union all select organization_id, who, 0, cost from costs where ${currency} = 'usd'
        ) parts group by 1, 2
      ) m where (revenue <> 0 or cost <> 0) ${chosen} ${below}
    ), totals as (
      select count(*)::int as customers, coalesce(sum(revenue), 0)::text as revenue, trim_scale(coalesce(sum(cost), 0))::text as cost,
        trim_scale(coalesce(sum(margin), 0))::text as margin,
        ((select coalesce(sum(parts), 0) from flows where not counts ${chosen}) + (select coalesce(sum(parts), 0) from costs where ${currency} <> 'usd' ${chosen}))::int as left_out
      from margins
    ), page as (
      select *, row_number() over (order by ${ordered(sorting)}) as place from margins order by place limit ${size} offset ${offset}
    )
    select t.*, case when p.who is not null then json_build_object('organization_id', p.organization_id, 'customer_id', c.id,
      'external_customer_id', coalesce(c.external_id, s.external_id), 'revenue', p.revenue::text, 'cost', trim_scale(p.cost)::text, 'margin', trim_scale(p.margin)::text) end as row
    from totals t left join page p on true
    left join customers c on c.organization_id = p.organization_id and c.id = p.who
    left join usage_subjects s on s.organization_id = p.organization_id and s.id = p.who and s.customer_id is null
    order by p.place`.execute(db.q)
  return { rows: rows.flatMap(({ row }) => row ?? []), totals: rows[0]! }
}
