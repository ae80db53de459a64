import { isDeepStrictEqual } from 'node:util'
import {
  discountCreated,
  discountDeleted,
  discountUpdated,
  invalidAt,
  InvalidRequest,
  ResourceNotFound,
  type Discount,
  type DiscountBase,
  type DiscountCreate,
  type DiscountUpdate,
  type Invalid,
} from '@bursar/contract'
import type { z } from 'zod'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import { inWallTime } from '../../../platform/clocks.sql.ts'
import { isUniqueViolation, type Locked, type Tx } from '../../../platform/postgres/postgres.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import {
  changeDiscount,
  holdProducts,
  insertDiscount,
  insertProducts,
  lockDiscount,
  replaceProducts,
  type DiscountRow,
  type DiscountTable,
} from './discounts.sql.ts'

type Update = z.output<typeof DiscountUpdate>

/** Presents the discount in the API's format. */
export const presentDiscount = ({ products, ...row }: DiscountRow): Discount => ({ ...presentDiscountBase(row), products })

/**
 * Presents the discount without its products, as orders and subscriptions show it. The legacy field `amount` is the
 * amount in US dollars, or else the first amount.
 */
export const presentDiscountBase = ({ deleted_at: _, type, duration, duration_in_months, amounts, basis_points, ...rest }: DiscountTable): DiscountBase => {
  const rhythm = duration === 'repeating' ? { duration, duration_in_months: duration_in_months! } : { duration }
  if (type === 'percentage') return { ...rest, type, basis_points: basis_points!, ...rhythm }
  const currency = 'usd' in amounts! ? 'usd' : Object.keys(amounts!)[0]!
  return { ...rest, type, amounts: amounts!, amount: amounts![currency]!, currency, ...rhythm }
}

const wrong = (field: string, msg: string, input?: unknown, ...more: (string | number)[]): Invalid => invalidAt(['body', field, ...more], msg, input)

const refuse = (problems: readonly Invalid[]) => {
  if (problems.length > 0) throw new InvalidRequest(problems)
}

/** Returns the amounts by currency: from `amounts`, or else from the legacy fields `amount` and `currency`. */
const amountsOf = (body: Pick<Update, 'amounts' | 'amount' | 'currency'>): Record<string, number> | undefined => {
  if (body.amounts) return body.amounts
  return typeof body.amount === 'number' ? { [body.currency ?? 'usd']: body.amount } : undefined
}

const windowProblems = (starts_at: Date | null, ends_at: Date | null): Invalid[] =>
  starts_at && ends_at && starts_at >= ends_at ? [wrong('ends_at', 'The end must be after the start.', ends_at.toISOString())] : []

const monthProblems = (duration: DiscountTable['duration'], months: number | null | undefined): Invalid[] => {
  if (duration === 'repeating') return typeof months === 'number' ? [] : [wrong('duration_in_months', 'A repeating discount needs a number of months.')]
  return typeof months === 'number' ? [wrong('duration_in_months', `A discount with the duration "${duration}" has no months.`, months)] : []
}

const productProblems = async (tx: Tx, organization_id: string, products: readonly string[]): Promise<Invalid[]> => {
  const known = await holdProducts(tx, organization_id, products)
  return products.flatMap((id, at) => (known.has(id) ? [] : [wrong('products', 'There is no product with this id.', id, at)]))
}

/** Creates a discount. Validates that its terms are consistent and that its code is unique in the organization. */
export const createDiscount = async (tx: Tx, scope: TenantScope, body: z.output<typeof DiscountCreate>): Promise<DiscountRow> => {
  const organization_id = chooseOrganization(scope, body.organization_id ?? undefined)
  permit(scope, organization_id, 'products:manage')
  const amounts = body.type === 'fixed' ? amountsOf(body) : undefined
  const products = [...new Set(body.products ?? [])]
  const [starts_at, ends_at] = [body.starts_at ?? null, body.ends_at ?? null]
  refuse([
    ...windowProblems(starts_at, ends_at),
    ...monthProblems(body.duration, body.duration_in_months),
    ...(body.type === 'fixed' && !amounts ? [{ loc: ['body', 'amounts'], msg: 'Give the amount of the discount for each currency.', type: 'missing' }] : []),
    ...(await productProblems(tx, organization_id, products)),
  ])
  const id = newId(tx.clock.wall())
  const code = body.code ?? null
  const discount = await unique(code, () =>
    insertDiscount(tx, {
      organization_id,
      id,
      created_at: tx.clock.wall(),
      modified_at: null,
      deleted_at: null,
      type: body.type,
      duration: body.duration,
      duration_in_months: body.duration === 'repeating' ? body.duration_in_months! : null,
      amounts: amounts ?? null,
      basis_points: body.type === 'percentage' ? body.basis_points : null,
      name: body.name,
      code,
      starts_at,
      ends_at,
      max_redemptions: body.max_redemptions ?? null,
      max_redemptions_per_customer: body.max_redemptions_per_customer ?? null,
      redemptions_count: 0,
      metadata: body.metadata ?? {},
    }),
  )
  const made: DiscountRow = { ...discount, products: await insertProducts(tx, discount, products) }
  await emit(inWallTime(tx), discountCreated, { organization_id, resource_id: id }, presentDiscount(made))
  return made
}

