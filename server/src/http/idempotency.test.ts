import { createOrganization, createOrganizationToken, createProduct, getOrganization, requestSignInCode, updateOrganization } from '@bursar/contract'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { launch, portOf } from '../../test/harness/process.ts'
import { eventually, exchange, openWorld, type World } from '../../test/harness/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const headers = (key: string) => ({ 'idempotency-key': key })
const events = async (organization_id: string) =>
  (await world.database.owner((owner) => owner.query('select 1 from events where organization_id = $1', [organization_id]))).rows.length

test('fifty requests with one key at once: one effect, and every answer is that one', async () => {
  const operator = await world.person({ is_operator: true })
  const api = world.client({ token: (await operator.token()).secret })
  const body = { name: 'Once', slug: 'only-once' }
  const first = await Promise.all(Array.from({ length: 50 }, () => api.send(createOrganization, { body, headers: headers('k-1') })))
  expect(new Set(first.map(({ status }) => status))).toEqual(new Set(first.some(({ status }) => status === 409) ? [201, 409] : [201]))
  for (const busy of first.filter(({ status }) => status === 409))
    expect([busy.headers.get('retry-after'), (busy.body as { error?: string }).error]).toEqual(['1', 'RequestInFlight'])
  const again = await api.send(createOrganization, { body, headers: headers('k-1') })
  expect(again.headers.get('idempotent-replayed')).toBe('true')
  for (const done of first.filter(({ status }) => status === 201)) expect(done.body).toEqual(again.body)
  expect(first.filter((one) => one.status === 201 && one.headers.get('idempotent-replayed') === null)).toHaveLength(1)
  const { rows } = await world.database.owner((owner) => owner.query(`select 1 from organizations where slug = 'only-once'`))
  expect(rows).toHaveLength(1)
})

test('the key belongs to the organization, so that a rotated token does not repeat an effect; nobody else shares it', async () => {
  const [organization, other] = [await world.organization(), await world.organization()]
  const change = async (token: { secret: { reveal(): string } }, id: string) =>
    world.client({ token: token.secret.reveal() }).send(updateOrganization, { params: { id }, body: { name: 'Renamed' }, headers: headers('shared-key') })
  const first = await change(await organization.token(), organization.id)
  const rotated = await change(await organization.token(), organization.id)
  expect([rotated.headers.get('idempotent-replayed'), rotated.body]).toEqual(['true', first.body])
  expect(await events(organization.id)).toBe(1)
  const stranger = await change(await other.token(), other.id)
  expect([stranger.status, stranger.headers.get('idempotent-replayed')]).toEqual([200, null])
})

test('another request under the same key is refused at the header; a refused request leaves the key free', async () => {
  const organization = await world.organization()
  const api = world.client({ token: (await organization.token()).secret })
  const params = { id: organization.id }
  expect((await api.send(updateOrganization, { params, body: { sso_enforced: true }, headers: headers('k-2') })).status).toBe(409)
  expect((await api.send(updateOrganization, { params, body: { name: 'Right' }, headers: headers('k-2') })).status).toBe(200)
  for (const body of [{ name: 'Wrong' }, { name: 'Right', website: null }])
    expect(await api.send(updateOrganization, { params, body, headers: headers('k-2') })).toMatchObject({
      status: 422,
      body: { detail: [{ loc: ['header', 'idempotency-key'] }] },
    })
  for (const key of ['', 'x'.repeat(256), 'two words'])
    expect((await api.send(updateOrganization, { params, body: { name: 'Other' }, headers: headers(key) })).status).toBe(422)
  expect((await api.send(getOrganization, { params, headers: headers('k-2') })).status).toBe(200)
})

