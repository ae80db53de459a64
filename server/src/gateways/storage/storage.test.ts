import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { request as send, type IncomingMessage } from 'node:http'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { fastify } from 'fastify'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeBuckets } from '../../../test/harness/stores.ts'
import { openClock, variables } from '../../../test/harness/world.ts'
import { answerFailure } from '../../http/failures.ts'
import { mountStorage } from '../../http/storage.ts'
import { randomText, Secret } from '../../kernel/secrets.ts'
import { hours, systemClock, type Clock } from '../../platform/clock.ts'
import { readConfig } from '../../platform/config.ts'
import { etagOfParts } from './checks.ts'
import { openDisk } from './disk.ts'
import { contentDisposition, isContentType } from './headers.ts'
import { isKey, keySegment } from './keys.ts'
import { readLink, readPath, signLink, type LinkKeys, type LinkUse } from './links.ts'
import { openStorage } from './open.ts'
import { openS3, type S3Options } from './s3.ts'
import { smallestPart, StorageRefusal, StorageSilent, type Bucket, type Link, type Storage } from './storage.ts'
import { measure } from './streams.ts'

const letters = 'abcdefghijklmnopqrstuvwxyz'
const mebibyte = 1024 * 1024

/** A store under test. All tests run against each store. */
interface Store {
  readonly name: string
  /**
   * True if the store verifies the checksum of a part on upload. For other stores, the test verifies the checksum by
   * reading the object back.
   */
  readonly looks: boolean
  /** Opens the store, optionally with another clock or as another deployment. */
  readonly open: (options?: { clock?: Clock; root?: string }) => Promise<Storage>
  readonly close: () => Promise<void>
}

const diskStore = async (): Promise<Store> => {
  const folder = mkdtempSync(join(tmpdir(), 'storage-'))
  const keys: LinkKeys = [randomBytes(32)]
  const servers = new Map<string, { url: URL; close: () => Promise<unknown> }>()
  /** Starts one server per deployment, mounted like the real one. */
  const serverOf = async (root: string) => {
    const known = servers.get(root)
    if (known) return known.url
    const server = fastify({ forceCloseConnections: true })
    server.setErrorHandler((error, _, reply) => {
      const { status, body } = answerFailure(error)
      return reply.code(status).send(body)
    })
    const { serve } = openDisk({ folder: join(folder, root), url: new URL('http://unused'), keys, clock: systemClock })
    void server.register(async (room) => mountStorage(room, serve!, new WeakSet()))
    await server.listen({ host: '127.0.0.1', port: 0 })
    const url = new URL(`http://127.0.0.1:${(server.server.address() as AddressInfo).port}`)
    servers.set(root, { url, close: () => server.close() })
    return url
  }
  return {
    name: 'disk',
    looks: true,
    open: async ({ clock = systemClock, root = 'one' } = {}) => openDisk({ folder: join(folder, root), url: await serverOf(root), keys, clock }),
    close: async () => {
      for (const { close } of servers.values()) await close()
      rmSync(folder, { recursive: true })
    },
  }
}

const endpoint = new URL(`http://127.0.0.1:${process.env.BURSAR_TEST_S3_PORT ?? 47790}`)
const keys = { access_key_id: 'testaccess', secret_access_key: new Secret('testsecret') }
const s3Options = (bucket: string): S3Options => ({
  ...keys,
  endpoint,
  link_endpoint: undefined,
  region: 'us-east-1',
  path_style: true,
  bucket,
  public_bucket: `${bucket}-public`,
  public_url: undefined,
  root: 'one/',
  clock: systemClock,
})

const radosStore = async (): Promise<Store> => {
  const bucket = await makeBuckets()
  const opened: Storage[] = []
  return {
    name: 'radosgw',
    looks: false,
    open: async ({ clock = systemClock, root = 'one' } = {}) => {
      opened.push(openS3({ ...s3Options(bucket), clock, root: `${root}/` }))
      return opened.at(-1)!
    },
    close: async () => {
      const all = opened[0]!
      for (const one of [all.private, all.public]) {
        for (const { key } of (await one.list({ prefix: '', limit: 1000 })).objects) await one.delete(key)
        for (const upload of (await one.listUploads({ prefix: '', limit: 1000 })).uploads) await one.abortUpload(upload)
      }
      for (const one of opened) one.close()
    },
  }
}

const sha256 = (...chunks: Buffer[]) => {
  const hash = createHash('sha256')
  for (const chunk of chunks) hash.update(chunk)
  return hash.digest('base64')
}

const put = async ({ url, headers }: Pick<Link, 'url' | 'headers'>, body: Buffer) => {
  const answer = await fetch(url, { method: 'PUT', headers, body: new Uint8Array(body) })
  await answer.arrayBuffer()
  return { status: answer.status, etag: answer.headers.get('etag') ?? '' }
}

const newKey = (name = 'guide.pdf') => `downloadable/${randomText(10, letters)}/${name}`

