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
import { counted } from '../../../../test/harness/pace.ts'
import { minutes, seconds } from '../../../platform/clock.ts'
import type { Deps } from '../../handlers.ts'
import { insertMembership } from '../../organizations/index.ts'
import { rotateKeys, tendKeys } from '../keys/keys.ts'
import { vouch } from '../clients/clients.ts'
import { killLeaked } from '../leaks/leaks.ts'
import { randomText } from '../../../kernel/secrets.ts'
import { publishedKeys } from '../keys/keys.sql.ts'
import { purgeOAuth } from '../grants/oauth.sql.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const seenBy = async (token: string) => (await world.client({ token }).call(listOrganizations, { query: { limit: 100 } })).items.map(({ id }) => id)

describe('access of an OAuth app', () => {
  test('returns the documented token fields, and lets the app act as the user [S2-13] [S4-17] [S4-18] [S5-07] [S8-10]', async () => {
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

  test('limits a token to scopes that the user granted and that the client still has registered [S1-02] [S4-16]', async () => {
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

  test('grants all registered scopes if the request names none', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world, { scope: 'openid orders:read' })
    const { scope: _, ...rest } = app.ask()
    const { at } = await visitor.authorize(rest)
    expect((await app.redeem(app.codeOf(at))).body.scope).toBe('openid orders:read')
  })

  test('denies an app operations that require the user’s own browser session', async () => {
    const { visitor, here } = await openPerson(world)
    const app = await openApp(world)
    const { access_token } = await app.tokens(visitor, { scope: scopes.join(' ') })
    const made = await world
      .client({ token: access_token })
      .send(createOrganizationToken, { body: { organization_id: here.id, comment: 'x', scopes: ['orders:read'] } })
    expect(made.status).toBe(403)
  })

  test('counts the requests of all users of an app against one rate limit', async () => {
    const narrow = await openWorld({ settings: { BURSAR_BUDGETS: JSON.stringify({ api: [[60, 60]], registration: [[100, 60]] }) } })
    try {
      const app = await openApp(narrow)
      const one = await app.tokens((await openPerson(narrow)).visitor)
      const two = await app.tokens((await openPerson(narrow)).visitor)
      const ask = (token: string) => exchange(narrow.port, 'GET', '/v1/organizations/', { authorization: `Bearer ${token}` })
      const statuses = await Promise.all(
        Array.from({ length: 70 }, (_, at) => ask(at % 2 === 0 ? one.access_token : two.access_token).then(({ status }) => status)),
      )
      // The client has already used two requests of the limit to exchange its codes.
      expect(statuses.filter((status) => status === 200)).toHaveLength(58)
      expect((await ask(two.access_token)).headers.get('retry-after')).not.toBeNull()
    } finally {
      await narrow.close()
    }
  })
})

describe('organizations chosen on the consent page', () => {
  test('keeps the choice in silent authorizations and refreshes until the user changes it [S4-32] [S5-08]', async () => {
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

  test('applies a wider choice to new tokens only, and a narrower one also to existing tokens [S5-08]', async () => {
    const { visitor, here, there } = await openPerson(world)
    const app = await openApp(world)
    const again = { prompt: 'consent' }
    const both = [here.id, there.id].toSorted()
    const seen = async (token: string) => (await seenBy(token)).toSorted()
    const first = await app.tokens(visitor, {}, { organizations: [here.id] })
    const second = await app.tokens(visitor, again)
    expect(await seen(second.access_token)).toEqual(both)
    expect(await seen(first.access_token)).toEqual([here.id])
    expect((await app.introspect(first.access_token)).body.organizations).toEqual([here.id])
    const refreshed = await app.refresh(first.refresh_token)
    expect(await seen(refreshed.body.access_token as string)).toEqual([here.id])
    const third = await app.tokens(visitor, again, { organizations: [there.id] })
    expect(await seen(third.access_token)).toEqual([there.id])
    expect(await seen(second.access_token)).toEqual([there.id])
    // A token that lost an organization does not regain it when the user chooses that organization again.
    await app.tokens(visitor, again)
    expect(await seen(second.access_token)).toEqual([there.id])
    expect((await app.introspect(second.access_token)).body.organizations).toEqual([there.id])
  })

  test('revokes tokens that a new choice leaves without an organization: introspection answers inactive, the API 401, a refresh invalid_grant', async () => {
    const { visitor, here, there } = await openPerson(world)
    const [app, other] = [await openApp(world), await openApp(world)]
    const first = await app.tokens(visitor, {}, { organizations: [here.id] })
    const elsewhere = await other.tokens(visitor, {}, { organizations: [here.id] })
    const second = await app.tokens(visitor, { prompt: 'consent' }, { organizations: [there.id] })
    for (const token of [first.access_token, first.refresh_token]) expect((await app.introspect(token)).body).toEqual({ active: false })
    for (const path of ['/v1/organizations/', '/v1/oauth2/userinfo'])
      expect((await exchange(world.port, 'GET', path, { authorization: `Bearer ${first.access_token}` })).status).toBe(401)
    expect(await app.refresh(first.refresh_token)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
    expect((await app.introspect(second.access_token)).body).toMatchObject({ active: true, organizations: [there.id] })
    expect((await other.introspect(elsewhere.access_token)).body).toMatchObject({ active: true, organizations: [here.id] })
  })

  test('the consent page preselects one organization at first, and then the last choice [S5-08]', async () => {
    const { visitor, here } = await openPerson(world)
    const shown = async (app: Awaited<ReturnType<typeof openApp>>, more: Record<string, string> = {}) =>
      (await visitor.get(`/oauth2/authorize?${new URLSearchParams(app.ask(more)).toString()}`)).answer.text
    const count = (html: string, input: string) => [...html.matchAll(/<input[^>]*>/g)].filter(([tag]) => tag.includes(input) && tag.includes('checked')).length
    const checked = (html: string, input: string) => count(html, input) > 0
    const says = 'If you remove organizations, the app loses access to them at once.'
    const app = await openApp(world)
    const first = await shown(app)
    expect(checked(first, 'value="all"')).toBe(false)
    expect(checked(first, 'value="chosen"')).toBe(true)
    expect(count(first, 'name="organizations"')).toBe(1)
    expect(first).not.toContain(says)
    const single = await shown(await openApp(world, { default_sub_type: 'organization' }))
    expect(single).not.toContain('value="all"')
    expect(checked(single, 'name="organizations"')).toBe(true)
    await app.tokens(visitor, {}, { organizations: [here.id] })
    const again = await shown(app, { prompt: 'consent' })
    expect(checked(again, 'value="chosen"')).toBe(true)
    expect(checked(again, 'value="all"')).toBe(false)
    expect(again).toContain(says)
    await app.tokens(visitor, { prompt: 'consent' }, { all: true })
    const everywhere = await shown(app, { prompt: 'consent' })
    expect(checked(everywhere, 'value="all"')).toBe(true)
    expect(checked(everywhere, 'name="organizations"')).toBe(false)
    expect(await shown(app, { prompt: 'consent', ui_locales: 'de' })).toContain('Nehmen Sie Organisationen weg, verliert die App sofort den Zugriff darauf.')
  })

  test('an unrestricted token gets access to an organization joined later, and a restricted token does not [S5-09]', async () => {
    const { visitor, here, person } = await openPerson(world)
    const [open, narrow] = [await openApp(world), await openApp(world)]
    const all = await open.tokens(visitor)
    const one = await narrow.tokens(visitor, {}, { organizations: [here.id] })
    const joined = await world.organization()
    await world.transact((tx) => insertMembership(tx, joined.id, person.id, 'member', tx.clock.wall()))
    expect(await seenBy(all.access_token)).toContain(joined.id)
    expect(await seenBy(one.access_token)).toEqual([here.id])
  })

  test('ends access to an organization with the next request after the user leaves it, and keeps access to the others [S5-10]', async () => {
    const { visitor, here, person, cookie } = await openPerson(world)
    const guest = await world.organization()
    await world.transact((tx) => insertMembership(tx, guest.id, person.id, 'member', tx.clock.wall()))
    const app = await openApp(world)
    const { access_token } = await app.tokens(visitor, {}, { organizations: [here.id, guest.id] })
    expect((await seenBy(access_token)).toSorted()).toEqual([guest.id, here.id].toSorted())
    await world.client({ cookie }).call(leaveOrganization, { params: { id: guest.id } })
    expect(await seenBy(access_token)).toEqual([here.id])
    expect((await exchange(world.port, 'GET', `/v1/organizations/${guest.id}`, { authorization: `Bearer ${access_token}` })).status).toBe(404)
  })

  test('shows previously granted scopes on the consent page, because the choice applies to all of them', async () => {
    const { visitor, here } = await openPerson(world)
    const app = await openApp(world)
    await app.tokens(visitor, { scope: 'refunds:write' }, { organizations: [here.id] })
    const asked = await visitor.get(`/oauth2/authorize?${new URLSearchParams(app.ask({ scope: 'openid', prompt: 'consent' })).toString()}`)
    expect(asked.answer.text).toContain('Refund payments')
  })

  test('asks for one organization if the app needs exactly one, and forbids an app restricted to some organizations to create one', async () => {
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

  test('asks for consent again when the user has left all chosen organizations', async () => {
    const { visitor, person } = await openPerson(world)
    const guest = await world.organization()
    await world.transact((tx) => insertMembership(tx, guest.id, person.id, 'member', tx.clock.wall()))
    const app = await openApp(world)
    await app.tokens(visitor, {}, { organizations: [guest.id] })
    expect((await visitor.authorize(app.ask())).asked).toBe(false)
    await world.database.owner((owner) => owner.query('delete from organization_members where organization_id = $1 and user_id = $2', [guest.id, person.id]))
    expect((await visitor.authorize(app.ask())).asked).toBe(true)
  })

  test('rejects an empty choice and organizations of other users on the consent page', async () => {
    const { visitor, here } = await openPerson(world)
    const stranger = await world.organization()
    const app = await openApp(world, { default_sub_type: 'organization' })
    for (const organizations of [[], [stranger.id], [here.id, stranger.id]]) {
      const { answer, at } = await visitor.authorize(app.ask(), { organizations })
      expect(at).toBe('')
      expect(answer.status).toBe(400)
    }
    // An app that needs one organization cannot get access to all organizations.
    expect((await visitor.authorize(app.ask(), { all: true })).at).toBe('')
    expect((await visitor.authorize(app.ask(), { organizations: [here.id] })).at).toContain('code=')
  })
})

describe('OAuth clients', () => {
  const anyone = () => world.client()
  const by = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })

  test('lets anonymous visitors register clients, which are managed with a registration token or by their owner', async () => {
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

  test('stores no client secret in plain text', async () => {
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

  test('removes the secret of a client that becomes public, and issues one to a client that becomes confidential', async () => {
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

  test('ends the verification of a client that changes its name or redirect URIs', async () => {
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

  test('revokes a leaked client secret, mails the owner, and issues a new one with the next update', async () => {
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

  test('revokes all tokens of a deleted client', async () => {
    const { visitor, cookie } = await openPerson(world)
    const app = await openApp(world)
    const { access_token, refresh_token } = await app.tokens(visitor)
    expect((await anyone().send(deleteClient, { params: { client_id: app.client_id }, ...by(app.registration_access_token) })).status).toBe(204)
    expect((await exchange(world.port, 'GET', '/v1/organizations/', { authorization: `Bearer ${access_token}` })).status).toBe(401)
    expect((await app.refresh(refresh_token)).status).toBe(401)
    expect((await world.client({ cookie }).call(listGrants, {})).items).toEqual([])
    expect((await visitor.authorize(app.ask())).answer.status).toBe(400)
  })

  test('limits client registrations per IP address', async () => {
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

describe('app grants of a user', () => {
  test('lists the app grants of a user, and withdraws them permanently', async () => {
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

  test('returns the data of a consent page as JSON for custom consent pages [S4-14]', async () => {
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

describe('OAuth protocol endpoints', () => {
  test('discovery names a documentation page that exists in both languages', async () => {
    for (const path of ['/.well-known/openid-configuration', '/.well-known/oauth-authorization-server']) {
      const { service_documentation } = JSON.parse((await exchange(world.port, 'GET', path)).text) as { service_documentation: string }
      const { pathname, origin } = new URL(service_documentation)
      expect(origin).toBe(world.config.public_url.origin)
      const page = await exchange(world.port, 'GET', pathname, { accept: 'text/html' })
      expect(page.status).toBe(200)
      expect(page.headers.get('content-type')).toContain('text/html')
      expect(page.text).toContain('/v1/oauth2/token')
      expect((await exchange(world.port, 'GET', `${pathname}?locale=de`, { accept: 'text/html' })).text).toContain('Für Entwickler')
      const [, openapi] = /href="([^"]*openapi\.json)"/.exec(page.text)!
      expect((await exchange(world.port, 'GET', new URL(openapi!).pathname)).status).toBe(200)
    }
  })

  test('OAuth responses contain the request id, version, rate limit and security headers of all other responses', async () => {
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
      // Responses that shared caches may store are not rate limited.
      expect(headers.has('ratelimit'), path).toBe(!path.startsWith('/.well-known'))
    }
    expect((await exchange(world.port, 'POST', '/v1/oauth2/token', { 'polar-version': '1999-01' })).status).toBe(404)
  })

  test('userinfo gives the reason for a rejected token in detail and error_description', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const { access_token } = await app.tokens(visitor, { scope: 'organizations:read' })
    for (const [token, status, error] of [
      ['bursar_test_at_unknown', 401, 'invalid_token'],
      [access_token, 403, 'insufficient_scope'],
    ] as const)
      for (const method of ['GET', 'POST']) {
        const answer = await exchange(world.port, method, '/v1/oauth2/userinfo', { authorization: `Bearer ${token}` })
        const body = JSON.parse(answer.text) as { error: string; detail: string; error_description: string }
        expect([answer.status, body.error]).toEqual([status, error])
        expect(body.detail).toMatch(/\w/)
        expect(body.detail).toBe(body.error_description)
      }
  })

  test('allows cross-origin token requests from the app’s own origin only', async () => {
    const app = await openApp(world, { token_endpoint_auth_method: 'none' })
    const ask = (origin: string) => app.form('/v1/oauth2/token', { grant_type: 'refresh_token', refresh_token: 'x', client_id: app.client_id }, { origin })
    expect((await ask('https://app.example')).headers.get('access-control-allow-origin')).toBe('https://app.example')
    expect((await ask('https://evil.example')).headers.get('access-control-allow-origin')).toBeNull()
  })

  test('does not fail on null bytes, and ignores the host of an absolute request URL', async () => {
    const app = await openApp(world)
    const zero = await exchange(world.port, 'GET', `/oauth2/authorize?${new URLSearchParams(app.ask()).toString()}&nonce=%00`)
    expect([zero.status, zero.headers.get('x-request-id') !== null]).toEqual([400, true])
    expect((await exchange(world.port, 'GET', '/oauth2/authorize?client_id=%00')).status).toBe(400)
    expect((await app.form('/v1/oauth2/token', { grant_type: 'refresh_token', refresh_token: '\0', client_id: '\0', client_secret: '\0' })).status).toBe(401)
    const found = await exchange(world.port, 'GET', 'http://evil.example/.well-known/openid-configuration')
    expect(found.status).toBe(200)
    expect(found.text).not.toContain('evil.example')
  })

  test('separates the idempotency keys of two apps of the same user', async () => {
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

  test('rejects the session grant type, although the contract declares it', async () => {
    const app = await openApp(world)
    expect(await app.token({ grant_type: 'web', session_token: 'x' })).toMatchObject({ status: 400, body: { error: 'unsupported_grant_type' } })
  })

  test('uses the host of BURSAR_AUTH_URL for authorization, and the API host for tokens', async () => {
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

  test('purges expired tokens, and keeps valid ones', async () => {
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
  test('verifies every id_token across three key rotations, with keys cached for as long as allowed [S5-06]', async () => {
    const own = await openWorld()
    try {
      const { visitor } = await openPerson(own)
      const app = await openApp(own)
      // Caches the published keys for the allowed five minutes on the test clock.
      let kept: { at: number; set: ReturnType<typeof createLocalJWKSet> } | undefined
      const keys = async () => {
        const now = own.clock.wall().getTime()
        if (!kept || now - kept.at >= 5 * minutes)
          kept = { at: now, set: createLocalJWKSet(JSON.parse((await exchange(own.port, 'GET', '/.well-known/jwks.json')).text) as JSONWebKeySet) }
        return kept.set
      }
      const kids = new Set<string>()
      let verified = 0
      const all = counted('TOKENS', 300, 60, 10)
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
          await eventually(`${after} tokens are verified`, async () => verified >= after || undefined)
          own.clock.advance(6 * minutes)
          // These keys were fetched just before the rotation, so the next signing key must already be published.
          await keys()
          expect(await own.transact((tx) => rotateKeys(tx, own.platform))).toBe('rotated')
          await own.api.oauth.refreshKeys()
        }
      }
      await app.tokens(visitor)
      await Promise.all([...Array.from({ length: 10 }, use), change()])
      expect(verified).toBe(all)
      // Issues one more token after the last rotation, in case all others were issued before it.
      await verify((await app.tokens(visitor)).id_token)
      expect(kids.size).toBe(4)
    } finally {
      await own.close()
    }
  })

  test('rotates the keys monthly, and deletes the private part of a retired key', async () => {
    const own = await openWorld({ worker: true })
    try {
      const deps = { transact: own.transactAsWorker, platform: own.platform } as Deps
      const states = async () => (await publishedKeys(own.api.postgres.db)).map(({ state }) => state)
      await tendKeys(deps)
      expect(await states()).toEqual(['active', 'next'])
      own.clock.advance(31 * 24 * 60 * minutes)
      await tendKeys(deps)
      expect((await states()).toSorted()).toEqual(['active', 'next', 'retiring'])
      own.clock.advance(3 * 60 * minutes)
      await tendKeys(deps)
      expect(await states()).toEqual(['active', 'next'])
      const { rows } = await own.database.owner((owner) => owner.query<{ sealed: string | null }>(`select sealed from signing_keys where state = 'retired'`))
      expect(rows).toEqual([{ sealed: null }])
    } finally {
      await own.close()
    }
  })
})

test('the authorization page asks a signed-out user to sign in, and ignores an ended session', async () => {
  const { visitor, cookie } = await openPerson(world)
  const app = await openApp(world)
  await app.tokens(visitor)
  const csrf = visitor.field((await visitor.get('/settings/apps')).answer.text, 'csrf')
  await visitor.post('/logout', { csrf })
  expect((await visitor.authorize(app.ask())).at).toContain('/login?')
  expect((await openVisitor(world, cookie).authorize(app.ask({ prompt: 'none' }))).at).toContain('error=login_required')
})

test('rejects more than 100 query parameters before they are read', async () => {
  const ask = (path: string, count: number) => exchange(world.port, 'GET', `${path}?${'a&'.repeat(count - 1)}a`)
  for (const path of ['/v1/oauth2/userinfo', '/oauth2/authorize', '/.well-known/openid-configuration']) {
    const before = process.threadCpuUsage()
    const answer = await ask(path, 7900)
    const { user, system } = process.threadCpuUsage(before)
    expect([path, answer.status, JSON.parse(answer.text)]).toEqual([
      path,
      400,
      { error: 'invalid_request', error_description: 'at most 100 query parameters are allowed' },
    ])
    // Reading them takes more than a second.
    expect(user + system).toBeLessThan(500_000)
    expect((await ask(path, 101)).status).toBe(400)
  }
  expect((await ask('/v1/oauth2/userinfo', 100)).status).toBe(401)
  expect((await ask('/.well-known/openid-configuration', 100)).status).toBe(200)
})

test('answers errors of the OAuth endpoints as JSON, even to a client that accepts HTML', async () => {
  for (const [method, path] of [
    ['GET', '/v1/oauth2/userinfo'],
    ['POST', '/v1/oauth2/token'],
    ['POST', '/v1/oauth2/introspect'],
  ] as const) {
    const answer = await exchange(
      world.port,
      method,
      path,
      { accept: 'text/html', 'content-type': 'application/x-www-form-urlencoded' },
      method === 'POST' ? 'a=b' : undefined,
    )
    expect([path, answer.headers.get('content-type')?.split(';')[0]]).toEqual([path, 'application/json'])
    expect(JSON.parse(answer.text)).toHaveProperty('error')
  }
})

test('answers 415 to a media type that cannot be read, and names the one to send', async () => {
  const answer = await exchange(world.port, 'POST', '/v1/oauth2/introspect', { 'content-type': 'x'.repeat(2000) }, 'token=x')
  expect([answer.status, JSON.parse(answer.text)]).toEqual([
    415,
    { error: 'UnsupportedMediaType', detail: 'Send the body as application/x-www-form-urlencoded.' },
  ])
})
