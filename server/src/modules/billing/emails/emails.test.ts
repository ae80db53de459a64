import {
  createCustomer,
  createDiscount,
  createMember,
  createMeter,
  createProduct,
  deleteCustomer,
  listCustomerMembers,
  updateOrganization,
  type Organization,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openSales } from '../../../../test/harness/sales.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { randomText } from '../../../kernel/secrets.ts'
import { promiseMail } from '../invoicing/promises.sql.ts'

let world: World
let sales: ReturnType<typeof openSales>
beforeAll(async () => {
  world = await openWorld({ worker: true })
  sales = openSales(world)
})
afterAll(() => world.close())

type Owned = { id: string; organization_id: string }
type Name = Parameters<typeof promiseMail>[1]

const at = (text: string) => new Date(`${text}T09:30:00Z`)
const moment = at('2027-03-01')

/** Creates a shop with a yearly plan and a customer with a unique address. */
const open = async () => {
  const shop = await world.shop()
  const { api, organization } = shop
  const email = `${randomText(10, 'abcdefghijklmnop')}@people.test`
  const plan = await api.call(createProduct, {
    body: { name: 'Plan', recurring_interval: 'year', prices: [{ amount_type: 'fixed', price_amount: 10_000 }] },
  })
  const anna = await api.call(createCustomer, { body: { email, name: 'Anna' } })
  return {
    ...shop,
    email,
    anna,
    plan,
    /** Creates a yearly subscription whose reminder for the next period was sent. */
    subscribe: (given: Parameters<typeof sales.subscription>[3] = {}) =>
      sales.subscription(anna, plan, [plan.prices[0]!.id], {
        amount: 10_000,
        recurring_interval: 'year',
        current_period_start: at('2026-03-08'),
        current_period_end: at('2027-03-08'),
        reminded_for: at('2027-03-08'),
        ...given,
      }),
    /** Changes the organization by the API. */
    change: (body: Parameters<typeof api.call<typeof updateOrganization>>[1]['body']) =>
      api.call(updateOrganization, { params: { id: organization.id }, body }),
    /** Saves a card for the customer. */
    card: async () => {
      const id = newId(world.clock.wall())
      await world.database.owner((owner) =>
        owner.query(
          `with made as (
             insert into payment_methods (organization_id, id, created_at, customer_id, processor, type, method_metadata, processor_method_id)
             values ($1, $2, now(), $3, 'stripe', 'card', '{"brand":"visa","last4":"0001"}', 'pm_1') returning id)
           update customers set default_payment_method_id = $2 from made where organization_id = $1 and customers.id = $3`,
          [organization.id, id, anna.id],
        ),
      )
    },
  }
}

/** Enqueues a mail and waits until the worker has processed its job. */
const promise = async (name: Name, about: Owned, when = moment) => {
  await world.transact((tx) => promiseMail(tx, name, about, when))
  await quiet()
}

const quiet = () =>
  eventually('the worker has run every job', async () => {
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ last_error: string | null }>('select last_error from graphile_worker._private_jobs order by last_error'),
    )
    if (rows[0]?.last_error) throw new Error(rows[0].last_error)
    return rows.length === 0
  })

/** Removes the sent mails to an address from the test mailbox, and returns them. */
const lettersTo = (to: string) => {
  const found = world.mail.letters.filter((letter) => letter.to === to)
  for (const letter of found) world.mail.letters.splice(world.mail.letters.indexOf(letter), 1)
  return found
}

/** Removes the only sent mail to an address from the test mailbox, and returns it. */
const letterTo = (to: string) => {
  const letters = lettersTo(to)
  expect(letters).toHaveLength(1)
  return { ...letters[0]!, text: letters[0]!.text.replaceAll('\r\n', '\n').trim() }
}

