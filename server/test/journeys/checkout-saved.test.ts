import { confirmClientCheckout, createCheckout, createCustomer, createProduct, getCheckout, listPayments, updateOrganization } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectGoodLooks, openBrowser, openContext, type Browser } from '../harness/browser.ts'
import { orderButton } from '../harness/ordering.ts'
import { eventually, openWorld, type World } from '../harness/world.ts'

let world: World
let browser: Browser
beforeAll(async () => {
  ;[world, browser] = await Promise.all([openWorld({ browser: true, worker: true }), openBrowser()])
})
afterAll(async () => {
  await browser.close()
  await world.close()
})

/** Opens the checkout of a customer who has saved a card. */
const open = async (locale: 'en' | 'de') => {
  const { api, organization } = await world.shop()
  await api.call(updateOrganization, { params: { id: organization.id }, body: { feature_settings: { saved_payment_methods_enabled: true } } })
  const price = { amount_type: 'fixed' as const, price_amount: 2900, price_currency: 'usd' as const }
  const [plan, guide] = await Promise.all([
    api.call(createProduct, { body: { name: 'Plan', recurring_interval: 'month', prices: [price] } }),
    api.call(createProduct, { body: { name: 'Guide', prices: [price] } }),
  ])
  const customer = await api.call(createCustomer, { body: { email: 'ada@people.test' } })
  const start = (product: string) =>
    api.call(createCheckout, { body: { products: [product], customer_id: customer.id, customer_billing_address: { country: 'DE' }, locale } })
  const done = (id: string) => eventually('the checkout is fulfilled', async () => (await api.call(getCheckout, { params: { id } })).status === 'succeeded')
  const first = await start(plan.id)
  await world.client().call(confirmClientCheckout, { params: { client_secret: first.client_secret }, body: { confirmation_token_id: 'tok_visa' } })
  await done(first.id)
  const made = await start(guide.id)
  const { context, violations, close } = await openContext(browser, world, { locale })
  const page = await context.newPage()
  page.on('pageerror', (error) => violations.push(String(error)))
  await page.goto(made.url)
  const paidWith = async () =>
    (await api.call(listPayments, { query: { checkout_id: [made.id] } })).items.map((one) => [
      one.status,
      'method_metadata' in one ? one.method_metadata : null,
    ])
  return { made, page, violations, close, done: () => done(made.id), paidWith }
}

test.each([
  ['en', 'Visa ···· 0001', 'Another payment method', 'Test card', 'Thank you!'],
  ['de', 'Visa ···· 0001', 'Andere Zahlungsart', 'Testkarte', 'Vielen Dank!'],
] as const)('offers the saved card first, and hides the form of another one until it is chosen (%s)', async (locale, saved, other, card, thanks) => {
  const { page, violations, close, done, paidWith } = await open(locale)
  expect(await page.getByLabel(saved).isChecked()).toBe(true)
  expect(await page.getByLabel(card).isVisible()).toBe(false)
  await expectGoodLooks(page, `saved-card-${locale}`)
  await page.getByLabel(other).check()
  expect(await page.getByLabel(card).isVisible()).toBe(true)
  await page.getByLabel(saved).check()
  await orderButton(page, undefined, locale).click()
  await page.getByRole('heading', { name: thanks }).waitFor()
  await done()
  expect(await paidWith()).toEqual([['succeeded', { brand: 'visa', last4: '0001' }]])
  // The address of the checkout was enough to pay, so the portal asks for a code first.
  expect(await page.locator('a.button').getAttribute('href')).toMatch(/\/portal\/sign-in$/)
  await close()
  expect(violations).toEqual([])
})

test('pays with another card if the buyer chooses that', async () => {
  const { page, violations, close, done, paidWith } = await open('en')
  await page.getByLabel('Another payment method').check()
  await page.getByLabel('Test card').selectOption('tok_insufficient_funds')
  await orderButton(page).click()
  // After a decline, the other card stays chosen.
  await page.getByText('The last payment did not go through. Nothing was charged.').waitFor()
  expect(await page.getByLabel('Another payment method').isChecked()).toBe(true)
  await page.getByLabel('Test card').selectOption('tok_declined_later')
  await orderButton(page).click()
  await page.getByRole('heading', { name: 'Thank you!' }).waitFor()
  await done()
  expect(await paidWith()).toMatchObject([
    ['succeeded', { last4: '0017' }],
    ['failed', { last4: '0010' }],
  ])
  await close()
  expect(violations).toEqual([])
})
