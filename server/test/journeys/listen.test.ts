import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getOrder, webhookKinds } from '@bursar/contract'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { causeEvent } from '../../src/main/trigger.ts'
import { launch, type Program } from '../harness/process.ts'
import { eventually, openWorld, type World } from '../harness/world.ts'

let world: World
let home: string
const programs: Program[] = []
beforeAll(async () => {
  world = await openWorld({ worker: true })
  home = mkdtempSync(join(tmpdir(), 'bursar-listen-'))
})
afterAll(async () => {
  for (const program of programs) {
    program.signal('SIGKILL')
    await program.exited
  }
  await world.close()
  rmSync(home, { recursive: true })
})

const command = (args: readonly string[], token: string) => {
  const program = launch(args, { BURSAR_API: `http://127.0.0.1:${world.port}`, BURSAR_TOKEN: token, XDG_CONFIG_HOME: home }, home)
  programs.push(program)
  return program
}
const run = async (args: readonly string[], token: string) => {
  const program = command(args, token)
  return { code: await program.exited, output: program.output().trim() }
}

test('sends one request to the API, prints the answer, and fails if the API refuses it', async () => {
  const { organization } = await world.shop()
  const token = (await organization.token()).secret.reveal()
  const made = await run(['api', 'POST', '/v1/customers/', '--data', '{"email": "ada@people.test"}'], token)
  expect(made.code).toBe(0)
  const { id } = JSON.parse(made.output) as { id: string }
  expect(JSON.parse((await run(['api', 'GET', '/v1/customers/?email=ada@people.test'], token)).output)).toMatchObject({ items: [{ id }] })
  const misspelled = await run(['api', 'GET', '/v1/customers/?limitt=1'], token)
  expect(misspelled.output).toContain('The API does not know these names, and ignored them: query.limitt (limit?)')
  const refused = await run(['api', 'GET', `/v1/customers/${organization.id}`], token)
  expect([refused.code, refused.output]).toEqual([1, expect.stringContaining('the API answered 404')])
  const foreign = await run(['api', 'GET', 'https://elsewhere.test/v1/customers/'], token)
  expect([foreign.code, foreign.output]).toEqual([expect.any(Number), expect.stringContaining('the path begins with /v1/')])
  expect(foreign.code).not.toBe(0)
})

test('forwards signed events to a local server, and waits while that server is down', async () => {
  const { organization } = await world.shop()
  const token = (await organization.token()).secret.reveal()
  const received: { body: string; headers: Record<string, string> }[] = []
  const serve = async (port: number): Promise<Server> => {
    const server = createServer((request, answer) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        received.push({ body: Buffer.concat(chunks).toString(), headers: request.headers as Record<string, string> })
        answer.writeHead(received.length === 1 ? 500 : 204, { connection: 'close' }).end()
      })
    }).listen(port, '127.0.0.1')
    await once(server, 'listening')
    return server
  }
  const first = await serve(0)
  const { port } = first.address() as AddressInfo
  const url = `http://127.0.0.1:${port}/hooks`
  const { output: secret } = await run(['listen', '--print-secret'], token)
  expect((await run(['listen', '--print-secret'], token)).output).toBe(secret)
  const listening = command(['listen', url], token)
  await eventually('the command prints its secret', async () => listening.output().includes(`secret: ${secret}`))
  // The state of a customer is emitted shortly after a change, so its position is not fixed.
  const types = () => received.map(({ body }) => (JSON.parse(body) as { type: string }).type).filter((type) => type !== 'customer.state_changed')

  expect((await run(['trigger', 'product.created'], token)).output).toMatch(/^product\.created [0-9a-f-]{36}$/)
  await eventually('the first event arrives', async () => types().length === 1)
  for (const { body, headers } of received) new Webhook(secret).verify(body, headers)
  await eventually('the command prints the answer of the receiver', async () => /500 +\d+ ms {2}#1 {2}product\.created/.test(listening.output()))

  // Events that happen while the server is down arrive after it is back.
  first.closeAllConnections()
  first.close()
  for (const kind of ['member.deleted', 'customer.updated']) expect((await run(['trigger', kind], token)).code).toBe(0)
  await eventually('the command prints that it waits for the receiver', async () => listening.output().includes('waiting for http'))
  const second = await serve(port)
  await eventually('the command prints that the receiver answers again', async () => listening.output().includes('answers again'))
  await eventually('all eight events arrive', async () => types().length === 8)
  expect(types().slice(1)).toEqual([
    'customer.created',
    'member.created',
    'member.created',
    'member.deleted',
    'customer.created',
    'member.created',
    'customer.updated',
  ])
  second.closeAllConnections()
  second.close()

  expect(await run(['trigger'], token)).toMatchObject({ code: 2, output: expect.stringContaining('give an event type to trigger') as string })
  expect(await run(['trigger', 'product.created'], 'bursar_oat_x')).toMatchObject({ code: 2 })
  expect(await run(['listen', url, '--events', 'nonsense'], token)).toMatchObject({
    code: 2,
    output: expect.stringContaining('there is no event type nonsense') as string,
  })
  expect(await run(['listen', url], 'bursar_oat_x')).toMatchObject({ code: 1, output: expect.stringContaining('the API answered 401: ') as string })
})

test('triggers every kind of event by the operations that emit it, with overrides, and listen prints each', { timeout: 240_000 }, async () => {
  const { organization, api } = await world.shop()
  const token = (await organization.token()).secret.reveal()
  const listening = command(['listen', '--json', '--events', webhookKinds.join(',')], token)
  interface Printed {
    type: string
    payload: { type: string; data: unknown }
  }
  const printed = () =>
    listening
      .output()
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line) as Printed)
  // `listen` begins with the events after its start, so the first event shows that it has started.
  await eventually('the command prints an event', async () => {
    await causeEvent(api, 'organization.updated')
    return printed().length > 0
  })
  const left = webhookKinds.filter((kind) => kind !== 'refund.updated')
  const caused = new Map<string, string>()
  const work = async () => {
    for (let kind = left.shift(); kind !== undefined; kind = left.shift()) caused.set(kind, (await causeEvent(api, kind)).id)
  }
  await Promise.all([work(), work(), work()])
  // The bank of this refund answers after a minute, so the clock of the system is advanced.
  let waiting = false
  const refund = causeEvent(api, 'refund.updated', [], (text) => (waiting ||= text.includes('takes a minute')))
  await eventually('the refund waits for the bank', async () => waiting)
  world.clock.advance(61_000)
  caused.set('refund.updated', (await refund).id)

  expect([...caused.keys()].toSorted()).toEqual([...webhookKinds].toSorted())
  const missing = () =>
    [...caused].filter(([kind, id]) => !printed().some(({ type, payload }) => type === kind && JSON.stringify(payload.data).includes(id))).map(([kind]) => kind)
  await eventually('listen prints an event of each kind', async () => missing().length === 0)
  expect(missing()).toEqual([])

  // An override changes the request: a field of an object, and a field in a list.
  const overrides = ['product.name=Poster', 'product.prices.0.price_amount=4200', 'customer.metadata.plan="42"']
  const ordered = await run(['trigger', 'order.paid', '--json', ...overrides.flatMap((text) => ['--override', text])], token)
  expect(ordered.code).toBe(0)
  const { resource_id } = JSON.parse(ordered.output) as { resource_id: string }
  const order = await api.call(getOrder, { params: { id: resource_id } })
  expect(order).toMatchObject({ net_amount: 4200, product: { name: 'Poster' }, customer: { metadata: { plan: '42' } } })
})
