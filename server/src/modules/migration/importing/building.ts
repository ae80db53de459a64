import { isDeepStrictEqual } from 'node:util'
import { BenefitCreate, InvalidRequest, type Invalid } from '@bursar/contract'
import { Secret } from '../../../kernel/secrets.ts'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { anchorOf, subscriptionDue, untouched } from '../../billing/index.ts'
import { leadingPrice, priceProblems, settleBenefit } from '../../catalog/index.ts'
import { keySettings, lockKeyAway } from '../../entitlements/index.ts'
import type { OrganizationRow } from '../../organizations/index.ts'
import type { GrantName, ProductParts, Row, Table } from './importing.sql.ts'
import type { BundleRecord, RecordOf } from './records.ts'

/** A line that cannot be imported, and why. */
export class LineRefused extends Error {}
const refuse = (says: string): never => {
  throw new LineRefused(says)
}

export const tables = [
  'benefits',
  'products',
  'customers',
  'subscriptions',
  'orders',
  'seats',
  'benefit_grants',
  'license_keys',
  'downloadables',
  'files',
] as const satisfies readonly Table[]

type Rows = { [T in Table]: Map<string, Row<T>> }
export const noRows = (): Rows => Object.fromEntries(tables.map((table) => [table, new Map()])) as unknown as Rows

/** What is known while one part of a bundle is read: what is stored, what the lines before have added, and who is called what. */
export interface Bench {
  readonly tx: Tx
  readonly platform: Pick<Platform, 'hasher' | 'sealer'> & Platform
  readonly organization: OrganizationRow
  readonly there: Rows
  readonly added: Rows
  readonly parts: Map<string, ProductParts>
  readonly activations: { key: Row<'license_keys'>; of: RecordOf<'license_key'>['activations'] }[]
  readonly prices: Map<string, RecordOf<'product'>['prices']>
  /** By address as the database compares it, by external id, by the name of a grant, by the hash of a key and by its grant: whose it is. */
  readonly taken: Record<'address' | 'external_id' | 'grant' | 'hash' | 'keyed', Map<string, string>>
  readonly lower: ReadonlyMap<string, string>
}

const rowsIn = <T extends Table>(rows: Rows, table: T): Map<string, Row<T>> => rows[table]
const find = <T extends Table>(bench: Bench, table: T, id: string): Row<T> | undefined =>
  rowsIn(bench.there, table).get(id) ?? rowsIn(bench.added, table).get(id)

const names: Record<Table, string> = {
  benefits: 'benefit',
  products: 'product',
  customers: 'customer',
  subscriptions: 'subscription',
  orders: 'order',
  seats: 'seat',
  benefit_grants: 'grant',
  license_keys: 'license key',
  downloadables: 'download',
  files: 'file',
}

const need = <T extends Table>(bench: Bench, table: T, field: string, id: string): Row<T> =>
  find(bench, table, id) ?? refuse(`${field}: there is no ${names[table]} ${id}, neither here nor in a line before. Put it before this line.`)

const shown = (value: unknown): string => (value instanceof Date ? value.toISOString() : (JSON.stringify(value) ?? 'nothing'))
const unasked = new Set(['modified_at', 'due_at', 'clock_id', 'lease_until', 'lease_token', 'lease_holder', 'hash', 'pepper', 'key_sealed'])

/** A record is added once. One that is there already must be the same: an import adds, and changes nothing. */
const keep = <T extends Table>(bench: Bench, table: T, row: Row<T> & { readonly id: string }, besides: readonly string[] = []): boolean => {
  const there = find(bench, table, row.id)
  if (!there) {
    rowsIn(bench.added, table).set(row.id, row)
    return true
  }
  const different = Object.keys(row).filter(
    (column) => !unasked.has(column) && !besides.includes(column) && !isDeepStrictEqual(row[column as keyof Row<T>], there[column as keyof Row<T>]),
  )
  if (different.length > 0) {
    const each = different.map((column) => `${column} is ${shown(there[column as keyof Row<T>])} there and ${shown(row[column as keyof Row<T>])} here`)
    refuse(`The ${names[table]} ${row.id} is there already, and is another: ${each.join(', ')}. An import adds, and changes nothing.`)
  }
  return false
}

/** Whoever comes second is refused: the same name cannot be two records'. */
const claim = (bench: Bench, what: keyof Bench['taken'], name: string, id: string, says: string): void => {
  const holder = bench.taken[what].get(name)
  if (holder !== undefined && holder !== id) refuse(`${says} ${holder} already.`)
  bench.taken[what].set(name, id)
}

export const grantName = ({ buyer_customer_id, benefit_id, subscription_id, order_id, holder_customer_id }: GrantName): string =>
  [buyer_customer_id, benefit_id, subscription_id ?? '', order_id ?? '', holder_customer_id ?? ''].join(' ')

