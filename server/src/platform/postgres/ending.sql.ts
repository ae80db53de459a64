import { sql, type QueryExecutorProvider, type RawBuilder } from 'kysely'

/** An event that is inserted at the end of its transaction. */
export interface WaitingEvent {
  readonly organization_id: string
  readonly id: string
  readonly kind: string
  readonly resource_id: string
  readonly customer_id: string | null
  readonly api_version: string
  readonly payload: string
  readonly secrets_sealed: string | null
  readonly business_at: Date
  readonly wall_at: Date
  readonly is_migration: boolean
}

/** A job that is enqueued at the end of its transaction. */
export interface WaitingJob {
  readonly name: string
  readonly payload: Readonly<Record<string, unknown>>
  readonly priority: number
  readonly flags: readonly string[]
  readonly key: string | null
}

/** A customer whose state has changed. The worker emits the state after `due_at`. */
export interface WaitingState {
  readonly organization_id: string
  readonly id: string
  readonly due_at: Date
}

/** One entry of the audit log, as stored. `changes` is the exact JSON text. */
export interface Entry {
  readonly organization_id: string
  readonly id: string
  readonly at: Date
  readonly operation: string
  readonly request_id: string
  readonly actor_kind: 'organization' | 'user' | 'customer' | 'member' | 'anonymous' | 'cli'
  readonly actor_id: string | null
  readonly credential_id: string | null
  readonly client_id: string | null
  readonly resource_id: string | null
  readonly changes: string
}

/** Rows that a transaction writes just before it commits. One statement writes all of them except the audit entries. */
export interface Ending {
  readonly events: WaitingEvent[]
  readonly jobs: WaitingJob[]
  readonly states: WaitingState[]
  /**
   * Updates that nothing later in the transaction depends on. They must not need an audit entry, because the audit log
   * reads the recorded changes in the same statement. No two of them may change the same row.
   */
  readonly updates: RawBuilder<unknown>[]
  /** Audit entries. The statement that stores the answer of an idempotency key inserts them too. */
  readonly entries: Entry[]
}

export const newEnding = (): Ending => ({ events: [], jobs: [], states: [], updates: [], entries: [] })

/** A transaction that has an ending. */
interface Tx {
  readonly q: QueryExecutorProvider
  readonly ending: Ending
}

/** The PostgreSQL notification channel for committed events, so that the delivery daemon need not poll. */
export const eventsChannel = 'bursar_events'

/** The number of waiting events, jobs or states that are written before the end of the transaction, to bound memory. */
const most = 200

/** Adds an event to its transaction. */
export const addEvent = async (tx: Tx, event: WaitingEvent): Promise<void> => {
  if (tx.ending.events.push(event) >= most) await writeEnding(tx)
}

/** Adds a job to its transaction. */
export const addJob = async (tx: Tx, job: WaitingJob): Promise<void> => {
  if (tx.ending.jobs.push(job) >= most) await writeEnding(tx)
}

/** Marks the state of a customer as changed. */
export const addState = async (tx: Tx, state: WaitingState): Promise<void> => {
  if (tx.ending.states.push(state) >= most) await writeEnding(tx)
}

/**
 * Writes the waiting events, in the order in which they were emitted, the waiting jobs, states and updates. Returns the
 * changes that the triggers have recorded in this transaction. The audit log needs them at this moment, and so they need
 * no statement of their own. States are locked in the order of their ids, which prevents deadlocks. A state waits for a
 * worker that is emitting it now. A change that the worker has not read therefore causes another event.
 */
export const writeEnding = async (tx: Tx): Promise<string> => {
  const events = tx.ending.events.splice(0)
  const jobs = tx.ending.jobs.splice(0)
  const states = tx.ending.states.splice(0)
  const updates = tx.ending.updates.splice(0).map((update, at) => sql`${sql.ref(`updated_${at}`)} as (${update}), `)
  const of = <K extends keyof WaitingEvent>(name: K) => events.map((event) => event[name])
  const { rows } = await sql<{ noted: string | null }>`
    with ${sql.join(updates, sql``)}touched as (
      insert into customer_states (organization_id, id, due_at)
      select organization_id, id, min(due_at) from unnest(${states.map(({ organization_id }) => organization_id)}::uuid[],
        ${states.map(({ id }) => id)}::uuid[], ${states.map(({ due_at }) => due_at)}::timestamptz[]) as t (organization_id, id, due_at)
      group by organization_id, id order by id
      on conflict (organization_id, id) do update set due_at = coalesce(customer_states.due_at, excluded.due_at)
    ), drawn as (
      insert into events (organization_id, id, kind, resource_id, customer_id, api_version, payload, secrets_sealed, business_at, wall_at, is_migration)
      select organization_id, id, kind, resource_id, customer_id, api_version, payload::json, secrets_sealed, business_at, wall_at, is_migration
      from unnest(${of('organization_id')}::uuid[], ${of('id')}::uuid[], ${of('kind')}::text[], ${of('resource_id')}::uuid[], ${of('customer_id')}::uuid[],
        ${of('api_version')}::text[], ${of('payload')}::text[], ${of('secrets_sealed')}::text[], ${of('business_at')}::timestamptz[],
        ${of('wall_at')}::timestamptz[], ${of('is_migration')}::boolean[]) with ordinality
        as e (organization_id, id, kind, resource_id, customer_id, api_version, payload, secrets_sealed, business_at, wall_at, is_migration, place)
      order by place
      returning organization_id
    )
    select current_setting('bursar.changes', true) as noted,
      (select count(pg_notify(${eventsChannel}, organization_id::text)) from (select distinct organization_id from drawn) d) as notified,
      (select count(enqueue_job(j.name, j.payload, j.priority, j.flags, j.key))
       from jsonb_to_recordset(${JSON.stringify(jobs)}::jsonb)
         as j (name text, payload jsonb, priority int, flags text[], key text)) as enqueued`.execute(tx.q)
  return rows[0]!.noted ?? ''
}

/**
 * Takes the waiting audit entries. Returns the statement that inserts them, which the caller executes alone or as a part
 * of another statement. The changes keep their exact text, because the hash chain is computed from it.
 */
export const takeEntries = (tx: Tx): RawBuilder<unknown> => {
  const entries = tx.ending.entries.splice(0)
  const of = <K extends keyof Entry>(name: K) => entries.map((entry) => entry[name])
  return sql`
    insert into audit_log (organization_id, id, at, operation, request_id, actor_kind, actor_id, credential_id, client_id, resource_id, changes)
    select organization_id, id, at, operation, request_id, actor_kind, actor_id, credential_id, client_id, resource_id, changes::json
    from unnest(${of('organization_id')}::uuid[], ${of('id')}::uuid[], ${of('at')}::timestamptz[], ${of('operation')}::text[], ${of('request_id')}::uuid[],
      ${of('actor_kind')}::text[], ${of('actor_id')}::uuid[], ${of('credential_id')}::uuid[], ${of('client_id')}::text[], ${of('resource_id')}::uuid[],
      ${of('changes')}::text[]) with ordinality
      as e (organization_id, id, at, operation, request_id, actor_kind, actor_id, credential_id, client_id, resource_id, changes, place)
    order by place`
}

/** Writes the rows that still wait when the work of a transaction is done. */
export const endTransaction = async (tx: Tx): Promise<void> => {
  const { events, jobs, states, updates } = tx.ending
  if (events.length + jobs.length + states.length + updates.length > 0) await writeEnding(tx)
  if (tx.ending.entries.length > 0) await takeEntries(tx).execute(tx.q)
}
