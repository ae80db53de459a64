import { job, sweep } from '../../handlers.ts'
import { customerDeleted as methodsDeleted } from '../methods/methods.ts'
import { holderDeleted } from '../seats/ending.ts'
import { collect, methodChanged, orderPaymentSettled } from '../invoicing/collecting.ts'
import { renewGroup } from './group.ts'
import { followCustomerUsage, settleLateUsage } from './late-usage.ts'
import { customerDeleted, renew } from './renewals.ts'

export const jobs = [
  job('billing.customer_deleted', async (deps, customer) => {
    await customerDeleted(deps, customer)
    await holderDeleted(deps, customer)
    await methodsDeleted(deps, customer)
  }),
  job('billing.follow_usage', followCustomerUsage),
  job('billing.method_changed', methodChanged),
  job('billing.order_payment_settled', orderPaymentSettled),
]
export const sweeps = [sweep('billing.renew', renew, renewGroup), sweep('billing.collect', collect), sweep('billing.settle_usage', settleLateUsage)]
