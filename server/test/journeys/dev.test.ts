import { once } from 'node:events'
import { appendFileSync, chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { connect, createServer, type AddressInfo } from 'node:net'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { asOwner, urlOf } from '../harness/database.ts'
import { launch, type Program } from '../harness/process.ts'
import { logFile, noteSecrets } from '../harness/secrets.ts'
import { fairStopwatch } from '../harness/fair.ts'
import { eventually, exchange } from '../harness/world.ts'

/** What `dev --json` prints. */
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
  // Where root runs this, the database runs as nobody, who must be able to come in.
  chmodSync(home, 0o755)
})
afterAll(async () => {
  for (const program of programs) {
    program.signal('SIGKILL')
    await program.exited
  }
  rmSync(home, { recursive: true })
})

const anywhere = { BURSAR_LISTEN: '127.0.0.1:0', BURSAR_ADMIN_LISTEN: '127.0.0.1:0' }
const launchDev = (args: readonly string[], settings: Record<string, string> = {}) => {
  const program = launch(['dev', ...args], { ...anywhere, ...settings }, home)
  programs.push(program)
  return program
}
const start = async (args: readonly string[] = [], settings: Record<string, string> = {}) => {
  const program = launchDev([...args, '--json'], settings)
  await eventually('it is ready, or has ended', async () => program.output().includes('\n') || program.child.exitCode !== null)
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
const answers = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.end())
  })
/** The processes that work on this test's data. */
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

test('one command brings up a whole sandbox, a second start finds it as it was, and Ctrl-C leaves nothing running', async () => {
  const first = await start(['--fresh'])
  const { made, port } = first
  expect((await list(port, '/v1/organizations/', made.token)).items).toMatchObject([{ id: made.organization_id, slug: 'acme' }])
  const { items } = await list(port, '/v1/products/', made.token)
  expect(items.map(({ id }) => id).toSorted()).toEqual(Object.values(made.products).toSorted())
  expect(items).toContainEqual(expect.objectContaining({ name: 'Field guide', prices: [expect.objectContaining({ price_amount: 2900 })] }))
  expect((await exchange(port, 'GET', '/mailbox')).status).toBe(200)

  // The receiver says that it has verified the event; so does somebody else's library.
  const event = JSON.parse(await fetchText(`${made.webhook.receiver}/product.created`)) as { verified: boolean; headers: Record<string, string>; body: unknown }
  expect(event).toMatchObject({ verified: true, body: { type: 'product.created' } })
  new Webhook(made.webhook.secret).verify(JSON.stringify(event.body), event.headers)

  // Only the person who started it can read what opens it.
  for (const name of ['env', 'state.json']) expect(statSync(join(home, '.scratch/dev', name)).mode & 0o777).toBe(0o600)
  expect(statSync(join(home, '.scratch/dev/postgres')).mode & 0o777).toBe(0o700)
  expect(await refused([])).toMatchObject({ code: 1, output: expect.stringContaining('it runs already') })
  expect(processes()).not.toEqual([])
  await stop(first.program)
  expect(processes()).toEqual([])
  expect(await answers(port)).toBe(false)
  expect(await answers(Number(new URL(made.webhook.receiver).port))).toBe(false)

  const second = await start()
  expect(second.made).toMatchObject({ token: made.token, organization_id: made.organization_id, products: made.products })
  expect(second.made.webhook).toMatchObject({ endpoint_id: made.webhook.endpoint_id, secret: made.webhook.secret })
  expect((await list(second.port, '/v1/products/', made.token)).pagination.total_count).toBe(2)

  // Killed, it cannot clear up: the database notices by itself.
  second.program.signal('SIGKILL')
  await second.program.exited
  await eventually('the database is gone', async () => processes().length === 0)

  const third = launchDev([])
  await eventually('it is ready', async () => third.output().includes('RECEIVER'))
  noteSecrets(third.output())
  const lines = third.output().trimEnd().split('\n')
  expect(lines.length).toBeLessThanOrEqual(12)
  expect(lines[0]).toMatch(/^Bursar is ready after \d+\.\d s/)
  expect(third.output()).toContain(`  token     ${made.token}\n`)
  await stop(third)
})

test('Ctrl-C before it is ready ends it as well', async () => {
  const program = launchDev(['--dir', '.scratch/early'])
  await eventually('the database is being made', async () => existsSync(join(home, '.scratch/early/postgres.new')))
  program.signal('SIGINT')
  expect(await program.exited).toBe(0)
  expect(program.output()).toBe('')
  expect(processes()).toEqual([])
})

test('a database of one’s own is created, kept, and thrown away on demand; one that holds something else is left alone', async () => {
  const name = `bursar_t_${process.env.BURSAR_TEST_RUN ?? 'x'}_dev`
  const foreign = `${name}_foreign`
  const tables = async (database: string) =>
    (await asOwner(database, (client) => client.query(`select count(*)::int as n from pg_tables where schemaname = 'public'`))).rows[0].n as number
  await asOwner('postgres', (client) => client.query(`create database ${foreign}`))
  await asOwner(foreign, (client) => client.query('create table precious ()'))
  for (const args of [[], ['--fresh']])
    expect(await refused(args, { DATABASE_URL: urlOf(foreign) })).toMatchObject({
      code: 1,
      output: expect.stringMatching(/holds something else|somebody else/),
    })
  expect(await tables(foreign)).toBe(1)

  rmSync(join(home, '.scratch'), { recursive: true })
  const first = await start([], { DATABASE_URL: urlOf(name) })
  await stop(first.program)
  expect(existsSync(join(home, '.scratch/dev/postgres'))).toBe(false)
  // Without our secrets it is somebody else's, and --fresh will not touch it.
  expect(await refused(['--fresh', '--dir', '.scratch/other'], { DATABASE_URL: urlOf(name) })).toMatchObject({ code: 1 })
  const again = await start(['--fresh'], { DATABASE_URL: urlOf(name) })
  expect(again.made.organization_id).not.toBe(first.made.organization_id)
  await stop(again.program)
})

test('what stands in its way is named, with what to do', async () => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  const { port } = taken.address() as AddressInfo
  expect(await refused([], { BURSAR_LISTEN: `127.0.0.1:${port}` })).toMatchObject({
    code: 1,
    output: expect.stringContaining(`port ${port} is taken, perhaps by another Bursar. Stop that, or choose another: BURSAR_LISTEN=127.0.0.1:`),
  })
  taken.close()
  expect(await refused(['--env', 'production'])).toMatchObject({ code: 2, output: expect.stringContaining('dev is a sandbox') })
  expect(await refused([], { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/x' })).toMatchObject({ code: 1, output: expect.stringContaining('ECONNREFUSED') })
  expect(await refused([], { BURSAR_TURBO: 'on' })).toMatchObject({ code: 1, output: expect.stringContaining('not a setting of this version') })
  if (process.getuid!() !== 0) return
  chmodSync(home, 0o700)
  expect(await refused([])).toMatchObject({ code: 1, output: expect.stringContaining('nobody, who cannot reach') })
  chmodSync(home, 0o755)
})
