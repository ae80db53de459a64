import {
  createOrganization,
  createOrganizationToken,
  createProduct,
  getOrganization,
  operations,
  requestSignInCode,
  updateOrganization,
} from '@bursar/contract'
import { wireSchema } from '@bursar/contract/openapi'
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

test('executes fifty concurrent requests with one key once, and answers each with the same response or 409', async () => {
  const operator = await world.person({ is_operator: true })
  const api = world.client({ token: (await operator.token()).secret })
  // Several rounds, because a request must begin just before another one commits.
  for (let round = 0; round < 5; round++) {
    const slug = `only-once-${round}`
    const send = () => api.send(createOrganization, { body: { name: 'Once', slug }, headers: headers(`once-${round}`) })
    const first = await Promise.all(Array.from({ length: 50 }, send))
    expect(new Set(first.map(({ status }) => status))).toEqual(new Set(first.some(({ status }) => status === 409) ? [201, 409] : [201]))
    for (const busy of first.filter(({ status }) => status === 409))
      expect([busy.headers.get('retry-after'), (busy.body as { error?: string }).error]).toEqual(['1', 'RequestInFlight'])
    const again = await send()
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    for (const done of first.filter(({ status }) => status === 201)) expect(done.body).toEqual(again.body)
    expect(first.filter((one) => one.status === 201 && one.headers.get('idempotent-replayed') === null)).toHaveLength(1)
    const { rows } = await world.database.owner((owner) => owner.query('select 1 from organizations where slug = $1', [slug]))
    expect(rows).toHaveLength(1)
  }
})

test('scopes an idempotency key to the organization: replays for a rotated token, but not for other organizations', async () => {
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

test('rejects a different request under the same key with 422, and leaves the key free after a failed request', async () => {
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

test('treats a request whose header names another organization as a different request', async () => {
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

test('ignores the idempotency key on an open operation', async () => {
  const answer = await exchange(
    world.port,
    'POST',
    requestSignInCode.path,
    { 'content-type': 'application/json', 'idempotency-key': 'k', authorization: ['Bearer a', 'Bearer b'] },
    '{"email":"a@people.test"}',
  )
  expect(answer.status).toBe(202)
})

test('executes a request again if its idempotency key is older than a day', async () => {
  const organization = await world.organization()
  const api = world.client({ token: (await organization.token()).secret })
  const send = () => api.send(updateOrganization, { params: { id: organization.id }, body: { name: 'Daily' }, headers: headers('k-3') })
  await send()
  world.clock.advance(86_400_001)
  expect((await send()).headers.get('idempotent-replayed')).toBeNull()
  expect(await events(organization.id)).toBe(2)
})

test('seals a stored response that contains a secret, and replays it only to the same credential', async () => {
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

test('seals the response of every keyed operation that returns a field marked as secret', () => {
  const keyed = operations.filter(({ method, access }) => method !== 'GET' && access.kind !== 'open' && access.kind !== 'visitor')
  const revealing = keyed.filter(({ returns }) => returns && JSON.stringify(wireSchema(returns)).includes('"x-secret"'))
  expect(revealing.map(({ id, reveals }) => [id, reveals])).toEqual([
    ['checkouts:create', true],
    ['checkouts:update', true],
  ])
})

test('replays the response of a request that commits between the lookup of the key and the effect', async () => {
  const organization = await world.organization()
  const api = world.client({ token: (await organization.token()).secret })
  const send = () => api.send(updateOrganization, { params: { id: organization.id }, body: { name: 'First' }, headers: headers('k-7') })
  const first = await send()
  expect(first.status).toBe(200)
  // Takes the stored response away until the second request has looked for it.
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ kept: unknown }>(`delete from idempotency_keys k where key = 'k-7' returning to_jsonb(k) as kept`),
  )
  const blocker = new pg.Client({ connectionString: world.database.owner_url })
  await blocker.connect()
  await blocker.query('begin')
  await blocker.query('lock table events in access exclusive mode')
  const second = send()
  try {
    await eventually(
      'the second request waits for the lock on the events table',
      async () =>
        (await world.database.owner((owner) => owner.query(`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)))
          .rows.length > 0,
    )
    await world.database.owner((owner) =>
      owner.query('insert into idempotency_keys select * from jsonb_populate_record(null::idempotency_keys, $1)', [rows[0]!.kept]),
    )
  } finally {
    await blocker.end()
  }
  const answer = await second
  expect([answer.headers.get('idempotent-replayed'), answer.body]).toEqual(['true', first.body])
  expect(await events(organization.id)).toBe(1)
})

test('executes a request once if the process is killed between the effect and the response, and the client retries', async () => {
  const organization = await world.organization()
  const token = (await organization.token()).secret.reveal()
  const program = launch(['serve', '--roles', 'api'], world.environmentVariables)
  const port = portOf(await program.line('listening'))
  const blocker = new pg.Client({ connectionString: world.database.owner_url })
  await blocker.connect()
  // The request writes its event last. Locking the events table stops the request after its change and before its response.
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
    'the update waits for the lock on the events table',
    async () =>
      (await world.database.owner((owner) => owner.query(`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)))
        .rows.length > 0,
  )
  program.signal('SIGKILL')
  expect(await lost).toBeInstanceOf(Error)
  await blocker.query('rollback')
  await blocker.end()
  const retried = await eventually('the key of the aborted request is free again', async () => {
    const answer = await send(world.port)
    return answer.status !== 409 && answer
  })
  expect([retried.status, retried.headers.get('idempotent-replayed')]).toEqual([200, null])
  expect((await send(world.port)).headers.get('idempotent-replayed')).toBe('true')
  expect(await events(organization.id)).toBe(1)
})
