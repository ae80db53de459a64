import type { LedgerAccount, LedgerFactKind, LedgerPosting } from '@bursar/contract'
import { sql } from 'kysely'
import { newId } from '../../../kernel/ids.ts'
import type { BusinessTx, Db } from '../../../platform/postgres/postgres.ts'

export type FactKind = LedgerFactKind
export type { LedgerAccount }

/** One ledger entry of a fact. */
export interface Entry {
  readonly account: LedgerAccount
  /** Debits are positive, credits negative. */
  readonly amount: number
  readonly payment_account_id: string | null
}

/** A business event that moves money of one customer in one currency. */
export interface Fact {
  readonly organization_id: string
  readonly kind: FactKind
  /** Id of the order, payment, refund, dispute or adjustment. */
  readonly reference: string
  readonly customer_id: string
  readonly currency: string
  readonly entries: readonly Entry[]
}

/** Balance of a customer in one currency: credit is positive, debt negative. */
export interface BalanceRow {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  customer_id: string
  currency: string
  amount: number
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    ledger_transactions: {
      organization_id: string
      id: string
      at: Date
      business_at: Date
      kind: FactKind
      reference: string
      entry_count: number
    }
    ledger_entries: {
      organization_id: string
      transaction_id: string
      position: number
      account: LedgerAccount
      customer_id: string
      payment_account_id: string | null
      amount: number
      currency: string
    }
    customer_balances: BalanceRow
  }
}

/**
 * Result of inserting a fact. `balance` is the customer's balance after the whole statement, or null if the fact did
 * not change the balance.
 */
export interface Written {
  readonly balance: number | null
}

/**
 * Inserts facts with their entries and updates the customer balances in one statement, so that ledger and balances
 * always agree. Idempotent: a fact that already exists changes nothing, and its result is undefined.
 */
export const insertFacts = async (tx: BusinessTx, facts: readonly Fact[]): Promise<(Written | undefined)[]> => {
  const at = tx.clock.wall()
  const numbered = facts.map((fact) => ({ ...fact, id: newId(at), balance_id: newId(at) }))
  const entries = numbered.flatMap((fact) => fact.entries.map((entry, position) => ({ ...entry, position, id: fact.id })))
  const of = <Row, K extends keyof Row>(rows: readonly Row[], column: K): Row[K][] => rows.map((row) => row[column])
  const { rows } = await sql<{ id: string; balance: number | null }>`
    with facts as (
      select * from unnest(
        ${of(numbered, 'organization_id')}::uuid[], ${of(numbered, 'id')}::uuid[], ${of(numbered, 'kind')}::text[], ${of(numbered, 'reference')}::uuid[],
        ${of(numbered, 'customer_id')}::uuid[], ${of(numbered, 'currency')}::text[], ${numbered.map((fact) => fact.entries.length)}::integer[],
        ${of(numbered, 'balance_id')}::uuid[]
      ) as f (organization_id, id, kind, reference, customer_id, currency, entry_count, balance_id)
    ), written as (
      insert into ledger_transactions (organization_id, id, at, business_at, kind, reference, entry_count)
      select organization_id, id, ${at}, ${tx.clock.business()}, kind, reference, entry_count from facts
      on conflict (organization_id, kind, reference) do nothing
      returning organization_id, id
    ), sides as (
      select f.organization_id, f.id, e.position, e.account, f.customer_id, e.payment_account_id, e.amount, f.currency
      from unnest(
        ${of(entries, 'id')}::uuid[], ${of(entries, 'position')}::integer[], ${of(entries, 'account')}::text[],
        ${of(entries, 'payment_account_id')}::uuid[], ${of(entries, 'amount')}::bigint[]
      ) as e (id, position, account, payment_account_id, amount)
      join facts f on f.id = e.id join written w on w.id = e.id
    ), posted as (
      insert into ledger_entries (organization_id, transaction_id, position, account, customer_id, payment_account_id, amount, currency)
      select * from sides
    ), moved as (
      insert into customer_balances (organization_id, id, created_at, customer_id, currency, amount)
      select s.organization_id, (array_agg(f.balance_id))[1], ${tx.clock.business()}, s.customer_id, s.currency, -sum(s.amount)
      from sides s join facts f on f.id = s.id where s.account = 'customer_balance'
      group by s.organization_id, s.customer_id, s.currency order by s.organization_id, s.customer_id, s.currency
      on conflict (organization_id, customer_id, currency) do update
      set amount = customer_balances.amount + excluded.amount, modified_at = excluded.created_at
      returning organization_id, customer_id, currency, amount
    )
    select w.id, m.amount as balance from written w join facts f on f.id = w.id
    left join moved m on m.organization_id = f.organization_id and m.customer_id = f.customer_id and m.currency = f.currency`.execute(tx.q)
  const written = new Map(rows.map(({ id, balance }) => [id, { balance }]))
  return numbered.map(({ id }) => written.get(id))
}

/**
 * Locks balances of customers, each in one currency, in the order of the customers' ids. Returns their amounts in the
 * given sequence: credit is positive, debt negative.
 */
