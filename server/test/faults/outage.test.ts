import pg from 'pg'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { Secret } from '../../src/kernel/secrets.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { openLog } from '../../src/platform/log.ts'
import { createDatabase, migrate } from '../../src/platform/migrations/migrations.ts'
import { fairStopwatch } from '../harness/fair.ts'
import { launch, portOf, type Program } from '../harness/process.ts'
import { noteSecrets } from '../harness/secrets.ts'
import { eventually, exchange, variables } from '../harness/world.ts'
import { openCluster, type Cluster } from './kills/cluster.ts'

let cluster: Cluster
let url: string
let settings: Record<string, string>
let shop: { organization_id: string; token: string }
const programs: Program[] = []

beforeAll(async () => {
  cluster = await openCluster()
  url = `${cluster.url}/bursar`
  await createDatabase(new Secret(url))
  await migrate(new Secret(url), 'sandbox', { clock: systemClock, log: openLog('silent') })
  settings = { ...variables({ url, owner_url: url }, 'smtp://127.0.0.1:1'), BURSAR_LOG_LEVEL: 'info', BURSAR_DATABASE_TIMEOUT_MS: '5000' }
  const seed = launch(['seed', '--json'], settings)
  expect([await seed.exited, seed.output()]).toEqual([0, expect.stringContaining('token')])
  noteSecrets(seed.output())
  shop = JSON.parse(seed.output()) as typeof shop
})
afterEach(async () => {
  for (const program of programs.splice(0)) {
    program.signal('SIGKILL')
    await program.exited
  }
  await cluster.start()
})
afterAll(() => cluster.close())

const serve = (role: 'api' | 'worker', extra: Record<string, string> = {}): Program => {
  const program = launch(['serve', '--roles', role], { ...settings, ...extra })
  programs.push(program)
  return program
}
const readiness = async (program: Program) => {
  const { status, text } = await exchange(portOf(await program.line('admin_listening')), 'GET', '/readyz')
  return { status, problems: (JSON.parse(text) as { problems: string[] }).problems.join('; ') }
}
const ready = (program: Program) => eventually('the process is ready', async () => (await readiness(program)).status === 200)
const runs = (program: Program) => [program.child.exitCode, program.child.signalCode]

/** Updates the organization through the API. Retries until the request succeeds. */
const rename = (api: Program, name: string) =>
  eventually('the API accepts a change', async () => {
    const port = portOf(await api.line('listening'))
    const headers = { authorization: `Bearer ${shop.token}`, 'content-type': 'application/json' }
    return (await exchange(port, 'PATCH', `/v1/organizations/${shop.organization_id}`, headers, JSON.stringify({ name }))).status === 200
  })
/** Waits until the worker has assigned a sequence number to every event that the API has committed. */
const numbered = (count: number) =>
  eventually('the worker has assigned a sequence number to each event', async () => {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    try {
      const { rows } = await client.query<{ done: number }>(`select count(sequence)::int as done from events where kind = 'organization.updated'`)
      return rows[0]!.done === count
    } finally {
      await client.end()
    }
  })

test('starts API and worker before PostgreSQL, reports 503 with the reason, and serves once PostgreSQL is up', async () => {
  await cluster.stop()
  const [api, worker] = [serve('api'), serve('worker')]
  for (const program of [api, worker]) {
    expect(await program.line('database_unavailable')).toMatchObject({ level: 'warn', reason: 'it refuses connections' })
    expect(await readiness(program)).toEqual({ status: 503, problems: 'waiting for the database: it refuses connections' })
    expect((await exchange(portOf(await program.line('admin_listening')), 'GET', '/healthz')).status).toBe(200)
  }
  await cluster.start()
  for (const program of [api, worker]) {
    await program.line('database_available')
    await ready(program)
  }
  await rename(api, 'Started before its database')
  await numbered(1)
  expect([runs(api), runs(worker)]).toEqual([
    [null, null],
    [null, null],
  ])
})

test('keeps the API and worker processes running while PostgreSQL stops and returns, and they resume work', async () => {
  const [api, worker] = [serve('api'), serve('worker')]
  await Promise.all([ready(api), ready(worker)])
  const { worker: first } = await worker.line('worker_started')
  await cluster.stop()
  for (const program of [api, worker]) {
    await program.line('database_unavailable')
    // At first the reason is that the connection was closed. The next attempt is refused.
    await eventually('the process reports that the database refuses connections', async () => {
      const { status, problems } = await readiness(program)
      expect(status).toBe(503)
      return problems.includes('the database cannot be reached: it refuses connections')
    })
  }
  const port = portOf(await api.line('listening'))
  expect((await exchange(port, 'GET', '/v1/organizations', { authorization: `Bearer ${shop.token}` })).status).toBe(503)
  // A browser gets a page that needs no database. It loads again by itself.
  for (const path of ['/nobody/portal/sign-in', '/checkout/01a1f5cf-44f5-4a79-bf44-6ec7a6e192fa', '/v1/checkout-links/bursar_test_col_x/redirect']) {
    const page = await exchange(port, 'GET', path, { accept: 'text/html', cookie: 'bursar_sandbox_checkout_01a1f5cf-44f5-4a79-bf44-6ec7a6e192fa=x' })
    expect([path, page.headers.get('content-type')]).toEqual([path, 'text/html; charset=utf-8'])
    if (page.status === 503) expect(page.text).toContain('data-wait="5"')
  }
  expect((await exchange(port, 'GET', '/nobody/portal/sign-in', { accept: 'text/html' })).status).toBe(503)
  await cluster.start()
  await worker.line('worker_started', ({ worker: id }) => id !== first)
  await Promise.all([ready(api), ready(worker)])
  await rename(api, 'Outlived its database')
  await numbered(2)
  expect([runs(api), runs(worker)]).toEqual([
    [null, null],
    [null, null],
  ])
  // A process logs why it waits only when the reason changes, not at each attempt to connect.
  for (const program of [api, worker]) expect(program.output().split('"database_unavailable"').length).toBeLessThan(12)
})

test('exits cleanly on SIGTERM while it waits for the database, without waiting the drain time', async () => {
  await cluster.stop()
  const api = serve('api', { BURSAR_DRAIN_SECONDS: '20' })
  await api.line('database_unavailable')
  const since = fairStopwatch()
  api.signal('SIGTERM')
  expect([await api.exited, api.output()]).toEqual([0, expect.stringContaining('"msg":"stopped"')])
  // An attempt to connect that has begun may take as long as BURSAR_DATABASE_TIMEOUT_MS: 5 seconds.
  expect(since()).toBeLessThan(10_000)
})

test('exits at once if the settings are wrong, instead of waiting for the database', async () => {
  const refusals = [
    { url: url.replace('//postgres@', '//stranger@'), says: 'rejects the login of BURSAR_DATABASE_URL: role "stranger" does not exist' },
    { url: `${url}_missing`, says: 'bursar migrate --create' },
    { url: `${cluster.url}/postgres`, says: 'the database is not migrated. Run: pnpm bursar migrate' },
  ]
  const outcomes = await Promise.all(
    refusals.map(async (refusal) => {
      const worker = serve('worker', { BURSAR_DATABASE_URL: refusal.url })
      return { code: await worker.exited, output: worker.output() }
    }),
  )
  expect(outcomes).toEqual(refusals.map(({ says }) => ({ code: 1, output: expect.stringContaining(says) })))
  expect(outcomes.map(({ output }) => output).join()).not.toContain('database_unavailable')
})
