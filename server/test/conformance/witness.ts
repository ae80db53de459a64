import { once } from 'node:events'
import { createServer, request as forward } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Seen {
  readonly client: string
  readonly method: string
  readonly path: string
  readonly status: number
  readonly type: string
  readonly text: string
}

/** Opens a proxy between a client and the server. The proxy forwards every request unchanged, and records it with its answer. */
export const openWitness = async (client: string, port: number, record: (seen: Seen) => void) => {
  const server = createServer((incoming, outgoing) => {
    const { host: _, ...headers } = incoming.headers
    const onward = forward({ host: '127.0.0.1', port, method: incoming.method, path: incoming.url, headers }, (answer) => {
      const chunks: Buffer[] = []
      answer.on('data', (chunk: Buffer) => chunks.push(chunk))
      answer.on('end', () => {
        const body = Buffer.concat(chunks)
        record({
          client,
          method: incoming.method!,
          path: incoming.url!.split('?')[0]!,
          status: answer.statusCode!,
          type: answer.headers['content-type'] ?? '',
          text: body.toString(),
        })
        const { connection: __, 'keep-alive': ___, ...kept } = answer.headers
        outgoing.writeHead(answer.statusCode!, kept).end(body)
      })
    })
    incoming.pipe(onward)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}
