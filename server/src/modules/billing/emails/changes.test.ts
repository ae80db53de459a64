import { createCustomer, createProduct, updateOrganization, updateSubscription, type Organization, type SubscriptionUpdate } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openSales } from '../../../../test/harness/sales.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { randomText } from '../../../kernel/secrets.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { announceExpiringCards } from './cards.ts'

let world: World
let sales: ReturnType<typeof openSales>
beforeAll(async () => {
  world = await openWorld({ worker: true })
  sales = openSales(world)
})
afterAll(() => world.close())

type Setting = keyof Organization['customer_email_settings']
type Shop = Awaited<ReturnType<typeof open>>

const start = new Date(Date.now() - 86_400_000)
const end = new Date(Date.now() + 20 * 86_400_000)

const open = async (locale: string | null = null) => {
  const shop = await world.shop()
  const { api, organization } = shop
  const email = `${randomText(10, 'abcdefghijklmnop')}@people.test`
  const plan = await api.call(createProduct, { body: { name: 'Plan', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 1000 }] } })
  const other = await api.call(createProduct, { body: { name: 'Other', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 2000 }] } })
  const tiers = [{ min_seats: 1, max_seats: null, price_per_seat: 500 }]
  const team = await api.call(createProduct, {
    body: { name: 'Team', recurring_interval: 'month', prices: [{ amount_type: 'seat_based', seat_tiers: { seat_tier_type: 'volume', tiers } }] },
  })
  const anna = await api.call(createCustomer, { body: { email, name: 'Anna', ...(locale === null ? {} : { locale }) } })
  const settings = organization.customer_email_settings
  return {
    ...shop,
    email,
    anna,
    other,
    subscribe: (given: Parameters<typeof sales.subscription>[3] = {}, product = plan) =>
      sales.subscription(anna, product, [product.prices[0]!.id], { current_period_start: start, current_period_end: end, ...given }),
    team,
    /** Switches one kind of mail on or off, and all others the other way. */
    only: (setting: Setting, on: boolean) =>
      api.call(updateOrganization, {
        params: { id: organization.id },
        body: { customer_email_settings: Object.fromEntries(Object.keys(settings).map((key) => [key, (key === setting) === on])) as typeof settings },
      }),
  }
}

const quiet = () =>
  eventually('the worker has run every job', async () => {
    const { rows } = await world.database.owner((owner) => owner.query('select from graphile_worker._private_jobs'))
    return rows.length === 0
  })

const lettersTo = async (to: string) => {
  await quiet()
  const found = world.mail.letters.filter((letter) => letter.to === to)
  for (const letter of found) world.mail.letters.splice(world.mail.letters.indexOf(letter), 1)
  return found
}

const change = (shop: Shop, { id }: { id: string }, body: SubscriptionUpdate) => shop.api.call(updateSubscription, { params: { id }, body } as never)

const card = async (shop: Shop, expires: { year: number; month: number }) => {
  const id = newId(world.clock.wall())
  await world.database.owner((owner) =>
    owner.query(
      `insert into payment_methods (organization_id, id, created_at, customer_id, processor, type, method_metadata, processor_method_id)
       values ($1, $2, now(), $3, 'stripe', 'card', $4, $5)`,
      [shop.organization.id, id, shop.anna.id, { brand: 'visa', last4: '0001', exp_year: expires.year, exp_month: expires.month }, `pm_${id}`],
    ),
  )
  return id
}

/** Runs the task that announces cards at a moment. */
const announceAt = (moment: string) => {
  const { gateways, postgres, platform } = world.api
  const clock = { ...platform.clock, wall: () => new Date(moment) }
  return announceExpiringCards({ db: postgres.db, transact: world.transactAsWorker, gateways, platform: { ...platform, clock } })
}

const canceled = { cancel_at_period_end: true, canceled_at: start, ends_at: end }

