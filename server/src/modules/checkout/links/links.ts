import {
  invalidAt,
  InvalidRequest,
  ResourceNotFound,
  type CheckoutLink,
  type CheckoutLinkCreate,
  type CheckoutLinkUpdate,
  type Invalid,
} from '@bursar/contract'
import { narrowed, organizationIds, type Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { newToken } from '../../../kernel/secrets.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means, Platform } from '../../handlers.ts'
import { QuantityBeyondTiers, tierAmount } from '../../billing/index.ts'
import { findDiscount, holdProducts, loadPrices, loadProducts, presentDiscountBase, presentProduct, type LoadedProduct } from '../../catalog/index.ts'
import { addCredential, dropCredentials } from '../../identity/index.ts'
import { permit } from '../../organizations/index.ts'
import { nameProducts } from '../checkouts/offering.ts'
import { changeLink, dropOffer, insertLink, loadLinks, lockLink, lockLinksOffering, replaceOffers, type LinkRow, type LoadedLink } from './links.sql.ts'

/** The link as its seller sees it. */
export const present = ({ link, products, discount }: LoadedLink, { sealer, config }: Platform): CheckoutLink => {
  const { secret_sealed, deleted_at: _, ...shown } = link
  const client_secret = sealer.open(secret_sealed, link.id).reveal()
  return {
    ...shown,
    payment_processor: 'stripe',
    client_secret,
    url: new URL(`/v1/checkout-links/${client_secret}/redirect`, config.public_url).href,
    products: products.map(presentProduct),
    discount_id: discount?.id ?? null,
    discount: discount && presentDiscountBase(discount),
  }
}

/** A link that is made leads to a checkout that can be paid: its products are on sale, its seats have a price, its trial something to try. */
export const create = async (tx: Tx, reach: Reach, platform: Platform, body: CheckoutLinkCreate): Promise<LoadedLink> => {
  const { ids, place } = await named(tx, reach, body)
  const products = await holdOffer(tx, reach, ids, place)
  const { organization_id } = products[0]!.product
  refuse([...trialProblems(products, body), ...seatProblems(products, body.seats), ...(await discountProblems(tx, reach, organization_id, body.discount_id))])
  const id = newId(tx.clock.wall())
  const secret = newToken('checkout_link', platform.config.environment)
  const link: LinkRow = {
    organization_id,
    id,
    created_at: tx.clock.business(),
    modified_at: null,
    deleted_at: null,
    secret_sealed: platform.sealer.seal(secret, id),
    label: body.label ?? null,
    discount_id: body.discount_id ?? null,
    allow_discount_codes: body.allow_discount_codes,
    require_billing_address: body.require_billing_address,
    seats: body.seats ?? null,
    trial_interval: body.trial_interval ?? null,
    trial_interval_count: body.trial_interval_count ?? null,
    success_url: body.success_url ?? null,
    return_url: body.return_url ?? null,
    metadata: body.metadata ?? {},
  }
  await insertLink(tx, link)
  await replaceOffers(tx, link, ids)
  await addCredential(tx, platform.hasher, secret, { kind: 'checkout_link', subject_id: id, organization_id })
  return (await loadLinks(tx, [link]))[0]!
}

/** Changes what is given and leaves what is absent. What does not fit other products any more is dropped; what was asked for with them is refused. */
export const update = async (tx: Tx, reach: Reach, id: string, body: CheckoutLinkUpdate): Promise<LoadedLink> => {
  const link = await hold(tx, reach, id)
  const { organization_id } = link
  const before = (await loadLinks(tx, [link]))[0]!
  const products = body.products ? await holdOffer(tx, narrowed(reach, organization_id), body.products) : before.products
  refuse([...trialProblems(products, body), ...seatProblems(products, body.seats), ...(await discountProblems(tx, reach, organization_id, body.discount_id))])
  const set = <T>(value: T | undefined, now: T): T => (value === undefined ? now : value)
  const next: LinkRow = {
    ...link,
    label: set(body.label, link.label),
    discount_id: set(body.discount_id, link.discount_id),
    allow_discount_codes: body.allow_discount_codes ?? link.allow_discount_codes,
    require_billing_address: body.require_billing_address ?? link.require_billing_address,
    seats: set(body.seats, link.seats),
    // The two go together: null for one is none of both.
    ...(body.trial_interval === undefined && body.trial_interval_count === undefined
      ? {}
      : { trial_interval: body.trial_interval ?? null, trial_interval_count: body.trial_interval_count ?? null }),
    success_url: set(body.success_url, link.success_url),
    return_url: set(body.return_url, link.return_url),
    metadata: body.metadata ?? link.metadata,
  }
  if (body.products) await replaceOffers(tx, link, body.products)
  return (await loadLinks(tx, [await changeLink(tx, link, { ...next, ...unfit(next, products) })]))[0]!
}

export const remove = async (tx: Tx, reach: Reach, id: string): Promise<void> => end(tx, await hold(tx, reach, id))

/** A product that is not sold any more leaves the links that offer it, and a link that offers nothing ends. Sold again meanwhile, it stays. */
export const productArchived = ({ transact }: Means, { organization_id, product_id }: { organization_id: string; product_id: string }): Promise<void> =>
  transact(async (tx) => {
    const [found] = await loadProducts(tx, [{ tenant: organization_id, id: product_id }])
    if (!found?.product.is_archived) return
    for (const link of await lockLinksOffering(tx, organization_id, product_id)) {
      await dropOffer(tx, link, product_id)
      const { products } = (await loadLinks(tx, [link]))[0]!
      if (products.length === 0) await end(tx, link)
      else await changeLink(tx, link, unfit(link, products))
    }
  })

const end = async (tx: Tx, link: Locked<LinkRow>): Promise<void> => {
  await changeLink(tx, link, { deleted_at: tx.clock.business() })
  await dropCredentials(tx, 'checkout_link', link.id)
}

const hold = async (tx: Tx, reach: Reach, id: string): Promise<Locked<LinkRow>> => {
  const link = await lockLink(tx, reach, id)
  if (!link) throw new ResourceNotFound()
  permit(reach, link.organization_id, 'sales:manage')
  return link
}

/** What the request names, in any of three ways. */
const named = async (tx: Tx, reach: Reach, body: CheckoutLinkCreate): Promise<{ ids: readonly string[]; place?: () => string[] }> => {
  if ('products' in body) return { ids: body.products }
  if ('product_id' in body) return { ids: [body.product_id], place: () => ['body', 'product_id'] }
  const { product_price_id: id } = body
  const prices = await loadPrices(
    tx,
    organizationIds(reach).map((tenant) => ({ tenant, id })),
  )
  const price = prices.find(({ source, is_archived }) => source === 'catalog' && !is_archived)
  if (!price) throw new InvalidRequest(invalidAt(['body', 'product_price_id'], 'There is no price with this id, or it is archived.', id))
  return { ids: [price.product_id], place: () => ['body', 'product_price_id'] }
}

/** Held until the link is written: one that is archived meanwhile waits, and finds the link that it has to leave. */
const holdOffer = async (tx: Tx, reach: Reach, ids: readonly string[], place?: () => string[]): Promise<LoadedProduct[]> => {
  const [first] = await nameProducts(tx, reach, ids, place)
  await holdProducts(tx, first!.product.organization_id, ids)
  return nameProducts(tx, reach, ids, place)
}

const refuse = (problems: readonly Invalid[]) => {
  if (problems.length > 0) throw new InvalidRequest(problems)
}

const recurs = (products: readonly LoadedProduct[]): boolean => products.some(({ product }) => product.recurring_interval !== null)

const trialProblems = (products: readonly LoadedProduct[], { trial_interval, trial_interval_count }: CheckoutLinkUpdate): Invalid[] => {
  const problem = (field: string, msg: string, input?: unknown): Invalid[] => [invalidAt(['body', field], msg, input)]
  if (trial_interval && !trial_interval_count) return problem('trial_interval_count', 'Give trial_interval_count together with trial_interval.')
  if (!trial_interval && trial_interval_count) return problem('trial_interval', 'Give trial_interval together with trial_interval_count.')
  return trial_interval && !recurs(products) ? problem('trial_interval', 'What is sold once has no trial.', trial_interval) : []
}

/** Whether every product is sold by the seat, and so many of them at each of its prices. */
const areSold = (products: readonly LoadedProduct[], seats: number): boolean =>
  products.every(({ prices }) => {
    const seated = prices.filter(({ amount_type }) => amount_type === 'seat_based')
    try {
      for (const { seat_tiers } of seated) tierAmount(seat_tiers!, seats)
      return seated.length > 0
    } catch (error) {
      if (error instanceof QuantityBeyondTiers) return false
      throw error
    }
  })

const seatProblems = (products: readonly LoadedProduct[], seats: number | null | undefined): Invalid[] =>
  !seats || areSold(products, seats) ? [] : [invalidAt(['body', 'seats'], 'So many seats cannot be bought of every product of this link.', seats)]

/** What of a link its products have no use for, taken away. */
const unfit = ({ seats }: LinkRow, products: readonly LoadedProduct[]): Partial<LinkRow> => ({
  ...(recurs(products) ? {} : { trial_interval: null, trial_interval_count: null }),
  ...(seats === null || areSold(products, seats) ? {} : { seats: null }),
})

const discountProblems = async (tx: Tx, reach: Reach, organization_id: string, id: string | null | undefined): Promise<Invalid[]> =>
  !id || (await findDiscount(tx, narrowed(reach, organization_id), id)) ? [] : [invalidAt(['body', 'discount_id'], 'There is no discount with this id.', id)]
