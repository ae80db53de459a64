import { z } from 'zod'
import { operation, resource, ResourceNotFound, timestamp } from '../kit/index.ts'
import { CheckoutLocked, ExpiredCheckoutError, NotOpenCheckout } from './checkouts.ts'
import { holder } from './holder.ts'

/** Limits of a draft. A name may be that of the answer to a custom field, whose slug has up to 100 characters. */
export const draftLimits = { fields: 64, bytes: 8192, name: 120 } as const

/** Names of inputs for card data, such as `card_number`, `cc-csc`, `cvc` and `security_code`. */
const cardInput = /^(?:(?:cc|card|credit_?card)[-_.]?(?:name|no|num|number|csc|cvc|cvv|code|exp.*)|cvc|cvv2?|csc|pan|security[-_.]?code)$/i

const double = (digit: number) => (digit > 4 ? 2 * digit - 9 : 2 * digit)
const passesLuhn = (digits: string): boolean => {
  const values = digits.split('').toReversed().map(Number)
  return values.reduce((sum, digit, at) => sum + (at % 2 === 1 ? double(digit) : digit), 0) % 10 === 0
}

/** Returns true if a text contains a number of 13 to 19 digits with the check digit of a card, also with spaces, dots or dashes in it. */
const hasCardNumber = (text: string): boolean => {
  const compact = text.normalize('NFKC').replace(/[\s.-]+/g, '')
  return (compact.match(/\d{13,}/g) ?? []).some((digits) => digits.length <= 19 && passesLuhn(digits))
}

const fields = z
  .record(
    z
      .string()
      .max(draftLimits.name)
      .regex(/^[a-z0-9][\w.:[\]-]*$/i, 'Begin the name of a field with a letter or digit. Use letters, digits and _ . : [ ] - only.'),
    z.string().max(draftLimits.bytes),
  )
  .check(({ value, issues }) => {
    const refuse = (message: string, path: string[] = []) => issues.push({ code: 'custom', path, message, input: undefined })
    const { length } = Object.keys(value)
    if (length > draftLimits.fields) refuse(`A draft has at most ${draftLimits.fields} fields. This one has ${length}.`)
    const bytes = new TextEncoder().encode(JSON.stringify(value)).length
    if (bytes > draftLimits.bytes) refuse(`A draft has at most ${draftLimits.bytes} bytes as JSON. This one has ${bytes}.`)
    // Larger values are not searched. They are refused already.
    else
      for (const [name, text] of Object.entries(value))
        if (cardInput.test(name) || hasCardNumber(text)) refuse('This looks like card data, which drafts must not contain. Leave the field out.', [name])
  })
  .meta({ maxProperties: draftLimits.fields })

export const CheckoutDraft = resource('CheckoutDraft', {
  fields: z.record(z.string(), z.string()).describe('The inputs of the form by name, as they were stored. Empty if there is no draft.'),
  modified_at: timestamp().nullable(),
})
export type CheckoutDraft = z.output<typeof CheckoutDraft>

export const CheckoutDraftSave = resource('CheckoutDraftSave', {
  fields: fields.describe('At most 64 texts, together at most 8 KiB as JSON. An empty record deletes the draft.'),
})

export const getCheckoutDraft = operation({
  id: 'checkouts:client_get_draft',
  method: 'GET',
  path: '/v1/checkouts/client/{client_secret}/draft',
  summary: 'Get the draft of a checkout form',
  description: 'What the buyer has typed and not submitted. Possible while the checkout is open.',
  ...holder,
  costs: 'none',
  returns: CheckoutDraft,
  fails: [ResourceNotFound, ExpiredCheckoutError, NotOpenCheckout],
})

export const saveCheckoutDraft = operation({
  id: 'checkouts:client_save_draft',
  method: 'PUT',
  path: '/v1/checkouts/client/{client_secret}/draft',
  summary: 'Store the draft of a checkout form',
  description:
    'Replaces what the buyer has typed and not submitted. It is stored encrypted, changes no amount and emits no event. It is deleted after the checkout has succeeded, and a week after it has expired. Card data is refused.',
  ...holder,
  costs: 'none',
  body: CheckoutDraftSave,
  fails: [ResourceNotFound, ExpiredCheckoutError, NotOpenCheckout, CheckoutLocked],
})
