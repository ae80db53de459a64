import type { Readable } from 'node:stream'
import type { Clock } from '../../platform/clock.ts'
import { contentDisposition, isShownInPlace, publicCaching } from './headers.ts'
import { readLink, readPath, type BucketName, type LinkKeys, type LinkUse } from './links.ts'
import { LinkRefused, StorageRefusal, type LinkAnswer, type LinkRequest, type ServeLink, type StoredObject } from './storage.ts'

/** An open object. The caller must either read it once or close it. */
export interface OpenObject {
  readonly stored: StoredObject
  /** Reads a range, both ends included. The object is closed with the stream. */
  readonly read: (start: number, end: number) => Promise<Readable>
  readonly close: () => Promise<void>
}

/** Stores one part of an upload and returns its etag. */
export type PartWriter = (use: Extract<LinkUse, { method: 'PUT' }>, body: Readable) => Promise<string>

interface Served {
  readonly keys: LinkKeys
  readonly clock: Clock
  readonly openObject: (bucket: BucketName, key: string) => Promise<OpenObject | undefined>
  readonly writePart: PartWriter
}

/** CORS headers for all origins, because the link alone grants access. */
const shared = { 'access-control-allow-origin': '*', 'access-control-expose-headers': 'etag', 'cross-origin-resource-policy': 'cross-origin' }
/** Headers that prevent script execution and content sniffing, because users upload the content. */
const harmless = { 'content-security-policy': "default-src 'none'; sandbox", 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' }

/** Serves the links and the public objects of a store that has no server of its own. */
export const serveLinks =
  ({ keys, clock, openObject, writePart }: Served): ServeLink =>
  async (request) => {
    const [path = '', query = ''] = request.url.split('?', 2)
    const place = readPath(path)
    if (!place) throw absent()
    const parameters = new URLSearchParams(query)
    if (request.method === 'OPTIONS')
      return {
        status: 204,
        headers: {
          ...shared,
          'access-control-allow-methods': 'GET, PUT',
          'access-control-allow-headers': 'content-type, range, x-amz-checksum-sha256, x-amz-sdk-checksum-algorithm',
          'access-control-max-age': '3600',
        },
      }
    const open = request.method === 'GET' && place.bucket === 'public' && !parameters.has('signature')
    const use = open ? undefined : readLink(keys, request.method, place, parameters, clock.wall())
    request.admitted?.()
    if (use?.method === 'PUT') {
      // The client must send the checksum of the link as a header. S3 requires this too, because it signs the header.
      if (use.checksum_sha256_base64 !== null && request.headers['x-amz-checksum-sha256'] !== use.checksum_sha256_base64)
        throw new LinkRefused('not_permitted', `This link requires the header x-amz-checksum-sha256: ${use.checksum_sha256_base64}.`)
      const announced = request.headers['content-length']
      if (use.size !== null && announced !== undefined && Number(announced) !== use.size)
        throw new LinkRefused('wrong_body', `The part has ${Number(announced)} bytes, but was announced with ${use.size}.`)
      return { status: 200, headers: { ...shared, etag: `"${await writePart(use, request.body)}"` } }
    }
    const found = await openObject(place.bucket, place.key)
    if (!found) throw absent()
    return show(request, found, use)
  }

const absent = () => new LinkRefused('absent', 'There is nothing at this path.')

/** Responds with an object: completely, as a range, or as not modified. */
const show = async (request: LinkRequest, found: OpenObject, use: { name: string; content_type: string } | undefined): Promise<LinkAnswer> => {
  const { etag, size, last_modified_at, content_type } = found.stored
  const headers: Record<string, string> = {
    ...shared,
    ...harmless,
    etag: `"${etag}"`,
    'last-modified': last_modified_at.toUTCString(),
    'accept-ranges': 'bytes',
    'content-type': use?.content_type ?? content_type,
    ...(use ? { 'content-disposition': contentDisposition(use.name) } : isShownInPlace(content_type) ? {} : { 'content-disposition': 'attachment' }),
    'cache-control': use ? 'private, no-store' : publicCaching,
  }
  if (!use && request.headers['if-none-match'] === headers.etag) {
    await found.close()
    return { status: 304, headers }
  }
  const range = rangeOf(request, headers.etag!, size)
  try {
    const body = await found.read(range?.start ?? 0, range?.end ?? size - 1)
    if (!range) return { status: 200, headers: { ...headers, 'content-length': String(size) }, body }
    return {
      status: 206,
      headers: { ...headers, 'content-length': String(range.end - range.start + 1), 'content-range': `bytes ${range.start}-${range.end}/${size}` },
      body,
    }
  } catch (error) {
    if (error instanceof StorageRefusal && error.code === 'out_of_range') throw new LinkRefused('out_of_range', error.message)
    throw error
  }
}

/**
 * Returns the requested range. Undefined if the request has no range, if `If-Range` names another version, or if the
 * range has an unsupported form.
 */
const rangeOf = ({ headers }: LinkRequest, etag: string, size: number): { start: number; end: number } | undefined => {
  const [, from, to] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(String(headers.range ?? '')) ?? []
  if (from === undefined || to === undefined || (from === '' && to === '') || size === 0) return undefined
  if (headers['if-range'] !== undefined && headers['if-range'] !== etag) return undefined
  if (from === '') return { start: Math.max(0, size - Number(to)), end: size - 1 }
  const end = to === '' ? size - 1 : Math.min(Number(to), size - 1)
  // A range that ends before its start is ignored. A range that starts after the end of the object is refused by the caller.
  return to !== '' && Number(to) < Number(from) ? undefined : { start: Number(from), end }
}
