import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Received {
  readonly path: string
  readonly headers: Record<string, string>
  readonly body: string
  readonly at: number
}

type Behaviour = (answer: ServerResponse, received: Received, request: IncomingMessage) => void

/** Somebody else's server: keeps its own record of what came, and answers as a test tells it to, by path. */
export const openSink = async () => {
  const received: Received[] = []
  const behaviours = new Map<string, Behaviour>()
  const waiting: (() => void)[] = []
  let look: ((one: Received) => void) | undefined
  const server = createServer((request, answer) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('error', () => {})
    request.on('end', () => {
      const one = { path: request.url!, headers: request.headers as Record<string, string>, body: Buffer.concat(chunks).toString(), at: performance.now() }
      received.push(one)
      look?.(one)
      for (const wake of waiting.splice(0)) wake()
      const behave = behaviours.get(one.path)
      if (behave) behave(answer, one, request)
      else answer.writeHead(200).end('ok')
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const of = (path: string) => received.filter((one) => one.path === path)
  return {
    port,
    url: (path: string) => `http://127.0.0.1:${port}${path}`,
    received,
    of,
    /** Each is looked at as it comes: a signature is good for minutes only. */
    each: (listener: (one: Received) => void) => void (look = listener),
    /** From now on this path answers so. */
    answer: (path: string, behaviour: Behaviour | number) =>
      void behaviours.set(path, typeof behaviour === 'number' ? (answer) => void answer.writeHead(behaviour).end() : behaviour),
    /** Waits until so many have come to a path. */
    until: async (path: string, count: number, within = 180_000): Promise<Received[]> => {
      const end = performance.now() + within
      for (;;) {
        const own = of(path)
        if (own.length >= count) return own
        const left = end - performance.now()
        if (left <= 0) throw new Error(`${path} received ${own.length} of ${count} in time`)
        await Promise.race([new Promise<void>((resolve) => waiting.push(resolve)), new Promise((resolve) => setTimeout(resolve, Math.min(left, 200)))])
      }
    },
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}
export type Sink = Awaited<ReturnType<typeof openSink>>
