import { createHash, createHmac, createPublicKey } from 'node:crypto'
import { leaveOrganization, listOrganizations, registerClient, withdrawGrant } from '@bursar/contract'
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify, type JSONWebKeySet } from 'jose'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { newToken, sameText } from '../../src/kernel/secrets.ts'
import { insertMembership } from '../../src/modules/organizations/index.ts'
import { rotateKeys } from '../../src/modules/identity/index.ts'
import { days, minutes, seconds } from '../../src/platform/clock.ts'
import { callback, openApp, openPerson, openVisitor, pkce, type App } from '../harness/visitor.ts'
import { exchange, openWorld, type World } from '../harness/world.ts'

// The list of attacks on OAuth and OpenID Connect, one test each, by number and name.
let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
/** Whether a token lets anybody in, at this moment. */
const lets = async (token: string, where = world) => (await exchange(where.port, 'GET', '/v1/organizations/', bearer(token))).status === 200
const invalidGrant = { status: 400, body: { error: 'invalid_grant' } }
const publicly = { token_endpoint_auth_method: 'none' }

describe('code', () => {
  test('1 replay: refused, and every token of that authorization is revoked [S8-11]', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const code = await app.code(visitor)
    const first = await app.redeem(code)
    expect(first.status).toBe(200)
    world.clock.advance(6 * seconds)
    expect(await app.redeem(code)).toMatchObject(invalidGrant)
    expect(await lets(first.body.access_token as string)).toBe(false)
    expect(await app.refresh(first.body.refresh_token as string)).toMatchObject(invalidGrant)
  })

  test('1, from another address: at once', async () => {
    const proxied = await openWorld({ settings: { BURSAR_TRUSTED_PROXIES: '127.0.0.1' } })
    try {
      const app = await openApp(proxied)
      const { visitor } = await openPerson(proxied)
      const redeem = (code: string, from: string) =>
        app.form('/v1/oauth2/token', { grant_type: 'authorization_code', code, redirect_uri: callback, ...app.credentials() }, { 'x-forwarded-for': from })
      const code = await app.code(visitor)
      const thief = await redeem(code, '203.0.113.7')
      expect(thief.status).toBe(200)
      expect(await redeem(code, '198.51.100.9')).toMatchObject(invalidGrant)
      expect(await lets(thief.body.access_token as string, proxied)).toBe(false)
    } finally {
      await proxied.close()
    }
  })

  test('2 replay after 30 seconds, and when the code would have expired long ago', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const code = await app.code(visitor)
    const first = await app.redeem(code)
    world.clock.advance(31 * seconds)
    expect(await app.redeem(code)).toMatchObject(invalidGrant)
    expect(await lets(first.body.access_token as string)).toBe(false)
    const again = await app.code(visitor)
    const second = await app.redeem(again)
    world.clock.advance(10 * minutes)
    expect(await app.redeem(again)).toMatchObject(invalidGrant)
    expect(await lets(second.body.access_token as string)).toBe(false)
  })

  test('3 a hundred redemptions at once: one wins and keeps what it got, a later replay revokes it', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const code = await app.code(visitor)
    const answers = await Promise.all(Array.from({ length: 100 }, () => app.redeem(code)))
    const won = answers.filter(({ status }) => status === 200)
    expect(won).toHaveLength(1)
    for (const lost of answers.filter(({ status }) => status !== 200)) expect(lost).toMatchObject(invalidGrant)
    const token = won[0]!.body.access_token as string
    expect(await lets(token)).toBe(true)
    world.clock.advance(10 * seconds)
    expect(await app.redeem(code)).toMatchObject(invalidGrant)
    expect(await lets(token)).toBe(false)
  })

  test("4 another client's code", async () => {
    const { visitor } = await openPerson(world)
    const [app, other] = [await openApp(world), await openApp(world)]
    const code = await app.code(visitor)
    expect(await other.redeem(code)).toMatchObject(invalidGrant)
    expect((await app.redeem(code)).status).toBe(200)
  })

  test('5 another redirect_uri at the token endpoint', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world, { redirect_uris: [callback, 'https://app.example/other'] })
    expect(await app.redeem(await app.code(visitor), { redirect_uri: 'https://app.example/other' })).toMatchObject(invalidGrant)
  })

  test('6 no redirect_uri at the token endpoint', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const code = await app.code(visitor)
    expect(await app.token({ grant_type: 'authorization_code', code })).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
  })

  test('7 an expired code: 60 seconds and no more', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const code = await app.code(visitor)
    world.clock.advance(61 * seconds)
    expect(await app.redeem(code)).toMatchObject(invalidGrant)
  })

  test('8 the code of a person who is gone', async () => {
    const { visitor, person } = await openPerson(world)
    const app = await openApp(world)
    const code = await app.code(visitor)
    await world.database.owner((owner) => owner.query('update users set blocked_at = now() where id = $1', [person.id]))
    expect(await app.redeem(code)).toMatchObject(invalidGrant)
  })

  test('9 a code after the person withdrew', async () => {
    const { visitor, cookie } = await openPerson(world)
    const app = await openApp(world)
    const code = await app.code(visitor)
    await world.client({ cookie }).call(withdrawGrant, { params: { client_id: app.client_id } })
    expect(await app.redeem(code)).toMatchObject(invalidGrant)
  })

  test('10 a code of the sandbox in production, and the other way round', async () => {
    const production = await openWorld({ environment: 'production' })
    try {
      const here = await openApp(world)
      const there = await openApp(production)
      const code = await here.code((await openPerson(world)).visitor)
      const other = await there.code((await openPerson(production)).visitor)
      expect(await there.redeem(code)).toMatchObject(invalidGrant)
      expect(await here.redeem(other)).toMatchObject(invalidGrant)
      expect(code).toContain('bursar_test_ac_')
      expect(other).toContain('bursar_ac_')
    } finally {
      await production.close()
    }
  })

  test('11 a guessed code, and a cut one', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const code = await app.code(visitor)
    expect(await app.redeem(newToken('oauth_code', 'sandbox').reveal())).toMatchObject(invalidGrant)
    expect(await app.redeem(code.slice(0, -1))).toMatchObject(invalidGrant)
    expect(await app.redeem(`${code}a`)).toMatchObject(invalidGrant)
    expect((await app.redeem(code)).status).toBe(200)
  })

  test('12 a code in the log, or in a Referer', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const { at, answer } = await visitor.authorize(app.ask())
    expect(answer.headers.get('referrer-policy')).toBe('no-referrer')
    await app.redeem(app.codeOf(at))
    expect(world.lines.join('')).not.toContain(app.codeOf(at))
    expect(world.lines.join('')).not.toContain('code=')
  })
})

