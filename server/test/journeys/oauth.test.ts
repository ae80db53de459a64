import { mkdirSync } from 'node:fs'
import { getCurrentUser, listOrganizations } from '@bursar/contract'
import * as client from 'openid-client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { codeAt, stepOf } from '../../src/modules/identity/factors/factors.ts'
import { Secret } from '../../src/kernel/secrets.ts'
import { openBrowser, openCallback, openContext, expectAccessible, signInOn, type Browser, type ContextOptions, type Page } from '../harness/browser.ts'
import { codeIn } from '../harness/mail.ts'
import { openApp } from '../harness/visitor.ts'
import { eventually, openWorld, type World } from '../harness/world.ts'

// What people and apps live through, with a real browser and the client library that most apps use.
let world: World
let browser: Browser
let callback: Awaited<ReturnType<typeof openCallback>>
beforeAll(async () => {
  ;[world, browser, callback] = await Promise.all([openWorld({ worker: true, browser: true }), openBrowser(), openCallback()])
})
afterAll(async () => {
  await browser.close()
  await callback.close()
  await world.close()
})

const twoOrganizations = async () => {
  const person = await world.person()
  const here = await world.organization({ owner: person.id })
  const there = await world.organization({ owner: person.id })
  return { person, here, there }
}

describe('an app, from discovery to revocation', () => {
  const ways = {
    'confidential, secret in the form': { method: 'client_secret_post', auth: (secret: string) => client.ClientSecretPost(secret) },
    'confidential, secret in the header': { method: 'client_secret_basic', auth: (secret: string) => client.ClientSecretBasic(secret) },
    'public, with PKCE': { method: 'none', auth: () => client.None() },
  } as const

  for (const [name, { method, auth }] of Object.entries(ways))
    test(`${name} [S1-02] [S2-13] [S4-13] [S4-17] [S4-18] [S4-19] [S4-20] [S4-32] [S4-33] [S5-04] [S5-06] [S5-07] [S5-08] [S8-10]`, async () => {
      const { person, here, there } = await twoOrganizations()
      const app = await openApp(world, { redirect_uris: [callback.uri], token_endpoint_auth_method: method })
      const config = await client.discovery(new URL(world.config.public_url), app.client_id, {}, auth(app.client_secret ?? ''), {
        execute: [client.allowInsecureRequests],
      })
      const code_verifier = client.randomPKCECodeVerifier()
      const state = client.randomState()
      const nonce = client.randomNonce()
      const address = client.buildAuthorizationUrl(config, {
        redirect_uri: callback.uri,
        scope: 'openid email organizations:read',
        code_challenge: await client.calculatePKCECodeChallenge(code_verifier),
        code_challenge_method: 'S256',
        state,
        nonce,
      })

      const { context, violations, close } = await openContext(browser, world)
      const page = await context.newPage()
      await page.goto(address.href)
      expect(await page.getByText('to continue to Ledgerly').isVisible()).toBe(true)
      await signInOn(page, world, person.email)
      await page.getByRole('heading', { name: 'Ledgerly wants to use your Bursar account' }).waitFor()
      expect(await page.getByText(person.email).isVisible()).toBe(true)
      // One organization is ticked, and it is exactly one: the other is the choice here.
      const ticked = page.locator('input[name=organizations]:checked')
      expect(await ticked.count()).toBe(1)
      await ticked.uncheck()
      await page.locator(`input[value="${there.id}"]`).check()
      await page.waitForTimeout(600)
      await page.getByRole('button', { name: 'Allow' }).click()
      const back = await callback.next()
      await close()
      expect(violations).toEqual([])

      const tokens = await client.authorizationCodeGrant(config, new URL(`${callback.uri}${back.search}`), {
        pkceCodeVerifier: code_verifier,
        expectedState: state,
        expectedNonce: nonce,
        idTokenExpected: true,
      })
      expect(tokens).toMatchObject({ token_type: 'bearer', expires_in: 864_000, scope: 'openid email organizations:read' })
      expect(tokens.claims()).toMatchObject({ sub: person.id, email: person.email, aud: app.client_id })
      expect(await client.fetchUserInfo(config, tokens.access_token, person.id)).toMatchObject({ sub: person.id, email: person.email })

      const sees = async (token: string) => (await world.client({ token }).call(listOrganizations, {})).items.map(({ id }) => id)
      expect(await sees(tokens.access_token)).toEqual([there.id])
      expect(await sees(tokens.access_token)).not.toContain(here.id)

      const renewed = await client.refreshTokenGrant(config, tokens.refresh_token!)
      expect(await sees(renewed.access_token)).toEqual([there.id])
      expect(renewed.expires_in).toBe(864_000)
      expect(await client.tokenIntrospection(config, renewed.access_token)).toMatchObject({ active: true, organizations: [there.id], sub: person.id })
      await client.tokenRevocation(config, renewed.access_token)
      expect(await client.tokenIntrospection(config, renewed.access_token)).toEqual({ active: false })
      expect((await world.client({ token: renewed.access_token }).send(listOrganizations, {})).status).toBe(401)
      expect((await world.mail.next(person.email)).text).toContain('/settings/apps')
    })
})

