import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cloneDatabase, type Database } from '../../../../test/harness/database.ts'
import { openClock } from '../../../../test/harness/world.ts'
import { Secret } from '../../../kernel/secrets.ts'
import { hours, minutes, seconds } from '../../../platform/clock.ts'
import { openLog } from '../../../platform/log.ts'
import { openPool, type Role } from '../../../platform/postgres/postgres.ts'
import { EventRefused, ProcessorRefusal, ProcessorSilent, type Intent } from '../payments.ts'
import { cards, respondWithin, settlesAfter, type CardToken } from './cards.ts'
import { openTestProcessor, type ProcessorCall, type TestAccount, type TestProcessor } from './processor.ts'

const clock = openClock()
const log = openLog('silent')
const secret = new Secret('a secret of this account')
let database: Database
let processor: TestProcessor
let fault: { call: ProcessorCall; when: 'before' | 'after' } | undefined
let counter = 0

beforeAll(async () => {
  database = await cloneDatabase()
  processor = openTestProcessor({
    url: new Secret(database.url),
    environment: 'sandbox',
    clock,
    log,
    connections: 8,
    timeout_ms: 40_000,
    misbehave: (call) => (fault?.call === call ? fault.when : undefined),
  })
})
afterAll(async () => {
  await processor.close()
  await database.drop()
})

const fresh = (name: string) => `${name}_${++counter}`
/** Opens a separate account for a test, without charges and events of other tests. */
const openAccount = () => {
  const id = fresh('account')
  return { id, account: processor.account(id, secret) }
}
const creation = { kind: 'payment', amount: 1000, currency: 'usd', customer: 'ann', metadata: { order: '1' }, reusable: false } as const
const create = (account: TestAccount, request: Partial<Parameters<TestAccount['createIntent']>[0]> = {}) =>
  account.createIntent({ key: fresh('key'), ...creation, ...request })
const confirmation = { off_session: false, require_3ds: false }
const confirm = (account: TestAccount, id: string, token: string, request: Partial<Parameters<TestAccount['confirmIntent']>[1]> = {}) =>
  account.confirmIntent(id, { key: fresh('key'), deps: { kind: 'token', token }, ...confirmation, ...request })
const refund = (account: TestAccount, intent_id: string, amount: number, key = fresh('key')) =>
  account.createRefund({ key, intent_id, amount, metadata: { refund: key } })
const booked = async (id: string) => {
  const { charges, refunds } = await processor.books()
  return { charges: charges.filter(({ account }) => account === id), refunds: refunds.filter(({ account }) => account === id) }
}
const told = async (account: TestAccount) => (await account.takeCallbacks(100)).map(({ headers, body }) => account.readEvent(headers, Buffer.from(body)))
const refusal = (code: string) => expect.objectContaining({ name: 'ProcessorRefusal', code })

