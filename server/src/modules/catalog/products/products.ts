import {
  InvalidRequest,
  productCreated,
  ProductInUse,
  productUpdated,
  ResourceNotFound,
  type CustomField,
  type DiscountProduct,
  type Invalid,
  type Product,
  type ProductCreate,
  type ProductPrice,
  type ProductPriceCreate,
  type ProductUpdate,
} from '@bursar/contract'
import type { z } from 'zod'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import { inWallTime } from '../../../platform/clocks.sql.ts'
import { isForeignKeyViolation, type Locked, type Tx } from '../../../platform/postgres/postgres.ts'
import { chooseOrganization, findOrganization, permit } from '../../organizations/index.ts'
import { holdBenefits, replaceBenefits } from '../benefits/benefits.sql.ts'
import { presentBenefit } from '../benefits/benefits.ts'
import { holdCustomFields } from '../custom-fields/custom-fields.sql.ts'
import { holdFiles, insertMedias, replaceMedias, type FileRow } from '../files/files.sql.ts'
import { presentMedia } from '../files/presenting.ts'
import { knownMeters } from '../meters/meters.sql.ts'
import { applyPlan, newPrices, planPrices, type PricePlan } from './price-plans.ts'
import { priceProblems, type Wanted } from './prices.ts'
import {
  changeProduct,
  deleteProductRow,
  findProduct,
  insertFields,
  insertPrices,
  insertProduct,
  loadProducts,
  lockProduct,
  replaceFields,
  type LoadedProduct,
  type PriceRow,
  type ProductRow,
} from './products.sql.ts'

/**
 * Presents the product in the API's format. Fixed and custom prices come first, then metered ones, then seat-based
 * ones, each in the order of creation.
 */
export const presentProduct = ({ product, prices, fields, benefits, medias }: LoadedProduct): Product => ({
  ...presentBareProduct(product),
  prices: presentPrices(prices),
  benefits: benefits.map(presentBenefit),
  medias: medias.map(presentMedia),
  attached_custom_fields: fields.map(({ custom_field, position, required }) => ({ custom_field_id: custom_field.id, custom_field, order: position, required })),
})

/** Presents the product without related records, as orders show it. */
export const presentBareProduct = (product: ProductRow): DiscountProduct => ({ ...product, is_recurring: product.recurring_interval !== null })

export const presentPrices = (prices: readonly PriceRow[]): ProductPrice[] => prices.map(presentPrice).toSorted((a, b) => rank(a) - rank(b))

const rank = ({ amount_type }: { amount_type: ProductPrice['amount_type'] }) =>
  amount_type === 'fixed' || amount_type === 'custom' ? 0 : amount_type === 'metered_unit' ? 1 : 2

export const presentPrice = (row: PriceRow): ProductPrice => {
  const { id, created_at, modified_at, source, price_currency, tax_behavior, is_archived, product_id } = row
  const common = { id, created_at, modified_at, source, price_currency, tax_behavior, is_archived, product_id }
  switch (row.amount_type) {
    case 'fixed':
      return { ...common, amount_type: 'fixed', price_amount: row.price_amount! }
    case 'custom':
      return { ...common, amount_type: 'custom', minimum_amount: row.minimum_amount!, maximum_amount: row.maximum_amount, preset_amount: row.preset_amount }
    case 'seat_based': {
      const { seat_tier_type, tiers } = row.seat_tiers!
      return {
        ...common,
        amount_type: 'seat_based',
        seat_tiers: { seat_tier_type, tiers, minimum_seats: tiers[0]!.min_seats, maximum_seats: tiers.at(-1)!.max_seats ?? null },
      }
    }
    case 'metered_unit':
      return { ...common, amount_type: 'metered_unit', unit_amount: row.unit_amount!, cap_amount: row.cap_amount, meter_id: row.meter_id!, meter: row.meter! }
  }
}

type Create = z.output<typeof ProductCreate>
type Update = z.output<typeof ProductUpdate>

