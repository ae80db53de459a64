import { spawn, type ChildProcess } from 'node:child_process'
import { appendFileSync } from 'node:fs'
import { logFile } from './secrets.ts'

const cli = new URL('../../src/main/cli.ts', import.meta.url).pathname

export interface Line {
  msg: string
  address?: string
  [field: string]: unknown
}

/** The program itself, as its users run it: a process with arguments, settings, output and signals. */
export const launch = (args: readonly string[], settings: Record<string, string>, cwd?: string, program = cli) => {
  const child: ChildProcess = spawn(process.execPath, [program, ...args], {
    env: { PATH: process.env.PATH, ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(cwd === undefined ? {} : { cwd }),
  })
  let output = ''
  const lines: Line[] = []
  const waiting: { wanted: (line: Line) => boolean; resolve: (line: Line) => void }[] = []
  let rest = ''
  const take = (chunk: Buffer) => {
    const text = chunk.toString()
    output += text
    // Other commands speak to the person who called them, and may show that person a secret; a server only logs.
    if (args[0] === 'serve') appendFileSync(logFile(), text)
    const parts = (rest + text).split('\n')
    rest = parts.pop()!
    for (const part of parts) {
      if (!part.startsWith('{')) continue
      const line = JSON.parse(part) as Line
      lines.push(line)
      for (const waiter of waiting.filter(({ wanted }) => wanted(line))) {
        waiting.splice(waiting.indexOf(waiter), 1)
        waiter.resolve(line)
      }
    }
  }
  child.stdout!.on('data', take)
  child.stderr!.on('data', take)
  const exited = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)))
  return {
    child,
    exited,
    output: () => output,
    /** The first log line of a kind, now or when it comes. Fails when the process ends before. */
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