describe('cards', () => {
  /** Expected response, charge and events of every card. */
  const table: Record<CardToken, { status: Intent['status'] | 'silent'; charged: boolean; decline?: { code: string; final: boolean }; events: number }> = {
    tok_visa: { status: 'succeeded', charged: true, events: 1 },
    tok_mastercard: { status: 'succeeded', charged: true, events: 1 },
    tok_wallet: { status: 'succeeded', charged: true, events: 1 },
    tok_insufficient_funds: { status: 'failed', charged: false, decline: { code: 'insufficient_funds', final: false }, events: 1 },
    tok_do_not_honor: { status: 'failed', charged: false, decline: { code: 'do_not_honor', final: true }, events: 1 },
    tok_expired_card: { status: 'failed', charged: false, decline: { code: 'expired_card', final: true }, events: 1 },
    tok_incorrect_cvc: { status: 'failed', charged: false, decline: { code: 'incorrect_cvc', final: true }, events: 1 },
    tok_lost_card: { status: 'failed', charged: false, decline: { code: 'lost_card', final: true }, events: 1 },
    tok_processing_error: { status: 'failed', charged: false, decline: { code: 'processing_error', final: false }, events: 1 },
    tok_fraudulent: { status: 'failed', charged: false, decline: { code: 'fraudulent', final: true }, events: 1 },
    tok_declined_later: { status: 'succeeded', charged: true, events: 1 },
    tok_expired_later: { status: 'succeeded', charged: true, events: 1 },
    tok_recovers_later: { status: 'succeeded', charged: true, events: 1 },
    tok_expires_soon: { status: 'succeeded', charged: true, events: 1 },
    tok_3ds: { status: 'requires_action', charged: false, events: 1 },
    tok_3ds_always: { status: 'requires_action', charged: false, events: 1 },
    tok_charge_then_timeout: { status: 'silent', charged: true, events: 1 },
    tok_timeout_then_nothing: { status: 'silent', charged: false, events: 0 },
    tok_callback_twice: { status: 'succeeded', charged: true, events: 2 },
    tok_callback_late: { status: 'succeeded', charged: true, events: 0 },
    tok_callback_never: { status: 'succeeded', charged: true, events: 0 },
    tok_processing: { status: 'processing', charged: false, events: 0 },
    tok_processing_fails: { status: 'processing', charged: false, events: 0 },
    tok_refund_pending: { status: 'succeeded', charged: true, events: 1 },
    tok_refund_fails_later: { status: 'succeeded', charged: true, events: 1 },
    tok_dispute: { status: 'succeeded', charged: true, events: 2 },
    tok_dispute_lost: { status: 'succeeded', charged: true, events: 4 },
    tok_dispute_won: { status: 'succeeded', charged: true, events: 2 },
    tok_dispute_warned: { status: 'succeeded', charged: true, events: 2 },
    tok_dispute_prevented: { status: 'succeeded', charged: true, events: 2 },
    tok_dispute_untold: { status: 'succeeded', charged: true, events: 0 },
  }

  test.each(Object.entries(table))('%s behaves as documented', async (token, { status, charged, decline, events }) => {
    const { id: name, account } = openAccount()
    const { id, ...created } = await create(account)
    expect(created).toMatchObject({ status: 'requires_confirmation', amount: 1000, currency: 'usd', method: null, decline: null, charged_at: null })
    expect((await booked(name)).charges).toEqual([])
    if (status === 'silent') await expect(confirm(account, id, token)).rejects.toThrow(ProcessorSilent)
    else {
      const intent = await confirm(account, id, token)
      expect(intent).toMatchObject({ id, status, decline: decline ?? null, charged_at: charged ? expect.any(Date) : null })
      expect(intent.method).toMatchObject({ last4: cards[token as CardToken].last4, brand: cards[token as CardToken].brand })
      expect(await account.readIntent(id)).toEqual(intent)
    }
    expect((await booked(name)).charges).toHaveLength(charged ? 1 : 0)
    expect(await told(account)).toHaveLength(events)
  })

  test('leaves a declined intent open to another card, which is then charged once', async () => {
    const { id: name, account } = openAccount()
    const { id } = await create(account)
    expect(await confirm(account, id, 'tok_lost_card')).toMatchObject({ status: 'failed' })
    expect(await confirm(account, id, 'tok_visa')).toMatchObject({ status: 'succeeded', decline: null })
    await expect(confirm(account, id, 'tok_visa')).rejects.toEqual(refusal('intent_succeeded'))
    expect((await booked(name)).charges).toMatchObject([{ intent_id: id, amount: 1000, currency: 'usd', metadata: { order: '1' } }])
    expect((await told(account)).map(({ kind }) => kind)).toEqual(['intent.failed', 'intent.succeeded'])
  })

  test('charges a card after a successful 3-D Secure challenge, and not after a failed one', async () => {
    const { id: name, account } = openAccount()
    for (const [token, require_3ds] of [
      ['tok_3ds', false],
      ['tok_visa', true],
    ] as const) {
      const intent = await create(account)
      expect(await confirm(account, intent.id, token, { require_3ds })).toMatchObject({ status: 'requires_action' })
      expect(await processor.completeAction(intent.client_secret, false)).toMatchObject({ status: 'failed', decline: { code: 'authentication_failed' } })
      await expect(processor.completeAction(intent.client_secret, true)).rejects.toEqual(refusal('intent_failed'))
      await confirm(account, intent.id, token, { require_3ds })
      expect(await processor.completeAction(intent.client_secret, true)).toMatchObject({ status: 'succeeded', charged_at: expect.any(Date) })
    }
    expect((await booked(name)).charges).toHaveLength(2)
    await expect(processor.completeAction('made up', true)).rejects.toEqual(refusal('intent_unknown'))
  })

  test('charges a saved card off-session, or declines with the decline code of that test card', async () => {
    const { account } = openAccount()
    const keep = async (token: string, kind: 'payment' | 'setup') => {
      const intent = await create(account, kind === 'setup' ? { kind, amount: 0 } : { reusable: true })
      const answer = await confirm(account, intent.id, token)
      return (answer.status === 'requires_action' ? await processor.completeAction(intent.client_secret, true) : answer).method!.id
    }
    const renew = async (id: string, customer = 'ann') =>
      confirm(account, (await create(account, { customer })).id, '', { deps: { kind: 'method', id }, off_session: true })
    for (const kind of ['payment', 'setup'] as const) {
      expect(await renew(await keep('tok_visa', kind))).toMatchObject({ status: 'succeeded' })
      expect(await renew(await keep('tok_3ds', kind))).toMatchObject({ status: 'succeeded' })
      expect(await renew(await keep('tok_3ds_always', kind))).toMatchObject({ status: 'failed', decline: { code: 'authentication_required', final: false } })
      expect(await renew(await keep('tok_declined_later', kind))).toMatchObject({ status: 'failed', decline: { code: 'insufficient_funds' } })
      expect(await renew(await keep('tok_expired_later', kind))).toMatchObject({ status: 'failed', decline: { code: 'expired_card', final: true } })
      const [recovering, untried] = [await keep('tok_recovers_later', kind), await keep('tok_recovers_later', kind)]
      for (let time = 0; time < 2; time++) {
        const { id, ...answer } = await renew(recovering)
        expect(answer).toMatchObject({ status: 'failed', decline: { code: 'insufficient_funds', final: false } })
        await account.cancelIntent(id)
      }
      expect(await renew(recovering)).toMatchObject({ status: 'succeeded' })
      expect(await renew(recovering)).toMatchObject({ status: 'succeeded' })
      expect(await renew(untried)).toMatchObject({ status: 'failed' })
      const expiring = await keep('tok_expires_soon', kind)
      expect(await renew(expiring)).toMatchObject({ status: 'succeeded' })
      if (kind === 'setup') expect(await renew(expiring)).toMatchObject({ status: 'succeeded' })
      expect(await renew(expiring)).toMatchObject({ status: 'failed', decline: { code: 'expired_card', final: true } })
    }
    const method = await keep('tok_visa', 'setup')
    await expect(renew(method, 'bob')).rejects.toEqual(refusal('method_unknown'))
    await expect(confirm(openAccount().account, (await create(account)).id, 'tok_visa')).rejects.toEqual(refusal('intent_unknown'))
    await account.forgetMethod(method)
    await account.forgetMethod(method)
    await expect(renew(method)).rejects.toEqual(refusal('method_unknown'))
    const once = (await confirm(account, (await create(account)).id, 'tok_visa')).method!.id
    await expect(renew(once)).rejects.toEqual(refusal('method_unknown'))
    const declined = (await confirm(account, (await create(account, { reusable: true })).id, 'tok_lost_card')).method!.id
    await expect(renew(declined)).rejects.toEqual(refusal('method_unknown'))
  })

  test('settles a bank debit later and once, and emits its event then', async () => {
    const { id: name, account } = openAccount()
    const [good, bad] = [await create(account), await create(account)]
    await confirm(account, good.id, 'tok_processing')
    await confirm(account, bad.id, 'tok_processing_fails')
    for (const { id } of [good, bad]) {
      await expect(account.cancelIntent(id)).rejects.toEqual(refusal('intent_processing'))
      await expect(confirm(account, id, 'tok_visa')).rejects.toEqual(refusal('intent_processing'))
    }
    clock.advance(60 * seconds)
    expect(await processor.waitingAccounts()).toContain(name)
    await Promise.all(Array.from({ length: 10 }, () => account.readIntent(good.id)))
    expect(await account.readIntent(good.id)).toMatchObject({ status: 'succeeded', charged_at: expect.any(Date) })
    expect(await account.readIntent(bad.id)).toMatchObject({ status: 'failed', decline: { code: 'insufficient_funds' } })
    expect((await booked(name)).charges).toHaveLength(1)
    expect((await told(account)).map(({ kind, object_id }) => [kind, object_id])).toEqual([
      ['intent.succeeded', good.id],
      ['intent.failed', bad.id],
    ])
  })

  test('previews the card of a token before any charge', async () => {
    const { account } = openAccount()
    const preview = await account.previewToken('tok_wallet')
    expect(preview).toEqual({ type: 'card', fingerprint: expect.stringMatching(/^test_fp_/), name: 'Wanda Wallet' })
    const paid = await confirm(account, (await create(account)).id, 'tok_wallet')
    expect(paid.method).toMatchObject({ fingerprint: preview!.fingerprint, wallet: 'apple_pay' })
    const [visa, anns, again] = await Promise.all(['tok_visa', 'tok_visa:ann', 'tok_visa:ann'].map((token) => account.previewToken(token)))
    expect(anns).toEqual(again)
    expect(anns!.fingerprint).not.toBe(visa!.fingerprint)
    for (const unknown of ['tok_nothing', 'toString', 'tok_visa:', 'tok_visa:a:b']) expect(await account.previewToken(unknown)).toBeNull()
    await expect(confirm(account, (await create(account)).id, 'tok_nothing')).rejects.toEqual(refusal('token_unknown'))
  })
})

