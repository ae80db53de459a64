import type { Readable } from 'node:stream'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  ListPartsCommand,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import type { Secret } from '../../kernel/secrets.ts'
import { later, minutes, seconds, type Clock } from '../../platform/clock.ts'
import { bare, checkLife, checkLimit, checkMetadata, checkPart, checkParts, checkRange, checkType, etagOfParts } from './checks.ts'
import { contentDisposition, isShownInPlace, publicCaching } from './headers.ts'
import { checkKey, checkPrefix } from './keys.ts'
import { longestDownload, longestUpload, StorageRefusal, StorageSilent, type Bucket, type Storage, type StoredObject } from './storage.ts'
import { wholeOf } from './streams.ts'

export interface S3Options {
  /** None for Amazon's own, of the region. */
  readonly endpoint: URL | undefined
  /** Where clients reach the store, if by another address than we do. */
  readonly link_endpoint: URL | undefined
  readonly region: string
  /** The bucket in the path rather than in the name of the host. */
  readonly path_style: boolean
  readonly access_key_id: string
  readonly secret_access_key: Secret
  readonly bucket: string
  readonly public_bucket: string
  /** Where the public bucket is served to everybody. */
  readonly public_url: URL | undefined
  /** Under what all keys lie, so that two deployments may share a bucket and never meet. */
  readonly root: string
  readonly clock: Clock
}

/** How long the store may take to answer; to make one object of ten thousand parts takes longer. */
const patience = 15 * seconds
const composing = 3 * minutes

/** Objects in a store that speaks S3. */
export const openS3 = (options: S3Options): Storage => {
  const connect = (endpoint: URL | undefined) =>
    new S3Client({
      region: options.region,
      ...(endpoint ? { endpoint: endpoint.href } : {}),
      // What is set is what counts: nothing from the machine's own AWS settings.
      ignoreConfiguredEndpointUrls: true,
      forcePathStyle: options.path_style,
      credentials: { accessKeyId: options.access_key_id, secretAccessKey: options.secret_access_key.reveal() },
      // Otherwise every link carries the CRC32 of an empty body, and stores that are not Amazon's refuse it.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      maxAttempts: 3,
      requestHandler: {
        connectionTimeout: 3 * seconds,
        // A socket is idle as well while we take our time to read: how long the store may be silent is counted in `ask` and `wholeOf`.
        socketTimeout: 0,
        httpAgent: { keepAlive: true, maxSockets: 64 },
        httpsAgent: { keepAlive: true, maxSockets: 64 },
      },
    })
  const client = connect(options.endpoint)
  // It only signs.
  const signer = options.link_endpoint ? connect(options.link_endpoint) : client
  return {
    private: bucketOf(options, client, signer, 'private'),
    public: { ...bucketOf(options, client, signer, 'public'), publicUrl: (key) => `${publicRoot(options)}/${options.root}${checkKey(key)}` },
    close: () => {
      client.destroy()
      signer.destroy()
    },
  }
}

const publicRoot = ({ public_url, link_endpoint, endpoint, path_style, public_bucket, region }: S3Options): string => {
  const plain = (url: URL) => url.href.replace(/\/+$/, '')
  if (public_url) return plain(public_url)
  const host = link_endpoint ?? endpoint ?? new URL(`https://s3.${region}.amazonaws.com`)
  return path_style ? `${plain(host)}/${public_bucket}` : `${host.protocol}//${public_bucket}.${host.host}`
}

