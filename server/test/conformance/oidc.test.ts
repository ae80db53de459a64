import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify, type JSONWebKeySet } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { seconds } from '../../src/platform/clock.ts'
import { openBrowser, openCallback, openContext, signInOn, type Browser, type Page } from '../harness/browser.ts'
import { openApp, pkce, type App } from '../harness/visitor.ts'
import { exchange, openWorld, type World } from '../harness/world.ts'

// The modules of the Basic OP and Config OP lists of the OpenID conformance suite, implemented as our own tests. Each title
// starts with the name of its module. This is not a certification. Each test has its own browser context.
let world: World
let browser: Browser
let callback: Awaited<ReturnType<typeof openCallback>>
let app: App
beforeAll(async () => {
  ;[world, browser, callback] = await Promise.all([openWorld({ worker: true, browser: true }), openBrowser(), openCallback()])
  app = await openApp(world, { redirect_uris: [callback.uri] })
})
afterAll(async () => {
  await browser.close()
  await callback.close()
  await world.close()
})

const address = (query: Record<string, string>) => `${world.config.public_url.origin}/oauth2/authorize?${new URLSearchParams(query).toString()}`
const allow = async (page: Page) => {
  await page.getByRole('button', { name: 'Allow' }).waitFor()
  await page.getByRole('button', { name: 'Allow' }).click()
}

/** Creates a person with a separate browser context, signed in or not. */
const begin = async ({ signedIn = true, with: on = () => app }: { signedIn?: boolean; with?: () => App } = {}) => {
  const person = await world.person()
  await world.organization({ owner: person.id })
  const { context, violations, close } = await openContext(browser, world, signedIn ? { cookie: await person.cookie() } : {})
  const page = await context.newPage()
  const client = on()
  const ask = (more: Record<string, string> = {}) => client.ask({ redirect_uri: client.redirect_uris[0]!, nonce: 'n-1', ...more })
  return {
    person,
    page,
    ask,
    /** Sends the browser to the authorization endpoint. Returns the parameters of the callback. */
    go: async (more: Record<string, string> = {}) => {
      await page.goto(address(ask(more)))
      if (page.url().includes('/oauth2/interaction/')) await allow(page)
      return (await callback.next()).searchParams
    },
    tokens: async (back: URLSearchParams, more: Record<string, string> = {}) => {
      const answer = await client.redeem(back.get('code')!, more)
      expect(answer.status, JSON.stringify(answer.body)).toBe(200)
      return answer.body as { access_token: string; id_token: string; refresh_token: string; scope: string }
    },
    close: async () => {
      await close()
      expect(violations).toEqual([])
    },
  }
}

const jwks = async () => createLocalJWKSet(JSON.parse((await exchange(world.port, 'GET', '/.well-known/jwks.json')).text) as JSONWebKeySet)
const verified = async (id_token: string) =>
  (await jwtVerify(id_token, await jwks(), { issuer: world.config.public_url.origin, audience: app.client_id, algorithms: ['RS256'] })).payload
const userinfo = async (token: string) =>
  JSON.parse((await exchange(world.port, 'GET', '/v1/oauth2/userinfo', { authorization: `Bearer ${token}` })).text) as Record<string, unknown>

/** Requests scopes and returns the claims of userinfo. */
const claimsFor = async (scope: string) => {
  const one = await begin()
  const tokens = await one.tokens(await one.go({ scope }))
  const claims = await userinfo(tokens.access_token)
  await one.close()
  return { claims, person: one.person, id_token: await verified(tokens.id_token) }
}
/** Asserts that an unknown scope is refused with `invalid_scope`. */
const refusedScope = async (scope: string) => {
  const one = await begin()
  expect((await one.go({ scope })).get('error')).toBe('invalid_scope')
  await one.close()
}
/** Asserts that an authorization request with these additional parameters succeeds. */
const succeedsWith = async (more: Record<string, string>) => {
  const one = await begin()
  const tokens = await one.tokens(await one.go(more))
  expect((await verified(tokens.id_token)).sub).toBe(one.person.id)
  await one.close()
}

/** Makes the person's sign-in ten seconds older. */
const older = (user_id: string) =>
  world.database.owner((owner) => owner.query(`update user_sessions set created_at = created_at - interval '10 seconds' where user_id = $1`, [user_id]))

