import { dirname, join, relative, resolve } from 'node:path'
import { bursar } from '../kernel/command-name.ts'
import { findSandbox, sharedSettings, type RunningSandbox } from './dev-registry.ts'
import { Usage } from './usage.ts'

/** The folder in which `bursar dev` keeps its data, unless `--dir` names another. */
export const devFolder = '.scratch/dev'

/** Looks for a running sandbox in a folder and its parents, so that commands work anywhere in a project. */
const findAbove = (from: string): RunningSandbox | undefined =>
  findSandbox(join(from, devFolder)) ?? (dirname(from) === from ? undefined : findAbove(dirname(from)))

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
  const found = values.dir === undefined ? findAbove(process.cwd()) : given(resolve(values.dir))
  if (!found) return
  adopted = relative('.', found.folder) || '.'
  const { settings } = found
  if (kind === 'server') Object.assign(process.env, Object.fromEntries(sharedSettings.filter((name) => name in settings).map((name) => [name, settings[name]])))
  else Object.assign(process.env, { BURSAR_API: values.api ?? found.api, BURSAR_TOKEN: values.token ?? found.token })
  if (!values.json && process.stderr.isTTY) process.stderr.write(`The sandbox of bursar dev in ${adopted} is used.\n`)
}

const given = (folder: string): RunningSandbox => {
  const found = findSandbox(folder)
  if (!found) throw new Usage(`no sandbox runs with the data in ${folder}. Start it with: ${bursar} dev --dir ${folder}`)
  return found
}
