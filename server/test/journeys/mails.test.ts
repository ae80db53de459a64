import { confirmClientCheckout, createBenefit, createCheckout, createCustomer, createProduct, updateProductBenefits } from '@bursar/contract'
import type { Brand, Locale, MailView } from '@bursar/views'
import { buttonColors, contrastOf, renderMail } from '@bursar/web'
import { mkdirSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openApi } from '../../src/main/wire.ts'
import { readConfig } from '../../src/platform/config.ts'
import { isOfSeller } from '../../src/pages/account/gallery.page.ts'
import { mailSamples, sampleSellers, samplesByKind } from '../../src/pages/account/mail-samples.ts'
import { brand, draw, foxLogo, landscape, openPictureHost } from '../harness/brands.ts'
import { openBrowser, openContext, type Browser } from '../harness/browser.ts'
import { codeIn } from '../harness/mail.ts'
import { openPortals } from '../harness/portals.ts'
import { upload } from '../harness/stores.ts'
import { openTeams, type Team } from '../harness/teams.ts'
import { eventually, exchange, openWorld, type World } from '../harness/world.ts'

let world: World
let browser: Browser
let teams: Awaited<ReturnType<typeof openTeams>>
let team: Team
beforeAll(async () => {
  ;[world, browser] = await Promise.all([openWorld({ browser: true, settings: { BURSAR_EGRESS_LOOPBACK: 'true' } }), openBrowser()])
  teams = await openTeams(world)
  team = await openPortals(world, teams, browser).team()
})
afterAll(async () => {
  await browser.close()
  await world.close()
})

const pictures = process.env.BURSAR_TEST_PICTURES
if (pictures) mkdirSync(pictures, { recursive: true })

const languages: readonly Locale[] = ['en', 'de']
const places = () => ({
  public_url: world.config.public_url,
  auth_url: world.config.auth_url,
  slug: team.organization.slug,
  order_id: team.order_id,
  organization_id: team.organization.id,
})
const samples = (locale: Locale): readonly MailView[] => mailSamples(locale, places())
const rendered = (view: MailView, locale: Locale, seller: Brand = sampleSellers.branded) =>
  renderMail(view, {
    locale,
    seller: isOfSeller(view.kind) ? seller : null,
    logo_url: seller.accent && new URL('/favicon.svg', world.config.public_url).href,
    sandbox: true,
  })

/** Replaces the entities that React writes. */
const decode = (html: string) =>
  html.replaceAll('&quot;', '"').replaceAll('&#x27;', "'").replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