describe('idempotency keys', () => {
  test('replays the response for the same key and request, rejects another request with that key, and frees the key after a refusal', async () => {
    const { id: name, account } = openAccount()
    const request = { ...creation, key: 'create', metadata: { a: '1', b: '2' } }
    const intent = await account.createIntent(request)
    expect(await account.createIntent({ ...request, metadata: { b: '2', a: '1' } })).toEqual(intent)
    await expect(account.createIntent({ ...request, amount: 1001 })).rejects.toEqual(refusal('key_reused'))
    await expect(account.confirmIntent(intent.id, { key: 'create', deps: { kind: 'token', token: 'tok_visa' }, ...confirmation })).rejects.toEqual(
      refusal('key_reused'),
    )
    await expect(confirm(account, intent.id, 'tok_nothing', { key: 'confirm' })).rejects.toEqual(refusal('token_unknown'))
    const paid = await confirm(account, intent.id, 'tok_visa', { key: 'confirm' })
    expect(await confirm(account, intent.id, 'tok_visa', { key: 'confirm' })).toEqual(paid)
    await expect(confirm(account, intent.id, 'tok_mastercard', { key: 'confirm' })).rejects.toEqual(refusal('key_reused'))
    const back = await refund(account, intent.id, 400, 'refund')
    expect(await refund(account, intent.id, 400, 'refund')).toEqual(back)
    await expect(refund(account, intent.id, 401, 'refund')).rejects.toEqual(refusal('key_reused'))
    expect(await booked(name)).toMatchObject({ charges: [{ amount: 1000 }], refunds: [{ amount: 400 }] })
    // The same idempotency key at another account creates another intent.
    expect((await openAccount().account.createIntent(request)).id).not.toBe(intent.id)
  })

  test('replays a decline for the same idempotency key, even after another card has paid the intent', async () => {
    const { account } = openAccount()
    const { id } = await create(account)
    const declined = await confirm(account, id, 'tok_fraudulent', { key: 'first' })
    await confirm(account, id, 'tok_visa')
    expect(await confirm(account, id, 'tok_fraudulent', { key: 'first' })).toEqual(declined)
  })

  test('forgets an idempotency key after 24 hours, so that a later retry charges again', async () => {
    const { id: name, account } = openAccount()
    const pay = async () => {
      const intent = await account.createIntent({ ...creation, key: 'create' })
      return confirm(account, intent.id, 'tok_visa', { key: `confirm ${intent.id}` })
    }
    const first = await pay()
    clock.advance(24 * hours - 1 * minutes)
    await account.takeCallbacks(100)
    expect(await pay()).toEqual(first)
    clock.advance(1 * minutes)
    const second = await pay()
    expect(second.id).not.toBe(first.id)
    expect((await booked(name)).charges.map(({ metadata }) => metadata)).toEqual([{ order: '1' }, { order: '1' }])
    clock.advance(24 * hours)
    await account.takeCallbacks(100)
    const { rows } = await database.owner((owner) => owner.query('select 1 from test_processor.keys where account = $1', [name]))
    expect(rows).toEqual([])
  })

  test('executes concurrent requests with one idempotency key once', async () => {
    const { id: name, account } = openAccount()
    const created = await Promise.all(Array.from({ length: 25 }, () => account.createIntent({ ...creation, key: 'create' })))
    expect(new Set(created.map(({ id }) => id)).size).toBe(1)
    const { id } = created[0]!
    const paid = await Promise.all(Array.from({ length: 25 }, () => confirm(account, id, 'tok_visa', { key: 'confirm' })))
    expect(new Set(paid.map((one) => JSON.stringify(one))).size).toBe(1)
    const back = await Promise.all(Array.from({ length: 25 }, () => refund(account, id, 300, 'refund')))
    expect(new Set(back.map((one) => one.id)).size).toBe(1)
    expect(await booked(name)).toMatchObject({ charges: [{ intent_id: id }], refunds: [{ amount: 300 }] })
    expect(await told(account)).toHaveLength(2)
  })
})

