import { exponentsOf, type CheckoutConfirm, type Complaint, type Offer } from '@bursar/contract'
import type { z } from 'zod'

type Wish = z.input<typeof CheckoutConfirm>
type Draft = Readonly<Record<string, string>>

const addressParts = ['line1', 'line2', 'postal_code', 'city', 'state', 'country'] as const

/** What the fields hold at first: what is known already. */
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
    ['is_business_customer', offer.is_business_customer ? 'on' : ''],
    ...(address as [string, unknown][]),
    ...(answers as [string, unknown][]),
  ]
  return Object.fromEntries(known.flatMap(([name, value]) => (typeof value === 'string' || typeof value === 'number' ? [[name, String(value)]] : [])))
}

/** What the buyer has typed, as it came; only what a new price has made of it is newer. */
export const typed = (form: URLSearchParams): Draft => Object.fromEntries([...form].filter(([name]) => name !== 'csrf' && name !== 'shown'))

const said = (form: URLSearchParams, name: string): string | null => form.get(name)?.trim() || null

/** Digits as a number; anything else as it is, for the API to complain about. */
const whole = (text: string): number => (/^\d{1,9}$/.test(text) ? Number(text) : (text as unknown as number))

/** An amount as people write it, in minor units; with more digits than the currency has, it is none. */
const minorUnits = (text: string, currency: string): number => {
  const { wire } = exponentsOf(currency)
  const [, units, , digits = ''] = /^\D{0,3}\s*(\d{1,9})([.,](\d{1,2}))?\D{0,4}$/.exec(text) ?? []
  if (units === undefined || digits.length > wire) return text as unknown as number
  return Number(units) * 10 ** wire + Number(digits.padEnd(wire, '0') || 0)
}

/** What changes the price, as far as it is not so already: what a product has of its own is not carried over to another. */
export const priceChanges = (form: URLSearchParams, offer: Offer): Partial<Wish> => {
  const wish: Partial<Wish> = {}
  const product_id = said(form, 'product_id')
  const switched = product_id !== null && product_id !== offer.product_id
  if (switched) wish.product_id = product_id
  const seats = said(form, 'seats')
  if (!switched && seats !== null && seats !== String(offer.seats)) wish.seats = whole(seats)
  const amount = said(form, 'amount')
  if (!switched && amount !== null && minorUnits(amount, offer.currency) !== offer.amount) wish.amount = minorUnits(amount, offer.currency)
  const code = said(form, 'discount_code')
  if (form.has('without_discount')) wish.discount_code = null
  else if (code !== null && code !== offer.discount?.code) wish.discount_code = code
  if (form.get('allow_trial') === 'false') wish.allow_trial = false
  const tax_id = said(form, 'customer_tax_id')
  const business = form.get('is_business_customer') === 'on' || tax_id !== null
  if (business !== offer.is_business_customer) wish.is_business_customer = business
  if (tax_id !== offer.customer_tax_id) wish.customer_tax_id = tax_id
  const address = addressIn(form)
  const before = offer.customer_billing_address
  if (address && addressParts.some((part) => address[part] !== undefined && address[part] !== (before?.[part] ?? null))) {
    // Parts of an address belong together: in another country they say nothing.
    const kept = before?.country === address.country ? before : {}
    wish.customer_billing_address = { ...kept, ...address } as NonNullable<Wish['customer_billing_address']>
  }
  return wish
}

const addressIn = (form: URLSearchParams): Partial<Record<(typeof addressParts)[number], string | null>> | undefined => {
  const given = addressParts.filter((part) => form.has(`customer_billing_address.${part}`))
  if (said(form, 'customer_billing_address.country') === null) return undefined
  return Object.fromEntries(given.map((part) => [part, said(form, `customer_billing_address.${part}`)]))
}

/** Who buys, and what they answered: given with the wish to pay. */
export const buyerIn = (form: URLSearchParams, offer: Offer): Partial<Wish> => {
  const answers = (offer.attached_custom_fields ?? []).map(({ custom_field: { slug, type } }): [string, string | number | boolean | null] => {
    const name = `custom_field_data.${slug}`
    const value = said(form, name)
    if (type === 'checkbox') return [slug, value === 'on']
    return [slug, type === 'number' && value !== null && /^-?\d{1,10}$/.test(value) ? Number(value) : value]
  })
  return {
    ...(offer.customer_id === null ? { customer_email: said(form, 'customer_email') } : {}),
    customer_name: said(form, 'customer_name'),
    customer_billing_name: said(form, 'customer_billing_name'),
    ...(answers.length > 0 ? { custom_field_data: Object.fromEntries(answers) } : {}),
    confirmation_token_id: said(form, 'confirmation_token_id'),
  }
}

/** The price as a form carries it: in all, in which currency, today, and for what. */
export const shownOf = ({ total_amount, currency, product_id }: Offer, today: number): string => [total_amount, currency, today, product_id ?? ''].join(' ')

/** A complaint of our own, as the API would word it. */
export const complaint = (type: string, msg: string, ...loc: string[]): Complaint => ({ loc: loc.length > 0 ? ['body', ...loc] : [], type, msg })
