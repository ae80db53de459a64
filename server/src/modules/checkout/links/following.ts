import { CheckoutCreate, EmbedHostNotAllowed, InvalidRequest, ResourceNotFound, type CustomFieldData, type Metadata } from '@bursar/contract'
import { within, type TenantScope } from '../../../kernel/actors.ts'
import { readToken, Secret } from '../../../kernel/secrets.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { findDiscount, findDiscountByCode, type LoadedProduct } from '../../catalog/index.ts'
import { capabilities } from '../../organizations/index.ts'
import { createFrom, type Create, type Offer } from '../checkouts/creating.ts'
import { isOnSale } from '../checkouts/offering.ts'
import { presentCheckout } from '../checkouts/opening.ts'
import { findLinkBySecretHash, type LinkRow } from './links.sql.ts'

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
export const follow = async (tx: Tx, platform: Platform, secret: string, address: string): Promise<string> => {
  const { link, products, ...offeredBy } = await find(tx, platform, secret)
  const { seller } = offeredBy
  const scope = within(seller.id, 'machine', seller.member_phase)
  const said = new URLSearchParams(address)
  const one = (name: string) => said.getAll(name).find((value) => value !== '' && !value.includes('\0'))
  const chosen = products.find(({ product }) => product.id === one('product_id')?.toLowerCase()) ?? products[0]!
  const code = link.allow_discount_codes ? one('discount_code') : undefined
  const discounts = [code && (await findDiscountByCode(tx, scope, code))?.id, link.discount_id].filter((id) => typeof id === 'string')
  const amount = one('amount')
  const offer: Offered = { ...offeredBy, products: [chosen, ...products.filter((product) => product !== chosen)] }
  const opened = await createFitting(tx, scope, platform, offer, discounts, {
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

/** Finds the link of a secret. Unknown links, deleted links and links without a product on sale all get 404. */
const find = async (tx: Tx, platform: Platform, secret: string) => {
  const reading = readToken(secret)
  if (typeof reading !== 'object' || reading.kind !== 'checkout_link') throw new ResourceNotFound()
  const found = await findLinkBySecretHash(tx, platform.hasher.candidates(new Secret(secret)))
  if (!found || !capabilities[found.seller.status].api_access) throw new ResourceNotFound()
  const { link, seller, publishable_key } = found
  const products = found.products.filter(isOnSale)
  if (products.length === 0) throw new ResourceNotFound()
  return { link, products, seller, publishable_key }
}

/**
 * Creates the checkout with the first discount that applies. If values of the visitor are rejected, tries again without
 * them. That is safe, because `createFrom` validates everything before it writes.
 */
const createFitting = async (tx: Tx, scope: TenantScope, platform: Platform, offer: Offered, discounts: readonly string[], body: Create) => {
  let [wish, left] = [body, discounts]
  for (;;)
    try {
      const [discount_id] = left
      const discount = discount_id === undefined ? null : ((await findDiscount(tx, scope, discount_id)) ?? null)
      return await createFrom(tx, platform, { ...offer, customer: null, upgraded: null, discount }, { ...wish, discount_id: discount_id ?? null })
    } catch (error) {
      if (!(error instanceof InvalidRequest)) throw error
      const refused = new Set(error.problems.map(({ loc }) => loc[1]))
      const wrong = new Set(error.problems.flatMap(({ loc }) => (loc[1] === 'custom_field_data' ? [loc[2]] : [])))
      const next: Create = {
        ...wish,
        ...(refused.has('amount') ? { amount: null } : {}),
        ...(['seats', 'min_seats', 'max_seats'].some((field) => refused.has(field)) ? { seats: null, min_seats: null, max_seats: null } : {}),
        custom_field_data: Object.fromEntries(Object.entries(wish.custom_field_data ?? {}).filter(([slug]) => !wrong.has(slug))),
      }
      const fewer = refused.has('discount_id') ? left.slice(1) : left
      // No value was removed in this round, so the error is caused by the link itself.
      if (fewer.length === left.length && JSON.stringify(next) === JSON.stringify(wish)) throw error
      ;[wish, left] = [next, fewer]
    }
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