describe('charges and refunds', () => {
  test('charges an intent once under fifty concurrent confirmations with different keys', async () => {
    const { id: name, account } = openAccount()
    const { id } = await create(account)
    const answers = await Promise.allSettled(Array.from({ length: 50 }, () => confirm(account, id, 'tok_visa')))
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const answer of answers) if (answer.status === 'rejected') expect(answer.reason).toEqual(refusal('intent_succeeded'))
    expect((await booked(name)).charges).toHaveLength(1)
    expect(await told(account)).toHaveLength(1)
  })

  test('either cancels or charges an intent if a cancellation and a confirmation race', async () => {
    const { id: name, account } = openAccount()
    for (let at = 0; at < 20; at++) {
      const { id } = await create(account)
      const [confirmed, canceled] = await Promise.allSettled([confirm(account, id, 'tok_visa'), account.cancelIntent(id)])
      expect([confirmed.status, canceled.status].toSorted()).toEqual(['fulfilled', 'rejected'])
      const { status } = await account.readIntent(id)
      expect(status).toBe(confirmed.status === 'fulfilled' ? 'succeeded' : 'canceled')
      expect((await booked(name)).charges.some(({ intent_id }) => intent_id === id)).toBe(status === 'succeeded')
    }
    const { id } = await create(account)
    expect(await account.cancelIntent(id)).toMatchObject({ status: 'canceled' })
    expect(await account.cancelIntent(id)).toMatchObject({ status: 'canceled' })
  })

  test('never refunds more than was charged, even with concurrent requests', async () => {
    const { id: name, account } = openAccount()
    const { id } = await create(account)
    await expect(refund(account, id, 100)).rejects.toEqual(refusal('intent_not_charged'))
    await confirm(account, id, 'tok_visa')
    const answers = await Promise.allSettled(Array.from({ length: 20 }, () => refund(account, id, 300)))
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(3)
    for (const answer of answers) if (answer.status === 'rejected') expect(answer.reason).toEqual(refusal('amount_too_large'))
    const { refunds } = await booked(name)
    expect(refunds.map(({ amount }) => amount)).toEqual([300, 300, 300])
    for (const amount of [0, -1, 0.5]) await expect(refund(account, id, amount)).rejects.toEqual(refusal('amount_invalid'))
  })

  test('allows another refund after an earlier refund has failed', async () => {
    const { account } = openAccount()
    const { id } = await create(account)
    await confirm(account, id, 'tok_refund_fails_later')
    const first = await refund(account, id, 1000)
    expect(first.status).toBe('succeeded')
    await expect(refund(account, id, 1)).rejects.toEqual(refusal('amount_too_large'))
    clock.advance(60 * seconds)
    expect(await account.readRefund(first.id)).toMatchObject({ status: 'failed' })
    expect(await refund(account, id, 1000)).toMatchObject({ status: 'succeeded' })
    expect((await told(account)).filter(({ kind, object_id }) => kind === 'refund.updated' && object_id === first.id)).toHaveLength(2)
  })

  test('settles a pending refund later', async () => {
    const { account } = openAccount()
    const { id } = await create(account)
    await confirm(account, id, 'tok_refund_pending')
    const { id: back, status } = await refund(account, id, 1000)
    expect(status).toBe('pending')
    clock.advance(60 * seconds)
    expect(await account.readRefund(back)).toMatchObject({ status: 'succeeded' })
  })

  test.each([
    ['an amount below the minimum', { amount: 49 }, 'amount_too_small'],
    ['an amount of zero', { amount: 0 }, 'amount_too_small'],
    ['an amount above the maximum', { amount: 100_000_000 }, 'amount_too_large'],
    ['an amount with a fraction of a minor unit', { amount: 99.5 }, 'amount_invalid'],
    ['an unknown currency code', { currency: 'USD' }, 'currency_invalid'],
    ['a setup with an amount', { kind: 'setup', amount: 100 }, 'amount_too_large'],
  ] as const)('reject %s', async (_, request, code) => {
    await expect(create(openAccount().account, request)).rejects.toEqual(refusal(code))
  })

  test('changes a dispute when it is due, accepts a dispute once, and refuses refunds of disputed money', async () => {
    const { id: name, account } = openAccount()
    const pay = async (token: string) => {
      const { id } = await create(account)
      await confirm(account, id, token)
      return { id, dispute: (await account.findDisputes({ intent_id: id }))[0]! }
    }
    const open = await pay('tok_dispute')
    expect(open.dispute).toMatchObject({ intent_id: open.id, status: 'needs_response', amount: 1000, past_due: false, respond_by: expect.any(Date) as Date })
    await expect(refund(account, open.id, 1)).rejects.toEqual(refusal('charge_disputed'))
    const key = fresh('key')
    const lost = await account.acceptDispute(open.dispute.id, { key })
    expect(lost).toMatchObject({ status: 'lost', respond_by: null })
    expect(await account.acceptDispute(open.dispute.id, { key })).toEqual(lost)
    expect(await account.acceptDispute(open.dispute.id, { key: fresh('key') })).toEqual(lost)
    const warned = await pay('tok_dispute_warned')
    const prevented = await pay('tok_dispute_prevented')
    const won = await pay('tok_dispute_won')
    await expect(account.acceptDispute(won.dispute.id, { key: fresh('key') })).rejects.toEqual(refusal('dispute_under_review'))
    expect(await refund(account, warned.id, 100)).toMatchObject({ status: 'succeeded' })
    clock.advance(settlesAfter)
    expect(await account.readDispute(warned.dispute.id)).toMatchObject({ status: 'needs_response' })
    expect(await account.readDispute(prevented.dispute.id)).toMatchObject({ status: 'prevented' })
    await expect(refund(account, prevented.id, 1)).rejects.toEqual(refusal('amount_too_large'))
    expect(await account.readDispute(won.dispute.id)).toMatchObject({ status: 'won' })
    expect(await refund(account, won.id, 1000)).toMatchObject({ status: 'succeeded' })
    clock.advance(respondWithin)
    expect(await account.readDispute(warned.dispute.id)).toMatchObject({ past_due: true })
    const { disputes } = await processor.books()
    expect(
      disputes
        .filter(({ account: whose }) => whose === name)
        .map(({ status }) => status)
        .toSorted(),
    ).toEqual(['lost', 'needs_response', 'prevented', 'won'])
    expect((await told(account)).filter(({ kind }) => kind === 'dispute.updated')).toHaveLength(8)
  })

  test('records charges and refunds that add up after 500 random requests', async () => {
    const { id: name, account } = openAccount()
    // Seeded, so that a failure can be reproduced.
    let seed = 20_260_401
    const draw = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below
    const tokens = Object.keys(cards)
    const ids: string[] = []
    const heard = { charged: new Map<string, number>(), refunded: new Map<string, string>() }
    const attempt = async () => {
      const id = ids.length === 0 ? '' : ids[draw(ids.length)]!
      const action = draw(10)
      if (ids.length === 0 || action < 3) {
        const { id } = await create(account, { amount: 50 + draw(100_000), currency: ['usd', 'eur'][draw(2)]!, metadata: { number: String(ids.length) } })
        ids.push(id)
      } else if (action < 7) {
        const { status, amount } = await confirm(account, id, tokens[draw(tokens.length)]!, { off_session: draw(3) === 0 })
        if (status === 'succeeded') heard.charged.set(id, amount)
      } else if (action < 9) {
        const answer = await refund(account, id, 1 + draw(60_000))
        heard.refunded.set(answer.id, id)
      } else if (draw(3) === 0) await account.cancelIntent(id)
      else clock.advance(draw(40) * seconds)
    }
    let silences = 0
    for (let at = 0; at < 500; at++)
      try {
        fault =
          draw(4) === 0 ? { call: (['createIntent', 'confirmIntent', 'createRefund'] as const)[draw(3)]!, when: draw(2) === 0 ? 'before' : 'after' } : undefined
        await attempt()
      } catch (error) {
        if (error instanceof ProcessorSilent) silences++
        else if (!(error instanceof ProcessorRefusal)) throw error
      }
    fault = undefined
    clock.advance(5 * minutes)
    const { charges, refunds } = await booked(name)
    expect(silences).toBeGreaterThan(20)
    expect(charges.length).toBeGreaterThan(20)
    expect(refunds.length).toBeGreaterThan(20)
    expect(new Set(charges.map(({ intent_id }) => intent_id)).size).toBe(charges.length)
    // Every charge and refund that the processor reported is in its records.
    for (const [id, amount] of heard.charged) expect(charges.find(({ intent_id }) => intent_id === id)?.amount).toBe(amount)
    for (const [id, intent] of heard.refunded) expect(refunds.find((one) => one.id === id)?.intent_id).toBe(intent)
    for (const charge of charges) {
      const intent = await account.readIntent(charge.intent_id)
      expect(intent).toMatchObject({
        status: 'succeeded',
        amount: charge.amount,
        currency: charge.currency,
        metadata: charge.metadata,
        charged_at: charge.charged_at,
      })
      const given = refunds
        .filter(({ intent_id, status }) => intent_id === charge.intent_id && status !== 'failed')
        .reduce((sum, { amount }) => sum + amount, 0)
      expect(given).toBeLessThanOrEqual(charge.amount)
    }
    // An intent without a charge has no charge time.
    for (const intent of await account.findIntents({ customer: 'ann', metadata: {} }))
      expect(intent.charged_at !== null).toBe(charges.some(({ intent_id }) => intent_id === intent.id))
    expect(refunds.every(({ status }) => status !== 'pending')).toBe(true)
  })
})

