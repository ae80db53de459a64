import { z } from 'zod'
import { DiscountBase } from '../catalog/discounts.ts'
import { Metadata, metadataInput } from '../catalog/metadata.ts'
import { TrialInterval } from '../catalog/products.ts'
import { CustomerProduct } from '../catalog/storefront.ts'
import { maybe, PaymentProcessor } from '../customers/customers.ts'
import {
  failure,
  filter,
  landing,
  merchant,
  NotPermitted,
  oneOf,
  openAccess,
  operation,
  page,
  pageQuery,
  resource,
  ResourceNotFound,
  sorting,
  stamps,
  uuid,
} from '../kit/index.ts'

export const CheckoutLinkProduct = resource('CheckoutLinkProduct', { ...CustomerProduct.shape, metadata: Metadata })

/** A checkout link: a URL that the seller shares. Each visit creates a new checkout. */
export const CheckoutLink = resource('CheckoutLink', {
  ...stamps,
  id: uuid(),
  organization_id: uuid(),
  payment_processor: PaymentProcessor,
  client_secret: z.string().describe('The part of `url` that identifies the link.'),
  url: z.string().describe('The address to share. Each visit creates a checkout and redirects to it.'),
  label: z.string().nullable().describe('An internal name; buyers do not see it.'),
  products: z.array(CheckoutLinkProduct).describe('The products that the buyer can choose from.'),
  discount_id: uuid().nullable(),
  discount: DiscountBase.nullable(),
  allow_discount_codes: z.boolean(),
  require_billing_address: z.boolean(),
  seats: z.int().nullable().describe('The number of seats of each checkout.'),
  trial_interval: TrialInterval.nullable(),
  trial_interval_count: z.int().nullable(),
  success_url: z.string().nullable(),
  return_url: z.string().nullable(),
  metadata: Metadata,
})
export type CheckoutLink = z.output<typeof CheckoutLink>

const products = () =>
  z
    .array(uuid())
    .min(1)
    .max(100)
    .refine((ids) => new Set(ids).size === ids.length, 'List each product only once.')
    .meta({ uniqueItems: true })
const seats = () => z.int().min(1).max(10_000)

const wishes = {
  label: maybe(1000),
  discount_id: uuid().nullish().describe('May be a discount that is not valid yet. While it is not valid, the buyer pays without it.'),
  seats: seats().nullish().describe('Every product must be priced per seat and allow this number of seats.'),
  trial_interval: TrialInterval.nullish().describe('Replaces the trial of the product.'),
  trial_interval_count: z.int().min(1).max(1000).nullish(),
  success_url: landing().nullish().describe('`{CHECKOUT_ID}` in it is replaced by the id of the checkout.'),
  return_url: landing().nullish(),
  metadata: metadataInput().optional().describe('Copied to the metadata of each checkout.'),
}
const creating = {
  ...wishes,
  payment_processor: z.literal('stripe'),
  allow_discount_codes: z.boolean().default(true),
  require_billing_address: z.boolean().default(false),
}

export const CheckoutLinkCreate = oneOf(
  resource('CheckoutLinkCreateProducts', {
    ...creating,
    products: products().describe('The products that the buyer can choose from, all of one organization. The first is preselected.'),
  }),
  {
    product_id: resource('CheckoutLinkCreateProduct', { ...creating, product_id: uuid() }),
    product_price_id: resource('CheckoutLinkCreateProductPrice', {
      ...creating,
      product_price_id: uuid().describe('Offers the product of this price, with all its prices.'),
    }),
  },
)
export type CheckoutLinkCreate = z.output<typeof CheckoutLinkCreate>

export const CheckoutLinkUpdate = resource('CheckoutLinkUpdate', {
  ...wishes,
  products: products().nullish().describe('The complete list. A trial or a number of seats that no longer fits is removed.'),
  allow_discount_codes: z.boolean().nullish(),
  require_billing_address: z.boolean().nullish(),
})
export type CheckoutLinkUpdate = z.output<typeof CheckoutLinkUpdate>

export const EmbedHostNotAllowed = failure('EmbedHostNotAllowed', 403, 'This seller does not allow that site to embed its checkout.')

const read = merchant(['checkout_links:read', 'checkout_links:write'])
const write = merchant('checkout_links:write')
const byId = z.object({ id: uuid() })

export const listCheckoutLinks = operation({
  id: 'checkout-links:list',
  method: 'GET',
  path: '/v1/checkout-links/',
  summary: 'List checkout links',
  access: read,
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    product_id: filter(uuid()),
    ...pageQuery,
    sorting: sorting('CheckoutLinkSortProperty', ['created_at', 'label', 'success_url', 'allow_discount_codes'], ['created_at']),
  }),
  returns: page('CheckoutLinkPage', CheckoutLink),
  fails: [],
})

export const createCheckoutLink = operation({
  id: 'checkout-links:create',
  method: 'POST',
  path: '/v1/checkout-links/',
  summary: 'Create a checkout link',
  access: write,
  costs: 'none',
  body: CheckoutLinkCreate,
  returns: CheckoutLink,
  status: 201,
  reveals: true,
  fails: [NotPermitted],
})

export const getCheckoutLink = operation({
  id: 'checkout-links:get',
  method: 'GET',
  path: '/v1/checkout-links/{id}',
  summary: 'Get a checkout link',
  access: read,
  costs: 'none',
  params: byId,
  returns: CheckoutLink,
  fails: [ResourceNotFound],
})

export const updateCheckoutLink = operation({
  id: 'checkout-links:update',
  method: 'PATCH',
  path: '/v1/checkout-links/{id}',
  summary: 'Update a checkout link',
  description: 'Absent fields stay unchanged. Existing checkouts stay unchanged, too.',
  access: write,
  costs: 'none',
  params: byId,
  body: CheckoutLinkUpdate,
  returns: CheckoutLink,
  reveals: true,
  fails: [NotPermitted, ResourceNotFound],
})

export const deleteCheckoutLink = operation({
  id: 'checkout-links:delete',
  method: 'DELETE',
  path: '/v1/checkout-links/{id}',
  summary: 'Delete a checkout link',
  description: 'The link stops working. Existing checkouts stay unchanged.',
  access: write,
  costs: 'none',
  params: byId,
  fails: [NotPermitted, ResourceNotFound],
})

export const followCheckoutLink = operation({
  id: 'checkout-links:redirect',
  method: 'GET',
  path: '/v1/checkout-links/{client_secret}/redirect',
  summary: 'Open a checkout link',
  description:
    'Creates a checkout and redirects to it. The query parameters `product_id`, `amount`, `customer_email`, `customer_name`, `discount_code`, `locale` and `custom_field_data.<slug>` prefill it; values that do not fit are ignored. `reference_id` and `utm_source`, `utm_medium`, `utm_campaign`, `utm_term`, `utm_content` go into its metadata, unless the link sets them. `embed_origin` is the origin of the page that embeds it. All other parameters are passed on. A client that prefers HTML gets errors as a page.',
  access: openAccess(),
  costs: 'none',
  budget: 'checkout_link',
  browser: true,
  params: z.object({ client_secret: z.string().min(1).max(200) }),
  status: 302,
  fails: [ResourceNotFound, EmbedHostNotAllowed],
})
