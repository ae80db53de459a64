import {
  confirmClientCheckout,
  createCheckout,
  createCustomer,
  createProduct,
  createTestClock,
  deleteCustomer,
  getCheckoutDraft,
  saveCheckoutDraft,
  updateClientCheckout,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newToken } from '../../../kernel/secrets.ts'
import { days, hours, minutes } from '../../../platform/clock.ts'

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

interface Ticket {
  readonly id: string
  readonly client_secret: string
}
const price = { amount_type: 'fixed' as const, price_amount: 2900, price_currency: 'usd' as const }
const typed = { customer_name: 'Ada Löve', customer_email: 'half@', 'billing_address.line1': 'Rosenweg' }

const open = async () => {
  const shop = await world.shop()
  const { id } = await shop.api.call(createProduct, { body: { name: 'Guide', prices: [price] } })
  return { ...shop, checkout: (more: object = {}) => shop.api.call(createCheckout, { body: { products: [id], ...more } }) }
}
const params = ({ client_secret }: Pick<Ticket, 'client_secret'>) => ({ client_secret })
const read = (ticket: Pick<Ticket, 'client_secret'>) => world.client().send(getCheckoutDraft, { params: params(ticket) })
const save = (ticket: Pick<Ticket, 'client_secret'>, fields: Record<string, string>) =>
  world.client().send(saveCheckoutDraft, { params: params(ticket), body: { fields } })
const fieldsOf = async (ticket: Ticket) => ((await read(ticket)).body as { fields: Record<string, string> }).fields
const errorOf = ({ status, body }: { status: number; body: unknown }) => `${status} ${(body as { error?: string }).error ?? ''}`.trim()
const problems = ({ body }: { body: unknown }) => (body as { detail: { loc: string[]; msg: string; input?: unknown }[] }).detail
const stored = async ({ id }: Ticket) =>
  (await world.database.owner((owner) => owner.query<{ fields_sealed: string | null }>('select fields_sealed from checkout_drafts where id = $1', [id]))).rows
