import { currencies } from '@bursar/contract'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { within } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { inWallTime } from '../../../platform/clocks.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { createCustomer } from '../../customers/index.ts'
import { refundTax } from '../calc/taxes.ts'
import { refundable, totalsOf } from '../calc/totals.ts'
import { findFact, insertFacts, sumAccounts, type Entry, type Fact } from './ledger.sql.ts'
import { billed, lockBalance, moveBalance, paidBack, post, postOrder, postPayment, postRefund, received, reverseRefund, type Posting } from './ledger.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const id = () => newId(world.clock.wall())

/** Creates a seller with customers and a payment account. */
const openShop = async (count = 1) => {
  const { organization } = await world.shop()
  const account_id = id()
  const customers = await world.transact(async (tx) => {
    const made: string[] = []
    for (let at = 0; at < count; at++)
      made.push((await createCustomer(tx, within(organization.id, 'machine', 'phase2'), { type: 'individual', email: `c${at}@people.test` })).id)
    return made
  })
  await world.database.owner((owner) =>
    owner.query(
      `insert into payment_accounts (organization_id, id, created_at, processor, secret_sealed, is_default) values ($1, $2, now(), 'test', 'x', true)`,
      [organization.id, account_id],
    ),
  )
  return { organization_id: organization.id, account_id, customers, customer_id: customers[0]! }
}
type Shop = Awaited<ReturnType<typeof openShop>>

const order = ({ organization_id, customer_id }: Shop, total: number, given: Partial<Parameters<typeof postOrder>[1]> = {}) => ({
  organization_id,
  id: id(),
  customer_id,
  currency: 'usd',
  net_amount: total,
  tax_amount: 0,
  total_amount: total,
  applied_balance_amount: 0,
  carried_amount: 0,
  balance_movement_amount: 0,
  ...given,
})
const payment = ({ organization_id, customer_id, account_id }: Shop, amount: number) => ({
  organization_id,
  id: id(),
  account_id,
  customer_id,
  amount,
  currency: 'usd',
})

const accounts = async ({ organization_id }: Shop) =>
  Object.fromEntries((await sumAccounts(world.api.postgres.db, organization_id)).map(({ account, amount }) => [account, amount]))
const balance = ({ organization_id, customer_id }: Shop) => world.transact((tx) => lockBalance(inWallTime(tx), organization_id, customer_id, 'usd'))

