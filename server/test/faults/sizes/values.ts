import type { Operation } from '@bursar/contract'
import type { z } from 'zod'
import type { Crowd, Tenant } from './bulk-data.ts'

type Query = Readonly<Record<string, unknown>>

/** Query parameters that are not filters: the position, the page size, the order and the time to wait. */
const besides = new Set(['page', 'cursor', 'limit', 'sorting', 'wait'])

/** Returns the names of an operation's filters, as the contract declares them. */
export const filtersOf = (operation: Operation): string[] =>
  Object.keys((operation.query as z.ZodObject | undefined)?.shape ?? {}).filter((name) => !besides.has(name))

/**
 * Operations that the bulk data has no rows for: it has one seat holder, no facts of metrics, and few entries of each order and endpoint. Search
 * returns a few results of each kind instead of pages. Other tests measure these operations.
 */
const elsewhere = new Set([
  'member-migration:id-map',
  'metrics:facts',
  'metrics:margins',
  'orders:timeline',
  'orders:ledger_entries',
  'search:find',
  'webhooks:endpoint_health',
])

/** Returns true for every operation that returns pages. It looks for `limit` in the contract, so new lists are included. */
export const isList = (operation: Operation): boolean => !elsewhere.has(operation.id) && 'limit' in ((operation.query as z.ZodObject | undefined)?.shape ?? {})

/**
 * For each filter, a value that at most one row in twenty matches. A full scan then does twenty times the necessary
 * work. Keys are filter names, or operation and filter name if the filter has another meaning there.
 */
export const narrow = ({ id: idOf, at: momentOf, organizations }: Crowd, { tenant, scope }: { tenant: Tenant; scope: number }, rows: number): Query => {
  const id = (table: string, n: number) => idOf(table, n, tenant)
  const at = (n: number) => momentOf(n).toISOString()
  // Fewer rows than a sort may have, because the requests of the test itself also write events and attempts.
  const few = 60
  const oldest = rows - few
  return {
    organization_id: organizations[scope > 1 ? 'small' : tenant].id,
    client_id: 'client-big-7',
    id: id('products', 7),
    query: 'a needle',
    is_archived: true,
    is_recurring: true,
    benefit_id: id('benefits', 1),
    visibility: 'draft',
    metadata: { code: 'needle' },
    type: 'feature_flag',
    // All rows except one match, so the first page is full and no search is needed.
    exclude_id: id('benefits', 7),
    ids: id('files', 7),
    service: 'product_media',
    email: `${tenant}-7@people.test`,
    active: true,
    role: 'billing_manager',
    customer_id: id('customers', 30),
    external_customer_id: `${tenant}-30`,
    product_id: id('products', 1),
    discount_id: id('discounts', 1),
    cancel_at_period_end: true,
    customer_cancellation_reason: 'too_expensive',
    canceled_at_after: at(10),
    // Matches only the three rows of a tenant whose cancellation is dated a year before their creation.
    canceled_at_before: at(2 * rows),
    started_after: at(few),
    started_before: at(oldest),
    subscription_id: id('subscriptions', 1),
    order_id: id('orders', 1),
    product_billing_type: 'recurring',
    checkout_id: id('checkouts', 1),
    created_after: at(few),
    created_before: at(oldest),
    method: 'paypal',
    customer_email: `${tenant}-30@people.test`,
    succeeded: false,
    member_id: id('members', 2),
    is_granted: false,
    endpoint_id: id('webhook_endpoints', 1),
    start_timestamp: at(few),
    end_timestamp: at(oldest),
    http_code_class: '4xx',
    event_type: 'refund.created',
    operation: 'refunds:create',
    actor_id: id('actors', 1),
    resource_id: id('orders', 1),
    request_id: id('requests', 7),
    before: 500,
    after: 500,
    status: 'pending',

    name: 'type 7',
    source: 'user',
    parent_id: id('usage_events', 1),
    root_events: true,
    depth: 0,
    cursor_pagination: true,
    corrected: true,
    filter: '{"conjunction":"and","clauses":[{"property":"code","operator":"eq","value":"needle"}]}',
    meter_id: id('meters', 2),

    'events:list query': 'needle',
    'events:list_names query': 'type 77',
    'organizations:list slug': organizations[tenant].slug,
    'products:list benefit_id': id('benefits', 2),
    'benefits:list id': id('benefits', 7),
    'custom-fields:list type': 'number',
    'refunds:list id': id('refunds', 7),
    'subscriptions:list status': 'unpaid',
    'payments:list status': 'failed',
    'disputes:list status': 'needs_response',
    'checkouts:list status': 'expired',
    'checkouts:list external_customer_id': `${tenant}-2`,
    'license_keys:list status': 'disabled',
    'license_keys:list benefit_id': id('benefits', 4),
    // The audit log has a tenth of the rows at the same time distance, so it covers only a tenth of the time.
    'audit-log:list end_timestamp': at(oldest / 10),
    'webhooks:list_events type': 'refund.created',
    'webhooks:list_webhook_deliveries query': id('events', 7),
    'webhooks:list_webhook_deliveries event_id': id('events', 7),
    'customers:members:list role': 'member',
    'customers:members:list_external role': 'member',
    // Lists of one customer: all rows of that customer may be read.
    'customer_portal:subscriptions:list product_id': id('products', 9),
    'customer_portal:subscriptions:list active': false,
    'customer_portal:subscriptions:list query': 'Product 9',
    'customer_portal:orders:list product_id': id('products', 9),
    'customer_portal:orders:list query': 'Order 9',
    'customer_portal:benefit-grants:list query': 'Benefit 6',
    'customer_portal:benefit-grants:list type': 'downloadables',
    'customer_portal:benefit-grants:list benefit_id': id('benefits', 6),
    'customer_portal:benefit-grants:list checkout_id': id('checkouts', 9),
    'customer_portal:benefit-grants:list subscription_id': id('subscriptions', 9),
    'customer_portal:benefit-grants:list member_id': id('members', 30),
    'customer_portal:customer_meters:list meter_id': id('meters', 31),
    'customer_portal:customer_meters:list query': 'Meter 31',
    'customer_portal:license_keys:list benefit_id': id('benefits', 15),
    'customer_portal:downloadables:list benefit_id': id('benefits', 6),
  }
}

