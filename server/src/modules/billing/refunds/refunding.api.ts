import { createRefund } from '@bursar/contract'
import { job, multiStep, sweep } from '../../handlers.ts'
import { begin, followDue, followNamed, proceed, refundOrder } from './refunds.ts'

export const operations = [
  multiStep(createRefund, {
    begin: (tx, { scope, body }) => begin(tx, scope, body),
    proceed: (deps, _, intended) => proceed(deps, intended),
  }),
]

export const jobs = [job('billing.refund_order', refundOrder), job('billing.follow_refund', followNamed)]
export const sweeps = [sweep('billing.follow_refunds', followDue)]
