import { Resolver } from 'node:dns/promises'
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import { seconds, type Clock } from '../../platform/clock.ts'
import type { Config } from '../../platform/config.ts'
import { isPublic, readTarget, TargetRefused, type Target } from './targets.ts'

export interface Outgoing {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly timeout_ms: number
}

export interface Incoming {
  readonly status: number
  readonly retry_after: string | undefined
  /** The beginning of the answer, made harmless to show. */
  readonly excerpt: string
}

/** The one way out to addresses that other people give us. Throws `TargetRefused` before any socket is opened, or whatever went wrong on the way. */
export interface Egress {
  post(target: string, outgoing: Outgoing): Promise<Incoming>
  close(): void
}

export const outOfTime = 'no answer in time'
const answerLimit = 64 * 1024
const excerptLimit = 2048
const cacheFor = 10 * seconds
/** How many are under way is decided by whoever calls; here only what lies idle is limited. */
const kept = { keepAlive: true, maxFreeSockets: 16, maxTotalSockets: 2048, timeout: 60 * seconds }

/**
 * Opens the way out: https to public addresses only. All addresses that a name resolves to must be public, the
 * connection goes to the very address that was looked at, redirects are not followed, and of the answer only the
 * beginning is read.
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

  /** This machine, and where our own public name leads. */
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
    if (addresses.some((address) => ours.has(address))) throw new TargetRefused('The address is our own.')
    return addresses[0]!
  }
  const lookUp = async (host: string): Promise<string[]> => {
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
    return answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
  }

  /** The address to connect to. One private address among the answers spoils them all. */
  const resolve = async ({ host, loopback }: Target): Promise<string> => {
    if (loopback) return host
    if (isIP(host) !== 0) return refuseOwn([host])
    const now = clock.wall().getTime()
    const cached = known.get(host)
    if (cached && cached.until > now) return cached.address
    const addresses = await lookUp(host)
    const [address] = addresses
    if (address === undefined) throw new Error('the name does not resolve')
    if (!addresses.every(isPublic)) throw new TargetRefused('The name resolves to an address that is not a public one.')
    await refuseOwn(addresses)
    if (known.size > 10_000) known.clear()
    known.set(host, { address, until: now + cacheFor })
    return address
  }

  return {
    post: async (text, { headers, body, timeout_ms }) => {
      const target = readTarget(text, config)
      const signal = AbortSignal.timeout(timeout_ms)
      const address = await Promise.race([resolve(target), expiry(signal)])
      const { url } = target
      const secure = url.protocol === 'https:'
      const options = {
        host: address,
        port: url.port === '' ? (secure ? 443 : 80) : Number(url.port),
        path: url.pathname + url.search,
        method: 'POST',
        headers: { ...headers, host: url.host, 'content-length': String(Buffer.byteLength(body)) },
        signal,
        setDefaultHeaders: false,
      }
      const send = (fresh: boolean) =>
        new Promise<IncomingMessage>((answered, failed) => {
          const outgoing = secure
            ? httpsRequest({ ...options, agent: fresh ? false : agents['https:'], ...(isIP(target.host) === 0 ? { servername: target.host } : {}) })
            : httpRequest({ ...options, agent: fresh ? false : agents['http:'] })
          outgoing.on('response', answered)
          // Whoever wants to talk another protocol has not accepted anything.
          outgoing.on('upgrade', (_, socket) => {
            socket.destroy()
            failed(new Error('the server asked for another protocol'))
          })
          outgoing.on('error', (error: NodeJS.ErrnoException) => {
            const stale = outgoing.reusedSocket && !signal.aborted && ['ECONNRESET', 'EPIPE'].includes(error.code ?? '')
            failed(stale ? new StaleConnection() : error)
          })
          outgoing.end(body)
        })
      const attempt = async () => {
        try {
          return await send(false)
        } catch (error) {
          if (error instanceof StaleConnection) return send(true)
          throw error
        }
      }
      const answer = await Promise.race([attempt(), expiry(signal)])
      return { status: answer.statusCode!, retry_after: answer.headers['retry-after'], excerpt: await Promise.race([readExcerpt(answer), expiry(signal)]) }
    },
    close: () => {
      agents['http:'].destroy()
      agents['https:'].destroy()
    },
  }
}

/** A connection that was kept had been closed by the other side at this very moment: no failure of theirs, and worth one more go. */
class StaleConnection extends Error {}

const expiry = (signal: AbortSignal) => new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(new Error(outOfTime)), { once: true }))

/** Reads at most so much, and lets go of a server that sends more. A status that came counts, whatever becomes of the rest. */
const readExcerpt = async (answer: IncomingMessage): Promise<string> => {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      if (size < excerptLimit) chunks.push(chunk.subarray(0, excerptLimit - size))
      size += chunk.length
      if (size > answerLimit) break
    }
  } catch (error) {
    if (answer.statusCode! < 200 || answer.statusCode! > 299) return (error as Error).message
    // Cut off in the middle of a good answer: whether it was meant is not known, so it does not count.
    throw error
  }
  return sanitise(Buffer.concat(chunks).toString('utf8'))
}

/** Text that can be stored and shown anywhere. */
// oxlint-disable-next-line no-control-regex -- these are what is taken out
const sanitise = (text: string): string => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029]/g, '').replace(/\ufffd+$/, '')
