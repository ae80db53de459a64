import { mkdirSync } from 'node:fs'
import { createCheckout, createCheckoutLink, createProduct, deleteCheckoutLink, followCheckoutLink, updateOrganization, updateProduct } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openApi } from '../../src/main/wire.ts'
import { hours } from '../../src/platform/clock.ts'
import { readConfig } from '../../src/platform/config.ts'
import { draw, foxLogo, giveLogo } from '../harness/brands.ts'
import { expectAccessible, openBrowser, openContext, type Browser } from '../harness/browser.ts'
import { asOwner } from '../harness/database.ts'
import { openWorld, type World } from '../harness/world.ts'

// Every page about an error in a real browser: with a brand and without, in both languages, widths and themes.
let world: World
let browser: Browser
let logo: Buffer
beforeAll(async () => {
  ;[world, browser] = await Promise.all([openWorld({ browser: true }), openBrowser()])
  logo = await draw(browser, foxLogo('#e4572e'), 256, 256)
})
afterAll(async () => {
  await browser.close()
  await world.close()
})

const pictures = process.env.BURSAR_TEST_PICTURES
if (pictures) mkdirSync(pictures, { recursive: true })

const kinds = [
  { isBranded: true, locale: 'en' },
  { isBranded: true, locale: 'de' },
  { isBranded: false, locale: 'en' },
  { isBranded: false, locale: 'de' },
] as const

/** Opens a process whose limits are used up already, because it shares its counters with the first one. */
const openStrict = async () => {
  const limits = { page_session: [[100, 60]], new_page_sessions: [[100, 60]], page_address: [[100, 60]], other_paths: [[1, 60]], checkout_link: [[1, 60]] }
  const api = await openApi({ ...world.base, config: readConfig({ ...world.environmentVariables, BURSAR_BUDGETS: JSON.stringify(limits) }) })
  await api.server.listen({ host: '127.0.0.1', port: 0 })
  const { port } = api.server.server.address() as { port: number }
  return { origin: `http://127.0.0.1:${port}`, close: api.close }
}

