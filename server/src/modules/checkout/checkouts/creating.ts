import { checkoutCreated, invalidAt, InvalidRequest, type CheckoutCreate, type Invalid } from '@bursar/contract'
import type { z } from 'zod'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { newToken } from '../../../kernel/secrets.ts'
import { days, later } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { BusinessTx, Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { findSubscription, isUpgradable } from '../../billing/index.ts'
import { insertPrices, metersOf, priceProblems, priceRow, readAnswers, type LoadedProduct, type PriceRow } from '../../catalog/index.ts'
import { findOwnerOf, type CustomerRow } from '../../customers/index.ts'
import type { Seller } from '../records/sellers.sql.ts'
import { insertCheckout, type CheckoutRow } from './checkouts.sql.ts'
import { checkTaxId, chooseCurrency, figured, fit, readBilling } from './choices.ts'
import { nameProducts } from './offering.ts'
import { withPrices, type Opened } from './loading.sql.ts'
import { findParties, type Parties } from './parties.sql.ts'
import { presentCheckout, subject } from './opening.ts'

const life = 1 * days

export type Create = z.output<typeof CheckoutCreate>

/** Creates a checkout that can be paid: its products are on sale, its currency has prices, its amounts and seats are valid, its discount applies. */
export const createCheckout = async (wall: Tx, scope: TenantScope, platform: Platform, body: Create): Promise<Opened> => {
  const products = await nameProducts(wall, scope, body.products)
  const { organization_id } = products[0]!.product
  const upgraded = body.subscription_id ? await nameUpgrade(wall, scope, organization_id, body.subscription_id, products) : null
  const customer_id = upgraded ? nameTwice(body, upgraded.customer_id) : body.customer_id
  const here = { ...scope, organizations: new Map([...scope.organizations].filter(([id]) => id === organization_id)) }
  const parties = await findParties(wall, here, organization_id, {
    customer: customer_id ? { id: customer_id } : body.external_customer_id ? { external_id: body.external_customer_id } : null,
    discount_id: body.discount_id ?? null,
  })
  if (customer_id && !parties.customer) throw new InvalidRequest(invalidAt(['body', 'customer_id'], 'There is no customer with this id.', customer_id))
  return createFrom(wall, platform, { ...parties, products, upgraded, renews: null }, body)
}

/** The data of a new checkout that is already loaded: its products in the requested order, and its parties. */
export interface Offer extends Parties {
  readonly products: readonly LoadedProduct[]
  /** The free subscription that this checkout upgrades. */
  readonly upgraded: { readonly id: string } | null
  /** The id of the expired checkout that this one renews. */
  readonly renews: string | null
}

/** Creates a checkout of products that are already loaded. They must be on sale and belong to the seller. */
export const createFrom = async (
  wall: Tx,
  platform: Platform,
  { products, seller, publishable_key, customer, discount, upgraded, renews }: Offer,
  body: Create,
): Promise<Opened> => {
  const organization_id = seller.id
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
  const isAsked = billing.problems.length === 0 && typeof body.customer_tax_id === 'string'
  const checked = await checkTaxId(tx, platform, organization_id, { customer_tax_id: null, customer_tax_id_status: null }, billing.changes, { isAsked })
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
    // The address of a renewed checkout was typed by the buyer, so it says nothing about what the seller requires.
    require_billing_address: body.require_billing_address || (renews === null && hasStreet(body.customer_billing_address)),
    is_business_customer: body.is_business_customer ?? known?.is_business_customer ?? false,
    customer_id: customer?.id ?? null,
    external_customer_id: customer?.external_id ?? body.external_customer_id ?? null,
    customer_name: body.customer_name ?? known?.customer_name ?? null,
    customer_email: customer ? (known?.customer_email ?? null) : (body.customer_email ?? null),
    customer_ip_address: body.customer_ip_address ?? null,
    customer_billing_name: body.customer_billing_name ?? known?.customer_billing_name ?? null,
    ...billing.changes,
    customer_tax_id_status: checked.status,
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
    is_bound: customer !== null,
    knows_customer: customer !== null,
    secret_until: null,
    renews,
  }
  const special = await specialPrices(tx, seller, id, products, body.prices ?? {})
  const priced = products.map((one) => ({ ...one, prices: special.made.get(one.product.id) ?? one.prices }))
  const currency = chooseCurrency(priced[0]!.prices, body.currency ?? undefined, seller)
  const answered = readAnswers(priced[0]!.fields, body.custom_field_data ?? {}, { complete: false })
  // A renewed checkout keeps the seller's bounds on seats, also if the buyer has chosen a product without seats.
  const fitted = fit(
    { ...blank, currency: currency ?? seller.default_presentment_currency, custom_field_data: answered.answers },
    priced[0]!,
    renews === null ? body : {},
  )
  const all = [
    ...billing.problems,
    ...checked.problems,
    ...special.problems,
    ...answered.problems,
    ...fitted.problems,
    ...(currency === undefined ? [invalidAt(['body', 'currency'], 'The product has no price in this currency.', body.currency)] : []),
  ]
  if (all.length > 0) throw new InvalidRequest(all)
  const opened = await figured(tx, { checkout: fitted.checkout, seller, products: priced, discount, publishable_key, saved: [] }, { strict: true })
  await insertCheckout(tx, platform.hasher, { checkout: opened.checkout, clock_id, products: body.products, secret })
  const adHoc = [...special.made.values()].flat().map(({ meter: _, ...price }) => price)
  const whole = adHoc.length === 0 ? opened : { ...opened, products: withPrices(products, await insertPrices(tx, adHoc)) }
  await emit(tx, checkoutCreated, subject(opened.checkout), presentCheckout(whole, platform), platform.sealer)
  return whole
}

