import { isDeepStrictEqual } from 'node:util'
import { type Invalid } from '@bursar/contract'
import type { BusinessTx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import type { OrganizationRow } from '../../organizations/index.ts'
import type { GrantName, ProductParts, Row, Table } from './importing.sql.ts'
import type { RecordOf } from './records.ts'

/** An error for a line that cannot be imported, with the reason. */
export class LineRefused extends Error {}

export const refuse = (says: string): never => {
  throw new LineRefused(says)
}

export const tables = [
  'benefits',
  'products',
  'customers',
  'subscriptions',
  'orders',
  'seats',
  'benefit_grants',
  'license_keys',
  'downloadables',
  'files',
] as const satisfies readonly Table[]

type Rows = { [T in Table]: Map<string, Row<T>> }

export const noRows = (): Rows => Object.fromEntries(tables.map((table) => [table, new Map()])) as unknown as Rows

/** State of the import of one part of a bundle. Contains stored rows, rows added by earlier lines, and unique values that are taken. */
export interface Bench {
  readonly tx: BusinessTx
  readonly platform: Pick<Platform, 'hasher' | 'sealer'> & Platform
  readonly organization: OrganizationRow
  readonly there: Rows
  readonly added: Rows
  readonly parts: Map<string, ProductParts>
  readonly activations: { key: Row<'license_keys'>; of: RecordOf<'license_key'>['activations'] }[]
  readonly prices: Map<string, RecordOf<'product'>['prices']>
  /**
   * Maps each taken unique value to the id of its record. The values are email addresses in lower case, external ids,
   * unique columns of grants, key hashes, and grants that have a key.
   */
  readonly taken: Record<'address' | 'external_id' | 'grant' | 'hash' | 'keyed', Map<string, string>>
  readonly lower: ReadonlyMap<string, string>
}

const rowsIn = <T extends Table>(rows: Rows, table: T): Map<string, Row<T>> => rows[table]

export const findRow = <T extends Table>(bench: Bench, table: T, id: string): Row<T> | undefined =>
  rowsIn(bench.there, table).get(id) ?? rowsIn(bench.added, table).get(id)

const names: Record<Table, string> = {
  benefits: 'benefit',
  products: 'product',
  customers: 'customer',
  subscriptions: 'subscription',
  orders: 'order',
  seats: 'seat',
  benefit_grants: 'grant',
  license_keys: 'license key',
  downloadables: 'download',
  files: 'file',
}

export const need = <T extends Table>(bench: Bench, table: T, field: string, id: string): Row<T> =>
  findRow(bench, table, id) ?? refuse(`${field}: the ${names[table]} ${id} exists neither here nor in an earlier line. Put it before this line.`)

export const shown = (value: unknown): string => (value instanceof Date ? value.toISOString() : (JSON.stringify(value) ?? 'nothing'))

const unasked = new Set(['modified_at', 'due_at', 'clock_id', 'lease_until', 'lease_token', 'lease_holder', 'hash', 'pepper', 'key_sealed'])

/** Adds a row unless it exists. An existing row must be identical, because an import never changes rows. Returns true if the row is new. */
export const keepRow = <T extends Table>(bench: Bench, table: T, row: Row<T> & { readonly id: string }, besides: readonly string[] = []): boolean => {
  const there = findRow(bench, table, row.id)
  if (!there) {
    rowsIn(bench.added, table).set(row.id, row)
    return true
  }
  const different = Object.keys(row).filter(
    (column) => !unasked.has(column) && !besides.includes(column) && !isDeepStrictEqual(row[column as keyof Row<T>], there[column as keyof Row<T>]),
  )
  if (different.length > 0) {
    const each = different.map(
      (column) => `${column} is ${shown(there[column as keyof Row<T>])} in the database and ${shown(row[column as keyof Row<T>])} in the file`,
    )
    refuse(`The ${names[table]} ${row.id} already exists with other values: ${each.join(', ')}. An import only adds records.`)
  }
  return false
}

/** Reserves a unique value for a record. Rejects another record with the same value. */
export const claim = (bench: Bench, what: keyof Bench['taken'], name: string, id: string, says: string): void => {
  const holder = bench.taken[what].get(name)
  if (holder !== undefined && holder !== id) refuse(`${says} ${holder}.`)
  bench.taken[what].set(name, id)
}

export const grantName = ({ buyer_customer_id, benefit_id, subscription_id, order_id, holder_customer_id }: GrantName): string =>
  [buyer_customer_id, benefit_id, subscription_id ?? '', order_id ?? '', holder_customer_id ?? ''].join(' ')

export const saying = (problems: readonly Invalid[]): string => problems.map(({ loc, msg }) => `${loc.slice(1).join('.')}: ${msg}`).join('; ')

export const stamped = (bench: Bench, table: Table, { id, created_at }: { id: string; created_at?: Date | undefined }) => ({
  organization_id: bench.organization.id,
  id,
  created_at: created_at ?? findRow(bench, table, id)?.created_at ?? bench.tx.clock.business(),
  modified_at: null,
})
