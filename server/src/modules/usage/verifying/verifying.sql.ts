import type { Aggregation, Filter } from '@bursar/contract'
import { sql } from 'kysely'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { filterSql, tallySql, uniqueHashSql } from '../../catalog/index.ts'

interface CountedMeter {
  readonly organization_id: string
  readonly organization: string
  readonly id: string
  readonly name: string
  readonly version: number
  readonly filter: Filter
  readonly aggregation: Aggregation
}

/** Returns the meters whose backfill is complete, of one organization or of all. */
export const countedMeters = async (db: Db, slug: string | undefined): Promise<CountedMeter[]> => {
  const { rows } = await sql<CountedMeter>`
    select m.organization_id, o.slug as organization, m.id, m.name, u.version, m.filter, m.aggregation from usage_meters u
    join meters m on m.organization_id = u.organization_id and m.id = u.id join organizations o on o.id = m.organization_id
    where u.counted_at is not null and not u.is_stopped and ${slug === undefined ? sql`o.deleted_at is null` : sql`o.slug = ${slug}`} order by o.slug, m.name, m.id`.execute(
    db.q,
  )
  return rows
}

/**
 * Computes the totals of a meter again from its events. Returns the number of subjects and quarter hours whose stored totals
 * differ. Unique values are compared by the number of different hashes.
 */
export const countDifferences = async (db: Db, { organization_id, id, version, filter, aggregation }: CountedMeter): Promise<number> => {
  const events = sql`(select subject_id, name, source, timestamp, metadata from usage_events where organization_id = ${organization_id} and corrected_at is null) e where ${filterSql(filter)}`
  const quarter = sql`date_bin('15 minutes', timestamp, '2000-01-01T00:00:00Z')`
  const stored = sql`organization_id = ${organization_id} and meter_id = ${id} and version = ${version}`
  const { count, total, low, high } = tallySql(aggregation)
  const sides =
    aggregation.func === 'unique'
      ? sql`
        select subject_id, starts_at, count(distinct hash)::numeric as count, 0::numeric as total, null::numeric as low, null::numeric as high from usage_uniques where ${stored} group by 1, 2
        except select subject_id, ${quarter}, count(distinct ${uniqueHashSql(aggregation.property)})::numeric, 0, null, null from ${events} group by 1, 2`
      : sql`
        select subject_id, starts_at, sum(count)::numeric as count, sum(total) as total, min(low) as low, max(high) as high from usage_quarters where ${stored} group by 1, 2 having sum(count) <> 0
        except select * from (select subject_id, ${quarter}, (${count})::numeric as count, ${total} as total, ${low} as low, ${high} as high from ${events} group by 1, 2) t where count <> 0`
  const missing =
    aggregation.func === 'unique'
      ? sql`select subject_id, ${quarter} as starts_at from ${events} and ${uniqueHashSql(aggregation.property)} is not null group by 1, 2
        except select subject_id, starts_at from usage_uniques where ${stored}`
      : sql`select subject_id, starts_at from (select subject_id, ${quarter} as starts_at, ${count} as count from ${events} group by 1, 2) t where count <> 0
        except select subject_id, starts_at from usage_quarters where ${stored}`
  const { rows } = await sql<{ differences: number }>`
    select count(*)::int as differences from (select subject_id, starts_at from (${sides}) d union select subject_id, starts_at from (${missing}) m) found`.execute(
    db.q,
  )
  return rows[0]!.differences
}
