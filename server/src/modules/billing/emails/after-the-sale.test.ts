import {
  acceptDispute,
  assignSeat,
  claimSeat,
  confirmClientCheckout,
  createCheckout,
  createCustomer,
  createProduct,
  createRefund,
  listDisputes,
  listOrders,
  listSubscriptions,
  revokeSeat,
  updateOrganization,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { tokenIn } from '../../../../test/harness/teams.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { randomText } from '../../../kernel/secrets.ts'
import { regularWork } from '../../../main/wire.ts'

// Mails about a refund, a dispute and a withdrawn seat. They have no switch, because the customer must hear of them. Every mail here is
// caused by an operation of the API or an event of the processor, and sent by the worker.

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

const address = () => `${randomText(10, 'abcdefghijklmnop')}@people.test`

/** Waits until the worker has run every job. Fails if a job has failed. */
const quiet = () =>
  eventually('the worker has run every job', async () => {
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ last_error: string | null }>('select last_error from graphile_worker._private_jobs order by last_error'),
    )
    if (rows[0]?.last_error) throw new Error(rows[0].last_error)
    return rows.length === 0
  })

/** Removes all sent mails from the test mailbox, and returns them by recipient. */
const sent = async () => {
  await quiet()
  return world.mail.letters.splice(0).toSorted((a, b) => a.to.localeCompare(b.to))
}

/** Reads the events of the processor, as the periodic task does, and waits for what they cause. */
const hear = async () => {
  const { gateways, postgres, platform } = world.api
  await regularWork.find(({ name }) => name === 'billing.hear')!.run({ db: postgres.db, transact: world.transactAsWorker, gateways, platform })
  await quiet()
}

/** Opens a shop that has switched every mail to customers on or off, and a customer who prefers a language. */
const open = async (locale: string, switched: boolean) => {
  const shop = await world.shop()
  const { api, organization } = shop
  const switches = Object.fromEntries(Object.keys(organization.customer_email_settings).map((name) => [name, switched]))
  await api.call(updateOrganization, {
    params: { id: organization.id },
    body: { name: 'Acme', customer_email_settings: switches as typeof organization.customer_email_settings },
  })
  const email = address()
  const customer = await api.call(createCustomer, { body: { email, name: 'Works', locale } })
  const buy = async (product: object, card: string, seats?: number) => {
    const { id: product_id } = await api.call(createProduct, { body: { name: 'Guide', ...product } as never })
    const checkout = await api.call(createCheckout, {
      // With an address for the success, the buyer takes no seat.
      body: { products: [product_id], customer_id: customer.id, ...(seats === undefined ? {} : { seats, success_url: 'https://shop.example/thanks' }) },
    })
    const body = { customer_billing_address: { country: 'DE' as const }, confirmation_token_id: card }
    await world.client().call(confirmClientCheckout, { params: { client_secret: checkout.client_secret }, body })
    const order = await eventually('the order is paid', async () =>
      (await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items.find(({ paid }) => paid),
    )
    const letters = await sent()
    // The worker may have heard of the dispute already.
    const disputed = letters.filter(({ subject }) => /disputed|beanstandete/i.test(subject))
    expect(letters.filter((letter) => letter.to === email && !disputed.includes(letter))).toHaveLength(switched ? 1 : 0)
    return { order, disputed }
  }
  return { ...shop, email, customer, buy }
}

const single = { prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] }

const both = [
  ['en', true],
  ['en', false],
  ['de', true],
  ['de', false],
] as const

describe.each(both)('in the language %s, with all switches of mails %s', (locale, switched) => {
  const [language, amount] = locale === 'de' ? ['de', '10,00'] : ['en', '10.00']

  test('a refund by the API is mailed to the customer once', async () => {
    const { api, email, buy } = await open(locale, switched)
    const { order } = await buy(single, 'tok_visa')
    const refund = await api.call(createRefund, { body: { order_id: order.id, reason: 'customer_request', amount: 1000 } })
    expect(refund.status).toBe('succeeded')
    const letters = await sent()
    expect(letters.map(({ to, subject }) => [to, subject])).toEqual([[email, locale === 'de' ? 'Ihre Erstattung von Acme' : 'Your refund from Acme']])
    expect(letters[0]!.html).toContain(`<html lang="${language}"`)
    expect(letters[0]!.text).toContain(amount)
    expect(letters[0]!.text).toContain(`/portal/orders/${order.id}`)
    // The events of the processor about the same refund cause no second mail.
    await hear()
    expect(await sent()).toEqual([])
  })

  test('a dispute is mailed to the customer and to the people of the seller, and its loss to the customer', async () => {
    const { api, organization, email, buy } = await open(locale, switched)
    const [colleague, stranger] = [await world.person(), await world.person()]
    await world.join(organization.id, colleague.id, 'member')
    const { disputed } = await buy(single, 'tok_dispute')
    await hear()
    const opened = [...disputed, ...(await sent())]
    const toCustomer = opened.filter(({ to }) => to === email)
    expect(toCustomer.map(({ subject }) => subject)).toEqual([locale === 'de' ? 'Ihre beanstandete Zahlung an Acme' : 'Your disputed payment to Acme'])
    expect(toCustomer[0]!.html).toContain(`<html lang="${language}"`)
    // The owner and the colleague, in the language of the seller.
    const toSeller = opened.filter(({ to }) => to !== email)
    expect(toSeller.map(({ subject }) => subject)).toEqual(['Disputed payment: $29.00 from Works', 'Disputed payment: $29.00 from Works'])
    expect(toSeller.map(({ to }) => to)).toContain(colleague.email)
    expect(opened.map(({ to }) => to)).not.toContain(stranger.email)
    const { id } = (await api.call(listDisputes, {})).items[0]!
    await api.call(acceptDispute, { params: { id } })
    await hear()
    expect((await sent()).map(({ to, subject }) => [to, subject])).toEqual([
      [email, locale === 'de' ? 'Ihre beanstandete Zahlung an Acme wurde zurückgegeben' : 'Your disputed payment to Acme was returned'],
    ])
  })

  test('a withdrawn seat is mailed to its holder, and not to the team', async () => {
    const { api, customer, buy } = await open(locale, switched)
    const tiers = [{ min_seats: 1, max_seats: 100, price_per_seat: 1000 }]
    await buy({ recurring_interval: 'month', prices: [{ amount_type: 'seat_based', price_currency: 'usd', seat_tiers: { tiers } }] }, 'tok_visa', 3)
    const [subscription] = (await api.call(listSubscriptions, { query: { customer_id: [customer.id] } })).items
    const holder = address()
    const seat = await api.call(assignSeat, { body: { subscription_id: subscription!.id, email: holder } })
    const [invitation] = await sent()
    expect(invitation!.to).toBe(holder)
    await world.client().call(claimSeat, { body: { invitation_token: tokenIn(invitation!.text) } })
    await sent()
    await api.call(revokeSeat, { params: { seat_id: seat.id } })
    const letters = await sent()
    expect(letters.map(({ to, subject }) => [to, subject])).toEqual([
      [holder, locale === 'de' ? 'Ihr Platz für Guide wurde zurückgenommen' : 'Your seat for Guide was withdrawn'],
    ])
    expect(letters[0]!.html).toContain(`<html lang="${language}"`)
    expect(letters[0]!.text).toContain('Works')
  })
})