test('error pages name the seller, look finished, are accessible and lead on', async () => {
  const { origin } = world.config.public_url
  const strict = await openStrict()
  const outages: (() => Promise<void>)[] = []
  for (const { isBranded, locale } of kinds) {
    const { api, organization } = await world.shop()
    await api.call(updateOrganization, {
      params: { id: organization.id },
      body: {
        name: 'Alder & Finch',
        ...(isBranded
          ? {
              email: 'help@alder-finch.example.com',
              website: 'https://www.alder-finch.example.com/shop',
              brand_settings: {
                accent_color: '#e4572e',
                terms_url: 'https://alder-finch.example.com/terms',
                privacy_url: 'https://alder-finch.example.com/privacy',
              },
            }
          : {}),
      },
    })
    if (isBranded) await giveLogo(world, organization.id, logo)
    const product = async () =>
      api.call(createProduct, { body: { name: 'Field guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] } })
    const [guide, gone] = [await product(), await product()]
    const link = async () => {
      const made = await api.call(createCheckoutLink, { body: { payment_processor: 'stripe', products: [guide.id] } as never })
      return { ...made, path: followCheckoutLink.path.replace('{client_secret}', made.client_secret) }
    }
    const [dead, busy] = [await link(), await link()]
    await api.call(deleteCheckoutLink, { params: { id: dead.id } })
    const { context, violations, close } = await openContext(browser, world, { locale })
    const page = await context.newPage()
    /** Checks an error page, and takes pictures if asked: both widths, both themes. */
    const look = async (name: string, status: number, address: string, words: string, { at = page, from = origin, isNamed = true } = {}) => {
      await at.unrouteAll()
      const answer = await at.goto(new URL(address, from).href)
      // A page that loads again by itself stays while it is checked.
      await at.route('**', (route) => (route.request().isNavigationRequest() ? route.abort('aborted') : route.continue()))
      expect([name, answer?.status()]).toEqual([name, status])
      expect([name, await at.locator('h1').textContent()]).toEqual([name, words])
      expect([name, await at.locator('header .mark').textContent()]).toEqual([name, isNamed ? 'Alder & Finch' : 'Bursar'])
      const icon = await at.evaluate(`document.querySelector('header img')?.naturalWidth ?? 0`)
      expect([name, icon]).toEqual([name, isBranded && isNamed ? 256 : 0])
      expect([name, await at.locator('nav.seller a').count()]).toEqual([name, isBranded && isNamed ? 4 : 0])
      if (isNamed) expect([name, await at.locator(`main a[href="/${organization.slug}/portal"]`).count()]).toEqual([name, 1])
      for (const [width, dark] of [
        [1280, false],
        [1280, true],
        [390, false],
        [390, true],
      ] as const) {
        await at.setViewportSize({ width, height: width > 1000 ? 900 : 844 })
        await at.emulateMedia({ colorScheme: dark ? 'dark' : 'light' })
        expect([name, width, await at.evaluate('document.documentElement.scrollWidth <= innerWidth')]).toEqual([name, width, true])
        if (width < 1000 === dark) await expectAccessible(at)
        if (pictures)
          await at.screenshot({
            path: `${pictures}/${name}-${isBranded ? 'brand' : 'plain'}-${locale}-${width}-${dark ? 'dark' : 'light'}.png`,
            fullPage: true,
          })
      }
    }
    const said = (en: string, de: string) => (locale === 'de' ? de : en)

    await look('dead', 404, dead.path, said('This offer has ended', 'Dieses Angebot ist beendet'))
    const archived = await api.call(createCheckout, { body: { products: [gone.id], return_url: 'https://alder-finch.example.com/offers' } })
    await page.unrouteAll()
    await page.goto(archived.url)
    await api.call(updateProduct, { params: { id: gone.id }, body: { is_archived: true } })
    await look('archived', 410, `/checkout/${archived.id}`, said('This is no longer sold', 'Dieses Produkt wird nicht mehr verkauft'))
    const open = await api.call(createCheckout, { body: { products: [guide.id] } })
    await page.unrouteAll()
    await page.goto(open.url)
    const stranger = await openContext(browser, world, { locale })
    const other = { at: await stranger.context.newPage() }
    await look('elsewhere', 403, `/checkout/${open.id}`, said('Please open the link again', 'Bitte öffnen Sie den Link noch einmal'), other)
    await look('unknown', 404, '/checkout/nothing', said('There is no such checkout', 'Diesen Bezahlvorgang gibt es nicht'), { isNamed: false })
    const absent = said('This page does not exist', 'Diese Seite gibt es nicht')
    await look('404', 404, `/${organization.slug}/portal/nothing`, absent)
    await look('404-nobody', 404, '/nothing', absent, { isNamed: false })
    const moment = said('One moment, please', 'Einen Moment, bitte')
    for (const [name, path] of [
      ['429-portal', `/${organization.slug}/portal/sign-in`],
      ['429-link', busy.path],
    ] as const)
      await look(name, 429, path, moment, { from: strict.origin })
    await look('429-nobody', 429, '/nothing', moment, { from: strict.origin, isNamed: false })
    world.clock.advance(25 * hours)
    await look('expired', 410, new URL(open.url).pathname, said('This checkout has expired', 'Dieser Bezahlvorgang ist abgelaufen'))
    await stranger.close()
    const sign = `/${organization.slug}/portal/sign-in`
    await page.unrouteAll()
    await page.goto(`${origin}${sign}`)
    outages.push(async () => {
      await look('503', 503, sign, said('We will be back in a moment', 'Wir sind gleich wieder da'))
      await close()
      expect(violations).toEqual([])
    })
  }
  await strict.close()
  await asOwner('postgres', async (owner) => {
    await owner.query(`alter database ${world.database.name} allow_connections false`)
    await owner.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [world.database.name])
  })
  for (const outage of outages) await outage()
  await asOwner('postgres', (owner) => owner.query(`alter database ${world.database.name} allow_connections true`))
})
