import { createCheckout, createProduct, getCheckout, listOrders, updateOrganization } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible, expectGoodLooks, openBrowser, openContext, type Browser, type Page } from '../harness/browser.ts'
import { orderButton } from '../harness/ordering.ts'
import { openStripeStandIn, type StripeStandIn } from '../harness/stripe.ts'
import { shopWithStripe, withOtherSite, withStripe } from '../harness/stripe-browser.ts'
import { eventually, openClock, openWorld, type World } from '../harness/world.ts'

// Tests payment methods that leave the page, wallets, and the look of Stripe's form, in a real browser against the
// stand-in for Stripe.
let world: World
let browser: Browser
let processor: StripeStandIn
beforeAll(async () => {
  const clock = openClock()
  processor = await openStripeStandIn(clock)
  ;[world, browser] = await Promise.all([openWorld({ browser: true, worker: true, clock, settings: { BURSAR_STRIPE_API_BASE: processor.url } }), openBrowser()])
})
afterAll(async () => {
  await browser.close()
  await world.close()
  await processor.close()
})

/** Opens the checkout page of a buyer from the Netherlands, who pays with iDEAL. */
const open = async (more: { method?: string; locale?: 'en' | 'de'; forged?: (back: URL) => URL; email?: string } = {}) => {
  const { method = 'pm_ideal', locale = 'en', forged, email = 'buyer@people.test' } = more
  const shop = await shopWithStripe(world, processor)
  const prices = (['eur', 'usd'] as const).map((price_currency) => ({ amount_type: 'fixed' as const, price_amount: 2900, price_currency }))
  const product = await shop.api.call(createProduct, { body: { name: 'Field guide', prices } })
  const made = await shop.api.call(createCheckout, {
    body: { products: [product.id], currency: 'eur', customer_email: email, customer_billing_address: { country: 'NL' }, locale },
  })
  const { context, violations, close } = await openContext(browser, world, { locale })
  await withStripe(context, shop.account, method, [])
  await withOtherSite(context, shop.account, forged)
  const page = await context.newPage()
  page.on('pageerror', (error) => violations.push(String(error)))
  await page.goto(made.url)
  const formShown = () => page.getByText(`${shop.account.publishable_key} payment payment 2900 eur card link sepa_debit ideal paypal our fields`).waitFor()
  await formShown()
  const status = async () => (await shop.api.call(getCheckout, { params: { id: made.id } })).status
  const leave = async () => {
    await orderButton(page, undefined, locale).click()
    await page.getByRole('heading', { name: 'The other site' }).waitFor()
  }
  const act = (name: string) => page.getByRole('link', { name, exact: true }).click()
  const orders = async () => (await shop.api.call(listOrders, { query: { checkout_id: [made.id] } })).items.length
  return { ...shop, made, page, context, violations, close, formShown, status, leave, act, orders }
}
const at = (path: string): string => new URL(path, world.config.public_url).href
const focused = (page: Page) => page.evaluate('document.activeElement.id')

test('pays at another site and returns to the confirmation, without a secret in the address', async () => {
  const { made, page, account, violations, close, status, leave, act, orders } = await open()
  await leave()
  await act('Pay')
  await page.getByRole('heading', { name: 'Thank you!' }).waitFor()
  expect(new URL(page.url())).toMatchObject({ pathname: `/checkout/${made.id}`, search: '' })
  expect([await status(), await orders(), account.books().charges.length]).toEqual(['succeeded', 1, 1])
  // A second return, for example by the Back button, shows the same confirmation.
  await page.goto(at(`/checkout/${made.id}/return?redirect_status=failed`))
  await page.getByRole('heading', { name: 'Thank you!' }).waitFor()
  expect([await orders(), account.books().intents.length]).toEqual([1, 1])
  await close()
  expect(violations).toEqual([])
})

