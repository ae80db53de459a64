import {
  AlreadyActiveSubscriptionError,
  CheckoutLocked,
  DiscountRedemptionLimitReached,
  ExpiredCheckoutError,
  invalidAt,
  InvalidRequest,
  NotOpenCheckout,
  ResourceNotFound,
  type CheckoutUpdate,
  type CheckoutUpdatePublic,
  type Invalid,
} from '@bursar/contract'
import type { z } from 'zod'
import { within, type TenantScope } from '../../../kernel/actors.ts'
import { readToken, Secret } from '../../../kernel/secrets.ts'
import { minutes } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { BusinessTx, Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { findSubscription, hasBillableSubscription, isUpgradable } from '../../billing/index.ts'
import { findDiscount, findDiscountByCode, readAnswers, type DiscountRow, type PriceRow } from '../../catalog/index.ts'
import { clockOf } from '../../customers/index.ts'
import { type Seller } from '../records/sellers.sql.ts'
import { changeCheckout, isSubscribing, lockCheckout, usesOf, type CheckoutRow } from './checkouts.sql.ts'
import { checkTaxId, chooseCurrency, figured, fit, isUsedUp, readBilling } from './choices.ts'
import { countingDiscount, pricesIn } from './figures.ts'
import { findSellerBySecret, lockCheckoutBySecret, openCheckout, openCheckoutBySecret, type Opened, type PresentedSecret } from './loading.sql.ts'
import { basisOf, tellUpdated } from './opening.ts'

/**
 * Length of the welcome window. A buyer can get a portal session for this long after the confirmation. The client secret
 * stays valid for this long after the checkout has succeeded.
 */
export const welcome = 10 * minutes

/** Reads a client secret. Throws the same 404 as for an unknown secret if the text cannot be a client secret. */
export const presented = (platform: Platform, secret: string): PresentedSecret => {
  const reading = readToken(secret)
  if (typeof reading !== 'object' || reading.kind !== 'checkout') throw new ResourceNotFound()
  return { hashes: platform.hasher.candidates(new Secret(secret)), at: platform.clock.wall() }
}

export const existing = <T>(found: T | undefined): T => {
  if (found === undefined) throw new ResourceNotFound()
  return found
}

/** Finds the seller of a checkout by its client secret. An unknown secret and an expired one both get 404. */
export const sellerBySecret = async (db: Db, platform: Platform, secret: string): Promise<Seller> =>
  existing(await findSellerBySecret(db, presented(platform, secret)))

/** Finds the seller of a checkout for a page about an error. Undefined for an unknown and for an expired secret. */
export const findSellerOfCheckout = async (db: Db, { hasher, clock }: Platform, secret: string): Promise<Seller | undefined> => {
  const reading = readToken(secret)
  if (typeof reading !== 'object' || reading.kind !== 'checkout') return undefined
  return findSellerBySecret(db, { hashes: hasher.candidates(new Secret(secret)), at: clock.wall() })
}

/** Loads the checkout of a client secret for its buyer. An unknown secret and an expired one both get 404. */
export const openBySecret = async (db: Db, platform: Platform, secret: string) => existing(await openCheckoutBySecret(db, presented(platform, secret)))

/** Locks the checkout of a client secret. An unknown secret and an expired one both get 404. */
export const lockBySecret = async (tx: Tx, platform: Platform, secret: string) =>
  existing(await unlessLocked(() => lockCheckoutBySecret(tx, presented(platform, secret))))

export const requireLockedCheckout = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<CheckoutRow>> =>
  existing(await unlessLocked(() => lockCheckout(tx, scope, id)))

/** Throws `CheckoutLocked` if another transaction has locked the checkout. */
export const unlessLocked = async <T>(lock: () => Promise<T>): Promise<T> => {
  try {
    return await lock()
  } catch (error) {
    if ((error as { code?: string }).code === '55P03') throw new CheckoutLocked()
    throw error
  }
}

/** Returns the transaction on the clock of the checkout's customer. Without a customer it uses the wall clock. */
export const inItsTime = async (tx: Tx, checkout: CheckoutRow): Promise<BusinessTx> => inTimeOf(tx, await clockOf(tx, checkout))

export const isExpired = ({ status, expires_at }: Pick<CheckoutRow, 'status' | 'expires_at'>, now: Date): boolean =>
  status === 'expired' || (status === 'open' && expires_at <= now)

/** Returns the transaction on the clock of an open checkout. Throws if the checkout is not open or has expired. */
export const requireOpen = async (wall: Tx, checkout: Locked<CheckoutRow>): Promise<BusinessTx> => {
  const tx = await inItsTime(wall, checkout)
  if (isExpired(checkout, tx.clock.business())) throw new ExpiredCheckoutError()
  if (checkout.status !== 'open') throw new NotOpenCheckout()
  return tx
}

type CheckoutChange = Partial<z.output<typeof CheckoutUpdate> & Omit<z.output<typeof CheckoutUpdatePublic>, 'allow_trial'>>

/**
 * Applies a request to a checkout and recomputes every amount. Throws all problems together.
 * `complete` is set when the buyer confirms: then required fields must not be missing.
 */
export const applyToCheckout = async (
  tx: BusinessTx,
  platform: Platform,
  checkout: Locked<CheckoutRow>,
  body: CheckoutChange,
  { complete = false } = {},
): Promise<Opened> => {
  const before = await openCheckout(tx, checkout)
  const { seller } = before
  const problems: Invalid[] = []
  const product_id = body.product_id ?? checkout.product_id
  const product = before.products.find((one) => one.product.id === product_id)
  if (!product) throw new InvalidRequest(invalidAt(['body', 'product_id'], 'Choose one of the products of this checkout.', body.product_id))
  const isOther = product_id !== checkout.product_id
  if (product.product.is_archived) problems.push(invalidAt(['body', 'product_id'], 'This product is no longer sold.', product_id))
  const wanted = body.currency ?? (pricesIn(product.prices, checkout.currency).length > 0 ? checkout.currency : undefined)
  const currency = chooseCurrency(product.prices, wanted, seller)
  if (currency === undefined) problems.push(invalidAt(['body', 'currency'], 'The product has no price in this currency.', body.currency))
  const billing = readBilling(checkout, body)
  const business = body.is_business_customer ?? checkout.is_business_customer
  const becomesPrivate = checkout.is_business_customer && !business
  // A number that this request drops is not checked.
  const isAsked = !becomesPrivate && billing.problems.length === 0 && (complete || typeof body.customer_tax_id === 'string')
  const checked = await checkTaxId(tx, platform, seller.id, checkout, billing.changes, { isAsked })
  const chosen = { ...checkout, product_id, currency: currency ?? checkout.currency }
  const isOtherCurrency = chosen.currency !== checkout.currency
  if (complete && isRepriced(chosen, checkout, product.prices))
    problems.push(invalidAt(['body', 'product_id'], 'The price of this product has changed. Check the amount before you confirm.', product_id))
  const discount = await chooseDiscount(tx, seller, { ...before, checkout: chosen }, body, problems)
  const given = body.custom_field_data
  const answered = readAnswers(product.fields, complete && given ? given : { ...checkout.custom_field_data, ...given }, { complete })
  const keep = <T>(value: T | null | undefined, now: T): T => value ?? now
  const set = <T>(value: T | undefined, now: T): T => (value === undefined ? now : value)
  const next: CheckoutRow = {
    ...chosen,
    modified_at: tx.clock.business(),
    chosen_amount: set(body.amount, isOther || isOtherCurrency ? null : checkout.chosen_amount),
    seats: set(body.seats, isOther ? null : checkout.seats),
    ...billing.changes,
    customer_tax_id_status: checked.status,
    is_business_customer: business,
    customer_name: set(body.customer_name, checkout.customer_name),
    // If the checkout already has a customer, a typed address is ignored.
    customer_email: checkout.customer_id === null ? set(body.customer_email, checkout.customer_email) : checkout.customer_email,
    customer_billing_name: set(body.customer_billing_name, checkout.customer_billing_name),
    locale: set(body.locale, checkout.locale),
    payment_method_type: set(body.payment_method_type, checkout.payment_method_type),
    custom_field_data: answered.answers,
    discount_id: discount?.id ?? null,
    trial_interval: set(body.trial_interval, checkout.trial_interval),
    trial_interval_count: set(body.trial_interval_count, checkout.trial_interval_count),
    allow_trial: keep(body.allow_trial, checkout.allow_trial),
    allow_discount_codes: keep(body.allow_discount_codes, checkout.allow_discount_codes),
    require_billing_address: keep(body.require_billing_address, checkout.require_billing_address),
    customer_ip_address: set(body.customer_ip_address, checkout.customer_ip_address),
    customer_metadata: keep(body.customer_metadata, checkout.customer_metadata),
    metadata: keep(body.metadata, checkout.metadata),
    success_url: set(body.success_url, checkout.success_url),
    return_url: set(body.return_url, checkout.return_url),
    embed_origin: set(body.embed_origin, checkout.embed_origin),
    ...(becomesPrivate ? { customer_tax_id: null, customer_tax_id_format: null, customer_tax_id_status: null, customer_billing_name: null } : {}),
  }
  const fitted = fit(next, product, body)
  problems.push(...billing.problems, ...checked.problems, ...answered.problems, ...fitted.problems)
  if (problems.length > 0) throw new InvalidRequest(problems)
  const opened = await figured(tx, { ...before, discount, checkout: fitted.checkout }, { strict: typeof body.discount_id === 'string' })
  // A typed address is checked only at confirmation. Otherwise an update would reveal whether the address has a subscription.
  if (complete || checkout.customer_id !== null) await refuseSecondSubscription(tx, opened)
  return opened
}

/** Returns true if the same product and currency now have other prices than those shown to the buyer. */
const isRepriced = (chosen: CheckoutRow, shown: CheckoutRow, prices: readonly PriceRow[]): boolean =>
  chosen.product_id === shown.product_id &&
  chosen.currency === shown.currency &&
  pricesIn(prices, chosen.currency)
    .map(({ id }) => id)
    .join() !== shown.price_ids.join()

/** Returns the discount of the requested id or code, or else the current one. A code must apply to the selected product. */
const chooseDiscount = async (tx: BusinessTx, seller: Seller, before: Opened, body: CheckoutChange, problems: Invalid[]): Promise<DiscountRow | null> => {
  const scope = within(seller.id, 'machine', seller.member_phase)
  if (body.discount_code === null || body.discount_id === null) return null
  if (body.discount_id) {
    const found = await findDiscount(tx, scope, body.discount_id)
    if (!found) problems.push(invalidAt(['body', 'discount_id'], 'There is no discount with this id.', body.discount_id))
    return found ?? null
  }
  if (body.discount_code === undefined || body.discount_code === '') return before.discount
  const found = before.checkout.allow_discount_codes ? await findDiscountByCode(tx, scope, body.discount_code) : undefined
  const counts = found && countingDiscount(basisOf({ ...before, discount: found }, tx.clock.business()))
  if (!counts || isUsedUp(found)) {
    problems.push(invalidAt(['body', 'discount_code'], 'This code does not exist, or does not apply to this checkout.', body.discount_code))
    return before.discount
  }
  if (found.max_redemptions_per_customer !== null && before.checkout.customer_id !== null) {
    const person = { customer_id: before.checkout.customer_id, email_key: '', card_key: null }
    if ((await usesOf(tx, { organization_id: seller.id, discount_id: found.id }, person)) >= found.max_redemptions_per_customer)
      throw new DiscountRedemptionLimitReached()
  }
  return found
}

/**
 * Rejects a second subscription if the seller allows only one per customer. A confirmed checkout that will create a
 * subscription counts as a subscription.
 */
export const refuseSecondSubscription = async (tx: Tx, { checkout, seller, products }: Opened): Promise<void> => {
  const { product } = products.find((one) => one.product.id === checkout.product_id)!
  if (seller.subscription_settings.allow_multiple_subscriptions || product.recurring_interval === null) return
  const { organization_id, id, customer_id, customer_email, subscription_id } = checkout
  const scope = within(organization_id, 'machine', seller.member_phase)
  const upgraded = subscription_id === null ? undefined : (await findSubscription(tx, scope, subscription_id))?.subscription
  // The free subscription that this checkout upgrades does not count, as long as it can still be upgraded.
  if (
    ((!upgraded || !isUpgradable(upgraded)) && (await hasBillableSubscription(tx, organization_id, { customer_id, email: customer_email }))) ||
    (customer_id !== null && (await isSubscribing(tx, organization_id, customer_id, id)))
  )
    throw new AlreadyActiveSubscriptionError()
}

/** Updates an open checkout and emits `checkout.updated`. */
export const updateCheckout = async (tx: BusinessTx, platform: Platform, checkout: Locked<CheckoutRow>, body: CheckoutChange): Promise<Opened> => {
  const opened = await applyToCheckout(tx, platform, checkout, body)
  const changed = { ...opened, checkout: await changeCheckout(tx, checkout, opened.checkout) }
  await tellUpdated(tx, platform, changed)
  return changed
}
