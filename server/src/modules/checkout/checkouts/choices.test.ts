import {
  confirmClientCheckout,
  createCheckout,
  createDiscount,
  createProduct,
  getCheckout,
  getClientCheckout,
  updateClientCheckout,
  updateTaxSettings,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newToken } from '../../../kernel/secrets.ts'
import { hours } from '../../../platform/clock.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

interface Ticket {
  readonly id: string
  readonly client_secret: string
}
const fixed = (price_amount: number, price_currency = 'usd') => ({ amount_type: 'fixed', price_amount, price_currency }) as const
const berlin = { line1: 'Rosenweg 1', postal_code: '10115', city: 'Berlin', country: 'DE' } as const

const open = async () => {
  const shop = await world.shop()
  const { api } = shop
  const product = (prices: readonly object[]) => api.call(createProduct, { body: { name: 'Guide', prices } as never })
  return {
    ...shop,
    product,
    checkout: async (prices: readonly object[], body: object = {}) => api.call(createCheckout, { body: { products: [(await product(prices)).id], ...body } }),
    taxes: (...rates: object[]) => api.call(updateTaxSettings, { body: { provider: 'rates', rates } as never }),
    seen: ({ id }: Ticket) => api.call(getCheckout, { params: { id } }),
  }
}
const params = ({ client_secret }: Pick<Ticket, 'client_secret'>) => ({ client_secret })
const look = (ticket: Ticket) => world.client().call(getClientCheckout, { params: params(ticket) })
const fill = (ticket: Pick<Ticket, 'client_secret'>, body: object) => world.client().send(updateClientCheckout, { params: params(ticket), body })
const filled = (ticket: Ticket, body: object) => world.client().call(updateClientCheckout, { params: params(ticket), body })
const locs = ({ body }: { body: unknown }) => (body as { detail: { loc: string[] }[] }).detail.map(({ loc }) => loc.join('.'))
const errorOf = ({ status, body }: { status: number; body: unknown }) => `${status} ${(body as { error?: string }).error ?? ''}`.trim()

describe('the currency of a checkout, chosen by the buyer', () => {
  test('recomputes price and tax in the chosen currency, and emits checkout.updated', async () => {
    const { checkout, taxes, events, seen } = await open()
    await taxes({ country: 'DE', rate: '19', reverse_charge: true })
    const made = await checkout([fixed(2900), fixed(2500, 'eur'), fixed(300, 'jpy')], { customer_billing_address: { country: 'DE' } })
    expect(made).toMatchObject({ currency: 'usd', total_amount: 2900, tax_amount: 463 })
    expect(await filled(made, { currency: 'eur' })).toMatchObject({ currency: 'eur', amount: 2500, tax_amount: 399, net_amount: 2101, total_amount: 2500 })
    expect(await filled(made, { currency: 'jpy' })).toMatchObject({ currency: 'jpy', amount: 300, tax_amount: 48, total_amount: 300 })
    // Null and an absent currency keep the chosen one.
    for (const body of [{ currency: null }, { customer_name: 'Ada' }]) expect(await filled(made, body)).toMatchObject({ currency: 'jpy' })
    expect(await seen(made)).toMatchObject({ currency: 'jpy', total_amount: 300 })
    expect((await events('checkout.updated')).map(({ data }) => data.currency)).toEqual(['eur', 'jpy', 'jpy', 'jpy'])
  })

  test('rejects a currency in which the product has no price, at the field, and changes nothing', async () => {
    const { checkout, seen, events } = await open()
    const made = await checkout([fixed(2900), fixed(2500, 'eur')])
    for (const currency of ['gbp', 'xxx', 'EURO', 7]) expect(locs(await fill(made, { currency, customer_name: 'Ada' }))).toEqual(['body.currency'])
    expect(await seen(made)).toMatchObject({ currency: 'usd', customer_name: null })
    expect(await events('checkout.updated')).toEqual([])
  })

  test('clears a custom amount of the other currency, unless the request has a new one', async () => {
    const { checkout } = await open()
    const custom = (price_currency: string, preset_amount: number) => ({ amount_type: 'custom', price_currency, minimum_amount: 100, preset_amount })
    const made = await checkout([custom('usd', 1000), custom('eur', 900)], { amount: 5000 })
    expect(made).toMatchObject({ currency: 'usd', amount: 5000 })
    expect(await filled(made, { currency: 'eur' })).toMatchObject({ currency: 'eur', amount: 900 })
    expect(await filled(made, { currency: 'usd', amount: 2000 })).toMatchObject({ currency: 'usd', amount: 2000 })
    expect(await filled(made, { currency: 'usd' })).toMatchObject({ amount: 2000 })
  })

  test('removes a discount that has no amount in the chosen currency', async () => {
    const { api, checkout } = await open()
    await api.call(createDiscount, { body: { name: 'Five', type: 'fixed', amount: 500, currency: 'usd', duration: 'once', code: 'FIVE' } as never })
    const made = await checkout([fixed(2900), fixed(2500, 'eur')])
    expect(await filled(made, { discount_code: 'five' })).toMatchObject({ discount_amount: 500 })
    expect(await filled(made, { currency: 'eur' })).toMatchObject({ discount_id: null, discount_amount: 0, total_amount: 2500 })
  })

  test('answers 404 with a wrong secret and 410 after the checkout has expired', async () => {
    const { checkout } = await open()
    const made = await checkout([fixed(2900), fixed(2500, 'eur')])
    expect(errorOf(await fill({ client_secret: newToken('checkout', 'sandbox').reveal() }, { currency: 'eur' }))).toBe('404 ResourceNotFound')
    world.clock.advance(25 * hours)
    expect(errorOf(await fill(made, { currency: 'eur' }))).toBe('410 ExpiredCheckoutError')
  })
})

