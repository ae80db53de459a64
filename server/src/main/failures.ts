import { bursar } from '../kernel/command-name.ts'
import { adoptedFolder } from './dev-settings.ts'
import { Unreachable, Usage } from './usage.ts'

interface Answered extends Error {
  readonly reply: { readonly status: number; readonly body: { readonly detail?: unknown; readonly error_description?: string } }
}

/** Returns the message about an error that a command prints. It says what happened and how to continue. */
export const explain = (error: Error & { code?: string }): string => {
  if (error.constructor.name === 'ConfigurationRefused' && !process.env.BURSAR_DATABASE_URL)
    return `${error.message}\nSet them (docs/configuration.md), or write a .env for this machine: ${bursar} init. A sandbox without setup: ${bursar} dev`
  if (error instanceof Usage || error instanceof Unreachable || ['ConfigurationRefused', 'DatabaseRefused'].includes(error.constructor.name))
    return error.message
  // The class belongs to the client of the contract, which not every command loads.
  if ('reply' in error) return refusalOf(error as Answered)
  const folder = adoptedFolder()
  if (error.code === 'ECONNREFUSED' || (error.code === 'ENOENT' && folder !== undefined))
    return folder === undefined
      ? 'the database does not answer. Is PostgreSQL running, and is BURSAR_DATABASE_URL right?'
      : `the sandbox of bursar dev in ${folder} does not answer. Start it again: ${bursar} dev`
  if (error.code === 'ERR_MODULE_NOT_FOUND')
    return `a package is not installed or not built. Run: ${bursar === 'pnpm bursar' ? './scripts/setup' : 'npm install'}\n${error.message}`
  if (error.code === '28P01' || error.code === '28000') return `the database rejects the login of BURSAR_DATABASE_URL: ${error.message}`
  if (error.code === '42P01' || error.code === '22023') return `the database is not migrated. Run: ${bursar} migrate\n${error.message}`
  if (error.code === '3D000') return `the database does not exist. Create it with: ${bursar} migrate --create`
  if ((error.code === 'ENOTDIR' || error.code === 'EACCES' || error.code === 'EROFS') && 'path' in error)
    return `the folder ${String(error.path)} cannot be created or written (${error.code}). Choose another folder`
  if (error.code === 'EADDRINUSE') return 'the port is in use. Set BURSAR_LISTEN or BURSAR_ADMIN_LISTEN to another one.'
  return error.message
}

/** Returns the words of an error answer of the API. A list of problems names the field of each. */
export const detailOf = ({ detail, error_description }: { detail?: unknown; error_description?: string }, text = ''): string => {
  const said = detail ?? error_description ?? text
  if (!Array.isArray(said)) return said as string
  return (said as { loc: unknown[]; msg: string }[])
    .map(({ loc, msg }) => [loc?.slice(1).join('.') ?? '', msg].filter((part) => part !== '').join(': '))
    .join('\n')
}

const refusalOf = ({ reply }: Answered): string => {
  const advice: Record<number, string> = {
    401: '. Check BURSAR_TOKEN or --token: the token is unknown, expired or revoked, or belongs to another deployment',
    429: '. Wait a minute, and run the command again',
  }
  return `the API answered ${reply.status}: ${detailOf(reply.body)}${advice[reply.status] ?? ''}`
}
