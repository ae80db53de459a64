import {
  createOrganizationToken,
  createPersonalToken,
  getOrganization,
  listOrganizations,
  listOrganizationTokens,
  listPersonalTokens,
  revokeOrganizationToken,
  revokePersonalToken,
  updateOrganization,
  updateOrganizationToken,
  updatePersonalToken,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

test('creates organization tokens for an organization, and personal tokens for a user [S5-02]', async () => {
  const owner = await world.person()
  const organization = await world.organization({ owner: owner.id })
  const session = world.client({ cookie: await owner.cookie() })

  const made = await session.call(createOrganizationToken, {
    body: { organization_id: organization.id, comment: 'worker', scopes: ['organizations:read', 'organizations:read'], expires_in: 'P90D' },
  })
  expect(made.token).toMatch(/^bursar_test_oat_[0-9A-Za-z]{43}$/)
  expect(made.organization_access_token).toMatchObject({
    organization_id: organization.id,
    comment: 'worker',
    scopes: ['organizations:read'],
    last_used_at: null,
  })
  expect(made.organization_access_token.hint).toBe(`bursar_test_oat_…${made.token.slice(-4)}`)
  const days = (Date.parse(made.organization_access_token.expires_at!) - Date.parse(made.organization_access_token.created_at)) / 86_400_000
  expect(days).toBe(90)
  expect((await world.client({ token: made.token }).call(listOrganizations, {})).items).toHaveLength(1)

  const personal = await session.call(createPersonalToken, { body: { comment: 'laptop', scopes: ['organizations:read'], expires_in: 3600 } })
  expect(personal.token).toMatch(/^bursar_test_pat_[0-9A-Za-z]{43}$/)
  expect((await world.client({ token: personal.token }).call(getOrganization, { params: { id: organization.id } })).id).toBe(organization.id)

  const listed = await session.call(listOrganizationTokens, { query: { organization_id: organization.id } })
  expect(listed.items.map(({ id }) => id)).toEqual([made.organization_access_token.id])
  expect(JSON.stringify(listed)).not.toContain(made.token)
  expect((await session.call(listPersonalTokens, {})).items.map(({ comment }) => comment)).toEqual(['laptop'])
})

test('stores no token in plain text', async () => {
  const organization = await world.organization()
  const { secret } = await organization.token()
  const { rows } = await world.database.owner((client) =>
    client.query<{ dump: string }>(`select string_agg(t::text, '') as dump from (select * from credentials) t`),
  )
  expect(rows[0]!.dump).not.toContain(secret.reveal())
  const tokens = await world.database.owner((client) =>
    client.query<{ dump: string }>(`select string_agg(t::text, '') as dump from organization_access_tokens t`),
  )
  expect(tokens.rows[0]!.dump).not.toContain(secret.reveal().slice(-10))
})

test('refuses a token without the scope of the operation [S5-03, S7-05]', async () => {
  const organization = await world.organization()
  const reader = world.client({ token: (await organization.token(['organizations:read'])).secret })
  expect((await reader.send(getOrganization, { params: { id: organization.id } })).status).toBe(200)
  const refused = await reader.send(updateOrganization, { params: { id: organization.id }, body: { name: 'New name' } })
  const detail = 'This operation needs one of these scopes: organizations:write.'
  expect(refused).toMatchObject({ status: 403, body: { error: 'insufficient_scope', detail, error_description: detail } })
  expect(refused.headers.get('www-authenticate')).toBe(
    'Bearer realm="bursar", scope="organizations:write", error="insufficient_scope", error_description="This operation needs one of these scopes: organizations:write."',
  )
  const writer = world.client({ token: (await organization.token(['organizations:write'])).secret })
  expect((await writer.send(getOrganization, { params: { id: organization.id } })).status).toBe(200)
})

test('rejects a revoked token from the next request on, and an expired one when its time is over', async () => {
  const owner = await world.person()
  const organization = await world.organization({ owner: owner.id })
  const session = world.client({ cookie: await owner.cookie() })
  const token = await organization.token()
  const api = world.client({ token: token.secret })
  expect((await api.send(listOrganizations, {})).status).toBe(200)
  await session.call(revokeOrganizationToken, { params: { id: token.id } })
  expect(await api.send(listOrganizations, {})).toMatchObject({ status: 401, body: { error: 'invalid_token' } })
  expect((await session.send(revokeOrganizationToken, { params: { id: token.id } })).status).toBe(404)

  const personal = await owner.token(undefined, 60)
  const own = world.client({ token: personal.secret })
  expect((await own.send(listOrganizations, {})).status).toBe(200)
  world.clock.advance(61_000)
  expect(await own.send(listOrganizations, {})).toMatchObject({ status: 401, body: { error_description: 'This token has expired.' } })
  const lasting = await owner.token()
  await world.client({ cookie: await owner.cookie() }).call(revokePersonalToken, { params: { id: lasting.id } })
  expect((await world.client({ token: lasting.secret }).send(listOrganizations, {})).status).toBe(401)
})

test('rejects tokens and sessions of a blocked user', async () => {
  const person = await world.person()
  const { secret } = await person.token()
  const cookie = await person.cookie()
  await world.database.owner((client) => client.query('update users set blocked_at = now() where id = $1', [person.id]))
  expect((await world.client({ token: secret }).send(listOrganizations, {})).status).toBe(401)
  expect((await world.client({ cookie }).send(listPersonalTokens, {})).status).toBe(401)
})

test('refuses to create a token if the caller uses a token, or signed in more than an hour ago', async () => {
  const owner = await world.person()
  const organization = await world.organization({ owner: owner.id })
  const body = { comment: 'x', scopes: ['orders:read' as const] }
  for (const token of [(await owner.token()).secret, (await organization.token()).secret])
    expect(await world.client({ token }).send(createOrganizationToken, { body })).toMatchObject({ status: 403, body: { error: 'NotPermitted' } })
  expect((await world.client().send(createPersonalToken, { body })).status).toBe(401)
  const cookie = await owner.cookie()
  world.clock.advance(3_600_001)
  expect(await world.client({ cookie }).send(createPersonalToken, { body })).toMatchObject({ status: 403, body: { error: 'SessionNotFreshError' } })
  expect((await world.client({ cookie }).send(listPersonalTokens, {})).status).toBe(200)
})

test('lets only users who manage an organization create, see and revoke its tokens', async () => {
  const organization = await world.organization()
  const token = await organization.token()
  const member = await world.person()
  await world.join(organization.id, member.id, 'member')
  const stranger = await world.person()
  const body = { organization_id: organization.id, comment: 'x', scopes: ['orders:read' as const] }
  const asMember = world.client({ cookie: await member.cookie() })
  expect((await asMember.send(createOrganizationToken, { body })).status).toBe(403)
  expect((await asMember.send(revokeOrganizationToken, { params: { id: token.id } })).status).toBe(403)
  expect((await asMember.call(listOrganizationTokens, {})).pagination.total_count).toBe(0)
  const asStranger = world.client({ cookie: await stranger.cookie() })
  expect(await asStranger.send(createOrganizationToken, { body })).toMatchObject({
    status: 422,
    body: { detail: [{ loc: ['body', 'organization_id'], type: 'value_error' }] },
  })
  expect(await asStranger.send(createOrganizationToken, { body: { comment: 'x', scopes: ['orders:read'] } })).toMatchObject({
    status: 422,
    body: { detail: [{ type: 'missing' }] },
  })
  expect((await asStranger.send(updateOrganizationToken, { params: { id: token.id }, body: { comment: 'mine' } })).status).toBe(404)
  expect((await world.client({ token: token.secret }).send(listOrganizations, {})).status).toBe(200)
})

test('applies a change of a token’s scopes from the next request on', async () => {
  const owner = await world.person()
  const organization = await world.organization({ owner: owner.id })
  const session = world.client({ cookie: await owner.cookie() })
  const token = await organization.token(['orders:read'])
  const api = world.client({ token: token.secret })
  expect((await api.send(listOrganizations, {})).status).toBe(403)
  const changed = await session.call(updateOrganizationToken, { params: { id: token.id }, body: { scopes: ['organizations:read'] } })
  expect(changed).toMatchObject({ scopes: ['organizations:read'], comment: 'test' })
  expect((await api.send(listOrganizations, {})).status).toBe(200)
  const personal = await owner.token(['orders:read'])
  expect((await session.call(updatePersonalToken, { params: { id: personal.id }, body: { comment: 'renamed' } })).comment).toBe('renamed')
})

test('rejects scopes that no token may have, and lifetimes out of range', async () => {
  const owner = await world.person()
  const session = world.client({ cookie: await owner.cookie() })
  const answer = await session.sendRaw(createPersonalToken, { body: { comment: 'x', scopes: ['organization_access_tokens:write'] } })
  expect(answer).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'scopes', 0], type: 'enum' }] } })
  for (const expires_in of ['PT0S', 'P99999D'])
    expect((await session.send(createPersonalToken, { body: { comment: 'x', scopes: ['orders:read'], expires_in } })).status).toBe(422)
})

test('records the last use of a token', async () => {
  const organization = await world.organization()
  const token = await organization.token()
  await world.client({ token: token.secret }).call(listOrganizations, {})
  await eventually('the last use of the token is stored', async () => {
    const { rows } = await world.database.owner((client) =>
      client.query<{ last_used_at: Date | null }>('select last_used_at from organization_access_tokens where id = $1', [token.id]),
    )
    return rows[0]!.last_used_at !== null
  })
})