const hrefsOf = (html: string) => [...html.matchAll(/href="([^"]*)"/g)].map(([, href]) => decode(href!))
/** The texts of the elements of the body, without the hidden preview. */
const textsOf = (html: string) =>
  [
    ...html
      .replace(/^.*?<body/s, '<body')
      .replace(/<div style="display:none.*?<\/div>/s, '')
      .matchAll(/>([^<>]+)</g),
  ].map(([, text]) => decode(text!).trim())

interface Looks {
  readonly over: number
  readonly button: boolean
  readonly low: readonly string[]
}

/** Measures a mail in the browser: how far it is too wide, whether its button can be touched, and the texts with too little contrast. */
const looks = `(() => {
  const box = document.querySelector('.button a').getBoundingClientRect()
  const luminance = (color) => {
    const [red, green, blue] = color.match(/[\\d.]+/g).map((part) => {
      const value = Number(part) / 255
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
  }
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const { backgroundColor } = getComputedStyle(at)
      if (backgroundColor !== 'rgba(0, 0, 0, 0)') return backgroundColor
    }
    return 'rgb(255, 255, 255)'
  }
  const contrasts = [...document.querySelectorAll('h1, h2, p, td, a')]
    .filter((element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== ''))
    .map((element) => {
      const [one, other] = [luminance(getComputedStyle(element).color), luminance(behind(element))].sort((a, b) => a - b)
      return { text: element.textContent, contrast: (other + 0.05) / (one + 0.05) }
    })
  return {
    over: document.documentElement.scrollWidth - innerWidth,
    button: box.height >= 44 && box.width >= 44,
    low: contrasts.filter(({ contrast }) => contrast < 4.5).map(({ text }) => text),
  }
})()`

describe.each(languages)('the mails in %s', (locale) => {
  test('have one button each, and the same facts and links in HTML and in text', () => {
    for (const view of samples(locale)) {
      const { html, text, subject } = rendered(view, locale)
      expect([view.kind, [...html.matchAll(/class="button"/g)].length]).toEqual([view.kind, 1])
      expect(subject.length, view.kind).toBeLessThan(120)
      for (const href of hrefsOf(html)) expect(text, view.kind).toContain(href.replace(/^mailto:/, ''))
      for (const part of textsOf(html).filter((one) => /[\p{L}\p{N}]/u.test(one)))
        expect(text.replaceAll(/\s+/g, ' '), view.kind).toContain(part.replaceAll(/\s+/g, ' '))
    }
  })

  test('name the seller, whom to ask, and whether they are a test', () => {
    const { plain, branded } = sampleSellers
    for (const seller of [plain, branded])
      for (const view of samples(locale).filter(({ kind }) => isOfSeller(kind))) {
        const { text } = rendered(view, locale, seller)
        expect(text).toContain(seller.support_email ?? seller.name)
        expect(text).toContain('Sandbox')
        expect(renderMail(view, { locale, seller, logo_url: null, sandbox: false }).text).not.toContain('Sandbox')
      }
  })

  test('escape what people have typed', () => {
    const hostile = { ...sampleSellers.plain, name: '<script>alert(1)</script>', support_email: '"><img src=x>@a.test' }
    for (const view of samples(locale)) expect(rendered(view, locale, hostile).html).not.toMatch(/<script|<img src=x/)
  })

  test('have a sample of every kind, under its name', () => {
    for (const [kind, views] of Object.entries<readonly MailView[]>(samplesByKind(locale, places()))) {
      expect(views.length, kind).toBeGreaterThan(0)
      for (const view of views) expect(view.kind).toBe(kind)
    }
  })

  test('are all in the gallery, each beside its plain text', async () => {
    const settings = { ...world.environmentVariables, BURSAR_MAIL_DIR: `${process.env.BURSAR_TEST_SCRATCH}/gallery`, BURSAR_SMTP_URL: '' }
    const api = await openApi({ ...world.base, config: readConfig(settings) })
    const address = await api.server.listen({ host: '127.0.0.1', port: 0 })
    const { context, violations, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(`${address}/mailbox/gallery?in=${locale}`)
    const kinds = await page.locator('.cards h2 + p').allTextContents()
    expect([...new Set(kinds)].toSorted()).toEqual(Object.keys(samplesByKind(locale, places())).toSorted())
    const texts = await page.locator('.cards pre').allTextContents()
    const titles = await page.evaluate<string[]>(`[...document.querySelectorAll('.cards iframe')].map(({ title }) => title)`)
    expect([texts.length, titles.length]).toEqual([kinds.length, kinds.length])
    for (const [at, view] of samples(locale).entries()) {
      const { subject, text } = rendered(view, locale)
      expect(titles[at]).toBe(subject)
      // Links differ, because the gallery has another seller.
      expect(texts[at]!.replaceAll(/https?:\S+/g, '')).toBe(text.replaceAll(/https?:\S+/g, ''))
      const shown = await exchange(Number(new URL(address).port), 'GET', `/mailbox/gallery/${at}?in=${locale}`)
      expect([shown.status, decode(/<title>(.*?)<\/title>/.exec(shown.text)![1]!)]).toEqual([200, subject])
    }
    expect(violations).toEqual([])
    await close()
    await api.close()
  })

  test('fit a telephone and a desk, in light and in dark', async () => {
    for (const [width, colorScheme] of [
      [390, 'light'],
      [390, 'dark'],
      [700, 'light'],
      [700, 'dark'],
    ] as const) {
      const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme })
      const page = await context.newPage()
      for (const [at, view] of samples(locale).entries()) {
        await page.setContent(rendered(view, locale).html)
        if (pictures)
          await page.screenshot({ path: `${pictures}/mail-${locale}-${width}-${colorScheme}-${String(at).padStart(2, '0')}-${view.kind}.png`, fullPage: true })
        const { over, button, low } = await page.evaluate<Looks>(looks)
        expect({ kind: view.kind, width, colorScheme, over, button, low }).toEqual({ kind: view.kind, width, colorScheme, over: 0, button: true, low: [] })
      }
      await context.close()
    }
  })
})

