import { sql } from 'kysely'
import { isId } from '../../../kernel/ids.ts'
import { insertRows } from '../../../platform/postgres/many.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    usage_corrections: CorrectionTable
  }
}

export interface CorrectionTable {
  organization_id: string
  id: string
  created_at: Date
  event_id: string
  subject_id: string
  replacement_id: string | null
  fingerprint: string | null
  reason: string | null
}

/** An event to correct, with its correction if it has one. `ref` is its id or external id, as the request names it. */
export interface Target {
  readonly ref: string
  readonly id: string
  readonly subject_id: string
  readonly timestamp: Date
  readonly name: string
  readonly source: 'user' | 'system'
  /** JSON text, because a parsed number may lose digits. */
  readonly metadata: string
  /** The number of the batch. It tells whether ingest or the backfill counts the event on a meter. */
  readonly batch_number: string
  readonly correction_id: string | null
  readonly created_at: Date | null
  readonly replacement_id: string | null
  readonly fingerprint: string | null
}

/** Finds events of the organization by id or external id. An id is preferred over an equal external id. */
export const findTargets = async (tx: Tx, organization_id: string, refs: readonly string[]): Promise<Map<string, Target>> => {
  const ids = refs.filter((ref) => isId(ref.toLowerCase()))
  const { rows } = await sql<Target>`
    select r.ref, e.id, e.subject_id, e.timestamp, e.name, e.source, e.metadata::text as metadata, b.number::text as batch_number,
      c.id as correction_id, c.created_at, c.replacement_id, c.fingerprint
    from (
      select k.external_id as ref, k.event_id as id, 1 as rank from usage_keys k where k.organization_id = ${organization_id} and k.external_id = any(${refs}::text[])
      union all select named.ref, named.ref::uuid, 2 from unnest(${ids}::text[]) named(ref)
    ) r
    join usage_events e on e.organization_id = ${organization_id} and e.id = r.id
    join usage_batches b on b.organization_id = e.organization_id and b.id = e.batch_id
    left join usage_corrections c on c.organization_id = e.organization_id and c.event_id = e.id
    order by r.rank`.execute(tx.q)
  return new Map(rows.map((row) => [row.ref, row]))
}

/** Marks events as corrected. Subtracts them from the number of events, from the counts of their names and from the numbers of children. */
export const markCorrected = async (tx: Tx, organization_id: string, ids: readonly string[]): Promise<void> => {
  await sql`
    with marked as (
      update usage_events set corrected_at = ${tx.clock.wall()} where organization_id = ${organization_id} and id = any(${ids}::uuid[])
      returning name, source, timestamp, parent_id
    ), counts as (
      insert into usage_name_counts (organization_id, name, source, occurrences, first_seen, last_seen)
      select ${organization_id}, name, source, -count(*), min(timestamp), max(timestamp) from marked group by name, source
    ), children as (
      insert into usage_child_counts (organization_id, parent_id, children)
      select ${organization_id}, parent_id, -count(*) from marked where parent_id is not null group by parent_id
    )
    insert into collection_deltas (organization_id, collection, delta) select ${organization_id}, 'usage_events', -count(*) from marked`.execute(tx.q)
}

/** Inserts corrections. A unique index rejects a second correction of the same event. */
export const insertCorrections = async (tx: Tx, corrections: readonly CorrectionTable[]): Promise<void> => {
  await insertRows('usage_corrections', corrections).execute(tx.q)
}
