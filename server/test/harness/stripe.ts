import { createHmac } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { randomText } from '../../src/kernel/secrets.ts'
import type { Clock } from '../../src/platform/clock.ts'
import { openStripeBooks, Refused, type StripeBooks } from './stripe-books.ts'
import { newName, type Fields } from './stripe-objects.ts'

/**
 * A network or server fault. `request_lost`: the request does not arrive. `answer_lost`: the connection breaks before the
 * answer. `never_answers`: no answer arrives. `timed_out`: a gateway timeout replaces the answer. `twice`: the request
 * arrives twice. `in_use`: another request with the same key is in progress. `broken`: the server fails, and stores the
 * failure under the key.
 */
export type Fault = 'request_lost' | 'answer_lost' | 'never_answers' | 'timed_out' | 'twice' | 'in_use' | 'broken'

/** How Stripe delivers an event: number of copies, delay, and position among events that are due at the same time. */
export interface Telling {
  readonly copies: number
  readonly late_ms: number
  readonly place: number
}

export interface Asked {
  readonly method: string
  readonly path: string
  readonly key: string | null
  readonly params: Fields
}

interface Kept {
  readonly fingerprint: string
  readonly status: number
  readonly body: Fields
  readonly expires_at: number
}

interface Account extends StripeBooks {
  readonly id: string
  readonly secret_key: string
  readonly publishable_key: string
  readonly webhook_secret: string
}

const keysLast = 24 * 3_600_000

