import {
  createCheckoutLink,
  createCustomField,
  createDiscount,
  createProduct,
  deleteCheckoutLink,
  deleteDiscount,
  followCheckoutLink,
  getCheckoutLink,
  getClientCheckout,
  listCheckoutLinks,
  listCheckouts,
  updateCheckoutLink,
  updateOrganization,
  updateProduct,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { exchange, openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'

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

type Given = Record<string, unknown>
const fixed = (price_amount: number) => ({ amount_type: 'fixed', price_amount, price_currency: 'usd' }) as const
const custom = { amount_type: 'custom', price_currency: 'usd', minimum_amount: 500, maximum_amount: 9000, preset_amount: 1000 } as const
const seated = (min_seats: number, max_seats: number) =>
  ({
    amount_type: 'seat_based',
    price_currency: 'usd',
    seat_tiers: { seat_tier_type: 'volume', tiers: [{ min_seats, max_seats, price_per_seat: 500 }] },
  }) as const
const locs = (answer: { body: unknown }) => (answer.body as { detail: { loc: (string | number)[] }[] }).detail.map(({ loc }) => loc.join('.'))
const errorOf = (answer: { status: number; body: unknown }) => `${answer.status} ${(answer.body as { error: string }).error}`

const open = async () => {
  const shop = await world.shop()
  const { api } = shop
  const product = (prices: readonly object[], more: Given = {}) => api.call(createProduct, { body: { name: 'Guide', prices, ...more } as never })
  const book = await product([fixed(2900)])
  const plan = await product([fixed(900)], { name: 'Plan', recurring_interval: 'month' })
  const link = (body: Given = {}) =>
    api.call(createCheckoutLink, { body: { payment_processor: 'stripe', ...('products' in body ? {} : { products: [book.id] }), ...body } as never })
  const change = (made: { id: string }, body: Given) => api.send(updateCheckoutLink, { params: { id: made.id }, body })
  /** Follows a link like a visitor. Returns the answer and the checkout that it created. */
  const visit = async ({ url }: { url: string }, query = '') => {
    const { pathname } = new URL(url)
    const answer = await exchange(world.port, 'GET', `${pathname}${query}`)
    const location = answer.headers.get('location')
    const to = location === null ? undefined : new URL(location)
    const client_secret = to?.pathname.split('/').at(-1)
    return {
      status: answer.status,
      error: answer.text === '' ? null : (JSON.parse(answer.text) as { error: string }).error,
      to,
      checkout: client_secret === undefined ? undefined : await world.client().call(getClientCheckout, { params: { client_secret } }),
    }
  }
  return {
    ...shop,
    product,
    book,
    plan,
    link,
    change,
    visit,
    discount: (more: Given = {}) =>
      api.call(createDiscount, { body: { name: 'Half', type: 'percentage', basis_points: 5000, duration: 'once', ...more } as never }),
    seen: ({ id }: { id: string }) => api.call(getCheckoutLink, { params: { id } }),
    archive: async ({ id }: { id: string }, is_archived = true) => {
      await api.call(updateProduct, { params: { id }, body: { is_archived } })
      await deployment.work()
    },
  }
}

describe('managing links', () => {
  test('creates a link by products, by one product or by a price, and shows, updates, lists and deletes it', async () => {
    const { api, book, plan, link, seen, change } = await open()
    const made = await link({ products: [plan.id, book.id], label: 'Spring', metadata: { campaign: 'spring' } })
    expect(made).toMatchObject({
      label: 'Spring',
      payment_processor: 'stripe',
      products: [{ id: plan.id }, { id: book.id }],
      allow_discount_codes: true,
      require_billing_address: false,
      discount: null,
      seats: null,
      metadata: { campaign: 'spring' },
      modified_at: null,
    })
    expect(made.client_secret).toMatch(/^bursar_test_cl_[0-9A-Za-z]{43}$/)
    expect(made.url).toBe(new URL(`/v1/checkout-links/${made.client_secret}/redirect`, world.config.public_url).href)
    expect(await seen(made)).toEqual(made)
    const { body: changed } = await change(made, { label: null, products: [book.id], allow_discount_codes: false, success_url: 'https://shop.example/thanks' })
    expect(changed).toMatchObject({ label: null, products: [{ id: book.id }], allow_discount_codes: false, client_secret: made.client_secret })
    const create = (body: Given) => api.call(createCheckoutLink, { body: { payment_processor: 'stripe', ...body } as never })
    const byProduct = await create({ product_id: plan.id })
    const byPrice = await create({ product_price_id: book.prices[0]!.id })
    const ids = async (query: Given = {}) => (await api.call(listCheckoutLinks, { query })).items.map(({ id }) => id)
    expect(await ids()).toEqual([made.id, byProduct.id, byPrice.id])
    expect(await ids({ sorting: ['-allow_discount_codes', '-created_at'] })).toEqual([byPrice.id, byProduct.id, made.id])
    expect(await ids({ product_id: [book.id] })).toEqual([made.id, byPrice.id])
    await api.call(deleteCheckoutLink, { params: { id: made.id } })
    expect(await ids({ product_id: [book.id], sorting: ['label'] })).toEqual([byPrice.id])
    for (const operation of [getCheckoutLink, deleteCheckoutLink])
      expect(errorOf(await api.sendRaw(operation, { params: { id: made.id } }))).toBe('404 ResourceNotFound')
  })

  test('rejects unsellable products, seats, trials and discounts, with the location of each problem', async () => {
    const { api, book, plan, product, archive, discount, link, change } = await open()
    const wrong = async (body: Given) => locs(await api.send(createCheckoutLink, { body: { payment_processor: 'stripe', ...body } as never }))
    const gone = await product([fixed(500)])
    await archive(gone)
    const draft = await product([fixed(500)], { visibility: 'draft' })
    const foreign = (await open()).book
    const nothing = newId(world.clock.wall())
    expect(await wrong({ products: [book.id, gone.id, draft.id, foreign.id] })).toEqual(['body.products.1', 'body.products.2', 'body.products.3'])
    expect(await wrong({ product_id: gone.id })).toEqual(['body.product_id'])
    for (const id of [nothing, foreign.prices[0]!.id]) expect(await wrong({ product_price_id: id })).toEqual(['body.product_price_id'])
    expect(await wrong({ products: [] })).toEqual(['body.products'])
    expect(await wrong({ product_id: book.id, products: [book.id] })).toEqual(['body.products'])
    const products = [book.id]
    expect(await wrong({ products, discount_id: nothing, seats: 3, trial_interval: 'day', trial_interval_count: 3 })).toEqual([
      'body.trial_interval',
      'body.seats',
      'body.discount_id',
    ])
    expect(await wrong({ products: [plan.id], trial_interval: 'day' })).toEqual(['body.trial_interval_count'])
    expect(await wrong({ products, success_url: 'javascript:alert(1)' })).toEqual(['body.success_url'])
    expect(locs(await api.sendRaw(createCheckoutLink, { body: { products } }))).toEqual(['body.payment_processor'])
    const theirs = await (await open()).discount()
    expect(await wrong({ products, discount_id: theirs.id })).toEqual(['body.discount_id'])
    const made = await link()
    expect(locs(await change(made, { products: [foreign.id] }))).toEqual(['body.products.0'])
    expect(locs(await change(made, { trial_interval: 'day', trial_interval_count: 3, discount_id: theirs.id }))).toEqual([
      'body.trial_interval',
      'body.discount_id',
    ])
    // A discount that has ended is accepted, because the seller may extend it later.
    const over = await discount({ starts_at: '2020-01-01T00:00:00Z', ends_at: '2020-01-02T00:00:00Z' })
    expect((await link({ discount_id: over.id })).discount).toMatchObject({ id: over.id })
  })

  test('removes a trial and a number of seats that the new products do not support, and keeps supported ones', async () => {
    const { book, plan, product, link, change } = await open()
    const team = await product([seated(2, 20)], { name: 'Team', recurring_interval: 'month' })
    const crew = await product([seated(10, 20)], { name: 'Crew', recurring_interval: 'year' })
    const trial = { trial_interval: 'week', trial_interval_count: 2 }
    const made = await link({ products: [team.id], seats: 5, ...trial })
    expect(made).toMatchObject({ seats: 5, ...trial })
    expect((await change(made, { products: [crew.id] })).body).toMatchObject({ seats: null, ...trial })
    expect((await change(made, { products: [team.id, crew.id], seats: 12 })).body).toMatchObject({ seats: 12, ...trial })
    expect(locs(await change(made, { products: [team.id, plan.id], seats: 12 }))).toEqual(['body.seats'])
    expect((await change(made, { products: [book.id] })).body).toMatchObject({ seats: null, trial_interval: null, trial_interval_count: null })
  })

  test('removes an archived product from its links, and permanently deletes a link without products', async () => {
    const { api, book, plan, link, seen, archive, visit } = await open()
    const both = await link({ products: [book.id, plan.id], trial_interval: 'day', trial_interval_count: 3 })
    const only = await link({ products: [plan.id] })
    await archive(plan)
    expect(await seen(both)).toMatchObject({ products: [{ id: book.id }], trial_interval: null })
    expect(errorOf(await api.send(getCheckoutLink, { params: { id: only.id } }))).toBe('404 ResourceNotFound')
    expect(await visit(only)).toMatchObject({ status: 404, error: 'ResourceNotFound' })
    await archive(plan, false)
    expect((await seen(both)).products).toHaveLength(1)
    expect(await visit(only)).toMatchObject({ status: 404 })
    // The product is unarchived before the job runs, so it stays in the link.
    await api.call(updateProduct, { params: { id: book.id }, body: { is_archived: true } })
    expect(await visit(both)).toMatchObject({ status: 404 })
    await archive(book, false)
    expect((await seen(both)).products).toHaveLength(1)
    expect(await visit(both)).toMatchObject({ status: 302 })
  })

  test('never leaves an archived product in a link that was created at the same time', async () => {
    const { api, product, archive } = await open()
    for (let round = 0; round < 5; round++) {
      const { id } = await product([fixed(500)])
      const create = () => api.send(createCheckoutLink, { body: { payment_processor: 'stripe', product_id: id } })
      await Promise.all([create(), api.call(updateProduct, { params: { id }, body: { is_archived: true } }), create()])
      await deployment.work()
      expect((await api.call(listCheckoutLinks, { query: { product_id: [id] } })).items).toEqual([])
      await archive({ id }, false)
    }
  })
})

describe('following links', () => {
  test('creates a separate checkout for each visit, with the settings of the link', async () => {
    const { api, book, plan, link, visit, discount, events } = await open()
    const half = await discount()
    const made = await link({
      products: [plan.id, book.id],
      discount_id: half.id,
      require_billing_address: true,
      trial_interval: 'week',
      trial_interval_count: 1,
      metadata: { campaign: 'spring' },
      success_url: 'https://shop.example/thanks?checkout={CHECKOUT_ID}',
    })
    const [first, second] = [await visit(made), await visit(made)]
    expect(first.status).toBe(302)
    expect(first.to!.href).toBe(first.checkout!.url)
    expect(first.checkout).toMatchObject({
      status: 'open',
      product_id: plan.id,
      products: [{ id: plan.id }, { id: book.id }],
      discount_id: half.id,
      require_billing_address: true,
      active_trial_interval: 'week',
      success_url: `https://shop.example/thanks?checkout=${first.checkout!.id}`,
    })
    expect(second.checkout!.id).not.toBe(first.checkout!.id)
    const { items } = await api.call(listCheckouts, {})
    expect(items.map(({ metadata }) => metadata)).toEqual([{ campaign: 'spring' }, { campaign: 'spring' }])
    expect(await events('checkout.created')).toHaveLength(2)
    expect((await events('checkout.updated')).length).toBe(0)
  })

  test('leads to a checkout with the full price if the discount of the link was used up', async () => {
    const { book, link, visit, discount } = await open()
    const last = await discount({ max_redemptions: 1 })
    const made = await link({ products: [book.id], discount_id: last.id })
    expect((await visit(made)).checkout).toMatchObject({ discount_id: last.id, discount_amount: 1450, total_amount: 1450 })
    await world.database.owner((owner) => owner.query('update discounts set redemptions_count = 1 where id = $1', [last.id]))
    expect((await visit(made)).checkout).toMatchObject({ status: 'open', discount_id: null, discount_amount: 0, total_amount: 2900 })
  })

  test('prefills the checkout from query parameters, stores tracking parameters as metadata, and passes on all others', async () => {
    const { api, book, product, link, visit, discount } = await open()
    const half = await discount({ code: 'HALF' })
    const [text, number, agree] = await Promise.all(
      (['text', 'number', 'checkbox'] as const).map((type) => api.call(createCustomField, { body: { type, slug: `a-${type}`, name: type, properties: {} } })),
    )
    const fields = [text, number, agree].map((field) => ({ custom_field_id: field!.id, required: false }))
    const gift = await product([custom], { name: 'Gift', attached_custom_fields: fields })
    const made = await link({ products: [book.id, gift.id], metadata: { utm_source: 'the link', kept: true } })
    const query = new URLSearchParams({
      product_id: gift.id,
      amount: '4000',
      customer_email: 'ada@people.test',
      customer_name: 'Ada',
      discount_code: 'half',
      locale: 'de',
      'custom_field_data.a-text': 'Hello',
      'custom_field_data.a-number': '7',
      'custom_field_data.a-checkbox': 'true',
      reference_id: 'r-1',
      utm_source: 'mail',
      utm_medium: 'post',
      theme: 'dark',
      'deep[a][b]': 'c d',
    })
    const { to, checkout } = await visit(made, `?${query.toString()}&theme=light`)
    expect(checkout).toMatchObject({
      product_id: gift.id,
      amount: 4000,
      discount_id: half.id,
      customer_email: 'ada@people.test',
      customer_name: 'Ada',
      locale: 'de',
      custom_field_data: { 'a-text': 'Hello', 'a-number': 7, 'a-checkbox': true },
    })
    expect([...to!.searchParams]).toEqual([
      ['theme', 'dark'],
      ['deep[a][b]', 'c d'],
      ['theme', 'light'],
    ])
    const { items } = await api.call(listCheckouts, {})
    expect(items[0]!.metadata).toEqual({ utm_source: 'the link', kept: true, reference_id: 'r-1', utm_medium: 'post' })
  })

  test('ignores invalid query parameters and still creates a checkout', async () => {
    const { api, product, link, visit, discount } = await open()
    await discount({ code: 'OVER', starts_at: '2020-01-01T00:00:00Z', ends_at: '2020-01-02T00:00:00Z' })
    const number = await api.call(createCustomField, { body: { type: 'number', slug: 'a-number', name: 'Number', properties: {} } })
    const gift = await product([custom], { attached_custom_fields: [{ custom_field_id: number.id, required: true }] })
    const made = await link({ products: [gift.id] })
    const untouched = {
      product_id: gift.id,
      customer_email: null,
      customer_name: null,
      locale: null,
      discount_id: null,
      custom_field_data: {},
      embed_origin: null,
    }
    for (const query of [
      'product_id=nonsense',
      'product_id=3f0d6d5a-0000-4000-8000-000000000000',
      'amount=12',
      'amount=99999999999999',
      'amount=-1',
      'amount=4000&amount=5000&customer_email=a&customer_email=b',
      'customer_email=nobody',
      'customer_email=%00',
      'customer_name=a%0Ab',
      'locale=!!',
      'discount_code=NOSUCH',
      'discount_code=OVER',
      'custom_field_data.a-number=many&custom_field_data.nothing=1',
      'custom_field_data.a-number=99999999999',
      `reference_id=${'x'.repeat(501)}`,
      'reference_id=%00&utm_term=%FF%FE',
      'a[b][c]=1&[=2&=3&%5B%5D',
      'embed_origin=nonsense',
      '__proto__=1&constructor=2&custom_field_data.__proto__=3',
    ]) {
      const { status, checkout } = await visit(made, `?${query}`)
      expect([query, status]).toEqual([query, 302])
      expect(checkout).toMatchObject({ ...untouched, amount: query.startsWith('amount=4000') ? 4000 : 1000 })
    }
  })

  test('ignores inapplicable discounts and unavailable seats, and applies a code only where codes are allowed', async () => {
    const { api, plan, product, link, visit, discount, change } = await open()
    const [half, tenth] = [await discount(), await discount({ name: 'Tenth', basis_points: 1000, code: 'TENTH' })]
    const bound = await discount({ products: [plan.id] })
    const team = await product([seated(2, 20)], { name: 'Team', recurring_interval: 'month' })
    const made = await link({ products: [team.id], seats: 5, discount_id: half.id })
    expect((await visit(made)).checkout).toMatchObject({ seats: 5, min_seats: 5, max_seats: 5, discount_id: half.id })
    expect((await visit(made, '?discount_code=TENTH')).checkout).toMatchObject({ discount_id: tenth.id })
    expect((await visit(made, '?discount_code=NOSUCH')).checkout).toMatchObject({ discount_id: half.id })
    await change(made, { allow_discount_codes: false })
    expect((await visit(made, '?discount_code=TENTH')).checkout).toMatchObject({ discount_id: half.id, allow_discount_codes: false })
    await change(made, { discount_id: bound.id })
    expect((await visit(made)).checkout).toMatchObject({ discount_id: null })
    await api.call(deleteDiscount, { params: { id: bound.id } })
    expect((await visit(made)).checkout).toMatchObject({ discount_id: null })
    await api.call(updateProduct, { params: { id: team.id }, body: { prices: [seated(8, 20)] } as never })
    expect((await visit(made)).checkout).toMatchObject({ seats: 8, min_seats: null, max_seats: null })
  })

  test('rejects an embedding page whose host is not in the seller’s list, if there is a list', async () => {
    const { api, organization, link, visit } = await open()
    const made = await link()
    const from = (origin: string) => visit(made, `?embed=true&embed_origin=${encodeURIComponent(origin)}`)
    expect((await from('https://anywhere.example')).checkout).toMatchObject({ embed_origin: 'https://anywhere.example' })
    await api.call(updateOrganization, { params: { id: organization.id }, body: { embed_hosts: ['shop.example', '*.more.example', 'localhost:3000'] } })
    for (const origin of ['https://shop.example', 'https://a.more.example', 'http://localhost:3000']) {
      const { to, checkout } = await from(origin)
      expect(checkout).toMatchObject({ embed_origin: origin })
      expect(to!.search).toBe('?embed=true')
    }
    for (const origin of ['https://shop.example.evil.test', 'https://evilmore.example', 'https://more.example', 'http://localhost:3001', 'nonsense'])
      expect(await from(origin)).toMatchObject({ status: 403, error: 'EmbedHostNotAllowed' })
    expect((await visit(made)).status).toBe(302)
  })

  test('answers 404 for an unknown, mistyped or deleted link and for a link of a blocked seller', async () => {
    const { api, organization, link, visit } = await open()
    const made = await link()
    const other = await link()
    await api.call(deleteCheckoutLink, { params: { id: other.id } })
    const { checkout } = await visit(made)
    for (const client_secret of ['x', newId(world.clock.wall()), `${made.client_secret}x`, checkout!.client_secret, other.client_secret]) {
      const answer = await world.client().send(followCheckoutLink, { params: { client_secret } })
      expect([answer.status, answer.body]).toEqual([404, { error: 'ResourceNotFound', detail: 'Not found' }])
    }
    await world.database.owner((owner) => owner.query(`update organizations set status = 'blocked' where id = $1`, [organization.id]))
    expect((await visit(made)).status).toBe(404)
    const { rows } = await world.database.owner((owner) => owner.query('select 1 from checkouts where organization_id = $1', [organization.id]))
    expect(rows).toHaveLength(1)
  })
})
