import { sql, type RawBuilder } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import { inScope } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { enabled, exists, movedFrom } from '../../customers/index.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    usage_subjects: { organization_id: string; id: string; created_at: Date; customer_id: string | null; external_id: string | null }
    usage_members: { organization_id: string; id: string; created_at: Date; subject_id: string; member_id: string | null; external_id: string | null }
  }
}

/**
 * Returns the subjects whose events are shown with one of these customers, and the ids of these customers, which their system events name. In phase 2,
 * the events of a seat holder are shown with the buyer of the seat.
 */
export const findSubjects = async (
  db: Db,
  scope: TenantScope,
  by: { readonly id: readonly string[] } | { readonly external_id: readonly string[] },
): Promise<string[]> => {
  const customers =
    'id' in by
      ? sql`select organization_id, id from customers where organization_id = ${inScope(scope)} and id = any(${by.id}::uuid[]) and ${shownInPhase(scope)}`
      : sql`select organization_id, id from customers where organization_id = ${inScope(scope)} and external_id = any(${by.external_id}::text[]) and ${exists(scope)}`
  const unknown =
    'id' in by
      ? sql``
      : sql`union select id from usage_subjects where organization_id = ${inScope(scope)} and customer_id is null and external_id = any(${by.external_id}::text[])`
  const phase2 = enabled(scope)
  // The holders are found by their seats and grants, which have an index on the buyer.
  const held = (table: 'seats' | 'benefit_grants') => sql`
    select h.organization_id, h.holder_customer_id, h.buyer_customer_id from ${sql.table(table)} h
    join wanted w on w.organization_id = h.organization_id and w.id = h.buyer_customer_id
    where h.organization_id = any(${phase2}::uuid[]) and h.holder_customer_id is not null`
  const holders =
    phase2.length === 0
      ? sql``
      : sql`
        union select unnest(array[c.id, s.id]) from (${held('seats')} union ${held('benefit_grants')}) h
        join customers c on c.organization_id = h.organization_id and c.id = h.holder_customer_id and c.pure_holder
        cross join lateral (${movedFrom('c')}) moved
        left join usage_subjects s on s.organization_id = c.organization_id and s.customer_id = c.id
        where moved.customer_id = h.buyer_customer_id`
  const { rows } = await sql<{ id: string | null }>`
    with wanted as materialized (${customers})
    select s.id from usage_subjects s join wanted w on w.organization_id = s.organization_id and w.id = s.customer_id
    union select id from wanted ${unknown} ${holders}`.execute(db.q)
  return rows.flatMap(({ id }) => id ?? [])
}

/** SQL condition: the customer is shown in its organization's phase. Deleted customers are shown, because their events are. */
export const shownInPhase = (scope: TenantScope): RawBuilder<boolean> => sql<boolean>`not (pure_holder and organization_id = any(${enabled(scope)}::uuid[]))`

/**
 * Links subjects whose customer was created while their first event arrived. The trigger of the customer cannot see a
 * subject that is not committed yet. Links in the sequence of the customers, because triggers open their customer meters. Looks at subjects that were made after `since`, or at all. Returns the number of links.
 */
export const linkSubjects = async (tx: Tx, since: Date | null, most: number): Promise<number> => {
  const { numAffectedRows } = await sql`
    update usage_subjects s set customer_id = c.id
    from (select * from (
      select s.organization_id, s.id as subject_id, c.id from usage_subjects s
      join customers c on c.organization_id = s.organization_id and c.external_id = s.external_id and c.deleted_at is null and not c.pure_holder
      where s.customer_id is null ${madeAfter('s', since)} limit ${most} for no key update of s skip locked
    ) found order by organization_id, id, subject_id) c where s.organization_id = c.organization_id and s.id = c.subject_id`.execute(tx.q)
  return Number(numAffectedRows ?? 0n)
}

/** Links rows of members whose member was created while their first event arrived, like `linkSubjects`. */
export const linkMembers = async (tx: Tx, since: Date | null, most: number): Promise<number> => {
  const { numAffectedRows } = await sql`
    update usage_members u set member_id = m.id
    from (
      select u.organization_id, u.id as ref, m.id from usage_members u
      join usage_subjects s on s.organization_id = u.organization_id and s.id = u.subject_id
      join members m on m.organization_id = s.organization_id and m.customer_id = s.customer_id and m.external_id = u.external_id and m.deleted_at is null
      where u.member_id is null and u.external_id is not null ${madeAfter('u', since)} limit ${most} for no key update of u skip locked
    ) m where u.organization_id = m.organization_id and u.id = m.ref`.execute(tx.q)
  return Number(numAffectedRows ?? 0n)
}

/** True if subjects or members that were made after `since` are not linked. Most of them wait for a customer or member that is never created. */
export const hasUnlinked = async (db: Db, since: Date | null): Promise<boolean> => {
  const { rows } = await sql<{ found: boolean }>`
    select exists (select from usage_subjects s where s.customer_id is null ${madeAfter('s', since)})
      or exists (select from usage_members u where u.member_id is null and u.external_id is not null ${madeAfter('u', since)}) as found`.execute(db.q)
  return rows[0]!.found
}

const madeAfter = (table: 's' | 'u', since: Date | null): RawBuilder<unknown> =>
  since === null ? sql`` : sql`and ${sql.ref(`${table}.created_at`)} > ${since}`
