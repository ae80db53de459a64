import type { AnyScope, OrderTimeline, OrderTimelineEntry } from '@bursar/contract'
import { phaseOf, type OrganizationActor, type TenantScope, type UserActor } from '../../../kernel/actors.ts'
import { isId, timeOf } from '../../../kernel/ids.ts'
import { hours, later } from '../../../platform/clock.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { refuseCursor } from '../cursors.ts'
import { requireOrderRow } from '../../billing/index.ts'
import { permits, type Permission } from '../../organizations/index.ts'
import { timelineOf, type TimelineKind, type TimelineRow } from './timeline.sql.ts'

/** The rights that the operations need which list the entries of each kind. The timeline never shows more. */
const rights: Readonly<Record<TimelineKind, { readonly permission: Permission; readonly scopes: readonly AnyScope[] }>> = {
  payment_attempt: { permission: 'sales:read', scopes: ['payments:read'] },
  posting: { permission: 'sales:read', scopes: ['orders:read'] },
  refund: { permission: 'sales:read', scopes: ['refunds:read', 'refunds:write'] },
  dispute: { permission: 'sales:read', scopes: ['disputes:read', 'disputes:write'] },
  event: { permission: 'organization:manage', scopes: ['webhooks:read', 'webhooks:write'] },
  delivery: { permission: 'organization:manage', scopes: ['webhooks:read', 'webhooks:write'] },
  mail: { permission: 'customers:read', scopes: ['customers:read', 'customers:write'] },
  grant: { permission: 'customers:read', scopes: ['benefits:read', 'benefits:write'] },
  audit: { permission: 'organization:manage', scopes: ['organizations:read', 'organizations:write'] },
}
const kinds = Object.keys(rights) as TimelineKind[]

/** A payment may be tried before its order exists, for as long as a checkout is open. */
const triedBefore = 48 * hours

/** Returns one page of the timeline of an order, with the kinds of entries that the caller may read. */
export const readTimeline = async (
  db: Db,
  scope: TenantScope,
  actor: OrganizationActor | UserActor,
  order_id: string,
  query: { readonly cursor?: string | undefined; readonly limit: number },
): Promise<OrderTimeline> => {
  const order = await requireOrderRow(db, scope, order_id)
  if (query.cursor !== undefined && !isId(query.cursor)) throw refuseCursor(query.cursor)
  const allowed = kinds.filter(
    (kind) => permits(scope, order.organization_id, rights[kind].permission) && rights[kind].scopes.some((needed) => actor.scopes.has(needed)),
  )
  const size = Math.min(query.limit, 100)
  const subject = {
    organization_id: order.organization_id,
    id: order.id,
    checkout_id: order.checkout_id,
    begun_subscription_id: order.billing_reason === 'subscription_create' ? order.subscription_id : null,
    // An order of a customer with a test clock may have a later date than its id.
    since: later(new Date(Math.min(timeOf(order.id).getTime(), order.created_at.getTime())), -triedBefore),
    phase: phaseOf(scope, order.organization_id),
  }
  const rows = await timelineOf(db, subject, allowed, query.cursor ?? null, size + 1)
  return {
    items: rows.slice(0, size).map(present),
    left_out: kinds.filter((kind) => !allowed.includes(kind)),
    next_cursor: rows.length > size ? rows[size - 1]!.id : null,
  }
}

const present = ({ id, kind, at, data }: TimelineRow): OrderTimelineEntry => {
  const common = { id, kind, at, recorded_at: timeOf(id) }
  if (kind === 'audit') {
    const { actor_kind, actor_id, credential_id, client_id, ...rest } = data
    return { ...common, ...rest, actor: { kind: actor_kind, id: actor_id, credential_id, client_id } } as unknown as OrderTimelineEntry
  }
  if (kind === 'grant')
    return { ...common, ...data, revoked_at: typeof data.revoked_at === 'string' ? new Date(data.revoked_at) : null } as unknown as OrderTimelineEntry
  // The statement builds the fields of each kind. TypeScript cannot pair them with the kind.
  return { ...common, ...data } as unknown as OrderTimelineEntry
}
