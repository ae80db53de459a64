import { literal } from '../../../gateways/event-store/event-store.ts'
import { digits } from '../calc/copied-rows.ts'

/** Names of the tables of a copy. Another copy has other tables, so what arrives late for an old copy does no harm. */
export const tablesOf = (copy: string) => {
  const mark = copy.replaceAll('-', '')
  return { events: `bursar_events_${mark}`, corrected: `bursar_corrected_${mark}`, chunks: `bursar_chunks_${mark}` }
}

/**
 * Statements that make the tables of a copy. Only features that old and new servers share are used. Tables of several servers replicate each
 * other, and each server is a replica of another name.
 */
export const createTables = (copy: string, replica: string | undefined): string[] => {
  const { events, corrected, chunks } = tablesOf(copy)
  const engine = (table: string): string => (replica === undefined ? 'MergeTree' : `ReplicatedMergeTree(${literal(`/bursar/${table}`)}, ${literal(replica)})`)
  return [
    `create table if not exists ${events} (
      organization String, month UInt32, chunk UInt64, id String, batch String, subject String, at Int64, name String, source String, metadata String,
      keys Array(String), kinds Array(UInt8), texts Array(String), numbers Array(Decimal128(${digits.fraction})), exact UInt8
    ) engine = ${engine(events)} partition by month order by (organization, at, id)`,
    `create table if not exists ${corrected} (organization String, id String) engine = ${engine(corrected)} partition by tuple() order by (organization, id)`,
    `create table if not exists ${chunks} (number UInt64, events UInt64) engine = ${engine(chunks)} partition by tuple() order by number`,
  ]
}

export const dropTables = (copy: string): string[] => Object.values(tablesOf(copy)).map((table) => `drop table if exists ${table}`)

/** Waits until a server has everything that the other servers have accepted. A server of 2018 does not stop to wait if its client is gone. */
export const awaitReplication = (table: string): string => `system sync replica ${table}`

/** The number of rows of all tables. */
export const countRows = (copy: string): string =>
  `select ${Object.values(tablesOf(copy))
    .map((table) => `(select count() from ${table})`)
    .join(', ')}`

export const lastChunk = (copy: string): string => `select max(number) from ${tablesOf(copy).chunks}`

export const countChunk = (copy: string, chunk: string): string => `select count() from ${tablesOf(copy).events} where chunk = ${chunk}`

export const deleteChunk = (copy: string, chunk: string): string => `alter table ${tablesOf(copy).events} delete where chunk = ${chunk}`

/** The number of events of an organization and the sum of their hashes, by month of ingest. Leaves out the events of some batches. */
export const sumCopied = (copy: string, organization_id: string, without: readonly string[]): string => `
  select month, count(), toString(sum(reinterpretAsUInt32(substring(MD5(concat(id, batch, subject, toString(at), name, source, metadata)), 1, 4))))
  from ${tablesOf(copy).events} where organization = ${literal(organization_id)} ${without.length === 0 ? '' : `and batch not in (${without.map(literal).join(', ')})`}
  group by month`
