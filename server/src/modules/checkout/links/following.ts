import { CheckoutCreate, EmbedHostNotAllowed, InvalidRequest, ResourceNotFound, type CustomFieldData, type Metadata } from '@bursar/contract'
import { within, type Reach } from '../../../kernel/actors.ts'
import { readToken, Secret } from '../../../kernel/secrets.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { findDiscountByCode, type LoadedProduct } from '../../catalog/index.ts'
import { findSubject } from '../../identity/index.ts'
import { findSeller } from '../../organizations/index.ts'
import { create, type Create } from '../checkouts/checkouts.ts'
import { isOnSale } from '../checkouts/offering.ts'
import { present } from '../checkouts/opening.ts'
import { findLink, type LinkRow } from './links.sql.ts'

/** What a visitor's address may say of who came how. */
const tracked = ['reference_id', 'utm_source', 'utm_medium', 'utm_campaign', 'utm_term', 'utm_content'] as const
const filling = ['product_id', 'amount', 'customer_email', 'customer_name', 'discount_code', 'locale', 'embed_origin'] as const
const answer = 'custom_field_data.'
const pairs = 50

/**
 * Makes a checkout of the visitor's own, and tells where it is. What the address says beside the link is taken as far as it
 * fits, and is never a reason to send anybody away; nor is a discount that does not count, or seats that are not sold now.
 */
export const follow = async (tx: Tx, platform: Platform, secret: string, address: string): Promise<string> => {
  const { seller, reach, link, products } = await find(tx, platform, secret)
  const said = new URLSearchParams(address)
  const one = (name: string) => said.getAll(name).find((value) => value !== '' && !value.includes('\0'))
  const chosen = products.find(({ product }) => product.id === one('product_id')?.toLowerCase()) ?? products[0]!
  const code = link.allow_discount_codes ? one('discount_code') : undefined
  const discounts = [code && (await findDiscountByCode(tx, reach, code))?.id, link.discount_id].filter((id) => typeof id === 'string')
  const amount = one('amount')
  const opened = await createFitting(tx, reach, platform, discounts, {
    products: [chosen, ...products.filter((product) => product !== chosen)].map(({ product }) => product.id),
    allow_trial: true,
    trial_interval: link.trial_interval,
    trial_interval_count: link.trial_interval_count,
    allow_discount_codes: link.allow_discount_codes,
    require_billing_address: link.require_billing_address,
    // So many and no others: the buyer cannot choose.
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
  const page = new URL(present(opened, platform).url)
  const known: readonly string[] = [...tracked, ...filling]
  for (const [name, value] of said) if (!known.includes(name) && !name.startsWith(answer)) page.searchParams.append(name, value)
  return page.href
}

/** A link that was deleted, or has nothing left to offer, is as absent as one that never was. */
const find = async (tx: Tx, platform: Platform, secret: string) => {
  const reading = readToken(secret)
  const subject = typeof reading === 'object' && reading.kind === 'checkout_link' ? await findSubject(tx, platform.hasher, new Secret(secret)) : undefined
  const seller = subject?.kind === 'checkout_link' ? await findSeller(tx, { id: subject.organization_id! }) : undefined
  if (!subject || !seller) throw new ResourceNotFound()
  const reach = within(seller.id, 'machine', seller.member_phase)
  const found = await findLink(tx, reach, subject.subject_id)
  const products = found?.products.filter(isOnSale) ?? []
  if (!found || products.length === 0) throw new ResourceNotFound()
  return { seller, reach, link: found.link, products }
}

/** Creates it with the first discount that counts, or none, and without whatever is refused. Nothing is written before all is known to fit. */
const createFitting = async (tx: Tx, reach: Reach, platform: Platform, discounts: readonly string[], body: Create) => {
  let [wish, left] = [body, discounts]
  for (;;)
    try {
      return await create(tx, reach, platform, { ...wish, discount_id: left[0] ?? null })
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
      // What is refused now was not the visitor's.
      if (fewer.length === left.length && JSON.stringify(next) === JSON.stringify(wish)) throw error
      ;[wish, left] = [next, fewer]
    }
}

/** A value, if the checkout would take it from its seller. */
const taken = <F extends 'amount' | 'customer_email' | 'customer_name' | 'locale' | 'embed_origin'>(field: F, value: unknown): Create[F] | undefined => {
  const read = CheckoutCreate.shape[field].safeParse(value)
  return read.success ? (read.data as Create[F]) : undefined
}

/** The page that shows the checkout in a frame: any, until the seller has said which may. */
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

/** Where the visitor came from, beside what the link says of itself, which stays as it is. */
const metadataOf = ({ metadata }: LinkRow, one: (name: string) => string | undefined): Metadata => {
  const said = tracked.flatMap((name) => {
    const value = one(name)
    return value === undefined || value.length > 500 || name in metadata ? [] : [[name, value] as const]
  })
  return { ...metadata, ...Object.fromEntries(said.slice(0, pairs - Object.keys(metadata).length)) }
}

/** Answers to what the chosen product asks, read as what they are answers to. */
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
