import { inWallTime } from '../../../src/platform/clocks.sql.ts'
import {
  createWebhookEndpoint,
  getWebhookReplay,
  replayWebhookEndpoint,
  customerUpdated,
  listCustomerMembers,
  memberUpdated,
  webhookKinds,
  createCustomer,
} from '@bursar/contract'
import { Webhook } from 'standardwebhooks'
import { afterEach, expect, test } from 'vitest'
import { emit } from '../../../src/platform/outbox/outbox.sql.ts'
import { launch, type Program } from '../../harness/process.ts'
import { openSink, type Received, type Sink } from '../../harness/sink.ts'
import { eventually, openWorld, type World } from '../../harness/world.ts'
import { counted } from '../../harness/pace.ts'

/** Number of events. Each goes to twenty endpoints. `BURSAR_TEST_EVENTS=10000` for the long run. */
const events = counted('EVENTS', 600, 200)
const lanes = 50

let world: World
let sink: Sink
const programs: Program[] = []
let analyzing: ReturnType<typeof setInterval>
let analysis: Promise<void> | undefined
afterEach(async () => {
  clearInterval(analyzing)
  await analysis
  for (const program of programs.splice(0)) {
    program.signal('SIGKILL')
    await program.exited
  }
  await world.close()
  sink.close()
})

const startWorker = async () => {
  const program = launch(['serve', '--roles', 'worker'], world.environmentVariables)
  programs.push(program)
  await program.line('worker_started')
  return program
}

/** Returns a predicate over requests. For one in `every` events it is true at the first delivery attempt, and false at retries. */
const firstOf = (every: number) => {
  const seen = new Set<string>()
  return ({ headers }: Received): boolean => {
    const id = headers['webhook-id']!
    if (Number(headers['bursar-sequence']) % every !== 0 || seen.has(id)) return false
    seen.add(id)
    return true
  }
}

/** Ten kinds of misbehaving endpoints. If `arrives` is true, retries deliver every event. Otherwise every delivery is parked. */
const misbehaving: Record<string, { arrives: boolean; behave: () => Parameters<Sink['answer']>[1] }> = {
  slow: { arrives: true, behave: () => (answer) => void setTimeout(() => answer.writeHead(200).end(), 60) },
  late: {
    arrives: true,
    behave: () => {
      const late = firstOf(40)
      return (answer, received) => void (late(received) || answer.writeHead(200).end())
    },
  },
  reset: {
    arrives: true,
    behave: () => {
      const cut = firstOf(3)
      return (answer, received, request) => void (cut(received) ? request.socket.destroy() : answer.writeHead(200).end())
    },
  },
  redirect: { arrives: false, behave: () => (answer) => void answer.writeHead(307, { location: sink.url('/healthy-0') }).end() },
  gone: { arrives: false, behave: () => 410 },
  'come-back': {
    arrives: true,
    behave: () => {
      let count = 0
      return (answer) => void (count++ < 20 ? answer.writeHead(429, { 'retry-after': '1' }).end() : answer.writeHead(204).end())
    },
  },
  broken: { arrives: false, behave: () => 500 },
  endless: {
    arrives: true,
    // An endless body, slow enough not to overload the receiver. The healthy endpoints run in the same process.
    behave: () => (answer) => {
      answer.writeHead(200)
      const pouring = setInterval(() => void answer.write('x'.repeat(32_768)), 5)
      answer.on('close', () => clearInterval(pouring))
    },
  },
  moody: {
    arrives: true,
    behave: () => {
      const refused = firstOf(2)
      return (answer, received) => void answer.writeHead(refused(received) ? 503 : 200).end()
    },
  },
  dead: { arrives: false, behave: () => 500 },
}

