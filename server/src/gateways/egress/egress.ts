import { Resolver } from 'node:dns/promises'
import { Agent as HttpAgent, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import { seconds, type Clock } from '../../platform/clock.ts'
import type { Config } from '../../platform/config.ts'
import { isPublic, readTarget, TargetRefused, type Target } from './targets.ts'
import { trimEndOf } from '../../kernel/texts.ts'

export interface Outgoing {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly timeout_ms: number
  /** Maximum size of the response. If the response is larger, only its first part is read. */
  readonly answer_bytes?: number
}

export interface Incoming {
  readonly status: number
  readonly retry_after: string | undefined
  /** The first part of the response body, with control characters removed. */
  readonly excerpt: string
}

/**
 * The only way to send requests to URLs that users provide. Throws `TargetRefused` before opening a socket if the URL
 * is not allowed. Otherwise throws network errors.
 */
export interface Egress {
  post(target: string, outgoing: Outgoing): Promise<Incoming>
  /** Fetches a file. If it is larger than `answer_bytes`, the result is its beginning. Redirects are not followed. */
  get(target: string, fetching: { readonly timeout_ms: number; readonly answer_bytes: number }): Promise<{ readonly status: number; readonly bytes: Buffer }>
  close(): void
}

/** A request with its method, and what was received of the answer. */
interface Request {
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** Bytes of the answer that are kept, and bytes after which the connection is closed. */
  readonly keep: number
  readonly most: number
}
interface Received {
  readonly status: number
  readonly retry_after: string | undefined
  readonly bytes: Buffer
}

export const outOfTime = 'the server did not answer in time'
const answerLimit = 64 * 1024
const excerptLimit = 2048
const cacheFor = 10 * seconds
/** Settings of the connection pool. They limit idle sockets; the caller limits concurrent requests. */
const kept = { keepAlive: true, maxFreeSockets: 16, maxTotalSockets: 2048, timeout: 60 * seconds }

/**
 * Opens the egress client: HTTPS to public addresses only. All addresses of a host name must be public. The connection
 * uses the address that was checked. Redirects are not followed, and only the first part of the response is read.
 */
export const openEgress = (config: Config['egress'], clock: Clock): Egress => {
  const resolver = new Resolver({ timeout: 3 * seconds, tries: 2 })
  if (config.dns_servers) resolver.setServers([...config.dns_servers])
  const agents = {
    'http:': new HttpAgent(kept),
    'https:': new HttpsAgent(kept),
  }
  const known = new Map<string, { address: string; until: number }>()
  let own: { addresses: Set<string>; until: number } | undefined

  /** Returns the IP addresses of this machine and of our own public host name. Requests to these addresses are refused. */
  const ownAddresses = async (): Promise<Set<string>> => {
    const now = clock.wall().getTime()
    if (own && own.until > now) return own.addresses
    const named = isIP(config.own_host) === 0 ? await lookUp(config.own_host) : [config.own_host]
    const here = Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ address }) => address))
    own = { addresses: new Set([...named, ...here]), until: now + 60 * seconds }
    return own.addresses
  }
  const refuseOwn = async (addresses: readonly string[]): Promise<string> => {
    const ours = await ownAddresses()
    if (addresses.some((address) => ours.has(address))) throw new TargetRefused('The address belongs to this deployment. Give another one.')
    return addresses[0]!
  }
  const lookUp = async (host: string): Promise<string[]> => {
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
    return answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
  }

  /** Returns the address to connect to. Refuses the host if any of its addresses is private. */
  const resolve = async ({ host }: Target): Promise<string> => {
    if (isIP(host) !== 0) return refuseOwn([host])
    const now = clock.wall().getTime()
    const cached = known.get(host)
    if (cached && cached.until > now) return cached.address
    const addresses = await lookUp(host)
    const [address] = addresses
    if (address === undefined) throw new Error('the host name does not resolve')
    if (!addresses.every(isPublic)) throw new TargetRefused('The host name resolves to an address that is not public.')
    await refuseOwn(addresses)
    if (known.size > 10_000) known.clear()
    known.set(host, { address, until: now + cacheFor })
    return address
  }

  const targets = new Map<string, Target>()
  /** Parses a URL with a cache, because parsing is slow and the same few URLs recur. */
  const targetOf = (text: string): Target => {
    const found = targets.get(text)
    if (found) return found
    const target = readTarget(text, config)
    if (targets.size >= 10_000) targets.clear()
    targets.set(text, target)
    return target
  }

  const send = (target: Target, address: string, outgoing: Request, deadline: number, fresh: boolean): Promise<Received> =>
    new Promise((resolve, reject) => {
      const { url } = target
      const secure = url.protocol === 'https:'
      const options = {
        host: address,
        port: url.port === '' ? (secure ? 443 : 80) : Number(url.port),
        path: url.pathname + url.search,
        method: outgoing.method,
        headers: { ...outgoing.headers, host: url.host, ...(outgoing.method === 'GET' ? {} : { 'content-length': String(Buffer.byteLength(outgoing.body)) }) },
        setDefaultHeaders: false,
      }
      const request = secure
        ? httpsRequest({ ...options, agent: fresh ? false : agents['https:'], ...(isIP(target.host) === 0 ? { servername: target.host } : {}) })
        : httpRequest({ ...options, agent: fresh ? false : agents['http:'] })
      const timer = setTimeout(() => fail(new Error(outOfTime)), Math.max(1, deadline - performance.now()))
      const settle = (finish: () => void) => {
        clearTimeout(timer)
        finish()
      }
      const fail = (error: NodeJS.ErrnoException) => {
        const stale = request.reusedSocket && ['ECONNRESET', 'EPIPE'].includes(error.code ?? '') && !fresh
        settle(() => reject(stale ? new StaleConnection() : error))
        request.destroy()
      }
      request.on('error', fail)
      // A response that switches to another protocol is treated as a failure.
      request.on('upgrade', (_, socket) => {
        socket.destroy()
        fail(new Error('the server requested another protocol'))
      })
      request.on('response', (answer) => {
        const chunks: Buffer[] = []
        let size = 0
        const done = () => settle(() => resolve({ status: answer.statusCode!, retry_after: answer.headers['retry-after'], bytes: Buffer.concat(chunks) }))
        answer.on('data', (chunk: Buffer) => {
          if (size < outgoing.keep) chunks.push(chunk.subarray(0, outgoing.keep - size))
          size += chunk.length
          if (size <= outgoing.most) return
          // The size limit is reached, so the connection is closed. The received status is the result.
          done()
          request.destroy()
        })
        answer.on('end', () => (answer.complete ? done() : fail(new Error('the answer ended early'))))
        // A 2xx response that was cut off is ambiguous, so it is treated as a failure.
        answer.on('error', (error) => (answer.statusCode! >= 200 && answer.statusCode! <= 299 ? fail(error) : done()))
        answer.on('aborted', () => fail(new Error('the answer ended early')))
      })
      request.end(outgoing.method === 'GET' ? undefined : outgoing.body)
    })

  /** Checks the target, connects to the checked address, and sends the request. */
  const reach = async (text: string, outgoing: Request, timeout_ms: number): Promise<Received> => {
    const target = targetOf(text)
    const deadline = performance.now() + timeout_ms
    const address = target.loopback ? target.host : await inTime(resolve(target), timeout_ms)
    try {
      return await send(target, address, outgoing, deadline, false)
    } catch (error) {
      if (error instanceof StaleConnection) return send(target, address, outgoing, deadline, true)
      throw error
    }
  }

  return {
    post: async (text, { headers, body, timeout_ms, answer_bytes }) => {
      const [most, keep] = answer_bytes === undefined ? [answerLimit, excerptLimit] : [answer_bytes, answer_bytes]
      const { bytes, ...rest } = await reach(text, { method: 'POST', headers, body, keep, most }, timeout_ms)
      return { ...rest, excerpt: sanitise(bytes.toString('utf8')) }
    },
    get: async (text, { timeout_ms, answer_bytes }) => {
      const headers = { 'user-agent': 'Bursar', accept: 'image/*' }
      const { status, bytes } = await reach(text, { method: 'GET', headers, body: '', keep: answer_bytes, most: answer_bytes }, timeout_ms)
      return { status, bytes }
    },
    close: () => {
      agents['http:'].destroy()
      agents['https:'].destroy()
    },
  }
}

/**
 * The server closed a kept-alive connection at the moment of the request. That is not a failure of the server, so the
 * request is retried once.
 */
class StaleConnection extends Error {}

const inTime = async <T>(work: Promise<T>, milliseconds: number): Promise<T> => {
  let timer: NodeJS.Timeout | undefined
  const expiry = new Promise<never>((_, reject) => (timer = setTimeout(() => reject(new Error(outOfTime)), milliseconds)))
  try {
    return await Promise.race([work, expiry])
  } finally {
    clearTimeout(timer)
  }
}

/** Removes control characters, so that the text can be stored and shown. */
// oxlint-disable-next-line no-control-regex -- these are what is taken out
const sanitise = (text: string): string => trimEndOf(text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029]/g, ''), '\ufffd')