const buyer = { customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' as const }, confirmation_token_id: 'tok_visa' }
const confirm = (ticket: Ticket, body: object = buyer) => world.client().send(confirmClientCheckout, { params: params(ticket), body })

describe('storing the draft of a checkout form', () => {
  test('returns the fields as they were stored, also those that no update would accept', async () => {
    const { checkout } = await open()
    const made = await checkout()
    expect((await read(made)).body).toEqual({ fields: {}, modified_at: null })
    expect((await save(made, typed)).status).toBe(204)
    expect((await read(made)).body).toEqual({ fields: typed, modified_at: expect.any(String) })
    const next = { customer_name: ' Ada ' }
    expect((await save(made, next)).status).toBe(204)
    expect(await fieldsOf(made)).toEqual(next)
  })

  test('deletes the draft if there are no fields', async () => {
    const { checkout } = await open()
    const made = await checkout()
    await save(made, typed)
    expect((await save(made, {})).status).toBe(204)
    expect((await read(made)).body).toEqual({ fields: {}, modified_at: null })
    expect(await stored(made)).toEqual([])
  })

  test('encrypts the fields, emits no event and leaves no trace in the audit log', async () => {
    const { checkout, events } = await open()
    const made = await checkout()
    const logged = async () =>
      (await world.database.owner((owner) => owner.query('select from audit_log a where a::text like $1', [`%${made.id}%`]))).rows.length
    const before = [await logged(), (await events()).length]
    await save(made, typed)
    const [row] = await stored(made)
    expect(row!.fields_sealed).toMatch(/^1:/)
    expect(Buffer.from(row!.fields_sealed!.slice(2), 'base64').toString()).not.toContain('Rosenweg')
    expect([await logged(), (await events()).length]).toEqual(before)
  })

  test('accepts 64 fields and 8 KiB, and rejects more', async () => {
    const { checkout } = await open()
    const made = await checkout()
    const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`field_${at}`, 'x']))
    expect((await save(made, many(64))).status).toBe(204)
    expect(problems(await save(made, many(65)))).toMatchObject([{ loc: ['body', 'fields'], msg: 'A draft has at most 64 fields. This one has 65.' }])
    // {"note":"…"} has eleven bytes besides the text, and the letter has two.
    const note = 'ä'.repeat((8192 - 11) >> 1)
    expect((await save(made, { note })).status).toBe(204)
    expect(await fieldsOf(made)).toEqual({ note })
    expect(problems(await save(made, { note: `${note}ä` }))).toMatchObject([{ loc: ['body', 'fields'] }])
    expect(await fieldsOf(made)).toEqual({ note })
  })

  test('rejects names that are no names of inputs, and values that are no texts', async () => {
    const { checkout } = await open()
    const made = await checkout()
    for (const fields of [{ '': 'x' }, { __proto: 'x' }, { 'a b': 'x' }, { ['n'.repeat(121)]: 'x' }, { name: 1 }, { name: null }, [], null])
      expect(errorOf(await save(made, fields as never))).toBe('422 RequestValidationError')
    expect(await stored(made)).toEqual([])
  })

  test('rejects card data at its field, and does not repeat the number', async () => {
    const { checkout } = await open()
    const made = await checkout()
    const numbers = ['4242424242424242', 'Card: 4242 4242 4242 4242 please', '3782-822463-10005', '4222222222222', '6304000000000000000', '4242.4242.4242.4242']
    for (const text of numbers) {
      const answer = await save(made, { customer_name: 'Ada', note: text })
      expect(errorOf(answer), text).toBe('422 RequestValidationError')
      expect(problems(answer).map(({ loc }) => loc)).toEqual([['body', 'fields', 'note']])
      expect(JSON.stringify(answer.body)).not.toContain(text)
    }
    for (const name of ['card_number', 'cc-csc', 'cardnumber', 'cvc', 'CVV', 'cc-exp-month', 'security_code'])
      expect(problems(await save(made, { [name]: '1' })).map(({ loc }) => loc)).toEqual([['body', 'fields', name]])
    expect(await stored(made)).toEqual([])
  })

  test('accepts numbers that are no card numbers', async () => {
    const { checkout } = await open()
    const made = await checkout()
    const fields = { vat: 'DE136695976', phone: '+49 30 1234567', order: '4242424242424241', long: '42424242424242424242', card_holder_since: '2019' }
    expect((await save(made, fields)).status).toBe(204)
    expect(await fieldsOf(made)).toEqual(fields)
  })

  test('answers 404 without a valid client secret, and reads no draft of another checkout', async () => {
    const { checkout } = await open()
    const [made, other] = [await checkout(), await (await open()).checkout()]
    await save(made, typed)
    expect(await fieldsOf(other)).toEqual({})
    for (const client_secret of [newToken('checkout', 'sandbox').reveal(), newToken('personal', 'sandbox').reveal(), 'x', made.id])
      for (const answer of [await read({ client_secret }), await save({ client_secret }, typed)]) expect(errorOf(answer)).toBe('404 ResourceNotFound')
    expect(await fieldsOf(made)).toEqual(typed)
  })

  test('keeps the draft when the payment is declined, and deletes it with the client secret after the checkout has succeeded', async () => {
    const { checkout } = await open()
    const made = await checkout()
    await save(made, typed)
    expect((await confirm(made, { ...buyer, confirmation_token_id: 'tok_do_not_honor' })).status).toBe(400)
    expect(await fieldsOf(made)).toEqual(typed)
    expect((await confirm(made)).status).toBe(200)
    await deployment.work()
    for (const answer of [await read(made), await save(made, typed)]) expect(errorOf(answer)).toBe('403 NotOpenCheckout')
    world.clock.advance(11 * minutes)
    await deployment.sweep('checkout.watch')
    expect(await stored(made)).toEqual([])
  })

  test('answers 410 when the checkout has expired, and deletes draft and client secret a week later', async () => {
    const { checkout } = await open()
    const [made, empty] = [await checkout(), await checkout()]
    await save(made, typed)
    world.clock.advance(24 * hours + minutes)
    for (const answer of [await read(made), await save(made, {})]) expect(errorOf(answer)).toBe('410 ExpiredCheckoutError')
    await deployment.sweep('checkout.watch')
    for (const answer of [await read(made), await save(made, {})]) expect(errorOf(answer)).toBe('410 ExpiredCheckoutError')
    const due = async ({ id }: Ticket) =>
      (await world.database.owner((owner) => owner.query('select due_at from checkouts where id = $1', [id]))).rows[0]!.due_at
    world.clock.advance(7 * days - hours)
    await deployment.sweep('checkout.watch')
    expect((await stored(made)).length).toBe(1)
    world.clock.advance(2 * hours)
    await deployment.sweep('checkout.watch')
    expect(await stored(made)).toEqual([])
    for (const one of [made, empty]) {
      expect(await due(one)).toBeNull()
      for (const answer of [await read(one), await save(one, {})]) expect(errorOf(answer)).toBe('404 ResourceNotFound')
    }
  })

  test("uses the clock of the checkout's customer", async () => {
    const { api, checkout } = await open()
    const clock = await api.call(createTestClock, { body: { name: 'Slow', now_at: world.clock.wall().toISOString() } as never })
    const customer = await api.call(createCustomer, { body: { email: 'clock@people.test', test_clock_id: clock.id } })
    const made = await checkout({ customer_id: customer.id })
    world.clock.advance(25 * hours)
    expect((await save(made, typed)).status).toBe(204)
    expect(await fieldsOf(made)).toEqual(typed)
  })

  test('erases the draft with the data of the customer', async () => {
    const { api, checkout } = await open()
    const customer = await api.call(createCustomer, { body: { email: 'gone@people.test' } })
    const [known, typedIn, other] = [await checkout({ customer_id: customer.id }), await checkout(), await checkout()]
    for (const one of [known, typedIn, other]) await save(one, typed)
    await world.client().call(updateClientCheckout, { params: params(typedIn), body: { customer_email: 'Gone@people.test' } })
    expect((await api.send(deleteCustomer, { params: { id: customer.id }, query: { anonymize: 'true' } })).status).toBe(204)
    for (const one of [known, typedIn]) expect(await stored(one)).toEqual([{ fields_sealed: null }])
    expect(await fieldsOf(typedIn)).toEqual({})
    expect(await fieldsOf(other)).toEqual(typed)
  })

  test('erases the draft of a checkout without a customer, if the address of the person was typed in it', async () => {
    const { api, checkout } = await open()
    const customer = await api.call(createCustomer, { body: { email: 'typed@people.test' } })
    const [theirs, other, cleared] = [await checkout(), await checkout(), await checkout()]
    const foreign = await (await open()).checkout()
    for (const one of [theirs, cleared, foreign]) await save(one, { ...typed, customer_email: ' Typed@People.test ' })
    await save(other, { ...typed, customer_email: 'another@people.test' })
    await save(cleared, typed)
    expect((await api.send(deleteCustomer, { params: { id: customer.id }, query: { anonymize: 'true' } })).status).toBe(204)
    expect(await stored(theirs)).toEqual([{ fields_sealed: null }])
    expect(await fieldsOf(theirs)).toEqual({})
    for (const one of [other, cleared, foreign]) expect((await stored(one))[0]!.fields_sealed).not.toBeNull()
    const hashes = await world.database.owner((owner) => owner.query('select email_hash from checkout_drafts where id = $1', [theirs.id]))
    expect(hashes.rows).toEqual([{ email_hash: null }])
  })

  test('deletes draft and client secret of an expired checkout whose seller was deleted', async () => {
    const { checkout, organization } = await open()
    const [made, expired] = [await checkout(), await checkout()]
    for (const one of [made, expired]) await save(one, typed)
    await world.database.owner(async (owner) => {
      await owner.query('update checkouts set expires_at = $2, due_at = $2 where id = $1', [expired.id, world.clock.wall()])
      await deployment.sweep('checkout.watch')
      await owner.query('update organizations set deleted_at = $2 where id = $1', [organization.id, world.clock.wall()])
    })
    world.clock.advance(8 * days)
    await deployment.sweep('checkout.watch')
    for (const one of [made, expired]) expect(await stored(one)).toEqual([])
    const secrets = await world.database.owner((owner) => owner.query('select from credentials where subject_id = any($1)', [[made.id, expired.id]]))
    expect(secrets.rows).toEqual([])
  })

  test('answers 409 while a confirmation or an update has locked the checkout, and stores nothing', async () => {
    const { checkout } = await open()
    const made = await checkout()
    await world.database.owner(async (owner) => {
      await owner.query('begin')
      await owner.query('select from checkouts where id = $1 for update', [made.id])
      expect(errorOf(await save(made, typed))).toBe('409 CheckoutLocked')
      await owner.query('rollback')
    })
    expect(await stored(made)).toEqual([])
    const answers = await Promise.all(Array.from({ length: 10 }, (_, at) => save(made, { customer_name: `Ada ${at}` })))
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 204))
  })
})
