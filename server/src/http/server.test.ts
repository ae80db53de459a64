import { once } from 'node:events'
import { connect as dial, type AddressInfo, type Server } from 'node:net'
import { promisify } from 'node:util'
import {
  createOrganizationToken,
  getOrganization,
  listOrganizations,
  listTokenPatterns,
  operations,
  requestSignInCode,
  updateOrganization,
  versions,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { fairStopwatch } from '../../test/harness/fair.ts'
import { longestWait } from '../../test/harness/pace.ts'
import { eventually, exchange, openWorld, type World } from '../../test/harness/world.ts'
import { openApi } from '../main/wire.ts'
import { newToken } from '../kernel/secrets.ts'

let world: World
let token: string
let organization: Awaited<ReturnType<World['organization']>>
beforeAll(async () => {
  world = await openWorld()
  organization = await world.organization()
  token = (await organization.token()).secret.reveal()
})
afterAll(() => world.close())

const call = (method: string, path: string, headers: Record<string, string | string[]> = {}, body?: string | Buffer) =>
  exchange(world.port, method, path, { authorization: `Bearer ${token}`, ...headers }, body)
const here = () => `/v1/organizations/${organization.id}`
const json = { 'content-type': 'application/json' }

const connectionsOf = (server: Server) => promisify<number>((done) => server.getConnections(done))()

describe('routes', () => {
  test('answers paths with and without a trailing slash, without a redirect', async () => {
    for (const path of ['/v1/organizations', '/v1/organizations/', here(), `${here()}/`]) expect((await call('GET', path)).status).toBe(200)
  })

  test('serves all routes below /v1, and the OpenAPI document has their id, scopes and responses [S9-02]', async () => {
    expect(operations.every(({ path }) => path.startsWith('/v1/'))).toBe(true)
    const served = JSON.parse((await call('GET', '/2026-04/openapi.json')).text) as {
      paths: Record<string, Record<string, { operationId: string; security: unknown[]; responses: Record<string, unknown> }>>
    }
    for (const operation of operations) {
      const described = served.paths[operation.path]![operation.method.toLowerCase()]!
      expect(described.operationId).toBe(operation.id)
      const { kind } = operation.access
      const guarded = kind === 'merchant' || kind === 'session' || kind === 'portal'
      if (guarded || kind === 'open') expect(described.security.length > 0).toBe(guarded)
      expect(Object.keys(described.responses)).toEqual(
        expect.arrayContaining(kind === 'protocol' ? ['400', '401', '429'] : guarded ? ['401', '403', '404', '422', '429'] : ['404', '422', '429']),
      )
    }
  })

  test('answers 404 for an unknown path, and 405 with the allowed methods for a wrong method', async () => {
    expect(JSON.parse((await call('GET', '/v1/nothing')).text)).toMatchObject({ error: 'RouteNotFound' })
    const wrong = await call('PUT', here(), json, '{}')
    expect(wrong.status).toBe(405)
    expect(wrong.headers.get('allow')).toBe('GET, PATCH')
    expect((await call('GET', '/v1/organizations/%zz')).status).toBe(400)
  })
})

test('closes while clients hold connections on which they have sent nothing', async () => {
  const other = await openApi(world.base)
  await other.server.listen({ host: '127.0.0.1', port: 0 })
  const socket = dial((other.server.server.address() as AddressInfo).port, '127.0.0.1')
  const ended = once(socket, 'close')
  await once(socket, 'connect')
  await eventually('the server has accepted the connection', async () => (await connectionsOf(other.server.server)) > 0)
  await Promise.race([other.close(), new Promise((_, reject) => setTimeout(() => reject(new Error('still open')), longestWait))])
  socket.resume()
  await ended
})

describe('credentials', () => {
  test('accepts a bearer token with the scheme in any case [S5-01]', async () => {
    for (const authorization of [`Bearer ${token}`, `bearer ${token}`, `BEARER  ${token}`])
      expect((await call('GET', here(), { authorization })).status).toBe(200)
  })

  test('answers 401 with a challenge without a credential or with a malformed one [S7-04]', async () => {
    for (const authorization of ['', 'Basic abc', `Token ${token}`, token, 'Bearer', 'Bearer ', 'Bearer tøken']) {
      const answer = await call('GET', here(), { authorization })
      expect([authorization, answer.status, JSON.parse(answer.text).error]).toEqual([authorization, 401, 'Unauthorized'])
      expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="bursar"')
    }
    expect((await exchange(world.port, 'GET', `${here()}?access_token=${token}&token=${token}`)).status).toBe(401)
  })

  test('rejects a damaged, invented, foreign or repeated credential with an explanation [S7-04]', async () => {
    const refused: Record<string, RegExp> = {
      [`Bearer ${token.slice(0, -1)}`]: /damaged/,
      [`Bearer ${token.slice(0, -1)}${token.endsWith('a') ? 'b' : 'a'}`]: /damaged/,
      'Bearer polar_oat_abcdef': /not a token of this service/,
      [`Bearer ${newToken('organization', 'sandbox').reveal()}`]: /unknown or has been revoked/,
      [`Bearer ${newToken('organization', 'production').reveal()}`]: /belongs to production/,
      [`Bearer ${newToken('session', 'sandbox').reveal()}`]: /has the kind "user session token"/,
    }
    for (const [authorization, words] of Object.entries(refused)) {
      const answer = await call('GET', here(), { authorization })
      expect(answer.status).toBe(401)
      expect(JSON.parse(answer.text)).toEqual({ error: 'invalid_token', detail: expect.stringMatching(words), error_description: expect.stringMatching(words) })
      expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer realm="bursar", error="invalid_token", error_description="/)
    }
    expect((await call('GET', here(), { authorization: [`Bearer ${token}`, `Bearer ${token}`] })).status).toBe(401)
  })

  test('rejects a token with an invalid checksum without querying the database', async () => {
    const { postgres } = world.api
    const release: (() => void)[] = []
    const holders = Array.from({ length: 5 }, () => postgres.db.q.connection().execute(() => new Promise<void>((resolve) => release.push(resolve))))
    await eventually('all connections of the read pool are in use', async () => release.length === 5)
    const valid = call('GET', here())
    await eventually('a request with a valid token waits for a connection', async () => postgres.use().waiting > 0)
    for (const damage of ['!', token.endsWith('0') ? '1' : '0'])
      expect((await call('GET', here(), { authorization: `Bearer ${token.slice(0, -1)}${damage}` })).status).toBe(401)
    // All connections are in use, so a query would have blocked the response.
    expect(postgres.use().waiting).toBeGreaterThanOrEqual(1)
    for (const done of release) done()
    await Promise.all(holders)
    expect((await valid).status).toBe(200)
  })

  test('checks the rights of the caller when the change is made, not only when the request began', async () => {
    const admin = await world.person()
    await world.join(organization.id, admin.id, 'admin')
    const cookie = await admin.cookie()
    const body = JSON.stringify({ organization_id: organization.id, comment: 'too late', scopes: ['orders:read'] })
    const head = [
      `POST ${createOrganizationToken.path} HTTP/1.1`,
      'host: x',
      `cookie: ${cookie}`,
      'origin: https://bursar.test',
      'bursar-csrf: 1',
      'content-type: application/json',
      `content-length: ${body.length}`,
    ]
    const waiting = () =>
      world.database.owner(
        async (owner) => (await owner.query(`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)).rows.length,
      )
    const socket = dial(world.port, '127.0.0.1')
    const answer = new Promise<string>((resolve) => socket.once('data', (chunk) => resolve(chunk.toString())))
    await world.database.owner(async (owner) => {
      // Locks the table, so that the first authorization query waits. The test thus knows when this query was sent and
      // when it was answered.
      await owner.query('begin')
      await owner.query('lock table organization_members in access exclusive mode')
      socket.write(`${head.join('\r\n')}\r\n\r\n${body.slice(0, 5)}`)
      await eventually('the authorization query waits for the lock', async () => (await waiting()) === 1)
      await owner.query('commit')
      await eventually('the authorization query no longer waits', async () => (await waiting()) === 0)
      await owner.query('delete from organization_members where user_id = $1', [admin.id])
    })
    socket.write(body.slice(5))
    expect(await answer).toMatch(/^HTTP\/1\.1 422 /)
    const { rows } = await world.database.owner((owner) => owner.query(`select 1 from organization_access_tokens where comment = 'too late'`))
    expect(rows).toEqual([])
    socket.destroy()
  })

  test('ignores an invalid credential on open operations', async () => {
    for (const authorization of ['Bearer undefined', 'Bearer polar_oat_x', 'nonsense'])
      expect((await call('GET', listTokenPatterns.path, { authorization })).status).toBe(200)
  })

  test('limits a request to the organization that its header names', async () => {
    const person = await world.person()
    const [first, second] = [await world.organization({ owner: person.id }), await world.organization({ owner: person.id })]
    const secret = (await person.token()).secret
    expect((await world.client({ token: secret }).call(listOrganizations, {})).pagination.total_count).toBe(2)
    for (const name of ['bursar-organization', 'polar-organization']) {
      const narrow = world.client({ token: secret }, { [name]: first.id.toUpperCase() })
      expect((await narrow.call(listOrganizations, {})).items.map(({ id }) => id)).toEqual([first.id])
      expect((await narrow.send(getOrganization, { params: { id: second.id } })).status).toBe(404)
      const strange = world.client({ token: secret }, { [name]: organization.id })
      expect((await strange.call(listOrganizations, {})).items).toEqual([])
      expect((await world.client({ token: secret }, { [name]: 'acme' }).send(listOrganizations, {})).status).toBe(422)
    }
  })
})

describe('API versions', () => {
  test('accepts a version header, defaults to 2026-04, and names the version in the response [S9-01, S9-04]', async () => {
    expect(versions).toEqual(['2026-04'])
    for (const headers of [{}, { 'bursar-version': '2026-04' }, { 'polar-version': '2026-04' }]) {
      const answer = await call('GET', here(), headers)
      expect([answer.status, answer.headers.get('bursar-version'), answer.headers.get('polar-version')]).toEqual([200, '2026-04', '2026-04'])
    }
    for (const version of ['2025-01', '2026-10', 'latest', '']) {
      const answer = await call('GET', here(), { 'polar-version': version })
      expect([version, answer.status]).toEqual([version, 404])
      expect(JSON.parse(answer.text)).toMatchObject({ error: 'UnknownVersion', detail: expect.stringContaining('2026-04') })
    }
  })
})

describe('request bodies', () => {
  const patch = (body: string | Buffer, headers: Record<string, string> = json) => call('PATCH', here(), headers, body)

  test('treats an empty body with a JSON content type as no body', async () => {
    const answer = await exchange(world.port, 'GET', here(), { authorization: `Bearer ${token}`, 'content-type': 'application/json' })
    expect(answer.status).toBe(200)
    expect((await call('DELETE', `${here()}/members/${organization.id}`, { 'content-type': 'application/json', 'content-length': '0' })).status).toBe(403)
    expect(JSON.parse((await patch('')).text)).toMatchObject({ detail: [{ loc: ['body'], type: 'missing' }] })
  })

  test.each([
    ['a body that is not JSON', '{"name": oops}', 'json_invalid'],
    ['truncated JSON', '{"name": "A', 'json_invalid'],
    ['a NUL character in a string', '{"name":"A\\u0000B"}', 'value_error'],
    ['an unpaired surrogate', '{"name":"\\ud800xyz"}', 'value_error'],
    ['nesting beyond the limit', `{"details":${'['.repeat(100)}${']'.repeat(100)}}`, 'recursion_loop'],
    ['a list beyond the limit', `{"embed_hosts":[${'1,'.repeat(10_001)}1]}`, 'too_long'],
    ['a list instead of an object', '[]', 'model_attributes_type'],
  ])('rejects %s with 422', async (_, body, type) => {
    const answer = await patch(body)
    expect([answer.status, JSON.parse(answer.text).detail[0].type]).toEqual([422, type])
  })

  test('rejects invalid UTF-8 and unsupported content types', async () => {
    expect((await patch(Buffer.from([0x22, 0xff, 0x22]))).status).toBe(422)
    expect(JSON.parse((await patch('name=x', { 'content-type': 'application/x-www-form-urlencoded' })).text)).toMatchObject({ error: 'UnsupportedMediaType' })
  })

  test('ignores unknown and prototype-polluting keys', async () => {
    const answer = await patch('{"__proto__":{"name":"Polluted"},"constructor":{"prototype":{}},"slug":"other","id":"x","website":"https://ok.example"}')
    expect(answer.status).toBe(200)
    expect(JSON.parse(answer.text)).toMatchObject({ slug: organization.slug, id: organization.id, website: 'https://ok.example' })
    expect(({} as { name?: string }).name).toBeUndefined()
  })

  test('limits the size of a body while it arrives, regardless of its declared length', async () => {
    const large = Buffer.alloc(1024 * 1024 + 1, 0x20)
    expect(JSON.parse((await patch(large)).text)).toMatchObject({ error: 'RequestBodyTooLarge' })
    const streamed = await new Promise<string>((resolve, reject) => {
      const socket = dial(world.port, '127.0.0.1')
      let answer = ''
      socket.on('data', (chunk) => (answer += chunk.toString()))
      socket.on('close', () => resolve(answer))
      socket.on('error', (error: NodeJS.ErrnoException) => (error.code === 'EPIPE' || error.code === 'ECONNRESET' ? resolve(answer) : reject(error)))
      socket.write(
        `PATCH ${here()} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`,
      )
      for (let sent = 0; sent < 24; sent++) socket.write(`10000\r\n${' '.repeat(65_536)}\r\n`)
    })
    expect(streamed).toMatch(/^HTTP\/1\.1 413 /)
  })
})

describe('responses', () => {
  test('sends a request id and security headers with every response', async () => {
    const answers = [
      await call('GET', here()),
      await call('GET', '/v1/nothing'),
      await call('PATCH', here(), json, '{'),
      await exchange(world.port, 'GET', here()),
      await call('GET', '/healthz'),
      await call('GET', '/v1/organizations/%zz'),
    ]
    for (const { headers } of answers) {
      expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
      expect(headers.get('x-content-type-options')).toBe('nosniff')
      expect(headers.get('content-security-policy')).toContain("default-src 'none'")
      expect(headers.get('cache-control')).toBe('private, no-store')
      expect(headers.get('strict-transport-security')).toContain('max-age')
      expect(headers.get('x-polar-sandbox')).toBe('1')
      expect(headers.get('bursar-environment')).toBe('sandbox')
    }
    expect(new Set(answers.map(({ headers }) => headers.get('x-request-id'))).size).toBe(answers.length)
  })

  test('allows cross-origin requests to open operations, but neither to sign-in nor to the organization API', async () => {
    const origin = { origin: 'https://shop.test', 'access-control-request-method': 'POST' }
    const open = await exchange(world.port, 'OPTIONS', listTokenPatterns.path, origin)
    expect([open.status, open.headers.get('access-control-allow-origin'), open.headers.get('access-control-allow-credentials')]).toEqual([204, '*', null])
    const guarded = await exchange(world.port, 'OPTIONS', requestSignInCode.path, origin)
    expect([guarded.status, guarded.headers.get('access-control-allow-origin')]).toEqual([204, null])
    const closed = await exchange(world.port, 'OPTIONS', here(), { ...origin, 'access-control-request-method': 'PATCH' })
    expect([closed.status, closed.headers.get('access-control-allow-origin')]).toEqual([204, null])
    expect((await call('GET', here(), { origin: 'https://shop.test' })).headers.get('access-control-allow-origin')).toBeNull()
    const patterns = await exchange(world.port, 'GET', listTokenPatterns.path, { origin: 'https://shop.test' })
    expect([patterns.headers.get('access-control-allow-origin'), patterns.headers.get('access-control-expose-headers')]).toEqual([
      '*',
      expect.stringContaining('x-request-id'),
    ])
  })

  test('answers 431 for oversized headers', async () => {
    expect((await call('GET', here(), { 'x-long': 'a'.repeat(20_000) })).status).toBe(431)
  })

  test('answers 408 to a client that sends its headers too slowly', async () => {
    const elapsed = fairStopwatch()
    const answer = await new Promise<string>((resolve) => {
      const socket = dial(world.port, '127.0.0.1')
      let text = ''
      socket.write('GET /healthz HTTP/1.1\r\nhost: x\r\n')
      socket.on('data', (chunk) => (text += chunk.toString()))
      socket.on('close', () => resolve(text))
    })
    expect(answer).toMatch(/^HTTP\/1\.1 408 /)
    expect(elapsed()).toBeLessThan(20_000)
  })

  test('answers an unexpected error with a constant 500, and logs the cause', async () => {
    const broken = await openWorld()
    const own = await broken.organization()
    const secret = (await own.token()).secret
    await broken.database.owner((owner) => owner.query('alter table organizations rename column website to site'))
    const answer = await exchange(
      broken.port,
      'PATCH',
      `/v1/organizations/${own.id}`,
      { authorization: `Bearer ${secret.reveal()}`, ...json },
      '{"website":"https://x.example"}',
    )
    expect([answer.status, JSON.parse(answer.text)]).toEqual([
      500,
      { error: 'InternalServerError', detail: 'An internal error occurred. Quote the x-request-id of this answer when you report it.' },
    ])
    const line = broken.lines.find((text) => text.includes('request_failed'))!
    expect(JSON.parse(line)).toMatchObject({ request_id: answer.headers.get('x-request-id'), operation: updateOrganization.id, error: { code: '42703' } })
    await broken.close()
  })

  test('answers 503 with retry-after while the database is unreachable, and only the readiness check fails', async () => {
    const lonely = await openWorld()
    const own = await lonely.organization()
    const authorization = `Bearer ${(await own.token()).secret.reveal()}`
    expect((await exchange(lonely.port, 'GET', '/readyz')).status).toBe(200)
    const { name } = lonely.database
    const { asOwner } = await import('../../test/harness/database.ts')
    await asOwner('postgres', async (owner) => {
      await owner.query(`alter database ${name} allow_connections false`)
      await owner.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name])
    })
    const answer = await exchange(lonely.port, 'GET', '/v1/organizations', { authorization })
    expect([answer.status, answer.headers.get('retry-after'), JSON.parse(answer.text).error]).toEqual([503, '1', 'ServiceUnavailable'])
    expect((await exchange(lonely.port, 'GET', '/healthz')).status).toBe(200)
    expect(await exchange(lonely.port, 'GET', '/readyz')).toMatchObject({ status: 503, text: expect.stringContaining('the database cannot be reached') })
    await asOwner('postgres', (owner) => owner.query(`alter database ${name} allow_connections true`))
    expect((await exchange(lonely.port, 'GET', '/v1/organizations', { authorization })).status).toBe(200)
    await lonely.close()
  })
})
