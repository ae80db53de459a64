import { checkoutUpdated, type Checkout, type CheckoutPublic } from '@bursar/contract'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import {
  findDiscountEver,
  loadPrices,
  loadPricesOf,
  loadProducts,
  presentDiscount,
  presentPrice,
  presentProduct,
  type DiscountRow,
  type LoadedProduct,
  type PriceRow,
} from '../../catalog/index.ts'
import { publishableKeyOf } from '../../billing/index.ts'
import { findLivingOrganization, presentOrganization } from '../../organizations/index.ts'
import { productsOf, type CheckoutRow } from './checkouts.sql.ts'
import { addressFields, figure, pricesIn, trialOf, type Basis } from './figures.ts'

export type Seller = NonNullable<Awaited<ReturnType<typeof findLivingOrganization>>>

/** A checkout with everything that its amounts and its page follow from. */
export interface Opened {
  readonly checkout: CheckoutRow
  readonly seller: Seller
  readonly products: readonly (LoadedProduct & { readonly prices: readonly PriceRow[] })[]
  readonly discount: DiscountRow | null
  /** What the form of the seller's processor is opened with. */
  readonly publishable_key: string | null
}

/** Loads all that hangs on checkouts. A price that was made for the checkout stands in the place of the catalog's, whatever is changed later. */
export const openAll = async (db: Db, checkouts: readonly CheckoutRow[]): Promise<Opened[]> => {
  const named = await productsOf(db, checkouts)
  const loaded = new Map(
    (await loadProducts(db, distinct(named.map(({ organization_id, product_id }) => ({ tenant: organization_id, id: product_id }))))).map((one) => [
      one.product.id,
      one,
    ]),
  )
  const sellers = new Map<string, Seller>()
  const keys = new Map<string, string | null>()
  for (const organization_id of new Set(checkouts.map((one) => one.organization_id))) {
    const seller = await findLivingOrganization(db, { id: organization_id })
    if (seller) sellers.set(organization_id, seller)
    keys.set(organization_id, await publishableKeyOf(db, organization_id))
  }
  const opened: Opened[] = []
  for (const checkout of checkouts) {
    const own = [...(await loadPricesOf(db, checkout.organization_id, checkout.id)), ...(await agreedPrices(db, checkout))]
    const products = named
      .filter(({ checkout_id }) => checkout_id === checkout.id)
      .flatMap(({ product_id }) => {
        const product = loaded.get(product_id)
        const special = own.filter((price) => price.product_id === product_id)
        return product ? [special.length > 0 ? { ...product, prices: special } : product] : []
      })
    const discount = await discountOf(db, checkout)
    opened.push({ checkout, seller: sellers.get(checkout.organization_id)!, products, discount, publishable_key: keys.get(checkout.organization_id)! })
  }
  return opened
}

/** Whoever has confirmed keeps their discount; until then one that was deleted is gone. */
const discountOf = async (db: Db, { status, organization_id, discount_id }: CheckoutRow): Promise<DiscountRow | null> => {
  if (discount_id === null) return null
  const found = await findDiscountEver(db, organization_id, discount_id)
  return found && (found.deleted_at === null || status === 'confirmed' || status === 'succeeded') ? found : null
}

/** Once the buyer has confirmed, the catalog's prices are those they confirmed, whatever has become of them since. */
const agreedPrices = async (db: Db, { organization_id, status, price_ids }: CheckoutRow): Promise<PriceRow[]> =>
  status === 'open' || status === 'expired'
    ? []
    : (
        await loadPrices(
          db,
          price_ids.map((id) => ({ tenant: organization_id, id })),
        )
      ).filter(({ source }) => source === 'catalog')

const distinct = (keys: readonly { tenant: string; id: string }[]) => [...new Map(keys.map((key) => [key.id, key])).values()]

export const openOne = async (db: Db, checkout: CheckoutRow): Promise<Opened> => (await openAll(db, [checkout]))[0]!

export const basisOf = ({ checkout, products, discount }: Opened, now: Date): Basis => {
  const { product, prices } = products.find((one) => one.product.id === checkout.product_id)!
  return { checkout, product, prices, discount, now }
}

const common = (opened: Opened, platform: Platform) => {
  const { checkout, products } = opened
  const basis = basisOf(opened, platform.clock.business())
  const figured = figure(basis)
  const shown = products.map(presentProduct).map((product, at) => ({ ...product, prices: products[at]!.prices.map(presentPrice) }))
  const chosen = shown.find(({ id }) => id === checkout.product_id)!
  const prices = pricesIn(basis.prices, checkout.currency).map(presentPrice)
  const client_secret = platform.sealer.open(checkout.secret_sealed, checkout.id).reveal()
  const page = new URL(`/checkout/${client_secret}`, platform.config.public_url).href
  const {
    secret_sealed: _sealed,
    tax: _tax,
    chosen_amount: _chosen,
    figures: _figures,
    confirmed_with: _with,
    confirmed_at: _at,
    payment_id: _payment,
    is_bound: _bound,
    knows_customer: _knows,
    customer_tax_id_format: _format,
    price_ids: _prices,
    ...row
  } = checkout
  return {
    ...row,
    client_secret,
    url: page,
    payment_processor: 'stripe' as const,
    // The seller's bounds hold for whichever product is sold by the seat; they say nothing of the others.
    ...(prices.some(({ amount_type }) => amount_type === 'seat_based') ? {} : { min_seats: null, max_seats: null }),
    success_url: (checkout.success_url ?? `${page}/confirmation`).replaceAll('{CHECKOUT_ID}', checkout.id),
    ...trialOf(basis),
    product_price_id: prices[0]?.id ?? null,
    is_discount_applicable: !figured.is_free_product_price,
    is_free_product_price: figured.is_free_product_price,
    is_payment_required: figured.is_payment_required,
    is_payment_setup_required: figured.is_payment_setup_required,
    is_payment_form_required: figured.is_payment_form_required,
    payment_processor_metadata: (opened.publishable_key === null ? {} : { publishable_key: opened.publishable_key }) as Record<string, string>,
    billing_address_fields: addressFields(checkout),
    products: shown,
    product: chosen,
    product_price: prices[0] ?? null,
    prices: Object.fromEntries(shown.map(({ id, prices: own }) => [id, own])),
    discount: opened.discount && presentDiscount(opened.discount),
    attached_custom_fields: chosen.attached_custom_fields,
  }
}

/** The checkout as its seller sees it. */
export const present = (opened: Opened, platform: Platform): Checkout => common(opened, platform)

/** The same as its buyer sees it. */
export const presentPublic = (opened: Opened, platform: Platform): CheckoutPublic => ({
  ...common(opened, platform),
  organization: presentOrganization(opened.seller),
})

export const subject = ({ organization_id, id, customer_id }: CheckoutRow) => ({
  organization_id,
  resource_id: id,
  ...(customer_id === null ? {} : { customer_id }),
})

export const tellUpdated = async (tx: Tx, platform: Platform, checkout: CheckoutRow): Promise<void> =>
  emit(tx, checkoutUpdated, subject(checkout), present(await openOne(tx, checkout), platform))