describe('the reason of a tax', () => {
  test('says why the tax applies or why none does, and is null while the tax is unknown', async () => {
    const { api, organization, checkout, taxes, events } = await open()
    await world.database.owner((owner) => owner.query(`update organizations set country = 'US' where id = $1`, [organization.id]))
    const made = await checkout([fixed(2900)])
    expect(await look(made)).toMatchObject({ tax_reason: null, tax_amount: null })
    expect(await filled(made, { customer_billing_address: { country: 'DE' } })).toMatchObject({ tax_reason: 'not_collecting', tax_amount: 0 })
    await taxes(
      { country: 'DE', rate: '19', reverse_charge: true },
      { country: 'US', state: 'US-NY', rate: '8', reverse_charge: false },
      { country: 'CH', rate: '0', reverse_charge: false },
    )
    const reason = async (body: object) => (await filled(made, body)).tax_reason
    expect(await reason({ customer_billing_address: berlin })).toBe('standard_rated')
    const company = { is_business_customer: true, customer_billing_name: 'Ada GmbH', customer_tax_id: 'DE136695976' }
    expect(await filled(made, company)).toMatchObject({ tax_reason: 'reverse_charge', tax_amount: 0 })
    expect((await look(made)).tax_reason).toBe('reverse_charge')
    expect(await reason({ is_business_customer: false })).toBe('standard_rated')
    expect(await reason({ customer_billing_address: { country: 'CH' } })).toBe('not_subject_to_tax')
    expect(await reason({ customer_billing_address: { country: 'FR' } })).toBe('not_collecting')
    expect(await reason({ customer_billing_address: { country: 'US' } })).toBeNull()
    // The seller's view and its events stay as the reference has them.
    expect(await api.call(getCheckout, { params: { id: made.id } })).not.toHaveProperty('tax_reason')
    expect((await events('checkout.updated')).every(({ data }) => !('tax_reason' in data))).toBe(true)
  })
})

