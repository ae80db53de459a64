import { once } from 'node:events'
import { appendFileSync, chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { connect, createServer, type AddressInfo } from 'node:net'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sharedSettings } from '../../src/main/dev-registry.ts'
import { asOwner, urlOf } from '../harness/database.ts'
import { launch, portOf, type Line, type Program } from '../harness/process.ts'
import { logFile, noteSecrets } from '../harness/secrets.ts'
import { fairStopwatch } from '../harness/fair.ts'
import { eventually, exchange } from '../harness/world.ts'

/** Output of `dev --json`. */
interface Made {
  api: string
  token: string
  organization_id: string
  products: { field_guide: string; team_plan: string }
  webhook: { endpoint_id: string; secret: string; receiver: string }
  mailbox: string
  ready_ms: number
}

let home: string
const programs: Program[] = []
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'bursar-home-'))
  // If root runs this, PostgreSQL runs as the user `nobody`, who needs access to the folder.
  chmodSync(home, 0o755)
  mkdirSync(join(home, 'runtime'), { mode: 0o700 })
})
afterAll(async () => {
  for (const program of programs) {
    program.signal('SIGKILL')
    await program.exited
  }
  rmSync(home, { recursive: true })
})

const anywhere = () => ({ BURSAR_LISTEN: '127.0.0.1:0', BURSAR_ADMIN_LISTEN: '127.0.0.1:0', XDG_RUNTIME_DIR: join(home, 'runtime') })
/** Lists the files by which other commands find a running sandbox. */
const entries = () => readdirSync(join(home, 'runtime/bursar')).map((name) => join(home, 'runtime/bursar', name))
/** Runs another command beside the sandbox, in a folder below its project, without any setting. */
const beside = async (...args: string[]) => {
  const folder = join(home, 'src/below')
  mkdirSync(folder, { recursive: true })
  const program = launch(args, { XDG_CONFIG_HOME: home, XDG_RUNTIME_DIR: join(home, 'runtime') }, folder)
  const code = await program.exited
  noteSecrets(program.output())
  return { code, output: program.output() }
}
const launchDev = (args: readonly string[], settings: Record<string, string> = {}) => {
  const program = launch(['dev', ...args], { ...anywhere(), ...settings }, home)
  programs.push(program)
  return program
}
const start = async (args: readonly string[] = [], settings: Record<string, string> = {}) => {
  const program = launchDev([...args, '--json'], settings)
  await eventually('the command prints a line or exits', async () => program.output().includes('\n') || program.child.exitCode !== null)
  expect(program.output()).toMatch(/^\{/)
  noteSecrets(program.output())
  const made = JSON.parse(program.output()) as Made
  return { program, made, port: Number(new URL(made.api).port) }
}
const stop = async (program: Program) => {
  const since = fairStopwatch()
  program.signal('SIGINT')
  expect(await program.exited).toBe(0)
  expect(since()).toBeLessThan(5000)
  appendFileSync(logFile(), readFileSync(join(home, '.scratch/dev/server.log')))
}
const refused = async (args: readonly string[], settings: Record<string, string> = {}) => {
  const program = launchDev(args, settings)
  return { code: await program.exited, output: program.output() }
}
const list = async (port: number, path: string, token: string) => {
  const { status, text } = await exchange(port, 'GET', path, { authorization: `Bearer ${token}` })
  expect(status).toBe(200)
  return JSON.parse(text) as { items: { id: string }[]; pagination: { total_count: number } }
}
const fetchText = (url: string) =>
  new Promise<string>((resolve, reject) => {
    request(url, (answer) => {
      let text = ''
      answer.on('data', (chunk: Buffer) => (text += chunk.toString()))
      answer.on('end', () => resolve(text))
    })
      .on('error', reject)
      .end()
  })
/** Returns the admin port of the last start, from the log of the sandbox. */
const adminPort = () => {
  const lines = readFileSync(join(home, '.scratch/dev/server.log'), 'utf8').trim().split('\n')
  return portOf(lines.map((line) => JSON.parse(line) as Line).findLast(({ msg }) => msg === 'admin_listening')!)
}
const answers = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.end())
  })
