import { sql } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import { isId } from '../../../kernel/ids.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { exists } from '../../customers/index.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    usage_batches: { organization_id: string; id: string; created_at: Date; events: number }
    usage_events: EventTable
    usage_keys: { organization_id: string; external_id: string; event_id: string }
    usage_texts: { organization_id: string; id: string; subject_id: string; prompt: string | null; response: string | null }
    usage_name_counts: { organization_id: string; name: string; source: string; occurrences: number; first_seen: Date; last_seen: Date }
  }
}

interface EventTable {
  organization_id: string
  id: string
  batch_id: string
  subject_id: string
  member_ref: string | null
  timestamp: Date
  name: string
  source: 'user' | 'system'
  external_id: string | null
  metadata: unknown
  parent_id: string | null
  awaited_parent: string | null
  depth: number
}

/** Writes rows as JSON with their index, so that a statement can process them in the given sequence. */
const numbered = (rows: readonly object[]): string => JSON.stringify(rows.map((row, at) => ({ ...row, at })))

/** The customer and the member of an event, as the event names them. */
export interface Named {
  readonly customer_id: string | null
  readonly external_customer_id: string | null
  readonly member_id: string | null
  readonly external_member_id: string | null
}

/** The customer and the member that events name, as they are in the database. */
export interface Resolved {
  readonly at: number
  readonly customer_id: string | null
  /** True if the customer has no event yet. */
  readonly is_first: boolean
  /** The time of the customer's test clock. Null for the system clock. */
  readonly now_at: Date | null
  /** The subject of the external customer id that is not linked to a customer. */
  readonly unknown_subject_id: string | null
  /** True if the subject of the customer exists. */
  readonly has_subject: boolean
  readonly member_id: string | null
  /** The row of the member, or of the external member id that no member has yet. */
  readonly member_ref: string | null
}

/** Resolves customers and members of a request in one statement. Returns them in any sequence, with their index. */
export const resolveNamed = async (tx: Tx, scope: TenantScope, organization_id: string, named: readonly Named[]): Promise<Resolved[]> => {
  const { rows } = await sql<Resolved>`
    with asked as (
      select * from json_to_recordset(${numbered(named)}::json)
        as v(customer_id uuid, external_customer_id text, member_id uuid, external_member_id text, at int)
    )
    select a.at, c.id as customer_id, coalesce(c.first_user_event_at is null, false) as is_first, k.now_at, u.id as unknown_subject_id,
      coalesce((select true from usage_subjects s where s.organization_id = ${organization_id} and s.id = c.id limit 1), false) as has_subject,
      m.id as member_id,
      coalesce(
        (select r.id from usage_members r where r.organization_id = ${organization_id} and r.id = m.id),
        (select r.id from usage_members r where r.organization_id = ${organization_id} and m.id is null and r.member_id is null
          and r.subject_id = coalesce(c.id, u.id) and r.external_id = a.external_member_id)) as member_ref
    from asked a
    left join lateral (
      (select id, clock_id, first_user_event_at, organization_id from customers
       where a.customer_id is not null and organization_id = ${organization_id} and id = a.customer_id and ${exists(scope)})
      union all
      -- A hidden seat holder keeps its external id. Its events are shown with the buyer of its seat. Each branch has its own index.
      (select id, clock_id, first_user_event_at, organization_id from (
        select 1 as rank, id, clock_id, first_user_event_at, organization_id from customers
        where a.external_customer_id is not null and organization_id = ${organization_id} and external_id = a.external_customer_id and deleted_at is null and not pure_holder
        union all
        select 2, id, clock_id, first_user_event_at, organization_id from customers
        where a.external_customer_id is not null and organization_id = ${organization_id} and external_id = a.external_customer_id and deleted_at is null and pure_holder
      ) named order by rank, id limit 1)
    ) c on true
    left join test_clocks k on k.organization_id = c.organization_id and k.id = c.clock_id
    left join lateral (
      -- At most one row passes. The limit keeps PostgreSQL from reading all subjects of the organization.
      select s.id from usage_subjects s where s.organization_id = ${organization_id} and s.external_id = a.external_customer_id and s.customer_id is null limit 1
    ) u on true
    left join lateral (
      (select id from members where a.member_id is not null and organization_id = c.organization_id and customer_id = c.id and id = a.member_id and deleted_at is null)
      union all
      (select id from members where a.external_member_id is not null and organization_id = c.organization_id and customer_id = c.id and external_id = a.external_member_id and deleted_at is null)
    ) m on true`.execute(tx.q)
  return rows
}

