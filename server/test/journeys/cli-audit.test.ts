import { listAuditLog } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { launch } from '../harness/process.ts'
import { noteSecrets } from '../harness/secrets.ts'
import { openApp } from '../harness/visitor.ts'
import { eventually, openWorld, type World } from '../harness/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

const nobody = '00000000-0000-0000-0000-000000000000'

const run = async (...args: string[]): Promise<Record<string, string>> => {
  const program = launch([...args, '--json'], world.environmentVariables)
  const code = await program.exited
  noteSecrets(program.output())
  if (code !== 0) throw new Error(program.output())
  return JSON.parse(program.output()) as Record<string, string>
}

interface Entry {
  organization_id: string
  operation: string
  actor_kind: string
  actor_id: string | null
  credential_id: string | null
  changes: { changes: { table: string; action: string; fields: Record<string, { before?: unknown; after?: unknown }> }[] }
}
const entries = async (operation: string): Promise<Entry[]> => {
  const { rows } = await world.database.owner((owner) => owner.query<Entry>('select * from audit_log where operation = $1 order by position', [operation]))
  return rows
}
const only = async (operation: string): Promise<Entry> => {
  const found = await entries(operation)
  expect(found, operation).toHaveLength(1)
  expect(found[0]).toMatchObject({ actor_kind: 'cli', actor_id: null, credential_id: null })
  return found[0]!
}
const tablesOf = ({ changes }: Entry) => changes.changes.map(({ table, action }) => `${table} ${action}`).toSorted()

test('writes every command that changes data to the audit log under its own name', async () => {
  await run('operator', 'create', '--email', 'operator@people.test')
  expect(tablesOf(await only('cli operator create'))).toEqual(['personal_access_tokens created', 'users created'])

  const seeded = await run('seed')
  const [own, deployment] = (await entries('cli seed')).toSorted((a, b) => b.organization_id.localeCompare(a.organization_id))
  expect(own!.organization_id).toBe(seeded.organization_id)
  expect(tablesOf(own!)).toEqual(['organization_access_tokens created', 'organization_members created', 'organizations created'])
  expect([deployment!.organization_id, tablesOf(deployment!)]).toEqual([nobody, ['users created']])

  const made = await run('token', 'create', '--organization', 'acme', '--comment', 'ci', '--scopes', 'orders:read')
  expect(await only('cli token create')).toMatchObject({ organization_id: seeded.organization_id, resource_id: made.id })
  await run('token', 'revoke', '--organization', 'acme', '--id', made.id!)
  expect(tablesOf(await only('cli token revoke')).length).toBe(1)

  await run('operator', 'open', 'off-session', '--organization', 'acme')
  await run('operator', 'close', 'off-session', '--organization', 'acme')
  expect(tablesOf(await only('cli operator close off-session'))).toEqual(['organizations updated'])

  await run('operator', 'open', 'sign-up')
  const opened = await only('cli operator open sign-up')
  expect(opened.organization_id).toBe(nobody)
  expect(opened.changes.changes[0]).toMatchObject({ table: 'deployment', fields: { sign_up_open: { before: false, after: true } } })

  const { client_id } = await openApp(world)
  await run('client', 'verify', client_id)
  expect(tablesOf(await only('cli client verify'))).toEqual(['oauth_clients updated'])

  await run('keys', 'rotate-licences')
  expect((await only('cli keys rotate-licences')).organization_id).toBe(nobody)

  // The organization can read the entry, and the hash chain is intact.
  const api = world.client({ token: seeded.token! })
  const shown = await eventually('the audit log entries have sequence numbers', async () => {
    const { items } = await api.call(listAuditLog, { query: { operation: 'cli token create' } })
    return items.length === 1 && items[0]
  })
  expect(shown.actor).toEqual({ kind: 'cli', id: null, credential_id: null, client_id: null })
  expect((await run('audit', 'verify')).entries).toBeGreaterThan(6)
})

test('writes no audit log entry for a command that is refused', async () => {
  const refused = launch(['token', 'revoke', '--organization', 'acme', '--id', '018f0000-0000-4000-8000-000000000000'], world.environmentVariables)
  expect(await refused.exited).toBe(2)
  expect(await entries('cli token revoke')).toHaveLength(1)
})
