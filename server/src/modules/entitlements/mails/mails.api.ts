import { job } from '../../handlers.ts'
import { mailOrder, mailTrial } from './mails.ts'

export const jobs = [job('mail.order_receipt', mailOrder), job('mail.trial_started', mailTrial)]
