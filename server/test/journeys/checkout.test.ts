import { mkdirSync, readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import {
  createBenefit,
  createCheckout,
  createCustomer,
  createCustomField,
  createDiscount,
  createProduct,
  deleteDiscount,
  getCheckout,
  listOrders,
  listPayments,
  listSeats,
  updateProduct,
  updateProductBenefits,
  updateTaxSettings,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openApi } from '../../src/main/wire.ts'
import { readConfig } from '../../src/platform/config.ts'
import { openBrowser, openCallback, openContext, expectAccessible, type Browser, type Page } from '../harness/browser.ts'
import { orderButton } from '../harness/ordering.ts'
import { logFile } from '../harness/secrets.ts'
import { openClock, openWorld, type World } from '../harness/world.ts'

// Journeys of buyers with a real browser, from the link to the purchase.
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

const fixed = (price_amount: number) => ({ amount_type: 'fixed', price_amount, price_currency: 'usd' }) as const
const seated = {
  amount_type: 'seat_based',
  price_currency: 'usd',
  seat_tiers: {
    seat_tier_type: 'graduated',
    tiers: [
      { min_seats: 1, max_seats: 10, price_per_seat: 1200 },
      { min_seats: 11, max_seats: null, price_per_seat: 900 },
    ],
  },
} as const
type Given = Record<string, unknown>

const pictures = process.env.BURSAR_TEST_PICTURES
if (pictures) mkdirSync(pictures, { recursive: true })

/** Opens a shop with a product of each kind. */
const open = async () => {
  const shop = await world.shop()
  const { api } = shop
  const product = (body: Given) => api.call(createProduct, { body: body as never })
  const manual = await api.call(createBenefit, {
    body: { type: 'custom', description: 'A printed map of the trails', properties: { note: 'It comes by post.' } },
  })
  return {
    ...shop,
    product,
    guide: () => product({ name: 'Field guide', description: 'Two hundred birds, with their songs.', prices: [fixed(2900)] }),
    withBenefit: (id: string, benefit: string) => api.call(updateProductBenefits, { params: { id }, body: { benefits: [benefit] } }),
    plan: (more: Given = {}) => product({ name: 'Team plan', recurring_interval: 'month', prices: [seated], ...more }),
    checkout: (body: Given) => api.call(createCheckout, { body: body as never }),
    manual,
    ordersOf: async (id: string) => (await api.call(listOrders, { query: { checkout_id: [id] } })).items,
    paymentsOf: async (id: string) => (await api.call(listPayments, { query: { checkout_id: [id] } })).items,
    seen: (id: string) => api.call(getCheckout, { params: { id } }),
  }
}

const fill = async (page: Page, email: string) => {
  await page.getByLabel('E-mail address').fill(email)
  await page.getByLabel('Country').selectOption('DE')
}
/** Waits until the page has loaded the price for what `choose` changes. The page asks for it 250 ms after the change. */
const repriced = async (page: Page, choose: () => Promise<void>) => {
  const swapped = page.evaluate(`new Promise((resolve) => document.addEventListener('swapped', () => resolve(), { once: true }))`)
  await choose()
  await swapped
}
const priced = (page: Page, due: string) => page.locator('.bill .due dd', { hasText: due }).waitFor()
const thanked = (page: Page) => page.getByRole('heading', { name: 'Thank you!' }).waitFor()

/** Records every address that the page requests, to search them for secrets. */
const watched = (page: Page) => {
  const addresses: string[] = []
  page.on('request', (request) => addresses.push(request.url()))
  return addresses
}

describe('buying', () => {
  test('sells a one-time product in two clicks, and leaks the client secret into no address, page, storage or log', async () => {
    const { guide, checkout, ordersOf, seen, manual, withBenefit } = await open()
    const product = await guide()
    await withBenefit(product.id, manual.id)
    const made = await checkout({ products: [product.id], customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' } })
    const { context, violations, close } = await openContext(browser, world)
    const page = await context.newPage()
    const addresses = watched(page)
    const pages: string[] = []
    await page.goto(made.url)
    expect(page.url()).toBe(`${world.config.public_url.origin}/checkout/${made.id}`)
    pages.push(await page.content())
    await orderButton(page, '$29.00').click()
    await thanked(page)
    await page.getByText('A printed map of the trails').waitFor()
    await page.locator('.benefits .status.good').waitFor()
    pages.push(await page.content())
    await page.getByText('$29.00 paid').waitFor()
    expect(await page.getByRole('link', { name: 'Open the portal' }).getAttribute('href')).toMatch(/^\/org-[a-z]+\/portal$/)
    expect(await ordersOf(made.id)).toMatchObject([{ status: 'paid', total_amount: 2900 }])
    expect(await seen(made.id)).toMatchObject({ status: 'succeeded' })

    // Only the first address contains the secret.
    const secret = made.client_secret
    expect(addresses[0]).toContain(secret)
    expect(addresses.slice(1).filter((address) => address.includes(secret))).toEqual([])
    expect(pages.filter((text) => text.includes(secret) || /bursar_test_[a-z]+_/.test(text))).toEqual([])
    expect(await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])')).toBe('[{},{},""]')
    for (const cookie of await context.cookies()) expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Lax' })
    expect(readFileSync(logFile(), 'utf8')).not.toContain(secret.slice(-20))
    await close()
    expect(violations).toEqual([])
  })

  test('updates the price as seats are typed, keeps the form after a declined card, and invites three people whose addresses are pasted', async () => {
    const { plan, checkout, api, ordersOf, paymentsOf } = await open()
    const made = await checkout({ products: [(await plan()).id] })
    const { context, violations, close } = await openContext(browser, world)
    const page = await context.newPage()
    let loads = 0
    page.on('framenavigated', () => loads++)
    await page.goto(made.url)
    expect(loads).toBe(1)
    await fill(page, 'grace@people.test')
    await page.getByLabel('Name').first().fill('Grace')
    const seats = page.getByLabel('Seats')
    await seats.fill('12')
    await priced(page, '$138.00')
    await seats.fill('5')
    await priced(page, '$60.00')
    // An updated price does not move the focus away from the field.
    await seats.press('End')
    expect(await page.evaluate('document.activeElement.id')).toBe('seats')
    const then = page.locator('.bill > div', { hasText: 'Then' })
    expect(await then.textContent()).toMatch(/^Then\$60\.00 a month from [A-Z][a-z]{2} \d{1,2}, \d{4}$/)
    expect(loads).toBe(1)
    await page.getByLabel('Test card').selectOption('tok_insufficient_funds')
    await orderButton(page, '$60.00').click()
    await page.getByText('The card has insufficient funds.').waitFor()
    expect(await page.getByLabel('Test card').getAttribute('aria-invalid')).toBe('true')
    for (const [label, value] of [
      ['E-mail address', 'grace@people.test'],
      ['Name', 'Grace'],
      ['Seats', '5'],
      ['Country', 'DE'],
    ] as const)
      expect(await page.getByLabel(label).first().inputValue(), label).toBe(value)
    await page.getByLabel('Test card').selectOption('tok_visa')
    await orderButton(page, '$60.00').click()
    await thanked(page)
    const [order] = await ordersOf(made.id)
    expect(order).toMatchObject({ seats: 5, total_amount: 6000, status: 'paid' })
    expect((await paymentsOf(made.id)).map(({ status }) => status).toSorted()).toEqual(['failed', 'succeeded'])
    await page.getByText('1 of 5 seats given').waitFor()
    await page.getByLabel('E-mail addresses').fill('Ann One <ann1@people.test>, bob1@people.test; cyd1@people.test\ngrace@people.test\nnot an address')
    await page.getByRole('button', { name: 'Send invitations' }).click()
    await page.getByText('4 of 5 seats given').waitFor()
    expect(await page.locator('#team li').allTextContents()).toEqual([
      'ann1@people.test invited',
      'bob1@people.test invited',
      'cyd1@people.test invited',
      'grace@people.test has a seat already',
      'not an address is not an e-mail address',
    ])
    for (const name of ['ann1', 'bob1', 'cyd1']) expect((await world.mail.next(`${name}@people.test`)).text).toContain('/claim')
    await page.getByLabel('E-mail addresses').fill('dan1@people.test eve1@people.test')
    await page.getByRole('button', { name: 'Send invitations' }).click()
    await page.getByText('5 of 5 seats given').waitFor()
    expect(await page.locator('#team li').allTextContents()).toEqual(['dan1@people.test invited', 'eve1@people.test not invited: no free seat'])
    const { total_seats, available_seats } = await api.call(listSeats, { query: { subscription_id: order!.subscription_id! } })
    expect({ total_seats, available_seats }).toEqual({ total_seats: 5, available_seats: 0 })
    await close()
    expect(violations).toEqual([])
  })

  test('sells without script, and takes no payment for an unseen price', async () => {
    const { plan, checkout, api, ordersOf, paymentsOf } = await open()
    await api.call(updateTaxSettings, {
      body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: false }] } as never,
    })
    const made = await checkout({ products: [(await plan({ prices: [{ ...seated, tax_behavior: 'exclusive' }] })).id] })
    const { context, close } = await openContext(browser, world, { script: false })
    const page = await context.newPage()
    await page.goto(made.url)
    await page.getByLabel('Seats').fill('3')
    await page.getByRole('button', { name: 'Update price' }).click()
    await priced(page, '$36.00')
    expect(await page.getByLabel('Seats').inputValue()).toBe('3')
    await fill(page, 'joan@people.test')
    await orderButton(page, '$36.00').click()
    // The chosen country adds a tax. The page shows the new total before the buyer can pay.
    await page.getByText('The price has changed.').waitFor()
    expect(await paymentsOf(made.id)).toEqual([])
    await page.getByText('Tax in Germany, added').waitFor()
    expect(await page.getByLabel('E-mail address').inputValue()).toBe('joan@people.test')
    await orderButton(page, '$42.84').click()
    await thanked(page)
    await page.getByLabel('E-mail addresses').fill('kim@people.test')
    await page.getByRole('button', { name: 'Send invitations' }).click()
    await page.getByText('2 of 3 seats given').waitFor()
    expect(await ordersOf(made.id)).toMatchObject([{ total_amount: 4284, tax_amount: 684, seats: 3 }])
    await close()
  })

  test('shows the amount due today before payment if the seller has removed the trial from the plan', async () => {
    const { product, checkout, api, paymentsOf } = await open()
    const plan = await product({ name: 'Supporter', recurring_interval: 'month', trial_interval: 'day', trial_interval_count: 14, prices: [fixed(900)] })
    const made = await checkout({ products: [plan.id] })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(made.url)
    await repriced(page, () => fill(page, 'trial@people.test'))
    await priced(page, '$0.00')
    await api.call(updateProduct, { params: { id: plan.id }, body: { trial_interval: null, trial_interval_count: null } })
    await orderButton(page).click()
    await page.getByText('The price has changed').waitFor()
    expect(await paymentsOf(made.id)).toEqual([])
    await orderButton(page, '$9.00').click()
    await thanked(page)
    await close()
  })

  test('shows a changed price or a removed discount before it can be paid', async () => {
    const { guide, checkout, api, ordersOf, paymentsOf } = await open()
    const product = await guide()
    const discount = await api.call(createDiscount, {
      body: { name: 'Launch', code: 'LAUNCH', type: 'percentage', basis_points: 1000, duration: 'once' } as never,
    })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    const visit = async (more: Given) => {
      const made = await checkout({ products: [product.id], customer_billing_address: { country: 'DE' }, ...more })
      await page.goto(made.url)
      await page.getByLabel('E-mail address').fill('later@people.test')
      return made
    }
    const dear = await visit({})
    await api.call(updateProduct, { params: { id: product.id }, body: { prices: [fixed(3500)] } })
    await orderButton(page, '$29.00').click()
    await page.getByText('The price has changed.').waitFor()
    await priced(page, '$35.00')
    expect(await page.getByLabel('E-mail address').inputValue()).toBe('later@people.test')
    expect(await paymentsOf(dear.id)).toEqual([])
    await orderButton(page, '$35.00').click()
    await thanked(page)
    expect(await ordersOf(dear.id)).toMatchObject([{ total_amount: 3500 }])

    const cheap = await visit({ discount_id: discount.id })
    await api.call(deleteDiscount, { params: { id: discount.id } })
    await orderButton(page, '$31.50').click()
    await page.getByText('The discount no longer applies: it has ended or was used up.').waitFor()
    expect(await paymentsOf(cheap.id)).toEqual([])
    await orderButton(page, '$35.00').click()
    await thanked(page)
    await close()
  })

  test('says that a discount was used up by others, or was used before, and shows the full price before it can be paid', async () => {
    const { guide, checkout, api, ordersOf, paymentsOf } = await open()
    const product = await guide()
    const discount = (code: string, limit: object) =>
      api.call(createDiscount, { body: { name: code, code, type: 'percentage', basis_points: 1000, duration: 'once', ...limit } as never })
    const last = await discount('LAST', { max_redemptions: 1 })
    const once = await discount('ONCE', { max_redemptions_per_customer: 1 })
    const { context, close } = await openContext(browser, world)
    const [page, other] = [await context.newPage(), await context.newPage()]
    const visit = async (at: typeof page, discount_id: string, email: string) => {
      const made = await checkout({ products: [product.id], customer_billing_address: { country: 'DE' }, discount_id })
      await at.goto(made.url)
      await at.getByLabel('E-mail address').fill(email)
      await priced(at, '$26.10')
      return made
    }
    const pay = (at: typeof page, price: string) => at.getByRole('button', { name: `Pay ${price}` }).click()
    for (const [{ id }, first, second, words] of [
      [last, 'quick@people.test', 'slow@people.test', 'The discount no longer applies: it has ended or was used up.'],
      [once, 'again@people.test', 'again@people.test', 'You have used this discount before, so it does not apply again.'],
    ] as const) {
      const late = await visit(page, id, second)
      await visit(other, id, first)
      await pay(other, '$26.10')
      await thanked(other)
      await pay(page, '$26.10')
      await page.getByText(words).waitFor()
      await priced(page, '$29.00')
      expect(await paymentsOf(late.id)).toEqual([])
      await pay(page, '$29.00')
      await thanked(page)
      expect(await ordersOf(late.id)).toMatchObject([{ total_amount: 2900 }])
    }
    await close()
  })

  test("redirects to the seller's page after the bank confirmation", async () => {
    const { guide, checkout, ordersOf } = await open()
    const made = await checkout({
      products: [(await guide()).id],
      // The success URL redirects to another host.
      success_url: `${callback.moved}?done={CHECKOUT_ID}`,
      customer_email: 'asked@people.test',
      customer_billing_address: { country: 'DE' },
    })
    const { context, violations, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(made.url)
    await page.getByLabel('Test card').selectOption('tok_3ds')
    await orderButton(page, '$29.00').click()
    await page.waitForURL('**/bank')
    // The content policy lets the bank page's form post only to our own pages. From there a meta refresh leads to the seller.
    expect((await page.reload())!.headers()['content-security-policy']).toContain(`form-action 'self';`)
    await page.getByRole('button', { name: 'Yes, I confirm' }).click()
    expect((await callback.next()).searchParams.get('done')).toBe(made.id)
    expect(await ordersOf(made.id)).toHaveLength(1)
    const left = await context.request.get(made.url, { headers: { 'sec-fetch-mode': 'navigate' } })
    expect([left.status(), left.headers().refresh]).toEqual([200, `0; url=${callback.moved}?done=${made.id}`])
    await close()
    expect(violations).toEqual([])
  })

  test('charges once for a double click', async () => {
    const { guide, checkout, ordersOf, paymentsOf } = await open()
    const made = await checkout({ products: [(await guide()).id] })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(made.url)
    await fill(page, 'twice@people.test')
    await page.getByText('shown when you choose a country').waitFor({ state: 'detached' })
    await orderButton(page, '$29.00').dblclick()
    await thanked(page)
    expect(await ordersOf(made.id)).toHaveLength(1)
    expect(await paymentsOf(made.id)).toMatchObject([{ status: 'succeeded', amount: 2900 }])
    await close()
  })

  test("lets the buyer refuse at the bank, pay with another card and return to the seller's page", async () => {
    const { guide, checkout, ordersOf } = await open()
    const made = await checkout({ products: [(await guide()).id], success_url: `${callback.uri}?done={CHECKOUT_ID}`, locale: 'de' })
    const { context, violations, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(made.url)
    await page.getByLabel('E-Mail-Adresse').fill('zoe@people.test')
    await page.getByLabel('Land').selectOption('AT')
    await page.getByText('sobald Sie ein Land wählen').waitFor({ state: 'detached' })
    await page.getByLabel('Testkarte').selectOption('tok_3ds')
    await orderButton(page, undefined, 'de').click()
    await page.getByRole('button', { name: 'Nein, ablehnen' }).click()
    await page.getByText('Sie haben die Zahlung nicht bestätigt.').waitFor()
    // The message is also shown after a reload.
    await page.goto(made.url)
    await page.getByText('Die letzte Zahlung ist fehlgeschlagen. Es wurde nichts belastet.').waitFor()
    expect(await page.getByLabel('E-Mail-Adresse').inputValue()).toBe('zoe@people.test')
    await page.getByLabel('Testkarte').selectOption('tok_visa')
    await orderButton(page, undefined, 'de').click()
    expect((await callback.next()).searchParams.get('done')).toBe(made.id)
    expect(await ordersOf(made.id)).toHaveLength(1)
    await close()
    expect(violations).toEqual([])
  })

  test('explains why a product cannot be bought: subscribed already, archived, or an address that belongs to a customer', async () => {
    const { plan, product, checkout, api } = await open()
    const plain = await plan({ prices: [fixed(1500)], name: 'Solo plan' })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    await api.call(createCustomer, { body: { email: 'known@people.test' } })
    const buy = async () => {
      const made = await checkout({ products: [plain.id], customer_billing_address: { country: 'DE' } })
      await page.goto(made.url)
      await page.getByLabel('E-mail address').fill('known@people.test')
      await orderButton(page, '$15.00').click()
    }
    await buy()
    await thanked(page)
    // The address belongs to an existing customer, so typing it does not sign the buyer in.
    await page.getByRole('link', { name: 'Sign in to the portal' }).waitFor()
    expect((await context.cookies()).filter(({ name }) => name.includes('portal'))).toEqual([])
    await buy()
    await page.getByText('You already have a subscription here.').waitFor()
    await page.getByRole('link', { name: 'Open the portal' }).waitFor()

    const gone = await product({ name: 'Last year', prices: [fixed(500)] })
    const made = await checkout({ products: [gone.id], return_url: 'https://shop.example/' })
    await api.call(updateProduct, { params: { id: gone.id }, body: { is_archived: true } })
    expect((await page.goto(made.url))!.status()).toBe(410)
    expect(await page.getByRole('link', { name: /^Back to / }).getAttribute('href')).toBe('https://shop.example/')
    await close()
  })

  test('shows validation errors at the field: own price, custom fields and wrong numbers', async () => {
    const { product, checkout, api, seen } = await open()
    const question = await api.call(createCustomField, {
      body: {
        type: 'select',
        slug: 'size',
        name: 'Shirt size',
        properties: {
          options: [
            { value: 'm', label: 'Medium' },
            { value: 'l', label: 'Large' },
          ],
        },
      },
    })
    const letters = await api.call(createCustomField, {
      body: { type: 'checkbox', slug: 'letters', name: 'Send me your letters', properties: {} },
    })
    const shirt = await product({
      name: 'Shirt',
      prices: [{ amount_type: 'custom', price_currency: 'usd', minimum_amount: 1000, preset_amount: 2000 }],
      attached_custom_fields: [
        { custom_field_id: question.id, required: true },
        { custom_field_id: letters.id, required: false },
      ],
    })
    const made = await checkout({ products: [shirt.id], custom_field_data: { letters: true } })
    const { context, close } = await openContext(browser, world, { script: false })
    const page = await context.newPage()
    await page.goto(made.url)
    // An unchecked box stays unchecked through later updates of the price.
    await page.getByLabel('Send me your letters').uncheck()
    await page.getByLabel('Your price in USD').fill('5')
    await page.getByRole('button', { name: 'Update price' }).click()
    expect(await page.locator('#amount-error').textContent()).toContain('You cannot pay this amount')
    await page.getByLabel('Your price in USD').fill('25.50')
    await page.getByRole('button', { name: 'Update price' }).click()
    await priced(page, '$25.50')
    await page.getByText('Add a discount code').click()
    await page.getByLabel('Discount code').fill('NOPE')
    await page.locator('.beside button').click()
    expect(await page.locator('#discount_code-error').textContent()).toContain('This code does not exist')
    await page.getByLabel('Discount code').fill('')
    await page.getByLabel('I am buying for a business').check()
    await fill(page, 'max@people.test')
    expect(await page.getByLabel('Send me your letters').isChecked()).toBe(false)
    await page.getByLabel('Shirt size').selectOption('l')
    await orderButton(page, '$25.50').click()
    // A business needs a name and a complete address.
    for (const name of ['customer_billing_name', 'customer_billing_address.city', 'customer_billing_address.line1'])
      expect(await page.locator(`[id="${name}-error"]`).textContent(), name).toBe('Please fill this in.')
    expect(await page.getByLabel('Shirt size').inputValue()).toBe('l')
    await page.getByLabel('Name of the business').fill('Max & Co')
    await page.getByLabel('Street and number').fill('Rosenweg 1')
    await page.getByLabel('Postal code').fill('10115')
    await page.getByLabel('City').fill('Berlin')
    await orderButton(page, '$25.50').click()
    await thanked(page)
    expect(await seen(made.id)).toMatchObject({ custom_field_data: { size: 'l', letters: false }, amount: 2550, customer_billing_name: 'Max & Co' })
    await close()
  })
})

describe('problems', () => {
  test('shows the wait after too many requests, and retries by itself', async () => {
    const { guide, checkout } = await open()
    const made = await checkout({ products: [(await guide()).id] })
    const clock = openClock()
    clock.hold()
    const busy = await openApi({
      ...world.base,
      clock,
      config: readConfig({ ...world.environmentVariables, BURSAR_BUDGETS: JSON.stringify({ page_session: [[1, 15]] }), BURSAR_REDIS_URL: '' }),
    })
    const address = await busy.server.listen({ host: '127.0.0.1', port: 0 })
    const { context, violations, close } = await openContext(browser, world)
    const page = await context.newPage()
    await context.request.get(`${address}/login`)
    expect((await page.goto(`${address}/checkout/${made.id}`))!.status()).toBe(429)
    await page.getByText(/loads again by itself in \d+ seconds?/).waitFor()
    await expectAccessible(page)
    clock.advance(15_001)
    await page.getByRole('heading', { name: 'Please open the link again' }).waitFor()
    await close()
    expect(violations).toEqual([])
    await busy.close()
  })

  test('shows the remaining wait after too many declined cards in both languages, and keeps the form', async () => {
    const clock = openClock()
    clock.hold()
    const budgets = { api: [[1_000_000, 60]], checkout_declines: [[1, 3600]] }
    // Without Redis the rate limit uses the server's clock, which this test stops.
    const strict = await openWorld({ browser: true, worker: true, clock, settings: { BURSAR_BUDGETS: JSON.stringify(budgets), BURSAR_REDIS_URL: '' } })
    const { api } = await strict.shop()
    const product = await api.call(createProduct, { body: { name: 'Field guide', prices: [fixed(2900)] } })
    const checkout = (locale: string) => api.call(createCheckout, { body: { products: [product.id], customer_billing_address: { country: 'DE' }, locale } })
    const [made, german] = [await checkout('en'), await checkout('de')]
    const { context, violations, close } = await openContext(browser, strict)
    const page = await context.newPage()
    await page.goto(made.url)
    await page.getByLabel('E-mail address').fill('ada@people.test')
    await page.getByLabel('Test card').selectOption('tok_insufficient_funds')
    await orderButton(page, '$29.00').click()
    await page.getByText('The last payment did not go through.').waitFor()
    clock.advance(10 * 60_000)
    await page.getByLabel('Test card').selectOption('tok_visa')
    await orderButton(page, '$29.00').click()
    await page.getByText('You can try again in 50 minutes. Nothing was charged').waitFor()
    expect(await page.getByLabel('E-mail address').inputValue()).toBe('ada@people.test')
    await expectAccessible(page)
    if (pictures) await page.screenshot({ path: `${pictures}/checkout-wait.png`, fullPage: true })
    await page.goto(german.url)
    await page.getByLabel('E-Mail-Adresse').fill('ada@people.test')
    await page.getByLabel('Testkarte').selectOption('tok_visa')
    await orderButton(page, undefined, 'de').click()
    await page.getByText('In 50 Minuten können Sie es wieder versuchen. Es wurde nichts belastet').waitFor()
    clock.advance(50 * 60_000)
    await orderButton(page, undefined, 'de').click()
    await page.getByRole('heading', { name: 'Vielen Dank!' }).waitFor()
    const paymentsOf = async (id: string) => (await api.call(listPayments, { query: { checkout_id: [id] } })).items.map(({ status }) => status)
    expect([await paymentsOf(made.id), await paymentsOf(german.id)]).toEqual([['failed'], ['succeeded']])
    await close()
    expect(violations).toEqual([])
    await strict.close()
  })

  test('answers 429, not 404, if the rate limit prevents the portal page from loading its seller', async () => {
    const { organization } = await open()
    const busy = await openApi({
      ...world.base,
      config: readConfig({ ...world.environmentVariables, BURSAR_BUDGETS: JSON.stringify({ page_session: [[1, 60]] }), BURSAR_REDIS_URL: '' }),
    })
    const address = await busy.server.listen({ host: '127.0.0.1', port: 0 })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    const answer = (await page.goto(`${address}/${organization.slug}/portal/sign-in`))!
    expect(answer.status()).toBe(429)
    expect(Number(answer.headers()['retry-after'])).toBeGreaterThan(0)
    await page.getByText(/loads again by itself in \d+ seconds?/).waitFor()
    await close()
    await busy.close()
  })

  test('shows a page with instructions and the request id when the database is down', async () => {
    const { guide, checkout } = await open()
    const made = await checkout({ products: [(await guide()).id] })
    const gone = await openApi(world.base)
    const address = await gone.server.listen({ host: '127.0.0.1', port: 0 })
    await gone.postgres.close()
    const { context, violations, close } = await openContext(browser, world)
    const page = await context.newPage()
    expect((await page.goto(`${address}${new URL(made.url).pathname}`))!.status()).toBeGreaterThanOrEqual(500)
    await page.getByText(/cannot answer at the moment|broke on our side/).waitFor()
    expect(await page.locator('details code').last().textContent()).toMatch(/^[0-9a-f-]{36}$/)
    await expectAccessible(page)
    await close()
    expect(violations).toEqual([])
    await gone.close().catch(() => undefined)
  })
})

describe('sizes', () => {
  test('keeps page, script and stylesheet below their size limits', async () => {
    const { plan, checkout } = await open()
    const made = await checkout({ products: [(await plan()).id] })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(made.url)
    const packed = async (address: string) => gzipSync(await (await context.request.get(new URL(address, page.url()).href)).body()).length
    const kib = 1024
    expect(await packed(page.url())).toBeLessThan(12 * kib)
    expect(await packed((await page.locator('link[rel=stylesheet]').getAttribute('href'))!)).toBeLessThan(10 * kib)
    expect(await page.locator('script').count()).toBe(1)
    expect(await packed((await page.locator('script').getAttribute('src'))!)).toBeLessThan(6 * kib)
    await close()
  })
})

describe('looks', () => {
  const looks = { light: { dark: false, width: 1024 }, dark: { dark: true, width: 1024 }, phone: { dark: false, width: 390 } }

  /** Checks the current page in light and dark mode and at phone width: axe finds no problem, and nothing overflows horizontally. */
  const shown = async (page: Page, name: string) => {
    for (const [look, { dark, width }] of Object.entries(looks)) {
      await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' })
      await page.setViewportSize({ width, height: 900 })
      // While the page asks for prices, it shows them dimmed.
      await expect.poll(() => page.locator('[aria-busy="true"]').count()).toBe(0)
      await expectAccessible(page)
      if (pictures) await page.screenshot({ path: `${pictures}/${name}-${look}.png`, fullPage: true })
    }
    await page.setViewportSize({ width: 1024, height: 900 })
  }

  test('has accessible pages from the link to the invitations, in light, dark and on a phone', async () => {
    const { plan, checkout, api, organization } = await open()
    const { context, violations, close } = await openContext(browser, world)
    const page = await context.newPage()
    await api.call(createDiscount, { body: { name: 'Launch', code: 'LAUNCH', type: 'percentage', basis_points: 2000, duration: 'once' } as never })
    const team = await plan()
    await world.database.owner((owner) => owner.query(`update organizations set name = 'Northwind Trails' where id = $1`, [organization.id]))
    const made = await checkout({ products: [team.id], return_url: 'https://shop.example/', seats: 5 })
    await page.goto(made.url)
    await shown(page, 'checkout')
    await page.getByLabel('E-mail address').fill('looks@people.test')
    await page.getByLabel('Country').selectOption('US')
    await page.getByLabel('Postal code').waitFor()
    await page.getByText('Add a discount code').click()
    await page.getByLabel('Discount code').fill('LAUNCH')
    await page.locator('.beside button').click()
    await priced(page, '$48.00')
    await page.getByLabel('I am buying for a business').check()
    await shown(page, 'checkout-filled')
    await page.getByLabel('I am buying for a business').uncheck()
    await page.getByLabel('Country').selectOption('DE')
    await page.getByLabel('Postal code').waitFor({ state: 'detached' })
    await page.getByLabel('Test card').selectOption('tok_insufficient_funds')
    await orderButton(page).click()
    await page.getByText('The card has insufficient funds.').waitFor()
    await shown(page, 'checkout-declined')
    await page.getByLabel('Test card').selectOption('tok_3ds')
    await orderButton(page).click()
    await page.getByRole('heading', { name: 'Your bank asks you to confirm' }).waitFor()
    await shown(page, 'bank')
    // A buyer who leaves the bank page and opens the checkout again is redirected to the bank page.
    await page.goto(made.url)
    await page.getByRole('button', { name: 'Yes, I confirm' }).click()
    await thanked(page)
    await page.getByLabel('E-mail addresses').fill('ann@people.test, Bob <bob@people.test>; nobody')
    await shown(page, 'thanks')
    await page.getByRole('button', { name: 'Send invitations' }).click()
    await page.getByText('Results', { exact: true }).waitFor()
    await shown(page, 'invited')
    await close()
    expect(violations).toEqual([])
  })

  test('has accessible pages for choices, final states and problems, in light, dark and on a phone', async () => {
    const { plan, guide, checkout, product, manual, withBenefit } = await open()
    const { context, violations, close } = await openContext(browser, world)
    const page = await context.newPage()
    const slow = await checkout({ products: [(await guide()).id], customer_email: 'slow@people.test', customer_billing_address: { country: 'DE' } })
    await page.goto(slow.url)
    await page.getByLabel('Test card').selectOption('tok_processing')
    await orderButton(page).click()
    await page.getByRole('heading', { name: 'We are waiting for your bank' }).waitFor()
    await shown(page, 'progress')
    const yearly = await product({ name: 'Supporter', recurring_interval: 'year', trial_interval: 'day', trial_interval_count: 14, prices: [fixed(9900)] })
    await withBenefit(yearly.id, manual.id)
    const choice = await checkout({ products: [yearly.id, (await plan()).id] })
    await page.goto(choice.url)
    await shown(page, 'checkout-choice')
    await world.database.owner((owner) => owner.query('update checkouts set expires_at = created_at where id = $1', [choice.id]))
    expect((await page.reload())!.status()).toBe(410)
    await shown(page, 'expired')
    await context.clearCookies()
    expect((await page.goto(`${world.config.public_url.origin}/checkout/${choice.id}`))!.status()).toBe(403)
    await shown(page, 'link-needed')
    expect((await page.goto(`${world.config.public_url.origin}/nowhere`))!.status()).toBe(404)
    await shown(page, 'not-found')
    await close()
    expect(violations).toEqual([])
  })
})