describe('postings of each fact', () => {
  test('posts an order, its payment, a refund and the reversal of the refund', async () => {
    const shop = await openShop()
    const bill = order(shop, 1200, { net_amount: 1000, tax_amount: 200 })
    await world.transact((tx) => postOrder(inWallTime(tx), bill))
    expect(await accounts(shop)).toEqual({ receivable: 1200, revenue: -1000, tax: -200 })
    await world.transact((tx) => postPayment(inWallTime(tx), payment(shop, 1200)))
    expect(await accounts(shop)).toEqual({ processor: 1200, receivable: 0, revenue: -1000, tax: -200 })
    const refund = { ...payment(shop, 400), tax_amount: 80 }
    expect(await world.transact((tx) => postRefund(inWallTime(tx), refund))).toBe('posted')
    expect(await accounts(shop)).toEqual({ processor: 720, receivable: 0, revenue: -600, tax: -120 })
    expect(await world.transact((tx) => reverseRefund(inWallTime(tx), refund))).toBe('posted')
    expect(await accounts(shop)).toEqual({ processor: 1200, receivable: 0, revenue: -1000, tax: -200 })
    expect(await world.transact((tx) => reverseRefund(inWallTime(tx), refund))).toBe('already')
    expect(await world.transact((tx) => reverseRefund(inWallTime(tx), { organization_id: shop.organization_id, id: id() }))).toBe('nothing')
  })

  test('posts the payment of a checkout before its order exists', async () => {
    const shop = await openShop()
    await world.transact((tx) => postPayment(inWallTime(tx), payment(shop, 500)))
    expect(await accounts(shop)).toEqual({ processor: 500, receivable: -500 })
    await world.transact((tx) => postOrder(inWallTime(tx), order(shop, 500)))
    expect(await accounts(shop)).toEqual({ processor: 500, receivable: 0, revenue: -500 })
  })

  test('carries an amount too small to charge as debt and collects it with the next order', async () => {
    const shop = await openShop()
    await world.transact((tx) => postOrder(inWallTime(tx), order(shop, 30, { carried_amount: 30 })))
    expect(await accounts(shop)).toEqual({ revenue: -30, customer_balance: 30 })
    expect(await balance(shop)).toEqual({ credit: 0, debt: 30 })
    await world.transact((tx) => postOrder(inWallTime(tx), order(shop, 1000, { applied_balance_amount: 30, balance_movement_amount: 30 })))
    expect(await accounts(shop)).toEqual({ receivable: 1030, revenue: -1030, customer_balance: 0 })
    expect(await balance(shop)).toEqual({ credit: 0, debt: 0 })
  })

  test('posts credit that is granted, used by an order, and given by an order with a negative total', async () => {
    const shop = await openShop()
    const { organization_id, customer_id } = shop
    const gift = { organization_id, id: id(), customer_id, currency: 'usd', amount: 700 }
    expect(await world.transact((tx) => moveBalance(inWallTime(tx), gift))).toBe('posted')
    expect(await world.transact((tx) => moveBalance(inWallTime(tx), gift))).toBe('already')
    expect(await accounts(shop)).toEqual({ revenue: 700, customer_balance: -700 })
    await world.transact((tx) => postOrder(inWallTime(tx), order(shop, 1000, { applied_balance_amount: -700, balance_movement_amount: -700 })))
    expect(await accounts(shop)).toEqual({ receivable: 300, revenue: -300, customer_balance: 0 })
    await world.transact((tx) => postOrder(inWallTime(tx), order(shop, -250, { balance_movement_amount: 250 })))
    expect(await accounts(shop)).toEqual({ receivable: 300, revenue: -50, customer_balance: -250 })
    expect(await balance(shop)).toEqual({ credit: 250, debt: 0 })
  })

  test('posts nothing for zero amounts and rejects invalid amounts', async () => {
    const shop = await openShop()
    const posting = (work: (tx: Tx) => Promise<Posting>) => world.transact(work)
    expect(await posting((tx) => postOrder(inWallTime(tx), order(shop, 0)))).toBe('nothing')
    expect(await posting((tx) => postPayment(inWallTime(tx), payment(shop, 0)))).toBe('nothing')
    expect(await accounts(shop)).toEqual({})
    await expect(posting((tx) => postPayment(inWallTime(tx), payment(shop, -1)))).rejects.toThrow(RangeError)
    await expect(posting((tx) => postRefund(inWallTime(tx), { ...payment(shop, 1), tax_amount: -1 }))).rejects.toThrow(RangeError)
    await expect(posting((tx) => postOrder(inWallTime(tx), order(shop, -100)))).rejects.toThrow(RangeError)
    await expect(posting((tx) => postOrder(inWallTime(tx), order(shop, 100, { tax_amount: 1 })))).rejects.toThrow(/do not sum to zero/)
    expect(await accounts(shop)).toEqual({})
  })
})

