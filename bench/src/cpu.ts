import { readdirSync, readFileSync } from 'node:fs'

/** Linux counts CPU time in hundredths of a second for programs. */
const tick_ms = 10

const readProc = (path: string): string | undefined => {
  try {
    return readFileSync(`/proc/${path}`, 'utf8')
  } catch {
    // The process has ended.
    return undefined
  }
}

/** Returns the CPU time that a process and all its threads have used so far, in milliseconds. A process that has ended counts as 0. */
export const cpuOf = (pid: number): number => {
  const stat = readProc(`${pid}/stat`)
  if (stat === undefined) return 0
  // The second field is the program's name in brackets and may contain spaces. utime and stime are fields 14 and 15.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * tick_ms
}

/**
 * Returns the CPU time that all connections to a database have used so far, in milliseconds, or those of one user.
 * PostgreSQL must run on this machine. A difference is correct only if no connection was closed in between, so warm up
 * the connection pools first.
 */
export const databaseCpu = (database: string, user?: string): number =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    // The title of a PostgreSQL process is `postgres: <cluster>: <user> <database> <client> <state>`.
    .filter((pid) => {
      const title = readProc(`${pid}/cmdline`) ?? ''
      const words = title.split(/[ \0]/)
      return title.startsWith('postgres: ') && words.includes(database) && (user === undefined || words.includes(user))
    })
    .reduce((sum, pid) => sum + cpuOf(Number(pid)), 0)