describe('pages', () => {
  const looks: Record<string, ContextOptions> = { light: {}, dark: { dark: true }, phone: { width: 390 }, 'phone dark': { width: 390, dark: true } }
  const pictures = process.env.BURSAR_TEST_PICTURES
  if (pictures) mkdirSync(pictures, { recursive: true })

  for (const [look, options] of Object.entries(looks))
    test(`each of them, ${look}: axe finds nothing, the policy is not broken, nothing hangs over the edge`, async () => {
      const { person, here } = await twoOrganizations()
      const app = await openApp(world, { redirect_uris: [callback.uri], client_uri: 'https://app.example/', policy_uri: 'https://app.example/privacy' })
      const { context, violations, close } = await openContext(browser, world, options)
      const page = await context.newPage()
      const shown = async (name: string) => {
        await expectAccessible(page)
        if (pictures) await page.screenshot({ path: `${pictures}/${name}-${look.replace(' ', '-')}.png`, fullPage: true })
      }
      const ask = new URLSearchParams(app.ask({ redirect_uri: callback.uri, scope: 'openid email orders:read products:write customers:read' })).toString()
      await page.goto(`${world.config.public_url.origin}/oauth2/authorize?${ask}`)
      await shown('sign-in')
      await page.getByLabel('E-mail address').fill(person.email)
      await page.getByRole('button', { name: 'Send me a code' }).click()
      await shown('code')
      await page.getByLabel('Code from the mail').fill('AAAA-AAAA')
      await page.getByRole('button', { name: 'Sign in', exact: true }).click()
      expect(await page.getByRole('alert').textContent()).toContain('4 tries are left')
      await shown('code-wrong')
      await page.getByLabel('Code from the mail').fill(codeIn((await world.mail.next(person.email)).text))
      await page.getByRole('button', { name: 'Sign in', exact: true }).click()
      await page.getByRole('button', { name: 'Allow' }).waitFor()
      await shown('consent')
      for (const box of await page.locator('input[name=organizations]:checked').all()) await box.uncheck()
      await page.waitForTimeout(600)
      await page.getByRole('button', { name: 'Allow' }).click()
      await shown('consent-missing')
      await page.getByLabel('Every organization').check()
      await page.waitForTimeout(600)
      await page.getByRole('button', { name: 'Allow' }).click()
      await callback.next()
      const go = (path: string) => page.goto(world.config.public_url.origin + path)
      await go('/settings/apps')
      await shown('apps')
      await page.getByRole('button', { name: 'Remove Ledgerly' }).click()
      expect(await page.getByRole('status').textContent()).toContain('Ledgerly was removed')
      await shown('apps-empty')
      await go('/settings/tokens')
      await shown('tokens-empty')
      await page.getByLabel('Name').fill('orders export')
      await page.getByRole('button', { name: 'Make the token' }).click()
      await shown('tokens-made')
      await go(`/settings/organizations/${here.id}/tokens`)
      await page.getByLabel('Name').fill('nightly')
      await page.getByRole('button', { name: 'Make the token' }).click()
      await go(`/settings/organizations/${here.id}/tokens`)
      await shown('tokens')
      await go('/settings/security')
      await shown('security-off')
      await page.getByRole('button', { name: 'Set up a second factor' }).click()
      await shown('security-setup')
      await go('/oauth2/authorize?client_id=unknown&response_type=code')
      await shown('problem')
      await close()
      expect(violations).toEqual([])
    })

  test('in German, and as chosen in the footer', async () => {
    const { context, close } = await openContext(browser, world, { locale: 'de' })
    const page = await context.newPage()
    await page.goto(`${world.config.public_url.origin}/login`)
    expect(await page.getByRole('heading').textContent()).toBe('Anmelden')
    expect(await page.locator('html').getAttribute('lang')).toBe('de')
    await expectAccessible(page)
    await page.locator('select[name=locale]').selectOption('en')
    await page.locator('select[name=theme]').selectOption('dark')
    await page.getByRole('button', { name: 'Übernehmen' }).click()
    expect(await page.getByRole('heading').textContent()).toBe('Sign in')
    expect(await page.locator('html').getAttribute('data-theme')).toBe('dark')
    await close()
  })

  test('without script everything works just the same', async () => {
    const { person } = await twoOrganizations()
    const app = await openApp(world, { redirect_uris: [callback.uri] })
    const { context, close } = await openContext(browser, world, { script: false })
    const page = await context.newPage()
    await page.goto(`${world.config.public_url.origin}/oauth2/authorize?${new URLSearchParams(app.ask({ redirect_uri: callback.uri })).toString()}`)
    await signInOn(page, world, person.email)
    await page.waitForTimeout(600)
    await page.getByRole('button', { name: 'Allow' }).click()
    expect((await callback.next()).searchParams.has('code')).toBe(true)
    await close()
  })

  test('by keyboard alone: sign in, choose, allow', async () => {
    const { person } = await twoOrganizations()
    const app = await openApp(world, { redirect_uris: [callback.uri] })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(`${world.config.public_url.origin}/oauth2/authorize?${new URLSearchParams(app.ask({ redirect_uri: callback.uri })).toString()}`)
    await page.keyboard.type(person.email)
    await page.keyboard.press('Enter')
    await page.getByLabel('Code from the mail').waitFor()
    await page.keyboard.type(codeIn((await world.mail.next(person.email)).text))
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Allow' }).waitFor()
    const focused = () => page.evaluate<string>('document.activeElement.textContent || document.activeElement.tagName')
    for (let presses = 0; presses < 30 && (await focused()) !== 'Allow'; presses++) await page.keyboard.press('Tab')
    await page.waitForTimeout(600)
    await page.keyboard.press('Enter')
    expect((await callback.next()).searchParams.has('code')).toBe(true)
    await close()
  })

  test('the sizes that were promised: no script, small pages, one small stylesheet', async () => {
    const person = await world.person()
    const { context, close } = await openContext(browser, world, { cookie: await person.cookie() })
    const page = await context.newPage()
    const sizes: Record<string, number> = {}
    page.on(
      'response',
      (response) =>
        void response.body().then(
          (body) => (sizes[new URL(response.url()).pathname] = body.length),
          () => undefined,
        ),
    )
    await page.goto(`${world.config.public_url.origin}/settings/tokens`)
    await page.waitForLoadState('networkidle')
    expect(await page.locator('script').count()).toBe(0)
    expect(sizes['/settings/tokens']).toBeLessThan(48 * 1024)
    expect(Object.entries(sizes).find(([path]) => path.endsWith('.css'))![1]).toBeLessThan(10 * 1024)
    await close()
  })
})