const bucketOf = ({ bucket, public_bucket, root, clock }: S3Options, client: S3Client, signer: S3Client, name: 'private' | 'public'): Bucket => {
  const Bucket = name === 'public' ? public_bucket : bucket
  const at = (key: string) => ({ Bucket, Key: `${root}${checkKey(key)}` })
  const keyOf = (found: string | undefined) => (found ?? '').slice(root.length)

  const head = async (key: string): Promise<StoredObject | undefined> => {
    const place = at(key)
    try {
      const found = await ask('head', patience, (abortSignal) => client.send(new HeadObjectCommand(place), { abortSignal }))
      return {
        etag: bare(found.ETag ?? ''),
        version: found.VersionId ?? null,
        size: found.ContentLength ?? 0,
        last_modified_at: found.LastModified ?? clock.wall(),
        content_type: found.ContentType ?? 'application/octet-stream',
        metadata: found.Metadata ?? {},
      }
    } catch (error) {
      if (error instanceof StorageRefusal && error.code === 'absent') return undefined
      throw error
    }
  }

  /** Whether the store says that this upload is not open; while it says nothing, nobody knows. */
  const isGone = async (key: string, upload_id: string): Promise<boolean> => {
    const command = new ListPartsCommand({ ...at(key), UploadId: upload_id, MaxParts: 1 })
    try {
      await ask('completeUpload', patience, (abortSignal) => client.send(command, { abortSignal }))
      return false
    } catch (error) {
      return isClosed(error)
    }
  }

  return {
    beginUpload: async ({ key, content_type, metadata, checksums }) => {
      checkMetadata(metadata)
      checkType(content_type)
      const command = new CreateMultipartUploadCommand({
        ...at(key),
        ContentType: content_type,
        Metadata: { ...metadata },
        ...(checksums ? { ChecksumAlgorithm: 'SHA256' } : {}),
        // The store answers the public by itself: what it may show in place is said here.
        ...(name === 'public' && isShownInPlace(content_type) ? {} : { ContentDisposition: 'attachment' }),
        ...(name === 'public' ? { CacheControl: publicCaching } : {}),
      })
      const { UploadId } = await ask('beginUpload', patience, (abortSignal) => client.send(command, { abortSignal }))
      if (!UploadId) throw new StorageSilent('beginUpload: the store answered without an id')
      return UploadId
    },

    presignPart: async ({ key, upload_id, number, size, checksum_sha256_base64, expires_in }) => {
      checkPart({ number, size })
      checkLife(expires_in, longestUpload)
      const signingDate = clock.wall()
      const headers: Record<string, string> =
        checksum_sha256_base64 === undefined ? {} : { 'x-amz-checksum-sha256': checksum_sha256_base64, 'x-amz-sdk-checksum-algorithm': 'SHA256' }
      const command = new UploadPartCommand({
        ...at(key),
        UploadId: upload_id,
        PartNumber: number,
        // Signed, so that a body of another length is refused; every client sends its length by itself.
        ...(size === undefined ? {} : { ContentLength: size }),
        ...(checksum_sha256_base64 === undefined ? {} : { ChecksumSHA256: checksum_sha256_base64, ChecksumAlgorithm: 'SHA256' }),
      })
      // As headers, where a store looks for them, rather than in the query.
      const url = await getSignedUrl(signer, command, { expiresIn: expires_in, signingDate, unhoistableHeaders: new Set(Object.keys(headers)) })
      return { url, headers, expires_at: later(signingDate, expires_in * seconds) }
    },

    completeUpload: async ({ key, upload_id, parts }) => {
      checkParts(parts)
      const command = new CompleteMultipartUploadCommand({
        ...at(key),
        UploadId: upload_id,
        MultipartUpload: {
          Parts: parts.map(({ number, etag, checksum_sha256_base64 }) => ({
            PartNumber: number,
            ETag: `"${bare(etag)}"`,
            ...(checksum_sha256_base64 === null ? {} : { ChecksumSHA256: checksum_sha256_base64 }),
          })),
        },
      })
      try {
        const { VersionId } = await ask('completeUpload', composing, (abortSignal) => client.send(command, { abortSignal }))
        const there = await head(key)
        if (!there) throw new StorageSilent('completeUpload: done, and then gone')
        return { ...there, version: VersionId ?? there.version }
      } catch (error) {
        // Ceph fails with a fault of its own where there is no such upload: then it is asked whether it is open.
        if (!(error instanceof StorageSilent ? await isGone(key, upload_id) : isClosed(error))) throw error
        // Perhaps it was done, and the answer lost.
        const there = await head(key)
        if (there?.etag === etagOfParts(parts)) return there
        throw new StorageRefusal('no_such_upload', words.no_such_upload, { cause: error })
      }
    },

    abortUpload: async ({ key, upload_id }) => {
      const command = new AbortMultipartUploadCommand({ ...at(key), UploadId: upload_id })
      try {
        await ask('abortUpload', patience, (abortSignal) => client.send(command, { abortSignal }))
      } catch (error) {
        if (!isClosed(error)) throw error
      }
    },

    put: async ({ key, content_type, bytes }) => {
      checkType(content_type)
      const command = new PutObjectCommand({
        ...at(key),
        Body: bytes,
        ContentType: content_type,
        ...(name === 'public' && isShownInPlace(content_type) ? {} : { ContentDisposition: 'attachment' }),
        ...(name === 'public' ? { CacheControl: publicCaching } : {}),
      })
      await ask('put', patience, (abortSignal) => client.send(command, { abortSignal }))
    },

    head,

    read: async (key, range = {}) => {
      checkRange(range)
      const { start = 0, end } = range
      const command = new GetObjectCommand({ ...at(key), ...(start === 0 && end === undefined ? {} : { Range: `bytes=${start}-${end ?? ''}` }) })
      const { Body, ContentLength } = await ask('read', patience, (abortSignal) => client.send(command, { abortSignal }))
      if (!Body || ContentLength === undefined) throw new StorageSilent('read: the store answered without a body')
      return wholeOf(Body as Readable, ContentLength, patience)
    },

    presignDownload: async ({ key, name: as, content_type = 'application/octet-stream', expires_in }) => {
      checkLife(expires_in, longestDownload)
      checkType(content_type)
      const signingDate = clock.wall()
      const command = new GetObjectCommand({ ...at(key), ResponseContentDisposition: contentDisposition(as), ResponseContentType: content_type })
      return {
        url: await getSignedUrl(signer, command, { expiresIn: expires_in, signingDate }),
        headers: {},
        expires_at: later(signingDate, expires_in * seconds),
      }
    },

    delete: async (key) => {
      const command = new DeleteObjectCommand(at(key))
      await ask('delete', patience, (abortSignal) => client.send(command, { abortSignal }))
    },

    list: async ({ prefix, after, limit }) => {
      checkLimit(limit)
      const command = new ListObjectsV2Command({
        Bucket,
        Prefix: `${root}${checkPrefix(prefix)}`,
        MaxKeys: limit,
        ...(after === undefined ? {} : { StartAfter: `${root}${after}` }),
      })
      const { Contents = [], IsTruncated } = await ask('list', patience, (abortSignal) => client.send(command, { abortSignal }))
      const objects = Contents.map(({ Key, Size, LastModified }) => ({ key: keyOf(Key), size: Size ?? 0, last_modified_at: LastModified ?? clock.wall() }))
      return { objects, next: IsTruncated ? (objects.at(-1)?.key ?? null) : null }
    },

    listUploads: async ({ prefix, after, limit }) => {
      checkLimit(limit)
      const [key, upload_id] = after?.split('\n') ?? []
      const command = new ListMultipartUploadsCommand({
        Bucket,
        Prefix: `${root}${checkPrefix(prefix)}`,
        MaxUploads: limit,
        ...(key === undefined ? {} : { KeyMarker: `${root}${key}`, UploadIdMarker: upload_id }),
      })
      const answer = await ask('listUploads', patience, (abortSignal) => client.send(command, { abortSignal }))
      const uploads = (answer.Uploads ?? []).map(({ Key, UploadId, Initiated }) => ({
        key: keyOf(Key),
        upload_id: UploadId ?? '',
        began_at: Initiated ?? clock.wall(),
      }))
      return { uploads, next: answer.IsTruncated ? `${keyOf(answer.NextKeyMarker)}\n${answer.NextUploadIdMarker ?? ''}` : null }
    },
  }
}

