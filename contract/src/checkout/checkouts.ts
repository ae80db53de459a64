import { z } from 'zod'
import { TaxIDStatus, TaxReason } from '../billing/taxes.ts'
import { CustomFieldData, customFieldDataInput } from '../catalog/custom-fields.ts'
import { Discount } from '../catalog/discounts.ts'
import { Metadata, metadataInput } from '../catalog/metadata.ts'
import { Product, ProductPriceCreate, TrialInterval } from '../catalog/products.ts'
import { CustomerOrganization, CustomerProduct } from '../catalog/storefront.ts'
import { Address, AddressInput } from '../customers/addresses.ts'
import { locale, maybe, PaymentProcessor, personName } from '../customers/customers.ts'
import {
  email,
  failure,
  filter,
  landing,
  merchant,
  named,
  NotPermitted,
  operation,
  page,
  pageQuery,
  resource,
  ResourceNotFound,
  secret,
  sorting,
  stamps,
  timestamp,
  uuid,
} from '../kit/index.ts'
import { PresentmentCurrency } from '../currencies.ts'
import { holder } from './holder.ts'
import { CheckoutPaymentMethod } from './saved-methods.ts'

export const CheckoutStatus = named('CheckoutStatus', z.enum(['open', 'expired', 'confirmed', 'succeeded', 'failed']))
export type CheckoutStatus = z.output<typeof CheckoutStatus>
export const TaxBehavior = named('TaxBehavior', z.enum(['inclusive', 'exclusive']))
export type TaxBehavior = z.output<typeof TaxBehavior>

/** Whether the form requires, offers or hides a field of the billing address. */
const mode = named('BillingAddressFieldMode', z.enum(['required', 'optional', 'disabled']))
export const CheckoutBillingAddressFields = resource('CheckoutBillingAddressFields', {
  country: mode,
  state: mode,
  city: mode,
  postal_code: mode,
  line1: mode,
  line2: mode,
})
export type CheckoutBillingAddressFields = z.output<typeof CheckoutBillingAddressFields>

export const CheckoutProduct = resource('CheckoutProduct', CustomerProduct.shape)

const seen = { id: true, name: true, code: true, type: true, duration: true } as const
const fixed = { ...seen, amounts: true, amount: true, currency: true } as const
const percentage = { ...seen, basis_points: true } as const
const repeating = { duration_in_months: true } as const
const [fixedLasting, fixedRepeating, percentageLasting, percentageRepeating] = Discount.options

/** A discount as a buyer sees it. */
export const CheckoutDiscount = z.union([
  resource('CheckoutDiscountFixedOnceForeverDuration', fixedLasting.pick(fixed).shape),
  resource('CheckoutDiscountFixedRepeatDuration', fixedRepeating.pick({ ...fixed, ...repeating }).shape),
  resource('CheckoutDiscountPercentageOnceForeverDuration', percentageLasting.pick(percentage).shape),
  resource('CheckoutDiscountPercentageRepeatDuration', percentageRepeating.pick({ ...percentage, ...repeating }).shape),
])
export type CheckoutDiscount = z.output<typeof CheckoutDiscount>

export const CheckoutOrganization = resource(
  'CheckoutOrganization',
  CustomerOrganization.omit({ customer_portal_settings: true, organization_features: true }).shape,
)

const minor = (what: string) => z.int().describe(what)
const flag = (what: string) => z.boolean().describe(what)

