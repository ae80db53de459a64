import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { sameText, type Secret } from '../kernel/secrets.ts'
import { sign, signingKeys } from '../modules/webhooks/index.ts'
import { seconds, systemClock } from '../platform/clock.ts'
import { refuseHost } from '../platform/hosts.ts'

interface Received {
  readonly id: string
  readonly type: string
  /** True if the signature is valid and at most five minutes old. */
  readonly verified: boolean
  readonly received_at: string
  /** The signature headers of the event, so that other tools can verify the signature too. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
}

const host = '127.0.0.1'
const most = 500
const timeout = 60 * seconds

/**
 * A webhook receiver for development that shows which events arrive. `GET /` lists them, oldest first. `GET /order.paid`
 * returns the last event of that type, or waits for the next one.
 */
export const openReceiver = async (port: number) => {
  let secret: Secret | undefined
  let told: string | undefined
  const events: Received[] = []
  const waiting = new Set<(event: Received) => void>()

  const take = (headers: NodeJS.Dict<string | string[]>, text: string) => {
    const header = (name: string) => String(headers[name] ?? '')
    const timestamp = Number(header('webhook-timestamp'))
    const recent = Math.abs(systemClock.wall().getTime() / 1000 - timestamp) < 300
    const expected = secret ? sign(signingKeys(secret), header('webhook-id'), timestamp, text).split(' ') : []
    const given = header('webhook-signature').split(' ')
    const body = JSON.parse(text) as { type: string; timestamp: string }
    const event = {
      id: header('webhook-id'),
      type: body.type,
      verified: recent && expected.some((one) => given.some((other) => sameText(one, other))),
      received_at: systemClock.wall().toISOString(),
      headers: Object.fromEntries(['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => [name, header(name)])),
      body,
    }
    events.push(event)
    if (events.length > most) events.shift()
    for (const look of waiting) look(event)
    if (told && process.stderr.isTTY && body.timestamp >= told)
      process.stderr.write(`  ${event.received_at.slice(11, 19)}  ${event.type}  ${event.id}${event.verified ? '' : '  WRONG SIGNATURE'}\n`)
  }

  const next = (kind: string): Promise<Received | undefined> =>
    new Promise((resolve) => {
      const done = (event: Received | undefined) => {
        waiting.delete(look)
        clearTimeout(timer)
        resolve(event)
      }
      const look = (event: Received) => {
        if (event.type === kind) done(event)
      }
      const timer = setTimeout(() => done(undefined), timeout)
      waiting.add(look)
      const last = events.findLast(({ type }) => type === kind)
      if (last) done(last)
    })

  const server = createServer((request, answer) => {
    const say = (status: number, body: unknown) => answer.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`)
    const refused = refuseHost(request, [host])
    if (refused) return void say(refused.status, { error: refused.error, detail: refused.message })
    if (request.method === 'GET') {
      const kind = decodeURIComponent(request.url!.slice(1))
      if (kind === '') return void say(200, events)
      return void next(kind).then((event) => (event ? say(200, event) : say(404, { detail: `No ${kind} arrived within ${timeout / seconds} s.` })))
    }
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      try {
        take(request.headers, Buffer.concat(chunks).toString())
        answer.writeHead(204).end()
      } catch {
        say(400, { detail: 'This address accepts webhooks: JSON with a type.' })
      }
    })
  })
  await listenOn(server, port)
  const found = (server.address() as AddressInfo).port
  return {
    port: found,
    url: `http://${host}:${found}`,
    /** Sets the secret that verifies events from now on. */
    trust: (one: Secret) => void (secret = one),
    /** Prints events as they arrive from now on, if stderr is a terminal. */
    tell: () => void (told = systemClock.wall().toISOString()),
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}
export type Receiver = Awaited<ReturnType<typeof openReceiver>>

/**
 * Listens on the port of the previous start, so that the address of the receiver stays the same. Uses any free port if
 * that one is taken.
 */
const listenOn = (server: Server, port: number) =>
  new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EADDRINUSE') return reject(error)
      server.once('error', reject).listen(0, host, resolve)
    })
    server.listen(port, host, resolve)
  })
