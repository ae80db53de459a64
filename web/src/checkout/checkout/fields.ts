import type { CheckoutView, Frame } from '@bursar/views'
import { complaintAt } from '../../kit/index.ts'

type Given = Extract<CheckoutView, { kind: 'checkout' }>

/** The props of each part of the checkout page. */
export interface Part {
  readonly view: Given & {
    /** The name of the field that gets the focus when the page is shown. */
    readonly focus: string | null
  }
  readonly frame: Frame
}

/** The id of the form. The choice of language at the end of the page belongs to it. */
export const form = 'checkout'

/** The id of the button that recalculates the price. Every change that affects the price presses it. */
export const update = 'update'

/** The id of the button that applies the discount code. */
export const apply = 'apply'

/** The name of the payment field: the test card, or the token of the processor's form. */
export const payment = 'confirmation_token_id'

/** The button that removes the discount. */
export const withoutDiscount = 'without_discount'

/** The fields before the seller's custom fields, in the order of the page. */
const first = [
  'currency',
  'seats',
  'amount',
  'discount_code',
  'customer_email',
  'customer_name',
  ...['country', 'line1', 'line2', 'postal_code', 'city', 'state'].map((part) => `customer_billing_address.${part}`),
  'is_business_customer',
  'customer_billing_name',
  'customer_tax_id',
]

/** Returns the name of the field that gets the focus: the payment after a decline, otherwise the first wrong field of the page. */
export const focusOf = ({ offer, complaints, declined, applied }: Given): string | null => {
  if (declined !== null) return payment
  const order = [...first, ...(offer.attached_custom_fields ?? []).map(({ custom_field: { slug } }) => `custom_field_data.${slug}`), payment]
  const wrong = new Set(complaints.map(({ loc }) => loc.slice(1).join('.')))
  return order.find((name) => wrong.has(name)) ?? (applied ? withoutDiscount : null)
}

/** Returns the props of a field: its name, the buyer's input, its error, and whether it gets the focus. */
export const fieldAt = ({ view, frame }: Part, name: string) => ({
  name,
  value: view.draft[name] ?? '',
  error: complaintAt(frame, view.complaints, ...name.split('.')),
  autoFocus: view.focus === name,
})
