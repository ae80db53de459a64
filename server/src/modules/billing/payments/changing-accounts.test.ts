import { connectPaymentAccount, getPaymentAccount, listOrganizations } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { launch } from '../../../../test/harness/process.ts'
import { openStripeTill } from '../../../../test/harness/processors.ts'
import { codeIn } from '../../../../test/harness/mail.ts'
import { noteSecrets } from '../../../../test/harness/secrets.ts'
import { openGrant } from '../../../../test/harness/visitor.ts'
import { eventually, openClock, openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
let till: Awaited<ReturnType<typeof openStripeTill>>
beforeAll(async () => {
  const clock = openClock()
  till = await openStripeTill(clock)
  world = await openWorld({ worker: true, clock, settings: till.settings })
})
afterAll(async () => {
  await world.close()
  await till.close()
})

const errorOf = (answer: { status: number; body: unknown }) => `${answer.status} ${(answer.body as { error: string }).error}`

const open = async () => {
  const owner = await world.person()
  const shop = await world.shop(await world.organization({ owner: owner.id }))
  const { secret_key, publishable_key } = till.standIn.account()
  return { ...shop, owner, params: { id: shop.organization.id }, body: { secret_key, publishable_key } }
}

test('rejects every token for connecting a payment account: organization, personal and app tokens', async () => {
  const { api, owner, organization, params, body } = await open()
  const personal = world.client({ token: (await owner.token()).secret })
  const grant = await openGrant(world, owner.id, null)
  const app = world.client({ token: await grant(['organizations:read', 'organizations:write']) })
  for (const [name, client] of Object.entries({ api, personal, app })) {
    expect(errorOf(await client.send(connectPaymentAccount, { params, body })), name).toBe('403 NotPermitted')
    expect((await client.send(getPaymentAccount, { params })).status, name).toBe(404)
  }
  const dashboard = world.client({ cookie: await owner.cookie() })
  expect((await dashboard.send(connectPaymentAccount, { params, body })).status).toBe(200)
  // Tokens may still read the account.
  for (const client of [api, personal, app]) expect((await client.call(getPaymentAccount, { params })).organization_id).toBe(organization.id)
})

test('rejects a session older than an hour for connecting a payment account', async () => {
  const { owner, params, body } = await open()
  const dashboard = world.client({ cookie: await owner.cookie() })
  world.clock.advance(61 * 60_000)
  expect(errorOf(await dashboard.send(connectPaymentAccount, { params, body }))).toBe('403 SessionNotFreshError')
  expect((await dashboard.send(listOrganizations, {})).status).toBe(200)
})

test('emails only the owner when an admin changes the payment account', async () => {
  const { owner, organization, params, body } = await open()
  const admin = await world.person()
  await world.join(organization.id, admin.id, 'admin')
  const dashboard = world.client({ cookie: await admin.cookie() })
  const connected = await dashboard.call(connectPaymentAccount, { params, body })
  const letter = await world.mail.next(owner.email)
  expect(letter.subject).toBe(`The payment account of ${organization.name} was changed`)
  expect(letter.text).toContain(connected.processor_account_id!)
  expect(letter.text).not.toContain(body.secret_key)
  await eventually(
    'every job has run',
    async () => (await world.database.owner((client) => client.query('select 1 from graphile_worker._private_jobs'))).rows.length === 0,
  )
  expect(world.mail.letters.filter(({ to }) => to === admin.email)).toEqual([])
})

test('connects an account by the CLI command with the code from the email', async () => {
  const { owner, organization, params, body } = await open()
  const settings = {
    BURSAR_API: `http://127.0.0.1:${world.port}`,
    STRIPE_SECRET_KEY: body.secret_key,
    STRIPE_PUBLISHABLE_KEY: body.publishable_key,
  }
  const program = launch(['payments', 'connect', '--email', owner.email, '--json'], settings, undefined, undefined, true)
  const code = codeIn((await world.mail.next(owner.email)).text)
  program.child.stdin!.end(`${code}\n`)
  expect(await program.exited, program.output()).toBe(0)
  expect(program.output()).toContain(organization.id)
  const token = await organization.token(['organizations:read'])
  noteSecrets(token.secret.reveal())
  expect((await world.client({ token: token.secret }).call(getPaymentAccount, { params })).publishable_key).toBe(body.publishable_key)
  const status = launch(['payments', 'status', '--json'], { ...settings, BURSAR_TOKEN: token.secret.reveal() })
  expect(await status.exited, status.output()).toBe(0)
  expect(status.output()).toContain(body.publishable_key)
  // The session that the command opened has ended.
  const { rows } = await world.database.owner((client) => client.query('select 1 from user_sessions where user_id = $1', [owner.id]))
  expect(rows).toEqual([])
})
