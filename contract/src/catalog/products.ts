import { z } from 'zod'
import {
  failure,
  filter,
  flagInText,
  merchant,
  named,
  NotPermitted,
  operation,
  page,
  pageQuery,
  prose,
  resource,
  ResourceNotFound,
  sorting,
  stamps,
  text,
  uuid,
  webhook,
} from '../kit/index.ts'
import { TaxBehaviorOption } from '../organizations/organizations.ts'
import { PresentmentCurrency } from '../currencies.ts'
import { Benefit } from './benefits.ts'
import { CustomField } from './custom-fields.ts'
import { ProductMediaFileRead } from './files.ts'
import { Metadata, metadataFilter, metadataInput } from './metadata.ts'
import { MeterUnit } from './meters.ts'

export const RecurringInterval = named('RecurringInterval', z.enum(['day', 'week', 'month', 'year']))
export type RecurringInterval = z.infer<typeof RecurringInterval>
export const TrialInterval = named('TrialInterval', z.enum(['day', 'week', 'month', 'year']))
export const ProductVisibility = named('ProductVisibility', z.enum(['draft', 'private', 'public']))
export const SeatTierType = named('SeatTierType', z.enum(['volume', 'graduated']))

/** An amount in minor units. Each currency has a narrower range, which is checked together with the currency. */
const amount = () => z.int().min(0).max(2_100_000_000)

const ProductPriceSeatTier = resource('ProductPriceSeatTier', {
  min_seats: z.int().min(1),
  max_seats: z.int().min(1).nullish().describe('Null in the last tier: no upper bound.'),
  price_per_seat: amount(),
})
export type ProductPriceSeatTier = z.output<typeof ProductPriceSeatTier>

const common = {
  ...stamps,
  id: uuid(),
  source: named('ProductPriceSource', z.enum(['catalog', 'ad_hoc'])),
  price_currency: z.string(),
  tax_behavior: TaxBehaviorOption.nullable(),
  is_archived: z.boolean(),
  product_id: uuid(),
}

const prices = {
  fixed: { price_amount: z.int() },
  custom: { minimum_amount: z.int(), maximum_amount: z.int().nullable(), preset_amount: z.int().nullable() },
}

/** A price of a product. Prices are immutable: a change archives the price and creates a new one, so that existing buyers keep theirs. */
export const ProductPrice = z.discriminatedUnion('amount_type', [
  resource('ProductPriceFixed', { ...common, amount_type: z.literal('fixed'), ...prices.fixed }),
  resource('ProductPriceCustom', { ...common, amount_type: z.literal('custom'), ...prices.custom }),
  resource('ProductPriceSeatBased', {
    ...common,
    amount_type: z.literal('seat_based'),
    seat_tiers: resource('ProductPriceSeatTiers', {
      seat_tier_type: SeatTierType,
      tiers: z.array(ProductPriceSeatTier),
      minimum_seats: z.int(),
      maximum_seats: z.int().nullable(),
    }),
  }),
  resource('ProductPriceMeteredUnit', {
    ...common,
    amount_type: z.literal('metered_unit'),
    unit_amount: z.string().describe('A decimal number of minor units.'),
    cap_amount: z.int().nullable(),
    meter_id: uuid(),
    meter: resource('ProductPriceMeter', {
      id: uuid(),
      name: z.string(),
      unit: MeterUnit,
      custom_label: z.string().nullable(),
      custom_multiplier: z.int().nullable(),
    }),
  }),
])
export type ProductPrice = z.output<typeof ProductPrice>

const legacy = { type: z.literal('recurring'), recurring_interval: RecurringInterval, legacy: z.literal(true) }

/**
 * Legacy prices that contain the billing interval. They exist in the schema because existing clients parse them; the
 * server creates none.
 */
const LegacyRecurringProductPrice = z.discriminatedUnion('amount_type', [
  resource('LegacyRecurringProductPriceFixed', { ...common, amount_type: z.literal('fixed'), ...prices.fixed, ...legacy }),
  resource('LegacyRecurringProductPriceCustom', { ...common, amount_type: z.literal('custom'), ...prices.custom, ...legacy }),
])