/** Returns the running processes that use the data folder of this test. */
const processes = () =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(home)
      } catch {
        return false
      }
    })

test('starts a complete sandbox with one command, finds it unchanged on the second start, and stops completely on Ctrl-C', async () => {
  const first = await start(['--fresh'])
  const { made, port } = first
  expect((await list(port, '/v1/organizations/', made.token)).items).toMatchObject([{ id: made.organization_id, slug: 'acme' }])
  const { items } = await list(port, '/v1/products/', made.token)
  expect(items.map(({ id }) => id).toSorted()).toEqual(Object.values(made.products).toSorted())
  expect(items).toContainEqual(expect.objectContaining({ name: 'Field guide', prices: [expect.objectContaining({ price_amount: 2900 })] }))
  expect((await exchange(port, 'GET', '/mailbox')).status).toBe(200)

  // The receiver reports that it verified the event. A third-party library verifies it too.
  const event = JSON.parse(await fetchText(`${made.webhook.receiver}/product.created`)) as { verified: boolean; headers: Record<string, string>; body: unknown }
  expect(event).toMatchObject({ verified: true, body: { type: 'product.created' } })
  new Webhook(made.webhook.secret).verify(JSON.stringify(event.body), event.headers)

  // Other commands find the running sandbox. `dev` sends many requests for one developer.
  const headers = (await exchange(port, 'GET', '/v1/products/', { authorization: `Bearer ${made.token}` })).headers
  expect(headers.get('ratelimit-policy')).toContain('10000;w=60')
  expect(await beside('trigger', 'customer.created')).toMatchObject({ code: 0, output: expect.stringMatching(/^customer\.created [0-9a-f-]{36}\n$/) })
  const checked = await beside('doctor', '--json')
  const { checks } = JSON.parse(checked.output) as { checks: { name: string; state: string }[] }
  expect(checks.find(({ name }) => name === 'database')).toMatchObject({ state: 'ok' })
  expect((await beside('token', 'list', '--organization', 'acme')).output).toContain('bursar dev')
  const missing = { code: 2, output: expect.stringContaining('there is no organization acmee. Did you mean acme?') }
  expect(await beside('verify', 'metrics', '--organization', 'acmee')).toMatchObject(missing)
  expect(await beside('token', 'list', '--organization', 'acmee')).toMatchObject(missing)
  expect(await beside('token', 'revoke', '--organization', 'acme', '--id', '5')).toMatchObject({
    code: 2,
    output: expect.stringContaining('--id takes the id of a token, not 5. pnpm bursar token list --organization acme shows the ids'),
  })
  expect(await beside('audit', 'verify')).toMatchObject({ code: 0, output: expect.stringContaining('all unchanged') })

  // Only the person who started the sandbox can read its secrets.
  for (const name of ['env', 'state.json']) expect(statSync(join(home, '.scratch/dev', name)).mode & 0o777).toBe(0o600)
  expect(entries().map((entry) => statSync(entry).mode & 0o777)).toEqual([0o600])
  expect(statSync(join(home, 'runtime/bursar')).mode & 0o777).toBe(0o700)
  const { settings } = JSON.parse(readFileSync(entries()[0]!, 'utf8')) as { settings: Record<string, string> }
  expect(Object.keys(settings).filter((name) => !(sharedSettings as readonly string[]).includes(name))).toEqual([])
  for (const call of ['payments status', `backup --to ${join(home, 'backup')}`]) {
    const { code, output } = await beside(...call.split(' '))
    expect([call, code, output]).toEqual([call, expect.any(Number), expect.stringMatching(/does not use those of a running bursar dev|BURSAR_DATABASE_URL/)])
    expect(code).not.toBe(0)
  }
  expect(statSync(join(home, '.scratch/dev/postgres')).mode & 0o777).toBe(0o700)
  expect(await refused([])).toMatchObject({ code: 1, output: expect.stringContaining('dev is already running') })
  expect(processes()).not.toEqual([])
  await stop(first.program)
  expect(entries()).toEqual([])
  expect(processes()).toEqual([])
  expect(await beside('trigger', 'customer.created')).toMatchObject({ code: 2, output: expect.stringContaining('BURSAR_TOKEN') })
  expect(await answers(port)).toBe(false)
  expect(await answers(Number(new URL(made.webhook.receiver).port))).toBe(false)

  const second = await start()
  expect(second.made).toMatchObject({ token: made.token, organization_id: made.organization_id, products: made.products })
  expect(second.made.webhook).toMatchObject({ endpoint_id: made.webhook.endpoint_id, secret: made.webhook.secret })
  expect((await list(second.port, '/v1/products/', made.token)).pagination.total_count).toBe(2)

  // A killed sandbox cannot stop its database. The database must stop by itself.
  second.program.signal('SIGKILL')
  await second.program.exited
  expect(entries()).toHaveLength(1)
  expect(await beside('trigger', 'customer.created')).toMatchObject({ code: 2, output: expect.stringContaining('BURSAR_TOKEN') })
  await eventually('the processes of the database have ended', async () => processes().length === 0)

  const third = launchDev([])
  await eventually('the sandbox is ready', async () => third.output().includes('RECEIVER'))
  noteSecrets(third.output())
  // Each step is a line on stderr, so that a slow start is not silent.
  const [steps, described] = third.output().split(/(?=^Bursar is ready)/m)
  expect(steps!.trimEnd().split('\n')).toEqual([
    'starting PostgreSQL …',
    'loading the code …',
    'preparing the database …',
    'starting the API and the worker …',
    'creating the sample data …',
  ])
  const lines = described!.trimEnd().split('\n')
  expect(lines.length).toBeLessThanOrEqual(12)
  expect(lines[0]).toMatch(/^Bursar is ready after \d+\.\d s/)
  expect(third.output()).toContain(`  token     ${made.token}\n`)
  await stop(third)
})

