import { confirmClientCheckout, createCheckout, createProduct, getClientCheckout, updateClientCheckout, updateTaxSettings } from '@bursar/contract'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { days, minutes } from '../../src/platform/clock.ts'
import { periodicTasks } from '../../src/modules/billing/payments/processor-events.api.ts'
import { openDeployment, openLife } from '../harness/crashes.ts'
import { openVatStandIn, type VatFault, type VatStandIn } from '../harness/vat-service.ts'
import { eventually, openWorld, type World } from '../harness/world.ts'

let world: World
let service: VatStandIn
let deployment: Awaited<ReturnType<typeof openDeployment>>
beforeAll(async () => {
  service = await openVatStandIn({ timeout_ms: 500 })
  world = await openWorld({ settings: service.settings })
  deployment = await openDeployment(world, openLife(null))
})
afterEach(() => {
  service.misbehave(undefined)
  service.release()
})
afterAll(async () => {
  await deployment.close()
  await world.close()
  await service.close()
})

interface Ticket {
  readonly client_secret: string
}

/** Numbers with valid check digits. Each test uses one of its own, because answers are kept for a day. */
const numbers = Array.from({ length: 90 }, (_, at) => {
  const digits = String(10_000_000 + at * 7919)
  const product = digits.split('').reduce((kept, digit) => (((Number(digit) + kept) % 10 || 10) * 2) % 11, 10)
  return `DE${digits}${(11 - product) % 10}`
})
const another = () => numbers.pop()!
const berlin = { line1: 'Rosenweg 1', postal_code: '10115', city: 'Berlin', country: 'DE' } as const

