import { checkoutUpdated, type Checkout, type CheckoutPublic, type Product } from '@bursar/contract'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import { offeredTypes } from '../../../gateways/payments/offered.ts'
import type { BusinessTx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { presentDiscount, presentPrice, presentProduct, type LoadedProduct } from '../../catalog/index.ts'
import { presentBrand, presentOrganization } from '../../organizations/index.ts'
import type { CheckoutRow } from './checkouts.sql.ts'
import { addressFields, figure, pricesIn, trialOf, type Basis } from './figures.ts'
import type { LastPayment, LoadedCheckout, Opened } from './loading.sql.ts'

export const basisOf = ({ checkout, products, discount }: LoadedCheckout, now: Date): Basis => {
  const { product, prices } = products.find((one) => one.product.id === checkout.product_id)!
  return { checkout, product, prices, discount, now }
}

/** Returns the types of the payment methods that fit a checkout. */
export const methodsFor = (
  { currency, customer_billing_address }: Pick<CheckoutRow, 'currency' | 'customer_billing_address'>,
  { is_payment_setup_required }: Pick<ReturnType<typeof figure>, 'is_payment_setup_required'>,
): string[] => offeredTypes({ currency, country: customer_billing_address?.country ?? null, reusable: is_payment_setup_required })

const presented = new WeakMap<LoadedProduct, Product>()

/** Presents a loaded product once, because the checkouts of a page share their products. */
const presentOnce = (loaded: LoadedProduct): Product => {
  const known = presented.get(loaded)
  if (known) return known
  // In a checkout, the prices keep their order.
  const shown = { ...presentProduct(loaded), prices: loaded.prices.map(presentPrice) }
  presented.set(loaded, shown)
  return shown
}

const common = (opened: LoadedCheckout, platform: Platform) => {
  const { checkout, products } = opened
  const basis = basisOf(opened, platform.clock.business())
  const figured = figure(basis)
  const shown = products.map(presentOnce)
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
    secret_until: _until,
    renews: _renews,
    customer_tax_id_format: _format,
    price_ids: _prices,
    ...row
  } = checkout
  return {
    ...row,
    client_secret,
    url: page,
    payment_processor: 'stripe' as const,
    // Shows the seller's bounds on seats only if the selected product is sold by the seat.
    ...(prices.some(({ amount_type }) => amount_type === 'seat_based') ? {} : { min_seats: null, max_seats: null }),
    success_url: (checkout.success_url ?? `${page}/confirmation`).replaceAll('{CHECKOUT_ID}', checkout.id),
    ...trialOf(basis),
    product_price_id: prices[0]?.id ?? null,
    is_discount_applicable: !figured.is_free_product_price,
    is_free_product_price: figured.is_free_product_price,
    is_payment_required: figured.is_payment_required,
    is_payment_setup_required: figured.is_payment_setup_required,
    is_payment_form_required: figured.is_payment_form_required,
    tax_reason: figured.tax_reason,
    payment_processor_metadata: (opened.publishable_key === null ? {} : { publishable_key: opened.publishable_key }) as Record<string, string>,
    // The test processor has no form that could offer payment methods.
    offered: opened.publishable_key === null || !figured.is_payment_form_required ? null : methodsFor(checkout, figured).join(' '),
    billing_address_fields: addressFields(checkout),
    products: shown,
    product: chosen,
    product_price: prices[0] ?? null,
    prices: Object.fromEntries(shown.map(({ id, prices: own }) => [id, own])),
    discount: opened.discount && presentDiscount(opened.discount),
    attached_custom_fields: chosen.attached_custom_fields,
  }
}

/** Converts the checkout to its representation for the seller. */
export const presentCheckout = (opened: LoadedCheckout, platform: Platform): Checkout => {
  const { tax_reason: _reason, offered: _offered, ...shown } = common(opened, platform)
  return shown
}

/** Converts the checkout to its representation for the buyer, with the state of its last payment if that is given. */
export const presentPublic = (opened: Opened, platform: Platform, payment: LastPayment | null = null): CheckoutPublic => {
  const { offered, payment_processor_metadata, ...shown } = common(opened, platform)
  const { status } = opened.checkout
  return {
    ...shown,
    payment_processor_metadata: {
      ...payment_processor_metadata,
      ...(status === 'open' && offered !== null ? { payment_method_types: offered } : {}),
      // If the checkout is open again after a declined payment, shows the buyer the reason of the decline.
      ...(status === 'open' && payment?.decline ? { declined: payment.decline } : {}),
      ...(status === 'confirmed' && payment?.intent_status ? { intent_status: payment.intent_status } : {}),
      ...(status === 'confirmed' && payment?.method ? { payment_method_type: payment.method } : {}),
    },
    saved_payment_methods: shown.is_payment_form_required ? [...opened.saved] : [],
    organization: { ...presentOrganization(opened.seller), brand: presentBrand(opened.seller) },
  }
}

export const subject = ({ organization_id, id, customer_id }: CheckoutRow) => ({
  organization_id,
  resource_id: id,
  ...(customer_id === null ? {} : { customer_id }),
})

/** Emits `checkout.updated`. */
export const tellUpdated = (tx: BusinessTx, platform: Platform, loaded: LoadedCheckout): Promise<void> =>
  emit(tx, checkoutUpdated, subject(loaded.checkout), presentCheckout(loaded, platform), platform.sealer)
