import { sql, type RawBuilder } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import { inScope } from '../../../platform/postgres/parts.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { enabled, exists, movedFrom } from '../../customers/index.ts'
import { shownInPhase } from './subjects.sql.ts'

/** A subject whose usage counts for a customer, from `since` on and before `until`. Both are text of PostgreSQL, and may be infinite. */
export interface CountedSubject {
  readonly id: string
  readonly since: string
  readonly until: string
}

const always = sql`'-infinity'::timestamptz as since, 'infinity'::timestamptz as until`

/** The end of the last span of `holder` that was kept for a buyer. Later usage counts by the present seats. */
const keptUntil = (organization_id: string, holder: RawBuilder<unknown>) => sql`coalesce(
  (select max(k.until) from usage_holdings k where k.organization_id = ${organization_id} and k.holder_id = ${holder}), '-infinity')::timestamptz`

/**
 * SQL for the time from which usage of seat holders is billed to the buyer, in a range that ends at `until`. Holders were customers of
 * their own before the organization switched to phase 2. So a range that ended before the switch stays without their usage. Later ranges
 * begin with the quarter hour of the switch, because totals cannot be divided.
 */
export const holdersBilledSince = (organization_id: string, until: RawBuilder<unknown>): RawBuilder<unknown> => sql`coalesce(
  (select case when ${until} <= g.switched_at then 'infinity' else date_bin('15 minutes', g.switched_at, '2000-01-01T00:00:00Z') end
    from member_migrations g where g.organization_id = ${organization_id} and g.id = ${organization_id}), '-infinity')::timestamptz`

/**
 * Subquery for the subjects whose usage counts for a customer, with the columns of `CountedSubject`. In phase 2 these
 * include the holders of the customer's seats. The usage of a holder whose member was removed stays with the buyer, up to that time.
 * Usage of holders before `holdersSince` is left out.
 */
export const countedSubjects = (
  scope: TenantScope,
  organization_id: string,
  customer_id: RawBuilder<unknown>,
  holdersSince: RawBuilder<unknown> = sql`'-infinity'::timestamptz`,
): RawBuilder<unknown> => {
  const own = sql`from usage_subjects s where s.organization_id = ${organization_id} and s.customer_id = ${customer_id}`
  if (!enabled(scope).includes(organization_id)) return sql`select s.id, ${always} ${own}`
  const holders = (table: 'seats' | 'benefit_grants') => sql`
    select h.holder_customer_id from ${sql.table(table)} h
    where h.organization_id = ${organization_id} and h.buyer_customer_id = ${customer_id} and h.holder_customer_id is not null`
  return sql`
    select s.id, ${keptUntil(organization_id, customer_id)} as since, 'infinity'::timestamptz as until ${own}
    union all select s.id, greatest(${keptUntil(organization_id, sql`c.id`)}, ${holdersSince}), 'infinity'::timestamptz from customers c cross join lateral (${movedFrom('c')}) moved
    join usage_subjects s on s.organization_id = c.organization_id and s.customer_id = c.id
    where c.organization_id = ${organization_id} and c.id in (${holders('seats')} union ${holders('benefit_grants')}) and c.pure_holder
      and moved.customer_id = ${customer_id}
    union all select s.id, greatest(k.since, ${holdersSince}), k.until from usage_holdings k
    join usage_subjects s on s.organization_id = k.organization_id and s.customer_id = k.holder_id
    where k.organization_id = ${organization_id} and k.buyer_id = ${customer_id}`
}

/** SQL for the customer that usage of the subject `s` at a time counts for. Null if the subject has no customer. */
export const countedCustomer = (scope: TenantScope, organization_id: string, at: RawBuilder<unknown>): RawBuilder<unknown> => {
  if (!enabled(scope).includes(organization_id)) return sql`s.customer_id`
  return sql`coalesce(
    (select k.buyer_id from usage_holdings k
      where k.organization_id = s.organization_id and k.holder_id = s.customer_id and ${at} >= k.since and ${at} < k.until order by k.until limit 1),
    (select moved.customer_id from customers c cross join lateral (${movedFrom('c')}) moved
      where c.organization_id = s.organization_id and c.id = s.customer_id and c.pure_holder),
    s.customer_id)`
}

/** Returns the subjects whose usage counts for customers of an organization. An external id without a customer has a subject too. */
export const findCountedSubjects = async (
  db: Db,
  scope: TenantScope,
  organization_id: string,
  by: { readonly id: readonly string[] } | { readonly external_id: readonly string[] },
): Promise<CountedSubject[]> => {
  const tenant = sql`organization_id = ${inScope(scope)} and organization_id = ${organization_id}`
  const customers =
    'id' in by
      ? sql`select id from customers where ${tenant} and id = any(${by.id}::uuid[]) and ${shownInPhase(scope)}`
      : sql`select id from customers where ${tenant} and external_id = any(${by.external_id}::text[]) and ${exists(scope)}`
  const unknown =
    'id' in by
      ? sql``
      : sql`union all select id, ${always} from usage_subjects where ${tenant} and customer_id is null and external_id = any(${by.external_id}::text[])`
  const { rows } = await sql<CountedSubject>`
    select id, since::text as since, until::text as until from (
      select counted.* from (${customers}) a cross join lateral (${countedSubjects(scope, organization_id, sql`a.id`)}) counted ${unknown}
    ) found`.execute(db.q)
  return rows
}
