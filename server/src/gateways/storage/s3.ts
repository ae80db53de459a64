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
import { trimEndOf } from '../../kernel/texts.ts'

export interface S3Options {
  /** Endpoint of the store. Undefined for Amazon S3, whose endpoint follows from the region. */
  readonly endpoint: URL | undefined
  /** Endpoint in the links for clients, if it differs from `endpoint`. */
  readonly link_endpoint: URL | undefined
  readonly region: string
  /** True if the bucket is part of the path instead of the host name. */
  readonly path_style: boolean
  readonly access_key_id: string
  readonly secret_access_key: Secret
  readonly bucket: string
  readonly public_bucket: string
  /** Public base URL of the public bucket. */
  readonly public_url: URL | undefined
  /** Prefix of all keys. It separates deployments that share a bucket. */
  readonly root: string
  readonly clock: Clock
}

/** Timeout for a response of the store. The completion of an upload with 10,000 parts may take longer. */
const timeout = 15 * seconds
const composing = 3 * minutes

/** Stores objects in an S3-compatible store. */
export const openS3 = (options: S3Options): Storage => {
  const connect = (endpoint: URL | undefined) =>
    new S3Client({
      region: options.region,
      ...(endpoint ? { endpoint: endpoint.href } : {}),
      // Uses only the given settings and ignores the machine's AWS configuration.
      ignoreConfiguredEndpointUrls: true,
      forcePathStyle: options.path_style,
      credentials: { accessKeyId: options.access_key_id, secretAccessKey: options.secret_access_key.reveal() },
      // The default would add the CRC32 of an empty body to every link, and stores other than Amazon S3 refuse such links.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      maxAttempts: 3,
      requestHandler: {
        connectionTimeout: 3 * seconds,
        // The socket timeout is disabled, because a socket is also idle while we read slowly. `ask` and `wholeOf` limit
        // the time that the store may take instead.
        socketTimeout: 0,
        httpAgent: { keepAlive: true, maxSockets: 64 },
        httpsAgent: { keepAlive: true, maxSockets: 64 },
      },
    })
  const client = connect(options.endpoint)
  // A client for the endpoint that users reach. It only signs links.
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
  const plain = (url: URL) => trimEndOf(url.href, '/')
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
      const found = await ask('head', timeout, (abortSignal) => client.send(new HeadObjectCommand(place), { abortSignal }))
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

  /** True if the store confirms that this upload is not open. False if it does not answer. */
  const isGone = async (key: string, upload_id: string): Promise<boolean> => {
    const command = new ListPartsCommand({ ...at(key), UploadId: upload_id, MaxParts: 1 })
    try {
      await ask('completeUpload', timeout, (abortSignal) => client.send(command, { abortSignal }))
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
        // The store serves public objects itself. The header must therefore be stored with the object, to decide
        // whether browsers display it inline.
        ...(name === 'public' && isShownInPlace(content_type) ? {} : { ContentDisposition: 'attachment' }),
        ...(name === 'public' ? { CacheControl: publicCaching } : {}),
      })
      const { UploadId } = await ask('beginUpload', timeout, (abortSignal) => client.send(command, { abortSignal }))
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
        // The size is signed, so that a body of another length is refused. Clients send the length automatically.
        ...(size === undefined ? {} : { ContentLength: size }),
        ...(checksum_sha256_base64 === undefined ? {} : { ChecksumSHA256: checksum_sha256_base64, ChecksumAlgorithm: 'SHA256' }),
      })
      // Keeps these headers out of the signed query, because stores read them only from the headers of the request.
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
        if (!there) throw new StorageSilent('completeUpload: the upload was completed, but its object is missing')
        return { ...there, version: VersionId ?? there.version }
      } catch (error) {
        // Ceph returns an internal error for an unknown upload. A second request then checks whether the upload is
        // open.
        if (!(error instanceof StorageSilent ? await isGone(key, upload_id) : isClosed(error))) throw error
        // An earlier call may have completed the upload although its response was lost. Then the object has the etag of these parts.
        const there = await head(key)
        if (there?.etag === etagOfParts(parts)) return there
        throw new StorageRefusal('no_such_upload', words.no_such_upload, { cause: error })
      }
    },

    abortUpload: async ({ key, upload_id }) => {
      const command = new AbortMultipartUploadCommand({ ...at(key), UploadId: upload_id })
      try {
        await ask('abortUpload', timeout, (abortSignal) => client.send(command, { abortSignal }))
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
      await ask('put', timeout, (abortSignal) => client.send(command, { abortSignal }))
    },

    head,

    read: async (key, range = {}) => {
      checkRange(range)
      const { start = 0, end } = range
      const command = new GetObjectCommand({ ...at(key), ...(start === 0 && end === undefined ? {} : { Range: `bytes=${start}-${end ?? ''}` }) })
      const { Body, ContentLength } = await ask('read', timeout, (abortSignal) => client.send(command, { abortSignal }))
      if (!Body || ContentLength === undefined) throw new StorageSilent('read: the store answered without a body')
      return wholeOf(Body as Readable, ContentLength, timeout)
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
      await ask('delete', timeout, (abortSignal) => client.send(command, { abortSignal }))
    },

    list: async ({ prefix, after, limit }) => {
      checkLimit(limit)
      const command = new ListObjectsV2Command({
        Bucket,
        Prefix: `${root}${checkPrefix(prefix)}`,
        MaxKeys: limit,
        ...(after === undefined ? {} : { StartAfter: `${root}${after}` }),
      })
      const { Contents = [], IsTruncated } = await ask('list', timeout, (abortSignal) => client.send(command, { abortSignal }))
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
      const answer = await ask('listUploads', timeout, (abortSignal) => client.send(command, { abortSignal }))
      const uploads = (answer.Uploads ?? []).map(({ Key, UploadId, Initiated }) => ({
        key: keyOf(Key),
        upload_id: UploadId ?? '',
        began_at: Initiated ?? clock.wall(),
      }))
      return { uploads, next: answer.IsTruncated ? `${keyOf(answer.NextKeyMarker)}\n${answer.NextUploadIdMarker ?? ''}` : null }
    },
  }
}

