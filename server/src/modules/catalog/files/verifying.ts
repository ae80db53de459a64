import { measure } from '../../../gateways/storage/streams.ts'
import { StorageRefusal, type Bucket, type Storage } from '../../../gateways/storage/storage.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { changeFile, dropParts, loadParts, type FileRow, type Service } from './files.sql.ts'
import { typeOf } from '../../../kernel/pictures.ts'

/** Returns the bucket of a file type. Downloadable files are private and need a presigned URL. All other files are public. */
export const bucketOf = (storage: Storage, service: Service): Bucket => (service === 'downloadable' ? storage.private : storage.public)

/** Result of reading a file back: its SHA-256, or the reason why it differs from its announcement. */
export type Finding = { readonly sha256: Buffer } | { readonly problem: string }

const text = (digest: Buffer): string => digest.toString('base64')

/**
 * Reads a file completely and compares it with its announcement: its size, the SHA-256 of the whole and of each part,
 * and the type of images. Streams the file, so memory use does not depend on its size. Calls `alive` for each chunk,
 * so that the caller can extend its lease.
 */
export const verify = async ({ db, gateways }: Pick<Deps, 'db' | 'gateways'>, file: FileRow, alive: () => void = () => undefined): Promise<Finding> => {
  const parts = await loadParts(db, file)
  const bytes = await open(gateways.storage, file)
  if (!bytes) return { problem: 'The storage has no data for this file.' }
  const {
    size,
    sha256,
    parts: found,
    beginning,
  } = await measure(
    watched(bytes, alive),
    parts.map((part) => part.size),
  )
  if (size !== file.size) return { problem: `The file was announced with ${file.size} bytes, but has ${size}.` }
  const declared = file.checksum_sha256_base64
  if (declared !== null && text(sha256) !== declared) return { problem: `The file was announced with the SHA-256 ${declared}, but has ${text(sha256)}.` }
  for (const [at, { number, checksum_sha256_base64 }] of parts.entries())
    if (checksum_sha256_base64 !== null && text(found[at]!) !== checksum_sha256_base64)
      return { problem: `Part ${number} was announced with the SHA-256 ${checksum_sha256_base64}, but has ${text(found[at]!)}.` }
  const type = typeOf(beginning)
  // Downloadable files may have any type, because they are only served as attachments. Public files must match their announced type.
  if (file.service !== 'downloadable' && type !== file.mime_type)
    return { problem: `The file was announced as ${file.mime_type}, but ${type === null ? 'is not an image of a supported format' : `is ${type}`}.` }
  return { sha256 }
}

const open = async (storage: Storage, { service, path }: FileRow) => {
  try {
    return await bucketOf(storage, service).read(path)
  } catch (error) {
    if (error instanceof StorageRefusal && error.code === 'absent') return undefined
    throw error
  }
}

async function* watched(bytes: AsyncIterable<Buffer>, alive: () => void) {
  for await (const chunk of bytes) {
    alive()
    yield chunk
  }
}

/** Saves the result of the verification: the file becomes ready or refused. The sweep removes a refused file from the store. */
export const settle = async (tx: Tx, file: Locked<FileRow>, found: Finding): Promise<FileRow> => {
  if (file.state !== 'verifying' || file.deleted_at !== null) return file
  await dropParts(tx, file)
  if ('problem' in found) return changeFile(tx, file, { state: 'refused', problem: found.problem, due_at: tx.clock.wall() })
  return changeFile(tx, file, {
    state: 'ready',
    checksum_sha256_base64: text(found.sha256),
    checksum_sha256_hex: found.sha256.toString('hex'),
    due_at: null,
  })
}