describe('a receipt', () => {
  test('shows the items, discount, tax, balance, charge, card and date', async () => {
    const { anna, email, api, change, organization } = await open()
    await change({ name: 'Acme Books', email: 'help@acme.test' })
    const five = await api.call(createDiscount, { body: { name: 'Five off', type: 'fixed', duration: 'once', amounts: { usd: 500 } } })
    const lines = [
      { label: 'Book', amount: 2500, discount_amount: 500, net_amount: 2000, tax_amount: 380 },
      { label: 'Wrapping', amount: 100, discount_amount: 0, net_amount: 100, tax_amount: 19 },
    ]
    const order = await sales.order(
      anna,
      {
        created_at: at('2027-03-01'),
        billing_name: 'Anna Berg',
        billing_address: { country: 'DE', line1: null, line2: null, postal_code: null, city: null, state: null },
        subtotal_amount: 2600,
        discount_amount: 500,
        net_amount: 2100,
        tax_amount: 399,
        applied_balance_amount: -499,
        due_amount: 2000,
        tax_behavior: 'exclusive',
        invoice_number: 'ACME-ABCDEFGH-0001',
        discount_id: five.id,
      },
      lines,
    )
    await sales.payment(anna, { order_id: order.id, status: 'failed', decline_message: 'Declined.', method_metadata: { brand: 'visa', last4: '0010' } })
    await sales.payment(anna, {
      order_id: order.id,
      amount: 2000,
      method_metadata: { brand: 'mastercard', last4: '4444' },
      settled_at: at('2027-03-02'),
    })
    await promise('mail.order_receipt', order)
    const letter = letterTo(email)
    expect(letter).toMatchObject({ subject: 'Your receipt from Acme Books', from: { name: 'Acme Books', address: 'bursar@localhost' } })
    expect(letter.reply_to).toEqual(['help@acme.test'])
    const portal = `https://bursar.test/${organization.slug}/portal`
    expect(letter.text).toBe(
      [
        '[Sandbox: a test. No real money moves.]',
        '',
        'Thank you for your purchase',
        '',
        '$20.00',
        'Paid on 2 March 2027',
        '',
        'View your order:',
        `${portal}/orders/${order.id}`,
        '',
        'Download the invoice (PDF):',
        `${portal}/orders/${order.id}/invoice`,
        '',
        'Open your customer portal:',
        `${portal}/overview`,
        '',
        'Summary',
        'Book: $25.00',
        'Wrapping: $1.00',
        'Discount (Five off): -$5.00',
        'Tax: $3.99',
        'Total: $24.99',
        'Paid from your balance: -$4.99',
        'Charged: $20.00',
        '',
        'Details',
        'Payment method: Mastercard ending in 4444',
        'Invoice number: ACME-ABCDEFGH-0001',
        'Date: 1 March 2027',
        '',
        '-- ',
        'Questions? Write to help@acme.test.',
        'Sent by Bursar for Acme Books.',
      ].join('\n'),
    )
  })

  test('of a renewal shows its period, included tax, collected debt and the amount carried over', async () => {
    const { anna, email, organization, subscribe } = await open()
    const { id: subscription_id } = await subscribe()
    const renewal = { billing_reason: 'subscription_cycle' as const, subscription_id, description: 'Plan' }
    const first = await sales.order(anna, {
      ...renewal,
      net_amount: 8403,
      tax_amount: 1597,
      subtotal_amount: 10_000,
      tax_behavior: 'inclusive',
      applied_balance_amount: 300,
      due_amount: 10_300,
      period_start: at('2026-12-31'),
      period_end: at('2027-12-31'),
    })
    await promise('mail.order_receipt', first)
    const { text } = letterTo(email)
    expect(text).toContain('Plan: $100.00\nTotal: $100.00\nIncluded tax: $15.97\nOutstanding from earlier orders: $3.00\nCharged: $103.00\n')
    expect(text).toContain('Period: 31 December 2026 to 31 December 2027')
    expect(text).not.toMatch(/Payment method|Invoice number|Discount/)
    expect(text).toContain(`Questions? Write to ${organization.name}.`)

    const small = await sales.order(anna, { net_amount: 30, due_amount: 30, carried_amount: 30 })
    await promise('mail.order_receipt', small)
    expect(letterTo(email).text).toContain('Total: $0.30\nCarried over to a later order: -$0.30\nCharged: $0.00')

    const back = await sales.order(anna, { net_amount: -700, due_amount: 0, period_start: at('2027-01-01'), period_end: at('2027-01-01') })
    await promise('mail.order_receipt', back)
    const credit = letterTo(email).text
    expect(credit).toContain('Total: -$7.00\nAdded to your balance: $7.00\nCharged: $0.00')
    expect(credit).not.toContain('Period')
  })

  test.each([
    [{ brand: 'visa', last4: '0001' }, 'Payment method: Visa ending in 0001'],
    [{ brand: 'unknown', last4: '0002' }, 'Payment method: Card ending in 0002'],
    [null, 'Paid on 2 March 2027'],
  ])('of a payment with the method %j shows: %s', async (method_metadata, read) => {
    const { anna, email } = await open()
    const order = await sales.order(anna)
    await sales.payment(anna, { order_id: order.id, method_metadata, settled_at: at('2027-03-02') })
    await promise('mail.order_receipt', order)
    expect(letterTo(email).text.split('\n')).toContain(read)
  })

  test.each([
    ['usd', 123_456, '$1,234.56'],
    ['jpy', 5000, '¥5,000'],
    ['krw', 1, '₩1'],
    ['isk', 70_000, 'ISK 700'],
    ['isk', 70_001, 'ISK 700.01'],
    ['mga', 3000, 'MGA 3,000.00'],
    ['kwd', 1234, 'KWD 12.34'],
  ])('in the currency %s shows %d minor units as %s', async (currency, net_amount, read) => {
    const { anna, email } = await open()
    await promise('mail.order_receipt', await sales.order(anna, { currency, net_amount }))
    const lines = letterTo(email).text.replaceAll('\u00a0', ' ').split('\n')
    for (const line of ['A thing', 'Total']) expect(lines).toContain(`${line}: ${read}`)
    expect(lines).toContain(read)
  })

  test('is sent for paid orders, even if they were refunded meanwhile', async () => {
    const { anna, email } = await open()
    for (const status of ['draft', 'pending', 'void'] as const) await promise('mail.order_receipt', await sales.order(anna, { status }))
    expect(lettersTo(email)).toEqual([])
    for (const status of ['paid', 'refunded', 'partially_refunded'] as const) await promise('mail.order_receipt', await sales.order(anna, { status }))
    expect(lettersTo(email)).toHaveLength(3)
  })

  test('is sent once under repeated requests, and retried after the mail server refused it', async () => {
    const { anna, email } = await open()
    const order = await sales.order(anna)
    for (const _ of [1, 2, 3]) await promise('mail.order_receipt', order)
    expect(lettersTo(email)).toHaveLength(1)
    await promise('mail.order_receipt', order, at('2027-03-02'))
    expect(lettersTo(email)).toHaveLength(1)
    const next = await sales.order(anna)
    world.mail.refuse(1)
    await world.transact((tx) => promiseMail(tx, 'mail.order_receipt', next, moment))
    expect((await world.mail.next(email)).subject).toContain('Your receipt')
    await eventually('the job has ended', async () => {
      const { rows } = await world.database.owner((owner) => owner.query('select from graphile_worker._private_jobs'))
      return rows.length === 0
    })
    expect(lettersTo(email)).toEqual([])
  })
})

