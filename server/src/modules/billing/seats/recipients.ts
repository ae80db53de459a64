import { accountLimits, TooManyRequests } from '@bursar/contract'
import { days, hours, later } from '../../../platform/clock.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import type { Pool, PoolKey, Purchase } from './pools.sql.ts'
import { beyondLimits, isPaid, type Recipient } from './recipients.sql.ts'

/** The time window in which distinct invited addresses are counted. */
export const recipientWindow = 1 * days

/** Distinct addresses that a paid purchase may invite in a day: twice the number of seats, to allow for mistakes. */
export const recipientsPerPurchase = (seats: number): number =>
  Math.max(accountLimits.seat_recipients_per_small_purchase_and_day, accountLimits.seat_recipients_per_seat_and_day * seats)

interface PurchaseLimit {
  readonly most: number
  /** Parts of the error message: the kind of purchase that the limit is for, and how to get a higher limit. */
  readonly kind: string
  readonly advice: string
}

const unpaid = accountLimits.seat_recipients_per_unpaid_purchase_and_day

/**
 * Returns the lowest limit that applies to a purchase: by its number of seats, by its share of the organization's
 * limit, and while it is unpaid.
 */
const limitOf = async (tx: Tx, pool: Pool, organization: number): Promise<PurchaseLimit> => {
  const bySeats = { most: recipientsPerPurchase(pool.places), kind: `with ${pool.places} seats `, advice: ', or buy more seats' }
  const limits = [
    bySeats,
    { most: Math.max(1, Math.floor(organization * accountLimits.largest_share_of_seat_recipients_per_purchase)), kind: '', advice: '' },
    ...(bySeats.most > unpaid && !(await isPaid(tx, pool)) ? [{ most: unpaid, kind: 'that is not paid yet ', advice: ', or wait for its first payment' }] : []),
  ]
  return limits.reduce((least, limit) => (limit.most < least.most ? limit : least))
}

/**
 * Returns the recipient of an invitation. Uses a keyed hash, because an unkeyed hash could be reversed by hashing known
 * addresses. After a key rotation an address counts once more.
 */
export const recipientOf = ({ organization_id, subscription_id, order_id }: PoolKey, email: string, { hasher }: Pick<Platform, 'hasher'>): Recipient => ({
  organization_id,
  purchase_id: (subscription_id ?? order_id)!,
  address: hasher.digest(`seat recipient ${organization_id} ${email.toLowerCase()}`),
})

/**
 * Limits the number of distinct addresses that seat invitations are mailed to. Called if the purchase invites a new
 * recipient, after the recipient was recorded. The pool is locked, so the limit per purchase is exact. The limit per
 * organization is approximate under concurrent requests.
 */
export const limitRecipients = async (
  tx: Tx,
  pool: Locked<Purchase> & Pool,
  recipient: Recipient,
  email: string,
  { config }: Pick<Platform, 'config'>,
): Promise<void> => {
  const since = later(tx.clock.wall(), -recipientWindow)
  const organization = config.budgets.seat_recipients?.[0]?.[0] ?? accountLimits.seat_recipients_per_organization_and_day[config.environment]
  const purchase = await limitOf(tx, pool, organization)
  const beyond = await beyondLimits(tx, recipient, { purchase: purchase.most, organization }, since)
  const first = beyond.organization ?? beyond.purchase
  if (first === null) return
  const seconds = Math.max(1, Math.ceil((later(first, recipientWindow).getTime() - tx.clock.wall().getTime()) / 1000))
  const wait = `Wait ${Math.ceil((seconds * 1000) / hours)} h`
  throw new TooManyRequests(
    beyond.organization
      ? `${email} exceeds the limit of ${organization} different addresses that an organization may invite to seats in 24 hours. ${wait}, or invite addresses that were already invited today.`
      : `${email} exceeds the limit of ${purchase.most} different addresses that a purchase ${purchase.kind}may invite in 24 hours. ${wait}, invite addresses that were already invited today${purchase.advice}.`,
    { 'retry-after': String(seconds) },
  )
}
