import { sum } from '../../../kernel/money.ts'
import { markLocked } from '../../../platform/postgres/locks.ts'
import type { BusinessTx, Locked } from '../../../platform/postgres/postgres.ts'
import { findFact, insertFacts, lockAmounts, type Entry, type Fact, type LedgerAccount } from './ledger.sql.ts'

/*
 * Postings of each fact. Debits are positive, credits negative, and every line sums to zero. The charge is the amount
 * requested from the processor: total + movement − carried.
 *
 *                      processor        receivable   revenue    tax     customer_balance       disputed
 *   order billed       ·                + charge     − net      − tax   + carried − movement   ·
 *   order voided       reverses the postings of the order
 *   payment received   + amount         − amount     ·          ·       ·                      ·
 *   refund paid        − amount − tax   ·            + amount   + tax   ·                      ·
 *   refund reversed    reverses the postings of the refund
 *   balance adjusted   ·                ·            + amount   ·       − amount               ·
 *   dispute withheld   − amount − tax   ·            ·          ·       ·                      + amount + tax
 *   dispute returned   reverses the postings of the withholding
 *   dispute lost       ·                ·            + amount   + tax   ·                      − amount − tax
 *
 * At any moment, these invariants hold:
 * - `receivable` is the amount billed and not yet paid. It is negative if a checkout was paid before its order exists.
 * - `processor` is the amount received, less the amounts refunded and withheld.
 * - `disputed` is the amount of the disputes that the banks have not decided yet.
 * - `customer_balance`, negated, equals `customer_balances`, because credit is a liability of ours.
 *
 * An amount that cannot be charged goes from the order to the customer's debt. The order that collects it returns it to
 * the receivable.
 */

export interface OrderFigures {
  readonly organization_id: string
  readonly id: string
  readonly customer_id: string
  readonly currency: string
  readonly net_amount: number
  readonly tax_amount: number
  readonly total_amount: number
  readonly applied_balance_amount: number
  readonly carried_amount: number
  readonly balance_movement_amount: number
}

export interface PaymentFigures {
  readonly organization_id: string
  readonly id: string
  readonly account_id: string
  readonly customer_id: string
  readonly amount: number
  readonly currency: string
}

export interface RefundFigures extends PaymentFigures {
  /** The tax part. `amount` excludes tax. */
  readonly tax_amount: number
}

/** A manual change of a customer balance. */
export interface AdjustmentFigures {
  readonly organization_id: string
  readonly id: string
  readonly customer_id: string
  readonly currency: string
  /** Increase of the customer's balance; negative for a decrease. */
  readonly amount: number
}

/** `already`: the fact existed and is unchanged. `nothing`: the fact moves no money, so nothing was written. */
export type Posting = 'posted' | 'already' | 'nothing'

/** Balance of a customer: credit or debt, never both. */
export interface CustomerBalance {
  readonly credit: number
  readonly debt: number
}

/**
 * Locks the customer's balance in a currency until the transaction ends. No other order can use the same credit or
 * collect the same debt meanwhile.
 */
export const lockBalance = async (tx: BusinessTx, organization_id: string, customer_id: string, currency: string): Promise<Locked<CustomerBalance>> => {
  const [balance] = await lockBalances(tx, organization_id, [{ customer_id, currency }])
  return balance!
}

/** Locks the balances of several customers in the order of their ids, like `lockBalance`. Returns them in the given sequence. */
export const lockBalances = async (
  tx: BusinessTx,
  organization_id: string,
  owners: readonly { readonly customer_id: string; readonly currency: string }[],
): Promise<Locked<CustomerBalance>[]> =>
  (await lockAmounts(tx, organization_id, owners)).map((amount) => markLocked({ credit: Math.max(0, amount), debt: Math.max(0, 0 - amount) }))

/**
 * Posts an order to the ledger and updates the customer's balance. Idempotent. Throws if the order uses more credit, or
 * collects more debt, than the customer has. Such an order was not calculated with the locked balance.
 */
export const postOrder = async (tx: BusinessTx, order: OrderFigures): Promise<Posting> => {
  const fact = billed(order)
  const [posting, balance] = await postOne(tx, fact)
  if (balance !== null) checkBalance(order, fact, balance)
  return posting
}

/** Posts orders of different customers, like `postOrder`, in one statement. Orders without any amount are skipped. */
export const postOrders = async (tx: BusinessTx, orders: readonly OrderFigures[]): Promise<void> => {
  const facts = orders.map((order) => ({ order, fact: billed(order) })).filter(({ fact }) => fact.entries.length > 0)
  const written = await insertFacts(
    tx,
    facts.map(({ fact }) => fact),
  )
  facts.forEach(({ order, fact }, at) => {
    const balance = written[at]?.balance ?? null
    if (balance !== null) checkBalance(order, fact, balance)
  })
}

/** Throws if the order used more credit, or collected more debt, than the customer had. `balance` is the balance after the order. */
const checkBalance = (order: OrderFigures, fact: Fact, balance: number): void => {
  const movement = order.balance_movement_amount
  const before = sum([balance, ...fact.entries.filter(({ account }) => account === 'customer_balance').map(({ amount }) => amount)])
  const fits = order.total_amount < 0 || movement === 0 || (movement < 0 ? before >= 0 - movement : before <= 0 - movement)
  if (!fits) throw new Error(`order ${order.id} moves a balance of ${before} by ${movement}: it was computed with another balance`)
}

/**
 * Reverses the postings of an order that will not be paid, including the customer's balance. Idempotent. Returns
 * `nothing` if the order was not posted.
 */
export const voidOrder = async (tx: BusinessTx, { organization_id, id }: { organization_id: string; id: string }): Promise<Posting> =>
  reverse(tx, organization_id, 'order_billed', 'order_voided', id)

