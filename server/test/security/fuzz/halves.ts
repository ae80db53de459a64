import { spawn } from 'node:child_process'

/** Runs the fuzzer in two processes. Each process has its own system and tests every second operation. */
const program = new URL('run.ts', import.meta.url).pathname
const given = process.argv.slice(2)
const figures =
  /^oversized refusals: (\d+) · changed rows: (\d+) · without an answer: (\d+)\nrequests: (\d+) · operations: (\d+)\/(\d+) · ≥500: (\d+) · undeclared: (\d+) · slow: (\d+)$/m

const part = (at: number, parts: number) =>
  new Promise<{ code: number | null; counts: number[] }>((resolve) => {
    const child = spawn(process.execPath, [program, `--part=${at}/${parts}`, ...given], { stdio: ['ignore', 'pipe', 'inherit'] })
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString()
      process.stdout.write(chunk)
    })
    child.once('close', (code) => resolve({ code, counts: (figures.exec(output) ?? []).slice(1).map(Number) }))
  })

// One operation, or one request, needs no second process.
const parts = given.some((word) => word.startsWith('--only') || word.startsWith('--request=') || word === '--request') ? 1 : 2
const ended = await Promise.all(Array.from({ length: parts }, (_, at) => part(at, parts)))
const [oversized, changed, silent, requests, operations, all, failed, undeclared, slow] = Array.from({ length: 9 }, (_, at) =>
  ended.reduce((sum, { counts }) => sum + (counts[at] ?? 0), 0),
)
if (parts > 1) {
  console.log(`both halves · oversized refusals: ${oversized} · changed rows: ${changed} · without an answer: ${silent}`)
  console.log(`requests: ${requests} · operations: ${operations}/${all} · ≥500: ${failed} · undeclared: ${undeclared} · slow: ${slow}`)
}
// A process that sent no requests counts as failed, because it has proved nothing.
process.exitCode = ended.every(({ code, counts }) => code === 0 && (counts[3] ?? 0) > 0) ? 0 : 1