/**
 * Serializes requests that use parents. A request whose events have parents waits for all other requests of the
 * organization. Otherwise a child and its parent could arrive at the same time without seeing each other. Requests without
 * parents do not wait for each other. Only statements after this one see the events of the requests that were waited for.
 */
export const holdParents = async (tx: Tx, organization_id: string, mode: 'exclusive' | 'shared'): Promise<void> => {
  const key = sql`hashtextextended(${`usage parents ${organization_id}`}, 0)`
  await (mode === 'exclusive' ? sql`select pg_advisory_xact_lock(${key})` : sql`select pg_advisory_xact_lock_shared(${key})`).execute(tx.q)
}

export interface NewSubject {
  readonly id: string
  readonly customer_id: string | null
  readonly external_id: string | null
}
export interface NewMember {
  readonly id: string
  readonly subject_id: string
  readonly member_id: string | null
  readonly external_id: string | null
}

/** Inserts subjects that do not exist yet, in the given sequence. The same sequence in all requests prevents deadlocks. */
export const insertSubjects = async (tx: Tx, organization_id: string, subjects: readonly NewSubject[]): Promise<void> => {
  await sql`
    insert into usage_subjects (organization_id, id, created_at, customer_id, external_id)
    select ${organization_id}, v.id, ${tx.clock.wall()}, v.customer_id, v.external_id
    from json_to_recordset(${numbered(subjects)}::json) as v(at int, id uuid, customer_id uuid, external_id text) order by v.at
    on conflict do nothing`.execute(tx.q)
}

/** Inserts members that do not exist yet, in the given sequence. */
export const insertMembers = async (tx: Tx, organization_id: string, members: readonly NewMember[]): Promise<void> => {
  await sql`
    insert into usage_members (organization_id, id, created_at, subject_id, member_id, external_id)
    select ${organization_id}, v.id, ${tx.clock.wall()}, v.subject_id, v.member_id, v.external_id
    from json_to_recordset(${numbered(members)}::json) as v(at int, id uuid, subject_id uuid, member_id uuid, external_id text) order by v.at
    on conflict do nothing`.execute(tx.q)
}

/** Links subjects of external ids to the customers that have these external ids. Locks the subjects in the sequence of their ids. */
export const linkToCustomers = async (
  tx: Tx,
  organization_id: string,
  links: readonly { readonly id: string; readonly customer_id: string }[],
): Promise<void> => {
  await sql`
    update usage_subjects s set customer_id = v.customer_id
    from (
      select s.id, v.customer_id from usage_subjects s join json_to_recordset(${JSON.stringify(links)}::json) as v(id uuid, customer_id uuid) on v.id = s.id
      where s.organization_id = ${organization_id} and s.customer_id is null order by s.id for no key update of s
    ) v
    where s.organization_id = ${organization_id} and s.id = v.id and s.customer_id is null`.execute(tx.q)
}

/** A stored event that can be a parent. `ref` is its id or external id, as the request names it. */
export interface StoredParent {
  readonly ref: string
  readonly id: string
  readonly depth: number
}

/** Finds stored events of the organization by id or external id. An id is preferred over an equal external id. */
export const findParents = async (tx: Tx, organization_id: string, refs: readonly string[]): Promise<Map<string, StoredParent>> => {
  if (refs.length === 0) return new Map()
  const ids = refs.filter((ref) => isId(ref.toLowerCase()))
  const { rows } = await sql<StoredParent>`
    select k.external_id as ref, e.id, e.depth from usage_keys k join usage_events e on e.organization_id = k.organization_id and e.id = k.event_id
    where k.organization_id = ${organization_id} and k.external_id = any(${refs}::text[])
    union all
    select r.ref, e.id, e.depth from unnest(${ids}::text[]) r(ref) join usage_events e on e.organization_id = ${organization_id} and e.id = r.ref::uuid`.execute(
    tx.q,
  )
  return new Map(rows.map((row) => [row.ref, row]))
}

