import { setImmediate } from 'node:timers/promises'
import {
  invalidAt,
  InvalidRequest,
  ResourceNotFound,
  StorageQuotaExceeded,
  type FileCreate,
  type FilePatch,
  type FileRead,
  type FileUpload,
  type FileUploadCompleted,
} from '@bursar/contract'
import type { z } from 'zod'
import { keySegment } from '../../../gateways/storage/keys.ts'
import { StorageRefusal, longestUpload, type Bucket, type Link, type Storage } from '../../../gateways/storage/storage.ts'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { hours, later, minutes } from '../../../platform/clock.ts'
import type { Config } from '../../../platform/config.ts'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { changeFile, holdFile, insertFile, keepChecksums, loadParts, lockFile, lockStoredBytes, readFile, type FileRow, type Part } from './files.sql.ts'
import { presentFileBase, presentFile } from './presenting.ts'
import { bucketOf, settle, verify } from './verifying.ts'

/** Time after which an incomplete upload is abandoned. */
const timeout = 24 * hours
/** Maximum size of a file that is verified within the completion request. The sweep verifies larger files. */
const atOnce = 64 * 1024 * 1024

type Announced = z.output<typeof FileCreate>
type Completed = z.output<typeof FileUploadCompleted>
export interface FileIntent extends Readonly<Record<string, string>> {
  readonly organization_id: string
  readonly id: string
}

/**
 * Creates the record of an announced file. The server chooses the path in the store. The URL of a public file is
 * therefore known before the object exists.
 */
export const begin = async (tx: Tx, scope: TenantScope, storage: Pick<Storage, 'public'>, body: Announced, limits: Config['files']): Promise<FileIntent> => {
  const organization_id = chooseOrganization(scope, body.organization_id ?? undefined)
  permit(scope, organization_id, 'products:manage')
  const { service } = body
  if (service === 'support_case_attachment')
    throw new InvalidRequest(
      invalidAt(['body', 'service'], 'This service has no support cases, so it accepts no attachments. Use another kind of file.', service),
    )
  await checkSize(tx, organization_id, body.size, limits)
  const wall = tx.clock.wall()
  const id = newId(wall)
  const path = `${service}/${organization_id}/${id}/${keySegment(body.name)}`
  const { checksum_sha256_base64 = null } = body
  await insertFile(
    tx,
    {
      ...unleased,
      clock_id: null,
      organization_id,
      id,
      created_at: tx.clock.wall(),
      modified_at: null,
      deleted_at: null,
      service,
      name: body.name,
      path,
      mime_type: body.mime_type,
      size: body.size,
      version: body.version ?? null,
      public_url: service === 'downloadable' ? null : storage.public.publicUrl(path),
      checksum_sha256_base64,
      checksum_sha256_hex: checksum_sha256_base64 && Buffer.from(checksum_sha256_base64, 'base64').toString('hex'),
      checksum_etag: null,
      storage_version: null,
      last_modified_at: null,
      upload_id: null,
      state: 'uploading',
      problem: null,
      due_at: later(wall, timeout),
    },
    body.upload.parts.map(({ number, chunk_start, chunk_end, checksum_sha256_base64: checksum = null }) => ({
      number,
      size: chunk_end - chunk_start,
      checksum_sha256_base64: checksum,
    })),
  )
  return { organization_id, id }
}

/** Rejects a file that exceeds the limits of this deployment: the size of one file, or of all files of the organization. */
const checkSize = async (tx: Tx, organization_id: string, size: number, { file_bytes, organization_bytes }: Config['files']): Promise<void> => {
  if (size > file_bytes)
    throw wrong(
      ['size'],
      `Received ${size} bytes; this deployment allows at most ${file_bytes} bytes for one file. Split the file, or ask the operator for a larger limit.`,
      size,
    )
  const used = await lockStoredBytes(tx, organization_id)
  if (used + size > organization_bytes)
    throw new StorageQuotaExceeded(
      `Received ${size} bytes; the organization uses ${used} of ${organization_bytes} bytes. Delete files, or ask the operator of this deployment for a larger quota.`,
    )
}

