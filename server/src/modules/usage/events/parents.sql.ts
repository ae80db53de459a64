import { sql, type RawBuilder } from 'kysely'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { deepest } from '../calc/parents.ts'

/** A new parent that cannot have the children that wait for it. */
export interface WrongParent {
  readonly parent_id: string
  readonly why: 'cycle' | 'depth'
}

/** Descendants whose depth the request with their new ancestor updates. A periodic task updates those of a larger tree. */
export const deepenedAtOnce = 20_000

/**
 * Gives parents that have just arrived to the events that waited for them, and updates the depth of their descendants. If there are more than
 * `most`, the depth of the children is updated, and a periodic task updates the rest. Returns a parent with which an event would be its own ancestor, or would have too many ancestors. The caller then rolls back.
 */
export const linkChildren = async (
  tx: Tx,
  organization_id: string,
  parents: readonly { readonly external_id: string; readonly id: string }[],
  most = deepenedAtOnce,
): Promise<WrongParent | undefined> => {
  const { rows: children } = await sql<{ id: string; parent_id: string }>`
    with linked as (
      update usage_events e set parent_id = v.id, awaited_parent = null
      from json_to_recordset(${JSON.stringify(parents)}::json) as v(external_id text, id uuid)
      where e.organization_id = ${organization_id} and e.awaited_parent = v.external_id and e.id <> v.id
      returning e.id, e.parent_id, e.corrected_at
    ), counts as (
      insert into usage_child_counts (organization_id, parent_id, children)
      select ${organization_id}, parent_id, count(*) from linked where corrected_at is null group by parent_id
    )
    select id, parent_id from linked`.execute(tx.q)
  if (children.length === 0) return undefined
  const wrong = (id: string, why: WrongParent['why']): WrongParent => ({ parent_id: children.find((child) => child.id === id)!.parent_id, why })

  // The bound of the recursion ends the walk in a cycle.
  const { rows: tops } = await sql<{ id: string; depth: number; is_cycle: boolean }>`
    with recursive up as (
      select id as child, parent_id as ancestor, 1 as depth from usage_events
      where organization_id = ${organization_id} and id = any(${children.map(({ id }) => id)}::uuid[])
      union all
      select up.child, e.parent_id, up.depth + 1 from up join usage_events e on e.organization_id = ${organization_id} and e.id = up.ancestor
      where e.parent_id is not null and up.depth <= ${deepest}
    )
    select child as id, max(depth)::int as depth, bool_or(ancestor = child) as is_cycle from up group by child`.execute(tx.q)
  const bad = tops.find(({ is_cycle, depth }) => is_cycle || depth > deepest)
  if (bad) return wrong(bad.id, bad.is_cycle ? 'cycle' : 'depth')

  // The limit ends the walk, because PostgreSQL computes only the rows that are read.
  const { rows: reached } = await sql<{ top: string; depth: number }>`
    with recursive down as (
      select v.id, v.id as top, v.depth from json_to_recordset(${JSON.stringify(tops)}::json) as v(id uuid, depth int)
      union all
      select e.id, down.top, down.depth + 1 from down join usage_events e on e.organization_id = ${organization_id} and e.parent_id = down.id
      where down.depth <= ${deepest}
    ), seen as materialized (select * from down limit ${most + 1}
    ), size as materialized (select count(*) > ${most} as is_large from seen
    ), moved as (
      update usage_events e set depth = d.depth from size, (select id, max(depth) as depth, bool_or(id = top) as is_child from seen group by id) d
      where e.organization_id = ${organization_id} and e.id = d.id and d.depth <= ${deepest} and (d.is_child or not size.is_large)
    ), queued as (
      insert into usage_depth_changes as q (organization_id, event_id)
      select ${organization_id}, v.id from size, json_to_recordset(${JSON.stringify(tops)}::json) as v(id uuid)
      where size.is_large and ${hasChildren(organization_id, sql`v.id`)} order by v.id
      on conflict (organization_id, event_id) do update set after = excluded.after
    )
    select top, max(depth)::int as depth from seen group by top`.execute(tx.q)
  const deep = reached.find(({ depth }) => depth > deepest)
  return deep && wrong(deep.top, 'depth')
}

const hasChildren = (organization_id: string, id: RawBuilder<unknown>) =>
  sql`exists (select from usage_events c where c.organization_id = ${organization_id} and c.parent_id = ${id})`

