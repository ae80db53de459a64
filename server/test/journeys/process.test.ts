import { createServer } from 'node:http'
import { connect as dial, type AddressInfo } from 'node:net'
import { once } from 'node:events'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { tokenPatterns } from '../../src/kernel/secrets.ts'
import { cloneDatabase, type Database } from '../harness/database.ts'
import { launch, portOf, type Program } from '../harness/process.ts'
import { noteSecrets } from '../harness/secrets.ts'
import { eventually, exchange, variables } from '../harness/world.ts'
import { codeIn, openMailbox, type Mailbox } from '../harness/mail.ts'

let database: Database
let mail: Mailbox
let settings: Record<string, string>
const programs: Program[] = []
beforeAll(async () => {
  ;[database, mail] = await Promise.all([cloneDatabase(), openMailbox()])
  settings = variables(database, mail.url)
})
afterAll(async () => {
  for (const program of programs) {
    program.signal('SIGKILL')
    await program.exited
  }
  await mail.close()
  await database.drop()
})

const run = async (...args: string[]) => {
  const program = launch(args, settings)
  const code = await program.exited
  return { code, output: program.output() }
}
const json = async <T>(...args: string[]): Promise<T> => {
  const { code, output } = await run(...args, '--json')
  if (code !== 0) throw new Error(output)
  noteSecrets(output)
  return JSON.parse(output) as T
}
const serve = async (extra: Record<string, string> = {}) => {
  const program = launch(['serve'], { ...settings, ...extra })
  programs.push(program)
  await program.line('serving')
  return { program, port: portOf(await program.line('listening')), admin: portOf(await program.line('admin_listening')) }
}

test('serves a first request by the commands of the manual, and no secret reaches the output [S1-06]', async () => {
  expect((await run('migrate')).output).toContain('up to date')
  const operator = await json<{ token: string }>('operator', 'create', '--email', 'operator@people.test')
  const seeded = await json<{ organization_id: string; token: string }>('seed')
  const made = await json<{ id: string; token: string }>(
    'token',
    'create',
    '--organization',
    'acme',
    '--comment',
    'cli',
    '--scopes',
    'organizations:read',
    '--days',
    '30',
  )
  expect((await json<{ tokens: unknown[] }>('token', 'list', '--organization', 'acme')).tokens).toHaveLength(2)

  const { program, port, admin } = await serve()
  const get = (path: string, token: string) => exchange(port, 'GET', path, { authorization: `Bearer ${token}` })
  for (const { token } of [operator, seeded, made]) expect((await get('/v1/organizations/', token)).status).toBe(200)
  // Sends secrets in every part of a request into which a careless client could put them.
  await get(`/v1/organizations/${seeded.token}`, seeded.token)
  await get(`/v1/organizations/?slug=${seeded.token}&token=${operator.token}`, made.token)
  await get(`/v1/${operator.token}`, operator.token)
  await exchange(
    port,
    'PATCH',
    `/v1/organizations/${seeded.organization_id}`,
    { authorization: `Bearer ${seeded.token}`, 'content-type': 'application/json', 'user-agent': seeded.token },
    JSON.stringify({ name: seeded.token, website: operator.token }),
  )
  await exchange(
    port,
    'POST',
    '/v1/auth/email-otp',
    { 'content-type': 'application/json', cookie: `x=${made.token}` },
    JSON.stringify({ email: 'operator@people.test' }),
  )
  const code = codeIn((await mail.next('operator@people.test')).text)
  const signedIn = await exchange(
    port,
    'POST',
    '/v1/auth/email-otp/verify',
    { 'content-type': 'application/json' },
    JSON.stringify({ email: 'operator@people.test', code }),
  )
  const session = /bursar_test_us_\w{43}/.exec(signedIn.headers.get('set-cookie')!)![0]

  await json('token', 'revoke', '--organization', 'acme', '--id', made.id)
  expect((await get('/v1/organizations/', made.token)).status).toBe(401)

  const metrics = (await exchange(admin, 'GET', '/metrics')).text
  for (const name of [
    'bursar_request_duration_seconds_count{operation="organizations:list",status="200"}',
    'bursar_job_duration_seconds',
    'bursar_outbox_age_seconds',
    'bursar_job_age_seconds',
    'bursar_due_age_seconds{of="organization_invitations"}',
    'bursar_database_connections{of="bursar_api idle"}',
    'bursar_redis_available{of=""} 1',
  ])
    expect(metrics).toContain(name)
  expect((await exchange(admin, 'GET', '/readyz')).status).toBe(200)
  program.signal('SIGTERM')
  expect(await program.exited).toBe(0)

  const everything = program.output() + metrics
  expect(everything).toContain('"operation":"organizations:update"')
  for (const secret of [operator.token, seeded.token, made.token, session]) expect(everything).not.toContain(secret.slice(-43))
  expect(everything).not.toMatch(new RegExp(tokenPatterns.map(({ pattern }) => pattern).join('|')))
  expect(everything).not.toContain('operator@people.test')
})

