import { createHash } from 'node:crypto'
import { CreateBucketCommand, PutBucketPolicyCommand, S3Client } from '@aws-sdk/client-s3'
import { completeFile, createFile, uploadLimits, type FileServiceTypes } from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import { randomText } from '../../src/kernel/secrets.ts'

/** The stores that files are tested with: a folder, and a real S3 server, which scripts/s3 starts. */
export const stores = ['disk', ...(process.env.BURSAR_TEST_S3 === 'off' ? [] : (['radosgw'] as const))] as const
export type StoreName = (typeof stores)[number]

/** How large a large file is: 1024 for a gigabyte. */
export const largeFile = Number(process.env.BURSAR_TEST_FILE_MIB ?? 72) * 1024 * 1024

const endpoint = `http://127.0.0.1:${process.env.BURSAR_TEST_S3_PORT ?? 47790}`
const credentials = { accessKeyId: 'testaccess', secretAccessKey: 'testsecret' }

/** The settings of a deployment that keeps its files there. */
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

/** A bucket of one's own, and beside it the one that everybody may read. */
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
  /** Of the whole; false: nothing is said of it. */
  readonly checksum?: string | false
  /** Where each part ends; one part where nothing is said. */
  readonly ends?: readonly number[]
  /** Of each part, where any is said. */
  readonly checksums?: readonly (string | null)[]
  readonly organization_id?: string
}

/** The body that announces these bytes. */
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

/** Puts one part where it goes, and says how that was answered. */
export const putPart = async ({ url, headers }: { url: string; headers: Record<string, string> }, body: Buffer): Promise<{ status: number; etag: string }> => {
  const answer = await fetch(url, { method: 'PUT', headers, body: new Uint8Array(body) })
  await answer.arrayBuffer()
  return { status: answer.status, etag: answer.headers.get('etag') ?? '' }
}

export const announce = (api: Client, bytes: Buffer, as: Announced = {}) => api.call(createFile, { body: announcement(bytes, as) as never })
export type Upload = Awaited<ReturnType<typeof announce>>

/** Puts every part, as the announcement cut them, and says what is to be reported. */
export const putParts = async ({ upload }: Pick<Upload, 'upload'>, bytes: Buffer) => {
  const parts = []
  for (const part of upload.parts) {
    const { status, etag } = await putPart(part, bytes.subarray(part.chunk_start, part.chunk_end))
    if (status !== 200) throw new Error(`part ${part.number} was answered with ${status}`)
    parts.push({ number: part.number, checksum_etag: etag, checksum_sha256_base64: part.checksum_sha256_base64 })
  }
  return { id: upload.id, path: upload.path, parts }
}

/** A whole upload, from its announcement to its end. */
export const upload = async (api: Client, bytes: Buffer, as: Announced = {}) => {
  const announced = await announce(api, bytes, as)
  return api.call(completeFile, { params: { id: announced.id }, body: await putParts(announced, bytes) })
}

export const smallestPart: number = uploadLimits.smallest_part

/** The beginning of a picture of each kind that is shown, and some more. */
export const pictures: Readonly<Record<string, Buffer>> = {
  'image/png': Buffer.concat([Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]), Buffer.alloc(100, 1)]),
  'image/jpeg': Buffer.concat([Buffer.from([0xff, 0xd8, 0xff, 0xe0]), Buffer.alloc(100, 2)]),
  'image/gif': Buffer.from(`GIF89a${'x'.repeat(100)}`),
  'image/webp': Buffer.from(`RIFF1234WEBPVP8 ${'x'.repeat(100)}`),
  'image/svg+xml': Buffer.from('<?xml version="1.0"?>\n<!-- a circle -->\n<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'),
}
