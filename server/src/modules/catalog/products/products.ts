import {
  InvalidRequest,
  productCreated,
  ProductInUse,
  productUpdated,
  ResourceNotFound,
  type DiscountProduct,
  type Invalid,
  type Product,
  type ProductCreate,
  type ProductPrice,
  type ProductPriceCreate,
  type ProductUpdate,
} from '@bursar/contract'
import type { z } from 'zod'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import { isReferred, type Locked, type Tx } from '../../../platform/postgres/postgres.ts'
import { chooseOrganization, findOrganization, permit } from '../../organizations/index.ts'
import { holdBenefits, replaceBenefits } from '../benefits/benefits.sql.ts'
import { present as presentBenefit } from '../benefits/benefits.ts'
import { unknownFields } from '../custom-fields/custom-fields.sql.ts'
import { holdFiles, replaceMedias, type FileRow } from '../files/files.sql.ts'
import { presentMedia } from '../files/presenting.ts'
import { knownMeters } from '../meters/meters.sql.ts'
import { priceProblems, type Wanted } from './prices.ts'
import {
  archivePrices,
  changeProduct,
  deleteProduct,
  findProduct,
  insertPrices,
  insertProduct,
  loadProducts,
  lockProduct,
  nextPosition,
  priceRow,
  replaceFields,
  type Loaded,
  type PriceRow,
  type PriceTable,
  type ProductRow,
} from './products.sql.ts'

/** The product as the wire shows it: what is charged at once first, then what is metered, in the order of making. */
export const present = ({ product, prices, fields, benefits, medias }: Loaded): Product => ({
  ...presentBare(product),
  prices: presentPrices(prices),
  benefits: benefits.map(presentBenefit),
  medias: medias.map(presentMedia),
  attached_custom_fields: fields.map(({ custom_field, position, required }) => ({ custom_field_id: custom_field.id, custom_field, order: position, required })),
})

/** The product without what hangs on it: what orders show. */
export const presentBare = (product: ProductRow): DiscountProduct => ({ ...product, is_recurring: product.recurring_interval !== null })

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

/** A product that exists can be sold: every rule about its prices, rhythm and fields holds when it is written. */
export const create = async (tx: Tx, reach: Reach, body: Create): Promise<Loaded> => {
  const organization_id = chooseOrganization(reach, body.organization_id ?? undefined)
  permit(reach, organization_id, 'products:manage')
  const organization = (await findOrganization(tx, reach, organization_id))!
  const wanted = body.prices.map((price, at) => ({ price, at }))
  const recurring = !!body.recurring_interval
  const medias = await heldMedias(tx, reach, body.medias)
  refuse([
    ...rhythmProblems(body),
    ...priceProblems(wanted, { organization, recurring, meters: await metersOf(tx, organization_id, wanted) }),
    ...(await fieldProblems(tx, organization_id, body.attached_custom_fields ?? [])),
    ...mediaProblems(body.medias, medias, organization_id),
  ])
  const now = tx.clock.business()
  const id = newId(tx.clock.wall())
  await insertProduct(tx, {
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
    ...leading(body.prices),
  })
  await insertPrices(
    tx,
    numbered(tx, body.prices, 0).map((price) => priceRow({ organization_id, id }, price, now)),
  )
  await replaceFields(tx, { organization_id, id }, body.attached_custom_fields ?? [])
  await replaceMedias(tx, { organization_id, id }, [...new Set(body.medias)])
  const [loaded] = await loadProducts(tx, [{ tenant: organization_id, id }])
  await emit(tx, productCreated, { organization_id, resource_id: id }, present(loaded!))
  return loaded!
}

