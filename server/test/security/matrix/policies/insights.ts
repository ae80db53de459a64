import type { Scope } from '@bursar/contract'
import { crew, tokens, readers, managers, customersRead, hooksRead, type Policy } from './shared.ts'

const reading: readonly Scope[] = ['metrics:read']
const week = 'start_date=2026-01-01&end_date=2026-01-07&interval=day&metrics=revenue'

export const insights: Readonly<Record<string, Policy>> = {
  'orders:timeline': {
    who: tokens,
    scopes: ['orders:read'],
    ask: (t) => ({ path: `/v1/orders/${t.order_id}/timeline?limit=100` }),
    granted: 200,
    foreign: 'absent',
  },
  'orders:ledger_entries': {
    who: tokens,
    scopes: ['orders:read'],
    ask: (t) => ({ path: `/v1/orders/${t.order_id}/ledger-entries` }),
    granted: 200,
    foreign: 'absent',
  },
  'refunds:preview': {
    who: tokens,
    scopes: ['refunds:write'],
    ask: (t) => ({ path: '/v1/refunds/preview', body: { order_id: t.order_id, reason: 'customer_request', amount: 100 } }),
    granted: 200,
    foreign: 'invalid',
  },
  'access:explain': {
    who: tokens,
    scopes: customersRead,
    ask: (t) => ({ path: `/v1/access/explanation?customer_id=${t.customer_id}&benefit_id=${t.benefit_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'search:find': {
    who: tokens,
    scopes: readers,
    ask: (t) => ({ path: `/v1/search?organization_id=${t.organization_id}&query=a` }),
    granted: 200,
    foreign: 'invalid',
  },
  'live:stream': {
    who: 'person',
    scopes: [],
    ask: (t) => ({ path: `/v1/live?organization_id=${t.organization_id}&wait=0&last_event_id=0` }),
    granted: 200,
    foreign: 'invalid',
  },
  'webhooks:endpoint_health': {
    who: tokens,
    scopes: hooksRead,
    roles: managers,
    ask: (t) => ({ path: `/v1/webhooks/endpoints/${t.endpoint_id}/health` }),
    granted: 200,
    foreign: 'absent',
  },
  'metrics:get': { who: tokens, scopes: reading, ask: () => ({ path: `/v1/metrics/?${week}` }), granted: 200 },
  'metrics:export': { who: tokens, scopes: reading, ask: () => ({ path: `/v1/metrics/export?${week}` }), granted: 200 },
  'metrics:margins': { who: tokens, scopes: reading, ask: () => ({ path: '/v1/metrics/margins?start_date=2026-01-01&end_date=2026-01-07' }), granted: 200 },
  'metrics:limits': { who: tokens, scopes: reading, ask: () => ({ path: '/v1/metrics/limits' }), granted: 200 },
  'metrics:facts': {
    who: tokens,
    scopes: reading,
    ask: () => ({ path: '/v1/metrics/revenue/facts?timestamp=2026-01-01T00:00:00Z&interval=month' }),
    granted: 200,
  },
  'metrics:list_dashboards': { who: tokens, scopes: reading, ask: () => ({ path: '/v1/metrics/dashboards' }), granted: 200 },
  'metrics:create_dashboard': {
    who: tokens,
    scopes: ['metrics:write'],
    roles: crew,
    ask: (t) => ({
      path: '/v1/metrics/dashboards',
      body: { name: 'Money', metrics: ['revenue'], ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }) },
    }),
    granted: 201,
    foreign: 'invalid',
    implied: true,
  },
  'metrics:get_dashboard': {
    who: tokens,
    scopes: reading,
    ask: (t) => ({ path: `/v1/metrics/dashboards/${t.dashboard_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'metrics:update_dashboard': {
    who: tokens,
    scopes: ['metrics:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/metrics/dashboards/${t.dashboard_id}`, body: { metrics: ['orders'] } }),
    granted: 200,
    foreign: 'absent',
  },
  'metrics:delete_dashboard': {
    who: tokens,
    scopes: ['metrics:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/metrics/dashboards/${t.dashboard_id}` }),
    granted: 204,
    foreign: 'absent',
  },
}
