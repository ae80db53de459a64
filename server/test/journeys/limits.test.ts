import { mkdirSync } from 'node:fs'
import { createCheckout, createCheckoutLink, createProduct, deleteCheckoutLink, followCheckoutLink, listPayments, updateOrganization } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectAccessible, openBrowser, openContext, type Browser, type Page } from '../harness/browser.ts'
import { orderButton } from '../harness/ordering.ts'
import { openClock, openWorld } from '../harness/world.ts'

// Journeys of people who meet a limit, a dead link or an outage, with a real browser.
let browser: Browser
beforeAll(async () => {
  browser = await openBrowser()
})
afterAll(() => browser.close())

const pictures = process.env.BURSAR_TEST_PICTURES
if (pictures) mkdirSync(pictures, { recursive: true })

/** Checks a page in both colour schemes, as a phone and as a desktop shows it. Saves pictures if a folder is given. */
const looks = async (page: Page, name: string) => {
  for (const [look, { width, dark }] of Object.entries({
    'phone-light': { width: 390, dark: false },
    'phone-dark': { width: 390, dark: true },
    'wide-light': { width: 1280, dark: false },
    'wide-dark': { width: 1280, dark: true },
  })) {
    await page.setViewportSize({ width, height: 800 })
    await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' })
    await expectAccessible(page)
    if (pictures) await page.screenshot({ path: `${pictures}/${name}-${look}.png`, fullPage: true })
  }
}

