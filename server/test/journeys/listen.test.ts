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

test('events are forwarded to a server of one’s own, signed; a break is waited out, and every kind that exists can be made to happen', async () => {
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
  await eventually('it listens', async () => listening.output().includes('forwarding to'))
  // A customer's state is told a moment after whatever changed it: it may come anywhere.
  const types = () => received.map(({ body }) => (JSON.parse(body) as { type: string }).type).filter((type) => type !== 'customer.state_changed')

  expect((await run(['trigger', 'product.created'], token)).output).toMatch(/^product\.created [0-9a-f-]{36}$/)
  await eventually('the first comes', async () => types().length === 1)
  for (const { body, headers } of received) new Webhook(secret).verify(body, headers)
  await eventually('what came of it is shown', async () => /500 +\d+ ms {2}#1 {2}product\.created/.test(listening.output()))

  // The server goes away, things happen, it comes back: they are all there.
  first.closeAllConnections()
  first.close()
  for (const kind of ['member.deleted', 'customer.updated']) expect((await run(['trigger', kind], token)).code).toBe(0)
  await eventually('it says that it waits', async () => listening.output().includes('waiting for http'))
  const second = await serve(port)
  await eventually('all of it comes', async () => types().length === 8)
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
  await eventually('every kind came', async () => new Set(types()).size === 9)
  second.closeAllConnections()
  second.close()

  expect(await run(['trigger', 'order.paid'], token)).toMatchObject({ code: 2, output: expect.stringContaining('say what is to happen') as string })
  expect(await run(['trigger', 'product.created'], 'bursar_oat_x')).toMatchObject({ code: 2 })
  expect(await run(['listen'], token)).toMatchObject({ code: 2 })
  expect(await run(['listen', url, '--events', 'nonsense'], token)).toMatchObject({
    code: 2,
    output: expect.stringContaining('there is no kind nonsense') as string,
  })
})
