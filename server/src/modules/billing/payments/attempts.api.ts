import { ProcessorEventRefused, receiveProcessorEvent, ResourceNotFound } from '@bursar/contract'
import { EventRefused } from '../../../gateways/payments/payments.ts'
import { chore, job, steps, sweep } from '../../handlers.ts'
import { findAccount } from './attempts.sql.ts'
import { follow, followDue, hearCalls, processorOf, purge, receive } from './attempts.ts'

export const operations = [
  steps(receiveProcessorEvent, {
    look: async (means, { params, raw }) => {
      const account = await findAccount(means.db, params.organization_id, params.account_id)
      if (!account) throw new ResourceNotFound()
      try {
        return { account, event: processorOf(means, account).readEvent(raw.headers, raw.body) }
      } catch (error) {
        if (error instanceof EventRefused) throw new ProcessorEventRefused()
        throw error
      }
    },
    begin: async (tx, _, { account, event }) => {
      await receive(tx, account, event)
      return {}
    },
    proceed: async () => ({ received: true as const }),
  }),
]

export const jobs = [job('billing.follow_payment', (means, { organization_id, payment_id }) => follow(means, organization_id, payment_id))]
export const sweeps = [sweep('billing.follow_payments', followDue)]
export const chores = [chore('billing.hear', hearCalls), chore('billing.purge', purge)]
