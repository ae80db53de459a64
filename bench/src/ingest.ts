import { spawn } from 'node:child_process'
import { request } from 'node:http'
import { createMeter, ingestEvents } from '@bursar/contract'
import { newId } from '../../server/src/kernel/ids.ts'
import type { World } from '../../server/test/harness/world.ts'
import { cpuOf, databaseCpu } from './cpu.ts'
import { startApi } from './exporting.ts'
import { median, quotients } from './measuring.ts'
import { options } from './options.ts'
import type { Outcome } from './results.ts'

const perCall = 1000
const calls = 50
const customers = 50
/** A body of 30,000 events has almost 10 MiB. */
const perLargeCall = 30_000

interface Sent {
  readonly name: string
  readonly external_customer_id: string
  readonly external_id: string
  readonly timestamp: string
  readonly metadata: Record<string, string | number>
}

let made = 0
/** Makes the events of one call. No two calls have an event in common. */
const makeEvents = (count = perCall): Sent[] =>
  Array.from({ length: count }, () => {
    const at = made++
    return {
      name: `call.${at % 5}`,
      external_customer_id: `customer-${at % customers}`,
      external_id: `event-${at}-${'0'.repeat(16)}`,
      timestamp: new Date(Date.now() - (at % 86_400) * 1000).toISOString(),
      metadata: { tokens: at % 4096, model: `model-${at % 7}`, region: 'eu-central-1', request: `request-${at}`, duration_ms: at % 1000 },
    }
  })

/** The events of one round. */
export const sent = perCall * calls

/** Events per second, and the CPU time for 1,000 events in milliseconds. */
interface Rate {
  readonly per_second: number
  readonly api_ms: number
  readonly database_ms: number
}

/**
 * Compares ingest over HTTP with a COPY of the same rows into a table without an index. Both have one connection and
 * 1,000 events in each call. A second organization has two meters, which count the same kind of events. Then measures how long a large
 * body holds the event loop.
 */
export const ingest = async (world: World): Promise<Record<string, Outcome>> => {
  const plain = await world.shop()
  const metered = await world.shop()
  const filter = (name: string) => ({ conjunction: 'and' as const, clauses: [{ property: 'name', operator: 'eq' as const, value: name }] })
  await metered.api.call(createMeter, {
    body: { name: 'Tokens', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'sum', property: 'tokens' } },
  })
  await metered.api.call(createMeter, { body: { name: 'Calls', filter: filter('call.1'), aggregation: { func: 'count' } } })
  await world.database.owner((owner) =>
    owner.query(
      'create table bare_events (organization_id uuid, id uuid, timestamp timestamptz, name text, subject_id text, external_id text, source text, metadata jsonb)',
    ),
  )
  const api = await startApi(world, 'turns.ts')
  const tokenOf = async ({ organization }: typeof plain) => (await organization.token()).secret.reveal()
  const [token, meteredToken] = [await tokenOf(plain), await tokenOf(metered)]
  const rates: Record<'http' | 'metered' | 'copy', Rate[]> = { http: [], metered: [], copy: [] }
  for (let round = 0; round <= options.rounds; round++) {
    const measured = {
      http: await sendAll(world, api, token),
      metered: await sendAll(world, api, meteredToken),
      copy: await copyAll(world, plain.organization.id),
    }
    // The first round is a warm-up.
    if (round > 0) for (const side of ['http', 'metered', 'copy'] as const) rates[side].push(measured[side])
  }
  const turns = await longestTurns(api, meteredToken)
  await api.stop()
  const perSecond = (side: keyof typeof rates) => rates[side].map(({ per_second }) => per_second)
  const figures = (what: string, side: keyof typeof rates) => [
    { what, value: median(perSecond(side)), unit: ' events/s' },
    ...(side === 'copy' ? [] : [{ what: `${what}, CPU of the API for 1,000 events`, value: median(rates[side].map(({ api_ms }) => api_ms)), unit: ' ms' }]),
    { what: `${what}, CPU of the database for 1,000 events`, value: median(rates[side].map(({ database_ms }) => database_ms)), unit: ' ms' },
  ]
  const compared = (side: keyof typeof rates, other: keyof typeof rates) => ({
    ratio: median(perSecond(side)) / median(perSecond(other)),
    ratios: quotients(perSecond(side), perSecond(other)),
    rows: perCall * calls,
    rounds: options.rounds,
  })
  return {
    ingest: { ...compared('http', 'copy'), figures: [...figures('HTTP', 'http'), ...figures('COPY', 'copy')] },
    'ingest-meters': { ...compared('metered', 'http'), figures: [...figures('two meters', 'metered'), ...figures('without', 'http')] },
    'ingest-turn': {
      ratio: Math.max(...turns),
      ratios: turns,
      figures: [{ what: 'median of the rounds', value: median(turns), unit: ' ms' }],
      rows: perLargeCall,
      rounds: options.rounds,
    },
  }
}