describe('missing responses', () => {
  test('has no effect if the request was lost, and replays a lost response for the same idempotency key', async () => {
    const { id: name, account } = openAccount()
    const request = { ...creation, key: 'create', metadata: { attempt: 'x' } }
    const found = async () => (await account.findIntents({ customer: 'ann', metadata: { attempt: 'x' } })).map(({ id }) => id)
    fault = { call: 'createIntent', when: 'before' }
    await expect(account.createIntent(request)).rejects.toThrow(ProcessorSilent)
    expect(await found()).toEqual([])
    fault = { call: 'createIntent', when: 'after' }
    await expect(account.createIntent(request)).rejects.toThrow(ProcessorSilent)
    fault = undefined
    const { id } = await account.createIntent(request)
    expect(await found()).toEqual([id])
    expect(await account.findIntents({ customer: 'bob', metadata: { attempt: 'x' } })).toEqual([])

    fault = { call: 'confirmIntent', when: 'before' }
    await expect(confirm(account, id, 'tok_visa', { key: 'confirm' })).rejects.toThrow(ProcessorSilent)
    expect((await booked(name)).charges).toEqual([])
    fault = { call: 'confirmIntent', when: 'after' }
    await expect(confirm(account, id, 'tok_visa', { key: 'confirm' })).rejects.toThrow(ProcessorSilent)
    fault = undefined
    expect(await account.readIntent(id)).toMatchObject({ status: 'succeeded' })
    expect(await confirm(account, id, 'tok_visa', { key: 'confirm' })).toMatchObject({ status: 'succeeded' })
    expect((await booked(name)).charges).toHaveLength(1)

    fault = { call: 'createRefund', when: 'after' }
    await expect(refund(account, id, 500, 'refund')).rejects.toThrow(ProcessorSilent)
    fault = undefined
    const [only, ...others] = await account.findRefunds({ intent_id: id, metadata: { refund: 'refund' } })
    expect(others).toEqual([])
    expect(await refund(account, id, 500, 'refund')).toEqual(only)
  })

  test('charges once at the first attempt if the response is lost, and at the retry if the request is lost', async () => {
    const { id: name, account } = openAccount()
    const [answer, request] = [await create(account), await create(account)]
    await expect(confirm(account, answer.id, 'tok_charge_then_timeout', { key: 'a' })).rejects.toThrow(ProcessorSilent)
    expect(await account.readIntent(answer.id)).toMatchObject({ status: 'succeeded' })
    expect(await confirm(account, answer.id, 'tok_charge_then_timeout', { key: 'a' })).toMatchObject({ status: 'succeeded' })
    await expect(confirm(account, request.id, 'tok_timeout_then_nothing', { key: 'b' })).rejects.toThrow(ProcessorSilent)
    expect(await account.readIntent(request.id)).toMatchObject({ status: 'requires_confirmation', method: null })
    expect(await confirm(account, request.id, 'tok_timeout_then_nothing', { key: 'b' })).toMatchObject({ status: 'succeeded' })
    expect((await booked(name)).charges.map(({ intent_id }) => intent_id)).toEqual([answer.id, request.id])
  })

  test('throws ProcessorSilent if the database is unreachable', async () => {
    const unreachable = openTestProcessor({ url: new Secret('postgres://nobody@127.0.0.1:1/nothing'), environment: 'sandbox', clock, log })
    await expect(unreachable.account('a', secret).readIntent('x')).rejects.toThrow(ProcessorSilent)
    await unreachable.close()
  })
})

