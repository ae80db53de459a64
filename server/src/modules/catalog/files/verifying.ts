import { measure } from '../../../gateways/storage/streams.ts'
import { StorageRefusal, type Bucket, type Storage } from '../../../gateways/storage/storage.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means } from '../../handlers.ts'
import { changeFile, dropParts, loadParts, type FileRow, type Service } from './files.sql.ts'
import { typeOf } from './sniffing.ts'

/** Where a file of this kind is kept: what is sold opens by a link alone, what is shown is there for everybody. */
export const bucketOf = (storage: Storage, service: Service): Bucket => (service === 'downloadable' ? storage.private : storage.public)

/** What was found when a file was read back: its SHA-256, or why it is not what it was said to be. */
export type Finding = { readonly sha256: Buffer } | { readonly problem: string }

const text = (digest: Buffer): string => digest.toString('base64')

/**
 * Reads what arrived, from its first byte to its last, and holds it against what was announced: its size, the SHA-256 of
 * the whole and of each part, and of pictures their type. In memory that does not grow with the file. `alive` is called
 * as the bytes go by.
 */
export const verify = async ({ db, gateways }: Pick<Means, 'db' | 'gateways'>, file: FileRow, alive: () => void = () => undefined): Promise<Finding> => {
  const parts = await loadParts(db, file)
  const bytes = await open(gateways.storage, file)
  if (!bytes) return { problem: 'Nothing of it is in the store.' }
  const {
    size,
    sha256,
    parts: found,
    beginning,
  } = await measure(
    watched(bytes, alive),
    parts.map((part) => part.size),
  )
  if (size !== file.size) return { problem: `It was announced with ${file.size} bytes, and has ${size}.` }
  const declared = file.checksum_sha256_base64
  if (declared !== null && text(sha256) !== declared) return { problem: `It was announced with the SHA-256 ${declared}, and has ${text(sha256)}.` }
  for (const [at, { number, checksum_sha256_base64 }] of parts.entries())
    if (checksum_sha256_base64 !== null && text(found[at]!) !== checksum_sha256_base64)
      return { problem: `Part ${number} was announced with the SHA-256 ${checksum_sha256_base64}, and has ${text(found[at]!)}.` }
  const type = typeOf(beginning)
  // What is sold may be of any type, and is only ever saved; what is shown to everybody is what it says it is.
  if (file.service !== 'downloadable' && type !== file.mime_type)
    return { problem: `It was announced as ${file.mime_type}, and ${type === null ? 'does not begin like a picture that is shown here' : `is ${type}`}.` }
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

/** Writes down what was found. A file is ready only after this; one that is refused is removed from the store by the sweep. */
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
