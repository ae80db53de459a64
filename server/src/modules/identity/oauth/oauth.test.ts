import { createLocalJWKSet, decodeProtectedHeader, jwtVerify, type JSONWebKeySet } from 'jose'
import {
  createCustomer,
  createOrganization,
  createOrganizationToken,
  deleteClient,
  describeConsent,
  getClient,
  leaveOrganization,
  listClients,
  listGrants,
  listOrganizations,
  registerClient,
  scopes,
  updateClient,
  withdrawGrant,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openApp, openPerson, openVisitor, pkce } from '../../../../test/harness/visitor.ts'
import { eventually, exchange, openWorld, type World } from '../../../../test/harness/world.ts'
import { minutes, seconds } from '../../../platform/clock.ts'
import type { Means } from '../../handlers.ts'
import { insertMembership } from '../../organizations/index.ts'
import { rotate, tendKeys } from '../keys/keys.ts'
import { vouch } from '../clients/clients.ts'
import { killLeaked } from '../leaks/leaks.ts'
import { randomText } from '../../../kernel/secrets.ts'
import { publishedKeys } from '../keys/keys.sql.ts'
import { purgeOAuth } from './oauth.sql.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const seenBy = async (token: string) => (await world.client({ token }).call(listOrganizations, { query: { limit: 100 } })).items.map(({ id }) => id)

describe('what an app gets', () => {
  test('a token response with the promised fields, and an app that acts as the person [S2-13] [S4-17] [S4-18] [S5-07] [S8-10]', async () => {
    const { visitor, here, there } = await openPerson(world)
    const app = await openApp(world)
    const answer = await app.redeem(await app.code(visitor))
    expect(answer.body).toEqual({
      token_type: 'Bearer',
      access_token: expect.stringMatching(/^bursar_test_at_/) as string,
      expires_in: 864_000,
      refresh_token: expect.stringMatching(/^bursar_test_rt_/) as string,
      scope: 'openid email organizations:read products:read',
      id_token: expect.any(String) as string,
    })
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect((await seenBy(answer.body.access_token as string)).toSorted()).toEqual([here.id, there.id].toSorted())
  })

  test('only with the scopes it was given, and with those that its registration still names [S1-02] [S4-16]', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world, { scope: 'openid organizations:read products:read' })
    const { at } = await visitor.authorize(app.ask({ scope: 'openid orders:read' }))
    expect(new URL(at).searchParams.get('error')).toBe('invalid_scope')
    expect(new URL((await visitor.authorize(app.ask({ scope: 'openid everything' }))).at).searchParams.get('error')).toBe('invalid_scope')
    const { access_token } = await app.tokens(visitor, { scope: 'organizations:read products:read' })
    const products = () => exchange(world.port, 'GET', '/v1/products/', { authorization: `Bearer ${access_token}` })
    expect((await products()).status).toBe(200)
    expect((await exchange(world.port, 'GET', '/v1/customers/', { authorization: `Bearer ${access_token}` })).status).toBe(403)
    const token = { headers: { authorization: `Bearer ${app.registration_access_token}` }, params: { client_id: app.client_id } }
    const less = { client_id: app.client_id, client_name: 'Ledgerly', redirect_uris: app.redirect_uris, scope: 'organizations:read' }
    await world.client().call(updateClient, { ...token, body: less })
    expect((await products()).status).toBe(403)
  })

  test('without a scope in the request, all that it registered', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world, { scope: 'openid orders:read' })
    const { scope: _, ...rest } = app.ask()
    const { at } = await visitor.authorize(rest)
    expect((await app.redeem(app.codeOf(at))).body.scope).toBe('openid orders:read')
  })

  test('never what takes a person in their own browser', async () => {
    const { visitor, here } = await openPerson(world)
    const app = await openApp(world)
    const { access_token } = await app.tokens(visitor, { scope: scopes.join(' ') })
    const made = await world
      .client({ token: access_token })
      .send(createOrganizationToken, { body: { organization_id: here.id, comment: 'x', scopes: ['orders:read'] } })
    expect(made.status).toBe(403)
  })

  test('its own rate budget, whoever it acts for [S8-05]', async () => {
    const narrow = await openWorld({ settings: { BURSAR_BUDGETS: JSON.stringify({ api: [[60, 60]], registration: [[100, 60]] }) } })
    try {
      const app = await openApp(narrow)
      const one = await app.tokens((await openPerson(narrow)).visitor)
      const two = await app.tokens((await openPerson(narrow)).visitor)
      const ask = (token: string) => exchange(narrow.port, 'GET', '/v1/organizations/', { authorization: `Bearer ${token}` })
      const statuses = await Promise.all(
        Array.from({ length: 70 }, (_, at) => ask(at % 2 === 0 ? one.access_token : two.access_token).then(({ status }) => status)),
      )
      expect(statuses.filter((status) => status === 200)).toHaveLength(60)
      expect((await ask(two.access_token)).headers.get('retry-after')).not.toBeNull()
    } finally {
      await narrow.close()
    }
  })
})

