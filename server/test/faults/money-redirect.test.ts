import {
  confirmClientCheckout,
  createCheckout,
  createProduct,
  getCheckout,
  listOrders,
  listPaymentMethods,
  resumeClientCheckout,
  updateClientCheckout,
} from '@bursar/contract'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Ticket } from '../harness/books.ts'
import { Died, openDeployment, openLife, type Life } from '../harness/crashes.ts'
import { openStripeTill } from '../harness/processors.ts'
import type { Visit } from '../harness/stripe-books.ts'
import { openClock, openWorld, type World } from '../harness/world.ts'

/** Payments that leave the page: the buyer pays at another site, with the stand-in for Stripe. */
const hour = 3_600_000
let world: World
let till: Awaited<ReturnType<typeof openStripeTill>>
let healthy: Awaited<ReturnType<typeof openDeployment>>
let shop: Awaited<ReturnType<World['shop']>>
let products: { once: string; monthly: string; dollars: string }
beforeAll(async () => {
  const clock = openClock()
  till = await openStripeTill(clock)
  world = await openWorld({ clock, settings: till.settings })
  shop = await world.shop()
  await till.connect(await shop.dashboard(), shop.organization.id)
  healthy = await openDeployment(world, openLife(null))
  const price = (price_currency: 'eur' | 'usd') => ({ amount_type: 'fixed' as const, price_amount: 2900, price_currency })
  const make = async (more: object) => (await shop.api.call(createProduct, { body: { name: 'Field guide', prices: [price('eur'), price('usd')], ...more } })).id
  products = { once: await make({}), monthly: await make({ recurring_interval: 'month' }), dollars: await make({}) }
})
afterAll(async () => {
  await healthy.close()
  await world.close()
  await till.close()
})
beforeEach(() => till.standIn.tell(() => ({ copies: 1, late_ms: 0, place: 0 })))

type Deployment = typeof healthy
interface Answer {
  readonly status: string
  readonly payment_processor_metadata: Readonly<Record<string, string>>
}

const open = (product = products.once, currency: 'eur' | 'usd' = 'eur') => shop.api.call(createCheckout, { body: { products: [product], currency } })
const bodyOf = (checkout: Ticket, method: string, country: 'NL' | 'BE' | 'PL' | 'DE') => ({
  customer_email: `buyer-${checkout.id}@people.test`,
  customer_billing_address: { country },
  confirmation_token_id: till.account.token(method),
})
const confirm = (deployment: Deployment, checkout: Ticket, body = bodyOf(checkout, 'pm_ideal', 'NL')) =>
  deployment.client().send(confirmClientCheckout, { params: { client_secret: checkout.client_secret }, body })
const resume = async (deployment: Deployment, { client_secret }: Ticket): Promise<Answer> =>
  (await deployment.client().send(resumeClientCheckout, { params: { client_secret } })).body
const siteOf = (answer: { readonly body: unknown }): string | undefined => (answer.body as Partial<Answer>).payment_processor_metadata?.redirect_url
const find = ({ id }: Ticket) => shop.api.call(getCheckout, { params: { id } })
const statusOf = async (checkout: Ticket) => (await find(checkout)).status
const ordersOf = async ({ id }: Ticket) =>
  (await shop.api.call(listOrders, { query: { checkout_id: [id] } })).items.map(({ status, total_amount }) => [status, total_amount])
const query = <Row extends object>(text: string, values: readonly unknown[] = []) =>
  world.database.owner(async (owner) => (await owner.query<Row>(text, [...values])).rows)

/** Sends the buyer to the other site, and returns the address at which they come back. */
const begin = async (checkout: Ticket, ...more: [method: string, country: 'NL' | 'BE' | 'PL' | 'DE'] | []) => {
  const [method = 'pm_ideal', country = 'NL'] = more
  const answer = await confirm(healthy, checkout, bodyOf(checkout, method, country))
  expect(answer.status, JSON.stringify(answer.body)).toBe(200)
  return siteOf(answer)!
}

