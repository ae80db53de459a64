import { confirmClientCheckout, createCheckout, createProduct } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { hours } from '../../../platform/clock.ts'
import { declinesPerCheckout } from './confirm.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({
    settings: {
      BURSAR_TRUSTED_PROXIES: '127.0.0.1',
      BURSAR_BUDGETS: JSON.stringify({ api: [[1_000_000, 60]], checkout_declines: [[3, 3600]], failed_authentications: [[1_000_000, 60]] }),
    },
  })
})
afterAll(() => world.close())

const price = { amount_type: 'fixed' as const, price_amount: 2900, price_currency: 'usd' as const }
const errorOf = ({ status, body }: { status: number; body: unknown }) => `${status} ${(body as { error?: string }).error ?? ''}`.trim()
let addresses = 0

/** Opens a shop, and returns helpers that pay from one client address with a given card. */
const open = async () => {
  const { api } = await world.shop()
  const { id } = await api.call(createProduct, { body: { name: 'Guide', prices: [price] } })
  const address = `203.0.113.${++addresses}`
  const checkout = () => api.call(createCheckout, { body: { products: [id] } })
  const confirm = ({ client_secret }: { client_secret: string }, confirmation_token_id: string, from = address) =>
    world.client({}, { 'x-forwarded-for': from }).send(confirmClientCheckout, {
      params: { client_secret },
      body: { customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' }, confirmation_token_id },
    })
  return { checkout, confirm, pay: async (card: string, from = address) => confirm(await checkout(), card, from) }
}

describe('rate limit of declined payments per client IP address', () => {
  test('does not count successful payments, so that many buyers behind one IP address can pay', async () => {
    const { pay } = await open()
    const answers = await Promise.all(Array.from({ length: 3 }, () => pay('tok_visa')))
    for (let at = 0; at < 9; at++) answers.push(await pay('tok_visa'))
    expect(answers.map(errorOf)).toEqual(Array.from({ length: 12 }, () => '200'))
    expect(errorOf(await pay('tok_do_not_honor'))).toBe('400 PaymentError')
    expect(errorOf(await pay('tok_visa'))).toBe('200')
    expect(errorOf(await pay('tok_3ds'))).toBe('200')
  })

  test('counts declines across checkouts, and answers 429 with the remaining time, without affecting other IP addresses', async () => {
    const { pay } = await open()
    for (let at = 0; at < 3; at++) expect(errorOf(await pay('tok_insufficient_funds'))).toBe('400 PaymentError')
    const refused = await pay('tok_insufficient_funds')
    expect(errorOf(refused)).toBe('429 TooManyRequests')
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(3500)
    expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(3600)
    expect(errorOf(await pay('tok_visa', '203.0.113.200'))).toBe('200')
  })

  test('also holds for concurrent payments with declined cards', async () => {
    const { checkout, confirm } = await open()
    const checkouts = await Promise.all(Array.from({ length: 8 }, checkout))
    const answers = await Promise.all(checkouts.map((one) => confirm(one, 'tok_do_not_honor')))
    expect(answers.map(errorOf).filter((error) => error === '400 PaymentError').length).toBeLessThanOrEqual(3)
    expect(answers.map(errorOf).filter((error) => error === '429 TooManyRequests').length).toBeGreaterThanOrEqual(5)
  })

  test('does not count a confirmation that is rejected before the card is charged', async () => {
    const { checkout, confirm, pay } = await open()
    const made = await checkout()
    for (let at = 0; at < 5; at++) expect((await confirm(made, 'tok_unknown')).status).toBe(422)
    expect(errorOf(await pay('tok_do_not_honor'))).toBe('400 PaymentError')
  })
})

test('limits the declined payments of one checkout per hour, across all client IP addresses', async () => {
  const { checkout, confirm } = await open()
  const made = await checkout()
  const limit = declinesPerCheckout.sandbox
  for (let at = 0; at < limit; at++) expect(errorOf(await confirm(made, 'tok_do_not_honor', `198.51.${at}.1`))).toBe('400 PaymentError')
  const refused = await confirm(made, 'tok_visa', '198.51.200.1')
  expect(errorOf(refused)).toBe('429 TooManyRequests')
  expect((refused.body as unknown as { detail: string }).detail).toMatch(
    /^The limit of 100 declined payments per hour for this checkout is reached\. Wait \d+ s\.$/,
  )
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(3000)
  world.clock.advance(1 * hours)
  expect(errorOf(await confirm(made, 'tok_visa', '198.51.200.1'))).toBe('200')
})