test('no German mail contains the English words that are stored with orders, payments and disputes', () => {
  const english = /\bseats?\b|Remaining time|taken back|restored|\bunits?\b|credited|corrected|\btrial\b|\bcard\b|received/i
  for (const view of samples('de')) {
    const { subject, html, text } = rendered(view, 'de')
    for (const part of [subject, ...textsOf(html), text.replaceAll(/https?:\S+/g, '')]) expect(part, view.kind).not.toMatch(english)
  }
})

test('the text on the button is readable on every accent', () => {
  for (let step = 0; step < 4096; step += 7) {
    const accent = `#${[step >> 8, (step >> 4) & 15, step & 15].map((part) => (part * 17).toString(16).padStart(2, '0')).join('')}`
    const { background, color } = buttonColors(accent)
    expect([accent, contrastOf(background, color) >= 4.5]).toEqual([accent, true])
  }
  expect(buttonColors('red; background: url(//x)').background).toMatch(/^#[0-9a-f]{6}$/)
})

test('every link of every mail leads to a page', async () => {
  const portals = openPortals(world, teams, browser)
  const { organization } = team
  const person = await world.person()
  await world.join(organization.id, person.id, 'admin')
  const owner = await person.cookie()
  const inside = await portals.enter(team)
  await inside.context.addCookies([{ name: owner.split('=')[0]!, value: owner.slice(owner.indexOf('=') + 1), url: world.config.public_url.origin }])
  const hrefs = new Set(languages.flatMap((locale) => samples(locale).flatMap((view) => hrefsOf(rendered(view, locale).html))))
  const { website, terms_url, privacy_url } = sampleSellers.branded
  const ofSeller = [website, terms_url, privacy_url].map(String)
  expect([...hrefs]).toEqual(expect.arrayContaining(ofSeller))
  // Links in the seller's own words, such as the note of a benefit, lead to a site of the seller. Those of the samples end with `.example`.
  const isOfSeller = (href: string) => new URL(href).hostname.endsWith('.example')
  const followed = [...hrefs].filter((href) => href.startsWith('http') && !ofSeller.includes(href) && !isOfSeller(href))
  expect(followed.length).toBeGreaterThan(15)
  const dead: string[] = []
  for (const href of followed) {
    // A sample token is no secret of this system, and the sample file does not exist. Their pages say so. Another test follows the link of a real file.
    const isSample = href.includes('token=sample') || href.includes('/portal/download?')
    for (const context of [inside.context, await browser.newContext()]) {
      const page = await context.newPage()
      const answer = await page.goto(href, { waitUntil: 'commit' })
      if (!isSample && answer!.status() >= 400) dead.push(`${answer!.status()} ${href}`)
      if (isSample && answer!.status() >= 500) dead.push(`${answer!.status()} ${href}`)
      await page.close()
    }
  }
  expect(dead).toEqual([])
})

test.each([
  ['de', /^Ihr Beleg von /],
  ['en', /^Your receipt from /],
] as const)('a Swiss buyer whose checkout page was in %s is mailed in that language', async (locale, subject) => {
  const { api } = await world.shop()
  const product = await api.call(createProduct, { body: { name: 'Atlas', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] } })
  const { url } = await api.call(createCheckout, { body: { products: [product.id] } })
  const { context, close } = await openContext(browser, world, { locale })
  const page = await context.newPage()
  await page.goto(url)
  const to = `swiss-${locale}@people.test`
  await page.getByLabel(locale === 'de' ? 'E-Mail-Adresse' : 'E-mail address').fill(to)
  await page.getByLabel(locale === 'de' ? 'Land' : 'Country', { exact: true }).selectOption('CH')
  await page.getByText(locale === 'de' ? 'sobald Sie ein Land wählen' : 'once you choose a country').waitFor({ state: 'detached' })
  await page.getByLabel(locale === 'de' ? 'Testkarte' : 'Test card').selectOption('tok_visa')
  await page.getByRole('button', { name: /29[.,]00/ }).click()
  await page.getByRole('button', { name: /29[.,]00/ }).waitFor({ state: 'detached' })
  await teams.settle()
  await teams.post('mail.order_receipt')
  expect((await world.mail.next(to)).subject).toMatch(subject)
  await close()
})

