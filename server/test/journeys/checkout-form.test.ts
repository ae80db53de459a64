import { updateTaxSettings } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectAccessible, openBrowser, openContext, type Browser, type Page } from '../harness/browser.ts'
import type { Request } from 'playwright-core'
import { fillIn, fixedPrice, focused, inputOf, openCheckouts, repriced, seatPrice } from '../harness/checkouts.ts'
import { orderButton } from '../harness/ordering.ts'
import { openClock, openWorld, type World } from '../harness/world.ts'

// The form of the checkout: errors, focus, the Enter key, and input that is kept.
let world: World
let browser: Browser
beforeAll(async () => {
  ;[world, browser] = await Promise.all([openWorld({ worker: true, browser: true }), openBrowser()])
})
afterAll(async () => {
  await browser.close()
  await world.close()
})

const thanked = (page: Page) => page.getByRole('heading', { name: 'Thank you!' }).waitFor()
const errorAt = (page: Page, name: string) => page.locator(`[id="${name}-error"]`)
const germanRate = { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: true }] }

describe('errors', () => {
  test('focuses the first wrong field of the page after the order was sent, with and without script', async () => {
    const { product, checkout } = await openCheckouts(world)
    const guide = await product({ name: 'Field guide', prices: [fixedPrice(2900)] })
    for (const script of [true, false]) {
      const made = await checkout({ products: [guide.id], customer_billing_address: { country: 'DE' }, is_business_customer: true })
      const { context, violations, close } = await openContext(browser, world, { script })
      const page = await context.newPage()
      await page.goto(made.url)
      await fillIn(page, {
        customer_email: 'biz@people.test',
        'customer_billing_address.line1': 'Rosenweg 1',
        'customer_billing_address.postal_code': '10115',
        'customer_billing_address.city': 'Berlin',
      })
      await orderButton(page, '$29.00').click()
      await errorAt(page, 'customer_billing_name').waitFor()
      expect(await focused(page)).toBe('customer_billing_name')
      expect(await page.locator('#customer_billing_name').getAttribute('aria-describedby')).toBe('customer_billing_name-error')
      // axe is a script, so it runs only where scripts do.
      if (script) await expectAccessible(page)
      await close()
      expect(violations).toEqual([])
    }
  })

  test('shows a wrong VAT number at its field when the buyer leaves it, and lets the buyer go on typing elsewhere', async () => {
    const { product, checkout, api } = await openCheckouts(world)
    await api.call(updateTaxSettings, { body: germanRate as never })
    const guide = await product({ name: 'Field guide', prices: [fixedPrice(2900, { tax_behavior: 'exclusive' })] })
    const made = await checkout({ products: [guide.id], customer_billing_address: { country: 'DE' } })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(made.url)
    // One toggle shows the fields of a business.
    expect(await page.locator('#customer_tax_id').isVisible()).toBe(false)
    await repriced(page, () => page.getByLabel('I am buying for a business').check())
    expect(await page.locator('#customer_tax_id').isVisible()).toBe(true)
    await page.locator('#customer_tax_id').fill('DE123')
    await repriced(page, () => page.locator('#customer_name').fill('Ada'))
    await errorAt(page, 'customer_tax_id').getByText('not valid in the chosen country').waitFor()
    expect(await focused(page)).toBe('customer_name')
    expect(await page.locator('#customer_tax_id').inputValue()).toBe('DE123')
    await page.locator('#customer_tax_id').fill('DE136695976')
    await repriced(page, () => page.locator('#customer_name').press('End'))
    await errorAt(page, 'customer_tax_id').waitFor({ state: 'detached' })
    expect(await page.locator('#customer_name').inputValue()).toBe('Ada')
    // Without the tick, the hidden fields are not used, and keep their text.
    await repriced(page, () => page.getByLabel('I am buying for a business').uncheck())
    expect((await inputOf(page)).customer_tax_id).toBe('DE136695976')
    await close()
  })

  test('focuses a wrong discount code, and the discount line after a right one', async () => {
    const { product, checkout, discount } = await openCheckouts(world)
    await discount({ name: 'Launch', code: 'LAUNCH', type: 'percentage', basis_points: 1000, duration: 'once' })
    const guide = await product({ name: 'Field guide', prices: [fixedPrice(2900)] })
    for (const script of [true, false]) {
      const made = await checkout({ products: [guide.id] })
      const { context, close } = await openContext(browser, world, { script })
      const page = await context.newPage()
      await page.goto(made.url)
      await page.getByText('Add a discount code').click()
      await page.getByLabel('Discount code').fill('NOPE')
      await page.getByRole('button', { name: 'Apply' }).first().click()
      await errorAt(page, 'discount_code').waitFor()
      await expect.poll(() => focused(page)).toBe('discount_code')
      await page.getByLabel('Discount code').fill('LAUNCH')
      await page.getByRole('button', { name: 'Apply' }).first().click()
      await page.locator('.bill .due dd', { hasText: '$26.10' }).waitFor()
      await expect.poll(() => focused(page)).toBe('without_discount')
      await close()
    }
  })

  test('focuses the payment after a decline, and says what to do about each kind of decline', async () => {
    const { product, checkout } = await openCheckouts(world)
    const guide = await product({ name: 'Field guide', prices: [fixedPrice(2900)] })
    const made = await checkout({ products: [guide.id], customer_email: 'no@people.test', customer_billing_address: { country: 'DE' } })
    const { context, close } = await openContext(browser, world, { width: 390 })
    const page = await context.newPage()
    await page.goto(made.url)
    for (const [card, advice] of [
      ['tok_insufficient_funds', 'top up this one'],
      ['tok_expired_card', 'Check the expiry date'],
      ['tok_do_not_honor', 'ask your bank for the reason'],
    ] as const) {
      await page.getByLabel('Test card').selectOption(card)
      await orderButton(page, '$29.00').click()
      await errorAt(page, 'confirmation_token_id').getByText(advice).waitFor()
      await expect.poll(() => focused(page)).toBe('confirmation_token_id')
      expect(await page.evaluate(`document.getElementById('confirmation_token_id-error').getBoundingClientRect().bottom < innerHeight`)).toBe(true)
    }
    await close()
  })
})

