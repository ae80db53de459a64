import { dryRunMeter } from '@bursar/contract'
import { openConcurrencyLimit } from '../../../platform/concurrency.ts'
import { read } from '../../handlers.ts'
import { organizationOfRun, runMeter } from './dry-runs.ts'

/** Dry runs read many events. So one organization runs one at a time in each process, and others wait without a database connection. */
const turns = openConcurrencyLimit({ what: 'dry runs of meters', at_once: 1, waiting: 20 })

export const operations = [
  read(dryRunMeter, (db, { scope, body, platform }) => {
    const organization_id = organizationOfRun(scope, body)
    return turns.run([organization_id], () => runMeter(db, scope, organization_id, body, platform.clock.wall()))
  }),
]
