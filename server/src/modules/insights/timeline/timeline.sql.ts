import type { OrderTimelineEntry } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { firstIdAt } from '../../../kernel/ids.ts'
import type { MemberPhase } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'

export type TimelineKind = OrderTimelineEntry['kind']

/** The order of a timeline, and the resources whose entries belong to it. */
export interface TimelineSubject {
  readonly organization_id: string
  readonly id: string
  readonly checkout_id: string | null
  /** The subscription whose grants belong to the order. Null if the order did not begin a subscription. */
  readonly begun_subscription_id: string | null
  /** No entry was recorded before this moment. */
  readonly since: Date
  readonly phase: MemberPhase
}

/** An entry as selected. All ids contain the time of their creation, so they sort the timeline. */
export interface TimelineRow {
  readonly id: string
  readonly kind: TimelineKind
  readonly at: Date
  readonly data: Readonly<Record<string, unknown>>
}

/** Grants whose entries and events are listed. An order may have a grant for each of 10,000 seats. */
const mostGrants = 200
/** Events of which the deliveries are listed, and attempts of each. */
const mostEvents = 500
const mostAttempts = 50

/**
 * Returns entries of an order after an id, oldest first: at most `limit`. Each kind is read by an index of the order, of
 * its payments, its events or its grants.
 */
