import { accountLimits } from '@bursar/contract'
import { openConcurrencyLimit } from '../../../platform/concurrency.ts'

/**
 * The requests of each organization that write events at the same time. Requests of one organization may wait for each other in
 * the database. Without this limit, they could then take all write connections of the process.
 */
export const eventWrites = openConcurrencyLimit({
  what: 'requests of this kind',
  at_once: accountLimits.ingest_requests_at_once_per_organization,
  waiting: 100,
})

/**
 * The requests of each organization that may read all its events or facts, because no index answers their filters. Without this limit, one
 * organization could take all read connections of the process. A waiting request holds none.
 */
export const scanningReads = openConcurrencyLimit({
  what: 'searches of this kind',
  at_once: accountLimits.scanning_reads_at_once_per_organization,
  waiting: 20,
})
