import { readFileSync } from 'node:fs'
import { createProduct, getOrder, listCustomerMembers, listOrders, listPaymentMethods } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible, openBrowser, openContext, type Browser } from '../harness/browser.ts'
import { codeIn, hasCode } from '../harness/mail.ts'
import { openPortals, type Portals } from '../harness/portals.ts'
import { june, openSubscribers, type Subscribers } from '../harness/subscribers.ts'
import { openTeams, type Teams } from '../harness/teams.ts'
import { openWorld, type World } from '../harness/world.ts'

// Open orders that a customer pays in the portal, and invoices from the list of orders.
let world: World
let browser: Browser
let people: Subscribers
let teams: Teams
let portals: Portals
beforeAll(async () => {
  ;[world, browser] = await Promise.all([openWorld({ browser: true }), openBrowser()])
  people = await openSubscribers(world)
  teams = await openTeams(world, people.deployment)
  portals = openPortals(world, teams, browser)
})
afterAll(async () => {
  await browser.close()
  await people.close()
  await world.close()
})

/** A customer whose renewal of $12.00 was declined. */
const owing = async () => {
  const shop = await world.shop()
  const { id } = await shop.api.call(createProduct, {
    body: { name: 'Basic', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 1200, price_currency: 'usd' }] },
  })
  const anna = await people.subscribe(shop, id, { card: 'tok_declined_later' })
  await anna.travel(june.end)
  const [owner] = (await shop.api.call(listCustomerMembers, { params: { id: anna.customer.id } })).items
  const order = (await shop.api.call(listOrders, { query: { customer_id: [anna.customer.id] } })).items.find(({ status }) => status === 'pending')!
  return { ...shop, anna, customer_id: anna.customer.id, owner: owner!, order }
}

for (const script of [true, false])
  test(`pays an open order from its link with a new card, ${script ? 'with' : 'without'} script`, async () => {
    const { api, organization, customer_id, owner, order } = await owing()
    const { context, violations, close } = await openContext(browser, world, { script, width: 390 })
    const page = await context.newPage()
    // The link of the mail leads to the order after the sign-in.
    await page.goto(`${world.config.public_url.origin}/${organization.slug}/portal/orders/${order.id}`)
    await page.getByLabel('E-mail address').fill(owner.email)
    await page.getByRole('button', { name: 'Send me a code' }).click()
    await page.getByLabel('Code from the mail').waitFor()
    await teams.post('mail.customer_session_code')
    let letter = await world.mail.next(owner.email)
    while (!hasCode(letter)) letter = await world.mail.next(owner.email)
    await page.getByLabel('Code from the mail').fill(codeIn(letter.text))
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.getByRole('heading', { name: 'Order: Basic' }).waitFor()

    const pay = async (card: string) => {
      const form = page.getByRole('form', { name: 'Pay with another card' })
      await page.getByText('Pay with another card').click()
      await form.getByLabel('Card', { exact: true }).selectOption(card)
      await form.getByRole('button', { name: 'Pay $12.00' }).click()
    }
    await pay('tok_do_not_honor')
    await page.getByText('The payment did not go through.').waitFor()
    if (script) await expectAccessible(page)
    await pay('tok_mastercard')
    await page.getByText('The order is paid.').waitFor()
    expect((await api.call(getOrder, { params: { id: order.id } })).status).toBe('paid')
    // The card also pays the next renewals.
    expect((await api.call(listPaymentMethods, { params: { id: customer_id } })).items).toHaveLength(2)
    expect(violations).toEqual([])
    await close()
  })

test('opens the invoice from the list of orders, or asks for the details that it needs', async () => {
  const team = await portals.team({ seats: 3 })
  const { page, go, violations, close } = await portals.enter(team)
  await people.query(`update customers set name = null, billing_name = null where id = $1`, [team.customer_id])
  await people.query(`update orders set billing_name = null where id = $1`, [team.order_id])
  await go('/orders')
  const create = page.getByRole('button', { name: 'Create the invoice (PDF)' })
  await page.getByRole('link', { name: /^PDF of the invoice/ }).click()
  await create.click()
  await page.getByText('An invoice needs your name and your country.').waitFor()
  await page.getByRole('note').getByRole('link', { name: 'Billing details' }).click()
  await page.getByLabel('Name or company').fill('Harbour Ltd')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('The billing details are saved.').waitFor()
  await go('/orders')
  const coming = page.waitForEvent('download')
  await page.getByRole('link', { name: /^PDF of the invoice/ }).click()
  await create.waitFor()
  await expectAccessible(page)
  // A page of another site can lead here, so opening the page changes nothing.
  expect(await team.api.call(getOrder, { params: { id: team.order_id } })).toMatchObject({ billing_name: null, is_invoice_generated: false })
  await create.click()
  await page.getByText('We are creating the document. It opens by itself.').waitFor()
  await people.deployment.work()
  const download = await coming
  const { invoice_number } = await team.api.call(getOrder, { params: { id: team.order_id } })
  expect(download.suggestedFilename()).toBe(`${invoice_number}.pdf`)
  // The second time, the file opens at once.
  await go('/orders')
  const [again] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: /^PDF of the invoice/ }).click()])
  expect(
    readFileSync(await again.path())
      .subarray(0, 5)
      .toString(),
  ).toBe('%PDF-')
  expect(violations).toEqual([])
  await close()
})
