import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openStripeStandIn, readForm, signed, type Fault, type StripeStandIn } from '../../../../test/harness/stripe.ts'
import { tellStory } from '../../../../test/harness/stripe-story.ts'
import { openClock } from '../../../../test/harness/world.ts'
import { exponents } from '@bursar/contract'
import { Secret } from '../../../kernel/secrets.ts'
import { EventRefused, ProcessorRefusal, ProcessorSilent, type Processor } from '../payments.ts'
import { openStripe, type StripeGateway } from './processor.ts'

const hour = 3_600_000
const clock = openClock()
let standIn: StripeStandIn
let gateway: StripeGateway
/** A gateway with a timeout of one second. */
let hasty: StripeGateway
beforeAll(async () => {
  standIn = await openStripeStandIn(clock)
  gateway = openStripe({ base: new URL(standIn.url), clock })
  hasty = openStripe({ base: new URL(standIn.url), clock, timeout_ms: 1000 })
})
afterAll(async () => {
  gateway.close()
  hasty.close()
  await standIn.close()
})

let counted = 0
const fresh = (word: string) => `${word}-${++counted}`

/** Opens a separate account with a customer. */
const open = async (theirs = standIn.account(), through = gateway, known?: string) => {
  const stripe = through.account({ key: new Secret(theirs.secret_key), secret: new Secret(theirs.webhook_secret) })
  const customer = known ?? (await stripe.createCustomer!({ key: fresh('customer'), metadata: {} }))
  const make = (more: Partial<Parameters<Processor['createIntent']>[0]> = {}) =>
    stripe.createIntent({ key: fresh('create'), kind: 'payment', amount: 2900, currency: 'usd', customer, metadata: {}, reusable: false, ...more })
  const pay = (id: string, card: string, more: Partial<Parameters<Processor['confirmIntent']>[1]> = {}) =>
    stripe.confirmIntent(id, {
      key: fresh('confirm'),
      deps: { kind: 'token', token: theirs.token(card) },
      off_session: false,
      require_3ds: false,
      ...more,
    })
  return { theirs, stripe, customer, make, pay }
}

/** Injects a fault into the next POST request to this path, once. */
const once = (path: RegExp, fault: Fault) => {
  let done = false
  standIn.misbehave((asked) => {
    if (done || !path.test(asked.path) || asked.method !== 'POST') return undefined
    done = true
    return fault
  })
}

const refusal = (code: string) => expect.objectContaining({ name: 'ProcessorRefusal', code })

test('passes the scenario of the live Stripe test against the simulated Stripe', async () => {
  const { theirs, stripe } = await open()
  const shown = await tellStory(stripe, async (card) => theirs.token(card), { run: fresh('story'), wait: async () => undefined })
  expect(shown).toHaveLength(10)
})