/** Uploads a file with all steps of a seller's client. */
const upload = async (bucket: Bucket, key: string, parts: Buffer[], { content_type = 'application/pdf', metadata = {}, checksums = true } = {}) => {
  const upload_id = await bucket.beginUpload({ key, content_type, metadata, checksums })
  const sent = []
  for (const [at, part] of parts.entries()) {
    const checksum_sha256_base64 = checksums ? sha256(part) : undefined
    const link = await bucket.presignPart({ key, upload_id, number: at + 1, size: part.length, checksum_sha256_base64, expires_in: 600 })
    const { status, etag } = await put(link, part)
    expect(status).toBe(200)
    sent.push({ number: at + 1, etag, checksum_sha256_base64: checksum_sha256_base64 ?? null })
  }
  return { upload_id, parts: sent, stored: await bucket.completeUpload({ key, upload_id, parts: sent }) }
}

const bytesOf = async (body: Readable): Promise<Buffer> => Buffer.concat(await body.toArray())

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
/** Memory in use after a garbage collection. */
const live = () => {
  collect()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}
const large = Number(process.env.BURSAR_TEST_FILE_MIB ?? 64) * mebibyte

const stores = [diskStore, ...(process.env.BURSAR_TEST_S3 === 'off' ? [] : [radosStore])]

