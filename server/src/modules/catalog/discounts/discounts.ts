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
import { within, type Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import { isTwin, type Locked, type Tx } from '../../../platform/postgres/postgres.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import {
  changeDiscount,
  findDiscount,
  insertDiscount,
  knownProducts,
  lockDiscount,
  replaceProducts,
  type DiscountRow,
  type DiscountTable,
} from './discounts.sql.ts'

type Update = z.output<typeof DiscountUpdate>

/** The discount as the wire shows it. */
export const present = ({ products, ...row }: DiscountRow): Discount => ({ ...presentBase(row), products })

/** The same without its products: what orders and subscriptions show. The single amount of older days is that in dollars, or else the first. */
export const presentBase = ({ deleted_at: _, type, duration, duration_in_months, amounts, basis_points, ...rest }: DiscountTable): DiscountBase => {
  const rhythm = duration === 'repeating' ? { duration, duration_in_months: duration_in_months! } : { duration }
  if (type === 'percentage') return { ...rest, type, basis_points: basis_points!, ...rhythm }
  const currency = 'usd' in amounts! ? 'usd' : Object.keys(amounts!)[0]!
  return { ...rest, type, amounts: amounts!, amount: amounts![currency]!, currency, ...rhythm }
}

const wrong = (field: string, msg: string, input?: unknown, ...more: (string | number)[]): Invalid => invalidAt(['body', field, ...more], msg, input)

const refuse = (problems: readonly Invalid[]) => {
  if (problems.length > 0) throw new InvalidRequest(problems)
}

/** What is taken off, by currency: the map, or the one amount of older days. */
const amountsOf = (body: Pick<Update, 'amounts' | 'amount' | 'currency'>): Record<string, number> | undefined => {
  if (body.amounts) return body.amounts
  return typeof body.amount === 'number' ? { [body.currency ?? 'usd']: body.amount } : undefined
}

const windowProblems = (starts_at: Date | null, ends_at: Date | null): Invalid[] =>
  starts_at && ends_at && starts_at >= ends_at ? [wrong('ends_at', 'The end must come after the start.', ends_at.toISOString())] : []

const monthProblems = (duration: DiscountTable['duration'], months: number | null | undefined): Invalid[] => {
  if (duration === 'repeating') return typeof months === 'number' ? [] : [wrong('duration_in_months', 'A repeating discount says for how many months.')]
  return typeof months === 'number' ? [wrong('duration_in_months', `A discount that lasts "${duration}" has no months.`, months)] : []
}

const productProblems = async (tx: Tx, organization_id: string, products: readonly string[]): Promise<Invalid[]> => {
  const known = await knownProducts(tx, organization_id, products)
  return products.flatMap((id, at) => (known.has(id) ? [] : [wrong('products', 'There is no product with this id.', id, at)]))
}

/** Whatever its terms, they make sense together when it is written, and its code is nobody else's. */
export const create = async (tx: Tx, reach: Reach, body: z.output<typeof DiscountCreate>): Promise<DiscountRow> => {
  const organization_id = chooseOrganization(reach, body.organization_id ?? undefined)
  permit(reach, organization_id, 'products:manage')
  const amounts = body.type === 'fixed' ? amountsOf(body) : undefined
  const products = [...new Set(body.products ?? [])]
  const [starts_at, ends_at] = [body.starts_at ?? null, body.ends_at ?? null]
  refuse([
    ...windowProblems(starts_at, ends_at),
    ...monthProblems(body.duration, body.duration_in_months),
    ...(body.type === 'fixed' && !amounts ? [{ loc: ['body', 'amounts'], msg: 'Say how much is taken off, by currency.', type: 'missing' }] : []),
    ...(await productProblems(tx, organization_id, products)),
  ])
  const id = newId(tx.clock.wall())
  const code = body.code ?? null
  await unique(code, () =>
    insertDiscount(tx, {
      organization_id,
      id,
      created_at: tx.clock.business(),
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
  await replaceProducts(tx, { organization_id, id }, products)
  const made = await load(tx, organization_id, id)
  await emit(tx, discountCreated, { organization_id, resource_id: id }, present(made))
  return made
}

/** Its kind never changes; and once somebody has redeemed it, neither does what it takes off. */
export const update = async (tx: Tx, reach: Reach, id: string, body: Update): Promise<DiscountRow> => {
  const discount = await hold(tx, reach, id)
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
  await unique(body.code ?? null, () =>
    changeDiscount(tx, discount, {
      modified_at: tx.clock.business(),
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
  if (products) await replaceProducts(tx, discount, products)
  const changed = await load(tx, organization_id, id)
  await emit(tx, discountUpdated, { organization_id, resource_id: id }, present(changed))
  return changed
}

/** Gone from the catalog; whoever has it keeps it, and its code is free again. */
export const remove = async (tx: Tx, reach: Reach, id: string): Promise<void> => {
  const discount = await hold(tx, reach, id)
  const { organization_id } = discount
  await emit(tx, discountDeleted, { organization_id, resource_id: id }, present(await load(tx, organization_id, id)))
  await changeDiscount(tx, discount, { deleted_at: tx.clock.business() })
}

const fixedProblems = (discount: DiscountTable, body: Update, amounts: Record<string, number> | undefined): Invalid[] => {
  const problems: Invalid[] = []
  for (const field of ['type', 'duration'] as const)
    if (body[field] && body[field] !== discount[field]) problems.push(wrong(field, `This never changes: it is ${discount[field]}.`, body[field]))
  if (amounts && discount.type !== 'fixed') problems.push(wrong('amounts', 'A percentage has no amounts.'))
  if (typeof body.basis_points === 'number' && discount.type !== 'percentage')
    problems.push(wrong('basis_points', 'A fixed discount has no percentage.', body.basis_points))
  if (discount.redemptions_count === 0) return problems
  if (amounts && !isDeepStrictEqual(amounts, discount.amounts)) problems.push(wrong('amounts', 'It has been redeemed: what it takes off stays.'))
  if (typeof body.basis_points === 'number' && body.basis_points !== discount.basis_points)
    problems.push(wrong('basis_points', 'It has been redeemed: what it takes off stays.', body.basis_points))
  if (typeof body.duration_in_months === 'number' && body.duration_in_months !== discount.duration_in_months)
    problems.push(wrong('duration_in_months', 'It has been redeemed: how long it lasts stays.', body.duration_in_months))
  return problems
}

const hold = async (tx: Tx, reach: Reach, id: string): Promise<Locked<DiscountTable>> => {
  const discount = await lockDiscount(tx, reach, id)
  if (!discount) throw new ResourceNotFound()
  permit(reach, discount.organization_id, 'products:manage')
  return discount
}

const load = async (tx: Tx, organization_id: string, id: string): Promise<DiscountRow> =>
  (await findDiscount(tx, within(organization_id, 'machine', 'phase2'), id))!

/** Of two that want one code at once, the database takes one. */
const unique = async (code: string | null, work: () => Promise<void>): Promise<void> => {
  try {
    await work()
  } catch (error) {
    if (!isTwin(error, 'discounts_code')) throw error
    throw new InvalidRequest(wrong('code', 'Another discount of this organization has this code.', code))
  }
}