/** Returns the organizations with events whose children have a wrong depth. */
export const findWrongDepths = async (db: Db, most: number): Promise<string[]> =>
  (await sql<{ id: string }>`select distinct organization_id as id from usage_depth_changes limit ${most}`.execute(db.q)).rows.map(({ id }) => id)

/**
 * Corrects the depth of the next children of an organization, and queues those that have children themselves. The caller has called
 * `holdParents`, so no child arrives with the depth of before. Returns false if nothing was left to do.
 */
export const correctDepths = async (tx: Tx, organization_id: string, most: number): Promise<boolean> => {
  const { rows } = await sql`
    with next as materialized (
      select q.event_id, q.after, e.depth + 1 as depth from usage_depth_changes q
      join usage_events e on e.organization_id = q.organization_id and e.id = q.event_id
      where q.organization_id = ${organization_id} order by q.event_id limit 1
    ), wrong as materialized (
      select c.id, c.timestamp, n.depth from next n cross join lateral (
        select c.id, c.timestamp from usage_events c
        where c.organization_id = ${organization_id} and c.parent_id = n.event_id and c.timestamp >= n.after and c.depth <> n.depth
        order by c.timestamp limit ${most}
      ) c
    ), moved as (
      update usage_events e set depth = w.depth from wrong w where e.organization_id = ${organization_id} and e.id = w.id
    ), queued as (
      insert into usage_depth_changes as q (organization_id, event_id)
      select ${organization_id}, w.id from wrong w where ${hasChildren(organization_id, sql`w.id`)}
      on conflict (organization_id, event_id) do update set after = excluded.after
    ), ended as (
      delete from usage_depth_changes q using next n
      where q.organization_id = ${organization_id} and q.event_id = n.event_id and (select count(*) from wrong) < ${most}
    ), continued as (
      update usage_depth_changes q set after = (select max(timestamp) from wrong) from next n
      where q.organization_id = ${organization_id} and q.event_id = n.event_id and (select count(*) from wrong) >= ${most}
    )
    select from next`.execute(tx.q)
  return rows.length > 0
}

/** Adds new children to the numbers of their parents. Appends one row for each parent, so that batches do not wait for each other. */
export const countChildren = async (tx: Tx, organization_id: string, parent_ids: readonly string[]): Promise<void> => {
  await sql`
    insert into usage_child_counts (organization_id, parent_id, children)
    select ${organization_id}, v.parent_id, count(*) from unnest(${parent_ids}::uuid[]) v(parent_id) group by v.parent_id`.execute(tx.q)
}

/** SQL for the number of children of the event `e`. Reads the stored counts, because an event may have millions of children. */
export const childCount = sql`coalesce((
  select sum(n.children) from usage_child_counts n where n.organization_id = e.organization_id and n.parent_id = e.id), 0)::bigint`

/** True if numbers of children were appended since the last merge. */
export const hasUnmergedChildren = async (db: Db): Promise<boolean> =>
  (await sql<{ found: boolean }>`select exists (select from usage_child_counts where not is_merged) as found`.execute(db.q)).rows[0]!.found

/**
 * Replaces the next numbers of children, oldest first, by one merged row for each parent. The sum of each parent does not change. Only
 * one transaction merges at a time. Returns the number of rows that it merged.
 */
export const mergeChildCounts = async (tx: Tx, most: number): Promise<number> => {
  const { rows: lock } = await sql<{ held: boolean }>`select pg_try_advisory_xact_lock(hashtext('usage child counts')) as held`.execute(tx.q)
  if (!lock[0]?.held) return 0
  const { rows } = await sql<{ picked: number }>`
    with picked as materialized (
      select ctid as place, organization_id, parent_id from usage_child_counts where not is_merged order by position limit ${most}
    ), known as materialized (
      select c.ctid as place from (select distinct organization_id, parent_id from picked) p
      join usage_child_counts c on c.organization_id = p.organization_id and c.parent_id = p.parent_id and c.is_merged
    ), gone as (
      delete from usage_child_counts where ctid = any(array(select place from picked union all select place from known))
      returning organization_id, parent_id, children
    ), sums as (
      insert into usage_child_counts (organization_id, parent_id, children, is_merged)
      select organization_id, parent_id, sum(children), true from gone group by 1, 2 having sum(children) <> 0
    )
    select count(*)::int as picked from picked`.execute(tx.q)
  return rows[0]!.picked
}
