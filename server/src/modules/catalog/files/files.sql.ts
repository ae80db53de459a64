import type { FileRead, PageRequest } from '@bursar/contract'
import { sql, type Selectable } from 'kysely'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { inOrder, listRows, sidesOf, type Key, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

/** The kinds of files that are kept here: of attachments there are none, for there are no support cases. */
export type Service = Exclude<FileRead['service'], 'support_case_attachment'>

export interface FileTable {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  deleted_at: Date | null
  service: Service
  name: string
  path: string
  mime_type: string
  size: number
  version: string | null
  public_url: string | null
  checksum_sha256_base64: string | null
  checksum_sha256_hex: string | null
  checksum_etag: string | null
  storage_version: string | null
  last_modified_at: Date | null
  upload_id: string | null
  state: 'uploading' | 'verifying' | 'ready' | 'refused'
  problem: string | null
  due_at: Date | null
  clock_id: null
  lease_until: Date | null
  lease_token: string | null
  lease_holder: string | null
}
export type FileRow = Selectable<FileTable>

/** A part as it was announced. */
export interface Part {
  readonly number: number
  readonly size: number
  readonly checksum_sha256_base64: string | null
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    files: FileTable
    file_parts: { organization_id: string; file_id: string; number: number; size: number; checksum_sha256_base64: string | null }
    product_medias: { organization_id: string; product_id: string; file_id: string; position: number }
    benefit_files: { organization_id: string; benefit_id: string; file_id: string; position: number; is_archived: boolean }
  }
}

const list = {
  table: 'files',
  tenant: 'organization_id',
  id: 'id',
  always: sql`deleted_at is null and state = 'ready'`,
  sortable: {
    created_at: { expression: 'created_at', type: 'timestamptz' },
    name: { expression: 'name', type: 'text' },
    size: { expression: 'size', type: 'bigint' },
  },
} satisfies ListSpec<string>

const live = (db: Db, reach: Reach) => db.q.selectFrom('files').selectAll().where('organization_id', '=', withinReach(reach)).where('deleted_at', 'is', null)

export interface FileFilters {
  readonly organization_id: readonly string[]
  readonly ids: readonly string[]
  readonly service: readonly string[]
}

export const listFiles = (db: Db, reach: Reach, query: FileFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters = [...anyOf('id', query.ids), ...anyOf('service', query.service, 'text')]
  const ids = organizationIds(reach, query.organization_id)
  return listRows(db, list, ids, query, filters, (found) => live(db, reach).where('id', 'in', found).execute())
}

/** Holds the file: it is completed, changed and deleted by one at a time, and nothing takes it up meanwhile. */
export const lockFile = async (tx: Tx, reach: Reach, id: string): Promise<Locked<FileRow> | undefined> =>
  (await live(tx, reach).where('id', '=', id).forNoKeyUpdate().executeTakeFirst()) as Locked<FileRow> | undefined

interface FileKey {
  readonly organization_id: string
  readonly id: string
}

/** One of ours by its key, deleted or not: whoever tends it has to know. */
export const readFile = (db: Db, { organization_id, id }: FileKey): Promise<FileRow> =>
  db.q.selectFrom('files').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirstOrThrow()

/** The same, held. */
export const holdFile = async (tx: Tx, { organization_id, id }: FileKey): Promise<Locked<FileRow>> =>
  (await tx.q
    .selectFrom('files')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirstOrThrow()) as Locked<FileRow>

/**
 * The uploaded files of a kind among the ids. They are held as they are until the transaction ends: none is deleted
 * meanwhile. Whoever holds a benefit or a product as well holds the files first, as a deletion does.
 */
export const holdFiles = async (tx: Tx, organizations: readonly string[], service: Service, ids: readonly string[]): Promise<FileRow[]> =>
  ids.length === 0 || organizations.length === 0
    ? []
    : tx.q
        .selectFrom('files')
        .selectAll()
        .where('organization_id', 'in', [...organizations])
        .where('id', 'in', [...ids])
        .where('deleted_at', 'is', null)
        .where('service', '=', service)
        .where('state', '=', 'ready')
        .orderBy('id')
        .forShare()
        .execute()

/** Files in the order of their keys, deleted or not. */
export const loadFiles = async (db: Db, keys: readonly Key[]): Promise<FileRow[]> => {
  if (keys.length === 0) return []
  const { tenants, ids } = sidesOf(keys)
  const rows = await db.q.selectFrom('files').selectAll().where('organization_id', 'in', tenants).where('id', 'in', ids).execute()
  return inOrder(keys, rows, ({ id }) => id)
}

export const insertFile = async (tx: Tx, file: FileTable, parts: readonly Part[]): Promise<void> => {
  await tx.q.insertInto('files').values(file).execute()
  await sql`
    insert into file_parts (organization_id, file_id, number, size, checksum_sha256_base64)
    select ${file.organization_id}, ${file.id}, * from unnest(
      ${parts.map(({ number }) => number)}::integer[], ${parts.map(({ size }) => size)}::bigint[],
      ${parts.map(({ checksum_sha256_base64 }) => checksum_sha256_base64)}::text[])`.execute(tx.q)
}

