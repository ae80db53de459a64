import { invalidAt, isZipCode, statesOfZipCode, type Address, type Invalid } from '@bursar/contract'
import { addressFields, type figure } from './figures.ts'
import type { Opened } from './loading.sql.ts'
import { methodsFor } from './opening.ts'

/** Card data that the processor returns before the charge. The fingerprint is used to recognize a person who pays again. */
export interface Card {
  /** The type of the payment method, such as `card` or `ideal`. */
  readonly type: string
  readonly fingerprint: string
  readonly name: string | null
}

/** Returns the error text for a missing part of an address. */
const neededPart = (part: string, { postal_code }: Address): string => {
  const [one, other] = part === 'state' && postal_code ? statesOfZipCode(postal_code) : []
  return one && other ? `ZIP codes such as ${postal_code} can belong to ${one} or ${other}. Choose the state.` : 'This part of the address is required.'
}

/** Returns one problem per missing field, so that one answer reports all of them. */
export const problemsOf = ({ checkout }: Opened, figured: ReturnType<typeof figure>, token: string | null, card: Card | null): Invalid[] => {
  const problems: Invalid[] = []
  const form = figured.is_payment_form_required
  // A positive total needs an address for its tax, even if the total is below the chargeable minimum.
  const billed = form || figured.totals.total_amount > 0
  const missing = (field: string, msg: string, ...more: string[]) => void problems.push({ loc: ['body', field, ...more], msg, type: 'missing' })
  if (checkout.customer_id === null && checkout.customer_email === null) missing('customer_email', 'An e-mail address for the receipt is required.')
  if (billed || checkout.is_business_customer) {
    const address = checkout.customer_billing_address
    if (address === null) missing('customer_billing_address', 'A billing address is required, at least its country.')
    else
      for (const [part, mode] of Object.entries(addressFields(checkout)))
        if (mode === 'required' && !address[part as keyof typeof address]) missing('customer_billing_address', neededPart(part, address), part)
    if (address?.country === 'US' && address.postal_code && !isZipCode(address.postal_code))
      problems.push(invalidAt(['body', 'customer_billing_address', 'postal_code'], 'Give a ZIP code of five digits, such as 10001.', address.postal_code))
    if (checkout.is_business_customer && checkout.customer_billing_name === null) missing('customer_billing_name', 'The name of the company is required.')
  }
  if (form && token === null) missing('confirmation_token_id', "Give the token from the processor's form.")
  else if (form && card === null)
    problems.push(invalidAt(['body', 'confirmation_token_id'], 'The processor does not know this token. Create a new one with its form.', token))
  else if (form && card !== null) {
    const offered = methodsFor(checkout, figured)
    if (!offered.includes(card.type))
      problems.push(
        invalidAt(
          ['body', 'confirmation_token_id'],
          `The payment method ${card.type} does not fit this purchase. Create a token of one of these: ${offered.join(', ')}.`,
          token,
        ),
      )
  }
  if (billed && checkout.customer_billing_address !== null && checkout.tax === null)
    problems.push(
      invalidAt(
        ['body', 'customer_billing_address'],
        'The tax cannot be computed for this address at the moment. Check the address, or try again later.',
        checkout.customer_billing_address,
      ),
    )
  return problems
}
