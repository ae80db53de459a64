import type { Operation } from '@bursar/contract'
import type { z } from 'zod'
import type { Crowd, Tenant } from './crowd.ts'

type Query = Readonly<Record<string, unknown>>

/** What is no filter: where a page begins, how long it is, in which order, and how long to wait for it. */
const besides = new Set(['page', 'cursor', 'limit', 'sorting', 'wait'])

/** The names of an operation's filters, as it declares them. */
export const filtersOf = (operation: Operation): string[] =>
  Object.keys((operation.query as z.ZodObject | undefined)?.shape ?? {}).filter((name) => !besides.has(name))

/** Every operation that answers one part of many, as they are declared: whatever is added to the contract is found here. */
export const isList = (operation: Operation): boolean =>
  // The map of ids goes from holder to holder, of whom this crowd has one: what it costs at what size is asked in its own test.
  operation.id !== 'member-migration:id-map' && 'limit' in ((operation.query as z.ZodObject | undefined)?.shape ?? {})

/**
 * For each filter, a value that few rows of the crowd pass: at most one in twenty, so that whoever goes through all of them
 * to find these does twenty times the work. By the name of the filter, or by the operation and the name, where it means
 * something else there.
 */
export const narrow = ({ id: idOf, at: momentOf, organizations }: Crowd, { tenant, reach }: { tenant: Tenant; reach: number }, rows: number): Query => {
  const id = (table: string, n: number) => idOf(table, n, tenant)
  const at = (n: number) => momentOf(n).toISOString()
  const oldest = rows - 100
  return {
    organization_id: organizations[reach > 1 ? 'small' : tenant].id,
    client_id: 'client-big-7',
    id: id('products', 7),
    query: 'a needle',
    is_archived: true,
    is_recurring: true,
    benefit_id: id('benefits', 1),
    visibility: 'draft',
    metadata: { code: 'needle' },
    type: 'feature_flag',
    // All but one pass, and the first page is full of them: there is nothing to find.
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
    // Those whose end is a year before their beginning.
    canceled_at_before: at(2 * rows),
    started_after: at(100),
    started_before: at(oldest),
    subscription_id: id('subscriptions', 1),
    order_id: id('orders', 1),
    product_billing_type: 'recurring',
    checkout_id: id('checkouts', 1),
    created_after: at(100),
    created_before: at(oldest),
    method: 'paypal',
    customer_email: `${tenant}-30@people.test`,
    succeeded: false,
    member_id: id('members', 2),
    is_granted: false,
    endpoint_id: id('webhook_endpoints', 1),
    start_timestamp: at(100),
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
    // It has a tenth of the rows, in the same steps.
    'audit-log:list end_timestamp': at(oldest / 10),
    'webhooks:list_events type': 'refund.created',
    'webhooks:list_webhook_deliveries query': id('events', 7),
    'customers:members:list role': 'member',
    'customers:members:list_external role': 'member',
    // What one customer has: all of it may be looked at.
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
    'customer_portal:license_keys:list benefit_id': id('benefits', 15),
    'customer_portal:downloadables:list benefit_id': id('benefits', 6),
  }
}

/** For some filters also a value that many rows pass: a page of those is found by going through the list in its order. */
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
})

/** Filters that most rows pass, whatever is asked for. */
export const wide = new Set(['organization_id', 'exclude_id', 'customer-seats:list_seats subscription_id', 'customer-seats:list_seats order_id'])

/** The value of a filter, as the query has it. */
export const valueFor = (values: Query, operation: Operation, filter: string): unknown => values[`${operation.id} ${filter}`] ?? values[filter]