/**
 * Returns true if all parts have checksums. Stores accept checksums either for all parts or for none. If some are
 * missing, the given ones are checked only when the file is read back.
 */
const withChecksums = (parts: readonly Part[]): boolean => parts.every(({ checksum_sha256_base64 }) => checksum_sha256_base64 !== null)

/** Starts the multipart upload at the store and returns the URLs of its parts. A repeated call returns the same upload with new URLs. */
export const openUpload = async ({ db, transact, gateways }: Deps, key: FileIntent): Promise<FileUpload> => {
  const known = await readFile(db, key)
  // A retry may arrive long after the upload was completed or abandoned.
  if (known.deleted_at !== null || known.state !== 'uploading')
    throw new InvalidRequest(
      invalidAt(['header', 'idempotency-key'], 'The upload with this idempotency key is already finished. Announce the file with a new key.'),
    )
  const parts = await loadParts(db, key)
  const bucket = bucketOf(gateways.storage, known.service)
  const checksums = withChecksums(parts)
  const file = known.upload_id === null ? await named({ transact }, bucket, known, checksums) : known
  const { path, upload_id } = file
  const links: Link[] = []
  for (const { number, size, checksum_sha256_base64 } of parts) {
    // Signing the URLs of thousands of parts is CPU-bound, so the loop yields to other requests after every 50.
    if (number % 50 === 0) await setImmediate()
    links.push(
      await bucket.presignPart({
        key: path,
        upload_id: upload_id!,
        number,
        size,
        ...(checksums && checksum_sha256_base64 !== null ? { checksum_sha256_base64 } : {}),
        expires_in: longestUpload,
      }),
    )
  }
  let reached = 0
  return {
    ...presentFileBase(file),
    service: file.service,
    upload: {
      id: upload_id!,
      path,
      parts: parts.map(({ number, size, checksum_sha256_base64 }, at) => {
        const chunk_start = reached
        reached += size
        return { number, chunk_start, chunk_end: reached, checksum_sha256_base64, ...links[at]!, headers: { ...links[at]!.headers } }
      }),
    },
  }
}

/**
 * Starts the upload at the store and saves the upload id. If two requests start it concurrently, the first saved id
 * wins and the other upload is aborted.
 */
const named = async ({ transact }: Pick<Deps, 'transact'>, bucket: Bucket, file: FileRow, checksums: boolean): Promise<FileRow> => {
  const { organization_id, id, path, mime_type } = file
  const upload_id = await bucket.beginUpload({
    key: path,
    content_type: mime_type,
    metadata: { 'bursar-organization': organization_id, 'bursar-file': id },
    checksums,
  })
  const after = await transact(async (tx) => {
    const held = await holdFile(tx, file)
    if (held.deleted_at !== null || held.upload_id !== null) return held
    return changeFile(tx, held, { upload_id })
  })
  if (after.upload_id !== upload_id) await bucket.abortUpload({ key: path, upload_id })
  if (after.deleted_at !== null) throw new ResourceNotFound()
  return after
}

const wrong = (loc: (string | number)[], msg: string, input?: unknown) => new InvalidRequest(invalidAt(['body', ...loc], msg, input))

/** Rejects a completion whose upload id or path differs from the stored ones. Later calls to the store use the stored values. */
export const beginCompletion = async (tx: Tx, scope: TenantScope, id: string, body: Completed): Promise<FileIntent> => {
  const file = await requireLockedFile(tx, scope, id)
  if (file.upload_id === null || body.id !== file.upload_id)
    throw wrong(['id'], 'This upload does not belong to this file. Send upload.id from the answer to the announcement.', body.id)
  if (body.path !== file.path) throw wrong(['path'], 'This path does not belong to this file. Send upload.path from the answer to the announcement.', body.path)
  if (file.state === 'uploading') {
    const announced = await loadParts(tx, file)
    if (body.parts.length !== announced.length) throw wrong(['parts'], `Received ${body.parts.length} parts; the file was announced with ${announced.length}.`)
    for (const [at, { number, checksum_sha256_base64 }] of body.parts.entries()) {
      const said = announced[number - 1]?.checksum_sha256_base64 ?? null
      if (said !== null && checksum_sha256_base64 && checksum_sha256_base64 !== said)
        throw wrong(['parts', at, 'checksum_sha256_base64'], `Part ${number} was announced with the SHA-256 ${said}.`, checksum_sha256_base64)
    }
  }
  return { organization_id: file.organization_id, id: file.id }
}