describe('idempotency of facts', () => {
  test('posts a fact once under concurrent calls', async () => {
    const shop = await openShop()
    const [paid, bill] = [payment(shop, 1000), order(shop, 1000, { carried_amount: 1000 })]
    const race = (work: (tx: Tx) => Promise<Posting>) => Promise.all(Array.from({ length: 8 }, () => world.transact(work)))
    for (const outcomes of [await race((tx) => postPayment(inWallTime(tx), paid)), await race((tx) => postOrder(inWallTime(tx), bill))]) {
      expect(outcomes.filter((outcome) => outcome === 'posted')).toHaveLength(1)
      expect(outcomes.filter((outcome) => outcome === 'already')).toHaveLength(7)
    }
    expect(await accounts(shop)).toEqual({ processor: 1000, receivable: -1000, revenue: -1000, customer_balance: 1000 })
    expect(await balance(shop)).toEqual({ credit: 0, debt: 1000 })
  })

  test('keeps the first version of a fact that is posted twice, and posts the new facts of a batch', async () => {
    const shop = await openShop()
    const first = payment(shop, 1000)
    await world.transact((tx) => postPayment(inWallTime(tx), first))
    const facts = [received({ ...first, amount: 7 }), received(payment(shop, 0)), received(payment(shop, 50))]
    expect(await world.transact((tx) => post(inWallTime(tx), facts))).toEqual(['already', 'nothing', 'posted'])
    expect(await accounts(shop)).toEqual({ processor: 1050, receivable: -1050 })
  })

  test('scopes fact ids to the organization', async () => {
    const [one, another] = [await openShop(), await openShop()]
    const paid = payment(one, 1000)
    await world.transact((tx) => postPayment(inWallTime(tx), paid))
    expect(await world.transact((tx) => postPayment(inWallTime(tx), { ...payment(another, 300), id: paid.id }))).toBe('posted')
    // A customer of another organization violates the foreign key.
    await expect(world.transact((tx) => postPayment(inWallTime(tx), { ...payment(another, 300), customer_id: one.customer_id }))).rejects.toThrow(/foreign key/)
    expect(await accounts(one)).toEqual({ processor: 1000, receivable: -1000 })
  })
})

describe('customer balance', () => {
  test('applies credit once under concurrent orders', async () => {
    const shop = await openShop()
    const { organization_id, customer_id } = shop
    await world.transact((tx) => moveBalance(inWallTime(tx), { organization_id, id: id(), customer_id, currency: 'usd', amount: 1000 }))
    const buy = () =>
      world.transact(async (tx) => {
        const held = await lockBalance(inWallTime(tx), organization_id, customer_id, 'usd')
        const { lines: _, ...totals } = totalsOf({ currency: 'usd', lines: [{ amount: 300, proration: false }], discount: null, tax: null, ...held })
        await postOrder(inWallTime(tx), { organization_id, id: id(), customer_id, currency: 'usd', ...totals })
        return totals.charge_amount
      })
    expect((await Promise.all(Array.from({ length: 6 }, buy))).toSorted((a, b) => a - b)).toEqual([0, 0, 0, 200, 300, 300])
    expect(await balance(shop)).toEqual({ credit: 0, debt: 0 })
    expect(await accounts(shop)).toMatchObject({ receivable: 800, customer_balance: 0 })
  })

  test('creates a missing balance once and locks it', async () => {
    const shop = await openShop()
    const { organization_id, customer_id } = shop
    const owe = () =>
      world.transact(async (tx) => {
        const { debt } = await lockBalance(inWallTime(tx), organization_id, customer_id, 'usd')
        const applied = { applied_balance_amount: debt, balance_movement_amount: debt }
        await postOrder(inWallTime(tx), order(shop, 5, { ...applied, carried_amount: 5 + debt }))
        return debt
      })
    expect((await Promise.all(Array.from({ length: 6 }, owe))).toSorted((a, b) => a - b)).toEqual([0, 5, 10, 15, 20, 25])
    expect(await balance(shop)).toEqual({ credit: 0, debt: 30 })
  })

  test('rejects an order that was calculated with another balance', async () => {
    const shop = await openShop()
    const uses = (amount: number) => order(shop, 1000, { applied_balance_amount: amount, balance_movement_amount: amount })
    await expect(world.transact((tx) => postOrder(inWallTime(tx), uses(-100)))).rejects.toThrow(/computed with another balance/)
    await expect(world.transact((tx) => postOrder(inWallTime(tx), uses(100)))).rejects.toThrow(/computed with another balance/)
    await world.transact((tx) => postOrder(inWallTime(tx), order(shop, 40, { carried_amount: 40 })))
    await expect(world.transact((tx) => postOrder(inWallTime(tx), uses(41)))).rejects.toThrow(/computed with another balance/)
    expect(await balance(shop)).toEqual({ credit: 0, debt: 40 })
  })
})