export const timelineOf = async (
  db: Db,
  { organization_id, id, checkout_id, begun_subscription_id, since, phase }: TimelineSubject,
  kinds: readonly TimelineKind[],
  after: string | null,
  limit: number,
): Promise<TimelineRow[]> => {
  const tenant = sql`${organization_id}::uuid`
  const order = sql`${id}::uuid`
  const begin = after ?? firstIdAt(since)
  const shown = phase === 'phase2' ? sql`buyer_customer_id` : sql`coalesce(holder_customer_id, buyer_customer_id)`
  const branch = (kind: TimelineKind, key: string, at: string, data: RawBuilder<unknown>, from: RawBuilder<unknown>) =>
    kinds.includes(kind)
      ? [
          sql`(select ${sql.ref(key)} as id, ${kind} as kind, ${sql.ref(at)}::timestamptz as at, ${data} as data from ${from} and ${sql.ref(key)} > ${begin}::uuid order by 1 limit ${limit})`,
        ]
      : []
  const branches = [
    ...branch(
      'payment_attempt',
      'p.id',
      'p.created_at',
      sql`jsonb_build_object('payment_id', p.id, 'status', p.status, 'amount', p.amount, 'currency', p.currency, 'method', coalesce(p.method, 'unknown'),
        'trigger', p.trigger, 'decline_reason', p.decline_reason)`,
      sql`paid p where p.kind = 'payment'`,
    ),
    ...branch(
      'posting',
      't.id',
      't.business_at',
      sql`jsonb_build_object('fact', t.kind, 'reference_id', t.reference, 'currency', (select min(e.currency) from ledger_entries e where e.organization_id = ${tenant} and e.transaction_id = t.id),
        'entries', (select jsonb_agg(jsonb_build_object('account', e.account, 'amount', e.amount) order by e.position)
          from ledger_entries e where e.organization_id = ${tenant} and e.transaction_id = t.id))`,
      sql`facts f join ledger_transactions t on t.organization_id = ${tenant} and t.kind = f.kind and t.reference = f.reference where true`,
    ),
    ...branch(
      'refund',
      'r.id',
      'r.created_at',
      sql`jsonb_build_object('refund_id', r.id, 'status', r.status, 'reason', r.reason, 'amount', r.amount, 'tax_amount', r.tax_amount, 'currency', r.currency)`,
      sql`refunds r where r.organization_id = ${tenant} and r.order_id = ${order}`,
    ),
    ...branch(
      'dispute',
      'd.id',
      'd.created_at',
      sql`jsonb_build_object('dispute_id', d.id, 'status', d.status, 'amount', d.amount, 'tax_amount', d.tax_amount, 'currency', d.currency)`,
      sql`disputes d where d.organization_id = ${tenant} and d.order_id = ${order}`,
    ),
    ...branch(
      'event',
      'v.id',
      'v.business_at',
      sql`jsonb_build_object('event_id', v.id, 'sequence', v.sequence, 'type', v.kind, 'resource_id', v.resource_id, 'customer_id', v.customer_id)`,
      sql`happened v where true`,
    ),
    ...branch(
      'delivery',
      'a.id',
      'a.created_at',
      sql`jsonb_build_object('delivery_id', a.id, 'event_id', a.event_id, 'endpoint_id', a.endpoint_id, 'type', a.kind, 'succeeded', a.succeeded, 'http_code', a.http_code, 'duration_ms', a.duration_ms)`,
      sql`(select id from happened order by id limit ${mostEvents}) v cross join lateral (
        select * from webhook_attempts w where w.organization_id = ${tenant} and w.event_id = v.id order by w.created_at limit ${mostAttempts}) a where true`,
    ),
    ...branch(
      'mail',
      'm.id',
      'm.created_at',
      sql`jsonb_build_object('mail', m.mail, 'address', m.address, 'report', (select b.kind from mail_reports b where b.mail_id = m.id order by b.created_at desc limit 1))`,
      sql`sent_mails m where m.organization_id = ${tenant} and m.order_id = ${order}`,
    ),
    ...branch(
      'grant',
      'g.id',
      'g.created_at',
      sql`jsonb_build_object('grant_id', g.id, 'benefit_id', g.benefit_id, 'benefit_type', b.type, 'benefit_description', b.description, 'customer_id', g.customer_id, 'member_id', g.member_id, 'seat_id', g.seat_id,
        'state', case when g.granted_at is not null then 'granted' when g.revoked_at is not null then 'revoked' when g.error is not null then 'failed' else 'pending' end, 'revoked_at', g.revoked_at)`,
      sql`given g join benefits b on b.organization_id = ${tenant} and b.id = g.benefit_id where true`,
    ),
    ...branch(
      'audit',
      'l.id',
      'l.at',
      sql`jsonb_build_object('sequence', l.sequence, 'operation', l.operation, 'request_id', l.request_id, 'actor_kind', l.actor_kind, 'actor_id', l.actor_id, 'credential_id', l.credential_id, 'client_id', l.client_id,
        'changed', (select coalesce(jsonb_agg(distinct k.name), '[]') from json_array_elements(l.changes -> 'changes') c cross join lateral json_object_keys(c -> 'fields') k (name)
          where c ->> 'table' = 'orders' and c ->> 'id' = ${id}))`,
      sql`audit_log l where l.organization_id = ${tenant} and l.at >= ${since} and (l.resource_id = ${order} or l.resource_id in (select id from paid))`,
    ),
  ]
  if (branches.length === 0) return []
  const { rows } = await sql<TimelineRow>`
    with paid as (
      select * from payments where organization_id = ${tenant} and order_id = ${order}
      union
      select * from payments where organization_id = ${tenant} and checkout_id = ${checkout_id}::uuid and order_id is null
    ), facts (kind, reference) as (
      select k, ${order} from unnest(array['order_billed', 'order_voided']) k
      union all select k, p.id from paid p cross join unnest(array['payment_received']) k
      union all select k, r.id from refunds r cross join unnest(array['refund_paid', 'refund_reversed']) k where r.organization_id = ${tenant} and r.order_id = ${order}
      union all select k, d.id from disputes d cross join unnest(array['dispute_withheld', 'dispute_returned', 'dispute_lost']) k where d.organization_id = ${tenant} and d.order_id = ${order}
    ), given as (
      select g.*, ${shown} as customer_id from benefit_grants g
      where g.organization_id = ${tenant} and (g.order_id = ${order} or g.subscription_id = ${begun_subscription_id}::uuid) order by g.id limit ${mostGrants}
    ), happened as (
      select e.* from events e
      where e.organization_id = ${tenant} and e.wall_at >= ${since} and e.resource_id in (
        select ${order} union all select id from refunds where organization_id = ${tenant} and order_id = ${order}
        union all select id from given where order_id = ${order})
    )
    select * from (${sql.join(branches, sql` union all `)}) t order by id limit ${limit}`.execute(db.q)
  return rows
}
