import { inWallTime } from '../../../platform/clocks.sql.ts'
import {
  createCustomer,
  createCustomerSession,
  createDiscount,
  createMember,
  createProduct,
  deleteCustomer,
  deleteDiscount,
  getOrder,
  getPortalOrder,
  getPortalPaymentStatus,
  listCustomerMembers,
  listOrders,
  listPortalOrders,
  updateOrder,
  updatePortalOrder,
  updateProduct,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openSales } from '../../../../test/harness/sales.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { within } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { changeOrder, lockOrder } from '../records/orders.sql.ts'
import { nextInvoiceNumber } from '../records/orders.ts'

let world: World
let sales: ReturnType<typeof openSales>
beforeAll(async () => {
  world = await openWorld()
  sales = openSales(world)
})
afterAll(() => world.close())

const berlin = { line1: 'Rosenweg 1', line2: null, postal_code: '10115', city: 'Berlin', state: null, country: 'DE' as const }
const boston = { line1: 'Elm Street 1', line2: null, postal_code: '02108', city: 'Boston', state: 'MA', country: 'US' as const }

/** A shop with two products, two customers and a discount. */
const open = async () => {
  const shop = await world.shop()
  const { api } = shop
  const prices = [{ amount_type: 'fixed' as const, price_amount: 1000 }]
  return {
    ...shop,
    book: await api.call(createProduct, { body: { name: 'Book', prices } }),
    plan: await api.call(createProduct, { body: { name: 'Plan', recurring_interval: 'month', prices } }),
    anna: await api.call(createCustomer, { body: { email: 'anna@people.test', external_id: 'a-1' } }),
    bert: await api.call(createCustomer, { body: { email: 'bert@people.test', external_id: 'b-1' } }),
    five: await api.call(createDiscount, { body: { name: 'Five off', type: 'fixed', duration: 'once', amounts: { usd: 500 } } }),
  }
}

