import { z } from 'zod'
import { filterInput, type Filter } from '../catalog/meters.ts'
import { metadataFilter } from '../catalog/metadata.ts'
import {
  emptyIsAbsent,
  filter,
  integerInText,
  merchant,
  momentInText,
  named,
  NotPermitted,
  oneOf,
  operation,
  page,
  pageQuery,
  Pagination,
  requestLimits,
  resource,
  ResourceNotFound,
  sorting,
  flagInText,
  timestamp,
  uuid,
} from '../kit/index.ts'
import { EventCorrection } from './corrections.ts'
import { customerOfEvent, externalCustomerOfEvent, sentFields } from './event-fields.ts'
import { EventMetadata, EventSource } from './event-metadata.ts'
import { eventFields, SystemEvent } from './system-events.ts'

export const UserEvent = resource('UserEvent', {
  ...eventFields,
  name: z.string(),
  source: z.literal('user'),
  metadata: EventMetadata,
  correction: EventCorrection.nullable().describe('Null for an event that counts. Otherwise how it was corrected.'),
})
export type UserEvent = z.output<typeof UserEvent>

export const UsageEvent = named('Event', z.union([SystemEvent, UserEvent]))
export type UsageEvent = z.output<typeof UsageEvent>

const sent = {
  ...sentFields,
  organization_id: uuid().nullish().describe('Required, unless the credential is an organization token. An organization token must leave it out.'),
}

export const EventCreateCustomer = resource('EventCreateCustomer', { ...sent, ...customerOfEvent })
export const EventCreateExternalCustomer = resource('EventCreateExternalCustomer', { ...sent, ...externalCustomerOfEvent })
export type EventCreate = z.output<typeof EventCreateCustomer> | z.output<typeof EventCreateExternalCustomer>

export const EventsIngest = resource('EventsIngest', {
  events: z.array(oneOf(EventCreateCustomer, { external_customer_id: EventCreateExternalCustomer })).max(requestLimits.events_per_request),
})

export const EventsIngestResponse = resource('EventsIngestResponse', {
  inserted: z.int().describe('Events that were stored.'),
  duplicates: z.int().describe('Events whose external id was stored before, or is repeated in this request.'),
})

/** Pagination without a total. It costs less, because the matching events are not counted. */
export const CursorPagination = resource('CursorPagination', {
  has_next_page: z.boolean(),
  next_cursor: z.string().nullable().describe('Send it as `cursor` to get the next records; null at the end.'),
})

export const EventPage = resource('EventPage', { items: z.array(UsageEvent), pagination: z.union([Pagination, CursorPagination]) })

/** A filter of events as JSON text. Meters have the same filters. */
const filterInText = () =>
  emptyIsAbsent(
    z
      .string()
      .max(20_000)
      .transform((value, ctx): unknown => {
        try {
          return JSON.parse(value)
        } catch {
          ctx.issues.push({ code: 'custom', message: 'Expected a filter as JSON text.', input: value })
          return z.NEVER
        }
      })
      .pipe(filterInput() as z.ZodType<Filter>),
  ).describe('Only events of sellers that match this filter: JSON text of the same form as the filter of a meter.')

/** A search text. It needs three characters, because shorter texts match most events. */
const searchText = () => emptyIsAbsent(z.string().min(3).max(256))

const depth = () => emptyIsAbsent(integerInText(z.int().min(0).max(5)))

export const customerFilters = {
  organization_id: filter(uuid()),
  customer_id: filter(uuid()),
  external_customer_id: filter(z.string().max(256)),
}

const read = merchant(['events:read', 'events:write'])
const write = merchant('events:write')

export const ingestEvents = operation({
  id: 'events:ingest',
  method: 'POST',
  path: '/v1/events/ingest',
  summary: 'Ingest events',
  description:
    'Stores events in one transaction: all of them, or none if one is not valid. Send up to 10 MiB at once, at most 1 MiB for one event, and at most 50,000 events. Besides requests, an organization has a rate limit of events.',
  access: write,
  costs: 'jobs',
  body: EventsIngest,
  bodyLimit: 10 * 1024 * 1024,
  slices: 'events',
  returns: EventsIngestResponse,
  fails: [NotPermitted],
})

export const listUsageEvents = operation({
  id: 'events:list',
  method: 'GET',
  path: '/v1/events/',
  summary: 'List events',
  access: read,
  costs: 'none',
  query: z.object({
    filter: filterInText(),
    start_timestamp: momentInText().describe('Only events after this moment.'),
    end_timestamp: momentInText().describe('Only events before this moment.'),
    ...customerFilters,
    meter_id: emptyIsAbsent(uuid()).describe('Only events that this meter counts.'),
    name: filter(z.string().max(128)),
    source: filter(EventSource),
    query: searchText().describe('Part of the name, the source, the metadata, or of the name, address or external id of the customer. At least 3 characters.'),
    parent_id: emptyIsAbsent(uuid()).describe('Only children of this event. With `depth`, also their descendants, down to that many levels.'),
    depth: depth().describe('Without `parent_id`: only events with at most this many ancestors.'),
    metadata: metadataFilter(),
    corrected: flagInText().describe('True for the events that were voided or replaced. They are left out otherwise.'),
    cursor_pagination: flagInText().describe('True to leave out the total. The answer then says only whether another page follows.'),
    ...pageQuery,
    sorting: sorting('EventSortProperty', ['timestamp'], ['-timestamp']),
  }),
  returns: EventPage,
  fails: [],
})

export const EventName = resource('EventName', {
  name: z.string(),
  label: z.string(),
  source: EventSource,
  occurrences: z.int().describe('The number of events with this name.'),
  first_seen: timestamp(),
  last_seen: timestamp(),
})
export type EventName = z.output<typeof EventName>

export const listEventNames = operation({
  id: 'events:list_names',
  method: 'GET',
  path: '/v1/events/names',
  summary: 'List event names',
  access: read,
  costs: 'none',
  query: z.object({
    ...customerFilters,
    source: filter(EventSource),
    query: emptyIsAbsent(z.string().max(128)).describe('Part of the name.'),
    ...pageQuery,
    sorting: sorting('EventNamesSortProperty', ['name', 'occurrences', 'first_seen', 'last_seen'], ['-last_seen']),
  }),
  returns: page('EventNamePage', EventName),
  fails: [],
})

export const getUsageEvent = operation({
  id: 'events:get',
  method: 'GET',
  path: '/v1/events/{id}',
  summary: 'Get an event',
  access: read,
  costs: 'none',
  params: z.object({ id: uuid() }),
  returns: UsageEvent,
  fails: [NotPermitted, ResourceNotFound],
})
