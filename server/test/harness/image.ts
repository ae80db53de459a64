import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'

export const root = new URL('../../../', import.meta.url).pathname

export interface Instruction {
  readonly name: string
  /** The argument of the instruction as written, without flags such as `--from`. */
  readonly text: string
  readonly flags: Readonly<Record<string, string>>
  /** The elements of the JSON list in the argument. If there is no list, the words of the argument. */
  readonly words: readonly string[]
}

/** Parses the stages of a Dockerfile into instructions. Supports only the syntax that our Dockerfile uses. */
export const readStages = (file: string): Instruction[][] => {
  const stages: Instruction[][] = []
  /** Values of build arguments that are declared before the first stage. */
  const args: Record<string, string> = {}
  const lines = readFileSync(file, 'utf8')
    .replaceAll(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('#'))
  for (const line of lines) {
    const [name = '', ...rest] = line
      .trim()
      .split(/\s+/)
      .map((word) => (word.startsWith('$') ? (args[word.slice(1)] ?? word) : word))
    if (name === 'ARG' && stages.length === 0) {
      const [argument, value] = rest[0]!.split('=', 2)
      args[argument!] = value!
      continue
    }
    const first = rest.findIndex((word) => !word.startsWith('--'))
    const flags = Object.fromEntries(rest.slice(0, first).map((word) => word.slice(2).split('=', 2) as [string, string]))
    const text = rest.slice(first).join(' ')
    const list = /\[.*\]$/.exec(text)?.[0]
    const words = list === undefined ? text.split(/\s+/) : (JSON.parse(list) as string[])
    if (name === 'FROM') stages.push([])
    stages.at(-1)!.push({ name, text, flags, words })
  }
  return stages
}

/**
 * Returns a predicate that is true for paths which .dockerignore does not exclude. The last line that matches the path
 * or a parent folder decides.
 */
export const readIgnore = (file: string): ((path: string) => boolean) => {
  const rules = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('#'))
    .map((line) => ({
      keeps: line.startsWith('!'),
      fits: new RegExp(
        `^${line
          .replace(/^!/, '')
          .replaceAll(/[.+^${}()|[\]\\]/g, '\\$&')
          .replaceAll('**/', '\u0000')
          .replaceAll('*', '[^/]*')
          .replaceAll('\u0000', '(?:.*/)?')}(?:/.*)?$`,
      ),
    }))
  return (path) => rules.findLast(({ fits }) => fits.test(path))?.keeps ?? true
}

/**
 * Installs and prunes the packages of an image stage by the COPY and RUN instructions of that stage. Takes packages from
 * this machine's store if it has them.
 */
export const installed = (stage: readonly Instruction[], sent: (path: string) => boolean, to: string): void => {
  layOut(stage, sent, to)
  for (const { text } of stage.filter(({ name }) => name === 'RUN'))
    if (text.startsWith('pnpm install ')) execFileSync('sh', ['-c', `${text} --prefer-offline`], { cwd: to, stdio: 'pipe' })
    else if (text.startsWith('node deploy/')) execFileSync('sh', ['-c', text], { cwd: to, stdio: 'pipe' })
}

/**
 * Copies the files of an image stage into a folder, by the COPY instructions of the stage and .dockerignore. Packages come
 * from the folder of an earlier stage. The web pages are those that the test setup has built.
 */
export const layOut = (stage: readonly Instruction[], sent: (path: string) => boolean, to: string, packages = root): void => {
  mkdirSync(to, { recursive: true })
  // The clients of PostgreSQL are those of this machine.
  for (const { words, flags } of stage.filter(({ name, flags: { from } }) => name === 'COPY' && from !== 'clients')) {
    const target = join(to, words.at(-1)!)
    for (const word of words.slice(0, -1)) {
      const source = word.replace(/^\/app\//, '').replace(/\/$/, '')
      mkdirSync(dirname(join(to, source)), { recursive: true })
      const from = flags.from === 'production' ? packages : root
      if (source === 'node_modules') symlinkSync(join(from, source), join(to, source))
      else if (flags.from !== undefined) cpSync(join(from, source), target, { recursive: true, verbatimSymlinks: true })
      else {
        if (!sent(source)) throw new Error(`${source} is copied into the image and not sent to where it is built`)
        const into = word.endsWith('/') ? target : join(target, basename(source))
        cpSync(join(root, source), into, { recursive: true, filter: (path) => sent(relative(root, path)) })
      }
    }
  }
}

/** Returns arguments of setpriv that drop all privileges. If this process is root, they also switch to the user `nobody`. */
const confined = () => {
  const number = (flag: string) => spawnSync('id', [flag, 'nobody'], { encoding: 'utf8' }).stdout.trim()
  const another =
    process.getuid?.() === 0 ? [`--reuid=${number('-u')}`, `--regid=${number('-g')}`, '--clear-groups', '--inh-caps=-all', '--bounding-set=-all'] : []
  return [...another, '--no-new-privs', '--']
}

/** Runs a command as a container would: another user, no privileges, the folder of the image, and only these settings. */
export const contained = (words: readonly string[], cwd: string, settings: Record<string, string>) => {
  const [program, ...args] =
    words[0] === 'node' ? [process.execPath, ...words.slice(1)] : words[0] === 'bursar' ? [process.execPath, 'server/bin/bursar.js', ...words.slice(1)] : words
  const child = spawn('setpriv', [...confined(), program!, ...args], { cwd, env: { PATH: process.env.PATH, ...settings }, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  return {
    output: () => output,
    exited: new Promise<number | null>((resolve) => void child.once('close', (code) => resolve(code))),
    signal: (name: NodeJS.Signals) => void child.kill(name),
  }
}
export type Contained = ReturnType<typeof contained>

/** Reads a settings file as compose does. */
export const readSettings = (file: string): Record<string, string> =>
  Object.fromEntries(
    readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line.trim() !== '' && !line.startsWith('#'))
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  )