/** True if an upload is not open. Ceph sometimes reports a missing key instead. */
const isClosed = (error: unknown): boolean => error instanceof StorageRefusal && (error.code === 'no_such_upload' || error.code === 'absent')

/** Runs a request with a timeout for the response. The streaming of the body is not included. */
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
  no_such_upload: 'This file has no open upload with this id. It was completed, aborted, or belongs to another file.',
  wrong_part: 'A part differs from its upload, or a part other than the last is smaller than 5 MiB.',
  absent: 'There is no object with this key.',
  out_of_range: 'The object is shorter than the requested range.',
  misconfigured: 'The storage rejects our credentials or settings. Check BURSAR_S3_ENDPOINT, the region, the buckets and the keys.',
}
/** Temporary errors that may succeed on retry. */
const passing = ['RequestTimeout', 'SlowDown', 'OperationAborted', 'ConditionalRequestConflict', 'TooManyRequestsException']

/** Maps an error of the store. A definite error becomes a `StorageRefusal`. No answer, or a temporary error, becomes `StorageSilent`. */
const told = (what: string, error: unknown): Error => {
  const { name, $metadata } = error as { name: string; $metadata?: { httpStatusCode?: number } }
  const status = $metadata?.httpStatusCode
  const code = refusals[name]
  if (code) return new StorageRefusal(code, words[code], { cause: error })
  if (status !== undefined && status >= 300 && status < 500 && status !== 408 && status !== 429 && !passing.includes(name))
    return new StorageRefusal('misconfigured', `${words.misconfigured} It answered ${name} (${status}) to ${what}.`, { cause: error })
  return new StorageSilent(`${what}: no answer from the storage (${(error as NodeJS.ErrnoException).code ?? name})`, { cause: error })
}
