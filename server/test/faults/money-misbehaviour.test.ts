import { confirmClientCheckout, createCheckout, createProduct, createRefund, getCheckout, getOrder, listOrders, listRefunds } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ProcessorSilent } from '../../src/gateways/payments/payments.ts'
import { openDeployment, openLife } from '../harness/crashes.ts'
import { openStripeTill } from '../harness/processors.ts'
import type { Fault } from '../harness/stripe.ts'
import { openClock, openWorld, type World } from '../harness/world.ts'

/**
 * Tests with a stand-in for Stripe that loses requests and answers, fails, repeats requests and forgets idempotency keys.
 * Its events arrive late, twice, out of order or never.
 */
const hour = 3_600_000
let world: World
let till: Awaited<ReturnType<typeof openStripeTill>>
let deployment: Awaited<ReturnType<typeof openDeployment>>
let shop: Awaited<ReturnType<World['shop']>>
let products: { once: string; monthly: string }
beforeAll(async () => {
  const clock = openClock()
  till = await openStripeTill(clock)
  world = await openWorld({ clock, settings: till.settings })
  shop = await world.shop()
  await till.connect(await shop.dashboard(), shop.organization.id)
  deployment = await openDeployment(world, openLife(null))
  const price = { amount_type: 'fixed' as const, price_amount: 2900, price_currency: 'usd' as const }
  products = {
    once: (await shop.api.call(createProduct, { body: { name: 'Field guide', prices: [price] } })).id,
    monthly: (await shop.api.call(createProduct, { body: { name: 'Plan', recurring_interval: 'month', prices: [price] } })).id,
  }
})
afterAll(async () => {
  await deployment.close()
  await world.close()
  await till.close()
})

// Seeded, so that a failure can be reproduced.
let seed = 20_261_116
const draw = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below
const oneOf = <T>(list: readonly T[]): T => list[draw(list.length)]!

/** Runs all due work once. If the processor does not answer, the work is retried at the next call, as a worker would. */
const pass = async () => {
  for (const work of [deployment.sweep, deployment.work])
    await work().catch((error: unknown) => {
      if (!(error instanceof ProcessorSilent)) throw error
    })
  await till.tell(world)
}
const well = () => {
  till.standIn.misbehave(() => undefined)
  till.standIn.tell(() => ({ copies: 1, late_ms: 0, place: 0 }))
}

const buy = async (at: string, card: string, product = products.once) => {
  const checkout = await shop.api.call(createCheckout, { body: { products: [product] } })
  return { checkout, answer: await confirm(checkout, at, card) }
}
const confirm = ({ client_secret }: { client_secret: string }, at: string, card: string) =>
  world.client().send(confirmClientCheckout, {
    params: { client_secret },
    body: { customer_email: `buyer-${at}@people.test`, customer_billing_address: { country: 'DE' }, confirmation_token_id: till.account.token(card) },
  })
const statusOf = async (id: string) => (await shop.api.call(getCheckout, { params: { id } })).status
const orderOf = async (checkout_id: string) => (await shop.api.call(listOrders, { query: { checkout_id: [checkout_id] } })).items[0]

/** Compares Stripe's own records of charges and refunds with our ledger. */
const audit = async () => {
  const { charges, refunds } = till.account.books()
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ kind: string; reference: string; amount: string }>(
      `select t.kind, t.reference, sum(e.amount)::text as amount from ledger_transactions t join ledger_entries e on e.organization_id = t.organization_id and e.transaction_id = t.id
       where e.account = 'processor' group by 1, 2`,
    ),
  )
  const ours = new Map(rows.map(({ kind, reference, amount }) => [`${kind} ${reference}`, Number(amount)]))
  const theirs = [
    ...charges.map(({ metadata, amount }) => [`payment_received ${metadata.payment_id}`, amount] as const),
    ...refunds.filter(({ status }) => status === 'succeeded').map(({ metadata, amount }) => [`refund_paid ${metadata.refund_id}`, -amount] as const),
  ]
  return {
    payments: charges.length,
    refunds: refunds.length,
    // Number of charges and refunds that are only in Stripe's records or only in our ledger, or differ in their amount.
    lost:
      theirs.filter(([name, amount]) => ours.get(name) !== amount).length + [...ours.keys()].filter((name) => !theirs.some(([other]) => other === name)).length,
    double: theirs.length - new Set(theirs.map(([name]) => name)).size,
  }
}

