import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { createCustomer, exportOrders, exportSubscriptions } from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { copyRow } from '../harness/copies.ts'
import { openSales } from '../harness/sales.ts'
import { fairStopwatch } from '../harness/fair.ts'
import { eventually, openWorld, type World } from '../harness/world.ts'
import { counted } from '../harness/pace.ts'

/** Number of aborted downloads. */
const aborts = counted('ABORTS', 60, 15)
const rows = 24_000

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

interface Shop {
  readonly api: Client
  readonly id: string
  readonly token: string
}

/** Opens a shop whose export is much larger than the buffers between two processes. */
const openShop = async (count = rows): Promise<Shop> => {
  const organization = await world.organization()
  const token = (await organization.token()).secret.reveal()
  const api = world.client({ token })
  const order = await openSales(world).order(await api.call(createCustomer, { body: { email: 'anna@people.test' } }))
  await world.database.owner(async (owner) => {
    await copyRow(owner, 'orders', order, `generate_series(1, ${count - 1}) n(i)`, {
      id: 'gen_random_uuid()',
      created_at: `o.created_at - n.i * interval '1 second'`,
      description: `'Line ' || n.i || repeat(' of a long description', 20)`,
    })
    await owner.query(`insert into collection_deltas values ($1, 'orders', ${count - 1})`, [organization.id])
    await owner.query('analyze orders')
  })
  return { api, id: organization.id, token }
}

/** Sends an export request on its own connection. Returns the answer before any of its body is read. */
const ask = async ({ token }: Shop, query = '', path: string = exportOrders.path): Promise<IncomingMessage> => {
  const sent = request({
    host: '127.0.0.1',
    port: world.port,
    path: `${path}${query}`,
    headers: { authorization: `Bearer ${token}` },
    agent: false,
  })
  sent.on('error', () => undefined).end()
  const [answer] = (await Promise.race([once(sent, 'response'), once(sent, 'close').then(() => Promise.reject(new Error('no answer')))])) as [IncomingMessage]
  answer.on('error', () => undefined)
  return answer
}

/** Reads the answer up to a number of bytes. `complete` is true if the whole answer has arrived. */
const drain = async (answer: IncomingMessage, most = Infinity): Promise<{ text: string; bytes: number; complete: boolean }> => {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of answer.iterator({ destroyOnReturn: false })) {
      chunks.push(chunk as Buffer)
      bytes += (chunk as Buffer).length
      if (bytes >= most) break
    }
  } catch {
    // The connection was cut.
  }
  return { text: Buffer.concat(chunks).toString(), bytes, complete: answer.complete }
}

const copying = () =>
  world.database.owner(async (owner) => {
    const { rows: found } = await owner.query<{ pid: number }>(
      `select pid from pg_stat_activity where datname = current_database() and state = 'active' and backend_type = 'client backend' and query like 'copy (select%'`,
    )
    return found.map(({ pid }) => pid)
  })

const linesOf = (text: string) => text.split('\r\n').slice(1, -1)

test(`ends the query and returns its connection within a second after a reader disconnects, at each of ${aborts} positions`, async () => {
  const shop = await openShop()
  const whole = (await drain(await ask(shop))).bytes
  expect(whole).toBeGreaterThan(9_000_000)
  const taken: number[] = []
  for (let at = 0; at < aborts; at++) {
    const answer = await ask(shop)
    await drain(answer, Math.floor((whole * ((at * 0.618_034) % 1)) / 1.05))
    const since = fairStopwatch()
    answer.destroy()
    await eventually('no export runs in the database', async () => {
      const { total, idle } = world.api.postgres.use()
      return total === idle && (await copying()).length === 0
    })
    taken.push(since())
  }
  expect(Math.max(...taken)).toBeLessThanOrEqual(1000)
  // An aborted export no longer counts against the limit of two parallel exports.
  expect((await drain(await ask(shop))).complete).toBe(true)
})

test('needs at most twice the time for an export while another client reads only a kilobyte per second', async () => {
  const shop = await openShop()
  const time = async () => {
    const since = fairStopwatch()
    expect((await drain(await ask(shop))).complete).toBe(true)
    return since()
  }
  const timeBeside = async () => {
    const slow = await ask(shop)
    const reading = setInterval(() => slow.read(1024), 1000)
    const took = await time()
    clearInterval(reading)
    expect(slow.complete).toBe(false)
    slow.destroy()
    await eventually('the database has ended the export', async () => (await copying()).length === 0)
    return took
  }
  await time()
  // Measures in turn with and without the slow client, so that other load on the machine affects both.
  const ratios: number[] = []
  for (let turn = 0; turn < 5; turn++) {
    const alone = await time()
    ratios.push((await timeBeside()) / alone)
  }
  expect(ratios.toSorted((a, b) => a - b)[2]).toBeLessThan(2)
})

test('aborts the response if the query fails midway, so that a truncated file never looks complete', async () => {
  // The export must be larger than all socket buffers. Otherwise it is complete before the query is ended.
  const shop = await openShop(rows * 3)
  const answer = await ask(shop)
  await drain(answer, 1_000_000)
  const running = await copying()
  expect(running).toHaveLength(1)
  await world.database.owner((owner) => owner.query(`select pg_terminate_backend($1)`, [running[0]]))
  const rest = await drain(answer)
  expect(rest.complete).toBe(false)
  expect(rest.bytes).toBeLessThan(27_000_000)
  expect((await drain(await ask(shop))).complete).toBe(true)
})