describe('PKCE', () => {
  test('13 a public client without a challenge is refused at authorization already [S5-04]', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world, publicly)
    const { at, asked } = await visitor.authorize(app.ask())
    expect(asked).toBe(false)
    expect(new URL(at).searchParams.get('error')).toBe('invalid_request')
  })

  test('14 the method "plain"', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world, publicly)
    const { code_verifier } = pkce()
    for (const more of [{ code_challenge: code_verifier, code_challenge_method: 'plain' }, { code_challenge: code_verifier }]) {
      const { at } = await visitor.authorize(app.ask(more))
      expect(new URL(at).searchParams.get('error')).toBe('invalid_request')
    }
  })

  test('15 a verifier where no challenge was sent', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    expect(await app.redeem(await app.code(visitor), { code_verifier: pkce().code_verifier })).toMatchObject(invalidGrant)
  })

  test('16 a challenge, and no verifier', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world, publicly)
    const { code_verifier: _, ...challenge } = pkce()
    expect(await app.redeem(await app.code(visitor, challenge))).toMatchObject(invalidGrant)
  })

  test('17 a wrong verifier', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world, publicly)
    const { code_verifier: _, ...challenge } = pkce()
    expect(await app.redeem(await app.code(visitor, challenge), { code_verifier: pkce().code_verifier })).toMatchObject(invalidGrant)
  })

  test('18 a verifier of 42 or 129 characters, or of others than allowed', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world, publicly)
    for (const code_verifier of ['a'.repeat(42), 'a'.repeat(129), `${'a'.repeat(50)}!`]) {
      const code_challenge = createHash('sha256').update(code_verifier).digest('base64url')
      const code = await app.code(visitor, { code_challenge, code_challenge_method: 'S256' })
      expect((await app.redeem(code, { code_verifier })).status).toBe(400)
    }
  })

  test('19 a challenge swapped between two sessions', async () => {
    const app = await openApp(world, publicly)
    const [mine, theirs] = [pkce(), pkce()]
    const challenge = ({ code_verifier: _, ...rest }: ReturnType<typeof pkce>) => rest
    await app.code((await openPerson(world)).visitor, challenge(mine))
    const code = await app.code((await openPerson(world)).visitor, challenge(theirs))
    expect(await app.redeem(code, { code_verifier: mine.code_verifier })).toMatchObject(invalidGrant)
  })

  test('20 a confidential client passes for a public one [S5-05]', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const { code_verifier, ...challenge } = pkce()
    const code = await app.code(visitor, challenge)
    const without = await app.form('/v1/oauth2/token', {
      grant_type: 'authorization_code',
      client_id: app.client_id,
      code,
      redirect_uri: callback,
      code_verifier,
    })
    expect(without).toMatchObject({ status: 401, body: { error: 'invalid_client' } })
    expect((await app.redeem(code, { code_verifier })).status).toBe(200)
  })
})

