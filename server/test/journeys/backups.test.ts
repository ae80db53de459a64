import { randomUUID } from 'node:crypto'
import { appendFileSync, chmodSync, cpSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { putBack, releaseHeld, takeBackup, upgrade } from '../../src/main/backups.ts'
import { readConfig } from '../../src/platform/config.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { Secret } from '../../src/kernel/secrets.ts'
import { openLog } from '../../src/platform/log.ts'
import { dump, type Manifest } from '../../src/platform/backups/backups.ts'
import { migrate } from '../../src/platform/migrations/migrations.ts'
import { asOwner, cloneDatabase, loginOf, urlOf, type Database } from '../harness/database.ts'
import { launch } from '../harness/process.ts'
import { variables } from '../harness/world.ts'

let database: Database
let settings: Record<string, string>
let scratch: string
let folder: string
const made: string[] = []
beforeAll(async () => {
  database = await cloneDatabase()
  settings = variables(database, 'smtp://127.0.0.1:1')
  scratch = `${process.env.BURSAR_TEST_SCRATCH}/${database.name}`
  folder = join(scratch, 'backup')
  const stored = join(settings.BURSAR_STORAGE_DIR!, await deploymentOf(database.name), 'private')
  mkdirSync(stored, { recursive: true })
  writeFileSync(join(stored, 'object'), 'what was uploaded')
  await takeBackup(readConfig(settings), folder)
})
afterAll(async () => {
  await database.drop()
  for (const name of made) await asOwner('postgres', (client) => client.query(`drop database if exists ${name} with (force)`))
})

const deploymentOf = async (name: string) => (await asOwner(name, (client) => client.query<{ id: string }>('select id from deployment'))).rows[0]!.id
/** Settings for a deployment whose database does not exist yet. */
const absent = (suffix: string, owner = 'postgres'): Record<string, string> => {
  const name = `${database.name}_${suffix}`
  made.push(name)
  return { ...settings, BURSAR_DATABASE_URL: loginOf(name), BURSAR_DATABASE_OWNER_URL: urlOf(name).replace(/\/\/[^@/]*@?/, `//${owner}:a-password-of-ours@`) }
}
/** Creates an empty database. Returns the settings of a deployment that uses it. */
const empty = async (suffix: string, owner = 'postgres'): Promise<Record<string, string>> => {
  await asOwner('postgres', (client) => client.query(`create database ${database.name}_${suffix} owner ${owner}`))
  return absent(suffix, owner)
}
const restoring = (variables: Record<string, string>, from = folder) => putBack(readConfig(variables), from)
const copyOf = (suffix: string, change: (manifest: Manifest) => void) => {
  const to = join(scratch, suffix)
  cpSync(folder, to, { recursive: true })
  const manifest = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')) as Manifest
  change(manifest)
  writeFileSync(join(to, 'manifest.json'), JSON.stringify(manifest))
  return to
}

test('restores only a complete backup, into an empty database of the same environment, with software that knows its migrations', async () => {
  const target = await empty('refused')
  await expect(restoring({ ...target, BURSAR_ENV: 'production' })).rejects.toThrow(/backup of sandbox, but this process runs as production/)
  await expect(restoring(settings)).rejects.toThrow(/into an empty database, but this one has \d+ tables/)
  await expect(restoring(target, scratch)).rejects.toThrow(/is not a complete backup/)
  const newer = copyOf('newer', ({ migrations }) => migrations.push({ version: '9999_future', checksum: 'x' }))
  await expect(restoring(target, newer)).rejects.toThrow(/another version of the software, which has the migration 9999_future/)
  const damaged = copyOf('damaged', () => undefined)
  appendFileSync(join(damaged, 'database.dump'), 'x')
  await expect(restoring(target, damaged)).rejects.toThrow(/database.dump is damaged/)
  const stranger = copyOf('stranger', (manifest) => void (manifest.owner = 'somebody_else'))
  await expect(restoring(target, stranger)).rejects.toThrow(/belong to somebody_else\. Create that login/)
  // A restore with wrong row counts leaves no deployment row, so no server starts from it.
  const fewer = copyOf('fewer', ({ rows }) => void (rows['public.signing_keys'] = 99))
  await expect(restoring(target, fewer)).rejects.toThrow(/public.signing_keys has \d+ rows instead of 99/)
  expect((await asOwner(new URL(target.BURSAR_DATABASE_OWNER_URL!).pathname.slice(1), (client) => client.query('select 1 from deployment'))).rows).toEqual([])
})

test('restores all files unchanged, or restores nothing at all', async () => {
  const target = await empty('files')
  const tables = async () =>
    (
      await asOwner(new URL(target.BURSAR_DATABASE_OWNER_URL!).pathname.slice(1), (client) =>
        client.query(`select 1 from pg_tables where schemaname = 'public'`),
      )
    ).rowCount
  const { BURSAR_STORAGE_DIR: _, ...nowhere } = target
  await expect(restoring(nowhere)).rejects.toThrow(/this backup has files in .*\. Set BURSAR_STORAGE_DIR/)
  // One file is missing from the backup.
  const poorer = copyOf('poorer', () => undefined)
  rmSync(join(poorer, 'files', 'private', 'object'))
  await expect(restoring(target, poorer)).rejects.toThrow(/is damaged: it has 0 files with 0 bytes, but the backup has 1 with 17/)
  // The target storage already has another file with the same name and size.
  const storage = join(scratch, 'taken')
  const stored = join(storage, await deploymentOf(database.name), 'private')
  mkdirSync(stored, { recursive: true })
  writeFileSync(join(stored, 'object'), 'what is not ours.')
  await expect(restoring({ ...target, BURSAR_STORAGE_DIR: storage })).rejects.toThrow(
    /1 existing files differ .*private\/object. Move .* away, and restore again/,
  )
  expect(readFileSync(join(stored, 'object'), 'utf8')).toBe('what is not ours.')
  expect(await tables()).toBe(0)
  // Files that were uploaded after the backup stay untouched.
  rmSync(join(stored, 'object'))
  writeFileSync(join(stored, 'later'), 'uploaded since')
  await restoring({ ...target, BURSAR_STORAGE_DIR: storage })
  expect(['object', 'later'].map((name) => readFileSync(join(stored, name), 'utf8'))).toEqual(['what was uploaded', 'uploaded since'])
})

test('refuses a backup into a folder that is not empty, or if pg_dump is missing or older than the database server', async () => {
  chmodSync(folder, 0o755)
  await expect(takeBackup(readConfig(settings), folder)).rejects.toThrow(/is not empty/)
  // A refused backup leaves the folder unchanged.
  expect(statSync(folder).mode & 0o777).toBe(0o755)
  const deps = { clock: systemClock, path: scratch, told: () => undefined }
  await expect(dump(new Secret(database.owner_url), join(scratch, 'none'), deps)).rejects.toThrow(/pg_dump is not installed.*postgresql-client/)
  const old = join(scratch, 'old')
  mkdirSync(old)
  writeFileSync(join(old, 'pg_dump'), '#!/bin/sh\necho "pg_dump (PostgreSQL) 9.6"\n', { mode: 0o755 })
  await expect(dump(new Secret(database.owner_url), join(scratch, 'older'), { ...deps, path: `${old}:/usr/bin:/bin` })).rejects.toThrow(
    /pg_dump is of PostgreSQL 9, but the server is/,
  )
})

test('restores files and role permissions with the owner rights that deploy/ grants, into a database that it creates, without printing a password', async () => {
  const init = readFileSync(new URL('../../../deploy/postgres/init.sh', import.meta.url), 'utf8')
  const rights = /create role bursar_owner ([a-z ]+) password/.exec(init)![1]!
  const granted = /^grant ([a-z_, ]+) to bursar_owner;$/m.exec(init)![1]!
  await asOwner('postgres', async (client) => {
    await client.query(`do $$ begin create role bursar_test_owner; exception when duplicate_object or unique_violation then end $$`)
    await client.query(`alter role bursar_test_owner nosuperuser nologin nocreaterole nocreatedb`)
    await client.query(`alter role bursar_test_owner ${rights}`)
    await client.query(`grant ${granted} to bursar_test_owner`)
  })
  const first = await empty('first', 'bursar_test_owner')
  const run = async (args: readonly string[], given: Record<string, string>) => {
    const program = launch(args, given)
    return { code: await program.exited, output: program.output() }
  }
  await migrate(new Secret(first.BURSAR_DATABASE_OWNER_URL!), 'sandbox', {
    clock: systemClock,
    log: openLog('silent'),
    login: new Secret(first.BURSAR_DATABASE_URL!),
  })
  const to = join(scratch, 'by-owner')
  const storage = { BURSAR_STORAGE_DIR: join(scratch, 'storage') }
  const id = await deploymentOf(new URL(first.BURSAR_DATABASE_URL!).pathname.slice(1))
  mkdirSync(join(storage.BURSAR_STORAGE_DIR, id, 'public'), { recursive: true })
  writeFileSync(join(storage.BURSAR_STORAGE_DIR, id, 'public', 'picture'), 'a picture')
  const taken = await run(['backup', '--to', to], { ...first, ...storage })
  expect(taken).toMatchObject({ code: 0, output: expect.stringContaining('with 1 files') as string })
  const second = absent('second', 'bursar_test_owner')
  const elsewhere = { ...second, BURSAR_STORAGE_DIR: join(scratch, 'storage-2') }
  const restored = await run(['restore', '--from', to, '--create'], elsewhere)
  expect(restored).toMatchObject({ code: 0, output: expect.stringContaining('The database is held') as string })
  expect(readFileSync(join(elsewhere.BURSAR_STORAGE_DIR, id, 'public', 'picture'), 'utf8')).toBe('a picture')
  expect(taken.output + restored.output + readFileSync(join(to, 'manifest.json'), 'utf8')).not.toContain('a-password-of-ours')
  const powers = (name: string) =>
    asOwner(name, async (client) => {
      const { rows } = await client.query(
        `select n.nspname, relname, pg_get_userbyid(relowner) as owner, relacl::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where nspname in ('public', 'graphile_worker', 'test_processor') and relkind in ('r', 'p', 'S')
         union all select n.nspname, proname, pg_get_userbyid(proowner), proacl::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace where proname = 'enqueue_job'
         union all select '', nspname, pg_get_userbyid(nspowner), nspacl::text from pg_namespace where nspname in ('graphile_worker', 'test_processor')
         union all select '', '', '', has_database_privilege('bursar_jobs', current_database(), 'create')::text || has_schema_privilege('bursar_jobs', 'public', 'create')::text
         order by 1, 2`,
      )
      return rows
    })
  const nameOf = ({ BURSAR_DATABASE_URL }: Record<string, string>) => new URL(BURSAR_DATABASE_URL!).pathname.slice(1)
  expect(await powers(nameOf(second))).toEqual(await powers(nameOf(first)))
  const config = readConfig(second)
  expect(await releaseHeld(config)).toEqual({ released: true, strays: [] })
  expect(await releaseHeld(config)).toEqual({ released: false, strays: [] })
})

test('lists unmatched charges on every run until a person settles them', async () => {
  const name = database.name
  const ids = { organization: randomUUID(), account: randomUUID(), customer: randomUUID() }
  await asOwner(name, async (client) => {
    await client.query('set session_replication_role = replica')
    await client.query(
      `insert into stray_charges (organization_id, account_id, intent_id, found_at, customer_id, amount, currency, trigger, charged_at)
       values ($1, $2, 'pi_open', now(), $3, 2900, 'usd', 'purchase', now())`,
      [ids.organization, ids.account, ids.customer],
    )
  })
  const run = async (...args: string[]) => {
    const program = launch(['restore', ...args], settings)
    return { code: await program.exited, output: program.output() }
  }
  expect(await run('--settle', 'pi_none')).toMatchObject({ code: 2, output: expect.stringContaining('bursar restore --release lists them') as string })
  expect(await run('--release')).toMatchObject({
    code: 0,
    output: expect.stringMatching(/pi_open {2}customer [^]*not held: 1 unmatched charges/) as string,
  })
  expect(await run('--settle', 'pi_open')).toMatchObject({ code: 0, output: expect.stringContaining('settled pi_open') as string })
  expect(await run('--release')).toMatchObject({ code: 0, output: expect.stringContaining('not held: there is no unmatched charge') as string })
})

test('takes a backup before an upgrade, and refuses to upgrade without a backup unless --no-backup is given', async () => {
  const run = async (...args: string[]) => {
    const program = launch(['upgrade', ...args], settings)
    return { code: await program.exited, output: program.output() }
  }
  await expect(upgrade({})).rejects.toThrow(/--no-backup/)
  const to = join(scratch, 'upgrade')
  const done = await run('--to', to)
  // The upgrade ends with the findings of `doctor`. Here no worker runs, and mail cannot be sent.
  expect(done).toMatchObject({ code: 1, output: expect.stringMatching(/the database is up to date[^]*FAILED {2}mail[^]*FAILED {2}worker/) as string })
  expect(readFileSync(join(to, 'manifest.json'), 'utf8')).toContain('"snapshot_at"')
})
