import { periodicTask, sweep, type Area } from '../handlers.ts'
import { copyUsage } from './copies/copying.ts'
import { operations as corrections } from './corrections/corrections.api.ts'
import { stopArchivedMeters } from './counting/archived.ts'
import { backfillMeter } from './counting/counting.ts'
import { mergeUsage } from './counting/merging.ts'
import { operations as eventTypes } from './event-types/event-types.api.ts'
import { mergeNames } from './event-types/event-types.ts'
import { deepenEvents, mergeChildren } from './events/children.ts'
import { operations as events } from './events/events.api.ts'
import { ensureUsageParts } from './events/keeping.sql.ts'
import { operations as dryRuns } from './dry-runs/dry-runs.api.ts'
import { operations as quantities } from './quantities/quantities.api.ts'
import { linkAllUsage, linkRecentUsage } from './records/linking.ts'
import { purgeReservations } from './records/reservations.sql.ts'

export const area: Area = {
  operations: [...events, ...corrections, ...eventTypes, ...quantities, ...dryRuns],
  jobs: [],
  sweeps: [sweep('usage.backfill_meters', backfillMeter)],
  periodicTasks: [
    periodicTask('usage.copy', copyUsage),
    periodicTask('usage.merge', mergeUsage),
    periodicTask('usage.merge_names', mergeNames),
    periodicTask('usage.stop_meters', stopArchivedMeters),
    periodicTask('usage.merge_children', mergeChildren),
    periodicTask('usage.deepen', (deps) => deepenEvents(deps)),
    periodicTask('usage.keep', async ({ transact, platform }) => transact((tx) => ensureUsageParts(tx, platform.clock.wall()))),
    periodicTask('usage.link', linkRecentUsage),
    periodicTask('usage.link_all', linkAllUsage),
    periodicTask('usage.purge_reservations', purgeReservations),
  ],
  personal: {
    usage_subjects: { of: 'customer_id', by: { own_external_id: 'external_id' }, columns: { external_id: 'nothing' } },
    usage_members: { of: 'customer_id', through: { column: 'subject_id', table: 'usage_subjects' }, isLate: true, columns: { external_id: 'nothing' } },
    usage_texts: {
      of: 'customer_id',
      through: { column: 'subject_id', table: 'usage_subjects' },
      isLate: true,
      columns: { prompt: 'nothing', response: 'nothing' },
    },
    system_events: { of: 'customer_id', isLate: true, columns: { personal: 'nothing' } },
    usage_corrections: {
      of: 'customer_id',
      through: { column: 'subject_id', table: 'usage_subjects' },
      isLate: true,
      columns: { reason: 'nothing' },
    },
  },
}

export { scanningReads } from './events/concurrency.ts'
export { ingestEvents } from './events/ingest.ts'
export { stopArchivedMeters } from './counting/archived.ts'
export { mergeUsage } from './counting/merging.ts'
export { loadConsumed, valuesAtOnce, weighConsumed } from './records/bounded-consumption.sql.ts'
export { quantityOf, type Consumption } from './records/consumption.sql.ts'
export { reservedUnits } from './records/reservations.sql.ts'
export { bucketStarts } from './calc/buckets.ts'
export { verifyUsage } from './verifying/verifying.ts'
export { momentOf } from './calc/zones.ts'
export { countedCustomer } from './records/counted-subjects.sql.ts'
export { countUncopied } from './copies/copies.sql.ts'
export { verifyCopy } from './copies/verifying.ts'