describe('redirect_uri [S4-15]', () => {
  /** An address that is not the registered one: a page of ours, and nobody is sent anywhere. */
  const refuses = async (redirect_uri: string) => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const { at, answer } = await visitor.authorize(app.ask({ redirect_uri }))
    expect(at, redirect_uri).toBe('')
    expect(answer.status, redirect_uri).toBe(400)
    expect(answer.headers.get('location')).toBeNull()
    expect(answer.text).toContain('redirect_uri')
  }
  test('21 a prefix of it', () => refuses('https://app.example/call'))
  test('22 a suffix to it', () => refuses(`${callback}2`))
  test('23 a sub-domain', () => refuses('https://evil.app.example/callback'))
  test('24 one more step in the path', () => refuses(`${callback}/more`))
  test('25 a query added', () => refuses(`${callback}?next=https://evil.example`))
  test('26 a fragment', () => refuses(`${callback}#evil`))
  test('27 a user in it', () => refuses('https://app.example@evil.example/callback'))
  test('28 a backslash', () => refuses('https://evil.example\\@app.example/callback'))
  test('29 %2e%2e', () => refuses('https://app.example/x/%2e%2e/callback'))
  test('30 other case', () => refuses('https://app.example/Callback'))
  test('31 a dot or slash at the end', async () => {
    await refuses(`${callback}/`)
    await refuses('https://app.example./callback')
  })
  test('32 another port', async () => {
    await refuses('https://app.example:8443/callback')
    await refuses('https://app.example:443/callback')
  })
  test('33 a look-alike name', async () => {
    await refuses('https://аpp.example/callback')
    await refuses('https://xn--pp-7cd.example/callback')
  })
  test('34 javascript: and data:', async () => {
    await refuses('javascript:alert(1)//https://app.example/callback')
    await refuses('data:text/html,https://app.example/callback')
  })

  test('also on this machine the port is part of the address', async () => {
    const { visitor } = await openPerson(world)
    const { code_verifier: _, ...challenge } = pkce()
    const app = await openApp(world, { ...publicly, redirect_uris: ['http://127.0.0.1:4000/callback'] })
    expect((await visitor.authorize(app.ask({ ...challenge, redirect_uri: 'http://127.0.0.1:4001/callback' }))).at).toBe('')
    expect((await visitor.authorize(app.ask(challenge))).at).toContain('http://127.0.0.1:4000/callback?code=')
  })

  test('two of them at once, and an unknown client: a page, never a redirect', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const twice = await visitor.get(`/oauth2/authorize?${new URLSearchParams(app.ask()).toString()}&redirect_uri=${encodeURIComponent('https://evil.example')}`)
    expect(twice.at).toBe('')
    expect(twice.answer.status).toBe(400)
    const unknown = await visitor.authorize(app.ask({ client_id: 'bursar_test_ci_unknown' }))
    expect(unknown.at).toBe('')
    expect(unknown.answer.text).toContain('invalid_client')
  })

  test('after consent the browser is sent on with 303, so that the form is not sent along', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const { answer } = await visitor.authorize(app.ask())
    expect(answer.status).toBe(303)
  })
})

