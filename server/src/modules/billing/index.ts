import type { Area } from '../handlers.ts'
import * as disputes from './disputes/disputes.api.ts'
import * as documents from './documents/documents.api.ts'
import { operations as drafts } from './drafts/drafts.api.ts'
import { operations as postings } from './orders/postings.api.ts'
import * as methods from './methods/methods.api.ts'
import { operations as orders } from './orders/orders.api.ts'
import { operations as paying } from './renewals/paying.api.ts'
import * as renewals from './renewals/renewals.api.ts'
import * as accounts from './payments/accounts.api.ts'
import * as attempts from './payments/attempts.api.ts'
import * as hearing from './payments/processor-events.api.ts'
import { operations as payments } from './payments/payments.api.ts'
import * as refunding from './refunds/refunding.api.ts'
import { operations as refunds } from './refunds/refunds.api.ts'
import { operations as subscriptions } from './subscriptions/subscriptions.api.ts'
import { operations as changing } from './subscriptions/changing.api.ts'
import { operations as portal } from './subscriptions/portal.api.ts'
import { operations as previewing } from './subscriptions/previewing.api.ts'
import * as mails from './emails/emails.api.ts'
import * as seats from './seats/seats.api.ts'
import { operations as sellers } from './sellers/sellers.api.ts'
import * as taxes from './taxes/taxes.api.ts'
import { operations as wallets } from './wallets/wallets.api.ts'

export const area: Area = {
  operations: [
    ...subscriptions,
    ...changing,
    ...portal,
    ...previewing,
    ...orders,
    ...postings,
    ...drafts,
    ...documents.operations,
    ...paying,
    ...payments,
    ...accounts.operations,
    ...hearing.operations,
    ...refunds,
    ...refunding.operations,
    ...disputes.operations,
    ...methods.operations,
    ...seats.operations,
    ...taxes.operations,
    ...sellers,
    ...wallets,
  ],
  jobs: [
    ...mails.jobs,
    ...accounts.jobs,
    ...documents.jobs,
    ...seats.jobs,
    ...attempts.jobs,
    ...renewals.jobs,
    ...refunding.jobs,
    ...disputes.jobs,
    ...methods.jobs,
    ...taxes.jobs,
  ],
  sweeps: [...renewals.sweeps, ...seats.sweeps, ...attempts.sweeps, ...hearing.sweeps, ...refunding.sweeps, ...disputes.sweeps],
  periodicTasks: [...hearing.periodicTasks, ...seats.periodicTasks, ...mails.periodicTasks],
  personal: {
    subscriptions: {
      of: 'customer_id',
      columns: { customer_cancellation_comment: 'nothing', metadata: 'empty', custom_field_data: 'empty' },
    },
    orders: {
      of: 'customer_id',
      columns: {
        // An invoice must name the billed customer for its whole retention period.
        billing_name: 'kept',
        billing_address: 'kept',
        tax_id: 'kept',
        tax_id_format: 'kept',
        metadata: 'empty',
        custom_field_data: 'empty',
      },
    },
    // The brand and the last four digits of a card belong to the accounting records, so they are kept.
    payments: { of: 'customer_id', columns: { processor_method: 'nothing', method_metadata: 'kept' } },
    // A saved payment method is deleted with its customer. The row keeps the processor's id, with which the method is
    // then deleted at the processor.
    payment_methods: { of: 'customer_id', columns: { method_metadata: 'empty', fingerprint: 'nothing' } },
    seats: { of: 'buyer_customer_id', also: 'holder_customer_id', columns: { email: 'address', metadata: 'empty' } },
    // An invoice must name the seller and the billed customer for its whole retention period.
    seller_identities: { columns: { legal_name: 'kept', address: 'kept', tax_id: 'kept', email: 'kept' } },
    documents: { of: 'customer_id', through: { column: 'order_id', table: 'orders' }, columns: { facts: 'kept' } },
    // The tax of an invoice must be explained for its whole retention period.
    tax_quotes: { of: 'customer_id', columns: { address: 'kept', tax_id: 'kept', tax_id_format: 'kept' } },
    refunds: { of: 'customer_id', columns: { comment: 'nothing', metadata: 'empty' } },
  },
  secret: { payment_accounts: ['secret_sealed', 'key_sealed'], ended_invitations: ['hash'], seat_recipients: ['address'] },
}