/** Lets the processes that are left finish the work. No buyer sends a request. */
const settle = async () => {
  for (const wait of [0, 31_000, 601_000, hour, 601_000]) {
    world.clock.advance(wait)
    await healthy.sweep('billing.follow_payments', 'checkout.watch')
    await healthy.work()
    await till.tell(world)
    await healthy.work()
  }
}

/** Compares the records of Stripe with our ledger and our checkouts. */
const audit = async () => {
  const charges = till.account.books().charges.filter(({ metadata }) => metadata.trigger === 'purchase')
  const ledger = await query<{ reference: string; amount: string }>(
    `select t.reference, sum(e.amount)::text as amount from ledger_transactions t join ledger_entries e on e.organization_id = t.organization_id and e.transaction_id = t.id
     where e.account = 'processor' and t.kind = 'payment_received' group by 1`,
  )
  const known = new Map(ledger.map(({ reference, amount }) => [reference, Number(amount)]))
  const bought = await query<{ checkout_id: string; paid: string }>(
    `select c.id as checkout_id, (select count(*) from payments p where p.organization_id = c.organization_id and p.checkout_id = c.id and p.status = 'succeeded')::text as paid
     from checkouts c where c.status = 'succeeded' and c.total_amount > 0`,
  )
  return {
    charges: charges.length,
    bought: bought.length,
    lost: charges.filter(({ metadata, amount }) => known.get(metadata.payment_id!) !== amount).length + Math.max(0, charges.length - bought.length),
    double: bought.filter(({ paid }) => paid !== '1').length + Math.max(0, bought.length - charges.length),
  }
}

const survive = async (work: () => Promise<void>) => {
  try {
    await work()
  } catch (error) {
    if (!(error instanceof Died)) throw error
  }
}

/** One purchase: confirmation, other site, webhook, return, and the jobs. The process may end at any effect. */
const purchase = (act: Visit) => async (life: Life, checkout: Ticket) => {
  const deployment = await openDeployment(world, life)
  try {
    const site = siteOf(await confirm(deployment, checkout))
    if (site === undefined) throw new Died('before the answer')
    await life.pass('redirect', async () => till.account.visit(site, act))
    await till.tell(deployment)
    await life.pass('return', () => resume(deployment, checkout))
    await deployment.work()
  } finally {
    await deployment.close()
  }
}

/** After the crash the buyer goes on: back to the other site, or to the form. */
const goOn = async (checkout: Ticket) => {
  const seen = await resume(healthy, checkout)
  const site = seen.payment_processor_metadata.redirect_url
  if (seen.status === 'confirmed' && site !== undefined) till.account.visit(site, 'pays')
  // The buyer loads the page again.
  for (let time = 0; time < 2; time++) await resume(healthy, checkout)
}

/** The buyer pays again if the form is open again. */
const payAtLast = async (checkout: Ticket) => {
  if ((await statusOf(checkout)) === 'succeeded') return
  till.account.visit(await begin(checkout), 'pays')
  await resume(healthy, checkout)
  await healthy.work()
}

/** The sides of an effect on which the process ends. A daily run takes one of them, another one for the next effect. */
const sidesOf = (point: number, what: string): readonly ('before' | 'after')[] =>
  process.env.BURSAR_TEST_POINTS === 'all' ? ['before', 'after'] : [(point + what.length) % 2 === 0 ? 'before' : 'after']

