import { cp, readdir, stat } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { join, relative } from 'node:path'
import { renderMail } from '@bursar/web'
import { bursar } from '../kernel/command-name.ts'
import { openPayments } from '../gateways/payments/open.ts'
import type { Payments } from '../gateways/payments/payments.ts'
import { Hasher, Sealer } from '../kernel/secrets.ts'
import { AccountsSilent, dismissUnmatchedCharge, findUnmatchedCharges, listUnmatchedCharges, type UnmatchedChargeRow } from '../modules/billing/index.ts'
import { systemClock, type Clock } from '../platform/clock.ts'
import { readConfig, type Config } from '../platform/config.ts'
import { openLog } from '../platform/log.ts'
import { digest, dump, filesName, restoreBackup, unhold, writeManifest, type Manifest } from '../platform/backups/backups.ts'
import { createDatabase, DatabaseRefused, foreign, migrate, readStamp } from '../platform/migrations/migrations.ts'
import { openPostgres } from '../platform/postgres/postgres.ts'
import { openLateBar, withStatus } from './bar.ts'
import { runMigrate } from './commands.ts'
import { deedOf, openCommandAudit, withDatabase } from './database.ts'
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
  /** False with --no-backup. */
  backup?: boolean | undefined
  readonly without?: readonly string[] | undefined
}

