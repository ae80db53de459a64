import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, readdir, readFile, rename, rm, rmdir, stat, unlink, writeFile, type FileHandle } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { randomText } from '../../kernel/secrets.ts'
import { days, later, seconds, type Clock } from '../../platform/clock.ts'
import { bare, checkLimit, checkMetadata, checkParts, checkRange, checkType, etagOfParts } from './checks.ts'
import { checkKey, checkPrefix } from './keys.ts'
import type { OpenObject, PartWriter } from './serve.ts'
import {
  largestPart,
  LinkRefused,
  smallestPart,
  StorageRefusal,
  StorageSilent,
  type Bucket,
  type ListedObject,
  type OpenUpload,
  type StoredObject,
  type UploadedPart,
} from './storage.ts'
import { wholeOf } from './streams.ts'

const block = 4096
interface Upload {
  readonly key: string
  readonly content_type: string
  readonly metadata: Readonly<Record<string, string>>
  readonly began_at: string
}

const isMissing = (error: unknown): boolean => ['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')
const missing = (error: unknown): undefined => {
  if (isMissing(error)) return undefined
  throw error
}

/** Maps an error of the file system to a `StorageRefusal` that the operator must fix, or to the temporary failure `StorageSilent`. */
const told = (what: string, error: unknown): unknown => {
  if (error instanceof StorageRefusal || error instanceof StorageSilent || error instanceof LinkRefused) return error
  const { code = '', errno } = error as NodeJS.ErrnoException
  if (['EACCES', 'EPERM', 'EROFS'].includes(code)) return new StorageRefusal('misconfigured', `The storage folder cannot be used (${code}).`, { cause: error })
  return errno === undefined ? error : new StorageSilent(`${what}: ${code}`, { cause: error })
}

const guarded =
  <A extends unknown[], R>(what: string, work: (...args: A) => Promise<R>) =>
  async (...args: A): Promise<R> => {
    try {
      return await work(...args)
    } catch (error) {
      throw told(what, error)
    }
  }

