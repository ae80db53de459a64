import { createMeter, createProduct, updateTaxSettings } from '@bursar/contract'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { compareBooks, openPlans, type Plan } from '../../../../test/harness/plans.ts'
import { readBooks } from '../../../../test/harness/books.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import type { Processor } from '../../../gateways/payments/payments.ts'
import { newId } from '../../../kernel/ids.ts'
import { inWallTime } from '../../../platform/clocks.sql.ts'
import { groups, sweeps } from '../../../platform/jobs/catalogue.ts'
import { claim, groupLeases, LeaseLost, type Lease } from '../../../platform/jobs/leases.sql.ts'
import type { Deps } from '../../handlers.ts'
import { moveBalance } from '../ledger/ledger.ts'
import { renewGroup } from './group.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
let plans: ReturnType<typeof openPlans>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
  plans = openPlans(world, deployment)
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})
beforeEach(() => plans.retire())

const owner = <T extends object>(statement: string, values: unknown[] = []) =>
  world.database.owner(async (client) => (await client.query<T>(statement, values)).rows)

/**
 * Copies the bought subscription of a plan, each with a customer and a card of its own, and moves the clock to the end
 * of their period. Constraints and triggers are disabled, because the original rows passed them.
 */
const copies = async (plan: Plan, count: number): Promise<void> => {
  const first = plan.customer.id
  const id = (what: string) => `overlay(overlay(md5('${what} ${first} ' || n) placing '4' from 13) placing '8' from 17)::uuid`
  const copy = (table: string, of: string, differs: string) =>
    `insert into ${table} select (jsonb_populate_record(null::${table}, to_jsonb(t) || jsonb_build_object(${differs}))).*
     from ${table} t, generate_series(1, ${count}) n where ${of}`
  await world.database.owner(async (client) => {
    await client.query('set session_replication_role = replica')
    await client.query(
      copy('customers', `id = '${first}'`, `'id', ${id('customer')}, 'email', n || '-${first}@people.test', 'default_payment_method_id', ${id('method')}`),
    )
    await client.query(
      copy(
        'payment_methods',
        `customer_id = '${first}'`,
        `'id', ${id('method')}, 'customer_id', ${id('customer')}, 'processor_method_id', 'pm_${first}_' || n`,
      ),
    )
    await client.query(copy('test_processor.methods', `customer = '${first}'`, `'id', 'pm_${first}_' || n, 'customer', ${id('customer')}`))
    await client.query(copy('subscriptions', `id = '${plan.id}'`, `'id', ${id('subscription')}, 'customer_id', ${id('customer')}, 'checkout_id', null`))
    await client.query(copy('subscription_prices', `subscription_id = '${plan.id}'`, `'subscription_id', ${id('subscription')}`))
    await client.query('set session_replication_role = origin')
  })
  plans.moveTo(await plan.end())
}

/** Leases all due subscriptions as one group. */
const leased = async (holder = 'test'): Promise<Lease[]> => {
  const leases = await claim(deployment.deps.transact, 'subscriptions', { holder, limit: 50, lease_ms: sweeps['billing.renew'].lease_ms })
  expect(groupLeases(leases, groups['billing.renew'].size)).toHaveLength(1)
  return leases
}

const outcomes = async (rows: readonly Promise<void>[]) =>
  (await Promise.allSettled(rows)).map((row) => (row.status === 'fulfilled' ? 'done' : row.reason instanceof LeaseLost ? 'lost' : String(row.reason)))

/** The status of the renewal orders by subscription. */
const renewals = async ({ organization }: Plan) =>
  new Map(
    (
      await owner<{ subscription_id: string; status: string }>(
        `select subscription_id, status from orders where organization_id = $1 and billing_reason = 'subscription_cycle'`,
        [organization.id],
      )
    ).map(({ subscription_id, status }) => [subscription_id, status]),
  )

/** Counts all statements of the worker while the work runs, those that begin and end transactions included. */
const counted = async (work: () => Promise<unknown>) => {
  const count = { worker: 0, processor: 0 }
  // oxlint-disable-next-line typescript/unbound-method -- put back as it was
  const original = pg.Client.prototype.query
  pg.Client.prototype.query = function (this: pg.Client & { connectionParameters: { application_name?: string } }, ...args: unknown[]) {
    const name = this.connectionParameters.application_name
    if (name === 'bursar_worker') count.worker++
    if (name === 'bursar_processor') count.processor++
    return (original as (...all: unknown[]) => unknown).apply(this, args)
  } as typeof original
  try {
    await work()
    return count
  } finally {
    pg.Client.prototype.query = original
  }
}