const common = {
  ...stamps,
  id: uuid(),
  custom_field_data: CustomFieldData,
  payment_processor: PaymentProcessor,
  status: CheckoutStatus,
  client_secret: secret('text', z.string().describe('Authorizes its holder to read, update and confirm this checkout.')),
  url: secret('address', z.string().describe('The address to send the buyer to.')),
  expires_at: timestamp(),
  success_url: secret('address', z.string().describe('The page that the buyer sees afterwards. The address of our own page contains the client secret.')),
  return_url: z.string().nullable().describe('The page to which the buyer can go back.'),
  embed_origin: z.string().nullable(),
  amount: minor('Before discount and tax, without usage. All amounts are in minor units.'),
  seats: z.int().nullable(),
  min_seats: z.int().nullable(),
  max_seats: z.int().nullable(),
  discount_amount: minor('The discount.'),
  net_amount: minor('After discount, without tax.'),
  tax_amount: z.int().nullable().describe('Null until there is an address to compute the tax from.'),
  tax_behavior: TaxBehavior.nullable().describe('Whether prices include tax.'),
  total_amount: minor('The amount to pay now, as far as it is known.'),
  currency: z.string(),
  allow_trial: z.boolean().nullable(),
  active_trial_interval: TrialInterval.nullable().describe('The trial that applies: from the checkout, or else from the product.'),
  active_trial_interval_count: z.int().nullable(),
  trial_end: timestamp().nullable(),
  organization_id: uuid(),
  product_id: uuid().nullable().describe('The chosen product.'),
  product_price_id: uuid().nullable().meta({ deprecated: true }),
  discount_id: uuid().nullable(),
  allow_discount_codes: z.boolean(),
  require_billing_address: flag('True if the full address is required, not only the country.'),
  is_discount_applicable: flag('True if a discount can apply to the chosen product.'),
  is_free_product_price: z.boolean(),
  is_payment_required: flag('True if an amount is due now.'),
  is_payment_setup_required: flag('True if a payment method is needed for later charges.'),
  is_payment_form_required: flag('True if `is_payment_required` or `is_payment_setup_required` is true: show the form.'),
  customer_id: uuid().nullable(),
  is_business_customer: flag('True if the buyer is a company: a billing name and the full address are required.'),
  customer_name: z.string().nullable(),
  customer_email: z.string().nullable(),
  customer_ip_address: z.string().nullable(),
  customer_billing_name: z.string().nullable(),
  customer_billing_address: Address.nullable(),
  customer_tax_id: z.string().nullable(),
  customer_tax_id_status: TaxIDStatus.nullable().describe('Result of the check of a VAT number by an outside service. Null if it was not checked.'),
  locale: z.string().nullable(),
  payment_method_type: z.string().nullable(),
  payment_processor_metadata: z
    .record(z.string(), z.string())
    .describe("Data for the processor's form. The buyer also gets `declined` and `payment_method_types`, and `intent_status` after the confirmation."),
  billing_address_fields: CheckoutBillingAddressFields,
  products: z.array(CheckoutProduct).describe('The products that the buyer can choose from.'),
  product: CheckoutProduct.nullable(),
  product_price: Product.shape.prices.element.nullable().meta({ deprecated: true }),
  prices: z.record(z.string(), Product.shape.prices).nullable().describe('The prices of each product in this checkout, by product id.'),
  discount: CheckoutDiscount.nullable(),
  attached_custom_fields: Product.shape.attached_custom_fields.nullable(),
}

/** A checkout, open or completed, as the seller sees it. */
export const Checkout = resource('Checkout', {
  ...common,
  trial_interval: TrialInterval.nullable(),
  trial_interval_count: z.int().nullable(),
  metadata: Metadata,
  external_customer_id: z.string().nullable(),
  subscription_id: uuid().nullable().describe('The free subscription that this purchase upgrades.'),
  customer_metadata: Metadata,
})
export type Checkout = z.output<typeof Checkout>

/** A checkout as the buyer sees it. */
export const CheckoutPublic = resource('CheckoutPublic', {
  ...common,
  organization: CheckoutOrganization,
  tax_reason: TaxReason.nullable().describe('Why this tax applies, or why none does. Null while the tax is unknown.'),
  saved_payment_methods: z.array(CheckoutPaymentMethod).describe('The saved methods of the customer that the seller named. The default comes first.'),
})
export type CheckoutPublic = z.output<typeof CheckoutPublic>

export const CheckoutPublicConfirmed = resource('CheckoutPublicConfirmed', {
  ...CheckoutPublic.shape,
  status: z.literal('confirmed'),
  customer_session_token: z
    .string()
    .nullable()
    .describe('Opens the portal for the buyer. Null if the address belongs to an existing customer who may be another person.'),
})
export type CheckoutPublicConfirmed = z.output<typeof CheckoutPublicConfirmed>

const seats = () => z.int().min(1).max(10_000)
const origin = () =>
  z
    .string()
    .trim()
    .max(2083)
    .regex(/^[a-z][a-z0-9+.-]*:\/\/[a-z0-9.:[\]_-]+$/i, 'Give an origin such as https://shop.example.com, without a path.')
const ipAddress = () => z.union([z.ipv4(), z.ipv6()], 'Give an IPv4 or IPv6 address.')
const amount = () => z.int().min(0).max(2_100_000_000).nullish().describe('For a product whose price the buyer chooses, in minor units.')

const buyer = {
  customer_name: personName(),
  customer_email: email().nullish(),
  customer_billing_name: personName(),
  customer_billing_address: AddressInput.nullish(),
  customer_tax_id: maybe(100).describe('Requires the country of the billing address.'),
  locale: locale(),
}
const trial = { trial_interval: TrialInterval.nullish(), trial_interval_count: z.int().min(1).max(1000).nullish() }
const pages = {
  success_url: landing().nullish().describe('`{CHECKOUT_ID}` in it is replaced by the id. If absent, the buyer sees our own thank-you page.'),
  return_url: landing().nullish(),
  embed_origin: origin().nullish().describe('The origin of the page that embeds the checkout.'),
}