const post = (port: number, token: string, body: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
    const outgoing = request({ host: '127.0.0.1', port, method: 'POST', path: ingestEvents.path, headers }, (incoming) => {
      let text = ''
      incoming.on('data', (chunk: Buffer) => (text += chunk.toString()))
      incoming.on('end', () => resolve(text))
    })
    outgoing.on('error', reject)
    outgoing.end(body)
  })

const send = async (port: number, token: string, body: string, count: number): Promise<void> => {
  const answer = await post(port, token, body)
  if (answer !== `{"inserted":${count},"duplicates":0}`) throw new Error(`ingest answered ${answer}`)
}

type Api = Awaited<ReturnType<typeof startApi>>

/** Sends calls of 1,000 events over HTTP, one after the other. */
export const sendAll = async (world: World, { port, pid }: Api, token: string): Promise<Rate> => {
  const bodies = Array.from({ length: calls }, () => JSON.stringify({ events: makeEvents() }))
  const used = () => ({ api: cpuOf(pid), database: databaseCpu(world.database.name) })
  const before = used()
  const began = performance.now()
  for (const body of bodies) await send(port, token, body, perCall)
  const took = performance.now() - began
  const after = used()
  return {
    per_second: (perCall * calls) / (took / 1000),
    api_ms: (after.api - before.api) / calls,
    database_ms: (after.database - before.database) / calls,
  }
}

/** Sends a large body in each round. Returns the CPU time of the longest turn of the event loop of each, in milliseconds. */
const longestTurns = async ({ port, program }: Api, token: string): Promise<number[]> => {
  const turns: number[] = []
  for (let round = 1; round <= options.rounds; round++) {
    const body = JSON.stringify({ events: makeEvents(perLargeCall) })
    if (body.length > 10 * 1024 * 1024) throw new Error(`the body has ${body.length} bytes, more than a request may have`)
    program.signal('SIGUSR2')
    await send(port, token, body, perLargeCall)
    program.signal('SIGUSR2')
    const { cpu_ms } = await program.line('longest_turn', ({ count }) => count === round)
    turns.push(cpu_ms as number)
  }
  return turns
}

const cell = (value: string): string => value.replaceAll('\\', '\\\\').replaceAll('\t', '\\t').replaceAll('\n', '\\n')

/** Runs COPY in psql, one transaction for each call. The connection itself reports its CPU time, because it ends with psql. */
const copyAll = async (world: World, organization_id: string): Promise<Rate> => {
  const line = ({ timestamp, name, external_customer_id, external_id, metadata }: Sent) =>
    [organization_id, newId(new Date()), timestamp, name, external_customer_id, external_id, 'user', JSON.stringify(metadata)].map(cell).join('\t')
  const blocks = Array.from({ length: calls }, () => `copy bare_events from stdin;\n${makeEvents().map(line).join('\n')}\n\\.\n`)
  // After the name of the program, utime and stime are the fields 12 and 13. They are hundredths of a second.
  const cpu = `select 10 * (split_part(fields, ' ', 12)::int + split_part(fields, ' ', 13)::int) from substring(pg_read_file('/proc/self/stat') from '\\) (.*)') fields;\n`
  const psql = spawn('psql', ['--no-psqlrc', '--quiet', '--tuples-only', '--no-align', '--set=ON_ERROR_STOP=1', '--file=-', world.database.owner_url], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let output = ''
  psql.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const ended = new Promise<number | null>((resolve) => void psql.on('close', resolve))
  const began = performance.now()
  psql.stdin.end(`${blocks.join('')}${cpu}`)
  if ((await ended) !== 0) throw new Error('psql failed')
  const took = performance.now() - began
  return { per_second: (perCall * calls) / (took / 1000), api_ms: 0, database_ms: Number(output.trim()) / calls }
}
