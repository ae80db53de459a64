import {
  createCustomerSession,
  createDiscount,
  createProduct,
  listCustomerMembers,
  listPortalSeats,
  assignSeat,
  previewPortalSubscription,
  previewSubscription,
  updatePortalSubscription,
  updateSubscription,
  updateTaxSettings,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readBooks } from '../../../../test/harness/books.ts'
import { june, openSubscribers, type Subscribers } from '../../../../test/harness/subscribers.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
let people: Subscribers
beforeAll(async () => {
  world = await openWorld()
  people = await openSubscribers(world)
})
afterAll(async () => {
  await people.close()
  await world.close()
})

type Shop = Awaited<ReturnType<World['shop']>>
const fixed = (price_amount: number) => ({ amount_type: 'fixed' as const, price_amount, price_currency: 'usd' as const })
const seated = (seat_tier_type: 'volume' | 'graduated', ...per_seat: number[]) => ({
  amount_type: 'seat_based' as const,
  price_currency: 'usd' as const,
  seat_tiers: {
    seat_tier_type,
    tiers: per_seat.map((price_per_seat, at) => ({ min_seats: at * 5 + 1, max_seats: at === per_seat.length - 1 ? null : at * 5 + 5, price_per_seat })),
  },
})
const plan = (shop: Shop, name: string, prices: unknown[], more: Record<string, unknown> = {}) =>
  shop.api.call(createProduct, { body: { name, recurring_interval: 'month', visibility: 'public', prices, ...more } as never })
const errorOf = (answer: { status: number; body: unknown }) => `${answer.status} ${(answer.body as { error: string }).error}`

interface Case {
  readonly prices: unknown[]
  readonly seats?: number
  readonly wish: { seats: number } | 'other'
  readonly other?: unknown[]
  readonly otherMore?: Record<string, unknown>
  readonly behavior?: 'invoice' | 'prorate' | 'next_period' | 'reset'
  readonly tax?: 'inclusive' | 'exclusive'
  readonly discount?: Record<string, unknown>
  readonly more?: Record<string, unknown>
  /** A change that was requested earlier and is still pending. */
  readonly waiting?: { seats: number }
  /** The end of the period after the change, if it is not the end of June. */
  readonly until?: string
}

const tenPercent = { type: 'percentage', basis_points: 1000, duration: 'forever', name: 'Ten' }
const threeOff = { type: 'fixed', amount: 333, currency: 'usd', duration: 'once', name: 'Three' }
const cases: Record<string, Case> = {
  'more seats, tax on top': { prices: [seated('volume', 1000)], seats: 3, wish: { seats: 7 }, tax: 'exclusive' },
  'more seats, tax inside': { prices: [seated('volume', 999)], seats: 3, wish: { seats: 8 }, tax: 'inclusive' },
  'fewer seats become credit': { prices: [seated('volume', 1000)], seats: 8, wish: { seats: 2 }, tax: 'exclusive' },
  'into another tier by volume': { prices: [seated('volume', 1000, 800)], seats: 4, wish: { seats: 9 }, tax: 'exclusive' },
  'into another tier, graduated': { prices: [seated('graduated', 1000, 733, 500)], seats: 4, wish: { seats: 13 }, tax: 'inclusive' },
  'with the next order': { prices: [seated('volume', 1000)], seats: 3, wish: { seats: 5 }, behavior: 'prorate', tax: 'exclusive' },
  'with the next period': { prices: [seated('volume', 1000)], seats: 3, wish: { seats: 2 }, behavior: 'next_period', tax: 'exclusive' },
  'a percentage off': { prices: [seated('volume', 999)], seats: 3, wish: { seats: 7 }, discount: tenPercent, tax: 'exclusive' },
  'an amount off, once': { prices: [seated('volume', 999)], seats: 3, wish: { seats: 7 }, discount: threeOff, tax: 'exclusive' },
  'another product': { prices: [fixed(1000)], wish: 'other', other: [fixed(3000)], tax: 'exclusive', discount: tenPercent },
  'another product, with the next order': { prices: [fixed(3000)], wish: 'other', other: [fixed(1000)], behavior: 'prorate', tax: 'exclusive' },
  'another product, with the next period': { prices: [fixed(3000)], wish: 'other', other: [fixed(1000)], behavior: 'next_period', tax: 'inclusive' },
  'another product by the year': {
    prices: [fixed(1000)],
    wish: 'other',
    other: [fixed(9900)],
    otherMore: { recurring_interval: 'year' },
    tax: 'exclusive',
    until: '2027-06-16T00:00:00Z',
  },
  'seats during a trial': {
    prices: [seated('volume', 1000)],
    seats: 3,
    wish: { seats: 6 },
    tax: 'exclusive',
    more: { trial_interval: 'month', trial_interval_count: 1 },
  },
  'a product without a trial during one': {
    prices: [fixed(1000)],
    wish: 'other',
    other: [fixed(2000)],
    tax: 'exclusive',
    more: { trial_interval: 'month', trial_interval_count: 1 },
    until: '2026-07-16T00:00:00Z',
  },
  'over a change that waits': { prices: [seated('volume', 1000)], seats: 3, waiting: { seats: 2 }, wish: { seats: 6 }, tax: 'exclusive' },
  'the number there is': { prices: [seated('volume', 1000)], seats: 3, wish: { seats: 3 }, tax: 'exclusive' },
}