test("loses no payment and charges none twice, by Stripe's own records, although requests and answers are lost or repeated", { timeout: 600_000 }, async () => {
  const faults: readonly Fault[] = ['timed_out', 'timed_out', 'twice', 'twice', 'in_use', 'broken', 'timed_out', 'in_use', 'request_lost', 'answer_lost']
  const cards = [
    'pm_card_visa',
    'pm_card_visa',
    'pm_card_chargeDeclinedInsufficientFunds',
    'pm_sepaDebit',
    'pm_card_authenticationRequired',
    'pm_card_pendingRefund',
  ]
  till.standIn.misbehave(({ method, path }) => {
    if (draw(100) >= (method === 'POST' ? 25 : 8)) return undefined
    // The stand-in never answers a refund with 500, because such a refund is marked as failed only after a day.
    const fault = oneOf(faults)
    return fault === 'broken' && path === '/v1/refunds' ? 'timed_out' : fault
  })
  till.standIn.tell(() => ({ copies: draw(3), late_ms: oneOf([0, 90_000, 2 * hour]), place: draw(1000) }))
  const sold: { id: string; client_secret: string }[] = []
  // The random faults decide how many buyers can pay. Adds up to 40 more buyers until 17 payments were charged.
  for (let at = 0; at < 40 || (at < 80 && till.account.books().charges.length <= 16); at++) {
    const { checkout, answer } = await buy(String(at), oneOf(cards), draw(3) === 0 ? products.monthly : products.once)
    expect([200, 400, 503], JSON.stringify(answer.body)).toContain(answer.status)
    sold.push(checkout)
    // After a failed confirmation, the buyer tries again with another card.
    if (answer.status !== 200) await confirm(checkout, String(at), 'pm_card_visa')
    // If the bank requires authentication, the buyer completes it.
    const told = (answer.body as { payment_processor_metadata?: Record<string, string> }).payment_processor_metadata
    if (told?.intent_status === 'requires_action') till.account.complete(told.intent_client_secret!, draw(3) > 0)
    if (draw(3) === 0) {
      world.clock.advance(40_000)
      await pass()
    }
    const before = oneOf(sold)
    const order = draw(2) === 0 ? await orderOf(before.id) : undefined
    if (order?.status === 'paid') await shop.api.send(createRefund, { body: { order_id: order.id, reason: 'other', amount: 1 + draw(order.net_amount) } })
  }
  well()
  for (const wait of [31_000, 61_000, 601_000, hour, 2 * hour, 19 * hour, 6 * hour, hour, hour]) {
    world.clock.advance(wait)
    till.standIn.forgetKeys()
    await pass()
  }
  const { charges } = till.account.books()
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ id: string; checkout_id: string; status: string }>(`select id, checkout_id, status from payments where checkout_id is not null`),
  )
  for (const { id } of sold) {
    const mine = rows.filter(({ checkout_id }) => checkout_id === id).map((row) => row.id)
    const times = charges.filter(({ metadata }) => mine.includes(metadata.payment_id!)).length
    const status = await statusOf(id)
    expect([status === 'succeeded' ? 'given' : 'not given', times]).toEqual(status === 'succeeded' ? ['given', 1] : ['not given', 0])
    expect(['succeeded', 'open', 'expired']).toContain(status)
    expect((await orderOf(id))?.status !== undefined).toBe(status === 'succeeded')
  }
  expect(rows.filter(({ status }) => status === 'pending')).toEqual([])
  const { payments, refunds, lost, double } = await audit()
  process.stdout.write(`stripe: ${payments} payments · lost: ${lost} · double: ${double} (${sold.length} checkouts, ${refunds} refunds)\n`)
  expect([lost, double]).toEqual([0, 0])
  expect(payments).toBeGreaterThan(12)
  expect(refunds).toBeGreaterThan(1)
})

