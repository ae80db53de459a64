import { ProcessorEventRefused, receiveProcessorEvent, ResourceNotFound } from '@bursar/contract'
import { EventRefused } from '../../../gateways/payments/payments.ts'
import { periodicTask, multiStep, sweep, type Deps } from '../../handlers.ts'
import { purgeVatChecks } from '../taxes/vat-checks.sql.ts'
import { findAccount } from './attempts.sql.ts'
import { processorOf } from './attempts.ts'
import { fetchProcessorEvents, purge, readUp, receive } from './processor-events.ts'

export const operations = [
  multiStep(receiveProcessorEvent, {
    look: async (deps, { params, raw, charge }) => {
      const account = await findAccount(deps.db, params.organization_id, params.account_id)
      if (!account) throw new ResourceNotFound()
      const event = readSigned(() => processorOf(deps, account).readEvent(raw.headers, raw.body))
      // A verified event counts against the rate limit of its account. Other requests count against the rate limit of
      // the IP address.
      await charge('processor_events', `account:${account.id}`)
      return { account, event }
    },
    begin: async (tx, _, { account, event }) => {
      if (event) await receive(tx, account, event)
      return {}
    },
    proceed: async () => ({ received: true as const }),
  }),
]

const readSigned = <T>(read: () => T): T => {
  try {
    return read()
  } catch (error) {
    if (error instanceof EventRefused) throw new ProcessorEventRefused()
    throw error
  }
}

export const sweeps = [sweep('billing.read_up', readUp)]
const purgeAll = async (deps: Deps): Promise<void> => {
  await purge(deps)
  await deps.transact(purgeVatChecks)
}

export const periodicTasks = [periodicTask('billing.hear', fetchProcessorEvents), periodicTask('billing.purge', purgeAll)]
