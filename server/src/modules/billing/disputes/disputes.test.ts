import { inWallTime } from '../../../platform/clocks.sql.ts'
import {
  acceptDispute,
  confirmClientCheckout,
  createBenefit,
  createCheckout,
  createProduct,
  createRefund,
  getDispute,
  getOrder,
  listBenefitGrants,
  listDisputes,
  listOrders,
  listRefunds,
  listSubscriptions,
  updateProductBenefits,
  updateTaxSettings,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readBooks } from '../../../../test/harness/books.ts'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openTeams } from '../../../../test/harness/teams.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { openPayments } from '../../../gateways/payments/open.ts'
import type { ProcessorDispute } from '../../../gateways/payments/payments.ts'
import { settlesAfter } from '../../../gateways/payments/test/cards.ts'
import type { ProcessorCall } from '../../../gateways/payments/test/processor.ts'
import { within } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { regularWork } from '../../../main/wire.ts'
import { findAccountAnywhere } from '../payments/attempts.sql.ts'
import { processorOf } from '../payments/attempts.ts'
import { receive } from '../payments/processor-events.ts'
import { begin, follow, followNamed, proceed, settle } from './disputes.ts'

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

const errorOf = (answer: { status: number; body: unknown }) => `${answer.status} ${(answer.body as { error: string }).error}`
const times = <T>(count: number, work: (at: number) => Promise<T>): Promise<T[]> => Promise.all(Array.from({ length: count }, (_, at) => work(at)))
/** Fetches and applies the processor's events. */
const hear = async () => {
  await regularWork.find(({ name }) => name === 'billing.hear')!.run(deployment.deps)
  await deployment.work()
}
/** Advances the clock until the bank has decided the dispute, and applies the decision. */
const decide = async () => {
  world.clock.advance(settlesAfter)
  await hear()
}