test('finishes pending requests, refuses new ones, ends silent connections and reports draining on SIGTERM', async () => {
  const { token, organization_id } = await database.owner(async (owner) => ({
    organization_id: (await owner.query('select id from organizations')).rows[0].id as string,
    token: (await json<{ token: string }>('token', 'create', '--organization', 'acme', '--comment', 'drain', '--scopes', 'organizations:write')).token,
  }))
  const { program, port, admin } = await serve()
  const blocker = new pg.Client({ connectionString: database.owner_url })
  await blocker.connect()
  await blocker.query('begin')
  await blocker.query('select 1 from organizations for update')
  const under = exchange(
    port,
    'PATCH',
    `/v1/organizations/${organization_id}`,
    { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    '{"name":"Drained"}',
  )
  await eventually(
    'the request waits for the row lock',
    async () =>
      (await database.owner((owner) => owner.query(`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`))).rows
        .length > 0,
  )
  // A browser opens connections in advance, on which it may never send anything.
  const silent = [port, admin].map((to) => dial(to, '127.0.0.1'))
  for (const socket of silent) await once(socket, 'connect')
  program.signal('SIGTERM')
  await program.line('draining')
  expect(await exchange(admin, 'GET', '/readyz')).toMatchObject({ status: 503, text: expect.stringContaining('draining') })
  await expect(exchange(port, 'GET', '/healthz')).rejects.toThrow(/ECONNREFUSED|ECONNRESET/)
  await blocker.query('rollback')
  await blocker.end()
  expect(JSON.parse((await under).text)).toMatchObject({ name: 'Drained' })
  expect(await program.exited).toBe(0)
  for (const socket of silent) socket.destroy()
})

test('sends traces of operations and statements to the collector, without a value, an address or a secret', async () => {
  const bodies: string[] = []
  const collector = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      bodies.push(Buffer.concat(chunks).toString())
      response.end('{}')
    })
  }).listen(0, '127.0.0.1')
  await once(collector, 'listening')
  const { token } = await json<{ token: string }>('token', 'create', '--organization', 'acme', '--comment', 'trace', '--scopes', 'organizations:read')
  const { program, port } = await serve({ BURSAR_OTLP_ENDPOINT: `http://127.0.0.1:${(collector.address() as AddressInfo).port}` })
  expect(
    (
      await exchange(port, 'GET', '/v1/organizations/?slug=acme-secret-slug', {
        authorization: `Bearer ${token}`,
        traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
      })
    ).status,
  ).toBe(200)
  program.signal('SIGTERM')
  expect(await program.exited).toBe(0)
  collector.close()
  const text = bodies.join('')
  expect(text).toContain('organizations:list')
  expect(text).toContain('4bf92f3577b34da6a3ce929d0e0e4736')
  expect(text).toMatch(/pg\.query/)
  expect(text).not.toContain('acme-secret-slug')
  expect(text).not.toContain(token.slice(-43))
})

test('refuses to start with wrong settings, and says why [S1-09]', async () => {
  const refused = async (args: string[], extra: Record<string, string>) => {
    const program = launch(args, { ...settings, ...extra })
    return { code: await program.exited, output: program.output() }
  }
  expect(await refused(['serve', '--env', 'production'], {})).toMatchObject({
    code: 1,
    output: expect.stringContaining('this database belongs to sandbox, but this process runs as production'),
  })
  expect(await refused(['serve'], { BURSAR_PEPPERS: '' })).toMatchObject({ code: 1, output: expect.stringContaining('BURSAR_PEPPERS: missing') })
  expect(await refused(['serve'], { BURSAR_TURBO: 'on' })).toMatchObject({
    code: 1,
    output: expect.stringContaining('BURSAR_TURBO: not a setting of this version'),
  })
  expect(await refused(['dance'], {})).toMatchObject({ code: 2, output: expect.stringContaining('there is no command dance') })
  expect(await refused(['operator', 'create'], {})).toMatchObject({ code: 2, output: expect.stringContaining('--email is needed') })
  expect(await refused(['--help'], {})).toMatchObject({ code: 0, output: expect.stringMatching(/^ {2}serve /m) })
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  // The admin port is in use. The process must end, so that the API does not serve without the admin port.
  expect(await refused(['serve'], { BURSAR_ADMIN_LISTEN: `127.0.0.1:${(taken.address() as AddressInfo).port}` })).toMatchObject({
    code: 1,
    output: expect.stringContaining('the port is in use'),
  })
  taken.close()
  // A start that fails with open connections ends the process too, so that no idle process remains.
  await database.owner((owner) => owner.query(`revoke insert, select on licence_signing_keys from bursar_api`))
  expect(await refused(['serve', '--roles', 'api'], {})).toMatchObject({ code: 1, output: expect.stringContaining('permission denied') })
  await database.owner((owner) => owner.query(`grant insert, select on licence_signing_keys to bursar_api`))
  expect(await refused(['operator', 'create', '--email', 'nonsense'], {})).toMatchObject({
    code: 2,
    output: expect.stringContaining('takes an e-mail address'),
  })
  expect(await refused(['operator', 'open', 'sign-up', '--env', 'production'], {})).toMatchObject({
    code: 1,
    output: expect.stringContaining('belongs to sandbox'),
  })
  expect(await refused(['token', 'create', '--organization', 'acme', '--comment', 'x', '--scopes', 'orders:read', '--days', '0'], {})).toMatchObject({
    code: 2,
  })
  expect(await refused(['token', '--nonsense'], {})).toMatchObject({ code: 2 })
  await database.owner((owner) => owner.query(`update schema_migrations set version = '0002_other' where version = '0002_identity'`))
  expect(await refused(['serve'], {})).toMatchObject({ code: 1, output: expect.stringContaining('not applied: 0002_identity') })
  await database.owner((owner) => owner.query(`update schema_migrations set version = '0002_identity' where version = '0002_other'`))
})

test('opens and closes sign-up and organization creation by operator commands', async () => {
  const doors = () => database.owner(async (owner) => (await owner.query('select sign_up_open, organization_creation_open from deployment')).rows[0])
  expect(await doors()).toEqual({ sign_up_open: false, organization_creation_open: false })
  await json('operator', 'open', 'sign-up')
  await json('operator', 'open', 'organizations')
  expect(await doors()).toEqual({ sign_up_open: true, organization_creation_open: true })
  await json('operator', 'close', 'sign-up')
  expect(await doors()).toEqual({ sign_up_open: false, organization_creation_open: true })
})