describe('mix-up, CSRF, clickjacking', () => {
  test('35 iss is present and right, in success and in error', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const issuer = world.config.public_url.origin
    expect(new URL((await visitor.authorize(app.ask())).at).searchParams.get('iss')).toBe(issuer)
    const denied = new URL((await visitor.authorize(app.ask({ prompt: 'consent' }), { deny: true })).at).searchParams
    expect(Object.fromEntries(denied)).toMatchObject({ error: 'access_denied', iss: issuer, state: 'the state' })
  })

  test('36 state comes back exactly', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    for (const state of ['a b+c%20d', 'ünï&=?#', '"><script>'])
      expect(new URL((await visitor.authorize(app.ask({ state }))).at).searchParams.get('state')).toBe(state)
    expect(new URL((await visitor.authorize(app.ask({ state: 'x y', response_type: 'token' }))).at).searchParams.get('state')).toBe('x y')
  })

  test('37 consent without the proof of our form, or from another origin', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const shown = await visitor.get(`/oauth2/authorize?${new URLSearchParams(app.ask()).toString()}`)
    const csrf = visitor.field(shown.answer.text, 'csrf')
    const form = { action: 'allow', reach: 'all' }
    for (const [fields, headers] of [
      [form, {}],
      [{ ...form, csrf: '0'.repeat(64) }, {}],
      [{ ...form, csrf }, { origin: 'https://evil.example' }],
      [{ ...form, csrf }, { 'sec-fetch-site': 'cross-site' }],
    ] as [Record<string, string>, Record<string, string>][])
      expect((await visitor.post(shown.at, fields, headers)).answer.status).toBe(403)
    const other = openVisitor(world, await (await world.person()).cookie())
    expect((await other.post(shown.at, { ...form, csrf })).answer.status).toBe(403)
    expect((await visitor.post(shown.at, { ...form, csrf })).at).toContain('code=')
  })

  test('38 consent in a frame', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const { answer } = await visitor.get(`/oauth2/authorize?${new URLSearchParams(app.ask()).toString()}`)
    expect(answer.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
    expect(answer.headers.get('x-frame-options')).toBe('DENY')
    expect(answer.headers.get('cross-origin-opener-policy')).toBe('same-origin')
  })

  test('39 a sign-in that another page sends', async () => {
    const visitor = openVisitor(world)
    const { answer } = await visitor.get('/login')
    const csrf = visitor.field(answer.text, 'csrf')
    const fields = { csrf, step: 'email', email: 'somebody@people.test' }
    expect((await visitor.post('/login', fields, { origin: 'https://evil.example' })).answer.status).toBe(403)
    expect((await openVisitor(world).post('/login', fields)).answer.status).toBe(403)
    expect((await visitor.post('/login', fields)).answer.status).toBe(200)
  })

  test('40 a session that somebody else laid into the browser: signing in makes a new one', async () => {
    const working = await openWorld({ worker: true })
    try {
      const there = await working.person()
      const other = await (await working.person()).cookie()
      const visitor = openVisitor(working, other)
      const { answer } = await visitor.get('/login?again=1')
      const csrf = visitor.field(answer.text, 'csrf')
      const shown = await visitor.post('/login', { csrf, step: 'email', email: there.email })
      const { text } = await working.mail.next(there.email)
      const code = /[2-9A-Z]{4}-[2-9A-Z]{4}/.exec(text)![0]
      await visitor.post('/login', { csrf: visitor.field(shown.answer.text, 'csrf'), step: 'code', email: there.email, code, return_to: '/settings/apps' })
      const now = [...visitor.jar].find(([name]) => name.endsWith('_session'))![1].value
      expect(`=${now}`).not.toBe(other.slice(other.indexOf('=')))
      // The one that was planted is over.
      expect((await openVisitor(working, other).get('/settings/apps')).at).toContain('/login')
    } finally {
      await working.close()
    }
  })

  test('41 new scopes are asked for again, and so is everything by an app that cannot prove who it is', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    expect((await visitor.authorize(app.ask({ scope: 'openid' }))).asked).toBe(true)
    expect((await visitor.authorize(app.ask({ scope: 'openid' }))).asked).toBe(false)
    const more = await visitor.authorize(app.ask({ scope: 'openid orders:read' }))
    expect(more.asked).toBe(true)
    expect('page' in more && more.page).toContain('class="fresh"')
    // What was allowed adds up: less than both is not asked again.
    expect((await visitor.authorize(app.ask({ scope: 'orders:read' }))).asked).toBe(false)
    const native = await openApp(world, { ...publicly, redirect_uris: ['com.example.app:/callback'] })
    for (let round = 0; round < 2; round++) {
      const { code_verifier: _, ...challenge } = pkce()
      expect((await visitor.authorize(native.ask(challenge))).asked).toBe(true)
    }
  })
})