test('answers 421 to a Host header that does not name this machine, so that DNS rebinding cannot read the sandbox', async () => {
  const { program, made, port } = await start()
  // A foreign site whose name resolves to this machine reaches the socket, and sends its own name as Host.
  for (const path of ['/mailbox', '/login', '/v1/products/', '/healthz', '/nothing']) {
    const rebound = await exchange(port, 'GET', path, { host: `rebound.test:${port}`, authorization: `Bearer ${made.token}` })
    expect(rebound.status, path).toBe(421)
    expect(JSON.parse(rebound.text)).toEqual({
      error: 'HostNotAllowed',
      detail: expect.stringContaining('"rebound.test". This server serves only localhost, 127.0.0.1, [::1].') as string,
    })
  }
  for (const host of ['localhost', `LOCALHOST:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`])
    expect((await exchange(port, 'GET', '/healthz', { host })).status, host).toBe(200)
  const receiver = Number(new URL(made.webhook.receiver).port)
  expect((await exchange(receiver, 'GET', '/', { host: `rebound.test:${receiver}` })).status).toBe(421)
  expect((await exchange(receiver, 'GET', '/')).status).toBe(200)
  const admin = adminPort()
  for (const path of ['/metrics', '/readyz', '/healthz', '/nothing']) {
    const rebound = await exchange(admin, 'GET', path, { host: `rebound.test:${admin}` })
    expect(rebound.status, path).toBe(421)
    expect(JSON.parse(rebound.text)).toMatchObject({ error: 'HostNotAllowed' })
  }
  for (const host of ['localhost', `127.0.0.1:${admin}`, `[::1]:${admin}`]) expect((await exchange(admin, 'GET', '/metrics', { host })).status, host).toBe(200)
  await stop(program)

  const opened = await start([], { BURSAR_ALLOWED_HOSTS: 'laptop.test' })
  expect((await exchange(opened.port, 'GET', '/healthz', { host: 'laptop.test' })).status).toBe(200)
  expect((await exchange(adminPort(), 'GET', '/healthz', { host: 'laptop.test' })).status).toBe(200)
  expect((await exchange(opened.port, 'GET', '/mailbox', { host: 'laptop.test' })).status).toBe(404)
  expect((await exchange(opened.port, 'GET', '/healthz', { host: 'rebound.test' })).status).toBe(421)
  await stop(opened.program)
})

