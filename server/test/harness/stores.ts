import { createHash } from 'node:crypto'
import { CreateBucketCommand, PutBucketPolicyCommand, S3Client } from '@aws-sdk/client-s3'
import { completeFile, createFile, uploadLimits, type FileServiceTypes } from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import { randomText } from '../../src/kernel/secrets.ts'

/** Object stores for file tests: a folder, and a real S3 server that scripts/s3 starts. */
export const stores = ['disk', ...(process.env.BURSAR_TEST_S3 === 'off' ? [] : (['radosgw'] as const))] as const
export type StoreName = (typeof stores)[number]

/** Size of a large test file. Set `BURSAR_TEST_FILE_MIB` to 1024 for a gigabyte. */
export const largeFile = Number(process.env.BURSAR_TEST_FILE_MIB ?? 72) * 1024 * 1024

const endpoint = `http://127.0.0.1:${process.env.BURSAR_TEST_S3_PORT ?? 47790}`
const credentials = { accessKeyId: 'testaccess', secretAccessKey: 'testsecret' }

/** Returns the settings of a deployment that uses this store. */
export const storeSettings = async (store: StoreName): Promise<Record<string, string>> => {
  if (store === 'disk') return {}
  const bucket = await makeBuckets()
  return {
    BURSAR_STORAGE_DIR: '',
    BURSAR_S3_BUCKET: bucket,
    BURSAR_S3_PUBLIC_BUCKET: `${bucket}-public`,
    BURSAR_S3_ENDPOINT: endpoint,
    BURSAR_S3_ACCESS_KEY_ID: credentials.accessKeyId,
    BURSAR_S3_SECRET_ACCESS_KEY: credentials.secretAccessKey,
  }
}

/** Creates a new private bucket, and a public one beside it. */
export const makeBuckets = async (): Promise<string> => {
  const bucket = `t-${randomText(16, 'abcdefghijklmnopqrstuvwxyz')}`
  const admin = new S3Client({ endpoint, region: 'us-east-1', forcePathStyle: true, credentials })
  try {
    await admin.send(new CreateBucketCommand({ Bucket: bucket }))
  } catch (error) {
    throw new Error('the S3 server for tests does not answer. Start it with: scripts/s3', { cause: error })
  }
  await admin.send(new CreateBucketCommand({ Bucket: `${bucket}-public` }))
  const Statement = [{ Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: `arn:aws:s3:::${bucket}-public/*` }]
  await admin.send(new PutBucketPolicyCommand({ Bucket: `${bucket}-public`, Policy: JSON.stringify({ Version: '2012-10-17', Statement }) }))
  admin.destroy()
  return bucket
}

export const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('base64')

export interface Announced {
  readonly service?: FileServiceTypes
  readonly name?: string
  readonly mime_type?: string
  readonly version?: string
  /** Checksum of the whole file. If false, the request announces none. */
  readonly checksum?: string | false
  /** Position at which each part ends. By default the file has a single part. */
  readonly ends?: readonly number[]
  /** Checksum of each part, if announced. */
  readonly checksums?: readonly (string | null)[]
  readonly organization_id?: string
}

/** Builds the body of the request that creates a file with these bytes. */
export const announcement = (bytes: Buffer, { ends = [bytes.length], checksum, checksums, ...rest }: Announced = {}) => ({
  service: 'downloadable' as const,
  name: 'guide.pdf',
  mime_type: 'application/pdf',
  size: bytes.length,
  ...(checksum === false ? {} : { checksum_sha256_base64: checksum ?? sha256(bytes) }),
  upload: {
    parts: ends.map((chunk_end, at) => ({
      number: at + 1,
      chunk_start: ends[at - 1] ?? 0,
      chunk_end,
      ...(checksums?.[at] ? { checksum_sha256_base64: checksums[at] } : {}),
    })),
  },
  ...rest,
})

/** Uploads one part. Returns the status and the ETag. */
export const putPart = async ({ url, headers }: { url: string; headers: Record<string, string> }, body: Buffer): Promise<{ status: number; etag: string }> => {
  const answer = await fetch(url, { method: 'PUT', headers, body: new Uint8Array(body) })
  await answer.arrayBuffer()
  return { status: answer.status, etag: answer.headers.get('etag') ?? '' }
}

export const announce = (api: Client, bytes: Buffer, as: Announced = {}) => api.call(createFile, { body: announcement(bytes, as) as never })
export type Upload = Awaited<ReturnType<typeof announce>>

/** Uploads every part as announced. Returns the body that completes the upload. */
export const putParts = async ({ upload }: Pick<Upload, 'upload'>, bytes: Buffer) => {
  const parts = []
  for (const part of upload.parts) {
    const { status, etag } = await putPart(part, bytes.subarray(part.chunk_start, part.chunk_end))
    if (status !== 200) throw new Error(`part ${part.number} was answered with ${status}`)
    parts.push({ number: part.number, checksum_etag: etag, checksum_sha256_base64: part.checksum_sha256_base64 })
  }
  return { id: upload.id, path: upload.path, parts }
}

/** Performs a whole upload, from the announcement to its completion. */
export const upload = async (api: Client, bytes: Buffer, as: Announced = {}) => {
  const announced = await announce(api, bytes, as)
  return api.call(completeFile, { params: { id: announced.id }, body: await putParts(announced, bytes) })
}

export const smallestPart: number = uploadLimits.smallest_part

/** First bytes of an image of each displayable type, with padding. */
export const pictures: Readonly<Record<string, Buffer>> = {
  'image/png': Buffer.concat([Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]), Buffer.alloc(100, 1)]),
  'image/jpeg': Buffer.concat([Buffer.from([0xff, 0xd8, 0xff, 0xe0]), Buffer.alloc(100, 2)]),
  'image/gif': Buffer.from(`GIF89a${'x'.repeat(100)}`),
  'image/webp': Buffer.from(`RIFF1234WEBPVP8 ${'x'.repeat(100)}`),
  'image/svg+xml': Buffer.from('<?xml version="1.0"?>\n<!-- a circle -->\n<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'),
}
