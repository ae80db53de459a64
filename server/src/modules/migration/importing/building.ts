import { isDeepStrictEqual } from 'node:util'
import { BenefitCreate, InvalidRequest } from '@bursar/contract'
import { Secret } from '../../../kernel/secrets.ts'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import { anchorOf, subscriptionDue, untouched } from '../../billing/index.ts'
import { leadingPrice, priceProblems, settleBenefit } from '../../catalog/index.ts'
import { keySettings, lockKeyAway } from '../../entitlements/index.ts'
import type { GrantName, ProductParts, Row } from './importing.sql.ts'
import type { BundleRecord, RecordOf } from './records.ts'
import { refuse, type Bench, findRow, need, shown, keepRow, claim, grantName, saying, stamped } from './bench.ts'

type Builders = { [T in Exclude<BundleRecord['type'], 'organization'>]: (bench: Bench, record: RecordOf<T>) => boolean | Promise<boolean> }

/** Builds the database rows for each type of record, in the legacy model. Each builder returns true if the record is new, false if it exists. */
const builders: Builders = {
  benefit: async (bench, record) => {
    const { benefit_type: type, description, visibility, properties, metadata } = record
    const said = BenefitCreate.safeParse({ type, description, properties, metadata, ...(visibility ? { visibility } : {}) })
    if (!said.success) return refuse(said.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; '))
    return keepRow(bench, 'benefits', {
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
    const fresh = keepRow(bench, 'products', {
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
      refuse(`The product ${id} already exists with other prices or benefits. An import only adds records.`)
    bench.parts.set(id, parts)
    bench.prices.set(id, prices)
    return fresh
  },

  customer: (bench, record) => {
    const { id, email, external_id = null, deleted_at = null } = record
    if (deleted_at === null) {
      claim(bench, 'address', bench.lower.get(email)!, id, `email: ${email} (case-insensitive) already belongs to the customer`)
      if (external_id !== null) claim(bench, 'external_id', external_id, id, `external_id: ${external_id} already belongs to the customer`)
    }
    return keepRow(bench, 'customers', {
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
      return refuse(`product_id: the product ${product_id} is a one-time product. Give it a recurring_interval, or import an order.`)
    if (current_period_end <= current_period_start) refuse('current_period_end: must be after current_period_start.')
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
    return keepRow(bench, 'subscriptions', { ...row, due_at: subscriptionDue(row) })
  },

  order: (bench, record) => {
    const { customer_id, product_id, net_amount, tax_amount } = record
    need(bench, 'customers', 'customer_id', customer_id)
    const { name } = need(bench, 'products', 'product_id', product_id)
    return keepRow(bench, 'orders', {
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
      tax_quote_id: null,
    })
  },

  seat: (bench, record) => {
    const { status, customer_id = null, claimed_at = null } = record
    const bought = containerOf(bench, record) ?? refuse('subscription_id, order_id: a seat belongs to exactly one of them. Give one.')
    if (bought.seats === null) refuse(`The ${bought.called} has no seats: it is not priced per seat.`)
    const holder = customer_id === null ? undefined : need(bench, 'customers', 'customer_id', customer_id)
    if (status === 'claimed' && (!holder || claimed_at === null)) refuse('customer_id, claimed_at: a claimed seat needs both.')
    const { invitation_expires_at = null, revoked_at = null } = record
    if ((status === 'pending') !== (invitation_expires_at !== null)) refuse('invitation_expires_at: required for a pending seat, and allowed for no other.')
    if ((status === 'revoked') !== (revoked_at !== null)) refuse('revoked_at: required for a revoked seat, and allowed for no other.')
    return keepRow(bench, 'seats', {
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
    if (granted_at === null && revoked_at === null) refuse('granted_at, revoked_at: give at least one of them.')
    if (bought?.seats === null && bought.customer_id !== customer_id)
      refuse(`customer_id: the ${bought.called} has no seats, so its benefits belong to the buyer: expected ${bought.customer_id}, received ${customer_id}.`)
    if (seat_id !== null && need(bench, 'seats', 'seat_id', seat_id).holder_customer_id !== customer_id)
      refuse(`seat_id: the seat ${seat_id} does not belong to the customer ${customer_id}.`)
    // A grant from a seat stores the seat holder, even if the holder is the buyer. All other grants belong to the buyer.
    const named: GrantName = {
      buyer_customer_id: bought?.customer_id ?? customer_id,
      benefit_id: record.benefit_id,
      subscription_id: record.subscription_id ?? null,
      order_id: record.order_id ?? null,
      holder_customer_id: bought && bought.seats !== null ? customer_id : null,
    }
    claim(bench, 'grant', grantName(named), id, 'benefit_id, customer_id: the same benefit, purchase and customer already have the grant')
    // License keys and downloads are imported as separate records, which also set the properties of the grant.
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
    return keepRow(bench, 'benefit_grants', row, follows ? ['properties'] : [])
  },

  license_key: (bench, record) => {
    const { id } = record
    const grant = need(bench, 'benefit_grants', 'grant_id', record.grant_id)
    const benefit = need(bench, 'benefits', 'benefit_id of the grant', grant.benefit_id)
    if (benefit.type !== 'license_keys') refuse(`grant_id: the grant ${grant.id} has the benefit type ${benefit.type}, which has no license key.`)
    const secret = new Secret(record.key)
    const there = findRow(bench, 'license_keys', id)
    if (there && !bench.platform.hasher.candidates(secret).includes(there.hash))
      refuse(`key: the license key ${id} already exists with another key. An import only adds records.`)
    const stamps = stamped(bench, 'license_keys', record)
    const locked = lockKeyAway(bench.platform, secret, stamps)
    claim(bench, 'hash', there?.hash ?? locked.hash, id, 'key: already belongs to the license key')
    claim(bench, 'keyed', grant.id, id, `grant_id: the grant ${grant.id} already has the license key`)
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
    const fresh = keepRow(bench, 'license_keys', row)
    if (fresh && record.activations.length > 0) bench.activations.push({ key: row, of: record.activations })
    return fresh
  },

  download: (bench, record) => {
    const grant = need(bench, 'benefit_grants', 'grant_id', record.grant_id)
    const file = need(bench, 'files', 'file_id', record.file_id)
    const { type, properties } = need(bench, 'benefits', 'benefit_id of the grant', grant.benefit_id)
    if (type !== 'downloadables' || !(properties as { files: string[] }).files.includes(file.id))
      refuse(`file_id: the benefit ${grant.benefit_id} does not include the file ${file.id}.`)
    const { modified_at: _, ...stamps } = stamped(bench, 'downloadables', record)
    return keepRow(bench, 'downloadables', {
      ...stamps,
      grant_id: grant.id,
      benefit_id: grant.benefit_id,
      file_id: file.id,
      downloads: record.downloads,
      last_downloaded_at: record.last_downloaded_at ?? null,
    })
  },
}

/** Returns the number of seats. Returns null if the product is not priced per seat. */
const seatsOf = (bench: Bench, { product_id, seats = null }: { product_id: string; seats?: number | null | undefined }): number | null => {
  const seated = bench.parts.get(product_id)!.prices.some(({ amount_type }) => amount_type === 'seat_based')
  if (seated !== (seats !== null))
    refuse(
      `seats: the product ${product_id} is ${seated ? 'priced per seat: give a number' : 'not priced per seat: leave the seats out'} (received ${shown(seats)}).`,
    )
  return seats
}

/** Returns the subscription or order of a record. Returns undefined for a manual grant. */
const containerOf = (bench: Bench, { subscription_id, order_id }: { subscription_id?: string | null | undefined; order_id?: string | null | undefined }) => {
  if (subscription_id && order_id) return refuse('subscription_id, order_id: a record belongs to only one of them. Leave the other out.')
  if (subscription_id) return { ...need(bench, 'subscriptions', 'subscription_id', subscription_id), called: `subscription ${subscription_id}` }
  if (order_id) return { ...need(bench, 'orders', 'order_id', order_id), called: `order ${order_id}` }
  return undefined
}

/** Adds the rows of a record to the import state. Returns true if the record is new, false if an identical one exists. */
export const build = async (bench: Bench, record: Exclude<BundleRecord, { type: 'organization' }>): Promise<boolean> => {
  try {
    return await builders[record.type](bench, record as never)
  } catch (error) {
    if (error instanceof InvalidRequest) return refuse(saying(error.problems))
    throw error
  }
}
