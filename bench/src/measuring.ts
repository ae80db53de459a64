import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import type { World } from '../../server/test/harness/world.ts'
import { cpuOf, databaseCpu } from './cpu.ts'
import { options } from './options.ts'
import type { Outcome } from './results.ts'

export const run = promisify(execFile)

/**
 * Returns the options with which the image runs Node. Memory is measured with them, because Node otherwise sizes its
 * young generation by the memory of the machine.
 */
export const imageOptions = (): { readonly NODE_OPTIONS: string } => {
  const [, found] = /^ENV .*\bNODE_OPTIONS=(\S+)/m.exec(readFileSync(new URL('../../deploy/Dockerfile', import.meta.url), 'utf8')) ?? []
  if (found === undefined) throw new Error('deploy/Dockerfile sets no NODE_OPTIONS')
  return { NODE_OPTIONS: found }
}

export const median = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)]!

export const quotients = (over: readonly number[], under: readonly number[]) => over.map((one, at) => one / under[at]!)

export interface Measured {
  answers: number
  per_second: number
  p50: number
  failures: number
}

/** Sends one request repeatedly on several connections, from a separate process. */
export const sendLoad = async (
  port: number,
  path: string,
  token: string,
  { connections = options.connections, body, seconds = options.seconds }: { connections?: number; body?: string; seconds?: number } = {},
): Promise<Measured> => {
  const { stdout } = await run(process.execPath, [
    new URL('load.ts', import.meta.url).pathname,
    String(port),
    path,
    token,
    String(connections),
    String(seconds * 1000),
    ...(body === undefined ? [] : [body]),
  ])
  const measured = JSON.parse(stdout) as Measured
  if (measured.failures > 0) throw new Error(`${measured.failures} answers were no success`)
  return measured
}

/** Starts one side of a comparison in a separate process: see serve.ts. */
export const startSide = (world: World, side: string): Promise<Listening> =>
  startListening(['serve.ts', side], { ...world.environmentVariables, BURSAR_DATABASE_CONNECTIONS: '20' })

export interface Listening {
  readonly port: number
  readonly child: ChildProcess
}

/** Starts a file of this folder in a separate process. Waits until it prints its port. */
export const startListening = ([file, ...args]: readonly [string, ...string[]], env: Record<string, string>): Promise<Listening> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [new URL(file, import.meta.url).pathname, ...args], {
      env: { PATH: process.env.PATH, ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    child.stdout.once('data', (chunk: Buffer) => resolve({ port: (JSON.parse(chunk.toString()) as { port: number }).port, child }))
    child.once('exit', () => reject(new Error(`${[file, ...args].join(' ')} ended before it listened`)))
  })

/** Measures both sides alternately, so that other load on the machine affects both equally. Drops the first round as a warm-up. */
export const alternate = async <T>(sides: readonly [() => Promise<T>, () => Promise<T>]): Promise<[T[], T[]]> => {
  const figures: [T[], T[]] = [[], []]
  for (let round = 0; round <= options.rounds; round++)
    for (const at of [0, 1] as const) {
      const figure = await sides[at]()
      if (round > 0) figures[at].push(figure)
    }
  return figures
}

/** Answers per second of one side, and the CPU time of its process and of the database for each answer, in milliseconds. */
interface Cost {
  readonly per_second: number
  readonly api_ms: number
  readonly database_ms: number
}

/** Compares two sides by answers per second. Reports the CPU time of both sides, which other load on the machine affects less. */
export const compare = async (world: World, ours: string, theirs: string, path: string, token: string, body?: string): Promise<Outcome> => {
  const sides = [await startSide(world, ours), await startSide(world, theirs)] as const
  const costs: [Cost[], Cost[]] = [[], []]
  const rate = (at: 0 | 1) => async () => {
    const { port, child } = sides[at]
    const used = () => [cpuOf(child.pid!), databaseCpu(world.database.name)] as const
    const before = used()
    const { per_second, answers } = await sendLoad(port, path, token, body === undefined ? {} : { body })
    const after = used()
    costs[at].push({ per_second, api_ms: (after[0] - before[0]) / answers, database_ms: (after[1] - before[1]) / answers })
    return per_second
  }
  const [first, second] = await alternate([rate(0), rate(1)]).finally(() => sides.forEach(({ child }) => child.kill()))
  const figures = ([ours, theirs] as const).flatMap((what, at) => {
    const warm = costs[at as 0 | 1].slice(1)
    return [
      { what, value: median(warm.map(({ per_second }) => per_second)), unit: '/s' },
      { what: `${what}, CPU of the API`, value: median(warm.map(({ api_ms }) => api_ms)), unit: ' ms' },
      { what: `${what}, CPU of the database`, value: median(warm.map(({ database_ms }) => database_ms)), unit: ' ms' },
    ]
  })
  return { ratio: median(first) / median(second), ratios: quotients(first, second), figures, rounds: options.rounds }
}
