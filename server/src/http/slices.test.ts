import { createMeter, ingestEvents, InvalidRequest, listUsageEvents, oneOf, requestLimits } from '@bursar/contract'
import { request, type ClientRequest } from 'node:http'
import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { eventually, exchange, openWorld, type World } from '../../test/harness/world.ts'
import { mayExceedDoubles, pathKey } from '../kernel/exact-json.ts'
import { parseInSlices, readSliced } from './slices.ts'

const mebibytes = (count: number) => count * 1024 * 1024
const read = (text: string) => readSliced(Buffer.from(text), 'events')
/** Returns the place of the first problem. */
const placeOf = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work
    return 'accepted'
  } catch (error) {
    if (error instanceof InvalidRequest) return error.problems[0]!.loc.join('.')
    throw error
  }
}

describe('reading in slices', () => {
  test('returns the same value as the parser of the engine', async () => {
    const bodies = [
      '{"events":[]}',
      ' { "events" : [ ] , "other" : [1,2] } ',
      '{"events":[1,"a,]}\\"",{"events":[1,[2]]},[3,[4]],null,true]}',
      '{"a":{"events":[9]},"events":[{"b":"ä€𝔘\\u0041"}],"z":"]"}',
      '{"events":{"a":1}}',
      '{"events":"none"}',
      '{"\\u0065vents":[1]}',
      '[1,2]',
      '"text"',
      '7',
    ]
    for (const body of bodies) expect((await read(body)).body).toEqual(JSON.parse(body))
    const long = JSON.stringify({ events: Array.from({ length: 12_000 }, (_, at) => ({ at, text: 'x'.repeat(at % 50) })) })
    expect((await read(long)).body).toEqual(JSON.parse(long))
  })

  test('rejects invalid JSON', async () => {
    for (const body of [
      '{"events":[1,]}',
      '{"events":[,1]}',
      '{"events":[1 2]}',
      '{"events":[1',
      '{"events":[{]}',
      '{"events":[1]',
      '{"events":["a]}',
      '{"events":[1]}}',
      '{',
    ])
      expect([body, await placeOf(read(body))]).toEqual([body, expect.stringMatching(/^body\.\d+$/)])
    expect(await placeOf(readSliced(Buffer.from([0x7b, 0xff, 0x7d]), 'events'))).toBe('body')
    expect(await placeOf(read('{"events":[1],"events":[2]}'))).toBe('body.events')
  })

  test('applies the limits of size to each element and to the rest of the body', async () => {
    const nested = `${'['.repeat(40)}${']'.repeat(40)}`
    expect(await placeOf(read(`{"events":[1,${nested}]}`))).toMatch(/^body\.events\.1\./)
    const keys = JSON.stringify(Object.fromEntries(Array.from({ length: 1001 }, (_, at) => [`k${at}`, 1])))
    expect(await placeOf(read(`{"events":[1,2,${keys}]}`))).toBe('body.events.2')
    expect(await placeOf(read(`{"events":["${'x'.repeat(1024 * 1024)}"]}`))).toBe('body.events.0')
    expect(await placeOf(read(`{"events":[],"other":"${'x'.repeat(1024 * 1024)}"}`))).toBe('body')
    expect(await placeOf(read('{"events":[1,{"a":"\\u0000"}]}'))).toBe('body.events.1.a')
    expect(await placeOf(read('{"events":[{"a":"\\ud800"}]}'))).toBe('body.events.0.a')
    expect(await placeOf(read('{"events":[{"\\uDC00":1}]}'))).toBe('body.events.0')
    expect(await placeOf(read('{"events":["\0"]}'))).toMatch(/^body\.\d+$/)
  })

  test('ends a slice after 500 elements or 128 KiB', async () => {
    const { ends } = await read(JSON.stringify({ events: [...Array.from({ length: 700 }, () => 1), ...Array.from({ length: 4 }, () => 'x'.repeat(60_000))] }))
    expect(ends).toEqual([500, 702, 704])
    expect((await read('{"other":1}')).ends).toEqual([])
  })

  test('keeps the digits of numbers that a double cannot hold', async () => {
    const { body, numbers } = await read('{"events":[{"a":0.1},{"a":12345678901234567890,"b":{"c":0.12345678901234567},"d":1.5}]}')
    expect(body).toEqual({ events: [{ a: 0.1 }, { a: Number('12345678901234567890'), b: { c: Number('0.12345678901234567') }, d: 1.5 }] })
    expect([...numbers]).toEqual([
      [pathKey(['events', 1, 'a']), '12345678901234567890'],
      [pathKey(['events', 1, 'b', 'c']), '0.12345678901234567'],
    ])
    expect(await placeOf(read('{"events":[{"a":1e-400}]}'))).toBe('body.events.0.a')
    expect(await placeOf(read(`{"events":[{"a":0.${'1'.repeat(100)}}]}`))).toBe('body.events.0.a')
  })

  test('finds long numbers wherever a number can be, and ignores the digits of ids', () => {
    const long = '1234567890.1234567'
    for (const text of [long, `-${long}`, `[${long}]`, `[1,${long}]`, `{"a":${long}}`, `{"a":\n-${long}}`, `[1,\t${long}]`, '{"a":-1.5E-400}', '[1,2e+300]'])
      expect([text, mayExceedDoubles(text)]).toEqual([text, true])
    for (const text of ['{"a":123456789012345}', `{"id":"event-${long}"}`, '{"id":"12345678901234567890"}', '{"a":1.5e-40}'])
      expect([text, mayExceedDoubles(text)]).toEqual([text, false])
  })

  test('rejects a list that is too long, and names its length and the limit', async () => {
    const most = requestLimits.events_per_request
    const list = (length: number) => `{"events":[${Array.from({ length }, () => 1).join()}]}`
    expect(((await read(list(most))).body as { events: unknown[] }).events).toHaveLength(most)
    expect(await placeOf(read(list(most + 7)))).toBe('body.events')
    await expect(read(list(most + 7))).rejects.toMatchObject({ problems: [{ msg: expect.stringMatching(/50000.*50007/) as string }] })
  })

  test('parses the selected record of a union once', () => {
    let parsed = 0
    const count = () =>
      z.string().transform((text) => {
        parsed++
        return text.length
      })
    const union = z.array(oneOf(z.object({ a: count() }), { b: z.object({ b: count() }) }))
    expect(union.parse([{ a: 'one' }, { b: 'three' }, { b: '' }])).toEqual([{ a: 3 }, { b: 5 }, { b: 0 }])
    expect(parsed).toBe(3)
    const problems = union.safeParse([{ a: 'one', b: 'two' }, { b: 7 }]).error!.issues.map(({ path }) => path.join('.'))
    expect(problems).toEqual(['0.a', '1.b'])
  })

  test('reports the index of an element in the whole list', async () => {
    const events = Array.from({ length: 1700 }, (_, at) => ({ name: at === 1234 ? 7 : 'call', external_customer_id: 'c' }))
    expect(await placeOf(parseInSlices(ingestEvents, 'events', { params: {}, query: {}, body: { events } }, [500, 1000, 1500, 1700]))).toBe(
      'body.events.1234.name',
    )
    expect(await placeOf(parseInSlices(ingestEvents, 'events', { params: {}, query: {}, body: { events: 'none' } }, []))).toBe('body.events')
  })
})

