import type { FileRead, PageRequest } from '@bursar/contract'
import { sql, type Selectable } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { lockRow } from '../../../platform/postgres/locks.ts'
import { inOrder, listRows, sidesOf, type Key, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, inScope, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

/** Types of files that can be stored. Attachments of support cases are excluded, because Bursar has no support cases. */
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

/** A part of a multipart upload, as the client announced it. */
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

const live = (db: Db, scope: TenantScope) => db.q.selectFrom('files').selectAll().where('organization_id', '=', inScope(scope)).where('deleted_at', 'is', null)

export interface FileFilters {
  readonly organization_id: readonly string[]
  readonly ids: readonly string[]
  readonly service: readonly string[]
}

export const listFiles = (db: Db, scope: TenantScope, query: FileFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters = [...anyOf('id', query.ids), ...anyOf('service', query.service, 'text')]
  const ids = organizationIds(scope, query.organization_id)
  return listRows(db, list, ids, query, filters, (found) => live(db, scope).where('id', '=', oneOf(found)).execute())
}

/** Locks the file. Serializes completion, changes and deletion. Transactions that add a reference to the file wait for the lock. */
export const lockFile = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<FileRow> | undefined> =>
  await lockRow(live(tx, scope).where('id', '=', id))

interface FileKey {
  readonly organization_id: string
  readonly id: string
}

/** Returns a file by its key, even if it is deleted. The sweep needs deleted files to remove their objects. */
export const readFile = (db: Db, { organization_id, id }: FileKey): Promise<FileRow> =>
  db.q.selectFrom('files').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirstOrThrow()

/** Locks a file and returns it, even if it is deleted. */
export const holdFile = async (tx: Tx, { organization_id, id }: FileKey): Promise<Locked<FileRow>> =>
  (await lockRow(tx.q.selectFrom('files').selectAll().where('organization_id', '=', organization_id).where('id', '=', id)))!

/**
 * Returns the files with these ids that are uploaded and of the given type. Locks them in share mode, so that none is
 * deleted before the transaction ends. Lock files before benefits and products. A deletion uses the same order.
 */
export const holdFiles = async (tx: Tx, organizations: readonly string[], service: Service, ids: readonly string[]): Promise<FileRow[]> =>
  ids.length === 0 || organizations.length === 0
    ? []
    : tx.q
        .selectFrom('files')
        .selectAll()
        .where('organization_id', '=', oneOf(organizations))
        .where('id', '=', oneOf(ids))
        .where('deleted_at', 'is', null)
        .where('service', '=', service)
        .where('state', '=', 'ready')
        .orderBy('id')
        .forShare()
        .execute()

/** Loads files in the order of the keys, including deleted ones. */
export const loadFiles = async (db: Db, keys: readonly Key[]): Promise<FileRow[]> => {
  if (keys.length === 0) return []
  const { tenants, ids } = sidesOf(keys)
  const rows = await db.q.selectFrom('files').selectAll().where('organization_id', '=', oneOf(tenants)).where('id', '=', oneOf(ids)).execute()
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

/**
 * Returns the total size of the organization's files, in bytes. Counts announced files, and deleted or refused files
 * that the sweep has not yet removed from the store. Locks the total until the transaction ends, so that concurrent
 * announcements cannot exceed the quota together.
 */
export const lockStoredBytes = async (tx: Tx, organization_id: string): Promise<number> => {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`bursar.storage.${organization_id}`}, 0))`.execute(tx.q)
  const { rows } = await sql<{ bytes: number }>`
    select coalesce(sum(size), 0)::bigint as bytes from files
    where organization_id = ${organization_id} and ((deleted_at is null and state <> 'refused') or due_at is not null)`.execute(tx.q)
  return rows[0]!.bytes
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

/** Saves the checksums that the client sent on completion, for parts that were announced without a checksum. */
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

/** Deletes the announced parts of a file after the file was verified, refused or removed from the store. */
export const dropParts = async (tx: Tx, { organization_id, id }: FileKey): Promise<void> => {
  await tx.q.deleteFrom('file_parts').where('organization_id', '=', organization_id).where('file_id', '=', id).execute()
}

/** Adds the files to a product that has no media, in the given order. */
export const insertMedias = async (tx: Tx, product: FileKey, medias: readonly string[]): Promise<void> => {
  if (medias.length === 0) return
  await sql`
    insert into product_medias (organization_id, product_id, file_id, position)
    select ${product.organization_id}, ${product.id}, l.id, l.place - 1 from unnest(${medias}::uuid[]) with ordinality l (id, place)`.execute(tx.q)
}

export const replaceMedias = async (tx: Tx, product: FileKey, medias: readonly string[]): Promise<void> => {
  await tx.q.deleteFrom('product_medias').where('organization_id', '=', product.organization_id).where('product_id', '=', product.id).execute()
  await insertMedias(tx, product, medias)
}

export const replaceBenefitFiles = async (
  tx: Tx,
  { organization_id, id }: FileKey,
  { files, archived }: { files: readonly string[]; archived: Readonly<Record<string, boolean>> },
): Promise<void> => {
  await tx.q.deleteFrom('benefit_files').where('organization_id', '=', organization_id).where('benefit_id', '=', id).execute()
  if (files.length === 0) return
  await sql`
    insert into benefit_files (organization_id, benefit_id, file_id, position, is_archived)
    select ${organization_id}, ${id}, l.id, l.place - 1, l.is_archived
    from unnest(${files}::uuid[], ${files.map((file_id) => archived[file_id] ?? false)}::boolean[]) with ordinality l (id, is_archived, place)`.execute(tx.q)
}

/** Returns the products that show a file. The caller has locked the file, so that no other product can add it. */
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

/** Returns the benefits that contain a file. The caller has locked the file, so that no other benefit can add it. */
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

/** Removes the file from a locked product. Returns false if the product no longer contained the file. */
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
