import { ProcessorEventRefused, receiveProcessorEvent, ResourceNotFound } from '@bursar/contract'
import { EventRefused } from '../../../gateways/payments/payments.ts'
import { chore, steps, sweep } from '../../handlers.ts'
import { findAccount } from './attempts.sql.ts'
import { processorOf } from './attempts.ts'
import { hearCalls, purge, readUp, receive } from './hearing.ts'

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
      if (event) await receive(tx, account, event)
      return {}
    },
    proceed: async () => ({ received: true as const }),
  }),
]

export const sweeps = [sweep('billing.read_up', readUp)]
export const chores = [chore('billing.hear', hearCalls), chore('billing.purge', purge)]
