import { Agent, request } from 'node:http'

/** A request as it goes over the wire. `note` says how it differs from a valid request. */
export interface Attempt {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string | string[]>>
  readonly body: Buffer | undefined
  readonly note: string
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly bytes: number
  /** CPU time of this thread during the request, in milliseconds. The API and this client share the thread. */
  readonly cpu: number
}

/** Time after which a request without an answer counts as a hang. */
const patience = 45_000

/** Opens a client that sends one request at a time over a kept connection. */
export const openWire = (port: number) => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const once = ({ method, path, headers, body }: Attempt): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const before = process.threadCpuUsage()
      const length = body === undefined ? {} : { 'content-length': String(body.length) }
      const outgoing = request(
        { host: '127.0.0.1', port, method, path, agent, headers: { ...length, ...headers }, timeout: patience, maxHeaderSize: 65_536 },
        (incoming) => {
          const chunks: Buffer[] = []
          incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
          incoming.on('error', reject)
          incoming.on('end', () => {
            const { user, system } = process.threadCpuUsage(before)
            const whole = Buffer.concat(chunks)
            const received = new Headers()
            for (let at = 0; at < incoming.rawHeaders.length; at += 2) received.append(incoming.rawHeaders[at]!, incoming.rawHeaders[at + 1]!)
            resolve({ status: incoming.statusCode!, headers: received, text: whole.toString(), bytes: whole.length, cpu: (user + system) / 1000 })
          })
        },
      )
      outgoing.on('timeout', () => outgoing.destroy(new Error(`no answer within ${patience / 1000} s`)))
      outgoing.on('error', reject)
      outgoing.end(body)
    })
  return {
    /** Sends the request. Repeats it once if the connection breaks, because the server may close a kept connection at any time. */
    send: (attempt: Attempt): Promise<Answer> => once(attempt).catch(() => once(attempt)),
    close: () => agent.destroy(),
  }
}
