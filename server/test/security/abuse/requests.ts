import { Agent, request as open } from 'node:http'

export interface Address {
  readonly port: number
  /** The connections of one sender. `destroy` ends them and the requests that still wait. */
  readonly agent: Agent
}

export interface Shot {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly body?: unknown
  /** Sent as a form, instead of `body`. */
  readonly form?: Readonly<Record<string, string>>
  /** Sent as they are, instead of `body`. */
  readonly bytes?: Buffer
}

export interface Reply {
  readonly status: number
  readonly headers: NodeJS.Dict<string | string[]>
  readonly text: string
}

export const openAddress = (port: number): Address => ({ port, agent: new Agent({ keepAlive: true }) })

/** Sends one request. It does as little as possible with the answer, because all senders share the processor with the server. */
export const send = ({ port, agent }: Address, { method, path, headers, body, form, bytes }: Shot): Promise<Reply> =>
  new Promise((resolve, reject) => {
    const payload = bytes ?? (form ? new URLSearchParams(form).toString() : body === undefined ? undefined : JSON.stringify(body))
    const type = bytes ? {} : { 'content-type': form ? 'application/x-www-form-urlencoded' : 'application/json' }
    const sized = payload === undefined ? {} : { ...type, 'content-length': String(Buffer.byteLength(payload)) }
    const outgoing = open({ host: '127.0.0.1', port, method, path, headers: { ...sized, ...headers }, agent }, (incoming) => {
      const chunks: Buffer[] = []
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
      incoming.on('end', () => resolve({ status: incoming.statusCode!, headers: incoming.headers, text: Buffer.concat(chunks).toString() }))
      incoming.on('error', reject)
    })
    outgoing.on('error', reject)
    outgoing.end(payload)
  })
