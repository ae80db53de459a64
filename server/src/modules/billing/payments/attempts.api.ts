import { job, sweep } from '../../handlers.ts'
import { charged, follow, followDue } from './attempts.ts'

export const jobs = [
  job('billing.follow_payment', (deps, { organization_id, payment_id }) => follow(deps, organization_id, payment_id)),
  job('billing.charge_adopted', charged),
]
export const sweeps = [sweep('billing.follow_payments', followDue)]
