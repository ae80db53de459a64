import type { Scope } from '@bursar/contract'
import { crew, meter, payers, tokens, unique, type Policy } from './shared.ts'

const reading: readonly Scope[] = ['events:read', 'events:write']

export const usage: Readonly<Record<string, Policy>> = {
  'events:ingest': {
    who: tokens,
    scopes: ['events:write'],
    roles: crew,
    ask: (t) => ({
      path: '/v1/events/ingest',
      body: {
        events: [{ name: 'matrix', external_customer_id: 'matrix', ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }) }],
      },
    }),
    granted: 200,
    foreign: 'invalid',
    implied: true,
  },
  'events:correct': {
    who: tokens,
    scopes: ['events:write'],
    roles: crew,
    ask: (t) => ({
      path: '/v1/events/corrections',
      body: {
        ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }),
        corrections: [{ action: 'void', event_id: t.usage_event_id, reason: 'matrix' }],
      },
    }),
    granted: 200,
    foreign: 'invalid',
    implied: true,
  },
  'events:list': { who: tokens, scopes: reading, ask: () => ({ path: '/v1/events/?limit=100' }), granted: 200 },
  'events:list_names': { who: tokens, scopes: reading, ask: () => ({ path: '/v1/events/names?limit=100' }), granted: 200 },
  'events:get': { who: tokens, scopes: reading, ask: (t) => ({ path: `/v1/events/${t.usage_event_id}` }), granted: 200, foreign: 'absent' },
  'event-types:list': { who: tokens, scopes: reading, ask: () => ({ path: '/v1/event-types/?limit=100' }), granted: 200 },
  'event-types:update': {
    who: tokens,
    scopes: ['events:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/event-types/${t.event_type_id}`, body: { label: 'Changed' } }),
    granted: 200,
    foreign: 'absent',
  },
  'meters:quantities': {
    who: tokens,
    scopes: ['meters:read', 'meters:write'],
    ask: (t) => ({ path: `/v1/meters/${t.meter_id}/quantities?start_timestamp=2026-01-01T00:00:00Z&end_timestamp=2026-01-02T00:00:00Z&interval=day` }),
    granted: 200,
    foreign: 'absent',
  },
  'meters:dry_run': {
    who: tokens,
    scopes: ['meters:read', 'meters:write'],
    ask: (t) => ({
      path: '/v1/meters/dry-run',
      body: { filter: meter.filter, aggregation: meter.aggregation, ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }) },
    }),
    granted: 200,
    foreign: 'invalid',
    implied: true,
  },
  'customer_meters:list': { who: tokens, scopes: ['customer_meters:read'], ask: () => ({ path: '/v1/customer-meters/?limit=100' }), granted: 200 },
  'customer_meters:get': {
    who: tokens,
    scopes: ['customer_meters:read'],
    ask: (t) => ({ path: `/v1/customer-meters/${t.customer_meter_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_meters:reservations:create': {
    who: tokens,
    scopes: ['events:write'],
    roles: crew,
    ask: (t) => ({
      path: '/v1/customer-meters/reservations',
      body: { customer_id: t.customer_id, meter_id: t.credited_meter_id, units: 0.001, key: `matrix-${unique()}` },
    }),
    granted: 201,
    foreign: 'invalid',
  },
  'customer_meters:reservations:get': {
    who: tokens,
    scopes: ['customer_meters:read', 'events:write'],
    ask: (t) => ({ path: `/v1/customer-meters/reservations/${t.reservation_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_meters:reservations:release': {
    who: tokens,
    scopes: ['events:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/customer-meters/reservations/${t.reservation_id}/release` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:customer_meters:list': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: () => ({ path: '/v1/customer-portal/meters/?limit=100&sorting=created_at' }),
    granted: 200,
  },
  'customer_portal:customer_meters:get': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: `/v1/customer-portal/meters/${t.customer_meter_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:usage:get': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: () => ({ path: '/v1/customer-portal/usage?days=2' }),
    granted: 200,
  },
}