/** The deployment with a processor whose confirmations run through `around`. */
const confirming = (around: (customer: string, confirm: () => ReturnType<Processor['confirmIntent']>) => ReturnType<Processor['confirmIntent']>): Deps => {
  const { gateways } = deployment.deps
  const customers = new Map<string, string>()
  const of: typeof gateways.payments.of = (account) =>
    new Proxy(gateways.payments.of(account), {
      get: (target, name: keyof Processor) => {
        if (name === 'createIntent')
          return async (request: Parameters<Processor['createIntent']>[0]) => {
            const intent = await target.createIntent(request)
            customers.set(intent.id, request.customer)
            return intent
          }
        if (name === 'confirmIntent')
          return (...args: Parameters<Processor['confirmIntent']>) => around(customers.get(args[0])!, () => target.confirmIntent(...args))
        return target[name]
      },
    })
  return { ...deployment.deps, gateways: { ...gateways, payments: { ...gateways.payments, of } } }
}

test('renews a group of fifty with at most twelve statements each, and charges each payment once', { timeout: 120_000 }, async () => {
  const plan = await plans.open()
  await plan.api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: false }] } })
  await copies(plan, 49)
  const heard = (await plan.events()).length
  const { worker, processor } = await counted(async () => {
    const leases = await leased()
    expect(leases).toHaveLength(50)
    expect(await outcomes(renewGroup(deployment.deps, leases))).toEqual(leases.map(() => 'done'))
  })
  process.stdout.write(`statements per renewal in a group of 50: ${worker / 50} of the product, ${processor / 50} of the test processor\n`)
  expect(worker / 50).toBeLessThanOrEqual(12)
  const orders = await renewals(plan)
  expect([orders.size, new Set(orders.values())]).toEqual([50, new Set(['paid'])])
  const { ours, theirs, charges } = await compareBooks(world, plan.organization.id)
  expect(ours).toEqual(theirs)
  // One charge for the purchase of the plan, and one for each renewal.
  expect([charges.length, new Set(charges.map(({ amount }) => amount))]).toEqual([51, new Set([2900])])
  // Each subscription emits its events in the documented order.
  const events = (await plan.events()).slice(heard).filter(({ type }) => /^(subscription|order)\./.test(type))
  const told = Map.groupBy(events, ({ data }) => data.customer_id)
  expect(told.size).toBe(50)
  for (const own of told.values())
    expect(own.map(({ type }) => type)).toEqual(['subscription.updated', 'subscription.cycled', 'order.created', 'order.updated', 'order.paid'])
  // Each order has its number, its receipt, its tax and its mail. Each subscription is due at the end of its new period.
  const [figures] = await owner(
    `select count(distinct o.invoice_number)::int as numbers, count(distinct o.receipt_number)::int as receipts,
       count(*) filter (where t.tax_amount = 463 and o.tax_amount = 463 and i.net_amount = 2437)::int as taxed,
       count(m.reference)::int as mails, count(*) filter (where o.due_at is null and o.lease_token is null)::int as over,
       count(*) filter (where s.due_at = s.current_period_end and s.current_period_start = o.period_start and s.lease_token is null)::int as next,
       count(*) filter (where p.status = 'succeeded' and p.concluded_at is not null and p.processor_method is not null and p.due_at is null)::int as settled
     from orders o join order_items i on i.order_id = o.id join order_taxes t on t.order_item_id = i.id join subscriptions s on s.id = o.subscription_id
     join payments p on p.order_id = o.id left join mails m on m.reference = o.id and m.kind = 'mail.order_receipt'
     where o.organization_id = $1 and o.billing_reason = 'subscription_cycle'`,
    [plan.organization.id],
  )
  expect(figures).toEqual({ numbers: 50, receipts: 50, taxed: 50, mails: 50, over: 50, next: 50, settled: 50 })
})

test('changes nothing for the rows of a group whose lease is lost, and renews the others', async () => {
  const plan = await plans.open()
  await copies(plan, 4)
  const leases = await leased()
  const [taken, expired] = leases
  await owner('update subscriptions set lease_token = $2 where id = $1', [taken!.id, newId(world.clock.wall())])
  await owner('update subscriptions set lease_until = $2 where id = $1', [expired!.id, world.clock.wall()])
  const before = await owner('select * from subscriptions where id = any($1) order by id', [[taken!.id, expired!.id]])
  expect(await outcomes(renewGroup(deployment.deps, leases))).toEqual(['lost', 'lost', 'done', 'done', 'done'])
  expect(await owner('select * from subscriptions where id = any($1) order by id', [[taken!.id, expired!.id]])).toEqual(before)
  expect(await renewals(plan)).toEqual(new Map(leases.slice(2).map(({ id }) => [id, 'paid'])))
  expect((await readBooks(world, plan.organization.id)).charges).toHaveLength(4)
})

