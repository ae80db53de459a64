import { sql, type RawBuilder } from 'kysely'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

/** The tables whose rows are appended by ingest and merged later. */
export type MergedTable = 'usage_quarters' | 'usage_uniques'

/** A meter of an organization. Merges visit the meters in the sequence of these ids. */
export interface MeterKey {
  readonly organization_id: string
  readonly meter_id: string
}

/** The part of the rows that one merge processes. */
export interface MergePart {
  /** The meter after which the merge begins. */
  readonly after: MeterKey | undefined
  /** Organizations that are left out. */
  readonly postponed: readonly string[]
  /** Number of meters. */
  readonly meters: number
  /** Number of rows of all these meters. Each gets an equal share. */
  readonly rows: number
}

/** Lower than every id, and higher than every id. */
const firstId = '00000000-0000-0000-0000-000000000000'
const lastId = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** The position behind all meters of an organization. */
export const afterOrganization = (organization_id: string): MeterKey => ({ organization_id, meter_id: lastId })

/** True if ingest has appended rows since the last merge. */
export const hasUnmerged = async (db: Db, table: MergedTable): Promise<boolean> =>
  (await sql<{ found: boolean }>`select exists (select from ${sql.table(table)} where not is_merged) as found`.execute(db.q)).rows[0]!.found

/** SQL condition: the organization of the row is left out. */
const isPostponed = (row: string, { postponed }: MergePart) => sql`${sql.ref(`${row}.organization_id`)} = any(${postponed}::uuid[])`

/** Common table expression of the next meters with rows to merge, found by one index entry each. */
const nextMeters = (table: MergedTable, part: MergePart): RawBuilder<unknown> => sql`recursive meters (organization_id, meter_id, number) as (
      select ${part.after?.organization_id ?? firstId}::uuid, ${part.after?.meter_id ?? firstId}::uuid, 0
      union all
      select n.organization_id, n.meter_id, m.number + 1 from meters m cross join lateral (
        select q.organization_id, q.meter_id from ${sql.table(table)} q
        where not q.is_merged and (q.organization_id, q.meter_id) > (m.organization_id, case when ${isPostponed('m', part)} then ${lastId}::uuid else m.meter_id end)
        order by q.organization_id, q.meter_id limit 1
      ) n where m.number < ${part.meters}
    )`

/** The meters of a merge, in the sequence of their ids. `is_open` is false for an organization that is left out. */
type HeldMeter = MeterKey & { readonly is_open: boolean }

/**
 * Returns the next meters with rows to merge. Leaves out postponed organizations, and those whose events are being corrected: their lock
 * is held exclusively. Locks the others. The merge is a later statement, so its snapshot contains every correction before the lock.
 */
const holdMeters = async (tx: Tx, table: MergedTable, part: MergePart): Promise<HeldMeter[]> =>
  (
    await sql<HeldMeter>`
      with ${nextMeters(table, part)}, held as materialized (
        select o.organization_id from (select distinct m.organization_id from meters m where m.number > 0 and not ${isPostponed('m', part)}) o
        where pg_try_advisory_xact_lock_shared(correction_lock(o.organization_id))
      )
      select m.organization_id, m.meter_id, h.organization_id is not null as is_open
      from meters m left join held h on h.organization_id = m.organization_id where m.number > 0 order by m.number`.execute(tx.q)
  ).rows

/** SQL for the meters of a merge. Each gets an equal share of the rows. */
const openMeters = (meters: readonly HeldMeter[], { rows }: MergePart): RawBuilder<unknown> => {
  const open = meters.filter(({ is_open }) => is_open)
  return sql`unnest(${open.map(({ organization_id }) => organization_id)}::uuid[], ${open.map(({ meter_id }) => meter_id)}::uuid[]) m (organization_id, meter_id)
    cross join (values (${Math.max(1, Math.floor(rows / Math.max(1, open.length)))}::int)) shares (share)`
}

