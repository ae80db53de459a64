import assert from 'node:assert/strict'
import { ProcessorRefusal, type Processor } from '../../src/gateways/payments/payments.ts'

/** Returns the confirmation token that a checkout page would get for a test card. */
export type TokenFor = (card: string) => Promise<string>

/**
 * Sends every kind of request that the server sends to Stripe, in one sequence. Every test run sends it to the stand-in.
 * With a test-mode key, `pnpm live:stripe` sends the same sequence to Stripe itself and expects the same results.
 */
export const tellStory = async (stripe: Processor, tokenFor: TokenFor, { run, wait }: { run: string; wait: () => Promise<void> }): Promise<string[]> => {
  const shown: string[] = []
  const show = (what: string) => void shown.push(what)
  const metadata = (name: string) => ({ payment_id: `${run}-${name}`, organization_id: run })
  const wish = { kind: 'payment' as const, amount: 2900, currency: 'usd', reusable: false }
  const ways = { off_session: false, require_3ds: false }
  const refuses = (work: Promise<unknown>) => assert.rejects(work, ProcessorRefusal)

  const customer = await stripe.createCustomer!({ key: `${run}-customer`, metadata: { customer_id: run } })
  assert.equal(await stripe.createCustomer!({ key: `${run}-customer`, metadata: { customer_id: run } }), customer)
  show('a customer, once under one key')

  const make = (name: string, more: Partial<Parameters<Processor['createIntent']>[0]> = {}) =>
    stripe.createIntent({ ...wish, key: `${run}-${name}`, customer, metadata: metadata(name), ...more })
  const pay = async (id: string, card: string, name: string) =>
    stripe.confirmIntent(id, { ...ways, key: `${run}-${name}:confirm`, deps: { kind: 'token', token: await tokenFor(card) } })

  const made = await make('first')
  assert.equal((await make('first')).id, made.id)
  await refuses(make('first', { amount: 3000 }))
  assert.deepEqual(
    [made.status, made.amount, made.currency, made.method, made.charged_at, made.metadata],
    ['requires_confirmation', 2900, 'usd', null, null, metadata('first')],
  )
  const token = await tokenFor('pm_card_visa')
  assert.equal((await stripe.previewToken(token))?.type, 'card')
  assert.equal(await stripe.previewToken('ctoken_1000000000000000'), null)
  const confirmation = { ...ways, key: `${run}-first:confirm`, deps: { kind: 'token' as const, token } }
  const paid = await stripe.confirmIntent(made.id, confirmation)
  assert.deepEqual([paid.status, paid.method?.type, paid.method?.brand, paid.method?.last4, paid.decline], ['succeeded', 'card', 'visa', '4242', null])
  assert.ok(paid.charged_at)
  assert.equal((await stripe.confirmIntent(made.id, confirmation)).status, 'succeeded')
  await refuses(pay(made.id, 'pm_card_visa', 'again'))
  await refuses(stripe.cancelIntent(made.id))
  assert.deepEqual(await stripe.readIntent(made.id), paid)
  show('a payment: created, confirmed once, read')

  assert.deepEqual(
    (await stripe.findIntents({ customer, metadata: { payment_id: `${run}-first` } })).map(({ id }) => id),
    [made.id],
  )
  assert.deepEqual(await stripe.findIntents({ customer, metadata: { payment_id: `${run}-none` } }), [])
  show('found again by what it carries')

  const back = { key: `${run}-refund`, intent_id: made.id, amount: 500, metadata: { refund_id: `${run}-refund` } }
  const refund = await stripe.createRefund(back)
  assert.deepEqual([refund.amount, refund.currency, refund.intent_id], [500, 'usd', made.id])
  assert.equal((await stripe.createRefund(back)).id, refund.id)
  assert.equal((await stripe.readRefund(refund.id)).id, refund.id)
  assert.deepEqual(
    (await stripe.findRefunds({ intent_id: made.id, metadata: { refund_id: `${run}-refund` } })).map(({ id }) => id),
    [refund.id],
  )
  await refuses(stripe.createRefund({ ...back, key: `${run}-too-much`, amount: 2401 }))
  show('a refund: once under one key, never more than was paid')

  // An intent that may leave the page needs a return URL for every confirmation, also with a card.
  const leaving = await make('leaving', { leaves: true })
  await refuses(pay(leaving.id, 'pm_card_visa', 'leaving-without-return'))
  const stayed = await stripe.confirmIntent(leaving.id, {
    ...ways,
    key: `${run}-leaving:confirm`,
    deps: { kind: 'token', token: await tokenFor('pm_card_visa') },
    return_url: 'https://shop.example/return',
  })
  assert.deepEqual([stayed.status, stayed.redirect_url], ['succeeded', null])
  show('an intent that may leave the page, paid with a card')

  const poor = await make('poor')
  const declined = await pay(poor.id, 'pm_card_chargeDeclinedInsufficientFunds', 'poor')
  assert.deepEqual([declined.status, declined.decline?.code, declined.decline?.final, declined.charged_at], ['failed', 'insufficient_funds', false, null])
  assert.equal((await stripe.cancelIntent(poor.id)).status, 'canceled')
  assert.equal((await stripe.cancelIntent(poor.id)).status, 'canceled')
  show('a decline is an answer; what was called off stays so')

  const asked = await make('asked')
  const asking = await pay(asked.id, 'pm_card_authenticationRequired', 'asked')
  assert.equal(asking.status, 'requires_action')
  assert.ok(asking.client_secret.startsWith(asked.id))
  assert.equal((await stripe.cancelIntent(asked.id)).status, 'canceled')
  show('a bank that asks the payer')

  const keeping = await make('keeping', { kind: 'setup', amount: 0, reusable: true })
  const keptBy = await pay(keeping.id, 'pm_card_visa', 'keeping')
  assert.deepEqual([keptBy.kind, keptBy.status, keptBy.amount, keptBy.currency, keptBy.metadata], ['setup', 'succeeded', 0, 'usd', metadata('keeping')])
  const kept = { kind: 'method' as const, id: keptBy.method!.id }
  const renewal = await make('renewal')
  assert.equal(
    (await stripe.confirmIntent(renewal.id, { key: `${run}-renewal:confirm`, deps: kept, off_session: true, require_3ds: false })).status,
    'succeeded',
  )
  const first = await make('subscribed', { reusable: true })
  assert.equal((await pay(first.id, 'pm_card_visa', 'subscribed')).status, 'succeeded')
  await stripe.forgetMethod(kept.id)
  await stripe.forgetMethod(kept.id)
  const after = await make('forgotten')
  await refuses(stripe.confirmIntent(after.id, { key: `${run}-forgotten:confirm`, deps: kept, off_session: true, require_3ds: false }))
  show('a card that is kept, charged while nobody is there, and forgotten')

  for (const [currency, amount] of [
    ['jpy', 5000],
    ['isk', 1_000_000],
    ['ugx', 50_000_000],
    ['mga', 50_000],
  ] as const)
    assert.deepEqual([(await make(currency, { currency, amount })).amount], [amount])
  await refuses(make('coins', { currency: 'isk', amount: 1_000_001 }))
  show('currencies with other coins: jpy, isk, ugx, mga')

  const bought = await make('disputed')
  assert.equal((await pay(bought.id, 'pm_card_createDispute', 'disputed')).status, 'succeeded')
  let [dispute] = await stripe.findDisputes({ intent_id: bought.id })
  for (let tries = 0; !dispute && tries < 30; tries++) {
    await wait()
    ;[dispute] = await stripe.findDisputes({ intent_id: bought.id })
  }
  assert.ok(dispute)
  assert.deepEqual([dispute.intent_id, dispute.status, dispute.amount, dispute.currency, dispute.past_due], [bought.id, 'needs_response', 2900, 'usd', false])
  assert.ok(dispute.respond_by)
  assert.deepEqual(await stripe.readDispute(dispute.id), dispute)
  assert.equal((await stripe.acceptDispute(dispute.id, { key: `${run}-accept` })).status, 'lost')
  assert.equal((await stripe.acceptDispute(dispute.id, { key: `${run}-accept-again` })).status, 'lost')
  show('a dispute: found, read, accepted')
  return shown
}