describe('the organizations a person chose', () => {
  test('stay chosen: in silent authorizations, in refreshes, and until they say otherwise [S4-32] [S5-08]', async () => {
    const { visitor, here, there } = await openPerson(world)
    const app = await openApp(world)
    const first = await app.tokens(visitor, {}, { organizations: [here.id] })
    expect(await seenBy(first.access_token)).toEqual([here.id])
    const again = await visitor.authorize({ ...app.ask(), organizations: there.id })
    expect(again.asked).toBe(false)
    const silent = (await app.redeem(app.codeOf(again.at))).body.access_token as string
    expect(await seenBy(silent)).toEqual([here.id])
    expect((await app.introspect(silent)).body.organizations).toEqual([here.id])
    const refreshed = (await app.refresh(first.refresh_token)).body.access_token as string
    expect(await seenBy(refreshed)).toEqual([here.id])
  })

  test('an unrestricted token reaches one that is joined later, a restricted one does not [S5-09]', async () => {
    const { visitor, here, person } = await openPerson(world)
    const [open, narrow] = [await openApp(world), await openApp(world)]
    const all = await open.tokens(visitor)
    const one = await narrow.tokens(visitor, {}, { organizations: [here.id] })
    const joined = await world.organization()
    await world.transact((tx) => insertMembership(tx, joined.id, person.id, 'member', tx.clock.business()))
    expect(await seenBy(all.access_token)).toContain(joined.id)
    expect(await seenBy(one.access_token)).toEqual([here.id])
  })

  test('leaving one ends access there with the next request, and elsewhere it goes on [S5-10]', async () => {
    const { visitor, here, person, cookie } = await openPerson(world)
    const guest = await world.organization()
    await world.transact((tx) => insertMembership(tx, guest.id, person.id, 'member', tx.clock.business()))
    const app = await openApp(world)
    const { access_token } = await app.tokens(visitor, {}, { organizations: [here.id, guest.id] })
    expect((await seenBy(access_token)).toSorted()).toEqual([guest.id, here.id].toSorted())
    await world.client({ cookie }).call(leaveOrganization, { params: { id: guest.id } })
    expect(await seenBy(access_token)).toEqual([here.id])
    expect((await exchange(world.port, 'GET', `/v1/organizations/${guest.id}`, { authorization: `Bearer ${access_token}` })).status).toBe(404)
  })

  test('are chosen for all that the app may do: the page shows what was allowed before, too', async () => {
    const { visitor, here } = await openPerson(world)
    const app = await openApp(world)
    await app.tokens(visitor, { scope: 'refunds:write' }, { organizations: [here.id] })
    const asked = await visitor.get(`/oauth2/authorize?${new URLSearchParams(app.ask({ scope: 'openid', prompt: 'consent' })).toString()}`)
    expect(asked.answer.text).toContain('Pay money back')
  })

  test('an app that wants exactly one asks where all were given, and one that was given some makes no new ones', async () => {
    const { visitor, here } = await openPerson(world)
    const app = await openApp(world)
    await app.tokens(visitor)
    expect((await visitor.authorize(app.ask({ sub_type: 'organization' }), { organizations: [here.id] })).asked).toBe(true)
    expect((await visitor.authorize(app.ask({ sub_type: 'organization' }))).asked).toBe(false)
    await world.database.owner((owner) => owner.query('update deployment set organization_creation_open = true'))
    const { access_token } = await app.tokens(visitor, { scope: 'organizations:write' }, { organizations: [here.id] })
    const made = await world.client({ token: access_token }).send(createOrganization, { body: { name: 'New', slug: 'made-by-an-app' } })
    expect(made).toMatchObject({ status: 403, body: { error: 'CannotCreateOrganizationError' } })
  })

  test('when none of them is left, the person is asked again', async () => {
    const { visitor, person } = await openPerson(world)
    const guest = await world.organization()
    await world.transact((tx) => insertMembership(tx, guest.id, person.id, 'member', tx.clock.business()))
    const app = await openApp(world)
    await app.tokens(visitor, {}, { organizations: [guest.id] })
    expect((await visitor.authorize(app.ask())).asked).toBe(false)
    await world.database.owner((owner) => owner.query('delete from organization_members where organization_id = $1 and user_id = $2', [guest.id, person.id]))
    expect((await visitor.authorize(app.ask())).asked).toBe(true)
  })

  test('are of the person: none, or one of somebody else, is refused on the page', async () => {
    const { visitor, here } = await openPerson(world)
    const stranger = await world.organization()
    const app = await openApp(world, { default_sub_type: 'organization' })
    for (const organizations of [[], [stranger.id], [here.id, stranger.id]]) {
      const { answer, at } = await visitor.authorize(app.ask(), { organizations })
      expect(at).toBe('')
      expect(answer.status).toBe(400)
    }
    // An app for one organization gets one, and not all.
    expect((await visitor.authorize(app.ask(), { all: true })).at).toBe('')
    expect((await visitor.authorize(app.ask(), { organizations: [here.id] })).at).toContain('code=')
  })
})