/** Returns the last of the meters, with which the next merge begins. */
const lastOf = (meters: readonly HeldMeter[]): MeterKey | undefined => {
  const last = meters.at(-1)
  return last && { organization_id: last.organization_id, meter_id: last.meter_id }
}

/** Returns the next meter with rows to merge. */
export const findUnmerged = async (db: Db, table: MergedTable, part: MergePart): Promise<MeterKey | undefined> =>
  (
    await sql<MeterKey>`
      with ${nextMeters(table, { ...part, meters: part.postponed.length + 1 })}
      select organization_id, meter_id from meters where number > 0 and not organization_id = any(${part.postponed}::uuid[]) order by number limit 1`.execute(
      db.q,
    )
  ).rows[0]

/** Makes sure that one transaction at a time merges the table: two could delete the same rows in different sequences. */
const holdMerge = async (tx: Tx, table: MergedTable): Promise<boolean> =>
  (await sql<{ held: boolean }>`select pg_try_advisory_xact_lock(hashtext(${`merge of ${table}`})) as held`.execute(tx.q)).rows[0]!.held

/**
 * Merges rows of a table. Returns the last meter, undefined if no row was left to merge, or `busy` if another transaction merges.
 */
export type Merge = (tx: Tx, part: MergePart) => Promise<MeterKey | undefined | 'busy'>

/**
 * Replaces the oldest totals of the next meters by one row for each quarter hour: their sum with the row that is merged already. Marks the
 * customer meters as due, so that their sort values are computed again. Marks ended usage periods as unsettled, so that billing sees late
 * usage. Totals of the backfill are no late usage. Locks open periods too: a settlement that is just ending one has committed before
 * the mark is set. Never waits for a customer meter or a period that is locked. The totals of their customer on the meter are left to a later
 * merge, because others would wait for this one.
 */
