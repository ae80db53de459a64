import { CheckoutCreate, EmbedHostNotAllowed, ResourceNotFound, type CustomFieldData, type Metadata } from '@bursar/contract'
import { within } from '../../../kernel/actors.ts'
import { readToken, Secret } from '../../../kernel/secrets.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { pageInstead, type Call, type Platform } from '../../handlers.ts'
import { findDiscountByCode, type LoadedProduct } from '../../catalog/index.ts'
import { capabilities, lookOf } from '../../organizations/index.ts'
import type { Create, Offer } from '../checkouts/creating.ts'
import { createFitting } from '../checkouts/fitting.ts'
import { isOnSale } from '../checkouts/offering.ts'
import { presentCheckout } from '../checkouts/opening.ts'
import type { Seller } from '../records/sellers.sql.ts'
import { findLinkBySecretHash, findLinkSeller, type LinkRow } from './links.sql.ts'

/** The products of a link that are on sale, and their seller. */
type Offered = Pick<Offer, 'products' | 'seller' | 'publishable_key'>

/** Query parameters that are copied into the metadata of the checkout. */
const tracked = ['reference_id', 'utm_source', 'utm_medium', 'utm_campaign', 'utm_term', 'utm_content'] as const
const filling = ['product_id', 'amount', 'customer_email', 'customer_name', 'discount_code', 'locale', 'embed_origin'] as const
const answer = 'custom_field_data.'
const pairs = 50

/**
 * Creates a checkout for a visitor of the link and returns its URL. Valid query parameters prefill the checkout.
 * Invalid parameters, discounts that do not apply and unavailable seats are ignored instead of rejected.
 */
export const follow = async (tx: Tx, platform: Platform, secret: string, address: string, showsSeller: Call['showsSeller']): Promise<string> => {
  const { link, products, ...offeredBy } = await find(tx, platform, secret)
  const { seller } = offeredBy
  showsSeller(lookOf(seller))
  const scope = within(seller.id, 'machine', seller.member_phase)
  const said = new URLSearchParams(address)
  const one = (name: string) => said.getAll(name).find((value) => value !== '' && !value.includes('\0'))
  const chosen = products.find(({ product }) => product.id === one('product_id')?.toLowerCase()) ?? products[0]!
  const code = link.allow_discount_codes ? one('discount_code') : undefined
  const discounts = [code && (await findDiscountByCode(tx, scope, code))?.id, link.discount_id].filter((id) => typeof id === 'string')
  const amount = one('amount')
  const offer: Offered = { ...offeredBy, products: [chosen, ...products.filter((product) => product !== chosen)] }
  const opened = await createFitting(tx, scope, platform, { ...offer, customer: null, upgraded: null, renews: null }, discounts, {
    products: offer.products.map(({ product }) => product.id),
    allow_trial: true,
    trial_interval: link.trial_interval,
    trial_interval_count: link.trial_interval_count,
    allow_discount_codes: link.allow_discount_codes,
    require_billing_address: link.require_billing_address,
    // The minimum and maximum equal the link's number of seats, so that the buyer cannot change it.
    seats: link.seats,
    min_seats: link.seats,
    max_seats: link.seats,
    success_url: link.success_url,
    return_url: link.return_url,
    amount: taken('amount', amount !== undefined && /^\d{1,10}$/.test(amount) ? Number(amount) : undefined),
    customer_email: taken('customer_email', one('customer_email')),
    customer_name: taken('customer_name', one('customer_name')),
    locale: taken('locale', one('locale')),
    embed_origin: embeddedIn(seller.embed_hosts, one('embed_origin')),
    metadata: metadataOf(link, one),
    custom_field_data: answersOf(chosen, one),
  })
  const page = new URL(presentCheckout(opened, platform).url)
  const known: readonly string[] = [...tracked, ...filling]
  for (const [name, value] of said) if (!known.includes(name) && !name.startsWith(answer)) page.searchParams.append(name, value)
  return page.href
}