/** Creates a product. Enforces all rules on its prices, intervals and fields, so that every stored product can be sold. */
export const createProduct = async (tx: Tx, scope: TenantScope, body: Create): Promise<LoadedProduct> => {
  const organization_id = chooseOrganization(scope, body.organization_id ?? undefined)
  permit(scope, organization_id, 'products:manage')
  const organization = (await findOrganization(tx, scope, organization_id))!
  const wanted = body.prices.map((price, at) => ({ price, at }))
  const recurring = !!body.recurring_interval
  const attached = body.attached_custom_fields ?? []
  const files = await heldMedias(tx, scope, body.medias)
  const meters = await metersOf(tx, organization_id, wanted)
  const known = await heldFields(tx, organization_id, attached)
  refuse([
    ...rhythmProblems(body),
    ...priceProblems(wanted, { organization, recurring, meters }),
    ...fieldProblems(attached, known),
    ...mediaProblems(body.medias, files, organization_id),
  ])
  const now = tx.clock.wall()
  const id = newId(tx.clock.wall())
  const product = await insertProduct(tx, {
    id,
    organization_id,
    created_at: now,
    modified_at: null,
    name: body.name,
    description: body.description || null,
    visibility: body.visibility,
    recurring_interval: body.recurring_interval ?? null,
    recurring_interval_count: recurring ? (body.recurring_interval_count ?? 1) : null,
    trial_interval: body.trial_interval ?? null,
    trial_interval_count: body.trial_interval_count ?? null,
    meter_interval: body.meter_interval ?? null,
    meter_interval_count: body.meter_interval ? (body.meter_interval_count ?? 1) : null,
    is_archived: false,
    metadata: body.metadata ?? {},
    ...leadingPrice(body.prices),
  })
  const prices = await insertPrices(tx, newPrices(tx, product, body.prices, 0, now))
  const medias = chosenMedias(body.medias ?? [], files, organization_id)
  await insertFields(tx, product, attached)
  await insertMedias(
    tx,
    product,
    medias.map((file) => file.id),
  )
  const created: LoadedProduct = { product, prices, benefits: [], medias, fields: attachedFields(attached, known) }
  await emit(inWallTime(tx), productCreated, { organization_id, resource_id: id }, presentProduct(created))
  return created
}

/** Updates a product. Prices are kept, archived or added, but never changed, because existing buyers keep their price. */
export const updateProduct = async (tx: Tx, scope: TenantScope, id: string, body: Update): Promise<LoadedProduct> => {
  const files = await heldMedias(tx, scope, body.medias)
  const product = await hold(tx, scope, id)
  const { organization_id } = product
  const plan = body.prices ? planPrices((await loadLocked(tx, product)).prices, body.prices) : undefined
  const attached = body.attached_custom_fields
  refuse([
    ...changeProblems(product, body),
    ...(plan ? await planProblems(tx, scope, product, plan) : []),
    ...fieldProblems(attached ?? [], await heldFields(tx, organization_id, attached ?? [])),
    ...mediaProblems(body.medias, files, organization_id),
  ])
  const now = tx.clock.wall()
  if (plan) await applyPlan(tx, product, plan, now)
  if (attached) await replaceFields(tx, product, attached)
  if (body.medias) await replaceMedias(tx, product, [...new Set(body.medias)])
  const changed = await changeProduct(tx, product, {
    modified_at: now,
    ...(body.name ? { name: body.name } : {}),
    ...(body.description === undefined ? {} : { description: body.description || null }),
    ...(body.visibility ? { visibility: body.visibility } : {}),
    ...(typeof body.is_archived === 'boolean' ? { is_archived: body.is_archived } : {}),
    ...(body.metadata === undefined ? {} : { metadata: body.metadata }),
    ...(body.trial_interval === undefined ? {} : { trial_interval: body.trial_interval, trial_interval_count: body.trial_interval_count ?? null }),
    ...(plan ? leadingPrice(plan.lasting) : {}),
  })
  // A job removes the archived product from the checkout links that offer it.
  if (body.is_archived && !product.is_archived) await enqueue(tx, 'checkout.product_archived', { organization_id, product_id: id })
  await emit(inWallTime(tx), productUpdated, { organization_id, resource_id: id }, presentProduct(changed))
  return changed
}

