import type { Message } from '../../../gateways/mail/mail.ts'
import { formatAmount } from '../../../kernel/money.ts'
import type { OrganizationRow } from '../../organizations/index.ts'
import type { LoadedOrder } from '../records/orders.sql.ts'
import type { PaymentRow } from '../payments/payments.sql.ts'

export type Words = Pick<Message, 'subject' | 'text'>
type Seller = Pick<OrganizationRow, 'name' | 'email'>

/** Text of a receipt. The lines add up to the total. The total and the applied balance add up to the charge. */
export const receipt = (seller: Seller, { order, items, discount }: LoadedOrder, payment: PaymentRow | undefined): Words => {
  const money = (amount: number) => written(amount, order.currency)
  const { total_amount, applied_balance_amount: applied, tax_amount, discount_amount, carried_amount } = order
  const charged = order.due_amount - carried_amount
  return {
    subject: `Your receipt from ${seller.name}`,
    text: paragraphs(
      [`Thank you. This is your receipt from ${seller.name}.`],
      items.map(({ label, amount }) => `${label}: ${money(amount)}`),
      [
        discount_amount !== 0 && `Discount${discount ? ` (${discount.name})` : ''}: ${money(-discount_amount)}`,
        tax_amount !== 0 && order.tax_behavior !== 'inclusive' && `Tax: ${money(tax_amount)}`,
        `Total: ${money(total_amount)}`,
        tax_amount !== 0 && order.tax_behavior === 'inclusive' && `Included tax: ${money(tax_amount)}`,
        total_amount >= 0 && applied < 0 && `Paid from your balance: ${money(applied)}`,
        total_amount >= 0 && applied > 0 && `Outstanding from earlier orders: ${money(applied)}`,
        total_amount < 0 && `Added to your balance: ${money(-total_amount)}`,
        carried_amount !== 0 && `Carried over to a later order: ${money(-carried_amount)}`,
        `Charged: ${money(charged)}`,
      ],
      [
        charged !== 0 && payment !== undefined && paidWith(payment),
        order.invoice_number !== null && `Invoice number: ${order.invoice_number}`,
        `Date: ${day(order.created_at)}`,
        periodOf(order) && `Period: ${periodOf(order)}`,
      ],
      [contact(seller, 'Questions?')],
    ),
  }
}

/** Consequence of a failed payment for the customer. */
export type Consequence = { readonly kind: 'retried'; readonly at: Date } | { readonly kind: 'ended' } | { readonly kind: 'open' }

/** Text about a failed payment: the amount owed, the reason, and the next step. */
export const paymentFailed = (seller: Seller, { order }: LoadedOrder, why: string | null, next: Consequence): Words => {
  const period = periodOf(order)
  const owed = written(order.due_amount - order.carried_amount, order.currency)
  return {
    subject: next.kind === 'ended' ? `Your subscription with ${seller.name} has ended` : `Your payment to ${seller.name} did not go through`,
    text: paragraphs(
      [
        `We could not collect ${owed} for ${order.description}${period ? ` (${period})` : ''} on behalf of ${seller.name}.`,
        why !== null && `The reason: ${why}`,
      ],
      [
        next.kind === 'retried' && `We will try again on ${day(next.at)}. Please make sure that the payment can go through by then.`,
        next.kind === 'ended' && 'Your subscription has therefore ended. We will not try again, and you do not owe this amount.',
      ],
      [contact(seller, next.kind === 'ended' ? 'Would you like to come back?' : 'Do you want to pay in another way?')],
    ),
  }
}

/** Forecast of the charge at the end of the current period. */
export interface Forecast {
  readonly label: string
  readonly at: Date
  readonly amount: number
  readonly currency: string
  readonly discount: string | null
  readonly tax_included: boolean
}

/** Text that announces the cost and date of a renewal, while the customer can still cancel. */
export const renewalReminder = (seller: Seller, forecast: Forecast): Words => ({
  subject: `${forecast.label} renews on ${day(forecast.at)}`,
  text: paragraphs(
    [`Your subscription to ${forecast.label} from ${seller.name} renews on ${day(forecast.at)}.`],
    costs(forecast),
    ['You do not have to do anything to continue. If you do not want to continue, cancel before that day.'],
    [contact(seller, 'Would you like to cancel, or do you have a question?')],
  ),
})

/** Text that announces the end of a trial and its cost, while the customer can still cancel. */
export const trialEnding = (seller: Seller, forecast: Forecast): Words => ({
  subject: `Your trial of ${forecast.label} ends on ${day(forecast.at)}`,
  text: paragraphs(
    [`Your trial of ${forecast.label} from ${seller.name} ends on ${day(forecast.at)}. Your subscription begins then.`],
    costs(forecast),
    ['You do not have to do anything to continue. If you do not want to be charged, cancel before that day.'],
    [contact(seller, 'Would you like to cancel, or do you have a question?')],
  ),
})

/** Text of an invitation to a seat, with its link and expiry. */
export const seatInvitation = (seller: Seller, product: string, link: string, until: Date): Words => ({
  subject: `You have been given a seat for ${product}`,
  text: paragraphs(
    [`You have been given a seat for ${product} from ${seller.name}. Open this link to accept it:`, link],
    [`The link works once, until ${moment(until)}. If you do not want the seat, you can ignore this message.`],
    [contact(seller, 'Questions?')],
  ),
})

/** Text to the team owner: an invited person asks for a new invitation after the old one expired. */
export const seatRequested = (seller: Seller, who: string, product: string, link: string): Words => ({
  subject: `${who} asks for a new invitation`,
  text: paragraphs(
    [`${who} was given a seat for ${product} from ${seller.name}, but the invitation expired before it was accepted. They have asked for a new one.`],
    ['To invite them again, open your team:', link],
    ['If you do not want to invite them, you do not have to do anything.'],
  ),
})

const costs = ({ amount, currency, discount, tax_included }: Forecast): Line[] => [
  `It will cost ${written(amount, currency)}${discount === null ? '' : ` with your discount (${discount})`}, ${tax_included ? 'tax included' : 'before tax'}.`,
]

type Line = string | false | null
const paragraphs = (...all: readonly Line[][]): string =>
  all
    .map((lines) => lines.filter((line) => line !== false && line !== null).join('\n'))
    .filter((paragraph) => paragraph !== '')
    .join('\n\n')

const contact = ({ name, email }: Seller, question: string): string =>
  `${question} ${email === null ? `Please write to ${name}.` : `Please write to ${email}.`}`

const written = (amount: number, currency: string): string => `${formatAmount(amount, currency)} ${currency.toUpperCase()}`

const paidWith = ({ method_metadata, settled_at }: PaymentRow): string | null => {
  const on = settled_at === null ? '' : ` on ${day(settled_at)}`
  if (!method_metadata) return on === '' ? null : `Paid${on}`
  const { brand, last4 } = method_metadata
  return `Paid with: ${brand === 'unknown' ? 'Card' : brand.charAt(0).toUpperCase() + brand.slice(1)} ending in ${last4}${on}`
}

/** Dates are shown in UTC, because periods are counted in UTC. */
const days = new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeZone: 'UTC' })
const day = (at: Date): string => days.format(at)
const moments = new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeStyle: 'short', timeZone: 'UTC' })
const moment = (at: Date): string => `${moments.format(at)} UTC`

const periodOf = ({ period_start: start, period_end: end }: LoadedOrder['order']): string | null =>
  start === null || end === null || start.getTime() === end.getTime() ? null : `${day(start)} to ${day(end)}`
