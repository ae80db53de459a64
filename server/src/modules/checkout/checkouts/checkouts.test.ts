import {
  addPortalMember,
  authenticatePortalCode,
  confirmClientCheckout,
  createCheckout,
  createCustomer,
  createCustomField,
  createDiscount,
  createProduct,
  createRefund,
  deleteCustomer,
  getCheckout,
  getClientCheckout,
  getCustomer,
  getDiscount,
  getPortalCustomer,
  listCheckouts,
  listCustomers,
  listOrders,
  listPayments,
  listSubscriptions,
  requestEmailUpdate,
  requestPortalCode,
  updateCheckout,
  updateClientCheckout,
  updateDiscount,
  updatePortalMember,
  updateProduct,
  updateTaxSettings,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readBooks } from '../../../../test/harness/books.ts'
import { openDeployment, openLife } from '../../../../test/harness/doom.ts'
import { codeIn } from '../../../../test/harness/mail.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { mailCode } from '../../customers/sessions/sessions.ts'
import { jobs } from './checkouts.api.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
beforeAll(async () => {
  world = await openWorld()
  // What was promised for later is done when a test says so.
  deployment = await openDeployment(world, openLife(null))
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

const hour = 3_600_000
const fixed = (price_amount: number, price_currency = 'usd') => ({ amount_type: 'fixed', price_amount, price_currency }) as const
const berlin = { line1: 'Rosenweg 1', postal_code: '10115', city: 'Berlin', country: 'DE' } as const
const seated = {
  amount_type: 'seat_based',
  price_currency: 'usd',
  seat_tiers: { seat_tier_type: 'volume', tiers: [{ min_seats: 2, max_seats: 20, price_per_seat: 500 }] },
} as const
type Given = Record<string, unknown>

/** A shop with one thing to sell, and short words for what is done with it. */
const open = async () => {
  const shop = await world.shop()
  const { api, organization } = shop
  const product = (prices: readonly object[], more: Given = {}) => api.call(createProduct, { body: { name: 'Guide', prices, ...more } as never })
  return {
    ...shop,
    product,
    book: await product([fixed(2900)]),
    plan: (more: Given = {}) => product([fixed(2900)], { name: 'Plan', recurring_interval: 'month', ...more }),
    discount: (more: Given = {}) =>
      api.call(createDiscount, { body: { name: 'Half', type: 'percentage', basis_points: 5000, duration: 'once', ...more } as never }),
    checkout: (body: Given) => api.call(createCheckout, { body: body as never }),
    /** What is wrong with a checkout, by where. */
    wrong: async (body: Given) => {
      const answer = await api.send(createCheckout, { body: body as never })
      expect(answer.status).toBe(422)
      return locs(answer)
    },
    settings: (settings: object) =>
      world.database.owner((owner) =>
        owner.query('update organizations set subscription_settings = subscription_settings || $2 where id = $1', [organization.id, settings]),
      ),
    ordersOf: async ({ id }: { id: string }) => (await api.call(listOrders, { query: { checkout_id: [id] } })).items,
    paymentsOf: async ({ id }: { id: string }) => (await api.call(listPayments, { query: { checkout_id: [id] } })).items,
    seen: ({ id }: { id: string }) => api.call(getCheckout, { params: { id } }),
  }
}

interface Ticket {
  readonly client_secret: string
}
const locs = (answer: { body: unknown }) => (answer.body as { detail: { loc: (string | number)[] }[] }).detail.map(({ loc }) => loc.join('.'))
const errorOf = (answer: { status: number; body: unknown }) => `${answer.status} ${(answer.body as { error: string }).error}`
const params = ({ client_secret }: Ticket) => ({ client_secret })
const look = (ticket: Ticket) => world.client().send(getClientCheckout, { params: params(ticket) })
const fill = (ticket: Ticket, body: Given) => world.client().send(updateClientCheckout, { params: params(ticket), body: body })
const filled = (ticket: Ticket, body: Given) => world.client().call(updateClientCheckout, { params: params(ticket), body: body })
const confirm = (ticket: Ticket, body: Given = {}) => world.client().send(confirmClientCheckout, { params: params(ticket), body: body })
const buyer = (more: Given = {}) => ({
  customer_email: 'ada@people.test',
  customer_billing_address: { country: 'DE' },
  confirmation_token_id: 'tok_visa',
  ...more,
})
/** Pays, and does what follows from it. */
const pay = async (ticket: Ticket, more: Given = {}) => {
  const confirmed = await world.client().call(confirmClientCheckout, { params: params(ticket), body: buyer(more) as never })
  await deployment.work()
  return confirmed
}

describe('creating', () => {
  test('a checkout names products that are on sale: unknown, archived, draft and foreign ones are told by their place', async () => {
    const { wrong, book, product, api } = await open()
    const archived = await product([fixed(500)])
    await api.call(updateProduct, { params: { id: archived.id }, body: { is_archived: true } })
    const draft = await product([fixed(500)], { visibility: 'draft' })
    const foreign = (await open()).book
    expect(await wrong({ products: [book.id, newId(world.clock.wall()), archived.id, draft.id, foreign.id] })).toEqual([
      'body.products.1',
      'body.products.2',
      'body.products.3',
      'body.products.4',
    ])
    expect(await wrong({ products: [] })).toEqual(['body.products'])
    expect(await wrong({ products: [book.id, book.id] })).toEqual(['body.products'])
  })

  test('the currency is the one that is asked for, or else the seller’s own; one without a price is refused', async () => {
    const { wrong, checkout, product } = await open()
    const { id } = await product([fixed(2900), fixed(2500, 'eur'), fixed(300, 'jpy')])
    expect(await checkout({ products: [id] })).toMatchObject({ currency: 'usd', amount: 2900 })
    expect(await checkout({ products: [id], currency: 'eur' })).toMatchObject({ currency: 'eur', amount: 2500, product_price: { price_amount: 2500 } })
    expect(await wrong({ products: [id], currency: 'gbp' })).toEqual(['body.currency'])
  })

  test('a chosen amount lies within the bounds of its price, and is one that can be charged', async () => {
    const { wrong, checkout, product, book } = await open()
    const { id } = await product([{ amount_type: 'custom', minimum_amount: 500, maximum_amount: 5000, preset_amount: 900 }])
    expect(await checkout({ products: [id] })).toMatchObject({ amount: 900 })
    for (const amount of [500, 5000]) expect(await checkout({ products: [id], amount })).toMatchObject({ amount })
    for (const amount of [499, 5001]) expect(await wrong({ products: [id], amount })).toEqual(['body.amount'])
    const free = await product([{ amount_type: 'custom', minimum_amount: 0 }])
    expect(await checkout({ products: [free.id], amount: 0 })).toMatchObject({ amount: 0, is_payment_required: false })
    expect(await checkout({ products: [free.id], amount: 50 })).toMatchObject({ amount: 50, is_payment_required: true })
    for (const amount of [1, 49, 100_000_000]) expect(await wrong({ products: [free.id], amount })).toEqual(['body.amount'])
    // A product with a price of its own costs that, whatever is asked.
    expect(await checkout({ products: [book.id], amount: 1 })).toMatchObject({ amount: 2900 })
  })

  test('seats lie within the tiers and within the bounds that the seller set, and only products by the seat have them', async () => {
    const { wrong, checkout, product, book } = await open()
    const team = await product([seated])
    expect(await checkout({ products: [team.id] })).toMatchObject({ seats: 2, amount: 1000 })
    expect(await checkout({ products: [team.id], min_seats: 5, max_seats: 8 })).toMatchObject({ seats: 5, min_seats: 5, max_seats: 8, amount: 2500 })
    for (const seats of [1, 21]) expect(await wrong({ products: [team.id], seats })).toEqual(['body.seats'])
    for (const seats of [4, 9]) expect(await wrong({ products: [team.id], min_seats: 5, max_seats: 8, seats })).toEqual(['body.seats'])
    expect(await wrong({ products: [team.id], min_seats: 9, max_seats: 8 })).toEqual(['body.min_seats'])
    expect(await wrong({ products: [book.id], seats: 2, min_seats: 1, max_seats: 3 })).toEqual(['body.seats', 'body.min_seats', 'body.max_seats'])
    for (const seats of [0, 10_001]) expect(await wrong({ products: [team.id], seats })).toEqual(['body.seats'])
  })

  test("the seller's bounds on seats outlive a switch to another product and back", async () => {
    const { checkout, product, book } = await open()
    const team = await product([seated])
    const made = await checkout({ products: [team.id, book.id], min_seats: 5, max_seats: 8 })
    expect(await filled(made, { product_id: book.id })).toMatchObject({ seats: null, min_seats: null, max_seats: null, amount: 2900 })
    expect(locs(await fill(made, { product_id: team.id, seats: 4 }))).toEqual(['body.seats'])
    expect(await filled(made, { product_id: team.id })).toMatchObject({ seats: 5, min_seats: 5, max_seats: 8, amount: 2500 })
  })

  test('what is known of a customer is filled in, by our id or by the seller’s own; of a team it is the owner’s address', async () => {
    const { api, wrong, checkout, book } = await open()
    const products = [book.id]
    const anna = await api.call(createCustomer, {
      body: { email: 'anna@people.test', name: 'Anna', external_id: 'a-1', billing_address: berlin, tax_id: 'DE123456788' },
    })
    await world.database.owner((owner) => owner.query(`update customers set billing_name = 'Anna GmbH' where id = $1`, [anna.id]))
    const known = {
      customer_id: anna.id,
      external_customer_id: 'a-1',
      customer_email: 'anna@people.test',
      customer_name: 'Anna',
      customer_billing_name: 'Anna GmbH',
      customer_billing_address: { line1: 'Rosenweg 1', country: 'DE' },
      is_business_customer: true,
    }
    expect(await checkout({ products, customer_id: anna.id })).toMatchObject(known)
    expect(await checkout({ products, external_customer_id: 'a-1' })).toMatchObject(known)
    expect(await checkout({ products, customer_id: anna.id, is_business_customer: false, customer_email: 'else@people.test' })).toMatchObject({
      is_business_customer: false,
      customer_email: 'anna@people.test',
    })
    const team = await api.call(createCustomer, { body: { type: 'team', name: 'Works', owner: { email: 'boss@people.test' } } as never })
    expect(await checkout({ products, customer_id: team.id })).toMatchObject({ customer_email: 'boss@people.test', customer_name: null })
    expect(await checkout({ products, external_customer_id: 'new-one' })).toMatchObject({ customer_id: null, external_customer_id: 'new-one' })
    expect(await wrong({ products, customer_id: newId(world.clock.wall()) })).toEqual(['body.customer_id'])
    const foreign = await (await open()).api.call(createCustomer, { body: { email: 'x@people.test' } })
    expect(await wrong({ products, customer_id: foreign.id })).toEqual(['body.customer_id'])
  })

  test('a tax number needs its country; a street asks for the whole address', async () => {
    const { wrong, checkout, book } = await open()
    const products = [book.id]
    expect(await wrong({ products, customer_tax_id: 'DE123456788' })).toEqual(['body.customer_tax_id'])
    expect(await wrong({ products, customer_tax_id: 'nonsense', customer_billing_address: { country: 'DE' } })).toEqual(['body.customer_tax_id'])
    const asked = async (customer_billing_address: object) => {
      const { require_billing_address, billing_address_fields } = await checkout({ products, customer_billing_address })
      return [require_billing_address, billing_address_fields]
    }
    const nothing = { city: 'disabled', postal_code: 'disabled', line1: 'disabled', line2: 'disabled' }
    const whole = { city: 'required', postal_code: 'required', line1: 'required', line2: 'optional' }
    expect(await asked({ country: 'DE' })).toEqual([false, { country: 'required', state: 'disabled', ...nothing }])
    expect(await asked({ country: 'CA', state: 'CA-ON' })).toEqual([false, { country: 'required', state: 'required', ...nothing }])
    expect(await asked({ country: 'US', state: 'US-NY' })).toEqual([false, { country: 'required', state: 'required', ...whole }])
    expect(await asked(berlin)).toEqual([true, { country: 'required', state: 'optional', ...whole }])
    expect(await asked({ country: 'DE', state: 'Berlin' })).toEqual([true, { country: 'required', state: 'optional', ...whole }])
  })

  test('the address to go to afterwards carries the id where the seller wants it, or is ours', async () => {
    const { checkout, wrong, book } = await open()
    const products = [book.id]
    const custom = await checkout({ products, success_url: 'https://shop.example/{CHECKOUT_ID}?again={CHECKOUT_ID}' })
    expect(custom.success_url).toBe(`https://shop.example/${custom.id}?again=${custom.id}`)
    const own = await checkout({ products })
    expect([own.url, own.success_url]).toEqual([
      `https://bursar.test/checkout/${own.client_secret}`,
      `https://bursar.test/checkout/${own.client_secret}/confirmation`,
    ])
    expect(await wrong({ products, success_url: 'javascript:alert(1)' })).toEqual(['body.success_url'])
  })

  test('prices made for one checkout are shown, charged, and still there after the product or the currency changed (W5)', async () => {
    const { api, checkout, wrong, product, book, ordersOf } = await open()
    const other = await product([fixed(700)])
    const prices = { [book.id]: [fixed(1100), fixed(900, 'eur')] }
    const made = await checkout({ products: [book.id, other.id], prices })
    expect(made).toMatchObject({ amount: 1100, product_price: { price_amount: 1100, source: 'ad_hoc' } })
    expect(await filled(made, { product_id: other.id })).toMatchObject({ amount: 700 })
    expect(await filled(made, { product_id: book.id })).toMatchObject({ amount: 1100 })
    expect(await api.call(updateCheckout, { params: { id: made.id }, body: { currency: 'eur' } })).toMatchObject({ amount: 900, currency: 'eur' })
    expect((await pay(made)).total_amount).toBe(900)
    expect(await ordersOf(made)).toMatchObject([{ total_amount: 900, currency: 'eur', items: [{ amount: 900 }] }])
    // No part of the catalog, and as sound as it.
    expect((await checkout({ products: [book.id] })).amount).toBe(2900)
    expect(await wrong({ products: [book.id], prices: { [book.id]: [fixed(3)] } })).toEqual([`body.prices.${book.id}.0.price_amount`])
    expect(await wrong({ products: [book.id], prices: { [other.id]: [fixed(300)] } })).toEqual([`body.prices.${other.id}`])
  })

  test('a discount that the seller names must count: here, now, and once more', async () => {
    const { api, wrong, checkout, book, product, discount } = await open()
    const other = await product([fixed(1000)])
    const half = await discount()
    expect(await checkout({ products: [book.id], discount_id: half.id })).toMatchObject({ discount_id: half.id, discount_amount: 1450, net_amount: 1450 })
    const elsewhere = await discount({ products: [other.id] })
    const later = await discount({ starts_at: new Date(world.clock.wall().getTime() + hour).toISOString() })
    const euros = await discount({ type: 'fixed', amounts: { eur: 100 }, basis_points: undefined })
    const once = await discount({ max_redemptions: 1 })
    await pay(await checkout({ products: [book.id], discount_id: once.id }))
    const foreign = await (await open()).discount()
    for (const { id } of [elsewhere, later, euros, once, foreign, { id: newId(world.clock.wall()) }]) {
      expect(await wrong({ products: [book.id], discount_id: id })).toEqual(['body.discount_id'])
      const made = await checkout({ products: [book.id] })
      const answer = await api.send(updateCheckout, { params: { id: made.id }, body: { discount_id: id } })
      expect([answer.status, locs(answer)]).toEqual([422, ['body.discount_id']])
    }
  })

  test('a checkout is told of when it is made, and its secret opens it', async () => {
    const { checkout, book, events, organization } = await open()
    const made = await checkout({ products: [book.id], metadata: { campaign: 'spring' } })
    expect(await events('checkout.created')).toMatchObject([{ data: { id: made.id, status: 'open', metadata: { campaign: 'spring' } } }])
    const { body } = await look(made)
    expect(body).toMatchObject({ id: made.id, organization: { id: organization.id } })
    expect(body).not.toHaveProperty('metadata')
    expect(body).not.toHaveProperty('external_customer_id')
    expect(new Date(made.expires_at).getTime() - new Date(made.created_at).getTime()).toBe(24 * hour)
  })

  test('one key makes one checkout', async () => {
    const { organization, book, api } = await open()
    const keyed = world.client({ token: (await organization.token()).secret }, { 'idempotency-key': 'one' })
    const first = await keyed.call(createCheckout, { body: { products: [book.id] } })
    expect(await keyed.call(createCheckout, { body: { products: [book.id] } })).toEqual(first)
    expect((await api.call(listCheckouts, {})).pagination.total_count).toBe(1)
  })
})

describe('finding', () => {
  test('every filter finds what it says, and only within the own organization', async () => {
    const { api, checkout, book, product } = await open()
    const other = await product([fixed(700)])
    const anna = await api.call(createCustomer, { body: { email: 'anna@people.test', name: 'Anna', external_id: 'a-1' } })
    const first = await checkout({ products: [book.id], customer_id: anna.id })
    const second = await checkout({ products: [other.id], customer_name: 'Bert Brown', external_customer_id: 'b-1' })
    const third = await checkout({ products: [book.id, other.id] })
    await pay(third, { customer_email: 'carla@people.test' })
    const found = async (query: object) => (await api.call(listCheckouts, { query })).items.map(({ id }) => id)
    expect(await found({})).toEqual([third.id, second.id, first.id])
    expect(await found({ product_id: [book.id] })).toEqual([third.id, first.id])
    expect(await found({ customer_id: [anna.id] })).toEqual([first.id])
    expect(await found({ external_customer_id: ['a-1', 'b-1'] })).toEqual([second.id, first.id])
    expect(await found({ status: ['open'] })).toEqual([second.id, first.id])
    expect(await found({ status: ['succeeded'] })).toEqual([third.id])
    expect(await found({ query: 'bROWN' })).toEqual([second.id])
    expect(await found({ query: 'carla@' })).toEqual([third.id])
    expect(await found({ sorting: 'created_at', limit: 2 })).toEqual([first.id, second.id])
    const stranger = await open()
    expect((await stranger.api.call(listCheckouts, {})).items).toEqual([])
    expect(await stranger.api.call(listCheckouts, { query: { product_id: [book.id] } })).toMatchObject({ items: [] })
    const absent = await api.send(getCheckout, { params: { id: newId(world.clock.wall()) } })
    const theirs = await stranger.api.send(getCheckout, { params: { id: first.id } })
    expect([theirs.status, theirs.body]).toEqual([404, absent.body])
    const change = await stranger.api.send(updateCheckout, { params: { id: first.id }, body: {} })
    expect([change.status, change.body]).toEqual([404, absent.body])
  })

  test('without a credential, without the scope, or with a wrong secret nothing opens', async () => {
    const { organization, checkout, book } = await open()
    const made = await checkout({ products: [book.id] })
    const reader = world.client({ token: (await organization.token(['checkouts:read'])).secret })
    expect((await reader.send(getCheckout, { params: { id: made.id } })).status).toBe(200)
    expect((await reader.send(createCheckout, { body: { products: [book.id] } })).status).toBe(403)
    expect((await reader.send(updateCheckout, { params: { id: made.id }, body: {} })).status).toBe(403)
    expect((await world.client().send(listCheckouts, {})).status).toBe(401)
    const other = `${made.client_secret.slice(0, -1)}${made.client_secret.endsWith('0') ? '1' : '0'}`
    const token = (await organization.token()).secret.reveal()
    for (const client_secret of [other, 'x', token, made.id])
      for (const answer of [await look({ client_secret }), await fill({ client_secret }, {}), await confirm({ client_secret })])
        expect(errorOf(answer)).toBe('404 ResourceNotFound')
  })
})

describe('filling in', () => {
  test('the seller changes what the buyer may not: urls, metadata, flags', async () => {
    const { api, checkout, book, events } = await open()
    const made = await checkout({ products: [book.id], metadata: { a: 1 } })
    const body = {
      metadata: { b: 2 },
      customer_metadata: { c: 3 },
      success_url: 'https://shop.example/ok',
      return_url: 'https://shop.example/back',
      allow_discount_codes: false,
      require_billing_address: true,
      customer_email: 'ada@people.test',
    }
    const changed = await api.call(updateCheckout, { params: { id: made.id }, body })
    expect(changed).toMatchObject(body)
    expect(await events('checkout.updated')).toMatchObject([{ data: { id: made.id, metadata: { b: 2 } } }])
    // What the buyer sends beyond what is theirs counts for nothing.
    await fill(made, { metadata: { mine: true }, success_url: 'https://evil.example', allow_discount_codes: true, discount_id: newId(world.clock.wall()) })
    expect(await api.call(getCheckout, { params: { id: made.id } })).toMatchObject({ ...body, discount_id: null })
    expect((await fill(made, { allow_trial: true })).status).toBe(422)
  })

  test('the buyer fills in who they are; the address of a customer that is known stays', async () => {
    const { api, checkout, book } = await open()
    const made = await checkout({ products: [book.id] })
    const mine = { customer_email: 'ada@people.test', customer_name: 'Ada', customer_billing_name: 'Ada Ltd', customer_billing_address: berlin, locale: 'de' }
    expect(await filled(made, mine)).toMatchObject(mine)
    expect(await filled(made, { customer_name: null })).toMatchObject({ customer_name: null, customer_email: 'ada@people.test' })
    expect(locs(await fill(made, { product_id: newId(world.clock.wall()) }))).toEqual(['body.product_id'])
    expect(locs(await fill(made, { customer_email: 'nobody' }))).toEqual(['body.customer_email'])
    const anna = await api.call(createCustomer, { body: { email: 'anna@people.test' } })
    const bound = await checkout({ products: [book.id], customer_id: anna.id })
    expect(await filled(bound, { customer_email: 'else@people.test', customer_name: 'Anna' })).toMatchObject({
      customer_email: 'anna@people.test',
      customer_name: 'Anna',
    })
  })

  test('a code counts however it is written, where codes are allowed; null takes the discount off', async () => {
    const { checkout, book, discount } = await open()
    const { id } = await discount({ code: 'SpRing' })
    const made = await checkout({ products: [book.id] })
    expect(await filled(made, { discount_code: 'sPRING' })).toMatchObject({ discount_id: id, discount_amount: 1450, total_amount: 1450, discount: { id } })
    expect(await filled(made, { customer_name: 'Ada' })).toMatchObject({ discount_id: id })
    expect(await filled(made, { discount_code: null })).toMatchObject({ discount_id: null, discount_amount: 0, total_amount: 2900, discount: null })
    expect(locs(await fill(made, { discount_code: 'nosuch' }))).toEqual(['body.discount_code'])
    const closed = await checkout({ products: [book.id], allow_discount_codes: false })
    expect(locs(await fill(closed, { discount_code: 'spring' }))).toEqual(['body.discount_code'])
    await discount({ code: 'LAST', max_redemptions: 1 })
    const first = await checkout({ products: [book.id] })
    const late = await checkout({ products: [book.id] })
    await filled(late, { discount_code: 'last' })
    await filled(first, { discount_code: 'last' })
    await pay(first)
    expect(locs(await fill(made, { discount_code: 'last' }))).toEqual(['body.discount_code'])
    // Whoever had it on the page is told when they confirm, and charged nothing.
    expect(locs(await confirm(late, buyer()))).toEqual(['body.discount_id'])
  })

  test('a code is asked of the product that is chosen with it; one that a switch makes void is dropped', async () => {
    const { checkout, book, product, discount } = await open()
    const other = await product([fixed(1000)])
    const { id } = await discount({ code: 'GUIDE', products: [book.id] })
    const made = await checkout({ products: [other.id, book.id] })
    expect(locs(await fill(made, { discount_code: 'guide' }))).toEqual(['body.discount_code'])
    expect(await filled(made, { product_id: book.id, discount_code: 'guide' })).toMatchObject({ discount_id: id, total_amount: 1450 })
    expect(locs(await fill(made, { product_id: other.id, discount_code: 'guide' }))).toEqual(['body.discount_code'])
    expect(await filled(made, { product_id: other.id })).toMatchObject({ discount_id: null, total_amount: 1000 })
  })

  test('who buys as a company and then does not leaves no company behind', async () => {
    const { checkout, book } = await open()
    const made = await checkout({ products: [book.id] })
    const company = { is_business_customer: true, customer_billing_name: 'Ada Ltd', customer_tax_id: 'DE123456788', customer_billing_address: berlin }
    expect(await filled(made, company)).toMatchObject({ is_business_customer: true, customer_tax_id: expect.any(String) as string })
    expect(await filled(made, { is_business_customer: false })).toMatchObject({
      is_business_customer: false,
      customer_tax_id: null,
      customer_billing_name: null,
      customer_billing_address: { line1: 'Rosenweg 1' },
    })
  })

  test('answers are merged while filling in, complete when confirming; what nobody asked is dropped', async () => {
    const { api, product, checkout, ordersOf } = await open()
    const field = async (type: string, slug: string, properties: object = {}) =>
      (await api.call(createCustomField, { body: { type, slug, name: slug, properties } as never })).id
    const size = await field('select', 'size', {
      options: [
        { value: 'S', label: 'S' },
        { value: 'L', label: 'L' },
      ],
    })
    const terms = await field('checkbox', 'terms')
    const note = await field('text', 'note', { max_length: 5 })
    const { id } = await product([fixed(2900)], {
      attached_custom_fields: [
        { custom_field_id: size, required: true },
        { custom_field_id: terms, required: true },
        { custom_field_id: note, required: false },
      ],
    })
    const made = await checkout({ products: [id], custom_field_data: { size: 'S', hack: 'x' } })
    expect(made.custom_field_data).toEqual({ size: 'S' })
    expect((await filled(made, { custom_field_data: { note: 'hi' } })).custom_field_data).toEqual({ size: 'S', note: 'hi' })
    expect(locs(await fill(made, { custom_field_data: { size: 'M', note: 'too long' } }))).toEqual([
      'body.custom_field_data.size',
      'body.custom_field_data.note',
    ])
    expect(locs(await confirm(made, buyer()))).toEqual(['body.custom_field_data.terms'])
    expect(locs(await confirm(made, buyer({ custom_field_data: { size: 'L', terms: false } })))).toEqual(['body.custom_field_data.terms'])
    // What is sent with the confirmation is the whole answer.
    await pay(made, { custom_field_data: { size: 'L', terms: true, hack: 1 } })
    expect(await ordersOf(made)).toMatchObject([{ custom_field_data: { size: 'L', terms: true } }])
  })

  test('only one at a time: who comes meanwhile is told, not queued', async () => {
    const { api, checkout, book } = await open()
    const made = await checkout({ products: [book.id] })
    await world.database.owner(async (owner) => {
      await owner.query('begin')
      await owner.query('select from checkouts where id = $1 for update', [made.id])
      expect(errorOf(await fill(made, {}))).toBe('409 CheckoutLocked')
      expect(errorOf(await confirm(made, buyer()))).toBe('409 CheckoutLocked')
      expect(errorOf(await api.send(updateCheckout, { params: { id: made.id }, body: {} }))).toBe('409 CheckoutLocked')
      await owner.query('rollback')
    })
    expect((await fill(made, {})).status).toBe(200)
  })
})

describe('expiring', () => {
  test('after a day it is gone for the buyer, and said so once', async () => {
    const { api, checkout, book, events } = await open()
    const made = await checkout({ products: [book.id] })
    const paid = await checkout({ products: [book.id] })
    await pay(paid)
    world.clock.advance(24 * hour - 60_000)
    expect((await look(made)).status).toBe(200)
    world.clock.advance(61_000)
    // Before anybody has noticed.
    for (const answer of [await look(made), await fill(made, {}), await confirm(made, buyer())]) expect(errorOf(answer)).toBe('410 ExpiredCheckoutError')
    expect(errorOf(await api.send(updateCheckout, { params: { id: made.id }, body: {} }))).toBe('403 NotOpenCheckout')
    for (const _ of [1, 2]) await deployment.sweep()
    expect((await api.call(getCheckout, { params: { id: made.id } })).status).toBe('expired')
    expect((await events('checkout.expired')).map(({ data }) => data.id)).toEqual([made.id])
    for (const answer of [await look(made), await fill(made, {}), await confirm(made, buyer())]) expect(errorOf(answer)).toBe('410 ExpiredCheckoutError')
    expect(errorOf(await api.send(updateCheckout, { params: { id: made.id }, body: {} }))).toBe('403 NotOpenCheckout')
    // What was paid stays to be seen.
    expect((await look(paid)).body).toMatchObject({ status: 'succeeded' })
  })
})

describe('confirming', () => {
  test('everything that is missing is told together, and nothing is charged', async () => {
    const { checkout, book, paymentsOf, seen } = await open()
    const made = await checkout({ products: [book.id] })
    expect(locs(await confirm(made))).toEqual(['body.customer_email', 'body.customer_billing_address', 'body.confirmation_token_id'])
    expect(locs(await confirm(made, buyer({ customer_billing_address: { country: 'US', state: 'US-NY' } })))).toEqual([
      'body.customer_billing_address.city',
      'body.customer_billing_address.postal_code',
      'body.customer_billing_address.line1',
    ])
    expect(locs(await confirm(made, buyer({ is_business_customer: true, customer_billing_address: berlin })))).toEqual(['body.customer_billing_name'])
    expect(locs(await confirm(made, buyer({ confirmation_token_id: 'tok_nonsense' })))).toEqual(['body.confirmation_token_id'])
    expect(await paymentsOf(made)).toEqual([])
    expect((await seen(made)).status).toBe('open')
  })

  test('once paid it is no longer open; the same token again answers the same and charges nothing more', async () => {
    const { api, checkout, book, ordersOf, paymentsOf } = await open()
    const made = await checkout({ products: [book.id] })
    const first = await pay(made)
    expect(first).toMatchObject({ status: 'confirmed', payment_processor_metadata: { intent_status: 'succeeded' } })
    const again = await pay(made)
    const { intent_client_secret: _, ...metadata } = first.payment_processor_metadata
    expect(again).toMatchObject({ id: first.id, status: 'confirmed', total_amount: 2900, payment_processor_metadata: metadata })
    expect(again.customer_session_token).not.toBeNull()
    for (const answer of [await confirm(made, buyer({ confirmation_token_id: 'tok_mastercard' })), await fill(made, {}), await confirm(made)])
      expect(errorOf(answer)).toBe('403 NotOpenCheckout')
    expect(errorOf(await api.send(updateCheckout, { params: { id: made.id }, body: {} }))).toBe('403 NotOpenCheckout')
    expect(await paymentsOf(made)).toHaveLength(1)
    expect(await ordersOf(made)).toHaveLength(1)
  })

  test('what was paid for is given once, however often it is concluded', async () => {
    const { organization, checkout, book, plan, ordersOf, api, events } = await open()
    for (const product of [book, await plan()]) {
      const made = await checkout({ products: [product.id] })
      await pay(made)
      for (const _ of [1, 2]) await jobs[0]!.run(deployment.means, { organization_id: organization.id, checkout_id: made.id } as never)
      expect(await ordersOf(made)).toHaveLength(1)
    }
    expect((await api.call(listSubscriptions, {})).items).toHaveLength(1)
    expect(await events('order.paid')).toHaveLength(2)
  })

  test('a price that changed is not charged unseen; one that was confirmed is, and the order says so', async () => {
    const { api, checkout, book, ordersOf } = await open()
    const first = await checkout({ products: [book.id] })
    const second = await checkout({ products: [book.id] })
    const waiting = await pay(first, { confirmation_token_id: 'tok_processing' })
    expect(waiting).toMatchObject({ total_amount: 2900, payment_processor_metadata: { intent_status: 'processing' } })
    await api.call(updateProduct, { params: { id: book.id }, body: { prices: [fixed(9900)] } as never })
    // Not yet confirmed: the buyer has to look again.
    expect(locs(await confirm(second, buyer()))).toEqual(['body.product_id'])
    expect(await filled(second, {})).toMatchObject({ total_amount: 9900 })
    expect((await pay(second)).total_amount).toBe(9900)
    // Confirmed: what they saw is what they get.
    world.clock.advance(61_000)
    await deployment.sweep()
    await deployment.work()
    expect(await ordersOf(first)).toMatchObject([{ status: 'paid', total_amount: 2900, items: [{ amount: 2900 }] }])
    expect((await look(first)).body).toMatchObject({ status: 'succeeded', product_price: { price_amount: 2900 } })
  })

  test('a discount that ends or moves on after the buyer confirmed still counts for them', async () => {
    const { api, checkout, book, product, discount, ordersOf } = await open()
    const other = await product([fixed(1000)])
    const half = await discount()
    const made = await checkout({ products: [book.id], discount_id: half.id })
    await pay(made, { confirmation_token_id: 'tok_processing' })
    await api.call(updateDiscount, { params: { id: half.id }, body: { products: [other.id] } })
    world.clock.advance(61_000)
    await deployment.sweep()
    await deployment.work()
    expect(await ordersOf(made)).toMatchObject([{ subtotal_amount: 2900, discount_amount: 1450, total_amount: 1450, discount_id: half.id }])
  })

  test('a product that is archived meanwhile is not sold', async () => {
    const { api, checkout, book } = await open()
    const made = await checkout({ products: [book.id] })
    await api.call(updateProduct, { params: { id: book.id }, body: { is_archived: true } })
    expect(locs(await confirm(made, buyer()))).toEqual(['body.product_id'])
  })

  test('one subscription at a time, where the seller wants it so: by customer, and by address', async () => {
    const { api, checkout, plan, settings } = await open()
    const { id } = await plan()
    await pay(await checkout({ products: [id] }))
    const [customer] = (await api.call(listCustomers, { query: { email: 'ada@people.test' } })).items
    const made = await checkout({ products: [id] })
    // Filling in an address tells nothing about whoever has it.
    expect((await fill(made, { customer_email: 'ADA@people.test' })).status).toBe(200)
    expect(errorOf(await confirm(made, buyer({ customer_email: 'ADA@people.test' })))).toBe('403 AlreadyActiveSubscriptionError')
    const bound = await checkout({ products: [id], customer_id: customer!.id })
    expect(errorOf(await api.send(updateCheckout, { params: { id: bound.id }, body: {} }))).toBe('403 AlreadyActiveSubscriptionError')
    expect((await confirm(made, buyer({ customer_email: 'bert@people.test' }))).status).toBe(200)
    await settings({ allow_multiple_subscriptions: true })
    expect((await confirm(bound, buyer())).status).toBe(200)
  })

  test('two checkouts that one customer confirms at once become one subscription', async () => {
    const { api, checkout, plan, paymentsOf } = await open()
    const { id } = await plan()
    const anna = await api.call(createCustomer, { body: { email: 'anna@people.test' } })
    for (const [customer, email] of [
      [{ customer_id: anna.id }, 'anna@people.test'],
      [{}, 'new@people.test'],
    ] as const) {
      const made = await Promise.all([1, 2, 3].map(() => checkout({ products: [id], ...customer })))
      const answers = await Promise.all(made.map((one, at) => confirm(one, buyer({ customer_email: email, confirmation_token_id: `tok_visa:${at}` }))))
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
      for (const refused of answers.filter(({ status }) => status !== 200)) expect(errorOf(refused)).toBe('403 AlreadyActiveSubscriptionError')
      expect((await Promise.all(made.map(paymentsOf))).flat()).toHaveLength(1)
    }
    // One that waits for its bank is under way too; when it is called off, there is room again.
    const [slow, quick] = [await checkout({ products: [id] }), await checkout({ products: [id] })]
    const bert = { customer_email: 'bert@people.test' }
    expect((await confirm(slow, buyer({ ...bert, confirmation_token_id: 'tok_3ds' }))).status).toBe(200)
    expect(errorOf(await confirm(quick, buyer(bert)))).toBe('403 AlreadyActiveSubscriptionError')
    world.clock.advance(2 * hour)
    await deployment.sweep()
    await deployment.work()
    expect((await confirm(quick, buyer(bert))).status).toBe(200)
  })

  test('a discount per customer is used as often as it says: by account, by any spelling of the address, by card', async () => {
    const { api, checkout, book, discount, ordersOf } = await open()
    const one = await discount({ code: 'ONCE', max_redemptions_per_customer: 1 })
    const made = () => checkout({ products: [book.id], discount_id: one.id })
    const first = await made()
    await pay(first, { customer_email: 'ada.b@gmail.com' })
    const limit = '403 DiscountRedemptionLimitReached'
    expect(errorOf(await confirm(await made(), buyer({ customer_email: 'ada.b@gmail.com', confirmation_token_id: 'tok_visa:2' })))).toBe(limit)
    expect(errorOf(await confirm(await made(), buyer({ customer_email: 'AdaB+again@gmail.com', confirmation_token_id: 'tok_visa:2' })))).toBe(limit)
    expect(errorOf(await confirm(await made(), buyer({ customer_email: 'other@people.test' })))).toBe(limit)
    const [customer] = (await api.call(listCustomers, { query: { email: 'ada.b@gmail.com' } })).items
    const bound = await checkout({ products: [book.id], customer_id: customer!.id })
    expect(errorOf(await fill(bound, { discount_code: 'once' }))).toBe(limit)
    expect((await api.call(getDiscount, { params: { id: one.id } })).redemptions_count).toBe(1)
    // Somebody else with another card is another person; and what was given back whole was not used.
    expect((await confirm(await made(), buyer({ customer_email: 'bert@people.test', confirmation_token_id: 'tok_visa:3' }))).status).toBe(200)
    const [order] = await ordersOf(first)
    await api.call(createRefund, { body: { order_id: order!.id, reason: 'other', amount: order!.refundable_amount } })
    expect((await confirm(await made(), buyer({ customer_email: 'ada.b@gmail.com', confirmation_token_id: 'tok_visa' }))).status).toBe(200)
  })

  test('a trial is given once per person or card, where the seller prevents abuse; without it they may go on', async () => {
    const { checkout, plan, settings, api } = await open()
    await settings({ prevent_trial_abuse: true, allow_multiple_subscriptions: true })
    const { id } = await plan({ trial_interval: 'day', trial_interval_count: 7 })
    const made = () => checkout({ products: [id] })
    const first = await made()
    expect(first).toMatchObject({ is_payment_required: false, is_payment_setup_required: true, active_trial_interval: 'day' })
    await pay(first)
    const refused = '403 TrialAlreadyRedeemed'
    expect(errorOf(await confirm(await made(), buyer({ customer_email: 'ada+2@people.test', confirmation_token_id: 'tok_visa:2' })))).toBe(refused)
    const second = await made()
    expect(errorOf(await confirm(second, buyer({ customer_email: 'bert@people.test' })))).toBe(refused)
    expect(await pay(second, { customer_email: 'bert@people.test', allow_trial: false })).toMatchObject({ trial_end: null, total_amount: 2900 })
    expect((await api.call(listSubscriptions, {})).items.map(({ status }) => status)).toEqual(['active', 'trialing'])
    await settings({ prevent_trial_abuse: false })
    expect((await confirm(await made(), buyer())).status).toBe(200)
  })

  test('the customer it was made for may be gone; an external id may belong to somebody else', async () => {
    const { api, checkout, book, paymentsOf } = await open()
    const anna = await api.call(createCustomer, { body: { email: 'anna@people.test' } })
    const bound = await checkout({ products: [book.id], customer_id: anna.id })
    await api.call(deleteCustomer, { params: { id: anna.id } })
    expect(errorOf(await confirm(bound, buyer()))).toBe('409 CheckoutCustomerDeleted')
    const made = await checkout({ products: [book.id], external_customer_id: 'taken' })
    await api.call(createCustomer, { body: { email: 'owner@people.test', external_id: 'taken' } })
    expect(errorOf(await confirm(made, buyer()))).toBe('422 CheckoutCustomerExternalIdMismatch')
    expect([...(await paymentsOf(bound)), ...(await paymentsOf(made))]).toEqual([])
    expect((await confirm(made, buyer({ customer_email: 'owner@people.test' }))).status).toBe(200)
  })

  test('a seller that cannot take payments yet sells only what is free', async () => {
    const { organization, checkout, book, product } = await open()
    const free = await product([fixed(0)])
    await world.database.owner((owner) => owner.query(`update organizations set status = 'created' where id = $1`, [organization.id]))
    expect(errorOf(await confirm(await checkout({ products: [book.id] }), buyer()))).toBe('403 PaymentNotReady')
    expect((await confirm(await checkout({ products: [free.id] }), { customer_email: 'ada@people.test' })).status).toBe(200)
  })

  test('who is known by more than an address they typed is let into the portal, nobody else', async () => {
    const { api, checkout, book } = await open()
    const products = [book.id]
    const fresh = await pay(await checkout({ products, external_customer_id: 'ada', customer_metadata: { plan: 'a' } }))
    const portal = world.client({ token: fresh.customer_session_token! })
    const { id } = await portal.call(getPortalCustomer, {})
    expect(await api.call(getCustomer, { params: { id } })).toMatchObject({ email: 'ada@people.test', external_id: 'ada', metadata: { plan: 'a' } })
    // The same address, typed by whoever: the purchase is theirs, the portal is not.
    const typed = await pay(await checkout({ products }), { confirmation_token_id: 'tok_visa:2' })
    expect([typed.customer_id, typed.customer_session_token]).toEqual([id, null])
    // Also not after a card was declined in between.
    const retried = await checkout({ products })
    expect(errorOf(await confirm(retried, buyer({ confirmation_token_id: 'tok_do_not_honor' })))).toBe('400 PaymentError')
    expect((await pay(retried)).customer_session_token).toBeNull()
    // The seller says who it is.
    expect((await pay(await checkout({ products, customer_id: id }))).customer_session_token).not.toBeNull()
    expect((await pay(await checkout({ products, external_customer_id: 'ada' }))).customer_session_token).not.toBeNull()
  })

  test('whoever has only typed the address they buy with gives no roles in its portal, until they have proved it', async () => {
    const { checkout, product } = await open()
    const team = await product([seated])
    const bought = await pay(await checkout({ products: [team.id], seats: 3 }), { customer_email: 'typed@people.test' })
    const typed = world.client({ token: bought.customer_session_token! })
    const add = (portal: typeof typed, role: 'member' | 'billing_manager', email: string) => portal.send(addPortalMember, { body: { email, role } })
    expect(errorOf(await add(typed, 'billing_manager', 'friend@people.test'))).toBe('403 AddressNotProved')
    const guest = await add(typed, 'member', 'guest@people.test')
    expect(guest.status).toBe(201)
    const raise = (portal: typeof typed, role: 'billing_manager' | 'owner') =>
      portal.send(updatePortalMember, { params: { id: (guest.body as { id: string }).id }, body: { role } })
    for (const role of ['billing_manager', 'owner'] as const) expect(errorOf(await raise(typed, role))).toBe('403 AddressNotProved')
    expect(errorOf(await typed.send(requestEmailUpdate, { body: { email: 'mine@people.test' } }))).toBe('403 AddressNotProved')
    // Where the seller says who it is, nothing was only typed.
    const again = await pay(await checkout({ products: [team.id], seats: 2, customer_id: bought.customer_id }))
    const known = world.client({ token: again.customer_session_token! })
    expect((await add(known, 'billing_manager', 'friend@people.test')).status).toBe(201)
    expect((await raise(known, 'billing_manager')).status).toBe(200)
  })

  test('whoever has typed an address first is shown out as soon as anybody else buys with it, or proves that it is theirs', async () => {
    const { checkout, book, organization } = await open()
    const enter = async (customer_email: string) => {
      const { customer_session_token } = await pay(await checkout({ products: [book.id] }), { customer_email })
      const portal = world.client({ token: customer_session_token! })
      expect((await portal.send(getPortalCustomer, {})).status).toBe(200)
      return async () => (await portal.send(getPortalCustomer, {})).status
    }
    const bought = await enter('victim@people.test')
    await pay(await checkout({ products: [book.id] }), { customer_email: 'Victim@people.test' })
    expect(await bought()).toBe(401)
    const proved = await enter('other@people.test')
    const email = 'other@people.test'
    await world.client().call(requestPortalCode, { body: { organization_id: organization.id, email } })
    const { rows } = await world.database.owner((owner) => owner.query<{ id: string }>('select id from customer_session_codes where email = $1', [email]))
    await mailCode(deployment.means, { organization_id: organization.id, code_id: rows[0]!.id })
    const code = codeIn((await world.mail.next(email)).text)
    const { token } = await world.client().call(authenticatePortalCode, { body: { organization_id: organization.id, email, code } })
    expect(await proved()).toBe(401)
    expect((await world.client({ token: token! }).send(getPortalCustomer, {})).status).toBe(200)
  })

  test('a card that was declined makes nobody a stranger: who came with this checkout is still let in, unless the address is or became somebody’s', async () => {
    const { api, checkout, book } = await open()
    const declined = async (ticket: Ticket, customer_email: string) =>
      expect(errorOf(await confirm(ticket, buyer({ customer_email, confirmation_token_id: 'tok_do_not_honor' })))).toBe('400 PaymentError')
    const tried = async (...addresses: string[]) => {
      const made = await checkout({ products: [book.id] })
      for (const address of addresses) await declined(made, address)
      return made
    }
    const entered = async (ticket: Ticket, customer_email: string) => (await pay(ticket, { customer_email })).customer_session_token !== null
    expect(await entered(await tried('new1@people.test'), 'new1@people.test')).toBe(true)
    expect(await entered(await tried('new2@people.test', 'new2@people.test'), 'new2@people.test')).toBe(true)
    // Somebody whom the seller knows, typed once before, or between two that were new.
    await api.call(createCustomer, { body: { email: 'known@people.test' } })
    expect(await entered(await tried('known@people.test'), 'known@people.test')).toBe(false)
    expect(await entered(await tried('new3@people.test'), 'known@people.test')).toBe(false)
    await api.call(createCustomer, { body: { email: 'known2@people.test' } })
    expect(await entered(await tried('known2@people.test', 'new4@people.test'), 'known2@people.test')).toBe(false)
    // Somebody who was new, and has bought something by another checkout since.
    const waiting = await tried('new5@people.test')
    expect(await entered(await checkout({ products: [book.id] }), 'new5@people.test')).toBe(false)
    expect(await entered(waiting, 'new5@people.test')).toBe(false)
  })

  test('a customer who pays keeps their name; what they are billed as is what they said last', async () => {
    const { api, checkout, book } = await open()
    const anna = await api.call(createCustomer, { body: { email: 'anna@people.test', name: 'Anna' } })
    await pay(await checkout({ products: [book.id], customer_id: anna.id, customer_metadata: { from: 'ad' } }), {
      customer_name: 'Somebody',
      customer_billing_name: 'Anna GmbH',
      customer_billing_address: berlin,
    })
    expect(await api.call(getCustomer, { params: { id: anna.id } })).toMatchObject({
      name: 'Anna',
      billing_name: 'Anna GmbH',
      billing_address: { city: 'Berlin' },
      metadata: { from: 'ad' },
    })
    const wallet = await checkout({ products: [book.id] })
    expect(await pay(wallet, { customer_email: 'w@people.test', confirmation_token_id: 'tok_wallet' })).toMatchObject({ customer_name: 'Wanda Wallet' })
  })

  test('a declined card leaves it open, and the next one pays; both attempts are on record', async () => {
    const { checkout, book, seen, paymentsOf, events } = await open()
    const made = await checkout({ products: [book.id] })
    const declined = await confirm(made, buyer({ confirmation_token_id: 'tok_expired_card' }))
    expect(declined).toMatchObject({ status: 400, body: { error: 'PaymentError', detail: 'The card has expired.' } })
    expect((await seen(made)).status).toBe('open')
    expect((await events('checkout.updated')).map(({ data }) => data.status)).toEqual(['confirmed', 'open'])
    await pay(made)
    expect((await paymentsOf(made)).map(({ status, decline_reason }) => [status, decline_reason])).toEqual([
      ['succeeded', null],
      ['failed', 'expired_card'],
    ])
  })
})

describe('amounts', () => {
  test('what is free, by price or by discount, asks for no card: an order of nothing, and no payment', async () => {
    const { checkout, product, book, plan, discount, ordersOf, paymentsOf, api } = await open()
    const all = await discount({ basis_points: 10_000, duration: 'forever' })
    const free = await product([fixed(0)])
    const subscribed = await plan()
    for (const [products, discount_id] of [
      [[free.id], null],
      [[book.id], all.id],
      [[subscribed.id], all.id],
    ] as const) {
      const made = await checkout({ products, discount_id })
      expect(made).toMatchObject({
        is_payment_required: false,
        is_payment_setup_required: false,
        is_payment_form_required: false,
        total_amount: 0,
        tax_amount: 0,
      })
      const answer = await confirm(made, { customer_email: `free-${products[0].slice(0, 13)}@people.test` })
      expect(answer).toMatchObject({ status: 200, body: { status: 'confirmed', payment_processor_metadata: {} } })
      await deployment.work()
      expect(await ordersOf(made)).toMatchObject([{ status: 'paid', total_amount: 0, due_amount: 0 }])
      expect(await paymentsOf(made)).toEqual([])
    }
    expect((await api.call(listSubscriptions, {})).items).toMatchObject([{ status: 'active', product_id: subscribed.id }])
    // Free once only: a card is needed for what comes later.
    const once = await discount({ basis_points: 10_000 })
    expect(await checkout({ products: [subscribed.id], discount_id: once.id })).toMatchObject({ is_payment_required: false, is_payment_setup_required: true })
  })

  test('what is less than can be charged is not charged; the order is paid and the customer owes it', async () => {
    const { checkout, product, discount, ordersOf, paymentsOf } = await open()
    const { id } = await product([fixed(100)])
    const off = await discount({ type: 'fixed', amounts: { usd: 70 }, basis_points: undefined })
    const made = await checkout({ products: [id], discount_id: off.id })
    expect(made).toMatchObject({ total_amount: 30, is_payment_required: false, is_payment_form_required: false })
    // It costs something, so it is taxed somewhere.
    expect((await confirm(made, { customer_email: 'ada@people.test' })).status).toBe(422)
    expect((await confirm(made, { customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' } })).status).toBe(200)
    await deployment.work()
    expect(await ordersOf(made)).toMatchObject([{ status: 'paid', total_amount: 30, due_amount: 30, refundable_amount: 0 }])
    expect(await paymentsOf(made)).toEqual([])
    const { rows } = await world.database.owner((owner) =>
      owner.query('select amount::int from customer_balances where organization_id = $1', [made.organization_id]),
    )
    expect(rows).toEqual([{ amount: -30 }])
  })

  test('tax is in the price or on top of it as the country has it, and none is charged to whom it is not due', async () => {
    const { api, organization, checkout, book, product, ordersOf } = await open()
    await world.database.owner((owner) => owner.query(`update organizations set country = 'US' where id = $1`, [organization.id]))
    await api.call(updateTaxSettings, {
      body: {
        provider: 'rates',
        rates: [
          { country: 'DE', rate: '19', reverse_charge: true },
          { country: 'US', state: 'US-NY', rate: '8.875', reverse_charge: false },
        ],
      } as never,
    })
    const made = await checkout({ products: [book.id] })
    expect(made).toMatchObject({ tax_amount: null, tax_behavior: null, total_amount: 2900 })
    const taxed = (customer_billing_address: object, more: object = {}) => filled(made, { customer_billing_address, ...more })
    expect(await taxed({ country: 'DE' })).toMatchObject({ tax_behavior: 'inclusive', tax_amount: 463, net_amount: 2437, total_amount: 2900 })
    expect(await taxed({ country: 'US', state: 'US-NY' })).toMatchObject({ tax_behavior: 'exclusive', tax_amount: 257, net_amount: 2900, total_amount: 3157 })
    expect(await taxed({ country: 'FR' })).toMatchObject({ tax_amount: 0, net_amount: 2900, total_amount: 2900 })
    // Where states are told apart, one that is not known yet is no reason to charge nothing.
    expect(await taxed({ country: 'US' })).toMatchObject({ tax_amount: null })
    expect(await taxed({ country: 'US', state: 'US-CA' })).toMatchObject({ tax_amount: 0 })
    const business = await taxed(berlin, { is_business_customer: true, customer_billing_name: 'Ada GmbH', customer_tax_id: 'DE123456788' })
    expect(business).toMatchObject({ tax_amount: 0, net_amount: 2900, total_amount: 2900 })
    expect(await filled(made, { is_business_customer: false })).toMatchObject({ tax_amount: 463 })
    await pay(made)
    expect(await ordersOf(made)).toMatchObject([{ tax_amount: 463, net_amount: 2437, total_amount: 2900, items: [{ tax_amount: 463 }] }])
    // The price's own word counts before the country's.
    const plus = await product([{ ...fixed(2900), tax_behavior: 'exclusive' }])
    expect(await checkout({ products: [plus.id], customer_billing_address: { country: 'DE' } })).toMatchObject({ tax_amount: 551, total_amount: 3451 })
  })

  test('a currency without smaller units is charged in whole ones', async () => {
    const { api, checkout, product, discount, ordersOf } = await open()
    await api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'JP', rate: '10', reverse_charge: false }] } as never })
    const { id } = await product([fixed(2900), fixed(333, 'jpy')])
    const half = await discount()
    const made = await checkout({ products: [id], currency: 'jpy', discount_id: half.id, customer_billing_address: { country: 'JP' } })
    // 333 / 2 is 166.5, rounded away from zero; the rest holds its tenth.
    expect(made).toMatchObject({ currency: 'jpy', amount: 333, discount_amount: 167, tax_amount: 15, net_amount: 151, total_amount: 166 })
    await pay(made, { customer_billing_address: { country: 'JP' } })
    expect(await ordersOf(made)).toMatchObject([{ currency: 'jpy', total_amount: 166, tax_amount: 15 }])
    const { charges } = await readBooks(world)
    expect(charges.filter(({ currency }) => currency === 'jpy').map(({ amount }) => amount)).toEqual([166])
  })
})
