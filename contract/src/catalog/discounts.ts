import { z } from 'zod'
import {
  filter,
  merchant,
  named,
  NotPermitted,
  operation,
  page,
  pageQuery,
  resource,
  ResourceNotFound,
  sorting,
  stamps,
  text,
  timestamp,
  uuid,
  webhook,
} from '../kit/index.ts'
import { PresentmentCurrency } from '../currencies.ts'
import { Metadata, metadataInput } from './metadata.ts'
import { Product } from './products.ts'

export const DiscountType = named('DiscountType', z.enum(['fixed', 'percentage']))
export const DiscountDuration = named('DiscountDuration', z.enum(['once', 'forever', 'repeating']))

/** A product as embedded in a discount, without prices, benefits, media and custom fields. */
export const DiscountProduct = resource('DiscountProduct', Product.omit({ prices: true, benefits: true, medias: true, attached_custom_fields: true }).shape)
export type DiscountProduct = z.output<typeof DiscountProduct>

const common = {
  ...stamps,
  id: uuid(),
  metadata: Metadata,
  name: z.string(),
  code: z.string().nullable(),
  starts_at: timestamp().nullable(),
  ends_at: timestamp().nullable(),
  max_redemptions: z.int().nullable(),
  max_redemptions_per_customer: z.int().nullable(),
  redemptions_count: z.int(),
  organization_id: uuid(),
  products: z.array(DiscountProduct).describe('The products that the discount applies to; an empty list means every product.'),
}
const lasting = { duration: z.enum(['once', 'forever']) }
const repeating = { duration: z.literal('repeating'), duration_in_months: z.int() }
const fixed = {
  type: z.literal('fixed'),
  amounts: z.record(z.string(), z.int()).describe('Minor units, by currency.'),
  amount: z.int().meta({ deprecated: true }),
  currency: z.string().meta({ deprecated: true }),
}
const percentage = { type: z.literal('percentage'), basis_points: z.int().describe('Hundredths of a percent.') }

/** A discount: a percentage or a fixed amount, applied once, for some months or forever. */
export const Discount = named(
  'Discount',
  z.union([
    resource('DiscountFixedOnceForeverDuration', { ...common, ...fixed, ...lasting }),
    resource('DiscountFixedRepeatDuration', { ...common, ...fixed, ...repeating }),
    resource('DiscountPercentageOnceForeverDuration', { ...common, ...percentage, ...lasting }),
    resource('DiscountPercentageRepeatDuration', { ...common, ...percentage, ...repeating }),
  ]),
)
export type Discount = z.output<typeof Discount>

const [fixedLasting, fixedRepeating, percentageLasting, percentageRepeating] = Discount.options
const bare = { products: true } as const

/** A discount as orders and subscriptions show it: without its products. */
export const DiscountBase = z.union([
  resource('DiscountFixedOnceForeverDurationBase', fixedLasting.omit(bare).shape),
  resource('DiscountFixedRepeatDurationBase', fixedRepeating.omit(bare).shape),
  resource('DiscountPercentageOnceForeverDurationBase', percentageLasting.omit(bare).shape),
  resource('DiscountPercentageRepeatDurationBase', percentageRepeating.omit(bare).shape),
])
export type DiscountBase = z.output<typeof DiscountBase>

const many = () => z.int().min(1).max(2_147_483_647)
const minor = () => z.int().min(0).max(999_999_999_999)

/** A discount code of letters and digits. An empty code means that the discount needs no code. */
const code = () =>
  z
    .string()
    .trim()
    .transform((given) => (given === '' ? null : given))
    .refine((given) => given === null || /^[A-Za-z0-9]{3,256}$/.test(given), 'Use 3 to 256 letters and digits.')
    .nullish()
    .meta({ pattern: '^([A-Za-z0-9]{3,256})?$', maxLength: 256 })

const wanted = {
  metadata: metadataInput().optional(),
  code: code(),
  starts_at: timestamp().nullish(),
  ends_at: timestamp().nullish(),
  max_redemptions: many().nullish(),
  max_redemptions_per_customer: many().nullish(),
  products: z.array(uuid()).max(100).nullish(),
}
const months = () => z.int().min(1).max(999).nullish()
const amounts = () =>
  z
    .partialRecord(PresentmentCurrency, minor())
    .refine((map) => Object.keys(map).length > 0, 'Give at least one currency.')
    .meta({ minProperties: 1 })