describe('the mail about a failed payment', () => {
  const owed = { status: 'pending' as const, billing_reason: 'subscription_cycle' as const, description: 'Plan', first_failed_at: at('2027-03-08') }

  test('reports the amount owed, the reason and the time of the next attempt', async () => {
    const { anna, email, subscribe, card, change } = await open()
    await change({ email: 'help@acme.test' })
    await card()
    const { id: subscription_id } = await subscribe({ status: 'past_due', past_due_at: at('2027-03-08') })
    const order = await sales.order(anna, {
      ...owed,
      subscription_id,
      net_amount: 10_000,
      due_amount: 9_500,
      applied_balance_amount: -500,
      period_start: at('2027-03-08'),
      period_end: at('2028-03-08'),
      next_payment_attempt_at: at('2027-03-10'),
    })
    await sales.payment(anna, { order_id: order.id, status: 'failed', decline_message: 'The card has expired.' })
    await sales.payment(anna, { order_id: order.id, status: 'failed', decline_message: 'The card has insufficient funds.' })
    await promise('mail.payment_failed', order)
    const letter = letterTo(email)
    expect(letter.subject).toMatch(/^Your payment to Organization .* did not go through$/)
    expect(letter.text).toContain('$95.00\nPlan, 8 March 2027 to 8 March 2028\n')
    expect(letter.text).toContain('The reason: The card has insufficient funds.\n')
    expect(letter.text).toContain('The payment will be tried again on 10 March 2027.')
    expect(letter.text).toContain('Write to help@acme.test.')
    expect(letter.text).not.toContain('ended')
    expect(letter.text).toMatch(new RegExp(`Pay now:\\n.*/portal/orders/${order.id}\\n\\nChange your card:\\n.*/portal/billing`))
  })

  test('reports a missing payment method instead of an earlier decline', async () => {
    const { anna, email, subscribe } = await open()
    const { id: subscription_id } = await subscribe({ status: 'past_due', past_due_at: at('2027-03-08') })
    const order = await sales.order(anna, { ...owed, subscription_id })
    await sales.payment(anna, { order_id: order.id, status: 'failed', decline_message: 'The card has expired.' })
    await promise('mail.payment_failed', order)
    const { text } = letterTo(email)
    expect(text).toContain('There is no payment method that could be charged.')
    expect(text).not.toMatch(/expired|tried again/)
  })

  test('reports the end of the subscription after the last attempt', async () => {
    const { anna, email, subscribe } = await open()
    const { id: subscription_id } = await subscribe({ status: 'canceled', ended_at: at('2027-03-29') })
    await promise('mail.payment_failed', await sales.order(anna, { ...owed, status: 'void', subscription_id }))
    const letter = letterTo(email)
    expect(letter.subject).toMatch(/^Your subscription with Organization .* has ended$/)
    expect(letter.text).toContain('Your subscription has therefore ended. The payment will not be tried again')
  })

  test('is not sent if the order was paid or voided meanwhile', async () => {
    const { anna, email, subscribe } = await open()
    const { id: subscription_id } = await subscribe()
    for (const status of ['paid', 'void', 'refunded'] as const)
      await promise('mail.payment_failed', await sales.order(anna, { ...owed, status, subscription_id }))
    await promise('mail.payment_failed', await sales.order(anna, { ...owed, subscription_id, first_failed_at: null }))
    expect(lettersTo(email)).toEqual([])
  })
})