test('shows the form with everything typed and the decline in focus if the buyer refuses, and pays at the second attempt', async () => {
  const { page, account, violations, close, formShown, status, leave, act } = await open()
  await page.getByLabel('Name (optional)').fill('Ada Lovelace')
  await leave()
  await act('Refuse')
  await formShown()
  await page.getByText('The last payment did not go through. Nothing was charged.').waitFor()
  expect(await focused(page)).toBe('confirmation_token_id')
  expect(await page.getByLabel('Name (optional)').inputValue()).toBe('Ada Lovelace')
  expect(await page.locator('#processor-error').textContent()).toContain('confirm')
  await expectGoodLooks(page, 'redirect-declined')
  expect([await status(), account.books().charges.length]).toEqual(['open', 0])
  await leave()
  await act('Pay')
  await page.getByRole('heading', { name: 'Thank you!' }).waitFor()
  expect([await status(), account.books().charges.length]).toEqual(['succeeded', 1])
  await close()
  expect(violations).toEqual([])
})

test('never believes the parameters of the return: a forged success shows an open payment, a forged failure a paid one', async () => {
  const lie = (back: URL) => {
    back.searchParams.set('redirect_status', back.searchParams.get('redirect_status') === 'succeeded' ? 'failed' : 'succeeded')
    back.searchParams.set('payment_intent', 'pi_of_somebody_else')
    back.searchParams.set('payment_intent_client_secret', 'pi_of_somebody_else_secret_x')
    return back
  }
  const refused = await open({ forged: lie })
  await refused.leave()
  await refused.act('Refuse')
  await refused.formShown()
  expect([await refused.status(), refused.account.books().charges.length]).toEqual(['open', 0])
  await refused.close()
  const paid = await open({ forged: lie })
  await paid.leave()
  // Without a visit to the bank, the address of a success is worth nothing.
  await paid.page.goto(at(`/checkout/${paid.made.id}/return?redirect_status=succeeded`))
  await paid.page.getByRole('heading', { name: 'Your payment is not complete yet' }).waitFor()
  expect([await paid.status(), paid.account.books().charges.length]).toEqual(['confirmed', 0])
  await paid.page.getByRole('link', { name: 'Continue with iDEAL' }).click()
  await paid.act('Pay')
  await paid.page.getByRole('heading', { name: 'Thank you!' }).waitFor()
  expect([await paid.status(), paid.account.books().intents.length]).toEqual(['succeeded', 1])
  await paid.close()
  expect([...refused.violations, ...paid.violations]).toEqual([])
})

test('waits for the bank if it reports the result later, and shows the confirmation when the money has arrived', async () => {
  const { page, violations, close, tell, leave, act } = await open()
  await leave()
  await act('Pay later')
  await page.getByRole('heading', { name: 'We are waiting for your bank' }).waitFor()
  await page.getByText('The receipt goes to buyer@people.test when the payment has arrived.').waitFor()
  await expectGoodLooks(page, 'redirect-waiting')
  world.clock.advance(61_000)
  await tell()
  await page.getByRole('heading', { name: 'Thank you!' }).waitFor()
  await close()
  expect(violations).toEqual([])
})

test.each(['en', 'de'] as const)('goes on at the other site after the buyer came back without paying, and in a second tab (%s)', async (locale) => {
  const { made, page, context, account, violations, close, status, leave, act } = await open({ locale })
  const words = { en: ['Your payment is not complete yet', 'Continue with iDEAL'], de: ['Ihre Zahlung ist noch nicht abgeschlossen', 'Weiter mit iDEAL'] }[
    locale
  ]
  await leave()
  await page.goBack()
  await page.getByRole('heading', { name: words[0]! }).waitFor()
  await expectGoodLooks(page, `redirect-away-${locale}`)
  const second = await context.newPage()
  await second.goto(at(`/checkout/${made.id}`))
  await second.getByRole('heading', { name: words[0]! }).waitFor()
  await page.getByRole('link', { name: words[1]! }).click()
  await act('Pay')
  await page.getByRole('heading', { name: { en: 'Thank you!', de: 'Vielen Dank!' }[locale] }).waitFor()
  // The second tab finds out by itself.
  await second.getByRole('heading', { name: { en: 'Thank you!', de: 'Vielen Dank!' }[locale] }).waitFor()
  expect([await status(), account.books().intents.length, account.books().charges.length]).toEqual(['succeeded', 1, 1])
  await close()
  expect(violations).toEqual([])
})

