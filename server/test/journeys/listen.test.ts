import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, expect, test } from 'vitest'
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
  const program = launch(args, { BURSAR_API: `http://127.0.0.1:${world.port}`, BURSAR_TOKEN: token }, home)
  programs.push(program)
  return program
}
const run = async (args: readonly string[], token: string) => {
  const program = command(args, token)
  return { code: await program.exited, output: program.output().trim() }
}

test('forwards signed events to a local server, waits while that server is down, and triggers every kind of event', async () => {
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
  await eventually('the command forwards events', async () => listening.output().includes('forwarding to'))
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
  for (const kind of ['organization.updated', 'product.updated', 'customer.deleted', 'member.updated'])
    expect((await run(['trigger', kind], token)).code).toBe(0)
  await eventually('an event of each type has arrived', async () => new Set(types()).size === 9)
  second.closeAllConnections()
  second.close()

  expect(await run(['trigger', 'order.paid'], token)).toMatchObject({ code: 2, output: expect.stringContaining('give an event type to trigger') as string })
  expect(await run(['trigger', 'product.created'], 'bursar_oat_x')).toMatchObject({ code: 2 })
  expect(await run(['listen'], token)).toMatchObject({ code: 2 })
  expect(await run(['listen', url, '--events', 'nonsense'], token)).toMatchObject({
    code: 2,
    output: expect.stringContaining('there is no event type nonsense') as string,
  })
})