describe('a reminder', () => {
  test('of a renewal states the cost, the date and how to cancel', async () => {
    const { email, subscribe, change } = await open()
    await change({ email: 'help@acme.test' })
    await promise('mail.renewal_reminder', await subscribe())
    const letter = letterTo(email)
    expect(letter.subject).toBe('Plan renews on 8 March 2027')
    expect(letter.text).toContain('Due on 8 March 2027: $100.00\nTax: added to it')
    expect(letter.text).toMatch(/cancel before that day\.[^]*Cancel the subscription:\nhttps[^]*Write to help@acme\.test\./)
  })

  test('of a trial states the cost of the subscription', async () => {
    const { email, subscribe } = await open()
    const trial = { status: 'trialing' as const, trial_start: at('2027-02-22'), trial_end: at('2027-03-08'), current_period_start: at('2027-02-22') }
    await promise('mail.trial_ending', await subscribe({ ...trial, tax_behavior: 'inclusive' }))
    const letter = letterTo(email)
    expect(letter.subject).toBe('Your trial of Plan ends on 8 March 2027')
    expect(letter.text).toContain('$100.00\nTax: included')
  })

  test('states a cost that includes a discount that still applies, open prorations and a pending change', async () => {
    const { api, email, subscribe, organization, plan } = await open()
    const body = { name: 'Tenth off', type: 'percentage' as const, basis_points: 1000 }
    const once = await api.call(createDiscount, { body: { ...body, duration: 'once' } })
    const always = await api.call(createDiscount, { body: { ...body, duration: 'forever' } })
    await promise('mail.renewal_reminder', await subscribe({ discount_id: once.id, discount_applied_at: at('2026-03-08') }))
    expect(letterTo(email).text).toContain('Due on 8 March 2027: $100.00\nTax: added to it')
    await promise('mail.renewal_reminder', await subscribe({ discount_id: once.id }))
    expect(letterTo(email).text).toContain('Due on 8 March 2027: $90.00\nDiscount: Tenth off\nTax: added to it')
    const subscription = await subscribe({ discount_id: always.id, discount_applied_at: at('2026-03-08') })
    const team = await api.call(createProduct, {
      body: {
        name: 'Team plan',
        recurring_interval: 'year',
        prices: [
          {
            amount_type: 'seat_based',
            seat_tiers: { seat_tier_type: 'volume', tiers: [{ min_seats: 1, max_seats: null, price_per_seat: 5000 }] },
          },
        ],
      },
    })
    await world.database.owner(async (owner) => {
      await owner.query(
        `insert into billing_entries (organization_id, id, created_at, subscription_id, product_price_id, position, label, amount, currency)
         values ($1, gen_random_uuid(), now(), $2, $3, 0, 'Rest', 250, 'usd')`,
        [organization.id, subscription.id, plan.prices[0]!.id],
      )
      await owner.query(
        `insert into subscription_updates (organization_id, id, created_at, subscription_id, kind, product_id, seats, restarts)
         values ($1, gen_random_uuid(), now(), $2, 'pending', $3, 3, false)`,
        [organization.id, subscription.id, team.id],
      )
    })
    await promise('mail.renewal_reminder', subscription)
    const letter = letterTo(email)
    expect(letter.subject).toBe('Team plan (3 seats) renews on 8 March 2027')
    expect(letter.text).toContain('Due on 8 March 2027: $137.50\nDiscount: Tenth off\nTax: added to it')
  })

  const gone: readonly [string, Parameters<typeof sales.subscription>[3]][] = [
    ['will be canceled', { cancel_at_period_end: true }],
    ['has ended', { status: 'canceled', ended_at: at('2027-03-02') }],
    ['is paused', { status: 'paused', paused_at: at('2027-03-02') }],
    ['will be paused', { pause_at_period_end: true }],
    ['is past due', { status: 'past_due', past_due_at: at('2027-03-02') }],
    ['has begun its next period', { reminded_for: at('2026-03-08') }],
    ['is parked for an operator', { parked_at: at('2027-03-02') }],
    ['is on trial', { status: 'trialing', trial_start: at('2026-03-08'), trial_end: at('2027-03-08') }],
  ]
  test.each(gone)('is not sent for a subscription that %s meanwhile', async (_, given) => {
    const { email, subscribe } = await open()
    await promise('mail.renewal_reminder', await subscribe(given))
    expect(lettersTo(email)).toEqual([])
  })

  test('says what usage costs, also if nothing else is charged', async () => {
    const { api, email, anna } = await open()
    const meter = await api.call(createMeter, {
      body: { name: 'Calls', filter: { conjunction: 'and', clauses: [{ property: 'name', operator: 'eq', value: 'call' }] }, aggregation: { func: 'count' } },
    })
    const metered = await api.call(createProduct, {
      body: {
        name: 'Metered',
        recurring_interval: 'year',
        // Stored only. Usage is billed and capped with the subscription.
        meter_interval: 'month',
        prices: [
          { amount_type: 'fixed', price_amount: 10_000, price_currency: 'usd' },
          { amount_type: 'metered_unit', meter_id: meter.id, unit_amount: '0.5', cap_amount: 2000, price_currency: 'usd' },
        ],
      },
    })
    const reminded = { current_period_start: at('2026-03-08'), current_period_end: at('2027-03-08'), reminded_for: at('2027-03-08') }
    const prices = metered.prices.map(({ id }) => id)
    await promise('mail.renewal_reminder', await sales.subscription(anna, metered, prices, { amount: 10_000, recurring_interval: 'year', ...reminded }))
    const { text } = letterTo(email)
    expect(text).toContain('Due on 8 March 2027: $100.00\nTax: added to it\nCalls: $0.005 per unit, at most $20.00 a year\n')
    const usageOnly = metered.prices.filter(({ amount_type }) => amount_type === 'metered_unit').map(({ id }) => id)
    await promise('mail.renewal_reminder', await sales.subscription(anna, metered, usageOnly, { amount: 0, recurring_interval: 'year', ...reminded }))
    expect(letterTo(email).text).toMatch(/without|cancel before that day\.\n\nCalls: \$0\.005 per unit, at most \$20\.00 a year\n/)
  })

  test('is not sent for an ended trial, a free period, or a seller without renewals', async () => {
    const { api, email, subscribe, organization } = await open()
    await promise('mail.trial_ending', await subscribe())
    const all = await api.call(createDiscount, { body: { name: 'All off', type: 'percentage', basis_points: 10_000, duration: 'forever' } })
    await promise('mail.renewal_reminder', await subscribe({ discount_id: all.id }))
    await world.database.owner((owner) => owner.query(`update organizations set status = 'denied' where id = $1`, [organization.id]))
    await promise('mail.renewal_reminder', await subscribe())
    expect(lettersTo(email)).toEqual([])
  })
})

