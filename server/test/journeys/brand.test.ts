import { mkdirSync } from 'node:fs'
import { createCheckout, createProduct, updateProduct } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brand, draw, foxLogo, landscape, openPictureHost } from '../harness/brands.ts'
import { expectAccessible, openBrowser, openContext, type Browser, type ContextOptions, type Page } from '../harness/browser.ts'
import { openPortals } from '../harness/portals.ts'
import { upload } from '../harness/stores.ts'
import { openTeams } from '../harness/teams.ts'
import { exchange, openWorld, type World } from '../harness/world.ts'
import { orderButton } from '../harness/ordering.ts'

// The brand of a seller on the pages of buyers: with every part of it, and without any.
let world: World
let browser: Browser
let host: Awaited<ReturnType<typeof openPictureHost>>
beforeAll(async () => {
  ;[world, browser, host] = await Promise.all([
    openWorld({ worker: true, browser: true, settings: { BURSAR_EGRESS_LOOPBACK: 'true' } }),
    openBrowser(),
    openPictureHost(),
  ])
  host.files.set('/logo.png', { type: 'image/png', bytes: await draw(browser, foxLogo('#e4572e'), 256, 256) })
})
afterAll(async () => {
  await browser.close()
  await host.close()
  await world.close()
})

const pictures = process.env.BURSAR_TEST_PICTURES
if (pictures) mkdirSync(pictures, { recursive: true })

const seated = {
  amount_type: 'seat_based',
  price_currency: 'usd',
  seat_tiers: { seat_tier_type: 'graduated', tiers: [{ min_seats: 1, max_seats: null, price_per_seat: 1200 }] },
}

type Shop = Awaited<ReturnType<World['shop']>>

/** Creates a team plan with a benefit. With pictures, it also has a cover and another picture. */
const planOf = async ({ api }: Shop, isPictured: boolean) => {
  const product = await api.call(createProduct, {
    body: {
      name: 'Studio plan',
      description: 'Shared libraries, version history and unlimited exports for your design team.',
      recurring_interval: 'month',
      prices: [seated],
    } as never,
  })
  if (isPictured) {
    const medias = []
    for (const [sky, hill] of [
      ['#f6c7a5', '#e4572e'],
      ['#bcd7e8', '#20506e'],
    ] as const) {
      const bytes = await draw(browser, landscape(sky, hill), 960, 600)
      medias.push((await upload(api, bytes, { service: 'product_media', name: 'cover.png', mime_type: 'image/png' } as never)).id)
    }
    await api.call(updateProduct, { params: { id: product.id }, body: { medias } })
  }
  return product
}

/** Checks a page for accessibility and for violations of the policy. Takes pictures if asked: both widths, both themes. */
const look = async (page: Page, name: string) => {
  for (const [width, dark] of [
    [1280, false],
    [1280, true],
    [390, false],
    [390, true],
  ] as const) {
    await page.setViewportSize({ width, height: width > 1000 ? 900 : 844 })
    await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' })
    await expectAccessible(page)
    if (pictures) await page.screenshot({ path: `${pictures}/${name}-${width}-${dark ? 'dark' : 'light'}.png`, fullPage: true })
  }
}

const links = (page: Page): Promise<unknown> =>
  page.evaluate(`[...document.querySelectorAll('nav.seller a')].map((link) => [link.textContent, link.getAttribute('href')])`)

describe.each([
  ['with a brand', true, 'en'],
  ['without a brand', false, 'en'],
  ['with a brand, in German', true, 'de'],
] as const)('%s', (_, isBranded, locale) => {
  const name = (page: string) => `${page}-${isBranded ? 'brand' : 'plain'}-${locale}`
  const options: ContextOptions = { locale }

  test('shows checkout, confirmation, invitation and portal', async () => {
    const shop = await world.shop()
    const teams = await openTeams(world)
    const product = await planOf(shop, isBranded)
    const portals = openPortals(world, teams, browser)
    const team = await portals.team({ shop, product_id: product.id, seats: 5 })
    if (isBranded) expect(await brand(world, shop, host.at('/logo.png'))).toMatchObject({ content_type: 'image/png', width: 256, height: 256 })
    const expected = isBranded
      ? [
          ['help@alder-finch.example.com', 'mailto:help@alder-finch.example.com'],
          [locale === 'de' ? 'AGB' : 'Terms', 'https://alder-finch.example.com/terms'],
          [locale === 'de' ? 'Datenschutz' : 'Privacy policy', 'https://alder-finch.example.com/privacy'],
          ['alder-finch.example.com', 'https://www.alder-finch.example.com/shop'],
        ]
      : []
    host.requests.length = 0
    const checkout = await shop.api.call(createCheckout, {
      body: {
        products: [product.id],
        seats: 5,
        customer_name: 'Ines Moreau',
        customer_email: 'ines@people.test',
        customer_billing_address: { country: 'DE' },
      } as never,
    })
    const { context, violations, close } = await openContext(browser, world, options)
    const page = await context.newPage()
    const seen = async (at: string) => {
      await look(page, name(at))
      expect(await links(page)).toEqual(expected)
      expect(await page.locator('header img').count()).toBe(isBranded ? 1 : 0)
      if (isBranded) expect(await page.evaluate(`document.querySelector('header img').naturalWidth`)).toBe(256)
      // The button has the seller's colour, or the neutral one.
      const button = await page.evaluate(
        `(() => { const one = document.querySelector('button.primary, a.button'); return one && getComputedStyle(one).backgroundColor })()`,
      )
      if (button !== null) expect(button === 'rgb(236, 237, 240)').toBe(!isBranded)
    }
    await page.goto(checkout.url)
    await page.emulateMedia({ colorScheme: 'dark' })
    await seen('checkout')
    await orderButton(page, undefined, locale).click()
    await page.getByRole('heading', { name: locale === 'de' ? 'Vielen Dank!' : 'Thank you!' }).waitFor()
    await seen('thanks')

    await page.goto(`${world.config.public_url.origin}/${shop.organization.slug}/portal/sign-in`)
    await context.clearCookies()
    await page.reload()
    await seen('sign-in')
    const token = await teams.invited(await teams.assign(team, { email: `invited-${locale}-${isBranded}@people.test` }))
    await page.goto(`${world.config.public_url.origin}/${shop.organization.slug}/portal/claim?token=${token}`)
    await seen('claim')
    expect(violations).toEqual([])
    await close()

    const manager = await portals.enter(team, {}, options)
    for (const section of ['overview', 'team', 'subscriptions', 'orders', 'billing', 'access']) {
      await manager.go(`/${section}`)
      await look(manager.page, name(`portal-${section}`))
      expect(await links(manager.page)).toEqual(expected)
    }
    expect(manager.violations).toEqual([])
    await manager.close()
    // No browser asked the seller's host for the logo.
    expect(host.requests).toEqual([])
  })
})