/** Updates a discount. Its type and duration never change. Its amount or percentage cannot change after the first redemption. */
export const updateDiscount = async (tx: Tx, scope: TenantScope, id: string, body: Update): Promise<DiscountRow> => {
  const discount = await hold(tx, scope, id)
  const { organization_id } = discount
  const amounts = amountsOf(body)
  const products = body.products ? [...new Set(body.products)] : undefined
  const starts_at = body.starts_at === undefined ? discount.starts_at : body.starts_at
  const ends_at = body.ends_at === undefined ? discount.ends_at : body.ends_at
  const months = body.duration_in_months ?? discount.duration_in_months
  refuse([
    ...fixedProblems(discount, body, amounts),
    ...windowProblems(starts_at, ends_at),
    ...monthProblems(discount.duration, months),
    ...(await productProblems(tx, organization_id, products ?? [])),
  ])
  const updated = await unique(body.code ?? null, () =>
    changeDiscount(tx, discount, {
      modified_at: tx.clock.wall(),
      starts_at,
      ends_at,
      duration_in_months: months,
      ...(body.name ? { name: body.name } : {}),
      ...(body.code === undefined ? {} : { code: body.code }),
      ...(body.max_redemptions === undefined ? {} : { max_redemptions: body.max_redemptions }),
      ...(body.max_redemptions_per_customer === undefined ? {} : { max_redemptions_per_customer: body.max_redemptions_per_customer }),
      ...(amounts ? { amounts } : {}),
      ...(typeof body.basis_points === 'number' ? { basis_points: body.basis_points } : {}),
      ...(body.metadata === undefined ? {} : { metadata: body.metadata }),
    }),
  )
  const changed: DiscountRow = products ? { ...updated, products: await replaceProducts(tx, discount, products) } : updated
  await emit(inWallTime(tx), discountUpdated, { organization_id, resource_id: id }, presentDiscount(changed))
  return changed
}

/** Deletes the discount, so that its code can be used again. Orders and subscriptions that redeemed it keep the discount. */
export const deleteDiscount = async (tx: Tx, scope: TenantScope, id: string): Promise<void> => {
  const discount = await hold(tx, scope, id)
  const { organization_id } = discount
  const deleted = await changeDiscount(tx, discount, { deleted_at: tx.clock.wall() })
  await emit(inWallTime(tx), discountDeleted, { organization_id, resource_id: id }, presentDiscount(deleted))
}

const fixedProblems = (discount: DiscountTable, body: Update, amounts: Record<string, number> | undefined): Invalid[] => {
  const problems: Invalid[] = []
  for (const field of ['type', 'duration'] as const)
    if (body[field] && body[field] !== discount[field]) problems.push(wrong(field, `This value cannot change. It is ${discount[field]}.`, body[field]))
  if (amounts && discount.type !== 'fixed') problems.push(wrong('amounts', 'A percentage discount has no amounts.'))
  if (typeof body.basis_points === 'number' && discount.type !== 'percentage')
    problems.push(wrong('basis_points', 'A fixed discount has no percentage.', body.basis_points))
  if (discount.redemptions_count === 0) return problems
  if (amounts && !isDeepStrictEqual(amounts, discount.amounts))
    problems.push(wrong('amounts', 'This discount was already redeemed, so its amount cannot change.'))
  if (typeof body.basis_points === 'number' && body.basis_points !== discount.basis_points)
    problems.push(wrong('basis_points', 'This discount was already redeemed, so its amount cannot change.', body.basis_points))
  if (typeof body.duration_in_months === 'number' && body.duration_in_months !== discount.duration_in_months)
    problems.push(wrong('duration_in_months', 'This discount was already redeemed, so its duration cannot change.', body.duration_in_months))
  return problems
}

const hold = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<DiscountTable>> => {
  const discount = await lockDiscount(tx, scope, id)
  if (!discount) throw new ResourceNotFound()
  permit(scope, discount.organization_id, 'products:manage')
  return discount
}

/** Runs the write and maps a duplicate code to 422. The unique index decides between concurrent requests. */
const unique = async <T>(code: string | null, work: () => Promise<T>): Promise<T> => {
  try {
    return await work()
  } catch (error) {
    if (!isUniqueViolation(error, 'discounts_code')) throw error
    throw new InvalidRequest(wrong('code', 'Another discount of this organization already has this code.', code))
  }
}