/** Completes the upload, verifies the file and returns it. For a large file, the sweep does the verification later. */
export const complete = async (deps: Deps, key: FileIntent, body: Completed): Promise<FileRead> => {
  const file = await arrive(deps, await readFile(deps.db, key), body)
  if (file.state === 'verifying' && file.size <= atOnce) {
    const found = await verify(deps, file)
    return answer(await deps.transact(async (tx) => settle(tx, await holdFile(tx, key), found)))
  }
  return answer(file)
}

const answer = (file: FileRow): FileRead => {
  if (file.deleted_at !== null) throw new ResourceNotFound()
  if (file.state === 'refused') throw wrong(['parts'], `${file.problem!} Announce and upload the file again.`)
  return presentFile(file)
}

/** Assembles the parts into an object. Idempotent: the store gives the same answer for the same parts. */
const arrive = async ({ db, transact, gateways }: Deps, file: FileRow, body: Completed): Promise<FileRow> => {
  if (file.state !== 'uploading' || file.deleted_at !== null) return file
  const announced = await loadParts(db, file)
  const checksums = withChecksums(announced)
  const parts = body.parts.toSorted((a, b) => a.number - b.number)
  const stored = await bucketOf(gateways.storage, file.service)
    .completeUpload({
      key: file.path,
      upload_id: file.upload_id!,
      parts: parts.map(({ number, checksum_etag }, at) => ({
        number,
        etag: checksum_etag,
        checksum_sha256_base64: checksums ? announced[at]!.checksum_sha256_base64 : null,
      })),
    })
    .catch((error: unknown) => {
      if (!(error instanceof StorageRefusal)) throw error
      if (error.code === 'wrong_part') throw wrong(['parts'], error.message)
      if (error.code === 'no_such_upload') throw wrong(['id'], 'The upload is no longer open. Announce and upload the file again.', body.id)
      throw error
    })
  return transact(async (tx) => {
    const held = await holdFile(tx, file)
    const wall = tx.clock.wall()
    // The file was deleted or abandoned meanwhile. Schedules the sweep again, so that it removes the new object too.
    if (held.deleted_at !== null) return changeFile(tx, held, { due_at: wall })
    if (held.state !== 'uploading') return held
    await keepChecksums(
      tx,
      file,
      parts.map(({ number, checksum_sha256_base64 = null }) => ({ number, checksum_sha256_base64 })),
    )
    return changeFile(tx, held, {
      state: 'verifying',
      checksum_etag: stored.etag,
      storage_version: stored.version,
      last_modified_at: stored.last_modified_at,
      // A small file is verified in this request. The sweep verifies it only if this request has crashed.
      due_at: file.size <= atOnce ? later(wall, 2 * minutes) : wall,
    })
  })
}

export const updateFile = async (tx: Tx, scope: TenantScope, id: string, { name, version }: z.output<typeof FilePatch>): Promise<FileRow> => {
  const file = await requireLockedFile(tx, scope, id)
  if (!name && !version) return file
  return changeFile(tx, file, { modified_at: tx.clock.wall(), ...(name ? { name } : {}), ...(version ? { version } : {}) })
}

export const requireLockedFile = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<FileRow>> => {
  const file = await lockFile(tx, scope, id)
  if (!file) throw new ResourceNotFound()
  permit(scope, file.organization_id, 'products:manage')
  return file
}