for (const [what, act, comesBack, ends] of [
  ['the buyer comes back after the crash', 'pays', true, ['succeeded', 'open']],
  ['the buyer never comes back', 'pays', false, ['succeeded', 'open']],
  ['the bank pays after a minute and the buyer never comes back', 'pays_later', false, ['succeeded', 'open']],
  ['the bank refuses after a minute', 'fails_later', false, ['open']],
  ['the buyer refuses at the bank', 'refuses', false, ['open']],
] as const)
  test(`loses no payment and charges none twice after a crash before or after every effect: ${what}`, { timeout: 600_000 }, async () => {
    const scenario = purchase(act)
    const life = openLife(null)
    await scenario(life, await open())
    await settle()
    const { effects } = life
    expect(effects).toEqual(
      expect.arrayContaining(['processor.createIntent', 'processor.confirmIntent', 'redirect', 'return', 'processor.readIntent', 'commit']),
    )
    const reached: string[] = []
    let ended = 0
    for (let point = 1; point <= effects.length; point++)
      for (const side of sidesOf(point, what)) {
        ended++
        const checkout = await open()
        const mortal = openLife({ point, side })
        await survive(() => scenario(mortal, checkout))
        const place = `${point} ${effects[point - 1]} ${side}`
        // A run in which events and jobs are merged has fewer effects.
        expect(mortal.isDead() || mortal.effects.length < point, place).toBe(true)
        if (mortal.isDead()) reached.push(place)
        if (comesBack) await goOn(checkout)
        await settle()
        const charged = till.account.books().charges.filter(({ metadata }) => metadata.organization_id === shop.organization.id).length
        const status = await statusOf(checkout)
        expect(ends, place).toContain(status)
        await payAtLast(checkout)
        expect(await statusOf(checkout), place).toBe('succeeded')
        expect(await ordersOf(checkout), place).toEqual([['paid', 2900]])
        // A checkout that had succeeded was not charged again.
        expect(till.account.books().charges.length - charged, place).toBe(status === 'succeeded' ? 0 : 1)
      }
    const found = await audit()
    process.stdout.write(`${what}: ${effects.length} effects (${effects.join(', ')}), ${reached.length} ends, lost ${found.lost}, double ${found.double}\n`)
    expect(reached.length).toBeGreaterThan(ended / 2)
    expect(found).toMatchObject({ lost: 0, double: 0 })
  })

test.each([
  ['twice', { copies: 2, late_ms: 0, place: 0 }],
  ['two minutes late', { copies: 1, late_ms: 120_000, place: 0 }],
  ['never', { copies: 0, late_ms: 0, place: 0 }],
] as const)('completes a checkout once if the event arrives %s, with a return and without one', async (_, telling) => {
  till.standIn.tell(() => telling)
  for (const returns of [true, false]) {
    const checkout = await open()
    till.account.visit(await begin(checkout), 'pays')
    await till.tell(world)
    if (returns) for (let time = 0; time < 2; time++) await resume(healthy, checkout)
    await settle()
    expect(await statusOf(checkout)).toBe('succeeded')
    expect(await ordersOf(checkout)).toEqual([['paid', 2900]])
  }
  expect(await audit()).toMatchObject({ lost: 0, double: 0 })
})

test('completes a checkout whose event arrives before the buyer, and answers each of ten parallel returns', async () => {
  const checkout = await open()
  till.account.visit(await begin(checkout), 'pays')
  await till.tell(world)
  await healthy.work()
  const intents = till.account.books().intents.length
  const seen = await Promise.all(Array.from({ length: 10 }, () => resume(healthy, checkout)))
  expect(seen.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 'succeeded'))
  expect(till.account.books().intents).toHaveLength(intents)
  expect(await audit()).toMatchObject({ lost: 0, double: 0 })
})

test('records one result for ten parallel returns that come before every event', async () => {
  const checkout = await open()
  till.account.visit(await begin(checkout), 'pays')
  const intents = till.account.books().intents.length
  await Promise.all(Array.from({ length: 10 }, () => resume(healthy, checkout)))
  await healthy.work()
  expect(await ordersOf(checkout)).toEqual([['paid', 2900]])
  expect(till.account.books().intents).toHaveLength(intents)
  expect(await audit()).toMatchObject({ lost: 0, double: 0 })
})

