import { gzipSync } from 'node:zlib'
import {
  activatePortalLicenseKey,
  createBenefit,
  createCustomer,
  createCustomerSession,
  getPortalLicenseKey,
  getPortalUser,
  listPortalLicenseKeys,
  updateOrganization,
} from '@bursar/contract'
import { script } from '@bursar/web'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { managePages } from '../../src/pages/portal/manage.page.ts'
import { documentsOf, expectGoodLooks, expectNoSecrets, openBrowser, openContext, type Browser, type ContextOptions, type Page } from '../harness/browser.ts'
import { codeIn, otherCode } from '../harness/mail.ts'
import { upload } from '../harness/stores.ts'
import { openTeams, tokenIn, type Teams } from '../harness/teams.ts'
import { openWorld, type World } from '../harness/world.ts'

// Journeys of members in a real browser: signing in and out, and using their own benefits.
let world: World
let browser: Browser
let teams: Teams
beforeAll(async () => {
  ;[world, browser] = await Promise.all([openWorld({ browser: true }), openBrowser()])
  teams = await openTeams(world)
})
afterAll(async () => {
  await browser.close()
  await teams.close()
  await world.close()
})

/** Runs a visit in a new browser context. Then checks that the visit violated no content policy and leaked no secret. */
const visit = async (options: ContextOptions, live: (page: Page) => Promise<void>, shownOnPurpose: string[] = []): Promise<void> => {
  const { context, violations, close } = await openContext(browser, world, options)
  const page = await context.newPage()
  await live(page)
  await expectNoSecrets(page, shownOnPurpose)
  await close()
  expect(violations).toEqual([])
}

/** Creates a team with one seat holder. Its plan grants a license key, a file, a feature flag and an external membership. */
const team = async () => {
  const shop = await world.shop()
  const { api } = shop
  const benefit = async (body: object) => (await api.call(createBenefit, { body: body as never })).id
  const file = await upload(api, Buffer.from('the manual'), { name: 'manual.txt', mime_type: 'text/plain' })
  const benefits = [
    await benefit({
      type: 'license_keys',
      description: 'Workshop license',
      properties: { prefix: null, activations: { limit: 2, enable_customer_admin: true } },
    }),
    await benefit({ type: 'downloadables', description: 'Manuals', properties: { files: [file.id], archived: {} } }),
    await benefit({ type: 'feature_flag', description: 'Night shift', visibility: 'public', properties: {} }),
    await benefit({ type: 'custom', description: 'Opening hours', properties: { note: 'Come when the light is on.' } }),
  ]
  const made = await teams.buy({ shop, seats: 3, benefits })
  const member = await teams.claim(await teams.assign(made, { email: 'member@own.test' }))
  await teams.claim(await teams.assign(made, { email: 'colleague@own.test' }))
  const base = `${world.config.public_url.origin}/${made.organization.slug}/portal`
  const linkOf = async (member_id: string, return_url: string | null = null) =>
    (await api.call(createCustomerSession, { body: { customer_id: made.customer_id, member_id, return_url } })).customer_portal_url
  return { ...made, file, member: { ...member, id: member.seat.member_id! }, base, linkOf }
}
type Team = Awaited<ReturnType<typeof team>>
let known: Promise<Team> | undefined
const works = () => (known ??= team())

const cookieOf = (made: { organization: { id: string } }) => `bursar_sandbox_portal_${made.organization.id}`
const codeFor = async (email: string) => {
  await teams.post('mail.customer_session_code')
  return codeIn((await world.mail.next(email)).text)
}
const typeCode = async (page: Page, code: string) => {
  await page.getByLabel('Code from the mail').fill(code)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
}