/** Records every request to Stripe from now on, in a short form. */
const asking = () => {
  const from = till.standIn.asked.length
  return () => till.standIn.asked.slice(from).map(({ method, path }) => `${method} ${path.replace('/v1/', '').replace(/\/[a-z]+_\w+/, '')}`)
}

/** Lets the next request of this kind succeed but loses the answer. All later requests fail. */
const goSilent = (path: string) => {
  let gone = false
  till.standIn.misbehave((asked) => {
    if (gone) return 'in_use'
    if (asked.method !== 'POST' || asked.path !== path) return undefined
    gone = true
    return 'timed_out'
  })
}

/**
 * Advances time until Stripe has forgotten every idempotency key. Due work runs in between, but the stand-in does not
 * answer its requests.
 */
const aDayLater = async () => {
  for (const wait of [31_000, 11 * hour, 11 * hour, 3 * hour]) {
    world.clock.advance(wait)
    await pass()
  }
  till.standIn.forgetKeys()
  well()
}

test('finds a payment by its metadata after its key was forgotten and cancels it, without a new key', async () => {
  well()
  goSilent('/v1/payment_intents')
  const { checkout } = await buy('forgotten', 'pm_card_visa')
  const intents = till.account.books().intents.length
  await aDayLater()
  const asked = asking()
  world.clock.advance(31 * 60_000)
  await pass()
  expect(asked()).toEqual(['GET payment_intents', 'GET setup_intents', 'GET payment_intents', 'POST payment_intents/cancel'])
  expect(till.account.books().intents).toHaveLength(intents)
  expect(till.account.books().intents.at(-1)).toMatchObject({ status: 'canceled' })
  expect(await statusOf(checkout.id)).not.toBe('confirmed')
  expect(await audit()).toMatchObject({ lost: 0, double: 0 })
})

test('finds a renewal after its key was forgotten, and charges it once', async () => {
  well()
  // Earlier subscriptions must not renew, because the stand-in loses only the next answer.
  await world.database.owner((owner) => owner.query('update subscriptions set due_at = null'))
  const { checkout } = await buy('renewed', 'pm_card_visa', products.monthly)
  await pass()
  const before = till.account.books().charges.length
  world.clock.advance(32 * 24 * hour)
  goSilent('/v1/payment_intents')
  await pass()
  await pass()
  const intents = till.account.books().intents.length
  await aDayLater()
  const asked = asking()
  for (let at = 0; at < 3; at++) {
    world.clock.advance(31 * 60_000)
    await pass()
  }
  expect(asked()).not.toContain('POST payment_intents')
  expect(asked()).toContain('POST payment_intents/confirm')
  const orders = (await shop.api.call(listOrders, { query: { limit: 100 } })).items
  const mine = orders.filter(
    ({ subscription_id }) => subscription_id !== null && subscription_id === orders.find((one) => one.checkout_id === checkout.id)?.subscription_id,
  )
  expect(mine.map(({ status, total_amount }) => [status, total_amount])).toEqual([
    ['paid', 2900],
    ['paid', 2900],
  ])
  expect(till.account.books().intents).toHaveLength(intents)
  expect(till.account.books().charges).toHaveLength(before + 1)
  expect(await audit()).toMatchObject({ lost: 0, double: 0 })
})

test('finds a refund after its key was forgotten, and refunds the money once', async () => {
  well()
  const { checkout } = await buy('refunded', 'pm_card_visa')
  await pass()
  const order = (await orderOf(checkout.id))!
  goSilent('/v1/refunds')
  expect(await shop.api.call(createRefund, { body: { order_id: order.id, reason: 'other', amount: 1000 } })).toMatchObject({ status: 'pending' })
  await aDayLater()
  const asked = asking()
  world.clock.advance(31 * 60_000)
  await pass()
  expect(asked()).not.toContain('POST refunds')
  expect((await shop.api.call(listRefunds, { query: { order_id: [order.id] } })).items).toMatchObject([{ status: 'succeeded', amount: 1000 }])
  expect(await shop.api.call(getOrder, { params: { id: order.id } })).toMatchObject({ refunded_amount: 1000 })
  expect(await audit()).toMatchObject({ lost: 0, double: 0 })
})