describe('clients', () => {
  const anyone = () => world.client()
  const by = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })

  test('are registered by anyone, and managed with their token or by their owner', async () => {
    const owner = await world.person()
    const cookie = await owner.cookie()
    const mine = await openApp(world, {}, cookie)
    const theirs = await openApp(world)
    const me = world.client({ cookie })
    expect((await me.call(listClients, {})).items.map(({ client_id }) => client_id)).toEqual([mine.client_id])
    expect(await me.call(getClient, { params: { client_id: mine.client_id } })).not.toHaveProperty('client_secret')
    expect((await me.send(getClient, { params: { client_id: theirs.client_id } })).status).toBe(401)
    expect((await anyone().send(getClient, { params: { client_id: mine.client_id } })).status).toBe(400)
    const shown = await anyone().call(getClient, { params: { client_id: theirs.client_id }, ...by(theirs.registration_access_token) })
    expect(shown).toMatchObject({ client_id: theirs.client_id, verified: false, client_secret_expires_at: 0 })
    expect((await anyone().send(getClient, { params: { client_id: mine.client_id }, ...by(theirs.registration_access_token) })).status).toBe(401)
  })

  test('keep no secret in the clear', async () => {
    const app = await openApp(world)
    const dump = await world.database.owner(async (owner) => {
      const { rows } = await owner.query<{ text: string }>(
        `select (select string_agg(t::text, '') from oauth_clients t) || (select string_agg(t::text, '') from credentials t) as text`,
      )
      return rows[0]!.text
    })
    expect(dump).not.toContain(app.client_secret)
    expect(dump).not.toContain(app.registration_access_token)
  })

  test('turn public and confidential, with the secret that goes along', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const config = { client_id: app.client_id, client_name: 'Ledgerly', redirect_uris: app.redirect_uris }
    const change = (more: object) =>
      anyone().send(updateClient, { params: { client_id: app.client_id }, body: { ...config, ...more }, ...by(app.registration_access_token) })
    expect((await change({ client_id: 'other' })).status).toBe(422)
    expect((await change({ client_secret: 'wrong' })).status).toBe(422)
    expect((await change({ client_secret: app.client_secret })).status).toBe(200)
    expect((await change({ token_endpoint_auth_method: 'none' })).body).not.toHaveProperty('client_secret')
    const { code_verifier, ...challenge } = pkce()
    const code = await app.code(visitor, challenge)
    const open = { grant_type: 'authorization_code', client_id: app.client_id, code, redirect_uri: app.redirect_uris[0]!, code_verifier }
    expect((await app.form('/v1/oauth2/token', open)).status).toBe(200)
    const back = (await change({ token_endpoint_auth_method: 'client_secret_basic' })).body as { client_secret: string }
    expect(back.client_secret).toMatch(/^bursar_test_cs_/)
    expect(back.client_secret).not.toBe(app.client_secret)
    expect((await app.introspect('x')).status).toBe(401)
    const basic = `Basic ${Buffer.from(`${app.client_id}:${back.client_secret}`).toString('base64')}`
    expect((await app.form('/v1/oauth2/introspect', { token: 'x' }, { authorization: basic })).body).toEqual({ active: false })
  })

  test('that change what people are shown, or where they are sent, are not vouched for any more', async () => {
    const app = await openApp(world)
    await world.transact((tx) => vouch(tx, app.client_id, true))
    const change = (more: object) =>
      anyone().call(updateClient, {
        params: { client_id: app.client_id },
        body: { client_id: app.client_id, client_name: 'Ledgerly', redirect_uris: app.redirect_uris, ...more },
        ...by(app.registration_access_token),
      })
    expect((await change({ scope: 'openid' })).verified).toBe(true)
    expect((await change({ client_name: 'Bursar Support' })).verified).toBe(false)
  })

  test('whose secret leaked lose it, their owner is told, and the next change brings a new one', async () => {
    const owner = await world.person()
    const app = await openApp(world, {}, await owner.cookie())
    const { visitor } = await openPerson(world)
    const { access_token } = await app.tokens(visitor)
    const report = (token: string) => world.transact((tx) => killLeaked(tx, world.platform, { token, type: 'x', url: '', source: '' }))
    expect(await report(access_token)).toMatchObject({ label: 'true_positive', token_type: 'bursar_oauth_access_token' })
    expect((await exchange(world.port, 'GET', '/v1/organizations/', { authorization: `Bearer ${access_token}` })).status).toBe(401)
    expect(await report(app.client_secret!)).toMatchObject({ label: 'true_positive', token_type: 'bursar_oauth_client_secret' })
    expect((await app.introspect('x')).status).toBe(401)
    const { rows } = await world.database.owner((o) => o.query<{ name: string }>('select task_identifier as name from graphile_worker.jobs order by id'))
    expect(rows.map(({ name }) => name)).toEqual(expect.arrayContaining(['mail.app_token_leaked', 'mail.client_secret_leaked']))
    const again = await anyone().call(updateClient, {
      params: { client_id: app.client_id },
      body: { client_id: app.client_id, client_name: 'Ledgerly', redirect_uris: app.redirect_uris },
      ...by(app.registration_access_token),
    })
    expect(again.client_secret).toMatch(/^bursar_test_cs_/)
  })

  test('that are deleted take their tokens with them', async () => {
    const { visitor, cookie } = await openPerson(world)
    const app = await openApp(world)
    const { access_token, refresh_token } = await app.tokens(visitor)
    expect((await anyone().send(deleteClient, { params: { client_id: app.client_id }, ...by(app.registration_access_token) })).status).toBe(204)
    expect((await exchange(world.port, 'GET', '/v1/organizations/', { authorization: `Bearer ${access_token}` })).status).toBe(401)
    expect((await app.refresh(refresh_token)).status).toBe(401)
    expect((await world.client({ cookie }).call(listGrants, {})).items).toEqual([])
    expect((await visitor.authorize(app.ask())).answer.status).toBe(400)
  })

  test('are registered only so often from one address', async () => {
    const narrow = await openWorld({ settings: { BURSAR_BUDGETS: JSON.stringify({ registration: [[3, 60]] }) } })
    try {
      const body = { client_name: 'X', redirect_uris: ['https://app.example/callback'] }
      const statuses: number[] = []
      for (let round = 0; round < 4; round++) statuses.push((await narrow.client().send(registerClient, { body })).status)
      expect(statuses).toEqual([201, 201, 201, 429])
    } finally {
      await narrow.close()
    }
  })
})

