import { randomBytes } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { connect as dial } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { noteSecrets } from '../../test/harness/secrets.ts'
import { eventually, exchange, openWorld, type World } from '../../test/harness/world.ts'
import { etagOfParts } from '../gateways/storage/checks.ts'
import { StorageRefusal, StorageSilent, type Bucket } from '../gateways/storage/storage.ts'
import { answerFailure } from './failures.ts'

let world: World
let bucket: Bucket
beforeAll(async () => {
  world = await openWorld()
  bucket = world.api.gateways.storage.private
})
afterAll(() => world.close())

/** Returns path and query of a presigned link to this server. */
const pathOf = ({ url }: { url: string }) => {
  expect(url.startsWith('https://bursar.test/storage/')).toBe(true)
  noteSecrets(url)
  return url.slice('https://bursar.test'.length)
}
const begin = (key: string, content_type = 'text/plain', at = bucket) => at.beginUpload({ key, content_type, metadata: {}, checksums: false })
const partLink = async (key: string, upload_id: string, size?: number, at = bucket) =>
  pathOf(await at.presignPart({ key, upload_id, number: 1, size, expires_in: 3600 }))
const uploadAt = async (at: Bucket, key: string, body: string, content_type: string) => {
  const upload_id = await begin(key, content_type, at)
  const { status, headers } = await exchange(world.port, 'PUT', await partLink(key, upload_id, body.length, at), {}, body)
  expect(status).toBe(200)
  await at.completeUpload({ key, upload_id, parts: [{ number: 1, etag: headers.get('etag')!, checksum_sha256_base64: null }] })
}
/** Lists the files of unfinished parts. */
const unfinished = () =>
  readdirSync((world.config.storage as { folder: string }).folder, { recursive: true, encoding: 'utf8' }).filter((path) => path.includes('/new-'))

/** Opens a raw connection. */
const connection = () => {
  const socket = dial(world.port, '127.0.0.1')
  let text = ''
  let closed = false
  socket.on('data', (chunk) => (text += chunk.toString()))
  socket.on('error', () => undefined)
  socket.on('close', () => (closed = true))
  return { socket, text: () => text, closed: () => closed }
}

test('uploads and downloads a file by presigned links only, as attachment without script execution', async () => {
  const key = 'downloadable/one/page.svg'
  await uploadAt(bucket, key, '<svg onload="alert(1)"/>', 'image/svg+xml')
  const path = pathOf(await bucket.presignDownload({ key, name: 'Größe.svg', content_type: 'image/svg+xml', expires_in: 300 }))
  const got = await exchange(world.port, 'GET', path)
  expect(got.status).toBe(200)
  expect(got.text).toBe('<svg onload="alert(1)"/>')
  expect(Object.fromEntries(got.headers)).toMatchObject({
    'content-type': 'image/svg+xml',
    'content-length': '24',
    'content-disposition': `attachment; filename="Gro_e.svg"; filename*=UTF-8''Gr%C3%B6%C3%9Fe.svg`,
    'content-security-policy': "default-src 'none'; sandbox",
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'private, no-store',
    'cross-origin-resource-policy': 'cross-origin',
  })
  const part = await exchange(world.port, 'GET', path, { range: 'bytes=1-3' })
  expect([part.status, part.text, part.headers.get('content-range')]).toEqual([206, 'svg', 'bytes 1-3/24'])
  const stale = await exchange(world.port, 'GET', path, { range: 'bytes=1-3', 'if-range': '"another"' })
  expect([stale.status, stale.text.length]).toEqual([200, 24])
  const beyond = await exchange(world.port, 'GET', path, { range: 'bytes=24-' })
  expect([beyond.status, JSON.parse(beyond.text).error]).toEqual([416, 'RangeNotSatisfiable'])

  // Pages of other sites may upload and download, so the browser sends a preflight request.
  const asked = await exchange(world.port, 'OPTIONS', path, { origin: 'https://shop.example', 'access-control-request-method': 'PUT' })
  expect([asked.status, asked.headers.get('access-control-allow-origin'), asked.headers.get('access-control-allow-methods')]).toEqual([204, '*', 'GET, PUT'])

  world.clock.advance(301_000)
  const late = await exchange(world.port, 'GET', path)
  expect(late.status).toBe(403)
  expect(JSON.parse(late.text)).toMatchObject({ error: 'NotPermitted', detail: expect.stringContaining('expired at') })
})

test('serves public files without a credential: images inline, SVG as attachment, with conditional requests', async () => {
  const { public: shown } = world.api.gateways.storage
  for (const [type, disposition] of [
    ['image/png', null],
    ['image/svg+xml', 'attachment'],
  ] as const) {
    const key = `product_media/${type.slice(6, 9)}/logo`
    await uploadAt(shown, key, 'picture', type)
    const path = pathOf({ url: shown.publicUrl(key) })
    const got = await exchange(world.port, 'GET', path)
    expect([got.status, got.text, got.headers.get('content-type'), got.headers.get('content-disposition')]).toEqual([200, 'picture', type, disposition])
    expect(got.headers.get('content-security-policy')).toBe("default-src 'none'; sandbox")
    expect(got.headers.get('x-content-type-options')).toBe('nosniff')
    expect((await exchange(world.port, 'GET', path, { 'if-none-match': got.headers.get('etag')! })).status).toBe(304)
  }
})