const prepare = async (faulty: boolean) => {
  const { api, organization } = await world.shop()
  const customer = await api.call(createCustomer, { body: { email: 'storm@people.test' } })
  const [member] = (await api.call(listCustomerMembers, { params: { id: customer.id } })).items
  const endpoints: { id: string; path: string; secret: string; arrives: boolean }[] = []
  const add = async (name: string, url: string, arrives: boolean) => {
    const made = await api.call(createWebhookEndpoint, { body: { url, format: 'raw', events: [...webhookKinds] } })
    endpoints.push({ id: made.id, path: `/${name}`, secret: made.secret, arrives })
  }
  for (let at = 0; at < 10; at++) await add(`healthy-${at}`, sink.url(`/healthy-${at}`), true)
  for (const [name, { arrives, behave }] of Object.entries(misbehaving)) {
    sink.answer(`/${name}`, faulty ? behave() : 200)
    // No server listens on this port.
    await add(name, faulty && name === 'dead' ? 'http://127.0.0.1:9/dead' : sink.url(`/${name}`), !faulty || arrives)
  }
  // Cancels the pending state event of the customer, because it is not part of the load.
  await world.database.owner((owner) => owner.query('update customer_states set due_at = null where organization_id = $1', [organization.id]))
  const { rows } = await world.database.owner((owner) =>
    owner.query('select coalesce(max(position), 0) as position from events where organization_id = $1', [organization.id]),
  )
  const since = rows[0] as { position: string }
  const resources = Array.from({ length: lanes }, (_, at) => `00000000-0000-4000-8000-${String(at).padStart(12, '0')}`)
  /** Emits the events for fifty customers, one transaction after the other, as fast as possible. */
  const pour = async () => {
    for (let at = 0; at < events; at++) {
      const subject = { organization_id: organization.id, resource_id: resources[at % lanes]!, customer_id: resources[at % lanes]! }
      await world.transact((tx) =>
        at % 2 === 0
          ? emit(inWallTime(tx), customerUpdated, subject, {
              ...customer,
              created_at: new Date(),
              modified_at: null,
              deleted_at: null,
              first_user_event_at: null,
            })
          : emit(inWallTime(tx), memberUpdated, subject, { ...member!, created_at: new Date(), modified_at: null }),
      )
    }
  }
  const settled = async () => {
    const { rows: left } = await world.database.owner((owner) =>
      owner.query<{ waiting: string; made: string }>(
        `select count(*) filter (where status = 'waiting') as waiting, count(*) as made from webhook_deliveries d
         where organization_id = $1 and event_id in (select id from events where organization_id = $1 and position > $2)`,
        [organization.id, since.position],
      ),
    )
    return Number(left[0]!.made) === events * 20 && Number(left[0]!.waiting) === 0
  }
  /** Returns the 99th percentile of the delay until an event first reached a healthy endpoint, in milliseconds. */
  const p99 = async () => {
    const { rows: all } = await world.database.owner((owner) =>
      owner.query<{ id: string; wall_at: Date }>('select id, wall_at from events where organization_id = $1', [organization.id]),
    )
    const committed = new Map(all.map(({ id, wall_at }) => [id, wall_at.getTime() - performance.timeOrigin]))
    const delays: number[] = []
    for (const { path } of endpoints.slice(0, 10)) {
      const first = new Map<string, number>()
      for (const { headers, at } of sink.of(path)) if (!first.has(headers['webhook-id']!)) first.set(headers['webhook-id']!, at)
      for (const [id, at] of first) delays.push(at - committed.get(id)!)
    }
    return delays.toSorted((a, b) => a - b)[Math.floor(delays.length * 0.99)]!
  }
  const parkedAt = async (some: readonly { id: string }[]) => {
    const { rows: count } = await world.database.owner((owner) =>
      owner.query<{ count: string }>(`select count(*) from webhook_deliveries where endpoint_id = any($1) and status = 'parked'`, [some.map(({ id }) => id)]),
    )
    return Number(count[0]!.count)
  }
  /** Returns the number of failed attempts to deliver this event that had ended at this time. */
  const failedBefore = async (endpoint_id: string, event_id: string, at: Date) => {
    const { rows: count } = await world.database.owner((owner) =>
      owner.query<{ count: string }>(
        `select count(*) from webhook_attempts
         where organization_id = $1 and endpoint_id = $2 and event_id = $3 and not succeeded and created_at + duration_ms * interval '1 ms' <= $4`,
        [organization.id, endpoint_id, event_id, at],
      ),
    )
    return Number(count[0]!.count)
  }
  const replay = (id: string) => api.call(replayWebhookEndpoint, { params: { id }, body: { from_sequence: 1 } })
  const replayed = (id: string, replay_id: string) => api.call(getWebhookReplay, { params: { id, replay_id } })
  return { organization, endpoints, pour, settled, p99, since, parkedAt, failedBefore, replay, replayed }
}

const open = async () => {
  sink = await openSink()
  world = await openWorld({
    settings: {
      BURSAR_EGRESS_LOOPBACK: 'true',
      // Three workers and the receiver share the cores. A shorter timeout would make the healthy endpoints fail too.
      BURSAR_WEBHOOK_TIMEOUT_MS: '2000',
      BURSAR_WEBHOOK_CONCURRENCY: '96',
      BURSAR_WEBHOOK_SCHEDULE: '0.1,0.1,0.2,0.2,1,2',
      BURSAR_LOG_LEVEL: 'info',
    },
  })
  analyzing = setInterval(() => {
    analysis = world.database.analyzeGrown()
  }, 2000)
}

let calm = 0

test(`delivers ${events * 20} times to healthy endpoints, as the baseline for the delay`, async () => {
  await open()
  const { pour, settled, p99 } = await prepare(false)
  await Promise.all([startWorker(), startWorker(), startWorker()])
  const started = performance.now()
  await pour()
  await eventually('every event is delivered', settled, 1_200_000)
  calm = await p99()
  console.log(`without faults: ${events * 20} deliveries in ${((performance.now() - started) / 1000).toFixed(1)} s, p99 delay ${Math.round(calm)} ms`)
}, 1_800_000)

