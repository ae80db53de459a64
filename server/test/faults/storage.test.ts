import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { get, request, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import {
  completeFile,
  createBenefit,
  createBenefitGrant,
  createCustomer,
  createCustomerSession,
  createFile,
  deleteFile,
  listDownloadables,
  listFiles,
} from '@bursar/contract'
import { connect, type Client } from '@bursar/contract/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { launch, type Program } from '../harness/process.ts'
import { largeFile, stores, storeSettings, upload, type Upload } from '../harness/stores.ts'
import { eventually, exchange, freePort, openWorld, type World } from '../harness/world.ts'

const mebibyte = 1024 * 1024
const partSize = 16 * mebibyte
const seed = randomBytes(mebibyte)
/** Returns a megabyte that is unique for its file and position. */
const chunkOf = (salt: number, at: number): Buffer => {
  const chunk = Buffer.from(seed)
  chunk.writeUInt32BE(salt, 0)
  chunk.writeUInt32BE(at, 4)
  return chunk
}

interface Large {
  readonly salt: number
  readonly sha256: string
  readonly parts: readonly { readonly from: number; readonly to: number; readonly sha256: string }[]
}

let salts = 0
/** Describes a large file by its hashes, without holding all of it in memory. */
const large = (): Large => {
  const salt = ++salts
  const whole = createHash('sha256')
  const parts = []
  for (let from = 0; from < largeFile; from += partSize) {
    const to = Math.min(from + partSize, largeFile)
    const part = createHash('sha256')
    for (let at = from; at < to; at += mebibyte) {
      const chunk = chunkOf(salt, at / mebibyte)
      whole.update(chunk)
      part.update(chunk)
    }
    parts.push({ from, to, sha256: part.digest('base64') })
  }
  return { salt, sha256: whole.digest('base64'), parts }
}

/**
 * Runs the server and its worker on a real object store. Faulty large uploads are refused or cleaned up. The memory of
 * the server does not grow with the size of a file.
 */
describe.each(stores)('large files on %s', { timeout: 900_000 }, (store) => {
  let world: World
  let program: Program
  let port: number
  /** File to which the server writes its largest memory use so far. `usual` is the largest use with small files only. */
  const memory = join(process.env.BURSAR_TEST_SCRATCH ?? tmpdir(), `memory-${store}`)
  const most = () => Number(readFileSync(memory, 'utf8'))
  let usual = 0
  /** Largest resident memory of the process, as the kernel reports it. It includes memory that is not yet released. */
  let usualResident = 0
  let resident = 0
  let watching: NodeJS.Timeout
  beforeAll(async () => {
    world = await openWorld({ browser: true, settings: await storeSettings(store) })
    port = await freePort()
    program = launch(['serve'], {
      ...world.environmentVariables,
      BURSAR_LISTEN: `127.0.0.1:${port}`,
      BURSAR_PUBLIC_URL: `http://127.0.0.1:${port}`,
      BURSAR_LOG_LEVEL: 'info',
      TEST_MEMORY_FILE: memory,
      NODE_OPTIONS: `--import=${new URL('../harness/tidy.ts', import.meta.url).href}`,
    })
    await program.line('listening')
    watching = setInterval(() => {
      const now = Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${program.child.pid}/status`, 'utf8'))![1]) * 1024
      resident = Math.max(resident, now)
    }, 25)
    // Uploads small files whose sizes add up to half of a large file, to measure the usual memory use.
    const { api } = await shop()
    for (let round = 0; round < Math.max(16, largeFile / 2 / (6 * mebibyte)); round++) {
      const bytes = chunkOf(0, round)
      const six = Buffer.concat([bytes, bytes, bytes, bytes, bytes, bytes])
      const file = await upload(api, six, { ends: [5 * mebibyte, six.length] })
      await api.call(deleteFile, { params: { id: file.id } })
    }
    ;[usual, usualResident] = [most(), resident]
  }, 300_000)
  afterAll(async () => {
    clearInterval(watching)
    program.signal('SIGTERM')
    await program.exited
    await world.close()
  })

  const shop = async () => {
    const organization = await world.organization()
    const { secret } = await organization.token()
    const api = client(secret.reveal())
    return { organization, api }
  }
  const client = (token: string): Client =>
    connect((asked) => exchange(port, asked.method, asked.url, asked.headers, asked.body), { authorization: `Bearer ${token}` })

  const announce = (api: Client, { parts, sha256 }: Large, { checksums = true, checksum = sha256 }: { checksums?: boolean; checksum?: string } = {}) =>
    api.call(createFile, {
      body: {
        service: 'downloadable',
        name: 'image.iso',
        mime_type: 'application/octet-stream',
        size: largeFile,
        checksum_sha256_base64: checksum,
        upload: {
          parts: parts.map(({ from, to, sha256: ofPart }, at) => ({
            number: at + 1,
            chunk_start: from,
            chunk_end: to,
            ...(checksums ? { checksum_sha256_base64: ofPart } : {}),
          })),
        },
      } as never,
    })

  /** Uploads one part as a stream. If `breaksAt` is given, the sender disconnects after this many bytes. */
  const put = async ({ upload: { parts: links } }: Upload, at: number, { salt, parts }: Pick<Large, 'salt' | 'parts'>, breaksAt = Infinity) => {
    const { url, headers } = links[at]!
    const { from, to } = parts[at]!
    const outgoing = request(url, { method: 'PUT', headers: { ...headers, 'content-length': String(to - from) } })
    const answered = (once(outgoing, 'response') as Promise<[IncomingMessage]>).then(
      ([answer]) => answer,
      () => undefined,
    )
    let broken = false
    const chunks = function* () {
      for (let position = from; position < to; position += mebibyte) {
        if (position - from >= breaksAt) {
          broken = true
          throw new Error('cut off')
        }
        yield chunkOf(salt, position / mebibyte)
      }
    }
    const sent = pipeline(Readable.from(chunks()), outgoing).catch(() => undefined)
    // The store may refuse a part before it has read the whole part.
    await Promise.race([sent, answered])
    if (broken) return { status: 0, etag: '' }
    const answer = await answered
    if (!answer) return { status: 499, etag: '' }
    answer.resume()
    await once(answer, 'close')
    outgoing.destroy()
    return { status: answer.statusCode!, etag: answer.headers.etag ?? '' }
  }

  const putAll = async (announced: Upload, file: Pick<Large, 'salt' | 'parts'>) => {
    const parts = []
    for (const [at] of file.parts.entries()) {
      const { status, etag } = await put(announced, at, file)
      expect([at, status]).toEqual([at, 200])
      parts.push({ number: at + 1, checksum_etag: etag })
    }
    return { id: announced.upload.id, path: announced.path, parts }
  }

  const complete = (api: Client, id: string, body: object) => api.sendRaw(completeFile, { params: { id }, body })
  /** Repeats the complete request until the server has verified or refused the file. */
  const outcome = (api: Client, id: string, body: object) =>
    eventually(
      'the large file is checked',
      async () => {
        const answer = await complete(api, id, body)
        return answer.status === 200 && !(answer.body as { is_uploaded: boolean }).is_uploaded ? undefined : answer
      },
      300_000,
    )
  const whereOf = (answer: { body: unknown }) => (answer.body as { detail: { loc: unknown[] }[] }).detail[0]!.loc.join('.')
  const whyOf = (answer: { body: unknown }) => (answer.body as { detail: { msg: string }[] }).detail[0]!.msg
  const bucket = () => world.api.gateways.storage.private
  const nothingLeft = (path: string) =>
    eventually(
      `the store contains no part of ${path}`,
      async () =>
        (await bucket().head(path)) === undefined &&
        (await bucket().listUploads({ prefix: path.slice(0, path.lastIndexOf('/') + 1), limit: 10 })).uploads.length === 0,
      30_000,
    )

  test('stores a correct upload, and refuses to complete it with a wrong part, another upload id or another path', async () => {
    const { api } = await shop()
    const neighbour = await shop()
    const file = large()
    const announced = await announce(api, file)
    const theirs = await announce(neighbour.api, file)
    const body = await putAll(announced, file)
    const refused = async (client: Client, id: string, changes: object) => {
      const answer = await complete(client, id, { ...body, ...changes })
      expect(answer.status, JSON.stringify(answer.body)).toBe(422)
      return whereOf(answer)
    }
    // The complete request swaps two parts, names a part that was never sent, or leaves a part out.
    const [first, second, ...others] = body.parts
    const swapped = [{ ...first!, checksum_etag: second!.checksum_etag }, { ...second!, checksum_etag: first!.checksum_etag }, ...others]
    expect(await refused(api, announced.id, { parts: swapped })).toBe('body.parts')
    expect(await refused(api, announced.id, { parts: [{ ...first!, checksum_etag: '0'.repeat(32) }, second!, ...others] })).toBe('body.parts')
    expect(await refused(api, announced.id, { parts: body.parts.slice(0, -1) })).toBe('body.parts')
    expect(await refused(api, announced.id, { parts: [{ ...first!, checksum_sha256_base64: file.parts[1]!.sha256 }, second!, ...others] })).toMatch(
      /^body\.parts\.0/,
    )
    // Another organization completes its file with our upload id or our path.
    expect(await refused(neighbour.api, theirs.id, {})).toBe('body.id')
    expect(await refused(neighbour.api, theirs.id, { id: theirs.upload.id })).toBe('body.path')
    expect(await refused(neighbour.api, theirs.id, { path: theirs.path })).toBe('body.id')
    expect((await complete(neighbour.api, announced.id, body)).status).toBe(404)
    // We complete our file with the path or the upload id of the other organization.
    expect(await refused(api, announced.id, { path: theirs.path })).toBe('body.path')
    expect(await refused(api, announced.id, { id: theirs.upload.id })).toBe('body.id')
    expect((await api.call(listFiles, {})).items).toEqual([])

    const begun = await complete(api, announced.id, body)
    expect(begun).toMatchObject({ status: 200, body: { is_uploaded: false } })
    expect(await outcome(api, announced.id, body)).toMatchObject({ status: 200, body: { is_uploaded: true, checksum_sha256_base64: file.sha256 } })
    const { items } = await api.call(listFiles, {})
    expect(items.map(({ id, size }) => [id, size])).toEqual([[announced.id, largeFile]])
    await neighbour.api.call(deleteFile, { params: { id: theirs.id } })
    await api.call(deleteFile, { params: { id: announced.id } })
    await nothingLeft(theirs.path)
    await nothingLeft(announced.path)
  })

  test('refuses and removes an upload with wrong bytes or a wrong hash', async () => {
    const { api } = await shop()
    const [file, other] = [large(), large()]
    // One part has wrong bytes. A store that verifies parts refuses it. Otherwise the check of the whole file finds it.
    const announced = await announce(api, file)
    const etags: string[] = []
    for (const at of file.parts.keys()) {
      const { status, etag } = await put(announced, at, at === 1 ? { ...file, salt: other.salt } : file)
      etags.push(etag)
      if (at !== 1) expect(status).toBe(200)
      else if (status !== 200) break
    }
    if (etags.length === file.parts.length) {
      const body = { id: announced.upload.id, path: announced.path, parts: etags.map((checksum_etag, at) => ({ number: at + 1, checksum_etag })) }
      const answer = await outcome(api, announced.id, body)
      expect([answer.status, whereOf(answer)]).toEqual([422, 'body.parts'])
      expect(whyOf(answer)).toContain('SHA-256')
    } else await api.call(deleteFile, { params: { id: announced.id } })
    await nothingLeft(announced.path)

    // The hash of the whole file is wrong, and no part hashes were announced.
    const wrong = await announce(api, file, { checksums: false, checksum: other.sha256 })
    const body = await putAll(wrong, file)
    const answer = await outcome(api, wrong.id, body)
    expect([answer.status, whereOf(answer)]).toEqual([422, 'body.parts'])
    expect(whyOf(answer)).toContain(other.sha256)
    expect(whyOf(await complete(api, wrong.id, body))).toBe(whyOf(answer))
    await nothingLeft(wrong.path)
    expect((await api.call(listFiles, {})).items).toEqual([])
  })

  test('leaves nothing in the store if the sender disconnects during an upload and then deletes the file', async () => {
    const { api } = await shop()
    const file = large()
    const announced = await announce(api, file)
    expect((await put(announced, 0, file)).status).toBe(200)
    expect((await put(announced, 1, file, 3 * mebibyte)).status).toBe(0)
    expect((await api.send(deleteFile, { params: { id: announced.id } })).status).toBe(204)
    await nothingLeft(announced.path)
    expect((await put(announced, 2, file)).status).toBeGreaterThanOrEqual(400)
    expect((await complete(api, announced.id, { id: announced.upload.id, path: announced.path, parts: [{ number: 1, checksum_etag: 'x' }] })).status).toBe(404)
    await nothingLeft(announced.path)
  })

  test('sends the whole file or breaks the download if the file is deleted meanwhile, and refuses new downloads', async () => {
    const { api } = await shop()
    const file = large()
    const announced = await announce(api, file)
    expect(await outcome(api, announced.id, await putAll(announced, file))).toMatchObject({ status: 200 })
    const benefit = await api.call(createBenefit, { body: { type: 'downloadables', description: 'An image', properties: { files: [announced.id] } } })
    const customer = await api.call(createCustomer, { body: { email: 'reader@people.test' } })
    await api.call(createBenefitGrant, { body: { customer_id: customer.id, benefit_id: benefit.id } })
    const { token } = await api.call(createCustomerSession, { body: { customer_id: customer.id } })
    const [one] = (await client(token).call(listDownloadables, {})).items
    const link = new URL(one!.file.download.url).pathname
    const redeem = () => exchange(port, 'GET', link)
    const location = (await redeem()).headers.get('location')!
    const [answer] = (await once(get(location), 'response')) as [IncomingMessage]
    expect([answer.statusCode, Number(answer.headers['content-length'])]).toEqual([200, largeFile])
    const hash = createHash('sha256')
    let received = 0
    const reading = (async () => {
      for await (const chunk of answer as AsyncIterable<Buffer>) {
        hash.update(chunk)
        received += chunk.length
        if (received - chunk.length < 8 * mebibyte && received >= 8 * mebibyte) {
          expect((await api.send(deleteFile, { params: { id: announced.id } })).status).toBe(204)
          await nothingLeft(announced.path)
        }
      }
      return 'ended' as const
    })().catch((error: unknown) => (error as { code?: string }).code ?? 'failed')
    const end = await reading
    if (end === 'ended') expect([received, hash.digest('base64')]).toEqual([largeFile, file.sha256])
    else expect(end).toBe('ECONNRESET')
    expect((await redeem()).status).toBe(410)
    const late = await fetch(location)
    expect(late.status).toBe(404)
    await late.arrayBuffer()
  })

  test('uses at most 32 MiB more memory for large files than for small ones', () => {
    const [before, after, residentBefore, residentAfter] = [usual, most(), usualResident, resident].map((bytes) => Math.round(bytes / mebibyte))
    process.stdout.write(
      `memory of the server on ${store}: ${before} MiB held with small files, ${after} MiB with files of ${largeFile / mebibyte} MiB (resident: ${residentBefore}, ${residentAfter})\n`,
    )
    expect(most() - usual).toBeLessThanOrEqual(32 * mebibyte)
  })
})