test('opens the portal once by a link that a script submits, removes the code from the URL, and does not use up the link without script [S4-28]', async () => {
  const { base, linkOf, member } = await works()
  const link = await linkOf(member.id, 'https://shop.example/account')
  await visit({}, async (page) => {
    // Without the script only a button press opens the portal, and this visitor does not press it.
    await page.route('**/*.js', (route) => route.abort())
    for (const _ of [1, 2]) await page.goto(link)
    expect(page.url()).toBe(`${base}/enter`)
    await expectGoodLooks(page, 'enter')
  })
  await visit({}, async (page) => {
    await page.goto(link)
    await page.waitForURL(`${base}/access`)
    expect(await page.getByRole('link', { name: /^Back to/ }).getAttribute('href')).toBe('https://shop.example/account')
    // A used link does not open the portal. It offers sign-in by a mailed code instead of an error.
    await page.goto(link)
    // The visitor is already signed in, so the script does not submit the link. The visitor must press the button.
    await page.getByRole('button', { name: 'Open the portal' }).click()
    await page.waitForURL(`${base}/sign-in?why=link`)
    expect(await page.getByRole('note').textContent()).toContain('already used, or is too old')
    await expectGoodLooks(page, 'sign-in')
  })
})

test('ends the earlier session when another person signs in with the same browser, and still accepts a form that another tab has open', async () => {
  const { base, linkOf, member, owner, organization } = await works()
  await visit({}, async (page) => {
    const tokenNow = async () => (await page.context().cookies()).find(({ name }) => name === cookieOf({ organization }))!.value
    await page.goto(await linkOf(owner.id))
    await page.waitForURL(`${base}/overview`)
    const before = await tokenNow()
    const tab = await page.context().newPage()
    await tab.goto(`${base}/account`)
    await page.goto(await linkOf(member.id))
    await page.getByRole('button', { name: 'Open the portal' }).click()
    await page.waitForURL(`${base}/access`)
    expect(await tokenNow()).not.toBe(before)
    expect((await world.client({ token: before }).send(getPortalUser, {})).status).toBe(401)
    await tab.getByRole('button', { name: 'Sign out' }).first().click()
    await tab.waitForURL(`${base}/sign-in?why=out`)
  })
})

test('starts managers at the overview or at the task of their link, after a sign-in by code too', async () => {
  const { base, linkOf, owner } = await works()
  await visit({ script: false }, async (page) => {
    await page.goto(await linkOf(owner.id))
    await page.getByRole('button', { name: 'Open the portal' }).click()
    expect(page.url()).toBe(`${base}/overview`)
    for (const [flow, place] of Object.entries({ payment_method: 'billing', cancel: 'subscriptions', seats: 'subscriptions', plan: 'subscriptions' })) {
      await page.goto(`${base}?flow=${flow}`)
      expect(page.url()).toBe(`${base}/${place}?flow=${flow}`)
    }
    await page.goto(`${base}?flow=nonsense`)
    expect(page.url()).toBe(`${base}/overview`)
  })
  const link = await linkOf(owner.id)
  const [code] = [new URL(link).searchParams.get('code')!]
  await visit({}, async (page) => {
    await page.goto(`${base}?code=${code}&flow=seats`)
    await page.waitForURL(`${base}/subscriptions?flow=seats`)
    await page.context().clearCookies()
    // The link was used before, so the person signs in by a mailed code. The sign-in leads to the same task.
    await page.goto(`${base}?code=${code}&flow=seats`)
    await page.waitForURL(`${base}/sign-in?why=link&flow=seats`)
    await page.getByLabel('E-mail address').fill(owner.email)
    await page.getByRole('button', { name: 'Send me a code' }).click()
    await expectGoodLooks(page, 'code')
    const sent = await codeFor(owner.email)
    await typeCode(page, otherCode(sent))
    await page.getByText('This code is wrong, was already used, or is older than 15 minutes.').waitFor()
    await expectGoodLooks(page, 'code-wrong')
    await typeCode(page, sent)
    await page.waitForURL(`${base}/subscriptions?flow=seats`)
  })
})

