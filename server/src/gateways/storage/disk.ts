import { join } from 'node:path'
import { later, seconds, type Clock } from '../../platform/clock.ts'
import { checkLife, checkPart, checkType } from './checks.ts'
import { checkKey } from './keys.ts'
import { pathOf, signLink, type BucketName, type LinkKeys } from './links.ts'
import { serveLinks } from './serve.ts'
import { openShelf } from './local-store.ts'
import { longestDownload, longestUpload, type Bucket, type Storage } from './storage.ts'

interface DiskOptions {
  /** Root folder of all objects. All its subfolders must be on one file system, because changes are made atomic by renames. */
  readonly folder: string
  /** Public URL of this server, which serves the links. */
  readonly url: URL
  readonly keys: LinkKeys
  readonly clock: Clock
}

/**
 * Stores objects in a folder. An object is one file: a metadata block, then its bytes. An object is therefore created,
 * replaced and deleted atomically, and open readers can finish. An upload is a folder of parts.
 */
export const openDisk = ({ folder, url, keys, clock }: DiskOptions): Storage => {
  const shelves = { private: openShelf(join(folder, 'private'), clock), public: openShelf(join(folder, 'public'), clock) }
  for (const one of Object.values(shelves)) one.tidy().catch(() => undefined) // Errors are ignored: temporary files that remain are removed at the next start.

  const address = (path: string) => new URL(path, url).href
  const bucket = (name: BucketName): Bucket => {
    const { tidy: _, writePart: __, openObject: ___, ...rest } = shelves[name]
    return {
      ...rest,
      presignPart: async ({ key, upload_id, number, size, checksum_sha256_base64, expires_in }) => {
        checkKey(key)
        checkPart({ number, size })
        checkLife(expires_in, longestUpload)
        const expires_at = endOf(clock, expires_in)
        const use = { method: 'PUT', bucket: name, key, upload_id, number, size: size ?? null, checksum_sha256_base64: checksum_sha256_base64 ?? null } as const
        return {
          url: address(signLink(keys, use, expires_at)),
          headers: checksum_sha256_base64 === undefined ? {} : { 'x-amz-checksum-sha256': checksum_sha256_base64, 'x-amz-sdk-checksum-algorithm': 'SHA256' },
          expires_at,
        }
      },
      presignDownload: async ({ key, name: as, content_type = 'application/octet-stream', expires_in }) => {
        checkKey(key)
        checkLife(expires_in, longestDownload)
        checkType(content_type)
        const expires_at = endOf(clock, expires_in)
        return { url: address(signLink(keys, { method: 'GET', bucket: name, key, name: as, content_type }, expires_at)), headers: {}, expires_at }
      },
    }
  }
  return {
    private: bucket('private'),
    public: { ...bucket('public'), publicUrl: (key) => address(pathOf('public', checkKey(key))) },
    serve: serveLinks({
      keys,
      clock,
      openObject: (name, key) => shelves[name].openObject(key),
      writePart: (use, body) => shelves[use.bucket].writePart(use, body),
    }),
    close: () => undefined,
  }
}

/** Returns the time at which a link expires, in whole seconds, because links contain seconds. */
const endOf = (clock: Clock, expires_in: number): Date => later(new Date(Math.floor(clock.wall().getTime() / 1000) * 1000), expires_in * seconds)