test("offers iDEAL only to buyers from the Netherlands, and keeps the form while the buyer's country stays", async () => {
  const { page, account, violations, close, formShown } = await open()
  const form = (methods: string) => page.getByText(`${account.publishable_key} payment payment 2900 eur ${methods} our fields`)
  const choose = (country: string) => page.getByLabel('Country').selectOption(country)
  await formShown()
  await choose('BE')
  await form('card link sepa_debit bancontact paypal').waitFor()
  await choose('PL')
  await form('card link sepa_debit p24 paypal').waitFor()
  await choose('DE')
  await form('card link sepa_debit paypal').waitFor()
  await close()
  expect(violations).toEqual([])
})

interface Look {
  readonly appearance: { readonly theme: string; readonly variables: Readonly<Record<string, string>> }
  readonly fonts: readonly { readonly family: string; readonly src: string }[]
}

test("gives Stripe's form the colours of the seller, the theme of the page and its font", async () => {
  const { page, api, organization, violations, close, formShown } = await open()
  const look = () => page.evaluate<Look>('window.formOptions')
  await api.call(updateOrganization, { params: { id: organization.id }, body: { brand_settings: { accent_color: '#7a1fa2' } } })
  await page.reload()
  await formShown()
  const light = await look()
  expect(light.appearance).toMatchObject({
    theme: 'stripe',
    variables: {
      colorBackground: 'rgb(255, 255, 255)',
      colorText: 'rgb(22, 24, 29)',
      borderRadius: '8px',
      fontFamily: expect.stringContaining('Geist') as string,
    },
  })
  expect(light.appearance.variables.colorPrimary).toMatch(/^rgb\(\d+, \d+, \d+\)$/)
  expect(light.appearance.variables.colorPrimary).not.toBe('rgb(22, 24, 29)')
  await page.emulateMedia({ colorScheme: 'dark' })
  await expect
    .poll(async () => (await look()).appearance)
    .toMatchObject({ theme: 'night', variables: { colorBackground: 'rgb(23, 25, 28)', colorText: 'rgb(236, 237, 240)' } })
  // The choice of the reader is stronger than the system.
  await page.locator('select[name=theme]').selectOption('light')
  await page.locator('footer').getByRole('button', { name: 'Apply' }).click()
  await formShown()
  await expect.poll(async () => (await look()).appearance.theme).toBe('stripe')
  // The frame of Stripe has another origin, which must be able to load the font.
  const [font] = light.fonts
  expect(font?.family).toBe('Geist')
  const file = await page.request.get(/^url\((.*)\)$/.exec(font!.src)![1]!)
  expect([file.status(), file.headers()['access-control-allow-origin'], file.headers()['cross-origin-resource-policy']]).toEqual([200, '*', 'cross-origin'])
  await close()
  expect(violations).toEqual([])
})

test('pays with the button of a wallet, which opens only after the fields are complete', async () => {
  const { page, account, violations, close, formShown, status } = await open({ method: 'pm_card_wallet' })
  await page.getByLabel('E-mail').fill('')
  const wallet = page.getByRole('button', { name: 'Stand-in wallet' })
  await wallet.click()
  expect(await page.evaluate(`document.querySelector('form.checkout').checkValidity()`)).toBe(false)
  expect([await status(), account.books().intents.length]).toEqual(['open', 0])
  await page.getByLabel('E-mail').fill('wallet@people.test')
  await formShown()
  await expectAccessible(page)
  await expectGoodLooks(page, 'redirect-checkout')
  await wallet.click()
  await page.getByRole('heading', { name: 'Thank you!' }).waitFor()
  expect([await status(), account.books().charges.length]).toEqual(['succeeded', 1])
  await close()
  expect(violations).toEqual([])
})

test('answers the return of a browser without the cookie of the checkout with the next step', async () => {
  const { made, violations, close, status, leave, act } = await open()
  await leave()
  const other = await openContext(browser, world, {})
  const page = await other.context.newPage()
  const answer = await page.goto(at(`/checkout/${made.id}/return?redirect_status=succeeded`))
  expect(answer!.status()).toBe(403)
  await act('Pay')
  await eventually('the checkout is paid', async () => (await status()) === 'succeeded')
  await other.close()
  await close()
  expect(violations).toEqual([])
})