/** Replaces the benefits of a product, in the given order. Benefits that are not `selectable` can be neither added nor removed. */
export const setBenefits = async (tx: Tx, scope: TenantScope, id: string, wanted: readonly string[]): Promise<LoadedProduct> => {
  const product = await hold(tx, scope, id)
  const { organization_id } = product
  const before = (await loadLocked(tx, product)).benefits
  const list = [...new Set(wanted)]
  const known = await holdBenefits(tx, organization_id, list)
  const wrong = (at: number, msg: string): Invalid => ({ loc: ['body', 'benefits', at], msg, type: 'value_error', input: list[at] })
  const had = (benefit_id: string) => before.some((one) => one.id === benefit_id)
  refuse([
    ...list.flatMap((benefit_id, at) => {
      const benefit = known.find((one) => one.id === benefit_id)
      if (!benefit) return [wrong(at, 'There is no benefit with this id.')]
      return benefit.selectable || had(benefit_id) ? [] : [wrong(at, 'This benefit is managed by the service and cannot be added.')]
    }),
    ...before
      .filter((one) => !one.selectable && !list.includes(one.id))
      .map((one): Invalid => ({
        loc: ['body', 'benefits'],
        msg: `The benefit ${one.id} is managed by the service and cannot be removed.`,
        type: 'value_error',
      })),
  ])
  await replaceBenefits(tx, product, list)
  const changed = await changeProduct(tx, product, { modified_at: tx.clock.wall() })
  // A job grants added benefits to existing buyers and revokes removed ones.
  if (list.length !== before.length || !list.every(had)) await enqueue(tx, 'entitlements.product_changed', { organization_id, product_id: id })
  await emit(inWallTime(tx), productUpdated, { organization_id, resource_id: id }, presentProduct(changed))
  return changed
}

/** Deletes a product. Rejects the request if any row references the product, as decided by the foreign keys. */
export const deleteProduct = async (tx: Tx, scope: TenantScope, id: string): Promise<void> => {
  const product = await hold(tx, scope, id)
  try {
    await deleteProductRow(tx, product)
  } catch (error) {
    throw isForeignKeyViolation(error) ? new ProductInUse() : error
  }
}

export const getProduct = async (tx: Parameters<typeof findProduct>[0], scope: TenantScope, id: string): Promise<LoadedProduct> => {
  const found = await findProduct(tx, scope, id)
  if (!found) throw new ResourceNotFound()
  permit(scope, found.product.organization_id, 'products:read')
  return found
}

/** Returns the ids of the meters in these prices, without archived ones. Locks the meters in share mode, so that none is archived meanwhile. */
export const metersOf = (tx: Tx, organization_id: string, wanted: readonly Wanted[]) =>
  knownMeters(tx, organization_id, [...new Set(wanted.flatMap(({ price }) => (price.amount_type === 'metered_unit' ? [price.meter_id] : [])))])

const hold = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<ProductRow>> => {
  const product = await lockProduct(tx, scope, id)
  if (!product) throw new ResourceNotFound()
  permit(scope, product.organization_id, 'products:manage')
  return product
}

/** Loads a locked product with its lists. Call it after the lock, so that it sees the changes of transactions that held the lock before. */
const loadLocked = async (tx: Tx, { organization_id, id }: Locked<ProductRow>): Promise<LoadedProduct> =>
  (await loadProducts(tx, [{ tenant: organization_id, id }]))[0]!

const refuse = (problems: readonly Invalid[]) => {
  if (problems.length > 0) throw new InvalidRequest(problems)
}

/** Returns the price by which a product is sorted: its first price that is not metered. */
export const leadingPrice = (prices: readonly ProductPriceCreate[]) => {
  const first = prices.toSorted((a, b) => rank(a) - rank(b)).find(({ amount_type }) => amount_type !== 'metered_unit')
  const price_amount =
    first?.amount_type === 'fixed'
      ? first.price_amount
      : first?.amount_type === 'custom'
        ? (first.preset_amount ?? first.minimum_amount)
        : first?.amount_type === 'seat_based'
          ? first.seat_tiers.tiers[0]!.price_per_seat
          : 0
  return { price_amount_type: first?.amount_type ?? 'metered_unit', price_amount }
}

const planProblems = async (tx: Tx, scope: TenantScope, product: Locked<ProductRow>, plan: PricePlan): Promise<Invalid[]> => {
  if (plan.problems.length > 0) return [...plan.problems]
  const organization = (await findOrganization(tx, scope, product.organization_id))!
  return priceProblems(plan.whole, {
    organization,
    recurring: product.recurring_interval !== null,
    meters: await metersOf(tx, product.organization_id, plan.whole),
  })
}

