import { createHash, createHmac, createPublicKey } from 'node:crypto'
import { leaveOrganization, listOrganizations, registerClient, withdrawGrant } from '@bursar/contract'
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify, type JSONWebKeySet } from 'jose'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { newToken, sameText } from '../../../src/kernel/secrets.ts'
import { insertMembership } from '../../../src/modules/organizations/index.ts'
import { rotateKeys } from '../../../src/modules/identity/index.ts'
import { days, minutes, seconds } from '../../../src/platform/clock.ts'
import { callback, openApp, openPerson, openVisitor, pkce, type App } from '../../harness/visitor.ts'
import { exchange, openWorld, type World } from '../../harness/world.ts'

// Attacks on OAuth and OpenID Connect. The end of a title gives the number of the attack.
let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
/** Returns true if the API accepts the access token now. */
const lets = async (token: string, where = world) => (await exchange(where.port, 'GET', '/v1/organizations/', bearer(token))).status === 200
const invalidGrant = { status: 400, body: { error: 'invalid_grant' } }
const publicly = { token_endpoint_auth_method: 'none' }

describe('authorization codes', () => {
  test('refuses a replayed code, and revokes every token of its authorization (attack 1) [S8-11]', async () => {
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

  test('revokes the tokens of a code at once if the code is replayed from another IP address (attack 1)', async () => {
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

  test('refuses a code that is replayed after 30 seconds, or after the code has expired, and revokes its tokens (attack 2)', async () => {
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

  test('lets one of a hundred parallel redemptions of a code succeed, and revokes its tokens on a later replay (attack 3)', async () => {
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

  test('refuses to redeem a code that was issued to another client (attack 4)', async () => {
    const { visitor } = await openPerson(world)
    const [app, other] = [await openApp(world), await openApp(world)]
    const code = await app.code(visitor)
    expect(await other.redeem(code)).toMatchObject(invalidGrant)
    expect((await app.redeem(code)).status).toBe(200)
  })

  test('refuses a redirect_uri at the token endpoint that differs from the one of the authorization request (attack 5)', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world, { redirect_uris: [callback, 'https://app.example/other'] })
    expect(await app.redeem(await app.code(visitor), { redirect_uri: 'https://app.example/other' })).toMatchObject(invalidGrant)
  })

  test('refuses a token request without redirect_uri (attack 6)', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const code = await app.code(visitor)
    expect(await app.token({ grant_type: 'authorization_code', code })).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
  })

  test('refuses a code that is more than 60 seconds old (attack 7)', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const code = await app.code(visitor)
    world.clock.advance(61 * seconds)
    expect(await app.redeem(code)).toMatchObject(invalidGrant)
  })

  test('refuses the code of a person who was blocked after the consent (attack 8)', async () => {
    const { visitor, person } = await openPerson(world)
    const app = await openApp(world)
    const code = await app.code(visitor)
    await world.database.owner((owner) => owner.query('update users set blocked_at = now() where id = $1', [person.id]))
    expect(await app.redeem(code)).toMatchObject(invalidGrant)
  })

  test('refuses a code after the person has withdrawn the grant of the app (attack 9)', async () => {
    const { visitor, cookie } = await openPerson(world)
    const app = await openApp(world)
    const code = await app.code(visitor)
    await world.client({ cookie }).call(withdrawGrant, { params: { client_id: app.client_id } })
    expect(await app.redeem(code)).toMatchObject(invalidGrant)
  })

  test('refuses a sandbox code in production and a production code in the sandbox (attack 10)', async () => {
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

  test('refuses guessed, truncated and extended codes (attack 11)', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const code = await app.code(visitor)
    expect(await app.redeem(newToken('oauth_code', 'sandbox').reveal())).toMatchObject(invalidGrant)
    expect(await app.redeem(code.slice(0, -1))).toMatchObject(invalidGrant)
    expect(await app.redeem(`${code}a`)).toMatchObject(invalidGrant)
    expect((await app.redeem(code)).status).toBe(200)
  })

  test('writes no code to the log, and forbids browsers to send a Referer header (attack 12)', async () => {
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
  test('refuses an authorization request of a public client without a code challenge (attack 13) [S5-04]', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world, publicly)
    const { at, asked } = await visitor.authorize(app.ask())
    expect(asked).toBe(false)
    expect(new URL(at).searchParams.get('error')).toBe('invalid_request')
  })

  test('refuses the code challenge method "plain", named or by default (attack 14)', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world, publicly)
    const { code_verifier } = pkce()
    for (const more of [{ code_challenge: code_verifier, code_challenge_method: 'plain' }, { code_challenge: code_verifier }]) {
      const { at } = await visitor.authorize(app.ask(more))
      expect(new URL(at).searchParams.get('error')).toBe('invalid_request')
    }
  })

  test('refuses a code verifier if the authorization request had no challenge (attack 15)', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    expect(await app.redeem(await app.code(visitor), { code_verifier: pkce().code_verifier })).toMatchObject(invalidGrant)
  })

  test('refuses a token request without verifier if the authorization request had a challenge (attack 16)', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world, publicly)
    const { code_verifier: _, ...challenge } = pkce()
    expect(await app.redeem(await app.code(visitor, challenge))).toMatchObject(invalidGrant)
  })

  test('refuses a code verifier that does not match the challenge (attack 17)', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world, publicly)
    const { code_verifier: _, ...challenge } = pkce()
    expect(await app.redeem(await app.code(visitor, challenge), { code_verifier: pkce().code_verifier })).toMatchObject(invalidGrant)
  })

  test('refuses a code verifier of 42 or 129 characters, or with a forbidden character (attack 18)', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world, publicly)
    for (const code_verifier of ['a'.repeat(42), 'a'.repeat(129), `${'a'.repeat(50)}!`]) {
      const code_challenge = createHash('sha256').update(code_verifier).digest('base64url')
      const code = await app.code(visitor, { code_challenge, code_challenge_method: 'S256' })
      expect((await app.redeem(code, { code_verifier })).status).toBe(400)
    }
  })

  test('refuses the code verifier of another authorization request (attack 19)', async () => {
    const app = await openApp(world, publicly)
    const [mine, theirs] = [pkce(), pkce()]
    const challenge = ({ code_verifier: _, ...rest }: ReturnType<typeof pkce>) => rest
    await app.code((await openPerson(world)).visitor, challenge(mine))
    const code = await app.code((await openPerson(world)).visitor, challenge(theirs))
    expect(await app.redeem(code, { code_verifier: mine.code_verifier })).toMatchObject(invalidGrant)
  })

  test('refuses a confidential client that sends PKCE instead of its secret (attack 20) [S5-05]', async () => {
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
  /** Asserts that the authorization endpoint answers this unregistered redirect_uri with an error page, not a redirect. */
  const refuses = async (redirect_uri: string) => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const { at, answer } = await visitor.authorize(app.ask({ redirect_uri }))
    expect(at, redirect_uri).toBe('')
    expect(answer.status, redirect_uri).toBe(400)
    expect(answer.headers.get('location')).toBeNull()
    expect(answer.text).toContain('redirect_uri')
  }
  test('refuses a redirect_uri that is a prefix of the registered one (attack 21)', () => refuses('https://app.example/call'))
  test('refuses a redirect_uri with an added suffix (attack 22)', () => refuses(`${callback}2`))
  test('refuses a redirect_uri on a subdomain of the registered host (attack 23)', () => refuses('https://evil.app.example/callback'))
  test('refuses a redirect_uri with an added path segment (attack 24)', () => refuses(`${callback}/more`))
  test('refuses a redirect_uri with an added query (attack 25)', () => refuses(`${callback}?next=https://evil.example`))
  test('refuses a redirect_uri with a fragment (attack 26)', () => refuses(`${callback}#evil`))
  test('refuses a redirect_uri whose user information looks like the registered host (attack 27)', () => refuses('https://app.example@evil.example/callback'))
  test('refuses a redirect_uri with a backslash in the host (attack 28)', () => refuses('https://evil.example\\@app.example/callback'))
  test('refuses a redirect_uri with a path that contains an encoded ".." (attack 29)', () => refuses('https://app.example/x/%2e%2e/callback'))
  test('refuses a redirect_uri in another letter case (attack 30)', () => refuses('https://app.example/Callback'))
  test('refuses a redirect_uri with a trailing slash, or a dot after the host (attack 31)', async () => {
    await refuses(`${callback}/`)
    await refuses('https://app.example./callback')
  })
  test('refuses a redirect_uri with a port, even the default port (attack 32)', async () => {
    await refuses('https://app.example:8443/callback')
    await refuses('https://app.example:443/callback')
  })
  test('refuses a redirect_uri whose host only looks like the registered one (attack 33)', async () => {
    await refuses('https://аpp.example/callback')
    await refuses('https://xn--pp-7cd.example/callback')
  })
  test('refuses a redirect_uri with the scheme javascript: or data: (attack 34)', async () => {
    await refuses('javascript:alert(1)//https://app.example/callback')
    await refuses('data:text/html,https://app.example/callback')
  })

  test('refuses a loopback redirect_uri with another port than the registered one', async () => {
    const { visitor } = await openPerson(world)
    const { code_verifier: _, ...challenge } = pkce()
    const app = await openApp(world, { ...publicly, redirect_uris: ['http://127.0.0.1:4000/callback'] })
    expect((await visitor.authorize(app.ask({ ...challenge, redirect_uri: 'http://127.0.0.1:4001/callback' }))).at).toBe('')
    expect((await visitor.authorize(app.ask(challenge))).at).toContain('http://127.0.0.1:4000/callback?code=')
  })

  test('shows an error page instead of redirecting for two redirect_uris or an unknown client', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const twice = await visitor.get(`/oauth2/authorize?${new URLSearchParams(app.ask()).toString()}&redirect_uri=${encodeURIComponent('https://evil.example')}`)
    expect(twice.at).toBe('')
    expect(twice.answer.status).toBe(400)
    const unknown = await visitor.authorize(app.ask({ client_id: 'bursar_test_ci_unknown' }))
    expect(unknown.at).toBe('')
    expect(unknown.answer.text).toContain('invalid_client')
  })

  test('redirects with 303 after consent, so that the form data is not sent along', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const { answer } = await visitor.authorize(app.ask())
    expect(answer.status).toBe(303)
  })
})

