import {
  confirmClientCheckout,
  createCheckout,
  createCustomer,
  createDiscount,
  createProduct,
  createSubscription,
  deleteCustomer,
  deleteDiscount,
  getCheckout,
  getCheckoutDraft,
  listCheckouts,
  renewClientCheckout,
  saveCheckoutDraft,
  updateClientCheckout,
  updateProduct,
  updateSubscription,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newToken } from '../../../kernel/secrets.ts'
import { days, hours, minutes } from '../../../platform/clock.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

interface Ticket {
  readonly id: string
  readonly client_secret: string
}
const fixed = (price_amount: number, price_currency = 'usd') => ({ amount_type: 'fixed', price_amount, price_currency }) as const
const seated = {
  amount_type: 'seat_based',
  price_currency: 'usd',
  seat_tiers: { seat_tier_type: 'volume', tiers: [{ min_seats: 2, max_seats: 20, price_per_seat: 500 }] },
} as const

const open = async () => {
  const shop = await world.shop()
  const { api } = shop
  const product = (prices: readonly object[], more: object = {}) => api.call(createProduct, { body: { name: 'Guide', prices, ...more } as never })
  return {
    ...shop,
    product,
    book: await product([fixed(2900)]),
    checkout: (body: object) => api.call(createCheckout, { body: body as never }),
    all: async () => (await api.call(listCheckouts, {})).items,
  }
}
const params = ({ client_secret }: Pick<Ticket, 'client_secret'>) => ({ client_secret })
const renew = (ticket: Pick<Ticket, 'client_secret'>) => world.client().send(renewClientCheckout, { params: params(ticket) })
const renewed = (ticket: Ticket) => world.client().call(renewClientCheckout, { params: params(ticket) })
const fill = (ticket: Ticket, body: object) => world.client().call(updateClientCheckout, { params: params(ticket), body })
const save = (ticket: Ticket, fields: Record<string, string>) => world.client().call(saveCheckoutDraft, { params: params(ticket), body: { fields } })
const fieldsOf = async (ticket: Ticket) => (await world.client().call(getCheckoutDraft, { params: params(ticket) })).fields
const confirm = (ticket: Ticket) =>
  world.client().call(confirmClientCheckout, {
    params: params(ticket),
    body: { customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' }, confirmation_token_id: 'tok_visa' },
  })
const errorOf = ({ status, body }: { status: number; body: unknown }) => `${status} ${(body as { error?: string }).error ?? ''}`.trim()
const reason = async (ticket: Pick<Ticket, 'client_secret'>) => {
  const answer = await renew(ticket)
  expect(errorOf(answer)).toBe('403 CheckoutNotRenewable')
  return (answer.body as unknown as { detail: string }).detail
}
const expire = async (sweep = true) => {
  world.clock.advance(24 * hours + minutes)
  if (sweep) await deployment.sweep('checkout.watch')
}

describe('renewing an expired checkout', () => {
  test('copies products, choices, buyer, terms and draft, and sells at the current catalog prices', async () => {
    const { api, product, checkout, book, events } = await open()
    const team = await product([seated], { name: 'Team', recurring_interval: 'month' })
    const made = await checkout({
      products: [team.id, book.id],
      metadata: { campaign: 'spring' },
      success_url: 'https://shop.example/ok',
      return_url: 'https://shop.example/back',
      min_seats: 3,
      trial_interval: 'day',
      trial_interval_count: 7,
      allow_discount_codes: false,
    })
    const typed = {
      product_id: team.id,
      seats: 5,
      customer_email: 'ada@people.test',
      customer_name: 'Ada',
      customer_billing_address: { country: 'DE' },
      locale: 'de',
    }
    const before = await fill(made, typed)
    await save(made, { customer_name: 'Ada L' })
    const dearer = { ...seated, seat_tiers: { ...seated.seat_tiers, tiers: [{ min_seats: 2, max_seats: 20, price_per_seat: 700 }] } }
    await api.call(updateProduct, { params: { id: team.id }, body: { prices: [dearer] } })
    await expire()
    const successor = await renewed(made)
    for (const field of ['product_id', 'seats', 'min_seats', 'customer_email', 'customer_name', 'customer_billing_address', 'locale', 'return_url'] as const)
      expect(successor[field], field).toEqual(before[field])
    expect(successor).toMatchObject({
      allow_discount_codes: false,
      success_url: 'https://shop.example/ok',
      status: 'open',
      amount: 3500,
      require_billing_address: false,
      active_trial_interval: 'day',
      active_trial_interval_count: 7,
      organization_id: made.organization_id,
    })
    expect(successor.id).not.toBe(made.id)
    expect(successor.client_secret).not.toBe(made.client_secret)
    expect(successor.products.map(({ id }) => id).toSorted()).toEqual([book.id, team.id].toSorted())
    expect(await fieldsOf(successor)).toEqual({ customer_name: 'Ada L' })
    expect(await api.call(getCheckout, { params: { id: successor.id } })).toMatchObject({ metadata: { campaign: 'spring' } })
    expect((await events('checkout.created')).map(({ data }) => data.id)).toEqual([made.id, successor.id])
    expect((await confirm(successor)).status).toBe('confirmed')
  })

  test('rejects a checkout that expired a week ago, so that an old address shows no data of the buyer, and then deletes its client secret', async () => {
    const { checkout, book } = await open()
    const [made, renewedOnce] = [await checkout({ products: [book.id] }), await checkout({ products: [book.id] })]
    for (const one of [made, renewedOnce]) await fill(one, { customer_email: 'ada@people.test', customer_name: 'Ada' })
    await expire()
    const successor = await renewed(renewedOnce)
    world.clock.advance(7 * days - 2 * hours)
    expect(errorOf(await renew(renewedOnce))).toBe('201')
    world.clock.advance(2 * hours)
    for (const one of [made, renewedOnce]) expect(await reason(one)).toContain('expired more than a week ago')
    const secrets = async (ids: readonly string[]) =>
      (await world.database.owner((owner) => owner.query('select from credentials where subject_id = any($1)', [ids]))).rows.length
    expect(await secrets([made.id, renewedOnce.id])).toBe(2)
    await deployment.sweep('checkout.watch')
    expect(await secrets([made.id, renewedOnce.id])).toBe(0)
    expect(await secrets([successor.id])).toBe(1)
    expect(errorOf(await renew(made))).toBe('404 ResourceNotFound')
  })

  test('rejects the checkout of a blocked seller', async () => {
    const { checkout, book, organization, all } = await open()
    const made = await checkout({ products: [book.id] })
    await expire()
    const become = (status: string) =>
      world.database.owner((owner) => owner.query('update organizations set status = $2 where id = $1', [organization.id, status]))
    await become('blocked')
    expect(await reason(made)).toBe('The seller sells nothing at the moment.')
    await become('active')
    expect(await all()).toHaveLength(1)
  })

  test('creates one successor, however often and however concurrently it is asked', async () => {
    const { checkout, book, all } = await open()
    const made = await checkout({ products: [book.id] })
    // The checkout counts as expired before the sweep has changed its status.
    await expire(false)
    const answers = await Promise.all(Array.from({ length: 8 }, () => renew(made)))
    for (const answer of answers) expect(['201', '409 CheckoutLocked']).toContain(errorOf(answer))
    const { id } = await renewed(made)
    for (const { status, body } of answers) if (status === 201) expect((body as Ticket).id).toBe(id)
    expect((await all()).map((one) => one.id)).toEqual([id, made.id])
  })

  test('renews the last of a chain of expired checkouts', async () => {
    const { checkout, book, all } = await open()
    const made = await checkout({ products: [book.id] })
    await expire()
    const second = await renewed(made)
    await expire()
    const third = await renewed(made)
    expect(third.id).not.toBe(second.id)
    expect((await renewed(second)).id).toBe(third.id)
    expect(await all()).toHaveLength(3)
  })

  test('rejects a checkout that is open or paid, and shows no purchase to the secret of its predecessor', async () => {
    const { checkout, book } = await open()
    const [made, paid] = [await checkout({ products: [book.id] }), await checkout({ products: [book.id] })]
    expect(await reason(made)).toBe('This checkout has not expired.')
    await confirm(paid)
    expect(await reason(paid)).toBe('This checkout has not expired.')
    await deployment.work()
    await expire()
    const successor = await renewed(made)
    await confirm(successor)
    expect(await reason(made)).toBe('This checkout was renewed, and the new one is being paid.')
    await deployment.work()
    expect(await reason(made)).toBe('This checkout was renewed, and the new one has been paid.')
  })

  test('rejects a checkout with prices of its own, and one whose product is no longer sold', async () => {
    const { api, checkout, book, product, all } = await open()
    const other = await product([fixed(500)])
    const special = await checkout({ products: [other.id, book.id], prices: { [book.id]: [fixed(100)] } })
    const archived = await checkout({ products: [other.id, book.id] })
    await expire()
    expect(await reason(special)).toContain('prices of its own')
    await api.call(updateProduct, { params: { id: other.id }, body: { is_archived: true } })
    expect(await reason(archived)).toContain('no longer sold')
    expect(await all()).toHaveLength(2)
  })

  test('leaves out other products that are no longer sold', async () => {
    const { api, checkout, book, product } = await open()
    const other = await product([fixed(500)])
    const made = await checkout({ products: [book.id, other.id] })
    await expire()
    await api.call(updateProduct, { params: { id: other.id }, body: { is_archived: true } })
    expect((await renewed(made)).products.map(({ id }) => id)).toEqual([book.id])
  })

  test('keeps a discount that still applies, and leaves out one that was deleted or used up', async () => {
    const { api, checkout, book } = await open()
    const discount = (more: object = {}) =>
      api.call(createDiscount, { body: { name: 'Half', type: 'percentage', basis_points: 5000, duration: 'once', ...more } as never })
    const [valid, gone, last] = [await discount(), await discount(), await discount({ max_redemptions: 1 })]
    const made = await Promise.all([valid, gone, last].map(({ id }) => checkout({ products: [book.id], discount_id: id })))
    const first = await checkout({ products: [book.id], discount_id: last.id })
    await confirm(first)
    await deployment.work()
    await api.call(deleteDiscount, { params: { id: gone.id } })
    await expire()
    const found = []
    for (const one of made) found.push(await renewed(one))
    expect(found.map(({ discount_id, total_amount }) => [discount_id, total_amount])).toEqual([
      [valid.id, 1450],
      [null, 2900],
      [null, 2900],
    ])
  })

  test('drops choices that no longer fit', async () => {
    const { api, checkout, product } = await open()
    const team = await product([seated, { ...seated, price_currency: 'eur' }])
    const made = await checkout({ products: [team.id], currency: 'eur', seats: 15 })
    await expire()
    const smaller = { ...seated, seat_tiers: { ...seated.seat_tiers, tiers: [{ min_seats: 2, max_seats: 10, price_per_seat: 500 }] } }
    await api.call(updateProduct, { params: { id: team.id }, body: { prices: [smaller] } })
    expect(await renewed(made)).toMatchObject({ currency: 'usd', seats: 2, total_amount: 1000 })
  })

  test("keeps the seller's bounds on seats, also if the buyer has chosen a product without seats", async () => {
    const { checkout, book, product } = await open()
    const team = await product([seated])
    const made = await checkout({ products: [team.id, book.id], min_seats: 4, max_seats: 6 })
    await fill(made, { product_id: book.id })
    await expire()
    const successor = await renewed(made)
    expect(successor).toMatchObject({ product_id: book.id, seats: null })
    expect(await fill(successor, { product_id: team.id })).toMatchObject({ seats: 4, min_seats: 4, max_seats: 6 })
  })

  test('requires the full address only if the seller requires it', async () => {
    const { checkout, book } = await open()
    const [made, strict] = [await checkout({ products: [book.id] }), await checkout({ products: [book.id], require_billing_address: true })]
    const berlin = { line1: 'Rosenweg 1', postal_code: '10115', city: 'Berlin', country: 'DE' }
    for (const one of [made, strict]) await fill(one, { customer_billing_address: berlin })
    await expire()
    expect(await renewed(made)).toMatchObject({ require_billing_address: false, customer_billing_address: berlin })
    expect(await renewed(strict)).toMatchObject({ require_billing_address: true })
  })

  test('keeps a known customer, and rejects the renewal if the customer was deleted or can no longer upgrade', async () => {
    const { api, checkout, book, product } = await open()
    const plan = (amount: number) => product([fixed(amount)], { recurring_interval: 'month' })
    const [free, pro] = [await plan(0), await plan(2500)]
    const [anna, bea] = [
      await api.call(createCustomer, { body: { email: 'anna@people.test' } }),
      await api.call(createCustomer, { body: { email: 'bea@people.test' } }),
    ]
    const { id } = await api.call(createSubscription, { body: { product_id: free.id, customer_id: anna.id } })
    const [known, doomed, upgrade] = [
      await checkout({ products: [book.id], customer_id: anna.id }),
      await checkout({ products: [book.id], customer_id: bea.id }),
      await checkout({ products: [pro.id], subscription_id: id }),
    ]
    await api.send(deleteCustomer, { params: { id: bea.id } })
    await expire()
    expect(await renewed(known)).toMatchObject({ customer_id: anna.id, customer_email: 'anna@people.test' })
    expect(errorOf(await renew(doomed))).toBe('409 CheckoutCustomerDeleted')
    await api.call(updateSubscription, { params: { id }, body: { revoke: true } as never })
    expect(await reason(upgrade)).toBe('The subscription can no longer be upgraded by a checkout.')
  })

  test('answers 404 to a wrong secret, and renews only the checkout of the presented secret', async () => {
    const [here, there] = [await open(), await open()]
    const [mine, theirs] = [await here.checkout({ products: [here.book.id] }), await there.checkout({ products: [there.book.id] })]
    await expire()
    for (const client_secret of [newToken('checkout', 'sandbox').reveal(), 'x', mine.id])
      expect(errorOf(await renew({ client_secret }))).toBe('404 ResourceNotFound')
    expect((await renewed(mine)).organization_id).toBe(here.organization.id)
    expect(await there.all()).toHaveLength(1)
    expect((await renewed(theirs)).organization_id).toBe(there.organization.id)
    expect(await here.all()).toHaveLength(2)
  })
})