describe('payments', () => {
  test.each([
    ['pm_card_chargeDeclined', 'generic_decline', false],
    ['pm_card_chargeDeclinedInsufficientFunds', 'insufficient_funds', false],
    ['pm_card_chargeDeclinedProcessingError', 'processing_error', false],
    ['pm_card_chargeDeclinedExpiredCard', 'expired_card', true],
    ['pm_card_chargeDeclinedIncorrectCvc', 'incorrect_cvc', true],
    ['pm_card_chargeDeclinedLostCard', 'lost_card', true],
    ['pm_card_chargeDeclinedFraudulent', 'fraudulent', true],
  ])('declines %s with the code %s and final: %s', async (card, code, final) => {
    const { theirs, make, pay, stripe } = await open()
    const { id } = await make()
    const asked = { key: fresh('confirm'), deps: { kind: 'token', token: theirs.token(card) } } as const
    const failed = await pay(id, card, asked)
    expect(failed).toMatchObject({ status: 'failed', decline: { code, final }, method: { type: 'card', brand: 'visa' }, charged_at: null })
    expect(theirs.books().charges).toEqual([])
    // Another card can pay the intent until it is canceled. After the cancellation, only a retry with the same key
    // returns the decline reason.
    expect(await stripe.cancelIntent(id)).toMatchObject({ status: 'canceled', decline: null })
    expect(await pay(id, card, asked)).toMatchObject({ status: 'canceled', decline: { code, final } })
    const kept = await make({ kind: 'setup', amount: 0 })
    expect(await pay(kept.id, card)).toMatchObject({ kind: 'setup', status: 'failed', decline: { code, final } })
  })

  test('accepts another card for an intent after a decline', async () => {
    const { make, pay, theirs } = await open()
    const { id } = await make()
    await pay(id, 'pm_card_chargeDeclined')
    expect(await pay(id, 'pm_card_mastercard')).toMatchObject({ status: 'succeeded', decline: null, method: { brand: 'mastercard', last4: '4444' } })
    expect(theirs.books().charges).toHaveLength(1)
  })

  test("accepts wallets with the owner's name, and bank debits that settle or fail later", async () => {
    const { make, pay, stripe, theirs } = await open()
    expect(await stripe.previewToken(theirs.token('pm_card_wallet'))).toEqual({ type: 'card', fingerprint: 'fppm_card_wallet', name: 'Wanda Wallet' })
    expect(await pay((await make()).id, 'pm_card_wallet')).toMatchObject({ status: 'succeeded', method: { type: 'card', wallet: 'apple_pay' } })
    const [good, bad] = [await make({ reusable: true }), await make()]
    const debit = await pay(good.id, 'pm_sepaDebit')
    expect(debit).toMatchObject({ status: 'processing', method: { type: 'sepa_debit', brand: null, last4: '3000', exp_month: null } })
    await pay(bad.id, 'pm_sepaDebit_fails')
    clock.advance(61_000)
    expect(await stripe.readIntent(good.id)).toMatchObject({ status: 'succeeded', charged_at: expect.any(Date) })
    expect(await stripe.readIntent(bad.id)).toMatchObject({ status: 'failed', decline: { code: 'insufficient_funds' } })
    // The mandate of a bank debit can be charged again off-session, like a saved card.
    const next = await make()
    await stripe.confirmIntent(next.id, { key: fresh('confirm'), deps: { kind: 'method', id: debit.method!.id }, off_session: true, require_3ds: false })
    expect(await stripe.readIntent(next.id)).toMatchObject({ status: 'processing' })
  })

  test('sends the payer to another site, and reports the SEPA debit that the payment has set up', async () => {
    const { make, pay, stripe, theirs } = await open()
    const return_url = 'https://shop.example/checkout/1/return'
    const [once, again, never] = [
      await make({ currency: 'eur', leaves: true }),
      await make({ currency: 'eur', leaves: true, reusable: true }),
      await make({ currency: 'eur', leaves: true }),
    ]
    for (const { id } of [once, again, never])
      expect(await pay(id, 'pm_ideal', { return_url })).toMatchObject({
        status: 'requires_action',
        method: { type: 'ideal' },
        redirect_url: expect.stringContaining('https://pm-redirects.stripe.com/') as string,
      })
    const site = async (id: string) => (await stripe.readIntent(id)).redirect_url!
    const back = new URL(theirs.visit(await site(once.id), 'pays'))
    expect([back.origin + back.pathname, back.searchParams.get('payment_intent')]).toEqual([return_url, once.id])
    expect(await stripe.readIntent(once.id)).toMatchObject({ status: 'succeeded', redirect_url: null, method: { type: 'ideal' }, later_method: null })
    theirs.visit(await site(again.id), 'pays')
    const paid = await stripe.readIntent(again.id)
    expect(paid).toMatchObject({ status: 'succeeded', method: { type: 'ideal' }, later_method: { type: 'sepa_debit', last4: '3000' } })
    theirs.visit(await site(never.id), 'refuses')
    expect(await stripe.readIntent(never.id)).toMatchObject({
      status: 'failed',
      redirect_url: null,
      decline: { code: 'authentication_failed', message: 'The payer did not confirm the payment.' },
    })
    // The debit can be charged off-session. The method that paid cannot.
    const charge = async (id: string) =>
      stripe.confirmIntent((await make({ currency: 'eur' })).id, { key: fresh('confirm'), deps: { kind: 'method', id }, off_session: true, require_3ds: false })
    expect(await charge(paid.later_method!.id)).toMatchObject({ status: 'processing' })
    await expect(charge(paid.method!.id)).rejects.toMatchObject({ name: 'ProcessorRefusal' })
    const kept = await make({ kind: 'setup', amount: 0, currency: 'eur', leaves: true })
    await pay(kept.id, 'pm_bancontact', { return_url })
    theirs.visit(await site(kept.id), 'pays')
    expect(await stripe.readIntent(kept.id)).toMatchObject({ status: 'succeeded', method: { type: 'bancontact' }, later_method: { type: 'sepa_debit' } })
  })

  test('refuses to leave the page without a return URL, and for an intent that must not leave it', async () => {
    const { make, pay } = await open()
    const [leaving, staying] = [await make({ currency: 'eur', leaves: true }), await make({ currency: 'eur' })]
    await expect(pay(leaving.id, 'pm_ideal')).rejects.toEqual(refusal('request_refused'))
    await expect(pay(staying.id, 'pm_ideal', { return_url: 'https://shop.example' })).rejects.toEqual(refusal('payment_intent_invalid_parameter'))
  })

  test('waits for 3-D Secure, and declines off-session charges that need it', async () => {
    const { make, pay, stripe, theirs } = await open()
    const [yes, no, forced] = [await make({ reusable: true }), await make(), await make()]
    expect(await pay(yes.id, 'pm_card_authenticationRequired')).toMatchObject({ status: 'requires_action' })
    theirs.complete(yes.client_secret, true)
    const paid = await stripe.readIntent(yes.id)
    expect(paid).toMatchObject({ status: 'succeeded' })
    await pay(no.id, 'pm_card_authenticationRequired')
    theirs.complete(no.client_secret, false)
    expect(await stripe.readIntent(no.id)).toMatchObject({ status: 'failed', decline: { code: 'authentication_failed' } })
    expect(await pay(forced.id, 'pm_card_visa', { require_3ds: true })).toMatchObject({ status: 'requires_action' })
    const away = await make()
    const deps = { kind: 'method' as const, id: paid.method!.id }
    expect(await stripe.confirmIntent(away.id, { key: fresh('confirm'), deps, off_session: true, require_3ds: false })).toMatchObject({
      status: 'failed',
      decline: { code: 'authentication_required' },
    })
  })

  test('rejects unknown objects, used tokens and objects of other accounts with a specific code', async () => {
    const { make, stripe, pay, theirs } = await open()
    const { id } = await make()
    await expect(pay(id, 'pm_card_visa', { deps: { kind: 'token', token: 'ctoken_nobody' } })).rejects.toEqual(refusal('resource_missing'))
    await expect(pay(id, 'pm_card_visa', { deps: { kind: 'method', id: 'pm_nobody' } })).rejects.toEqual(refusal('resource_missing'))
    await expect(stripe.readIntent('pi_nobody')).rejects.toEqual(refusal('resource_missing'))
    await expect(stripe.readRefund('re_nobody')).rejects.toEqual(refusal('resource_missing'))
    await expect(stripe.forgetMethod('pm_nobody')).rejects.toEqual(refusal('resource_missing'))
    await expect(stripe.createRefund({ key: fresh('refund'), intent_id: id, amount: 1, metadata: {} })).rejects.toEqual(refusal('charge_not_refundable'))
    await expect(make({ amount: 49 })).rejects.toEqual(refusal('amount_too_small'))
    await expect(make({ amount: 100_000_000 })).rejects.toEqual(refusal('amount_too_large'))
    await expect(make({ amount: 99.5 })).rejects.toThrow()
    // A malformed token is not sent to Stripe, because it would become part of a URL.
    const before = standIn.asked.length
    for (const token of ['tok_visa', 'ctoken_a/../../accounts', '']) expect(await stripe.previewToken(token)).toBeNull()
    expect(standIn.asked.length).toBe(before)
    const old = theirs.token('pm_card_visa')
    clock.advance(12 * hour + 1000)
    expect(await stripe.previewToken(old)).toBeNull()
  })

  test('converts the amounts of every currency in both directions without loss', async () => {
    const { make } = await open()
    for (const [currency, { wire, processor, display }] of exponents) {
      const amount = 500_000 * 10 ** Math.max(0, wire - display)
      const { id, ...made } = await make({ currency, amount })
      expect(made, currency).toMatchObject({ amount, currency })
      const sent = standIn.asked.at(-1)!
      expect(sent.path).toBe('/v1/payment_intents')
      expect(wire, `${currency}: counted alike on both sides, or this test is to say otherwise`).toBe(processor)
      expect(id).toMatch(/^pi_/)
    }
    await expect(make({ currency: 'ugx', amount: 50_000_001 })).rejects.toEqual(refusal('amount_invalid'))
  })

  test('reports refunds that settle later, or fail after they had succeeded', async () => {
    const { make, pay, stripe } = await open()
    const paid = async (card: string) => (await pay((await make()).id, card)).id
    const back = async (intent_id: string) => stripe.createRefund({ key: fresh('refund'), intent_id, amount: 2900, metadata: {} })
    const [slow, broken] = [await back(await paid('pm_card_pendingRefund')), await back(await paid('pm_card_refundFail'))]
    expect([slow.status, broken.status]).toEqual(['pending', 'succeeded'])
    clock.advance(61_000)
    expect([(await stripe.readRefund(slow.id)).status, (await stripe.readRefund(broken.id)).status]).toEqual(['succeeded', 'failed'])
  })

  test.each([
    ['warning_needs_response', 'early_warning'],
    ['warning_under_review', 'early_warning'],
    ['warning_closed', 'early_warning'],
    ['needs_response', 'needs_response'],
    ['under_review', 'under_review'],
    ['won', 'won'],
    ['lost', 'lost'],
    ['prevented', 'prevented'],
    ['a_word_of_tomorrow', 'under_review'],
  ])('maps the dispute status %s to %s', async (theirs_say, ours) => {
    const { make, pay, stripe, theirs } = await open()
    const { id } = await pay((await make()).id, 'pm_card_createDispute')
    const [dispute] = await stripe.findDisputes({ intent_id: id })
    theirs.change(dispute!.id, { status: theirs_say })
    expect(await stripe.readDispute(dispute!.id)).toMatchObject({ status: ours, intent_id: id, amount: 2900, currency: 'usd', reason: 'fraudulent' })
    if (theirs_say === 'won') await expect(stripe.acceptDispute(dispute!.id, { key: fresh('accept') })).rejects.toThrow(ProcessorRefusal)
  })
})

