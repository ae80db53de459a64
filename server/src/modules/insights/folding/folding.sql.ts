import { sql } from 'kysely'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

/** True if facts or usage wait to be folded. */
export const hasUnfolded = async (db: Db): Promise<boolean> => {
  const { rows } = await sql<{ found: boolean }>`
    select exists (select from metric_facts where not is_folded) or exists (select from metric_usage where not is_merged) as found`.execute(db.q)
  return rows[0]!.found
}

/**
 * Takes the lock of all folding until the transaction ends. False if another worker holds it. A fold and a rebuild would
 * otherwise both write the sums of the same quarter hours.
 */
export const holdFolding = async (tx: Tx, { waits }: { waits: boolean }): Promise<boolean> => {
  if (waits) {
    await sql`select pg_advisory_xact_lock(hashtext('metric folding'))`.execute(tx.q)
    return true
  }
  const { rows } = await sql<{ held: boolean }>`select pg_try_advisory_xact_lock(hashtext('metric folding')) as held`.execute(tx.q)
  return rows[0]!.held
}

/** Adds facts to their quarter hours and marks them, in one statement. A reader therefore sees each fact once. Returns their number. */
export const foldFacts = async (tx: Tx, most: number): Promise<number> => {
  const { rows } = await sql<{ folded: number }>`
    with picked as materialized (
      select organization_id, position from metric_facts where not is_folded limit ${most}
    ), folded as (
      update metric_facts f set is_folded = true from picked p
      where f.organization_id = p.organization_id and f.position = p.position and not f.is_folded
      returning f.organization_id, f.measure, metric_quarter_of(f.at) as starts_at, f.product_id, f.currency, f.count, f.amount
    ), added as (
      insert into metric_quarters as q (organization_id, measure, starts_at, product_id, currency, count, amount, facts)
      select organization_id, measure, starts_at, product_id, currency, sum(count), sum(amount), count(*) from folded group by 1, 2, 3, 4, 5
      on conflict on constraint metric_quarters_key do update
        set count = q.count + excluded.count, amount = q.amount + excluded.amount, facts = q.facts + excluded.facts
    )
    select count(*)::int as folded from folded`.execute(tx.q)
  return rows[0]!.folded
}

/** Merges the usage of each subject and quarter hour, and adds it to the quarter hours of all subjects. Returns the number of merged rows. */
export const foldUsage = async (tx: Tx, most: number): Promise<number> => {
  const { rows } = await sql<{ folded: number }>`
    with gone as (
      delete from metric_usage where ctid = any(array(select ctid from metric_usage where not is_merged limit ${most})) and not is_merged
      returning organization_id, subject_id, starts_at, events, cost
    ), merged as (
      insert into metric_usage as u (organization_id, subject_id, starts_at, events, cost, is_merged)
      select organization_id, subject_id, starts_at, sum(events), sum(cost), true from gone group by 1, 2, 3
      on conflict (organization_id, starts_at, subject_id) where is_merged do update set events = u.events + excluded.events, cost = u.cost + excluded.cost
    ), added as (
      insert into metric_quarters as q (organization_id, measure, starts_at, product_id, currency, count, amount, facts)
      select organization_id, 'usage', starts_at, null, 'usd', sum(events), sum(cost), count(*) from gone group by 1, 3
      on conflict on constraint metric_quarters_key do update
        set count = q.count + excluded.count, amount = q.amount + excluded.amount, facts = q.facts + excluded.facts
    )
    select count(*)::int as folded from gone`.execute(tx.q)
  return rows[0]!.folded
}
