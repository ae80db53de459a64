import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { bursar } from '../kernel/command-name.ts'
import { Usage } from './usage.ts'

/** The folder in which `bursar dev` keeps its data, unless `--dir` names another. */
export const devFolder = '.scratch/dev'

/** The data of a running sandbox for other commands: its process, its settings, and how to call its API. */
interface Running {
  readonly pid: number
  readonly settings: Readonly<Record<string, string>>
  readonly api: string
  readonly token: string
}

const fileOf = (folder: string) => join(folder, 'running.json')

export const writeRunning = (folder: string, running: Running): void => writeFileSync(fileOf(folder), `${JSON.stringify(running, null, 2)}\n`, { mode: 0o600 })

export const removeRunning = (folder: string): void => rmSync(fileOf(folder), { force: true })

/** Returns the sandbox that runs with the data in a folder. A file that a killed process left behind does not count. */
const readRunning = (folder: string): Running | undefined => {
  if (!existsSync(fileOf(folder))) return undefined
  const running = JSON.parse(readFileSync(fileOf(folder), 'utf8')) as Running
  try {
    process.kill(running.pid, 0)
    return running
  } catch (error) {
    // EPERM: the process runs as another user.
    return (error as { code?: string }).code === 'EPERM' ? running : undefined
  }
}

/** Looks for a running sandbox in a folder and its parents, so that commands work anywhere in a project. */
const findRunning = (from: string): { folder: string; running: Running } | undefined => {
  const folder = join(from, devFolder)
  const running = readRunning(folder)
  if (running) return { folder, running }
  return dirname(from) === from ? undefined : findRunning(dirname(from))
}

let adopted: string | undefined

/** The folder of the sandbox whose settings this command uses, if it uses those of a sandbox. */
export const adoptedFolder = (): string | undefined => adopted

/**
 * Uses the settings of the running sandbox of `bursar dev`, if the environment names no deployment, or if `--dir` names
 * the sandbox. So `doctor` or `trigger` work beside `dev` without any setting.
 */
export const adoptDevSettings = (
  kind: 'server' | 'api',
  values: { readonly dir?: string | undefined; readonly api?: string | undefined; readonly token?: string | undefined; readonly json?: boolean | undefined },
): void => {
  const named = kind === 'api' ? [values.api, values.token, process.env.BURSAR_API, process.env.BURSAR_TOKEN] : [process.env.BURSAR_DATABASE_URL]
  if (values.dir === undefined && (process.env.BURSAR_ENV === 'production' || named.some((one) => one !== undefined))) return
  const found = values.dir === undefined ? findRunning(process.cwd()) : given(resolve(values.dir))
  if (!found) return
  adopted = relative('.', found.folder) || '.'
  if (kind === 'server') Object.assign(process.env, found.running.settings)
  else Object.assign(process.env, { BURSAR_API: values.api ?? found.running.api, BURSAR_TOKEN: values.token ?? found.running.token })
  if (!values.json && process.stderr.isTTY) process.stderr.write(`The sandbox of bursar dev in ${adopted} is used.\n`)
}

const given = (folder: string): { folder: string; running: Running } => {
  const running = readRunning(folder)
  if (!running) throw new Usage(`no sandbox runs with the data in ${folder}. Start it with: ${bursar} dev --dir ${folder}`)
  return { folder, running }
}
