import {
  createCheckout,
  createCustomer,
  createDiscount,
  createOrder,
  createProduct,
  getCheckout,
  listCustomerMembers,
  listPaymentMethods,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { stripe } from '../../src/pages/processor.ts'
import { expectAccessible, openBrowser, openContext, type Browser } from '../harness/browser.ts'
import { freeOrderButton, orderButton } from '../harness/ordering.ts'
import { openPortals } from '../harness/portals.ts'
import { openStripeStandIn, type StripeStandIn } from '../harness/stripe.ts'
import { shopWithStripe, withStripe } from '../harness/stripe-browser.ts'
import { eventually, openClock, openWorld, type World } from '../harness/world.ts'

// Tests the pages with Stripe's card form in a real browser, against the stand-in for Stripe.
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

const expectPolicy = (headers: Record<string, string>) => {
  const { 'content-security-policy': policy, 'permissions-policy': permissions } = headers
  const parts = policy!.split('; ')
  expect(parts).toContain(`script-src 'self' ${stripe['script-src']!.join(' ')}`)
  expect(parts).toContain('frame-src https://js.stripe.com https://*.js.stripe.com https://hooks.stripe.com')
  expect(parts).toContain("connect-src 'self' https://api.stripe.com")
  expect(permissions).toContain('payment=(self "https://js.stripe.com"')
}

test("pays at the checkout with Stripe's form and its bank authentication, under our content policy", async () => {
  const { api, account, tell } = await shopWithStripe(world, processor)
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
    await page.getByText(`${account.publishable_key} payment payment 2900 usd card link sepa_debit paypal our fields`).waitFor()
    await orderButton(page, '$29.00').click()
  }
  await pay()
  // The bank refuses and Stripe reports it. Nothing is paid, the form keeps its input, and the buyer can try again.
  await page.getByText('Your payment is on its way').waitFor()
  await tell()
  await orderButton(page, '$29.00').waitFor()
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
  const { api, account } = await shopWithStripe(world, processor)
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
  const form = page.getByText(`${account.publishable_key} payment payment 2900 usd card link sepa_debit paypal our fields`)
  await form.waitFor()
  const code = async () => {
    await page.getByText('Add a discount code').click()
    await page.getByLabel('Discount code').fill('GIFT')
    await page.getByRole('button', { name: 'Apply' }).first().click()
    await freeOrderButton(page).waitFor()
    expect(await form.count()).toBe(0)
  }
  await code()
  await page.getByRole('button', { name: 'Remove the discount' }).click()
  await form.waitFor()
  await code()
  await freeOrderButton(page).click()
  await eventually('the free checkout succeeds', async () => (await api.call(getCheckout, { params: { id: made.id } })).status === 'succeeded')
  expect(account.books().charges).toEqual([])
  await close()
  expect(violations).toEqual([])
})

test('saves a card in the portal after the bank confirms, and leaves no client secret in the URL', async () => {
  const { api, account, organization } = await shopWithStripe(world, processor)
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
  await page.getByRole('alert').filter({ hasText: 'You did not confirm the payment.' }).waitFor()
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

test("pays an open order in the portal with Stripe's form", async () => {
  const { api, account, organization, tell } = await shopWithStripe(world, processor)
  const query = (text: string, values: readonly unknown[]) => world.database.owner((owner) => owner.query(text, [...values]))
  await query(`update organizations set feature_settings = feature_settings || '{"off_session_charges_enabled": true}' where id = $1`, [organization.id])
  const customer = await api.call(createCustomer, { body: { email: 'open@people.test', billing_address: { country: 'DE' } } })
  const product = await api.call(createProduct, {
    body: { name: 'Field guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] },
  })
  const order = await api.call(createOrder, { body: { customer_id: customer.id, product_id: product.id } })
  // A draft becomes pending when its payment begins. Here no payment was made.
  await query(`update orders set status = 'pending', invoice_number = 'OPEN-1' where id = $1`, [order.id])
  const [owner] = (await api.call(listCustomerMembers, { params: { id: customer.id } })).items
  const portals = openPortals(world, undefined as never, browser)
  const { context, page, go, violations, close } = await portals.enter({ api, organization, customer_id: customer.id, owner: owner! })
  page.on('pageerror', (error) => violations.push(String(error)))
  await withStripe(context, account, 'pm_card_visa', [])
  expectPolicy(await (await go(`/orders/${order.id}`))!.allHeaders())
  await page.getByText(`${account.publishable_key} payment payment 2900 usd card link sepa_debit own fields`).waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Pay $29.00' }).click()
  await page.getByText('The order is paid.').waitFor()
  await tell()
  expect(account.books().charges).toHaveLength(1)
  await close()
  expect(violations).toEqual([])
})