describe('what a person allowed', () => {
  test('is listed, and taken back for good', async () => {
    const { visitor, here, cookie } = await openPerson(world)
    const app = await openApp(world)
    const { access_token } = await app.tokens(visitor, {}, { organizations: [here.id] })
    await app.tokens(visitor, { scope: 'openid orders:read' }, { organizations: [here.id] })
    const me = world.client({ cookie })
    const [grant, ...others] = (await me.call(listGrants, {})).items
    expect(others).toEqual([])
    expect(grant).toMatchObject({
      client: { client_id: app.client_id, client_name: 'Ledgerly' },
      organizations: [here.id],
      scopes: ['openid', 'email', 'organizations:read', 'products:read', 'orders:read'],
    })
    expect((await me.send(withdrawGrant, { params: { client_id: app.client_id } })).status).toBe(204)
    expect((await me.send(withdrawGrant, { params: { client_id: app.client_id } })).status).toBe(404)
    expect((await exchange(world.port, 'GET', '/v1/organizations/', { authorization: `Bearer ${access_token}` })).status).toBe(401)
    expect((await visitor.authorize(app.ask())).asked).toBe(true)
  })

  test('is described as data, for pages of others [S4-14]', async () => {
    const { cookie, here, there, person } = await openPerson(world)
    const app = await openApp(world)
    const me = world.client({ cookie })
    const query = { response_type: 'code', client_id: app.client_id, redirect_uri: app.redirect_uris[0]!, scope: 'openid orders:read' }
    const described = await me.call(describeConsent, { query })
    expect(described).toMatchObject({
      client: { client_id: app.client_id },
      sub_type: 'user',
      sub: { id: person.id, email: person.email },
      scopes: ['openid', 'orders:read'],
      requires_single_organization: false,
      scope_display_names: { 'orders:read': 'See orders' },
    })
    expect(described.organizations.map(({ id }) => id).toSorted()).toEqual([here.id, there.id].toSorted())
    for (const wrong of [{ response_type: 'token' }, { client_id: 'x' }, { redirect_uri: 'https://evil.example' }, { scope: 'nothing' }])
      expect((await me.send(describeConsent, { query: { ...query, ...wrong } })).status).toBe(400)
    expect((await world.client().send(describeConsent, { query })).status).toBe(401)
    expect((await world.client().call(describeConsent, { query: { ...query, scope: 'orders:read' } })).sub).toBeNull()
  })
})

