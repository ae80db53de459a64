import assert from 'node:assert/strict'
import { contractKinds } from '@bursar/contract'
import { webhooks as currentWebhooks } from 'polar-sdk/2026-04'
import { validateEvent } from 'polar-sdk-strict/webhooks'
import { openSink, type Sink } from '../../harness/sink.ts'
import { eventually } from '../../harness/world.ts'
import { isBeyond } from '../clients.ts'
import type { Stage, Story } from '../run.ts'

const address = { country: 'DE' as const }

/** Buys, changes, pauses and cancels subscriptions, once with each client. One more subscription becomes past due. */
export const subscriptions: Story = async (stage) => {
  const sink = await openSink()
  try {
    await subscribe(stage, sink)
  } finally {
    sink.close()
  }
}

/** Events of one subscription in the order in which they must be emitted. */
const begun = ['subscription.created', 'subscription.active', 'subscription.updated']
const changes: readonly string[] = [
  ...begun,
  // Plan change.
  'subscription.updated',
  // Events of a cancellation in the portal and of its undo.
  'subscription.updated',
  'subscription.canceled',
  'subscription.updated',
  'subscription.uncanceled',
  // Renewal.
  'subscription.updated',
  'subscription.cycled',
]
/** Events of a pause: scheduled, started and ended. */
const pause: readonly string[] = [
  'subscription.updated',
  'subscription.updated',
  'subscription.paused',
  'subscription.updated',
  'subscription.active',
  'subscription.resumed',
  'subscription.cycled',
]
const end: readonly string[] = ['subscription.updated', 'subscription.canceled', 'subscription.revoked']
/** Events of a subscription whose card is declined at the first renewal. */
const debt: readonly string[] = [...begun, 'subscription.updated', 'subscription.cycled', 'subscription.updated', 'subscription.past_due']

const subscribe = async ({ world, clients }: Stage, sink: Sink): Promise<void> => {
  const { organization } = await world.shop()
  const token = (await organization.token()).secret.reveal()
  const seller = clients.current(token)
  const { secret } = await seller.webhooks.createWebhookEndpoint({ url: sink.url('/subscriptions'), format: 'raw', events: [...contractKinds] })
  await world.database.owner((owner) =>
    owner.query(
      `update organizations set customer_portal_settings = jsonb_set(customer_portal_settings, '{subscription}', '{"update_plan": true, "update_seats": true, "pause": true}') where id = $1`,
      [organization.id],
    ),
  )
  /** Moves the current period one month back, so that the renewal is due now. */
  const pass = async (id: string) => {
    await world.database.owner(async (owner) => {
      await owner.query(`update orders set period_start = period_start - interval '1 month' where subscription_id = $1`, [id])
      await owner.query(
        `update subscriptions set current_period_start = current_period_start - interval '1 month', calendar_from = calendar_from - interval '1 month',
           current_period_end = now(), due_at = now() where id = $1`,
        [id],
      )
    })
  }
  /** Buys with a card, through a separate checkout. */
  const buy = async (product_id: string, card: string, email: string) => {
    const made = await seller.checkouts.create({ products: [product_id], customer_email: email, customer_billing_address: address })
    await clients.current('undefined').checkouts.clientConfirm(made.client_secret, { confirmation_token_id: card })
    return eventually('the subscription exists', async () =>
      (await seller.subscriptions.list({ product_id, limit: 100 })).items.find((one) => one.checkout_id === made.id),
    )
  }
  const until = (id: string, what: string, is: (one: Awaited<ReturnType<typeof seller.subscriptions.get>>) => boolean) =>
    eventually(what, async () => is(await seller.subscriptions.get(id)))
  const kit = { pass, buy, until }
  const lives = [await withCurrent(clients, token, kit), await withStrict(clients, token, kit)]

  const heard = new Map<string, string[]>()
  const expected = new Map(lives.flatMap(({ id, owing, free, life }) => [[id, life] as const, [owing, debt] as const, [free, begun] as const]))
  const listen = async () => {
    heard.clear()
    for (const { body, headers } of sink.of('/subscriptions')) {
      const event = await currentWebhooks.validateEvent(body, headers, secret)
      if (!isBeyond(event)) assert.equal(validateEvent(body, headers, secret).type, event.type)
      if (!event.type.startsWith('subscription.')) continue
      const { id } = event.data as { id: string }
      heard.set(id, [...(heard.get(id) ?? []), event.type])
    }
  }
  await eventually('every expected webhook has arrived', async () => {
    await listen()
    return [...expected].every(([id, kinds]) => (heard.get(id)?.length ?? 0) >= kinds.length)
  })
  for (const [id, kinds] of expected) assert.deepEqual(heard.get(id), kinds)
}

interface Kit {
  readonly pass: (id: string) => Promise<void>
  readonly buy: (product_id: string, card: string, email: string) => Promise<{ id: string; customer_id: string }>
  readonly until: (
    id: string,
    what: string,
    is: (one: { status: string; current_period_start: string; past_due_at?: string | null }) => boolean,
  ) => Promise<unknown>
}
interface Lives {
  /** Three subscriptions: one that has emitted the events in `life`, one that is past due (`owing`), and a free one. */
  readonly id: string
  readonly life: readonly string[]
  readonly owing: string
  readonly free: string
}