const figures = (one: { lines?: unknown[]; items?: unknown[] } & Record<string, unknown>) => ({
  lines: (one.lines ?? one.items)!.map((line) => {
    const { label, amount, tax_amount, proration } = line as Record<string, unknown>
    return { label, amount, tax_amount, proration }
  }),
  ...Object.fromEntries(
    ['subtotal_amount', 'discount_amount', 'net_amount', 'tax_amount', 'total_amount', 'applied_balance_amount'].map((name) => [name, one[name]]),
  ),
})

for (const [name, one] of Object.entries(cases))
  test(`previews the amounts that are charged later: ${name}`, async () => {
    const shop = await world.shop()
    if (one.tax) await shop.api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: false }] } })
    const taxed = (prices: unknown[]) => prices.map((price) => ({ ...(price as object), tax_behavior: one.tax ?? 'exclusive' }))
    const product = await plan(shop, 'Basic', taxed(one.prices), one.more)
    const other = one.other && (await plan(shop, 'Grand', taxed(one.other), one.otherMore))
    const discount_id = one.discount && (await shop.api.call(createDiscount, { body: one.discount as never })).id
    const anna = await people.subscribe(shop, product.id, {
      ...(one.seats === undefined ? {} : { seats: one.seats }),
      ...(discount_id === undefined ? {} : { discount_id }),
    })
    if (one.waiting) await shop.api.call(updateSubscription, { params: anna.params, body: { ...one.waiting, proration_behavior: 'next_period' } })
    const body = { ...(one.wish === 'other' ? { product_id: other!.id } : one.wish), proration_behavior: one.behavior ?? ('invoice' as const) }
    const charges = async () => (await readBooks(world, shop.organization.id)).charges.map(({ amount }) => amount)
    const [before, told, charged] = [await anna.everything(), (await shop.events()).length, await charges()]
    const preview = await shop.api.call(previewSubscription, { params: anna.params, body })
    // The preview stores nothing, charges nothing and emits no event.
    expect([await anna.everything(), (await shop.events()).length, await charges(), await anna.orders()]).toEqual([before, told, charged, []])

    const changed = await shop.api.call(updateSubscription, { params: anna.params, body })
    await people.settle(anna.clock)
    const [made] = await anna.orders()
    expect(preview.now && figures(preview.now)).toEqual(made ? figures(made) : null)
    const paid = (await charges()).slice(charged.length)
    expect(paid).toEqual(preview.now && preview.now.charge_amount > 0 ? [preview.now.charge_amount] : [])
    const waits = changed.pending_update !== null
    expect(new Date(preview.applies_at)).toEqual(waits ? june.end : june.now)
    if (!waits) expect([preview.product_id, preview.seats, preview.amount]).toEqual([changed.product_id, changed.seats, changed.amount])

    const next = new Date(one.until ?? june.end)
    expect(new Date(preview.next!.at)).toEqual(next)
    await anna.travel(next)
    const renewal = (await anna.orders()).at(-1)!
    expect(renewal.billing_reason).toBe('subscription_cycle')
    expect(figures(preview.next!)).toEqual(figures(renewal))
    expect((await charges()).slice(charged.length + paid.length)).toEqual(preview.next!.charge_amount > 0 ? [preview.next!.charge_amount] : [])
    const then = await anna.find()
    expect([preview.product_id, preview.seats, preview.amount]).toEqual([then.product_id, then.seats, then.amount])
  })