export const lockAmounts = async (
  tx: BusinessTx,
  organization_id: string,
  owners: readonly { readonly customer_id: string; readonly currency: string }[],
): Promise<number[]> => {
  const keyOf = ({ customer_id, currency }: (typeof owners)[number]) => `${customer_id} ${currency}`
  const held = async () => {
    const { rows } = await sql<{ customer_id: string; currency: string; amount: number }>`
      select b.customer_id, b.currency, b.amount from customer_balances b
      join unnest(${owners.map(({ customer_id }) => customer_id)}::uuid[], ${owners.map(({ currency }) => currency)}::text[]) as o (customer_id, currency)
        on o.customer_id = b.customer_id and o.currency = b.currency
      where b.organization_id = ${organization_id} order by b.customer_id, b.currency for update of b`.execute(tx.q)
    return new Map(rows.map((row) => [keyOf(row), row.amount]))
  }
  const found = await held()
  const missing = owners.filter((owner) => !found.has(keyOf(owner)))
  if (missing.length === 0) return owners.map((owner) => found.get(keyOf(owner))!)
  // A missing row cannot be locked. The first transaction inserts the row, and concurrent transactions wait for that
  // insert.
  await sql`
    insert into customer_balances (organization_id, id, created_at, customer_id, currency, amount)
    select ${organization_id}, o.id, ${tx.clock.business()}, o.customer_id, o.currency, 0
    from unnest(${missing.map(() => newId(tx.clock.wall()))}::uuid[], ${missing.map(({ customer_id }) => customer_id)}::uuid[],
      ${missing.map(({ currency }) => currency)}::text[]) as o (id, customer_id, currency)
    order by o.customer_id, o.currency
    on conflict (organization_id, customer_id, currency) do nothing`.execute(tx.q)
  const all = await held()
  return owners.map((owner) => all.get(keyOf(owner))!)
}

/** Returns a fact with its entries. */
export const findFact = async (db: Db, organization_id: string, kind: FactKind, reference: string): Promise<Fact | undefined> => {
  const rows = await db.q
    .selectFrom('ledger_transactions as t')
    .innerJoin('ledger_entries as e', (on) => on.onRef('e.organization_id', '=', 't.organization_id').onRef('e.transaction_id', '=', 't.id'))
    .select(['e.account', 'e.amount', 'e.payment_account_id', 'e.customer_id', 'e.currency'])
    .where('t.organization_id', '=', organization_id)
    .where('t.kind', '=', kind)
    .where('t.reference', '=', reference)
    .orderBy('e.position')
    .execute()
  const [first] = rows
  if (!first) return undefined
  const { customer_id, currency } = first
  return {
    organization_id,
    kind,
    reference,
    customer_id,
    currency,
    entries: rows.map(({ account, amount, payment_account_id }) => ({ account, amount, payment_account_id })),
  }
}

/** An order whose postings are read. */
export interface PostedOrder {
  readonly organization_id: string
  readonly id: string
  /** The checkout of the order. Its payments may not name the order. */
  readonly checkout_id: string | null
}

/** The ledger facts of an order, of its payments, refunds and disputes, as pairs of kind and reference. */
const factsOf = ({ organization_id, id: order_id, checkout_id }: PostedOrder) => sql`
  select k as kind, ${order_id}::uuid as reference from unnest(array['order_billed', 'order_voided']) k
  union all select 'payment_received', id from payments where organization_id = ${organization_id} and order_id = ${order_id}
  union all select 'payment_received', id from payments where organization_id = ${organization_id} and order_id is null and checkout_id = ${checkout_id}::uuid
  union all select k, id from refunds cross join unnest(array['refund_paid', 'refund_reversed']) k where organization_id = ${organization_id} and order_id = ${order_id}
  union all select k, id from disputes cross join unnest(array['dispute_withheld', 'dispute_returned', 'dispute_lost']) k
    where organization_id = ${organization_id} and order_id = ${order_id}`

/** Returns postings of an order after the id of a posting, oldest first. The ids of postings begin with their time. */
export const postingsOf = async (db: Db, order: PostedOrder, after: string | null, limit: number): Promise<LedgerPosting[]> => {
  const { rows } = await sql<LedgerPosting>`
    select t.id, t.kind, t.reference as reference_id, t.business_at as at, t.at as recorded_at, min(e.currency) as currency,
      jsonb_agg(jsonb_build_object('account', e.account, 'amount', e.amount) order by e.position) as entries
    from (${factsOf(order)}) f
    join ledger_transactions t on t.organization_id = ${order.organization_id} and t.kind = f.kind and t.reference = f.reference
    join ledger_entries e on e.organization_id = t.organization_id and e.transaction_id = t.id
    where ${after}::uuid is null or t.id > ${after}::uuid
    group by t.id, t.kind, t.reference, t.business_at, t.at order by t.id limit ${limit}`.execute(db.q)
  return rows
}

/** Returns the sum of each account over all postings of an order. Together the sums are zero. */
export const balancesOf = async (db: Db, order: PostedOrder): Promise<{ account: LedgerAccount; currency: string; amount: number }[]> => {
  const { rows } = await sql<{ account: LedgerAccount; currency: string; amount: number }>`
    select e.account, e.currency, sum(e.amount)::bigint as amount
    from (${factsOf(order)}) f
    join ledger_transactions t on t.organization_id = ${order.organization_id} and t.kind = f.kind and t.reference = f.reference
    join ledger_entries e on e.organization_id = t.organization_id and e.transaction_id = t.id
    group by e.account, e.currency order by e.account, e.currency`.execute(db.q)
  return rows
}

/** Returns the sum of each ledger account of an organization per currency. Debits are positive. */
export const sumAccounts = (db: Db, organization_id: string): Promise<{ account: LedgerAccount; currency: string; amount: number }[]> =>
  db.q
    .selectFrom('ledger_entries')
    .select(['account', 'currency', ({ fn }) => sql<number>`${fn.sum('amount')}::bigint`.as('amount')])
    .where('organization_id', '=', organization_id)
    .groupBy(['account', 'currency'])
    .orderBy('account')
    .orderBy('currency')
    .execute()