export const CheckoutCreate = resource('CheckoutProductsCreate', {
  products: z
    .array(uuid())
    .min(1)
    .max(100)
    .refine((ids) => new Set(ids).size === ids.length, 'List each product only once.')
    .meta({ uniqueItems: true })
    .describe('The products that the buyer can choose from, all of one organization. The first is preselected.'),
  prices: z
    .record(uuid(), z.array(ProductPriceCreate).min(1).max(200))
    .nullish()
    .describe('Prices for this checkout only, by product id. They replace the catalog prices of the product.'),
  amount: amount(),
  seats: seats().nullish(),
  min_seats: seats().nullish(),
  max_seats: seats().nullish(),
  currency: PresentmentCurrency.nullish(),
  discount_id: uuid().nullish(),
  allow_discount_codes: z.boolean().default(true),
  require_billing_address: z.boolean().default(false),
  allow_trial: z.boolean().default(true),
  ...trial,
  customer_id: uuid().nullish().describe('An existing customer.'),
  external_customer_id: maybe(256).describe('The customer by your own identifier. A new identifier is assigned to the customer that the checkout creates.'),
  is_business_customer: z.boolean().optional().describe("Defaults to the customer's setting, or to false."),
  ...buyer,
  customer_ip_address: ipAddress().nullish().describe('The IP address of the buyer, if your server calls. It suggests country and currency.'),
  customer_metadata: metadataInput().optional().describe('Copied to the metadata of the customer.'),
  metadata: metadataInput().optional().describe('Copied to the metadata of the order and the subscription.'),
  custom_field_data: customFieldDataInput().optional(),
  subscription_id: uuid().nullish().describe('A free subscription to upgrade.'),
  ...pages,
})

const choice = {
  product_id: uuid().nullish().describe('One of `products`.'),
  product_price_id: uuid().nullish().meta({ deprecated: true }),
  amount: amount(),
  seats: seats().nullish(),
  is_business_customer: z.boolean().nullish(),
  ...buyer,
  custom_field_data: customFieldDataInput().optional(),
}

export const CheckoutUpdate = resource('CheckoutUpdate', {
  ...choice,
  ...trial,
  currency: PresentmentCurrency.nullish(),
  discount_id: uuid().nullish(),
  allow_discount_codes: z.boolean().nullish(),
  require_billing_address: z.boolean().nullish(),
  allow_trial: z.boolean().nullish(),
  customer_ip_address: ipAddress().nullish(),
  customer_metadata: metadataInput().nullish(),
  metadata: metadataInput().optional(),
  ...pages,
})

export const CheckoutUpdatePublic = resource('CheckoutUpdatePublic', {
  ...choice,
  currency: PresentmentCurrency.nullish().describe('A currency in which the chosen product has prices. A custom amount is cleared.'),
  payment_method_type: maybe(100),
  discount_code: maybe(256).describe('Null removes the discount.'),
  allow_trial: z.literal(false).nullish().describe('The buyer can decline the trial, but not request one.'),
})

export const CheckoutConfirm = resource('CheckoutConfirmStripe', {
  ...CheckoutUpdatePublic.shape,
  confirmation_token_id: z.string().min(1).max(500).nullish().describe("The token from the processor's form. Required if `is_payment_form_required` is true."),
  payment_method_id: uuid().nullish().describe('One of `saved_payment_methods`, instead of a token.'),
  payment_return_url: landing().nullish().describe('Your page to which another site sends the buyer back. If absent, the buyer returns to our page.'),
})

export const NotOpenCheckout = failure('NotOpenCheckout', 403, 'This checkout is no longer open. Create a new one.')
export const AlreadyActiveSubscriptionError = failure(
  'AlreadyActiveSubscriptionError',
  403,
  'This customer already has a subscription, and the seller allows one per customer. Change it in the customer portal.',
)
export const PaymentNotReady = failure('PaymentNotReady', 403, 'This organization cannot take payments yet.')
export const TrialAlreadyRedeemed = failure(
  'TrialAlreadyRedeemed',
  403,
  'This person or card has already used a trial. Confirm with `allow_trial: false` to continue without one.',
)
export const DiscountRedemptionLimitReached = failure('DiscountRedemptionLimitReached', 403, 'This customer has reached the redemption limit of this discount.')
export const PaymentError = failure('PaymentError', 400, 'The payment failed. Try again, or use another payment method.')
export const ExpiredCheckoutError = failure('ExpiredCheckoutError', 410, 'This checkout has expired. Create a new one.')
export const CheckoutLocked = failure('CheckoutLocked', 409, 'Another request is changing this checkout. Try again in a moment.')
export const CheckoutCustomerDeleted = failure('CheckoutCustomerDeleted', 409, 'The customer of this checkout was deleted. Create a new checkout.')
export const CheckoutCustomerExternalIdMismatch = failure(
  'CheckoutCustomerExternalIdMismatch',
  422,
  'The customer with this external id has another e-mail address. Use that address, or create the checkout for that customer.',
)