describe.each(stores.map((open) => [open === diskStore ? 'disk' : 'radosgw', open] as const))('store on %s', (_, openStore) => {
  let store: Store
  let storage: Storage
  let bucket: Bucket
  beforeAll(async () => {
    store = await openStore()
    storage = await store.open()
    bucket = storage.private
  })
  afterAll(() => store.close())

  test('makes a multipart upload visible only after its completion, and completes idempotently', async () => {
    const key = newKey()
    const parts = [randomBytes(smallestPart), randomBytes(smallestPart + 1), randomBytes(100)]
    const upload_id = await bucket.beginUpload({ key, content_type: 'application/pdf', metadata: { 'bursar-file': 'f1' }, checksums: true })
    const links = await Promise.all(
      parts.map((part, at) => bucket.presignPart({ key, upload_id, number: at + 1, size: part.length, checksum_sha256_base64: sha256(part), expires_in: 600 })),
    )
    // Uploads the parts in another order than their numbers.
    const sent = []
    for (const at of [2, 0, 1]) {
      const { status, etag } = await put(links[at]!, parts[at]!)
      expect(status).toBe(200)
      sent.push({ number: at + 1, etag, checksum_sha256_base64: sha256(parts[at]!) })
    }
    sent.sort((a, b) => a.number - b.number)
    expect(await bucket.head(key)).toBeUndefined()
    await expect(bucket.read(key)).rejects.toMatchObject({ name: 'StorageRefusal', code: 'absent' })
    expect((await bucket.listUploads({ prefix: key.slice(0, key.lastIndexOf('/') + 1), limit: 10 })).uploads).toMatchObject([{ key, upload_id }])

    const before = Date.now() - 2000
    const stored = await bucket.completeUpload({ key, upload_id, parts: sent })
    expect(stored).toEqual({
      etag: etagOfParts(sent),
      version: null,
      size: 2 * smallestPart + 101,
      last_modified_at: expect.any(Date),
      content_type: 'application/pdf',
      metadata: { 'bursar-file': 'f1' },
    })
    expect(stored.last_modified_at.getTime()).toBeGreaterThan(before)
    expect(await bucket.head(key)).toEqual(stored)
    const measured = await measure(
      await bucket.read(key),
      parts.map(({ length }) => length),
    )
    expect(measured).toEqual({
      size: stored.size,
      sha256: Buffer.from(sha256(...parts), 'base64'),
      parts: parts.map((part) => Buffer.from(sha256(part), 'base64')),
      beginning: parts[0]!.subarray(0, 4096),
    })

    expect(await bucket.completeUpload({ key, upload_id, parts: sent })).toEqual(stored)
    await expect(bucket.completeUpload({ key, upload_id, parts: sent.slice(0, 2) })).rejects.toMatchObject({ code: 'no_such_upload' })
    expect((await put(links[0]!, parts[0]!)).status).toBe(404)
    expect((await bucket.listUploads({ prefix: '', limit: 1000 })).uploads.filter((one) => one.key === key)).toEqual([])
  })

  test('rejects a part that is shorter or longer than its link allows', async () => {
    const key = newKey()
    const upload_id = await bucket.beginUpload({ key, content_type: 'text/plain', metadata: {}, checksums: false })
    const link = await bucket.presignPart({ key, upload_id, number: 1, size: 1000, expires_in: 600 })
    for (const size of [0, 999, 1001, 100_000]) expect((await put(link, Buffer.alloc(size, 1))).status, `${size}`).toBeGreaterThanOrEqual(400)
    const wrong = { number: 1, etag: createHash('md5').update(Buffer.alloc(999, 1)).digest('hex'), checksum_sha256_base64: null }
    await expect(bucket.completeUpload({ key, upload_id, parts: [wrong] })).rejects.toMatchObject({ code: 'wrong_part' })
    const right = await put(link, Buffer.alloc(1000, 1))
    expect(right.status).toBe(200)
    expect((await bucket.completeUpload({ key, upload_id, parts: [{ ...wrong, etag: right.etag }] })).size).toBe(1000)
  })

  test("rejects a part with a wrong checksum or detects it on reading, and rejects a checksum other than the link's", async () => {
    const key = newKey()
    const right = Buffer.alloc(1000, 1)
    const wrong = Buffer.alloc(1000, 2)
    const upload_id = await bucket.beginUpload({ key, content_type: 'text/plain', metadata: {}, checksums: true })
    const link = await bucket.presignPart({ key, upload_id, number: 1, size: 1000, checksum_sha256_base64: sha256(right), expires_in: 600 })
    expect(link.headers).toEqual({ 'x-amz-checksum-sha256': sha256(right), 'x-amz-sdk-checksum-algorithm': 'SHA256' })
    expect((await put({ ...link, headers: {} }, wrong)).status).toBe(403)
    expect((await put({ ...link, headers: { ...link.headers, 'x-amz-checksum-sha256': sha256(wrong) } }, wrong)).status).toBe(403)
    const sent = await put(link, wrong)
    expect(sent.status).toBe(store.looks ? 400 : 200)
    if (store.looks) {
      expect((await put(link, right)).status).toBe(200)
      return
    }
    await bucket.completeUpload({ key, upload_id, parts: [{ number: 1, etag: sent.etag, checksum_sha256_base64: sha256(right) }] })
    const { parts } = await measure(await bucket.read(key), [1000])
    expect(parts[0]!.toString('base64')).toBe(sha256(wrong))
  })

  test('completes an upload only with uploaded parts in order and of sufficient size, and allows a corrected retry', async () => {
    const key = newKey()
    const upload_id = await bucket.beginUpload({ key, content_type: 'text/plain', metadata: {}, checksums: false })
    const send = async (number: number, body: Buffer) => {
      const { etag } = await put(await bucket.presignPart({ key, upload_id, number, size: body.length, expires_in: 600 }), body)
      return { number, etag, checksum_sha256_base64: null }
    }
    const first = await send(1, Buffer.alloc(smallestPart, 1))
    const small = await send(2, Buffer.alloc(10, 2))
    const last = await send(3, Buffer.alloc(10, 3))
    for (const parts of [
      [],
      [last, first],
      [first, first],
      [first, small, last],
      [first, { ...last, etag: first.etag }],
      [first, { ...last, number: 4 }],
      [first, { ...last, etag: '../../upload.json' }],
    ])
      await expect(bucket.completeUpload({ key, upload_id, parts })).rejects.toMatchObject({ name: 'StorageRefusal', code: 'wrong_part' })
    // Uploading a part again replaces the earlier part.
    const again = await send(2, Buffer.alloc(smallestPart, 4))
    for (const parts of [
      [first, small, last],
      [first, last],
    ])
      await expect(bucket.completeUpload({ key, upload_id, parts })).rejects.toMatchObject({ code: 'wrong_part' })
    expect((await bucket.completeUpload({ key, upload_id, parts: [first, again, last] })).size).toBe(2 * smallestPart + 10)
    const { parts } = await measure(await bucket.read(key), [smallestPart, smallestPart, 10])
    expect(parts[1]!.toString('base64')).toBe(sha256(Buffer.alloc(smallestPart, 4)))
  })

  test('rejects an upload id that was issued for another key', async () => {
    const [mine, theirs] = [newKey(), newKey()]
    const upload_id = await bucket.beginUpload({ key: theirs, content_type: 'text/plain', metadata: {}, checksums: false })
    const body = Buffer.from('theirs')
    const { etag } = await put(await bucket.presignPart({ key: theirs, upload_id, number: 1, expires_in: 600 }), body)
    const parts = [{ number: 1, etag, checksum_sha256_base64: null }]
    expect((await put(await bucket.presignPart({ key: mine, upload_id, number: 1, expires_in: 600 }), Buffer.from('mine'))).status).toBe(404)
    await expect(bucket.completeUpload({ key: mine, upload_id, parts })).rejects.toMatchObject({ code: 'no_such_upload' })
    await bucket.abortUpload({ key: mine, upload_id })
    expect(await bucket.head(mine)).toBeUndefined()
    await bucket.completeUpload({ key: theirs, upload_id, parts })
    expect(await bytesOf(await bucket.read(theirs))).toEqual(body)
    for (const made_up of ['', 'x', '../one', '2~aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'])
      await expect(bucket.completeUpload({ key: mine, upload_id: made_up || 'none', parts })).rejects.toMatchObject({ code: 'no_such_upload' })
  })

  test('invalidates the links of an aborted upload, deletes its parts, and aborts idempotently', async () => {
    const key = newKey()
    const upload_id = await bucket.beginUpload({ key, content_type: 'text/plain', metadata: {}, checksums: false })
    const link = await bucket.presignPart({ key, upload_id, number: 1, size: 3, expires_in: 600 })
    const { etag } = await put(link, Buffer.from('abc'))
    await bucket.abortUpload({ key, upload_id })
    await bucket.abortUpload({ key, upload_id })
    expect((await put(link, Buffer.from('abc'))).status).toBe(404)
    const parts = [{ number: 1, etag, checksum_sha256_base64: null }]
    await expect(bucket.completeUpload({ key, upload_id, parts })).rejects.toMatchObject({ code: 'no_such_upload' })
    expect(await bucket.head(key)).toBeUndefined()
    expect((await bucket.listUploads({ prefix: '', limit: 1000 })).uploads.filter((one) => one.key === key)).toEqual([])
  })

  test('permits one operation per link until the link expires', async () => {
    const key = newKey()
    await upload(bucket, key, [Buffer.from('to be sold')])
    const link = await bucket.presignDownload({ key, name: 'guide.pdf', expires_in: 300 })
    expect(link.expires_at.getTime() - Date.now()).toBeLessThanOrEqual(300_000)
    expect(link.expires_at.getTime() - Date.now()).toBeGreaterThan(290_000)
    expect((await fetch(link.url)).status).toBe(200)
    expect((await fetch(link.url.split('?')[0]!)).status).toBe(403)
    expect((await fetch(link.url.replace('guide.pdf', 'other.pdf'))).status).toBe(403)
    expect((await fetch(link.url.replace('octet-stream', 'html'))).status).toBe(403)
    expect((await put(link, Buffer.from('mine now'))).status).toBe(403)

    const past = openClock()
    past.advance(-2 * hours)
    const earlier = (await store.open({ clock: past })).private
    const upload_id = await bucket.beginUpload({ key, content_type: 'text/plain', metadata: {}, checksums: false })
    expect((await fetch((await earlier.presignDownload({ key, name: 'guide.pdf', expires_in: 300 })).url)).status).toBe(403)
    const part = await earlier.presignPart({ key, upload_id, number: 1, expires_in: 3600 })
    expect((await put(part, Buffer.from('late'))).status).toBe(403)
    expect(
      (await put({ ...part, url: part.url.replace(/(expires=|X-Amz-Expires=)\d+/i, '$199999999999') }, Buffer.from('late'))).status,
    ).toBeGreaterThanOrEqual(400)

    for (const expires_in of [0, 301, 1.5]) await expect(bucket.presignDownload({ key, name: 'x', expires_in })).rejects.toThrow(RangeError)
    for (const expires_in of [0, 3601]) await expect(bucket.presignPart({ key, upload_id, number: 1, expires_in })).rejects.toThrow(RangeError)
    for (const number of [0, 10_001]) await expect(bucket.presignPart({ key, upload_id, number, expires_in: 60 })).rejects.toThrow(RangeError)
  })

  test('downloads a file under its name in any script, and never inline', async () => {
    const key = newKey('page.html')
    const body = Buffer.from('<script>alert(1)</script>')
    await upload(bucket, key, [body], { content_type: 'text/html' })
    for (const name of ['page.html', 'Größe "1" \\ 日本.html', 'a\r\nset-cookie: b=c.html', '100% (it’s).html']) {
      const answer = await fetch((await bucket.presignDownload({ key, name, content_type: 'text/html', expires_in: 60 })).url)
      expect(answer.status).toBe(200)
      expect(answer.headers.get('content-disposition')).toBe(contentDisposition(name))
      expect(answer.headers.get('content-type')).toBe('text/html')
      expect(answer.headers.get('set-cookie')).toBeNull()
      expect(Buffer.from(await answer.arrayBuffer())).toEqual(body)
    }
    const { url } = await bucket.presignDownload({ key, name: 'page.html', expires_in: 60 })
    for (const [range, status, text] of [
      ['bytes=0-7', 206, '<script>'],
      ['bytes=-9', 206, '</script>'],
      ['bytes=16-', 206, '</script>'],
      ['bytes=16-1000', 206, '</script>'],
      ['bytes=1000-', 416, undefined],
    ] as const) {
      const answer = await fetch(url, { headers: { range } })
      expect([range, answer.status]).toEqual([range, status])
      const got = await answer.text()
      if (text !== undefined) expect(got).toBe(text)
    }
  })

  test('atomically writes an object that the server itself has created, and replaces an existing object under the same key', async () => {
    const { private: bucket } = await store.open()
    const key = 'made/here.pdf'
    for (const text of ['%PDF one', '%PDF another']) await bucket.put({ key, content_type: 'application/pdf', bytes: Buffer.from(text) })
    expect(await bucket.head(key)).toMatchObject({ size: 12, content_type: 'application/pdf', etag: createHash('md5').update('%PDF another').digest('hex') })
    const link = await bucket.presignDownload({ key, name: 'here.pdf', content_type: 'application/pdf', expires_in: 60 })
    const answer = await fetch(link.url)
    expect([answer.status, answer.headers.get('content-type'), await answer.text()]).toEqual([200, 'application/pdf', '%PDF another'])
    await expect(bucket.put({ key: '../out', content_type: 'application/pdf', bytes: Buffer.of(1) })).rejects.toThrow(TypeError)
    await bucket.delete(key)
  })

  test('returns exactly the requested byte range', async () => {
    const key = newKey()
    const parts = [randomBytes(smallestPart), randomBytes(1000)]
    await upload(bucket, key, parts)
    const whole = Buffer.concat(parts)
    for (const [start, end] of [
      [0, 0],
      [smallestPart - 3, smallestPart + 3],
      [whole.length - 1, undefined],
      [whole.length - 5, whole.length + 1000],
      [undefined, 9],
    ] as const) {
      const got = await bytesOf(await bucket.read(key, { ...(start === undefined ? {} : { start }), ...(end === undefined ? {} : { end }) }))
      expect(got.equals(whole.subarray(start ?? 0, end === undefined ? undefined : end + 1))).toBe(true)
    }
    await expect(bucket.read(key, { start: whole.length })).rejects.toMatchObject({ code: 'out_of_range' })
    await expect(bucket.read(key, { start: 5, end: 4 })).rejects.toThrow(RangeError)

    const empty = newKey()
    await upload(bucket, empty, [Buffer.alloc(0)])
    expect(await bucket.head(empty)).toMatchObject({ size: 0 })
    expect(await bytesOf(await bucket.read(empty))).toEqual(Buffer.alloc(0))
    await expect(bucket.read(empty, { start: 0, end: 5 })).rejects.toMatchObject({ code: 'out_of_range' })
  })

  test('transfers a large file in constant memory', { timeout: 600_000 }, async () => {
    const key = newKey('large.bin')
    const chunk = randomBytes(64 * 1024)
    const size = large / 2
    const upload_id = await bucket.beginUpload({ key, content_type: 'application/octet-stream', metadata: {}, checksums: false })
    const base = live()
    let most = 0
    let passed = 0
    const watch = (bytes: number) => {
      const before = passed
      passed += bytes
      if (Math.floor(before / (8 * mebibyte)) !== Math.floor(passed / (8 * mebibyte))) most = Math.max(most, live() - base)
    }
    const sent = []
    for (const number of [1, 2]) {
      const link = await bucket.presignPart({ key, upload_id, number, size, expires_in: 3600 })
      const outgoing = send(link.url, { method: 'PUT', headers: { ...link.headers, 'content-length': String(size) } })
      const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>
      await pipeline(
        Readable.from(
          (function* () {
            for (let at = 0; at < size; at += chunk.length) {
              watch(chunk.length)
              yield chunk
            }
          })(),
        ),
        outgoing,
      )
      const [incoming] = await answered
      incoming.resume()
      expect(incoming.statusCode).toBe(200)
      sent.push({ number, etag: incoming.headers.etag!, checksum_sha256_base64: null })
    }
    const stored = await bucket.completeUpload({ key, upload_id, parts: sent })
    expect(stored.size).toBe(large)
    most = Math.max(most, live() - base)

    const body = await bucket.read(key)
    const measured = await measure(
      (async function* () {
        for await (const one of body as AsyncIterable<Buffer>) {
          watch(one.length)
          yield one
        }
      })(),
    )
    const expected = createHash('sha256')
    for (let at = 0; at < large; at += chunk.length) expected.update(chunk)
    expect(measured.size).toBe(large)
    expect(measured.sha256.equals(expected.digest())).toBe(true)
    expect(passed).toBe(2 * large)
    expect(most).toBeLessThan(24 * mebibyte)

    // A consumer that stops reading receives no more data.
    const unread = await bucket.read(key)
    await once(unread, 'readable')
    const held = live()
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(live() - held).toBeLessThan(4 * mebibyte)
    unread.destroy()
    await bucket.delete(key)
  })

  test('lets an open reader finish or fail if the file is deleted meanwhile, and later readers do not find the file', async () => {
    const key = newKey()
    const parts = [randomBytes(smallestPart * 2), randomBytes(smallestPart)]
    await upload(bucket, key, parts)
    const body = await bucket.read(key)
    const link = await bucket.presignDownload({ key, name: 'x', expires_in: 60 })
    const hash = createHash('sha256')
    let got = 0
    let broke: unknown
    try {
      for await (const chunk of body as AsyncIterable<Buffer>) {
        if (got === 0) {
          await bucket.delete(key)
          await bucket.delete(key)
          expect(await bucket.head(key)).toBeUndefined()
        }
        got += chunk.length
        hash.update(chunk)
      }
    } catch (error) {
      broke = error
    }
    if (broke === undefined) expect(hash.digest('base64')).toBe(sha256(...parts))
    else expect(broke).toBeInstanceOf(StorageSilent)
    await expect(bucket.read(key)).rejects.toMatchObject({ code: 'absent' })
    expect((await fetch(link.url)).status).toBe(404)
  })

  test('replaces an existing object when an upload under its key is completed', async () => {
    const key = newKey()
    await upload(bucket, key, [Buffer.from('old')], { content_type: 'text/old' })
    await upload(bucket, key, [Buffer.from('newer')], { content_type: 'text/new' })
    expect(await bucket.head(key)).toMatchObject({ size: 5, content_type: 'text/new' })
    expect(await bytesOf(await bucket.read(key))).toEqual(Buffer.from('newer'))
  })

  test('creates the whole object or none if completions race with each other or with an abort', async () => {
    for (let round = 0; round < 10; round++) {
      const key = newKey()
      const upload_id = await bucket.beginUpload({ key, content_type: 'text/plain', metadata: {}, checksums: false })
      const body = randomBytes(100_000)
      const link = await bucket.presignPart({ key, upload_id, number: 1, size: body.length, expires_in: 60 })
      const { etag } = await put(link, body)
      const complete = () => bucket.completeUpload({ key, upload_id, parts: [{ number: 1, etag, checksum_sha256_base64: null }] })
      const aborting = round % 2 === 1
      const done = await Promise.allSettled([complete(), aborting ? bucket.abortUpload({ key, upload_id }) : complete(), put(link, body)])
      const won = done.slice(0, aborting ? 1 : 2).filter(({ status }) => status === 'fulfilled')
      for (const one of done)
        if (one.status === 'rejected' && !(one.reason instanceof StorageSilent))
          expect(one.reason).toMatchObject({ code: expect.stringMatching(/^(no_such_upload|wrong_part)$/) })
      if (!aborting) expect(won.length).toBeGreaterThanOrEqual(1)
      const there = await bucket.head(key)
      if (won.length > 0) expect(there).toMatchObject({ size: body.length })
      if (there) expect((await bytesOf(await bucket.read(key))).equals(body)).toBe(true)
      await bucket.abortUpload({ key, upload_id })
      await bucket.delete(key)
      expect((await bucket.listUploads({ prefix: key.slice(0, key.lastIndexOf('/') + 1), limit: 10 })).uploads).toEqual([])
    }
  })

  test('lists objects and open uploads in pages, by prefix and per deployment', async () => {
    const root = `swept-${randomText(8, letters)}`
    const one = await store.open({ root })
    const other = await store.open({ root: `${root}x` })
    const keys = ['a/b', 'a/b-c', 'a/b/c', 'a/b/d', 'a-b/c', 'b/a'].toSorted()
    for (const key of keys) await upload(one.private, key, [Buffer.from(key)], { checksums: false })
    await upload(other.private, 'a/z', [Buffer.from('other')], { checksums: false })
    const pages = async (prefix: string, limit: number) => {
      const found: string[][] = []
      for (let after: string | null | undefined; after !== null;) {
        const page = await one.private.list({ prefix, limit, ...(after === undefined ? {} : { after }) })
        found.push(page.objects.map(({ key }) => key))
        after = page.next
      }
      return found
    }
    expect((await pages('', 2)).flat()).toEqual(keys)
    expect((await pages('', 2))[0]).toHaveLength(2)
    expect(await pages('a/', 10)).toEqual([['a/b', 'a/b-c', 'a/b/c', 'a/b/d']])
    expect((await pages('a/b/', 1)).flat()).toEqual(['a/b/c', 'a/b/d'])
    expect(await pages('nothing/', 10)).toEqual([[]])
    expect((await one.private.list({ prefix: 'b/', limit: 1 })).objects).toMatchObject([{ key: 'b/a', size: 3, last_modified_at: expect.any(Date) }])
    expect((await one.public.list({ prefix: '', limit: 10 })).objects).toEqual([])

    const begin = (bucket: Bucket, key: string) => bucket.beginUpload({ key, content_type: 'text/plain', metadata: {}, checksums: false })
    const open = [await begin(one.private, 'a/left'), await begin(one.private, 'a/left'), await begin(one.private, 'b/left')]
    const kept = await begin(other.private, 'a/left')
    const seen = []
    for (let after: string | null | undefined; after !== null;) {
      const page = await one.private.listUploads({ prefix: '', limit: 1, ...(after === undefined ? {} : { after }) })
      expect(page.uploads.length).toBeLessThanOrEqual(1)
      seen.push(...page.uploads)
      after = page.next
    }
    expect(seen.map(({ upload_id }) => upload_id).toSorted()).toEqual(open.toSorted())
    expect(seen.map(({ key }) => key)).toEqual(['a/left', 'a/left', 'b/left'])
    for (const { began_at } of seen) expect(Math.abs(began_at.getTime() - Date.now())).toBeLessThan(60_000)
    expect((await one.private.listUploads({ prefix: 'b/', limit: 10 })).uploads).toMatchObject([{ key: 'b/left' }])
    for (const upload of seen) await one.private.abortUpload(upload)
    expect((await one.private.listUploads({ prefix: '', limit: 10 })).uploads).toEqual([])
    expect((await other.private.listUploads({ prefix: '', limit: 10 })).uploads).toMatchObject([{ upload_id: kept }])
    for (const key of keys) await one.private.delete(key)
    expect(await pages('', 10)).toEqual([[]])
    await other.private.delete('a/z')
    await other.private.abortUpload({ key: 'a/left', upload_id: kept })
  })

  test('serves public images inline, and SVG and other types as downloads', async () => {
    for (const [content_type, disposition] of [
      ['image/png', null],
      ['image/svg+xml', 'attachment'],
      ['text/html', 'attachment'],
    ] as const) {
      const key = `product_media/${randomText(8, letters)}/picture`
      await upload(storage.public, key, [Buffer.from('<svg onload="alert(1)"/>')], { content_type })
      const answer = await fetch(storage.public.publicUrl(key))
      expect(answer.status).toBe(200)
      expect(answer.headers.get('content-type')).toBe(content_type)
      expect(answer.headers.get('content-disposition')).toBe(disposition)
      expect(answer.headers.get('cache-control')).toBe('public, max-age=3600')
      await storage.public.delete(key)
      expect((await fetch(storage.public.publicUrl(key))).ok).toBe(false)
    }
    const key = newKey()
    await upload(storage.private, key, [Buffer.from('secret')])
    expect((await fetch(storage.public.publicUrl(key))).ok).toBe(false)
    const place = (await storage.private.presignDownload({ key, name: 'x', expires_in: 60 })).url.split('?')[0]!
    expect((await fetch(place)).status).toBe(403)
  })

  test('rejects object keys that could refer to a file outside their folder', async () => {
    for (const key of [
      '',
      '/',
      'a//b',
      'a/',
      '/a',
      '.',
      '..',
      'a/../b',
      'a/..',
      '.hidden',
      'a/.b',
      'a\\b',
      'a b',
      'ä',
      'a%2fb',
      'a\0',
      'a\n',
      'a='.repeat(2),
      'x'.repeat(201),
    ]) {
      expect(isKey(key)).toBe(false)
      await expect(bucket.head(key), key).rejects.toThrow(TypeError)
      await expect(bucket.delete(key)).rejects.toThrow(TypeError)
      await expect(bucket.beginUpload({ key, content_type: 'text/plain', metadata: {}, checksums: false })).rejects.toThrow(TypeError)
    }
    await expect(bucket.list({ prefix: '../', limit: 10 })).rejects.toThrow(TypeError)
    const upload = { key: newKey(), content_type: 'text/plain', checksums: false }
    await expect(bucket.beginUpload({ ...upload, metadata: { name: 'größe' } })).rejects.toThrow(TypeError)
    await expect(bucket.beginUpload({ ...upload, metadata: { name: 'x'.repeat(3000) } })).rejects.toThrow(RangeError)
    for (const content_type of ['', 'text', 'text/html\r\nset-cookie: a=b', 'text/ä', 'a/b;', 'x'.repeat(300)]) {
      await expect(bucket.beginUpload({ ...upload, content_type, metadata: {} })).rejects.toThrow(TypeError)
      await expect(bucket.presignDownload({ key: upload.key, name: 'x', content_type, expires_in: 60 })).rejects.toThrow(TypeError)
    }
    for (const content_type of ['text/plain; charset=utf-8', 'application/vnd.a+json', 'a/b;c="d e"']) expect(isContentType(content_type)).toBe(true)
  })
})

