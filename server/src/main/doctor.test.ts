import { mkdirSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { randomBytes } from 'node:crypto'
import { asOwner, cloneDatabase, urlOf, type Database } from '../../test/harness/database.ts'
import { launch } from '../../test/harness/process.ts'
import { openWorld, variables, type World } from '../../test/harness/world.ts'
import { Secret } from '../kernel/secrets.ts'
import { createOrganization } from '../modules/organizations/index.ts'
import { systemClock } from '../platform/clock.ts'
import { openLog } from '../platform/log.ts'
import { sellersWithoutAccount } from '../platform/postgres/health.sql.ts'
import { openPostgres } from '../platform/postgres/postgres.ts'
import { examine } from './doctor.ts'
import { isTight } from './doctor-checks.ts'

let world: World
let sound: Record<string, string>
const others: Database[] = []
beforeAll(async () => {
  world = await openWorld({ worker: true })
  sound = world.environmentVariables
})
afterAll(async () => {
  for (const one of others) await one.drop()
  await world.close()
})

const wrong = async (settings: Record<string, string>, clock = systemClock) =>
  (await examine({ ...sound, ...settings }, clock)).flatMap(({ name, state, says, repair }) => (state === 'failed' ? [{ name, says, repair }] : []))
const change = (statement: string) => world.database.owner((owner) => owner.query(statement))
/** Breaks the database with one statement, runs the checks, and repairs it with the other statement. */
const amid = async (broken: string, mended: string) => {
  await change(broken)
  try {
    return await wrong({})
  } finally {
    await change(mended)
  }
}
const only = (name: string, says: RegExp, repair: RegExp) => [
  { name, says: expect.stringMatching(says) as string, repair: expect.stringMatching(repair) as string },
]

test('reports no problem for a healthy deployment', async () => {
  const findings = await examine(sound)
  expect(findings.filter(({ state }) => state !== 'ok')).toEqual([])
  expect(findings.map(({ name }) => name).join(' ')).toBe(
    'configuration keys address database clock connections login migrations environment restored secrets redis event store storage disk mail spf dkim dmarc worker backlog',
  )
})

test('reports each wrong setting through exactly one failed check', async () => {
  expect(await wrong({ BURSAR_DATABSE_URL: 'x' })).toEqual(only('configuration', /BURSAR_DATABSE_URL: not a setting/, /docs\/configuration.md/))
  expect(await wrong({ BURSAR_PEPPERS: sound.BURSAR_SEALING_KEYS! })).toEqual(
    only('keys', /begin with the same key/, /put a new key first, with a new number, and keep the old key after it: openssl rand -base64 32/),
  )
  // With the new keys that the check suggests, it reports no problem.
  expect(
    await wrong({
      BURSAR_PEPPERS: `2:${randomBytes(32).toString('base64')},${sound.BURSAR_PEPPERS!}`,
      BURSAR_SEALING_KEYS: `2:${randomBytes(32).toString('base64')},${sound.BURSAR_SEALING_KEYS!}`,
    }),
  ).toEqual([])
  expect(await wrong({ BURSAR_PUBLIC_URL: 'http://shop.example' })).toEqual(only('address', /over http/, /BURSAR_PUBLIC_URL to its https address/))
  expect(await wrong({ BURSAR_DATABASE_CONNECTIONS: '500' })).toEqual(only('connections', /524 connections/, /BURSAR_DATABASE_CONNECTIONS to at most \d+/))
  const shifted = () => new Date(Date.now() - 1_000_000)
  expect(await wrong({}, { wall: shifted, business: shifted })).toEqual(only('clock', /differ by (9[5-9]\d|1000)\.\d s/, /NTP/))
})

test('reports each unreachable service through exactly one failed check', async () => {
  expect(await wrong({ BURSAR_DATABASE_URL: 'postgres://nobody:a-secret@127.0.0.1:1/none' })).toEqual(
    only('database', /ECONNREFUSED|./, /bursar migrate --create/),
  )
  expect(await wrong({ BURSAR_REDIS_URL: 'redis://127.0.0.1:1' })).toEqual(only('redis', /does not answer/, /BURSAR_REDIS_URL/))
  expect(await wrong({ BURSAR_SMTP_URL: 'smtp://127.0.0.1:1' })).toEqual(only('mail', /ECONNREFUSED/, /BURSAR_SMTP_URL/))
  const file = `${process.env.BURSAR_TEST_SCRATCH}/no-folder`
  mkdirSync(process.env.BURSAR_TEST_SCRATCH!, { recursive: true })
  writeFileSync(file, '')
  expect(await wrong({ BURSAR_STORAGE_DIR: file })).toEqual(only('storage', /./, /BURSAR_STORAGE_DIR/))
  expect(await wrong({ BURSAR_SMTP_URL: '', BURSAR_MAIL_DIR: `${file}/mail` })).toEqual(only('mail', /ENOTDIR/, /BURSAR_MAIL_DIR/))
})

test('reports each problem in the database through exactly one failed check', async () => {
  const [last] = (await change('select version, checksum from schema_migrations order by version desc limit 1')).rows as { version: string; checksum: string }[]
  expect(
    await amid(
      `delete from schema_migrations where version = '${last!.version}'`,
      `insert into schema_migrations values ('${last!.version}', '${last!.checksum}', now())`,
    ),
  ).toEqual(only('migrations', new RegExp(`not applied: ${last!.version}`), /bursar upgrade/))
  expect(await amid(`update deployment set environment = 'production'`, `update deployment set environment = 'sandbox'`)).toEqual(
    only('environment', /belongs to production, but the settings say sandbox/, /BURSAR_ENV/),
  )
  expect(await amid('update deployment set held_at = now(), restored_to = now()', 'update deployment set held_at = null, restored_to = null')).toEqual(
    only('restored', /is held until/, /bursar restore --release/),
  )
  await change('update deployment set held_at = now()')
  const skipped = (await examine(sound)).flatMap(({ name, state }) => (state === 'skipped' ? [name] : []))
  await change('update deployment set held_at = null')
  expect(skipped).toEqual(['worker', 'backlog'])
  expect(await wrong({ BURSAR_SEALING_KEYS: `1:${randomBytes(32).toString('base64')}` })).toEqual(only('secrets', /cannot be decrypted/, /BURSAR_SEALING_KEYS/))
  await world.organization().then((one) => one.token())
  expect(await wrong({ BURSAR_PEPPERS: `2:${randomBytes(32).toString('base64')}` })).toEqual(only('secrets', /with pepper 1/, /BURSAR_PEPPERS/))
  await asOwner('postgres', (client) =>
    client.query(`do $$ begin create role bursar_test_stranger login; exception when duplicate_object or unique_violation then end $$`),
  )
  const stranger = urlOf(world.database.name).replace(/\/\/[^@/]*@?/, '//bursar_test_stranger@')
  expect(await wrong({ BURSAR_DATABASE_URL: stranger })).toEqual(only('login', /lacks the roles bursar_api/, /bursar migrate/))
  const ages = `insert into graphile_worker._private_tasks (identifier) values ('nobody.knows'); select graphile_worker.add_job('nobody.knows', run_at => now() - interval '1 hour')`
  expect(
    await amid(
      ages,
      `delete from graphile_worker._private_jobs where task_id = (select id from graphile_worker._private_tasks where identifier = 'nobody.knows')`,
    ),
  ).toEqual(only('backlog', /jobs for 3[56]\d\d s/, /bursar serve --roles worker/))
})

test('reports a missing worker, and prints no secret', async () => {
  const idle = await cloneDatabase()
  others.push(idle)
  const program = launch(['doctor', '--json'], { ...variables(idle, sound.BURSAR_SMTP_URL!), BURSAR_REDIS_URL: 'redis://:a-secret@127.0.0.1:1' })
  expect(await program.exited).toBe(1)
  const { ok, checks } = JSON.parse(program.output()) as { ok: boolean; checks: { name: string; state: string; repair?: string }[] }
  expect([ok, ...checks.flatMap(({ name, state }) => (state === 'failed' ? [name] : []))]).toEqual([false, 'redis', 'worker'])
  expect(checks.find(({ name }) => name === 'worker')!.repair).toContain('bursar serve --roles worker')
  expect(program.output()).not.toContain('a-secret')
})

test('reports a disk with less than 5 % free space, with a threshold of at least 1 GiB and at most 10 GiB', () => {
  const gibibyte = 1024 ** 3
  expect(isTight({ free: 10 * gibibyte, size: 100 * gibibyte })).toBe(false)
  expect(isTight({ free: 4.9 * gibibyte, size: 100 * gibibyte })).toBe(true)
  expect(isTight({ free: 1 * gibibyte, size: 2 * gibibyte })).toBe(false)
  expect(isTight({ free: 0.9 * gibibyte, size: 2 * gibibyte })).toBe(true)
  expect(isTight({ free: 11 * gibibyte, size: 1000 * gibibyte })).toBe(false)
  expect(isTight({ free: 9 * gibibyte, size: 1000 * gibibyte })).toBe(true)
})

test('runs additional checks in production: keys, proxies, database login and payment accounts', async () => {
  const database = await cloneDatabase('production')
  others.push(database)
  const settings = variables(database, sound.BURSAR_SMTP_URL!, 'production')
  const found = async (more: Record<string, string> = {}) =>
    (await examine({ ...settings, BURSAR_TRUSTED_PROXIES: '10.0.0.0/8', ...more })).flatMap(({ name, state, repair }) =>
      state === 'failed' ? [`${name}: ${repair}`] : [],
    )
  // Two checks fail in every case here: the keys of the test are not random, and no worker is running.
  const always = [expect.stringMatching(/^keys: .*openssl/), expect.stringMatching(/^worker: /)]
  expect(await found()).toEqual(always)
  expect(await found({ BURSAR_TRUSTED_PROXIES: '' })).toEqual([always[0], expect.stringMatching(/^proxies: set BURSAR_TRUSTED_PROXIES/), ...always.slice(1)])
  expect(await found({ BURSAR_DATABASE_URL: database.owner_url })).toEqual([always[0], expect.stringMatching(/^login: .*BURSAR_DATABASE_OWNER_URL/)])

  // An organization that sells for money needs a payment account.
  const { db, transact, close } = openPostgres(new Secret(database.url), 'bursar_api', { max: 2, clock: systemClock, log: openLog('silent') })
  const shop = await transact((tx) =>
    createOrganization(tx, { name: 'Shop', slug: 'shop', default_presentment_currency: 'usd', default_tax_behavior: 'location' }, 'production'),
  )
  const product = (amount: number) =>
    database.owner((owner) =>
      owner.query(
        `insert into products (organization_id, id, created_at, name, visibility, is_archived, metadata, price_amount_type, price_amount)
         values ($1, gen_random_uuid(), now(), 'Guide', 'public', false, '{}', 'fixed', $2)`,
        [shop.id, amount],
      ),
    )
  await product(0)
  expect(await sellersWithoutAccount(db)).toEqual([])
  await product(2900)
  expect(await found()).toEqual([always[0], expect.stringMatching(/^processor: .*docs\/guides\/stripe\.md/), ...always.slice(1)])
  await database.owner((owner) =>
    owner.query(
      `insert into payment_accounts (organization_id, id, created_at, processor, secret_sealed, is_default) values ($1, gen_random_uuid(), now(), 'test', 'x', true)`,
      [shop.id],
    ),
  )
  expect(await found()).toEqual(always)
  await close()
})
