import type { Area } from '../handlers.ts'
import { operations as orders } from './orders/orders.api.ts'
import { operations as paying } from './renewals/paying.api.ts'
import * as renewals from './renewals/renewals.api.ts'
import * as attempts from './payments/attempts.api.ts'
import { operations as payments } from './payments/payments.api.ts'
import * as refunding from './refunds/refunding.api.ts'
import { operations as refunds } from './refunds/refunds.api.ts'
import { operations as subscriptions } from './subscriptions/subscriptions.api.ts'
import { operations as changing } from './subscriptions/changing.api.ts'
import { operations as portal } from './subscriptions/portal.api.ts'
import { jobs as mails } from './mails/mails.api.ts'
import * as seats from './seats/seats.api.ts'
import { operations as taxes } from './taxes/taxes.api.ts'

export const area: Area = {
  operations: [
    ...subscriptions,
    ...changing,
    ...portal,
    ...orders,
    ...paying,
    ...payments,
    ...attempts.operations,
    ...refunds,
    ...refunding.operations,
    ...seats.operations,
    ...taxes,
  ],
  jobs: [...mails, ...seats.jobs, ...attempts.jobs, ...renewals.jobs, ...refunding.jobs],
  sweeps: [...renewals.sweeps, ...seats.sweeps, ...attempts.sweeps, ...refunding.sweeps],
  chores: attempts.chores,
  personal: {
    subscriptions: {
      of: 'customer_id',
      columns: { customer_cancellation_comment: 'nothing', metadata: 'empty', custom_field_data: 'empty' },
    },
    orders: {
      of: 'customer_id',
      columns: {
        // An invoice says who was billed for as long as it must be kept.
        billing_name: 'kept',
        billing_address: 'kept',
        tax_id: 'kept',
        tax_id_format: 'kept',
        metadata: 'empty',
        custom_field_data: 'empty',
      },
    },
    // Brand and last digits of a card belong to the books.
    payments: { of: 'customer_id', columns: { processor_method: 'nothing', method_metadata: 'kept' } },
    seats: { of: 'buyer_customer_id', also: 'holder_customer_id', columns: { email: 'address', metadata: 'empty' } },
    refunds: { of: 'customer_id', columns: { comment: 'nothing', metadata: 'empty' } },
  },
  secret: { payment_accounts: ['secret_sealed'] },
}

export { applicable } from './engine/discounts.ts'
export { anchorOf, nextPeriod, trialEnd } from './engine/periods.ts'
export { QuantityBeyondTiers, tierAmount, upfrontLines, type UpfrontLine } from './engine/prices.ts'
export { totalsOf, type Totals } from './engine/totals.ts'
export { issue, reductionOf } from './orders/issuing.ts'
export { insertOrder, type NewOrderItem, type NewOrderTax, type OrderRow } from './orders/orders.sql.ts'
export { charge, look, openAttempt, ownMethod, processorOf, settle } from './payments/attempts.ts'
export { assignPayment, defaultAccount, keepMethod, readPayment } from './payments/attempts.sql.ts'
export { type PaymentAccountRow, type PaymentRow } from './payments/payments.sql.ts'
export { cardKey, personKey } from './redemptions/persons.ts'
export { insertRedemption, reserveUse, type RedemptionTable } from './redemptions/redemptions.sql.ts'
export { insertRefund, type RefundRow } from './refunds/refunds.sql.ts'
export { seatBuyer } from './seats/assigning.ts'
export { claimedSeats, claimedSeatsOf, containersOf, holdContainer, readSeat, seatsOf, type Container, type ContainerKey } from './seats/reading.sql.ts'
export { findSeat, type SeatRow } from './seats/seats.sql.ts'
export { show as showSeats } from './seats/seats.ts'
export { findSubscription, hasBillableSubscription, insertSubscription, loadSubscriptions, type SubscriptionRow } from './subscriptions/subscriptions.sql.ts'
export { labelOf } from './subscriptions/applying.ts'
export { dueOf as subscriptionDue } from './subscriptions/telling.ts'
export { presentSubscription } from './subscriptions/subscriptions.ts'
export { isUpgradable, start as startSubscription, untouched, upgrade as upgradeSubscription } from './subscriptions/creating.ts'
export { hasPending } from './payments/attempts.sql.ts'
export { quoteTax } from './taxes/taxes.ts'
export type { TaxQuote } from '../../gateways/tax/tax.ts'