export { applicable } from './calc/discounts.ts'
export { anchorOf, nextPeriod, trialEnd } from './calc/periods.ts'
export { QuantityBeyondTiers, tierAmount, upfrontLines, type UpfrontLine } from './calc/prices.ts'
export { isQuotedFor } from './calc/taxes.ts'
export { discountLines, totalsOf, type Totals } from './calc/totals.ts'
export { insertDispute, type DisputeRow } from './records/disputes.sql.ts'
export { issue, reductionOf } from './invoicing/issuing.ts'
export { requireOrderRow } from './records/orders.ts'
export { insertOrder, type NewOrderItem, type NewOrderTax, type OrderRow } from './records/orders.sql.ts'
export { charge, look, openAttempt, processorOf, settle } from './payments/attempts.ts'
export { assignPayment, defaultAccount, findAccount, holdMethod, keepMethod, methodOf, readPayment } from './payments/attempts.sql.ts'
export { keepNothing } from './methods/methods.ts'
export { formOf } from './payments/accounts.sql.ts'
export { type PaymentAccountRow, type PaymentRow } from './payments/payments.sql.ts'
export type { UpfrontPrice } from './calc/prices.ts'
export { recordImportedPeriods } from './prorations/crediting.ts'
export { openImportedPeriods } from './records/usage-periods.sql.ts'
export { cardKey, personKey } from './redemptions/persons.ts'
export { insertRedemption, reserveUse, type RedemptionTable } from './redemptions/redemptions.sql.ts'
export { previewRefund, type PreviewedRefund } from './refunds/previewing.ts'
export { insertRefund, type RefundRow } from './records/refunds.sql.ts'
export { seatBuyer } from './seats/assigning.ts'
export { claimedSeats, claimedSeatsOf, containersOf, holdContainer, readSeat, seatsOf, type Container, type ContainerKey } from './seats/reading.sql.ts'
export { findLoadedSeat, type SeatRow } from './seats/seats.sql.ts'
export { presentSeat } from './seats/seats.ts'
export { findSubscription, hasBillableSubscription, insertSubscription, type SubscriptionRow } from './records/subscriptions.sql.ts'
export { labelOf } from './invoicing/applying.ts'
export { subscriptionDue } from './records/subscription-events.ts'
export { amountOfPeriods, meteredAmount } from './calc/metered.ts'
export { mailReceipt, type FindGiven, type Given } from './emails/orders.ts'
export { mailCustomer, portalOf, sceneOf } from './emails/scene.ts'
export { mailTrialStarted } from './emails/subscriptions.ts'
export { addUnits, creditedParts, useCredits, type UsedPart } from './calc/usage-credits.ts'
export { chargeFromJson, openChargeSql, type ChargeJson, type OpenCharge } from './records/usage-charges.sql.ts'
export { creditedOn, quantitiesOf, spansOf, usagePeriodsOf, type UsageSpan } from './records/subscription-usage.sql.ts'
export { presentSubscription } from './records/subscriptions.ts'
export { isUpgradable, startSubscription, untouched, upgradeSubscription } from './subscriptions/creating.ts'
export { hasPending } from './payments/attempts.sql.ts'
export { AccountsSilent, dismissUnmatchedCharge, findUnmatchedCharges } from './payments/unmatched-charges.ts'
export { listUnmatchedCharges, type UnmatchedChargeRow } from './payments/unmatched-charges.sql.ts'
export { askingTaxService } from './taxes/asking.ts'
export { askingVatService, checkVatNumber } from './taxes/vat-checks.ts'
export { quoteTax, taxableLines } from './taxes/taxes.ts'
export { isLineQuote, type TaxQuote } from '../../gateways/tax/tax.ts'
