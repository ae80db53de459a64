import { inWallTime } from '../../server/src/platform/clocks.sql.ts'
import { spawn } from 'node:child_process'
import { createWebhookEndpoint, organizationUpdated } from '@bursar/contract'
import { newId } from '../../server/src/kernel/ids.ts'
import { presentOrganization } from '../../server/src/modules/organizations/index.ts'
import { emit } from '../../server/src/platform/outbox/outbox.sql.ts'
import { launch } from '../../server/test/harness/process.ts'
import { openSink, type Sink } from '../../server/test/harness/sink.ts'
import { eventually, type World } from '../../server/test/harness/world.ts'
import { median, quotients } from './measuring.ts'
import { options } from './options.ts'
import type { Outcome } from './results.ts'

const endpoints = 4
const perEndpoint = 16

/** Starts a separate worker process, as in production. */
const startWorker = async (world: World) => {
  const program = launch(['serve', '--roles', 'worker'], { ...world.environmentVariables, BURSAR_LOG_LEVEL: 'info' })
  await program.line('worker_started')
  return async () => {
    program.signal('SIGTERM')
    await program.exited
  }
}

const hook = async (world: World, sink: Sink, count: number) => {
  const { api, organization } = await world.shop()
  for (let at = 0; at < count; at++)
    await api.call(createWebhookEndpoint, { body: { url: sink.url(`/${organization.id}/${at}`), format: 'raw', events: ['organization.updated'] } })
  const write = (name: string) =>
    world.transact((tx) =>
      emit(
        inWallTime(tx),
        organizationUpdated,
        { organization_id: organization.id, resource_id: newId(new Date()) },
        { ...presentOrganization(organization), name },
      ),
    )
  return { organization, write }
}

/** Measures deliveries per second from event to answer. Compares with a loop that only signs and posts the same bodies. */
export const throughput = async (world: World): Promise<Record<string, Outcome>> => {
  const figures = { ours: [] as number[], theirs: [] as number[] }
  for (let round = 0; round <= options.rounds; round++) {
    const sink = await openSink()
    const { write, organization } = await hook(world, sink, endpoints)
    const events = 1500
    for (let at = 0; at < events; at += 50) await Promise.all(Array.from({ length: 50 }, (_, one) => write(`n-${at + one}`)))
    const stop = await startWorker(world)
    const all = () => sink.received.length >= events * endpoints
    await eventually('everything has arrived', async () => all(), 120_000)
    await stop()
    const times = sink.received.map(({ at }) => at)
    const ours = (events * endpoints) / ((times.at(-1)! - times[0]!) / 1000)
    const body = sink.received[0]!.body
    const theirs = await bare(sink.url(`/${organization.id}/bare`), events * endpoints, endpoints * perEndpoint, body)
    sink.close()
    if (round === 0) continue
    figures.ours.push(ours)
    figures.theirs.push(theirs)
  }
  return {
    webhooks: {
      ratio: median(figures.ours) / median(figures.theirs),
      ratios: quotients(figures.ours, figures.theirs),
      figures: [
        { what: 'deliveries', value: median(figures.ours), unit: '/s' },
        { what: 'plain loop', value: median(figures.theirs), unit: '/s' },
      ],
      rounds: options.rounds,
    },
  }
}

const bare = (url: string, count: number, concurrency: number, body: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [new URL('post.ts', import.meta.url).pathname, url, String(count), String(concurrency)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    let text = ''
    child.stdout.on('data', (chunk: Buffer) => void (text += chunk.toString()))
    child.once('exit', () =>
      text === '' ? reject(new Error('the bare loop ended without a figure')) : resolve((JSON.parse(text) as { per_second: number }).per_second),
    )
    child.stdin.end(body)
  })

/** Measures the delay from commit to the receiver's socket at 200 events a second, in milliseconds. */
export const latency = async (world: World): Promise<Record<string, Outcome>> => {
  const sink = await openSink()
  const { write } = await hook(world, sink, 1)
  const stop = await startWorker(world)
  const committed = new Map<string, number>()
  const total = 200 * (options.seconds + 2)
  const begun = performance.now()
  const writing: Promise<void>[] = []
  for (let at = 0; at < total; at++) {
    const wait = begun + at * 5 - performance.now()
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait))
    writing.push(write(`n-${at}`).then(() => void committed.set(`n-${at}`, performance.now())))
  }
  await Promise.all(writing)
  await eventually('everything has arrived', async () => sink.received.length >= total, 60_000)
  await stop()
  // Excludes the first second as a warm-up.
  const delays = sink.received
    .map(({ body, at }) => ({ at, name: (JSON.parse(body) as { data: { name: string } }).data.name }))
    .filter(({ name }) => Number(name.slice(2)) >= 200)
    .map(({ at, name }) => at - committed.get(name)!)
    .toSorted((a, b) => a - b)
  sink.close()
  const [p50, p99] = [delays[Math.floor(delays.length * 0.5)]!, delays[Math.floor(delays.length * 0.99)]!]
  return { webhook_p50: { ratio: p50, figures: [], rounds: 1 }, webhook_p99: { ratio: p99, figures: [], rounds: 1 } }
}