test('rejects requests without a link, with a modified link, and with path traversal', async () => {
  const key = 'downloadable/two/x'
  await uploadAt(bucket, key, 'secret', 'text/plain')
  const path = pathOf(await bucket.presignDownload({ key, name: 'x', expires_in: 60 }))
  for (const [method, address, status] of [
    ['GET', `/storage/private/${key}`, 403],
    ['GET', path.replace('/two/', '/one/'), 403],
    ['GET', path.replace('name=x', 'name=y'), 403],
    ['PUT', path, 403],
    ['GET', `/storage/public/${key}`, 404],
    ['GET', '/storage/', 404],
    ['GET', '/storage/private/../../../../../../etc/passwd', 404],
    ['GET', '/storage/public/%2e%2e/%2e%2e/etc/passwd', 404],
    ['GET', '/storage/public/..%2fprivate%2fobjects', 404],
    ['POST', path, 404],
    ['DELETE', path, 404],
  ] as const) {
    const answer = await exchange(world.port, method, address, { 'content-length': '0' })
    expect([method, address, answer.status]).toEqual([method, address, status])
    expect(answer.text).not.toContain('secret')
    expect(answer.headers.get('x-request-id')).not.toBeNull()
  }
})

test('reads no more of a body than its link allows, and deletes the file of an aborted upload', async () => {
  const key = 'downloadable/three/x'
  const upload_id = await begin(key)
  const path = await partLink(key, upload_id, 1000)
  const head = `PUT ${path} HTTP/1.1\r\nhost: x\r\n`

  // The client sends an endless chunked body without declaring its length.
  const endless = connection()
  endless.socket.write(`${head}transfer-encoding: chunked\r\n\r\n`)
  const piece = `8000\r\n${'x'.repeat(0x8000)}\r\n`
  for (let sent = 0; sent < 64 && !endless.closed(); sent++) endless.socket.write(piece)
  await eventually('the endless body is rejected', async () => endless.text().includes('RequestBodyTooLarge') && endless.closed())
  expect(endless.text()).toMatch(/^HTTP\/1\.1 413 /)

  const long = connection()
  long.socket.write(`${head}content-length: 1001\r\n\r\n`)
  await eventually('the long body is rejected before it is sent', async () => long.text().includes('1001 bytes') && long.closed())

  const broken = connection()
  broken.socket.write(`${head}content-length: 1000\r\n\r\n${'x'.repeat(500)}`)
  await eventually('one temporary file exists', async () => unfinished().length === 1)
  broken.socket.destroy()
  await eventually('no temporary file exists', async () => unfinished().length === 0)

  const forged = connection()
  forged.socket.write(`PUT ${path.replace('size=1000', 'size=9999999')} HTTP/1.1\r\nhost: x\r\ncontent-length: 9999999\r\n\r\n`)
  await eventually('the forged link is rejected before the body is sent', async () => forged.text().startsWith('HTTP/1.1 403') && forged.closed())
})

test('lets only the upload of a part exceed the request timeout', async () => {
  const { server } = world.api.server
  const before = [server.headersTimeout, server.requestTimeout]
  ;[server.headersTimeout, server.requestTimeout] = [500, 1000]
  try {
    const key = 'downloadable/four/x'
    const upload_id = await begin(key)
    const body = randomBytes(1000).toString('hex')
    const slow = connection()
    slow.socket.write(`PUT ${await partLink(key, upload_id, 2000)} HTTP/1.1\r\nhost: x\r\ncontent-length: 2000\r\n\r\n${body.slice(0, 1000)}`)
    await eventually('the upload of the part has started', async () => unfinished().length === 1)
    const other = connection()
    other.socket.write('POST /v1/nothing HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 2000\r\n\r\n{')
    // The other request began after the upload. When its timeout has passed, the upload has therefore exceeded that timeout too.
    await eventually('the connection of the other request is closed', async () => other.closed())
    expect(slow.closed()).toBe(false)
    slow.socket.write(body.slice(1000))
    await eventually('the upload of the part succeeds', async () => slow.text().startsWith('HTTP/1.1 200 '))
    const etag = /etag: "([0-9a-f]{32})"/.exec(slow.text())![1]!
    const parts = [{ number: 1, etag, checksum_sha256_base64: null }]
    expect(await bucket.completeUpload({ key, upload_id, parts })).toMatchObject({ size: 2000, etag: etagOfParts(parts) })
    // The next request on the same connection has the ordinary timeout again.
    slow.socket.write('POST /v1/nothing HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 2000\r\n\r\n{')
    await eventually('the connection of the next request is closed', async () => slow.closed())
  } finally {
    ;[server.headersTimeout, server.requestTimeout] = before as [number, number]
  }
})

test('has no storage routes if files are stored elsewhere or nowhere, and answers 503 if the storage fails', async () => {
  const bare = await openWorld({ settings: { BURSAR_STORAGE_DIR: '' } })
  const answer = await exchange(bare.port, 'GET', '/storage/public/a/b')
  expect([answer.status, JSON.parse(answer.text).error]).toEqual([404, 'RouteNotFound'])
  const failed = await bare.api.gateways.storage.private.head('a/b').catch((error: unknown) => answerFailure(error))
  expect(failed).toMatchObject({ status: 503, fault: true, body: { error: 'ServiceUnavailable' } })
  expect(JSON.stringify(failed)).not.toContain('BURSAR_')
  expect(answerFailure(new StorageSilent('x'))).toMatchObject({ status: 503, fault: true, headers: { 'retry-after': '5' } })
  expect(answerFailure(new StorageRefusal('absent', 'x'))).toMatchObject({ status: 500, fault: true })
  await bare.close()
})