const legacy = { amount: minor().nullish().meta({ deprecated: true }), currency: PresentmentCurrency.nullish().meta({ deprecated: true }) }

const discountKinds = z.discriminatedUnion('type', [
  resource('DiscountFixedCreate', {
    ...wanted,
    name: text(1, 256),
    organization_id: uuid().nullish(),
    type: z.literal('fixed').default('fixed'),
    duration: DiscountDuration,
    duration_in_months: months(),
    amounts: amounts().nullish(),
    ...legacy,
    currency: legacy.currency.meta({ deprecated: true, default: 'usd' }),
  }),
  resource('DiscountPercentageCreate', {
    ...wanted,
    name: text(1, 256),
    organization_id: uuid().nullish(),
    type: z.literal('percentage').default('percentage'),
    duration: DiscountDuration,
    duration_in_months: months(),
    basis_points: z.int().min(1).max(10_000),
  }),
])

/** The create request of a discount. An absent `type` is inferred: a discount with `basis_points` is a percentage. */
export const DiscountCreate = z.preprocess(
  (value: z.input<typeof discountKinds>) =>
    typeof value === 'object' && value !== null && !Array.isArray(value) && value.type === undefined
      ? { ...value, type: 'basis_points' in value ? 'percentage' : 'fixed' }
      : value,
  discountKinds,
)

export const DiscountUpdate = resource('DiscountUpdate', {
  ...wanted,
  name: text(1, 256).nullish(),
  type: DiscountType.nullish(),
  duration: DiscountDuration.nullish(),
  duration_in_months: months(),
  amounts: amounts().nullish(),
  ...legacy,
  basis_points: z.int().min(1).max(10_000).nullish(),
})

const read = merchant(['discounts:read', 'discounts:write'])
const write = merchant('discounts:write')
const byId = z.object({ id: uuid() })

export const listDiscounts = operation({
  id: 'discounts:list',
  method: 'GET',
  path: '/v1/discounts/',
  summary: 'List discounts',
  access: read,
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    query: z.string().max(256).optional().describe('Part of the name or the code.'),
    ...pageQuery,
    sorting: sorting('DiscountSortProperty', ['created_at', 'name', 'code', 'redemptions_count', 'ends_at'], ['-created_at']),
  }),
  returns: page('DiscountPage', Discount),
  fails: [],
})

export const createDiscount = operation({
  id: 'discounts:create',
  method: 'POST',
  path: '/v1/discounts/',
  summary: 'Create a discount',
  access: write,
  costs: 'none',
  body: DiscountCreate,
  returns: Discount,
  status: 201,
  fails: [NotPermitted],
})

export const getDiscount = operation({
  id: 'discounts:get',
  method: 'GET',
  path: '/v1/discounts/{id}',
  summary: 'Get a discount',
  access: read,
  costs: 'none',
  params: byId,
  returns: Discount,
  fails: [NotPermitted, ResourceNotFound],
})

export const updateDiscount = operation({
  id: 'discounts:update',
  method: 'PATCH',
  path: '/v1/discounts/{id}',
  summary: 'Update a discount',
  description: 'The type and the duration cannot change. The amount cannot change after the first redemption.',
  access: write,
  costs: 'none',
  params: byId,
  body: DiscountUpdate,
  returns: Discount,
  fails: [NotPermitted, ResourceNotFound],
})

export const deleteDiscount = operation({
  id: 'discounts:delete',
  method: 'DELETE',
  path: '/v1/discounts/{id}',
  summary: 'Delete a discount',
  description: 'Customers who already have the discount keep it.',
  access: write,
  costs: 'none',
  params: byId,
  fails: [NotPermitted, ResourceNotFound],
})

export const discountCreated = webhook('discount.created', Discount, 'A discount is created.')
export const discountUpdated = webhook('discount.updated', Discount, 'A discount changes.')
export const discountDeleted = webhook('discount.deleted', Discount, 'A discount is deleted.')
