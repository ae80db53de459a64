import { createHmac } from 'node:crypto'
import { sameText } from '../../kernel/secrets.ts'
import { isKey } from './keys.ts'
import { LinkRefused } from './storage.ts'

export type BucketName = 'private' | 'public'

/** The one operation that a link permits. */
export type LinkUse = { readonly bucket: BucketName; readonly key: string } & (
  | {
      readonly method: 'PUT'
      readonly upload_id: string
      readonly number: number
      readonly size: number | null
      readonly checksum_sha256_base64: string | null
    }
  | { readonly method: 'GET'; readonly name: string; readonly content_type: string }
)

/** Signing keys, newest first. The first one signs, and all of them verify. */
export type LinkKeys = readonly [Buffer, ...Buffer[]]

export const linkRoot = '/storage/'

/** Returns the path and query of a signed link that permits this operation until it expires. */
export const signLink = (keys: LinkKeys, use: LinkUse, expires_at: Date): string => {
  const query = new URLSearchParams(fieldsOf(use))
  query.set('expires', String(Math.floor(expires_at.getTime() / 1000)))
  query.set('signature', signatureOf(keys[0], use.method, use.bucket, use.key, query))
  return `${pathOf(use.bucket, use.key)}?${query.toString()}`
}

export const pathOf = (bucket: BucketName, key: string): string => `${linkRoot}${bucket}/${key}`

/** Parses the path of a storage URL into bucket and key. Returns undefined for an invalid path. */
export const readPath = (path: string): { bucket: BucketName; key: string } | undefined => {
  const [, bucket, key = ''] = /^\/storage\/(private|public)\/(.+)$/.exec(path) ?? []
  return bucket !== undefined && isKey(key) ? { bucket: bucket as BucketName, key } : undefined
}

/** Verifies a link and returns the permitted operation. Throws if the signature is invalid or the link has expired. */
export const readLink = (keys: LinkKeys, method: string, { bucket, key }: { bucket: BucketName; key: string }, query: URLSearchParams, now: Date): LinkUse => {
  const signature = query.get('signature') ?? ''
  if (!keys.some((one) => sameText(signatureOf(one, method, bucket, key, query), signature)))
    throw new LinkRefused('not_permitted', 'The signature of this link is not valid. Request a new link.')
  // The signature is valid, so the fields of the link were written by this server and need no validation.
  const ends = new Date(Number(query.get('expires')) * 1000)
  if (now >= ends) throw new LinkRefused('not_permitted', `This link expired at ${ends.toISOString()}. Request a new one.`)
  if (method === 'GET') return { method, bucket, key, name: query.get('name')!, content_type: query.get('type')! }
  return {
    method: 'PUT',
    bucket,
    key,
    upload_id: query.get('upload')!,
    number: Number(query.get('part')),
    size: query.has('size') ? Number(query.get('size')) : null,
    checksum_sha256_base64: query.get('sha256'),
  }
}

const fieldsOf = (use: LinkUse): Record<string, string> =>
  use.method === 'GET'
    ? { name: use.name, type: use.content_type }
    : {
        upload: use.upload_id,
        part: String(use.number),
        ...(use.size === null ? {} : { size: String(use.size) }),
        ...(use.checksum_sha256_base64 === null ? {} : { sha256: use.checksum_sha256_base64 }),
      }

const signed = ['name', 'type', 'upload', 'part', 'size', 'sha256', 'expires']

/** Signs the decoded values, because a URL may be re-encoded in transit. */
const signatureOf = (key: Buffer, method: string, bucket: BucketName, path: string, query: URLSearchParams): string =>
  createHmac('sha256', key)
    .update(JSON.stringify([method, bucket, path, ...signed.map((name) => query.get(name))]))
    .digest('hex')
