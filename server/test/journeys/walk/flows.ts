import {
  createBenefit,
  createCheckout,
  createCustomField,
  createDiscount,
  createMeter,
  createProduct,
  createRefund,
  ingestEvents,
  listCustomerMembers,
  listOrders,
  updateOrganization,
  updateProduct,
  updateProductBenefits,
  updateTaxSettings,
} from '@bursar/contract'
import type { ClaimState, ClosedReason, View } from '@bursar/views'
import { draw, foxLogo, giveLogo, landscape } from '../../harness/brands.ts'
import { openCallback, openContext, type Browser, type Page } from '../../harness/browser.ts'
import { fillIn, fixedPrice, repriced } from '../../harness/checkouts.ts'
import { codeIn, hasCode } from '../../harness/mail.ts'
import { orderButton } from '../../harness/ordering.ts'
import { openPortals } from '../../harness/portals.ts'
import { upload } from '../../harness/stores.ts'
import { june, openSubscribers } from '../../harness/subscribers.ts'
import { openTeams } from '../../harness/teams.ts'
import { openApp } from '../../harness/visitor.ts'
import { exchange, type World } from '../../harness/world.ts'
import { policiesOf } from './recorder.ts'

/** Looks at the page that the server has just rendered. With `change`, looks at this state of it instead. */
export type Look = (name: string, policy: string, change?: (view: View) => View) => Promise<void>

type Body = Record<string, unknown>

/** The seller on pages that have no data of their own. */
const seller = { name: 'Alder & Finch', slug: 'alder-finch' }

const description = `Shared libraries, version history and **unlimited exports** for your design team.

- Works on macOS, Windows and Linux
- [See all features](https://alder-finch.example.com/features)`