export const Product = resource('Product', {
  ...stamps,
  id: uuid(),
  organization_id: uuid(),
  name: z.string(),
  description: z.string().nullable(),
  visibility: ProductVisibility,
  recurring_interval: RecurringInterval.nullable(),
  recurring_interval_count: z.int().nullable(),
  trial_interval: TrialInterval.nullable(),
  trial_interval_count: z.int().nullable(),
  meter_interval: RecurringInterval.nullable().describe('Stored, and not applied yet: usage is billed with the subscription.'),
  meter_interval_count: z.int().nullable(),
  is_recurring: z.boolean(),
  is_archived: z.boolean(),
  metadata: Metadata,
  prices: z.array(z.union([LegacyRecurringProductPrice, ProductPrice])),
  benefits: z.array(Benefit),
  medias: z.array(ProductMediaFileRead),
  attached_custom_fields: z.array(
    resource('AttachedCustomField', { custom_field_id: uuid(), custom_field: CustomField, order: z.int(), required: z.boolean() }),
  ),
})
export type Product = z.output<typeof Product>

const priced = { price_currency: PresentmentCurrency.default('usd'), tax_behavior: TaxBehaviorOption.nullish() }

/** Converts a number to decimal text with at most 12 digits after the point. Text is returned unchanged. The schema checks the format. */
const decimal = (given: string | number): string => {
  if (typeof given === 'string') return given
  const text = given.toFixed(12)
  if (!text.includes('.')) return text
  let end = text.length
  while (text[end - 1] === '0') end--
  return text.slice(0, text[end - 1] === '.' ? end - 1 : end)
}

/** The price of one unit in minor units, as the caller sends it. Parsed to decimal text. */
export const unitAmountInput = () =>
  z
    .union([z.number(), z.string()])
    .transform(decimal)
    .refine(
      (text) => /^\d{1,5}(\.\d{1,12})?$/.test(text) && Number(text) > 0,
      'Use a decimal number above zero, with at most 5 digits before the point and 12 after.',
    )
    .meta({ description: 'Above zero, with at most 5 digits before the point and 12 after.', pattern: '^\\d{1,5}(\\.\\d{1,12})?$', exclusiveMinimum: 0 })

export const ProductPriceCreate = z.discriminatedUnion('amount_type', [
  resource('ProductPriceFixedCreate', { amount_type: z.literal('fixed'), ...priced, price_amount: amount() }),
  resource('ProductPriceCustomCreate', {
    amount_type: z.literal('custom'),
    ...priced,
    minimum_amount: amount().default(50),
    maximum_amount: amount().min(1).nullish(),
    preset_amount: amount().nullish(),
  }),
  resource('ProductPriceSeatBasedCreate', {
    amount_type: z.literal('seat_based'),
    ...priced,
    seat_tiers: resource('ProductPriceSeatTiersCreate', {
      seat_tier_type: SeatTierType.default('volume'),
      tiers: z.array(ProductPriceSeatTier).min(1).max(100),
    }),
  }),
  resource('ProductPriceMeteredUnitCreate', {
    amount_type: z.literal('metered_unit'),
    ...priced,
    meter_id: uuid(),
    unit_amount: unitAmountInput(),
    cap_amount: z.int().min(0).max(2_147_483_647).nullish(),
  }),
])
export type ProductPriceCreate = z.output<typeof ProductPriceCreate>

const wanted = {
  metadata: metadataInput().optional(),
  medias: z.array(uuid()).max(100).nullish(),
}
const attached = () => z.array(resource('AttachedCustomFieldCreate', { custom_field_id: uuid(), required: z.boolean() })).max(100)
const count = (most: number) => z.int().min(1).max(most)

/** The create request of a product. A product with a recurring interval is sold as a subscription, otherwise as a one-time purchase. */
export const ProductCreate = resource('ProductCreate', {
  ...wanted,
  name: text(3, 64),
  description: prose(10_000).nullish(),
  visibility: ProductVisibility.default('public'),
  prices: z.array(ProductPriceCreate).min(1).max(200),
  attached_custom_fields: attached().optional(),
  organization_id: uuid().nullish(),
  recurring_interval: RecurringInterval.nullish(),
  recurring_interval_count: count(999).nullish().meta({ default: 1, description: 'Only together with `recurring_interval`.' }),
  trial_interval: TrialInterval.nullish(),
  trial_interval_count: count(1000).nullish(),
  meter_interval: RecurringInterval.nullish().describe('Stored, and not applied yet: usage is billed with the subscription.'),
  meter_interval_count: count(999).nullish(),
})