const withCurrent = async (clients: Stage['clients'], token: string, { pass, buy, until }: Kit): Promise<Lives> => {
  const seller = clients.current(token)
  const monthly = (name: string, price_amount: number) =>
    seller.products.create({ name, recurring_interval: 'month', visibility: 'public', prices: [{ amount_type: 'fixed', price_amount }] })
  const [free, small, large] = [await monthly('Free', 0), await monthly('Small', 900), await monthly('Large', 2900)]
  const customer = await seller.customers.create({ email: 'free@people.test', external_id: 'free-1' })
  const given = await seller.subscriptions.create({ product_id: free.id, customer_id: customer.id, metadata: { from: 'api' } })
  assert.deepEqual([given.status, given.amount, given.metadata], ['active', 0, { from: 'api' }])

  const { id, customer_id } = await buy(small.id, 'tok_visa', 'cora@people.test')
  const larger = await seller.subscriptions.update(id, { product_id: large.id, proration_behavior: 'invoice' })
  assert.deepEqual([larger.product.id, larger.amount], [large.id, 2900])
  const portal = clients.current((await seller.customerSessions.create({ customer_id })).token).customerPortal.subscriptions
  assert.deepEqual(
    (await portal.list({ active: true })).items.map((one) => one.id),
    [id],
  )
  assert.equal((await portal.get(id)).product.id, large.id)
  assert.equal((await portal.cancel(id)).cancel_at_period_end, true)
  assert.equal((await portal.update(id, { cancel_at_period_end: false })).cancel_at_period_end, false)
  assert.match(await seller.subscriptions.export({ columns: ['email', 'net_amount'] }), /^Email,Net Amount\r\n/)
  const before = (await seller.subscriptions.get(id)).current_period_start
  await pass(id)
  await until(id, 'the subscription is renewed', (one) => one.current_period_start > before)
  const renewal = await eventually('the renewal is paid', async () =>
    (await seller.orders.list({ customer_id })).items.find((one) => one.billing_reason === 'subscription_cycle' && one.status === 'paid'),
  )
  assert.equal(renewal.total_amount, 2900)
  assert.equal((await portal.update(id, { pause_at_period_end: true })).pause_at_period_end, true)
  await pass(id)
  await until(id, 'the subscription is paused', (one) => one.status === 'paused')
  assert.equal((await seller.subscriptions.update(id, { resume: true })).status, 'active')
  const ended = await seller.subscriptions.revoke(id)
  assert.equal(ended.status, 'canceled')
  await assert.rejects(seller.subscriptions.revoke(id), (error: { name: string }) => error.name === 'AlreadyCanceledSubscription')

  const owing = await buy(small.id, 'tok_declined_later', 'dora@people.test')
  await pass(owing.id)
  await until(owing.id, 'the subscription is past due', (one) => one.status === 'past_due' && one.past_due_at != null)
  return { id, life: [...changes, ...pause, ...end], owing: owing.id, free: given.id }
}

const withStrict = async (clients: Stage['clients'], token: string, { pass, buy, until }: Kit): Promise<Lives> => {
  const seller = clients.strict(token)
  const monthly = (name: string, priceAmount: number) =>
    seller.products.create({ name, recurringInterval: 'month', visibility: 'public', prices: [{ amountType: 'fixed', priceAmount }] })
  const [free, small, large] = [await monthly('Free', 0), await monthly('Small', 900), await monthly('Large', 2900)]
  await seller.customers.create({ email: 'also-free@people.test', externalId: 'free-2' })
  const given = await seller.subscriptions.create({ productId: free.id, externalCustomerId: 'free-2' })
  assert.equal(given.status, 'active')

  const { id, customer_id } = await buy(small.id, 'tok_mastercard', 'emil@people.test')
  const larger = await seller.subscriptions.update({ id, subscriptionUpdate: { productId: large.id, prorationBehavior: 'prorate' } })
  assert.deepEqual([larger.product.id, larger.amount], [large.id, 2900])
  const session = { customerSession: (await seller.customerSessions.create({ customerId: customer_id })).token }
  const portal = seller.customerPortal.subscriptions
  const items: string[] = []
  for await (const { result } of await portal.list(session, {})) items.push(...result.items.map((one) => one.id))
  assert.deepEqual(items, [id])
  assert.equal((await portal.get(session, { id })).product.id, large.id)
  assert.equal((await portal.cancel(session, { id })).cancelAtPeriodEnd, true)
  assert.equal((await portal.update(session, { id, customerSubscriptionUpdate: { cancelAtPeriodEnd: false } })).cancelAtPeriodEnd, false)
  assert.match(String(await seller.subscriptions.export({})), /^Email,Started At,/)
  const before = (await seller.subscriptions.get({ id })).currentPeriodStart
  await pass(id)
  await until(id, 'the subscription is renewed', (one) => new Date(one.current_period_start) > before)
  // Cancels without a pause before, because the older client has no method for pauses.
  assert.equal((await seller.subscriptions.revoke({ id })).status, 'canceled')

  const owing = await buy(small.id, 'tok_expired_later', 'fred@people.test')
  await pass(owing.id)
  await until(owing.id, 'the subscription is past due', (one) => one.status === 'past_due')
  // The order has an invoice number although it is still pending. The older client cannot read an order without one.
  const unpaid: { id: string; invoiceNumber: string }[] = []
  for await (const { result } of await seller.orders.list({}))
    unpaid.push(...result.items.filter((one) => one.subscriptionId === owing.id && one.status === 'pending'))
  assert.equal(unpaid.length, 1)
  assert.match(unpaid[0]!.invoiceNumber, /-0002$/)
  const order = await seller.orders.get({ id: unpaid[0]!.id })
  assert.deepEqual([order.status, order.paid, order.invoiceNumber], ['pending', false, unpaid[0]!.invoiceNumber])
  return { id, life: [...changes, ...end], owing: owing.id, free: given.id }
}
