import type { CustomerCancellationReason, PageRequest, SubscriptionStatus } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { inOrder, listKeys, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, containing, isOneOf, metadataHas } from '../../../platform/postgres/parts.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { findCustomerIds } from '../../customers/index.ts'
import { selectSold, selectSubscriptions, type LoadedSubscription } from './subscriptions.sql.ts'

const nameOf = (table: string, column: string, by: string) =>
  `coalesce((select o.${column} from ${table} o where o.organization_id = subscriptions.organization_id and o.id = subscriptions.${by}), '')`

/** Sort key: the start of a subscription, or its creation time if it has not started. */
const started = 'coalesce(started_at, created_at)'

const list = {
  table: 'subscriptions',
  tenant: 'organization_id',
  id: 'id',
  counted: 'subscriptions',
  sortable: {
    customer: { expression: nameOf('customers', 'email', 'customer_id'), type: 'text' },
    status: { expression: 'status', type: 'text' },
    started_at: { expression: started, type: 'timestamptz' },
    current_period_end: { expression: 'current_period_end', type: 'timestamptz' },
    ended_at: { expression: `coalesce(ended_at, '9999-12-31Z'::timestamptz)`, type: 'timestamptz' },
    ends_at: { expression: `coalesce(ends_at, '9999-12-31Z'::timestamptz)`, type: 'timestamptz' },
    amount: { expression: 'amount', type: 'bigint' },
    product: { expression: nameOf('products', 'name', 'product_id'), type: 'text' },
    discount: { expression: nameOf('discounts', 'name', 'discount_id'), type: 'text' },
    organization: { expression: 'organization_id::text', type: 'text' },
  },
} as const satisfies ListSpec<string>

/** The list of one customer or of one holder of seats. */
const own: ListSpec<string> = { ...list, few: true }

export interface SubscriptionFilters {
  readonly organization_id: readonly string[]
  readonly product_id: readonly string[]
  readonly customer_id: readonly string[]
  readonly external_customer_id: readonly string[]
  readonly discount_id: readonly string[]
  readonly active?: boolean | undefined
  readonly status: readonly SubscriptionStatus[]
  readonly cancel_at_period_end?: boolean | undefined
  readonly customer_cancellation_reason: readonly CustomerCancellationReason[]
  readonly canceled_at_after?: Date | undefined
  readonly canceled_at_before?: Date | undefined
  readonly started_after?: Date | undefined
  readonly started_before?: Date | undefined
  readonly metadata?: Record<string, string[]> | undefined
}

type Listing = PageRequest & { sorting: readonly string[] }

const listed = async <T extends LoadedSubscription>(
  db: Db,
  spec: ListSpec<string>,
  scope: TenantScope,
  organizations: readonly string[],
  query: Listing,
  filters: readonly RawBuilder<unknown>[],
  select: (db: Db, scope: TenantScope, ids: readonly string[]) => Promise<T[]>,
) => {
  const { keys, total, next_cursor } = await listKeys(db, spec, organizations, query, filters)
  const ids = keys.map(({ id }) => id)
  return { items: inOrder(keys, await select(db, scope, ids), ({ subscription }) => subscription.id), total, next_cursor }
}

export const listSubscriptions = async (db: Db, scope: TenantScope, query: SubscriptionFilters & Listing) => {
  const filters = [
    ...(['product_id', 'customer_id', 'discount_id'] as const).flatMap((column) => anyOf(column, query[column])),
    ...(['status', 'customer_cancellation_reason'] as const).flatMap((column) => anyOf(column, query[column], 'text')),
  ]
  if (query.external_customer_id.length > 0) filters.push(isOneOf('customer_id', await findCustomerIds(db, scope, { external_id: query.external_customer_id })))
  if (query.active !== undefined) filters.push(sql`(status in ('trialing', 'active')) = ${query.active}`)
  if (query.cancel_at_period_end !== undefined) filters.push(sql`cancel_at_period_end = ${query.cancel_at_period_end}`)
  if (query.canceled_at_after) filters.push(sql`canceled_at >= ${query.canceled_at_after}`)
  if (query.canceled_at_before) filters.push(sql`canceled_at <= ${query.canceled_at_before}`)
  // Repeats the filter on the indexed sort column so that the planner can use the index.
  if (query.started_after) filters.push(sql`started_at >= ${query.started_after} and ${sql.raw(started)} >= ${query.started_after}`)
  if (query.started_before) filters.push(sql`started_at <= ${query.started_before} and ${sql.raw(started)} <= ${query.started_before}`)
  filters.push(...metadataHas(query.metadata))
  return listed(db, list, scope, organizationIds(scope, query.organization_id), query, filters, selectSubscriptions)
}

/** Lists the subscriptions of one customer. All belong to one seller, so sorting by organization has no effect. */
export const listSubscriptionsOf = async (
  db: Db,
  scope: TenantScope,
  customer_id: string,
  query: Listing & { product_id: readonly string[]; active?: boolean | undefined; query?: string | undefined },
) => {
  const filters: RawBuilder<unknown>[] = [sql`customer_id = ${customer_id}`, ...anyOf('product_id', query.product_id)]
  if (query.active !== undefined) filters.push(sql`(status in ('trialing', 'active')) = ${query.active}`)
  // Looks up the product name of each subscription of the customer, instead of searching all products.
  if (query.query) filters.push(sql`${sql.raw(nameOf('products', 'name', 'product_id'))} ilike ${containing(query.query)}`)
  return listed(db, own, scope, organizationIds(scope), query, filters, selectSold)
}

/** Lists the subscriptions in which a member, or a customer without members, has claimed a seat. */
export const listSubscriptionsSeating = async (db: Db, scope: TenantScope, who: { customer_id: string; member_id: string | null }, query: PageRequest) => {
  const theirs = who.member_id === null ? sql`holder_customer_id = ${who.customer_id}` : sql`member_id = ${who.member_id}`
  const tenants = organizationIds(scope)
  const filters = [
    sql`id in (select subscription_id from seats where organization_id = any(${tenants}::uuid[]) and status = 'claimed' and subscription_id is not null and ${theirs})`,
  ]
  return listed(db, own, scope, tenants, { ...query, sorting: ['-started_at'] }, filters, selectSold)
}
