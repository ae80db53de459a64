import { createRefund } from '@bursar/contract'
import { job, steps, sweep } from '../../handlers.ts'
import { begin, followDue, followNamed, proceed } from './refunds.ts'

export const operations = [
  steps(createRefund, {
    begin: (tx, { reach, body }) => begin(tx, reach, body),
    proceed: (means, _, intended) => proceed(means, intended),
  }),
]

export const jobs = [job('billing.follow_refund', followNamed)]
export const sweeps = [sweep('billing.follow_refunds', followDue)]
