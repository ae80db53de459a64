import { sql, type RawBuilder } from 'kysely'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { countedSql, filterSql, tallySql, uniqueHashSql } from '../../catalog/index.ts'
import type { CountingMeter } from '../calc/quarters.ts'
import { quarterSql } from './counting.sql.ts'

/** A meter that counts, with the position of its backfill. */
export interface CorrectedMeter extends CountingMeter {
  readonly before_batch: string
  readonly after_event: string | null
  /** True if the backfill is complete. */
  readonly is_counted: boolean
}

/**
 * Returns the meters of an organization for a correction. Until the transaction ends, no meter is made or changed, and no
 * other correction, merge or backfill changes the totals of the organization. Statements after this one see all earlier changes.
 */
export const metersToCorrect = async (tx: Tx, organization_id: string): Promise<CorrectedMeter[]> =>
  (
    await sql<CorrectedMeter>`
      select id, version, filter, aggregation, before_batch::text as before_batch, after_event, is_counted from meters_to_correct(${organization_id})`.execute(
      tx.q,
    )
  ).rows

/** A quarter hour of a subject. */
export interface SubjectQuarter {
  readonly subject_id: string
  readonly starts_at: Date
}

/** The events of the quarter hour `k` that the meter has counted and that still count. */
const countedEvents = (organization_id: string, { is_counted, before_batch, after_event }: CorrectedMeter): RawBuilder<unknown> => {
  // Events that the backfill has not reached yet are counted by it later.
  const reached = is_counted
    ? sql`true`
    : sql`(e.id <= ${after_event}::uuid or exists (
        select from usage_batches b where b.organization_id = e.organization_id and b.id = e.batch_id and b.number >= ${before_batch}::bigint))`
  return sql`(
    select e.name, e.source, e.timestamp, e.metadata from usage_events e
    where e.organization_id = ${organization_id} and e.subject_id = k.subject_id and e.timestamp >= k.starts_at and e.timestamp < k.starts_at + interval '15 minutes'
      and e.corrected_at is null and ${reached}) e`
}

/**
 * Replaces the totals of quarter hours by a new count of their events, in one statement and so in one snapshot. Totals of an ingest that
 * is not committed yet are not deleted, and its events are not counted here. A total of 0 is inserted too: the merge then
 * computes the sort values of the customer meters again.
 */
export const recountQuarters = async (tx: Tx, organization_id: string, meter: CorrectedMeter, quarters: readonly SubjectQuarter[]): Promise<void> => {
  const { count, total, low, high } = tallySql(meter.aggregation)
  await sql`
    with keys as materialized (
      select * from json_to_recordset(${JSON.stringify(quarters)}::json) as v(subject_id uuid, starts_at timestamptz)
    ), gone as (
      delete from usage_quarters q using keys k
      where q.organization_id = ${organization_id} and q.subject_id = k.subject_id and q.meter_id = ${meter.id} and q.starts_at = k.starts_at
    )
    insert into usage_quarters (organization_id, meter_id, version, subject_id, starts_at, created_at, count, total, low, high)
    select ${organization_id}, ${meter.id}, ${meter.version}, k.subject_id, k.starts_at, ${tx.clock.wall()}, t.count, t.total, t.low, t.high
    from keys k cross join lateral (
      select ${count} as count, ${total} as total, ${low} as low, ${high} as high from ${countedEvents(organization_id, meter)} where ${filterSql(meter.filter)}
    ) t`.execute(tx.q)
}

/** Deletes the values of corrected events on a meter with `unique`, unless another event of the quarter hour has the same value. */
export const dropUniques = async (tx: Tx, organization_id: string, meter: CorrectedMeter, property: string, ids: readonly string[]): Promise<void> => {
  const isCounted = sql`${filterSql(meter.filter)} and ${countedSql({ func: 'unique', property })}`
  await sql`
    with corrected as materialized (
      select distinct subject_id, ${quarterSql} as starts_at, ${uniqueHashSql(property)} as hash
      from (select subject_id, name, source, timestamp, metadata from usage_events where organization_id = ${organization_id} and id = any(${ids}::uuid[])) e
      where ${isCounted}
    ), others as materialized (
      select distinct k.subject_id, k.starts_at, ${uniqueHashSql(property)} as hash
      from (select distinct subject_id, starts_at from corrected) k cross join lateral ${countedEvents(organization_id, meter)} where ${isCounted}
    )
    delete from usage_uniques q using corrected c
    where q.organization_id = ${organization_id} and q.subject_id = c.subject_id and q.meter_id = ${meter.id} and q.starts_at = c.starts_at and q.hash = c.hash
      and not exists (select from others o where o.subject_id = c.subject_id and o.starts_at = c.starts_at and o.hash = c.hash)`.execute(tx.q)
}