/** Prices are kept, archived or added, never changed: whoever bought at one keeps it. */
export const update = async (tx: Tx, reach: Reach, id: string, body: Update): Promise<Loaded> => {
  const medias = await heldMedias(tx, reach, body.medias)
  const product = await hold(tx, reach, id)
  const { organization_id } = product
  const organization = (await findOrganization(tx, reach, organization_id))!
  const before = (await loadProducts(tx, [{ tenant: organization_id, id }]))[0]!
  const plan = body.prices ? planPrices(before.prices, body.prices) : undefined
  refuse([
    ...changeProblems(product, body),
    ...(plan?.problems ?? []),
    ...(plan && plan.problems.length === 0
      ? priceProblems(plan.whole, { organization, recurring: product.recurring_interval !== null, meters: await metersOf(tx, organization_id, plan.whole) })
      : []),
    ...(await fieldProblems(tx, organization_id, body.attached_custom_fields ?? [])),
    ...mediaProblems(body.medias, medias, organization_id),
  ])
  const now = tx.clock.business()
  if (plan) {
    await archivePrices(tx, product, plan.dropped, now)
    await insertPrices(
      tx,
      numbered(tx, plan.added, await nextPosition(tx, product)).map((price) => priceRow(product, price, now)),
    )
  }
  if (body.attached_custom_fields) await replaceFields(tx, product, body.attached_custom_fields)
  if (body.medias) await replaceMedias(tx, product, [...new Set(body.medias)])
  await changeProduct(tx, product, {
    modified_at: now,
    ...(body.name ? { name: body.name } : {}),
    ...(body.description === undefined ? {} : { description: body.description || null }),
    ...(body.visibility ? { visibility: body.visibility } : {}),
    ...(typeof body.is_archived === 'boolean' ? { is_archived: body.is_archived } : {}),
    ...(body.metadata === undefined ? {} : { metadata: body.metadata }),
    ...(body.trial_interval === undefined ? {} : { trial_interval: body.trial_interval, trial_interval_count: body.trial_interval_count ?? null }),
    ...(plan ? leading(plan.lasting) : {}),
  })
  // What is not sold any more leaves the links that offer it.
  if (body.is_archived && !product.is_archived) await enqueue(tx, 'checkout.product_archived', { organization_id, product_id: id })
  const [after] = await loadProducts(tx, [{ tenant: organization_id, id }])
  await emit(tx, productUpdated, { organization_id, resource_id: id }, present(after!))
  return after!
}

/** Sets the whole list, in order. A benefit that belongs to the service can neither be added nor taken away. */
export const setBenefits = async (tx: Tx, reach: Reach, id: string, wanted: readonly string[]): Promise<Loaded> => {
  const product = await hold(tx, reach, id)
  const { organization_id } = product
  const before = (await loadProducts(tx, [{ tenant: organization_id, id }]))[0]!.benefits
  const list = [...new Set(wanted)]
  const known = await holdBenefits(tx, organization_id, list)
  const wrong = (at: number, msg: string): Invalid => ({ loc: ['body', 'benefits', at], msg, type: 'value_error', input: list[at] })
  const had = (benefit_id: string) => before.some((one) => one.id === benefit_id)
  refuse([
    ...list.flatMap((benefit_id, at) => {
      const benefit = known.find((one) => one.id === benefit_id)
      if (!benefit) return [wrong(at, 'There is no benefit with this id.')]
      return benefit.selectable || had(benefit_id) ? [] : [wrong(at, 'This benefit belongs to the service, and cannot be added.')]
    }),
    ...before
      .filter((one) => !one.selectable && !list.includes(one.id))
      .map((one): Invalid => ({
        loc: ['body', 'benefits'],
        msg: `The benefit ${one.id} belongs to the service, and cannot be taken away.`,
        type: 'value_error',
      })),
  ])
  await replaceBenefits(tx, product, list)
  await changeProduct(tx, product, { modified_at: tx.clock.business() })
  // Whoever has bought it gets what it gives now.
  if (list.length !== before.length || !list.every(had)) await enqueue(tx, 'entitlements.product_changed', { organization_id, product_id: id })
  const [after] = await loadProducts(tx, [{ tenant: organization_id, id }])
  await emit(tx, productUpdated, { organization_id, resource_id: id }, present(after!))
  return after!
}

/** A product can vanish only while nothing refers to it: the database's own references decide. */
export const remove = async (tx: Tx, reach: Reach, id: string): Promise<void> => {
  const product = await hold(tx, reach, id)
  try {
    await deleteProduct(tx, product)
  } catch (error) {
    throw isReferred(error) ? new ProductInUse() : error
  }
}

export const get = async (tx: Parameters<typeof findProduct>[0], reach: Reach, id: string): Promise<Loaded> => {
  const found = await findProduct(tx, reach, id)
  if (!found) throw new ResourceNotFound()
  permit(reach, found.product.organization_id, 'products:read')
  return found
}

/** The meters among those that the prices name which can be counted by, held so that none is archived meanwhile. */
/** The meters that these prices name and that are in use. */
export const metersOf = (tx: Tx, organization_id: string, wanted: readonly Wanted[]) =>
  knownMeters(tx, organization_id, [...new Set(wanted.flatMap(({ price }) => (price.amount_type === 'metered_unit' ? [price.meter_id] : [])))])

const hold = async (tx: Tx, reach: Reach, id: string): Promise<Locked<ProductRow>> => {
  const product = await lockProduct(tx, reach, id)
  if (!product) throw new ResourceNotFound()
  permit(reach, product.organization_id, 'products:manage')
  return product
}

const refuse = (problems: readonly Invalid[]) => {
  if (problems.length > 0) throw new InvalidRequest(problems)
}