describe('seller API', () => {
  test('shows product, customer and amounts even after customer, product and discount were deleted', async () => {
    const { api, anna, plan, five, organization } = await open()
    const [price] = plan.prices
    const subscription = await sales.subscription(anna, plan, [price!.id], { metadata: { source: 'ad' } })
    const lines = [
      { label: 'Plan', amount: 2500, discount_amount: 500, net_amount: 2000, tax_amount: 380, product_price_id: price!.id },
      { label: 'Remaining time', amount: -1000, discount_amount: 0, net_amount: -1000, tax_amount: -190, proration: true },
    ]
    const given = {
      status: 'partially_refunded' as const,
      billing_reason: 'subscription_create' as const,
      subtotal_amount: 1500,
      discount_amount: 500,
      net_amount: 1000,
      tax_amount: 190,
      applied_balance_amount: -200,
      due_amount: 990,
      refunded_amount: 300,
      refunded_tax_amount: 57,
      billing_name: 'Anna A',
      billing_address: berlin,
      invoice_number: 'X-1',
      seats: 2,
      product_id: plan.id,
      discount_id: five.id,
      subscription_id: subscription.id,
      description: 'Plan',
      metadata: { campaign: 'spring' },
      custom_field_data: { size: 'L' },
    }
    const { id, created_at } = await sales.order(anna, given, lines)
    await api.call(updateProduct, { params: { id: plan.id }, body: { is_archived: true } })
    await api.call(deleteDiscount, { params: { id: five.id } })
    await api.call(deleteCustomer, { params: { id: anna.id } })

    const seen = await api.call(getOrder, { params: { id } })
    expect(seen).toMatchObject({
      ...given,
      id,
      created_at: created_at.toISOString(),
      modified_at: null,
      paid: true,
      total_amount: 1190,
      refundable_amount: 500,
      refundable_tax_amount: 133,
      is_invoice_generated: false,
      receipt_number: null,
      platform_fee_amount: 0,
      platform_fee_currency: null,
      customer_id: anna.id,
      checkout_id: null,
      next_payment_attempt_at: null,
      product: { id: plan.id, name: 'Plan', is_archived: true, is_recurring: true, organization_id: organization.id },
      discount: { id: five.id, amounts: { usd: 500 } },
      subscription: { id: subscription.id, status: 'active', metadata: { source: 'ad' } },
    })
    expect(seen.items).toMatchObject([
      { label: 'Plan', amount: 2500, tax_amount: 380, proration: false, product_price_id: price!.id, modified_at: null },
      { label: 'Remaining time', amount: -1000, tax_amount: -190, proration: true, product_price_id: null },
    ])
    expect(seen.customer).toMatchObject({ id: anna.id, email: 'anna@people.test', type: 'individual' })
    expect(seen.customer.deleted_at).not.toBeNull()
    expect(seen.customer.avatar_url).toMatch(/^data:image/)
    expect((await api.call(listOrders, {})).items).toEqual([seen])
    const bare = await sales.order(await api.call(createCustomer, { body: { email: 'bare@people.test' } }))
    expect(await api.call(getOrder, { params: { id: bare.id } })).toMatchObject({ product: null, discount: null, subscription: null, billing_address: null })
  })

  test('shows paid: true for every status after a payment and for no other status', async () => {
    const { api, anna } = await open()
    for (const [status, paid] of [
      ['draft', false],
      ['pending', false],
      ['paid', true],
      ['partially_refunded', true],
      ['refunded', true],
      ['void', false],
    ] as const) {
      const { id } = await sales.order(anna, { status })
      expect(await api.call(getOrder, { params: { id } })).toMatchObject({ status, paid })
    }
  })

  test('lists orders by every filter, alone and combined, and by every sorting', async () => {
    const { api, anna, bert, book, plan, five, organization } = await open()
    const checkout_id = await sales.checkout(book)
    const subscription = await sales.subscription(bert, plan, [])
    const one = await sales.order(anna, { product_id: book.id, checkout_id, net_amount: 100, tax_amount: 50, metadata: { tier: 'x', n: 1 } })
    const two = await sales.order(bert, {
      product_id: plan.id,
      subscription_id: subscription.id,
      billing_reason: 'subscription_create',
      status: 'refunded',
      net_amount: 120,
      invoice_number: 'B-2',
      metadata: { tier: 'y' },
    })
    const three = await sales.order(bert, {
      product_id: book.id,
      discount_id: five.id,
      discount_amount: 500,
      status: 'pending',
      net_amount: 300,
      invoice_number: 'A-1',
    })
    const four = await sales.order(anna, { status: 'draft', net_amount: -50, due_amount: 0 })
    const names = new Map([one, two, three, four].map(({ id }, index) => [id, index + 1]))
    const list = async (query: object) => {
      const { items, pagination } = await api.call(listOrders, { query })
      expect(pagination.total_count).toBe(items.length)
      return items.map(({ id }) => names.get(id))
    }
    expect(await list({})).toEqual([4, 3, 2, 1])
    expect(await list({ organization_id: organization.id })).toHaveLength(4)
    expect(await list({ organization_id: newId(world.clock.wall()) })).toEqual([])
    expect(await list({ product_id: book.id })).toEqual([3, 1])
    expect(await list({ product_id: [book.id, plan.id] })).toEqual([3, 2, 1])
    expect(await list({ product_billing_type: 'recurring' })).toEqual([2])
    expect(await list({ product_billing_type: 'one_time' })).toEqual([4, 3, 1])
    expect(await list({ product_billing_type: ['one_time', 'recurring'] })).toHaveLength(4)
    expect(await list({ discount_id: five.id })).toEqual([3])
    expect(await list({ customer_id: [anna.id] })).toEqual([4, 1])
    expect(await list({ external_customer_id: 'b-1' })).toEqual([3, 2])
    expect(await list({ external_customer_id: 'nobody' })).toEqual([])
    expect(await list({ checkout_id })).toEqual([1])
    expect(await list({ subscription_id: subscription.id })).toEqual([2])
    expect(await list({ status: ['pending', 'refunded'] })).toEqual([3, 2])
    expect(await list({ created_after: two.created_at.toISOString(), created_before: three.created_at.toISOString() })).toEqual([3, 2])
    expect(await list({ 'metadata[tier]': ['x', 'y'] })).toEqual([2, 1])
    expect(await list({ 'metadata[tier]': 'x', 'metadata[n]': '1' })).toEqual([1])
    expect(await list({ product_id: book.id, customer_id: bert.id, status: 'pending' })).toEqual([3])

    expect(await list({ sorting: 'created_at' })).toEqual([1, 2, 3, 4])
    expect(await list({ sorting: 'status' })).toEqual([4, 1, 3, 2])
    expect(await list({ sorting: ['-invoice_number', 'created_at'] })).toEqual([2, 3, 1, 4])
    expect(await list({ sorting: '-amount' })).toEqual([3, 1, 2, 4])
    expect(await list({ sorting: '-net_amount' })).toEqual([3, 2, 1, 4])
    expect(await list({ sorting: ['customer', 'amount'] })).toEqual([4, 1, 2, 3])
    expect(await list({ sorting: ['product', 'amount'] })).toEqual([4, 1, 3, 2])
    expect((await list({ sorting: '-discount' }))[0]).toBe(3)
    expect((await list({ sorting: '-subscription' }))[0]).toBe(2)
    for (const query of [{ sorting: 'color' }, { status: 'odd' }, { customer_id: 'x' }, { created_after: 'soon' }])
      expect((await api.sendRaw(listOrders, { query })).status).toBe(422)
  })

  test('pages by cursor across organizations with an exact total', async () => {
    const [first, second] = [await open(), await open()]
    const person = await world.person()
    for (const { organization, anna } of [first, second]) {
      await world.join(organization.id, person.id, 'member')
      for (let count = 0; count < 4; count++) await sales.order(anna, { net_amount: count })
    }
    const both = world.client({ token: (await person.token()).secret })
    const seen: string[] = []
    for (let cursor: string | null | undefined = undefined; cursor !== null;) {
      const page: Awaited<ReturnType<typeof both.call<typeof listOrders>>> = await both.call(listOrders, {
        query: { limit: '3', sorting: ['-amount', 'customer'], ...(cursor ? { cursor } : {}) },
      })
      expect(page.pagination).toMatchObject({ total_count: 8, max_page: 3 })
      seen.push(...page.items.map(({ id }) => id))
      cursor = page.pagination.next_cursor
    }
    expect(new Set(seen).size).toBe(8)
    expect((await both.call(listOrders, { query: { organization_id: first.organization.id } })).pagination.total_count).toBe(4)
  })

  test('corrects billing details with one event, but not the country and state that determined the tax', async () => {
    const { api, anna, events } = await open()
    const { id } = await sales.order(anna, { billing_name: 'Anna', billing_address: boston })
    const change = (body: object) => api.sendRaw(updateOrder, { params: { id }, body })
    const corrected = await api.call(updateOrder, {
      params: { id },
      body: { billing_name: 'Anna A', billing_address: { country: 'US', line1: 'Oak Street 2', city: 'Salem' } },
    })
    expect(corrected).toMatchObject({
      billing_name: 'Anna A',
      billing_address: { line1: 'Oak Street 2', line2: null, postal_code: null, city: 'Salem', state: 'MA', country: 'US' },
    })
    expect(corrected.modified_at).not.toBeNull()
    // Requests that change nothing neither update the order nor emit an event.
    for (const body of [{}, { billing_name: 'Anna A' }, { billing_address: { country: 'US', state: 'MA', line1: 'Oak Street 2', city: 'Salem' } }])
      expect((await api.call(updateOrder, { params: { id }, body: body as never })).modified_at).toBe(corrected.modified_at)
    expect((await events('order.updated')).map(({ data }) => data)).toEqual([corrected])

    const places = async (body: object) => {
      const answer = await change(body)
      expect(answer.status).toBe(422)
      return (answer.body as { detail: { loc: unknown[] }[] }).detail.map(({ loc }) => loc.slice(1).join('.'))
    }
    expect(await places({ billing_address: { country: 'DE', state: 'BE' } })).toEqual(['billing_address.country', 'billing_address.state'])
    expect(await places({ billing_address: { country: 'US', state: 'NY' } })).toEqual(['billing_address.state'])
    expect(await places({ billing_address: { country: 'US', state: null } })).toEqual(['billing_address.state'])
    expect(await places({ billing_address: null })).toEqual(['billing_address'])
    expect(await places({ billing_address: { city: 'Salem' } })).toEqual(['billing_address.country'])
    expect(await api.call(getOrder, { params: { id } })).toEqual(corrected)

    const without = await sales.order(anna)
    const given = await api.call(updateOrder, { params: { id: without.id }, body: { billing_name: ' ', billing_address: { country: 'DE' } } })
    expect(given).toMatchObject({ billing_name: null, billing_address: { country: 'DE', city: null } })
  })

  test('keeps the billing details of an invoice when the customer is anonymized, and deletes other personal data', async () => {
    const { api, anna, plan } = await open()
    const told = { metadata: { nickname: 'Annie' }, custom_field_data: { shoe: '38' } }
    const subscription = await sales.subscription(anna, plan, [], { ...told, customer_cancellation_comment: 'Moving away' })
    const { id } = await sales.order(anna, { ...told, subscription_id: subscription.id, billing_name: 'Anna A', billing_address: berlin })
    await api.call(deleteCustomer, { params: { id: anna.id }, query: { anonymize: 'true' } })
    const seen = await api.call(getOrder, { params: { id } })
    expect(seen).toMatchObject({
      billing_name: 'Anna A',
      billing_address: berlin,
      customer: { id: anna.id, email: `forgotten-${anna.id}@anonymized.invalid`, name: null },
      subscription: { customer_cancellation_comment: null },
    })
    expect([seen.metadata, seen.custom_field_data, seen.subscription!.metadata]).toEqual([{}, {}, {}])
  })

  test('returns 404 to other organizations and 403 without the scope', async () => {
    const { anna, organization } = await open()
    const { id } = await sales.order(anna)
    const stranger = await open()
    const params = { id }
    expect((await stranger.api.send(getOrder, { params })).status).toBe(404)
    expect((await stranger.api.send(updateOrder, { params, body: { billing_name: 'Mine' } })).status).toBe(404)
    expect((await stranger.api.call(listOrders, {})).items).toEqual([])
    expect((await world.client().send(getOrder, { params })).status).toBe(401)
    const narrow = world.client({ token: (await organization.token(['orders:read'])).secret })
    expect((await narrow.send(getOrder, { params })).status).toBe(200)
    expect((await narrow.send(updateOrder, { params, body: { billing_name: 'X' } })).status).toBe(403)
    const none = world.client({ token: (await organization.token(['products:read'])).secret })
    expect((await none.send(getOrder, { params })).status).toBe(403)
    expect((await none.send(listOrders, {})).status).toBe(403)
  })
})

