import {
  invalidAt,
  InvalidRequest,
  ResourceNotFound,
  type CheckoutLink,
  type CheckoutLinkCreate,
  type CheckoutLinkUpdate,
  type Invalid,
} from '@bursar/contract'
import { narrowed, organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { newToken } from '../../../kernel/secrets.ts'
import { inWallTime } from '../../../platform/clocks.sql.ts'
import type { BusinessTx, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { QuantityBeyondTiers, tierAmount } from '../../billing/index.ts'
import { findDiscount, loadPrices, loadProducts, presentDiscountBase, presentProduct, type DiscountTable, type LoadedProduct } from '../../catalog/index.ts'
import { addCredential } from '../../identity/index.ts'
import { permit } from '../../organizations/index.ts'
import { nameProducts } from '../checkouts/offering.ts'
import {
  changeLink,
  dropOffer,
  holdOffered,
  insertLink,
  loadLinks,
  lockLink,
  lockLinksOffering,
  replaceOffers,
  type LinkRow,
  type LoadedLink,
} from './links.sql.ts'

/** Converts the link to its API representation. */
export const presentCheckoutLink = ({ link, products, discount }: LoadedLink, { sealer, config }: Platform): CheckoutLink => {
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

/**
 * Creates a link that leads to a payable checkout. Its products must be on sale, and its number of seats must have a
 * price. A trial needs a recurring product.
 */
export const createCheckoutLink = async (tx: BusinessTx, scope: TenantScope, platform: Platform, body: CheckoutLinkCreate): Promise<LoadedLink> => {
  const { ids, place } = await named(tx, scope, body)
  const products = await holdOffer(tx, scope, ids, place)
  const { organization_id } = products[0]!.product
  const { discount, problems } = await readDiscount(tx, scope, organization_id, body.discount_id)
  refuse([...trialProblems(products, body), ...seatProblems(products, body.seats), ...problems])
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
  await insertLink(tx, link, ids)
  await addCredential(tx, platform.hasher, secret, { kind: 'checkout_link', subject_id: id, organization_id })
  return { link, products, discount }
}

/**
 * Updates the given fields of a link and keeps the others. Rejects a requested trial or number of seats that the products
 * do not support. A stored trial or number of seats that they do not support is removed.
 */
export const updateCheckoutLink = async (tx: BusinessTx, scope: TenantScope, id: string, body: CheckoutLinkUpdate): Promise<LoadedLink> => {
  const link = await hold(tx, scope, id)
  const { organization_id } = link
  const before = (await loadLinks(tx, organization_id, [link]))[0]!
  const products = body.products ? await holdOffer(tx, narrowed(scope, organization_id), body.products) : before.products
  const { discount, problems } = body.discount_id === undefined ? { ...before, problems: [] } : await readDiscount(tx, scope, organization_id, body.discount_id)
  refuse([...trialProblems(products, body), ...seatProblems(products, body.seats), ...problems])
  const set = <T>(value: T | undefined, now: T): T => (value === undefined ? now : value)
  const next: LinkRow = {
    ...link,
    label: set(body.label, link.label),
    discount_id: set(body.discount_id, link.discount_id),
    allow_discount_codes: body.allow_discount_codes ?? link.allow_discount_codes,
    require_billing_address: body.require_billing_address ?? link.require_billing_address,
    seats: set(body.seats, link.seats),
    // The trial interval and its count are set together. An omitted or null one is set to null.
    ...(body.trial_interval === undefined && body.trial_interval_count === undefined
      ? {}
      : { trial_interval: body.trial_interval ?? null, trial_interval_count: body.trial_interval_count ?? null }),
    success_url: set(body.success_url, link.success_url),
    return_url: set(body.return_url, link.return_url),
    metadata: body.metadata ?? link.metadata,
  }
  if (body.products) await replaceOffers(tx, link, body.products)
  return { link: await changeLink(tx, link, { ...next, ...unfit(next, products) }), products, discount }
}

export const deleteCheckoutLink = async (tx: BusinessTx, scope: TenantScope, id: string): Promise<void> => end(tx, await hold(tx, scope, id))

/** Removes an archived product from its links. Deletes links without products. Does nothing if the product was unarchived meanwhile. */
export const productArchived = ({ transact }: Deps, { organization_id, product_id }: { organization_id: string; product_id: string }): Promise<void> =>
  transact(async (tx) => {
    const [found] = await loadProducts(tx, [{ tenant: organization_id, id: product_id }])
    if (!found?.product.is_archived) return
    const links = await lockLinksOffering(tx, organization_id, product_id)
    if (links.length === 0) return
    await dropOffer(tx, organization_id, links, product_id)
    for (const { link, products } of await loadLinks(tx, organization_id, links)) {
      if (products.length === 0) await end(inWallTime(tx), link)
      else await changeLink(inWallTime(tx), link, unfit(link, products))
    }
  })

/** Ends the link. The hash of its secret stays, so that a visitor of the old address can be told who the seller is. */
const end = async (tx: BusinessTx, link: Locked<LinkRow>): Promise<void> => {
  await changeLink(tx, link, { deleted_at: tx.clock.business() })
}

const hold = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<LinkRow>> => {
  const link = await lockLink(tx, scope, id)
  if (!link) throw new ResourceNotFound()
  permit(scope, link.organization_id, 'sales:manage')
  return link
}

/** Returns the ids of the products that the request names with `products`, `product_id` or a price id. */
const named = async (tx: Tx, scope: TenantScope, body: CheckoutLinkCreate): Promise<{ ids: readonly string[]; place?: () => string[] }> => {
  if ('products' in body) return { ids: body.products }
  if ('product_id' in body) return { ids: [body.product_id], place: () => ['body', 'product_id'] }
  const { product_price_id: id } = body
  const prices = await loadPrices(
    tx,
    organizationIds(scope).map((tenant) => ({ tenant, id })),
  )
  const price = prices.find(({ source, is_archived }) => source === 'catalog' && !is_archived)
  if (!price) throw new InvalidRequest(invalidAt(['body', 'product_price_id'], 'There is no price with this id, or it is archived.', id))
  return { ids: [price.product_id], place: () => ['body', 'product_price_id'] }
}

/**
 * Locks the products until the link is committed, and then loads them. A concurrent request that archives a product waits
 * for the lock. Its job then finds the new link and removes the product.
 */
const holdOffer = async (tx: Tx, scope: TenantScope, ids: readonly string[], place?: () => string[]): Promise<LoadedProduct[]> => {
  await holdOffered(tx, scope, ids)
  return nameProducts(tx, scope, ids, place)
}

const refuse = (problems: readonly Invalid[]) => {
  if (problems.length > 0) throw new InvalidRequest(problems)
}

const recurs = (products: readonly LoadedProduct[]): boolean => products.some(({ product }) => product.recurring_interval !== null)

const trialProblems = (products: readonly LoadedProduct[], { trial_interval, trial_interval_count }: CheckoutLinkUpdate): Invalid[] => {
  const problem = (field: string, msg: string, input?: unknown): Invalid[] => [invalidAt(['body', field], msg, input)]
  if (trial_interval && !trial_interval_count) return problem('trial_interval_count', 'Give trial_interval_count together with trial_interval.')
  if (!trial_interval && trial_interval_count) return problem('trial_interval', 'Give trial_interval together with trial_interval_count.')
  return trial_interval && !recurs(products) ? problem('trial_interval', 'A one-time product has no trial.', trial_interval) : []
}

/** Returns true if every product is sold by the seat, and has a price for this number of seats. */
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
  !seats || areSold(products, seats) ? [] : [invalidAt(['body', 'seats'], 'This number of seats is not available for every product of this link.', seats)]

/** Returns the changes that clear the trial and the seats of a link if its products do not support them. */
const unfit = ({ seats }: LinkRow, products: readonly LoadedProduct[]): Partial<LinkRow> => ({
  ...(recurs(products) ? {} : { trial_interval: null, trial_interval_count: null }),
  ...(seats === null || areSold(products, seats) ? {} : { seats: null }),
})

const readDiscount = async (
  tx: Tx,
  scope: TenantScope,
  organization_id: string,
  id: string | null | undefined,
): Promise<{ discount: DiscountTable | null; problems: Invalid[] }> => {
  const discount = id ? ((await findDiscount(tx, narrowed(scope, organization_id), id)) ?? null) : null
  return { discount, problems: id && !discount ? [invalidAt(['body', 'discount_id'], 'There is no discount with this id.', id)] : [] }
}