/** Opens the objects and open uploads of one bucket, in a folder. */
export const openShelf = (root: string, clock: Clock) => {
  const objects = join(root, 'objects')
  const uploads = join(root, 'uploads')
  const temporary = join(root, 'temporary')
  // Files have a suffix that folders cannot have. One key may be a prefix of another, so a file and a folder may have
  // the same name otherwise.
  const fileOf = (key: string) => join(objects, `${checkKey(key)}=`)
  const scratch = async () => {
    await mkdir(temporary, { recursive: true })
    return join(temporary, randomText(24, letters))
  }

  const openObject = async (key: string): Promise<OpenObject | undefined> => {
    const file = await open(fileOf(key)).catch(missing)
    if (!file) return undefined
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(block), 0, block, 0)
      const { last_modified_at, ...rest } = JSON.parse(buffer.toString('utf8', 0, bytesRead)) as Omit<StoredObject, 'last_modified_at'> & {
        last_modified_at: string
      }
      const stored = { ...rest, last_modified_at: new Date(last_modified_at) }
      return { stored, read: (start, end) => readFrom(file, stored.size, start, end), close: () => file.close() }
    } catch (error) {
      await file.close()
      throw error
    }
  }

  const head = async (key: string): Promise<StoredObject | undefined> => {
    const found = await openObject(key)
    await found?.close()
    return found?.stored
  }

  /** Finds the folder of an open upload. Undefined if the upload does not exist or belongs to another key. */
  const findUpload = async (key: string, upload_id: string): Promise<(Upload & { path: string }) | undefined> => {
    if (!/^[0-9a-z]{32}$/.test(upload_id)) return undefined
    const path = join(uploads, upload_id)
    const text = await readFile(join(path, 'upload.json'), 'utf8').catch(missing)
    const upload = text === undefined ? undefined : (JSON.parse(text) as Upload)
    return upload?.key === key ? { ...upload, path } : undefined
  }

  /** Removes a folder atomically by renaming it, so that concurrent writers fail. Deletes its contents afterwards. */
  const discard = async (path: string): Promise<void> => {
    const away = await scratch()
    await rename(path, away).catch(missing)
    await rm(away, { recursive: true, force: true })
  }

  /** Moves a finished file to its final name and syncs the folder, so that it survives a power failure. */
  const publish = async (from: string, to: string): Promise<void> => {
    for (let tries = 0; ; tries++)
      try {
        await mkdir(dirname(to), { recursive: true })
        await rename(from, to)
        break
      } catch (error) {
        // Retries, because a concurrent deletion may have removed the empty folder between its creation and the rename.
        if (!isMissing(error) || tries === 5) throw error
      }
    const parent = await open(dirname(to))
    try {
      await parent.sync()
    } finally {
      await parent.close()
    }
  }

  const writePart: PartWriter = async ({ key, upload_id, number, size, checksum_sha256_base64 }, body) => {
    const upload = await findUpload(key, upload_id)
    if (!upload) throw noUpload()
    const at = join(upload.path, `new-${randomText(24, letters)}`)
    try {
      const { written, md5, sha256 } = await writeDown(body, at, size)
      if (size !== null && written !== size) throw new LinkRefused('wrong_body', `The part has ${written} bytes, but was announced with ${size}.`)
      if (checksum_sha256_base64 !== null && sha256 !== checksum_sha256_base64)
        throw new LinkRefused('wrong_body', `The SHA-256 of the part is ${sha256}, but was announced as ${checksum_sha256_base64}.`)
      const kept = partName(number, md5)
      const before = (await readdir(upload.path)).filter((file) => file.startsWith(partName(number, '')) && file !== kept)
      await rename(at, join(upload.path, kept))
      for (const file of before) await unlink(join(upload.path, file)).catch(missing)
      return md5
    } catch (error) {
      await unlink(at).catch(() => undefined)
      throw isMissing(error) ? noUpload() : error
    }
  }

  const completeUpload: Bucket['completeUpload'] = async ({ key, upload_id, parts }) => {
    checkParts(parts)
    const upload = await findUpload(key, upload_id)
    try {
      if (upload) return await compose(upload, parts)
    } catch (error) {
      // The part may be missing because a concurrent call has completed or aborted the whole upload.
      if (!(isMissing(error) || error instanceof StorageRefusal) || (await findUpload(key, upload_id))) throw error
    }
    // An earlier call may have completed the upload although its response was lost. Then the object has the etag of these parts.
    const there = await head(key)
    if (there?.etag === etagOfParts(parts)) return there
    throw new StorageRefusal('no_such_upload', 'This file has no open upload with this id. It was completed, aborted, or belongs to another file.')
  }

  const compose = async (upload: Upload & { path: string }, parts: readonly UploadedPart[]): Promise<StoredObject> => {
    const came = new Set((await readdir(upload.path)).flatMap((file) => /^(\d{5})-/.exec(file)?.slice(1, 2) ?? []))
    if (came.size > parts.length) throw new StorageRefusal('wrong_part', `${came.size} parts were uploaded, but ${parts.length} are listed. List all of them.`)
    const files = await Promise.all(
      parts.map(async ({ number, etag }, at) => {
        const file = join(upload.path, partName(number, bare(etag)))
        const found = await stat(file).catch(missing)
        if (!found) throw new StorageRefusal('wrong_part', `Part ${number} was not uploaded with the etag ${bare(etag)}.`)
        if (at < parts.length - 1 && found.size < smallestPart)
          throw new StorageRefusal('wrong_part', `Part ${number} has ${found.size} bytes. Every part except the last has at least ${smallestPart}.`)
        return { file, size: found.size }
      }),
    )
    const stored = {
      etag: etagOfParts(parts),
      version: null,
      size: files.reduce((sum, { size }) => sum + size, 0),
      last_modified_at: clock.wall(),
      content_type: upload.content_type,
      metadata: upload.metadata,
    }
    const [whole, spent] = [await scratch(), await scratch()]
    const out = await open(whole, 'wx')
    try {
      await out.writeFile(header(stored))
      for (const [at, { file }] of files.entries()) await append(out, file, parts[at]!)
      await out.sync()
      await out.close()
      // The rename of the upload folder decides which concurrent call creates the object. The files of the others are
      // discarded.
      await rename(upload.path, spent)
      await publish(whole, fileOf(upload.key))
    } catch (error) {
      await out.close().catch(() => undefined)
      await unlink(whole).catch(() => undefined)
      throw error
    }
    await rm(spent, { recursive: true, force: true })
    return stored
  }

  const removeEmpty = async (path: string): Promise<void> => {
    if (path === objects) return
    try {
      await rmdir(path)
    } catch {
      return // Stops at a folder that is not empty or was already removed.
    }
    await removeEmpty(dirname(path))
  }

  /** Yields the keys with this prefix after `after`, in order. */
  const walk = async function* (path: string, before: string, prefix: string, after: string): AsyncGenerator<string> {
    const entries = await readdir(path, { withFileTypes: true }).catch(missing)
    const names = (entries ?? []).map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name.replace(/=$/, '')))
    for (const name of names.toSorted((a, b) => (a < b ? -1 : 1))) {
      const key = `${before}${name}`
      if (name.endsWith('/')) {
        if ((key.startsWith(prefix) || prefix.startsWith(key)) && (key > after || after.startsWith(key))) yield* walk(join(path, name), key, prefix, after)
      } else if (key.startsWith(prefix) && key > after) yield key
    }
  }

  const listOpen = async (prefix: string): Promise<OpenUpload[]> => {
    const found: OpenUpload[] = []
    for (const upload_id of (await readdir(uploads).catch(missing)) ?? []) {
      const text = await readFile(join(uploads, upload_id, 'upload.json'), 'utf8').catch(missing)
      const { key, began_at } = text === undefined ? { key: undefined, began_at: '' } : (JSON.parse(text) as Upload)
      if (key?.startsWith(prefix)) found.push({ key, upload_id, began_at: new Date(began_at) })
    }
    return found
  }

  return {
    openObject: guarded('openObject', openObject),
    writePart: guarded('writePart', writePart),
    beginUpload: guarded('beginUpload', async ({ key, content_type, metadata }: Parameters<Bucket['beginUpload']>[0]) => {
      checkMetadata(metadata)
      checkType(content_type)
      const upload_id = randomText(32, letters)
      const upload: Upload = { key: checkKey(key), content_type, metadata, began_at: clock.wall().toISOString() }
      const made = await scratch()
      await mkdir(made)
      await writeFile(join(made, 'upload.json'), JSON.stringify(upload))
      await mkdir(uploads, { recursive: true })
      await rename(made, join(uploads, upload_id))
      return upload_id
    }),
    completeUpload: guarded('completeUpload', completeUpload),
    abortUpload: guarded('abortUpload', async ({ key, upload_id }: Parameters<Bucket['abortUpload']>[0]) => {
      const upload = await findUpload(checkKey(key), upload_id)
      if (upload) await discard(upload.path)
    }),
    put: guarded('put', async ({ key, content_type, bytes }: Parameters<Bucket['put']>[0]) => {
      checkType(content_type)
      const md5 = createHash('md5').update(bytes).digest('hex')
      const stored = { etag: md5, version: null, size: bytes.length, last_modified_at: clock.wall(), content_type, metadata: {} }
      const [to, whole] = [fileOf(key), await scratch()]
      const out = await open(whole, 'wx')
      try {
        await out.writeFile(header(stored))
        await out.writeFile(bytes)
        await out.sync()
      } finally {
        await out.close()
      }
      await publish(whole, to)
    }),
    head: guarded('head', head),
    read: guarded('read', async (key: string, range: { readonly start?: number; readonly end?: number } = {}) => {
      checkRange(range)
      const found = await openObject(key)
      if (!found) throw new StorageRefusal('absent', 'There is no object with this key.')
      return found.read(range.start ?? 0, range.end ?? found.stored.size - 1)
    }),
    delete: guarded('delete', async (key: string) => {
      const file = fileOf(key)
      await unlink(file).catch(missing)
      await removeEmpty(dirname(file))
    }),
    list: guarded('list', async ({ prefix, after = '', limit }: Parameters<Bucket['list']>[0]) => {
      checkLimit(limit)
      const found: ListedObject[] = []
      let more = false
      for await (const key of walk(objects, '', checkPrefix(prefix), after)) {
        if ((more = found.length === limit)) break
        const stored = await head(key)
        if (stored) found.push({ key, size: stored.size, last_modified_at: stored.last_modified_at })
      }
      return { objects: found, next: more ? found.at(-1)!.key : null }
    }),
    listUploads: guarded('listUploads', async ({ prefix, after = '', limit }: Parameters<Bucket['listUploads']>[0]) => {
      checkLimit(limit)
      const place = ({ key, upload_id }: OpenUpload) => `${key}\n${upload_id}`
      const found = (await listOpen(checkPrefix(prefix))).filter((one) => place(one) > after).toSorted((a, b) => (place(a) < place(b) ? -1 : 1))
      return { uploads: found.slice(0, limit), next: found.length > limit ? place(found[limit - 1]!) : null }
    }),
    /** Removes temporary files of crashed processes. */
    tidy: async () => {
      for (const file of (await readdir(temporary).catch(missing)) ?? []) {
        const path = join(temporary, file)
        const found = await stat(path).catch(missing)
        if (found && found.mtime < later(clock.wall(), -1 * days)) await rm(path, { recursive: true, force: true })
      }
    },
  }
}