describe('failing store', () => {
  const options = s3Options('t-nowhere')
  const failing = (changes: Partial<S3Options>) => openS3({ ...options, ...changes }).private
  /** Starts a server that answers every connection with these bytes, and then ends, breaks or keeps the connection. */
  const pretend = async (answer: string, after: 'end' | 'destroy' | 'wait') => {
    const server = createServer((socket) => {
      socket.on('error', () => undefined)
      socket.once('data', () => {
        socket.write(answer)
        if (after === 'end') socket.end()
        if (after === 'destroy') setTimeout(() => socket.destroy(), 20)
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return { url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`), close: () => server.close() }
  }

  test('throws StorageSilent if the store is unreachable, answers with a server error or sends a truncated body', async () => {
    await expect(failing({ endpoint: new URL('http://127.0.0.1:1') }).head('a/b')).rejects.toThrow(StorageSilent)
    const broken = await pretend('HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\n\r\n', 'end')
    await expect(failing({ endpoint: broken.url }).delete('a/b')).rejects.toThrow(StorageSilent)
    broken.close()
    const short = await pretend('HTTP/1.1 200 OK\r\ncontent-length: 100000\r\netag: "x"\r\n\r\nonly this', 'destroy')
    const body = await failing({ endpoint: short.url }).read('a/b')
    await expect(bytesOf(body)).rejects.toThrow(StorageSilent)
    short.close()
  })

  test.runIf(process.env.BURSAR_TEST_S3 !== 'off')('reports a wrong key or bucket as a misconfiguration', async () => {
    for (const changes of [{ secret_access_key: new Secret('wrong') }, { access_key_id: 'nobody' }, {}]) {
      const bucket = failing(changes)
      const error = await bucket.list({ prefix: '', limit: 1 }).catch((error: unknown) => error)
      expect(error).toMatchObject({ name: 'StorageRefusal', code: 'misconfigured' })
      expect((error as Error).message).toContain('BURSAR_S3_ENDPOINT')
      expect((error as Error).message).not.toContain('wrong')
    }
  })

  test('refuses every call without configuration, names the settings, and still returns public URLs', async () => {
    const config = readConfig({
      ...variables({ url: 'postgres://x@127.0.0.1/x', owner_url: 'postgres://x@127.0.0.1/x' }, 'smtp://127.0.0.1:1'),
      BURSAR_STORAGE_DIR: '',
    })
    const storage = await openStorage(config, { clock: systemClock, deployment_id: 'd' })
    for (const attempt of [
      storage.private.head('a/b'),
      storage.public.beginUpload({ key: 'a/b', content_type: 'text/plain', metadata: {}, checksums: false }),
      storage.private.presignDownload({ key: 'a/b', name: 'b', expires_in: 60 }),
    ])
      await expect(attempt).rejects.toThrow(/BURSAR_STORAGE_DIR .* BURSAR_S3_BUCKET/)
    await expect(storage.private.list({ prefix: '', limit: 1 })).rejects.toThrow(StorageRefusal)
    expect(storage.public.publicUrl('a/b')).toBe('https://bursar.test/storage/public/a/b')
  })
})

describe('links and names', () => {
  const keys: LinkKeys = [Buffer.alloc(32, 1)]
  const now = new Date('2026-04-01T12:00:00Z')
  const use: LinkUse = { method: 'PUT', bucket: 'private', key: 'a/b', upload_id: 'u', number: 3, size: 10, checksum_sha256_base64: 'a+b/c=' }
  const read = (url: string, { method = 'PUT', at = now, under = keys }: { method?: string; at?: Date; under?: LinkKeys } = {}) => {
    const [path, query] = new URL(url, 'http://x').href.slice('http://x'.length).split('?')
    return readLink(under, method, readPath(path!)!, new URLSearchParams(query), at)
  }

  test('verifies signed links, rejects every modified link, and accepts signatures of older keys', () => {
    const end = new Date('2026-04-01T12:05:00Z')
    const url = signLink(keys, use, end)
    expect(read(url)).toEqual(use)
    expect(read(url, { under: [Buffer.alloc(32, 2), ...keys] })).toEqual(use)
    expect(() => read(url, { under: [Buffer.alloc(32, 2)] })).toThrow('signature of this link is not valid')
    expect(() => read(url, { method: 'GET' })).toThrow('signature of this link is not valid')
    expect(read(url, { at: new Date(end.getTime() - 1) })).toEqual(use)
    expect(() => read(url, { at: end })).toThrow('expired at 2026-04-01T12:05:00.000Z')
    const fields = new URLSearchParams(url.split('?')[1])
    for (const name of fields.keys()) {
      const changed = new URLSearchParams(fields)
      changed.set(name, `${fields.get(name)}1`)
      expect(() => read(`/storage/private/a/b?${changed.toString()}`), name).toThrow('signature of this link is not valid')
      changed.delete(name)
      expect(() => read(`/storage/private/a/b?${changed.toString()}`), name).toThrow('signature of this link is not valid')
    }
    for (const path of ['/storage/public/a/b', '/storage/private/a/c'])
      expect(() => read(`${path}?${fields.toString()}`)).toThrow('signature of this link is not valid')
    for (const path of ['/storage/private/a/../b', '/storage/other/a', '/storage/private/', '/storage/private/a%2Fb']) expect(readPath(path)).toBeUndefined()
  })

  test('creates valid links, headers and keys for any file name', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'binary' })), (name) => {
        const asked: LinkUse = { method: 'GET', bucket: 'private', key: 'a/b', name, content_type: 'text/plain' }
        expect(read(signLink(keys, asked, new Date('2026-04-02')), { method: 'GET' })).toEqual({ ...asked, name: name.toWellFormed() })
        const line = contentDisposition(name)
        expect(line).toMatch(/^attachment; filename="[^"\\]*"(; filename\*=UTF-8''[!#$&+.^_`|~0-9A-Za-z%-]*)?$/)
        expect(line).toMatch(/^[ -~]*$/)
        const [, exact] = /filename\*=UTF-8''(.*)$/.exec(line) ?? []
        if (exact !== undefined) expect(decodeURIComponent(exact)).not.toMatch(/[\r\n\0]/)
        expect(isKey(`downloadable/${keySegment(name)}`)).toBe(true)
      }),
      { numRuns: 300 },
    )
    expect(keySegment('Größe des Führers.PDF')).toBe('Gro-e-des-Fuhrers.PDF')
    expect(keySegment('../../etc/passwd')).toBe('etc-passwd')
    expect(keySegment('日本語.zip')).toBe('file.zip')
    expect(keySegment('.htaccess')).toBe('file.htaccess')
    expect(keySegment(`${'x'.repeat(500)}.tar.gz`)).toHaveLength(103)
    expect(contentDisposition('guide.pdf')).toBe('attachment; filename="guide.pdf"')
    expect(contentDisposition('Größe.pdf')).toBe(`attachment; filename="Gro_e.pdf"; filename*=UTF-8''Gr%C3%B6%C3%9Fe.pdf`)
  })

  test('leaves no files in the folder after all deletions and aborts', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'storage-'))
    const disk = openDisk({ folder, url: new URL('http://localhost'), keys, clock: systemClock })
    const upload_id = await disk.private.beginUpload({ key: 'a/b/c', content_type: 'text/plain', metadata: {}, checksums: false })
    const { url } = await disk.private.presignPart({ key: 'a/b/c', upload_id, number: 1, expires_in: 60 })
    const body = Readable.from([Buffer.from('abc')])
    const { headers } = await disk.serve!({ method: 'PUT', url: url.slice('http://localhost'.length), headers: {}, body })
    await disk.private.completeUpload({ key: 'a/b/c', upload_id, parts: [{ number: 1, etag: headers.etag!, checksum_sha256_base64: null }] })
    await disk.private.delete('a/b/c')
    const left = await disk.private.beginUpload({ key: 'a/d', content_type: 'text/plain', metadata: {}, checksums: false })
    await disk.private.abortUpload({ key: 'a/d', upload_id: left })
    const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    expect(files.map(({ name }) => name).toSorted()).toEqual(['objects', 'private', 'temporary', 'uploads'])
    rmSync(folder, { recursive: true })
  })
})