describe('tokens in the settings [S5-02]', () => {
  const make = async (page: Page, path: string, name: string) => {
    await page.goto(world.config.public_url.origin + path)
    await page.getByLabel('Name').fill(name)
    await page.getByLabel('Read everything').check()
    await page.getByRole('button', { name: 'Make the token' }).click()
    return (await page.getByLabel('Token', { exact: true }).textContent())!.trim()
  }

  test('a personal one and one of the organization: shown once, used, revoked', async () => {
    const { person, here } = await twoOrganizations()
    const { context, close } = await openContext(browser, world, { cookie: await person.cookie() })
    const page = await context.newPage()
    for (const path of ['/settings/tokens', `/settings/organizations/${here.id}/tokens`]) {
      const token = await make(page, path, 'export')
      const seen = await world.client({ token }).call(listOrganizations, {})
      expect(seen.items.map(({ id }) => id)).toContain(here.id)
      await page.goto(world.config.public_url.origin + path)
      expect(await page.content()).not.toContain(token)
      await page.getByRole('button', { name: 'Revoke export' }).click()
      expect(await page.getByRole('status').textContent()).toContain('revoked')
      expect((await world.client({ token }).send(listOrganizations, {})).status).toBe(401)
    }
    await close()
  })

  test('an old sign-in makes none, a stranger sees none, and no end must be confirmed', async () => {
    const { person, here } = await twoOrganizations()
    const { context, close } = await openContext(browser, world, { cookie: await person.cookie() })
    const page = await context.newPage()
    await page.goto(`${world.config.public_url.origin}/settings/tokens`)
    await page.getByLabel('Name').fill('forever')
    await page.locator('#days').selectOption('forever')
    await page.getByRole('button', { name: 'Make the token' }).click()
    expect(await page.getByRole('alert').textContent()).toContain('never expires')
    await world.database.owner((owner) =>
      owner.query(`update user_sessions set created_at = created_at - interval '61 minutes' where user_id = $1`, [person.id]),
    )
    await page.locator('#days').selectOption('30')
    await page.getByRole('button', { name: 'Make the token' }).click()
    expect(await page.getByRole('alert').textContent()).toContain('more than an hour old')
    await close()
    const stranger = await openContext(browser, world, { cookie: await (await world.person()).cookie() })
    const other = await stranger.context.newPage()
    expect((await other.goto(`${world.config.public_url.origin}/settings/organizations/${here.id}/tokens`))!.status()).toBe(404)
    await stranger.close()
  })
})