export const changeFile = (tx: Tx, { organization_id, id }: Locked<FileRow>, changes: Partial<FileTable>): Promise<FileRow> =>
  tx.q.updateTable('files').set(changes).where('organization_id', '=', organization_id).where('id', '=', id).returningAll().executeTakeFirstOrThrow()

export const loadParts = (db: Db, { organization_id, id }: FileKey): Promise<Part[]> =>
  db.q
    .selectFrom('file_parts')
    .select(['number', 'size', 'checksum_sha256_base64'])
    .where('organization_id', '=', organization_id)
    .where('file_id', '=', id)
    .orderBy('number')
    .execute()

/** Keeps what was said of parts at the end, where nothing was said at the beginning. */
export const keepChecksums = async (
  tx: Tx,
  { organization_id, id }: FileKey,
  parts: readonly Pick<Part, 'number' | 'checksum_sha256_base64'>[],
): Promise<void> => {
  const said = parts.filter(({ checksum_sha256_base64 }) => checksum_sha256_base64 !== null)
  if (said.length === 0) return
  await sql`
    update file_parts p set checksum_sha256_base64 = s.checksum
    from unnest(${said.map(({ number }) => number)}::integer[], ${said.map(({ checksum_sha256_base64 }) => checksum_sha256_base64)}::text[]) s (number, checksum)
    where p.organization_id = ${organization_id} and p.file_id = ${id} and p.number = s.number and p.checksum_sha256_base64 is null`.execute(tx.q)
}

/** How it was announced is of no use any more. */
export const dropParts = async (tx: Tx, { organization_id, id }: FileKey): Promise<void> => {
  await tx.q.deleteFrom('file_parts').where('organization_id', '=', organization_id).where('file_id', '=', id).execute()
}

/** The pictures of many products, each in the product's order. */
export const mediasOf = (db: Db, tenants: readonly string[], products: readonly string[]): Promise<(FileRow & { product_id: string })[]> =>
  db.q
    .selectFrom('product_medias as a')
    .innerJoin('files as f', (on) => on.onRef('f.organization_id', '=', 'a.organization_id').onRef('f.id', '=', 'a.file_id'))
    .selectAll('f')
    .select('a.product_id')
    .where('a.organization_id', 'in', [...tenants])
    .where('a.product_id', 'in', [...products])
    .orderBy('a.position')
    .execute()

export const replaceMedias = async (tx: Tx, { organization_id, id }: FileKey, medias: readonly string[]): Promise<void> => {
  await tx.q.deleteFrom('product_medias').where('organization_id', '=', organization_id).where('product_id', '=', id).execute()
  if (medias.length > 0)
    await tx.q
      .insertInto('product_medias')
      .values(medias.map((file_id, position) => ({ organization_id, product_id: id, file_id, position })))
      .execute()
}

export const replaceBenefitFiles = async (
  tx: Tx,
  { organization_id, id }: FileKey,
  { files, archived }: { files: readonly string[]; archived: Readonly<Record<string, boolean>> },
): Promise<void> => {
  await tx.q.deleteFrom('benefit_files').where('organization_id', '=', organization_id).where('benefit_id', '=', id).execute()
  if (files.length > 0)
    await tx.q
      .insertInto('benefit_files')
      .values(files.map((file_id, position) => ({ organization_id, benefit_id: id, file_id, position, is_archived: archived[file_id] ?? false })))
      .execute()
}

/** The products that show a file. As long as it is held, no other one takes it up. */
export const productsWith = async (tx: Tx, { organization_id, id }: Locked<FileRow>): Promise<string[]> =>
  (
    await tx.q
      .selectFrom('product_medias')
      .select('product_id')
      .where('organization_id', '=', organization_id)
      .where('file_id', '=', id)
      .orderBy('product_id')
      .execute()
  ).map(({ product_id }) => product_id)

/** The benefits that give a file. As long as it is held, no other one takes it up. */
export const benefitsWith = async (tx: Tx, { organization_id, id }: Locked<FileRow>): Promise<string[]> =>
  (
    await tx.q
      .selectFrom('benefit_files')
      .select('benefit_id')
      .where('organization_id', '=', organization_id)
      .where('file_id', '=', id)
      .orderBy('benefit_id')
      .execute()
  ).map(({ benefit_id }) => benefit_id)

/** Takes the file out of a product that is held; false where it is not in it any more. */
export const leaveProduct = async (tx: Tx, { organization_id, id }: Locked<FileRow>, product_id: string): Promise<boolean> => {
  const gone = await tx.q
    .deleteFrom('product_medias')
    .where('organization_id', '=', organization_id)
    .where('product_id', '=', product_id)
    .where('file_id', '=', id)
    .executeTakeFirst()
  return gone.numDeletedRows > 0n
}

export const leaveBenefit = async (tx: Tx, { organization_id, id }: Locked<FileRow>, benefit_id: string): Promise<void> => {
  await tx.q.deleteFrom('benefit_files').where('organization_id', '=', organization_id).where('benefit_id', '=', benefit_id).where('file_id', '=', id).execute()
}
