import { showLabel, type Frame } from '@bursar/views'
import { speak, textsIn } from '../kit/index.ts'
import { portalTexts } from './texts.ts'

/** The amounts that orders and price previews have in common. */
export interface Bill {
  readonly lines: readonly { readonly label: string; readonly amount: number; readonly proration: boolean }[]
  readonly currency: string
  /** The number of seats that the lines name. Null if nothing has seats. */
  readonly seats: number | null
  readonly subtotal_amount: number
  readonly discount_amount: number
  readonly tax_amount: number
  readonly total_amount: number
  readonly applied_balance_amount: number
}

/** A row of a bill. A result is the sum of all rows before it. */
export interface SumRow {
  readonly label: string
  readonly amount: number
  readonly kind?: 'result' | 'total'
  readonly note?: string | undefined
}

/** True if the lines contain the tax. The tax is then not a row of its own, because it would be counted twice. */
export const isTaxIncluded = ({ subtotal_amount, discount_amount, tax_amount, total_amount }: Omit<Bill, 'lines' | 'currency' | 'seats'>): boolean =>
  tax_amount !== 0 && subtotal_amount - discount_amount === total_amount

/**
 * Returns the rows of a bill, from its lines to the amount that is left to pay. Each result is the sum of the rows
 * before it. A negative total is added to the balance of the customer, and nothing is left to pay.
 */
export const sumsOf = (frame: Frame, bill: Bill, left: { readonly label: string; readonly amount: number } | null): SumRow[] => {
  const { money } = speak(frame)
  const { sums: words } = textsIn(frame, portalTexts)
  const { currency, subtotal_amount, discount_amount, tax_amount, total_amount, applied_balance_amount: applied } = bill
  const included = isTaxIncluded(bill)
  // Without a credit line, the charge of a change is already the difference between both prices.
  const note = bill.lines.some(({ amount, proration }) => proration && amount < 0) ? words.part : words.difference
  const rest = Math.max(0, total_amount + applied)
  return [
    ...bill.lines.map((line) => ({
      label: showLabel(frame.locale, line, bill.seats),
      amount: line.amount,
      note: line.proration && line.amount >= 0 ? note : undefined,
    })),
    { label: words.subtotal, amount: subtotal_amount, kind: 'result' },
    ...(discount_amount === 0 ? [] : [{ label: words.discount, amount: 0 - discount_amount }]),
    ...(included ? [] : [{ label: words.tax, amount: tax_amount }]),
    { label: words.total, amount: total_amount, kind: 'total', note: included ? words.included(money(tax_amount, currency)) : undefined },
    ...(total_amount < 0 ? [{ label: words.toBalance, amount: 0 - total_amount }] : []),
    ...(total_amount >= 0 && applied !== 0 ? [{ label: applied < 0 ? words.fromBalance : words.owedBefore, amount: applied }] : []),
    // An amount below the minimum of the processor is not charged. The next order collects it.
    ...(left !== null && total_amount >= 0 && rest !== left.amount ? [{ label: words.carried, amount: left.amount - rest }] : []),
    ...(left === null ? [] : [{ ...left, kind: 'total' as const }]),
  ]
}

/** The rows of a bill as a table. */
export const Sums = ({ frame, rows, currency, caption }: { frame: Frame; rows: readonly SumRow[]; currency: string; caption: string }) => {
  const { money } = speak(frame)
  return (
    <table className="sums">
      <caption className="hidden">{caption}</caption>
      <tbody>
        {rows.map(({ label, amount, kind, note }, at) => (
          <tr key={at} className={kind}>
            <th scope="row">
              {label}
              {note && <span className="soft under">{note}</span>}
            </th>
            <td className="amount">{money(amount, currency)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
