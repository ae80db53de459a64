import type { AccessChain, AccessEnding, AccessExplanation, AccessLink } from '@bursar/contract'
import type { ChainRow } from './explanation.sql.ts'

const paidStatuses: readonly string[] = ['paid', 'partially_refunded', 'refunded']

const orderLink = (row: ChainRow): AccessLink[] => {
  if (row.order_id === null) return []
  const isOneTime = row.subscription_id === null
  const isPaid = paidStatuses.includes(row.order_status!)
  // The order that began a subscription does not end its benefits. The subscription decides.
  const holds = isOneTime ? isPaid && row.benefits_revoked_at === null : row.order_status !== 'void' && row.order_status !== 'draft'
  const note = holds ? null : row.benefits_revoked_at !== null ? 'A refund has revoked the benefits of this order.' : `The order is ${row.order_status}.`
  return [{ kind: 'order', id: row.order_id, state: row.order_status!, holds, since: row.order_at, until: row.benefits_revoked_at, note }]
}

const subscriptionLink = (row: ChainRow): AccessLink[] => {
  if (row.subscription_id === null) return []
  const state = row.subscription_status!
  const isInGrace = state === 'past_due' && row.grace_until !== null
  const holds = state === 'trialing' || state === 'active' || isInGrace
  const note = holds
    ? null
    : state === 'past_due'
      ? 'A payment failed, and the grace period for benefits is over.'
      : `The subscription is ${state.replaceAll('_', ' ')}.`
  return [{ kind: 'subscription', id: row.subscription_id, state, holds, since: row.started_at, until: row.ended_at ?? row.grace_until ?? row.ends_at, note }]
}

const seatNotes = { pending: 'The person has not claimed the seat yet.', revoked: 'The seat was revoked.' } as const

const seatLink = (row: ChainRow): AccessLink[] => {
  if (row.seat_id === null) return []
  const state = row.seat_status!
  const holds = state === 'claimed'
  return [
    { kind: 'seat', id: row.seat_id, state, holds, since: row.claimed_at, until: row.seat_revoked_at, note: state === 'claimed' ? null : seatNotes[state] },
  ]
}

type GrantState = 'granted' | 'withheld' | 'failed' | 'revoked' | 'pending'

const grantState = (row: ChainRow): GrantState =>
  row.granted_at !== null ? 'granted' : row.is_withheld ? 'withheld' : row.error !== null ? 'failed' : row.revoked_at !== null ? 'revoked' : 'pending'

const grantNotes: Record<Exclude<GrantState, 'granted' | 'failed'>, string> = {
  withheld: 'The seller has revoked this grant by hand.',
  revoked: 'The grant was revoked.',
  pending: 'The benefit is being granted.',
}

const grantLink = (row: ChainRow): AccessLink[] => {
  if (row.grant_id === null) return []
  const state = grantState(row)
  const note = state === 'granted' ? null : state === 'failed' ? row.error!.message : grantNotes[state]
  return [{ kind: 'grant', id: row.grant_id, state, holds: state === 'granted', since: row.granted_at, until: row.revoked_at, note }]
}

/** Lists what would end the access of a chain. */
const endsOf = (row: ChainRow): AccessEnding[] => {
  const ends: AccessEnding[] = []
  const add = (cause: AccessEnding['cause'], resource_id: string | null, at: Date | null = null) => {
    if (resource_id !== null) ends.push({ cause, resource_id, at })
  }
  if (row.subscription_id !== null) {
    if (row.ends_at !== null) add('subscription_ends', row.subscription_id, row.ends_at)
    else add('subscription_canceled', row.subscription_id)
    if (row.grace_until !== null) add('grace_ends', row.subscription_id, row.grace_until)
    else add('payment_fails', row.subscription_id)
  } else add('order_refunded_with_benefits', row.order_id)
  add('seat_revoked', row.seat_id)
  if (row.product_gives) add('benefit_removed_from_product', row.product_id)
  add('grant_revoked_by_seller', row.grant_id)
  if (row.key_expires_at !== null) add('license_key_expires', row.grant_id, row.key_expires_at)
  return ends
}

/** Builds the chain of one purchase or manual grant. */
export const chainOf = (row: ChainRow): AccessChain => {
  const has_access = row.granted_at !== null
  return {
    has_access,
    by_hand: row.is_manual === true,
    product_id: row.product_id,
    links: [...orderLink(row), ...subscriptionLink(row), ...seatLink(row), ...grantLink(row)],
    ends: has_access ? endsOf(row) : [],
  }
}

/** Says why a recipient has the benefit or not. The first row is the one with access, or the newest. */
export const reasonOf = (rows: readonly ChainRow[]): AccessExplanation['reason'] => {
  if (rows.some(({ granted_at }) => granted_at !== null)) return 'granted'
  const reasons = rows.map((row): AccessExplanation['reason'] => {
    const purchases = [...orderLink(row), ...subscriptionLink(row)]
    const isBought = purchases.length > 0 && purchases.every(({ holds }) => holds)
    if (row.is_withheld) return 'withheld'
    if (isBought && row.seats !== null && row.seat_status !== 'claimed') return 'no_seat'
    if (row.error !== null) return 'failed'
    if (row.revoked_at !== null || (!isBought && row.grant_id !== null)) return 'revoked'
    return isBought || row.grant_id !== null ? 'pending' : 'never_granted'
  })
  // The reason that a seller can act on comes first.
  const order: readonly AccessExplanation['reason'][] = ['withheld', 'failed', 'pending', 'no_seat', 'revoked', 'never_granted']
  return order.find((reason) => reasons.includes(reason)) ?? 'never_granted'
}
