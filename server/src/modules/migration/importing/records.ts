import { metadataInput, OrganizationCreate, PresentmentCurrency, text, timestamp, uuid } from '@bursar/contract'
import { z } from 'zod'

/** An email address as the previous system stored it. The check is more lenient than that of the API, so that every customer can be imported. */
const address = () =>
  z
    .string()
    .max(320)
    .regex(/^[^\s@\p{Cc}]+@[^\s@\p{Cc}]+$/u, 'Expected an e-mail address.')
const amount = () => z.int().min(0).max(2_100_000_000)
const count = () => z.int().min(1).max(2_147_483_647)
const metadata = () => metadataInput().default({})

/** Fields of every record. The import keeps the id. `created_at` defaults to the time of the import. */
const known = { id: uuid(), created_at: timestamp().optional() }
/** The purchase that a record belongs to: a subscription, an order or neither. */
const bought = { subscription_id: uuid().nullish(), order_id: uuid().nullish() }

const organization = z.strictObject({
  type: z.literal('organization'),
  name: OrganizationCreate.shape.name,
  slug: OrganizationCreate.shape.slug,
  default_presentment_currency: OrganizationCreate.shape.default_presentment_currency,
  default_tax_behavior: OrganizationCreate.shape.default_tax_behavior,
  /** Email address of the owner. Without an owner, the operator must create a token for the organization. */
  owner_email: z.email().max(320).optional(),
})

const benefit = z.strictObject({
  type: z.literal('benefit'),
  ...known,
  benefit_type: z.enum(['custom', 'license_keys', 'downloadables', 'feature_flag']),
  description: text(3, 42),
  visibility: z.enum(['draft', 'private', 'public']).optional(),
  properties: z.record(z.string(), z.unknown()).default({}),
  metadata: metadata(),
})

const priced = { id: uuid(), price_currency: PresentmentCurrency }
const price = z.discriminatedUnion('amount_type', [
  z.strictObject({ ...priced, amount_type: z.literal('fixed'), price_amount: amount() }),
  z.strictObject({
    ...priced,
    amount_type: z.literal('seat_based'),
    seat_tiers: z.strictObject({
      seat_tier_type: z.enum(['volume', 'graduated']).default('volume'),
      tiers: z
        .array(z.strictObject({ min_seats: z.int().min(1), max_seats: z.int().min(1).nullish(), price_per_seat: amount() }))
        .min(1)
        .max(100),
    }),
  }),
])

const product = z.strictObject({
  type: z.literal('product'),
  ...known,
  name: text(3, 64),
  description: z.string().max(10_000).nullish(),
  visibility: z.enum(['draft', 'private', 'public']).default('public'),
  recurring_interval: z.enum(['day', 'week', 'month', 'year']).nullish(),
  recurring_interval_count: z.int().min(1).max(999).default(1),
  is_archived: z.boolean().default(false),
  prices: z.array(price).min(1).max(10),
  benefits: z.array(uuid()).max(100).default([]),
  metadata: metadata(),
})

const customer = z.strictObject({
  type: z.literal('customer'),
  ...known,
  deleted_at: timestamp().nullish(),
  email: address(),
  email_verified: z.boolean().default(false),
  name: z.string().max(256).nullish(),
  external_id: z.string().min(1).max(256).nullish(),
  metadata: metadata(),
})

const subscription = z.strictObject({
  type: z.literal('subscription'),
  ...known,
  customer_id: uuid(),
  product_id: uuid(),
  status: z.literal('active').default('active'),
  seats: count().nullish(),
  amount: amount(),
  currency: PresentmentCurrency,
  current_period_start: timestamp(),
  current_period_end: timestamp(),
  started_at: timestamp().optional(),
  metadata: metadata(),
})

