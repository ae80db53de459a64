import { CheckoutCustomerDeleted, CheckoutNotRenewable, InvalidRequest } from '@bursar/contract'
import { within } from '../../../kernel/actors.ts'
import { later } from '../../../platform/clock.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { findSubscription, isUpgradable } from '../../billing/index.ts'
import { capabilities } from '../../organizations/index.ts'
import type { Seller } from '../records/sellers.sql.ts'
import { inItsTime, isExpired, lockBySecret, unlessLocked } from './checkouts.ts'
import { lockSuccessor, type CheckoutRow } from './checkouts.sql.ts'
import type { Create } from './creating.ts'
import { copyDraft, keptAfterExpiry } from './drafts.ts'
import { createFitting } from './fitting.ts'
import { openCheckout, type Opened } from './loading.sql.ts'
import { isOnSale } from './offering.ts'
import { findParties } from './parties.sql.ts'

/**
 * Renews the expired checkout of a client secret: creates a checkout of the same products at today's catalog prices, and
 * copies choices, buyer and draft. Idempotent: a checkout has one successor. If that successor is open, returns it. If
 * it has expired too, renews it. A secret shows nothing once its checkout has been expired for a week.
 */
export const renewCheckout = async (tx: Tx, platform: Platform, client_secret: string): Promise<Opened> => {
  // The lock excludes a second renewal of the same checkout.
  const { checkout, seller } = await lockBySecret(tx, platform, client_secret)
  if (!capabilities[seller.status].api_access) throw new CheckoutNotRenewable('The seller sells nothing at the moment.')
  return renewLocked(tx, platform, seller, checkout)
}

const renewLocked = async (tx: Tx, platform: Platform, seller: Seller, checkout: Locked<CheckoutRow>): Promise<Opened> => {
  const now = (await inItsTime(tx, checkout)).clock.business()
  if (!isExpired(checkout, now)) throw new CheckoutNotRenewable('This checkout has not expired.')
  // An old address may be known to others. It must not show the data of the buyer.
  if (later(checkout.expires_at, keptAfterExpiry) <= now)
    throw new CheckoutNotRenewable('This checkout expired more than a week ago. Ask the seller for a new one.')
  const successor = await unlessLocked(() => lockSuccessor(tx, checkout))
  if (!successor) return replace(tx, platform, seller, checkout)
  if (isExpired(successor, (await inItsTime(tx, successor)).clock.business())) return renewLocked(tx, platform, seller, successor)
  // The client secret of a paid checkout ends soon. The secret of its predecessor must not show the purchase for longer.
  if (successor.status === 'confirmed') throw new CheckoutNotRenewable('This checkout was renewed, and the new one is being paid.')
  if (successor.status !== 'open') throw new CheckoutNotRenewable('This checkout was renewed, and the new one has been paid.')
  return openCheckout(tx, successor)
}

const replace = async (tx: Tx, platform: Platform, seller: Seller, checkout: Locked<CheckoutRow>): Promise<Opened> => {
  const scope = within(seller.id, 'machine', seller.member_phase)
  const { products } = await openCheckout(tx, checkout)
  if (products.some(({ prices }) => prices.some(({ source }) => source !== 'catalog')))
    throw new CheckoutNotRenewable('The seller offered this checkout at prices of its own. Ask the seller for a new one.')
  const chosen = products.find(({ product }) => product.id === checkout.product_id)
  if (!chosen || !isOnSale(chosen)) throw new CheckoutNotRenewable('The product of this checkout is no longer sold.')
  const upgraded = checkout.subscription_id === null ? null : (await findSubscription(tx, scope, checkout.subscription_id))?.subscription
  if (upgraded === undefined || (upgraded && !isUpgradable(upgraded)))
    throw new CheckoutNotRenewable('The subscription can no longer be upgraded by a checkout.')
  const parties = await findParties(tx, scope, seller.id, { customer: checkout.is_bound ? { id: checkout.customer_id! } : null, discount_id: null })
  if (checkout.is_bound && !parties.customer) throw new CheckoutCustomerDeleted()
  // The chosen product comes first, because a new checkout selects the first one.
  const offered = [chosen, ...products.filter((one) => one !== chosen && isOnSale(one))]
  const renewed = await create(tx, scope, platform, { ...parties, products: offered, upgraded, renews: checkout.id }, checkout)
  await copyDraft(tx, platform, checkout, renewed.checkout)
  return renewed
}

const create = async (
  tx: Tx,
  scope: Parameters<typeof createFitting>[1],
  platform: Platform,
  offer: Parameters<typeof createFitting>[3],
  checkout: CheckoutRow,
): Promise<Opened> => {
  try {
    return await createFitting(tx, scope, platform, offer, checkout.discount_id === null ? [] : [checkout.discount_id], choicesOf(offer, checkout))
  } catch (error) {
    // The request has no fields, so a validation error would not help the buyer.
    if (error instanceof InvalidRequest) throw new CheckoutNotRenewable('The seller has changed the offer of this checkout. Ask the seller for a new one.')
    throw error
  }
}

/** Returns the terms, the choices and the buyer of a checkout as a request that creates a checkout. */
const choicesOf = ({ products }: Parameters<typeof createFitting>[3], checkout: CheckoutRow): Create => ({
  products: products.map(({ product }) => product.id),
  amount: checkout.chosen_amount,
  seats: checkout.seats,
  min_seats: checkout.min_seats,
  max_seats: checkout.max_seats,
  // Stored values satisfy the schema of a request.
  currency: checkout.currency as Create['currency'],
  allow_discount_codes: checkout.allow_discount_codes,
  require_billing_address: checkout.require_billing_address,
  allow_trial: checkout.allow_trial ?? true,
  trial_interval: checkout.trial_interval,
  trial_interval_count: checkout.trial_interval_count,
  external_customer_id: checkout.external_customer_id,
  is_business_customer: checkout.is_business_customer,
  customer_name: checkout.customer_name,
  customer_email: checkout.customer_email,
  customer_billing_name: checkout.customer_billing_name,
  customer_billing_address: checkout.customer_billing_address as Create['customer_billing_address'],
  customer_tax_id: checkout.customer_tax_id,
  customer_ip_address: checkout.customer_ip_address,
  customer_metadata: checkout.customer_metadata,
  locale: checkout.locale,
  metadata: checkout.metadata,
  custom_field_data: checkout.custom_field_data,
  success_url: checkout.success_url,
  return_url: checkout.return_url,
  embed_origin: checkout.embed_origin,
})