describe('handling of missing responses', () => {
  test.each(['request_lost', 'answer_lost', 'never_answers', 'timed_out', 'in_use', 'broken'] as const)(
    'throws ProcessorSilent for every call with an effect if the fault is %s',
    async (fault) => {
      const asked = await open()
      const { theirs, customer } = asked
      const { id } = await asked.make()
      const { id: paid } = await asked.pay((await asked.make()).id, 'pm_card_createDispute')
      const [dispute] = await asked.stripe.findDisputes({ intent_id: paid })
      const { make, pay, stripe } = fault === 'never_answers' ? await open(theirs, hasty, customer) : asked
      for (const work of [
        () => stripe.createCustomer!({ key: fresh('customer'), metadata: {} }),
        () => make(),
        () => make({ kind: 'setup', amount: 0 }),
        () => pay(id, 'pm_card_visa'),
        () => stripe.createRefund({ key: fresh('refund'), intent_id: paid, amount: 1, metadata: {} }),
        () => stripe.cancelIntent(id),
        () => stripe.acceptDispute(dispute!.id, { key: fresh('accept') }),
      ]) {
        once(/./, fault)
        await expect(work()).rejects.toThrow(ProcessorSilent)
      }
      standIn.misbehave(() => undefined)
      // Each account of this test has two payment intents. If the faulty calls took effect, it also has a third payment
      // intent and a setup intent.
      const charges = theirs.books().charges.length
      expect(charges).toBe(['answer_lost', 'never_answers', 'timed_out'].includes(fault) ? 2 : 1)
      expect((await asked.stripe.findIntents({ customer, metadata: {} })).length).toBe(charges === 2 ? 4 : 2)
    },
  )

  test('returns the stored result for the same idempotency key, and executes a duplicated request once', async () => {
    const { make, pay, theirs, stripe } = await open()
    once(/payment_intents$/, 'answer_lost')
    const key = fresh('create')
    await expect(make({ key })).rejects.toThrow(ProcessorSilent)
    const { id } = await make({ key })
    const confirmation = { key: fresh('confirm'), deps: { kind: 'token' as const, token: theirs.token('pm_card_visa') } }
    once(/confirm$/, 'twice')
    expect(await pay(id, 'pm_card_visa', confirmation)).toMatchObject({ status: 'succeeded' })
    once(/refunds$/, 'twice')
    await stripe.createRefund({ key: fresh('refund'), intent_id: id, amount: 100, metadata: {} })
    standIn.misbehave(() => undefined)
    const { charges, refunds, intents } = theirs.books()
    expect([charges.length, refunds.length, intents.length]).toEqual([1, 1, 1])
  })

  test('finds an intent by its metadata after its idempotency key has expired', async () => {
    const { make, pay, theirs, stripe, customer } = await open()
    const key = fresh('create')
    once(/payment_intents$/, 'answer_lost')
    await expect(make({ key, metadata: { payment_id: key } })).rejects.toThrow(ProcessorSilent)
    standIn.misbehave(() => undefined)
    clock.advance(25 * hour)
    standIn.forgetKeys()
    const [found, ...others] = await stripe.findIntents({ customer, metadata: { payment_id: key } })
    expect(others).toEqual([])
    expect(await pay(found!.id, 'pm_card_visa')).toMatchObject({ status: 'succeeded' })
    // After its expiry, the same key creates another intent. Callers therefore never retry after that time.
    expect((await make({ key, metadata: { payment_id: key } })).id).not.toBe(found!.id)
    expect(theirs.books().charges).toHaveLength(1)
  })

  test('reads all pages of the intents of one customer, oldest first', async () => {
    const { make, stripe, customer } = await open()
    const ids = []
    for (let at = 0; at < 105; at++) ids.push((await make({ metadata: { at: String(at) } })).id)
    expect((await stripe.findIntents({ customer, metadata: {} })).map(({ id }) => id)).toEqual(ids)
    expect((await stripe.findIntents({ customer, metadata: { at: '0' } })).map(({ id }) => id)).toEqual([ids[0]])
  })

  test('treats a rejected API key as no response, but refuses it when a seller connects the account', async () => {
    const stranger = gateway.account({ key: new Secret('sk_test_nobody'), secret: new Secret('whsec_nobody') })
    await expect(stranger.readIntent('pi_1')).rejects.toThrow(ProcessorSilent)
    await expect(gateway.inspect(new Secret('sk_test_nobody'))).rejects.toEqual(refusal('key_unknown'))
    const theirs = standIn.account()
    expect(await gateway.inspect(new Secret(theirs.secret_key))).toEqual({ id: theirs.id })
    const nowhere = openStripe({ base: new URL('http://127.0.0.1:1'), clock })
    await expect(nowhere.inspect(new Secret(theirs.secret_key))).rejects.toThrow(ProcessorSilent)
    nowhere.close()
  })
})

