import { connect, type Socket } from 'node:net'
import { costKinds, costsOf, defaultVersion, operations, rateLimits } from '@bursar/contract'
import { openPageBudgets } from '../../../src/http/budget-pages.ts'
import { portalCookiePrefix } from '../../../src/modules/identity/index.ts'
import { minutes } from '../../../src/platform/clock.ts'
import { createWebhookEndpoint } from '../../../src/modules/webhooks/index.ts'
import { within } from '../../../src/kernel/actors.ts'
import type { Sink } from '../../harness/sink.ts'
import type { World } from '../../harness/world.ts'
import { attackersNetwork, openAttacker, operationsOf, type Pace, type Volley } from './attacker.ts'
import { send, type Address, type Shot } from './requests.ts'

/** The answers that an attacker got. `ok` are those below 400. `refused` are other 4xx answers, for example because the resource is used up. */
export interface Tally {
  ok: number
  /** Requests without an answer at the end of the attack, such as long polls. */
  open: number
  limited: number
  refused: number
  failed: number
}

/** A prepared attack. `strike` runs it until the signal, and `stop` ends what it left open. */
export interface Attack {
  /** The organization of the attacker, if it has one. Its leftover work is deleted after the attack. */
  readonly organization_id?: string
  /** The means of the attacker, for the report. */
  readonly uses: string
  readonly strike: (signal: AbortSignal) => Promise<void>
  readonly stop: () => void
}

export interface Scene extends Pace {
  readonly world: World
  readonly sink: Sink
  /** Buyers of the attacker's product. */
  readonly buyers: number
  /** Connections that the attacker opens and keeps slow. */
  readonly sockets: number
}

/** Requests per second of an attacker that no rate limit stops. The sender must not be what slows the bystander down. */
const unlimited = 40

/** Sends the requests at their rate until the signal. After a 429 the rate is the one that the limit allows. */
const fire = async (
  api: Address,
  { per_second, burst, shots }: Volley,
  tally: Tally,
  signal: AbortSignal,
  after?: (shot: Shot, text: string) => Promise<void>,
) => {
  let rate = per_second
  for (let at = 0; !signal.aborted; at++) {
    const shot = shots[at % shots.length]!
    send(api, shot).then(
      async ({ status, headers, text }) => {
        if (status === 429) {
          tally.limited++
          const [, limit, window] = /q=(\d+);w=([\d.]+)/.exec(String(headers['ratelimit-policy'] ?? '')) ?? []
          if (limit !== undefined) rate = Math.min(rate, Math.max(Number(limit) / Number(window), 0.5))
        } else if (status < 400) {
          tally.ok++
          await after?.(shot, text).catch(() => undefined)
        } else if (status < 500) tally.refused++
        else tally.failed++
      },
      // The connections are closed at the end of the attack.
      () => void (signal.aborted ? tally.open++ : tally.failed++),
    )
    await new Promise((resolve) => setTimeout(resolve, at < burst ? 2 : 1000 / rate))
  }
}

const fireAll = (api: Address, volleys: readonly Volley[], tally: Tally, signal: AbortSignal, after?: Parameters<typeof fire>[4]) =>
  Promise.all(volleys.map((volley) => fire(api, volley, tally, signal, after))).then(() => undefined)

/** Uploads the bytes of an announced file. The answer to the announcement contains the addresses of its parts. */
const upload = (api: Address) => async (_: Shot, text: string) => {
  const { upload: begun } = (text === '' ? {} : JSON.parse(text)) as {
    upload?: { parts: { url: string; headers: Record<string, string>; chunk_start: number; chunk_end: number }[] }
  }
  for (const { url, headers, chunk_start, chunk_end } of begun?.parts ?? []) {
    const { pathname, search } = new URL(url)
    await send(api, { method: 'PUT', path: pathname + search, headers: { ...attackersNetwork, ...headers }, bytes: Buffer.alloc(chunk_end - chunk_start) })
  }
}

type Prepare = (scene: Scene, api: Address, tally: Tally) => Promise<Attack>

/** Attacks with all operations that declare a cost. */
const byCost =
  (cost: (typeof costKinds)[number]): Prepare =>
  async ({ world, buyers, ...pace }, api, tally) => {
    const attacker = await openAttacker(world, cost === 'jobs' ? buyers : 0)
    const volleys = await attacker.volleys(cost, pace)
    const after = cost === 'storage' ? upload(api) : undefined
    const declaring = operations.filter((operation) => costsOf(operation).includes(cost))
    return {
      organization_id: attacker.id,
      uses: `${operationsOf(cost).length} of ${declaring.length} operations`,
      strike: (signal) => fireAll(api, volleys, tally, signal, after),
      stop: () => api.agent.destroy(),
    }
  }

/** Has 49 webhook endpoints that never answer, and creates customers, so that each endpoint gets events. */
const slowEndpoints: Prepare = async ({ world, sink, share }, api, tally) => {
  const attacker = await openAttacker(world, 0)
  const scope = within(attacker.id, 'machine', 'phase2')
  for (let at = 0; at < 49; at++) {
    sink.answer(`/slow-${at}`, () => undefined)
    const wanted = { url: sink.url(`/slow-${at}`), format: 'raw', events: ['customer.created', 'member.created'], strict: false } as const
    await world.transact((tx) => createWebhookEndpoint(tx, scope, world.platform, { ...wanted, events: [...wanted.events] }))
  }
  let serial = 0
  const shots = Array.from({ length: 500 }, (): Shot => ({
    method: 'POST',
    path: '/v1/customers/',
    headers: attacker.headers.token,
    body: { email: `slow-${serial++}@people.test` },
  }))
  return {
    organization_id: attacker.id,
    uses: '49 endpoints',
    strike: (signal) => fireAll(api, [{ name: 'token api', per_second: (500 / 60) * share, burst: 0, shots }], tally, signal),
    stop: () => api.agent.destroy(),
  }
}