test.each([
  ['delivers every event in order beside ten endpoints that misbehave', 0],
  ['delivers every event in order beside ten endpoints that misbehave, while workers are killed ten times', 10],
])(
  '%s',
  async (_, kills) => {
    await open()
    const { organization, endpoints, pour, settled, p99, since, parkedAt, failedBefore, replay, replayed } = await prepare(true)
    const verifiers = new Map(endpoints.map(({ path, secret }) => [path, new Webhook(secret)]))
    const forged: unknown[] = []
    sink.each(({ path, body, headers }) => {
      try {
        verifiers.get(path)!.verify(body, headers)
      } catch (error) {
        forged.push(error)
      }
    })
    const alive = await Promise.all([startWorker(), startWorker(), startWorker()])
    const started = performance.now()
    const killing = (async () => {
      for (let kill = 0; kill < kills; kill++) {
        await new Promise((resolve) => setTimeout(resolve, 300 + ((kill * 7919) % 900)))
        const victim = alive.shift()!
        victim.signal('SIGKILL')
        await victim.exited
        alive.push(await startWorker())
      }
    })()
    await pour()
    await killing
    await eventually('every event is delivered or parked', settled, 1_200_000)
    const seconds = (performance.now() - started) / 1000
    const delay = await p99()
    // A delivery is parked after seven failed attempts, which happens if the receiver is overloaded. A replay must deliver it.
    const starved = await parkedAt(endpoints.filter(({ arrives }) => arrives))
    await eventually(
      'the parked events were delivered by a replay',
      async () => {
        if (!(await settled())) return false
        if ((await parkedAt(endpoints.filter(({ arrives }) => arrives))) === 0) return true
        for (const endpoint of endpoints.filter(({ arrives }) => arrives)) {
          const { id: replay_id } = await replay(endpoint.id)
          await eventually('the replay is done', async () => (await replayed(endpoint.id, replay_id!)).status === 'done', 1_200_000)
        }
        return false
      },
      1_200_000,
    )

    const { rows: deliveries } = await world.database.owner((owner) =>
      owner.query<{ endpoint_id: string; event_id: string; status: string; sequence: number; lane: string; attempts: number }>(
        `select d.endpoint_id, d.event_id, d.status, d.sequence::int, d.lane, d.attempts from webhook_deliveries d join events e on e.organization_id = d.organization_id and e.id = d.event_id
       where d.organization_id = $1 and e.position > $2`,
        [organization.id, since.position],
      ),
    )
    expect(deliveries).toHaveLength(events * 20)
    expect(forged).toEqual([])
    let [received, repeated, parked, overtaken] = [0, 0, 0, 0]
    for (const endpoint of endpoints) {
      const own = deliveries.filter(({ endpoint_id }) => endpoint_id === endpoint.id)
      const came = sink.of(endpoint.path)
      received += came.length
      const ids = new Set(came.map(({ headers }) => headers['webhook-id']!))
      if (endpoint.arrives) {
        expect([endpoint.path, own.filter(({ status }) => status !== 'delivered')]).toEqual([endpoint.path, []])
        // The receiver has recorded every event, so a delivery that is marked as delivered really arrived.
        expect([endpoint.path, own.filter(({ event_id }) => !ids.has(event_id))]).toEqual([endpoint.path, []])
      } else {
        expect([endpoint.path, own.filter(({ status }) => status !== 'parked')]).toEqual([endpoint.path, []])
        parked += own.length
      }
      repeated += came.length - ids.size
      // In each lane, events arrive for the first time in the order of their sequence numbers. A later event may arrive
      // first only after five failed attempts of the earlier one, which happens if the receiver is overloaded.
      const places = new Map(own.map((delivery) => [delivery.event_id, delivery]))
      const last = new Map<string, { sequence: number; at: number }>()
      const seen = new Set<string>()
      for (const { headers, at } of came) {
        const id = headers['webhook-id']!
        const place = places.get(id)
        if (!place || seen.has(id)) continue
        seen.add(id)
        const before = last.get(place.lane)
        if (!before || place.sequence > before.sequence) {
          last.set(place.lane, { sequence: place.sequence, at })
          continue
        }
        overtaken++
        const failed = await failedBefore(endpoint.id, id, new Date(performance.timeOrigin + before.at))
        expect(failed, `event ${place.sequence} arrived at ${endpoint.path} after event ${before.sequence} of its lane`).toBeGreaterThanOrEqual(5)
      }
    }
    console.log(
      `with faults and ${kills} kills: ${deliveries.length} deliveries in ${seconds.toFixed(1)} s, ${received} requests received, ${repeated} of them repeated, ${parked} parked, ${starved} brought by replay, ${overtaken} overtaken after five failed attempts, p99 delay of the healthy ${Math.round(delay)} ms (${(delay / calm).toFixed(2)} of the calm run)`,
    )
    // The delay depends on other load on the machine. It is always printed, but checked only if BURSAR_TEST_STRICT is set.
    if (process.env.BURSAR_TEST_STRICT) expect(delay).toBeLessThanOrEqual(calm * 2)
  },
  1_800_000,
)