describe('customer portal', () => {
  /** A team with one member of each role, an order of the team, and an order of another customer. */
  const team = async () => {
    const shop = await open()
    const { api } = shop
    // Without the member model a session may belong to the customer itself.
    await shop.phase('before')
    const customer = await api.call(createCustomer, { body: { type: 'team', email: 'team@people.test', owner: { email: 'owner@people.test' } } })
    const member = async (role: 'billing_manager' | 'member') =>
      (await api.call(createMember, { params: { id: customer.id }, body: { email: `${role}@people.test`, role } })).id
    const session = async (body: { customer_id: string; member_id?: string }) =>
      world.client({ token: (await api.call(createCustomerSession, { body })).token })
    const [owner] = (await api.call(listCustomerMembers, { params: { id: customer.id } })).items
    const members = { billing_manager: await member('billing_manager'), member: await member('member') }
    return {
      ...shop,
      customer,
      own: await sales.order(customer, {
        product_id: shop.plan.id,
        description: '100% Plan',
        net_amount: 200,
        billing_address: berlin,
        metadata: { inner: 1 },
      }),
      others: await sales.order(shop.anna, { product_id: shop.book.id }),
      itself: await session({ customer_id: customer.id }),
      owner: await session({ customer_id: customer.id, member_id: owner!.id }),
      manager: await session({ customer_id: customer.id, member_id: members.billing_manager }),
      plain: await session({ customer_id: customer.id, member_id: members.member }),
    }
  }

  test('shows the owner, a billing manager and the customer their own orders without private fields of the seller', async () => {
    const { itself, owner, manager, own, others, customer, plan, organization } = await team()
    await sales.order(customer, { status: 'draft', description: 'Not yet' })
    const subscription = await sales.subscription(customer, plan, [])
    const renewal = await sales.order(customer, { subscription_id: subscription.id, product_id: plan.id, description: 'Renewal', net_amount: 100 })
    for (const portal of [itself, owner, manager]) {
      const list = async (query: object) => (await portal.call(listPortalOrders, { query })).items.map(({ id }) => id)
      expect((await portal.call(listPortalOrders, {})).pagination.total_count).toBe(2)
      expect(await list({})).toEqual([renewal.id, own.id])
      expect(await list({ sorting: '-amount' })).toEqual([own.id, renewal.id])
      expect(await list({ sorting: 'net_amount' })).toEqual([renewal.id, own.id])
      expect(await list({ sorting: ['product', 'subscription'] })).toEqual([own.id, renewal.id])
      expect(await list({ query: '100%' })).toEqual([own.id])
      expect(await list({ product_id: plan.id })).toEqual([renewal.id, own.id])
      expect(await list({ product_billing_type: 'recurring' })).toEqual([renewal.id])
      expect(await list({ subscription_id: subscription.id })).toEqual([renewal.id])
      const seen = await portal.call(getPortalOrder, { params: { id: own.id } })
      expect(seen).toMatchObject({
        id: own.id,
        paid: true,
        total_amount: 200,
        refundable_amount: 200,
        items: [{ amount: 200 }],
        product: { id: plan.id, prices: [{ price_amount: 1000 }], organization: { id: organization.id, slug: organization.slug } },
        subscription: null,
      })
      for (const hidden of ['metadata', 'customer', 'discount', 'platform_fee_amount', 'custom_field_data']) expect(seen).not.toHaveProperty(hidden)
      expect((await portal.call(getPortalOrder, { params: { id: renewal.id } })).subscription).not.toHaveProperty('metadata')
      for (const operation of [getPortalOrder, getPortalPaymentStatus]) expect((await portal.send(operation, { params: { id: others.id } })).status).toBe(404)
    }
  })

  test('hides drafts until they are finalized', async () => {
    const { itself, customer } = await team()
    const { id } = await sales.order(customer, { status: 'draft' })
    expect((await itself.send(getPortalOrder, { params: { id } })).status).toBe(404)
    expect((await itself.send(updatePortalOrder, { params: { id }, body: { billing_name: 'X' } })).status).toBe(404)
  })

  test('returns 403 to a plain member, for orders of the team and of others', async () => {
    const { plain, own, others } = await team()
    expect((await plain.send(listPortalOrders, {})).status).toBe(403)
    for (const { id } of [own, others]) {
      expect((await plain.send(getPortalOrder, { params: { id } })).status).toBe(403)
      expect((await plain.send(getPortalPaymentStatus, { params: { id } })).status).toBe(403)
      expect((await plain.send(updatePortalOrder, { params: { id }, body: { billing_name: 'X' } })).status).toBe(403)
    }
  })

  test('lets a billing manager correct billing details by the same rules as the seller', async () => {
    const { itself, manager, own, others, events } = await team()
    const params = { id: own.id }
    const changed = await manager.call(updatePortalOrder, { params, body: { billing_name: 'Team Ltd', billing_address: { country: 'DE', city: 'Bonn' } } })
    expect(changed).toMatchObject({ billing_name: 'Team Ltd', billing_address: { country: 'DE', city: 'Bonn', line1: null } })
    expect((await events('order.updated')).map(({ data }) => [data.id, data.billing_name])).toEqual([[own.id, 'Team Ltd']])
    expect(await itself.send(updatePortalOrder, { params, body: { billing_address: { country: 'FR' } } })).toMatchObject({
      status: 422,
      body: { detail: [{ loc: ['body', 'billing_address', 'country'] }] },
    })
    expect((await itself.send(updatePortalOrder, { params: { id: others.id }, body: { billing_name: 'Mine' } })).status).toBe(404)
    expect(await events('order.updated')).toHaveLength(1)
  })

  test('returns the status of the latest payment, with the reason of a failure', async () => {
    const { itself, own, customer } = await team()
    const status = () => itself.call(getPortalPaymentStatus, { params: { id: own.id } })
    expect(await status()).toEqual({ status: 'no_payment', error: null })
    await sales.payment(customer, { order_id: own.id, status: 'failed', decline_message: 'The bank said no.' })
    expect(await status()).toEqual({ status: 'failed', error: 'The bank said no.' })
    await sales.payment(customer, { order_id: own.id, status: 'succeeded' })
    expect(await status()).toEqual({ status: 'succeeded', error: null })
    await sales.payment(customer, { order_id: own.id, status: 'pending' })
    expect(await status()).toEqual({ status: 'pending', error: null })
  })
})