export const ProductUpdate = resource('ProductUpdate', {
  ...wanted,
  name: text(3, 64).nullish(),
  description: prose(10_000).nullish(),
  visibility: ProductVisibility.nullish(),
  is_archived: z.boolean().nullish(),
  prices: z
    .array(z.union([ProductPriceCreate, resource('ExistingProductPrice', { id: uuid() })]))
    .max(200)
    .nullish()
    .describe('The complete list: existing prices by id, new ones in full. Prices that are left out are archived.'),
  attached_custom_fields: attached().nullish(),
  recurring_interval: RecurringInterval.nullish(),
  recurring_interval_count: count(999).nullish(),
  trial_interval: TrialInterval.nullish(),
  trial_interval_count: count(1000).nullish(),
})

export const ProductInUse = failure('ProductInUse', 409, 'This product has been sold or offered, so it cannot be deleted. Archive it instead.')

const read = merchant(['products:read', 'products:write'])
const write = merchant('products:write')
const byId = z.object({ id: uuid() })

export const listProducts = operation({
  id: 'products:list',
  method: 'GET',
  path: '/v1/products/',
  summary: 'List products',
  access: read,
  costs: 'none',
  query: z.object({
    id: filter(uuid()),
    organization_id: filter(uuid()),
    query: z.string().max(256).optional().describe('Part of the name.'),
    is_archived: flagInText().optional(),
    is_recurring: flagInText().optional(),
    benefit_id: filter(uuid()),
    visibility: filter(ProductVisibility),
    metadata: metadataFilter(),
    ...pageQuery,
    sorting: sorting('ProductSortProperty', ['created_at', 'name', 'price_amount_type', 'price_amount'], ['-created_at']),
  }),
  returns: page('ProductPage', Product),
  fails: [],
})

export const createProduct = operation({
  id: 'products:create',
  method: 'POST',
  path: '/v1/products/',
  summary: 'Create a product',
  access: write,
  costs: 'none',
  body: ProductCreate,
  returns: Product,
  status: 201,
  fails: [NotPermitted],
})

export const getProduct = operation({
  id: 'products:get',
  method: 'GET',
  path: '/v1/products/{id}',
  summary: 'Get a product',
  access: read,
  costs: 'none',
  params: byId,
  returns: Product,
  fails: [ResourceNotFound],
})

export const updateProduct = operation({
  id: 'products:update',
  method: 'PATCH',
  path: '/v1/products/{id}',
  summary: 'Update a product',
  description: 'Absent fields stay unchanged. Existing subscribers keep their price after it is archived.',
  access: write,
  costs: 'jobs',
  params: byId,
  body: ProductUpdate,
  returns: Product,
  fails: [NotPermitted, ResourceNotFound],
})

export const deleteProduct = operation({
  id: 'products:delete',
  method: 'DELETE',
  path: '/v1/products/{id}',
  summary: 'Delete a product',
  description: 'Possible only while nothing references the product. Otherwise archive it.',
  access: write,
  costs: 'none',
  params: byId,
  fails: [NotPermitted, ResourceNotFound, ProductInUse],
})

export const updateProductBenefits = operation({
  id: 'products:update_benefits',
  method: 'POST',
  path: '/v1/products/{id}/benefits',
  summary: 'Set the benefits of a product',
  description: 'The complete list, in order. Benefits that are left out are removed.',
  access: write,
  costs: 'jobs',
  params: byId,
  body: resource('ProductBenefitsUpdate', { benefits: z.array(uuid()).max(100) }),
  returns: Product,
  fails: [NotPermitted, ResourceNotFound],
})

export const productCreated = webhook('product.created', Product, 'A product is created.')
export const productUpdated = webhook('product.updated', Product, 'A product, its prices or its benefits change.')
