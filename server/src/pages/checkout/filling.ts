import { exponentsOf, type CheckoutConfirm } from '@bursar/contract'
import type { Complaint, Locale, Offer } from '@bursar/views'
import type { z } from 'zod'
import { languageOf } from '../../kernel/languages.ts'

type ConfirmationForm = z.input<typeof CheckoutConfirm>
type Draft = Readonly<Record<string, string>>

const addressParts = ['line1', 'line2', 'postal_code', 'city', 'state', 'country'] as const

/** Returns the initial values of the form from the stored data of the checkout. */
export const draftOf = (offer: Offer): Draft => {
  const { wire } = exponentsOf(offer.currency)
  const address = Object.entries(offer.customer_billing_address ?? {}).map(([part, value]) => [`customer_billing_address.${part}`, value])
  const answers = Object.entries(offer.custom_field_data).map(([slug, value]) => [
    `custom_field_data.${slug}`,
    value === true ? 'on' : value === false ? '' : value,
  ])
  const known: [string, unknown][] = [
    ['seats', offer.seats],
    ['amount', (offer.amount / 10 ** wire).toFixed(wire)],
    ['customer_email', offer.customer_email],
    ['customer_name', offer.customer_name],
    ['customer_billing_name', offer.customer_billing_name],
    ['customer_tax_id', offer.customer_tax_id],
    ['is_business_customer', offer.is_business_customer || offer.customer_tax_id !== null ? 'on' : ''],
    ...(address as [string, unknown][]),
    ...(answers as [string, unknown][]),
  ]
  return Object.fromEntries(known.flatMap(([name, value]) => (typeof value === 'string' || typeof value === 'number' ? [[name, String(value)]] : [])))
}

/** Fields of the form that are no input of the buyer. */
const others: readonly string[] = ['csrf', 'shown', 'locale', 'theme']

/** Returns the submitted fields as typed. */
export const typed = (form: URLSearchParams): Draft => Object.fromEntries([...form].filter(([name]) => !others.includes(name)))

const said = (form: URLSearchParams, name: string): string | null => form.get(name)?.trim() || null

/** Parses digits as a number. Other text is passed on unchanged, so that the API reports it. */
const whole = (text: string): number => (/^\d{1,9}$/.test(text) ? Number(text) : (text as unknown as number))

/**
 * Converts a typed decimal amount to minor units. Text with more decimal places than the currency has is passed on
 * unchanged, so that the API reports it.
 */
const minorUnits = (text: string, currency: string): number => {
  const { wire } = exponentsOf(currency)
  const [, units, , digits = ''] = /^\D{0,3}\s*(\d{1,9})([.,](\d{1,2}))?\D{0,4}$/.exec(text) ?? []
  if (units === undefined || digits.length > wire) return text as unknown as number
  return Number(units) * 10 ** wire + Number(digits.padEnd(wire, '0') || 0)
}

/**
 * Collects the submitted changes that affect the price. If the buyer switched to another product, the seats and the
 * amount of the old one are dropped.
 */
export const priceChanges = (form: URLSearchParams, offer: Offer): Partial<ConfirmationForm> => {
  const wish: Partial<ConfirmationForm> = {}
  const product_id = said(form, 'product_id')
  const switched = product_id !== null && product_id !== offer.product_id
  if (switched) wish.product_id = product_id
  const currency = said(form, 'currency')
  if (!switched && currency !== null && currency !== offer.currency) wish.currency = currency as NonNullable<ConfirmationForm['currency']>
  const seats = said(form, 'seats')
  if (!switched && seats !== null && seats !== String(offer.seats)) wish.seats = whole(seats)
  const amount = said(form, 'amount')
  if (!switched && wish.currency === undefined && amount !== null && minorUnits(amount, offer.currency) !== offer.amount)
    wish.amount = minorUnits(amount, offer.currency)
  const code = said(form, 'discount_code')
  if (form.has('without_discount')) wish.discount_code = null
  else if (code !== null && code !== offer.discount?.code) wish.discount_code = code
  if (form.get('allow_trial') === 'false') wish.allow_trial = false
  const business = form.get('is_business_customer') === 'on'
  const tax_id = business ? said(form, 'customer_tax_id') : null
  if (business !== offer.is_business_customer) wish.is_business_customer = business
  if (tax_id !== offer.customer_tax_id) wish.customer_tax_id = tax_id
  const address = addressIn(form)
  const before = offer.customer_billing_address
  if (address && addressParts.some((part) => address[part] !== undefined && address[part] !== (before?.[part] ?? null))) {
    // If the country changes, the stored parts of the old address are dropped.
    const kept = before?.country === address.country ? before : {}
    wish.customer_billing_address = { ...kept, ...address } as NonNullable<ConfirmationForm['customer_billing_address']>
  }
  return wish
}

const addressIn = (form: URLSearchParams): Partial<Record<(typeof addressParts)[number], string | null>> | undefined => {
  const given = addressParts.filter((part) => form.has(`customer_billing_address.${part}`))
  if (said(form, 'customer_billing_address.country') === null) return undefined
  return Object.fromEntries(given.map((part) => [part, said(form, `customer_billing_address.${part}`)]))
}

/** Returns the buyer's data and answers, which are sent with the confirmation. */
export const buyerIn = (form: URLSearchParams, offer: Offer): Partial<ConfirmationForm> => {
  const saved = said(form, 'payment_method_id')
  const answers = (offer.attached_custom_fields ?? []).map(({ custom_field: { slug, type } }): [string, string | number | boolean | null] => {
    const name = `custom_field_data.${slug}`
    // Forms send line breaks as CRLF. The length limits count a line break as one character, as browsers do.
    const value = said(form, name)?.replaceAll('\r\n', '\n') ?? null
    if (type === 'checkbox') return [slug, value === 'on']
    return [slug, type === 'number' && value !== null && /^-?\d{1,10}$/.test(value) ? Number(value) : value]
  })
  return {
    ...(offer.customer_id === null ? { customer_email: said(form, 'customer_email') } : {}),
    customer_name: said(form, 'customer_name'),
    ...(form.get('is_business_customer') === 'on' ? { customer_billing_name: said(form, 'customer_billing_name') } : {}),
    ...(answers.length > 0 ? { custom_field_data: Object.fromEntries(answers) } : {}),
    // The form of a new method may be filled although a saved one was chosen last.
    ...(saved === null ? { confirmation_token_id: said(form, 'confirmation_token_id') } : { payment_method_id: saved }),
  }
}

/** Returns the language of the page, in which the buyer is then mailed. Keeps a locale of the checkout with this language, for example `de-CH`. */
export const languageFor = (page: Locale, { locale }: Offer): Partial<ConfirmationForm> =>
  locale !== null && languageOf(locale, null) === page ? {} : { locale: page }

/** Encodes the displayed price for the form: total, currency, amount due today and product. */
export const shownOf = ({ total_amount, currency, product_id }: Offer, today: number): string => [total_amount, currency, today, product_id ?? ''].join(' ')

/** Builds an error that the page itself found, in the format of the API's validation errors. */
export const complaint = (type: string, msg: string, ...loc: string[]): Complaint => ({ loc: loc.length > 0 ? ['body', ...loc] : [], type, msg })