/** Returns how many stored events wait for each of these parents. Counts at most `most` for one parent. */
export const countWaiting = async (tx: Tx, organization_id: string, parents: readonly string[], most: number): Promise<Map<string, number>> => {
  const { rows } = await sql<{ parent: string; waiting: number }>`
    select v.parent, w.waiting from unnest(${parents}::text[]) v(parent)
    cross join lateral (
      select count(*)::int as waiting from (
        select from usage_events e where e.organization_id = ${organization_id} and e.awaited_parent = v.parent limit ${most}
      ) some_events
    ) w where w.waiting > 0`.execute(tx.q)
  return new Map(rows.map(({ parent, waiting }) => [parent, waiting]))
}

/**
 * Records the external ids of new events, in the given sequence. The same sequence in all requests prevents deadlocks. Returns
 * the ids of the events whose external id is new in the organization, or `all` if each is new. The others are duplicates, whenever
 * the first event with that external id was sent. Also returns whether stored events of the organization wait for their parent.
 */
export const takeKeys = async (
  tx: Tx,
  organization_id: string,
  keys: readonly { readonly external_id: string; readonly id: string }[],
): Promise<{ taken: 'all' | string[]; awaits: boolean }> => {
  const external_ids = JSON.stringify(keys.map(({ external_id }) => external_id))
  const { rows } = await sql<{ taken: string[] | null; awaits: boolean }>`
    with taken as (
      insert into usage_keys (organization_id, external_id, event_id)
      select ${organization_id}, v.external_id, v.id
      from rows from (json_array_elements_text(${external_ids}::json), unnest(${wordList(keys.map(({ id }) => id))}::uuid[])) with ordinality as v(external_id, id, at)
      order by v.at
      on conflict (organization_id, external_id) do nothing
      returning event_id
    )
    select case when count(*) < ${keys.length} then coalesce(array_agg(event_id), '{}') end as taken,
      exists (select from usage_events e where e.organization_id = ${organization_id} and e.awaited_parent is not null) as awaits
    from taken`.execute(tx.q)
  return { taken: rows[0]!.taken ?? 'all', awaits: rows[0]!.awaits }
}

export interface NewEvent {
  readonly id: string
  readonly subject_id: string
  readonly member_ref: string | null
  readonly timestamp: Date
  readonly name: string
  readonly source: 'user'
  readonly external_id: string | null
  readonly metadata: Readonly<Record<string, unknown>>
  readonly parent_id: string | null
  readonly awaited_parent: string | null
  readonly depth: number
}

/** The columns of new events as texts. PostgreSQL reads a list for each column faster than one record for each event. */
export interface EventColumns {
  readonly ids: string
  readonly subject_ids: string
  readonly member_refs: string
  readonly timestamps: string
  readonly names: string
  readonly external_ids: string
  readonly metadata: string
  readonly parent_ids: string
  readonly awaited_parents: string
  readonly depths: string
}

/**
 * Returns an array of PostgreSQL. The values have no characters with a meaning in arrays: they are ids, times and numbers. A list
 * without values becomes empty, because the statements fill up missing values with null.
 */
const wordList = (values: readonly (string | number | null)[]): string =>
  values.every((value) => value === null) ? '{}' : `{${values.map((value) => value ?? 'NULL').join()}}`

const textList = (values: readonly (string | null)[]): string => (values.every((value) => value === null) ? '[]' : JSON.stringify(values))

/** Writes events as the columns that `insertEvents` takes. */
export const writeColumns = (events: readonly NewEvent[]): EventColumns => ({
  ids: wordList(events.map(({ id }) => id)),
  subject_ids: wordList(events.map(({ subject_id }) => subject_id)),
  member_refs: wordList(events.map(({ member_ref }) => member_ref)),
  timestamps: wordList(events.map(({ timestamp }) => timestamp.toISOString())),
  names: textList(events.map(({ name }) => name)),
  external_ids: textList(events.map(({ external_id }) => external_id)),
  metadata: JSON.stringify(events.map(({ metadata }) => metadata)),
  parent_ids: wordList(events.map(({ parent_id }) => parent_id)),
  awaited_parents: textList(events.map(({ awaited_parent }) => awaited_parent)),
  depths: wordList(events.map(({ depth }) => depth)),
})