const open = async () => {
  const shop = await world.shop()
  const { api, organization } = shop
  await world.database.owner((owner) => owner.query(`update organizations set country = 'US' where id = $1`, [organization.id]))
  await api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: true }] } })
  const { id } = await api.call(createProduct, { body: { name: 'Guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] } })
  return {
    ...shop,
    checkout: (body: object = {}) => api.call(createCheckout, { body: { products: [id], ...body } }),
    wish: (body: object) => api.send(createCheckout, { body: { products: [id], ...body } }),
  }
}
const params = ({ client_secret }: Ticket) => ({ client_secret })
const company = (customer_tax_id: string) => ({
  is_business_customer: true,
  customer_billing_name: 'Ada GmbH',
  customer_billing_address: berlin,
  customer_tax_id,
})
const fill = (ticket: Ticket, body: object) => world.client().send(updateClientCheckout, { params: params(ticket), body })
const filled = (ticket: Ticket, body: object) => world.client().call(updateClientCheckout, { params: params(ticket), body })
const confirm = (ticket: Ticket, body: object = {}) =>
  world
    .client()
    .send(confirmClientCheckout, { params: params(ticket), body: { customer_email: 'ada@people.test', confirmation_token_id: 'tok_visa', ...body } })
const problemsOf = ({ body }: { body: unknown }) => (body as { detail: { loc: string[]; msg: string }[] }).detail
const registered = () => {
  const number = another()
  service.register(number)
  return number
}
const timesAsked = (number: string) => service.asked.filter((one) => one === number).length

describe('a service that checks VAT numbers', () => {
  test('accepts a registered number, and asks once a day for it for each seller, so that the time of an answer tells nothing about other sellers', async () => {
    const { checkout } = await open()
    const number = registered()
    const made = await checkout()
    expect(made.customer_tax_id_status).toBeNull()
    expect(await filled(made, company(number))).toMatchObject({
      customer_tax_id: number,
      customer_tax_id_status: 'valid',
      tax_reason: 'reverse_charge',
      tax_amount: 0,
    })
    await filled(made, company(number))
    await filled(await checkout(), company(number))
    expect(timesAsked(number)).toBe(1)
    await filled(await (await open()).checkout(), company(number))
    expect(timesAsked(number)).toBe(2)
    world.clock.advance(1 * days + minutes)
    await filled(await checkout(), company(number))
    expect(timesAsked(number)).toBe(3)
  })

  test('rejects a number that is not registered at its field, for buyer and seller, and changes nothing', async () => {
    const { checkout, wish } = await open()
    const number = another()
    const made = await checkout()
    for (const answer of [await fill(made, company(number)), await confirm(made, company(number)), await wish(company(number))]) {
      expect(answer.status).toBe(422)
      expect(problemsOf(answer)).toMatchObject([
        { loc: ['body', 'customer_tax_id'], msg: 'This VAT number is not registered. Check it, or buy without a VAT number.' },
      ])
    }
    expect(timesAsked(number)).toBe(1)
    const { status, customer_tax_id, is_business_customer } = await world.client().call(getClientCheckout, { params: params(made) })
    expect({ status, customer_tax_id, is_business_customer }).toEqual({ status: 'open', customer_tax_id: null, is_business_customer: false })
  })

  test('does not ask about numbers that are malformed, or not VAT numbers of the European Union', async () => {
    const { checkout } = await open()
    const made = await checkout()
    const before = service.asked.length
    expect(problemsOf(await fill(made, company('DE123')))).toMatchObject([{ loc: ['body', 'customer_tax_id'] }])
    const swiss = { ...company('CHE-116.281.710'), customer_billing_address: { ...berlin, country: 'CH' } }
    expect(await filled(made, swiss)).toMatchObject({ customer_tax_id_status: null })
    expect(service.asked.length).toBe(before)
  })

  const silent: [string, VatFault][] = [
    ['fails', 'fail'],
    ['closes the connection', 'close'],
    ['does not answer in time', 'hang'],
    ['cannot reach the member state', 'unavailable'],
    ['answers with nonsense', { body: '<html>' }],
    ['answers with a verdict that is no boolean', { body: '{"countryCode":"DE","vatNumber":"123","valid":"no"}' }],
    ['answers about another number', { body: '{"countryCode":"DE","vatNumber":"136695976","valid":false}' }],
  ]
  test.each(silent)('accepts the number as unverified if the service %s, and asks again when the buyer confirms later', async (_, fault) => {
    const { checkout } = await open()
    const number = registered()
    const made = await checkout()
    service.misbehave(fault)
    expect(await filled(made, company(number))).toMatchObject({ customer_tax_id_status: 'unverified', tax_reason: 'reverse_charge' })
    const first = timesAsked(number)
    // The buyer does not wait again with each change.
    await filled(made, company(number))
    expect(timesAsked(number)).toBe(first)
    service.misbehave(undefined)
    world.clock.advance(11 * minutes)
    expect((await confirm(made)).body).toMatchObject({ status: 'confirmed', customer_tax_id_status: 'valid' })
    expect(timesAsked(number)).toBe(first + 1)
  })

  test('records a purchase whose number could never be checked', async () => {
    const { checkout } = await open()
    const made = await checkout()
    service.misbehave('fail')
    expect((await confirm(made, company(another()))).body).toMatchObject({ status: 'confirmed', customer_tax_id_status: 'unverified' })
  })

  test('holds no lock while the service is slow', async () => {
    const { checkout } = await open()
    const number = registered()
    const made = await checkout()
    service.misbehave('hang')
    const slow = fill(made, company(number))
    await eventually('the service is asked', async () => timesAsked(number) === 1)
    // Another request for the same checkout would get 409 if a transaction were open.
    expect((await fill(made, { customer_name: 'Ada' })).status).toBe(200)
    service.release()
    expect((await slow).body).toMatchObject({ customer_tax_id_status: 'valid', customer_name: 'Ada' })
  })

  test('forgets the status with the number', async () => {
    const { checkout } = await open()
    const made = await checkout()
    await filled(made, company(registered()))
    expect(await filled(made, { customer_tax_id: null })).toMatchObject({ customer_tax_id_status: null })
    await filled(made, company(registered()))
    expect(await filled(made, { is_business_customer: false })).toMatchObject({ customer_tax_id: null, customer_tax_id_status: null })
  })

  test('does not check a number that the confirmation drops, because the buyer is a private person after all', async () => {
    const { checkout } = await open()
    const number = another()
    const made = await checkout()
    service.misbehave('fail')
    await filled(made, company(number))
    service.misbehave(undefined)
    world.clock.advance(11 * minutes)
    const answer = await confirm(made, { is_business_customer: false })
    expect(answer.body).toMatchObject({ status: 'confirmed', customer_tax_id: null, customer_tax_id_status: null })
    expect(timesAsked(number)).toBe(1)
  })

  test('stores no number in the clear, and deletes answers after their time', async () => {
    const { checkout } = await open()
    const number = registered()
    await filled(await checkout(), company(number))
    const rows = async () => (await world.database.owner((owner) => owner.query<{ hash: string }>('select hash from vat_checks'))).rows
    const found = await rows()
    expect(found.length).toBeGreaterThan(0)
    expect(found.every(({ hash }) => !hash.includes(number))).toBe(true)
    world.clock.advance(2 * days)
    await periodicTasks.find(({ name }) => name === 'billing.purge')!.run(deployment.deps)
    expect(await rows()).toEqual([])
  })
})

describe('the limit of questions', () => {
  const limited = async (settings: Record<string, unknown>) => {
    const own = await openWorld({
      settings: { ...service.settings, BURSAR_TRUSTED_PROXIES: '127.0.0.1', BURSAR_BUDGETS: JSON.stringify({ api: [[1_000_000, 60]], ...settings }) },
    })
    const { api } = await own.shop()
    const { id } = await api.call(createProduct, { body: { name: 'Guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] } })
    const from = (address: string) => own.client({}, { 'x-forwarded-for': address })
    return {
      own,
      wish: (body: object) => api.send(createCheckout, { body: { products: [id], ...body } }),
      checkout: () => api.call(createCheckout, { body: { products: [id] } }),
      fill: (ticket: Ticket, address: string, body: object) => from(address).send(updateClientCheckout, { params: params(ticket), body }),
      confirm: (ticket: Ticket, address: string, body: object) =>
        from(address).send(confirmClientCheckout, {
          params: params(ticket),
          body: { customer_email: 'ada@people.test', confirmation_token_id: 'tok_visa', ...body },
        }),
    }
  }

  test('answers 429 to an address that has caused too many, and accepts no unchecked number from it', async () => {
    const { own, checkout, fill, confirm, wish } = await limited({ vat_checks: [[3, 3600]] })
    const made = await checkout()
    const [attacker, buyer] = ['203.0.113.7', '203.0.113.8']
    const first = registered()
    expect((await fill(made, attacker, company(first))).status).toBe(200)
    for (let at = 0; at < 2; at++) expect((await fill(made, attacker, company(another()))).status).toBe(422)
    const before = service.asked.length
    for (const answer of [await fill(made, attacker, company(another())), await confirm(made, attacker, company(another()))]) {
      expect([answer.status, answer.headers.get('ratelimit-policy')]).toEqual([429, '"vat_checks";q=3;w=3600'])
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(3000)
    }
    expect(service.asked.length).toBe(before)
    // Known answers, changes without a number, other addresses and the seller go on.
    expect((await fill(made, attacker, { customer_name: 'Ada' })).status).toBe(200)
    expect((await fill(made, attacker, company(first))).status).toBe(200)
    expect((await fill(made, buyer, company(registered()))).status).toBe(200)
    expect((await wish(company(registered()))).status).toBe(201)
    await own.close()
  })

  test('counts the questions of a seller for the organization', async () => {
    const { own, wish } = await limited({ vat_checks_of_sellers: [[2, 3600]] })
    for (let at = 0; at < 2; at++) expect((await wish(company(registered()))).status).toBe(201)
    const answer = await wish(company(registered()))
    expect([answer.status, answer.headers.get('ratelimit-policy')]).toEqual([429, '"vat_checks_of_sellers";q=2;w=3600'])
    expect((await wish({})).status).toBe(201)
    await own.close()
  })
})
