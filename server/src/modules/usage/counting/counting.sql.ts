import { sql, type RawBuilder } from 'kysely'
import type { Lease } from '../../../platform/jobs/leases.sql.ts'
import { insertRows } from '../../../platform/postgres/many.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { groupByValues } from '../../../platform/postgres/values.ts'
import { filterSql, tallySql, uniqueHashSql } from '../../catalog/index.ts'
import type { CountingMeter, QuarterTally } from '../calc/quarters.ts'

/** Returns the meters of an organization, and locks them in share mode: no meter is made or changed until this transaction ends. */
export const metersToCount = async (tx: Tx, organization_id: string): Promise<CountingMeter[]> =>
  (await sql<CountingMeter>`select * from meters_to_count(${organization_id})`.execute(tx.q)).rows

/** Appends totals of a batch. The statement updates no row, so concurrent batches do not wait for each other. */
export const appendQuarters = async (tx: Tx, organization_id: string, tallies: readonly QuarterTally[]): Promise<void> => {
  if (tallies.length === 0) return
  const created_at = tx.clock.wall()
  await insertRows(
    'usage_quarters',
    tallies.map((tally) => ({ organization_id, created_at, is_merged: false, ...tally })),
  ).execute(tx.q)
}

/** SQL for the quarter hour of an event. */
export const quarterSql = sql`date_bin('15 minutes', timestamp, '2000-01-01T00:00:00Z')`

/** A meter with the aggregation `unique`, and the property whose values it counts. */
export interface UniqueMeter extends Pick<CountingMeter, 'id' | 'version' | 'filter'> {
  readonly property: string
}

/** Returns the meters with the aggregation `unique`. */
export const uniqueMetersOf = (meters: readonly CountingMeter[]): UniqueMeter[] =>
  meters.flatMap(({ id, version, filter, aggregation }) => (aggregation.func === 'unique' ? [{ id, version, filter, property: aggregation.property }] : []))

/** The hash that the meter counts of an event. Null if the filter excludes the event, or if it has no value. */
const countedHash = ({ filter, property }: UniqueMeter) => sql`case when ${filterSql(filter)} then ${uniqueHashSql(property)} end`

/** The statement that appends the values of meters with `unique`. `events` has the columns of usage events. */
const insertUniques = (organization_id: string, meters: readonly UniqueMeter[], events: RawBuilder<unknown>) => sql`
  insert into usage_uniques (organization_id, meter_id, version, subject_id, starts_at, hash)
  select distinct ${organization_id}::uuid, (${meters.map(({ id }) => id)}::uuid[])[u.at::int], (${meters.map(({ version }) => version)}::int[])[u.at::int],
    e.subject_id, e.starts_at, u.hash
  from (select subject_id, ${quarterSql} as starts_at, array[${sql.join(meters.map(countedHash))}]::uuid[] as hashes from ${events}) e
  cross join lateral unnest(e.hashes) with ordinality u (hash, at) where u.hash is not null`

/**
 * Appends the values of stored events of a batch for all meters with `unique`, in one statement unless their filters have too many
 * values for it. Only the database computes hashes, so that those of ingest, backfill and quantities are equal.
 */
export const appendUniques = async (tx: Tx, organization_id: string, meters: readonly UniqueMeter[], ids: readonly string[]): Promise<void> => {
  const events = sql`(
    select subject_id, name, source, timestamp, metadata from usage_events where organization_id = ${organization_id} and id = any(${ids}::uuid[])) stored`
  for (const group of groupByValues(tx, meters, countedHash)) await insertUniques(organization_id, group, events).execute(tx.q)
}

/** Lower than every id. */
const firstId = '00000000-0000-0000-0000-000000000000'

/** A meter whose earlier events are still to be counted. */
export interface Backfill extends CountingMeter {
  readonly before_batch: string
  readonly after_event: string | null
  readonly until_event: string | null
  readonly is_stopped: boolean
}

export const findBackfill = async (tx: Tx, { organization_id, id }: Lease): Promise<Backfill | undefined> =>
  (
    await sql<Backfill>`
      select m.id, u.version, m.filter, m.aggregation, u.before_batch::text as before_batch, u.after_event, u.until_event, u.is_stopped
      from usage_meters u
      join meters m on m.organization_id = u.organization_id and m.id = u.id
      where u.organization_id = ${organization_id} and u.id = ${id} and u.counted_at is null`.execute(tx.q)
  ).rows[0]

/**
 * Counts the next events of an organization in the sequence of their ids, and returns the last one. Events of later batches
 * are skipped, because ingest has counted them. Returns undefined if no event follows up to `until_event`.
 */
export const countStored = async (tx: Tx, organization_id: string, meter: Backfill, limit: number): Promise<string | undefined> => {
  const { count, total, low, high } = tallySql(meter.aggregation)
  const unique = uniqueMetersOf([meter])
  const uniques = unique.length === 0 ? sql`` : sql`, uniques as (${insertUniques(organization_id, unique, sql`earlier`)})`
  const { rows } = await sql<{ id: string }>`
    with chunk as materialized (
      select * from usage_events
      where organization_id = ${organization_id} and id > ${meter.after_event ?? firstId}::uuid and id <= ${meter.until_event}::uuid order by id limit ${limit}
    ), earlier as (
      select c.subject_id, c.name, c.source, c.timestamp, c.metadata from chunk c
      join usage_batches b on b.organization_id = c.organization_id and b.id = c.batch_id and b.number < ${meter.before_batch}::bigint
      where c.corrected_at is null
    ), tallies as (
      select subject_id, ${quarterSql} as starts_at, ${count} as count, ${total} as total, ${low} as low, ${high} as high
      from earlier where ${filterSql(meter.filter)} group by 1, 2
    ), added as (
      insert into usage_quarters (organization_id, meter_id, version, subject_id, starts_at, created_at, count, total, low, high, is_backfilled)
      select ${organization_id}, ${meter.id}, ${meter.version}, subject_id, starts_at, ${tx.clock.wall()}, count, total, low, high, true
      from tallies where count > 0
    )${uniques}
    select id from chunk order by id desc limit 1`.execute(tx.q)
  return rows[0]?.id
}

/** Stores how far the backfill has come. Without `after_event`, the backfill is complete. */
export const saveBackfill = async (tx: Tx, { organization_id, id }: Lease, after_event: string | undefined): Promise<void> => {
  const change = after_event === undefined ? sql`counted_at = ${tx.clock.wall()}` : sql`after_event = ${after_event}`
  await sql`update usage_meters set ${change} where organization_id = ${organization_id} and id = ${id}`.execute(tx.q)
}

/** Deletes totals and values of earlier versions of a meter. Returns true if some may be left. */
export const dropVoidQuarters = async (tx: Tx, organization_id: string, { id, version }: Backfill, limit: number): Promise<boolean> => {
  const drop = async (table: 'usage_quarters' | 'usage_uniques') => {
    const { numAffectedRows } = await sql`
      delete from ${sql.table(table)} where ctid = any(array(
        select ctid from ${sql.table(table)}
        where organization_id = ${organization_id} and meter_id = ${id} and version < ${version} limit ${limit}))`.execute(tx.q)
    return numAffectedRows === BigInt(limit)
  }
  return (await drop('usage_quarters')) || (await drop('usage_uniques'))
}
