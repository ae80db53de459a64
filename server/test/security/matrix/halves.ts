import { spawn } from 'node:child_process'

/** Runs the whole matrix in two processes. Each process has its own system and tests every second operation. */
const program = new URL('run.ts', import.meta.url).pathname
const half = (at: number) =>
  new Promise<{ code: number | null; cells: number; leaks: number }>((resolve) => {
    const child = spawn(process.execPath, [program, `--part=${at}/2`, ...process.argv.slice(2)], { stdio: ['ignore', 'pipe', 'inherit'] })
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString()
      process.stdout.write(chunk)
    })
    child.once('close', (code) => {
      const [, cells = '0', leaks = '0'] = /^cells: (\d+) · leaks: (\d+)$/m.exec(output) ?? []
      resolve({ code, cells: Number(cells), leaks: Number(leaks) })
    })
  })

const halves = await Promise.all([half(0), half(1)])
const sum = (what: 'cells' | 'leaks') => halves.reduce((total, one) => total + one[what], 0)
console.log(`both halves · cells: ${sum('cells')} · leaks: ${sum('leaks')}`)
// A process that tested no cells counts as failed, because it has proved nothing.
process.exitCode = halves.every(({ code, cells }) => code === 0 && cells > 0) ? 0 : 1
