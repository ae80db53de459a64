import type { Area } from '../handlers.ts'
import { operations as orders } from './orders/orders.api.ts'
import * as paying from './orders/paying.api.ts'
import * as attempts from './payments/attempts.api.ts'
import { operations as payments } from './payments/payments.api.ts'
import * as refunding from './refunds/refunding.api.ts'
import { operations as refunds } from './refunds/refunds.api.ts'
import { operations as subscriptions } from './subscriptions/subscriptions.api.ts'
import { operations as taxes } from './taxes/taxes.api.ts'

export const area: Area = {
  operations: [...subscriptions, ...orders, ...paying.operations, ...payments, ...attempts.operations, ...refunds, ...refunding.operations, ...taxes],
  jobs: [...attempts.jobs, ...paying.jobs, ...refunding.jobs],
  sweeps: [...attempts.sweeps, ...refunding.sweeps],
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
    refunds: { of: 'customer_id', columns: { comment: 'nothing', metadata: 'empty' } },
  },
  secret: { payment_accounts: ['secret_sealed'] },
}

export { applicable } from './engine/discounts.ts'
export { anchorOf, nextPeriod, trialEnd } from './engine/periods.ts'
export { QuantityBeyondTiers, tierAmount, upfrontLines, type UpfrontLine } from './engine/prices.ts'
export { totalsOf, type Totals } from './engine/totals.ts'
export { postOrder } from './ledger/ledger.ts'
export { insertOrder, loadOrders, type LoadedOrder, type NewOrderItem, type NewOrderTax, type OrderRow } from './orders/orders.sql.ts'
export { nextInvoiceNumber, presentOrder, subjectOf as subjectOfOrder } from './orders/orders.ts'
export { charge, look, openAttempt, processorOf, settle } from './payments/attempts.ts'
export { assignPayment, defaultAccount, keepMethod, readPayment } from './payments/attempts.sql.ts'
export { type PaymentAccountRow, type PaymentRow } from './payments/payments.sql.ts'
export { insertRefund, type RefundRow } from './refunds/refunds.sql.ts'
export { hasBillableSubscription, insertSubscription, loadSubscriptions, type SubscriptionRow } from './subscriptions/subscriptions.sql.ts'
export { presentSubscription } from './subscriptions/subscriptions.ts'
export { quoteTax } from './taxes/taxes.ts'
export type { TaxQuote } from '../../gateways/tax/tax.ts'
