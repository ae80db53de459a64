import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { longestWait } from './pace.ts'

export interface Received {
  readonly path: string
  readonly headers: Record<string, string>
  readonly body: string
  readonly at: number
}

type Behaviour = (answer: ServerResponse, received: Received, request: IncomingMessage) => void

/** Opens a third-party server. It records the requests it receives, and answers each path as a test configures. */
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
    /**
     * Calls the listener for each request as soon as it arrives. Tests verify signatures in it, because a signature
     * expires after minutes.
     */
    each: (listener: (one: Received) => void) => void (look = listener),
    /** Sets how the server answers requests to this path from now on. */
    answer: (path: string, behaviour: Behaviour | number) =>
      void behaviours.set(path, typeof behaviour === 'number' ? (answer) => void answer.writeHead(behaviour).end() : behaviour),
    /** Waits until a path has received this many requests. */
    until: async (path: string, count: number, within = longestWait): Promise<Received[]> => {
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