/** Posts a received payment. Idempotent. The order may be posted after its payment, as with a checkout. */
export const postPayment = async (tx: BusinessTx, payment: PaymentFigures): Promise<Posting> => (await postOne(tx, received(payment)))[0]

/** Posts several received payments in one statement. Idempotent. */
export const postPayments = async (tx: BusinessTx, payments: readonly PaymentFigures[]): Promise<void> => {
  await post(tx, payments.map(received))
}

/** Posts a refund: reverses its part of revenue and tax. Idempotent. */
export const postRefund = async (tx: BusinessTx, refund: RefundFigures): Promise<Posting> => (await postOne(tx, paidBack(refund)))[0]

/** Reverses a refund that did not reach its recipient. Idempotent. Returns `nothing` if the refund was not posted. */
export const reverseRefund = async (tx: BusinessTx, { organization_id, id }: { organization_id: string; id: string }): Promise<Posting> =>
  reverse(tx, organization_id, 'refund_paid', 'refund_reversed', id)

/** Posts a disputed amount that the processor withholds until the bank decides. The revenue stays. Idempotent. */
export const withholdDispute = async (tx: BusinessTx, dispute: RefundFigures): Promise<Posting> => {
  const gross = sum([dispute.amount, dispute.tax_amount])
  return (await postOne(tx, fact('dispute_withheld', dispute, [entry('processor', 0 - gross, dispute.account_id), entry('disputed', gross)])))[0]
}

/** Reverses the withholding of a dispute. Idempotent. Returns `nothing` if nothing was withheld. */
export const returnDispute = async (tx: BusinessTx, { organization_id, id }: { organization_id: string; id: string }): Promise<Posting> =>
  reverse(tx, organization_id, 'dispute_withheld', 'dispute_returned', id)

/** Posts a lost dispute: reverses the revenue and its tax. Idempotent. */
export const loseDispute = async (tx: BusinessTx, dispute: RefundFigures): Promise<Posting> => {
  const { amount, tax_amount } = dispute
  return (
    await postOne(tx, fact('dispute_lost', dispute, [entry('revenue', amount), entry('tax', tax_amount), entry('disputed', sum([0 - amount, 0 - tax_amount]))]))
  )[0]
}

const reverse = async (tx: BusinessTx, organization_id: string, kind: Fact['kind'], reversed: Fact['kind'], id: string): Promise<Posting> => {
  const fact = await findFact(tx, organization_id, kind, id)
  if (!fact) return 'nothing'
  const entries = fact.entries.map((entry) => ({ ...entry, amount: 0 - entry.amount }))
  return (await postOne(tx, { ...fact, kind: reversed, entries }))[0]
}

/** Increases or decreases the credit of a customer at the expense of revenue. Idempotent per adjustment id. */
export const moveBalance = async (tx: BusinessTx, adjustment: AdjustmentFigures): Promise<Posting> => (await postOne(tx, adjusted(adjustment)))[0]

/** Posts a batch of facts, each of which is idempotent. Returns the results in the order of the facts. */
export const post = async (tx: BusinessTx, facts: readonly Fact[]): Promise<Posting[]> => {
  const written = await insertFacts(
    tx,
    facts.filter(({ entries }) => entries.length > 0),
  )
  let at = 0
  return facts.map(({ entries }) => (entries.length === 0 ? 'nothing' : written[at++] ? 'posted' : 'already'))
}

export const billed = (order: OrderFigures): Fact => {
  const { net_amount, tax_amount, total_amount, carried_amount, balance_movement_amount } = order
  const charge = sum([total_amount, balance_movement_amount, 0 - carried_amount])
  if (charge < 0) throw new RangeError(`order ${order.id} would charge ${charge}`)
  return fact('order_billed', order, [
    entry('receivable', charge),
    entry('revenue', 0 - net_amount),
    entry('tax', 0 - tax_amount),
    entry('customer_balance', sum([carried_amount, 0 - balance_movement_amount])),
  ])
}

export const received = (payment: PaymentFigures): Fact => {
  if (payment.amount < 0) throw new RangeError(`payment ${payment.id} has the amount ${payment.amount}`)
  return fact('payment_received', payment, [entry('processor', payment.amount, payment.account_id), entry('receivable', 0 - payment.amount)])
}

export const paidBack = (refund: RefundFigures): Fact => {
  const { amount, tax_amount } = refund
  if (amount < 0 || tax_amount < 0) throw new RangeError(`refund ${refund.id} has the amount ${amount} and the tax ${tax_amount}`)
  return fact('refund_paid', refund, [
    entry('processor', sum([0 - amount, 0 - tax_amount]), refund.account_id),
    entry('revenue', amount),
    entry('tax', tax_amount),
  ])
}

const adjusted = (adjustment: AdjustmentFigures): Fact =>
  fact('balance_adjusted', adjustment, [entry('revenue', adjustment.amount), entry('customer_balance', 0 - adjustment.amount)])

const entry = (account: LedgerAccount, amount: number, payment_account_id: string | null = null): Entry => ({ account, amount, payment_account_id })

type Subject = Pick<AdjustmentFigures, 'organization_id' | 'id' | 'customer_id' | 'currency'>

const fact = (kind: Fact['kind'], { organization_id, id, customer_id, currency }: Subject, entries: readonly Entry[]): Fact => ({
  organization_id,
  kind,
  reference: id,
  customer_id,
  currency,
  entries: entries.filter(({ amount }) => amount !== 0),
})

const postOne = async (tx: BusinessTx, one: Fact): Promise<[Posting, number | null]> => {
  if (one.entries.length === 0) return ['nothing', null]
  const [written] = await insertFacts(tx, [one])
  return written ? ['posted', written.balance] : ['already', null]
}
