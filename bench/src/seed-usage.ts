import type { Client } from 'pg'

/** The usage of one customer on one meter, evenly spread over a time. */
export interface Usage {
  readonly organization_id: string
  readonly customer_id: string
  readonly meter_id: string
  readonly from: Date
  readonly until: Date
  readonly count: number
  /** The number of events of each batch. Without it, the events have no batch, and are not copied to the event store. */
  readonly batch?: number
  /** The number of different values of the property `user`. Without it, the events do not have this property. */
  readonly users?: number
}

/** Events that one statement inserts. */
const perStatement = 1_000_000

/** The units of the n-th event. */
const units = '(n % 10 + 1)'

/**
 * Inserts usage events with the totals that ingest would have appended and the worker would have merged. Builds the indexes of the
 * events afterwards, which is several times faster than to update them.
 */
export const seedUsage = async (owner: Client, usages: readonly Usage[]): Promise<void> => {
  await owner.query(`set session_replication_role = replica; set synchronous_commit = off; set maintenance_work_mem = '1GB'`)
  const indexes = await dropIndexes(owner)
  const now = Date.now()
  for (const usage of usages) {
    await owner.query(`insert into usage_subjects (organization_id, id, created_at, customer_id) values ($1, $2, now(), $2) on conflict do nothing`, [
      usage.organization_id,
      usage.customer_id,
    ])
    for (let first = 0; first < usage.count; first += perStatement)
      await insertEvents(owner, usage, now, first, Math.min(first + perStatement, usage.count) - 1)
    if (usage.batch !== undefined) await insertBatches(owner, usage, now, usage.batch)
    await insertTotals(owner, usage)
  }
  for (const index of indexes) await owner.query(index)
  await owner.query('set session_replication_role = origin; set synchronous_commit = on')
  await owner.query('analyze')
}

/** The time of the n-th event, as SQL. */
const moment = ({ from, until, count }: Usage) =>
  `timestamptz '${from.toISOString()}' + n * interval '${(until.getTime() - from.getTime()) / count} milliseconds'`

/** An id that begins with a time, and continues with the hash of a text. */
const idOf = (milliseconds: string, text: string) =>
  `overlay(overlay(md5(${text}) placing lpad(to_hex(${milliseconds}), 12, '0') || '4' from 1 for 13) placing '8' from 17 for 1)::uuid`

/** The id of the batch with a number. Its events begin with the same millisecond. The last batch came now, and each batch one millisecond before the next. */
const batchId = ({ count, customer_id }: Usage, now: number, size: number, number: string) =>
  idOf(`${now - Math.ceil(count / size)} + ${number}`, `'batch' || ${number} || '${customer_id}'`)

/** The ids begin with the time of the ingest. Without batches, each event came one millisecond before the next. */
const insertEvents = (owner: Client, usage: Usage, now: number, first: number, last: number) => {
  const { count, customer_id, meter_id, batch, users } = usage
  const ingested = batch === undefined ? `${now - count} + n` : `${now - Math.ceil(count / batch)} + n / ${batch}`
  const user = users === undefined ? '' : `, 'user', 'user-' || n % ${users}`
  return owner.query(`
    insert into usage_events (organization_id, id, batch_id, subject_id, timestamp, name, source, metadata, depth)
    select '${usage.organization_id}', ${idOf(ingested, `n || '${customer_id}'`)}, ${batch === undefined ? `'${meter_id}'` : batchId(usage, now, batch, `n / ${batch}`)},
      '${customer_id}', ${moment(usage)}, 'call.' || n % 5, 'user',
      jsonb_build_object('units', ${units}, 'model', 'model-' || n % 7, 'region', 'eu-central-1', 'request', 'request-' || n${user}), 0
    from generate_series(${first}::bigint, ${last}::bigint) n`)
}

const insertBatches = (owner: Client, usage: Usage, now: number, size: number) =>
  owner.query(`
    insert into usage_batches (organization_id, id, created_at, events)
    select '${usage.organization_id}', ${batchId(usage, now, size, 'k')}, now(), least(${size}, ${usage.count} - k * ${size})
    from generate_series(0::bigint, ${Math.ceil(usage.count / size) - 1}::bigint) k`)

const insertTotals = (owner: Client, usage: Usage) =>
  owner.query(`
    insert into usage_quarters (organization_id, meter_id, version, subject_id, starts_at, created_at, count, total, low, high, is_merged)
    select '${usage.organization_id}', '${usage.meter_id}', 1, '${usage.customer_id}', date_bin('15 minutes', ${moment(usage)}, '2000-01-01T00:00:00Z'), now(),
      count(*), sum${units}, min${units}, max${units}, true
    from generate_series(0::bigint, ${usage.count - 1}::bigint) n group by 5`)

/** Drops the indexes of the events. Returns the statements that build them again. */
const dropIndexes = async (owner: Client): Promise<string[]> => {
  const { rows } = await owner.query<{ name: string; definition: string; is_primary: boolean }>(
    `select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition, indisprimary as is_primary
     from pg_index where indrelid = 'usage_events'::regclass`,
  )
  for (const { name, is_primary } of rows) await owner.query(is_primary ? `alter table usage_events drop constraint ${name}` : `drop index ${name}`)
  return rows.map(({ name, definition, is_primary }) =>
    is_primary ? `alter table usage_events add constraint ${name} primary key (organization_id, id)` : definition.replace(' ON ONLY ', ' ON '),
  )
}