/** Sends requests that need no credential and that no operation answers. A refusal of an unknown path counts as success. */
const withoutCredential: Prepare = async ({ share }, api, tally) => {
  const get = (path: string): Shot => ({ method: 'GET', path, headers: attackersNetwork })
  const shots = [get('/v1/nothing'), get('/readyz'), get(`/${defaultVersion}/openapi.json`), get(`/v1/${'/'.repeat(8000)}x`), get('/nothing/at/all')]
  return {
    uses: `${shots.length} paths`,
    strike: async (signal) => {
      await fireAll(api, [{ name: 'anonymous', per_second: unlimited * share, burst: 0, shots }], tally, signal)
      // Unknown paths are answered with 404, which is the work that this attack asks for.
      tally.ok += tally.refused
      tally.refused = 0
    },
    stop: () => api.agent.destroy(),
  }
}

/** The page views and their calls that the limit of one address allows, in a second. */
const unitsOf = (name: 'new_page_sessions' | 'page_address'): number => rateLimits[name].production[0]!.limit / rateLimits[name].production[0]!.seconds

/**
 * Loads pages as one address may: as browsers that drop their cookie, and in page sessions that were collected before.
 * The pages are those with the most calls of the API.
 */
const pages: Prepare = async ({ world, share, everyLimit }, api, tally) => {
  const attacker = await openAttacker(world, 0)
  const token = attacker.headers.portal.authorization!.replace('Bearer ', '')
  const portal = `${portalCookiePrefix(world.config)}${attacker.id}=${token}`
  // A page session that began two minutes ago no longer counts as new.
  const earlier = { wall: () => new Date(world.clock.wall().getTime() - 2 * minutes), business: () => world.clock.business() }
  const { budgetOf } = openPageBudgets({ ...world.platform, clock: earlier }, undefined as never)
  const collected = () => budgetOf({ raw: { headers: {} }, ip: '198.51.100.66' } as never).cookie!.split(';')[0]!
  const get = (path: string, cookie?: string): Shot => ({
    method: 'GET',
    path: `/${attacker.slug}/portal${path}`,
    headers: { ...attackersNetwork, accept: 'text/html', ...(cookie === undefined ? {} : { cookie }) },
  })
  const old = Array.from({ length: 40 }, (_, at) => get(at % 2 === 0 ? '/team' : '/subscriptions', `${collected()}; ${portal}`))
  const fresh = [get('/sign-in'), get('/team', portal)]
  // A page counts at least five units. Requests above the limit get 429.
  const rate = (name: Parameters<typeof unitsOf>[0]) => ((unitsOf(name) / 5) * share) / (everyLimit ? 1 : 2)
  const volleys: Volley[] = [
    { name: 'new sessions', per_second: rate('new_page_sessions'), burst: 0, shots: fresh },
    { name: 'older sessions', per_second: rate('page_address'), burst: 0, shots: old },
  ]
  return {
    organization_id: attacker.id,
    uses: `${old.length} sessions and those without a cookie`,
    strike: (signal) => fireAll(api, volleys, tally, signal),
    stop: () => api.agent.destroy(),
  }
}

/** Keeps many connections open: half send their headers slowly, half their bodies. The server closes them in time. */
const slowConnections: Prepare = async ({ sockets }, { port, agent }, tally) => {
  const open = new Set<Socket>()
  return {
    uses: `${sockets} connections`,
    strike: async (signal) => {
      const start = (at: number) => {
        const socket = connect(port, '127.0.0.1')
        open.add(socket)
        socket.on('error', () => undefined)
        socket.on('close', () => void open.delete(socket))
        socket.on('connect', () => {
          tally.ok++
          const head = `POST /v1/auth/email-otp HTTP/1.1\r\nhost: bursar.test\r\nx-forwarded-for: 198.51.100.66\r\n`
          socket.write(at % 2 === 0 ? head : `${head}content-type: application/json\r\ncontent-length: 1000\r\n\r\n{`)
        })
      }
      for (let at = 0; at < sockets; at++) start(at)
      while (!signal.aborted) {
        await new Promise((resolve) => setTimeout(resolve, 1000))
        for (const socket of open) if (socket.writable) socket.write('x')
        // Replaces the connections that the server has closed.
        for (let at = open.size; at < sockets && !signal.aborted; at++) start(at)
      }
    },
    stop: () => {
      agent.destroy()
      for (const socket of open) socket.destroy()
    },
  }
}

/** The classes of abuse: one for each declared cost, and those that no operation declares. */
export const attacks: Readonly<Record<string, Prepare>> = {
  ...Object.fromEntries(costKinds.map((cost) => [cost, byCost(cost)])),
  webhooks: slowEndpoints,
  anonymous: withoutCredential,
  connections: slowConnections,
  pages,
}