describe('the protocol beside the rest', () => {
  test('its answers carry the headers of all answers: request id, version, budget, safety', async () => {
    const app = await openApp(world)
    const { visitor } = await openPerson(world)
    const { access_token } = await app.tokens(visitor)
    const answers = {
      token: await app.token({ grant_type: 'refresh_token', refresh_token: 'x' }),
      introspect: await app.introspect('x'),
      revoke: await app.revoke('x'),
      userinfo: await exchange(world.port, 'GET', '/v1/oauth2/userinfo', { authorization: `Bearer ${access_token}` }),
      register: await world.client().send(registerClient, { body: { client_name: 'X', redirect_uris: ['https://app.example/callback'] } }),
    }
    for (const [name, { headers }] of Object.entries(answers)) {
      expect(headers.get('x-request-id'), name).toMatch(/^[0-9a-f-]{36}$/)
      expect(headers.get('polar-version'), name).toBe('2026-04')
      expect(headers.get('bursar-version'), name).toBe('2026-04')
      expect(headers.get('ratelimit'), name).toContain('r=')
      expect(headers.get('x-content-type-options'), name).toBe('nosniff')
      expect(headers.get('strict-transport-security'), name).not.toBeNull()
      expect(headers.get('content-security-policy'), name).toContain("frame-ancestors 'none'")
    }
    for (const path of ['/.well-known/openid-configuration', '/.well-known/jwks.json', '/oauth2/authorize', '/login']) {
      const { headers } = await exchange(world.port, 'GET', path)
      expect(headers.get('x-request-id'), path).toMatch(/^[0-9a-f-]{36}$/)
      expect(headers.get('x-content-type-options'), path).toBe('nosniff')
      expect(headers.get('content-security-policy'), path).toContain("frame-ancestors 'none'")
      if (path !== '/login') expect(headers.get('polar-version'), path).toBe('2026-04')
      // What caches keep for everyone is charged to nobody.
      expect(headers.has('ratelimit'), path).toBe(!path.startsWith('/.well-known'))
    }
    expect((await exchange(world.port, 'POST', '/v1/oauth2/token', { 'polar-version': '1999-01' })).status).toBe(404)
  })

  test('browsers of the app itself may ask for tokens, others may not', async () => {
    const app = await openApp(world, { token_endpoint_auth_method: 'none' })
    const ask = (origin: string) => app.form('/v1/oauth2/token', { grant_type: 'refresh_token', refresh_token: 'x', client_id: app.client_id }, { origin })
    expect((await ask('https://app.example')).headers.get('access-control-allow-origin')).toBe('https://app.example')
    expect((await ask('https://evil.example')).headers.get('access-control-allow-origin')).toBeNull()
  })

  test('bytes that cannot be kept, and a host in the request line, are harmless', async () => {
    const app = await openApp(world)
    const zero = await exchange(world.port, 'GET', `/oauth2/authorize?${new URLSearchParams(app.ask()).toString()}&nonce=%00`)
    expect([zero.status, zero.headers.get('x-request-id') !== null]).toEqual([400, true])
    expect((await exchange(world.port, 'GET', '/oauth2/authorize?client_id=%00')).status).toBe(400)
    expect((await app.form('/v1/oauth2/token', { grant_type: 'refresh_token', refresh_token: '\0', client_id: '\0', client_secret: '\0' })).status).toBe(401)
    const found = await exchange(world.port, 'GET', 'http://evil.example/.well-known/openid-configuration')
    expect(found.status).toBe(200)
    expect(found.text).not.toContain('evil.example')
  })

  test('the same idempotency key of two apps of one person is two keys', async () => {
    const { visitor, here } = await openPerson(world)
    const create = async () => {
      const { access_token } = await (await openApp(world)).tokens(visitor, { scope: 'customers:write' })
      const api = world.client({ token: access_token })
      return api.send(createCustomer, {
        body: { organization_id: here.id, email: `${randomText(8, 'abcdefgh')}@people.test` },
        headers: { 'idempotency-key': 'same' },
      })
    }
    expect([(await create()).status, (await create()).status]).toEqual([201, 201])
  })

  test('a grant of ours that needs a session is declared and not given', async () => {
    const app = await openApp(world)
    expect(await app.token({ grant_type: 'web', session_token: 'x' })).toMatchObject({ status: 400, body: { error: 'unsupported_grant_type' } })
  })

  test('people may sign in elsewhere than the API answers', async () => {
    const split = await openWorld({ settings: { BURSAR_AUTH_URL: 'https://accounts.test' } })
    try {
      const found = JSON.parse((await exchange(split.port, 'GET', '/.well-known/openid-configuration')).text) as Record<string, string>
      const { visitor, here } = await openPerson(split)
      const app = await openApp(split)
      const tokens = await app.tokens(visitor, {}, { organizations: [here.id] })
      expect((await app.introspect(tokens.access_token)).body.organizations).toEqual([here.id])
      const { answer } = await visitor.get('/settings/apps')
      expect(answer.text).toContain('Remove Ledgerly')
      expect(found).toMatchObject({
        issuer: 'https://bursar.test',
        authorization_endpoint: 'https://accounts.test/oauth2/authorize',
        token_endpoint: 'https://bursar.test/v1/oauth2/token',
      })
    } finally {
      await split.close()
    }
  })

  test('what has run out is swept away, and what has not is kept', async () => {
    const own = await openWorld({ worker: true })
    try {
      const { visitor } = await openPerson(own)
      const app = await openApp(own)
      const { refresh_token } = await app.tokens(visitor)
      await visitor.authorize(app.ask({ prompt: 'consent' }), { deny: true })
      own.clock.advance(12 * 24 * 3600 * seconds)
      await own.transactAsWorker((tx) => purgeOAuth(tx, own.clock.wall()))
      const { rows } = await own.database.owner((owner) => owner.query<{ kind: string }>('select kind from oauth_tokens'))
      expect(rows.map(({ kind }) => kind)).toEqual(['oauth_refresh'])
      const { rows: orphans } = await own.database.owner((owner) =>
        owner.query(`select 1 from credentials c where kind like 'oauth%' and not exists (select from oauth_tokens t where t.id = c.subject_id)`),
      )
      expect(orphans).toEqual([])
      expect((await app.refresh(refresh_token)).status).toBe(200)
    } finally {
      await own.close()
    }
  })
})

