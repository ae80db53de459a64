import { createHash } from 'node:crypto'
import { sum } from '../../../kernel/money.ts'
import { referred } from '../../../platform/postgres/lists.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { loadPrices } from '../../catalog/index.ts'
import { brandOf, keepLogo, type OrganizationRow } from '../../organizations/index.ts'
import type { LoadedOrder } from '../records/orders.sql.ts'
import { readPayment } from '../payments/attempts.sql.ts'
import { paidBy, type RefundRow } from '../records/refunds.sql.ts'
import { identityOf } from '../sellers/sellers.ts'
import { creditNoteNumbers, refundsOf, taxesOf, type DocumentRow, type Wanted } from './documents.sql.ts'
import type { Facts, RefundFacts } from './calc/facts.ts'
import { languageOf } from '../../../kernel/languages.ts'

/** Collects the content of a document about an order, and keeps the logo of the seller for it. The order must already have its invoice number. */
export const gather = async (db: Tx, seller: OrganizationRow, loaded: LoadedOrder, { kind }: Wanted, refunds: readonly RefundFacts[]): Promise<Facts> => {
  const { order, items, customer, discount } = loaded
  const [identity, taxes, prices, paid, logo] = await Promise.all([
    identityOf(db, seller),
    taxesOf(
      db,
      order.organization_id,
      items.map(({ id }) => id),
    ),
    loadPrices(
      db,
      referred(items, ({ product_price_id }) => product_price_id),
    ),
    paymentOf(db, loaded),
    keepLogo(db, seller),
  ])
  const { legal_name: name, address, tax_id, email, footer } = identity
  const { accent, support_email, website, terms_url, privacy_url } = brandOf(seller)
  const { subtotal_amount, discount_amount, net_amount, tax_amount, total_amount, applied_balance_amount, carried_amount, due_amount } = order
  return {
    kind,
    language: languageOf(customer.locale, order.billing_address?.country ?? null),
    seller: { name, address, tax_id, email, footer, accent, logo, support_email, website, terms_url, privacy_url },
    buyer: buyerOf(loaded),
    order: {
      invoice_number: order.invoice_number!,
      receipt_number: order.receipt_number,
      created_at: order.created_at.toISOString(),
      period:
        order.period_start === null || order.period_end === null || order.period_start.getTime() === order.period_end.getTime()
          ? null
          : { start: order.period_start.toISOString(), end: order.period_end.toISOString() },
      description: order.description,
      currency: order.currency,
      subtotal_amount,
      discount_amount,
      net_amount,
      tax_amount,
      total_amount,
      applied_balance_amount,
      carried_amount,
      due_amount,
      tax_behavior: order.tax_behavior,
      discount_name: discount?.name ?? null,
    },
    lines: items.map((item) => {
      const levied = taxes.filter(({ order_item_id }) => order_item_id === item.id)
      return {
        label: item.label,
        amount: item.amount,
        discount_amount: item.discount_amount,
        net_amount: item.net_amount,
        tax_amount: item.tax_amount,
        proration: item.proration,
        tiers: prices.find(({ id }) => id === item.product_price_id)?.seat_tiers ?? null,
        // If several taxes apply to one line, their rates are added.
        tax:
          levied.length === 0 ? null : { rate: sum(levied.map(({ rate }) => rate)), jurisdiction: levied.at(-1)!.jurisdiction, reason: levied.at(-1)!.reason },
      }
    }),
    payment: paid,
    refunds,
  }
}

/** Returns the current content of a stored document. Only the billed party can change, and on a receipt the refunds. */
export const renewed = async (db: Db, { kind, facts }: DocumentRow, loaded: LoadedOrder): Promise<Facts> => ({
  ...facts,
  buyer: buyerOf(loaded),
  refunds: kind === 'receipt' ? await givenBack(db, loaded) : facts.refunds,
})

/** Returns the refunds of an order so far, with their credit note numbers. */
export const numberedRefunds = async (db: Db, { order }: LoadedOrder): Promise<(RefundRow & { credit_note_number: string | null })[]> => {
  const [refunds, numbers] = await Promise.all([refundsOf(db, order), creditNoteNumbers(db, order)])
  return refunds.map((refund) => ({ ...refund, credit_note_number: numbers.get(refund.id) ?? null }))
}

/** Returns the refunds of `numberedRefunds` in the form that a document stores. */
export const givenBack = async (db: Db, loaded: LoadedOrder): Promise<RefundFacts[]> =>
  (await numberedRefunds(db, loaded)).map(({ credit_note_number: number, created_at, amount, tax_amount, reason }) => ({
    number,
    created_at: created_at.toISOString(),
    amount,
    tax_amount,
    reason,
  }))

const buyerOf = ({ order, customer }: LoadedOrder): Facts['buyer'] => ({
  name: order.billing_name ?? customer.name,
  address: order.billing_address,
  tax_id: order.tax_id,
  tax_id_format: order.tax_id_format,
})

const paymentOf = async (db: Db, { order }: LoadedOrder): Promise<Facts['payment']> => {
  const found = await paidBy(db, order)
  const payment = found && (await readPayment(db, order.organization_id, found.id))
  if (!payment) return null
  const { brand = null, last4 = null } = payment.method_metadata ?? {}
  return { brand, last4, paid_at: (payment.settled_at ?? payment.created_at).toISOString() }
}

/** Returns the checksum of the facts, independent of the order of their keys. */
export const checksumOf = (facts: Facts): string => createHash('sha256').update(canonical(facts)).digest('hex')

const canonical = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value ?? null)
  const fields = Object.entries(value).filter(([, one]) => one !== undefined)
  return `{${fields
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, one]) => `${JSON.stringify(name)}:${canonical(one)}`)
    .join(',')}}`
}
