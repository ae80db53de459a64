import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify, type JSONWebKeySet } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { seconds } from '../../src/platform/clock.ts'
import { openBrowser, openCallback, openContext, signInOn, type Browser, type Page } from '../harness/browser.ts'
import { openApp, pkce, type App } from '../harness/visitor.ts'
import { exchange, openWorld, type World } from '../harness/world.ts'

// The modules of the Basic OP and Config OP lists, re-expressed as our own tests under the same names: tested against
// those lists, which is not the same as certified. Each has a browser of its own.
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

/** A person in a browser of their own, who is or is not signed in. */
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
    /** Sends the browser off; what comes back in the address. */
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

/** Asks for some scopes, and answers with what userinfo then tells. */
const claimsFor = async (scope: string) => {
  const one = await begin()
  const tokens = await one.tokens(await one.go({ scope }))
  const claims = await userinfo(tokens.access_token)
  await one.close()
  return { claims, person: one.person, id_token: await verified(tokens.id_token) }
}
/** A scope that does not exist here is refused, and says so. */
const refusedScope = async (scope: string) => {
  const one = await begin()
  expect((await one.go({ scope })).get('error')).toBe('invalid_scope')
  await one.close()
}
/** A request with something more in it, which changes nothing. */
const succeedsWith = async (more: Record<string, string>) => {
  const one = await begin()
  const tokens = await one.tokens(await one.go(more))
  expect((await verified(tokens.id_token)).sub).toBe(one.person.id)
  await one.close()
}

/** Lets a while have passed since the person signed in. */
const older = (user_id: string) =>
  world.database.owner((owner) => owner.query(`update user_sessions set created_at = created_at - interval '10 seconds' where user_id = $1`, [user_id]))

