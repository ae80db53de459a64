import {
  addPortalMember,
  authenticatePortalCode,
  confirmClientCheckout,
  createCheckout,
  createCustomer,
  createCustomField,
  createDiscount,
  createMeter,
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
  resumeClientCheckout,
  updateCheckout,
  updateClientCheckout,
  updateDiscount,
  updatePortalMember,
  updateProduct,
  updateTaxSettings,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readBooks } from '../../../../test/harness/books.ts'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { codeIn } from '../../../../test/harness/mail.ts'
import { exchange, openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { newToken } from '../../../kernel/secrets.ts'
import { mailCode } from '../../customers/sessions/sessions.ts'
import { jobs } from './checkouts.api.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
beforeAll(async () => {
  world = await openWorld()
  // Jobs and sweeps run only when a test starts them.
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

/** Opens a shop with one product, and returns helpers for its checkouts. */
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
    /** Expects the checkout to be rejected, and returns the locations of the errors. */
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
const resume = (ticket: Ticket) => world.client().send(resumeClientCheckout, { params: params(ticket) })
const buyer = (more: Given = {}) => ({
  customer_email: 'ada@people.test',
  customer_billing_address: { country: 'DE' },
  confirmation_token_id: 'tok_visa',
  ...more,
})
/** Confirms the checkout and runs the jobs that follow. */
const pay = async (ticket: Ticket, more: Given = {}) => {
  const confirmed = await world.client().call(confirmClientCheckout, { params: params(ticket), body: buyer(more) as never })
  await deployment.work()
  return confirmed
}

describe('creating a checkout', () => {
  test('rejects missing, duplicate, unknown, archived and draft products and those of another seller, with the location of each problem', async () => {
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

  test('uses the requested currency or the default of the seller, and rejects a currency without a price', async () => {
    const { wrong, checkout, product } = await open()
    const { id } = await product([fixed(2900), fixed(2500, 'eur'), fixed(300, 'jpy')])
    expect(await checkout({ products: [id] })).toMatchObject({ currency: 'usd', amount: 2900 })
    expect(await checkout({ products: [id], currency: 'eur' })).toMatchObject({ currency: 'eur', amount: 2500, product_price: { price_amount: 2500 } })
    expect(await wrong({ products: [id], currency: 'gbp' })).toEqual(['body.currency'])
  })

  test('accepts a custom amount only within the bounds of its price and of the processor', async () => {
    const { wrong, checkout, product, book } = await open()
    const { id } = await product([{ amount_type: 'custom', minimum_amount: 500, maximum_amount: 5000, preset_amount: 900 }])
    expect(await checkout({ products: [id] })).toMatchObject({ amount: 900 })
    for (const amount of [500, 5000]) expect(await checkout({ products: [id], amount })).toMatchObject({ amount })
    for (const amount of [499, 5001]) expect(await wrong({ products: [id], amount })).toEqual(['body.amount'])
    const free = await product([{ amount_type: 'custom', minimum_amount: 0 }])
    expect(await checkout({ products: [free.id], amount: 0 })).toMatchObject({ amount: 0, is_payment_required: false })
    expect(await checkout({ products: [free.id], amount: 50 })).toMatchObject({ amount: 50, is_payment_required: true })
    for (const amount of [1, 49, 100_000_000]) expect(await wrong({ products: [free.id], amount })).toEqual(['body.amount'])
    // The requested amount is ignored for a product with a fixed price.
    expect(await checkout({ products: [book.id], amount: 1 })).toMatchObject({ amount: 2900 })
  })

  test('accepts seats only within the tiers and the bounds of the seller, and only for products sold by the seat', async () => {
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

  test("keeps the seller's seat bounds when the buyer switches to another product and back", async () => {
    const { checkout, product, book } = await open()
    const team = await product([seated])
    const made = await checkout({ products: [team.id, book.id], min_seats: 5, max_seats: 8 })
    expect(await filled(made, { product_id: book.id })).toMatchObject({ seats: null, min_seats: null, max_seats: null, amount: 2900 })
    expect(locs(await fill(made, { product_id: team.id, seats: 4 }))).toEqual(['body.seats'])
    expect(await filled(made, { product_id: team.id })).toMatchObject({ seats: 5, min_seats: 5, max_seats: 8, amount: 2500 })
  })

  test("prefills data of a customer found by id or external id, and the owner's email address for a team", async () => {
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

  test('requires a country for a tax id, and the whole address if the request has more than country and taxable state', async () => {
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
    // The ZIP code of a buyer in the US determines the state.
    const zip = { country: 'required', state: 'disabled', ...nothing, postal_code: 'required' }
    for (const more of [{}, { state: 'US-NY' }, { postal_code: '10001' }]) expect(await asked({ country: 'US', ...more })).toEqual([false, zip])
    expect(await asked({ country: 'US', city: 'Troy' })).toEqual([true, { country: 'required', state: 'required', ...whole }])
    expect(await asked(berlin)).toEqual([true, { country: 'required', state: 'optional', ...whole }])
    expect(await asked({ country: 'DE', state: 'Berlin' })).toEqual([true, { country: 'required', state: 'optional', ...whole }])
  })

  test('puts the checkout id into the success URL, and uses our confirmation page if there is none', async () => {
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

  test('shows and charges ad-hoc prices, and keeps them when the product or the currency changes', async () => {
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
    // Ad-hoc prices do not change the catalog, and are validated like catalog prices.
    expect((await checkout({ products: [book.id] })).amount).toBe(2900)
    expect(await wrong({ products: [book.id], prices: { [book.id]: [fixed(3)] } })).toEqual([`body.prices.${book.id}.0.price_amount`])
    expect(await wrong({ products: [book.id], prices: { [other.id]: [fixed(300)] } })).toEqual([`body.prices.${other.id}`])
  })

  test('rejects a discount that is unknown, used up, not started, of another seller, or for another product or currency', async () => {
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

  test('emits checkout.created, and shows the checkout without metadata to the holder of its client secret', async () => {
    const { checkout, book, events, organization } = await open()
    const made = await checkout({ products: [book.id], metadata: { campaign: 'spring' } })
    expect(await events('checkout.created')).toMatchObject([{ data: { id: made.id, status: 'open', metadata: { campaign: 'spring' } } }])
    const { body } = await look(made)
    expect(body).toMatchObject({ id: made.id, organization: { id: organization.id } })
    expect(body).not.toHaveProperty('metadata')
    expect(body).not.toHaveProperty('external_customer_id')
    expect(new Date(made.expires_at).getTime() - new Date(made.created_at).getTime()).toBe(24 * hour)
  })

  test('creates one checkout per idempotency key', async () => {
    const { organization, book, api } = await open()
    const keyed = world.client({ token: (await organization.token()).secret }, { 'idempotency-key': 'one' })
    const first = await keyed.call(createCheckout, { body: { products: [book.id] } })
    expect(await keyed.call(createCheckout, { body: { products: [book.id] } })).toEqual(first)
    expect((await api.call(listCheckouts, {})).pagination.total_count).toBe(1)
  })
})

describe('listing and reading checkouts', () => {
  test('filters checkouts, and shows only those of the caller’s organization', async () => {
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

  test('lists checkouts that share products in the same form in which each of them is read', async () => {
    const { api, checkout, seen, book, plan, product, discount } = await open()
    const [guide, monthly] = [await product([fixed(4900, 'eur'), fixed(5900)]), await plan()]
    const half = await discount({ products: [guide.id] })
    const made = [
      await checkout({ products: [guide.id, book.id, monthly.id], discount_id: half.id }),
      await checkout({ products: [monthly.id, book.id], prices: { [book.id]: [fixed(100)] } }),
      await checkout({ products: [guide.id, book.id] }),
    ]
    await pay(made[2]!)
    const { items } = await api.call(listCheckouts, { query: { sorting: 'created_at' } })
    expect(items).toEqual([await seen(made[0]!), await seen(made[1]!), await seen(made[2]!)])
    expect(items.map(({ products }) => products.map(({ id, prices }) => [id, prices.length]))).toEqual([
      [
        [guide.id, 2],
        [book.id, 1],
        [monthly.id, 1],
      ],
      [
        [monthly.id, 1],
        [book.id, 1],
      ],
      // The paid checkout keeps only the confirmed price, although another checkout shares the product.
      [
        [guide.id, 1],
        [book.id, 1],
      ],
    ])
  })

  test('rejects requests without a credential, without the required scope or with a wrong client secret', async () => {
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

describe('updating a checkout', () => {
  test('lets only the seller change URLs, metadata and flags', async () => {
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
    // Fields that only the seller may set are ignored in the buyer's request.
    await fill(made, { metadata: { mine: true }, success_url: 'https://evil.example', allow_discount_codes: true, discount_id: newId(world.clock.wall()) })
    expect(await api.call(getCheckout, { params: { id: made.id } })).toMatchObject({ ...body, discount_id: null })
    expect((await fill(made, { allow_trial: true })).status).toBe(422)
  })

  test('lets the buyer fill in personal data, but not change the email address of a known customer', async () => {
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

  test('applies a discount code case-insensitively where codes are allowed, and removes the discount with null', async () => {
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
    // This checkout applied the code before it was used up. Its confirmation is rejected, and the buyer is not charged.
    expect(locs(await confirm(late, buyer()))).toEqual(['body.discount_id'])
  })

  test('checks a discount code against the product in the same request, and drops a discount that does not apply to a newly chosen product', async () => {
    const { checkout, book, product, discount } = await open()
    const other = await product([fixed(1000)])
    const { id } = await discount({ code: 'GUIDE', products: [book.id] })
    const made = await checkout({ products: [other.id, book.id] })
    expect(locs(await fill(made, { discount_code: 'guide' }))).toEqual(['body.discount_code'])
    expect(await filled(made, { product_id: book.id, discount_code: 'guide' })).toMatchObject({ discount_id: id, total_amount: 1450 })
    expect(locs(await fill(made, { product_id: other.id, discount_code: 'guide' }))).toEqual(['body.discount_code'])
    expect(await filled(made, { product_id: other.id })).toMatchObject({ discount_id: null, total_amount: 1000 })
  })

  test('clears company name and tax id when the buyer no longer buys as a business', async () => {
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

  test('merges custom field answers on update, requires complete answers on confirm, and drops unknown fields', async () => {
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
    // The answers sent with the confirmation replace all earlier ones.
    await pay(made, { custom_field_data: { size: 'L', terms: true, hack: 1 } })
    expect(await ordersOf(made)).toMatchObject([{ custom_field_data: { size: 'L', terms: true } }])
  })

  test('answers 409 to a second request while the checkout is locked, instead of queueing it', async () => {
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

describe('expiring a checkout', () => {
  test('expires an open checkout after a day for buyer and seller, and emits checkout.expired once', async () => {
    const { api, checkout, book, events } = await open()
    const made = await checkout({ products: [book.id] })
    const paid = await checkout({ products: [book.id] })
    await pay(paid)
    world.clock.advance(24 * hour - 60_000)
    expect((await look(made)).status).toBe(200)
    world.clock.advance(61_000)
    // The checkout counts as expired even before the sweep has changed its status.
    for (const answer of [await look(made), await fill(made, {}), await confirm(made, buyer()), await resume(made)])
      expect(errorOf(answer)).toBe('410 ExpiredCheckoutError')
    expect(errorOf(await api.send(updateCheckout, { params: { id: made.id }, body: {} }))).toBe('403 NotOpenCheckout')
    for (const _ of [1, 2]) await deployment.sweep()
    expect((await api.call(getCheckout, { params: { id: made.id } })).status).toBe('expired')
    expect((await events('checkout.expired')).map(({ data }) => data.id)).toEqual([made.id])
    for (const answer of [await look(made), await fill(made, {}), await confirm(made, buyer()), await resume(made)])
      expect(errorOf(answer)).toBe('410 ExpiredCheckoutError')
    expect(errorOf(await api.send(updateCheckout, { params: { id: made.id }, body: {} }))).toBe('403 NotOpenCheckout')
    // A paid checkout does not expire.
    expect((await api.call(getCheckout, { params: { id: paid.id } })).status).toBe('succeeded')
  })
})

describe('confirming a checkout', () => {
  test('emits events with the same products, prices and discount that a later read of the checkout returns', async () => {
    const { product, book, discount, checkout, seen, events, api } = await open()
    const meter = await api.call(createMeter, { body: { name: 'Calls', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'count' } } })
    const metered = { amount_type: 'metered_unit', price_currency: 'usd', meter_id: meter.id, unit_amount: '2.5' } as const
    const guide = await product([fixed(4900, 'eur'), fixed(5900)])
    const plan = await product([fixed(900)], { name: 'Plan', recurring_interval: 'month' })
    const half = await discount({ max_redemptions: 5, products: [guide.id] })
    const made = await checkout({ products: [guide.id, plan.id, book.id], discount_id: half.id, prices: { [plan.id]: [fixed(700), metered] } })
    const shown = ({ products, product: chosen, prices, product_price, discount: applied, amount, status }: Given) =>
      JSON.parse(JSON.stringify({ products, chosen, prices, product_price, applied, amount, status })) as unknown
    const expectSame = async (kind: string) => expect(shown((await events(kind)).at(-1)!.data)).toEqual(shown(await seen(made)))
    await expectSame('checkout.created')
    expect(shown(made)).toEqual(shown(await seen(made)))
    expect(shown(await filled(made, { customer_name: 'Ada' }))).toEqual(shown(await seen(made)))
    await expectSame('checkout.updated')
    expect((await confirm(made, buyer())).status).toBe(200)
    await expectSame('checkout.updated')
    // The confirmed checkout shows only the confirmed price of the product, not the one in euros.
    expect(await seen(made)).toMatchObject({ status: 'confirmed', product: { prices: [{ price_currency: 'usd' }] } })
    await deployment.work()
    await expectSame('checkout.updated')
  })

  test('reports all missing fields together, and charges nothing', async () => {
    const { checkout, book, paymentsOf, seen } = await open()
    const made = await checkout({ products: [book.id] })
    expect(locs(await confirm(made))).toEqual(['body.customer_email', 'body.customer_billing_address', 'body.confirmation_token_id'])
    expect(locs(await confirm(made, buyer({ customer_billing_address: { country: 'US', state: 'US-NY' } })))).toEqual([
      'body.customer_billing_address.postal_code',
    ])
    const company = { is_business_customer: true, customer_billing_name: 'Ada Inc', customer_billing_address: { country: 'US' } }
    expect(locs(await confirm(made, buyer(company)))).toEqual(['state', 'city', 'postal_code', 'line1'].map((part) => `body.customer_billing_address.${part}`))
    await filled(made, { is_business_customer: false })
    expect(locs(await confirm(made, buyer({ is_business_customer: true, customer_billing_address: berlin })))).toEqual(['body.customer_billing_name'])
    expect(locs(await confirm(made, buyer({ confirmation_token_id: 'tok_nonsense' })))).toEqual(['body.confirmation_token_id'])
    expect(await paymentsOf(made)).toEqual([])
    expect((await seen(made)).status).toBe('open')
  })

  test('answers a repeated confirmation with the same token without a second charge, and rejects other changes after payment', async () => {
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

  test('creates one order or subscription, even if a paid checkout is concluded several times', async () => {
    const { organization, checkout, book, plan, ordersOf, api, events } = await open()
    for (const product of [book, await plan()]) {
      const made = await checkout({ products: [product.id] })
      await pay(made)
      for (const _ of [1, 2]) await jobs[0]!.run(deployment.deps, { organization_id: organization.id, checkout_id: made.id } as never)
      expect(await ordersOf(made)).toHaveLength(1)
    }
    expect((await api.call(listSubscriptions, {})).items).toHaveLength(1)
    expect(await events('order.paid')).toHaveLength(2)
  })

  test('rejects a confirmation after a price change, and charges the confirmed price if the change came later', async () => {
    const { api, checkout, book, ordersOf } = await open()
    const first = await checkout({ products: [book.id] })
    const second = await checkout({ products: [book.id] })
    const waiting = await pay(first, { confirmation_token_id: 'tok_processing' })
    expect(waiting).toMatchObject({ total_amount: 2900, payment_processor_metadata: { intent_status: 'processing' } })
    await api.call(updateProduct, { params: { id: book.id }, body: { prices: [fixed(9900)] } as never })
    // The second checkout was not confirmed before the change, so its buyer has to see the new price first.
    expect(locs(await confirm(second, buyer()))).toEqual(['body.product_id'])
    expect(await filled(second, {})).toMatchObject({ total_amount: 9900 })
    expect((await pay(second)).total_amount).toBe(9900)
    // The first checkout was confirmed before the change, so its buyer is charged the old price.
    world.clock.advance(61_000)
    await deployment.sweep()
    await deployment.work()
    expect(await ordersOf(first)).toMatchObject([{ status: 'paid', total_amount: 2900, items: [{ amount: 2900 }] }])
    expect((await look(first)).body).toMatchObject({ status: 'succeeded', product_price: { price_amount: 2900 } })
  })

  test('applies the confirmed discount even if it no longer covers the product when the payment succeeds', async () => {
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

  test('rejects the confirmation of a product that was archived meanwhile', async () => {
    const { api, checkout, book } = await open()
    const made = await checkout({ products: [book.id] })
    await api.call(updateProduct, { params: { id: book.id }, body: { is_archived: true } })
    expect(locs(await confirm(made, buyer()))).toEqual(['body.product_id'])
  })

  test('rejects a second subscription of the same customer or email address, unless the seller allows several', async () => {
    const { api, checkout, plan, settings } = await open()
    const { id } = await plan()
    await pay(await checkout({ products: [id] }))
    const [customer] = (await api.call(listCustomers, { query: { email: 'ada@people.test' } })).items
    const made = await checkout({ products: [id] })
    // Filling in an email address does not reveal whether its owner has a subscription.
    expect((await fill(made, { customer_email: 'ADA@people.test' })).status).toBe(200)
    expect(errorOf(await confirm(made, buyer({ customer_email: 'ADA@people.test' })))).toBe('403 AlreadyActiveSubscriptionError')
    const bound = await checkout({ products: [id], customer_id: customer!.id })
    expect(errorOf(await api.send(updateCheckout, { params: { id: bound.id }, body: {} }))).toBe('403 AlreadyActiveSubscriptionError')
    expect((await confirm(made, buyer({ customer_email: 'bert@people.test' }))).status).toBe(200)
    await settings({ allow_multiple_subscriptions: true })
    expect((await confirm(bound, buyer())).status).toBe(200)
  })

  test('creates one subscription when a customer confirms several checkouts at the same time', async () => {
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
    // A confirmed checkout that waits for 3-D Secure counts as a subscription. After its payment is canceled, another checkout may be confirmed.
    const [slow, quick] = [await checkout({ products: [id] }), await checkout({ products: [id] })]
    const bert = { customer_email: 'bert@people.test' }
    expect((await confirm(slow, buyer({ ...bert, confirmation_token_id: 'tok_3ds' }))).status).toBe(200)
    expect(errorOf(await confirm(quick, buyer(bert)))).toBe('403 AlreadyActiveSubscriptionError')
    world.clock.advance(2 * hour)
    await deployment.sweep()
    await deployment.work()
    expect((await confirm(quick, buyer(bert))).status).toBe(200)
  })

  test('counts redemptions of a discount per customer by customer id, by normalized email address and by card', async () => {
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
    // A buyer with another address and another card counts as another customer. A fully refunded redemption does not count.
    expect((await confirm(await made(), buyer({ customer_email: 'bert@people.test', confirmation_token_id: 'tok_visa:3' }))).status).toBe(200)
    const [order] = await ordersOf(first)
    await api.call(createRefund, { body: { order_id: order!.id, reason: 'other', amount: order!.refundable_amount } })
    expect((await confirm(await made(), buyer({ customer_email: 'ada.b@gmail.com', confirmation_token_id: 'tok_visa' }))).status).toBe(200)
  })

  test('rejects a second trial of a person or card if the seller prevents trial abuse, but sells the product without a trial', async () => {
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

  test('charges nothing if the seller has removed the trial or raised the discounted price, until the buyer has seen the new amount', async () => {
    const { checkout, plan, book, discount, api, paymentsOf } = await open()
    const { id } = await plan({ trial_interval: 'day', trial_interval_count: 7 })
    const trial = await checkout({ products: [id] })
    const half = await discount({})
    const cheap = await checkout({ products: [book.id], discount_id: half.id, customer_billing_address: { country: 'DE' } })
    await api.call(updateProduct, { params: { id }, body: { trial_interval: null, trial_interval_count: null } })
    await api.call(updateDiscount, { params: { id: half.id }, body: { basis_points: 1000 } })
    for (const [made, amount] of [
      [trial, 2900],
      [cheap, 2610],
    ] as const) {
      const refused = await confirm(made, buyer())
      expect([refused.status, locs(refused)]).toEqual([422, ['body.product_id']])
      expect(JSON.stringify(refused.body)).toContain(`is now ${amount} instead of ${made === trial ? 0 : 1450}`)
      expect(await paymentsOf(made)).toEqual([])
      expect(await filled(made, {})).toMatchObject({ total_amount: amount, is_payment_required: true, trial_end: null })
      expect(await pay(made)).toMatchObject({ total_amount: amount })
    }
  })

  test('rejects a checkout whose customer was deleted, or whose external id belongs to another customer', async () => {
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

  test('sells only free products for a seller that cannot take payments yet', async () => {
    const { organization, checkout, book, product } = await open()
    const free = await product([fixed(0)])
    await world.database.owner((owner) => owner.query(`update organizations set status = 'created' where id = $1`, [organization.id]))
    expect(errorOf(await confirm(await checkout({ products: [book.id] }), buyer()))).toBe('403 PaymentNotReady')
    expect((await confirm(await checkout({ products: [free.id] }), { customer_email: 'ada@people.test' })).status).toBe(200)
  })

  test('opens a portal session for a new customer or one named by the seller, but not for the typed address of a known customer', async () => {
    const { api, checkout, book } = await open()
    const products = [book.id]
    const fresh = await pay(await checkout({ products, external_customer_id: 'ada', customer_metadata: { plan: 'a' } }))
    const portal = world.client({ token: fresh.customer_session_token! })
    const { id } = await portal.call(getPortalCustomer, {})
    expect(await api.call(getCustomer, { params: { id } })).toMatchObject({ email: 'ada@people.test', external_id: 'ada', metadata: { plan: 'a' } })
    // The same address typed again: the purchase belongs to the customer, but no portal session is opened.
    const typed = await pay(await checkout({ products }), { confirmation_token_id: 'tok_visa:2' })
    expect([typed.customer_id, typed.customer_session_token]).toEqual([id, null])
    // After a declined card, there is still no portal session for the known address.
    const retried = await checkout({ products })
    expect(errorOf(await confirm(retried, buyer({ confirmation_token_id: 'tok_do_not_honor' })))).toBe('400 PaymentError')
    expect((await pay(retried)).customer_session_token).toBeNull()
    // The seller has named the customer by id or external id, so a portal session is opened.
    expect((await pay(await checkout({ products, customer_id: id }))).customer_session_token).not.toBeNull()
    expect((await pay(await checkout({ products, external_customer_id: 'ada' }))).customer_session_token).not.toBeNull()
  })

  test('rejects changes of roles and of the email address in a portal session with an unverified address', async () => {
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
    // A session for a customer that the seller has named may make these changes.
    const again = await pay(await checkout({ products: [team.id], seats: 2, customer_id: bought.customer_id }))
    const known = world.client({ token: again.customer_session_token! })
    expect((await add(known, 'billing_manager', 'friend@people.test')).status).toBe(201)
    expect((await raise(known, 'billing_manager')).status).toBe(200)
  })

  test('ends a portal session with an unverified address when another buyer uses the address or its owner verifies it', async () => {
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
    await mailCode(deployment.deps, { organization_id: organization.id, code_id: rows[0]!.id })
    const code = codeIn((await world.mail.next(email)).text)
    const { token } = await world.client().call(authenticatePortalCode, { body: { organization_id: organization.id, email, code } })
    expect(await proved()).toBe(401)
    expect((await world.client({ token: token! }).send(getPortalCustomer, {})).status).toBe(200)
  })

  test('opens a portal session after a declined card only if this checkout created the customer and nothing else has used it', async () => {
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
    // The paid address belongs to a known customer. Earlier declined attempts used the same or a new address.
    await api.call(createCustomer, { body: { email: 'known@people.test' } })
    expect(await entered(await tried('known@people.test'), 'known@people.test')).toBe(false)
    expect(await entered(await tried('new3@people.test'), 'known@people.test')).toBe(false)
    await api.call(createCustomer, { body: { email: 'known2@people.test' } })
    expect(await entered(await tried('known2@people.test', 'new4@people.test'), 'known2@people.test')).toBe(false)
    // The address was new at the declined attempt, and was then used in another checkout.
    const waiting = await tried('new5@people.test')
    expect(await entered(await checkout({ products: [book.id] }), 'new5@people.test')).toBe(false)
    expect(await entered(waiting, 'new5@people.test')).toBe(false)
  })

  test('keeps the name of a known customer, but updates the billing data to those of the checkout', async () => {
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

  test('adds only absent fields and metadata keys to a known customer if the buyer is unverified', async () => {
    const { api, checkout, book } = await open()
    const known = await api.call(createCustomer, { body: { email: 'known@people.test', name: 'Kim', locale: 'de', metadata: { plan: 'gold', seats: 5 } } })
    const read = () => api.call(getCustomer, { params: { id: known.id } })
    const company = { is_business_customer: true, customer_billing_address: berlin, customer_billing_name: 'First GmbH', customer_tax_id: 'DE136695976' }
    const typed = { customer_email: 'known@people.test', customer_name: 'Mallory', locale: 'en' }
    const first = await checkout({ products: [book.id], external_customer_id: 'mine', customer_metadata: { plan: 'free', campaign: 'spring' } })
    expect((await pay(first, { ...typed, ...company })).customer_id).toBe(known.id)
    const filled = {
      name: 'Kim',
      locale: 'de',
      external_id: null,
      billing_name: 'First GmbH',
      billing_address: { city: 'Berlin' },
      metadata: { plan: 'gold', seats: 5, campaign: 'spring' },
    }
    const after = await read()
    expect(after).toMatchObject(filled)
    expect(after.metadata).toEqual(filled.metadata)
    const second = await checkout({ products: [book.id], customer_metadata: { campaign: 'autumn', plan: 'none' } })
    const other = { ...company, customer_billing_address: { ...berlin, city: 'Bonn' }, customer_billing_name: 'Second GmbH', customer_tax_id: 'DE123456788' }
    await pay(second, { ...typed, ...other, confirmation_token_id: 'tok_visa:2' })
    expect(await read()).toEqual(after)
  })

  test('answers 404 to the client secret ten minutes after the checkout has succeeded', async () => {
    const { checkout, book, seen } = await open()
    const made = await checkout({ products: [book.id] })
    const credentials = async () => (await world.database.owner((owner) => owner.query('select from credentials where subject_id = $1', [made.id]))).rows.length
    await pay(made, { customer_email: 'once@people.test', customer_name: 'Once' })
    world.clock.advance(10 * 60_000 - 5_000)
    await deployment.sweep('checkout.watch')
    expect((await look(made)).body).toMatchObject({ status: 'succeeded', customer_email: 'once@people.test', customer_name: 'Once' })
    world.clock.advance(6_000)
    const stranger = await look({ client_secret: newToken('checkout', 'sandbox').reveal() })
    const answers = async () => [await look(made), await fill(made, {}), await confirm(made, buyer({ customer_email: 'once@people.test' }))]
    // The secret is rejected on time, even before the sweep deletes its credential.
    expect(await credentials()).toBe(1)
    for (const answer of await answers()) expect([answer.status, answer.body]).toEqual([404, stranger.body])
    await deployment.sweep('checkout.watch')
    expect(await credentials()).toBe(0)
    for (const answer of await answers()) expect([answer.status, answer.body]).toEqual([404, stranger.body])
    expect(await seen(made)).toMatchObject({ status: 'succeeded', customer_email: 'once@people.test' })
  })

  test('shows the page of a paid checkout as closed and without buyer data after its client secret has expired', async () => {
    const { checkout, book } = await open()
    const made = await checkout({ products: [book.id] })
    const entered = await exchange(world.port, 'GET', new URL(made.url).pathname)
    const cookie = entered.headers.get('set-cookie')!.split(';')[0]!
    const visit = () => exchange(world.port, 'GET', `/checkout/${made.id}`, { cookie })
    await pay(made, { customer_email: 'page@people.test' })
    const thanks = await visit()
    expect([thanks.status, thanks.text.includes('page@people.test')]).toEqual([200, true])
    world.clock.advance(11 * 60_000)
    const closed = await visit()
    expect([closed.status, closed.text.includes('page@people.test')]).toEqual([410, false])
    expect(closed.text).toContain('This checkout is closed')
  })

  test('keeps the client secret for ten minutes after the payment succeeds, even if the confirmation was an hour earlier', async () => {
    const { checkout, book } = await open()
    const made = await checkout({ products: [book.id] })
    await pay(made, { confirmation_token_id: 'tok_processing' })
    expect((await look(made)).body).toMatchObject({ status: 'confirmed' })
    world.clock.advance(hour)
    await deployment.sweep()
    await deployment.work()
    expect((await look(made)).body).toMatchObject({ status: 'succeeded', customer_email: 'ada@people.test' })
    world.clock.advance(11 * 60_000)
    expect((await look(made)).status).toBe(404)
  })

  test('stays open after a declined card, accepts the next card, and records both attempts', async () => {
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
  test('needs no card for a free purchase, and creates a paid order of zero without a payment', async () => {
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
    // The discount makes only the first period free. Later periods need a stored card.
    const once = await discount({ basis_points: 10_000 })
    expect(await checkout({ products: [subscribed.id], discount_id: once.id })).toMatchObject({ is_payment_required: false, is_payment_setup_required: true })
  })

  test('marks an order below the chargeable minimum as paid, and books the amount as debt of the customer', async () => {
    const { checkout, product, discount, ordersOf, paymentsOf } = await open()
    const { id } = await product([fixed(100)])
    const off = await discount({ type: 'fixed', amounts: { usd: 70 }, basis_points: undefined })
    const made = await checkout({ products: [id], discount_id: off.id })
    expect(made).toMatchObject({ total_amount: 30, is_payment_required: false, is_payment_form_required: false })
    // The total is above zero, so a billing address is required to compute the tax.
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

  test('computes inclusive or exclusive tax by country, and none where no tax is due', async () => {
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
    // A country with rates by state has an unknown tax, not a zero tax, until the state is known.
    expect(await taxed({ country: 'US' })).toMatchObject({ tax_amount: null })
    expect(await taxed({ country: 'US', state: 'US-CA' })).toMatchObject({ tax_amount: 0 })
    const business = await taxed(berlin, { is_business_customer: true, customer_billing_name: 'Ada GmbH', customer_tax_id: 'DE123456788' })
    expect(business).toMatchObject({ tax_amount: 0, net_amount: 2900, total_amount: 2900 })
    expect(await filled(made, { is_business_customer: false })).toMatchObject({ tax_amount: 463 })
    await pay(made)
    expect(await ordersOf(made)).toMatchObject([{ tax_amount: 463, net_amount: 2437, total_amount: 2900, items: [{ tax_amount: 463 }] }])
    // The tax behavior of the price takes precedence over the country's.
    const plus = await product([{ ...fixed(2900), tax_behavior: 'exclusive' }])
    expect(await checkout({ products: [plus.id], customer_billing_address: { country: 'DE' } })).toMatchObject({ tax_amount: 551, total_amount: 3451 })
  })

  test('charges a zero-decimal currency in whole units', async () => {
    const { api, checkout, product, discount, ordersOf } = await open()
    await api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'JP', rate: '10', reverse_charge: false }] } as never })
    const { id } = await product([fixed(2900), fixed(333, 'jpy')])
    const half = await discount()
    const made = await checkout({ products: [id], currency: 'jpy', discount_id: half.id, customer_billing_address: { country: 'JP' } })
    // 333 / 2 is 166.5, rounded away from zero. The remaining amount includes 10 % tax.
    expect(made).toMatchObject({ currency: 'jpy', amount: 333, discount_amount: 167, tax_amount: 15, net_amount: 151, total_amount: 166 })
    await pay(made, { customer_billing_address: { country: 'JP' } })
    expect(await ordersOf(made)).toMatchObject([{ currency: 'jpy', total_amount: 166, tax_amount: 15 }])
    const { charges } = await readBooks(world)
    expect(charges.filter(({ currency }) => currency === 'jpy').map(({ amount }) => amount)).toEqual([166])
  })
})
