import type { Message } from '../../../gateways/mail/mail.ts'
import { formatAmount } from '../../../kernel/money.ts'
import type { OrganizationRow } from '../../organizations/index.ts'
import type { LoadedOrder } from '../orders/orders.sql.ts'
import type { PaymentRow } from '../payments/payments.sql.ts'

export type Words = Pick<Message, 'subject' | 'text'>
type Seller = Pick<OrganizationRow, 'name' | 'email'>

/** What was bought and paid, to the unit: the lines make the total, and the total and the balance make what was charged. */
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
        tax_amount !== 0 && order.tax_behavior === 'inclusive' && `Tax in it: ${money(tax_amount)}`,
        total_amount >= 0 && applied < 0 && `Taken from your balance: ${money(applied)}`,
        total_amount >= 0 && applied > 0 && `Still owed from before: ${money(applied)}`,
        total_amount < 0 && `Added to your balance: ${money(-total_amount)}`,
        carried_amount !== 0 && `Left for a later order: ${money(-carried_amount)}`,
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

/** What follows for the customer from a payment that failed. */
export type Consequence = { readonly kind: 'retried'; readonly at: Date } | { readonly kind: 'ended' } | { readonly kind: 'open' }

/** What is owed, why it was not paid, and what happens next. */
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
        next.kind === 'retried' && `We will try again on ${day(next.at)}. Please see to it that the payment can go through by then.`,
        next.kind === 'ended' && 'Your subscription has therefore ended. We will not try again, and you owe nothing for this.',
      ],
      [contact(seller, next.kind === 'ended' ? 'Would you like to come back?' : 'Do you want to pay in another way?')],
    ),
  }
}

/** What the end of this period will cost. */
export interface Forecast {
  readonly label: string
  readonly at: Date
  readonly amount: number
  readonly currency: string
  readonly discount: string | null
  readonly tax_included: boolean
  readonly metered: boolean
}

/** What a renewal will cost and when, while there is time to cancel. */
export const renewalReminder = (seller: Seller, forecast: Forecast): Words => ({
  subject: `${forecast.label} renews on ${day(forecast.at)}`,
  text: paragraphs(
    [`Your subscription to ${forecast.label} from ${seller.name} renews on ${day(forecast.at)}.`],
    costs(forecast),
    ['You do not have to do anything for it to go on. If you do not want it to, cancel before that day.'],
    [contact(seller, 'Would you like to cancel, or do you have a question?')],
  ),
})

/** What a trial turns into and when, while there is time to cancel. */
export const trialEnding = (seller: Seller, forecast: Forecast): Words => ({
  subject: `Your trial of ${forecast.label} ends on ${day(forecast.at)}`,
  text: paragraphs(
    [`Your trial of ${forecast.label} from ${seller.name} ends on ${day(forecast.at)}. Your subscription begins then.`],
    costs(forecast),
    ['You do not have to do anything for it to go on. If you do not want to be charged, cancel before that day.'],
    [contact(seller, 'Would you like to cancel, or do you have a question?')],
  ),
})

/** That a seat is theirs to take, until when, and how. */
export const seatInvitation = (seller: Seller, product: string, link: string, until: Date): Words => ({
  subject: `You have been given a seat of ${product}`,
  text: paragraphs(
    [`You have been given a seat of ${product} from ${seller.name}. Open this link to accept it:`, link],
    [`It works once, until ${moment(until)}. If you do not want the seat, you can ignore this message.`],
    [contact(seller, 'Questions?')],
  ),
})

/** Somebody who was invited came too late, and asks for another invitation. */
export const seatRequested = (seller: Seller, who: string, product: string, link: string): Words => ({
  subject: `${who} asks for a new invitation`,
  text: paragraphs(
    [`${who} was given a seat of ${product} from ${seller.name}, but the invitation ran out before it was accepted. They have asked for a new one.`],
    ['To invite them again, open your team:', link],
    ['If you do not want that, you need to do nothing.'],
  ),
})

const costs = ({ amount, currency, discount, tax_included, metered }: Forecast): Line[] => [
  `It will cost ${written(amount, currency)}${discount === null ? '' : ` with your discount (${discount})`}, ${tax_included ? 'tax included' : 'before tax'}.`,
  metered && 'What you use is added to it.',
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

/** Days are counted in UTC, as periods are. */
const days = new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeZone: 'UTC' })
const day = (at: Date): string => days.format(at)
const moments = new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeStyle: 'short', timeZone: 'UTC' })
const moment = (at: Date): string => `${moments.format(at)} UTC`

const periodOf = ({ period_start: start, period_end: end }: LoadedOrder['order']): string | null =>
  start === null || end === null || start.getTime() === end.getTime() ? null : `${day(start)} to ${day(end)}`
