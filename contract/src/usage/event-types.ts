import { z } from 'zod'
import {
  emptyIsAbsent,
  merchant,
  NotPermitted,
  operation,
  page,
  pageQuery,
  resource,
  ResourceNotFound,
  sorting,
  stamps,
  switchInText,
  text,
  timestamp,
  uuid,
} from '../kit/index.ts'
import { EventSource } from './event-metadata.ts'
import { customerFilters } from './events.ts'

const described = {
  name: z.string(),
  label: z.string().describe('The name for people. Equal to the name until it is changed.'),
  label_property_selector: z
    .string()
    .nullable()
    .describe('The key of the metadata whose value is the label of an event. Events without this key have the label of the type.'),
  organization_id: uuid(),
}

export const EventType = resource('EventType', { ...stamps, id: uuid(), ...described })
export type EventType = z.output<typeof EventType>

export const EventTypeWithStats = resource('EventTypeWithStats', {
  id: uuid().nullable().describe('Null for events of Bursar itself.'),
  created_at: timestamp().nullable(),
  modified_at: timestamp().nullable(),
  ...described,
  source: EventSource,
  occurrences: z.int().describe('The number of events of this type.'),
  first_seen: timestamp(),
  last_seen: timestamp(),
})
export type EventTypeWithStats = z.output<typeof EventTypeWithStats>

export const EventTypeUpdate = resource('EventTypeUpdate', {
  label: text(1, 128),
  label_property_selector: text(1, 256).nullish().describe('A key of the metadata, such as `plan` or `_llm.model`. Absent or null: every event has the label.'),
})

export const listEventTypes = operation({
  id: 'event-types:list',
  method: 'GET',
  path: '/v1/event-types/',
  summary: 'List event types',
  access: merchant(['events:read', 'events:write']),
  costs: 'none',
  query: z.object({
    ...customerFilters,
    query: emptyIsAbsent(z.string().max(128)).describe('Part of the name or of the label.'),
    root_events: switchInText(false).describe('True to count only events without a parent.'),
    parent_id: emptyIsAbsent(uuid()).describe('Count only children of this event.'),
    source: emptyIsAbsent(EventSource),
    ...pageQuery,
    sorting: sorting('EventTypesSortProperty', ['name', 'label', 'occurrences', 'first_seen', 'last_seen'], ['-last_seen']),
  }),
  returns: page('EventTypePage', EventTypeWithStats),
  fails: [],
})

export const updateEventType = operation({
  id: 'event-types:update',
  method: 'PATCH',
  path: '/v1/event-types/{id}',
  summary: 'Update an event type',
  description: 'Replaces the label and the selector. A selector that is not sent is removed.',
  access: merchant('events:write'),
  costs: 'none',
  params: z.object({ id: uuid() }),
  body: EventTypeUpdate,
  returns: EventType,
  fails: [NotPermitted, ResourceNotFound],
})