test('stops on Ctrl-C before it is ready', async () => {
  const program = launchDev(['--dir', '.scratch/early'])
  await eventually('the creation of the database has started', async () => existsSync(join(home, '.scratch/early/postgres.new')))
  program.signal('SIGINT')
  expect(await program.exited).toBe(0)
  expect(program.output()).toMatch(/^creating the data of PostgreSQL …\n(loading the code …\n)?$/)
  expect(processes()).toEqual([])
})

test('creates, keeps and resets a database that is given by URL, and refuses a database that it did not create', async () => {
  const name = `bursar_t_${process.env.BURSAR_TEST_RUN ?? 'x'}_dev`
  const foreign = `${name}_foreign`
  const tables = async (database: string) =>
    (await asOwner(database, (client) => client.query(`select count(*)::int as n from pg_tables where schemaname = 'public'`))).rows[0].n as number
  await asOwner('postgres', (client) => client.query(`create database ${foreign}`))
  await asOwner(foreign, (client) => client.query('create table precious ()'))
  for (const args of [[], ['--fresh']])
    expect(await refused(args, { DATABASE_URL: urlOf(foreign) })).toMatchObject({
      code: 1,
      output: expect.stringMatching(/contains other data|another program/),
    })
  expect(await tables(foreign)).toBe(1)

  rmSync(join(home, '.scratch'), { recursive: true })
  const first = await start([], { DATABASE_URL: urlOf(name) })
  await stop(first.program)
  expect(existsSync(join(home, '.scratch/dev/postgres'))).toBe(false)
  // Without the stored secrets the sandbox cannot know the database as its own. Even --fresh must not reset it.
  expect(await refused(['--fresh', '--dir', '.scratch/other'], { DATABASE_URL: urlOf(name) })).toMatchObject({ code: 1 })
  const again = await start(['--fresh'], { DATABASE_URL: urlOf(name) })
  expect(again.made.organization_id).not.toBe(first.made.organization_id)
  await stop(again.program)
})

test('prints the reason and the remedy for each problem that prevents a start', async () => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  const { port } = taken.address() as AddressInfo
  expect(await refused([], { BURSAR_LISTEN: `127.0.0.1:${port}` })).toMatchObject({
    code: 1,
    output: expect.stringContaining(`port ${port} is in use, perhaps by another Bursar. Stop that process, or choose another port: BURSAR_LISTEN=127.0.0.1:`),
  })
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const admin = (other.address() as AddressInfo).port
  expect(await refused([], { BURSAR_LISTEN: `127.0.0.1:${port}`, BURSAR_ADMIN_LISTEN: `127.0.0.1:${admin}` })).toMatchObject({
    code: 1,
    output: expect.stringMatching(
      new RegExp(`ports ${port} and ${admin} are in use.* BURSAR_LISTEN=127\\.0\\.0\\.1:\\d+ BURSAR_ADMIN_LISTEN=127\\.0\\.0\\.1:\\d+ pnpm bursar dev`),
    ),
  })
  other.close()
  taken.close()
  expect(await refused(['--env', 'production'])).toMatchObject({ code: 2, output: expect.stringContaining('dev runs as a sandbox only') })
  expect(await refused([], { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/x' })).toMatchObject({ code: 1, output: expect.stringContaining('ECONNREFUSED') })
  expect(await refused([], { BURSAR_TURBO: 'on' })).toMatchObject({ code: 1, output: expect.stringContaining('not a setting of this version') })
  if (process.getuid!() !== 0) return
  chmodSync(home, 0o700)
  expect(await refused([])).toMatchObject({ code: 1, output: expect.stringContaining('nobody, which cannot read') })
  chmodSync(home, 0o755)
})
