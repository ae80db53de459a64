import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fairStopwatch } from './fair.ts'

/** A ClickHouse server, which scripts/clickhouse starts. */
const testServer = new URL(process.env.BURSAR_TEST_CLICKHOUSE_URL ?? 'http://default:@127.0.0.1:47781/default')
export const hasEventStore = process.env.BURSAR_TEST_CLICKHOUSE !== 'off'

/** The setting for a direct way to this server. */
export const directSettings = (): Record<string, string> => ({ BURSAR_CLICKHOUSE_URL: testServer.href })

/** How the network treats a statement: it is forwarded, refused, executed without an answer, or neither executed nor answered. */
export type Treatment = 'forward' | 'refuse' | 'lose_answer' | 'hold'

/** Opens a way to a ClickHouse server that can fail. */
export const openEventStore = async (server = testServer) => {
  let treat: (statement: string) => Treatment = () => 'forward'
  let statements = 0
  const held: { readonly statement: string; readonly milliseconds: number }[] = []
  const handle = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks)
    const statement = `${new URL(incoming.url!, server).searchParams.get('query') ?? ''} ${body.toString('utf8', 0, 200)}`
    statements++
    const treatment = treat(statement)
    if (treatment === 'refuse') return incoming.socket.destroy()
    if (treatment === 'hold') {
      const elapsed = fairStopwatch()
      outgoing.once('close', () => void held.push({ statement, milliseconds: elapsed() }))
      return
    }
    const forwarded = request(
      { host: server.hostname, port: server.port, method: incoming.method, path: incoming.url, headers: incoming.headers },
      (answer) => {
        if (treatment === 'lose_answer') {
          answer.resume()
          answer.on('end', () => incoming.socket.destroy())
          return
        }
        outgoing.writeHead(answer.statusCode!, answer.headers)
        answer.pipe(outgoing)
      },
    )
    forwarded.on('error', () => incoming.socket.destroy())
    forwarded.end(body)
  }
  const proxy = createServer((incoming, outgoing) => void handle(incoming, outgoing).catch(() => incoming.socket.destroy()))
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  const ask = async (statement: string): Promise<unknown[][]> => {
    const answer = await fetch(`${server.origin}/?database=${server.pathname.slice(1)}`, {
      method: 'POST',
      // A kept connection may be closed by the server at any time.
      headers: { connection: 'close', authorization: `Basic ${Buffer.from(`${server.username}:${server.password}`).toString('base64')}` },
      body: statement,
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(text)
    return text === '' ? [] : (JSON.parse(text) as { data: unknown[][] }).data
  }
  try {
    await ask('select 1 format JSONCompact')
  } catch (error) {
    throw new Error('the ClickHouse server for tests does not answer. Start it with: scripts/clickhouse', { cause: error })
  }
  return {
    settings: { BURSAR_CLICKHOUSE_URL: `http://default:@127.0.0.1:${(proxy.address() as AddressInfo).port}${server.pathname}` },
    ask: (question: string) => ask(`${question} format JSONCompact`),
    run: ask,
    /** The statements that got no answer, with the time after which their sender gave them up. */
    held: held as readonly (typeof held)[number][],
    /** The number of statements that reached this way. */
    statements: () => statements,
    misbehave: (how: typeof treat) => void (treat = how),
    behave: () => void (treat = () => 'forward'),
    /** Drops the tables of these copies. */
    drop: async (copies: readonly string[]) => {
      for (const copy of copies)
        for (const kind of ['events', 'corrected', 'chunks']) await ask(`drop table if exists bursar_${kind}_${copy.replaceAll('-', '')}`)
    },
    close: () => {
      proxy.closeAllConnections()
      return new Promise<void>((resolve) => proxy.close(() => resolve()))
    },
  }
}
export type EventStoreProxy = Awaited<ReturnType<typeof openEventStore>>
