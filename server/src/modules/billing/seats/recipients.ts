import { accountLimits, TooManyRequests } from '@bursar/contract'
import { days, hours, later } from '../../../platform/clock.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import type { Pool, PoolKey, Purchase } from './pools.sql.ts'
import type { NotedInvitation, Recipient, RecipientLimits } from './recipients.sql.ts'

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

const unpaid: PurchaseLimit = {
  most: accountLimits.seat_recipients_per_unpaid_purchase_and_day,
  kind: 'that is not paid yet ',
  advice: ', or wait for its first payment',
}

const organizationLimit = ({ config }: Pick<Platform, 'config'>): number =>
  config.budgets.seat_recipients?.[0]?.[0] ?? accountLimits.seat_recipients_per_organization_and_day[config.environment]

/** Returns the lower limit of a paid purchase: by its number of seats, or by its share of the organization's limit. */
const limitOf = ({ places }: Pool, organization: number): PurchaseLimit => {
  const bySeats = { most: recipientsPerPurchase(places), kind: `with ${places} seats `, advice: ', or buy more seats' }
  const share = { most: Math.max(1, Math.floor(organization * accountLimits.largest_share_of_seat_recipients_per_purchase)), kind: '', advice: '' }
  return share.most < bySeats.most ? share : bySeats
}

/** Returns the limits that `noteInvitation` compares with the invited addresses. */
export const recipientLimits = (pool: Pool, platform: Pick<Platform, 'config'>): RecipientLimits => {
  const organization = organizationLimit(platform)
  return { organization, purchase: limitOf(pool, organization).most, unpaid: unpaid.most }
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
 * recipient. The pool is locked, so the limit per purchase is exact. The limit per organization is approximate under
 * concurrent requests.
 */
export const limitRecipients = (
  tx: Tx,
  pool: Locked<Purchase> & Pool,
  { is_paid, beyond }: NotedInvitation,
  email: string,
  platform: Pick<Platform, 'config'>,
): void => {
  const organization = organizationLimit(platform)
  const paid = limitOf(pool, organization)
  const isUnpaid = !is_paid && unpaid.most < paid.most
  const purchase = isUnpaid ? unpaid : paid
  const first = beyond.organization ?? (isUnpaid ? beyond.unpaid : beyond.purchase)
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
