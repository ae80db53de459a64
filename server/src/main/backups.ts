import { cp, readdir, stat } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { join, relative } from 'node:path'
import { openPayments } from '../gateways/payments/open.ts'
import type { Payments } from '../gateways/payments/payments.ts'
import { Hasher, Sealer } from '../kernel/secrets.ts'
import { AccountsSilent, dismissStray, findStrays, listStrays, type StrayRow } from '../modules/billing/index.ts'
import { systemClock, type Clock } from '../platform/clock.ts'
import { readConfig, type Config } from '../platform/config.ts'
import { openLog } from '../platform/log.ts'
import { digest, dump, filesName, load, unhold, writeManifest, type Manifest } from '../platform/postgres/backups.ts'
import { createDatabase, DatabaseRefused, foreign, migrate, readStamp } from '../platform/postgres/migrations.ts'
import { openPostgres } from '../platform/postgres/postgres.ts'
import { openBar } from './bar.ts'
import { runMigrate, withDatabase } from './commands.ts'
import { doctor } from './doctor.ts'
import { print } from './print.ts'
import { Usage } from './usage.ts'

interface Values {
  json?: boolean | undefined
  create?: boolean | undefined
  to?: string | undefined
  from?: string | undefined
  release?: boolean | undefined
  settle?: string | undefined
  'no-backup'?: boolean | undefined
  readonly without?: readonly string[] | undefined
}

/** A bar whose length is known only after it has begun. */
const openLateBar = () => {
  let bar: ReturnType<typeof openBar> | undefined
  return { told: (done: number, all: number) => (bar ??= openBar(all)).show(done), end: () => bar?.end() }
}