test('does not record a charge of a group whose order was taken over, and records the others', async () => {
  const plan = await plans.open()
  await copies(plan, 4)
  const leases = await leased()
  const [slow] = await owner<{ customer_id: string }>('select customer_id from subscriptions where id = $1', [leases[0]!.id])
  const taken = newId(world.clock.wall())
  const deps = confirming(async (customer, confirm) => {
    if (customer === slow!.customer_id) await owner('update orders set lease_token = $2 where customer_id = $1 and status = $3', [customer, taken, 'pending'])
    return confirm()
  })
  expect(await outcomes(renewGroup(deps, leases))).toEqual(['lost', 'done', 'done', 'done', 'done'])
  expect(await renewals(plan)).toEqual(new Map(leases.map(({ id }, at) => [id, at === 0 ? 'pending' : 'paid'])))
  // The worker that took over the order finds the charge, and does not charge again.
  world.clock.advance(sweeps['billing.collect'].lease_ms + 1)
  await plans.pass()
  expect((await renewals(plan)).get(leases[0]!.id)).toBe('paid')
  const { ours, theirs, charges } = await compareBooks(world, plan.organization.id)
  expect([ours, charges.length]).toEqual([theirs, 6])
})

test('records the other charges of a group while one charge is slow', async () => {
  const plan = await plans.open()
  await copies(plan, 4)
  const leases = await leased()
  const [slow] = await owner<{ customer_id: string }>('select customer_id from subscriptions where id = $1', [leases[2]!.id])
  const { promise, resolve } = Promise.withResolvers<void>()
  const rows = renewGroup(
    confirming(async (customer, confirm) => {
      if (customer === slow!.customer_id) await promise
      return confirm()
    }),
    leases,
  )
  await eventually('the other orders are paid', async () => [...(await renewals(plan)).values()].filter((status) => status === 'paid').length === 4)
  expect((await renewals(plan)).get(leases[2]!.id)).toBe('pending')
  resolve()
  expect(await outcomes(rows)).toEqual(leases.map(() => 'done'))
  expect((await renewals(plan)).get(leases[2]!.id)).toBe('paid')
})

test('renews each row alone if the transaction of the group fails', async () => {
  const plan = await plans.open()
  await copies(plan, 4)
  const current_period_end = await plan.end()
  const leases = await leased()
  const bad = leases[3]!.id
  await owner(`create function refuse_order() returns trigger language plpgsql as $$ begin raise 'no order for %', new.subscription_id; end $$`)
  await owner(`create trigger refuse_order before insert on orders for each row when (new.subscription_id = '${bad}') execute function refuse_order()`)
  try {
    expect(await outcomes(renewGroup(deployment.deps, leases))).toEqual(['done', 'done', 'done', `error: no order for ${bad}`, 'done'])
  } finally {
    await owner('drop function refuse_order cascade')
  }
  expect(await renewals(plan)).toEqual(new Map(leases.flatMap(({ id }) => (id === bad ? [] : [[id, 'paid'] as const]))))
  const [left] = await owner<{ lease_token: string; current_period_end: Date }>('select lease_token, current_period_end from subscriptions where id = $1', [
    bad,
  ])
  expect(left).toEqual({ lease_token: leases[3]!.token, current_period_end })
})

test.each(['57014', '55P03'])('renews each row alone if the transaction of the group ends with the timeout %s', async (code) => {
  const plan = await plans.open()
  await copies(plan, 2)
  const leases = await leased()
  const slow = leases[1]!.id
  await owner(`create function end_with_timeout() returns trigger language plpgsql as $$ begin raise 'too slow' using errcode = '${code}'; end $$`)
  await owner(`create trigger end_with_timeout before insert on orders for each row when (new.subscription_id = '${slow}') execute function end_with_timeout()`)
  try {
    expect(await outcomes(renewGroup(deployment.deps, leases))).toEqual(['done', 'error: too slow', 'done'])
  } finally {
    await owner('drop function end_with_timeout cascade')
  }
  expect(await renewals(plan)).toEqual(new Map(leases.flatMap(({ id }) => (id === slow ? [] : [[id, 'paid'] as const]))))
})