describe('tokens', () => {
  test('42 a refresh token used twice: the family is revoked', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const first = await app.tokens(visitor)
    const second = await app.refresh(first.refresh_token)
    expect(second.status).toBe(200)
    world.clock.advance(31 * seconds)
    expect(await app.refresh(first.refresh_token)).toMatchObject(invalidGrant)
    expect(await lets(second.body.access_token as string)).toBe(false)
    expect(await app.refresh(second.body.refresh_token as string)).toMatchObject(invalidGrant)
  })

  test('43 a hundred refreshes with one token give one successor pair; long after, it revokes [S4-33]', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const first = await app.tokens(visitor)
    world.clock.hold()
    onTestFinished(() => world.clock.release())
    const answers = await Promise.all(Array.from({ length: 100 }, () => app.refresh(first.refresh_token)))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    expect(new Set(answers.map(({ body }) => `${body.access_token as string} ${body.refresh_token as string}`)).size).toBe(1)
    const pair = answers[0]!.body as { access_token: string; refresh_token: string }
    expect(pair.refresh_token).not.toBe(first.refresh_token)
    expect(await lets(pair.access_token)).toBe(true)
    world.clock.advance(20 * seconds)
    expect((await app.refresh(first.refresh_token)).body.refresh_token).toBe(pair.refresh_token)
    world.clock.advance(20 * seconds)
    expect(await app.refresh(first.refresh_token)).toMatchObject(invalidGrant)
    expect(await lets(pair.access_token)).toBe(false)
  })

  test('44 a refresh for more than was given; for less it is less', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const { refresh_token } = await app.tokens(visitor, { scope: 'openid organizations:read products:read' })
    expect(await app.refresh(refresh_token, { scope: 'openid orders:read' })).toMatchObject({ status: 400, body: { error: 'invalid_scope' } })
    const less = await app.refresh(refresh_token, { scope: 'organizations:read' })
    expect(less.body.scope).toBe('organizations:read')
    // The same old token, asked for all: another access token, which can do what the first cannot.
    const all = await app.refresh(refresh_token)
    expect(all.body.access_token).not.toBe(less.body.access_token)
    const products = (token: unknown) => exchange(world.port, 'GET', '/v1/products/', bearer(token as string))
    expect((await products(less.body.access_token)).status).toBe(403)
    expect((await products(all.body.access_token)).status).toBe(200)
  })

  test('45 a refresh by another client', async () => {
    const { visitor } = await openPerson(world)
    const [app, other] = [await openApp(world), await openApp(world)]
    const { refresh_token } = await app.tokens(visitor)
    expect(await other.refresh(refresh_token)).toMatchObject(invalidGrant)
    expect((await app.refresh(refresh_token)).status).toBe(200)
  })

  test('46 refresh tokens live 90 days from their last use, and a year at most; access tokens ten days from every grant [S8-10]', async () => {
    const old = await openWorld()
    try {
      const { visitor } = await openPerson(old)
      const app = await openApp(old)
      const begun = await app.tokens(visitor)
      let { refresh_token } = begun
      const idle = (await app.tokens(visitor)).refresh_token
      expect(begun.expires_in).toBe(864_000)
      for (let day = 80; day <= 320; day += 80) {
        old.clock.advance(80 * days)
        const next = await app.refresh(refresh_token)
        expect(next.status, `after ${day} days`).toBe(200)
        expect(next.body.expires_in).toBe(864_000)
        refresh_token = next.body.refresh_token as string
      }
      expect(await app.refresh(idle)).toMatchObject(invalidGrant)
      old.clock.advance(46 * days)
      expect(await app.refresh(refresh_token)).toMatchObject(invalidGrant)
    } finally {
      await old.close()
    }
  })

  test('47 an access token after revocation, after leaving, after withdrawal: refused with the next request [S5-10]', async () => {
    const { visitor, cookie, person, here } = await openPerson(world)
    const app = await openApp(world)
    const revoked = await app.tokens(visitor)
    const kept = await app.tokens(visitor)
    expect((await app.revoke(revoked.access_token)).status).toBe(200)
    expect(await lets(revoked.access_token)).toBe(false)
    expect(await lets(kept.access_token)).toBe(true)

    const guest = await world.organization()
    await world.transact((tx) => insertMembership(tx, guest.id, person.id, 'member', tx.clock.business()))
    const api = world.client({ token: kept.access_token })
    const sees = async () => (await api.call(listOrganizations, { query: { limit: 100 } })).items.map(({ id }) => id)
    expect(await sees()).toContain(guest.id)
    await world.client({ cookie }).call(leaveOrganization, { params: { id: guest.id } })
    expect(await sees()).not.toContain(guest.id)
    expect(await sees()).toContain(here.id)

    await world.client({ cookie }).call(withdrawGrant, { params: { client_id: app.client_id } })
    expect(await lets(kept.access_token)).toBe(false)
    expect(await app.refresh(kept.refresh_token)).toMatchObject(invalidGrant)
  })

  test('48 revoking an unknown token is a success', async () => {
    const app = await openApp(world)
    expect(await app.revoke('nothing')).toMatchObject({ status: 200, body: {} })
    expect(await app.revoke(newToken('oauth_access', 'sandbox').reveal())).toMatchObject({ status: 200, body: {} })
  })

  test("49 revoking another client's token does nothing", async () => {
    const { visitor } = await openPerson(world)
    const [app, other] = [await openApp(world), await openApp(world)]
    const { access_token } = await app.tokens(visitor)
    await other.revoke(access_token)
    expect(await lets(access_token)).toBe(true)
  })

  test('50 introspection tells nothing to strangers', async () => {
    const { visitor } = await openPerson(world)
    const [app, other] = [await openApp(world), await openApp(world)]
    const { access_token } = await app.tokens(visitor)
    expect((await app.form('/v1/oauth2/introspect', { token: access_token })).status).toBe(400)
    expect((await app.form('/v1/oauth2/introspect', { token: access_token, client_id: app.client_id })).status).toBe(401)
    expect((await other.introspect(access_token)).body).toEqual({ active: false })
    expect((await app.introspect(access_token)).body.active).toBe(true)
  })

  test('51 organizations: empty when unrestricted, those chosen when restricted [S4-32]', async () => {
    const { visitor, here, there } = await openPerson(world)
    const app = await openApp(world)
    const all = await app.tokens(visitor)
    expect((await app.introspect(all.access_token)).body.organizations).toEqual([])
    const narrowed = await app.tokens(visitor, { prompt: 'consent' }, { organizations: [there.id] })
    expect((await app.introspect(narrowed.access_token)).body.organizations).toEqual([there.id])
    const seen = await world.client({ token: narrowed.access_token }).call(listOrganizations, {})
    expect(seen.items.map(({ id }) => id)).toEqual([there.id])
    // What the person says now counts for what the app got before.
    const before = await world.client({ token: all.access_token }).call(listOrganizations, {})
    expect(before.items.map(({ id }) => id)).not.toContain(here.id)
  })

  test('52 a token in the address', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const { access_token } = await app.tokens(visitor)
    expect((await exchange(world.port, 'GET', `/v1/organizations/?access_token=${access_token}`)).status).toBe(401)
    expect((await exchange(world.port, 'GET', `/v1/oauth2/userinfo?access_token=${access_token}`)).status).not.toBe(200)
  })

  test('53 an id_token, a refresh token or a code as bearer', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const { id_token, refresh_token } = await app.tokens(visitor)
    const code = await app.code(visitor)
    for (const wrong of [id_token, refresh_token, code]) {
      expect((await exchange(world.port, 'GET', '/v1/organizations/', bearer(wrong))).status).toBe(401)
      expect((await exchange(world.port, 'GET', '/v1/oauth2/userinfo', bearer(wrong))).status).toBe(401)
    }
  })

  test('54 a token for somebody else', async () => {
    const { visitor } = await openPerson(world)
    const [app, other] = [await openApp(world), await openApp(world)]
    const { access_token, id_token } = await app.tokens(visitor)
    expect((await app.introspect(access_token)).body.aud).toBe(app.client_id)
    const keys = createLocalJWKSet(await jwks())
    await expect(jwtVerify(id_token, keys, { audience: other.client_id })).rejects.toThrow('aud')
    const hint = await visitor.authorize(other.ask({ id_token_hint: id_token, prompt: 'none' }))
    expect(new URL(hint.at).searchParams.get('error')).toBe('invalid_request')
  })

  test('55 a token of the sandbox in production', async () => {
    const production = await openWorld({ environment: 'production' })
    try {
      const { visitor } = await openPerson(world)
      const { access_token } = await (await openApp(world)).tokens(visitor)
      expect(await lets(access_token, production)).toBe(false)
      expect((await exchange(production.port, 'GET', '/v1/oauth2/userinfo', bearer(access_token))).status).toBe(401)
    } finally {
      await production.close()
    }
  })
})