/**
 * Finds the link of a secret. Unknown links, deleted links and links without a product on sale all get 404. The page
 * about a link that has ended names its seller. The page about an unknown link or a blocked seller names no seller.
 */
const find = async (tx: Tx, platform: Platform, secret: string) => {
  const absent = new ResourceNotFound()
  pageInstead.set(absent, { view: { kind: 'checkout-closed', reason: 'unknown', seller: null, return_url: null }, seller: null })
  const reading = readToken(secret)
  if (typeof reading !== 'object' || reading.kind !== 'checkout_link') throw absent
  const hashes = platform.hasher.candidates(new Secret(secret))
  const found = await findLinkBySecretHash(tx, hashes)
  const products = found?.products.filter(isOnSale) ?? []
  if (found && products.length > 0 && capabilities[found.seller.status].api_access) return { ...found, products }
  const ended = await findLinkSeller(tx, hashes)
  if (ended && capabilities[ended.seller.status].api_access)
    pageInstead.set(absent, {
      view: { kind: 'checkout-closed', reason: 'ended', seller: null, return_url: ended.return_url },
      seller: lookOf(ended.seller),
    })
  throw absent
}

/** Finds the seller of a link by its secret, for a page about an error. The link may have ended. */
export const sellerOfLink = async (db: Db, platform: Platform, secret: string): Promise<Seller | undefined> => {
  const reading = readToken(secret)
  if (typeof reading !== 'object' || reading.kind !== 'checkout_link') return undefined
  const found = await findLinkSeller(db, platform.hasher.candidates(new Secret(secret)))
  return found?.seller
}

/** Returns the value if it is valid for this field in a create request of the seller. Otherwise returns undefined. */
const taken = <F extends 'amount' | 'customer_email' | 'customer_name' | 'locale' | 'embed_origin'>(field: F, value: unknown): Create[F] | undefined => {
  const read = CheckoutCreate.shape[field].safeParse(value)
  return read.success ? (read.data as Create[F]) : undefined
}

/** Returns the origin of the embedding page, or null if it is not allowed. Every origin is allowed until the seller has listed hosts. */
const embeddedIn = (hosts: readonly string[], value: string | undefined): string | null => {
  if (value === undefined) return null
  const origin = taken('embed_origin', value) ?? null
  if (hosts.length === 0) return origin
  const url = origin !== null && URL.canParse(origin) ? new URL(origin) : undefined
  const allowed = hosts.some((host) =>
    host.startsWith('*.') ? [url?.host, url?.hostname].some((name) => name?.endsWith(host.slice(1))) : [url?.host, url?.hostname].includes(host),
  )
  if (!allowed) throw new EmbedHostNotAllowed()
  return origin
}

/** Merges tracking parameters into the metadata of the link. Keys of the link take precedence. */
const metadataOf = ({ metadata }: LinkRow, one: (name: string) => string | undefined): Metadata => {
  const said = tracked.flatMap((name) => {
    const value = one(name)
    return value === undefined || value.length > 500 || name in metadata ? [] : [[name, value] as const]
  })
  return { ...metadata, ...Object.fromEntries(said.slice(0, pairs - Object.keys(metadata).length)) }
}

/** Reads the answers to the custom fields of the chosen product, each converted to the type of its field. */
const answersOf = ({ fields }: LoadedProduct, one: (name: string) => string | undefined): CustomFieldData =>
  Object.fromEntries(
    fields.flatMap(({ custom_field: { slug, type } }) => {
      const text = one(`${answer}${slug}`)
      if (text === undefined) return []
      const value = type === 'number' ? (/^-?\d{1,10}$/.test(text) ? Number(text) : text) : type === 'checkbox' ? (truths[text.toLowerCase()] ?? text) : text
      return CheckoutCreate.shape.custom_field_data.safeParse({ [slug]: value }).success ? [[slug, value]] : []
    }),
  )

const truths: Readonly<Record<string, boolean>> = { true: true, '1': true, on: true, yes: true, false: false, '0': false, off: false, no: false }