describe('events', () => {
  const told = async (account: Awaited<ReturnType<typeof open>>) => {
    const read: ReturnType<Processor['readEvent']>[] = []
    await standIn.deliver(async (theirs, headers, body) => {
      if (theirs.id === account.theirs.id) read.push(account.stripe.readEvent(headers, Buffer.from(body)))
      return { status: 200 }
    })
    return read
  }

  test('maps Stripe events to their kind and object, and ignores other event types', async () => {
    const account = await open()
    const { make, pay, stripe, theirs } = account
    const paid = await pay((await make()).id, 'pm_card_createDispute')
    const [dispute] = await stripe.findDisputes({ intent_id: paid.id })
    const refund = await stripe.createRefund({ key: fresh('refund'), intent_id: paid.id, amount: 1, metadata: {} })
    const failed = await pay((await make()).id, 'pm_card_chargeDeclined')
    const asked = await pay((await make({ kind: 'setup', amount: 0 })).id, 'pm_card_authenticationRequired')
    theirs.complete(asked.client_secret, true)
    expect((await told(account)).map((event) => event && [event.kind, event.object_id])).toEqual([
      // The charge.
      null,
      ['intent.succeeded', paid.id],
      ['dispute.updated', dispute!.id],
      ['refund.updated', refund.id],
      ['intent.failed', failed.id],
      ['intent.requires_action', asked.id],
      ['intent.succeeded', asked.id],
    ])
  })

  test('accepts only recently signed Stripe events: rejects a changed body, timestamp or key, and an old signature', async () => {
    const { stripe, theirs } = await open()
    const body = JSON.stringify({ id: 'evt_1', object: 'event', type: 'payment_intent.succeeded', created: 1_790_000_000, data: { object: { id: 'pi_1' } } })
    const bytes = Buffer.from(body)
    const at = (ms: number) => new Date(clock.wall().getTime() + ms)
    const good = signed(theirs.webhook_secret, body, at(0))
    expect(stripe.readEvent(good, bytes)).toEqual({ id: 'evt_1', kind: 'intent.succeeded', object_id: 'pi_1', at: new Date(1_790_000_000_000) })
    // Two signatures, as during the rotation of a secret.
    expect(stripe.readEvent({ 'stripe-signature': good['stripe-signature']!.replace(',', `,v1=${'0'.repeat(64)},`) }, bytes)).not.toBeNull()
    for (const [header, text] of [
      [good, body.replace('succeeded', 'payment_failed')],
      [good, `${body} `],
      [signed('whsec_another', body, at(0)), body],
      [signed(theirs.webhook_secret, body, at(-301_000)), body],
      [signed(theirs.webhook_secret, body, at(302_000)), body],
      [{ 'stripe-signature': good['stripe-signature']!.replace('v1=', 'v0=') }, body],
      [{ 'stripe-signature': 't=,v1=' }, body],
      [{ 'stripe-signature': '' }, body],
      [{}, body],
    ] as const)
      expect(() => stripe.readEvent(header, Buffer.from(text)), JSON.stringify(header)).toThrow(EventRefused)
    expect(() => stripe.readEvent(signed(theirs.webhook_secret, 'no json', at(0)), Buffer.from('no json'))).toThrow(EventRefused)
  })
})