const size = (bytes: number) => (bytes < 1024 * 1024 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`)

/** Writes a complete backup of a deployment: a snapshot of its database, and its files if they are stored in a folder. */
export const takeBackup = async (config: Config, folder: string, clock: Clock = systemClock): Promise<Manifest> => {
  const bar = openLateBar()
  try {
    const told = await dump(config.database_owner_url, folder, { clock, path: process.env.PATH ?? '', told: bar.told })
    if (told.environment !== config.environment) throw new DatabaseRefused(foreign(told.environment, config.environment))
    const manifest = { ...told, storage: await withStatus('copying the files', () => copyFiles(config, told.deployment.id, folder)) }
    await writeManifest(folder, manifest)
    return manifest
  } finally {
    bar.end()
  }
}

/** Copies the files. Must run after the dump: a file without a row in the dump is harmless, but a row without its file is not. */
const copyFiles = async ({ storage }: Config, deployment_id: string, folder: string): Promise<Manifest['storage']> => {
  if (!storage) return null
  if (!('folder' in storage)) return { kind: 'store', bucket: storage.bucket, public_bucket: storage.public_bucket, root: `${deployment_id}/` }
  const from = join(storage.folder, deployment_id)
  const to = join(folder, filesName)
  // Skips files that are deleted during the copy, because their rows are being deleted as well.
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

/**
 * Restores the files of a backup to the storage folder. Fails unless all files have the bytes that were backed up.
 * Existing files are never overwritten.
 */
const putFilesBack = async ({ storage }: Config, folder: string, manifest: Manifest): Promise<void> => {
  if (manifest.storage?.kind !== 'folder' || manifest.storage.files === 0) return
  const { files, bytes } = manifest.storage
  const from = join(folder, filesName)
  if (!storage || !('folder' in storage)) throw new Usage(`this backup has files in ${from}. Set BURSAR_STORAGE_DIR to restore them`)
  const names = await listFiles(from)
  const there = await measure(from, names)
  if (there.files !== files || there.bytes !== bytes)
    throw new DatabaseRefused(
      `${from} is damaged: it has ${there.files} files with ${there.bytes} bytes, but the backup has ${files} with ${bytes}. Use another backup, or another copy of this one`,
    )
  const to = join(storage.folder, manifest.deployment.id)
  const different = []
  for (const name of names)
    if (existsSync(join(to, name)) && (await digest(join(to, name))) !== (await digest(join(from, name)))) different.push(join(to, name))
  if (different.length > 0)
    throw new DatabaseRefused(
      `${different.length} existing files differ from the backup, and restore overwrites nothing: ${different.slice(0, 3).join(', ')}. Move ${to} away, and restore again`,
    )
  await cp(from, to, { recursive: true, force: false })
  const now = await measure(to, names)
  if (now.bytes !== bytes)
    throw new DatabaseRefused(
      `of ${bytes} bytes of files, only ${now.bytes} were copied to ${to}. Check the disk space, move the folder away, and restore again`,
    )
}

export const backup = async (values: Values): Promise<void> => {
  if (!values.to) throw new Usage('--to is needed: a folder that does not exist yet, only for this backup')
  const manifest = await takeBackup(readConfig(process.env), values.to)
  print(
    values,
    { folder: values.to, ...manifest },
    `${values.to}: everything that was committed by ${manifest.snapshot_at}, ${size(manifest.dump.bytes)}${filesOf(manifest)}\n\nThe backup contains personal data, but no keys. Keep BURSAR_PEPPERS and BURSAR_SEALING_KEYS elsewhere: without them it cannot be used.`,
  )
}

const filesOf = ({ storage }: Manifest): string =>
  storage === null
    ? ''
    : storage.kind === 'folder'
      ? `, with ${storage.files} files (${size(storage.bytes)})`
      : `. Its files stay in the buckets ${storage.bucket} and ${storage.public_bucket}, under ${storage.root}`

/** Restores a backup: first its files, then its database into an empty one. The restored database is on hold until `releaseHeld`. */
export const putBack = async (config: Config, folder: string, clock: Clock = systemClock): Promise<Manifest> => {
  const bar = openLateBar()
  try {
    const manifest = await restoreBackup(config.database_owner_url, folder, config.environment, {
      clock,
      path: process.env.PATH ?? '',
      told: bar.told,
      first: (of) => withStatus('copying the files', () => putFilesBack(config, folder, of)),
    })
    // Grants the serving roles to the server's login, and applies migrations that are newer than the backup.
    await migrate(config.database_owner_url, config.environment, { clock, log: openLog('error'), login: config.database_url })
    return manifest
  } finally {
    bar.end()
  }
}

/**
 * Ends the hold on a restored database. Before that, asks the payment processors for charges that are missing in the
 * database. Stores these charges, so that they are not repeated. If a processor does not answer, the database stays on
 * hold. If the database is not on hold, only lists the open charges again.
 */
export const releaseHeld = async (
  config: Config,
  { payments, clock = systemClock, without = [] }: { payments?: Payments; clock?: Clock; without?: readonly string[] } = {},
): Promise<{ released: boolean; strays: UnmatchedChargeRow[] }> => {
  const log = openLog('error')
  const postgres = openPostgres(config.database_url, 'bursar_worker', { max: 10, clock, log })
  const processors = payments ?? openPayments(config, { clock, log })
  const bar = openLateBar()
  try {
    const stamp = await readStamp(postgres.db)
    if (stamp?.environment !== config.environment) throw new DatabaseRefused(foreign(stamp?.environment, config.environment))
    if (stamp.held_at === null) return { released: false, strays: await listUnmatchedCharges(postgres.db) }
    const { discretion } = await import('./wire.ts')
    const platform = { config, log, clock, hasher: new Hasher(config.peppers), sealer: new Sealer(config.sealing_keys), renderMail, discretion }
    const deps = { db: postgres.db, transact: postgres.transact, payments: processors, platform }
    const strays = await withStatus('asking the payment processors', () => findUnmatchedCharges(deps, bar.told, without))
    await unhold(config.database_owner_url, stamp.id)
    const audit = await openCommandAudit(config)
    await postgres.transact((tx) => audit.record(tx, deedOf('restore --release')))
    return { released: true, strays }
  } catch (error) {
    if (error instanceof AccountsSilent)
      throw new DatabaseRefused(
        `no answer from the payment account ${error.accounts.join(', ')}: the database stays held. Try again: ${bursar} restore --release. ` +
          'If an account is closed or its key was revoked, it cannot charge: skip it with --without <account>',
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
        `${charged_at?.toISOString() ?? 'in progress             '}  ${intent_id}  customer ${customer_id}  ${amount} ${currency}  ${trigger ?? ''}`,
    )
    const state = released ? 'released' : 'not held'
    return print(
      values,
      { released, strays },
      strays.length === 0
        ? `${state}: ${released ? 'the processors have no charge that this database does not know' : 'there is no unmatched charge'}`
        : [
            ...lines,
            '',
            `${state}: ${strays.length} unmatched charges. A new charge for the same customer is settled with them; see docs/runbooks/backup-and-restore.md`,
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
      `rows        ${total} in ${Object.keys(manifest.rows).length} tables, as in the backup`,
      `ledger      ${
        Object.entries(manifest.ledger)
          .map(([account, amount]) => `${account} ${amount}`)
          .join(', ') || 'empty'
      }: the same sums, every transaction at zero`,
      `files       ${manifest.storage === null ? 'none' : manifest.storage.kind === 'folder' ? `${manifest.storage.files}` : `in ${manifest.storage.bucket} and ${manifest.storage.public_bucket}`}`,
      '',
      `The database is held: no server uses it yet. Stop every process on the old database, then run: ${bursar} restore --release`,
    ].join('\n'),
  )
}

const settle = async (values: Values, intent_id: string): Promise<void> =>
  withDatabase('restore --settle', async ({ transact }) => {
    await transact(async (tx) => {
      if (!(await dismissUnmatchedCharge({ transact: (work) => work(tx) }, intent_id)))
        throw new Usage(`there is no unmatched charge ${intent_id}; ${bursar} restore --release lists them`)
    })
    print(values, { settled: intent_id }, `settled ${intent_id}: its customer is charged normally from now on`)
  })

/** Takes a backup, runs the migrations of this version, and then runs doctor. */
export const upgrade = async (values: Values): Promise<void> => {
  if (values.backup !== false) {
    if (!values.to) throw new Usage('--to is needed: the folder for the backup before the upgrade. To skip the backup: --no-backup')
    await backup(values)
  }
  await runMigrate(values)
  await doctor(values)
}