describe('a second factor', () => {
  test('is set up, asked for at the next sign-in, and replaced once by a recovery code', async () => {
    const person = await world.person()
    const { context, close } = await openContext(browser, world, { cookie: await person.cookie() })
    const page = await context.newPage()
    const go = (path: string) => page.goto(world.config.public_url.origin + path)
    await go('/settings/security')
    await page.getByRole('button', { name: 'Set up a second factor' }).click()
    const typed = (await page.getByLabel('Type this secret').textContent())!.replace(/\s/g, '')
    const secret = new Secret(fromBase32(typed).toString('base64'))
    const now = (steps = 0) => codeAt(secret, stepOf(world.clock.wall()) + steps)
    await page.getByLabel('Code from the app').fill('000000')
    await page.getByRole('button', { name: 'Turn on' }).click()
    expect(await page.getByRole('alert').isVisible()).toBe(true)
    await page.getByLabel('Code from the app').fill(now())
    await page.getByRole('button', { name: 'Turn on' }).click()
    const recovery = (await page.getByLabel('Your recovery codes').last().textContent())!.trim().split('\n')
    expect(recovery).toHaveLength(10)

    const again = async (factor: string) => {
      await context.clearCookies()
      await go('/login')
      await signInOn(page, world, person.email)
      await page.getByRole('heading', { name: 'Second factor' }).waitFor()
      await page.getByLabel('Code').fill(factor)
      await page.getByRole('button', { name: 'Sign in', exact: true }).click()
      return eventually('an answer', async () => {
        if (page.url().includes('/settings/apps')) return 'in'
        return (await page.getByRole('alert').count()) > 0 ? 'refused' : undefined
      })
    }
    // The code that set it up does not work a second time.
    expect(await again(now())).toBe('refused')
    expect(await again(now(1))).toBe('in')
    expect(await again(recovery[0]!)).toBe('in')
    expect(await again(recovery[0]!)).toBe('refused')
    await close()
  })

  test('is required of whoever runs the deployment', async () => {
    const operator = await world.person({ is_operator: true })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(`${world.config.public_url.origin}/login?return_to=/settings/security`)
    await signInOn(page, world, operator.email)
    expect(await page.getByRole('note').textContent()).toContain('required')
    const cookies = await context.cookies()
    const cookie = cookies.filter(({ name }) => name.endsWith('_session')).map(({ name, value }) => `${name}=${value}`)[0]!
    const api = world.client({ cookie })
    expect((await api.send(getCurrentUser, {})).status).toBe(200)
    expect((await api.send(listOrganizations, {})).status).toBe(403)
    await close()
  })
})

const fromBase32 = (text: string): Buffer => {
  const bits = text
    .split('')
    .map((letter) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'))
    .join('')
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => parseInt(byte, 2)))
}