describe('the Enter key', () => {
  test('places the order from a field, and applies the code from the field of the discount', async () => {
    const { product, checkout, discount, ordersOf, paymentsOf } = await openCheckouts(world)
    await discount({ name: 'Launch', code: 'LAUNCH', type: 'percentage', basis_points: 1000, duration: 'once' })
    const guide = await product({ name: 'Field guide', prices: [fixedPrice(2900)] })
    for (const script of [true, false]) {
      const made = await checkout({ products: [guide.id], customer_billing_address: { country: 'DE' } })
      const { context, close } = await openContext(browser, world, { script })
      const page = await context.newPage()
      await page.goto(made.url)
      await page.getByLabel('E-mail address').fill('enter@people.test')
      await page.getByText('Add a discount code').click()
      await page.getByLabel('Discount code').fill('LAUNCH')
      await page.getByLabel('Discount code').press('Enter')
      await page.locator('.bill .due dd', { hasText: '$26.10' }).waitFor()
      expect(await paymentsOf(made.id)).toEqual([])
      await page.getByLabel('E-mail address').press('Enter')
      await thanked(page)
      expect(await ordersOf(made.id)).toMatchObject([{ total_amount: 2610 }])
      await close()
    }
  })

  test('never pays by itself after the countdown that follows too many declined payments', async () => {
    const clock = openClock()
    clock.hold()
    const budgets = { api: [[1_000_000, 60]], checkout_declines: [[1, 3600]] }
    // Without Redis the rate limit uses the server's clock, which this test stops.
    const strict = await openWorld({ browser: true, worker: true, clock, settings: { BURSAR_BUDGETS: JSON.stringify(budgets), BURSAR_REDIS_URL: '' } })
    const { product, checkout, paymentsOf } = await openCheckouts(strict)
    const guide = await product({ name: 'Field guide', prices: [fixedPrice(2900)] })
    const made = await checkout({ products: [guide.id], customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' } })
    const { context, close } = await openContext(browser, strict)
    const page = await context.newPage()
    await page.clock.install()
    await page.goto(made.url)
    await page.getByLabel('Test card').selectOption('tok_do_not_honor')
    await orderButton(page).click()
    await page.getByText('The last payment did not go through.').waitFor()
    clock.advance(3_590_000)
    await page.getByLabel('Test card').selectOption('tok_visa')
    await orderButton(page).click()
    await page.getByText('You can try again in 10 seconds').waitFor()
    // The next payment would succeed now.
    clock.advance(60_000)
    const sent: string[] = []
    page.on('request', (request) => void (request.method() === 'POST' && sent.push(new URL(request.url()).pathname.split('/').at(-1)!)))
    const updated = page.waitForResponse((response) => response.url().endsWith('/update'))
    await page.clock.runFor(15_000)
    await updated
    await page.getByText('You can try again in').waitFor({ state: 'detached' })
    await page.clock.runFor(15_000)
    expect(sent).toEqual(['update'])
    expect((await paymentsOf(made.id)).map(({ status }) => status)).toEqual(['failed'])
    await close()
    await strict.close()
  })
})

describe('input that is kept', () => {
  /** Values for every field of a checkout of seats for a business, with all types of custom fields. */
  const values = {
    seats: '7',
    customer_email: 'kept@people.test',
    customer_name: 'Ada Lovelace',
    'customer_billing_address.line1': 'Rosenweg 1',
    'customer_billing_address.line2': 'Hinterhaus',
    'customer_billing_address.postal_code': '10115',
    'customer_billing_address.city': 'Berlin',
    'customer_billing_address.state': 'Berlin',
    customer_billing_name: 'Max & Co "GmbH" <1>',
    customer_tax_id: 'DE136695976',
    'custom_field_data.company': 'Bird club',
    'custom_field_data.wishes': 'Two lines,\nand no more.',
    'custom_field_data.people': '12',
    'custom_field_data.start': '2027-03-01',
    'custom_field_data.size': 'l',
    'custom_field_data.letters': true,
    confirmation_token_id: 'tok_insufficient_funds',
  }

  /** Opens a checkout with every field, and fills it in. */
  const filled = async (script: boolean) => {
    const shop = await openCheckouts(world)
    const solo = await shop.product({ name: 'Solo plan', recurring_interval: 'month', prices: [fixedPrice(900)] })
    const team = await shop.product({
      name: 'Team plan',
      recurring_interval: 'month',
      prices: [seatPrice],
      attached_custom_fields: await shop.fields(),
    })
    const made = await shop.checkout({ products: [team.id, solo.id], is_business_customer: true, customer_billing_address: { country: 'DE' } })
    const opened = await openContext(browser, world, { script })
    const page = await opened.context.newPage()
    await page.goto(made.url)
    await fillIn(page, values)
    const before = await inputOf(page)
    expect(before).toMatchObject({ ...values, 'custom_field_data.letters': 'true', is_business_customer: 'true', 'customer_billing_address.country': 'DE' })
    return { ...shop, ...opened, made, page, before }
  }

  test('keeps every field when the language changes, with and without script', async () => {
    for (const script of [true, false]) {
      const { page, before, violations, close } = await filled(script)
      await page.locator('select[name=locale]').selectOption('de')
      await page.getByRole('button', { name: 'Apply', exact: true }).last().click()
      await page.getByRole('heading', { name: 'Rechnungsadresse' }).waitFor()
      expect(await inputOf(page)).toEqual(before)
      if (script) await expectAccessible(page)
      await page.locator('select[name=theme]').selectOption('dark')
      await page.getByRole('button', { name: 'Übernehmen' }).click()
      await expect.poll(() => page.locator('html').getAttribute('data-theme')).toBe('dark')
      expect(await inputOf(page)).toEqual(before)
      await close()
      expect(violations).toEqual([])
    }
  })

  test('keeps every field after a decline, with and without script', async () => {
    for (const script of [true, false]) {
      const { page, before, made, seen, close } = await filled(script)
      // With script, the button shows the price of seven seats soon after they were typed.
      const order = orderButton(page, script ? '$84.00' : undefined)
      await order.click()
      // Without script, the page shows that price before the buyer pays it.
      if (!script) {
        await page.getByText('The price has changed.').waitFor()
        expect(await inputOf(page)).toEqual(before)
        await order.click()
      }
      await page.getByText('The card has insufficient funds.').waitFor()
      expect(await inputOf(page)).toEqual(before)
      await page.getByLabel('Test card').selectOption('tok_visa')
      await order.click()
      await thanked(page)
      expect(await seen(made.id)).toMatchObject({
        seats: 7,
        customer_billing_name: values.customer_billing_name,
        custom_field_data: { company: 'Bird club', wishes: 'Two lines,\nand no more.', people: 12, start: '2027-03-01', size: 'l', letters: true },
      })
      await close()
    }
  })

  test('keeps every field when the page is loaded again, also without script, and stores no payment method', async () => {
    for (const script of [true, false]) {
      const { page, before, made, violations, close } = await filled(script)
      // The script stores the last field when it loses the focus. Without script, only a button sends the form.
      if (script) {
        const stored = page.waitForResponse((response) => response.url().endsWith('/draft') && response.request().postData()!.includes('insufficient'))
        await page.locator('#customer_name').focus()
        await stored
      } else await page.getByRole('button', { name: 'Update price' }).click()
      await page.goto(made.url)
      const { confirmation_token_id, ...kept } = await inputOf(page)
      const { confirmation_token_id: _, ...typed } = before
      expect(kept).toEqual(typed)
      expect(confirmation_token_id).toBe('tok_visa')
      await page.locator('.bill .due dd', { hasText: '$84.00' }).waitFor()
      await close()
      expect(violations).toEqual([])
    }
  })

  /** Opens a checkout with a field to type in. */
  const typing = async () => {
    const { product, checkout } = await openCheckouts(world)
    const guide = await product({ name: 'Field guide', prices: [fixedPrice(2900)] })
    const made = await checkout({ products: [guide.id], customer_billing_address: { country: 'DE' } })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    const isDraft = (request: Request) => request.url().endsWith('/draft')
    await page.goto(made.url)
    const name = page.locator('#customer_name')
    /** Types a text. Ends when a draft with it was sent. */
    const type = async (text: string) => {
      const sent = page.waitForRequest((request) => isDraft(request) && request.postData()!.includes(text))
      await name.fill(text)
      await sent
    }
    return { made, page, name, type, isDraft, close }
  }

  test('keeps a draft that is sent while the price is computed', async () => {
    const { made, page, name, type, isDraft, close } = await typing()
    await world.database.owner(async (owner) => {
      // Computing the price locks the checkout.
      await owner.query('begin')
      await owner.query('select from checkouts where id = $1 for update', [made.id])
      const stored = page.waitForResponse((response) => isDraft(response.request()))
      await type('Lovelace')
      await owner.query('select pg_sleep(0.4)')
      await owner.query('rollback')
      await stored
    })
    await page.goto(made.url)
    expect(await name.inputValue()).toBe('Lovelace')
    await close()
  })

  test('sends one draft after the other, so that a slow one does not replace a newer one', async () => {
    const { made, page, name, type, isDraft, close } = await typing()
    const isNewer = (request: Request) => isDraft(request) && request.postData()!.includes('Lovelace')
    let newer = 0
    page.on('request', (request) => void (isNewer(request) && newer++))
    await world.database.owner(async (owner) => {
      await owner.query('begin')
      await owner.query('select from checkouts where id = $1 for update', [made.id])
      await type('Ada')
      const stored = page.waitForResponse((response) => isNewer(response.request()))
      await name.fill('Lovelace')
      // Without the queue, a draft is sent as soon as the field loses the focus.
      await page.locator('#customer_email').focus()
      expect(await focused(page)).toBe('customer_email')
      await owner.query('select pg_sleep(0.2)')
      expect(newer).toBe(0)
      await owner.query('rollback')
      await stored
    })
    await page.goto(made.url)
    expect(await name.inputValue()).toBe('Lovelace')
    await close()
  })

  test('keeps the currency, the own amount and a code that was not applied, over a reload, a change of the language and a decline', async () => {
    const { product, checkout } = await openCheckouts(world)
    const own = (price_currency: string) => ({ amount_type: 'custom', price_currency, minimum_amount: 500, maximum_amount: 50_000, preset_amount: 2000 })
    const gift = await product({ name: 'Gift', prices: [own('usd'), own('eur')] })
    const made = await checkout({ products: [gift.id], currency: 'usd', customer_email: 'own@people.test', customer_billing_address: { country: 'DE' } })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(made.url)
    await repriced(page, () => page.getByLabel('Currency').selectOption('eur'))
    await repriced(page, () => page.locator('#amount').fill('37.50'))
    await page.getByText('Add a discount code').click()
    const stored = page.waitForResponse((response) => response.url().endsWith('/draft') && response.request().postData()!.includes('LATER'))
    await page.getByLabel('Discount code').fill('LATER')
    await page.getByLabel('E-mail address').focus()
    await stored
    const kept = { currency: 'eur', amount: '37.50' }
    await page.goto(made.url)
    expect(await inputOf(page)).toMatchObject({ ...kept, discount_code: 'LATER' })
    await page.locator('select[name=locale]').selectOption('de')
    await page.getByRole('button', { name: 'Apply', exact: true }).last().click()
    await page.getByRole('heading', { name: 'Rechnungsadresse' }).waitFor()
    expect(await inputOf(page)).toMatchObject({ ...kept, discount_code: 'LATER' })
    // A code that was typed and not applied is part of the order, so an unknown one would stop it.
    await page.getByLabel('Rabattcode').fill('')
    await page.getByLabel('Testkarte').selectOption('tok_do_not_honor')
    await orderButton(page, undefined, 'de').click()
    await page.getByText('Die letzte Zahlung ist fehlgeschlagen.').waitFor()
    expect(await inputOf(page)).toMatchObject(kept)
    await close()
  })

  test('shows a wrong VAT number and its error again after the page is loaded again', async () => {
    const { product, checkout } = await openCheckouts(world)
    const guide = await product({ name: 'Field guide', prices: [fixedPrice(2900)] })
    const made = await checkout({ products: [guide.id], is_business_customer: true, customer_billing_address: { country: 'DE' } })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(made.url)
    await page.locator('#customer_tax_id').fill('DE123')
    await repriced(page, () => page.locator('#customer_name').focus())
    await page.goto(made.url)
    expect(await page.locator('#customer_tax_id').inputValue()).toBe('DE123')
    await errorAt(page, 'customer_tax_id').getByText('not valid in the chosen country').waitFor()
    await close()
  })

  test('opens an expired checkout again with everything that was typed', async () => {
    const { page, made, close } = await filled(true)
    const stored = page.waitForResponse((response) => response.url().endsWith('/draft') && response.request().postData()!.includes('insufficient'))
    await page.locator('#customer_name').focus()
    await stored
    await world.database.owner((owner) => owner.query('update checkouts set expires_at = created_at where id = $1', [made.id]))
    expect((await page.goto(page.url()))!.status()).toBe(410)
    await expectAccessible(page)
    await page.getByRole('button', { name: 'Open it again' }).click()
    await page.getByRole('heading', { name: 'Billing address' }).waitFor()
    expect(page.url()).not.toContain(made.id)
    expect(await inputOf(page)).toMatchObject({
      customer_email: values.customer_email,
      'custom_field_data.wishes': values['custom_field_data.wishes'],
      seats: '7',
    })
    await close()
  })

  test('offers to open an expired checkout again if another request has locked it', async () => {
    const { product, checkout } = await openCheckouts(world)
    const guide = await product({ name: 'Field guide', prices: [fixedPrice(2900)] })
    const made = await checkout({ products: [guide.id] })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(made.url)
    await world.database.owner((owner) => owner.query('update checkouts set expires_at = created_at where id = $1', [made.id]))
    await page.goto(page.url())
    const again = page.getByRole('button', { name: 'Open it again' })
    await world.database.owner(async (owner) => {
      await owner.query('begin')
      await owner.query('select from checkouts where id = $1 for update', [made.id])
      const shown = page.waitForResponse((response) => response.request().method() === 'GET' && response.url().endsWith(`/checkout/${made.id}`))
      await again.click()
      expect((await shown).status()).toBe(410)
      await again.waitFor()
      await owner.query('rollback')
    })
    await again.click()
    await page.locator('#customer_email').waitFor()
    expect(page.url()).not.toContain(made.id)
    await close()
  })
})

describe('the country', () => {
  test('is preselected from the language of the browser, and stored only when the buyer does something', async () => {
    const { product, checkout, api, seen, paymentsOf } = await openCheckouts(world)
    await api.call(updateTaxSettings, { body: germanRate as never })
    const guide = await product({ name: 'Field guide', prices: [fixedPrice(2900, { tax_behavior: 'exclusive' })] })
    for (const script of [true, false]) {
      const made = await checkout({ products: [guide.id] })
      const { context, close } = await openContext(browser, world, { script, locale: 'en-DE' })
      const page = await context.newPage()
      await page.goto(made.url)
      expect(await page.getByLabel('Country').inputValue()).toBe('DE')
      await page.getByText('shown when you fill in the form').waitFor()
      expect(await seen(made.id)).toMatchObject({ customer_billing_address: null, modified_at: null })
      await page.getByLabel('E-mail address').fill('guess@people.test')
      // The script asks for the tax when the buyer enters the form. Without it, the page shows the price before payment.
      if (!script) await orderButton(page, '$29.00').click()
      await page.getByText('Tax in Germany, added').waitFor()
      expect(await paymentsOf(made.id)).toEqual([])
      expect(await page.getByLabel('E-mail address').inputValue()).toBe('guess@people.test')
      await orderButton(page, '$34.51').click()
      await thanked(page)
      await close()
    }
  })

  test('is not guessed from a language without a region, and its states have names', async () => {
    const { product, checkout } = await openCheckouts(world)
    const guide = await product({ name: 'Field guide', prices: [fixedPrice(2900)] })
    const made = await checkout({ products: [guide.id] })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(made.url)
    expect(await page.getByLabel('Country').inputValue()).toBe('')
    await repriced(page, () => page.getByLabel('Country').selectOption('CA'))
    expect(await page.getByLabel('State or province').locator('option').allTextContents()).toContain('British Columbia')
    expect(await page.getByLabel('State or province').locator('option', { hasText: 'Quebec' }).getAttribute('value')).toBe('CA-QC')
    await close()
  })
})

describe('amounts', () => {
  test('lets the buyer choose the currency, and names the reason for a reverse charge', async () => {
    const { product, checkout, api, organization } = await openCheckouts(world)
    // A seller in another country does not charge the tax of a business.
    await world.database.owner((owner) => owner.query(`update organizations set country = 'US' where id = $1`, [organization.id]))
    await api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '20', reverse_charge: true }] } as never })
    const guide = await product({
      name: 'Field guide',
      prices: [fixedPrice(2900, { tax_behavior: 'exclusive' }), { ...fixedPrice(2500, { tax_behavior: 'exclusive' }), price_currency: 'eur' }],
    })
    const made = await checkout({ products: [guide.id], currency: 'usd', customer_billing_address: { country: 'DE' } })
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(made.url)
    await orderButton(page, '$34.80').waitFor()
    await page.getByLabel('Currency').selectOption('eur')
    await orderButton(page, '€30.00').waitFor()
    await repriced(page, () => page.getByLabel('I am buying for a business').check())
    await page.locator('#customer_tax_id').fill('DE136695976')
    await page.locator('#customer_billing_name').focus()
    await page.getByText('reverse charge').waitFor()
    await orderButton(page, '€25.00').waitFor()
    await close()
  })
})

