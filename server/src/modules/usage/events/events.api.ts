import { getUsageEvent, ingestEvents, listUsageEvents, ResourceNotFound } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { confine, permit } from '../../organizations/index.ts'
import { readerOf } from '../copies/asking.ts'
import { eventWrites } from './concurrency.ts'
import { findUsageEvent } from './events.sql.ts'
import * as events from './events.ts'
import * as ingest from './ingest.ts'

export const operations = [
  write(
    ingestEvents,
    (tx, { scope, body, raw, isGone }) => ingest.ingestEvents(tx, scope, body.events, raw.numbers, isGone),
    async ({ scope, body, charge }) => {
      for (const [organization_id, count] of ingest.countByOrganization(scope, body.events))
        await charge('ingested_events', `organization:${organization_id}`, count)
    },
    ({ scope, body }, run) => eventWrites.run([...ingest.countByOrganization(scope, body.events).keys()], run),
  ),
  read(listUsageEvents, (db, { scope, query, ...call }) => events.listUsageEvents(db, confine(scope, 'analytics:read'), query, readerOf(call))),
  read(getUsageEvent, async (db, { scope, params }) => {
    const event = await findUsageEvent(db, scope, params.id)
    if (!event) throw new ResourceNotFound()
    permit(scope, event.organization_id, 'analytics:read')
    return events.presentEvent(event)
  }),
]