test('does not reveal whether an e-mail address is known, and lets a member of several customers choose one after sign-in', async () => {
  const { base, api, organization } = await works()
  const second = await teams.buy({ shop: { ...(await works()).shop }, seats: 2 })
  const both = 'both@own.test'
  for (const one of [await works(), second]) await teams.claim(await teams.assign(one, { email: both }))
  await api.call(createCustomer, { body: { email: 'alone@own.test' } })
  await visit({}, async (page) => {
    const ask = async (email: string) => {
      await page.goto(`${base}/sign-in`)
      await page.getByLabel('E-mail address').fill(email)
      await page.getByRole('button', { name: 'Send me a code' }).click()
      return (await page.locator('main').textContent())!.replace(email, '…')
    }
    expect(await ask('nobody@own.test')).toBe(await ask('alone@own.test'))
    await ask(both)
    await typeCode(page, await codeFor(both))
    await page.getByRole('heading', { name: 'Choose an account' }).waitFor()
    await expectGoodLooks(page, 'choose')
    await page.getByRole('button', { name: 'Works' }).first().click()
    await page.waitForURL(`${base}/access`)
    expect(await page.locator('header').textContent()).toContain(both)
    expect(organization.slug).toBe(new URL(page.url()).pathname.split('/')[1])
  })
})

test('ends the session on the server at sign-out, so that the old cookie opens nothing', async () => {
  const { base, api, customer_id, organization, member } = await works()
  const { token } = await api.call(createCustomerSession, { body: { customer_id, member_id: member.id } })
  const cookie = `${cookieOf({ organization })}=${token}`
  await visit({ cookie }, async (page) => {
    await page.goto(`${base}/account`)
    await page.locator('main').getByRole('button', { name: 'Sign out' }).click()
    expect(page.url()).toBe(`${base}/sign-in?why=out`)
    expect(await page.getByRole('status').first().textContent()).toBe('You are signed out.')
    expect((await page.context().cookies()).filter(({ name }) => name === cookieOf({ organization }))).toEqual([])
  })
  await visit({ cookie }, async (page) => {
    await page.goto(`${base}/access`)
    expect(page.url()).toBe(`${base}/sign-in`)
  })
  expect((await world.client({ token }).send(getPortalUser, {})).status).toBe(401)
})

test('shows a member the key on request, downloads a file, removes an activation and replaces the key [S4-31]', async () => {
  const { base, linkOf, member, organization } = await works()
  const own = member.portal
  const [key] = (await own.call(listPortalLicenseKeys, {})).items
  await world.client().call(activatePortalLicenseKey, { body: { key: key!.key, organization_id: organization.id, label: 'Bench laptop' } })
  const shown = [key!.key]
  await visit(
    {},
    async (page) => {
      await page.goto(await linkOf(member.id))
      await page.waitForURL(`${base}/access`)
      await expectGoodLooks(page, 'access')
      const words = (await page.locator('main').textContent())!
      for (const word of ['Paid by Works', 'Night shift', 'Come when the light is on.', 'manual.txt', 'Bench laptop', '1 of 2 activations in use'])
        expect(words).toContain(word)
      expect(await page.content()).not.toContain(key!.key)
      await page.getByRole('button', { name: 'Show the key of Workshop license' }).click()
      await page.getByText(key!.key).waitFor()
      // Replaces the clipboard, because a headless browser has no reliable one.
      await page.evaluate('navigator.clipboard.writeText = async (text) => void (window.copied = text)')
      await page.getByRole('button', { name: 'Copy Workshop license' }).click()
      await page.getByText('Copied.').waitFor({ state: 'attached' })
      expect(await page.evaluate('window.copied')).toBe(key!.key)
      await page.getByRole('button', { name: 'Copy the checksum of manual.txt' }).click()
      expect(await page.evaluate('window.copied')).toMatch(/^[0-9a-f]{64}$/)
      expect(words).toContain(await page.evaluate('window.copied'))
      await expectGoodLooks(page, 'access-shown')
      const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download manual.txt' }).click()])
      expect(download.suggestedFilename()).toBe('manual.txt')
      await page.getByText('Remove Bench laptop').click()
      await page.getByRole('button', { name: 'Yes, remove it' }).click()
      await page.getByText('The activation was removed.').waitFor()
      expect((await own.call(getPortalLicenseKey, { params: { id: key!.id } })).activations).toEqual([])
      await page.getByText('Replace this key').click()
      await page.getByRole('button', { name: 'Yes, replace it' }).click()
      await page.getByText('The license key was replaced.').waitFor()
      const fresh = await own.call(getPortalLicenseKey, { params: { id: key!.id } })
      expect(fresh.key).not.toBe(key!.key)
      expect(await page.content()).not.toContain(fresh.key)
    },
    shown,
  )
})

