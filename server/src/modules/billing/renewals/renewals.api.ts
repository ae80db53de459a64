import { job, sweep } from '../../handlers.ts'
import { customerDeleted as methodsDeleted } from '../methods/methods.ts'
import { holderDeleted } from '../seats/ending.ts'
import { collect, methodChanged, orderPaymentSettled } from './collecting.ts'
import { customerDeleted, renew } from './renewals.ts'

export const jobs = [
  job('billing.customer_deleted', async (means, customer) => {
    await customerDeleted(means, customer)
    await holderDeleted(means, customer)
    await methodsDeleted(means, customer)
  }),
  job('billing.method_changed', methodChanged),
  job('billing.order_payment_settled', orderPaymentSettled),
]
export const sweeps = [sweep('billing.renew', renew), sweep('billing.collect', collect)]
