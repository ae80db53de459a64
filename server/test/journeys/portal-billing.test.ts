import { readFileSync } from 'node:fs'
import { createProduct, createRefund, getCustomer, getOrder, getSubscription, listCustomerMembers, listOrders, listPaymentMethods } from '@bursar/contract'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { expectAccessible, openBrowser, type Browser } from '../harness/browser.ts'
import { openPortals, type Portals } from '../harness/portals.ts'
import { june, openSubscribers, type Subscribers } from '../harness/subscribers.ts'
import { openTeams } from '../harness/teams.ts'
import { openWorld, type World } from '../harness/world.ts'

// Journeys of owners and billing managers with subscriptions, orders and billing details, in a real browser.
let world: World
let browser: Browser
let people: Subscribers
let portals: Portals
beforeAll(async () => {
  ;[world, browser] = await Promise.all([openWorld({ browser: true }), openBrowser()])
  people = await openSubscribers(world)
  portals = openPortals(world, await openTeams(world, people.deployment), browser)
})
afterAll(async () => {
  await browser.close()
  await people.close()
  await world.close()
})

test('cancels, resumes, pauses and changes plans for the shown price without script, and ends a paused subscription at once', async () => {
  // Stops the clock, so that the prorated price does not change during the test.
  world.clock.hold()
  onTestFinished(() => world.clock.release())
  const team = await portals.team({ seats: 3 })
  const grand = await team.api.call(createProduct, {
    body: {
      name: 'Grand',
      recurring_interval: 'month',
      visibility: 'public',
      prices: [{ amount_type: 'seat_based', price_currency: 'usd', seat_tiers: { tiers: [{ min_seats: 1, max_seats: null, price_per_seat: 2500 }] } }],
    } as never,
  })
  const { page, go, violations, close } = await portals.enter(team, {}, { script: false })
  const now = () => team.api.call(getSubscription, { params: { id: team.subscription_id! } })
  await go('/subscriptions')
  await page.getByText('Cancel subscription', { exact: true }).click()
  await page.getByText('A place at the yearly meeting').waitFor()
  await page.getByRole('button', { name: /^Yes, end it on/ }).click()
  await page.getByText('The subscription is canceled').waitFor()
  expect((await now()).cancel_at_period_end).toBe(true)
  await page.getByText(/^Ends on .* Nothing more is charged/).waitFor()
  await page.getByRole('button', { name: 'Keep the subscription' }).click()
  await page.getByText('The cancellation was undone. The subscription continues.').waitFor()
  expect((await now()).cancel_at_period_end).toBe(false)

  await page.getByText('Pause', { exact: true }).click()
  await page.getByRole('button', { name: 'Yes, pause it' }).click()
  await page.getByRole('button', { name: 'Do not pause' }).click()
  await page.getByText('The pause was canceled. The subscription continues.').waitFor()

  await page.getByText('Change plan').click()
  await page.getByLabel('New plan').selectOption(grand.id)
  await page.locator(`#plan-${team.subscription_id!}-show`).click()
  expect(await page.locator('dl.price').innerText()).toContain('$45.00')
  await page.getByRole('button', { name: 'Change to Grand' }).click()
  await page.getByText('The subscription was changed.').waitFor()
  expect((await now()).product_id).toBe(grand.id)
  const orders = (await team.api.call(listOrders, { query: { customer_id: [team.customer_id] } })).items
  expect(orders.find(({ billing_reason }) => billing_reason === 'subscription_update')).toMatchObject({ status: 'paid', total_amount: 4500 })

  await people.query(`update subscriptions set status = 'paused', paused_at = current_period_start, due_at = null where id = $1`, [team.subscription_id])
  await go('/subscriptions')
  await page.getByText('Cancel subscription', { exact: true }).click()
  await page.getByText('The subscription is paused, so it ends at once.').waitFor()
  await page.getByRole('button', { name: 'Yes, end it now' }).click()
  await page.getByText('The subscription has ended.').waitFor()
  expect((await now()).status).toBe('canceled')
  expect(violations).toEqual([])
  await close()
})

