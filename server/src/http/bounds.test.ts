import { createProduct, requestLimits } from '@bursar/contract'
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { createRequire } from 'node:module'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { exchange, openWorld, type World } from '../../test/harness/world.ts'

let world: World
let token: string
beforeAll(async () => {
  world = await openWorld({
    settings: { BURSAR_BUDGETS: JSON.stringify({ api: [[100_000, 60]], other_paths: [[60, 60]], readiness: [[5, 60]] }), BURSAR_REDIS_URL: '' },
  })
  const organization = await world.organization()
  token = (await organization.token()).secret.reveal()
})
afterAll(() => world.close())

const json = { 'content-type': 'application/json' }
const post = (body: unknown) => exchange(world.port, 'POST', createProduct.path, { authorization: `Bearer ${token}`, ...json }, JSON.stringify(body))

/**
 * Returns the least CPU time of some requests, in milliseconds, and at least 8: the clock advances in steps of up to 4 ms.
 * Client and server run in this thread; the time of the compiler's and the collector's threads is not counted.
 */
const leastCpu = async (send: () => Promise<unknown>): Promise<number> => {
  let least = Infinity
  for (let tries = 0; tries < 9; tries++) {
    const before = process.threadCpuUsage()
    await send()
    const { user, system } = process.threadCpuUsage(before)
    least = Math.min(least, (user + system) / 1000)
  }
  return Math.max(least, 8)
}

describe('validation answers', () => {
  const wrong = (count: number) => ({ name: 'A', prices: [], metadata: Object.fromEntries(Array.from({ length: count }, (_, at) => [`key-${at}`, [at]])) })

  test('reports at most 50 problems, and how many more were found', async () => {
    const { status, text } = await post(wrong(900))
    const answer = JSON.parse(text) as { detail: unknown[]; left_out: number }
    expect([status, answer.detail.length]).toEqual([422, requestLimits.reported_problems])
    expect(answer.left_out).toBeGreaterThanOrEqual(850)
    expect(text.length).toBeLessThan(64 * 1024)
  })

  test('omits the number of further problems when all problems are listed', async () => {
    expect(JSON.parse((await post({ name: 7 })).text)).not.toHaveProperty('left_out')
  })

  test('reports one problem for a record with too many keys, and does not validate its keys', async () => {
    const { status, text } = await post(wrong(10_000))
    expect(status).toBe(422)
    expect(JSON.parse(text)).toEqual({
      error: 'RequestValidationError',
      detail: [{ loc: ['body', 'metadata'], msg: 'A record has at most 1000 keys. Received 10000.', type: 'too_long' }],
    })
  })

  test('names the place of a list or record that is too long, before the body is parsed', async () => {
    const keys = (count: number) => `{${Array.from({ length: count }, (_, at) => `"k${at}":1`).join(',')}}`
    const send = (text: string) => exchange(world.port, 'POST', createProduct.path, { authorization: `Bearer ${token}`, ...json }, text)
    const problem = async (text: string) => (JSON.parse((await send(text)).text) as { detail: { loc: unknown; msg: string }[] }).detail[0]!
    const long = `[${'1,'.repeat(10_000)}1]`
    expect(await problem(`{"a":[{}, [], {"b \\" \u00fc": ${long}}]}`)).toMatchObject({
      loc: ['body', 'a', 2, 'b " ü'],
      msg: 'A list has at most 10000 elements. Received 10001.',
    })
    expect(await problem(`[1, "a,b:c", ${keys(1001)}]`)).toMatchObject({ loc: ['body', 2], msg: 'A record has at most 1000 keys. Received 1001.' })
    // The largest allowed record is parsed, and refused for another reason.
    expect((await problem(keys(1000))).msg).not.toContain('at most 1000 keys')
    const many = `{"name":"A","metadata":${keys(90_000)}}`
    // Refusing the keys costs no more than reading as many bytes; parsing them and checking each costs several times as much.
    const reading = await leastCpu(() => send(`{"name":"${'a'.repeat(many.length)}"}`))
    expect(await leastCpu(() => send(many))).toBeLessThan(3 * reading)
    // A record that is never closed is refused too, before the parser reads its keys.
    expect(await problem(keys(1001).slice(0, -1))).toMatchObject({ loc: ['body'], msg: 'A record has at most 1000 keys. Received 1001.' })
  })

  test('keeps the answer small when keys and values are long', async () => {
    const long = '\u0001'.repeat(20_000)
    for (const body of [
      { ...wrong(0), metadata: Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`${at}${long.slice(0, 2000)}`, [long.slice(0, 2000)]])) },
      { name: [long], prices: Array.from({ length: 8 }, () => ({ amount_type: long.slice(0, 10_000) })) },
      { name: 'A', prices: Array.from({ length: 4000 }, () => ({ amount_type: 'fixed', price_amount: 'a', price_currency: long.slice(0, 5) })) },
    ]) {
      const { status, text } = await post(body)
      expect(status).toBe(422)
      expect(Buffer.byteLength(text)).toBeLessThan(64 * 1024)
    }
  })
})