test('sets out custom fields of every type with their hints, limits and placeholders', async () => {
  const { product, checkout, fields } = await openCheckouts(world)
  const guide = await product({ name: 'Field guide', prices: [fixedPrice(0)], attached_custom_fields: await fields() })
  const made = await checkout({ products: [guide.id], customer_email: 'ask@people.test' })
  const { context, close } = await openContext(browser, world, { width: 390 })
  const page = await context.newPage()
  await page.goto(made.url)
  const attributes = (slug: string) =>
    page.evaluate(`Object.fromEntries([...document.getElementById('custom_field_data.${slug}').attributes].map(({ name, value }) => [name, value]))`)
  expect(await attributes('company')).toMatchObject({ placeholder: 'Northwind', minlength: '2', maxlength: '40' })
  expect(await attributes('people')).toMatchObject({ type: 'number', min: '2', max: '500', placeholder: '12' })
  expect(await attributes('start')).toMatchObject({ type: 'date', min: '2026-01-01', max: '2030-12-31' })
  expect(await page.locator('textarea[name="custom_field_data.wishes"]').getAttribute('placeholder')).toBe('Write here')
  const hintOf = (slug: string) => page.locator(`[id="custom_field_data.${slug}-hint"]`).textContent()
  expect(await hintOf('company')).toBe('Between 2 and 40 characters.')
  expect(await hintOf('wishes')).toBe('We read every line.')
  expect(await hintOf('people')).toBe('Between 2 and 500.')
  expect(await hintOf('start')).toBe('From Jan 1, 2026 to Dec 31, 2030.')
  expect(await hintOf('letters')).toBe('Once a month.')
  expect(await attributes('letters')).toMatchObject({ 'aria-describedby': 'custom_field_data.letters-hint' })
  // The box stands beside its label, not above it, and touches neither.
  const box = (await page.getByLabel('Send me your letters').boundingBox())!
  const label = (await page.getByText('Send me your letters').boundingBox())!
  expect(label.x - box.x - box.width).toBeGreaterThanOrEqual(8)
  expect(Math.abs(label.y + label.height / 2 - box.y - box.height / 2)).toBeLessThan(10)
  await expectAccessible(page)
  await close()
})
