import { job, periodicTask } from '../../handlers.ts'
import { announceExpiringCards, mailCardExpiring } from './cards.ts'
import { mailDispute, mailPaymentFailed, mailRefund } from './orders.ts'
import { mailDisputeOpened, mailNewOrder, tellSellerOfDispute, tellSellerOfOrder } from './sellers.ts'
import { mailRenewalReminder, mailSubscription, mailTrialEnding } from './subscriptions.ts'

export const jobs = [
  job('mail.payment_failed', mailPaymentFailed),
  job('mail.order_refunded', mailRefund),
  job('mail.dispute', mailDispute),
  job('mail.renewal_reminder', mailRenewalReminder),
  job('mail.trial_ending', mailTrialEnding),
  job('mail.subscription', mailSubscription),
  job('mail.card_expiring', mailCardExpiring),
  job('mail.seller_order', tellSellerOfOrder),
  job('mail.new_order', mailNewOrder),
  job('mail.seller_dispute', tellSellerOfDispute),
  job('mail.dispute_opened', mailDisputeOpened),
]
export const periodicTasks = [periodicTask('billing.announce_cards', announceExpiringCards)]