describe('an address in the US', () => {
  const openTaxed = async () => {
    const shop = await open()
    await shop.taxes(
      { country: 'US', state: 'US-NY', rate: '8', reverse_charge: false },
      { country: 'US', state: 'US-MA', rate: '6.25', reverse_charge: false },
    )
    const made = await shop.checkout([fixed(2900)])
    return { ...shop, made, place: (address: object) => filled(made, { customer_billing_address: { country: 'US', ...address } }) }
  }

  test('needs the ZIP code only: it determines state and tax', async () => {
    const { place } = await openTaxed()
    expect(await place({})).toMatchObject({
      tax_amount: null,
      billing_address_fields: { postal_code: 'required', state: 'disabled', city: 'disabled', line1: 'disabled' },
    })
    expect(await place({ postal_code: '10001' })).toMatchObject({ tax_amount: 232, customer_billing_address: { state: 'US-NY' } })
    expect(await place({ postal_code: '02108-1234' })).toMatchObject({ tax_amount: 181, customer_billing_address: { state: 'US-MA' } })
    expect(await place({ postal_code: '94105' })).toMatchObject({ tax_amount: 0, customer_billing_address: { state: 'US-CA' } })
  })

  test('follows the ZIP code if a given state contradicts it, and keeps the spelling of one that agrees', async () => {
    const { place } = await openTaxed()
    const state = async (address: object) => (await place(address)).customer_billing_address!.state
    expect(await state({ postal_code: '10001', state: 'CA' })).toBe('US-NY')
    expect(await state({ postal_code: '10001', state: 'ny' })).toBe('ny')
    // Without a ZIP code, the given state counts.
    expect(await state({ state: 'US-OR' })).toBe('US-OR')
  })

  test('asks for the state if the prefix of the ZIP code crosses a state line, and accepts one of the two', async () => {
    const { made, place } = await openTaxed()
    const unknown = await place({ postal_code: '06390', state: 'US-CA' })
    expect(unknown).toMatchObject({
      tax_amount: null,
      customer_billing_address: { state: null },
      billing_address_fields: { state: 'required', city: 'disabled' },
    })
    const answer = await world.client().send(confirmClientCheckout, {
      params: params(made),
      body: { customer_email: 'ada@people.test', confirmation_token_id: 'tok_visa' },
    })
    expect(answer.body).toMatchObject({
      detail: [
        { loc: ['body', 'customer_billing_address', 'state'], msg: 'ZIP codes such as 06390 can belong to US-CT or US-NY. Choose the state.' },
        { loc: ['body', 'customer_billing_address'] },
      ],
    })
    expect(await place({ postal_code: '06390', state: 'US-NY' })).toMatchObject({ tax_amount: 232, billing_address_fields: { city: 'disabled' } })
    expect(await place({ postal_code: '06390', state: 'US-CT' })).toMatchObject({ tax_amount: 0 })
    // Military mail and territories have no state in the table.
    expect(await place({ postal_code: '09001' })).toMatchObject({ tax_amount: null, billing_address_fields: { state: 'required' } })
  })

  test('rejects a text that is no ZIP code when the buyer confirms', async () => {
    const { made, place } = await openTaxed()
    await place({ postal_code: '1234', state: 'US-NY' })
    const confirm = (body: object) =>
      world
        .client()
        .send(confirmClientCheckout, { params: params(made), body: { customer_email: 'ada@people.test', confirmation_token_id: 'tok_visa', ...body } })
    expect(locs(await confirm({}))).toEqual(['body.customer_billing_address.postal_code'])
    expect((await confirm({ customer_billing_address: { country: 'US', postal_code: '10001' } })).status).toBe(200)
  })

  test('needs the full address of a business, and where the seller requires it', async () => {
    const { made, place, checkout } = await openTaxed()
    await place({ postal_code: '10001' })
    const whole = { state: 'required', city: 'required', postal_code: 'required', line1: 'required' }
    expect(await filled(made, { is_business_customer: true })).toMatchObject({ billing_address_fields: whole })
    const strict = await checkout([fixed(2900)], { require_billing_address: true, customer_billing_address: { country: 'US', postal_code: '10001' } })
    expect(strict).toMatchObject({ billing_address_fields: whole, customer_billing_address: { state: 'US-NY' } })
  })
})
