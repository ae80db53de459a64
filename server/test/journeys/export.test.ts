import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createCustomer } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { launch } from '../harness/process.ts'
import { openSales } from '../harness/sales.ts'
import { openWorld, type World } from '../harness/world.ts'

let world: World
let home: string
beforeAll(async () => {
  world = await openWorld()
  home = mkdtempSync(join(tmpdir(), 'bursar-export-'))
})
afterAll(async () => {
  await world.close()
  rmSync(home, { recursive: true })
})

const run = async (args: readonly string[], token: string, port = world.port) => {
  const program = launch(args, { BURSAR_API: `http://127.0.0.1:${port}`, BURSAR_TOKEN: token }, home)
  return { code: await program.exited, output: program.output() }
}

test('writes all orders to a file with one command, and prints their number', async () => {
  const { api, organization } = await world.shop()
  const token = (await organization.token()).secret.reveal()
  const anna = await api.call(createCustomer, { body: { email: 'anna@people.test' } })
  const sales = openSales(world)
  for (const net_amount of [100, 200, 300])
    await sales.order(anna, { net_amount, description: 'Two\nlines', created_at: new Date(Date.UTC(2026, 0, net_amount / 100)) })
  const given = ['--columns', 'net_amount,product', '--after', '2026-01-01T00:00:00Z', '--timezone', 'Europe/Vienna', '--status', 'paid,refunded']
  const done = await run(['orders', 'export', ...given, '--out', join(home, 'orders.csv')], token)
  expect([done.code, done.output]).toEqual([0, expect.stringMatching(/^2 orders, 0\.0 MB in \d+\.\d s\n$/)])
  expect(readFileSync(join(home, 'orders.csv'), 'utf8')).toBe('Net Amount,Product\r\n3.00,"Two\nlines"\r\n2.00,"Two\nlines"\r\n')
  const again = await run(['orders', 'export', '--json', '--out', join(home, 'orders.csv')], token)
  expect(JSON.parse(again.output)).toMatchObject({ count: 3, file: join(home, 'orders.csv') })
  const printed = await run(['customers', 'export'], token)
  expect(printed.output).toContain('anna@people.test')
  expect(printed.output).toContain('1 customers, 0.0 MB')
})

test('prints why an export is refused, and reports a truncated file as an error', async () => {
  const { organization } = await world.shop()
  const token = (await organization.token()).secret.reveal()
  expect(await run(['orders', 'export', '--columns', 'email,secrets'], token)).toEqual({
    code: 1,
    output: expect.stringMatching(/answered 422: columns\.1: /),
  })
  expect(await run(['orders'], token)).toMatchObject({ code: 2, output: expect.stringContaining('bursar orders export > orders.csv') })
  expect(await run(['customers', 'export', '--status', 'paid'], token)).toMatchObject({ code: 2, output: expect.stringContaining('has no flag --status') })
  expect(await run(['orders', 'export'], token, 1)).toMatchObject({
    code: 1,
    output: expect.stringContaining('there is no answer from http://127.0.0.1:1 (ECONNREFUSED).'),
  })
  expect(await run(['orders', 'export'], '')).toMatchObject({ code: 2, output: expect.stringContaining('BURSAR_TOKEN') })
  const broken = createServer((_, answer) => {
    answer.writeHead(200, { 'content-type': 'text/csv', 'x-total-count': '5', 'x-request-id': 'broken' })
    answer.write('Email\r\na@people.test\r\n', () => setTimeout(() => answer.destroy(), 100))
  }).listen(0, '127.0.0.1')
  await once(broken, 'listening')
  const cut = await run(['orders', 'export'], token, (broken.address() as AddressInfo).port)
  broken.close()
  expect(cut).toMatchObject({ code: 1, output: expect.stringContaining('the file is incomplete: 1 of 5 orders') })
})