describe('events', () => {
  test('accepts only recently signed events: rejects a changed body, timestamp or key, and an old signature', async () => {
    const { id: name, account } = openAccount()
    const { id } = await create(account)
    await confirm(account, id, 'tok_visa')
    const taken = await account.takeCallbacks(10)
    expect(taken).toHaveLength(1)
    const { headers, body } = taken[0]!
    const bytes = Buffer.from(body)
    expect(account.readEvent(headers, bytes)).toEqual({
      id: expect.stringMatching(/^test_evt_/),
      kind: 'intent.succeeded',
      object_id: id,
      at: expect.any(Date),
    })
    const signature = String(headers['test-processor-signature'])
    const moved = signature.replace(/t=(\d+)/, (_, time) => `t=${Number(time) + 1}`)
    for (const [wrong, text] of [
      [headers, body.replace('succeeded', 'failed')],
      [headers, `${body} `],
      [{ 'test-processor-signature': moved }, body],
      [{ 'test-processor-signature': signature.replace('v1=', 'v0=') }, body],
      [{}, body],
    ] as const)
      expect(() => account.readEvent(wrong, Buffer.from(text))).toThrow(EventRefused)
    expect(() => processor.account(name, new Secret('another')).readEvent(headers, bytes)).toThrow(EventRefused)
    clock.advance(6 * minutes)
    expect(() => account.readEvent(headers, bytes)).toThrow(EventRefused)
  })

  test('returns each event once and in order to concurrent callers', async () => {
    const { id: name, account } = openAccount()
    expect(await processor.waitingAccounts()).not.toContain(name)
    for (let at = 0; at < 20; at++) await confirm(account, (await create(account)).id, 'tok_visa')
    expect(await processor.waitingAccounts()).toContain(name)
    const taken = (await Promise.all(Array.from({ length: 10 }, () => account.takeCallbacks(3)))).flat()
    const rest = await account.takeCallbacks(100)
    expect(new Set([...taken, ...rest].map(({ id }) => id)).size).toBe(20)
    expect([...taken, ...rest]).toHaveLength(20)
    expect(await processor.waitingAccounts()).not.toContain(name)
  })

  test('delivers an event twice with one id, late or never, as the card defines', async () => {
    const { id: name, account } = openAccount()
    const pay = async (token: CardToken) => confirm(account, (await create(account)).id, token)
    await pay('tok_callback_twice')
    const [first, second] = await told(account)
    expect(second).toEqual(first)
    const late = await pay('tok_callback_late')
    await pay('tok_callback_never')
    expect(await told(account)).toEqual([])
    clock.advance(45 * seconds)
    expect(await processor.waitingAccounts()).not.toContain(name)
    clock.advance(45 * seconds)
    expect(await told(account)).toMatchObject([{ kind: 'intent.succeeded', object_id: late.id, at: late.charged_at }])
    clock.advance(24 * hours)
    expect(await told(account)).toEqual([])
    expect((await booked(name)).charges).toHaveLength(3)
  })
})