const acts: readonly [Setting, string, (shop: Shop) => Promise<unknown>, RegExp][] = [
  ['subscription_cancellation', 'a cancellation', async (shop) => change(shop, await shop.subscribe(), { cancel_at_period_end: true }), /your cancellation/],
  [
    'subscription_uncanceled',
    'a withdrawn cancellation',
    async (shop) => change(shop, await shop.subscribe(canceled), { cancel_at_period_end: false }),
    /continues/,
  ],
  ['subscription_revoked', 'the end of a subscription', async (shop) => change(shop, await shop.subscribe(), { revoke: true }), /has ended/],
  ['subscription_paused', 'a pause', async (shop) => change(shop, await shop.subscribe(), { pause_at_period_end: true }), /your pause/],
  [
    'subscription_resumed',
    'the end of a pause',
    async (shop) => change(shop, await shop.subscribe({ status: 'paused', paused_at: start }), { resume: true }),
    /continues after its pause/,
  ],
  [
    'subscription_updated',
    'a scheduled plan',
    async (shop) => change(shop, await shop.subscribe(), { product_id: shop.other.id, proration_behavior: 'next_period' }),
    /Your plan changes to Other on/,
  ],
  [
    'subscription_updated',
    'a changed plan',
    async (shop) => change(shop, await shop.subscribe(), { product_id: shop.other.id, proration_behavior: 'prorate' }),
    /Your plan is now Other/,
  ],
  [
    'subscription_updated',
    'changed seats',
    async (shop) => change(shop, await shop.subscribe({ seats: 3, amount: 1500 }, shop.team), { seats: 5, proration_behavior: 'prorate' }),
    /you now have 5 seats/,
  ],
  [
    'subscription_confirmation',
    'a started trial',
    async ({ subscribe, organization: { id: organization_id } }) => {
      const { id: subscription_id } = await subscribe({ status: 'trialing', trial_start: start, trial_end: end })
      await world.transact((tx) => enqueue(tx, 'mail.trial_started', { organization_id, subscription_id }))
    },
    /Your trial of Plan has started/,
  ],
  [
    'payment_method_expiration_reminder',
    'an expiring card',
    async (shop) => {
      await shop.subscribe({ payment_method_id: await card(shop, { year: 2031, month: 3 }) })
      await announceAt('2031-03-20T12:00:00Z')
    },
    /Visa ending in 0001 expires soon/,
  ],
]
test.each(acts)('sends a mail if its switch is on, and none if it is off: %s, %s', async (setting, _, act, subject) => {
  const off = await open()
  await off.only(setting, false)
  await act(off)
  expect((await lettersTo(off.email)).filter((letter) => subject.test(letter.subject))).toEqual([])
  const on = await open()
  await on.only(setting, true)
  await act(on)
  const letters = await lettersTo(on.email)
  expect(letters.map((letter) => letter.subject)).toEqual([expect.stringMatching(subject)])
  expect(letters[0]!.html).toContain('<html lang="en"')
})

test('mails a customer who prefers German in German, as HTML and as text', async () => {
  const shop = await open('de-AT')
  await change(shop, await shop.subscribe(), { cancel_at_period_end: true })
  const [letter] = await lettersTo(shop.email)
  expect(letter!.subject).toBe('Plan: Ihre Kündigung')
  expect(letter!.text).toContain('Abonnement behalten:')
  expect(letter!.html).toContain('<html lang="de"')
})

test('does not mail a cancellation that was withdrawn before the mail was written', async () => {
  const { organization, email, subscribe } = await open()
  const { id: subscription_id } = await subscribe()
  await world.transact((tx) => enqueue(tx, 'mail.subscription', { organization_id: organization.id, subscription_id, change: 'canceled' }))
  expect(await lettersTo(email)).toEqual([])
})

test('announces a card once, and only if it expires within 20 days and a renewing subscription uses it', async () => {
  const [near, ends, unused] = [await open(), await open(), await open()]
  await near.subscribe({ payment_method_id: await card(near, { year: 2032, month: 5 }) })
  await ends.subscribe({ ...canceled, payment_method_id: await card(ends, { year: 2032, month: 5 }) })
  await card(unused, { year: 2032, month: 5 })
  await announceAt('2032-05-05T12:00:00Z')
  expect(await lettersTo(near.email)).toEqual([])
  await announceAt('2032-05-20T12:00:00Z')
  await announceAt('2032-05-21T12:00:00Z')
  expect(await lettersTo(near.email)).toHaveLength(1)
  for (const { email } of [ends, unused]) expect(await lettersTo(email)).toEqual([])
})
