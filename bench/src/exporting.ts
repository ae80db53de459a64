import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { exportOrders } from '@bursar/contract'
import { within } from '../../server/src/kernel/actors.ts'
import { ordersExport } from '../../server/src/modules/billing/orders/exporting.sql.ts'
import { exportSettings } from '../../server/src/platform/postgres/exporting.ts'
import { launch, portOf } from '../../server/test/harness/process.ts'
import type { World } from '../../server/test/harness/world.ts'
import { alternate, imageOptions, median, quotients } from './measuring.ts'
import { options } from './options.ts'
import { makeOrders } from './orders.ts'
import type { Outcome } from './results.ts'

/**
 * Exports all orders over HTTP, compared with psql that runs the same COPY with the same settings in the same database.
 * Then measures the memory of the export.
 */
export const exporting = async (world: World): Promise<Record<string, Outcome>> => {
  const organization = await world.organization()
  const token = (await organization.token()).secret.reveal()
  await makeOrders(world, organization.id, 0, options.rows)
  const { port, stop } = await startApi(world)
  await compareBytes(world, organization.id, port, token)
  const [http, psql] = await alternate([() => seconds(curl(port, token)), () => seconds(copy(world, organization.id))])
  await stop()
  const rate = (times: readonly number[]) => times.map((time) => options.rows / time)
  if (options.memoryRows > options.rows) await makeOrders(world, organization.id, options.rows, options.memoryRows)
  const { idle, highest, orders } = await watchMemory(world, token)
  return {
    export: {
      ratio: median(rate(http)) / median(rate(psql)),
      ratios: quotients(rate(http), rate(psql)),
      figures: [
        { what: 'HTTP', value: median(rate(http)), unit: ' orders/s' },
        { what: 'psql', value: median(rate(psql)), unit: ' orders/s' },
      ],
      rows: options.rows,
      rounds: options.rounds,
    },
    'export-memory': {
      ratio: highest - idle,
      figures: [
        { what: 'idle', value: idle, unit: ' MiB' },
        { what: 'peak', value: highest, unit: ' MiB' },
      ],
      rows: orders,
      rounds: 1,
    },
  }
}

/** Starts a process with only the API role and the options of the image, as in production. A file of this folder can be preloaded. */
export const startApi = async (world: World, preloaded?: string) => {
  const { NODE_OPTIONS } = imageOptions()
  const options = preloaded === undefined ? NODE_OPTIONS : `${NODE_OPTIONS} --import=${new URL(preloaded, import.meta.url).href}`
  const program = launch(['serve', '--roles', 'api'], { ...world.environmentVariables, NODE_OPTIONS: options, BURSAR_LOG_LEVEL: 'info' })
  const port = portOf(await program.line('listening'))
  const stop = async () => {
    program.signal('SIGTERM')
    await program.exited
  }
  return { port, pid: program.child.pid!, stop, program }
}

/** A process that runs one export. Its output is discarded unless a sink reads it. */
interface Command {
  readonly file: string
  readonly args: readonly string[]
  readonly input?: string
  readonly env?: Record<string, string>
}

const curl = (port: number, token: string): Command => ({
  file: 'curl',
  args: ['--silent', '--fail', '--show-error', '--header', `authorization: Bearer ${token}`, `http://127.0.0.1:${port}${exportOrders.path}`],
})

const copy = (world: World, organization_id: string): Command => {
  const query = { organization_id: [], product_id: [], status: [], columns: [], timezone: 'UTC', created_after: undefined, created_before: undefined }
  const { copy: statement, asked, timezone } = ordersExport(within(organization_id, 'machine', 'before'), query)
  const literal = (text: string) => `'${text.replaceAll("'", "''")}'`
  return {
    file: 'psql',
    args: ['--no-psqlrc', '--quiet', '--set=ON_ERROR_STOP=1', '--file=-', world.config.database_url.reveal()],
    // The same settings as the server's export connections.
    env: {
      PGOPTIONS: Object.entries({ role: 'bursar_api', ...exportSettings })
        .map(([name, value]) => `-c ${name}=${value}`)
        .join(' '),
    },
    input: `begin isolation level repeatable read read only;
      select set_config('bursar.export', ${literal(JSON.stringify(asked))}, true), set_config('timezone', ${literal(timezone)}, true) \\g /dev/null
      ${statement};
      commit;`,
  }
}

/** Runs a command in a shell that pipes its output to a sink. Returns the output of the sink. */
const drain = (command: Command, sink: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const { file, args, input = '', env = {} } = command
    const child = spawn('bash', ['--norc', '-o', 'pipefail', '-c', `"$@" ${sink}`, 'bash', file, ...args], {
      env: { PATH: process.env.PATH, ...env },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    let text = ''
    child.stdout.on('data', (chunk: Buffer) => void (text += chunk.toString()))
    child.once('exit', (code) => (code === 0 ? resolve(text) : reject(new Error(`${file} ended with ${code}`))))
    child.stdin.end(input)
  })

const seconds = async (command: Command): Promise<number> => {
  const began = performance.now()
  await drain(command, '> /dev/null')
  return (performance.now() - began) / 1000
}

/** Throws unless both exports have the same lines. Line endings differ, because the product uses CRLF. */
const compareBytes = async (world: World, organization_id: string, port: number, token: string) => {
  const [ours, theirs] = [await drain(curl(port, token), `| tr -d '\\r' | sha256sum`), await drain(copy(world, organization_id), '| sha256sum')]
  if (ours !== theirs) throw new Error('HTTP and psql export different lines')
}

/** Measures the size and duration of an export, and the serving process's idle and peak memory in MiB. */
export const watchMemory = async (world: World, token: string) => {
  const { port, pid, stop } = await startApi(world)
  const resident = () => Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024
  // Idle memory is measured after one answered request.
  const first = await fetch(`http://127.0.0.1:${port}/v1/orders/?limit=1`, { headers: { authorization: `Bearer ${token}` } })
  const { pagination } = (await first.json()) as { pagination: { total_count: number } }
  await new Promise((resolve) => setTimeout(resolve, 2000))
  const idle = resident()
  let highest = idle
  const sampling = setInterval(() => void (highest = Math.max(highest, resident())), 100)
  const began = performance.now()
  const bytes = Number(await drain(curl(port, token), '| wc -c'))
  const took = (performance.now() - began) / 1000
  clearInterval(sampling)
  await stop()
  return { idle, highest, orders: pagination.total_count, took, mib: bytes / 2 ** 20 }
}