const partName = (number: number, md5: string): string => `${String(number).padStart(5, '0')}-${md5}`
const letters = '0123456789abcdefghijklmnopqrstuvwxyz'
const noUpload = () => new LinkRefused('absent', 'The upload of this part was completed or aborted. Start a new upload.')

const header = (stored: StoredObject): Buffer => {
  const text = Buffer.from(JSON.stringify(stored))
  if (text.length >= block) throw new RangeError('the metadata of an object has at most 4 KiB')
  return Buffer.concat([text, Buffer.alloc(block - 1 - text.length, ' '), Buffer.from('\n')])
}

/** Streams a byte range of an open object. The file is closed when the stream ends. A range that exceeds the object stops at its end. */
const readFrom = async (file: FileHandle, size: number, start: number, end: number): Promise<Readable> => {
  const last = Math.min(end, size - 1)
  const empty = size === 0 && start === 0 && end === -1
  if (empty || start < 0 || start > last) await file.close()
  if (empty) return Readable.from([])
  if (start < 0 || start > last) throw new StorageRefusal('out_of_range', `The object has ${size} bytes, but the requested range is ${start} to ${end}.`)
  return wholeOf(file.createReadStream({ start: block + start, end: block + last }), last - start + 1, 30 * seconds)
}

/**
 * Writes the body of an uploaded part to a new file. Returns its length and checksums. Throws `LinkRefused` if the body
 * is longer than `size` or ends early.
 */
