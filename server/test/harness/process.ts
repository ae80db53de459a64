import { spawn, type ChildProcess } from 'node:child_process'
import { appendFileSync } from 'node:fs'
import { logFile } from './secrets.ts'

const cli = new URL('../../src/main/cli.ts', import.meta.url).pathname

/** Longest wait for the rest of the output of a process that has ended, in milliseconds. */
const outputTimeout = 2_000

export interface Line {
  msg: string
  address?: string
  [field: string]: unknown
}

/** Runs the program as its users do: a process with arguments, settings, output and signals. */
export const launch = (args: readonly string[], settings: Record<string, string>, cwd?: string, program = cli, typed = false) => {
  const child: ChildProcess = spawn(process.execPath, [program, ...args], {
    // With the cache of compiled code, a process starts with half the CPU time.
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, ...settings },
    stdio: [typed ? 'pipe' : 'ignore', 'pipe', 'pipe'],
    ...(cwd === undefined ? {} : { cwd }),
  })
  let output = ''
  const lines: Line[] = []
  const waiting: { wanted: (line: Line) => boolean; resolve: (line: Line) => void }[] = []
  /** Reads one stream of the process. Each stream has its own incomplete last line. */
  const reader = () => {
    let rest = ''
    return (chunk: Buffer) => {
      const text = chunk.toString()
      output += text
      // Adds only the server's output to the log that is searched for secrets. Other commands may show a secret to their caller.
      if (args[0] === 'serve') appendFileSync(logFile(), text)
      const parts = (rest + text).split('\n')
      rest = parts.pop()!
      for (const part of parts) {
        if (!part.startsWith('{"')) continue
        const line = JSON.parse(part) as Line
        lines.push(line)
        for (const waiter of waiting.filter(({ wanted }) => wanted(line))) {
          waiting.splice(waiting.indexOf(waiter), 1)
          waiter.resolve(line)
        }
      }
    }
  }
  child.stdout!.on('data', reader())
  child.stderr!.on('data', reader())
  // The output may arrive after the exit. A child of the process that has ended can keep the output open for longer.
  const exited = new Promise<number | null>((resolve) => {
    child.once('exit', (code) => {
      child.once('close', () => resolve(code))
      setTimeout(() => resolve(code), outputTimeout).unref()
    })
  })
  return {
    child,
    exited,
    output: () => output,
    /** Resolves with the first log line of a kind, past or future. Rejects if the process ends without such a line. */
    line: (msg: string, wanted: (line: Line) => boolean = () => true): Promise<Line> => {
      const found = lines.find((line) => line.msg === msg && wanted(line))
      if (found) return Promise.resolve(found)
      return Promise.race([
        new Promise<Line>((resolve) => waiting.push({ wanted: (line) => line.msg === msg && wanted(line), resolve })),
        exited.then((code) => {
          throw new Error(`the process ended with ${code} before it said ${msg}:\n${output}`)
        }),
      ])
    },
    signal: (name: NodeJS.Signals) => void child.kill(name),
  }
}
export type Program = ReturnType<typeof launch>

export const portOf = (line: Line): number => Number(line.address!.split(':').at(-1))
