import {
  connectPaymentAccount,
  createCheckout,
  createCustomer,
  createDiscount,
  createProduct,
  getCheckout,
  listCustomerMembers,
  listPaymentMethods,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { stripe } from '../../src/pages/processor.ts'
import { expectAccessible, openBrowser, openContext, type Browser, type BrowserContext } from '../harness/browser.ts'
import { openPortals } from '../harness/portals.ts'
import { openStripeStandIn, type StripeStandIn } from '../harness/stripe.ts'
import { eventually, exchange, openClock, openWorld, type World } from '../harness/world.ts'

// Tests the pages with Stripe's card form in a real browser, against the stand-in for Stripe. The browser never fetches
// Stripe's script. A replacement script implements only the functions that the pages call.
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

const standIn = `window.Stripe = (key) => ({
  elements: (options) => ({
    create: (kind, { fields } = {}) => ({ mount: (place) => { place.textContent = [key, kind, options.mode, options.amount, options.currency, ...options.allowedPaymentMethodTypes, fields ? 'our fields' : 'own fields'].join(' ') } }),
    update() {},
    submit: async () => ({}),
  }),
  createConfirmationToken: async ({ params }) => ({ confirmationToken: { id: await typed(JSON.stringify(params ?? null)) } }),
  handleNextAction: async ({ clientSecret }) => { await answered(clientSecret); return {} },
})`

type Account = ReturnType<StripeStandIn['account']>

/** Prepares a browser in which the buyer types this card and gives these answers to the bank. */
const withStripe = async (context: BrowserContext, account: Account, card: string, answers: boolean[]) => {
  const details: string[] = []
  await context.route('https://js.stripe.com/**', (route) => route.fulfill({ contentType: 'text/javascript', body: standIn }))
  await context.exposeFunction('typed', (params: string) => {
    details.push(params)
    return account.token(card)
  })
  await context.exposeFunction('answered', (secret: string) => account.complete(secret, answers.shift()!))
  return details
}

const shopWithStripe = async () => {
  const shop = await world.shop()
  const account = processor.account()
  const { secret_key, publishable_key, webhook_secret } = account
  const { events_url } = await (
    await shop.dashboard()
  ).call(connectPaymentAccount, {
    params: { id: shop.organization.id },
    body: { secret_key, publishable_key, webhook_secret },
  })
  /** Delivers Stripe's events to the account's webhook address. */
  const tell = () => processor.deliver((_, headers, body) => exchange(world.port, 'POST', new URL(events_url).pathname, headers, body))
  return { ...shop, account, tell }
}

const expectPolicy = (headers: Record<string, string>) => {
  const { 'content-security-policy': policy, 'permissions-policy': permissions } = headers
  const parts = policy!.split('; ')
  expect(parts).toContain(`script-src 'self' ${stripe['script-src']!.join(' ')}`)
  expect(parts).toContain('frame-src https://js.stripe.com https://*.js.stripe.com https://hooks.stripe.com')
  expect(parts).toContain("connect-src 'self' https://api.stripe.com")
  expect(permissions).toContain('payment=(self "https://js.stripe.com"')
}

test("pays at the checkout with Stripe's form and its bank authentication, under our content policy", async () => {
  const { api, account, tell } = await shopWithStripe()
  const product = await api.call(createProduct, {
    body: { name: 'Field guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] },
  })
  const made = await api.call(createCheckout, {
    body: { products: [product.id], customer_email: 'card@people.test', customer_billing_address: { country: 'DE' } },
  })
  const { context, violations, close } = await openContext(browser, world)
  const details = await withStripe(context, account, 'pm_card_authenticationRequired', [false, true])
  const page = await context.newPage()
  page.on('pageerror', (error) => violations.push(String(error)))
  expectPolicy(await (await page.goto(made.url))!.allHeaders())
  const html = await page.content()
  expect(/<noscript>.*?<\/noscript>/s.exec(html)?.[0]).toContain('Paying needs the script of the payment provider.')
  expect(html).not.toContain('tok_visa')
  const pay = async () => {
    await page.getByText(`${account.publishable_key} payment payment 2900 usd card link sepa_debit our fields`).waitFor()
    await page.getByRole('button', { name: 'Pay $29.00' }).click()
  }
  await pay()
  // The bank refuses and Stripe reports it. Nothing is paid, the form keeps its input, and the buyer can try again.
  await page.getByText('Your payment is on its way').waitFor()
  await tell()
  await page.getByRole('button', { name: 'Pay $29.00' }).waitFor()
  await page.getByText('The last payment did not go through. Nothing was charged.').waitFor()
  expect(account.books().charges).toEqual([])
  await pay()
  await page.getByText('Your payment is on its way').waitFor()
  await tell()
  await eventually('the checkout is paid', async () => (await api.call(getCheckout, { params: { id: made.id } })).status === 'succeeded')
  expect(JSON.parse(details[0]!)).toMatchObject({ payment_method_data: { billing_details: { email: 'card@people.test', address: { country: 'DE' } } } })
  expect(account.books().charges).toHaveLength(1)
  await close()
  expect(violations).toEqual([])
})

test('asks for no card while a discount code makes the product free, and asks again after the code is removed', async () => {
  const { api, account } = await shopWithStripe()
  const product = await api.call(createProduct, {
    body: { name: 'Field guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] },
  })
  await api.call(createDiscount, { body: { name: 'Gift', code: 'GIFT', type: 'percentage', basis_points: 10_000, duration: 'once' } as never })
  const made = await api.call(createCheckout, {
    body: { products: [product.id], customer_email: 'gift@people.test', customer_billing_address: { country: 'DE' } },
  })
  const { context, violations, close } = await openContext(browser, world)
  await withStripe(context, account, 'pm_card_visa', [])
  const page = await context.newPage()
  page.on('pageerror', (error) => violations.push(String(error)))
  await page.goto(made.url)
  const form = page.getByText(`${account.publishable_key} payment payment 2900 usd card link sepa_debit our fields`)
  await form.waitFor()
  const code = async () => {
    await page.getByText('Add a discount code').click()
    await page.getByLabel('Discount code').fill('GIFT')
    await page.getByRole('button', { name: 'Apply' }).first().click()
    await page.getByRole('button', { name: 'Get it', exact: true }).waitFor()
    expect(await form.count()).toBe(0)
  }
  await code()
  await page.getByRole('button', { name: 'Remove the discount' }).click()
  await form.waitFor()
  await code()
  await page.getByRole('button', { name: 'Get it', exact: true }).click()
  await eventually('the free checkout succeeds', async () => (await api.call(getCheckout, { params: { id: made.id } })).status === 'succeeded')
  expect(account.books().charges).toEqual([])
  await close()
  expect(violations).toEqual([])
})

test('saves a card in the portal after the bank confirms, and leaves no client secret in the URL', async () => {
  const { api, account, organization } = await shopWithStripe()
  const customer = await api.call(createCustomer, { body: { email: 'ada@people.test' } })
  const [owner] = (await api.call(listCustomerMembers, { params: { id: customer.id } })).items
  const portals = openPortals(world, undefined as never, browser)
  const { context, page, go, violations, close } = await portals.enter({ api, organization, customer_id: customer.id, owner: owner! })
  page.on('pageerror', (error) => violations.push(String(error)))
  const details = await withStripe(context, account, 'pm_card_authenticationRequiredOnSetup', [false, true])
  const kept = async () => (await api.call(listPaymentMethods, { params: { id: customer.id } })).items
  expectPolicy(await (await go('/billing'))!.allHeaders())
  const add = async () => {
    await page.getByText(`${account.publishable_key} payment setup usd card link sepa_debit own fields`).waitFor()
    await page.getByRole('button', { name: 'Add this card' }).click()
  }
  await add()
  await page.getByRole('alert').filter({ hasText: 'Your card was declined.' }).waitFor()
  expect(await kept()).toEqual([])
  await add()
  await page.getByText('The card was added.').waitFor()
  expect(await kept()).toMatchObject([{ is_default: true, method_metadata: { last4: '3155' } }])
  expect(page.url()).not.toContain('secret')
  // Stripe's form asks for the details it needs. We pass it no customer data that was not typed there.
  expect(details).toEqual(['null', 'null'])
  await expectAccessible(page)
  await close()
  expect(violations).toEqual([])
})