/** For some filters, a value that many rows match. Such a page is found fast by reading the list in its order. */
export const broad = ({ id, at }: Crowd): Query => ({
  query: 't',
  'webhooks:list_webhook_deliveries query': '0',
  'custom-fields:list query': 'ield',
  'customer_portal:orders:list query': 'rder',
  metadata: { plan: 'pro' },
  active: false,
  is_archived: false,
  is_recurring: false,
  cancel_at_period_end: false,
  canceled_at_after: at(100_000_000).toISOString(),
  product_billing_type: 'one_time',
  succeeded: true,
  is_granted: true,
  http_code_class: '2xx',
  'products:list benefit_id': id('benefits', 3),
  'orders:list status': 'paid',
  'subscriptions:list status': 'canceled',
  'events:list query': 'type',
  // This filter reads all names.
  'events:list_names query': 'type',
})

/** Filters that read all events of an organization, because an index on the metadata of each event would slow down ingest. */
export const searching = new Set(['events:list query', 'events:list metadata', 'events:list filter', 'events:list meter_id'])

/** Lists that count all names of an organization, or all events of a customer, because their order depends on the counts. */
export const counting = new Set(['events:list_names', 'event-types:list'])

/** Filters that most rows match for any value. */
export const wide = new Set([
  'organization_id',
  'exclude_id',
  'source',
  'depth',
  'root_events',
  'cursor_pagination',
  'events:list meter_id',
  'customer-seats:list_seats subscription_id',
  'customer-seats:list_seats order_id',
])

/** Returns the value of a filter in query form. */
export const valueFor = (values: Query, operation: Operation, filter: string): unknown => values[`${operation.id} ${filter}`] ?? values[filter]
