import { setImmediate } from 'node:timers/promises'
import {
  invalidAt,
  InvalidRequest,
  ResourceNotFound,
  type FileCreate,
  type FilePatch,
  type FileRead,
  type FileUpload,
  type FileUploadCompleted,
} from '@bursar/contract'
import type { z } from 'zod'
import { keySegment } from '../../../gateways/storage/keys.ts'
import { StorageRefusal, longestUpload, type Bucket, type Link, type Storage } from '../../../gateways/storage/storage.ts'
import type { Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { hours, later, minutes } from '../../../platform/clock.ts'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means } from '../../handlers.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { changeFile, holdFile, insertFile, keepChecksums, loadParts, lockFile, readFile, type FileRow, type Part } from './files.sql.ts'
import { commonOf, present } from './presenting.ts'
import { bucketOf, settle, verify } from './verifying.ts'

/** An upload that is not completed by then is given up. */
const patience = 24 * hours
/** Up to this size a file is read back while its sender waits. */
const atOnce = 64 * 1024 * 1024

type Announced = z.output<typeof FileCreate>
type Completed = z.output<typeof FileUploadCompleted>
export interface FileIntent extends Readonly<Record<string, string>> {
  readonly organization_id: string
  readonly id: string
}

/** The address of what anybody may see follows from where it is kept, and that is ours to choose: it is known before anything is there. */
export const begin = async (tx: Tx, reach: Reach, storage: Pick<Storage, 'public'>, body: Announced): Promise<FileIntent> => {
  const organization_id = chooseOrganization(reach, body.organization_id ?? undefined)
  permit(reach, organization_id, 'products:manage')
  const { service } = body
  if (service === 'support_case_attachment')
    throw new InvalidRequest(invalidAt(['body', 'service'], 'There are no support cases here, and so no attachments: send another kind of file.', service))
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
      created_at: tx.clock.business(),
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
      due_at: later(wall, patience),
    },
    body.upload.parts.map(({ number, chunk_start, chunk_end, checksum_sha256_base64: checksum = null }) => ({
      number,
      size: chunk_end - chunk_start,
      checksum_sha256_base64: checksum,
    })),
  )
  return { organization_id, id }
}

/** Stores take the checksums of all parts or of none. What they do not check is checked when the file is read back. */
const withChecksums = (parts: readonly Part[]): boolean => parts.every(({ checksum_sha256_base64 }) => checksum_sha256_base64 !== null)

/** Opens the upload at the store and says where its parts go. Asked again, the same upload has new addresses. */
export const openUpload = async ({ db, transact, gateways }: Means, key: FileIntent): Promise<FileUpload> => {
  const known = await readFile(db, key)
  // Whoever goes on with it long after it was begun.
  if (known.deleted_at !== null || known.state !== 'uploading')
    throw new InvalidRequest(
      invalidAt(['header', 'idempotency-key'], 'The file that was announced with this key is past its upload: announce it with a new key.'),
    )
  const parts = await loadParts(db, key)
  const bucket = bucketOf(gateways.storage, known.service)
  const checksums = withChecksums(parts)
  const file = known.upload_id === null ? await named({ transact }, bucket, known, checksums) : known
  const { path, upload_id } = file
  const links: Link[] = []
  for (const { number, size, checksum_sha256_base64 } of parts) {
    // Thousands are signed without anything to wait for: others have their turn in between.
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
    ...commonOf(file),
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

/** The name of the upload is kept before anybody hears it. Two who open it at once agree on the first; the sweep ends the other. */
const named = async ({ transact }: Pick<Means, 'transact'>, bucket: Bucket, file: FileRow, checksums: boolean): Promise<FileRow> => {
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

/**
 * Whoever reports an upload as complete names it as we answered it: what is done from here on is done to our own upload
 * under our own path, and never to one that a client names.
 */
export const beginCompletion = async (tx: Tx, reach: Reach, id: string, body: Completed): Promise<FileIntent> => {
  const file = await hold(tx, reach, id)
  if (file.upload_id === null || body.id !== file.upload_id)
    throw wrong(['id'], 'This is not the upload of this file: send upload.id as it was answered when the file was announced.', body.id)
  if (body.path !== file.path)
    throw wrong(['path'], 'This is not the path of this file: send upload.path as it was answered when the file was announced.', body.path)
  if (file.state === 'uploading') {
    const announced = await loadParts(tx, file)
    if (body.parts.length !== announced.length) throw wrong(['parts'], `Received ${body.parts.length} parts; the file was announced in ${announced.length}.`)
    for (const [at, { number, checksum_sha256_base64 }] of body.parts.entries()) {
      const said = announced[number - 1]?.checksum_sha256_base64 ?? null
      if (said !== null && checksum_sha256_base64 && checksum_sha256_base64 !== said)
        throw wrong(['parts', at, 'checksum_sha256_base64'], `Part ${number} was announced with the SHA-256 ${said}.`, checksum_sha256_base64)
    }
  }
  return { organization_id: file.organization_id, id: file.id }
}

/** Makes the file of its parts, reads it back, and says what came of it; one that is large is read back by the sweep. */
export const complete = async (means: Means, key: FileIntent, body: Completed): Promise<FileRead> => {
  const file = await arrive(means, await readFile(means.db, key), body)
  if (file.state === 'verifying' && file.size <= atOnce) {
    const found = await verify(means, file)
    return answer(await means.transact(async (tx) => settle(tx, await holdFile(tx, key), found)))
  }
  return answer(file)
}

const answer = (file: FileRow): FileRead => {
  if (file.deleted_at !== null) throw new ResourceNotFound()
  if (file.state === 'refused') throw wrong(['parts'], `${file.problem!} Announce the file again, and send it anew.`)
  return present(file)
}

/** The parts become an object. Done twice, it is done once: the store answers the same to the same parts. */
const arrive = async ({ db, transact, gateways }: Means, file: FileRow, body: Completed): Promise<FileRow> => {
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
      if (error.code === 'no_such_upload') throw wrong(['id'], 'The upload is not open any more: announce the file again, and send it anew.', body.id)
      throw error
    })
  return transact(async (tx) => {
    const held = await holdFile(tx, file)
    const wall = tx.clock.wall()
    // Deleted or given up meanwhile: whatever has just appeared is removed as well.
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
      // Where its sender waits, the sweep goes on only if whoever reads it back is stopped.
      due_at: file.size <= atOnce ? later(wall, 2 * minutes) : wall,
    })
  })
}

export const update = async (tx: Tx, reach: Reach, id: string, { name, version }: z.output<typeof FilePatch>): Promise<FileRow> => {
  const file = await hold(tx, reach, id)
  if (!name && !version) return file
  return changeFile(tx, file, { modified_at: tx.clock.business(), ...(name ? { name } : {}), ...(version ? { version } : {}) })
}

export const hold = async (tx: Tx, reach: Reach, id: string): Promise<Locked<FileRow>> => {
  const file = await lockFile(tx, reach, id)
  if (!file) throw new ResourceNotFound()
  permit(reach, file.organization_id, 'products:manage')
  return file
}