describe('requests outside the operations', () => {
  test('answers an unknown path of many slashes with little CPU time', async () => {
    const path = `/${'/'.repeat(15_000)}x`
    expect((await exchange(world.port, 'GET', path)).status).toBe(404)
    // An earlier version trimmed the slashes with a regular expression, which took 80 ms.
    const reading = await leastCpu(() => exchange(world.port, 'GET', path.replaceAll('/', 'a').replace('a', '/')))
    expect(await leastCpu(() => exchange(world.port, 'GET', path))).toBeLessThan(2 * reading)
  })

  test('counts unknown paths and the OpenAPI document in one rate limit, and readiness probes in another', async () => {
    const answers = []
    for (let at = 0; at < 70; at++) answers.push((await exchange(world.port, 'GET', '/v1/nothing', { 'x-test': String(at) })).status)
    expect(new Set(answers)).toEqual(new Set([404, 429]))
    expect((await exchange(world.port, 'GET', '/2026-04/openapi.json')).status).toBe(429)
    const probes = []
    for (let at = 0; at < 7; at++) probes.push((await exchange(world.port, 'GET', '/readyz')).status)
    expect(probes).toEqual([200, 200, 200, 200, 200, 429, 429])
    // A request to an API operation is still allowed, because operations have other limits.
    expect((await exchange(world.port, 'GET', '/v1/organizations', { authorization: `Bearer ${token}` })).status).toBe(200)
  })
})

describe('the OpenAPI document', () => {
  const get = (headers: Record<string, string>) =>
    new Promise<{ status: number; headers: Record<string, unknown>; body: Buffer }>((resolve, reject) => {
      request({ host: '127.0.0.1', port: other.port, path: '/2026-04/openapi.json', headers }, (answer) => {
        const chunks: Buffer[] = []
        answer.on('data', (chunk: Buffer) => chunks.push(chunk))
        answer.on('end', () => resolve({ status: answer.statusCode!, headers: answer.headers, body: Buffer.concat(chunks) }))
      })
        .on('error', reject)
        .end()
    })
  let other: World
  beforeAll(async () => {
    other = await openWorld()
  })
  afterAll(() => other.close())

  test('is served with a compression that the client accepts', async () => {
    // `pnpm check openapi` compares this file with the declarations.
    const whole: unknown = JSON.parse(readFileSync(createRequire(import.meta.url).resolve('@bursar/contract/documents/2026-04.json'), 'utf8'))
    const parsed = (body: Buffer): unknown => JSON.parse(body.toString())
    const [plain, br, zipped, refused] = await Promise.all([
      get({}),
      get({ 'accept-encoding': 'gzip, deflate, br' }),
      get({ 'accept-encoding': 'gzip' }),
      get({ 'accept-encoding': 'br;q=0' }),
    ])
    expect([plain, br, zipped, refused].map(({ headers }) => headers['content-encoding'])).toEqual([undefined, 'br', 'gzip', undefined])
    expect(parsed(plain.body)).toEqual(whole)
    expect([brotliDecompressSync(br.body).equals(plain.body), gunzipSync(zipped.body).equals(plain.body)]).toEqual([true, true])
    expect(br.body.length * 10).toBeLessThan(plain.body.length)
  })

  test('answers 304 to a client that has the current document', async () => {
    const { headers } = await get({})
    const again = await get({ 'if-none-match': `W/"other", ${String(headers.etag)}` })
    expect([again.status, again.body.length]).toEqual([304, 0])
    expect((await get({ 'if-none-match': '"other"' })).status).toBe(200)
  })
})
