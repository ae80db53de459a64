import { sum } from '../../../kernel/money.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { findFact, insertFacts, lockAmount, type Entry, type Fact, type LedgerAccount } from './ledger.sql.ts'

/*
 * What each fact posts: debits above zero, credits below, and every line sums to zero. The charge is what the processor is
 * asked for: total + movement − carried.
 *
 *                      processor        receivable   revenue    tax     customer_balance       disputed
 *   order billed       ·                + charge     − net      − tax   + carried − movement   ·
 *   order voided       the opposite of what the order posted
 *   payment received   + amount         − amount     ·          ·       ·                      ·
 *   refund paid        − amount − tax   ·            + amount   + tax   ·                      ·
 *   refund reversed    the opposite of what the refund posted
 *   balance adjusted   ·                ·            + amount   ·       − amount               ·
 *   dispute withheld   − amount − tax   ·            ·          ·       ·                      + amount + tax
 *   dispute returned   the opposite of what withholding it posted
 *   dispute lost       ·                ·            + amount   + tax   ·                      − amount − tax
 *
 * So at any moment: the receivable is what was billed and not yet paid – below zero where a checkout was paid whose order
 * is still to come; what lies with the processor is what came less what went back or is withheld; what is disputed is
 * what banks have not decided about; and the customer balance, turned
 * around, is what `customer_balances` says, since credit is what we owe. What cannot be charged goes from the order
 * straight to the customer's debt, and comes back to the receivable with the order that collects it.
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
  /** The payment account. */
  readonly account_id: string
  readonly customer_id: string
  readonly amount: number
  readonly currency: string
}

export interface RefundFigures extends PaymentFigures {
  /** Besides the amount, which is without tax. */
  readonly tax_amount: number
}

/** A balance that is changed by hand. */
export interface AdjustmentFigures {
  readonly organization_id: string
  readonly id: string
  readonly customer_id: string
  readonly currency: string
  /** What the customer has more of with us; below zero, less. */
  readonly amount: number
}

/** `already`: it was written before, and stands as it was. `nothing`: no money is in it, and nothing is written. */
export type Posting = 'posted' | 'already' | 'nothing'

/** What a customer has with us: credit or debt, never both. */
export interface CustomerBalance {
  readonly credit: number
  readonly debt: number
}

/**
 * What a customer has with us in a currency, held until the transaction ends: whoever figures an order with it uses its
 * credit, or collects its debt, alone.
 */
export const lockBalance = async (tx: Tx, organization_id: string, customer_id: string, currency: string): Promise<Locked<CustomerBalance>> => {
  const amount = await lockAmount(tx, organization_id, customer_id, currency)
  return { credit: Math.max(0, amount), debt: Math.max(0, 0 - amount) } as Locked<CustomerBalance>
}

/**
 * An order is billed once, and its customer's balance moves with it. Credit that is not there is not used and debt that
 * is not there is not collected: figures that were not made from the held balance are refused.
 */
export const postOrder = async (tx: Tx, order: OrderFigures): Promise<Posting> => {
  const fact = billed(order)
  const [posting, balance] = await postOne(tx, fact)
  if (balance !== null) {
    const movement = order.balance_movement_amount
    const before = sum([balance, ...fact.entries.filter(({ account }) => account === 'customer_balance').map(({ amount }) => amount)])
    const fits = order.total_amount < 0 || movement === 0 || (movement < 0 ? before >= 0 - movement : before <= 0 - movement)
    if (!fits) throw new Error(`order ${order.id} moves a balance of ${before} by ${movement}: it was figured with another one`)
  }
  return posting
}

/** An order that nobody will pay is taken back to the unit, once, and its customer's balance with it; `nothing` where none was written. */
export const voidOrder = async (tx: Tx, { organization_id, id }: { organization_id: string; id: string }): Promise<Posting> =>
  reverse(tx, organization_id, 'order_billed', 'order_voided', id)

/** Money that came is written once. Its order may come later, as with a checkout. */
export const postPayment = async (tx: Tx, payment: PaymentFigures): Promise<Posting> => (await postOne(tx, received(payment)))[0]

/** Money that went back is written once, and so is that it was neither earned nor owed as tax. */
export const postRefund = async (tx: Tx, refund: RefundFigures): Promise<Posting> => (await postOne(tx, paidBack(refund)))[0]

/** A refund that did not reach its receiver after all is taken back to the unit, once; `nothing` where none was written. */
export const reverseRefund = async (tx: Tx, { organization_id, id }: { organization_id: string; id: string }): Promise<Posting> =>
  reverse(tx, organization_id, 'refund_paid', 'refund_reversed', id)

/** The processor keeps what is disputed until the bank has decided: it is earned still, and not there. Once. */
export const withholdDispute = async (tx: Tx, dispute: RefundFigures): Promise<Posting> => {
  const gross = sum([dispute.amount, dispute.tax_amount])
  return (await postOne(tx, fact('dispute_withheld', dispute, [entry('processor', 0 - gross, dispute.account_id), entry('disputed', gross)])))[0]
}

/** What was withheld is there again, to the unit, once; `nothing` where none was. */
export const returnDispute = async (tx: Tx, { organization_id, id }: { organization_id: string; id: string }): Promise<Posting> =>
  reverse(tx, organization_id, 'dispute_withheld', 'dispute_returned', id)

/** What was withheld is gone for good, once: it was neither earned nor owed as tax. */
export const loseDispute = async (tx: Tx, dispute: RefundFigures): Promise<Posting> => {
  const { amount, tax_amount } = dispute
  return (
    await postOne(tx, fact('dispute_lost', dispute, [entry('revenue', amount), entry('tax', tax_amount), entry('disputed', sum([0 - amount, 0 - tax_amount]))]))
  )[0]
}

const reverse = async (tx: Tx, organization_id: string, kind: Fact['kind'], reversed: Fact['kind'], id: string): Promise<Posting> => {
  const fact = await findFact(tx, organization_id, kind, id)
  if (!fact) return 'nothing'
  const entries = fact.entries.map((entry) => ({ ...entry, amount: 0 - entry.amount }))
  return (await postOne(tx, { ...fact, kind: reversed, entries }))[0]
}

/** Gives a customer credit, or takes it, at the cost of revenue: once for each id. */
export const moveBalance = async (tx: Tx, adjustment: AdjustmentFigures): Promise<Posting> => (await postOne(tx, adjusted(adjustment)))[0]

/** Many facts at once, each written once whatever becomes of the others; the outcomes stand in the order of the facts. */
export const post = async (tx: Tx, facts: readonly Fact[]): Promise<Posting[]> => {
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
  if (payment.amount < 0) throw new RangeError(`payment ${payment.id} is of ${payment.amount}`)
  return fact('payment_received', payment, [entry('processor', payment.amount, payment.account_id), entry('receivable', 0 - payment.amount)])
}

export const paidBack = (refund: RefundFigures): Fact => {
  const { amount, tax_amount } = refund
  if (amount < 0 || tax_amount < 0) throw new RangeError(`refund ${refund.id} is of ${amount} and ${tax_amount}`)
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

const postOne = async (tx: Tx, one: Fact): Promise<[Posting, number | null]> => {
  if (one.entries.length === 0) return ['nothing', null]
  const [written] = await insertFacts(tx, [one])
  return written ? ['posted', written.balance] : ['already', null]
}