/** A purchase of 29.00, of which 4.63 are tax, with a card whose payment is disputed. */
const open = async (card = 'tok_dispute', product: Record<string, unknown> = {}) => {
  const shop = await world.shop()
  const { api, organization } = shop
  await api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: false }] } })
  const { id } = await api.call(createProduct, {
    body: { name: 'Guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }], ...product } as never,
  })
  const benefit = await api.call(createBenefit, { body: { type: 'custom', description: 'Reads it', properties: {} } })
  await api.call(updateProductBenefits, { params: { id }, body: { benefits: [benefit.id] } })
  const checkout = await api.call(createCheckout, { body: { products: [id] } })
  await world.client().call(confirmClientCheckout, {
    params: { client_secret: checkout.client_secret },
    body: { customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' }, confirmation_token_id: card },
  })
  await deployment.work()
  const order = (await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items[0]!
  const rows = async <T extends object>(text: string, values: unknown[] = [organization.id]) =>
    (await world.database.owner((owner) => owner.query<T>(text, values))).rows
  const [account] = await rows<{ id: string }>('select id from payment_accounts where organization_id = $1')
  return {
    ...shop,
    order,
    account_id: account!.id,
    list: async () => (await api.call(listDisputes, {})).items,
    dispute: async () => (await api.call(listDisputes, {})).items[0]!,
    theirs: async () => (await readBooks(world, organization.id)).disputes,
    refund: (amount: number) => api.send(createRefund, { body: { order_id: order.id, reason: 'customer_request', amount } }),
    granted: async () => {
      await deployment.sweep('entitlements.apply')
      return (await api.call(listBenefitGrants, { query: {} })).items.map(({ is_granted }) => is_granted)
    },
    /** The ledger accounts with a balance. Also checks that the ledger sums to zero. */
    ledger: async () => {
      const found = await rows<{ account: string; amount: number }>(
        'select account, sum(amount)::int as amount from ledger_entries where organization_id = $1 group by 1 having sum(amount) <> 0 order by 1',
      )
      expect(found.reduce((sum, { amount }) => sum + amount, 0)).toBe(0)
      return Object.fromEntries(found.map(({ account: name, amount }) => [name, amount]))
    },
    facts: async () =>
      (await rows<{ kind: string }>(`select kind from ledger_transactions where organization_id = $1 and kind like 'dispute%' order by id`)).map(
        ({ kind }) => kind,
      ),
  }
}
const earned = { processor: 2900, revenue: -2437, tax: -463 }
const withheld = { disputed: 2900, revenue: -2437, tax: -463 }

test('mails the customer and each person of the seller when a dispute is opened, and the customer when it is lost', async () => {
  const { organization, dispute } = await open('tok_dispute_lost')
  const [manager, member, stranger] = [await world.person(), await world.person(), await world.person()]
  await world.join(organization.id, manager.id, 'admin')
  await world.join(organization.id, member.id, 'member')
  world.mail.letters.length = 0
  const { post } = await openTeams(world, deployment)
  await hear()
  await post('mail.dispute', 'mail.seller_dispute', 'mail.dispute_opened')
  const subjectsTo = (email: string) => world.mail.letters.filter(({ to }) => to === email).map(({ subject }) => subject.replace(organization.name, 'Shop'))
  expect(subjectsTo('ada@people.test')).toEqual(['Ihre beanstandete Zahlung an Shop'])
  expect(subjectsTo(manager.email)).toEqual(['Disputed payment: $29.00 from ada@people.test'])
  expect(subjectsTo(member.email)).toEqual(subjectsTo(manager.email))
  expect(subjectsTo(stranger.email)).toEqual([])
  expect(world.mail.letters.find(({ to }) => to === manager.email)!.text).toContain('The holder of the card did not make the payment')
  await decide()
  await post('mail.dispute')
  expect((await dispute()).status).toBe('lost')
  expect(subjectsTo('ada@people.test')).toContain('Ihre beanstandete Zahlung an Shop wurde zurückgegeben')
})

test('lists a disputed payment with its customer, withholds the money, and refuses a refund', async () => {
  const { api, order, dispute, ledger, granted, refund, organization } = await open()
  expect(await ledger()).toEqual(earned)
  await hear()
  const seen = await dispute()
  expect(seen).toMatchObject({
    status: 'needs_response',
    resolved: false,
    closed: false,
    amount: 2437,
    tax_amount: 463,
    currency: 'usd',
    reason: 'fraudulent',
    past_due: false,
    evidence_due_by: expect.any(String) as string,
    order_id: order.id,
    customer: { id: order.customer_id, email: 'ada@people.test', organization_id: organization.id },
    case_id: null,
  })
  expect(await api.call(getDispute, { params: { id: seen.id } })).toEqual(seen)
  expect(await ledger()).toEqual(withheld)
  expect(await granted()).toEqual([true])
  expect(errorOf(await refund(100))).toBe('403 RefundDisputedPayment')
  const query = (filter: object) => api.call(listDisputes, { query: filter }).then(({ items }) => items.length)
  expect([await query({ status: ['needs_response'] }), await query({ status: ['won', 'lost'] })]).toEqual([1, 0])
  expect([await query({ order_id: [order.id] }), await query({ order_id: [newId(world.clock.wall())] })]).toEqual([1, 0])
  expect([await query({ sorting: ['-amount'] }), await query({ organization_id: [organization.id] })]).toEqual([1, 1])
})

test('posts a lost dispute to the ledger once and revokes the benefits of the order', async () => {
  const { api, order, dispute, ledger, facts, granted, refund } = await open('tok_dispute_lost')
  await hear()
  expect([(await dispute()).status, await granted()]).toEqual(['needs_response', [true]])
  await decide()
  expect(await dispute()).toMatchObject({ status: 'lost', resolved: true, closed: true, evidence_due_by: null })
  expect(await ledger()).toEqual({})
  expect(await facts()).toEqual(['dispute_withheld', 'dispute_lost'])
  expect(await granted()).toEqual([false])
  expect(errorOf(await refund(100))).toBe('403 RefundDisputedPayment')
  expect((await api.call(getOrder, { params: { id: order.id } })).status).toBe('paid')
})

test('polls an open dispute daily if no event arrives', async () => {
  const { dispute, ledger } = await open('tok_dispute_won')
  await hear()
  expect(await dispute()).toMatchObject({ closed: false })
  // The dispute is decided, but its event is lost.
  world.clock.advance(settlesAfter)
  await world.database.owner((owner) => owner.query('delete from test_processor.callbacks'))
  world.clock.advance(25 * 3_600_000)
  await deployment.sweep('billing.follow_disputes')
  expect(await dispute()).toMatchObject({ status: 'won' })
  expect(await ledger()).toEqual(earned)
})

test('returns the withheld money of a won dispute, and keeps the benefits while the dispute is open', async () => {
  const { dispute, ledger, facts, granted, refund } = await open('tok_dispute_won')
  await hear()
  expect([(await dispute()).status, await ledger()]).toEqual(['under_review', withheld])
  await decide()
  expect([(await dispute()).status, await ledger(), await granted()]).toEqual(['won', earned, [true]])
  expect(await facts()).toEqual(['dispute_withheld', 'dispute_returned'])
  expect((await refund(100)).status).toBe(201)
})

test('withholds nothing for an early warning and allows a refund; a later dispute still withholds the full amount', async () => {
  const { dispute, ledger, refund } = await open('tok_dispute_warned')
  await hear()
  expect([(await dispute()).status, await ledger()]).toEqual(['early_warning', earned])
  expect((await refund(1000)).status).toBe(201)
  await decide()
  expect(await dispute()).toMatchObject({ status: 'needs_response', amount: 2627, tax_amount: 273 })
  // The bank takes the full amount despite the earlier refund, so the processor account becomes negative.
  expect(await ledger()).toEqual({ processor: -1190, disputed: 2900, revenue: -1437, tax: -273 })
})

test('records a prevented dispute as a refund with reason dispute_prevention', async () => {
  const { api, order, dispute, ledger, events, granted } = await open('tok_dispute_prevented')
  await hear()
  await decide()
  const seen = await dispute()
  expect(seen).toMatchObject({ status: 'prevented', resolved: false, closed: true })
  const [refund] = (await api.call(listRefunds, {})).items
  expect(refund).toMatchObject({
    status: 'succeeded',
    reason: 'dispute_prevention',
    amount: 2437,
    tax_amount: 463,
    dispute: { id: seen.id, status: 'prevented' },
  })
  expect(await ledger()).toEqual({})
  expect((await api.call(getOrder, { params: { id: order.id } })).status).toBe('refunded')
  expect(await granted()).toEqual([true])
  const kinds = (await events()).map(({ type }) => type)
  expect(kinds.slice(kinds.indexOf('refund.created'))).toEqual(['refund.created', 'order.updated', 'order.refunded'])
})

test('ends the subscription of a lost dispute and emits its events', async () => {
  const { api, dispute, events, granted } = await open('tok_dispute', { recurring_interval: 'month' })
  await hear()
  const { id } = await dispute()
  expect((await api.call(listSubscriptions, {})).items[0]!.status).toBe('active')
  const answer = await api.call(acceptDispute, { params: { id } })
  expect(answer).toMatchObject({ id, status: 'lost', closed: true })
  await deployment.work()
  expect((await api.call(listSubscriptions, {})).items[0]!).toMatchObject({ status: 'canceled', ended_at: expect.any(String) as string })
  expect((await events('subscription.revoked')).length).toBe(1)
  expect(await granted()).toEqual([false])
})

test('accepts a dispute once, and only if it needs a response and belongs to the organization', async () => {
  const { api, dispute, theirs, ledger } = await open()
  await hear()
  const { id } = await dispute()
  const stranger = await open('tok_dispute_won')
  await hear()
  expect(errorOf(await stranger.api.send(acceptDispute, { params: { id } }))).toBe('404 ResourceNotFound')
  expect(errorOf(await stranger.api.send(getDispute, { params: { id } }))).toBe('404 ResourceNotFound')
  expect(errorOf(await stranger.api.send(acceptDispute, { params: { id: (await stranger.dispute()).id } }))).toBe('409 DisputeNotOpenError')
  const answers = await times(5, () => api.send(acceptDispute, { params: { id } }))
  // The other requests find the dispute already lost (409), or repeat the acceptance with the same result (200).
  for (const answer of answers) expect(['200 lost', '409 DisputeNotOpenError']).toContain(answer.status === 200 ? `200 ${answer.body.status}` : errorOf(answer))
  expect(answers.some(({ status }) => status === 200)).toBe(true)
  expect((await theirs()).map(({ status }) => status)).toEqual(['lost'])
  expect(await ledger()).toEqual({})
  expect(errorOf(await api.send(acceptDispute, { params: { id } }))).toBe('409 DisputeNotOpenError')
})

test.each(['before', 'after'] as const)('repeats an acceptance if the processor fails %s receiving it, and posts one loss', async (when) => {
  const { api, dispute, theirs, facts, organization } = await open()
  await hear()
  const { id } = await dispute()
  let faults = 1
  const payments = openPayments(world.config, {
    ...world.base,
    misbehave: (call: ProcessorCall) => (call === 'acceptDispute' && faults-- > 0 ? when : undefined),
  })
  const deps = { ...deployment.deps, gateways: { ...deployment.deps.gateways, payments } }
  const scope = within(organization.id, 'machine', 'phase2')
  const intended = await world.transact((tx) => begin(inWallTime(tx), scope, id))
  expect(await proceed(deps, scope, intended)).toMatchObject({ status: 'needs_response' })
  expect((await theirs()).map(({ status }) => status)).toEqual([when === 'before' ? 'needs_response' : 'lost'])
  world.clock.advance(31_000)
  await deployment.sweep('billing.follow_disputes')
  expect((await api.call(getDispute, { params: { id } })).status).toBe('lost')
  expect((await theirs()).map(({ status }) => status)).toEqual(['lost'])
  expect(await facts()).toEqual(['dispute_withheld', 'dispute_lost'])
  await payments.close()
})

test('refuses an acceptance if the bank decides the dispute at the same moment', async () => {
  const { api, dispute, organization, account_id } = await open('tok_dispute_lost')
  await hear()
  const { id } = await dispute()
  await world.database.owner((owner) =>
    owner.query(`update test_processor.disputes set status = 'under_review', settles_to = 'won' where account = $1`, [account_id]),
  )
  expect(errorOf(await api.send(acceptDispute, { params: { id } }))).toBe('409 DisputeNotOpenError')
  expect((await api.call(getDispute, { params: { id } })).status).toBe('under_review')
  world.clock.advance(settlesAfter)
  await follow(deployment.deps, organization.id, id)
  expect((await api.call(getDispute, { params: { id } })).status).toBe('won')
})

test('finds a dispute whose event was lost when a refund fails because of that dispute', async () => {
  const { list, refund } = await open('tok_dispute_untold')
  await hear()
  expect(await list()).toEqual([])
  expect((await refund(100)).body).toMatchObject({ status: 'failed' })
  await deployment.work()
  expect((await list()).map(({ status }) => status)).toEqual(['needs_response'])
  expect(errorOf(await refund(100))).toBe('403 RefundDisputedPayment')
})

test('applies a dispute that arrives before its order once the order exists', async () => {
  const shop = await world.shop()
  const { api } = shop
  const { id } = await api.call(createProduct, {
    body: { name: 'Guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] },
  })
  const { client_secret } = await api.call(createCheckout, { body: { products: [id] } })
  await world.client().call(confirmClientCheckout, {
    params: { client_secret },
    body: { customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' }, confirmation_token_id: 'tok_dispute' },
  })
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ id: string; name: string }>(
      `select a.id, d.id as name from payment_accounts a join test_processor.disputes d on d.account = a.id::text where a.organization_id = $1`,
      [shop.organization.id],
    ),
  )
  await followNamed(deployment.deps, { organization_id: shop.organization.id, account_id: rows[0]!.id, processor_dispute_id: rows[0]!.name })
  expect((await api.call(listDisputes, {})).items).toEqual([])
  await deployment.work()
  expect((await api.call(listDisputes, {})).items).toMatchObject([{ status: 'needs_response', amount: 2900 }])
})

test('creates one dispute and one ledger posting for twenty concurrent events with outdated statuses [race]', async () => {
  for (let round = 0; round < 5; round++) {
    const { organization, account_id, theirs, list, ledger, facts } = await open('tok_dispute_lost', round % 2 === 0 ? {} : { recurring_interval: 'month' })
    const { id: name, intent_id } = (await theirs())[0]!
    const account = (await findAccountAnywhere(deployment.deps.db, account_id))!
    const processor = processorOf(deployment.deps, account)
    const opened = await processor.readDispute(name)
    // Delivers the dispute as processor events and as jobs. Further below, it is also applied directly with outdated
    // statuses.
    const event = { id: `evt-${round}`, kind: 'dispute.updated' as const, object_id: name }
    await times(20, (at) =>
      at % 2 === 0
        ? world.transact((tx) => receive(tx, account, event))
        : followNamed(deployment.deps, { organization_id: organization.id, account_id, processor_dispute_id: name }),
    )
    expect((await list()).map(({ status }) => status)).toEqual(['needs_response'])
    expect([await facts(), await ledger()]).toEqual([['dispute_withheld'], withheld])
    world.clock.advance(settlesAfter)
    const lost = await processor.readDispute(name)
    const warned: ProcessorDispute = { ...opened, status: 'early_warning', respond_by: null }
    const news = [lost, opened, warned, { ...opened, status: 'under_review' as const }]
    await times(20, (at) =>
      deployment.deps.transact((tx) => settle(inWallTime(tx), deployment.deps, { organization_id: organization.id, account_id }, news[at % 4]!)),
    )
    expect((await list()).map(({ status }) => status)).toEqual(['lost'])
    expect([await facts(), await ledger()]).toEqual([['dispute_withheld', 'dispute_lost'], {}])
    // A different final status that arrives later is logged as an error and not posted to the ledger.
    await deployment.deps.transact((tx) =>
      settle(inWallTime(tx), deployment.deps, { organization_id: organization.id, account_id }, { ...lost, intent_id, status: 'won' }),
    )
    expect([await facts(), (await list()).map(({ status }) => status)]).toEqual([['dispute_withheld', 'dispute_lost'], ['lost']])
    await deployment.work()
  }
})