/** What the list sorts by: the first price that is charged at once. */
export const leading = (prices: readonly ProductPriceCreate[]) => {
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

const numbered = (tx: Tx, prices: readonly ProductPriceCreate[], from: number) =>
  prices.map((price, at) => ({ ...price, id: newId(tx.clock.wall()), position: from + at }))

/** The whole list that is wanted, as prices to keep, to archive and to make. */
const planPrices = (existing: readonly PriceTable[], wanted: NonNullable<Update['prices']>) => {
  const problems: Invalid[] = []
  const whole: Wanted[] = []
  const added: ProductPriceCreate[] = []
  const kept = new Set<string>()
  wanted.forEach((one, at) => {
    if ('amount_type' in one) {
      added.push(one)
      return whole.push({ price: one, at })
    }
    const price = existing.find(({ id }) => id === one.id)
    if (!price)
      return problems.push({ loc: ['body', 'prices', at, 'id'], msg: 'This product has no such price, or it is archived.', type: 'value_error', input: one.id })
    kept.add(price.id)
    return whole.push({ price: asWanted(price), at })
  })
  if (wanted.length === 0) problems.push({ loc: ['body', 'prices'], msg: 'A product needs at least one price.', type: 'too_short', ctx: { min_length: 1 } })
  // In the order of making, as they will be shown.
  const lasting = [...existing.filter(({ id }) => kept.has(id)).map(asWanted), ...added]
  return { problems, whole, added, lasting, dropped: existing.filter(({ id }) => !kept.has(id)).map(({ id }) => id) }
}

/** A stored price in the shape in which it was wanted: the rules know one shape. */
const asWanted = (row: PriceTable): ProductPriceCreate => row as unknown as ProductPriceCreate

const rhythmProblems = (body: Create): Invalid[] => {
  const problems: Invalid[] = []
  const need = (field: string, msg: string, input?: unknown) =>
    problems.push({ loc: ['body', field], msg, type: 'value_error', ...(input === undefined ? {} : { input }) })
  if (!body.recurring_interval) {
    for (const field of ['recurring_interval_count', 'trial_interval', 'trial_interval_count', 'meter_interval', 'meter_interval_count'] as const)
      if (body[field] !== null && body[field] !== undefined)
        need(field, 'A product that is sold once has no interval. Leave this out, or give recurring_interval.', body[field])
    return problems
  }
  trialProblems(body, need)
  if (body.meter_interval_count && !body.meter_interval) need('meter_interval', 'Give meter_interval together with meter_interval_count.')
  if (body.meter_interval && !divides(body.meter_interval, body.meter_interval_count ?? 1, body.recurring_interval, body.recurring_interval_count ?? 1))
    need('meter_interval', 'The interval of meters must divide the billing interval.', body.meter_interval)
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
    need('trial_interval', 'A product that is sold once has no trial.', body.trial_interval)
  else trialProblems(body, need)
  return problems
}

const trialProblems = (body: { trial_interval?: unknown; trial_interval_count?: unknown }, need: (field: string, msg: string) => void) => {
  if (body.trial_interval && !body.trial_interval_count) need('trial_interval_count', 'Give trial_interval_count together with trial_interval.')
  if (!body.trial_interval && body.trial_interval_count) need('trial_interval', 'Give trial_interval together with trial_interval_count.')
}

/** Whether so many meter intervals fill the billing interval exactly. */
export const divides = (meter: string, m: number, billing: string, n: number): boolean => {
  if (meter === billing) return n % m === 0
  if (meter === 'day' && billing === 'week') return (7 * n) % m === 0
  if (meter === 'day') return m === 1
  if (meter === 'month' && billing === 'year') return (12 * n) % m === 0
  return false
}

const fieldProblems = async (tx: Tx, organization_id: string, fields: readonly { custom_field_id: string }[]): Promise<Invalid[]> => {
  const ids = fields.map(({ custom_field_id }) => custom_field_id)
  const unknown = await unknownFields(tx, organization_id, ids)
  return fields.flatMap(({ custom_field_id }, at) => {
    const loc = ['body', 'attached_custom_fields', at, 'custom_field_id']
    if (unknown.includes(custom_field_id)) return [{ loc, msg: 'There is no custom field with this id.', type: 'value_error', input: custom_field_id }]
    return ids.indexOf(custom_field_id) < at ? [{ loc, msg: 'This custom field is attached already.', type: 'value_error', input: custom_field_id }] : []
  })
}

/** Held before the product is, as whoever deletes one holds them. */
const heldMedias = (tx: Tx, reach: Reach, medias: readonly string[] | null | undefined) => holdFiles(tx, organizationIds(reach), 'product_media', medias ?? [])

const mediaProblems = (medias: readonly string[] | null | undefined, held: readonly FileRow[], organization_id: string): Invalid[] =>
  (medias ?? []).flatMap((id, at) =>
    held.some((file) => file.id === id && file.organization_id === organization_id)
      ? []
      : [{ loc: ['body', 'medias', at], msg: 'There is no uploaded product media with this id.', type: 'value_error', input: id }],
  )