/** Opens a world with these limits. Redis is not used, so that a wait ends when the test advances the clock. */
const openLimited = async (limits: Record<string, readonly (readonly [number, number])[]>) => {
  const clock = openClock()
  clock.hold()
  const world = await openWorld({
    browser: true,
    worker: true,
    clock,
    settings: { BURSAR_REDIS_URL: '', BURSAR_BUDGETS: JSON.stringify({ api: [[1_000_000, 60]], ...limits }) },
  })
  const { api, organization } = await world.shop()
  await api.call(updateOrganization, { params: { id: organization.id }, body: { name: 'Harbour Works', website: 'https://harbour.example' } })
  return { world, clock, api, organization, portal: `${world.config.public_url.origin}/${organization.slug}/portal` }
}
const price = { amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' } as const

describe('a page that meets a limit', () => {
  test('counts the true wait down, and loads again by itself', async () => {
    const { world, clock, portal } = await openLimited({ page_session: [[4, 8]] })
    const { context, violations, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(`${portal}/sign-in`)
    await page.goto(`${portal}/sign-in`).then(() => page.reload())
    const answer = await page.reload()
    expect(answer!.status()).toBe(429)
    const timer = page.getByRole('timer')
    expect(await timer.textContent()).toBe(`${answer!.headers()['retry-after']} seconds`)
    await page
      .getByRole('timer')
      .filter({ hasText: /^[1-5] seconds?$/ })
      .waitFor()
    expect(await page.locator('header').textContent()).toContain('Harbour Works')
    clock.advance(9000)
    await page.getByRole('heading', { name: 'Sign in to Harbour Works' }).waitFor()
    expect(violations).toEqual([])
    await close()
    await world.close()
  })

  test('sends the form with everything that was typed, once, and goes on', async () => {
    const { world, clock, portal } = await openLimited({ sign_in: [[1, 6]] })
    for (const locale of ['en', 'de']) {
      const { context, violations, close } = await openContext(browser, world, { locale })
      const page = await context.newPage()
      const posts: string[] = []
      page.on('request', (request) => {
        if (request.method() === 'POST') posts.push(new URLSearchParams(request.postData() ?? '').get('email') ?? '')
      })
      for (const email of ['ada@people.test', 'grace@people.test']) {
        await page.goto(`${portal}/sign-in`)
        await page.locator('input[name=email]').fill(email)
        await page.locator('button.primary').click()
        if (email === 'ada@people.test') await page.locator('input[name=code]').waitFor()
      }
      await page.getByRole('timer').waitFor()
      if (locale === 'en')
        expect(await page.locator('[data-wait]').textContent()).toMatch(/^This page sends your entries by itself in \d seconds?\. They are sent once\.$/)
      else
        expect(await page.locator('[data-wait]').textContent()).toMatch(
          /^Diese Seite sendet Ihre Eingaben in \d Sekunden? von selbst\. Sie werden nur einmal gesendet\.$/,
        )
      clock.advance(7000)
      await page.getByText('grace@people.test').waitFor()
      await page.locator('input[name=code]').waitFor()
      expect(posts).toEqual(['ada@people.test', 'grace@people.test', 'grace@people.test'])
      clock.advance(7000)
      expect(violations).toEqual([])
      await close()
    }
    await world.close()
  })

  test('keeps the form and has a working button without script', async () => {
    const { world, clock, portal } = await openLimited({ sign_in: [[1, 20]] })
    const { context, close } = await openContext(browser, world, { script: false })
    const page = await context.newPage()
    for (const email of ['ada@people.test', 'grace@people.test']) {
      await page.goto(`${portal}/sign-in`)
      await page.locator('input[name=email]').fill(email)
      await page.locator('button.primary').click()
    }
    await page.getByText('20 seconds').waitFor()
    // Too early: the page tells the remaining wait, and still has the form.
    clock.advance(5000)
    await page.getByRole('button', { name: 'Send again now' }).click()
    await page.getByText('15 seconds').waitFor()
    clock.advance(15_000)
    await page.getByRole('button', { name: 'Send again now' }).click()
    await page.getByText('If grace@people.test belongs to a customer here').waitFor()
    await close()
    await world.close()
  })

  test('keeps what a buyer types while the price waits, and pays once after the wait', async () => {
    const { world, clock, api } = await openLimited({ page_session: [[120, 6]] })
    const product = await api.call(createProduct, { body: { name: 'Field guide', prices: [price] } })
    const made = await api.call(createCheckout, { body: { products: [product.id] } })
    const { context, violations, close } = await openContext(browser, world)
    const page = await context.newPage()
    /** Uses up the page budget of this browser. Then the next request of its page is refused. */
    const useUp = async () => {
      while ((await context.request.get(`${world.config.public_url.origin}/login`)).status() !== 429);
    }
    await page.goto(made.url)
    await page.getByLabel('Test card').selectOption('tok_visa')
    await useUp()
    await page.getByLabel('Country').selectOption('DE')
    await page
      .getByRole('timer')
      .filter({ hasText: /second/ })
      .waitFor()
    await expectAccessible(page)
    if (pictures) await page.screenshot({ path: `${pictures}/limit-price.png`, fullPage: true })
    // The buyer goes on typing during the wait.
    await page.getByLabel('E-mail address').fill('ada@people.test')
    clock.advance(7000)
    await page.getByText('shown when you choose a country').waitFor({ state: 'detached' })
    await page.getByRole('timer').waitFor({ state: 'detached' })
    expect(await page.getByLabel('E-mail address').inputValue()).toBe('ada@people.test')
    clock.advance(7000)
    await useUp()
    await orderButton(page, '$29.00').click()
    await page.getByText('They are sent once.').waitFor()
    clock.advance(7000)
    await page.getByRole('heading', { name: 'Thank you!' }).waitFor()
    expect((await api.call(listPayments, { query: { checkout_id: [made.id] } })).items.map(({ status }) => status)).toEqual(['succeeded'])
    expect(violations).toEqual([])
    await close()
    await world.close()
  })
})

test('dead links, unknown pages, limits and forms look well in both languages, and lead on', async () => {
  const { world, api, organization, portal } = await openLimited({ sign_in: [[1, 3000]] })
  const { origin } = world.config.public_url
  const product = await api.call(createProduct, { body: { name: 'Field guide', prices: [price] } })
  const link = await api.call(createCheckoutLink, { body: { payment_processor: 'stripe', products: [product.id] } as never })
  await api.call(deleteCheckoutLink, { params: { id: link.id } })
  for (const locale of ['en', 'de']) {
    const { context, violations, close } = await openContext(browser, world, { locale })
    const page = await context.newPage()
    await page.goto(`${origin}${followCheckoutLink.path.replace('{client_secret}', link.client_secret)}`)
    await looks(page, `link-ended-${locale}`)
    expect(await page.getByRole('link', { name: 'Harbour Works' }).first().getAttribute('href')).toBe('https://harbour.example')
    await page.goto(`${origin}/checkout/bursar_unknown`)
    await looks(page, `checkout-unknown-${locale}`)
    await page.goto(`${origin}/nothing/here`)
    await looks(page, `unknown-${locale}`)
    await page.goto(`${portal}/sign-in`)
    await page.goto(`${portal}/nothing`)
    await looks(page, `portal-unknown-${locale}`)
    await page.locator(`a[href="/${organization.slug}/portal"]`).click()
    await page.waitForURL(/sign-in/)
    for (let at = 0; at < 2 && (await page.getByRole('timer').count()) === 0; at++) {
      await page.goto(`${portal}/sign-in`)
      await page.locator('input[name=email]').fill('ada@people.test')
      await page.locator('button.primary').click()
      await page.waitForLoadState()
    }
    await looks(page, `limit-form-${locale}`)
    expect(violations).toEqual([])
    await close()
  }
  await world.close()
})