for (const script of [true, false])
  test(`redirects to the page that adds a payment method if a higher price needs one, ${script ? 'with' : 'without'} script`, async () => {
    const team = await portals.team({ seats: 3 })
    await people.query(`update organizations set subscription_settings = subscription_settings || '{"proration_behavior": "prorate"}' where id = $1`, [
      team.organization.id,
    ])
    await people.query('update subscriptions set payment_method_id = null where id = $1', [team.subscription_id])
    await people.query('update customers set default_payment_method_id = null where id = $1', [team.customer_id])
    const { page, go, at, close } = await portals.enter(team, {}, { script })
    await go('/team')
    await page.getByLabel('Number of seats').fill('5')
    await page.locator(`#seats-${team.subscription_id!}-show`).click()
    await page.locator(`#seats-${team.subscription_id!}-error`, { hasText: 'There is no payment method to charge. Add one first.' }).waitFor()
    await page.getByRole('link', { name: 'Add one' }).click()
    await page.waitForURL(at('/billing'))
    expect((await team.api.call(getSubscription, { params: { id: team.subscription_id! } })).seats).toBe(3)
    await close()
  })

test('shows a pending change of the subscription, and cancels the change on request', async () => {
  const team = await portals.team({ seats: 3 })
  await people.query(`update organizations set subscription_settings = subscription_settings || '{"proration_behavior": "next_period"}' where id = $1`, [
    team.organization.id,
  ])
  const { page, go, close } = await portals.enter(team)
  await go('/team')
  await page.getByLabel('Number of seats').fill('2')
  await page.getByRole('button', { name: 'Change to 2 seats' }).waitFor()
  expect(await page.locator('dl.price').innerText()).toMatch(/Now\s+nothing/)
  await page.getByRole('button', { name: 'Change to 2 seats' }).click()
  await page.getByText(/^Planned for .*: 2 seats/).waitFor()
  await go('/subscriptions')
  await page.getByRole('button', { name: 'Cancel this change' }).click()
  await page.getByText('The planned change was canceled.').waitFor()
  expect((await team.api.call(getSubscription, { params: { id: team.subscription_id! } })).pending_update).toBe(null)
  await close()
})

test('shows only the task that a portal link names, and returns to the seller afterwards', async () => {
  const team = await portals.team({ seats: 3 })
  // One of our own pages replaces the seller's page, because no other site is reachable.
  const return_url = `${world.config.public_url.origin}/login?return_to=/settings/tokens`
  const { page, go, violations, close } = await portals.enter(team, { return_url })
  const back = (press: () => Promise<void>) => Promise.all([page.waitForURL(return_url), press()])
  await go('/subscriptions?flow=seats')
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Change the number of seats')
  expect(await page.getByRole('link', { name: 'Orders' }).count()).toBe(0)
  await page.getByLabel('Number of seats').fill('4')
  const press = page.getByRole('button', { name: 'Change to 4 seats' })
  await press.waitFor()
  await back(() => press.click({ noWaitAfter: true }))
  expect((await team.seats()).total_seats).toBe(4)

  await go('/billing?flow=payment_method')
  await page.getByText('Visa ending in').first().waitFor()
  expect(await page.getByLabel('VAT or tax number').count()).toBe(0)
  await go('/subscriptions?flow=cancel')
  await back(() => page.getByRole('button', { name: /^Yes, end it on/ }).click({ noWaitAfter: true }))
  expect((await team.api.call(getSubscription, { params: { id: team.subscription_id! } })).cancel_at_period_end).toBe(true)
  // An unknown task shows the whole page.
  await go('/subscriptions?flow=anything')
  expect(await page.getByRole('link', { name: 'Orders' }).count()).toBe(1)
  expect(violations).toEqual([])
  await close()
})