/** Inserts events with one statement. */
export const insertEvents = async (tx: Tx, organization_id: string, batch_id: string, columns: EventColumns): Promise<void> => {
  const { ids, subject_ids, member_refs, timestamps, names, external_ids, metadata, parent_ids, awaited_parents, depths } = columns
  await sql`
    insert into usage_events (organization_id, id, batch_id, subject_id, member_ref, timestamp, name, source, external_id, metadata, parent_id, awaited_parent, depth)
    select ${organization_id}, v.id, ${batch_id}, v.subject_id, v.member_ref, v.timestamp, v.name, 'user', v.external_id, v.metadata::jsonb, v.parent_id, v.awaited_parent, v.depth
    from rows from (
      unnest(${ids}::uuid[], ${subject_ids}::uuid[], ${member_refs}::uuid[], ${timestamps}::timestamptz[], ${parent_ids}::uuid[], ${depths}::smallint[]),
      json_array_elements_text(${names}::json), json_array_elements_text(${external_ids}::json), json_array_elements_text(${awaited_parents}::json),
      json_array_elements(${metadata}::json)
    ) as v(id, subject_id, member_ref, timestamp, parent_id, depth, name, external_id, awaited_parent, metadata)`.execute(tx.q)
}

/** How often a name occurs in a batch. */
export interface NameCount {
  readonly type_id: string
  readonly name: string
  readonly occurrences: number
  readonly first_seen: Date
  readonly last_seen: Date
}

/**
 * Inserts the batch with the counts of its names, and the types of names that occur for the first time. Returns the new
 * names.
 */
export const insertBatch = async (tx: Tx, organization_id: string, batch_id: string, events: number, names: readonly NameCount[]): Promise<string[]> => {
  const now = tx.clock.wall()
  const { rows } = await sql<{ name: string }>`
    with given as materialized (
      select * from json_to_recordset(${JSON.stringify(names)}::json)
        as v(type_id uuid, name text, occurrences bigint, first_seen timestamptz, last_seen timestamptz)
    ), types as (
      insert into event_types (organization_id, id, created_at, name, label)
      select ${organization_id}, type_id, ${now}, name, name from given
      where not exists (select from event_types y where y.organization_id = ${organization_id} and y.name = given.name) order by name
      on conflict do nothing
      returning name
    ), counts as (
      insert into usage_name_counts (organization_id, name, source, occurrences, first_seen, last_seen)
      select ${organization_id}, name, 'user', occurrences, first_seen, last_seen from given
    ), total as (
      insert into collection_deltas (organization_id, collection, delta) values (${organization_id}, 'usage_events', ${events})
    ), batch as (
      insert into usage_batches (organization_id, id, created_at, events) values (${organization_id}, ${batch_id}, ${now}, ${events})
    )
    select name from types`.execute(tx.q)
  return rows.map(({ name }) => name)
}

/** Returns the number of event names of the organization. */
export const countTypes = async (tx: Tx, organization_id: string): Promise<number> => {
  const { rows } = await sql<{ names: number }>`select count(*)::int as names from event_types where organization_id = ${organization_id}`.execute(tx.q)
  return rows[0]!.names
}

/** Inserts the texts of language models. */
export const insertTexts = async (
  tx: Tx,
  organization_id: string,
  texts: readonly { readonly id: string; readonly subject_id: string; readonly prompt: string | null; readonly response: string | null }[],
): Promise<void> => {
  await sql`
    insert into usage_texts (organization_id, id, subject_id, prompt, response)
    select ${organization_id}, v.id, v.subject_id, v.prompt, v.response
    from json_to_recordset(${JSON.stringify(texts)}::json) as v(id uuid, subject_id uuid, prompt text, response text)`.execute(tx.q)
}

/** Records the time of the first event of customers that had none. The order prevents deadlocks. */
export const markFirstEvents = async (tx: Tx, organization_id: string, firsts: readonly { readonly id: string; readonly at: Date }[]): Promise<void> => {
  await sql`
    update customers c set first_user_event_at = v.at
    from (
      select c.id, v.at from customers c join json_to_recordset(${JSON.stringify(firsts)}::json) as v(id uuid, at timestamptz) on v.id = c.id
      where c.organization_id = ${organization_id} and c.first_user_event_at is null order by c.id for no key update of c
    ) v
    where c.organization_id = ${organization_id} and c.id = v.id and c.first_user_event_at is null`.execute(tx.q)
}