test('shares one look at the processor among parallel returns of a buyer who has not paid', async () => {
  const checkout = await open()
  await begin(checkout)
  const reads = () => till.standIn.asked.filter(({ method, path }) => method === 'GET' && path.startsWith('/v1/payment_intents/')).length
  const before = reads()
  const seen = await Promise.all(Array.from({ length: 10 }, () => resume(healthy, checkout)))
  // Each return sees the other site.
  expect(new Set(seen.map(({ payment_processor_metadata }) => payment_processor_metadata.redirect_url)).size).toBe(1)
  expect(reads() - before).toBeLessThan(10)
})

test('keeps the amounts while the buyer is away: a second tab changes nothing and opens no second payment', async () => {
  const checkout = await open()
  const site = await begin(checkout)
  const before = await find(checkout)
  const intents = till.account.books().intents.length
  const params = { client_secret: checkout.client_secret }
  for (const body of [{ customer_billing_address: { country: 'DE' as const } }, { seats: 5 }, { discount_code: 'GIFT' }])
    expect(await world.client().send(updateClientCheckout, { params, body })).toMatchObject({ status: 403, body: { error: 'NotOpenCheckout' } })
  expect(await confirm(healthy, checkout)).toMatchObject({ status: 403, body: { error: 'NotOpenCheckout' } })
  const { amount, net_amount, tax_amount, total_amount } = await find(checkout)
  expect({ amount, net_amount, tax_amount, total_amount }).toEqual({
    amount: before.amount,
    net_amount: before.net_amount,
    tax_amount: before.tax_amount,
    total_amount: before.total_amount,
  })
  expect(till.account.books().intents).toHaveLength(intents)
  till.account.visit(site, 'pays')
  await settle()
  expect(await ordersOf(checkout)).toEqual([['paid', 2900]])
  expect(await audit()).toMatchObject({ lost: 0, double: 0 })
})

test('repeats the address of the other site for a confirmation with the same token, and creates no second intent', async () => {
  const checkout = await open()
  const body = bodyOf(checkout, 'pm_ideal', 'NL')
  const first = await confirm(healthy, checkout, body)
  const intents = till.account.books().intents.length
  const again = await confirm(healthy, checkout, body)
  expect([again.status, siteOf(again)]).toEqual([200, siteOf(first)])
  expect((await resume(healthy, checkout)).payment_processor_metadata).toMatchObject({
    redirect_url: siteOf(first),
    intent_status: 'requires_action',
    payment_method_type: 'ideal',
  })
  expect(till.account.books().intents).toHaveLength(intents)
})

test('fulfils a checkout whose bank pays after the checkout would have expired', async () => {
  const checkout = await open()
  till.account.visit(await begin(checkout), 'pays_later')
  world.clock.advance(25 * hour)
  expect((await resume(healthy, checkout)).status).not.toBe('expired')
  await settle()
  expect(await statusOf(checkout)).toBe('succeeded')
  expect(await audit()).toMatchObject({ lost: 0, double: 0 })
})

test('cancels the intent of a buyer who stays away for an hour, so that a later payment at the bank charges nothing', async () => {
  const checkout = await open()
  const site = await begin(checkout)
  const charges = till.account.books().charges.length
  await settle()
  expect(await statusOf(checkout)).toBe('open')
  expect(new URL(till.account.visit(site, 'pays')).searchParams.get('redirect_status')).toBe('failed')
  expect(till.account.books().charges).toHaveLength(charges)
  await payAtLast(checkout)
  expect(await ordersOf(checkout)).toEqual([['paid', 2900]])
  expect(await audit()).toMatchObject({ lost: 0, double: 0 })
})

test('keeps a payment that the bank makes at the moment of the cancellation', async () => {
  const checkout = await open()
  const site = await begin(checkout)
  // The request to cancel arrives after the payment.
  till.standIn.misbehave(({ path }) => {
    if (path.endsWith('/cancel')) till.account.visit(site, 'pays')
    return undefined
  })
  await settle()
  till.standIn.misbehave(() => undefined)
  expect(await statusOf(checkout)).toBe('succeeded')
  expect(await ordersOf(checkout)).toEqual([['paid', 2900]])
  expect(await audit()).toMatchObject({ lost: 0, double: 0 })
})