const size = (bytes: number) => (bytes < 1024 * 1024 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`)

/** Writes everything that a deployment needs to be put back: its database as it is at one moment, and its files where they lie in a folder. */
export const takeBackup = async (config: Config, folder: string, clock: Clock = systemClock): Promise<Manifest> => {
  const bar = openLateBar()
  try {
    const told = await dump(config.database_owner_url, folder, { clock, path: process.env.PATH ?? '', told: bar.told })
    if (told.environment !== config.environment) throw new DatabaseRefused(foreign(told.environment, config.environment))
    const manifest = { ...told, storage: await copyFiles(config, told.deployment.id, folder) }
    await writeManifest(folder, manifest)
    return manifest
  } finally {
    bar.end()
  }
}

/** After the database: what came meanwhile is too much and does no harm, what is missing would. */
const copyFiles = async ({ storage }: Config, deployment_id: string, folder: string): Promise<Manifest['storage']> => {
  if (!storage) return null
  if (!('folder' in storage)) return { kind: 'store', bucket: storage.bucket, public_bucket: storage.public_bucket, root: `${deployment_id}/` }
  const from = join(storage.folder, deployment_id)
  const to = join(folder, filesName)
  // An object may go while it is being copied: then its row is on its way out as well.
  if (existsSync(from)) await cp(from, to, { recursive: true, filter: (source) => existsSync(source) })
  return { kind: 'folder', ...(await measure(to, await listFiles(to))) }
}

const listFiles = async (folder: string): Promise<string[]> => {
  const entries = existsSync(folder) ? await readdir(folder, { recursive: true, withFileTypes: true }) : []
  return entries.filter((entry) => entry.isFile()).map((entry) => relative(folder, join(entry.parentPath, entry.name)))
}

const measure = async (folder: string, files: readonly string[]): Promise<{ files: number; bytes: number }> => {
  const sizes = await Promise.all(files.map(async (file) => (await stat(join(folder, file))).size))
  return { files: files.length, bytes: sizes.reduce((sum, one) => sum + one, 0) }
}

/** Puts the files of a backup where they are served from: all of them, with the bytes that were backed up, or it is refused. What lies there is not touched. */
const putFilesBack = async ({ storage }: Config, folder: string, manifest: Manifest): Promise<void> => {
  if (manifest.storage?.kind !== 'folder' || manifest.storage.files === 0) return
  const { files, bytes } = manifest.storage
  const from = join(folder, filesName)
  if (!storage || !('folder' in storage)) throw new Usage(`the files of this backup lie in ${from}: set BURSAR_STORAGE_DIR`)
  const names = await listFiles(from)
  const there = await measure(from, names)
  if (there.files !== files || there.bytes !== bytes)
    throw new DatabaseRefused(
      `${from} is damaged: it has ${there.files} files with ${there.bytes} bytes, and ${files} with ${bytes} were backed up. Take another backup, or another copy of this one`,
    )
  const to = join(storage.folder, manifest.deployment.id)
  const different = []
  for (const name of names)
    if (existsSync(join(to, name)) && (await digest(join(to, name))) !== (await digest(join(from, name)))) different.push(join(to, name))
  if (different.length > 0)
    throw new DatabaseRefused(
      `${different.length} files lie where this backup has others of the same name, and nothing is overwritten: ${different.slice(0, 3).join(', ')}. Move ${to} away, and restore again`,
    )
  await cp(from, to, { recursive: true, force: false })
  const now = await measure(to, names)
  if (now.bytes !== bytes)
    throw new DatabaseRefused(`of ${bytes} bytes of files, ${now.bytes} have come to ${to}. See that there is room, move it away, and restore again`)
}

export const backup = async (values: Values): Promise<void> => {
  if (!values.to) throw new Usage('--to is needed: a folder that does not exist yet, for this backup alone')
  const manifest = await takeBackup(readConfig(process.env), values.to)
  print(
    values,
    { folder: values.to, ...manifest },
    `${values.to}: everything that was committed by ${manifest.snapshot_at}, ${size(manifest.dump.bytes)}${filesOf(manifest)}\n\nIt holds personal data, and no keys: keep BURSAR_PEPPERS and BURSAR_SEALING_KEYS elsewhere, or it cannot be used.`,
  )
}

const filesOf = ({ storage }: Manifest): string =>
  storage === null
    ? ''
    : storage.kind === 'folder'
      ? `, with ${storage.files} files (${size(storage.bytes)})`
      : `. Its files stay in the buckets ${storage.bucket} and ${storage.public_bucket}, under ${storage.root}`

/** Puts a backup back: its files, then an empty database, which is held until it is released. */
export const putBack = async (config: Config, folder: string, clock: Clock = systemClock): Promise<Manifest> => {
  const bar = openLateBar()
  try {
    const manifest = await load(config.database_owner_url, folder, config.environment, {
      clock,
      path: process.env.PATH ?? '',
      told: bar.told,
      first: (of) => putFilesBack(config, folder, of),
    })
    // Whoever serves may take the roles here too, and what this version has added is made.
    await migrate(config.database_owner_url, config.environment, { clock, log: openLog('error'), login: config.database_url })
    return manifest
  } finally {
    bar.end()
  }
}

/**
 * Asks the processors what they have charged that a restored database knows nothing of, takes it down, and lets the
 * database be served from. Nothing of it is charged a second time. Where a processor does not answer, all stays held.
 * Where nothing is held, nobody is asked: what was taken down and is still open is told again.
 */
export const releaseHeld = async (
  config: Config,
  { payments, clock = systemClock, without = [] }: { payments?: Payments; clock?: Clock; without?: readonly string[] } = {},
): Promise<{ released: boolean; strays: StrayRow[] }> => {
  const log = openLog('error')
  const postgres = openPostgres(config.database_url, 'bursar_worker', { max: 10, clock, log })
  const processors = payments ?? openPayments(config, { clock, log })
  const bar = openLateBar()
  try {
    const stamp = await readStamp(postgres.db)
    if (stamp?.environment !== config.environment) throw new DatabaseRefused(foreign(stamp?.environment, config.environment))
    if (stamp.held_at === null) return { released: false, strays: await listStrays(postgres.db) }
    const { discretion } = await import('./wire.ts')
    const platform = { config, log, clock, hasher: new Hasher(config.peppers), sealer: new Sealer(config.sealing_keys), discretion }
    const strays = await findStrays({ db: postgres.db, transact: postgres.transact, payments: processors, platform }, bar.told, without)
    await unhold(config.database_owner_url, stamp.id)
    return { released: true, strays }
  } catch (error) {
    if (error instanceof AccountsSilent)
      throw new DatabaseRefused(
        `no answer from the payment account ${error.accounts.join(', ')}: the database stays held. Try again: bursar restore --release. ` +
          'Where an account is closed or its key was taken back, nothing can be charged with it: leave it out with --without <account>',
      )
    throw error
  } finally {
    bar.end()
    await postgres.close()
    if (!payments) await processors.close()
  }
}

export const restore = async (values: Values): Promise<void> => {
  const config = readConfig(process.env)
  if (values.settle !== undefined) return settle(values, values.settle)
  if (values.release) {
    const { released, strays } = await releaseHeld(config, { without: values.without ?? [] })
    const lines = strays.map(
      ({ intent_id, customer_id, amount, currency, trigger, charged_at }) =>
        `${charged_at?.toISOString() ?? 'under way               '}  ${intent_id}  customer ${customer_id}  ${amount} ${currency}  ${trigger ?? ''}`,
    )
    const state = released ? 'released' : 'not held'
    return print(
      values,
      { released, strays },
      strays.length === 0
        ? `${state}: ${released ? 'the processors know of no charge that this database does not know of' : 'no charge is open'}`
        : [
            ...lines,
            '',
            `${state}: ${strays.length} charges are unknown here. What is charged again is settled with them; see docs/runbooks/backup-and-restore.md`,
          ].join('\n'),
    )
  }
  if (!values.from) throw new Usage('restore takes --from <folder>, then --release; or --settle <charge>')
  if (values.create && (await createDatabase(config.database_owner_url))) process.stderr.write('created the database\n')
  const manifest = await putBack(config, values.from)
  const total = Object.values(manifest.rows).reduce((sum, one) => sum + one, 0)
  print(
    values,
    { restored_to: manifest.snapshot_at, rows: total, ledger: manifest.ledger, storage: manifest.storage, held: true },
    [
      `restored to ${manifest.snapshot_at}`,
      `rows        ${total} in ${Object.keys(manifest.rows).length} tables, as many as were backed up`,
      `ledger      ${
        Object.entries(manifest.ledger)
          .map(([account, amount]) => `${account} ${amount}`)
          .join(', ') || 'empty'
      }: the same sums, every transaction at zero`,
      `files       ${manifest.storage === null ? 'none' : manifest.storage.kind === 'folder' ? `${manifest.storage.files}` : `in ${manifest.storage.bucket} and ${manifest.storage.public_bucket}`}`,
      '',
      'It is held: nobody serves from it. Stop whatever ran on the old one, then run: bursar restore --release',
    ].join('\n'),
  )
}

const settle = async (values: Values, intent_id: string): Promise<void> =>
  withDatabase(async ({ transact }) => {
    if (!(await dismissStray({ transact }, intent_id))) throw new Usage(`there is no open charge ${intent_id}; bursar restore --release lists them`)
    print(values, { settled: intent_id }, `settled ${intent_id}: its customer is charged as usual from now on`)
  })

/** A backup, then the changes of this version, then a look at everything. */
export const upgrade = async (values: Values): Promise<void> => {
  if (!values['no-backup']) {
    if (!values.to) throw new Usage('--to is needed: where the backup goes that is taken first; or --no-backup')
    await backup(values)
  }
  await runMigrate(values)
  await doctor(values)
}