describe('mix-up, CSRF, clickjacking', () => {
  test('sends the issuer as `iss` to the callback, after consent and after denial (attack 35)', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const issuer = world.config.public_url.origin
    expect(new URL((await visitor.authorize(app.ask())).at).searchParams.get('iss')).toBe(issuer)
    const denied = new URL((await visitor.authorize(app.ask({ prompt: 'consent' }), { deny: true })).at).searchParams
    expect(Object.fromEntries(denied)).toMatchObject({ error: 'access_denied', iss: issuer, state: 'the state' })
  })

  test('returns the `state` parameter to the callback unchanged (attack 36)', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    for (const state of ['a b+c%20d', 'ünï&=?#', '"><script>'])
      expect(new URL((await visitor.authorize(app.ask({ state }))).at).searchParams.get('state')).toBe(state)
    expect(new URL((await visitor.authorize(app.ask({ state: 'x y', response_type: 'token' }))).at).searchParams.get('state')).toBe('x y')
  })

  test('refuses a consent form without the CSRF token of its session, or from another origin (attack 37)', async () => {
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

  test('forbids browsers to show the consent page in a frame (attack 38)', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const { answer } = await visitor.get(`/oauth2/authorize?${new URLSearchParams(app.ask()).toString()}`)
    expect(answer.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
    expect(answer.headers.get('x-frame-options')).toBe('DENY')
    expect(answer.headers.get('cross-origin-opener-policy')).toBe('same-origin')
  })

  test('refuses a sign-in form from another origin or with the CSRF token of another browser (attack 39)', async () => {
    const visitor = openVisitor(world)
    const { answer } = await visitor.get('/login')
    const csrf = visitor.field(answer.text, 'csrf')
    const fields = { csrf, step: 'email', email: 'somebody@people.test' }
    expect((await visitor.post('/login', fields, { origin: 'https://evil.example' })).answer.status).toBe(403)
    expect((await openVisitor(world).post('/login', fields)).answer.status).toBe(403)
    expect((await visitor.post('/login', fields)).answer.status).toBe(200)
  })

  test('starts a new session at sign-in and revokes the old one, so that session fixation fails (attack 40)', async () => {
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
      // The session that the attacker planted in the browser is revoked.
      expect((await openVisitor(working, other).get('/settings/apps')).at).toContain('/login')
    } finally {
      await working.close()
    }
  })

  test('asks for consent again if an app requests new scopes, and each time for a public client (attack 41)', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    expect((await visitor.authorize(app.ask({ scope: 'openid' }))).asked).toBe(true)
    expect((await visitor.authorize(app.ask({ scope: 'openid' }))).asked).toBe(false)
    const more = await visitor.authorize(app.ask({ scope: 'openid orders:read' }))
    expect(more.asked).toBe(true)
    expect('page' in more && more.page).toContain('class="fresh"')
    // Granted scopes accumulate. A request for a subset of all granted scopes needs no new consent.
    expect((await visitor.authorize(app.ask({ scope: 'orders:read' }))).asked).toBe(false)
    const native = await openApp(world, { ...publicly, redirect_uris: ['com.example.app:/callback'] })
    for (let round = 0; round < 2; round++) {
      const { code_verifier: _, ...challenge } = pkce()
      expect((await visitor.authorize(native.ask(challenge))).asked).toBe(true)
    }
  })
})

