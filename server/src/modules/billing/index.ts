import type { Area } from '../handlers.ts'
import * as disputes from './disputes/disputes.api.ts'
import * as documents from './documents/documents.api.ts'
import { operations as drafts } from './drafts/drafts.api.ts'
import * as methods from './methods/methods.api.ts'
import { operations as orders } from './orders/orders.api.ts'
import { operations as paying } from './renewals/paying.api.ts'
import * as renewals from './renewals/renewals.api.ts'
import { operations as accounts } from './payments/accounts.api.ts'
import * as attempts from './payments/attempts.api.ts'
import * as hearing from './payments/hearing.api.ts'
import { operations as payments } from './payments/payments.api.ts'
import * as refunding from './refunds/refunding.api.ts'
import { operations as refunds } from './refunds/refunds.api.ts'
import { operations as subscriptions } from './subscriptions/subscriptions.api.ts'
import { operations as changing } from './subscriptions/changing.api.ts'
import { operations as portal } from './subscriptions/portal.api.ts'
import { operations as previewing } from './subscriptions/previewing.api.ts'
import { jobs as mails } from './mails/mails.api.ts'
import * as seats from './seats/seats.api.ts'
import { operations as sellers } from './sellers/sellers.api.ts'
import { operations as taxes } from './taxes/taxes.api.ts'
import { operations as wallets } from './wallets/wallets.api.ts'

export const area: Area = {
  operations: [
    ...subscriptions,
    ...changing,
    ...portal,
    ...previewing,
    ...orders,
    ...drafts,
    ...documents.operations,
    ...paying,
    ...payments,
    ...accounts,
    ...hearing.operations,
    ...refunds,
    ...refunding.operations,
    ...disputes.operations,
    ...methods.operations,
    ...seats.operations,
    ...taxes,
    ...sellers,
    ...wallets,
  ],
  jobs: [...mails, ...documents.jobs, ...seats.jobs, ...attempts.jobs, ...renewals.jobs, ...refunding.jobs, ...disputes.jobs, ...methods.jobs],
  sweeps: [...renewals.sweeps, ...seats.sweeps, ...attempts.sweeps, ...hearing.sweeps, ...refunding.sweeps, ...disputes.sweeps],
  chores: [...hearing.chores, ...seats.chores],
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
    // What is kept to pay with is deleted with whoever kept it; its processor forgets it by its name.
    payment_methods: { of: 'customer_id', columns: { method_metadata: 'empty', fingerprint: 'nothing' } },
    seats: { of: 'buyer_customer_id', also: 'holder_customer_id', columns: { email: 'address', metadata: 'empty' } },
    // What an invoice said of who sold and who was billed, it says as long as it must be kept.
    seller_identities: { columns: { legal_name: 'kept', address: 'kept', tax_id: 'kept', email: 'kept' } },
    documents: { of: 'customer_id', through: { column: 'order_id', table: 'orders' }, columns: { facts: 'kept' } },
    refunds: { of: 'customer_id', columns: { comment: 'nothing', metadata: 'empty' } },
  },
  secret: { payment_accounts: ['secret_sealed', 'key_sealed'], ended_invitations: ['hash'] },
}

export { applicable } from './engine/discounts.ts'
export { anchorOf, nextPeriod, trialEnd } from './engine/periods.ts'
export { QuantityBeyondTiers, tierAmount, upfrontLines, type UpfrontLine } from './engine/prices.ts'
export { totalsOf, type Totals } from './engine/totals.ts'
export { insertDispute, type DisputeRow } from './disputes/disputes.sql.ts'
export { issue, reductionOf } from './orders/issuing.ts'
export { insertOrder, type NewOrderItem, type NewOrderTax, type OrderRow } from './orders/orders.sql.ts'
export { charge, look, openAttempt, processorOf, settle } from './payments/attempts.ts'
export { assignPayment, defaultAccount, keepMethod, readPayment } from './payments/attempts.sql.ts'
export { keepNothing } from './methods/methods.ts'
export { formOf, publishableKeyOf } from './payments/accounts.sql.ts'
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
export { AccountsSilent, dismissStray, findStrays } from './payments/strays.ts'
export { listStrays, type StrayRow } from './payments/strays.sql.ts'
export { quoteTax } from './taxes/taxes.ts'
export type { TaxQuote } from '../../gateways/tax/tax.ts'