test('renews subscriptions with metered prices without reading their usage', async () => {
  const plan = await plans.open()
  const meter = await plan.api.call(createMeter, { body: { name: 'Calls', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'count' } } })
  const metered = await plan.api.call(createProduct, {
    body: { name: 'By use', recurring_interval: 'month', prices: [{ amount_type: 'metered_unit', meter_id: meter.id, unit_amount: '1' }] },
  })
  await owner('insert into subscription_prices (organization_id, subscription_id, price_id, position) values ($1, $2, $3, 1)', [
    plan.organization.id,
    plan.id,
    metered.prices[0]!.id,
  ])
  await copies(plan, 2)
  const leases = await leased()
  // A statement that reads usage waits for this lock, and then fails with a timeout.
  await world.database.owner(async (client) => {
    await client.query('begin; lock table usage_meters in access exclusive mode')
    expect(await outcomes(renewGroup(deployment.deps, leases))).toEqual(leases.map(() => 'done'))
    await client.query('rollback')
  })
  expect(new Set((await renewals(plan)).values())).toEqual(new Set(['paid']))
})

test('records each charge alone if the transaction that records the group fails', async () => {
  const plan = await plans.open()
  await copies(plan, 4)
  const leases = await leased()
  const bad = leases[1]!.id
  await owner(`create function refuse_payment() returns trigger language plpgsql as $$ begin raise 'no payment for %', new.subscription_id; end $$`)
  await owner(
    `create trigger refuse_payment before update on orders for each row when (new.subscription_id = '${bad}' and new.status = 'paid') execute function refuse_payment()`,
  )
  try {
    expect(await outcomes(renewGroup(deployment.deps, leases))).toEqual(['done', `error: no payment for ${bad}`, 'done', 'done', 'done'])
  } finally {
    await owner('drop function refuse_payment cascade')
  }
  expect(await renewals(plan)).toEqual(new Map(leases.map(({ id }) => [id, id === bad ? 'pending' : 'paid'])))
  world.clock.advance(sweeps['billing.collect'].lease_ms + 1)
  await plans.pass()
  expect((await renewals(plan)).get(bad)).toBe('paid')
  const { ours, theirs, charges } = await compareBooks(world, plan.organization.id)
  expect([ours, charges.length]).toEqual([theirs, 6])
})

test('uses the credit of a customer once if two subscriptions of the customer are in one group', async () => {
  const plan = await plans.open()
  await copies(plan, 1)
  await owner('update subscriptions set customer_id = $2 where organization_id = $1', [plan.organization.id, plan.customer.id])
  await world.transact((tx) =>
    moveBalance(inWallTime(tx), {
      organization_id: plan.organization.id,
      id: newId(tx.clock.wall()),
      customer_id: plan.customer.id,
      currency: 'usd',
      amount: 1000,
    }),
  )
  const leases = await leased()
  expect(await outcomes(renewGroup(deployment.deps, leases))).toEqual(['done', 'done'])
  expect((await readBooks(world, plan.organization.id)).charges.map(({ amount }) => amount).toSorted((a, b) => a - b)).toEqual([1900, 2900, 2900])
  const numbers = await owner<{ number: string }>(`select right(invoice_number, 4) as number from orders where organization_id = $1 order by 1`, [
    plan.organization.id,
  ])
  expect(numbers.map(({ number }) => number)).toEqual(['0001', '0002', '0003'])
})

test('renews the rest of a group if the tax, the card or the period of one row needs more', async () => {
  const plan = await plans.open()
  await plan.api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'US', state: 'US-CA', rate: '8', reverse_charge: false }] } })
  await copies(plan, 5)
  const leases = await leased()
  const [untaxed, cardless, canceled, declined, ...others] = leases
  const customer = (lease: Lease) => `(select customer_id from subscriptions where id = '${lease.id}')`
  await owner(`update customers set billing_address = $1 where id = ${customer(untaxed!)}`, [
    JSON.stringify({ line1: null, line2: null, postal_code: null, city: null, country: 'US', state: null }),
  ])
  await owner(`update customers set default_payment_method_id = null where id = ${customer(cardless!)}`)
  await owner('update subscriptions set cancel_at_period_end = true where id = $1', [canceled!.id])
  await owner(`update test_processor.methods set token = 'tok_declined_later' where customer = ${customer(declined!)}::text`)
  expect(await outcomes(renewGroup(deployment.deps, leases))).toEqual(leases.map(() => 'done'))
  expect(await renewals(plan)).toEqual(new Map([[cardless!.id, 'pending'], [declined!.id, 'pending'], ...others.map(({ id }) => [id, 'paid'] as const)]))
  const rows = await owner<{ id: string; status: string }>('select id, status from subscriptions where organization_id = $1', [plan.organization.id])
  const status = new Map(rows.map((row) => [row.id, row.status]))
  expect([untaxed, cardless, canceled, declined].map((lease) => status.get(lease!.id))).toEqual(['active', 'past_due', 'canceled', 'past_due'])
})