describe('stand-in', () => {
  test('the simulated Stripe parses forms as Stripe does', () => {
    expect(readForm('a=1&b[c]=2&b[d][e]=3&f[]=4&f[]=5&g[0]=6')).toEqual({ a: '1', b: { c: '2', d: { e: '3' } }, f: { 0: '4', 1: '5' }, g: { 0: '6' } })
  })

  test("the simulated Stripe returns objects with every field of Stripe's own", async () => {
    const { make, pay, stripe, theirs, customer } = await open()
    const paid = await pay((await make()).id, 'pm_card_createDispute')
    await pay((await make()).id, 'pm_card_chargeDeclined')
    await make({ kind: 'setup', amount: 0 })
    await stripe.createRefund({ key: fresh('refund'), intent_id: paid.id, amount: 1, metadata: {} })
    const list = (path: string) => (theirs.ask('GET', path, { limit: '1' }).data as Record<string, unknown>[])[0]!
    const whole = theirs.ask('GET', `/v1/payment_intents/${paid.id}`, { expand: { 0: 'payment_method', 1: 'latest_charge' } })
    const events: Record<string, unknown>[] = []
    await standIn.deliver(async (_, __, body) => {
      events.push(JSON.parse(body) as Record<string, unknown>)
      return { status: 200 }
    })
    const sent: Record<string, unknown> = {
      customer: theirs.ask('POST', '/v1/customers', {}),
      payment_intent: whole,
      setup_intent: list('/v1/setup_intents'),
      payment_method: whole.payment_method,
      charge: whole.latest_charge,
      refund: list('/v1/refunds'),
      dispute: list('/v1/disputes'),
      confirmation_token: theirs.ask('GET', `/v1/confirmation_tokens/${theirs.token('pm_card_visa')}`, {}),
      event: events[0],
    }
    for (const [kind, fields] of Object.entries(shapes)) {
      const object = sent[kind] as Record<string, unknown>
      expect(object.object, kind).toBe(kind)
      for (const field of fields.split(' ')) {
        const [, name = '', type = ''] = /^(\w+):(\w)$/.exec(field)!
        expect(Object.keys(object), `${kind}.${name}`).toContain(name)
        const have = object[name]
        const letter = have === null ? '0' : Array.isArray(have) ? 'a' : (typeof have)[0]
        // The simulated Stripe may return null for any field. A value other than null must have the type that Stripe
        // returns, if that type is known.
        if (have !== null && type !== '0') expect(letter, `${kind}.${name}`).toBe(type)
      }
    }
    expect(customer).toMatch(/^cus_/)
  })
})