test('a request that confines itself to another organization is another request', async () => {
  const person = await world.person()
  const [first, second] = [await world.organization({ owner: person.id }), await world.organization({ owner: person.id })]
  const stranger = await world.organization()
  const send = async (organization: string) =>
    world
      .client({ token: (await person.token()).secret }, { 'bursar-organization': organization })
      .send(createProduct, { body: { name: 'Confined', prices: [{ amount_type: 'fixed', price_amount: 1000 }] }, headers: headers('k-6') })
  expect(await send(first.id)).toMatchObject({ status: 201, body: { organization_id: first.id } })
  for (const other of [second.id, stranger.id]) expect((await send(other)).status).toBe(422)
  expect((await send('nonsense')).status).toBe(422)
})

test('an open operation knows no keys, whatever comes with it', async () => {
  const answer = await exchange(
    world.port,
    'POST',
    requestSignInCode.path,
    { 'content-type': 'application/json', 'idempotency-key': 'k', authorization: ['Bearer a', 'Bearer b'] },
    '{"email":"a@people.test"}',
  )
  expect(answer.status).toBe(202)
})

test('a key is free again after a day', async () => {
  const organization = await world.organization()
  const api = world.client({ token: (await organization.token()).secret })
  const send = () => api.send(updateOrganization, { params: { id: organization.id }, body: { name: 'Daily' }, headers: headers('k-3') })
  await send()
  world.clock.advance(86_400_001)
  expect((await send()).headers.get('idempotent-replayed')).toBeNull()
  expect(await events(organization.id)).toBe(2)
})

test('an answer that holds a secret is stored sealed, and shown again only to the credential that asked', async () => {
  const owner = await world.person()
  const organization = await world.organization({ owner: owner.id })
  const body = { organization_id: organization.id, comment: 'sealed', scopes: ['orders:read' as const] }
  const [one, two] = [world.client({ cookie: await owner.cookie() }), world.client({ cookie: await owner.cookie() })]
  const first = await one.call(createOrganizationToken, { body, headers: headers('k-4') })
  const { rows } = await world.database.owner((client) =>
    client.query<{ body: string; sealed: boolean }>(`select body, sealed from idempotency_keys where key = 'k-4'`),
  )
  expect(rows[0]!.sealed).toBe(true)
  expect(Buffer.from(rows[0]!.body, 'base64').toString('latin1')).not.toContain(first.token)
  expect(await one.call(createOrganizationToken, { body, headers: headers('k-4') })).toEqual(first)
  expect(await two.send(createOrganizationToken, { body, headers: headers('k-4') })).toMatchObject({ status: 409, body: { error: 'AnswerSealed' } })
})

test('a process killed between the effect and the answer: the retry does it once', async () => {
  const organization = await world.organization()
  const token = (await organization.token()).secret.reveal()
  const program = launch(['serve', '--roles', 'api'], world.environmentVariables)
  const port = portOf(await program.line('listening'))
  const blocker = new pg.Client({ connectionString: world.database.owner_url })
  await blocker.connect()
  // The event is written last: holding the log stops the request after its change and before its answer.
  await blocker.query('begin')
  await blocker.query('lock table events in access exclusive mode')
  const send = (at: number) =>
    exchange(
      at,
      'PATCH',
      `/v1/organizations/${organization.id}`,
      { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers('k-5') },
      '{"name":"Survivor"}',
    )
  const lost = send(port).catch((error: Error) => error)
  await eventually(
    'the change waits for the log',
    async () =>
      (await world.database.owner((owner) => owner.query(`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)))
        .rows.length > 0,
  )
  program.signal('SIGKILL')
  expect(await lost).toBeInstanceOf(Error)
  await blocker.query('rollback')
  await blocker.end()
  const retried = await eventually('the dead request has let go of the key', async () => {
    const answer = await send(world.port)
    return answer.status !== 409 && answer
  })
  expect([retried.status, retried.headers.get('idempotent-replayed')]).toEqual([200, null])
  expect((await send(world.port)).headers.get('idempotent-replayed')).toBe('true')
  expect(await events(organization.id)).toBe(1)
})