const jwks = async (where = world) => JSON.parse((await exchange(where.port, 'GET', '/.well-known/jwks.json')).text) as JSONWebKeySet

describe('id_token and keys', () => {
  /** How a forged hint about who is signed in is taken. */
  const hinted = async (app: App, visitor: Awaited<ReturnType<typeof openPerson>>['visitor'], id_token_hint: string) =>
    new URL((await visitor.authorize(app.ask({ id_token_hint, prompt: 'none' }))).at).searchParams.get('error')
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

  const signedIn = async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const tokens = await app.tokens(visitor, { nonce: 'the nonce' })
    return { visitor, app, tokens, claims: decodeJwt(tokens.id_token), header: decodeProtectedHeader(tokens.id_token) }
  }

  test('56 alg=none', async () => {
    const { visitor, app, tokens, claims } = await signedIn()
    expect(await hinted(app, visitor, tokens.id_token)).toBeNull()
    expect(await hinted(app, visitor, `${part({ alg: 'none' })}.${part(claims)}.`)).toBe('invalid_request')
  })

  test('57 HS256 with the public key', async () => {
    const { visitor, app, claims, header } = await signedIn()
    const key = (await jwks()).keys.find(({ kid }) => kid === header.kid)!
    const pem = createPublicKey({ key, format: 'jwk' }).export({ type: 'spki', format: 'pem' })
    const text = `${part({ alg: 'HS256', kid: header.kid })}.${part(claims)}`
    expect(await hinted(app, visitor, `${text}.${createHmac('sha256', pem).update(text).digest('base64url')}`)).toBe('invalid_request')
  })

  test('58 a wrong kid, and a changed claim [S5-06]', async () => {
    const { visitor, app, tokens, header } = await signedIn()
    expect(header).toMatchObject({ alg: 'RS256', kid: expect.any(String) as string })
    const [, body, signature] = tokens.id_token.split('.')
    expect(await hinted(app, visitor, `${part({ ...header, kid: 'other' })}.${body}.${signature}`)).toBe('invalid_request')
    expect(await hinted(app, visitor, `${part(header)}.${part({ ...decodeJwt(tokens.id_token), sub: 'other' })}.${signature}`)).toBe('invalid_request')
  })

  test('59 the nonce is the one that was sent, and none when none was', async () => {
    const { app, visitor, claims } = await signedIn()
    expect(claims.nonce).toBe('the nonce')
    expect(decodeJwt((await app.tokens(visitor)).id_token)).not.toHaveProperty('nonce')
  })

  test('60 aud, iss, at_hash, auth_time', async () => {
    const { app, tokens, claims } = await signedIn()
    const half = createHash('sha256').update(tokens.access_token).digest().subarray(0, 16).toString('base64url')
    expect(claims).toMatchObject({ aud: app.client_id, iss: world.config.public_url.origin, at_hash: half, auth_time: expect.any(Number) as number })
    await expect(
      jwtVerify(tokens.id_token, createLocalJWKSet(await jwks()), { audience: app.client_id, issuer: world.config.public_url.origin }),
    ).resolves.toBeDefined()
  })

  test('61 old id_tokens verify while keys change, and nothing private is published', async () => {
    const own = await openWorld()
    try {
      const { visitor } = await openPerson(own)
      const app = await openApp(own)
      const before = await app.tokens(visitor)
      own.clock.advance(6 * minutes)
      expect(await own.transact((tx) => rotateKeys(tx, own.platform))).toBe('rotated')
      expect(await own.transact((tx) => rotateKeys(tx, own.platform))).toBe('too_soon')
      await own.api.oauth.refreshKeys()
      const after = await app.tokens(visitor)
      const published = await jwks(own)
      expect(published.keys).toHaveLength(3)
      for (const key of published.keys) expect(Object.keys(key).toSorted()).toEqual(['alg', 'e', 'kid', 'kty', 'n', 'use'])
      expect(decodeProtectedHeader(after.id_token).kid).not.toBe(decodeProtectedHeader(before.id_token).kid)
      for (const { id_token } of [before, after]) await expect(jwtVerify(id_token, createLocalJWKSet(published))).resolves.toBeDefined()
    } finally {
      await own.close()
    }
  })
})

