import { mkdirSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { getCurrentUser, listOrganizations } from '@bursar/contract'
import * as client from 'openid-client'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { codeAt, stepOf } from '../../src/modules/identity/factors/factors.ts'
import { Secret } from '../../src/kernel/secrets.ts'
import { openBrowser, openCallback, openContext, expectAccessible, signInOn, type Browser, type ContextOptions, type Page } from '../harness/browser.ts'
import { openMail } from '../../src/gateways/mail/mail.ts'
import { openApi } from '../../src/main/wire.ts'
import { readConfig } from '../../src/platform/config.ts'
import { codeIn } from '../harness/mail.ts'
import { launch } from '../harness/process.ts'
import { openApp } from '../harness/visitor.ts'
import { eventually, openWorld, type World } from '../harness/world.ts'

// Journeys of people and apps, with a real browser and the most common OAuth client library.
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

describe('an OAuth app, from discovery to revocation', () => {
  const ways = {
    'confidential, secret in the form [S4-18] [S5-05]': { method: 'client_secret_post', auth: (secret: string) => client.ClientSecretPost(secret) },
    'confidential, secret in the header [S5-05]': { method: 'client_secret_basic', auth: (secret: string) => client.ClientSecretBasic(secret) },
    'public, with PKCE [S5-04]': { method: 'none', auth: () => client.None() },
  } as const

  for (const [name, { method, auth }] of Object.entries(ways))
    test(`completes every step as a client that is ${name} [S1-02] [S4-13] [S4-17] [S4-19] [S4-20] [S4-32] [S4-33] [S5-06] [S5-07] [S5-08] [S8-10]`, async () => {
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
      await page.getByText('to continue to Ledgerly').waitFor()
      await signInOn(page, world, person.email)
      await page.getByRole('heading', { name: 'Ledgerly wants to use your Bursar account' }).waitFor()
      await page.getByText('Not verified').waitFor()
      expect(await page.getByRole('note').textContent()).toContain('has not checked who is behind this app')
      await page.getByText(person.email).waitFor()
      // One organization is preselected. The person chooses the other one instead.
      expect(await page.getByLabel('Every organization').isChecked()).toBe(false)
      expect(await page.getByLabel('Only the ones that I choose').isChecked()).toBe(true)
      const preselected = page.locator('input[name=organizations]:checked')
      expect(await preselected.count()).toBe(1)
      await preselected.uncheck()
      await page.locator(`input[value="${there.id}"]`).check()
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
    test(`has accessible pages without policy violations or horizontal overflow, ${look}`, async () => {
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
      await page.getByLabel('Every organization').check()
      await shown('consent-all')
      await page.getByLabel('Only the ones that I choose').check()
      await page.locator('input[name=organizations]:checked').uncheck()
      await shown('consent-some')
      await page.getByRole('button', { name: 'Allow' }).click()
      expect(await page.getByLabel('Only the ones that I choose').isChecked()).toBe(true)
      await shown('consent-missing')
      await page.getByLabel('Every organization').check()
      await page.getByRole('button', { name: 'Allow' }).click()
      await callback.next()
      const go = (path: string) => page.goto(world.config.public_url.origin + path)
      await go(`/oauth2/authorize?${ask}&prompt=consent`)
      await page.getByText('If you remove organizations, the app loses access to them at once.').waitFor()
      await shown('consent-again')
      await go('/docs')
      await shown('docs')
      await go('/settings/apps')
      await shown('apps')
      await page.getByText('Remove Ledgerly').click()
      await shown('apps-confirm')
      await page.getByRole('button', { name: 'Yes, remove it' }).click()
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
      await page.getByLabel('Code from the app').fill(codeAt(await secretOn(page), stepOf(world.clock.wall())))
      await page.getByRole('button', { name: 'Turn on' }).click()
      await shown('security-on')
      await context.clearCookies()
      await go('/login')
      await signInOn(page, world, person.email)
      await page.getByRole('heading', { name: 'Second factor' }).waitFor()
      await shown('factor')
      await go('/oauth2/authorize?client_id=unknown&response_type=code')
      await shown('problem')
      await close()
      expect(violations).toEqual([])
    })

  test('shows pages in German, and in the language and theme chosen in the footer', async () => {
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

  test('completes sign-in and consent without script', async () => {
    const { person } = await twoOrganizations()
    const app = await openApp(world, { redirect_uris: [callback.uri] })
    const { context, close } = await openContext(browser, world, { script: false })
    const page = await context.newPage()
    await page.goto(`${world.config.public_url.origin}/oauth2/authorize?${new URLSearchParams(app.ask({ redirect_uri: callback.uri })).toString()}`)
    await signInOn(page, world, person.email)
    await page.getByRole('button', { name: 'Allow' }).click()
    expect((await callback.next()).searchParams.has('code')).toBe(true)
    await close()
  })

  test('supports sign-in, selection and consent by keyboard alone', async () => {
    const { person, there } = await twoOrganizations()
    const app = await openApp(world, { redirect_uris: [callback.uri] })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(`${world.config.public_url.origin}/oauth2/authorize?${new URLSearchParams(app.ask({ redirect_uri: callback.uri })).toString()}`)
    // Waits until the page has focused the input, because the keys are typed into the focused element.
    await page.locator('input:focus').waitFor()
    await page.keyboard.type(person.email)
    await page.keyboard.press('Enter')
    await page.getByLabel('Code from the mail').and(page.locator(':focus')).waitFor()
    await page.keyboard.type(codeIn((await world.mail.next(person.email)).text))
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Allow' }).waitFor()
    const focused = () => page.evaluate<string>('document.activeElement.textContent || document.activeElement.tagName')
    const value = () => page.evaluate<string>('document.activeElement.value ?? ""')
    for (let presses = 0; presses < 30 && (await value()) !== 'chosen'; presses++) await page.keyboard.press('Tab')
    await page.keyboard.press('ArrowUp')
    expect(await value()).toBe('all')
    await page.keyboard.press('ArrowDown')
    for (let presses = 0; presses < 30 && (await value()) !== there.id; presses++) await page.keyboard.press('Tab')
    if (!(await page.evaluate<boolean>('document.activeElement.checked'))) await page.keyboard.press('Space')
    for (let presses = 0; presses < 30 && (await focused()) !== 'Allow'; presses++) await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    const { body } = await app.redeem((await callback.next()).searchParams.get('code')!)
    expect((await app.introspect(body.access_token as string)).body.organizations).toContain(there.id)
    await close()
  })

  test('ignores a click on Allow in the first half second, so that a click meant for another page grants nothing', async () => {
    const person = await world.person()
    await world.organization({ owner: person.id })
    const app = await openApp(world, { redirect_uris: [callback.uri] })
    const { context, close } = await openContext(browser, world, { cookie: await person.cookie() })
    const page = await context.newPage()
    const address = `${world.config.public_url.origin}/oauth2/authorize?${new URLSearchParams(app.ask({ redirect_uri: callback.uri })).toString()}`
    await page.goto(address)
    const { x, y } = (await page.getByRole('button', { name: 'Allow' }).boundingBox())!
    // Pauses animations, so that the click falls within the half second on a slow machine too.
    const tools = await context.newCDPSession(page)
    await tools.send('Animation.enable')
    await tools.send('Animation.setPlaybackRate', { playbackRate: 0 })
    await page.goto(address, { waitUntil: 'commit' })
    await page.getByRole('button', { name: 'Allow' }).waitFor()
    await page.mouse.click(x + 5, y + 5)
    expect(page.url()).toContain('/oauth2/interaction/')
    await tools.send('Animation.setPlaybackRate', { playbackRate: 1 })
    // After the half second, a click on the button is accepted.
    await page.getByRole('button', { name: 'Allow' }).click()
    expect((await callback.next()).searchParams.has('code')).toBe(true)
    await close()
  })

  test("keeps the app's requested language through the whole flow, until the person chooses another", async () => {
    const { person } = await twoOrganizations()
    const app = await openApp(world, { redirect_uris: [callback.uri] })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(
      `${world.config.public_url.origin}/oauth2/authorize?${new URLSearchParams(app.ask({ redirect_uri: callback.uri, ui_locales: 'fr de' })).toString()}`,
    )
    await page.getByLabel('E-Mail-Adresse').fill(person.email)
    await page.getByRole('button', { name: 'Code zusenden' }).click()
    await expectAccessible(page)
    expect(await page.getByRole('heading').textContent()).toBe('Prüfen Sie Ihren Posteingang')
    await page.locator('select[name=locale]').selectOption('en')
    await page.getByRole('button', { name: 'Übernehmen' }).click()
    // The sign-in starts again in the chosen language, and still continues to the app.
    await page.getByText('to continue to Ledgerly').waitFor()
    await page.locator('select[name=locale]').selectOption('de')
    await page.getByRole('button', { name: 'Apply' }).click()
    await page.getByLabel('E-Mail-Adresse').fill(person.email)
    await page.getByRole('button', { name: 'Code zusenden' }).click()
    let letter = await world.mail.next(person.email)
    letter = await world.mail.next(person.email)
    await page.getByLabel('Code aus der E-Mail').fill(codeIn(letter.text))
    await page.getByRole('button', { name: 'Anmelden', exact: true }).click()
    await page.getByRole('heading', { name: 'Ledgerly möchte Ihr Bursar-Konto nutzen' }).waitFor()
    await expectAccessible(page)
    await page.getByRole('button', { name: 'Abbrechen' }).click()
    expect((await callback.next()).searchParams.get('error')).toBe('access_denied')
    await close()
  })

  test('shows a verified app as verified, and rotates keys by command', async () => {
    const person = await world.person()
    await world.organization({ owner: person.id })
    const app = await openApp(world, { redirect_uris: [callback.uri] })
    const command = async (...args: string[]) => {
      const run = launch(args, world.environmentVariables)
      return { code: await run.exited, output: run.output() }
    }
    expect(await command('client', 'verify', app.client_id)).toMatchObject({ code: 0 })
    expect((await command('client', 'verify', 'nobody')).code).toBe(2)
    const { context, close } = await openContext(browser, world, { cookie: await person.cookie() })
    const page = await context.newPage()
    await page.goto(
      `${world.config.public_url.origin}/oauth2/authorize?${new URLSearchParams(app.ask({ redirect_uri: callback.uri, scope: 'openid refunds:write' })).toString()}`,
    )
    await page.getByText('Verified by the operator of this service').waitFor()
    // The page shows at most one warning. Because the app is verified, the warning is about its access to money.
    expect(await page.getByRole('note').textContent()).toContain('let the app move money')
    await close()
    await world.database.owner((owner) => owner.query(`update signing_keys set changed_at = changed_at - interval '10 minutes'`))
    expect(await command('keys', 'rotate')).toMatchObject({ code: 0 })
    expect((await command('keys', 'rotate')).output).toContain('five minutes')
  })

  test('serves the mailbox page only in a local sandbox, and only to requests from the same machine', async () => {
    const directory = `${process.env.BURSAR_TEST_SCRATCH}/mailbox`
    const settings: Record<string, string> = { ...world.environmentVariables, BURSAR_MAIL_DIR: directory, BURSAR_SMTP_URL: '' }
    const local = readConfig(settings)
    expect(local.mail.readable).toBe(true)
    expect(readConfig({ ...settings, BURSAR_PUBLIC_URL: 'https://bursar.test' }).mail.readable).toBe(false)
    expect(readConfig({ ...settings, BURSAR_ENV: 'production', BURSAR_PUBLIC_URL: 'https://localhost' }).mail.readable).toBe(false)
    expect(readConfig(world.environmentVariables).mail.readable).toBe(false)
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    expect((await page.goto(`${world.config.public_url.origin}/mailbox`))!.status()).toBe(404)

    const mail = openMail(local.mail, world.clock)
    await mail.send({ to: 'somebody@people.test', subject: 'Your sign-in code', text: 'ABCD-EFGH is your code.' })
    const api = await openApi({ ...world.base, config: local })
    const address = await api.server.listen({ host: '127.0.0.1', port: 0 })
    await page.goto(`${address}/mailbox`)
    await page.getByRole('heading', { name: 'Your sign-in code' }).waitFor()
    expect(await page.locator('pre').textContent()).toContain('ABCD-EFGH')
    await expectAccessible(page)
    await close()

    const look = (request: { remoteAddress?: string; headers?: Record<string, string> }) => api.server.inject({ url: '/mailbox', ...request })
    for (const remoteAddress of ['127.0.0.1', '127.0.0.53', '::1', '::ffff:127.0.0.1']) expect((await look({ remoteAddress })).statusCode).toBe(200)
    for (const request of [
      { remoteAddress: '192.168.1.7' },
      { remoteAddress: 'fe80::1' },
      { remoteAddress: '::ffff:192.168.1.7' },
      { headers: { host: 'rebound.test' } },
      { headers: { host: '192.168.1.5:4100' } },
      { headers: { 'x-forwarded-for': '203.0.113.9' } },
    ]) {
      const { statusCode, payload } = await look(request)
      expect(statusCode, JSON.stringify(request)).toBe(404)
      expect(payload).toContain('only on the machine that runs this service')
      expect(payload).not.toContain('ABCD-EFGH')
    }
    await api.close()
  })

  test('serves the pages for sign-in, consent and tokens without script, with small documents and one small stylesheet', async () => {
    const person = await world.person()
    const { context, close } = await openContext(browser, world, { cookie: await person.cookie() })
    const page = await context.newPage()
    const packed = async (answer: { body(): Promise<Buffer> } | null) => gzipSync(await answer!.body()).length
    const requested = new Set<string>()
    page.on('request', (request) => requested.add(request.url()))
    const app = await openApp(world, { redirect_uris: [callback.uri] })
    for (const [path, arrives, kibibytes] of [
      [`/oauth2/authorize?${new URLSearchParams(app.ask({ redirect_uri: callback.uri })).toString()}`, '/oauth2/interaction/', 3],
      ['/login?again=1', '/login', 2],
      ['/settings/tokens', '/settings/tokens', 12],
    ] as const) {
      const answer = await page.goto(world.config.public_url.origin + path)
      expect(new URL(page.url()).pathname).toContain(arrives)
      // The browser drops the body at the next navigation, so it is read before it.
      expect(await packed(answer), path).toBeLessThan(kibibytes * 1024)
      await page.waitForLoadState('networkidle')
      expect(await page.locator('script').count(), path).toBe(0)
    }
    const assets = (kind: string) => [...requested].filter((url) => new URL(url).pathname.startsWith('/assets/') && new URL(url).pathname.endsWith(kind))
    const stylesheets = assets('.css')
    expect(stylesheets).toHaveLength(1)
    expect(await packed(await context.request.get(stylesheets[0]!))).toBeLessThan(10 * 1024)
    expect(assets('.js')).toEqual([])
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

  test('shows a new personal or organization token once, accepts it and revokes it', async () => {
    const { person, here } = await twoOrganizations()
    const { context, close } = await openContext(browser, world, { cookie: await person.cookie() })
    const page = await context.newPage()
    for (const path of ['/settings/tokens', `/settings/organizations/${here.id}/tokens`]) {
      const token = await make(page, path, 'export')
      const seen = await world.client({ token }).call(listOrganizations, {})
      expect(seen.items.map(({ id }) => id)).toContain(here.id)
      await page.goto(world.config.public_url.origin + path)
      expect(await page.content()).not.toContain(token)
      await page.getByText('Revoke export').click()
      await page.getByRole('button', { name: 'Yes, revoke it' }).click()
      expect(await page.getByRole('status').textContent()).toContain('revoked')
      expect((await world.client({ token }).send(listOrganizations, {})).status).toBe(401)
    }
    await close()
  })

  test('requires a recent sign-in and a confirmation of unlimited validity, and hides tokens from strangers', async () => {
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

test('signs a person out everywhere on the security page, in German too', async () => {
  const person = await world.person()
  const elsewhere = await person.cookie()
  const token = (await person.token()).secret
  const { context, violations, close } = await openContext(browser, world, { cookie: await person.cookie(), locale: 'de' })
  const page = await context.newPage()
  await page.goto(`${world.config.public_url.origin}/settings/security`)
  await page.getByText('Sie sind in 2 Browsern angemeldet').waitFor()
  await expectAccessible(page)
  const pictures = process.env.BURSAR_TEST_PICTURES
  if (pictures) await page.screenshot({ path: `${pictures}/security-german.png`, fullPage: true })
  await page.getByRole('button', { name: 'Überall abmelden' }).click()
  await page.waitForURL(/\/login/)
  expect((await world.client({ cookie: elsewhere }).send(getCurrentUser, {})).status).toBe(401)
  await page.goto(`${world.config.public_url.origin}/settings/security`)
  expect(page.url()).toContain('/login')
  expect((await world.client({ token }).send(listOrganizations, {})).status).toBe(200)
  await close()
  expect(violations).toEqual([])
})

describe('a second factor for sign-in', () => {
  test('is set up, required at the next sign-in, and replaced once by a recovery code', async () => {
    const person = await world.person()
    const { context, close } = await openContext(browser, world, { cookie: await person.cookie() })
    const page = await context.newPage()
    const go = (path: string) => page.goto(world.config.public_url.origin + path)
    await go('/settings/security')
    await page.getByRole('button', { name: 'Set up a second factor' }).click()
    const secret = await secretOn(page)
    // A code is valid for half a minute. The clock is stopped, so that no code expires during the test.
    world.clock.hold()
    onTestFinished(() => world.clock.release())
    const now = (steps = 0) => codeAt(secret, stepOf(world.clock.wall()) + steps)
    await page.getByLabel('Code from the app').fill('000000')
    await page.getByRole('button', { name: 'Turn on' }).click()
    await page.getByRole('alert').waitFor()
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
      return eventually('the sign-in succeeds or shows an error', async () => {
        if (page.url().includes('/settings/apps')) return 'in'
        return (await page.getByRole('alert').count()) > 0 ? 'refused' : undefined
      })
    }
    // The code that completed the setup does not work a second time.
    expect(await again(now())).toBe('refused')
    expect(await again(now(1))).toBe('in')
    expect(await again(recovery[0]!)).toBe('in')
    expect(await again(recovery[0]!)).toBe('refused')
    await close()
  })

  test('ends every other session of the person when it is turned on', async () => {
    const person = await world.person()
    const [elsewhere, another] = [await person.cookie(), await (await world.person()).cookie()]
    const { context, close } = await openContext(browser, world, { cookie: await person.cookie() })
    const page = await context.newPage()
    await page.goto(`${world.config.public_url.origin}/settings/security`)
    await page.getByText('You are signed in on 2 browsers').waitFor()
    await page.getByRole('button', { name: 'Set up a second factor' }).click()
    const secret = await secretOn(page)
    expect((await world.client({ cookie: elsewhere }).send(getCurrentUser, {})).status).toBe(200)
    await page.getByLabel('Code from the app').fill(codeAt(secret, stepOf(world.clock.wall())))
    await page.getByRole('button', { name: 'Turn on' }).click()
    await page.getByText('You are signed in on this browser only').waitFor()
    expect((await world.client({ cookie: elsewhere }).send(getCurrentUser, {})).status).toBe(401)
    expect((await world.client({ cookie: another }).send(getCurrentUser, {})).status).toBe(200)
    await page.reload()
    expect(page.url()).toContain('/settings/security')
    await close()
  })

  test('is required of operators', async () => {
    const operator = await world.person({ is_operator: true })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(`${world.config.public_url.origin}/login?return_to=/settings/security`)
    await signInOn(page, world, operator.email)
    expect(await page.getByRole('note').textContent()).toContain('you need a second factor')
    const session = async () => (await context.cookies()).filter(({ name }) => name.endsWith('_session')).map(({ name, value }) => `${name}=${value}`)[0]!
    const api = world.client({ cookie: await session() })
    expect((await api.send(getCurrentUser, {})).status).toBe(200)
    expect((await api.send(listOrganizations, {})).status).toBe(403)
    // Apps cannot act for the operator either: the authorization page redirects to the setup of the second factor.
    const app = await openApp(world, { redirect_uris: [callback.uri] })
    await page.goto(`${world.config.public_url.origin}/oauth2/authorize?${new URLSearchParams(app.ask({ redirect_uri: callback.uri })).toString()}`)
    expect(page.url()).toContain('/settings/security')
    await page.goto(
      `${world.config.public_url.origin}/oauth2/authorize?${new URLSearchParams(app.ask({ redirect_uri: callback.uri, prompt: 'none' })).toString()}`,
    )
    expect((await callback.next()).searchParams.get('error')).toBe('login_required')
    // With a second factor, the operator may call all operations. After it is turned off, they are refused again.
    await page.goto(`${world.config.public_url.origin}/settings/security`)
    await page.getByRole('button', { name: 'Set up a second factor' }).click()
    const secret = await secretOn(page)
    await page.getByLabel('Code from the app').fill(codeAt(secret, stepOf(world.clock.wall())))
    await page.getByRole('button', { name: 'Turn on' }).click()
    await page.getByText('Your recovery codes').first().waitFor()
    // Turning the second factor on starts a new session and revokes the old one.
    expect((await api.send(listOrganizations, {})).status).toBe(401)
    const strong = world.client({ cookie: await session() })
    expect((await strong.send(listOrganizations, {})).status).toBe(200)
    await page.locator('input[name=code]').fill(codeAt(secret, stepOf(world.clock.wall()) + 1))
    await page.getByRole('button', { name: 'Turn the second factor off' }).click()
    await page.getByText('You have no second factor.').waitFor()
    expect((await strong.send(listOrganizations, {})).status).toBe(403)
    await close()
  })
})

/** Returns the secret that an authenticator app would store. */
const secretOn = async (page: Page): Promise<Secret> =>
  new Secret(fromBase32((await page.getByLabel('Type this secret').textContent())!.replace(/\s/g, '')).toString('base64'))

const fromBase32 = (text: string): Buffer => {
  const bits = text
    .split('')
    .map((letter) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'))
    .join('')
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => parseInt(byte, 2)))
}