const order = z.strictObject({
  type: z.literal('order'),
  ...known,
  customer_id: uuid(),
  product_id: uuid(),
  status: z.literal('paid').default('paid'),
  seats: count().nullish(),
  net_amount: amount(),
  tax_amount: amount().default(0),
  currency: PresentmentCurrency,
  description: z.string().min(1).max(1000).optional(),
  metadata: metadata(),
})

const seat = z.strictObject({
  type: z.literal('seat'),
  ...known,
  ...bought,
  status: z.enum(['pending', 'claimed', 'revoked']),
  /** The current or former holder of the seat. */
  customer_id: uuid().nullish(),
  email: address().nullish(),
  invitation_expires_at: timestamp().nullish(),
  claimed_at: timestamp().nullish(),
  revoked_at: timestamp().nullish(),
  metadata: metadata(),
})

const grant = z.strictObject({
  type: z.literal('grant'),
  ...known,
  ...bought,
  benefit_id: uuid(),
  /** The seat that the grant comes from, if known. */
  seat_id: uuid().nullish(),
  /** The customer who has the benefit. */
  customer_id: uuid(),
  granted_at: timestamp().nullish(),
  revoked_at: timestamp().nullish(),
  properties: z.record(z.string(), z.unknown()).default({}),
})

const licenseKey = z.strictObject({
  type: z.literal('license_key'),
  ...known,
  grant_id: uuid(),
  key: z.string().min(4).max(256),
  status: z.enum(['granted', 'revoked', 'disabled']).default('granted'),
  /** If a limit or the expiry is absent, the benefit's setting applies. */
  limit_activations: count().nullable().optional(),
  limit_usage: count().nullable().optional(),
  expires_at: timestamp().nullable().optional(),
  usage: z.int().min(0).max(2_147_483_647).default(0),
  validations: z.int().min(0).max(2_147_483_647).default(0),
  last_validated_at: timestamp().nullish(),
  activations: z
    .array(z.strictObject({ id: uuid(), created_at: timestamp().optional(), label: z.string().min(1).max(256), meta: metadata(), conditions: metadata() }))
    .max(10_000)
    .default([]),
})

const download = z.strictObject({
  type: z.literal('download'),
  ...known,
  grant_id: uuid(),
  file_id: uuid(),
  downloads: z.int().min(0).max(2_147_483_647).default(0),
  last_downloaded_at: timestamp().nullish(),
})

/** One line of a bundle. A record may refer only to records in earlier lines. */
export const BundleRecord = z.discriminatedUnion('type', [organization, benefit, product, customer, subscription, order, seat, grant, licenseKey, download])
export type BundleRecord = z.output<typeof BundleRecord>
/** A record before parsing, as it is written in the file. */
export type BundleLine = z.input<typeof BundleRecord>
export type RecordOf<T extends BundleRecord['type']> = Extract<BundleRecord, { type: T }>

const longest = 1_000_000

/** Formats a received scalar value. Objects are left out, because a whole record may contain a license key. */
const received = (value: unknown): string => {
  if (typeof value === 'object' && value !== null) return ''
  const text = value === undefined ? 'nothing' : JSON.stringify(value)
  return ` (received ${text.length > 100 ? `${text.slice(0, 100)}…` : text})`
}

/**
 * Parses a line into a record. If the line is invalid, returns an error with the location, the received and the
 * expected value. The error never contains a license key.
 */
export const readLine = (line: string): { record: BundleRecord } | { says: string } => {
  if (line.length > longest) return { says: `Expected one record of at most ${longest} characters, received ${line.length}.` }
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return { says: `Expected one record as JSON, received ${line.length} characters that are not JSON.` }
  }
  const read = BundleRecord.safeParse(value, { reportInput: true })
  if (read.success) return { record: read.data }
  const says = read.error.issues.map((issue) => {
    const place = issue.path.join('.')
    const came = place === 'type' ? (value as { type?: unknown }).type : place === 'key' ? {} : issue.input
    return `${place === '' ? '' : `${place}: `}${issue.message}${received(came)}`
  })
  return { says: says.join('; ') }
}