test.each([
  ['de', 'E-Mail', 'Ihr Anmeldecode'],
  ['en', 'E-mail', 'Your sign-in code'],
] as const)('a code that is requested on a page in %s is mailed in that language', async (locale, label, subject) => {
  const { context, close } = await openContext(browser, world, { locale })
  const page = await context.newPage()
  await page.goto(`${world.config.auth_url.origin}/login`)
  const { email: to } = await world.person()
  await page.getByLabel(label).fill(to)
  await page.locator('main button').first().click()
  await page.locator('input[name="code"]').waitFor()
  await teams.post('mail.sign_in_code')
  expect((await world.mail.next(to)).subject).toBe(subject)
  await close()
})

test('the page of an order shows its lines in German', async () => {
  const { page, go, close } = await openPortals(world, teams, browser).enter(team, {}, { locale: 'de' })
  await go(`/orders/${team.order_id}`)
  await page.getByRole('rowheader', { name: 'Workshop (5 Plätze)' }).waitFor()
  await close()
})

test('a reader of a mail who signs in first is led to the linked order, and once only', async () => {
  const base = `${world.config.public_url.origin}/${team.organization.slug}/portal`
  const { context, close } = await openContext(browser, world)
  const page = await context.newPage()
  const signIn = async () => {
    // Earlier tests may have sent receipts to this address.
    world.mail.letters.length = 0
    await page.getByLabel('E-mail').fill(team.owner.email)
    await page.getByRole('button').filter({ hasText: /code/i }).first().click()
    await teams.post('mail.customer_session_code')
    await page.getByLabel('Code from the mail').fill(codeIn((await world.mail.next(team.owner.email)).text))
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  }
  await page.goto(`${base}/orders/${team.order_id}`)
  await signIn()
  await page.waitForURL(`${base}/orders/${team.order_id}`)
  await context.clearCookies({ name: new RegExp(team.organization.id) })
  await page.goto(`${base}/sign-in`)
  await signIn()
  await page.waitForURL(`${base}/overview`)
  await close()
})

test.each([
  ['invoice', 'Works', /invoice \(PDF\):\s+(\S+\/invoice)/],
  ['receipt', null, /receipt \(PDF\):\s+(\S+\/receipt)/],
] as const)('the link of a receipt leads to the PDF of the %s, which was not requested before', async (kind, name, link) => {
  const shop = await world.shop()
  const email = `pdf-${name ?? 'nameless'}@people.test`.toLowerCase()
  const { id: customer_id } = await shop.api.call(createCustomer, { body: { email, name, locale: 'en' } })
  const bought = await openPortals(world, teams, browser).team({ shop, customer_id, email })
  await teams.post('mail.order_receipt')
  const href = link.exec((await world.mail.next(email)).text)![1]!
  for (const script of [true, false]) {
    const { page, close } = await openPortals(world, teams, browser).enter(bought, {}, { script })
    const coming = page.waitForEvent('download')
    // Later visits lead to the file at once, and a navigation that becomes a download is an error of `goto`.
    await page.goto(href).catch(() => undefined)
    if (kind === 'invoice' && script) await page.getByRole('button', { name: 'Create the invoice (PDF)' }).click()
    await teams.settle()
    expect(readFileSync(await (await coming).path(), 'latin1').slice(0, 4)).toBe('%PDF')
    await close()
  }
})