/** Returns the values of the meta elements of a page, by name. */
const metaIn = (html: string) =>
  Object.fromEntries([...html.matchAll(/<meta (?:name|property)="([^"]+)" content="([^"]*)"/g)].map(([, name, content]) => [name!, content!]))

describe('a link preview', () => {
  const ask = async (url: string, headers: Record<string, string> = {}) => {
    const { pathname, search, host: name } = new URL(url)
    return exchange(world.port, 'GET', pathname + search, { host: name, ...headers })
  }
  const browsing = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' }

  test('of a checkout names product and seller, and nothing of the secret', async () => {
    const shop = await world.shop()
    const product = await planOf(shop, true)
    await brand(world, shop, host.at('/logo.png'))
    const checkout = await shop.api.call(createCheckout, { body: { products: [product.id], customer_email: 'secret@people.test' } })
    const { status, text, headers } = await ask(checkout.url, { 'accept-language': 'en' })
    expect(status).toBe(200)
    const meta = metaIn(text)
    expect(meta).toMatchObject({
      robots: 'noindex',
      'og:site_name': 'Alder &amp; Finch',
      'og:title': 'Studio plan from Alder &amp; Finch',
      'og:description': 'Shared libraries, version history and unlimited exports for your design team.',
      'twitter:card': 'summary_large_image',
    })
    const image = await ask(meta['og:image']!)
    expect([image.status, image.headers.get('content-type')]).toEqual([200, 'image/png'])
    expect(text).not.toContain(checkout.client_secret)
    expect(text).not.toContain('secret@people.test')
    expect(meta).not.toHaveProperty('og:url')
    expect(headers.get('refresh')).toBe(`0; url=/checkout/${checkout.id}`)
    // A browser is redirected, so that the secret is in no history.
    const browsed = await ask(checkout.url, browsing)
    expect([browsed.status, browsed.headers.get('location')]).toEqual([303, `/checkout/${checkout.id}`])
  })

  test('of a checkout without pictures shows the logo, or no picture', async () => {
    const [shop, plain] = [await world.shop(), await world.shop()]
    await brand(world, shop, host.at('/logo.png'))
    for (const [one, image] of [
      [shop, /^http:\/\/127\.0\.0\.1:\d+\/assets\/logos\/.+\.png$/],
      [plain, undefined],
    ] as const) {
      const product = await planOf(one, false)
      const { url } = await one.api.call(createCheckout, { body: { products: [product.id] } })
      const { 'og:image': found } = metaIn((await ask(url)).text)
      if (image === undefined) expect(found).toBeUndefined()
      else expect(found).toMatch(image)
    }
  })

  test('of an invitation names only the seller, whether the link is valid or not', async () => {
    const shop = await world.shop()
    await brand(world, shop, host.at('/logo.png'))
    const at = `${world.config.public_url.origin}/${shop.organization.slug}/portal/claim?token=of-nobody`
    const { status, text } = await ask(at, { 'accept-language': 'de' })
    expect([status, metaIn(text)['og:title']]).toEqual([200, 'Ihr Platz bei Alder &amp; Finch'])
    expect(text).not.toContain('of-nobody')
    expect((await ask(at, browsing)).status).toBe(303)
  })
})

describe('the content security policy', () => {
  test('allows the rules of this seller by their hash, and no other inline style', async () => {
    const [shop, plain] = [await world.shop(), await world.shop()]
    await brand(world, shop, host.at('/logo.png'))
    const policyOf = async ({ organization }: Shop) => {
      const { headers, text } = await exchange(world.port, 'GET', `/${organization.slug}/portal/sign-in`, { host: new URL(world.config.public_url).host })
      return { policy: headers.get('content-security-policy')!, text }
    }
    const own = await policyOf(shop)
    expect(own.policy).toMatch(/style-src 'self' 'sha256-[A-Za-z0-9+/]{43}=';/)
    expect(own.text).toMatch(/<style>:root\{--accent:light-dark\(#[0-9a-f]{6},#[0-9a-f]{6}\);--button:/)
    const none = await policyOf(plain)
    expect(none.policy).toContain("style-src 'self';")
    expect(none.text).not.toContain('<style>')
    for (const { policy } of [own, none]) {
      expect(policy).not.toContain('unsafe')
      // The seller's own host is not in the policy: pages show our copy of the logo.
      expect(policy).toContain("img-src 'self' data:;")
    }
  })
})