test('saves billing details, and shows errors at their field', async () => {
  const team = await portals.team({ seats: 3 })
  const { page, go, close } = await portals.enter(team)
  await go('/billing')
  await page.getByLabel('Name or company').fill('Harbour Ltd')
  await page.getByLabel('City').fill('Berlin')
  await page.getByLabel('VAT or tax number').fill('x')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('alert').waitFor()
  expect(await page.getByLabel('VAT or tax number').getAttribute('aria-invalid')).toBe('true')
  expect(await page.getByLabel('City').inputValue()).toBe('Berlin')
  await expectAccessible(page)
  await page.getByLabel('VAT or tax number').fill('DE136695976')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('The billing details are saved.').waitFor()
  expect(await team.api.call(getCustomer, { params: { id: team.customer_id } })).toMatchObject({
    billing_name: 'Harbour Ltd',
    billing_address: { country: 'DE', city: 'Berlin' },
    tax_id: ['DE136695976', 'eu_vat'],
  })
  // A country with state taxes asks for the state. Input that was typed meanwhile is kept.
  await page.getByLabel('VAT or tax number').fill('')
  await page.getByLabel('Country').selectOption('US')
  await page.getByLabel('City').fill('Oakland')
  await page.locator('select[name="billing_address.state"]').selectOption('US-CA')
  expect(await page.getByLabel('City').inputValue()).toBe('Oakland')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('The billing details are saved.').waitFor()
  expect(await team.api.call(getCustomer, { params: { id: team.customer_id } })).toMatchObject({
    billing_address: { country: 'US', state: 'US-CA', city: 'Oakland' },
  })
  await close()
})

test('shows an unpaid order first, and lets the customer pay it', async () => {
  const shop = await world.shop()
  const { id } = await shop.api.call(createProduct, {
    body: { name: 'Basic', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 1200, price_currency: 'usd' }] },
  })
  const anna = await people.subscribe(shop, id, { card: 'tok_declined_later' })
  await anna.travel(june.end)
  const [owner] = (await shop.api.call(listCustomerMembers, { params: { id: anna.customer.id } })).items
  const { page, go, close } = await portals.enter({ ...shop, customer_id: anna.customer.id, owner: owner! })
  await go('/overview')
  expect(await page.getByRole('region', { name: 'A payment did not go through' }).innerText()).toMatch(/\$12\.00 for Basic is still open\. We try again on/)
  await expectAccessible(page)
  await page.getByRole('link', { name: 'Pay now' }).click()
  await page.getByRole('button', { name: 'Pay $12.00' }).click()
  await page.getByText('The order is paid.').waitFor()
  await go('/overview')
  expect(await page.getByRole('region', { name: 'A payment did not go through' }).count()).toBe(0)
  await close()
})

test('opens the invoice, the receipt and the credit note of a refund once each is generated', async () => {
  const team = await portals.team({ seats: 3 })
  const refund = { order_id: team.order_id, reason: 'customer_request', amount: 500 } as const
  await team.api.call(createRefund, { body: refund })
  const { page, go, violations, close } = await portals.enter(team)
  const fetched = async (press: () => Promise<void>) => {
    const coming = page.waitForEvent('download')
    await press()
    await page.getByText('We are creating the document. It opens by itself.').waitFor()
    await people.deployment.work()
    const download = await coming
    expect(
      readFileSync(await download.path())
        .subarray(0, 5)
        .toString(),
    ).toBe('%PDF-')
    return download.suggestedFilename()
  }
  await go('/billing')
  await page.getByLabel('Name or company').fill('Harbour Ltd')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('The billing details are saved.').waitFor()
  await go(`/orders/${team.order_id}`)
  await page.getByText('$5.00 was refunded on').waitFor()
  await expectAccessible(page)
  const { invoice_number, receipt_number } = await team.api.call(getOrder, { params: { id: team.order_id } })
  await page.getByRole('link', { name: 'Invoice (PDF)' }).click()
  expect(await fetched(() => page.getByRole('button', { name: 'Create the invoice (PDF)' }).click())).toBe(`${invoice_number}.pdf`)
  await go(`/orders/${team.order_id}`)
  expect(await fetched(() => page.getByRole('link', { name: 'Receipt (PDF)' }).click())).toBe(`${receipt_number}.pdf`)
  await go(`/orders/${team.order_id}`)
  expect(await fetched(() => page.getByRole('link', { name: `Credit note ${invoice_number}-C1 (PDF)` }).click())).toBe(`${invoice_number}-C1.pdf`)
  expect(violations).toEqual([])
  await close()
})

