import { inWallTime } from '../../../src/platform/clocks.sql.ts'
import assert from 'node:assert/strict'
import { moveBalance } from '../../../src/modules/billing/ledger/ledger.ts'
import { newId } from '../../../src/kernel/ids.ts'
import { eventually } from '../../harness/world.ts'
import type { Stage, Story } from '../run.ts'

/**
 * Shares checkout links, and creates orders for a customer with a saved card. The customer reads their own data. Runs
 * once with each client.
 */
export const links: Story = async (stage) => {
  const { world } = stage
  const { organization } = await world.shop()
  const token = (await organization.token()).secret.reveal()
  const credited = (customer_id: string) =>
    world.transact((tx) =>
      moveBalance(inWallTime(tx), { organization_id: organization.id, id: newId(tx.clock.wall()), customer_id, currency: 'usd', amount: 700 }),
    )
  await withCurrent(stage, token, credited)
  await withStrict(stage, token, credited)
}

type Credited = (customer_id: string) => Promise<unknown>

/** Returns the redirect target of a link without following it. */
const follow = async ({ world }: Stage, url: string, query: string): Promise<URL> => {
  const { pathname } = new URL(url)
  const answer = await fetch(`http://127.0.0.1:${world.port}${pathname}${query}`, { redirect: 'manual' })
  assert.equal(answer.status, 302)
  return new URL(answer.headers.get('location')!)
}

const withCurrent = async (stage: Stage, token: string, credited: Credited): Promise<void> => {
  const { clients } = stage
  const seller = clients.current(token)
  const book = await seller.products.create({ name: 'Field guide', prices: [{ amount_type: 'fixed', price_amount: 2900 }] })
  const plan = await seller.products.create({ name: 'Plan', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 900 }] })
  const made = await seller.checkoutLinks.create({
    payment_processor: 'stripe',
    products: [plan.id, book.id],
    label: 'Spring',
    metadata: { campaign: 'spring' },
  })
  const single = await seller.checkoutLinks.create({ payment_processor: 'stripe', product_id: book.id })
  assert.deepEqual(
    (await seller.checkoutLinks.list({ product_id: book.id })).items.map(({ id }) => id),
    [made.id, single.id],
  )
  assert.equal((await seller.checkoutLinks.get(made.id)).label, 'Spring')
  assert.equal((await seller.checkoutLinks.update(made.id, { label: 'Summer' })).label, 'Summer')
  await seller.checkoutLinks.delete(single.id)

  // Each visit of a checkout link creates a checkout, which is paid like any other checkout.
  const to = await follow(stage, made.url, '?customer_email=ada@people.test&utm_source=mail&theme=dark')
  assert.equal(to.search, '?theme=dark')
  const secret = to.pathname.split('/').at(-1)!
  const buyer = clients.current('undefined').checkouts
  assert.equal((await buyer.clientGet(secret)).customer_email, 'ada@people.test')
  await buyer.clientConfirm(secret, { customer_billing_address: { country: 'DE' }, confirmation_token_id: 'tok_visa' })
  const paid = await eventually('the order exists', async () => (await seller.orders.list({ product_id: plan.id })).items[0])
  assert.deepEqual(paid.metadata, { campaign: 'spring', utm_source: 'mail' })

  const draft = await seller.orders.create({ customer_id: paid.customer_id, product_id: book.id, amount: 1500, description: 'An hour of advice' })
  assert.deepEqual([draft.status, draft.total_amount, draft.invoice_number], ['draft', 1500, null])
  const final = await seller.orders.finalize(draft.id, {})
  assert.deepEqual([final.status, final.description], ['paid', 'An hour of advice'])
  await assert.rejects(seller.orders.finalize(draft.id, {}), (error: { name: string }) => error.name === 'OrderNotDraft')

  await credited(paid.customer_id)
  const { wallets } = clients.current((await seller.customerSessions.create({ customer_id: paid.customer_id })).token).customerPortal
  const [wallet] = (await wallets.list({})).items
  assert.deepEqual([wallet!.balance, wallet!.currency], [700, 'usd'])
  assert.deepEqual(await wallets.get(wallet!.id), wallet)
}

const withStrict = async (stage: Stage, token: string, credited: Credited): Promise<void> => {
  const { clients } = stage
  const seller = clients.strict(token)
  const all = async <T>(pages: Promise<AsyncIterable<{ result: { items: T[] } }>>): Promise<T[]> => {
    const items: T[] = []
    for await (const { result } of await pages) items.push(...result.items)
    return items
  }
  const book = await seller.products.create({ name: 'Atlas', prices: [{ amountType: 'fixed', priceAmount: 5900 }] })
  const made = await seller.checkoutLinks.create({ paymentProcessor: 'stripe', productPriceId: book.prices[0]!.id, allowDiscountCodes: false })
  assert.deepEqual(
    (await all(seller.checkoutLinks.list({ productId: book.id }))).map(({ id }) => id),
    [made.id],
  )
  assert.equal((await seller.checkoutLinks.get({ id: made.id })).allowDiscountCodes, false)
  assert.equal((await seller.checkoutLinks.update({ id: made.id, checkoutLinkUpdate: { label: 'Autumn' } })).label, 'Autumn')
  const secret = (await follow(stage, made.url, '')).pathname.split('/').at(-1)!
  assert.equal((await clients.strict('').checkouts.clientGet({ clientSecret: secret })).totalAmount, 5900)
  await seller.checkoutLinks.delete({ id: made.id })

  const { id: customerId } = await seller.customers.create({ email: 'bob@people.test' })
  await credited(customerId)
  const session = { customerSession: (await seller.customerSessions.create({ customerId })).token }
  const [wallet] = await all(seller.customerPortal.wallets.list(session, {}))
  assert.equal(wallet!.balance, 700)
  assert.equal((await seller.customerPortal.wallets.get(session, { id: wallet!.id })).id, wallet!.id)
}