test('shows a plain member no price, colleague or payer on any page, and refuses management pages with an explanation [S4-30] [S4-31]', async () => {
  const { base, linkOf, member, owner } = await works()
  const hidden = ['colleague@own.test', owner.email, '$', '€', 'USD', '10.00', '1000', '30.00']
  const managed = managePages(world.platform, {} as never).filter(({ method }) => method === 'GET')
  await visit({}, async (page) => {
    await page.goto(await linkOf(member.id))
    await page.waitForURL(`${base}/access`)
    expect(await page.getByRole('navigation').getByRole('link').allTextContents()).toEqual(['Your access', 'Account'])
    for (const path of ['', '/access', '/account', '/sign-in', '?flow=payment_method', '?flow=cancel', '?flow=seats', '?flow=plan']) {
      await page.goto(base + path)
      if (path === '/account') await expectGoodLooks(page, 'account-member')
      else if (path !== '/sign-in') expect(page.url()).toBe(`${base}/access`)
    }
    for (const { path } of managed) {
      const address = path.replace(':slug/portal', '').replace(/^\/\//, '').replace(/:\w+/g, member.id)
      expect([path, (await page.goto(`${base}/${address}`))!.status()]).toEqual([path, 403])
      expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Only the owner and billing managers can open this page')
    }
    if (managed.length > 0) await expectGoodLooks(page, 'forbidden')
    const documents = await documentsOf(page.context())
    expect(documents.length).toBeGreaterThanOrEqual(8)
    for (const { url, html } of documents) for (const word of hidden) expect([url, word, html.includes(word)]).toEqual([url, word, false])
  })
})

test("changes the payer's address by a link to the new address, which a mere visit does not use up", async () => {
  const { base, linkOf, owner, api, organization } = await works()
  const change = async (page: Page, email: string) => {
    await page.getByLabel('New e-mail address').fill(email)
    await page.getByRole('button', { name: 'Send a link to the new address' }).click()
  }
  await api.call(updateOrganization, {
    params: { id: organization.id },
    body: { customer_portal_settings: { ...organization.customer_portal_settings, customer: { allow_email_change: true } } },
  })
  await visit({}, async (page) => {
    await page.goto(await linkOf(owner.id))
    await page.waitForURL(`${base}/overview`)
    await page.goto(`${base}/account`)
    await expectGoodLooks(page, 'account')
    await page.evaluate(`document.querySelector('main form').noValidate = true`)
    await change(page, 'nonsense')
    expect(await page.locator('[aria-invalid]').inputValue()).toBe('nonsense')
    await expectGoodLooks(page, 'account-wrong')
    await change(page, 'fresh@own.test')
    await page.getByText('A link is on its way to the new address.').waitFor()
  })
  await teams.post('mail.customer_email_change')
  const token = tokenIn((await world.mail.next('fresh@own.test')).text)
  await visit({ script: false }, async (page) => {
    for (const _ of [1, 2]) await page.goto(`${base}/email?token=${token}`)
    expect(page.url()).toBe(`${base}/email`)
    await page.getByRole('button', { name: 'Yes, use this address' }).click()
    expect(await page.locator('main').textContent()).toContain('was changed')
  })
  await visit({}, async (page) => {
    await page.goto(`${base}/email?token=${token}`)
    expect(await page.locator('main').textContent()).toContain('already used, or is too old')
    await expectGoodLooks(page, 'email-over')
  })
})

test('keeps the portal script small, and refuses forms without our CSRF token', async () => {
  const { base, member, organization } = await works()
  expect(gzipSync(script()).length).toBeLessThan(10 * 1024)
  await visit({ cookie: `${cookieOf({ organization })}=${member.token}` }, async (page) => {
    for (const path of ['/access', '/account', '/sign-out', '/sign-in', '/enter', '/claim', '/email']) {
      const answer = await page.request.post(base + path, { form: { action: 'rotate', step: 'email', email: 'x@own.test' } })
      expect([path, answer.status()]).toEqual([path, 403])
    }
    await page.goto(`${base}/access`)
    expect(page.url()).toBe(`${base}/access`)
  })
})