/**
 * The fields of Stripe's objects, as `name:type`. The type is the first letter of string, number, boolean, object or
 * array, or 0 if it is unknown.
 */
const shapes: Readonly<Record<string, string>> = {
  customer:
    'address:o balance:n created:n currency:s default_source:0 delinquent:b description:0 discount:o email:0 id:s invoice_prefix:s invoice_settings:o livemode:b metadata:o name:0 next_invoice_sequence:n object:s phone:0 preferred_locales:a shipping:o tax_exempt:s test_clock:0',
  payment_intent:
    'amount:n amount_capturable:n amount_details:o amount_received:n application:0 application_fee_amount:0 automatic_payment_methods:o canceled_at:n cancellation_reason:0 capture_method:s client_secret:s confirmation_method:s created:n currency:s customer:0 customer_account:0 description:0 excluded_payment_method_types:0 id:s last_payment_error:o latest_charge:0 livemode:b managed_payments:o metadata:o next_action:o object:s on_behalf_of:0 payment_method:0 payment_method_configuration_details:o payment_method_options:o payment_method_types:a processing:o receipt_email:0 review:0 setup_future_usage:0 shipping:o source:0 statement_descriptor:0 statement_descriptor_suffix:0 status:s transfer_data:o transfer_group:0',
  setup_intent:
    'application:0 automatic_payment_methods:o cancellation_reason:0 client_secret:s created:n customer:0 description:0 excluded_payment_method_types:0 flow_directions:0 id:s last_setup_error:o latest_attempt:0 livemode:b mandate:0 metadata:o next_action:o object:s on_behalf_of:0 payment_method:0 payment_method_configuration_details:o payment_method_options:o payment_method_types:a single_use_mandate:0 status:s usage:s',
  payment_method: 'allow_redisplay:s billing_details:o card:o created:n customer:0 customer_account:0 id:s livemode:b metadata:o object:s type:s',
  charge:
    'amount:n amount_captured:n amount_refunded:n application:0 application_fee:0 application_fee_amount:0 balance_transaction:s billing_details:o calculated_statement_descriptor:0 captured:b created:n currency:s customer:0 description:s disputed:b failure_balance_transaction:0 failure_code:0 failure_message:0 fraud_details:o id:s livemode:b metadata:o object:s on_behalf_of:0 outcome:o paid:b payment_intent:0 payment_method:s payment_method_details:o receipt_email:0 receipt_number:0 receipt_url:s refunded:b refunds:o review:0 shipping:o source:o source_transfer:0 statement_descriptor:0 statement_descriptor_suffix:0 status:s transfer_data:o transfer_group:0',
  refund:
    'amount:n balance_transaction:0 charge:s created:n currency:s customer:0 customer_account:0 destination_details:o id:s metadata:o object:s payment_intent:0 payment_method:0 reason:0 receipt_number:0 source_transfer_reversal:0 status:s transfer_reversal:0',
  dispute:
    'amount:n balance_transactions:a charge:s created:n currency:s enhanced_eligibility_types:a evidence:o evidence_details:o id:s is_charge_refundable:b livemode:b metadata:o object:s payment_intent:0 payment_method_details:o reason:s status:s',
  confirmation_token:
    'created:n expires_at:n id:s livemode:b mandate_data:o object:s payment_intent:0 payment_method_options:o payment_method_preview:o return_url:s setup_future_usage:s setup_intent:0 shipping:o use_stripe_sdk:b',
  event: 'api_version:0 created:n data:o id:s livemode:b object:s pending_webhooks:n request:o type:s',
}