describe('invoice numbers', () => {
  test('are assigned to fifty concurrent orders without gaps or duplicates, even if some transactions roll back', async () => {
    const { organization, anna, bert } = await open()
    const draw = (customer: { id: string }, keep = true) =>
      world.transact(async (tx) => {
        const number = await nextInvoiceNumber(tx, organization, customer)
        if (!keep) throw new Error('given up')
        return number
      })
    const wishes = Array.from({ length: 50 }, (_, index) => draw(anna, index % 5 !== 0))
    const drawn = (await Promise.allSettled(wishes)).flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    const prefix = organization.slug.replaceAll('-', '').toUpperCase().slice(0, 12)
    const [, letters] = new RegExp(`^${prefix}-([A-Z]{8})-\\d{4}$`).exec(drawn[0]!)!
    expect(drawn.toSorted()).toEqual(Array.from({ length: 40 }, (_, index) => `${prefix}-${letters}-${String(index + 1).padStart(4, '0')}`))
    const other = await draw(bert)
    expect(other).toMatch(/-0001$/)
    expect(other).not.toContain(letters)
  })

  test('contain other letters for a second customer if both customer ids result in the same letters', async () => {
    const { organization, anna, bert } = await open()
    const draw = (customer: { id: string }) => world.transact((tx) => nextInvoiceNumber(tx, organization, customer))
    const number = await draw(bert)
    // Occupies the next number of the customer, as if another customer had the same letters.
    const next = number.replace(/0001$/, '0002')
    await sales.order(anna, { invoice_number: next })
    const drawn = await draw(bert)
    expect(drawn).toMatch(/-[A-Z]{8}-0002$/)
    expect(drawn).not.toBe(next)
  })

  test('changes a locked order, and locks only orders in scope', async () => {
    const { api, organization, anna } = await open()
    const { id } = await sales.order(anna, { status: 'pending' })
    const scope = within(organization.id, 'machine', 'phase2')
    await world.transact(async (tx) => {
      const held = (await lockOrder(tx, scope, id))!
      await changeOrder(inWallTime(tx), held, { status: 'paid', invoice_number: await nextInvoiceNumber(tx, organization, anna), billing_address: berlin })
    })
    expect(await api.call(getOrder, { params: { id } })).toMatchObject({ status: 'paid', billing_address: berlin })
    expect(await world.transact((tx) => lockOrder(tx, within(newId(world.clock.wall()), 'machine', 'phase2'), id))).toBeUndefined()
  })
})