test('saves a card after its bank confirmation, without script too', async () => {
  const team = await portals.team({ seats: 3 })
  const { page, go, violations, close } = await portals.enter(team, {}, { script: false })
  const cards = async () => (await team.api.call(listPaymentMethods, { params: { id: team.customer_id } })).items
  const add = async (answer: string) => {
    await page.getByLabel('Another test card').selectOption('tok_3ds')
    await page.getByRole('button', { name: 'Add this card' }).click()
    await page.getByText('May Harbour Works charge this card later?').waitFor()
    expect(page.url()).not.toContain('secret')
    await page.getByRole('button', { name: answer }).click()
  }
  await go('/billing')
  await add('No, refuse')
  await page.getByRole('alert').waitFor()
  expect(await cards()).toHaveLength(1)
  await add('Yes, I confirm')
  await page.getByText('The card was added.').waitFor()
  expect((await cards()).filter(({ is_default }) => is_default)).toMatchObject([{ method_metadata: { last4: '0020' } }])
  expect(await cards()).toHaveLength(2)
  // No confirmation is pending any more.
  await go('/billing/bank')
  expect(page.url()).toMatch(/\/portal\/billing$/)
  expect(violations).toEqual([])
  await close()
})

test('pays an open order with a card that needs bank confirmation, after a first refused confirmation', async () => {
  const shop = await world.shop()
  const { id } = await shop.api.call(createProduct, {
    body: { name: 'Basic', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 1200, price_currency: 'usd' }] },
  })
  const anna = await people.subscribe(shop, id, { card: 'tok_declined_later' })
  await anna.travel(june.end)
  const [owner] = (await shop.api.call(listCustomerMembers, { params: { id: anna.customer.id } })).items
  const { page, go, violations, close } = await portals.enter({ ...shop, customer_id: anna.customer.id, owner: owner! })
  await go('/billing')
  await page.getByLabel('Another test card').selectOption('tok_3ds')
  await page.getByLabel('Pay with it from now on').uncheck()
  await page.getByRole('button', { name: 'Add this card' }).click()
  await page.getByRole('button', { name: 'Yes, I confirm' }).click()
  await page.getByText('The card was added.').waitFor()
  const pay = async (answer: string) => {
    await page.getByLabel('Pay with', { exact: true }).selectOption({ label: 'Visa ending in 0020' })
    await page.getByRole('button', { name: 'Pay $12.00' }).click()
    await page.getByText('Do you want to pay $12.00 to').waitFor()
    expect(page.url()).not.toContain('secret')
    await page.getByRole('button', { name: answer }).click()
    await page.getByText('Your payment is being processed.').waitFor()
    // No event arrives from the processor. The sweep looks up the payment attempt itself.
    world.clock.advance(31_000)
    await people.deployment.sweep('billing.follow_payments')
    await people.deployment.work()
  }
  await go('/overview')
  await page.getByRole('link', { name: 'Pay now' }).click()
  await pay('No, refuse')
  await page.getByText('You did not confirm the payment.').waitFor()
  await pay('Yes, I confirm')
  await page.getByText('The order is paid.').waitFor()
  expect(violations).toEqual([])
  await close()
})