/** The failures of a checkout update or confirmation, for sellers and buyers alike. */
const refusals = [AlreadyActiveSubscriptionError, NotOpenCheckout, PaymentNotReady, TrialAlreadyRedeemed, DiscountRedemptionLimitReached, CheckoutLocked]

const read = merchant(['checkouts:read', 'checkouts:write'])
const write = merchant('checkouts:write')
const byId = z.object({ id: uuid() })

export const listCheckouts = operation({
  id: 'checkouts:list',
  method: 'GET',
  path: '/v1/checkouts/',
  summary: 'List checkouts',
  access: read,
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    product_id: filter(uuid()),
    customer_id: filter(uuid()),
    external_customer_id: filter(z.string().max(256)),
    status: filter(CheckoutStatus),
    query: z.string().max(256).optional().describe("Part of the buyer's name or e-mail address."),
    ...pageQuery,
    sorting: sorting('CheckoutSortProperty', ['created_at', 'expires_at', 'status'], ['-created_at']),
  }),
  returns: page('CheckoutPage', Checkout),
  fails: [],
})

export const createCheckout = operation({
  id: 'checkouts:create',
  method: 'POST',
  path: '/v1/checkouts/',
  summary: 'Create a checkout',
  description: 'Send the buyer to its `url`. It expires after a day.',
  access: write,
  costs: 'none',
  body: CheckoutCreate,
  returns: Checkout,
  status: 201,
  keptDays: 30,
  reveals: true,
  fails: [NotPermitted],
})

export const getCheckout = operation({
  id: 'checkouts:get',
  method: 'GET',
  path: '/v1/checkouts/{id}',
  summary: 'Get a checkout',
  access: read,
  costs: 'none',
  params: byId,
  returns: Checkout,
  fails: [ResourceNotFound],
})

export const updateCheckout = operation({
  id: 'checkouts:update',
  method: 'PATCH',
  path: '/v1/checkouts/{id}',
  summary: 'Update a checkout',
  description: 'Possible while the checkout is open. Absent fields stay unchanged.',
  access: write,
  costs: 'none',
  params: byId,
  body: CheckoutUpdate,
  returns: Checkout,
  reveals: true,
  fails: [NotPermitted, ResourceNotFound, ...refusals],
})

export const getClientCheckout = operation({
  id: 'checkouts:client_get',
  method: 'GET',
  path: '/v1/checkouts/client/{client_secret}',
  summary: 'Get a checkout by its secret',
  description: 'For the page where the buyer pays.',
  ...holder,
  costs: 'none',
  returns: CheckoutPublic,
  fails: [ResourceNotFound, ExpiredCheckoutError],
})

export const updateClientCheckout = operation({
  id: 'checkouts:client_update',
  method: 'PATCH',
  path: '/v1/checkouts/client/{client_secret}',
  summary: 'Update a checkout by its secret',
  description: 'Possible while the checkout is open. Absent fields stay unchanged; the answer has the recomputed amounts.',
  ...holder,
  costs: 'none',
  body: CheckoutUpdatePublic,
  returns: CheckoutPublic,
  fails: [ResourceNotFound, ExpiredCheckoutError, ...refusals],
})

export const confirmClientCheckout = operation({
  id: 'checkouts:client_confirm',
  method: 'POST',
  path: '/v1/checkouts/client/{client_secret}/confirm',
  summary: 'Confirm a checkout by its secret',
  description:
    'Charges the buyer. If the bank wants the buyer to confirm, `payment_processor_metadata` has the data for the processor’s form. If the payment method leaves the page, it has the address of the other site as `redirect_url`. The result is in `status`, and in `checkout.updated`. A declined payment leaves the checkout open.',
  ...holder,
  costs: ['mail', 'money', 'jobs'],
  body: CheckoutConfirm,
  returns: CheckoutPublicConfirmed,
  keptDays: 30,
  reveals: true,
  fails: [ResourceNotFound, PaymentError, ExpiredCheckoutError, ...refusals, CheckoutCustomerDeleted, CheckoutCustomerExternalIdMismatch],
})