describe('signing keys', () => {
  test('change three times while hundreds of id_tokens are issued and verified, by somebody who keeps the keys for as long as they may: none fails [S5-06]', async () => {
    const own = await openWorld()
    try {
      const { visitor } = await openPerson(own)
      const app = await openApp(own)
      // Keeps the keys for the five minutes that it may, by the same clock as everybody else.
      let kept: { at: number; set: ReturnType<typeof createLocalJWKSet> } | undefined
      const keys = async () => {
        const now = own.clock.wall().getTime()
        if (!kept || now - kept.at >= 5 * minutes)
          kept = { at: now, set: createLocalJWKSet(JSON.parse((await exchange(own.port, 'GET', '/.well-known/jwks.json')).text) as JSONWebKeySet) }
        return kept.set
      }
      const kids = new Set<string>()
      let verified = 0
      const all = Number(process.env.BURSAR_TEST_TOKENS ?? 300)
      const verify = async (id_token: string) => {
        await jwtVerify(id_token, await keys(), { issuer: own.config.public_url.origin, audience: app.client_id, algorithms: ['RS256'] })
        kids.add(decodeProtectedHeader(id_token).kid!)
      }
      const use = async () => {
        let { refresh_token } = await app.tokens(visitor)
        for (let one = 0; one < all / 10; one++) {
          const { body } = await app.refresh(refresh_token)
          refresh_token = body.refresh_token as string
          await verify(body.id_token as string)
          verified++
        }
      }
      const change = async () => {
        for (const after of [0.2 * all, 0.45 * all, 0.7 * all]) {
          await eventually(`${after} are verified`, async () => verified >= after || undefined)
          own.clock.advance(6 * minutes)
          // Fetched a moment before: what signs next must be in there already.
          await keys()
          expect(await own.transact((tx) => rotate(tx, own.platform))).toBe('rotated')
          await own.api.oauth.refreshKeys()
        }
      }
      await app.tokens(visitor)
      await Promise.all([...Array.from({ length: 10 }, use), change()])
      expect(verified).toBe(all)
      // However fast they were, one comes after the last change.
      await verify((await app.tokens(visitor)).id_token)
      expect(kids.size).toBe(4)
    } finally {
      await own.close()
    }
  })

  test('are tended by schedule: a new one each month, and a retired one has lost its private half', async () => {
    const own = await openWorld({ worker: true })
    try {
      const means = { transact: own.transactAsWorker, platform: own.platform } as Means
      const states = async () => (await publishedKeys(own.api.postgres.db)).map(({ state }) => state)
      await tendKeys(means)
      expect(await states()).toEqual(['active', 'next'])
      own.clock.advance(31 * 24 * 60 * minutes)
      await tendKeys(means)
      expect((await states()).toSorted()).toEqual(['active', 'next', 'retiring'])
      own.clock.advance(3 * 60 * minutes)
      await tendKeys(means)
      expect(await states()).toEqual(['active', 'next'])
      const { rows } = await own.database.owner((owner) => owner.query<{ sealed: string | null }>(`select sealed from signing_keys where state = 'retired'`))
      expect(rows).toEqual([{ sealed: null }])
    } finally {
      await own.close()
    }
  })
})

test('a person who signs out is asked to sign in, and a session that is over counts for nothing', async () => {
  const { visitor, cookie } = await openPerson(world)
  const app = await openApp(world)
  await app.tokens(visitor)
  const csrf = visitor.field((await visitor.get('/settings/apps')).answer.text, 'csrf')
  await visitor.post('/logout', { csrf })
  expect((await visitor.authorize(app.ask())).at).toContain('/login?')
  expect((await openVisitor(world, cookie).authorize(app.ask({ prompt: 'none' }))).at).toContain('error=login_required')
})