describe('clients', () => {
  test('62 guessing a secret: takes the same time wherever it is wrong, and soon comes to an end', async () => {
    const strict = await openWorld({
      settings: { BURSAR_BUDGETS: JSON.stringify({ api: [[1_000_000, 60]], registration: [[100, 60]], failed_authentications: [[5, 60]] }) },
    })
    try {
      const app = await openApp(strict)
      const statuses: number[] = []
      for (let round = 0; round < 8; round++) {
        const guess = newToken('client_secret', 'sandbox').reveal()
        statuses.push(
          (await app.form('/v1/oauth2/token', { grant_type: 'refresh_token', refresh_token: 'x', client_id: app.client_id, client_secret: guess })).status,
        )
      }
      expect(statuses).toEqual([401, 401, 401, 401, 401, 429, 429, 429])
    } finally {
      await strict.close()
    }
    // What is compared are keyed hashes, and the comparison does not stop where they differ: Welch's t over interleaved samples.
    const right = 'f'.repeat(64)
    const wrongs = [`0${right.slice(1)}`, `${right.slice(0, 63)}0`]
    const times: [number[], number[]] = [[], []]
    for (let round = 0; round < 40_000; round++) {
      const at = (round & 1) as 0 | 1
      const started = process.hrtime.bigint()
      sameText(right, wrongs[at]!)
      times[at].push(Number(process.hrtime.bigint() - started))
    }
    const trimmed = times.map((list) => list.toSorted((a, b) => a - b).slice(0, Math.floor(list.length * 0.9))) as [number[], number[]]
    const [a, b] = trimmed.map((list) => {
      const mean = list.reduce((sum, one) => sum + one, 0) / list.length
      return { mean, spread: list.reduce((sum, one) => sum + (one - mean) ** 2, 0) / (list.length - 1) / list.length }
    }) as [{ mean: number; spread: number }, { mean: number; spread: number }]
    const t = Math.abs(a.mean - b.mean) / Math.sqrt(a.spread + b.spread)
    expect(t).toBeLessThan(10)
  })

  test('63 a secret in the address', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const code = await app.code(visitor)
    const answer = await app.form(`/v1/oauth2/token?client_id=${app.client_id}&client_secret=${app.client_secret}`, {
      grant_type: 'authorization_code',
      code,
      redirect_uri: callback,
    })
    expect(answer.status).toBe(400)
    expect((await app.redeem(code)).status).toBe(200)
  })

  test('64 a registration with hostile addresses', async () => {
    const api = world.client()
    const tries: Record<string, unknown>[] = [
      ...[
        'javascript:alert(1)',
        'data:text/html,x',
        'http://app.example/callback',
        'https://user@app.example/callback',
        'https://app.example/#x',
        'https://*.app.example/callback',
        'http://localhost.evil.example/',
        'http://169.254.169.254/latest',
        'app:/callback',
        'not an address',
      ].map((uri) => ({ redirect_uris: [uri] })),
      ...['javascript:alert(1)', 'http://app.example/logo.png', 'file:///etc/passwd', 'https://127.0.0.1/logo.png'].flatMap((uri) =>
        ['logo_uri', 'tos_uri', 'policy_uri', 'client_uri'].map((field) => ({ [field]: uri })),
      ),
      { client_name: 'two\nlines' },
      { scope: 'organization_access_tokens:write' },
      { grant_types: ['client_credentials'] },
    ]
    for (const wish of tries) {
      const { status } = await api.send(registerClient, { body: { client_name: 'X', redirect_uris: [callback], ...wish } })
      expect(status, JSON.stringify(wish)).toBe(422)
    }
    // What no token may hold, no client gets.
    const greedy = await api.call(registerClient, { body: { client_name: 'X', redirect_uris: [callback], scope: 'openid organization_access_tokens:write' } })
    expect(greedy.scope).toBe('openid')
    // What is text stays text.
    const { visitor } = await openPerson(world)
    const app = await openApp(world, { client_name: '<script>alert(1)</script>' })
    const { answer } = await visitor.get(`/oauth2/authorize?${new URLSearchParams(app.ask()).toString()}`)
    expect(answer.text).not.toContain('<script')
    expect(answer.text).toContain('&lt;script&gt;')
  })
})