/** That an upload is not open; Ceph sometimes says that its key is not there. */
const isClosed = (error: unknown): boolean => error instanceof StorageRefusal && (error.code === 'no_such_upload' || error.code === 'absent')

/** Asks the store, and waits so long for the answer; what then streams in is no longer under this clock. */
const ask = async <T>(what: string, milliseconds: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> => {
  const ends = new AbortController()
  const timer = setTimeout(() => ends.abort(), milliseconds)
  try {
    return await work(ends.signal)
  } catch (error) {
    throw told(what, error)
  } finally {
    clearTimeout(timer)
  }
}

const refusals: Record<string, StorageRefusal['code'] | undefined> = {
  NoSuchUpload: 'no_such_upload',
  InvalidPart: 'wrong_part',
  InvalidPartOrder: 'wrong_part',
  EntityTooSmall: 'wrong_part',
  EntityTooLarge: 'wrong_part',
  BadDigest: 'wrong_part',
  InvalidDigest: 'wrong_part',
  XAmzContentChecksumMismatch: 'wrong_part',
  NoSuchKey: 'absent',
  NotFound: 'absent',
  InvalidRange: 'out_of_range',
}
const words: Record<StorageRefusal['code'], string> = {
  no_such_upload: 'There is no open upload of this id for this file: it was completed, aborted, or opened for another.',
  wrong_part: 'A part is not what was uploaded, or all but the last do not have at least 5 MiB.',
  absent: 'There is no object under this key.',
  out_of_range: 'The object ends before the bytes that were asked for.',
  misconfigured: 'The store does not let us in: check BURSAR_S3_ENDPOINT, the region, the buckets and the keys.',
}
/** Refused now, and perhaps not the next time. */
const passing = ['RequestTimeout', 'SlowDown', 'OperationAborted', 'ConditionalRequestConflict', 'TooManyRequestsException']

/** What the store said is a refusal; that it said nothing, or that it cannot now, is silence. */
const told = (what: string, error: unknown): Error => {
  const { name, $metadata } = error as { name: string; $metadata?: { httpStatusCode?: number } }
  const status = $metadata?.httpStatusCode
  const code = refusals[name]
  if (code) return new StorageRefusal(code, words[code], { cause: error })
  if (status !== undefined && status >= 300 && status < 500 && status !== 408 && status !== 429 && !passing.includes(name))
    return new StorageRefusal('misconfigured', `${words.misconfigured} It said ${name} (${status}) to ${what}.`, { cause: error })
  return new StorageSilent(`${what}: no answer from the store (${(error as NodeJS.ErrnoException).code ?? name})`, { cause: error })
}