const saying = (problems: readonly Invalid[]): string => problems.map(({ loc, msg }) => `${loc.slice(1).join('.')}: ${msg}`).join('; ')

const stamped = (bench: Bench, table: Table, { id, created_at }: { id: string; created_at?: Date | undefined }) => ({
  organization_id: bench.organization.id,
  id,
  created_at: created_at ?? find(bench, table, id)?.created_at ?? bench.tx.clock.business(),
  modified_at: null,
})

type Builders = { [T in Exclude<BundleRecord['type'], 'organization'>]: (bench: Bench, record: RecordOf<T>) => boolean | Promise<boolean> }

/** What each kind of record becomes: rows as they were before there were members. True: it is new; false: it was there. */
const builders: Builders = {
  benefit: async (bench, record) => {
    const { benefit_type: type, description, visibility, properties, metadata } = record
    const said = BenefitCreate.safeParse({ type, description, properties, metadata, ...(visibility ? { visibility } : {}) })
    if (!said.success) return refuse(said.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; '))
    return keep(bench, 'benefits', {
      ...stamped(bench, 'benefits', record),
      deleted_at: null,
      type,
      description,
      visibility: visibility ?? (type === 'feature_flag' ? 'private' : 'public'),
      selectable: true,
      deletable: true,
      properties: await settleBenefit(bench.tx, bench.platform, bench.organization.id, said.data),
      meter_id: null,
      metadata,
    })
  },

  product: (bench, record) => {
    const { id, recurring_interval = null, prices, benefits } = record
    const wanted = prices.map((price, at) => ({ price, at }))
    const problems = priceProblems(wanted, { organization: bench.organization, recurring: recurring_interval !== null, meters: new Set() })
    if (problems.length > 0) refuse(saying(problems))
    for (const benefit of benefits) need(bench, 'benefits', 'benefits', benefit)
    const fresh = keep(bench, 'products', {
      ...stamped(bench, 'products', record),
      name: record.name,
      description: record.description ?? null,
      visibility: record.visibility,
      recurring_interval,
      recurring_interval_count: recurring_interval === null ? null : record.recurring_interval_count,
      trial_interval: null,
      trial_interval_count: null,
      meter_interval: null,
      meter_interval_count: null,
      is_archived: record.is_archived,
      metadata: record.metadata,
      ...leadingPrice(prices),
    })
    const parts: ProductParts = {
      prices: prices.map((price) => ({
        id: price.id,
        amount_type: price.amount_type,
        price_currency: price.price_currency,
        price_amount: price.amount_type === 'fixed' ? price.price_amount : null,
        seat_tiers: price.amount_type === 'seat_based' ? price.seat_tiers : null,
      })),
      benefits,
    }
    if (!fresh && !isDeepStrictEqual(parts, bench.parts.get(id)))
      refuse(`The product ${id} is there already, with other prices or benefits. An import adds, and changes nothing.`)
    bench.parts.set(id, parts)
    bench.prices.set(id, prices)
    return fresh
  },

  customer: (bench, record) => {
    const { id, email, external_id = null, deleted_at = null } = record
    if (deleted_at === null) {
      claim(bench, 'address', bench.lower.get(email)!, id, `email: ${email}, in whatever case, is the address of the customer`)
      if (external_id !== null) claim(bench, 'external_id', external_id, id, `external_id: ${external_id} is that of the customer`)
    }
    return keep(bench, 'customers', {
      ...stamped(bench, 'customers', record),
      deleted_at,
      type: 'individual',
      email,
      email_verified: record.email_verified,
      external_id,
      name: record.name ?? null,
      billing_name: null,
      billing_address: null,
      tax_id: null,
      tax_id_format: null,
      locale: null,
      metadata: record.metadata,
      default_payment_method_id: null,
      first_user_event_at: null,
      forgotten_at: null,
      clock_id: null,
      pure_holder: false,
      becomes_team: false,
      tombstoned_at: null,
    })
  },

  subscription: (bench, record) => {
    const { customer_id, product_id, current_period_start, current_period_end } = record
    need(bench, 'customers', 'customer_id', customer_id)
    const { recurring_interval, recurring_interval_count } = need(bench, 'products', 'product_id', product_id)
    if (recurring_interval === null || recurring_interval_count === null)
      return refuse(`product_id: the product ${product_id} is bought once. Give it a recurring_interval, or import an order.`)
    if (current_period_end <= current_period_start) refuse('current_period_end: a period ends after it has begun.')
    const stamps = stamped(bench, 'subscriptions', record)
    const row: Row<'subscriptions'> = {
      ...untouched,
      ...stamps,
      status: record.status,
      customer_id,
      product_id,
      amount: record.amount,
      currency: record.currency,
      recurring_interval,
      recurring_interval_count,
      anchor_day: anchorOf(current_period_start),
      current_period_start,
      current_period_end,
      started_at: record.started_at ?? stamps.created_at,
      seats: seatsOf(bench, record),
      metadata: record.metadata,
      custom_field_data: {},
      calendar_from: current_period_start,
    }
    return keep(bench, 'subscriptions', { ...row, due_at: subscriptionDue(row) })
  },

  order: (bench, record) => {
    const { customer_id, product_id, net_amount, tax_amount } = record
    need(bench, 'customers', 'customer_id', customer_id)
    const { name } = need(bench, 'products', 'product_id', product_id)
    return keep(bench, 'orders', {
      ...unleased,
      ...stamped(bench, 'orders', record),
      status: record.status,
      billing_reason: 'purchase',
      currency: record.currency,
      subtotal_amount: net_amount,
      discount_amount: 0,
      net_amount,
      tax_amount,
      total_amount: net_amount + tax_amount,
      applied_balance_amount: 0,
      due_amount: net_amount + tax_amount,
      carried_amount: 0,
      refunded_amount: 0,
      refunded_tax_amount: 0,
      tax_behavior: null,
      billing_name: null,
      billing_address: null,
      tax_id: null,
      tax_id_format: null,
      invoice_number: null,
      receipt_number: null,
      is_invoice_generated: false,
      seats: seatsOf(bench, record),
      customer_id,
      product_id,
      discount_id: null,
      subscription_id: null,
      checkout_id: null,
      next_payment_attempt_at: null,
      description: record.description ?? name,
      metadata: record.metadata,
      custom_field_data: {},
      period_start: null,
      period_end: null,
      first_failed_at: null,
      benefits_revoked_at: null,
    })
  },

  seat: (bench, record) => {
    const { status, customer_id = null, claimed_at = null } = record
    const bought = containerOf(bench, record) ?? refuse('subscription_id, order_id: a seat is of one of them. Name one.')
    if (bought.seats === null) refuse(`The ${bought.called} has no seats: it is not priced by seat.`)
    const holder = customer_id === null ? undefined : need(bench, 'customers', 'customer_id', customer_id)
    if (status === 'claimed' && (!holder || claimed_at === null)) refuse('customer_id, claimed_at: a claimed seat says who holds it, and since when.')
    const { invitation_expires_at = null, revoked_at = null } = record
    if ((status === 'pending') !== (invitation_expires_at !== null))
      refuse('invitation_expires_at: until when somebody is invited is said of a pending seat, and of no other.')
    if ((status === 'revoked') !== (revoked_at !== null)) refuse('revoked_at: when it was taken away is said of a revoked seat, and of no other.')
    return keep(bench, 'seats', {
      ...unleased,
      ...stamped(bench, 'seats', record),
      subscription_id: record.subscription_id ?? null,
      order_id: record.order_id ?? null,
      status,
      buyer_customer_id: bought.customer_id,
      holder_customer_id: customer_id,
      member_id: null,
      email: record.email ?? holder?.email ?? null,
      invitation_expires_at,
      claimed_at,
      revoked_at,
      metadata: record.metadata,
      due_at: invitation_expires_at,
    })
  },

  grant: (bench, record) => {
    const { id, customer_id, granted_at = null, revoked_at = null, seat_id = null } = record
    const { type } = need(bench, 'benefits', 'benefit_id', record.benefit_id)
    need(bench, 'customers', 'customer_id', customer_id)
    const bought = containerOf(bench, record)
    if (granted_at === null && revoked_at === null) refuse('granted_at, revoked_at: say when it was given, or taken away.')
    if (bought?.seats === null && bought.customer_id !== customer_id)
      refuse(`customer_id: the ${bought.called} has no seats, so that what it gives is its buyer's: expected ${bought.customer_id}, received ${customer_id}.`)
    if (seat_id !== null && need(bench, 'seats', 'seat_id', seat_id).holder_customer_id !== customer_id)
      refuse(`seat_id: the seat ${seat_id} is not held by the customer ${customer_id}.`)
    // What is had by a seat says who holds that, also where it is the buyer; everything else is the buyer's own.
    const named: GrantName = {
      buyer_customer_id: bought?.customer_id ?? customer_id,
      benefit_id: record.benefit_id,
      subscription_id: record.subscription_id ?? null,
      order_id: record.order_id ?? null,
      holder_customer_id: bought && bought.seats !== null ? customer_id : null,
    }
    claim(bench, 'grant', grantName(named), id, 'benefit_id, customer_id: the same, of the same purchase and for the same customer, is the grant')
    // Which key or which files it gives is said by those.
    const follows = type === 'license_keys' || type === 'downloadables'
    const row: Row<'benefit_grants'> = {
      ...unleased,
      clock_id: null,
      ...stamped(bench, 'benefit_grants', record),
      ...named,
      seat_id,
      member_id: null,
      is_manual: bought === undefined,
      is_withheld: false,
      is_wanted: revoked_at === null,
      granted_at: revoked_at === null ? granted_at : null,
      revoked_at,
      properties: follows ? {} : record.properties,
      error: null,
      attempts: 0,
      place: null,
      account: null,
      cycled_for: null,
    }
    return keep(bench, 'benefit_grants', row, follows ? ['properties'] : [])
  },

  license_key: (bench, record) => {
    const { id } = record
    const grant = need(bench, 'benefit_grants', 'grant_id', record.grant_id)
    const benefit = need(bench, 'benefits', 'benefit_id of the grant', grant.benefit_id)
    if (benefit.type !== 'license_keys') refuse(`grant_id: the grant ${grant.id} gives ${benefit.type}, and no key.`)
    const secret = new Secret(record.key)
    const there = find(bench, 'license_keys', id)
    if (there && !bench.platform.hasher.candidates(secret).includes(there.hash))
      refuse(`key: the license key ${id} is there already, and is another. An import adds, and changes nothing.`)
    const stamps = stamped(bench, 'license_keys', record)
    const locked = lockKeyAway(bench.platform, secret, stamps)
    claim(bench, 'hash', there?.hash ?? locked.hash, id, 'key: it is the same as that of the license key')
    claim(bench, 'keyed', grant.id, id, `grant_id: the grant ${grant.id} has the license key`)
    const said = (['limit_activations', 'limit_usage', 'expires_at'] as const).filter((setting) => record[setting] !== undefined)
    const row: Row<'license_keys'> = {
      ...stamps,
      benefit_id: grant.benefit_id,
      grant_id: grant.id,
      buyer_customer_id: grant.buyer_customer_id,
      holder_customer_id: grant.holder_customer_id,
      member_id: null,
      ...locked,
      status: record.status,
      usage: record.usage,
      validations: record.validations,
      last_validated_at: record.last_validated_at ?? null,
      overrides: said,
      ...keySettings(benefit, grant, stamps.created_at),
      ...Object.fromEntries(said.map((setting) => [setting, record[setting]])),
    }
    const fresh = keep(bench, 'license_keys', row)
    if (fresh && record.activations.length > 0) bench.activations.push({ key: row, of: record.activations })
    return fresh
  },

  download: (bench, record) => {
    const grant = need(bench, 'benefit_grants', 'grant_id', record.grant_id)
    const file = need(bench, 'files', 'file_id', record.file_id)
    const { type, properties } = need(bench, 'benefits', 'benefit_id of the grant', grant.benefit_id)
    if (type !== 'downloadables' || !(properties as { files: string[] }).files.includes(file.id))
      refuse(`file_id: the benefit ${grant.benefit_id} does not give the file ${file.id}.`)
    const { modified_at: _, ...stamps } = stamped(bench, 'downloadables', record)
    return keep(bench, 'downloadables', {
      ...stamps,
      grant_id: grant.id,
      benefit_id: grant.benefit_id,
      file_id: file.id,
      downloads: record.downloads,
      last_downloaded_at: record.last_downloaded_at ?? null,
    })
  },
}

/** As many seats as were bought: none where the product is not sold by seat. */
const seatsOf = (bench: Bench, { product_id, seats = null }: { product_id: string; seats?: number | null | undefined }): number | null => {
  const seated = bench.parts.get(product_id)!.prices.some(({ amount_type }) => amount_type === 'seat_based')
  if (seated !== (seats !== null))
    refuse(`seats: the product ${product_id} is ${seated ? 'sold by seat: say how many' : 'not sold by seat: leave them out'} (received ${shown(seats)}).`)
  return seats
}

/** What somebody has something through; undefined where it was given by hand. */
const containerOf = (bench: Bench, { subscription_id, order_id }: { subscription_id?: string | null | undefined; order_id?: string | null | undefined }) => {
  if (subscription_id && order_id) return refuse('subscription_id, order_id: it is of one of them. Leave the other out.')
  if (subscription_id) return { ...need(bench, 'subscriptions', 'subscription_id', subscription_id), called: `subscription ${subscription_id}` }
  if (order_id) return { ...need(bench, 'orders', 'order_id', order_id), called: `order ${order_id}` }
  return undefined
}

/** Puts a record on the bench. True: it is new; false: it was there, and is the same. */
export const build = async (bench: Bench, record: Exclude<BundleRecord, { type: 'organization' }>): Promise<boolean> => {
  try {
    return await builders[record.type](bench, record as never)
  } catch (error) {
    if (error instanceof InvalidRequest) return refuse(saying(error.problems))
    throw error
  }
}
