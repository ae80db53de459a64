import { getUsageEvent, ingestEvents, listUsageEvents, ResourceNotFound } from '@bursar/contract'
import { organizationIds, type OrganizationActor, type UserActor } from '../../../kernel/actors.ts'
import { read, write } from '../../handlers.ts'
import { confine, permit } from '../../organizations/index.ts'
import { readerOf } from '../copies/asking.ts'
import { eventWrites, scanningReads } from './concurrency.ts'
import { findUsageEvent } from './events.sql.ts'
import * as events from './events.ts'
import * as ingest from './ingest.ts'

/** True if the token may read customers. Only then do events show their data. */
const showsCustomers = ({ scopes }: OrganizationActor | UserActor): boolean => scopes.has('customers:read') || scopes.has('customers:write')

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
  read(listUsageEvents, (db, { scope: all, query, ...call }) => {
    const scope = confine(all, 'analytics:read')
    const list = () => events.listUsageEvents(db, scope, query, showsCustomers(call.actor), readerOf(call))
    return events.isScan(query) ? scanningReads.run(organizationIds(scope, query.organization_id), list) : list()
  }),
  read(getUsageEvent, async (db, { actor, scope, params }) => {
    const event = await findUsageEvent(db, scope, params.id)
    if (!event) throw new ResourceNotFound()
    permit(scope, event.organization_id, 'analytics:read')
    return events.presentEvent(event, showsCustomers(actor))
  }),
]
