import { confirmClientCheckout, createCheckout, createProduct, createRefund, getCheckout, listOrders, listRefunds } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Ticket } from '../harness/books.ts'
import { Died, openDeployment, openLife, type End, type Life } from '../harness/crashes.ts'
import { openStripeTill, openTestTill, type Purse, type Till } from '../harness/processors.ts'
import { openClock, openWorld, type World } from '../harness/world.ts'

describe.each([
  ['the test processor', () => openTestTill()],
  ['Stripe', openStripeTill],
] as const)('with %s', (gateway, openTill) => {
  let world: World
  let till: Till
  let token: string
  let products: { once: string; monthly: string }
  let healthy: Awaited<ReturnType<typeof openDeployment>>
  beforeAll(async () => {
    const clock = openClock()
    till = await openTill(clock)
    world = await openWorld({ clock, settings: till.settings })
    const { organization, api, dashboard } = await world.shop()
    await till.connect(await dashboard(), organization.id)
    healthy = await openDeployment(world, openLife(null))
    token = (await organization.token()).secret.reveal()
    const price = { amount_type: 'fixed' as const, price_amount: 2900, price_currency: 'usd' as const }
    products = {
      once: (await api.call(createProduct, { body: { name: 'Field guide', prices: [price] } })).id,
      monthly: (await api.call(createProduct, { body: { name: 'Plan', recurring_interval: 'month', prices: [price] } })).id,
    }
    await world.database.owner((owner) =>
      owner.query(`update organizations set subscription_settings = subscription_settings || '{"allow_multiple_subscriptions": true}'`),
    )
  })
  afterAll(async () => {
    await healthy.close()
    await world.close()
    await till.close()
  })

  /** Compares the processor's own records of charges and refunds with the amounts in our ledger. */
  const audit = async () => {
    const { charges, refunds } = await till.books(world)
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ kind: string; reference: string; amount: string }>(
        `select t.kind, t.reference, sum(e.amount)::text as amount from ledger_transactions t join ledger_entries e on e.organization_id = t.organization_id and e.transaction_id = t.id
       where e.account = 'processor' group by 1, 2`,
      ),
    )
    const ours = Object.fromEntries(rows.map(({ kind, reference, amount }) => [`${kind} ${reference}`, Number(amount)]))
    const theirs = Object.fromEntries([
      ...charges.map(({ metadata, amount }) => [`payment_received ${metadata.payment_id}`, amount] as const),
      ...refunds.filter(({ status }) => status === 'succeeded').map(({ metadata, amount }) => [`refund_paid ${metadata.refund_id}`, -amount] as const),
    ])
    return { ours, theirs, charges, refunds }
  }

  const emailOf = (name: string) => `${name}@people.test`

  interface Scenario {
    /** Runs the scenario until it is done or the simulated process ends. */
    readonly run: (life: Life, subject: Ticket) => Promise<void>
  }

  const confirmBody = (checkout: Ticket, purse: Purse) => ({
    customer_email: emailOf(`buyer-${checkout.id.slice(0, 13)}`),
    customer_billing_address: { country: 'DE' as const },
    confirmation_token_id: till.token(purse),
  })

  const buy =
    (purse: Purse): Scenario['run'] =>
    async (life, checkout) => {
      const deployment = await openDeployment(world, life)
      try {
        await deployment.client().send(confirmClientCheckout, { params: { client_secret: checkout.client_secret }, body: confirmBody(checkout, purse) })
        await deployment.work()
      } finally {
        await deployment.close()
      }
    }

  const survive = async (work: () => Promise<void>) => {
    try {
      await work()
    } catch (error) {
      if (!(error instanceof Died)) throw error
    }
  }

  /** Lets another process finish the interrupted work after the leases of the crashed process have expired. Sends no new requests. */
  const recover = async () => {
    for (const wait of [0, 31_000, 601_000]) {
      world.clock.advance(wait)
      await healthy.sweep()
      await healthy.work()
      await till.tell(world)
    }
  }

  const open = (product: string) => world.client({ token }).call(createCheckout, { body: { products: [product] } })

  const points = async (scenario: Scenario['run'], subject: () => Promise<Ticket>) => {
    const life = openLife(null)
    await scenario(life, await subject())
    expect(life.effects.length).toBeGreaterThan(3)
    return life.effects
  }

  // With Stripe, purchases are interrupted only at calls to the processor. All other points are tested with the test processor.
  for (const [what, purse, product, everywhere] of [
    ['a purchase', 'pays', 'once', gateway !== 'Stripe'],
    ['a subscription', 'pays', 'monthly', gateway !== 'Stripe'],
    ['a purchase whose answer is lost', 'answer_lost', 'once', gateway !== 'Stripe'],
  ] as const)
    test(
      `survives a crash before and after every effect of ${what}: the processor's own records show no lost and no duplicate charge`,
      { timeout: 600_000 },
      async () => {
        const scenario = buy(purse)
        const effects = await points(scenario, () => open(products[product]))
        const places = effects.flatMap((effect, at) => (everywhere || effect.startsWith('processor.') ? [at + 1] : []))
        process.stdout.write(`${what} with ${gateway}: ${effects.length} effects (${effects.join(', ')}), ${places.length * 2} ends\n`)
        for (const point of places)
          for (const side of ['before', 'after'] as const) {
            const end: End = { point, side }
            const checkout = await open(products[product])
            const life = openLife(end)
            await survive(() => scenario(life, checkout))
            expect(life.isDead(), `${point} ${side}`).toBe(true)
            await recover()
            const api = healthy.client(token)
            let found = await api.call(getCheckout, { params: { id: checkout.id } })
            expect(['open', 'succeeded'], `${effects[point - 1]} ${side}: ${found.status}`).toContain(found.status)
            // If the checkout is still open, the buyer retries.
            if (found.status === 'open') {
              expect(
                (await healthy.client().send(confirmClientCheckout, { params: { client_secret: checkout.client_secret }, body: confirmBody(checkout, 'pays') }))
                  .status,
              ).toBe(200)
              await healthy.work()
              found = await api.call(getCheckout, { params: { id: checkout.id } })
            }
            expect(found.status).toBe('succeeded')
            const orders = (await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items
            expect(orders.map(({ status, total_amount }) => [status, total_amount])).toEqual([['paid', 2900]])
          }
        const { ours, theirs, charges } = await audit()
        expect(ours).toEqual(theirs)
        // The processor has recorded exactly one charge for each paid checkout.
        const { rows } = await world.database.owner((owner) => owner.query<{ count: string }>(`select count(*) from checkouts where status = 'succeeded'`))
        expect(charges.length).toBe(Number(rows[0]!.count))
      },
    )

  test("returns the money of a refund once after a crash before or after every effect, by the processor's own records", { timeout: 600_000 }, async () => {
    const paid = async () => {
      const checkout = await open(products.once)
      await healthy.client().send(confirmClientCheckout, { params: { client_secret: checkout.client_secret }, body: confirmBody(checkout, 'pays') })
      await healthy.work()
      return checkout
    }
    const orderOf = async (checkout: Ticket) => (await world.client({ token }).call(listOrders, { query: { checkout_id: [checkout.id] } })).items[0]!
    const refund: Scenario['run'] = async (life, checkout) => {
      const order = await orderOf(checkout)
      const deployment = await openDeployment(world, life)
      try {
        await deployment
          .client(token, { 'idempotency-key': `refund-${order.id}` })
          .send(createRefund, { body: { order_id: order.id, reason: 'customer_request', amount: 1000 } })
        await deployment.work()
      } finally {
        await deployment.close()
      }
    }
    const effects = await points(refund, paid)
    process.stdout.write(`a refund with ${gateway}: ${effects.length} effects (${effects.join(', ')}), ${effects.length * 2} ends\n`)
    const missed: string[] = []
    for (let point = 1; point <= effects.length; point++)
      for (const side of ['before', 'after'] as const) {
        const checkout = await paid()
        const life = openLife({ point, side })
        await survive(() => refund(life, checkout))
        // Some runs have fewer effects, because duplicate events or jobs are merged. Such a run may never reach the chosen effect.
        if (!life.isDead()) missed.push(`${effects[point - 1]} ${side}: ${life.effects.length} of ${effects.length}`)
        expect(life.isDead() || life.effects.length < point, `${effects[point - 1]} ${side}`).toBe(true)
        await recover()
        const order = await orderOf(checkout)
        // A refund that was recorded before the crash is completed without a new request.
        const intended = (await healthy.client(token).call(listRefunds, { query: { order_id: [order.id] } })).items
        expect(
          intended.every(({ status }) => status === 'succeeded'),
          `${effects[point - 1]} ${side}`,
        ).toBe(true)
        expect(intended.length).toBe(point === 1 && side === 'before' ? 0 : 1)
        // The caller got no answer, and retries with the same idempotency key.
        const again = await healthy
          .client(token, { 'idempotency-key': `refund-${order.id}` })
          .send(createRefund, { body: { order_id: order.id, reason: 'customer_request', amount: 1000 } })
        expect([again.status, (again.body as { status?: string }).status], `${effects[point - 1]} ${side}`).toEqual([201, 'succeeded'])
        expect(
          (await healthy.client(token).call(listRefunds, { query: { order_id: [order.id] } })).items.map(({ status, amount }) => [status, amount]),
        ).toEqual([['succeeded', 1000]])
        expect((await orderOf(checkout)).refunded_amount).toBe(1000)
      }
    // Allows at most four runs that never reached the chosen effect, because the number of merged effects varies a little.
    expect(missed.length, missed.join(', ')).toBeLessThanOrEqual(4)
    const { ours, theirs } = await audit()
    expect(ours).toEqual(theirs)
  })
})