describe('Basic OP', () => {
  test('oidcc-server: issues a valid id_token with the nonce after sign-in and consent', async () => {
    const one = await begin({ signedIn: false })
    await one.page.goto(address(one.ask()))
    await signInOn(one.page, world, one.person.email)
    await allow(one.page)
    const tokens = await one.tokens((await callback.next()).searchParams)
    expect(await verified(tokens.id_token)).toMatchObject({ sub: one.person.id, nonce: 'n-1' })
    await one.close()
  })
  test('oidcc-response-type-missing: refuses a request without response_type, or with another one than "code" [S4-14]', async () => {
    const one = await begin()
    const { response_type: _, ...rest } = one.ask()
    await one.page.goto(address(rest))
    expect((await callback.next()).searchParams.get('error')).toBe('invalid_request')
    await one.page.goto(address(one.ask({ response_type: 'token' })))
    expect((await callback.next()).searchParams.get('error')).toBe('unsupported_response_type')
    await one.close()
  })
  test('oidcc-idtoken-signature: signs the id_token with a published RS256 key', async () => {
    const one = await begin()
    const { id_token } = await one.tokens(await one.go())
    expect(decodeProtectedHeader(id_token)).toEqual({ alg: 'RS256', kid: expect.any(String) as string })
    await verified(id_token)
    const broken = `${id_token.slice(0, -4)}${id_token.endsWith('AAAA') ? 'BBBB' : 'AAAA'}`
    await expect(verified(broken)).rejects.toThrow()
    await one.close()
  })
  test('oidcc-idtoken-unsigned: signs every id_token, even if a client registers for unsigned ones', async () => {
    const unsigned = await openApp(world, { redirect_uris: [callback.uri], id_token_signed_response_alg: 'none' })
    const one = await begin({ with: () => unsigned })
    const { id_token } = await one.tokens(await one.go())
    expect(decodeProtectedHeader(id_token).alg).toBe('RS256')
    await one.close()
  })
  test('oidcc-userinfo-get: returns the claims of the granted scopes', async () => {
    const { claims, person } = await claimsFor('openid email')
    expect(claims).toEqual({ sub: person.id, email: person.email, email_verified: false })
  })
  test('oidcc-userinfo-post-header: accepts POST with the access token in the header', async () => {
    const one = await begin()
    const { access_token } = await one.tokens(await one.go())
    const answer = await exchange(world.port, 'POST', '/v1/oauth2/userinfo', { authorization: `Bearer ${access_token}` })
    expect(JSON.parse(answer.text)).toMatchObject({ sub: one.person.id })
    await one.close()
  })
  test('oidcc-userinfo-post-body: accepts POST with the access token in the body', async () => {
    const one = await begin()
    const { access_token } = await one.tokens(await one.go())
    expect((await app.form('/v1/oauth2/userinfo', { access_token })).body).toMatchObject({ sub: one.person.id })
    await one.close()
  })
  test('oidcc-ensure-request-without-nonce-succeeds-for-code-flow: issues an id_token without nonce', async () => {
    const one = await begin()
    const { nonce: _, ...rest } = one.ask()
    await one.page.goto(address(rest))
    await allow(one.page)
    const { id_token } = await one.tokens((await callback.next()).searchParams)
    expect(await verified(id_token)).not.toHaveProperty('nonce')
    await one.close()
  })
  test('oidcc-scope-profile: returns the profile claims without the e-mail address', async () => {
    const { claims } = await claimsFor('openid profile')
    expect(claims).toMatchObject({ updated_at: expect.any(Number) as number })
    expect(claims).not.toHaveProperty('email')
  })
  test('oidcc-scope-email: returns the e-mail address in userinfo and id_token', async () => {
    const { claims, person, id_token } = await claimsFor('openid email')
    expect(claims).toMatchObject({ email: person.email, email_verified: false })
    expect(id_token).toMatchObject({ email: person.email })
  })
  test('oidcc-scope-address: refuses the unsupported scope "address"', () => refusedScope('openid address'))
  test('oidcc-scope-phone: refuses the unsupported scope "phone"', () => refusedScope('openid phone'))
  test('oidcc-scope-all: returns the claims of all supported scopes, and refuses a request with unsupported ones', async () => {
    await refusedScope('openid profile email address phone')
    const { claims, person } = await claimsFor('openid profile email')
    expect(claims).toMatchObject({ sub: person.id, email: person.email, updated_at: expect.any(Number) as number })
  })
  test('oidcc-ensure-other-scope-order-succeeds: accepts "openid" at any position of the scopes', async () => {
    const { claims, person } = await claimsFor('email openid')
    expect(claims).toMatchObject({ sub: person.id, email: person.email })
  })
  test('oidcc-display-page: accepts display=page', () => succeedsWith({ display: 'page' }))
  test('oidcc-display-popup: accepts display=popup', () => succeedsWith({ display: 'popup' }))
  test('oidcc-prompt-login: requires a new sign-in of a signed-in person for prompt=login', async () => {
    const one = await begin()
    const first = await verified((await one.tokens(await one.go())).id_token)
    await older(one.person.id)
    await one.page.goto(address(one.ask({ prompt: 'login' })))
    await signInOn(one.page, world, one.person.email)
    const second = await verified((await one.tokens((await callback.next()).searchParams)).id_token)
    expect(second.sub).toBe(first.sub)
    expect(second.auth_time as number).toBeGreaterThan(first.auth_time as number)
    await one.close()
  })
  test('oidcc-prompt-none-not-logged-in: answers login_required for prompt=none', async () => {
    const one = await begin({ signedIn: false })
    expect((await one.go({ prompt: 'none' })).get('error')).toBe('login_required')
    await one.close()
  })
  test('oidcc-prompt-none-logged-in: issues tokens without a page for prompt=none, but only after an earlier consent', async () => {
    const one = await begin()
    expect((await one.go({ prompt: 'none' })).get('error')).toBe('consent_required')
    const first = await verified((await one.tokens(await one.go())).id_token)
    const second = await verified((await one.tokens(await one.go({ prompt: 'none' }))).id_token)
    expect([second.sub, second.auth_time]).toEqual([first.sub, first.auth_time])
    await one.close()
  })
  test('oidcc-max-age-1: requires a new sign-in if the last one is older than max_age', async () => {
    const one = await begin()
    const first = await verified((await one.tokens(await one.go())).id_token)
    await older(one.person.id)
    await one.page.goto(address(one.ask({ max_age: '1' })))
    await signInOn(one.page, world, one.person.email)
    const second = await verified((await one.tokens((await callback.next()).searchParams)).id_token)
    expect(second.auth_time as number).toBeGreaterThan(first.auth_time as number)
    await one.close()
  })
  test('oidcc-max-age-10000: requires no new sign-in if the last one is younger than max_age', async () => {
    const one = await begin()
    const first = await verified((await one.tokens(await one.go())).id_token)
    const second = await verified((await one.tokens(await one.go({ max_age: '10000' }))).id_token)
    expect(second.auth_time).toBe(first.auth_time)
    await one.close()
  })
  test('oidcc-ensure-request-with-unknown-parameter-succeeds', () => succeedsWith({ extra: 'foobar' }))
  test('oidcc-id-token-hint: issues tokens without a page if the hint names the signed-in person', async () => {
    const one = await begin()
    const first = await one.tokens(await one.go())
    const second = await one.tokens(await one.go({ prompt: 'none', id_token_hint: first.id_token }))
    expect(decodeJwt(second.id_token).sub).toBe(one.person.id)
    await one.close()
  })
  test('oidcc-login-hint: fills the sign-in form with the hinted e-mail address', async () => {
    const one = await begin({ signedIn: false })
    await one.page.goto(address(one.ask({ login_hint: one.person.email })))
    expect(await one.page.getByLabel('E-mail address').inputValue()).toBe(one.person.email)
    await one.close()
  })
  test('oidcc-ui-locales: shows the page in the first supported language of ui_locales', async () => {
    const one = await begin({ signedIn: false })
    await one.page.goto(address(one.ask({ ui_locales: 'fr de en' })))
    expect(await one.page.getByRole('heading').textContent()).toBe('Anmelden')
    await one.close()
  })
  test('oidcc-claims-locales: ignores claims_locales', () => succeedsWith({ claims_locales: 'se' }))
  test('oidcc-ensure-request-with-acr-values-succeeds', () => succeedsWith({ acr_values: '1 2' }))
  test('oidcc-codereuse: refuses the second use of an authorization code', async () => {
    const one = await begin()
    const back = await one.go()
    await one.tokens(back)
    expect(await app.redeem(back.get('code')!)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
    await one.close()
  })
  test('oidcc-codereuse-30seconds: refuses the second use of a code after 30 seconds, and revokes its access token', async () => {
    const one = await begin()
    const back = await one.go()
    const { access_token } = await one.tokens(back)
    world.clock.advance(30 * seconds)
    expect(await app.redeem(back.get('code')!)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
    expect((await exchange(world.port, 'GET', '/v1/oauth2/userinfo', { authorization: `Bearer ${access_token}` })).status).toBe(401)
    await one.close()
  })
  test('oidcc-ensure-registered-redirect-uri: shows an error page for an unregistered redirect_uri', async () => {
    const one = await begin()
    const answer = await one.page.goto(address(one.ask({ redirect_uri: `${callback.uri}/other` })))
    expect(answer!.status()).toBe(400)
    expect(one.page.url()).toContain('/oauth2/authorize')
    expect(await one.page.getByText('has not registered').isVisible()).toBe(true)
    await one.close()
  })
  test('oidcc-ensure-post-request-succeeds: accepts an authorization request by POST', async () => {
    const one = await begin()
    const fields = Object.entries(one.ask())
      .map(([name, value]) => `<input type="hidden" name="${name}" value="${value}">`)
      .join('')
    await one.page.goto(callback.uri.replace('/callback', '/start'))
    await one.page.setContent(`<form method="post" action="${world.config.public_url.origin}/oauth2/authorize">${fields}<button>Go</button></form>`)
    await one.page.getByRole('button', { name: 'Go' }).click()
    await allow(one.page)
    const { id_token } = await one.tokens((await callback.next()).searchParams)
    expect((await verified(id_token)).sub).toBe(one.person.id)
    await one.close()
  })
  test('oidcc-server-client-secret-post: accepts the client secret in the body of the token request [S4-18]', async () => {
    const posting = await openApp(world, { redirect_uris: [callback.uri], token_endpoint_auth_method: 'client_secret_post' })
    const one = await begin({ with: () => posting })
    expect((await one.tokens(await one.go())).access_token).toContain('bursar_test_at_')
    await one.close()
  })
  test('oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported: rejects request_uri as unsupported', async () => {
    const one = await begin()
    expect((await one.go({ request_uri: 'https://app.example/request.jwt' })).get('error')).toBe('request_uri_not_supported')
    await one.close()
  })
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  test('oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported: rejects request objects as unsupported', async () => {
    const one = await begin()
    expect((await one.go({ request: `${part({ alg: 'none' })}.${part(one.ask())}.` })).get('error')).toBe('request_not_supported')
    await one.close()
  })
  test('oidcc-claims-essential: ignores the parameter "claims"', () => succeedsWith({ claims: JSON.stringify({ userinfo: { name: { essential: true } } }) }))
  test('oidcc-ensure-request-object-with-redirect-uri: rejects a request object that contains another redirect_uri', async () => {
    const one = await begin()
    const request = `${part({ alg: 'none' })}.${part({ redirect_uri: 'https://evil.example/' })}.`
    expect((await one.go({ request })).get('error')).toBe('request_not_supported')
    await one.close()
  })
  test('oidcc-refresh-token: rotates the refresh token, and refuses it for another client', async () => {
    const one = await begin()
    const first = await one.tokens(await one.go())
    const second = (await app.refresh(first.refresh_token)).body as { id_token: string; access_token: string; refresh_token: string }
    expect((await verified(second.id_token)).sub).toBe(one.person.id)
    expect(second.refresh_token).not.toBe(first.refresh_token)
    const other = await openApp(world, { redirect_uris: [callback.uri] })
    expect((await other.refresh(second.refresh_token)).body.error).toBe('invalid_grant')
    await one.close()
  })
  test('oidcc-ensure-request-with-valid-pkce-succeeds: issues tokens for the matching code verifier', async () => {
    const one = await begin()
    const { code_verifier, ...challenge } = pkce()
    await one.tokens(await one.go(challenge), { code_verifier })
    await one.close()
  })
})

describe('Config OP', () => {
  test('oidcc-discovery-endpoint-verification: publishes the supported features, and only endpoints that exist [S4-20]', async () => {
    const answer = await exchange(world.port, 'GET', '/.well-known/openid-configuration')
    const found = JSON.parse(answer.text) as Record<string, string | string[]>
    const { origin } = world.config.public_url
    expect(answer.headers.get('content-type')).toContain('application/json')
    expect(found).toMatchObject({
      issuer: origin,
      authorization_endpoint: `${origin}/oauth2/authorize`,
      token_endpoint: `${origin}/v1/oauth2/token`,
      userinfo_endpoint: `${origin}/v1/oauth2/userinfo`,
      jwks_uri: `${origin}/.well-known/jwks.json`,
      registration_endpoint: `${origin}/v1/oauth2/register`,
      introspection_endpoint: `${origin}/v1/oauth2/introspect`,
      revocation_endpoint: `${origin}/v1/oauth2/revoke`,
      response_types_supported: ['code'],
      response_modes_supported: ['query'],
      grant_types_supported: ['authorization_code', 'refresh_token'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256'],
      code_challenge_methods_supported: ['S256'],
      token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
      claims_parameter_supported: false,
      request_uri_parameter_supported: false,
      authorization_response_iss_parameter_supported: true,
    })
    expect(found.scopes_supported).toContain('openid')
    // Every published endpoint exists.
    for (const name of Object.keys(found).filter((key) => key.endsWith('_endpoint') || key === 'jwks_uri')) {
      const { pathname } = new URL(found[name] as string)
      const answers = await Promise.all(['GET', 'POST'].map((method) => exchange(world.port, method, pathname)))
      expect(
        answers.some(({ text }) => !text.includes('RouteNotFound')),
        name,
      ).toBe(true)
    }
    expect(JSON.parse((await exchange(world.port, 'GET', '/.well-known/oauth-authorization-server')).text)).toEqual(found)
  })
})
