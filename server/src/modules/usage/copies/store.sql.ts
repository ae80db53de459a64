import { literal } from '../../../gateways/event-store/event-store.ts'
import { digits } from '../calc/copied-rows.ts'

/** Names of the tables of a copy. Another copy has other tables, so what arrives late for an old copy does no harm. */
export const tablesOf = (copy: string) => {
  const mark = copy.replaceAll('-', '')
  return { events: `bursar_events_${mark}`, corrected: `bursar_corrected_${mark}`, chunks: `bursar_chunks_${mark}` }
}

/** Statements that make the tables of a copy. Only features that old and new servers share are used. */
export const createTables = (copy: string): string[] => {
  const { events, corrected, chunks } = tablesOf(copy)
  return [
    `create table if not exists ${events} (
      organization String, month UInt32, chunk UInt64, id String, batch String, subject String, at Int64, name String, source String, metadata String,
      keys Array(String), kinds Array(UInt8), texts Array(String), numbers Array(Decimal128(${digits.fraction})), exact UInt8
    ) engine = MergeTree partition by month order by (organization, at, id)`,
    `create table if not exists ${corrected} (organization String, id String) engine = MergeTree partition by tuple() order by (organization, id)`,
    `create table if not exists ${chunks} (number UInt64, events UInt64) engine = MergeTree partition by tuple() order by number`,
  ]
}

export const dropTables = (copy: string): string[] => Object.values(tablesOf(copy)).map((table) => `drop table if exists ${table}`)

export const lastChunk = (copy: string): string => `select max(number) from ${tablesOf(copy).chunks}`

export const countChunk = (copy: string, chunk: string): string => `select count() from ${tablesOf(copy).events} where chunk = ${chunk}`

export const deleteChunk = (copy: string, chunk: string): string => `alter table ${tablesOf(copy).events} delete where chunk = ${chunk}`

/** The number of events of an organization and the sum of their hashes, by month of ingest. Leaves out the events of some batches. */
export const sumCopied = (copy: string, organization_id: string, without: readonly string[]): string => `
  select month, count(), toString(sum(reinterpretAsUInt32(substring(MD5(concat(id, batch, subject, toString(at), name, source, metadata)), 1, 4))))
  from ${tablesOf(copy).events} where organization = ${literal(organization_id)} ${without.length === 0 ? '' : `and batch not in (${without.map(literal).join(', ')})`}
  group by month`