test('resets the connection of an HTTP/1.0 reader if the query fails, because a clean close would mean a complete file', async () => {
  // The export must be larger than all socket buffers. Otherwise it is complete before the query is ended.
  const shop = await openShop(rows * 3)
  const socket = connect(world.port, '127.0.0.1')
  socket.write(`GET ${exportOrders.path} HTTP/1.0\r\nhost: x\r\nauthorization: Bearer ${shop.token}\r\n\r\n`)
  const ended = new Promise<string>((resolve) =>
    socket.once('end', () => resolve('a clean end')).once('error', (error) => resolve((error as { code?: string }).code ?? '')),
  )
  let bytes = 0
  await new Promise<void>((resolve) => {
    socket.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > 500_000 && bytes - chunk.length <= 500_000) {
        socket.pause()
        resolve()
      }
    })
  })
  const [running] = await copying()
  expect(running).toBeDefined()
  await world.database.owner((owner) => owner.query(`select pg_terminate_backend($1)`, [running]))
  socket.resume()
  expect(await ended).toBe('ECONNRESET')
})

test('ends the export query within a second if the reader disconnects before the first line', async () => {
  const shop = await openShop(10)
  await world.database.owner(async (owner) => {
    await owner.query('begin')
    await owner.query('lock table customers in access exclusive mode')
    const waiting = async () => {
      await owner.query('select pg_stat_clear_snapshot()')
      const { rows: found } = await owner.query(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like 'copy (select%'`,
      )
      return found.length
    }
    const sent = request({ host: '127.0.0.1', port: world.port, path: exportOrders.path, headers: { authorization: `Bearer ${shop.token}` }, agent: false })
    sent.on('error', () => undefined).end()
    await eventually('the export waits for the lock', async () => (await waiting()) === 1)
    const since = fairStopwatch()
    sent.destroy()
    await eventually('the export no longer waits', async () => (await waiting()) === 0)
    expect(since()).toBeLessThanOrEqual(1000)
    await owner.query('rollback')
  })
  expect((await shop.api.send(exportOrders, {})).status).toBe(200)
})

test('answers with status 500 if the export query fails before the first line', async () => {
  const shop = await openShop(10)
  await world.database.owner((owner) => owner.query('revoke select on customers from bursar_api'))
  const { status, headers } = await shop.api.send(exportOrders, {})
  expect([status, headers.get('content-type')]).toEqual([500, 'application/json; charset=utf-8'])
  await world.database.owner((owner) => owner.query('grant select on customers to bursar_api'))
  expect((await shop.api.send(exportOrders, {})).status).toBe(200)
})

test('exports the rows of one snapshot, without writes that commit during the export', async () => {
  const shop = await openShop()
  const answer = await ask(shop, '?columns=product')
  const begun = await drain(answer, 100_000)
  await world.database.owner(async (owner) => {
    await owner.query(`set session_replication_role = replica`)
    await owner.query(`delete from orders where organization_id = $1 and description like 'Line 1%'`, [shop.id])
    await owner.query(`update orders set description = 'Other' where organization_id = $1`, [shop.id])
  })
  const rest = await drain(answer)
  const lines = linesOf(begun.text + rest.text)
  expect([rest.complete, lines.length, Number(answer.headers['x-total-count'])]).toEqual([true, rows, rows])
  expect(lines.filter((line) => line.startsWith('Other'))).toEqual([])
  expect(new Set(linesOf((await drain(await ask(shop, '?columns=product'))).text))).toEqual(new Set(['Other']))
})

test('allows an organization two exports at a time, without limiting other organizations', async () => {
  const [shop, other] = [await openShop(), await openShop(10)]
  const open = [await ask(shop), await ask(shop)]
  const refused = await shop.api.send(exportOrders, {})
  expect([refused.status, refused.headers.get('retry-after'), (refused.body as unknown as { error: string }).error]).toEqual([429, '5', 'TooManyRequests'])
  expect((await other.api.send(exportOrders, {})).status).toBe(200)
  expect((await drain(open[0]!)).complete).toBe(true)
  expect((await shop.api.send(exportOrders, {})).status).toBe(200)
  open[1]!.destroy()
})

test('shuts down without waiting for slow readers, and aborts their responses, so that a truncated file never looks complete', async () => {
  const shop = await openShop()
  const slow = await ask(shop)
  // This export has not started: it waits for a lock.
  const holder = world.database.owner(async (owner) => {
    await owner.query('begin')
    await owner.query('lock table subscriptions in access exclusive mode')
    const second = ask(shop, '', exportSubscriptions.path).catch(() => undefined)
    await new Promise((resolve) => setTimeout(resolve, 500))
    const since = fairStopwatch()
    await world.api.server.close()
    const took = since()
    await owner.query('rollback')
    await second
    return took
  })
  expect(await holder).toBeLessThan(5000)
  expect((await drain(slow)).complete).toBe(false)
})