describe('recipients of mails', () => {
  type Setting = keyof Organization['customer_email_settings']
  const cases: readonly [Setting, Name, (shop: Awaited<ReturnType<typeof open>>) => Promise<Owned>][] = [
    ['order_confirmation', 'mail.order_receipt', ({ anna }) => sales.order(anna)],
    ['subscription_confirmation', 'mail.order_receipt', ({ anna }) => sales.order(anna, { billing_reason: 'subscription_create' })],
    ['subscription_updated', 'mail.order_receipt', ({ anna }) => sales.order(anna, { billing_reason: 'subscription_update' })],
    ['subscription_cycled', 'mail.order_receipt', ({ anna }) => sales.order(anna, { billing_reason: 'subscription_cycle' })],
    [
      'subscription_cycled_after_trial',
      'mail.order_receipt',
      async ({ anna, subscribe }) => {
        const { id } = await subscribe({ trial_start: at('2026-03-01'), trial_end: at('2026-03-08') })
        return sales.order(anna, { billing_reason: 'subscription_cycle', subscription_id: id, period_start: at('2026-03-08'), period_end: at('2027-03-08') })
      },
    ],
    [
      'subscription_past_due',
      'mail.payment_failed',
      async ({ anna, subscribe }) => sales.order(anna, { status: 'pending', first_failed_at: moment, subscription_id: (await subscribe()).id }),
    ],
    [
      'subscription_revoked',
      'mail.payment_failed',
      async ({ anna, subscribe }) => {
        const { id } = await subscribe({ status: 'canceled', ended_at: moment })
        return sales.order(anna, { status: 'void', first_failed_at: moment, subscription_id: id })
      },
    ],
    ['subscription_renewal_reminder', 'mail.renewal_reminder', ({ subscribe }) => subscribe()],
    ['subscription_trial_conversion_reminder', 'mail.trial_ending', ({ subscribe }) => subscribe({ status: 'trialing', trial_start: at('2026-03-08') })],
  ]
  test.each(cases)('get a mail only if its setting %s is on', async (setting, name, make) => {
    const shop = await open()
    const settings = shop.organization.customer_email_settings
    const others = Object.fromEntries(Object.keys(settings).map((key) => [key, key === setting])) as typeof settings
    const about = await make(shop)
    await shop.change({ customer_email_settings: { ...settings, [setting]: false } })
    await promise(name, about, at('2027-03-01'))
    expect(lettersTo(shop.email)).toEqual([])
    await shop.change({ customer_email_settings: others })
    await promise(name, about, at('2027-03-02'))
    expect(lettersTo(shop.email)).toHaveLength(1)
  })

  test('include the team owner if the team has no address; no mail is sent if the owner is missing too', async () => {
    const { api, phase } = await open()
    await phase('phase2')
    const mine = `${randomText(10, 'abcdefghijklmnop')}@people.test`
    const team = await api.call(createCustomer, { body: { type: 'team', name: 'Works', owner: { email: mine } } as never })
    await api.call(createMember, { params: { id: team.id }, body: { email: `other-${mine}` } })
    expect((await api.call(listCustomerMembers, { params: { id: team.id }, query: { role: 'owner' } })).items).toHaveLength(1)
    expect(team.email).toBeNull()
    await promise('mail.order_receipt', await sales.order(team))
    expect(letterTo(mine).subject).toContain('Your receipt')
    await world.database.owner((owner) => owner.query('update members set deleted_at = now() where customer_id = $1', [team.id]))
    await promise('mail.order_receipt', await sales.order(team))
    expect(world.mail.letters).toEqual([])
  })

  test.each(['false', 'true'] as const)('exclude deleted customers (anonymized: %s)', async (anonymize) => {
    const { api, anna, subscribe } = await open()
    const [order, subscription] = [await sales.order(anna), await subscribe()]
    const failed = await sales.order(anna, { status: 'pending', first_failed_at: moment })
    await api.call(deleteCustomer, { params: { id: anna.id }, query: { anonymize } })
    await quiet()
    await promise('mail.order_receipt', order)
    await promise('mail.payment_failed', failed)
    await promise('mail.renewal_reminder', subscription)
    expect(world.mail.letters).toEqual([])
  })

  test('exclude customers of a deleted seller', async () => {
    const { anna, organization } = await open()
    const order = await sales.order(anna)
    await world.database.owner((owner) => owner.query('update organizations set deleted_at = now() where id = $1', [organization.id]))
    await promise('mail.order_receipt', order)
    expect(world.mail.letters).toEqual([])
  })

  test('get no injected mail headers from the seller’s name', async () => {
    const { anna, email, organization } = await open()
    await world.database.owner((owner) =>
      owner.query('update organizations set name = $2 where id = $1', [organization.id, 'Evil "X"\r\nBcc: spy@people.test']),
    )
    await promise('mail.order_receipt', await sales.order(anna))
    const letter = letterTo(email)
    expect(letter.from).toEqual({ name: 'Evil "X" Bcc: spy@people.test', address: 'bursar@localhost' })
    expect(letter.headers).not.toContain('bcc')
    expect(world.mail.letters).toEqual([])
  })
})