test.each([
  ['pm_ideal', 'NL'],
  ['pm_bancontact', 'BE'],
] as const)('sets up a SEPA debit with %s, and charges it for the next period', async (method, country) => {
  const checkout = await open(products.monthly)
  till.account.visit(await begin(checkout, method, country), 'pays')
  await resume(healthy, checkout)
  await healthy.work()
  expect(await statusOf(checkout)).toBe('succeeded')
  const { customer_id } = await find(checkout)
  expect((await shop.api.call(listPaymentMethods, { params: { id: customer_id! } })).items).toMatchObject([{ type: 'sepa_debit' }])
  const paid = till.account.books().charges.length
  world.clock.advance(32 * 24 * hour)
  for (let time = 0; time < 3; time++) {
    await healthy.sweep()
    await healthy.work()
    world.clock.advance(120_000)
    await till.tell(world)
  }
  expect(till.account.books().charges).toHaveLength(paid + 1)
  const orders = (await shop.api.call(listOrders, { query: { customer_id: [customer_id!] } })).items
  expect(orders.map(({ status, total_amount }) => [status, total_amount])).toEqual([
    ['paid', 2900],
    ['paid', 2900],
  ])
  await query('update subscriptions set due_at = null where customer_id = $1', [customer_id])
})

type Country = 'NL' | 'BE' | 'PL' | 'DE'
type Occasion = readonly [method: string, country: Country, product: keyof typeof products]

/** Confirms a checkout with this method, and reads the methods that the form of another checkout like it offers. */
const tryWith = async ([method, country, product]: Occasion) => {
  const checkout = await open(products[product], product === 'dollars' ? 'usd' : 'eur')
  const before = till.account.books().intents.length
  const answer = await confirm(healthy, checkout, bodyOf(checkout, method, country))
  const params = { client_secret: (await open(products[product], product === 'dollars' ? 'usd' : 'eur')).client_secret }
  const shown = await world.client().call(updateClientCheckout, { params, body: { customer_billing_address: { country } } })
  return {
    answer,
    intents: till.account.books().intents.length - before,
    isOffered: shown.payment_processor_metadata.payment_method_types!.split(' ').includes(method.slice(3)),
  }
}
const rejected = (type: string) => ({
  answer: {
    status: 422,
    body: {
      detail: [{ loc: ['body', 'confirmation_token_id'], msg: expect.stringContaining(`The payment method ${type} does not fit this purchase.`) as string }],
    },
  },
  intents: 0,
  isOffered: false,
})

test.each<Occasion>([
  ['pm_ideal', 'NL', 'once'],
  ['pm_bancontact', 'BE', 'once'],
  ['pm_p24', 'PL', 'once'],
  ['pm_paypal', 'DE', 'dollars'],
])('offers %s in %s for the product %s', async (...occasion) => {
  const { answer, intents, isOffered } = await tryWith(occasion)
  expect([answer.status, siteOf(answer), intents, isOffered]).toEqual([200, expect.stringContaining('https://pm-redirects.stripe.com/'), 1, true])
})

test.each<Occasion>([
  ['pm_ideal', 'DE', 'once'],
  ['pm_ideal', 'NL', 'dollars'],
  ['pm_bancontact', 'NL', 'once'],
  ['pm_p24', 'NL', 'once'],
  ['pm_paypal', 'DE', 'monthly'],
  ['pm_klarna', 'DE', 'once'],
])('rejects %s in %s for the product %s', async (...occasion) => {
  expect(await tryWith(occasion)).toMatchObject(rejected(occasion[0].slice(3)))
})

test('rejects Przelewy24 for a subscription, because it has no later charges', async () => {
  expect(await tryWith(['pm_p24', 'PL', 'monthly'])).toMatchObject(rejected('p24'))
})