describe('database constraints', () => {
  const side = (account: Entry['account'], amount: number): Entry => ({ account, amount, payment_account_id: null })
  const fact = ({ organization_id, customer_id }: Shop, entries: readonly Entry[]): Fact => ({
    organization_id,
    kind: 'order_billed',
    reference: id(),
    customer_id,
    currency: 'usd',
    entries,
  })

  test('reject at commit a fact that does not sum to zero, has no entries or gets entries later', async () => {
    const shop = await openShop()
    let reached = 0
    const attempt = (work: (tx: Tx) => Promise<unknown>) =>
      world.transact(async (tx) => {
        await work(tx)
        reached++
      })
    await expect(attempt((tx) => insertFacts(inWallTime(tx), [fact(shop, [side('receivable', 100), side('revenue', -99)])]))).rejects.toThrow(
      /do not sum to zero/,
    )
    const { organization_id, customer_id } = shop
    const at = world.clock.wall()
    const bare = { organization_id, at, business_at: at, kind: 'order_billed' as const, reference: id(), entry_count: 1 }
    await expect(
      attempt((tx) =>
        tx.q
          .insertInto('ledger_transactions')
          .values({ ...bare, id: id() })
          .execute(),
      ),
    ).rejects.toThrow(/entries it says/)
    // The statements succeeded. Only the commit failed.
    expect(reached).toBe(2)

    const written = fact(shop, [side('receivable', 100), side('revenue', -100)])
    await attempt((tx) => insertFacts(inWallTime(tx), [written]))
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ id: string }>('select id from ledger_transactions where reference = $1', [written.reference]),
    )
    const late = (amount: number, position: number) => ({
      organization_id,
      transaction_id: rows[0]!.id,
      position,
      account: 'revenue' as const,
      customer_id,
      payment_account_id: null,
      amount,
      currency: 'eur',
    })
    await expect(attempt((tx) => tx.q.insertInto('ledger_entries').values(late(5, 2)).execute())).rejects.toThrow(/do not sum to zero/)
    const both = [late(5, 2), late(-5, 3)]
    await expect(attempt((tx) => tx.q.insertInto('ledger_entries').values(both).execute())).rejects.toThrow(/entries it says/)
    expect(await findFact(world.api.postgres.db, organization_id, 'order_billed', written.reference)).toEqual(written)
  })

  test('reject every update, delete and truncate for every role', async () => {
    const shop = await openShop()
    await world.transact((tx) => postOrder(inWallTime(tx), order(shop, 100)))
    const changes = ['update ledger_entries set amount = amount + 1', 'delete from ledger_entries', 'truncate ledger_entries'].flatMap((change) => [
      change,
      change.replace('ledger_entries', 'ledger_transactions').replace('amount = amount + 1', 'at = at'),
    ])
    await world.database.owner(async (owner) => {
      for (const role of ['bursar_api', 'bursar_worker', 'bursar_jobs'])
        for (const change of changes) {
          await owner.query(`set role ${role}`)
          await expect(owner.query(change)).rejects.toThrow(/permission denied/)
        }
      await owner.query('reset role')
      for (const change of changes)
        await expect(owner.query(`${change}${change.startsWith('truncate') ? ' cascade' : ''}`)).rejects.toThrow(/only ever added to/)
      await expect(owner.query('delete from ledger_entries where false')).rejects.toThrow(/only ever added to/)
    })
    expect(await accounts(shop)).toEqual({ receivable: 100, revenue: -100 })
  })
})

