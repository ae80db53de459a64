import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { createWebhookEndpoint, updateWebhookEndpoint } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../harness/world.ts'
import { forbidden, treacherous } from './forbidden.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

test('refuses internal addresses when a webhook endpoint is created or updated', async () => {
  expect(new Set(forbidden).size).toBeGreaterThanOrEqual(155)
  expect(forbidden.length + Object.keys(treacherous).length).toBeGreaterThanOrEqual(160)
  const { api } = await world.shop()
  const body = { url: 'https://example.com/hooks', format: 'raw' as const, events: [] }
  const endpoint = await api.call(createWebhookEndpoint, { body })
  for (const url of forbidden)
    for (const answer of [
      await api.sendRaw(createWebhookEndpoint, { body: { ...body, url } }),
      await api.sendRaw(updateWebhookEndpoint, { params: { id: endpoint.id }, body: { url } }),
    ])
      expect([url, answer.status, (answer.body as { detail?: { loc: string[] }[] }).detail?.[0]?.loc[1]]).toEqual([url, 422, 'url'])
  for (const url of ['https://example.com:8443/x?y=z', 'https://93.184.216.34/', 'https://[2606:2800:220:1::1]/', 'https://münchen.example/'])
    expect([url, (await api.sendRaw(createWebhookEndpoint, { body: { ...body, url } })).status]).toEqual([url, 201])
})

test('refuses internal addresses again when a webhook is delivered, and opens no connection, by the count of the kernel', async () => {
  const inside = new URL('egress-inside.ts', import.meta.url).pathname
  const { stdout } = await promisify(execFile)('unshare', ['--map-root-user', '--net', process.execPath, inside], { timeout: 300_000 })
  const seen = JSON.parse(stdout) as {
    literal: [string, string][]
    named: [string, string][]
    turning: Record<string, { first: string; second: string; opened: number }>
    opened: number
    control: number
  }
  expect(seen.literal.filter(([, outcome]) => outcome !== 'refused')).toEqual([])
  expect(Object.fromEntries(seen.named)).toEqual(
    Object.fromEntries(seen.named.map(([name]) => [name, name === 'nothing.example.com' ? 'failed: the host name does not resolve' : 'refused'])),
  )
  expect(seen.opened).toBe(0)
  expect(seen.control).toBe(1)
  expect(seen.turning['rebinding.example.com']).toMatchObject({ second: 'refused', opened: 0 })
  expect(seen.turning['later.example.com']).toMatchObject({ first: 'failed: the host name does not resolve', second: 'refused', opened: 0 })
})