/** A team of four seats, and its owner in a portal with the given permissions. */
const team = async (allowed = { update_plan: true, update_seats: true, pause: true }) => {
  const shop = await world.shop()
  await people.query(
    `update organizations set customer_portal_settings = customer_portal_settings || $2::jsonb,
       subscription_settings = subscription_settings || '{"proration_behavior": "invoice"}' where id = $1`,
    [shop.organization.id, JSON.stringify({ subscription: allowed })],
  )
  const product = await plan(shop, 'Team', [seated('volume', 1000, 800)])
  const anna = await people.subscribe(shop, product.id, { seats: 4 })
  const customer_id = anna.customer.id
  const [owner] = (await shop.api.call(listCustomerMembers, { params: { id: customer_id } })).items
  const { token } = await shop.api.call(createCustomerSession, { body: { customer_id, member_id: owner!.id } })
  return { ...shop, ...anna, product, portal: world.client({ token }) }
}

test('previews in the portal with the seller’s proration, and refuses with the same errors as the change', async () => {
  const { portal, params, api, id, product, everything } = await team()
  const seen = await portal.call(previewPortalSubscription, { params, body: { seats: 6 } })
  // Six seats at the second tier price instead of four at the first, for half a month.
  expect(seen).toMatchObject({ seats: 6, amount: 4800, now: { total_amount: 400, charge_amount: 400 }, next: { total_amount: 4800, charge_amount: 4800 } })
  const changed = await portal.call(updatePortalSubscription, { params, body: { seats: 6 } })
  expect([changed.seats, changed.amount]).toEqual([6, 4800])

  for (const at of [1, 2, 3]) await api.call(assignSeat, { body: { subscription_id: id, email: `person${at}-${id}@people.test` } })
  const taken = (await portal.call(listPortalSeats, { query: { subscription_id: id } })).items.length
  const before = await everything()
  const wishes: [Record<string, unknown>, string][] = [
    [{ seats: taken - 1 }, '400 SeatsAlreadyAssigned'],
    [{ seats: 10_001 }, '400 AboveMaximumSeats'],
    [{ product_id: '0197a000-0000-7000-8000-000000000000' }, '422 RequestValidationError'],
    [{ seats: 0 }, '422 RequestValidationError'],
    [{ seats: 3, product_id: product.id }, '422 RequestValidationError'],
  ]
  for (const [body, expected] of wishes) {
    expect([body, errorOf(await portal.sendRaw(previewPortalSubscription, { params, body }))]).toEqual([body, expected])
    if (body.product_id === undefined || body.seats === undefined)
      expect(errorOf(await portal.sendRaw(updatePortalSubscription, { params, body }))).toBe(expected)
  }
  expect(await everything()).toEqual(before)
  expect(await portal.call(previewPortalSubscription, { params, body: {} })).toMatchObject({ seats: 6, now: null, next: { charge_amount: 4800 } })
  await portal.call(updatePortalSubscription, { params, body: { cancel_at_period_end: true } })
  expect(errorOf(await portal.send(previewPortalSubscription, { params, body: { seats: 7 } }))).toBe('403 AlreadyCanceledSubscription')
  expect(errorOf(await api.send(previewSubscription, { params, body: { seats: 7 } }))).toBe('403 AlreadyCanceledSubscription')
  expect(await portal.call(previewPortalSubscription, { params, body: {} })).toMatchObject({ now: null, next: null })
})

test('refuses to preview a change that the seller does not allow, or for which a payment method is missing', async () => {
  const locked = await team({ update_plan: false, update_seats: false, pause: false })
  expect(errorOf(await locked.portal.send(previewPortalSubscription, { params: locked.params, body: { seats: 6 } }))).toBe(
    '403 UpdateSubscriptionSeatsNotAllowed',
  )
  expect(errorOf(await locked.portal.send(previewPortalSubscription, { params: locked.params, body: { product_id: locked.product.id } }))).toBe(
    '403 UpdateSubscriptionPlanNotAllowed',
  )
  const { portal, params, customer } = await team()
  await people.query('update subscriptions set payment_method_id = null where customer_id = $1', [customer.id])
  await people.query('update customers set default_payment_method_id = null where id = $1', [customer.id])
  expect(errorOf(await portal.send(previewPortalSubscription, { params, body: { seats: 6 } }))).toBe('409 PaymentMethodRequired')
})

test('leaves no gap in the invoice numbers after a preview', async () => {
  const { portal, params, orders } = await team()
  for (let at = 0; at < 3; at++) await portal.call(previewPortalSubscription, { params, body: { seats: 6 } })
  await portal.call(updatePortalSubscription, { params, body: { seats: 6 } })
  expect((await orders())[0]!.invoice_number).toMatch(/0002$/)
})
