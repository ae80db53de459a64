import { within } from '../../../kernel/actors.ts'
import type { Intent } from '../../../gateways/payments/payments.ts'
import { inWallTime } from '../../../platform/clocks.sql.ts'
import { isHeld } from '../../../platform/jobs/leases.sql.ts'
import { markLocked } from '../../../platform/postgres/locks.ts'
import type { BusinessTx, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { findLivingOrganization, type OrganizationRow } from '../../organizations/index.ts'
import { postPayments } from '../ledger/ledger.ts'
import { lockPayments, updatePayments } from '../payments/groups.sql.ts'
import { settledBy } from '../payments/outcomes.ts'
import type { PaymentRow } from '../payments/payments.sql.ts'
import { findPaymentFacts, lockOrders, lockSubscriptions, updateOrders } from '../records/groups.sql.ts'
import { loadOrders, type OrderRow } from '../records/orders.sql.ts'
import type { SubscriptionRow } from '../records/subscriptions.sql.ts'
import type { Charge } from './collecting.ts'
import { numbersOfAll, paidWith, tellAllPaid, type Issued } from './issuing.ts'

/** A charge of a renewal, and the processor's result. */
export interface Charged {
  readonly charge: Charge
  readonly subscription_id: string
  readonly intent: Intent
}

/**
 * The result of recording a charge in a group: `lost` if the lease of the order is not held any more, or `alone` if the
 * result must be recorded in a transaction of its own.
 */
export type Recorded = 'recorded' | 'lost' | 'alone'

/**
 * Records the successful charges of renewals of one organization, in one transaction with set-based statements. Writes
 * nothing for orders that lost their lease, and nothing for orders with anything unusual. Returns the results in the
 * sequence of the charges.
 */
export const recordGroup = async (wall: Tx, organization_id: string, charged: readonly Charged[]): Promise<Recorded[]> => {
  const seller = await findLivingOrganization(wall, { id: organization_id })
  if (!seller) return charged.map(() => 'alone')
  const tx = inWallTime(wall)
  const subscriptions = byId(
    await lockSubscriptions(
      tx,
      organization_id,
      charged.map(({ subscription_id }) => subscription_id),
    ),
  )
  const orders = byId(
    await lockOrders(
      tx,
      organization_id,
      charged.map(({ charge }) => charge.lease.id),
    ),
  )
  const now = tx.clock.wall()
  const held = charged.filter(({ charge: { lease } }) => isHeld(orders.get(lease.id)!, lease, now))
  const payments = byId(
    await lockPayments(
      tx,
      organization_id,
      held.map(({ charge }) => charge.payment.id),
    ),
  )
  const locked = held.map(({ charge, subscription_id, intent }) => ({
    intent,
    subscription: subscriptions.get(subscription_id),
    order: orders.get(charge.lease.id)!,
    payment: payments.get(charge.payment.id)!,
  }))
  const recorded = await conclude(tx, seller, locked.filter(isPlain))
  const isMine = new Set(held)
  return charged.map((one) => (recorded.has(one.charge.payment.id) ? 'recorded' : isMine.has(one) ? 'alone' : 'lost'))
}

const byId = <Row extends { readonly id: string }>(rows: readonly Row[]): Map<string, Row> => new Map(rows.map((row) => [row.id, row]))

interface LockedCharge {
  readonly intent: Intent
  readonly subscription: Locked<SubscriptionRow> | undefined
  readonly order: Locked<OrderRow>
  readonly payment: Locked<PaymentRow>
}

/** True if the first attempt to pay a pending order of an active subscription has succeeded. */
const isPlain = ({ intent, subscription, order, payment }: LockedCharge): boolean =>
  intent.status === 'succeeded' &&
  payment.status === 'pending' &&
  payment.kind === 'payment' &&
  payment.trigger === 'subscription_cycle' &&
  payment.intent_id === intent.id &&
  order.status === 'pending' &&
  order.billing_reason === 'subscription_cycle' &&
  order.clock_id === null &&
  subscription !== undefined &&
  subscription.ended_at === null &&
  subscription.past_due_at === null

/** Marks payments as settled and their orders as paid. Returns the ids of the payments that it has recorded. */
const conclude = async (tx: BusinessTx, seller: OrganizationRow, locked: readonly LockedCharge[]): Promise<Set<string>> => {
  if (locked.length === 0) return new Set()
  const organization_id = seller.id
  const facts = await findPaymentFacts(
    tx,
    organization_id,
    locked.map(({ payment }) => payment.id),
  )
  const plain = locked.filter(({ payment }) => {
    const { is_change, has_credits, is_method_deleted } = facts.get(payment.id)!
    return !is_change && !has_credits && !is_method_deleted
  })
  if (plain.length === 0) return new Set()
  const scope = within(organization_id, 'machine', seller.member_phase)
  const loaded = await loadOrders(
    tx,
    scope,
    plain.map(({ order }) => order),
  )
  const now = tx.clock.business()
  await updatePayments(
    tx,
    organization_id,
    plain.map(({ payment, intent }) => ({ id: payment.id, ...keptOf(payment), ...settledBy(payment, intent, now), concluded_at: now, modified_at: now })),
  )
  await postPayments(
    tx,
    plain.map(({ payment }) => payment),
  )
  const numbers = await numbersOfAll(
    tx,
    seller,
    plain.map(({ order }) => ({ ...order, status: 'paid' as const })),
  )
  const changes = plain.map(({ order }, at) => ({
    id: order.id,
    ...paidWith(numbers[at]!),
    modified_at: now,
    lease_until: null,
    lease_token: null,
    lease_holder: null,
  }))
  await updateOrders(tx, organization_id, changes)
  const paid = loaded.map((one, at): Issued => ({ ...one, order: markLocked({ ...one.order, ...changes[at]! }) }))
  await tellAllPaid(tx, organization_id, paid)
  return new Set(plain.map(({ payment }) => payment.id))
}

/** The columns that a result changes only if it names the payment method. All rows of one update have the same columns. */
const keptOf = ({ method, method_metadata, processor_method }: PaymentRow) => ({ method, method_metadata, processor_method })