/** Opens a local stand-in for Stripe: an HTTP server with its own records, on the test's clock. It reads nothing from our database. */
export const openStripeStandIn = async (clock: Clock) => {
  const accounts = new Map<string, Account>()
  const kept = new Map<string, Kept>()
  const asked: Asked[] = []
  let misbehave: (asked: Asked) => Fault | undefined = () => undefined
  let tell: (type: string) => Telling = () => ({ copies: 1, late_ms: 0, place: 0 })
  /** Requests that were lost once. The HTTP client retries them, because to the client a lost request looks like a stale connection. */
  const lost = new Map<string, Fault>()
  const faultOf = (request: Asked): Fault | undefined => {
    const name = JSON.stringify([request.method, request.path, request.key])
    const again = lost.get(name)
    lost.delete(name)
    if (again) return again
    const fault = misbehave(request)
    if (fault === 'request_lost' || fault === 'answer_lost') lost.set(name, fault)
    return fault
  }
  const outbox: { account: Account; body: string; due_at: number; place: number; at: number }[] = []
  let count = 0

  /** Returns a new answer, or the stored answer of this idempotency key. */
  const answer = (account: Account, request: Asked): { status: number; body: Fields } => {
    const name = request.key === null ? null : `${account.id} ${request.key}`
    const now = clock.wall().getTime()
    const fingerprint = JSON.stringify([request.method, request.path, request.params])
    const before = name === null ? undefined : kept.get(name)
    if (before && before.expires_at > now) {
      if (before.fingerprint === fingerprint) return before
      return refusal(400, {
        type: 'idempotency_error',
        message: 'Keys for idempotent requests can only be used with the same parameters they were first used with.',
      })
    }
    let done: { status: number; body: Fields }
    try {
      done = { status: 200, body: account.ask(request.method, request.path, request.params) }
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      done = refusal(error.status, error.fields)
    }
    // Successes and declines are stored under the idempotency key. A retry of an invalid request is evaluated again.
    if (name !== null && (done.status === 200 || done.status === 402)) kept.set(name, { fingerprint, ...done, expires_at: now + keysLast })
    return done
  }

  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk as Buffer)
    const { pathname, search } = new URL(incoming.url!, 'http://stripe')
    const params = readForm(incoming.method === 'GET' ? search.slice(1) : Buffer.concat(chunks).toString())
    const request: Asked = { method: incoming.method!, path: pathname, key: (incoming.headers['idempotency-key'] as string | undefined) ?? null, params }
    const reply = ({ status, body }: { status: number; body: Fields }) =>
      outgoing.writeHead(status, { 'content-type': 'application/json', 'request-id': newName('req') }).end(JSON.stringify(body))
    const account = accounts.get((incoming.headers.authorization ?? '').replace(/^Bearer /, ''))
    if (!account) return reply(refusal(401, { type: 'invalid_request_error', message: 'Invalid API Key provided' }))
    asked.push(request)
    const fault = faultOf(request)
    if (fault === 'request_lost') return void incoming.socket.destroy()
    if (fault === 'in_use')
      return reply(refusal(409, { type: 'idempotency_error', code: 'idempotency_key_in_use', message: 'There is another request under this key.' }))
    if (fault === 'broken') {
      const broken = refusal(500, { type: 'api_error', message: 'Something broke.' })
      // Stripe stores a failure with status 500 under the key too. A retry with the same key gets the same error.
      const fingerprint = JSON.stringify([request.method, request.path, params])
      if (request.key !== null && !kept.has(`${account.id} ${request.key}`))
        kept.set(`${account.id} ${request.key}`, { fingerprint, ...broken, expires_at: clock.wall().getTime() + keysLast })
      return reply(broken)
    }
    const first = answer(account, request)
    if (fault === 'answer_lost') return void incoming.socket.destroy()
    if (fault === 'never_answers') return
    if (fault === 'timed_out') return void outgoing.writeHead(504, { 'content-type': 'text/html' }).end('<html>Gateway timeout</html>')
    reply(fault === 'twice' ? answer(account, request) : first)
  }

  const server = createServer((incoming, outgoing) => void serve(incoming, outgoing).catch((error: unknown) => outgoing.writeHead(599).end(String(error))))
  server.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** Every request that the stand-in has received. */
    asked,
    misbehave: (how: typeof misbehave) => void (misbehave = how),
    tell: (how: typeof tell) => void (tell = how),
    /** Creates an account, with the keys that a seller would find in its settings. */
    account: (): Account => {
      const letters = 'abcdefghijklmnopqrstuvwxyz0123456789'
      const words = randomText(24, letters)
      const note = (body: Fields & { type: string }) => {
        const { copies, late_ms, place } = tell(body.type)
        for (let copy = 0; copy < copies; copy++)
          outbox.push({ account: made, body: JSON.stringify(body), due_at: clock.wall().getTime() + late_ms, place, at: count++ })
      }
      const made: Account = {
        ...openStripeBooks(newName('acct'), clock, note),
        secret_key: `sk_test_51${words}`,
        publishable_key: `pk_test_51${words}`,
        webhook_secret: `whsec_${randomText(32, letters)}`,
      }
      accounts.set(made.secret_key, made)
      return made
    },
    /** Drops idempotency keys that are older than a day. Stripe may drop them at any time after that. */
    forgetKeys: () => {
      const now = clock.wall().getTime()
      for (const [name, { expires_at }] of kept) if (expires_at <= now) kept.delete(name)
    },
    /** Delivers due events, signed now, to the account's webhook address. */
    deliver: async (post: (account: Account, headers: Record<string, string>, body: string) => Promise<{ status: number }>): Promise<number> => {
      const now = clock.wall().getTime()
      const due = outbox.filter(({ due_at }) => due_at <= now).toSorted((a, b) => a.place - b.place || a.at - b.at)
      for (const one of due) {
        outbox.splice(outbox.indexOf(one), 1)
        await post(one.account, { 'content-type': 'application/json', ...signed(one.account.webhook_secret, one.body, clock.wall()) }, one.body)
      }
      return due.length
    },
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
export type StripeStandIn = Awaited<ReturnType<typeof openStripeStandIn>>

/** Returns the signature header that Stripe sends. */
export const signed = (secret: string, body: string, at: Date): Record<string, string> => {
  const t = Math.floor(at.getTime() / 1000)
  return { 'stripe-signature': `t=${t},v1=${createHmac('sha256', secret).update(`${t}.${body}`).digest('hex')}` }
}

const refusal = (status: number, error: Fields): { status: number; body: Fields } => ({ status, body: { error } })

/** Parses nested form fields such as `a[b][c]=1&a[d][]=2` and `a[d][0]=2`. Numbers and empty brackets make a list. */
export const readForm = (text: string): Fields => {
  const root: Fields = {}
  for (const [name, value] of new URLSearchParams(text)) {
    const path = name.replaceAll(']', '').split('[')
    let at = root
    for (const [depth, part] of path.entries()) {
      const slot = part === '' ? String(Object.keys(at).length) : part
      if (depth === path.length - 1) at[slot] = value
      else at = (at[slot] ??= {}) as Fields
    }
  }
  return root
}