const rhythmProblems = (body: Create): Invalid[] => {
  const problems: Invalid[] = []
  const need = (field: string, msg: string, input?: unknown) =>
    problems.push({ loc: ['body', field], msg, type: 'value_error', ...(input === undefined ? {} : { input }) })
  if (!body.recurring_interval) {
    for (const field of ['recurring_interval_count', 'trial_interval', 'trial_interval_count', 'meter_interval', 'meter_interval_count'] as const)
      if (body[field] !== null && body[field] !== undefined)
        need(field, 'A one-time product has no interval. Leave this out, or give recurring_interval.', body[field])
    return problems
  }
  trialProblems(body, need)
  if (body.meter_interval_count && !body.meter_interval) need('meter_interval', 'Give meter_interval together with meter_interval_count.')
  if (body.meter_interval && !divides(body.meter_interval, body.meter_interval_count ?? 1, body.recurring_interval, body.recurring_interval_count ?? 1))
    need('meter_interval', 'The meter interval must divide the billing interval.', body.meter_interval)
  return problems
}

const changeProblems = (product: ProductRow, body: Update): Invalid[] => {
  const problems: Invalid[] = []
  const need = (field: string, msg: string, input?: unknown) =>
    problems.push({ loc: ['body', field], msg, type: 'value_error', ...(input === undefined ? {} : { input }) })
  for (const field of ['recurring_interval', 'recurring_interval_count'] as const)
    if (body[field] !== undefined && body[field] !== null && body[field] !== product[field])
      need(field, 'The billing interval of a product cannot change. Create another product.', body[field])
  if ((body.trial_interval || body.trial_interval_count) && product.recurring_interval === null)
    need('trial_interval', 'A one-time product has no trial.', body.trial_interval)
  else trialProblems(body, need)
  return problems
}

const trialProblems = (body: { trial_interval?: unknown; trial_interval_count?: unknown }, need: (field: string, msg: string) => void) => {
  if (body.trial_interval && !body.trial_interval_count) need('trial_interval_count', 'Give trial_interval_count together with trial_interval.')
  if (!body.trial_interval && body.trial_interval_count) need('trial_interval', 'Give trial_interval together with trial_interval_count.')
}

/** Returns true if the meter interval divides the billing interval exactly. */
export const divides = (meter: string, m: number, billing: string, n: number): boolean => {
  if (meter === billing) return n % m === 0
  if (meter === 'day' && billing === 'week') return (7 * n) % m === 0
  if (meter === 'day') return m === 1
  if (meter === 'month' && billing === 'year') return (12 * n) % m === 0
  return false
}

type Attached = NonNullable<Create['attached_custom_fields']>

/** Returns the fields to attach that exist. Locks them in share mode, so that none is deleted meanwhile. */
const heldFields = (tx: Tx, organization_id: string, attached: Attached) =>
  holdCustomFields(
    tx,
    organization_id,
    attached.map(({ custom_field_id }) => custom_field_id),
  )

const fieldProblems = (attached: Attached, known: readonly CustomField[]): Invalid[] =>
  attached.flatMap(({ custom_field_id }, at) => {
    const loc = ['body', 'attached_custom_fields', at, 'custom_field_id']
    if (!known.some(({ id }) => id === custom_field_id))
      return [{ loc, msg: 'There is no custom field with this id.', type: 'value_error', input: custom_field_id }]
    return attached.findIndex((one) => one.custom_field_id === custom_field_id) < at
      ? [{ loc, msg: 'This custom field is already attached.', type: 'value_error', input: custom_field_id }]
      : []
  })

const attachedFields = (attached: Attached, known: readonly CustomField[]): LoadedProduct['fields'] =>
  attached.map(({ custom_field_id, required }, position) => ({ position, required, custom_field: known.find(({ id }) => id === custom_field_id)! }))

/** Locks the media files. Call it before locking the product. The deletion of a file uses the same order. */
const heldMedias = (tx: Tx, scope: TenantScope, medias: readonly string[] | null | undefined) =>
  holdFiles(tx, organizationIds(scope), 'product_media', medias ?? [])

const mediaProblems = (medias: readonly string[] | null | undefined, held: readonly FileRow[], organization_id: string): Invalid[] =>
  (medias ?? []).flatMap((id, at) =>
    held.some((file) => file.id === id && file.organization_id === organization_id)
      ? []
      : [{ loc: ['body', 'medias', at], msg: 'There is no uploaded product media with this id.', type: 'value_error', input: id }],
  )

/** Returns the files of the media, each once, in the order of the request. */
const chosenMedias = (medias: readonly string[], held: readonly FileRow[], organization_id: string): FileRow[] =>
  [...new Set(medias)].map((id) => held.find((file) => file.id === id && file.organization_id === organization_id)!)
