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
  open,
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

/** An address that can be shared: whoever opens it gets a checkout of their own. */
export const CheckoutLink = resource('CheckoutLink', {
  ...stamps,
  id: uuid(),
  organization_id: uuid(),
  payment_processor: PaymentProcessor,
  client_secret: z.string().describe('The part of `url` that names the link.'),
  url: z.string().describe('Share this: it makes a checkout for each visit, and leads there.'),
  label: z.string().nullable().describe('For your own eyes.'),
  products: z.array(CheckoutLinkProduct).describe('Those to choose from.'),
  discount_id: uuid().nullable(),
  discount: DiscountBase.nullable(),
  allow_discount_codes: z.boolean(),
  require_billing_address: z.boolean(),
  seats: z.int().nullable().describe('How many seats each checkout is for.'),
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
    .refine((ids) => new Set(ids).size === ids.length, 'Name each product once.')
const seats = () => z.int().min(1).max(10_000)

const wishes = {
  label: maybe(1000),
  discount_id: uuid().nullish().describe('It need not count yet: where it does not, the visitor pays without.'),
  seats: seats().nullish().describe('Every product must be sold by the seat, and so many of them.'),
  trial_interval: TrialInterval.nullish().describe('Instead of the trial of the product.'),
  trial_interval_count: z.int().min(1).max(1000).nullish(),
  success_url: landing().nullish().describe('`{CHECKOUT_ID}` in it is replaced by the id of the checkout.'),
  return_url: landing().nullish(),
  metadata: metadataInput().optional().describe('Goes into the metadata of each checkout.'),
}
const creating = {
  ...wishes,
  payment_processor: z.literal('stripe'),
  allow_discount_codes: z.boolean().default(true),
  require_billing_address: z.boolean().default(false),
}

export const CheckoutLinkCreate = oneOf(
  resource('CheckoutLinkCreateProducts', { ...creating, products: products().describe('Those to choose from, all of one organization; the first is chosen.') }),
  {
    product_id: resource('CheckoutLinkCreateProduct', { ...creating, product_id: uuid() }),
    product_price_id: resource('CheckoutLinkCreateProductPrice', {
      ...creating,
      product_price_id: uuid().describe('Its product is on offer, at all its prices.'),
    }),
  },
)
export type CheckoutLinkCreate = z.output<typeof CheckoutLinkCreate>

export const CheckoutLinkUpdate = resource('CheckoutLinkUpdate', {
  ...wishes,
  products: products().nullish().describe('The whole list. A trial and a number of seats that do not fit it any more are dropped.'),
  allow_discount_codes: z.boolean().nullish(),
  require_billing_address: z.boolean().nullish(),
})
export type CheckoutLinkUpdate = z.output<typeof CheckoutLinkUpdate>

export const EmbedHostNotAllowed = failure('EmbedHostNotAllowed', 403, 'This seller does not let that site show its checkout in a frame.')

const read = merchant(['checkout_links:read', 'checkout_links:write'])
const write = merchant('checkout_links:write')
const byId = z.object({ id: uuid() })

export const listCheckoutLinks = operation({
  id: 'checkout-links:list',
  method: 'GET',
  path: '/v1/checkout-links/',
  summary: 'List checkout links',
  access: read,
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
  params: byId,
  returns: CheckoutLink,
  fails: [ResourceNotFound],
})

export const updateCheckoutLink = operation({
  id: 'checkout-links:update',
  method: 'PATCH',
  path: '/v1/checkout-links/{id}',
  summary: 'Update a checkout link',
  description: 'What is absent stays as it is. Checkouts that were made before stay as they are, too.',
  access: write,
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
  description: 'It leads nowhere from now on. Checkouts that were made before stay as they are.',
  access: write,
  params: byId,
  fails: [NotPermitted, ResourceNotFound],
})

export const followCheckoutLink = operation({
  id: 'checkout-links:redirect',
  method: 'GET',
  path: '/v1/checkout-links/{client_secret}/redirect',
  summary: 'Follow a checkout link',
  description:
    'Makes a checkout, and leads to it. In the query, `product_id`, `amount`, `customer_email`, `customer_name`, `discount_code`, `locale` and `custom_field_data.<slug>` fill it in as far as they fit; `reference_id` and `utm_source`, `utm_medium`, `utm_campaign`, `utm_term`, `utm_content` go into its metadata where the link does not say otherwise; `embed_origin` is the origin of the page that shows it in a frame. Everything else is handed on.',
  access: open(),
  budget: 'checkout_link',
  params: z.object({ client_secret: z.string().min(1).max(200) }),
  status: 302,
  fails: [ResourceNotFound, EmbedHostNotAllowed],
})