describe('requests with many events', () => {
  let world: World
  beforeAll(async () => {
    world = await openWorld({ settings: { BURSAR_BUDGETS: JSON.stringify({ api: [[1_000_000, 60]], ingested_events: [[40_000, 60]] }) } })
  })
  afterAll(() => world.close())
  const post = async (token: string, path: string, body: string) =>
    exchange(world.port, 'POST', path, { authorization: `Bearer ${token}`, 'content-type': 'application/json' }, body)

  test('accepts 10 MiB for ingest alone, and never holds the event loop for long', async () => {
    const { organization, api } = await world.shop()
    const token = (await organization.token()).secret.reveal()
    const event = { name: 'call', external_customer_id: 'c', metadata: { text: 'x'.repeat(470) } }
    const body = JSON.stringify({ events: Array.from({ length: 18_000 }, () => event) })
    expect(body.length).toBeGreaterThan(9_400_000)
    const delay = monitorEventLoopDelay({ resolution: 1 })
    delay.enable()
    const before = performance.now()
    const answer = await post(token, ingestEvents.path, body)
    delay.disable()
    expect([answer.status, answer.text]).toEqual([200, '{"inserted":18000,"duplicates":0}'])
    // The client of this test runs in the same process. Without slices, the loop is held for most of the request.
    expect(delay.max / 1e6).toBeLessThan((performance.now() - before) / 3)
    expect((await api.call(listUsageEvents, { query: { limit: 1 } })).pagination).toMatchObject({ total_count: 18_000 })
    expect((await post(token, createMeter.path, JSON.stringify({ name: 'x'.repeat(1_200_000) }))).status).toBe(413)
    expect((await post(token, ingestEvents.path, `{"events":[]${' '.repeat(11 * 1024 * 1024)}}`)).status).toBe(413)
  })

  test('refuses bodies of a caller that together have more than 40 MiB, and accepts them again when the others have ended', async () => {
    const [one, other] = [await world.shop(), await world.shop()]
    const headersOf = async ({ organization }: typeof one) => ({
      authorization: `Bearer ${(await organization.token()).secret.reveal()}`,
      'content-type': 'application/json',
    })
    const headers = await headersOf(one)
    // Begins a request whose body never arrives as a whole.
    const begin = () => {
      const outgoing = request({
        host: '127.0.0.1',
        port: world.port,
        method: 'POST',
        path: ingestEvents.path,
        headers: { ...headers, 'content-length': mebibytes(9) },
      })
      outgoing.on('error', () => {})
      outgoing.write('{"events":[')
      return outgoing
    }
    const event = JSON.stringify({ name: 'call', external_customer_id: 'c' })
    const small = `{"events":[${event}]}`
    const large = `{"events":[${Array.from({ length: 12 }, () => `${event.slice(0, -1)}${' '.repeat(mebibytes(0.5))}}`).join()}]}`
    const send = async (body: string, of = headers) => exchange(world.port, 'POST', ingestEvents.path, of, body)
    let begun: ClientRequest[] = []
    const endAll = () => begun.forEach((outgoing) => outgoing.destroy())
    onTestFinished(endAll)
    // The server ends requests that take too long to arrive, so each attempt begins new ones.
    const refused = await eventually('the four bodies are counted', async () => {
      endAll()
      begun = Array.from({ length: 4 }, begin)
      const answer = await send(large)
      return answer.status === 429 && answer
    })
    expect([refused.headers.get('retry-after'), (JSON.parse(refused.text) as { detail: string }).detail]).toEqual(['1', expect.stringContaining('40 MiB')])
    expect((await send(small)).status).toBe(200)
    expect((await send(large, await headersOf(other))).status).toBe(200)
    endAll()
    await eventually('the bodies are no longer counted', async () => (await send(large)).status === 200)
    // A connection that ends early is not logged as an error of the server.
    expect(world.lines.filter((line) => line.includes('request_failed'))).toEqual([])
  })

  test('charges each event to the organization, and rejects a request that exceeds the limit', async () => {
    const { api, organization } = await world.shop()
    const events = (count: number) => Array.from({ length: count }, () => ({ name: 'call', external_customer_id: 'c' }))
    expect((await api.send(ingestEvents, { body: { events: events(39_995) } })).status).toBe(200)
    expect((await api.send(ingestEvents, { body: { events: events(5) } })).status).toBe(200)
    const refused = await api.send(ingestEvents, { body: { events: events(1) } })
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(refused.headers.get('ratelimit-policy')).toContain('"ingested_events";q=40000')
    expect((await api.call(listUsageEvents, { query: { limit: 1 } })).pagination).toMatchObject({ total_count: 40_000 })
    // Another organization has its own limit.
    const other = await world.shop()
    expect((await other.api.send(ingestEvents, { body: { events: events(1) } })).status).toBe(200)
    const user = await world.person()
    await world.join(organization.id, user.id, 'admin')
    const own = world.client({ token: (await user.token()).secret })
    expect((await own.send(ingestEvents, { body: { events: [{ name: 'call', external_customer_id: 'c', organization_id: organization.id }] } })).status).toBe(
      429,
    )
  })
})