test('a receipt links each file, and shows the picture of the product. A reader who must sign in gets the file afterwards', async () => {
  const shop = await world.shop()
  const { api } = shop
  const file = await upload(api, Buffer.from('the map'), { name: 'map & legend.txt', mime_type: 'text/plain' })
  const png = await draw(browser, landscape('#9cc', '#365'), 96, 60)
  const media = await upload(api, png, { service: 'product_media', name: 'cover.png', mime_type: 'image/png' })
  const benefit = await api.call(createBenefit, { body: { type: 'downloadables', description: 'The map', properties: { files: [file.id] } } })
  const prices = [{ amount_type: 'fixed' as const, price_amount: 2900, price_currency: 'usd' as const }]
  const product = await api.call(createProduct, { body: { name: 'Map', prices, medias: [media.id] } })
  await api.call(updateProductBenefits, { params: { id: product.id }, body: { benefits: [benefit.id] } })
  const email = 'files@people.test'
  const customer = await api.call(createCustomer, { body: { email, name: 'Fi', locale: 'en' } })
  const { client_secret } = await api.call(createCheckout, { body: { products: [product.id], customer_id: customer.id } })
  const body = { customer_billing_address: { country: 'DE' as const }, confirmation_token_id: 'tok_visa' }
  await world.client().call(confirmClientCheckout, { params: { client_secret }, body })
  await teams.settle()
  await teams.deployment!.sweep('entitlements.apply')
  await teams.settle()
  await teams.post('mail.order_receipt')
  const { html, text } = await world.mail.next(email)
  const [, picture] = /<img src="([^"]+)" alt="Map"/.exec(html)!
  expect(picture).toMatch(new RegExp(`^${world.config.public_url.origin}/`))
  expect(Buffer.from(await (await fetch(picture!)).arrayBuffer())).toEqual(png)
  const [, href] = /map & legend\.txt:\s+(\S+)/.exec(text)!
  expect(html).toContain(href!.replaceAll('&', '&amp;'))
  const { context, close } = await openContext(browser, world)
  const page = await context.newPage()
  await page.goto(href!)
  await page.getByLabel('E-mail').fill(email)
  await page.getByRole('button').filter({ hasText: /code/i }).first().click()
  await teams.post('mail.customer_session_code')
  await page.getByLabel('Code from the mail').fill(codeIn((await world.mail.next(email)).text))
  const coming = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  expect(readFileSync(await (await coming).path(), 'utf8')).toBe('the map')
  await close()
})

test('a mail shows the copied PNG logo of the seller, its colour and its links', async () => {
  const host = await openPictureHost()
  const png = await draw(browser, foxLogo('#e4572e'), 256, 256)
  host.files.set('/logo.png', { type: 'image/png', bytes: png })
  const shop = await world.shop()
  const bought = await openPortals(world, teams, browser).team({ shop })
  const copied = brand(world, shop, host.at('/logo.png'))
  await eventually('the logo is copied', async () => {
    await teams.settle()
    const { rows } = await world.database.owner((owner) => owner.query('select from organizations where id = $1 and logo is not null', [shop.organization.id]))
    return rows[0]
  })
  expect(await copied).toMatchObject({ content_type: 'image/png' })
  await teams.post('mail.order_receipt')
  const { html, text, from } = await world.mail.next(bought.owner.email)
  const [, logo] = /<img src="([^"]+)"/.exec(html)!
  expect(logo).toMatch(new RegExp(`^${world.config.public_url.origin}/`))
  const answer = await fetch(logo!)
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'image/png'])
  expect(html).toContain('#e4572e')
  expect(from?.name).toBe('Alder & Finch')
  for (const link of ['help@alder-finch.example.com', 'https://alder-finch.example.com/terms', 'https://alder-finch.example.com/privacy'])
    for (const part of [html, text]) expect(part).toContain(link)
  await host.close()
})