describe('tokens', () => {
  test('revokes the token family if a refresh token is used again after 31 seconds (attack 42)', async () => {
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

  test('returns the same token pair for a hundred parallel uses of a refresh token, and revokes the pair on reuse after 40 seconds (attack 43) [S4-33]', async () => {
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

  test('refuses a refresh that requests scopes beyond the granted ones, and issues narrower tokens on request (attack 44)', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const { refresh_token } = await app.tokens(visitor, { scope: 'openid organizations:read products:read' })
    expect(await app.refresh(refresh_token, { scope: 'openid orders:read' })).toMatchObject({ status: 400, body: { error: 'invalid_scope' } })
    const less = await app.refresh(refresh_token, { scope: 'organizations:read' })
    expect(less.body.scope).toBe('organizations:read')
    // The same refresh token without a scope returns another access token with all scopes.
    const all = await app.refresh(refresh_token)
    expect(all.body.access_token).not.toBe(less.body.access_token)
    const products = (token: unknown) => exchange(world.port, 'GET', '/v1/products/', bearer(token as string))
    expect((await products(less.body.access_token)).status).toBe(403)
    expect((await products(all.body.access_token)).status).toBe(200)
  })

  test('refuses a refresh token that was issued to another client (attack 45)', async () => {
    const { visitor } = await openPerson(world)
    const [app, other] = [await openApp(world), await openApp(world)]
    const { refresh_token } = await app.tokens(visitor)
    expect(await other.refresh(refresh_token)).toMatchObject(invalidGrant)
    expect((await app.refresh(refresh_token)).status).toBe(200)
  })

  test('expires refresh tokens after 90 unused days and after a year at most, and access tokens after ten days (attack 46) [S8-10]', async () => {
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

  test('ends access from the next request on after a token is revoked, its grant withdrawn, or its user leaves the organization (attack 47) [S5-10]', async () => {
    const { visitor, cookie, person, here } = await openPerson(world)
    const app = await openApp(world)
    const revoked = await app.tokens(visitor)
    const kept = await app.tokens(visitor)
    expect((await app.revoke(revoked.access_token)).status).toBe(200)
    expect(await lets(revoked.access_token)).toBe(false)
    expect(await lets(kept.access_token)).toBe(true)

    const guest = await world.organization()
    await world.transact((tx) => insertMembership(tx, guest.id, person.id, 'member', tx.clock.wall()))
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

  test('answers the revocation of an unknown token with success (attack 48)', async () => {
    const app = await openApp(world)
    expect(await app.revoke('nothing')).toMatchObject({ status: 200, body: {} })
    expect(await app.revoke(newToken('oauth_access', 'sandbox').reveal())).toMatchObject({ status: 200, body: {} })
  })

  test('does not let a client revoke a token of another client (attack 49)', async () => {
    const { visitor } = await openPerson(world)
    const [app, other] = [await openApp(world), await openApp(world)]
    const { access_token } = await app.tokens(visitor)
    await other.revoke(access_token)
    expect(await lets(access_token)).toBe(true)
  })

  test('introspects a token as inactive for other clients, and refuses callers without a client secret (attack 50)', async () => {
    const { visitor } = await openPerson(world)
    const [app, other] = [await openApp(world), await openApp(world)]
    const { access_token } = await app.tokens(visitor)
    expect((await app.form('/v1/oauth2/introspect', { token: access_token })).status).toBe(400)
    expect((await app.form('/v1/oauth2/introspect', { token: access_token, client_id: app.client_id })).status).toBe(401)
    expect((await other.introspect(access_token)).body).toEqual({ active: false })
    expect((await app.introspect(access_token)).body.active).toBe(true)
  })

  test('introspects an unrestricted token with an empty list of organizations, and a restricted one with the chosen ones (attack 51) [S4-32]', async () => {
    const { visitor, here, there } = await openPerson(world)
    const app = await openApp(world)
    const all = await app.tokens(visitor)
    expect((await app.introspect(all.access_token)).body.organizations).toEqual([])
    const narrowed = await app.tokens(visitor, { prompt: 'consent' }, { organizations: [there.id] })
    expect((await app.introspect(narrowed.access_token)).body.organizations).toEqual([there.id])
    const seen = await world.client({ token: narrowed.access_token }).call(listOrganizations, {})
    expect(seen.items.map(({ id }) => id)).toEqual([there.id])
    // A later restriction also applies to tokens that were issued before the restriction.
    const before = await world.client({ token: all.access_token }).call(listOrganizations, {})
    expect(before.items.map(({ id }) => id)).not.toContain(here.id)
  })

  test('refuses an access token in the query string (attack 52)', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const { access_token } = await app.tokens(visitor)
    expect((await exchange(world.port, 'GET', `/v1/organizations/?access_token=${access_token}`)).status).toBe(401)
    expect((await exchange(world.port, 'GET', `/v1/oauth2/userinfo?access_token=${access_token}`)).status).not.toBe(200)
  })

  test('refuses an id_token, a refresh token or an authorization code as bearer token (attack 53)', async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const { id_token, refresh_token } = await app.tokens(visitor)
    const code = await app.code(visitor)
    for (const wrong of [id_token, refresh_token, code]) {
      expect((await exchange(world.port, 'GET', '/v1/organizations/', bearer(wrong))).status).toBe(401)
      expect((await exchange(world.port, 'GET', '/v1/oauth2/userinfo', bearer(wrong))).status).toBe(401)
    }
  })

  test('refuses an id_token_hint that was issued to another client, and names the client in `aud` (attack 54)', async () => {
    const { visitor } = await openPerson(world)
    const [app, other] = [await openApp(world), await openApp(world)]
    const { access_token, id_token } = await app.tokens(visitor)
    expect((await app.introspect(access_token)).body.aud).toBe(app.client_id)
    const keys = createLocalJWKSet(await jwks())
    await expect(jwtVerify(id_token, keys, { audience: other.client_id })).rejects.toThrow('aud')
    const hint = await visitor.authorize(other.ask({ id_token_hint: id_token, prompt: 'none' }))
    expect(new URL(hint.at).searchParams.get('error')).toBe('invalid_request')
  })

  test('refuses a sandbox access token in production (attack 55)', async () => {
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
  /** Returns the error for an `id_token_hint`, or null if the server accepts it. */
  const hinted = async (app: App, visitor: Awaited<ReturnType<typeof openPerson>>['visitor'], id_token_hint: string) =>
    new URL((await visitor.authorize(app.ask({ id_token_hint, prompt: 'none' }))).at).searchParams.get('error')
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

  const signedIn = async () => {
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const tokens = await app.tokens(visitor, { nonce: 'the nonce' })
    return { visitor, app, tokens, claims: decodeJwt(tokens.id_token), header: decodeProtectedHeader(tokens.id_token) }
  }

  test('refuses an unsigned id_token_hint with alg=none (attack 56)', async () => {
    const { visitor, app, tokens, claims } = await signedIn()
    expect(await hinted(app, visitor, tokens.id_token)).toBeNull()
    expect(await hinted(app, visitor, `${part({ alg: 'none' })}.${part(claims)}.`)).toBe('invalid_request')
  })

  test('refuses an id_token_hint that is signed by HS256 with the public key as secret (attack 57)', async () => {
    const { visitor, app, claims, header } = await signedIn()
    const key = (await jwks()).keys.find(({ kid }) => kid === header.kid)!
    const pem = createPublicKey({ key, format: 'jwk' }).export({ type: 'spki', format: 'pem' })
    const text = `${part({ alg: 'HS256', kid: header.kid })}.${part(claims)}`
    expect(await hinted(app, visitor, `${text}.${createHmac('sha256', pem).update(text).digest('base64url')}`)).toBe('invalid_request')
  })

  test('refuses an id_token_hint with an unknown kid or a changed claim (attack 58) [S5-06]', async () => {
    const { visitor, app, tokens, header } = await signedIn()
    expect(header).toMatchObject({ alg: 'RS256', kid: expect.any(String) as string })
    const [, body, signature] = tokens.id_token.split('.')
    expect(await hinted(app, visitor, `${part({ ...header, kid: 'other' })}.${body}.${signature}`)).toBe('invalid_request')
    expect(await hinted(app, visitor, `${part(header)}.${part({ ...decodeJwt(tokens.id_token), sub: 'other' })}.${signature}`)).toBe('invalid_request')
  })

  test('puts the nonce of the authorization request into the id_token, and no nonce if none was sent (attack 59)', async () => {
    const { app, visitor, claims } = await signedIn()
    expect(claims.nonce).toBe('the nonce')
    expect(decodeJwt((await app.tokens(visitor)).id_token)).not.toHaveProperty('nonce')
  })

  test('sets aud, iss, at_hash and auth_time in the id_token (attack 60)', async () => {
    const { app, tokens, claims } = await signedIn()
    const half = createHash('sha256').update(tokens.access_token).digest().subarray(0, 16).toString('base64url')
    expect(claims).toMatchObject({ aud: app.client_id, iss: world.config.public_url.origin, at_hash: half, auth_time: expect.any(Number) as number })
    await expect(
      jwtVerify(tokens.id_token, createLocalJWKSet(await jwks()), { audience: app.client_id, issuer: world.config.public_url.origin }),
    ).resolves.toBeDefined()
  })

  test('publishes keys that verify id_tokens from before and after a key rotation, and no private key (attack 61)', async () => {
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

/** Compares the times to reject a text that differs at its start and one that differs at its end. Returns Welch's t over interleaved samples. */
const timingDifference = (compare: (a: string, b: string) => boolean): number => {
  const right = 'f'.repeat(64)
  const wrongs = [`0${right.slice(1)}`, `${right.slice(0, 63)}0`]
  const times: [number[], number[]] = [[], []]
  for (let round = 0; round < 40_000; round++) {
    const at = (round & 1) as 0 | 1
    const started = process.hrtime.bigint()
    compare(right, wrongs[at]!)
    times[at].push(Number(process.hrtime.bigint() - started))
  }
  const trimmed = times.map((list) => list.toSorted((a, b) => a - b).slice(0, Math.floor(list.length * 0.9))) as [number[], number[]]
  const [a, b] = trimmed.map((list) => {
    const mean = list.reduce((sum, one) => sum + one, 0) / list.length
    return { mean, spread: list.reduce((sum, one) => sum + (one - mean) ** 2, 0) / (list.length - 1) / list.length }
  }) as [{ mean: number; spread: number }, { mean: number; spread: number }]
  return Math.abs(a.mean - b.mean) / Math.sqrt(a.spread + b.spread)
}

describe('clients', () => {
  test('compares client secrets in constant time, and rate-limits guesses (attack 62)', async () => {
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
    // The server compares keyed hashes in constant time. Another process can disturb a measurement, so a difference counts
    // only if it appears three times.
    let t = Infinity
    for (let tries = 0; tries < 3 && t >= 10; tries++) t = Math.min(t, timingDifference(sameText))
    expect(t).toBeLessThan(10)
    // A comparison that stops at the first difference is found.
    const stopsEarly = (one: string, other: string) => one.split('').every((letter, at) => letter === other[at])
    expect(timingDifference(stopsEarly)).toBeGreaterThan(10)
  })

  test('refuses a client secret in the query string (attack 63)', async () => {
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

  test('refuses a client registration with hostile URLs, names, scopes or grant types (attack 64)', async () => {
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
    // The registration drops a scope that no OAuth client may have.
    const greedy = await api.call(registerClient, { body: { client_name: 'X', redirect_uris: [callback], scope: 'openid organization_access_tokens:write' } })
    expect(greedy.scope).toBe('openid')
    // The consent page escapes the name of the client.
    const { visitor } = await openPerson(world)
    const app = await openApp(world, { client_name: '<script>alert(1)</script>' })
    const { answer } = await visitor.get(`/oauth2/authorize?${new URLSearchParams(app.ask()).toString()}`)
    expect(answer.text).not.toContain('<script')
    expect(answer.text).toContain('&lt;script&gt;')
  })
})