/** The custom fields of every type. Their labels and help have links. */
const questions: readonly Body[] = [
  { type: 'text', slug: 'company', name: 'Team name', properties: { form_placeholder: 'Northwind', min_length: 2, max_length: 40 } },
  { type: 'text', slug: 'wishes', name: 'Wishes', properties: { textarea: true, form_help_text: 'We read **every line**.', form_placeholder: 'Write here' } },
  { type: 'number', slug: 'people', name: 'Number of people', properties: { ge: 2, le: 500, form_placeholder: '12' } },
  { type: 'date', slug: 'start', name: 'First day', properties: { ge: Date.UTC(2026, 0, 1) / 1000, le: Date.UTC(2030, 11, 31) / 1000 } },
  {
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
  {
    type: 'checkbox',
    slug: 'rules',
    name: 'Rules',
    properties: { form_label: 'I accept the [rules of the studio](https://alder-finch.example.com/rules)', form_help_text: 'They fit on one page.' },
  },
]

/**
 * Walks through every page as buyer, business buyer, owner and member of a team, holder of a seat, and person with an
 * account, or only through the flows that are named. Looks at each page, and at states of it that are hard to reach.
 */
export const walkThrough = async (world: World, browser: Browser, look: Look, only: readonly string[] = []): Promise<void> => {
  const { origin } = world.config.public_url
  const people = await openSubscribers(world)
  const teams = await openTeams(world, people.deployment)
  const portals = openPortals(world, teams, browser)
  const logo = await draw(browser, foxLogo('#2456c9'), 256, 256)

  const openShop = async () => {
    const shop = await world.shop()
    await shop.api.call(updateOrganization, {
      params: { id: shop.organization.id },
      body: {
        name: 'Alder & Finch',
        email: 'help@alder-finch.example.com',
        website: 'https://www.alder-finch.example.com/shop',
        brand_settings: {
          accent_color: '#2456c9',
          terms_url: 'https://alder-finch.example.com/terms',
          privacy_url: 'https://alder-finch.example.com/privacy',
        },
      },
    })
    await giveLogo(world, shop.organization.id, logo)
    return shop
  }
  const productOf = (shop: Awaited<ReturnType<typeof openShop>>, body: Body) => shop.api.call(createProduct, { body: body as never })
  const checkoutOf = (shop: Awaited<ReturnType<typeof openShop>>, body: Body) => shop.api.call(createCheckout, { body: body as never })

  /** Opens a browser for one person, and returns its page with functions that look at it. */
  const visit = async (
    live: (page: Page, see: (name: string, change?: (view: View) => View, state?: { readonly hasScript: boolean }) => Promise<void>) => Promise<void>,
  ) => {
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    const policy = policiesOf(page)
    // The server allows the script of a state that has one. The page that was rendered last may have none.
    const scripted = () => policy().replace("default-src 'none'", "default-src 'none'; script-src 'self'")
    await live(page, (name, change, state) => look(name, state?.hasScript ? scripted() : policy(), change))
    await close()
  }
  /** Opens the portal of a customer, and returns its page with functions that go to its pages and look at them. */
  const visitPortal = async (
    of: Parameters<typeof portals.enter>[0],
    who: Parameters<typeof portals.enter>[1],
    live: (page: Page, see: (name: string, change?: (view: View) => View) => Promise<void>, go: (path: string) => Promise<unknown>) => Promise<void>,
  ) => {
    const { page, go, close } = await portals.enter(of, who)
    const policy = policiesOf(page)
    await live(page, (name, change) => look(name, policy(), change), go)
    await close()
  }

  /** Buys as a private person: all kinds of fields, errors, a decline, a discount, the bank, and the page after it. */
  const buyer = async () => {
    const shop = await openShop()
    await shop.api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: true }] } as never })
    const picture = await upload(shop.api, await draw(browser, landscape('#cfe0ff', '#2456c9'), 960, 600), {
      name: 'cover.png',
      mime_type: 'image/png',
      service: 'product_media',
    } as never)
    const fields = []
    for (const body of questions) fields.push(await shop.api.call(createCustomField, { body: body as never }))
    const guide = await productOf(shop, {
      name: 'Field guide to small birds',
      description,
      medias: [picture.id],
      prices: [fixedPrice(2900), fixedPrice(2700, { price_currency: 'eur' })],
      attached_custom_fields: fields.map(({ id }) => ({ custom_field_id: id, required: true })),
    })
    const note = await shop.api.call(createBenefit, {
      body: {
        type: 'custom',
        description: 'A place at the yearly meeting',
        properties: { note: 'Join us on **Monday**, in [the hall](https://alder-finch.example.com/hall).' },
      },
    })
    await shop.api.call(updateProductBenefits, { params: { id: guide.id }, body: { benefits: [note.id] } })
    await shop.api.call(createDiscount, { body: { name: 'Launch', code: 'LAUNCH', type: 'percentage', basis_points: 1000, duration: 'once' } as never })
    await visit(async (page, see) => {
      const made = await checkoutOf(shop, { products: [guide.id], return_url: 'https://alder-finch.example.com/offers' })
      await page.goto(made.url)
      await see('checkout-open')
      await see('checkout-saved-card', (view) => {
        if (view.kind !== 'checkout') return view
        const card = { id: view.offer.id, type: 'card', brand: 'visa', last4: '0001', exp_month: 12, exp_year: 2040 }
        return { ...view, offer: { ...view.offer, saved_payment_methods: [card, { ...card, id: guide.id, brand: 'mastercard', last4: '4444' }] } }
      })
      await page.getByText('Add a discount code').click()
      await page.getByLabel('Discount code').fill('LAUNCH')
      await repriced(page, () => page.getByRole('button', { name: 'Apply' }).first().click())
      await fillIn(page, { customer_email: 'ada@people.test', customer_name: 'Ada Byron' })
      await repriced(page, () => page.locator('[id="customer_billing_address.country"]').selectOption('US'))
      await fillIn(page, { 'customer_billing_address.postal_code': '94103' })
      await page.evaluate(`document.getElementById('checkout').noValidate = true`)
      await orderButton(page).first().click()
      await page.locator('#wrong .notice').waitFor()
      await see('checkout-wrong')
      for (const notice of ['price_changed', 'discount_over', 'discount_used', 'subscribed', 'trial_used', 'not_ready'] as const)
        await see(`checkout-notice-${notice}`, (view) => ({ ...view, notice }) as View)
      await see('checkout-waits', (view) => ({ ...view, complaints: [], wait_seconds: 700 }) as View)
      await fillIn(page, {
        'custom_field_data.company': 'Byron Works',
        'custom_field_data.wishes': 'A left-handed edition',
        'custom_field_data.people': '3',
        'custom_field_data.start': '2027-01-04',
        'custom_field_data.size': 'm',
        'custom_field_data.rules': true,
        confirmation_token_id: 'tok_insufficient_funds',
      })
      await orderButton(page).first().click()
      await page.locator('#wrong .notice').getByText('did not go through').waitFor()
      await see('checkout-declined')
      await page.locator('#confirmation_token_id').selectOption('tok_3ds')
      await orderButton(page).first().click()
      await page.getByRole('button', { name: 'Yes, I confirm' }).waitFor()
      await see('bank')
      await page.getByRole('button', { name: 'Yes, I confirm' }).click()
      await page.getByRole('heading', { name: /^(Your payment is on its way|Payment received)$/ }).waitFor()
      await see('purchase-waits')
      world.clock.advance(61_000)
      await people.deployment.sweep()
      await people.deployment.work()
      await page.getByRole('heading', { name: 'Thank you!' }).waitFor()
      await page.reload()
      await see('purchase')
      await see('purchase-works', (view) => ({ ...view, steps: { payment: 'done', order: 'doing', access: 'waiting' } }) as View)
    })
    await visit(async (page, see) => {
      const made = await checkoutOf(shop, { products: [guide.id], customer_billing_address: { country: 'DE' }, is_business_customer: true })
      await page.goto(made.url)
      await page.locator('#customer_billing_name').fill('Byron GmbH')
      await page.locator('#customer_tax_id').fill('DE123')
      await repriced(page, () => page.locator('#customer_name').fill('Ada'))
      await see('checkout-business-wrong')
      // A seller in another country does not charge the tax of a business.
      await people.query(`update organizations set country = 'US' where id = $1`, [shop.organization.id])
      await page.locator('#customer_tax_id').fill('DE136695976')
      await repriced(page, () => page.locator('#customer_name').press('End'))
      await see('checkout-reverse-charge')
    })
    await closed(shop, guide.id)
    await plans(shop)
  }

  /** Looks at offers with trials, seats, usage and custom amounts. */
  const plans = async (shop: Awaited<ReturnType<typeof openShop>>) => {
    const meter = await shop.api.call(createMeter, {
      body: {
        name: 'API requests',
        aggregation: { func: 'count' },
        filter: { conjunction: 'and', clauses: [{ property: 'name', operator: 'eq', value: 'call' }] },
      },
    })
    const tiers = (...prices: readonly number[]) => ({
      seat_tier_type: 'graduated',
      tiers: prices.map((price_per_seat, at) => ({ min_seats: at * 10 + 1, max_seats: at === prices.length - 1 ? null : at * 10 + 10, price_per_seat })),
    })
    const studio = await productOf(shop, {
      name: 'Studio plan',
      description,
      recurring_interval: 'month',
      trial_interval: 'week',
      trial_interval_count: 2,
      prices: [{ amount_type: 'seat_based', price_currency: 'usd', seat_tiers: tiers(1200, 900) }],
    })
    const metered = await productOf(shop, {
      name: 'API access',
      recurring_interval: 'year',
      prices: [fixedPrice(12_000), { amount_type: 'metered_unit', meter_id: meter.id, unit_amount: '2', cap_amount: 5000, price_currency: 'usd' }],
    })
    const usage = await productOf(shop, {
      name: 'Usage only',
      recurring_interval: 'month',
      prices: [{ amount_type: 'metered_unit', meter_id: meter.id, unit_amount: '2', price_currency: 'usd' }],
    })
    const gift = await productOf(shop, {
      name: 'Support our work',
      prices: [{ amount_type: 'custom', price_currency: 'usd', minimum_amount: 500, maximum_amount: 50_000, preset_amount: 2000 }],
    })
    const free = await productOf(shop, { name: 'Sample chapter', prices: [fixedPrice(0)] })
    for (const [name, body] of Object.entries({
      'checkout-seats-trial': { products: [studio.id], seats: 12, customer_billing_address: { country: 'DE' } },
      'checkout-usage': { products: [metered.id] },
      'checkout-usage-only': { products: [usage.id] },
      'checkout-custom-amount': { products: [gift.id] },
      'checkout-free': { products: [free.id] },
      'checkout-several': { products: [studio.id, metered.id, gift.id] },
    }))
      await visit(async (page, see) => {
        await page.goto((await checkoutOf(shop, body)).url)
        await see(name)
      })
  }

  /** Looks at checkouts that cannot be opened, at link previews and at error pages. */
  const closed = async (shop: Awaited<ReturnType<typeof openShop>>, product_id: string) => {
    await visit(async (page, see) => {
      const gone = await productOf(shop, { name: 'Old edition', prices: [fixedPrice(900)] })
      const made = await checkoutOf(shop, { products: [gone.id], return_url: 'https://alder-finch.example.com/offers' })
      await page.goto(made.url)
      await shop.api.call(updateProduct, { params: { id: gone.id }, body: { is_archived: true } })
      await page.goto(`${origin}/checkout/${made.id}`)
      for (const reason of ['expired', 'over', 'link_needed', 'unknown', 'not_sold', 'ended'] satisfies ClosedReason[])
        await see(`closed-${reason}`, (view) => ({ ...view, reason }) as View)
      await see('closed-renewable', (view) => ({ ...view, reason: 'expired', renew: '/checkout/renew' }) as View)
      await page.goto(`${origin}/${shop.organization.slug}/portal/nothing`)
      for (const [status, error] of [
        [404, 'RouteNotFound'],
        [403, 'NotPermitted'],
        [400, 'form_refused'],
        [400, 'form_unreadable'],
        [410, 'link_over'],
        [500, 'InternalServerError'],
        [503, 'ServiceUnavailable'],
        [400, 'invalid_redirect_uri'],
      ] as const)
        await see(
          `problem-${error}`,
          (view) => ({ ...view, status, error, request_id: 'req_0198c2f0', description: 'The developer reads this.', again: status >= 500 }) as View,
        )
      await see(
        'problem-TooManyRequests',
        (view) => ({ ...view, status: 429, error: 'TooManyRequests', retry_after: 700, form: { action: '/x', fields: [['a', 'b']] } }) as View,
        { hasScript: true },
      )
      const link = await checkoutOf(shop, { products: [product_id] })
      // A messenger reads the link without the headers of a browser, which would get a redirect.
      await exchange(world.port, 'GET', link.url.slice(origin.length), { accept: 'text/html' }, undefined)
      await see('link-preview')
      await see('link-preview-seat', (view) => ({ ...view, product: null }) as View)
      await see('leaving', () => ({ kind: 'leaving', to: 'https://alder-finch.example.com/thanks' }), { hasScript: true })
    })
  }

  /** Signs in to the portal with a code. */
  const enterByCode = async (page: Page, slug: string, email: string, see: Parameters<Parameters<typeof visit>[0]>[1]) => {
    await page.goto(`${origin}/${slug}/portal/sign-in`)
    await see('portal-sign-in')
    await see('portal-sign-in-out', (view) => ({ ...view, why: 'out' }) as View)
    await see('portal-sign-in-link', (view) => ({ ...view, why: 'link' }) as View)
    await page.getByLabel('E-mail address').fill(email)
    await page.getByRole('button', { name: 'Send me a code' }).click()
    await page.getByLabel('Code from the mail').waitFor()
    await see('portal-code')
    await see('portal-code-wrong', (view) => ({ ...view, mishap: 'code', resent: true }) as View)
    await see(
      'portal-choose',
      (view) =>
        ({
          ...view,
          step: 'choose',
          customers: [
            { id: 'a', name: 'Harbour Works' },
            { id: 'b', name: null },
          ],
        }) as View,
    )
    await see('portal-enter', () => ({ kind: 'portal-enter', seller, flow: null, pressed: false }), { hasScript: true })
    for (const state of ['open', 'over', 'taken', 'done'] as const) await see(`portal-email-${state}`, () => ({ kind: 'portal-email', seller, state }))
    await teams.post('mail.customer_session_code')
    let letter = await world.mail.next(email)
    while (!hasCode(letter)) letter = await world.mail.next(email)
    await page.getByLabel('Code from the mail').fill(codeIn(letter.text))
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  }

  /** Manages a team: seats, plan, people, orders, invoices, cards and billing details. */
  const team = async () => {
    const shop = await openShop()
    const file = await upload(shop.api, Buffer.from('the manual'), { name: 'a-manual-with-a-rather-long-file-name-2026.pdf', mime_type: 'application/pdf' })
    const benefit = async (body: Body) => (await shop.api.call(createBenefit, { body: body as never })).id
    const benefits = [
      await benefit({
        type: 'license_keys',
        description: 'Workshop license',
        properties: { prefix: 'ACME', activations: { limit: 2, enable_customer_admin: true } },
      }),
      await benefit({ type: 'downloadables', description: 'Manuals', properties: { files: [file.id], archived: {} } }),
      await benefit({ type: 'custom', description: 'Opening hours', properties: { note: 'Come when **the light** is on:\n\n- Monday\n- Tuesday' } }),
    ]
    const made = await portals.team({ shop, seats: 5, benefits })
    await people.query(`update organizations set name = 'Alder & Finch' where id = $1`, [shop.organization.id])
    await productOf(shop, {
      name: 'Grand workshop',
      recurring_interval: 'month',
      visibility: 'public',
      prices: [{ amount_type: 'seat_based', price_currency: 'usd', seat_tiers: { tiers: [{ min_seats: 1, max_seats: null, price_per_seat: 2500 }] } }],
    })
    await productOf(shop, {
      name: 'Small workshop',
      recurring_interval: 'month',
      visibility: 'public',
      prices: [{ amount_type: 'seat_based', price_currency: 'usd', seat_tiers: { tiers: [{ min_seats: 1, max_seats: 2, price_per_seat: 500 }] } }],
    })
    const holder = await teams.assign(made, { email: 'a.very.long.mailbox.name@subdomain.example-company.test' })
    await teams.claim(await teams.assign(made, { email: 'jonas@people.test' }))
    await visitPortal(made, { return_url: 'https://alder-finch.example.com/account' }, async (page, see, go) => {
      const subscription = made.subscription_id!
      await go('/overview')
      await see('portal-overview')
      await go('/team')
      await see('portal-team')
      await page.getByLabel('Number of seats').fill('8')
      await page.getByRole('button', { name: 'Change to 8 seats' }).waitFor()
      await see('portal-team-more-seats')
      await page.getByLabel('Number of seats').fill('1')
      await page.getByText('Choose 1 seat to take back first').waitFor()
      await see('portal-team-fewer-seats')
      await page.getByLabel('E-mail addresses').fill('nobody, jonas@people.test, new1@people.test, new2@people.test, new3@people.test, new4@people.test')
      await page.getByRole('button', { name: 'Send invitations' }).click()
      await page.getByText('new1@people.test').first().waitFor()
      await see('portal-team-invited')
      await see('portal-invited', (view) =>
        view.kind === 'portal-team' ? { kind: 'portal-invited', shell: view.shell, invited: view.pools[0]!.invited! } : view,
      )
      await go('/team?status=revoked')
      await see('portal-team-none')
      await go('/subscriptions')
      await see('portal-subscriptions')
      await page.getByText('Change plan').click()
      await page.locator(`#plan-${subscription}-show`).waitFor({ state: 'attached' })
      await page
        .getByLabel('New plan')
        .selectOption({ label: (await page.getByLabel('New plan').locator('option').allTextContents()).find((one) => one.startsWith('Grand'))! })
      await page.getByRole('button', { name: /Change to Grand/ }).waitFor()
      await see('portal-subscriptions-plan')
      for (const flow of ['cancel', 'seats', 'plan']) {
        await go(`/subscriptions?flow=${flow}`)
        await see(`portal-flow-${flow}`)
      }
      await go('/subscriptions')
      await page.getByText('Cancel subscription', { exact: true }).click()
      await page.getByRole('button', { name: /^Yes, end it on/ }).click()
      await page.getByText('The subscription is canceled').waitFor()
      await see('portal-subscriptions-canceled')
      await go('/overview')
      await see('portal-overview-canceled')
      await go('/subscriptions')
      await page.getByRole('button', { name: 'Keep the subscription' }).click()
      await page.getByText('Pause', { exact: true }).click()
      await page.getByRole('button', { name: 'Yes, pause it' }).click()
      await page.getByRole('button', { name: 'Do not pause' }).waitFor()
      await see('portal-subscriptions-pausing')
      await go('/orders')
      await see('portal-orders')
      await go(`/orders/${made.order_id}`)
      await see('portal-order')
      await shop.api.call(createRefund, { body: { order_id: made.order_id, amount: 1000, reason: 'customer_request' } as never })
      await people.deployment.work()
      await go(`/orders/${made.order_id}`)
      await see('portal-order-refunded')
      await see('portal-order-waits', (view) => ({ ...view, waits: true }) as View)
      await see('portal-order-no-invoice', (view) => ({ ...view, offers_invoice: true }) as View)
      await go('/billing')
      await see('portal-billing')
      await page.evaluate(`for (const form of document.forms) form.noValidate = true`)
      await page.getByLabel('Name or company').fill('')
      await page.getByRole('button', { name: 'Save' }).click()
      await see('portal-billing-saved')
      await go('/billing?flow=payment_method')
      await see('portal-flow-payment-method')
      await go('/access')
      await see('portal-access-owner')
      await go('/account')
      await see('portal-account-owner')
    })
    await visitPortal(made, { role: 'billing_manager', email: 'manager@people.test' }, async (_page, see, go) => {
      await go('/team')
      await see('portal-team-manager')
    })
    await visit((page, see) => enterByCode(page, shop.organization.slug, made.owner.email, see))
    // A member sees only the own benefits.
    await visit(async (page, see) => {
      await enterByCode(page, shop.organization.slug, 'jonas@people.test', async () => undefined)
      await page.waitForURL('**/access')
      await see('portal-access-member')
      await page.getByRole('button', { name: /Show/ }).first().click()
      await page.locator('.copy').first().waitFor()
      await see('portal-access-key')
      await page.goto(`${origin}/${shop.organization.slug}/portal/account`)
      await see('portal-account-member')
      await page.goto(`${origin}/${shop.organization.slug}/portal/billing`)
      await see('portal-forbidden')
    })
    // The holder of the other seat opens the invitation.
    const token = await teams.invited(holder)
    await visit(async (page, see) => {
      await page.goto(`${origin}/${shop.organization.slug}/portal/claim?token=${token}`)
      await see('claim')
      await see('claim-other', (view) => ({ ...view, other: 'somebody@else.test' }) as View)
      for (const state of ['closed', 'mine', 'used', 'expired', 'asked', 'revoked'] satisfies ClaimState[])
        await see(`claim-${state}`, (view) => ({ ...view, state }) as View)
      await see('claim-unknown', () => ({ kind: 'claim-unknown', seller }))
      await page.getByRole('button', { name: 'Accept the seat' }).click()
      await page.getByText(/of 3 ready/).waitFor()
      await see('claim-ready')
    })
    await people.query(
      `update subscriptions set status = 'paused', paused_at = current_period_start, pause_at_period_end = false, due_at = null where id = $1`,
      [made.subscription_id],
    )
    await visitPortal(made, {}, async (_page, see, go) => {
      await go('/subscriptions')
      await see('portal-subscriptions-paused')
    })
  }

  /** Sees usage, and owes an order whose payment was declined. */
  const debtor = async () => {
    const shop = await openShop()
    const calls = await shop.api.call(createMeter, {
      body: {
        name: 'API requests',
        aggregation: { func: 'sum', property: 'units' },
        filter: { conjunction: 'and', clauses: [{ property: 'name', operator: 'eq', value: 'call' }] },
        unit: 'custom',
        custom_label: 'request',
      } as never,
    })
    const product = await productOf(shop, {
      name: 'Workshop API',
      recurring_interval: 'month',
      prices: [fixedPrice(2000), { amount_type: 'metered_unit', meter_id: calls.id, unit_amount: '2', cap_amount: 500_000, price_currency: 'usd' }],
    })
    const credit = await shop.api.call(createBenefit, {
      body: { type: 'meter_credit', description: '10,000 requests', properties: { meter_id: calls.id, units: 10_000, rollover: false } },
    })
    await shop.api.call(updateProductBenefits, { params: { id: product.id }, body: { benefits: [credit.id] } })
    const anna = await people.subscribe(shop, product.id, { card: 'tok_declined_later' })
    const events = Array.from({ length: 20 }, (_, at) => ({
      name: 'call',
      customer_id: anna.customer.id,
      timestamp: new Date(june.now.getTime() - at * 43_200_000).toISOString(),
      metadata: { units: 300 + ((at * 137) % 500) },
    }))
    await shop.api.call(ingestEvents, { body: { events } })
    const [owner] = (await shop.api.call(listCustomerMembers, { params: { id: anna.customer.id } })).items
    const of = { ...shop, customer_id: anna.customer.id, owner: owner! }
    await visitPortal(of, {}, async (_page, see, go) => {
      await go('/usage')
      await see('portal-usage')
      await go('/overview')
      await see('portal-overview-usage')
    })
    await anna.travel(june.end)
    const order = (await shop.api.call(listOrders, { query: { customer_id: [anna.customer.id] } })).items.find(({ status }) => status === 'pending')!
    await visitPortal(of, {}, async (page, see, go) => {
      await go('/overview')
      await see('portal-overview-owed')
      await go(`/orders/${order.id}`)
      await see('portal-order-owed')
      const form = page.getByRole('form', { name: 'Pay with another card' })
      await page.getByText('Pay with another card').click()
      await form.getByLabel('Card', { exact: true }).selectOption('tok_do_not_honor')
      await form.getByRole('button', { name: /^Pay/ }).click()
      await page.getByText('The payment did not go through.').waitFor()
      await see('portal-order-declined')
    })
  }

  /** Signs in to an account, allows an app, creates tokens and sets up a second factor. */
  const account = async () => {
    const callback = await openCallback()
    const person = await world.person()
    const { organization } = await world.shop()
    await world.join(organization.id, person.id, 'admin')
    const app = await openApp(world, { redirect_uris: [callback.uri], client_uri: 'https://app.example/', policy_uri: 'https://app.example/privacy' })
    await visit(async (page, see) => {
      const ask = new URLSearchParams(app.ask({ redirect_uri: callback.uri, scope: 'openid email orders:read products:write customers:read' })).toString()
      await page.goto(`${origin}/oauth2/authorize?${ask}`)
      await see('sign-in')
      await page.getByLabel('E-mail address').fill(person.email)
      await page.getByRole('button', { name: 'Send me a code' }).click()
      await page.getByLabel('Code from the mail').waitFor()
      await see('sign-in-code')
      await see('sign-in-wrong', (view) => ({ ...view, mishap: 'code_wrong', tries_left: 1 }) as View)
      await see('sign-in-factor', (view) => ({ ...view, step: 'factor' }) as View)
      await teams.post('mail.sign_in_code')
      await page.getByLabel('Code from the mail').fill(codeIn((await world.mail.next(person.email)).text))
      await page.getByRole('button', { name: 'Sign in', exact: true }).click()
      await page.getByRole('button', { name: 'Allow' }).waitFor()
      await see('consent')
      await see('consent-again', (view) => ({ ...view, again: true, everywhere: false, mishap: 'organization_missing' }) as View)
      await page.getByRole('button', { name: 'Allow' }).click()
      await callback.next()
      const go = (path: string) => page.goto(origin + path)
      await go('/settings/apps')
      await see('apps')
      await go('/settings/tokens')
      await see('tokens-empty')
      await page.getByLabel('Name').fill('orders export')
      await page.getByRole('button', { name: 'Make the token' }).click()
      await see('tokens-made')
      await go('/settings/tokens')
      await see('tokens')
      await go('/settings/security')
      await see('security')
      await page.getByRole('button', { name: 'Set up a second factor' }).click()
      await page.locator('svg').first().waitFor()
      await see('security-setup')
      await see('security-on', (view) => ({ ...view, state: 'on', setup: null, recovery_left: 1, sessions: 3 }) as View)
      await see('security-codes', (view) => ({ ...view, state: 'on', setup: null, recovery_codes: ['AAAA-BBBB-CCCC', 'DDDD-EEEE-FFFF'] }) as View, {
        hasScript: true,
      })
      await go('/docs')
      await see('docs')
      await go('/docs/refunds')
      await see('reference')
      await go('/mailbox')
      await see('mailbox')
      await go('/mailbox/gallery')
      await see('mail-gallery')
      await see('invitation', () => ({
        kind: 'invitation',
        token: 't',
        invited: { organization: 'Alder & Finch', role: 'finance', until: new Date('2026-12-01T12:00:00Z') },
      }))
      await see('invitation-over', () => ({ kind: 'invitation', token: '', invited: null }))
    })
    await callback.close()
  }

  try {
    for (const [name, flow] of Object.entries({ account, buyer, team, debtor })) if (only.length === 0 || only.includes(name)) await flow()
  } finally {
    await teams.close()
    await people.close()
  }
}