describe('Basic OP', () => {
  test('oidcc-server', async () => {
    const one = await begin({ signedIn: false })
    await one.page.goto(address(one.ask()))
    await signInOn(one.page, world, one.person.email)
    await allow(one.page)
    const tokens = await one.tokens((await callback.next()).searchParams)
    expect(await verified(tokens.id_token)).toMatchObject({ sub: one.person.id, nonce: 'n-1' })
    await one.close()
  })
  test('oidcc-response-type-missing [S4-14]', async () => {
    const one = await begin()
    const { response_type: _, ...rest } = one.ask()
    await one.page.goto(address(rest))
    expect((await callback.next()).searchParams.get('error')).toBe('invalid_request')
    await one.page.goto(address(one.ask({ response_type: 'token' })))
    expect((await callback.next()).searchParams.get('error')).toBe('unsupported_response_type')
    await one.close()
  })
  test('oidcc-idtoken-signature', async () => {
    const one = await begin()
    const { id_token } = await one.tokens(await one.go())
    expect(decodeProtectedHeader(id_token)).toEqual({ alg: 'RS256', kid: expect.any(String) as string })
    await verified(id_token)
    const broken = `${id_token.slice(0, -4)}${id_token.endsWith('AAAA') ? 'BBBB' : 'AAAA'}`
    await expect(verified(broken)).rejects.toThrow()
    await one.close()
  })
  test('oidcc-idtoken-unsigned: asked for at registration and not given, every id_token is signed', async () => {
    const unsigned = await openApp(world, { redirect_uris: [callback.uri], id_token_signed_response_alg: 'none' })
    const one = await begin({ with: () => unsigned })
    const { id_token } = await one.tokens(await one.go())
    expect(decodeProtectedHeader(id_token).alg).toBe('RS256')
    await one.close()
  })
  test('oidcc-userinfo-get', async () => {
    const { claims, person } = await claimsFor('openid email')
    expect(claims).toEqual({ sub: person.id, email: person.email, email_verified: false })
  })
  test('oidcc-userinfo-post-header', async () => {
    const one = await begin()
    const { access_token } = await one.tokens(await one.go())
    const answer = await exchange(world.port, 'POST', '/v1/oauth2/userinfo', { authorization: `Bearer ${access_token}` })
    expect(JSON.parse(answer.text)).toMatchObject({ sub: one.person.id })
    await one.close()
  })
  test('oidcc-userinfo-post-body', async () => {
    const one = await begin()
    const { access_token } = await one.tokens(await one.go())
    expect((await app.form('/v1/oauth2/userinfo', { access_token })).body).toMatchObject({ sub: one.person.id })
    await one.close()
  })
  test('oidcc-ensure-request-without-nonce-succeeds-for-code-flow', async () => {
    const one = await begin()
    const { nonce: _, ...rest } = one.ask()
    await one.page.goto(address(rest))
    await allow(one.page)
    const { id_token } = await one.tokens((await callback.next()).searchParams)
    expect(await verified(id_token)).not.toHaveProperty('nonce')
    await one.close()
  })
  test('oidcc-scope-profile', async () => {
    const { claims } = await claimsFor('openid profile')
    expect(claims).toMatchObject({ updated_at: expect.any(Number) as number })
    expect(claims).not.toHaveProperty('email')
  })
  test('oidcc-scope-email', async () => {
    const { claims, person, id_token } = await claimsFor('openid email')
    expect(claims).toMatchObject({ email: person.email, email_verified: false })
    expect(id_token).toMatchObject({ email: person.email })
  })
  test('oidcc-scope-address: refused as a scope that does not exist', () => refusedScope('openid address'))
  test('oidcc-scope-phone: refused as a scope that does not exist', () => refusedScope('openid phone'))
  test('oidcc-scope-all', async () => {
    await refusedScope('openid profile email address phone')
    const { claims, person } = await claimsFor('openid profile email')
    expect(claims).toMatchObject({ sub: person.id, email: person.email, updated_at: expect.any(Number) as number })
  })
  test('oidcc-ensure-other-scope-order-succeeds', async () => {
    const { claims, person } = await claimsFor('email openid')
    expect(claims).toMatchObject({ sub: person.id, email: person.email })
  })
  test('oidcc-display-page', () => succeedsWith({ display: 'page' }))
  test('oidcc-display-popup', () => succeedsWith({ display: 'popup' }))
  test('oidcc-prompt-login', async () => {
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
  test('oidcc-prompt-none-not-logged-in', async () => {
    const one = await begin({ signedIn: false })
    expect((await one.go({ prompt: 'none' })).get('error')).toBe('login_required')
    await one.close()
  })
  test('oidcc-prompt-none-logged-in', async () => {
    const one = await begin()
    expect((await one.go({ prompt: 'none' })).get('error')).toBe('consent_required')
    const first = await verified((await one.tokens(await one.go())).id_token)
    const second = await verified((await one.tokens(await one.go({ prompt: 'none' }))).id_token)
    expect([second.sub, second.auth_time]).toEqual([first.sub, first.auth_time])
    await one.close()
  })
  test('oidcc-max-age-1', async () => {
    const one = await begin()
    const first = await verified((await one.tokens(await one.go())).id_token)
    await older(one.person.id)
    await one.page.goto(address(one.ask({ max_age: '1' })))
    await signInOn(one.page, world, one.person.email)
    const second = await verified((await one.tokens((await callback.next()).searchParams)).id_token)
    expect(second.auth_time as number).toBeGreaterThan(first.auth_time as number)
    await one.close()
  })
  test('oidcc-max-age-10000', async () => {
    const one = await begin()
    const first = await verified((await one.tokens(await one.go())).id_token)
    const second = await verified((await one.tokens(await one.go({ max_age: '10000' }))).id_token)
    expect(second.auth_time).toBe(first.auth_time)
    await one.close()
  })
  test('oidcc-ensure-request-with-unknown-parameter-succeeds', () => succeedsWith({ extra: 'foobar' }))
  test('oidcc-id-token-hint', async () => {
    const one = await begin()
    const first = await one.tokens(await one.go())
    const second = await one.tokens(await one.go({ prompt: 'none', id_token_hint: first.id_token }))
    expect(decodeJwt(second.id_token).sub).toBe(one.person.id)
    await one.close()
  })
  test('oidcc-login-hint', async () => {
    const one = await begin({ signedIn: false })
    await one.page.goto(address(one.ask({ login_hint: one.person.email })))
    expect(await one.page.getByLabel('E-mail address').inputValue()).toBe(one.person.email)
    await one.close()
  })
  test('oidcc-ui-locales', async () => {
    const one = await begin({ signedIn: false })
    await one.page.goto(address(one.ask({ ui_locales: 'fr de en' })))
    expect(await one.page.getByRole('heading').textContent()).toBe('Anmelden')
    await one.close()
  })
  test('oidcc-claims-locales', () => succeedsWith({ claims_locales: 'se' }))
  test('oidcc-ensure-request-with-acr-values-succeeds', () => succeedsWith({ acr_values: '1 2' }))
  test('oidcc-codereuse', async () => {
    const one = await begin()
    const back = await one.go()
    await one.tokens(back)
    expect(await app.redeem(back.get('code')!)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
    await one.close()
  })
  test('oidcc-codereuse-30seconds', async () => {
    const one = await begin()
    const back = await one.go()
    const { access_token } = await one.tokens(back)
    world.clock.advance(30 * seconds)
    expect(await app.redeem(back.get('code')!)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
    expect((await exchange(world.port, 'GET', '/v1/oauth2/userinfo', { authorization: `Bearer ${access_token}` })).status).toBe(401)
    await one.close()
  })
  test('oidcc-ensure-registered-redirect-uri', async () => {
    const one = await begin()
    const answer = await one.page.goto(address(one.ask({ redirect_uri: `${callback.uri}/other` })))
    expect(answer!.status()).toBe(400)
    expect(one.page.url()).toContain('/oauth2/authorize')
    expect(await one.page.getByText('has not registered').isVisible()).toBe(true)
    await one.close()
  })
  test('oidcc-ensure-post-request-succeeds', async () => {
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
  test('oidcc-server-client-secret-post [S4-18]', async () => {
    const posting = await openApp(world, { redirect_uris: [callback.uri], token_endpoint_auth_method: 'client_secret_post' })
    const one = await begin({ with: () => posting })
    expect((await one.tokens(await one.go())).access_token).toContain('bursar_test_at_')
    await one.close()
  })
  test('oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported: rejected', async () => {
    const one = await begin()
    expect((await one.go({ request_uri: 'https://app.example/request.jwt' })).get('error')).toBe('request_uri_not_supported')
    await one.close()
  })
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  test('oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported: rejected', async () => {
    const one = await begin()
    expect((await one.go({ request: `${part({ alg: 'none' })}.${part(one.ask())}.` })).get('error')).toBe('request_not_supported')
    await one.close()
  })
  test('oidcc-claims-essential: not supported, and passed over', () => succeedsWith({ claims: JSON.stringify({ userinfo: { name: { essential: true } } }) }))
  test('oidcc-ensure-request-object-with-redirect-uri: rejected', async () => {
    const one = await begin()
    const request = `${part({ alg: 'none' })}.${part({ redirect_uri: 'https://evil.example/' })}.`
    expect((await one.go({ request })).get('error')).toBe('request_not_supported')
    await one.close()
  })
  test('oidcc-refresh-token', async () => {
    const one = await begin()
    const first = await one.tokens(await one.go())
    const second = (await app.refresh(first.refresh_token)).body as { id_token: string; access_token: string; refresh_token: string }
    expect((await verified(second.id_token)).sub).toBe(one.person.id)
    expect(second.refresh_token).not.toBe(first.refresh_token)
    const other = await openApp(world, { redirect_uris: [callback.uri] })
    expect((await other.refresh(second.refresh_token)).body.error).toBe('invalid_grant')
    await one.close()
  })
  test('oidcc-ensure-request-with-valid-pkce-succeeds', async () => {
    const one = await begin()
    const { code_verifier, ...challenge } = pkce()
    await one.tokens(await one.go(challenge), { code_verifier })
    await one.close()
  })
})

describe('Config OP', () => {
  test('oidcc-discovery-endpoint-verification [S4-20]', async () => {
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
    // Nothing is named that is not there.
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
