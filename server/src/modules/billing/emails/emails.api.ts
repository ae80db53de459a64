import { job } from '../../handlers.ts'
import { mailPaymentFailed, mailReceipt, mailRenewalReminder, mailTrialEnding } from './emails.ts'

export const jobs = [
  job('mail.order_receipt', mailReceipt),
  job('mail.payment_failed', mailPaymentFailed),
  job('mail.renewal_reminder', mailRenewalReminder),
  job('mail.trial_ending', mailTrialEnding),
]
