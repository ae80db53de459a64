import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import {
  createWebhookEndpoint,
  getMemberMigration,
  revokeSeat,
  startMemberMigration,
  switchMemberMigration,
  undoMemberMigration,
  type MemberMigrationState,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findLivingOrganization } from '../../src/modules/organizations/index.ts'
import { noteSecrets } from '../harness/secrets.ts'
import { openTeams } from '../harness/teams.ts'
import { eventually, freePort, openWorld, type World } from '../harness/world.ts'

// Runs the guide and the example as written, against a running system.
let world: World
const children: ChildProcess[] = []
const folder = mkdtempSync(join(tmpdir(), 'guide-'))
beforeAll(async () => {
  world = await openWorld({ worker: true, settings: { BURSAR_EGRESS_LOOPBACK: 'true' } })
})
afterAll(async () => {
  for (const child of children) child.kill()
  await world.close()
  rmSync(folder, { recursive: true })
})

const root = new URL('../../../', import.meta.url).pathname
const page = readFileSync(join(root, 'docs/guides/member-migration.md'), 'utf8')
const blocks = [...page.matchAll(/^<!-- (run|file)(?: ([^\n]*?))? -->\n```\w+\n(.*?)^```$/gms)].map(([, what, how = '', text]) => ({ what, how, text: text! }))

const bash = async (script: string, env: Record<string, string>): Promise<string> => {
  const command = script
    .replaceAll('pnpm bursar', `${process.execPath} ${join(root, 'server/src/main/cli.ts')}`)
    .replaceAll('curl -sf', 'curl -s --fail-with-body')
  try {
    const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', command], { cwd: folder, env: { PATH: process.env.PATH!, ...env } })
    return stdout
  } catch (error) {
    throw new Error(`${script}\n${(error as { stdout: string }).stdout}`, { cause: error })
  }
}

test('runs every step of the guide as written [S3-01, S3-12]', async () => {
  expect(blocks.length).toBeGreaterThan(10)
  const operator = await world.person({ is_operator: true })
  const env: Record<string, string> = { BURSAR_API: `http://127.0.0.1:${world.port}`, PERSONAL_TOKEN: (await operator.token()).secret.reveal() }
  /** Waits until no work is in progress and the migration has the given state. */
  const settled = (state = '') =>
    eventually(`the migration ends in the state ${state}`, async () => {
      const answer = await bash(`curl -sf $BURSAR_API/v1/member-migration/ -H "authorization: Bearer $BURSAR_TOKEN"`, env)
      return answer.includes('"work":null') && answer.includes(`"state":"${state}`)
    })
  for (const { what, how, text } of blocks) {
    if (what === 'file') {
      writeFileSync(join(folder, how), text)
      continue
    }
    if (how === 'as a module') {
      const { personOf } = (await import(`data:text/javascript,${encodeURIComponent(text)}`)) as { personOf: (seat: unknown) => unknown }
      expect(personOf({ member: null })).toBeNull()
      expect(personOf({ customer_id: 'c', member: { id: 'm', email: 'a@b.c', external_id: null } })).toEqual({ id: 'm', email: 'a@b.c', external_id: null })
      continue
    }
    if (how === 'operator') {
      const said = await bash(text, world.environmentVariables)
      expect(said).toContain('is imported')
      const row = (await findLivingOrganization(world.api.postgres.db, { slug: 'acme-as-it-was' }))!
      env.BURSAR_TOKEN = (await (await world.adopt(row)).token()).secret.reveal()
      noteSecrets(env.BURSAR_TOKEN)
      continue
    }
    if (how === 'after switching') {
      await settled('phase1')
      await bash(`curl -sf $BURSAR_API/v1/member-migration/switch -H "authorization: Bearer $BURSAR_TOKEN" -H 'content-type: application/json' -d '{}'`, env)
      await settled('phase2')
    }
    if (how.startsWith('until ')) await eventually(`${text} prints ${how}`, async () => (await bash(text, env)).includes(how.slice('until '.length)))
    else {
      if (env.BURSAR_TOKEN) await settled()
      await bash(text, env)
    }
  }
  await settled('sealed')
  expect(readFileSync(join(folder, 'map.csv'), 'utf8')).toContain('c0000000-0000-4000-8000-000000000002')
})

test('keeps the same people through the switch in a handler that reads only members [S3-06, S9-03]', async () => {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const teams = await openTeams(world)
  const shop = await world.shop()
  await shop.phase('before')
  const { secret } = await shop.api.call(createWebhookEndpoint, {
    body: { url, format: 'raw', events: ['customer_seat.claimed', 'customer_seat.revoked', 'member.updated', 'member.deleted'] },
  })
  const child = spawn(process.execPath, ['server.ts'], {
    cwd: join(root, 'examples/member-migration'),
    env: { PATH: process.env.PATH, PORT: String(port), WEBHOOK_SECRET: secret },
  })
  children.push(child)
  const inside = async (): Promise<string[]> => {
    try {
      return (await (await fetch(url)).json()) as string[]
    } catch {
      return ['nobody answers']
    }
  }
  const are = (...people: string[]) =>
    eventually(`exactly these people have access: ${people.join(', ')}`, async () => JSON.stringify(await inside()) === JSON.stringify(people.toSorted()))
  await are()
  /** Takes a step of the migration, and waits until no work is in progress. */
  const step = async (operation: typeof startMemberMigration | typeof switchMemberMigration | typeof undoMemberMigration, wanted: MemberMigrationState) => {
    await shop.api.call(operation, { body: {} })
    await eventually(`the migration is in ${wanted}`, async () => {
      const { state, work } = await shop.api.call(getMemberMigration, { query: {} })
      return state === wanted && work === null
    })
  }

  const team = await teams.buy({ shop, own: false })
  const [ann, bob, cleo] = ['ann@handler.test', 'bob@handler.test', 'cleo@handler.test'] as const
  const first = await teams.assign(team, { email: ann, immediate_claim: true })
  await step(startMemberMigration, 'phase1')
  const second = await teams.assign(team, { email: bob, immediate_claim: true })
  for (const seat of [first, second]) expect(seat.customer_id).not.toBe(team.customer_id)
  await are(ann, bob)

  await step(switchMemberMigration, 'phase2')
  const third = await teams.assign(team, { email: cleo, immediate_claim: true })
  expect(third.customer_id).toBe(team.customer_id)
  await are(ann, bob, cleo)
  // A seat that was assigned before the switch and revoked after it belongs to the same person.
  await team.api.call(revokeSeat, { params: { seat_id: second.id } })
  await are(ann, cleo)
  await step(undoMemberMigration, 'phase1')
  await team.api.call(revokeSeat, { params: { seat_id: first.id } })
  await are(cleo)

  const forged = await fetch(url, {
    method: 'POST',
    body: '{"type":"customer_seat.revoked"}',
    headers: { 'webhook-id': 'x', 'webhook-timestamp': '1', 'webhook-signature': 'v1,AAAA' },
  })
  expect(forged.status).toBe(400)
  await are(cleo)
  await teams.close()
})