test('sums to zero over 10,000 orders in every currency, and leaves no receivable for paid orders', async () => {
  const shop = await openShop(20)
  const { organization_id, account_id, customers } = shop
  const bill = fc.record({
    customer_id: fc.constantFrom(...customers),
    currency: fc.constantFrom(...currencies),
    lines: fc.array(
      fc.record({ amount: fc.oneof(fc.integer({ min: -500_000, max: 9_000_000 }), fc.integer({ min: -200, max: 200 })), proration: fc.boolean() }),
      { maxLength: 4 },
    ),
    discount: fc.option(fc.integer({ min: 1, max: 10_000 }).map((basis_points) => ({ type: 'percentage' as const, basis_points }))),
    tax: fc.option(fc.record({ rate: fc.integer({ min: 0, max: 300_000 }), behavior: fc.constantFrom('inclusive' as const, 'exclusive' as const) })),
    early: fc.boolean(),
    refund: fc.option(fc.double({ min: 0.01, max: 1, noNaN: true }), { freq: 3 }),
    fails: fc.boolean(),
  })
  const balances = new Map<string, number>()
  const facts: Fact[] = []
  const expected = { charged: 0n, refunded: 0n, net: 0n, tax: 0n }
  for (const { customer_id, early, refund, fails, ...given } of fc.sample(bill, 10_000)) {
    const { currency } = given
    const whose = `${customer_id} ${currency}`
    const before = balances.get(whose) ?? 0
    const { lines: _, ...totals } = totalsOf({ ...given, credit: Math.max(0, before), debt: Math.max(0, 0 - before) })
    balances.set(whose, before + totals.balance_movement_amount - totals.carried_amount)
    const common = { organization_id, customer_id, currency }
    const ordered = billed({ ...common, id: id(), ...totals })
    const paid = received({ ...common, id: id(), account_id, amount: totals.charge_amount })
    facts.push(...(early ? [paid, ordered] : [ordered, paid]))
    expected.charged += BigInt(totals.charge_amount)
    expected.net += BigInt(totals.net_amount)
    expected.tax += BigInt(totals.tax_amount)
    const rest = refundable({ ...totals, refunded_amount: 0, refunded_tax_amount: 0 })
    if (refund === null || rest.refundable_amount === 0) continue
    const amount = Math.ceil(rest.refundable_amount * refund)
    const tax_amount = refundTax({ ...totals, ...rest, currency, amount })
    const back = paidBack({ ...common, id: id(), account_id, amount, tax_amount })
    facts.push(back)
    if (fails) facts.push({ ...back, kind: 'refund_reversed', entries: back.entries.map((entry) => ({ ...entry, amount: 0 - entry.amount })) })
    else {
      expected.refunded += BigInt(amount) + BigInt(tax_amount)
      expected.net -= BigInt(amount)
      expected.tax -= BigInt(tax_amount)
    }
  }
  let posted = 0
  for (let at = 0; at < facts.length; at += 1000) {
    const outcomes = await world.transact((tx) => post(inWallTime(tx), facts.slice(at, at + 1000)))
    expect(outcomes).not.toContain('already')
    posted += outcomes.filter((outcome) => outcome === 'posted').length
  }

  const ask = async <Row extends object>(query: string) => (await world.database.owner((owner) => owner.query<Row>(query, [organization_id]))).rows
  expect(await ask('select count(*)::integer as posted from ledger_transactions where organization_id = $1')).toEqual([{ posted }])
  expect(await ask('select transaction_id from ledger_entries where organization_id = $1 group by transaction_id, currency having sum(amount) <> 0')).toEqual(
    [],
  )

  const sums = await sumAccounts(world.api.postgres.db, organization_id)
  for (const [currency, own] of Map.groupBy(sums, (one) => one.currency))
    expect([currency, own.reduce((all, { amount }) => all + amount, 0)]).toEqual([currency, 0])
  const over = (account: string) => sums.filter((one) => one.account === account).reduce((all, { amount }) => all + BigInt(amount), 0n)
  expect(sums.filter(({ account, amount }) => account === 'receivable' && amount !== 0)).toEqual([])
  expect(over('processor')).toBe(expected.charged - expected.refunded)
  expect(over('revenue')).toBe(-expected.net)
  expect(over('tax')).toBe(-expected.tax)

  // The calculated balance, the stored balance and the balance in the ledger agree.
  const stored = await ask<{ customer_id: string; currency: string; amount: string; booked: string }>(
    `select b.customer_id, b.currency, b.amount, coalesce((select -sum(e.amount) from ledger_entries e where e.organization_id = b.organization_id
       and e.customer_id = b.customer_id and e.account = 'customer_balance' and e.currency = b.currency), 0) as booked
     from customer_balances b where b.organization_id = $1`,
  )
  expect(stored.filter(({ amount, booked }) => amount !== booked)).toEqual([])
  const moved = new Map(stored.map(({ customer_id, currency, amount }) => [`${customer_id} ${currency}`, Number(amount)]))
  expect([...balances].filter(([whose, amount]) => (moved.get(whose) ?? 0) !== amount)).toEqual([])
})