/** Returns true if the address has more than tax needs: the country, in the US ZIP code and state, in Canada the state. The full address is then required. */
const hasStreet = (address: Create['customer_billing_address']) => {
  if (!address) return false
  const { country, line1, line2, city, postal_code, state } = address
  return Boolean(line1 || line2 || city || (postal_code && country !== 'US') || (state && country !== 'US' && country !== 'CA'))
}

/** Finds the free subscription that this checkout upgrades. Every offered product must be recurring, because it replaces the current product. */
const nameUpgrade = async (tx: Tx, scope: TenantScope, organization_id: string, id: string, products: readonly LoadedProduct[]) => {
  const wrong = (problem: string) => new InvalidRequest(invalidAt(['body', 'subscription_id'], problem, id))
  const found = (await findSubscription(tx, scope, id))?.subscription
  if (!found || found.organization_id !== organization_id) throw wrong('There is no subscription with this id.')
  if (!isUpgradable(found)) throw wrong('Only an active free subscription can be upgraded by a checkout. Change other subscriptions by PATCH.')
  if (products.some(({ product }) => product.recurring_interval === null)) throw wrong('A subscription cannot be upgraded to a one-time product.')
  return found
}

const nameTwice = (body: Create, customer_id: string): string => {
  if (body.customer_id && body.customer_id !== customer_id)
    throw new InvalidRequest(invalidAt(['body', 'customer_id'], 'The subscription belongs to another customer.', body.customer_id))
  return customer_id
}

/** Returns the known data of a customer, to prefill the checkout. */
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

/** Builds the ad-hoc prices of this checkout. They are validated like catalog prices. */
const specialPrices = async (tx: BusinessTx, seller: Seller, checkout_id: string, products: readonly LoadedProduct[], given: NonNullable<Create['prices']>) => {
  const made = new Map<string, PriceRow[]>()
  const problems: Invalid[] = []
  for (const [product_id, prices] of Object.entries(given)) {
    const product = products.find((one) => one.product.id === product_id)
    if (!product) {
      problems.push(invalidAt(['body', 'prices', product_id], 'To set a price for this product, add it to `products`.', product_id))
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
