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
import { PresentmentCurrency } from '../world.ts'
import { Metadata, metadataInput } from './metadata.ts'
import { Product } from './products.ts'

export const DiscountType = named('DiscountType', z.enum(['fixed', 'percentage']))
export const DiscountDuration = named('DiscountDuration', z.enum(['once', 'forever', 'repeating']))

/** A product as a discount shows it: without what hangs on it. */
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
  products: z.array(DiscountProduct).describe('Those it counts for; none means every one.'),
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

/** What is taken off a price. */
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

/** Letters and digits; nothing at all means that no code is needed. */
const code = () =>
  z
    .string()
    .trim()
    .transform((given) => (given === '' ? null : given))
    .refine((given) => given === null || /^[A-Za-z0-9]{3,256}$/.test(given), 'Use 3 to 256 letters and digits.')
    .nullish()

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
const amounts = () => z.partialRecord(PresentmentCurrency, minor()).refine((map) => Object.keys(map).length > 0, 'Give at least one currency.')
const legacy = { amount: minor().nullish().meta({ deprecated: true }), currency: PresentmentCurrency.nullish().meta({ deprecated: true }) }

export const DiscountCreate = z.discriminatedUnion('type', [
  resource('DiscountFixedCreate', {
    ...wanted,
    name: text(1, 256),
    organization_id: uuid().nullish(),
    type: z.literal('fixed'),
    duration: DiscountDuration,
    duration_in_months: months(),
    amounts: amounts().nullish(),
    ...legacy,
  }),
  resource('DiscountPercentageCreate', {
    ...wanted,
    name: text(1, 256),
    organization_id: uuid().nullish(),
    type: z.literal('percentage'),
    duration: DiscountDuration,
    duration_in_months: months(),
    basis_points: z.int().min(1).max(10_000),
  }),
])

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
  params: byId,
  returns: Discount,
  fails: [NotPermitted, ResourceNotFound],
})

export const updateDiscount = operation({
  id: 'discounts:update',
  method: 'PATCH',
  path: '/v1/discounts/{id}',
  summary: 'Update a discount',
  description: 'Its type and duration never change; what it takes off does not change once it has been redeemed.',
  access: write,
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
  description: 'Whoever has it keeps it.',
  access: write,
  params: byId,
  fails: [NotPermitted, ResourceNotFound],
})

export const discountCreated = webhook('discount.created', Discount, 'A discount is created.')
export const discountUpdated = webhook('discount.updated', Discount, 'A discount changes.')
export const discountDeleted = webhook('discount.deleted', Discount, 'A discount is deleted.')