export const mergeQuarters: Merge = async (tx, part) => {
  if (!(await holdMerge(tx, 'usage_quarters'))) return 'busy'
  const meters = await holdMeters(tx, 'usage_quarters', part)
  // PostgreSQL checks constraints with the row of the snapshot first, in which a period may still be open. So `is_unsettled` is computed.
  await sql`
    with candidates as materialized (
      select q.place, m.organization_id, m.meter_id, q.subject_id, q.starts_at, q.is_backfilled from ${openMeters(meters, part)} cross join lateral (
        select q.ctid as place, q.subject_id, q.starts_at, q.is_backfilled from usage_quarters q
        where q.organization_id = m.organization_id and q.meter_id = m.meter_id and not q.is_merged order by q.created_at limit share
      ) q
    ), spans as materialized (
      -- Totals of a backfill alone have no first and no last quarter hour, so they overlap no period.
      select c.organization_id, c.subject_id, c.meter_id, shown.customer_id, min(c.starts_at) filter (where not c.is_backfilled) as first,
        max(c.starts_at) filter (where not c.is_backfilled) + interval '15 minutes' as last
      from candidates c join usage_subjects s on s.organization_id = c.organization_id and s.id = c.subject_id
      cross join lateral shown_customers(s.organization_id, s.customer_id) shown (customer_id) group by 1, 2, 3, 4
    ), touched as materialized (
      select c.organization_id, c.id from customer_meters c
      where (c.organization_id, c.customer_id, c.meter_id) in (select organization_id, customer_id, meter_id from spans)
      order by c.organization_id, c.id for update skip locked
    ), settling as materialized (
      select p.organization_id, p.id, p.ends_at from usage_periods p
      where exists (select from spans x where ${overlaps})
      order by p.organization_id, p.id for no key update skip locked
    ), locked as materialized (
      select x.organization_id, x.subject_id, x.meter_id from spans x
      where exists (select from customer_meters c where c.organization_id = x.organization_id and c.customer_id = x.customer_id and c.meter_id = x.meter_id
          and not exists (select from touched t where t.organization_id = c.organization_id and t.id = c.id))
        or exists (select from usage_periods p where ${overlaps}
          and not exists (select from settling t where t.organization_id = p.organization_id and t.id = p.id))
    ), picked as materialized (
      select c.* from candidates c
      where not exists (select from locked k where k.organization_id = c.organization_id and k.subject_id = c.subject_id and k.meter_id = c.meter_id)
    ), known as materialized (
      select q.ctid as place from (select distinct organization_id, meter_id, subject_id, starts_at from picked) p join usage_quarters q
        on q.organization_id = p.organization_id and q.subject_id = p.subject_id and q.meter_id = p.meter_id and q.starts_at = p.starts_at and q.is_merged
    ), gone as (
      delete from usage_quarters q where ctid = any(array(select place from picked union all select place from known)) returning q.*
    ), merged as (
      insert into usage_quarters (organization_id, meter_id, version, subject_id, starts_at, created_at, count, total, low, high, is_merged)
      select g.organization_id, g.meter_id, g.version, g.subject_id, g.starts_at, min(g.created_at), sum(g.count), sum(g.total), min(g.low), max(g.high), true
      from gone g join usage_meters u on u.organization_id = g.organization_id and u.id = g.meter_id and u.version = g.version
      -- A correction may be merged before other rows of its quarter hour. Its total is then kept.
      group by 1, 2, 3, 4, 5 having sum(g.count) <> 0 or sum(g.total) <> 0
    ), late as (
      update usage_periods p set is_unsettled = p.ends_at is not null, due_at = case when p.final_at is null then p.due_at else
        coalesce((select k.now_at from test_clocks k where k.organization_id = p.organization_id and k.id = p.clock_id), ${tx.clock.wall()}) end
      from settling t where p.organization_id = t.organization_id and p.id = t.id and t.ends_at is not null
    )
    -- A customer meter that rests after a long count is due after its rest.
    update customer_meters c set due_at = greatest(c.due_at, ${tx.clock.wall()}::timestamptz) from touched t
    where c.organization_id = t.organization_id and c.id = t.id`.execute(tx.q)
  return lastOf(meters)
}

/** SQL condition: the totals of the span `x` overlap the usage period `p`. */
const overlaps = sql`p.organization_id = x.organization_id and p.customer_id = x.customer_id and p.meter_id = x.meter_id
  and p.starts_at < x.last and (p.ends_at is null or p.ends_at > x.first)`

/**
 * Replaces values of meters with `unique` by merged ones. A value that is merged already in its quarter hour is dropped. Only this statement inserts
 * merged values, and one transaction at a time runs it. So a merged value occurs once in its quarter hour.
 */
export const mergeUniques: Merge = async (tx, part) => {
  if (!(await holdMerge(tx, 'usage_uniques'))) return 'busy'
  const meters = await holdMeters(tx, 'usage_uniques', part)
  await sql`
    with picked as materialized (
      select q.place from ${openMeters(meters, part)} cross join lateral (
        select q.ctid as place from usage_uniques q
        where q.organization_id = m.organization_id and q.meter_id = m.meter_id and not q.is_merged limit share
      ) q
    ), gone as (
      delete from usage_uniques q where ctid = any(array(select place from picked)) returning q.*
    )
    insert into usage_uniques (organization_id, meter_id, version, subject_id, starts_at, hash, is_merged)
    select distinct g.organization_id, g.meter_id, g.version, g.subject_id, g.starts_at, g.hash, true
    from gone g join usage_meters u on u.organization_id = g.organization_id and u.id = g.meter_id and u.version = g.version
    where not exists (
      select from usage_uniques k where k.organization_id = g.organization_id and k.subject_id = g.subject_id and k.meter_id = g.meter_id
        and k.version = g.version and k.hash = g.hash and k.starts_at = g.starts_at and k.is_merged)`.execute(tx.q)
  return lastOf(meters)
}