describe('isolation', () => {
  test("denies the application's roles access to the processor's tables, and the processor's role access to the application's", async () => {
    const ask = async (role: Role, statement: string) => {
      const pool = openPool(new Secret(database.url), role, { max: 1, log })
      try {
        return (await pool.query<Record<string, unknown>>(statement)).rowCount
      } finally {
        await pool.end()
      }
    }
    for (const role of ['bursar_api', 'bursar_worker', 'bursar_jobs'] as const)
      for (const table of ['intents', 'charges', 'refunds', 'methods', 'keys', 'callbacks'])
        await expect(ask(role, `select 1 from test_processor.${table}`)).rejects.toThrow(/permission denied for schema test_processor/)
    for (const table of ['customers', 'organizations', 'deployment', 'schema_migrations'])
      await expect(ask('bursar_processor', `select 1 from public.${table}`)).rejects.toThrow(/permission denied for schema public/)
    await expect(ask('bursar_processor', 'select 1 from graphile_worker._private_jobs')).rejects.toThrow(/permission denied/)
    expect(await ask('bursar_processor', 'select 1 from test_processor.charges limit 1')).toBeLessThanOrEqual(1)
    for (const statement of ['update test_processor.charges set amount = 1', 'delete from test_processor.charges', 'delete from test_processor.refunds'])
      await expect(ask('bursar_processor', statement)).rejects.toThrow(/permission denied for table/)
  })

  test('refuses to open the test processor in production', () => {
    expect(() => openTestProcessor({ url: new Secret(database.url), environment: 'production', clock, log })).toThrow(/in the sandbox only/)
  })
})
