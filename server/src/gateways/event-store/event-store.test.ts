import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Secret } from '../../kernel/secrets.ts'
import { openClickHouse } from './clickhouse.ts'
import { EventStoreSilent, EventStoreTableMissing, EventStoreUnavailable, literal, type EventServer } from './event-store.ts'

/** Answers every statement with one text, as a ClickHouse server does. */
let answer: { readonly status: number; readonly text: string } | 'none'
let asked: URL
const server = createServer((request, response) => {
  asked = new URL(request.url!, 'http://store')
  request.resume()
  if (answer !== 'none') response.writeHead(answer.status).end(answer.text)
})
let store: EventServer
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  store = openClickHouse(new Secret(`http://default:@127.0.0.1:${(server.address() as AddressInfo).port}/default`))
})
afterAll(async () => {
  await store.close()
  server.closeAllConnections()
  server.close()
})
const failure = () =>
  store.ask('select 1', 2000).then(
    () => undefined,
    (error: unknown) => error,
  )

test.each([
  ['a server of 2018', `Code: 60, e.displayText() = DB::Exception: Table default.x doesn't exist., e.what() = DB::Exception\n`],
  ['a current server', 'Code: 60. DB::Exception: Table default.x does not exist. (UNKNOWN_TABLE) (version 26.7.2.1 (official build))\n'],
  ['a current server without the database', 'Code: 81. DB::Exception: Database x does not exist. (UNKNOWN_DATABASE) (version 26.7.2.1 (official build))\n'],
])('recognises a missing table of %s', async (_, text) => {
  answer = { status: 404, text }
  expect(await failure()).toBeInstanceOf(EventStoreTableMissing)
})

test('recognises no missing table in other failures', async () => {
  answer = { status: 500, text: 'Code: 159. DB::Exception: Timeout exceeded. (TIMEOUT_EXCEEDED) (version 26.7.2.1 (official build))\n' }
  expect(await failure()).toBeInstanceOf(EventStoreUnavailable)
  expect(await failure()).not.toBeInstanceOf(EventStoreTableMissing)
  // The server has answered.
  expect(await failure()).not.toBeInstanceOf(EventStoreSilent)
})

test.each([
  ['a proxy without its server', { status: 502, text: '<html>Bad Gateway</html>' }],
  ['no answer', 'none' as const],
])('calls a store silent: %s', async (_, given) => {
  answer = given
  expect(await failure()).toBeInstanceOf(EventStoreSilent)
})

test('gives up a question after its time, and tells the server to stop before', async () => {
  answer = 'none'
  expect(await failure()).toBeInstanceOf(EventStoreUnavailable)
  expect(asked.searchParams.get('max_execution_time')).toBe('1')
})

test('writes texts as literals that cannot end early', () => {
  expect(literal(String.raw`a'b\c`)).toBe(String.raw`'a\'b\\c'`)
  expect(literal('\0')).toBe(String.raw`'\0'`)
})