const writeDown = async (body: Readable, path: string, size: number | null) => {
  const most = size ?? largestPart
  const md5 = createHash('md5')
  const sha256 = createHash('sha256')
  let written = 0
  const file = await open(path, 'wx')
  try {
    // Does not destroy the request on an early exit, so that the error response can still be sent.
    for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      written += chunk.length
      if (written > most) throw new LinkRefused('too_large', `The part has more than the allowed ${most} bytes.`)
      md5.update(chunk)
      sha256.update(chunk)
      await file.writeFile(chunk)
    }
  } catch (error) {
    if (error instanceof LinkRefused || (error as NodeJS.ErrnoException).syscall === 'write') throw error
    throw new LinkRefused('wrong_body', `The upload of the part ended early, after ${written} bytes.`)
  } finally {
    await file.close()
  }
  return { written, md5: md5.digest('hex'), sha256: sha256.digest('base64') }
}

/** Appends a part to the object and verifies its checksums. */
const append = async (out: FileHandle, path: string, { number, etag, checksum_sha256_base64 }: UploadedPart) => {
  const md5 = createHash('md5')
  const sha256 = createHash('sha256')
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 }) as AsyncIterable<Buffer>) {
    md5.update(chunk)
    if (checksum_sha256_base64 !== null) sha256.update(chunk)
    await out.writeFile(chunk)
  }
  if (md5.digest('hex') !== bare(etag)) throw new StorageRefusal('wrong_part', `Part ${number} has changed since its upload. Upload it again.`)
  if (checksum_sha256_base64 !== null && sha256.digest('base64') !== checksum_sha256_base64)
    throw new StorageRefusal('wrong_part', `Part ${number} does not match its announced SHA-256.`)
}
