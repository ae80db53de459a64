import { hash } from 'node:crypto'
import { lstatSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'

/** The settings of a running sandbox that other commands use. Other names in an entry are ignored. */
export const sharedSettings = [
  'BURSAR_ENV',
  'BURSAR_DATABASE_URL',
  'BURSAR_DATABASE_OWNER_URL',
  'BURSAR_PEPPERS',
  'BURSAR_SEALING_KEYS',
  'BURSAR_PUBLIC_URL',
  'BURSAR_AUTH_URL',
  'BURSAR_ALLOWED_HOSTS',
  'BURSAR_SMTP_URL',
  'BURSAR_MAIL_DIR',
  'BURSAR_COMMUNITIES_DIR',
  'BURSAR_STORAGE_DIR',
  'BURSAR_EGRESS_LOOPBACK',
  'BURSAR_LISTEN',
  'BURSAR_ADMIN_LISTEN',
  'BURSAR_BUDGETS',
] as const
export type SharedSettings = Partial<Record<(typeof sharedSettings)[number], string>>

/** The data of a running sandbox for other commands: its folder, its process, its settings, and how to call its API. */
export interface RunningSandbox {
  readonly folder: string
  readonly pid: number
  readonly settings: SharedSettings
  readonly api: string
  readonly token: string
}

const ownerOf = (path: string): number | undefined => lstatSync(path, { throwIfNoEntry: false })?.uid
const isOwn = (path: string): boolean => ownerOf(path) === process.getuid!()
const isPrivate = (path: string): boolean => isOwn(path) && (lstatSync(path).mode & 0o077) === 0

/**
 * Returns the folder of this user with an entry for each running sandbox. No entry is in the folder of the sandbox,
 * because that folder may be part of a repository that another person wrote.
 */
const registry = (): string => {
  const { XDG_RUNTIME_DIR: runtime = '', XDG_STATE_HOME: state = '' } = process.env
  const base = isAbsolute(runtime) && isOwn(runtime) ? runtime : isAbsolute(state) ? state : join(homedir(), '.local/state')
  return join(base, 'bursar')
}

const entryOf = (folder: string): string => join(registry(), `dev-${hash('sha256', folder).slice(0, 32)}.json`)

/** Returns the sandbox of an entry. An entry that others can read or write, or that a killed process left behind, does not count. */
const readEntry = (entry: string): RunningSandbox | undefined => {
  if (![registry(), entry].every(isPrivate) || !lstatSync(entry).isFile()) return undefined
  const sandbox = JSON.parse(readFileSync(entry, 'utf8')) as RunningSandbox
  try {
    process.kill(sandbox.pid, 0)
    return sandbox
  } catch {
    return undefined
  }
}

/** Returns the sandbox that runs with the data in a folder. */
export const findSandbox = (folder: string): RunningSandbox | undefined => {
  const sandbox = readEntry(entryOf(folder))
  return sandbox?.folder === folder ? sandbox : undefined
}

/** Registers a sandbox for the other commands of this user. Deletes the entries of killed sandboxes, because they contain secrets. */
export const registerSandbox = (sandbox: RunningSandbox): void => {
  const folder = registry()
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  if (!isPrivate(folder)) throw new Error(`${folder} must belong to this user, with mode 0700`)
  for (const name of readdirSync(folder).filter((one) => /^dev-\w+\.json$/.test(one)))
    if (!readEntry(join(folder, name))) rmSync(join(folder, name), { force: true })
  const entry = entryOf(sandbox.folder)
  rmSync(`${entry}.new`, { force: true })
  writeFileSync(`${entry}.new`, `${JSON.stringify(sandbox, null, 2)}\n`, { mode: 0o600, flag: 'wx' })
  renameSync(`${entry}.new`, entry)
}

export const unregisterSandbox = (folder: string): void => rmSync(entryOf(folder), { force: true })
