import {
  AlreadyActiveSubscriptionError,
  checkoutCreated,
  CheckoutLocked,
  DiscountRedemptionLimitReached,
  ExpiredCheckoutError,
  invalidAt,
  InvalidRequest,
  NotOpenCheckout,
  ResourceNotFound,
  type CheckoutCreate,
  type CheckoutUpdate,
  type CheckoutUpdatePublic,
  type Invalid,
} from '@bursar/contract'
import type { z } from 'zod'
import { within, type Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { newToken, readToken, Secret, type Hasher } from '../../../kernel/secrets.ts'
import { days, later } from '../../../platform/clock.ts'
import { inTimeOf, timeOf } from '../../../platform/clocks.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { findSubscription, hasBillableSubscription, isUpgradable } from '../../billing/index.ts'
import {
  findDiscount,
  findDiscountByCode,
  insertPrices,
  metersOf,
  priceProblems,
  priceRow,
  readAnswers,
  type DiscountRow,
  type LoadedProduct,
  type PriceRow,
} from '../../catalog/index.ts'
import { clockOf, findCustomers, findOwnerOf, type CustomerRow } from '../../customers/index.ts'
import { addCredential, findSubject } from '../../identity/index.ts'
import { findLivingOrganization } from '../../organizations/index.ts'
import { changeCheckout, findCheckout, insertCheckout, isSubscribing, lockCheckout, usesOf, type CheckoutRow } from './checkouts.sql.ts'
import { chooseCurrency, figured, fit, isUsedUp, readBilling } from './choices.ts'
import { countingDiscount, pricesIn } from './figures.ts'
import { nameProducts } from './offering.ts'
import { basisOf, openOne, present, subject, tellUpdated, type Opened, type Seller } from './opening.ts'

const life = 1 * days

export type Create = z.output<typeof CheckoutCreate>

/** A checkout that exists can be paid: its products are on sale, its currency has prices, its numbers fit, its discount counts. */
export const create = async (wall: Tx, reach: Reach, platform: Platform, body: Create): Promise<Opened> => {
  const products = await nameProducts(wall, reach, body.products)
  const { organization_id } = products[0]!.product
  const seller = (await findLivingOrganization(wall, { id: organization_id }))!
  const upgraded = body.subscription_id ? await nameUpgrade(wall, reach, organization_id, body.subscription_id, products) : undefined
  const named = upgraded ? { ...body, customer_id: nameTwice(body, upgraded.customer_id) } : body
  const customer = await nameCustomer(wall, reach, organization_id, named)
  const clock_id = customer?.clock_id ?? null
  const tx = await inTimeOf(wall, { organization_id, clock_id })
  const now = tx.clock.business()
  const id = newId(tx.clock.wall())
  const secret = newToken('checkout', platform.config.environment)
  const known = customer ? await knownOf(tx, customer) : undefined
  const billing = readBilling(
    {
      customer_billing_address: known?.customer_billing_address ?? null,
      customer_tax_id: known?.customer_tax_id ?? null,
      customer_tax_id_format: known?.customer_tax_id_format ?? null,
    },
    body,
  )
  const blank: CheckoutRow = {
    organization_id,
    id,
    created_at: now,
    modified_at: null,
    status: 'open',
    secret_sealed: platform.sealer.seal(secret, id),
    expires_at: later(now, life),
    product_id: products[0]!.product.id,
    currency: '',
    price_ids: [],
    chosen_amount: body.amount ?? null,
    seats: body.seats ?? null,
    min_seats: body.min_seats ?? null,
    max_seats: body.max_seats ?? null,
    amount: 0,
    discount_amount: 0,
    net_amount: 0,
    tax_amount: null,
    tax_behavior: null,
    tax: null,
    total_amount: 0,
    allow_trial: body.allow_trial,
    trial_interval: body.trial_interval ?? null,
    trial_interval_count: body.trial_interval_count ?? null,
    trial_end: null,
    discount_id: body.discount_id ?? null,
    allow_discount_codes: body.allow_discount_codes,
    require_billing_address: body.require_billing_address || hasStreet(body.customer_billing_address),
    is_business_customer: body.is_business_customer ?? known?.is_business_customer ?? false,
    customer_id: customer?.id ?? null,
    external_customer_id: customer?.external_id ?? body.external_customer_id ?? null,
    customer_name: body.customer_name ?? known?.customer_name ?? null,
    customer_email: customer ? (known?.customer_email ?? null) : (body.customer_email ?? null),
    customer_ip_address: body.customer_ip_address ?? null,
    customer_billing_name: body.customer_billing_name ?? known?.customer_billing_name ?? null,
    ...billing.changes,
    customer_metadata: body.customer_metadata ?? {},
    locale: body.locale ?? known?.locale ?? null,
    payment_method_type: null,
    custom_field_data: {},
    metadata: body.metadata ?? {},
    subscription_id: upgraded?.id ?? null,
    success_url: body.success_url ?? null,
    return_url: body.return_url ?? null,
    embed_origin: body.embed_origin ?? null,
    figures: null,
    confirmed_with: null,
    confirmed_at: null,
    payment_id: null,
    is_bound: customer !== undefined,
    knows_customer: customer !== undefined,
  }
  const special = await specialPrices(tx, seller, id, products, body.prices ?? {})
  const priced = products.map((one) => ({ ...one, prices: special.made.get(one.product.id) ?? one.prices }))
  const currency = chooseCurrency(priced[0]!.prices, body.currency ?? undefined, seller)
  const discount = body.discount_id ? ((await findDiscount(tx, within(organization_id, 'machine', seller.member_phase), body.discount_id)) ?? null) : null
  const answered = readAnswers(priced[0]!.fields, body.custom_field_data ?? {}, { complete: false })
  const fitted = fit({ ...blank, currency: currency ?? seller.default_presentment_currency, custom_field_data: answered.answers }, priced[0]!, body)
  const all = [
    ...billing.problems,
    ...special.problems,
    ...answered.problems,
    ...fitted.problems,
    ...(currency === undefined ? [invalidAt(['body', 'currency'], 'The product has no price in this currency.', body.currency)] : []),
  ]
  if (all.length > 0) throw new InvalidRequest(all)
  const opened = await figured(tx, { checkout: fitted.checkout, seller, products: priced, discount, publishable_key: null }, { strict: true })
  await insertCheckout(tx, opened.checkout, clock_id, body.products)
  await insertPrices(
    tx,
    [...special.made.values()].flat().map(({ meter: _, ...price }) => price),
  )
  await addCredential(tx, platform.hasher, secret, { kind: 'checkout', subject_id: id, organization_id })
  const whole = await openOne(tx, opened.checkout)
  await emit(tx, checkoutCreated, subject(opened.checkout), present(whole, platform))
  return whole
}

/** More than the country, and the state where taxes ask for it: then the buyer is asked for the rest too. */
const hasStreet = (address: Create['customer_billing_address']) =>
  Boolean(
    address &&
    (address.line1 || address.line2 || address.city || address.postal_code || (address.state && address.country !== 'US' && address.country !== 'CA')),
  )

/** The customer that the request names, by our id or by the seller's own. */
const nameCustomer = async (tx: Tx, reach: Reach, organization_id: string, body: Create): Promise<CustomerRow | undefined> => {
  const here = { ...reach, organizations: new Map([...reach.organizations].filter(([id]) => id === organization_id)) }
  if (body.customer_id) {
    const [found] = await findCustomers(tx, here, { id: body.customer_id })
    if (!found) throw new InvalidRequest(invalidAt(['body', 'customer_id'], 'There is no customer with this id.', body.customer_id))
    return found
  }
  return body.external_customer_id ? (await findCustomers(tx, here, { external_id: body.external_customer_id }))[0] : undefined
}

/** The free subscription that is to become what is bought here: everything on offer must go on in its place. */
const nameUpgrade = async (tx: Tx, reach: Reach, organization_id: string, id: string, products: readonly LoadedProduct[]) => {
  const wrong = (problem: string) => new InvalidRequest(invalidAt(['body', 'subscription_id'], problem, id))
  const found = (await findSubscription(tx, reach, id))?.subscription
  if (!found || found.organization_id !== organization_id) throw wrong('There is no subscription with this id.')
  if (!isUpgradable(found)) throw wrong('Only an active subscription that is free can be upgraded by a checkout. Change any other one by PATCH.')
  if (products.some(({ product }) => product.recurring_interval === null)) throw wrong('A subscription cannot become something that is bought once.')
  return found
}

const nameTwice = (body: Create, customer_id: string): string => {
  if (body.customer_id && body.customer_id !== customer_id)
    throw new InvalidRequest(invalidAt(['body', 'customer_id'], 'The subscription belongs to another customer.', body.customer_id))
  return customer_id
}

/** What is known of a customer already need not be asked again. */
const knownOf = async (db: Db, customer: CustomerRow) => ({
  customer_email: customer.email ?? (await findOwnerOf(db, customer))?.email ?? null,
  customer_name: customer.type === 'team' ? null : customer.name,
  customer_billing_name: customer.billing_name,
  customer_billing_address: customer.billing_address,
  customer_tax_id: customer.tax_id,
  customer_tax_id_format: customer.tax_id_format,
  locale: customer.locale,
  is_business_customer: customer.billing_name !== null && customer.billing_address?.line1 != null,
})

/** Prices for this checkout alone: as sound as any in the catalog. */
const specialPrices = async (tx: Tx, seller: Seller, checkout_id: string, products: readonly LoadedProduct[], given: NonNullable<Create['prices']>) => {
  const made = new Map<string, PriceRow[]>()
  const problems: Invalid[] = []
  for (const [product_id, prices] of Object.entries(given)) {
    const product = products.find((one) => one.product.id === product_id)
    if (!product) {
      problems.push(invalidAt(['body', 'prices', product_id], 'Name it among `products` to give it a price here.', product_id))
      continue
    }
    const wanted = prices.map((price, at) => ({ price, at }))
    const meters = await metersOf(tx, seller.id, wanted)
    const found = priceProblems(wanted, { organization: seller, recurring: product.product.recurring_interval !== null, meters })
    problems.push(...found.map((problem) => ({ ...problem, loc: ['body', 'prices', product_id, ...problem.loc.slice(2)] })))
    made.set(
      product_id,
      prices.map((price, position) => ({
        ...priceRow(product.product, { ...price, id: newId(tx.clock.wall()), position }, tx.clock.business(), checkout_id),
        meter: null,
      })),
    )
  }
  return { made, problems }
}

/** What the secret opens: the secret is the credential, and a wrong one is as good as none. */
export const findBySecret = async (db: Db, hasher: Hasher, secret: string): Promise<{ checkout: CheckoutRow; reach: Reach; seller: Seller }> => {
  const reading = readToken(secret)
  const found = typeof reading === 'object' && reading.kind === 'checkout' ? await findSubject(db, hasher, new Secret(secret)) : undefined
  if (found?.kind !== 'checkout') throw new ResourceNotFound()
  const seller = await findLivingOrganization(db, { id: found.organization_id! })
  if (!seller) throw new ResourceNotFound()
  const reach = within(seller.id, 'machine', seller.member_phase)
  return { checkout: (await findCheckout(db, reach, found.subject_id))!, reach, seller }
}

/** A checkout lives in the time of its customer, as soon as it has one. */
export const inItsTime = async (tx: Tx, checkout: CheckoutRow): Promise<Tx> => inTimeOf(tx, await clockOf(tx, checkout))

/** Whether its time is over, for those who only look. */
export const isOver = async (db: Db, platform: Platform, checkout: CheckoutRow): Promise<boolean> =>
  isExpired(checkout, await timeOf(db, platform.clock, await clockOf(db, checkout)))

export const isExpired = ({ status, expires_at }: CheckoutRow, now: Date): boolean => status === 'expired' || (status === 'open' && expires_at <= now)

/** Holds a checkout that can still be changed, and hands it back with the transaction in its time. */
export const holdOpen = async (wall: Tx, reach: Reach, id: string): Promise<{ tx: Tx; checkout: Locked<CheckoutRow> }> => {
  const checkout = await hold(wall, reach, id)
  const tx = await inItsTime(wall, checkout)
  if (isExpired(checkout, tx.clock.business())) throw new ExpiredCheckoutError()
  if (checkout.status !== 'open') throw new NotOpenCheckout()
  return { tx, checkout }
}

export const hold = async (tx: Tx, reach: Reach, id: string): Promise<Locked<CheckoutRow>> => {
  try {
    const checkout = await lockCheckout(tx, reach, id)
    if (!checkout) throw new ResourceNotFound()
    return checkout
  } catch (error) {
    if ((error as { code?: string }).code === '55P03') throw new CheckoutLocked()
    throw error
  }
}

type Wish = Partial<z.output<typeof CheckoutUpdate> & Omit<z.output<typeof CheckoutUpdatePublic>, 'allow_trial'>>

/**
 * What the request makes of a checkout, with every amount computed anew, and everything that is wrong with it together.
 * `complete`: the buyer confirms, and nothing may be left open.
 */
export const apply = async (tx: Tx, checkout: Locked<CheckoutRow>, body: Wish, { complete = false } = {}): Promise<Opened> => {
  const before = await openOne(tx, checkout)
  const { seller } = before
  const problems: Invalid[] = []
  const product_id = body.product_id ?? checkout.product_id
  const product = before.products.find((one) => one.product.id === product_id)
  if (!product) throw new InvalidRequest(invalidAt(['body', 'product_id'], 'Choose one of the products of this checkout.', body.product_id))
  const switched = product_id !== checkout.product_id
  if (product.product.is_archived) problems.push(invalidAt(['body', 'product_id'], 'This product is no longer sold.', product_id))
  const wanted = body.currency ?? (pricesIn(product.prices, checkout.currency).length > 0 ? checkout.currency : undefined)
  const currency = chooseCurrency(product.prices, wanted, seller)
  if (currency === undefined) problems.push(invalidAt(['body', 'currency'], 'The product has no price in this currency.', body.currency))
  const billing = readBilling(checkout, body)
  const business = body.is_business_customer ?? checkout.is_business_customer
  const chosen = { ...checkout, product_id, currency: currency ?? checkout.currency }
  if (complete && isRepriced(chosen, checkout, product.prices))
    problems.push(invalidAt(['body', 'product_id'], 'The price of this product has changed. Look at the amount again before you confirm.', product_id))
  const discount = await chooseDiscount(tx, seller, { ...before, checkout: chosen }, body, problems)
  const given = body.custom_field_data
  const answered = readAnswers(product.fields, complete && given ? given : { ...checkout.custom_field_data, ...given }, { complete })
  const keep = <T>(value: T | null | undefined, now: T): T => value ?? now
  const set = <T>(value: T | undefined, now: T): T => (value === undefined ? now : value)
  const next: CheckoutRow = {
    ...chosen,
    modified_at: tx.clock.business(),
    chosen_amount: set(body.amount, switched ? null : checkout.chosen_amount),
    seats: set(body.seats, switched ? null : checkout.seats),
    ...billing.changes,
    is_business_customer: business,
    customer_name: set(body.customer_name, checkout.customer_name),
    // Whose checkout it is does not change by an address.
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
    ...(checkout.is_business_customer && !business ? { customer_tax_id: null, customer_tax_id_format: null, customer_billing_name: null } : {}),
  }
  const fitted = fit(next, product, body)
  problems.push(...billing.problems, ...answered.problems, ...fitted.problems)
  if (problems.length > 0) throw new InvalidRequest(problems)
  const opened = await figured(tx, { ...before, discount, checkout: fitted.checkout }, { strict: typeof body.discount_id === 'string' })
  // Whether an address that was typed subscribes here is told to nobody before they confirm.
  if (complete || checkout.customer_id !== null) await refuseSecondSubscription(tx, opened)
  return opened
}

/** Whether what was shown to the buyer is no longer what they would be charged by. */
const isRepriced = (chosen: CheckoutRow, shown: CheckoutRow, prices: readonly PriceRow[]): boolean =>
  chosen.product_id === shown.product_id &&
  chosen.currency === shown.currency &&
  pricesIn(prices, chosen.currency)
    .map(({ id }) => id)
    .join() !== shown.price_ids.join()

/** A code, an id of the seller's choosing, or what was there before: whether it counts is asked of the product that is now chosen. */
const chooseDiscount = async (tx: Tx, seller: Seller, before: Opened, body: Wish, problems: Invalid[]): Promise<DiscountRow | null> => {
  const reach = within(seller.id, 'machine', seller.member_phase)
  if (body.discount_code === null || body.discount_id === null) return null
  if (body.discount_id) {
    const found = await findDiscount(tx, reach, body.discount_id)
    if (!found) problems.push(invalidAt(['body', 'discount_id'], 'There is no discount with this id.', body.discount_id))
    return found ?? null
  }
  if (body.discount_code === undefined || body.discount_code === '') return before.discount
  const found = before.checkout.allow_discount_codes ? await findDiscountByCode(tx, reach, body.discount_code) : undefined
  const counts = found && countingDiscount(basisOf({ ...before, discount: found }, tx.clock.business()))
  if (!counts || isUsedUp(found)) {
    problems.push(invalidAt(['body', 'discount_code'], 'This code does not exist, or cannot be used here.', body.discount_code))
    return before.discount
  }
  if (found.max_redemptions_per_customer !== null && before.checkout.customer_id !== null) {
    const person = { customer_id: before.checkout.customer_id, email_key: '', card_key: null }
    if ((await usesOf(tx, { organization_id: seller.id, discount_id: found.id }, person)) >= found.max_redemptions_per_customer)
      throw new DiscountRedemptionLimitReached()
  }
  return found
}

/** One subscription at a time, where the seller wants it so: none that is paid for, and none that another checkout is about to give. */
export const refuseSecondSubscription = async (tx: Tx, { checkout, seller, products }: Opened): Promise<void> => {
  const { product } = products.find((one) => one.product.id === checkout.product_id)!
  if (seller.subscription_settings.allow_multiple_subscriptions || product.recurring_interval === null) return
  const { organization_id, id, customer_id, customer_email, subscription_id } = checkout
  const reach = within(organization_id, 'machine', seller.member_phase)
  const upgraded = subscription_id === null ? undefined : (await findSubscription(tx, reach, subscription_id))?.subscription
  // The free one that it becomes is no second one, as long as it still can be that.
  if (
    ((!upgraded || !isUpgradable(upgraded)) && (await hasBillableSubscription(tx, organization_id, { customer_id, email: customer_email }))) ||
    (customer_id !== null && (await isSubscribing(tx, organization_id, customer_id, id)))
  )
    throw new AlreadyActiveSubscriptionError()
}

/** Changes an open checkout and says so. */
export const update = async (tx: Tx, platform: Platform, checkout: Locked<CheckoutRow>, body: Wish): Promise<Opened> => {
  const opened = await apply(tx, checkout, body)
  const changed = await changeCheckout(tx, checkout, opened.checkout)
  await tellUpdated(tx, platform, changed)
  return openOne(tx, changed)
}
