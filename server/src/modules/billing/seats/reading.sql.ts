import { sql } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { lockOrder, type OrderRow } from '../records/orders.sql.ts'
import { lockSubscription, type SubscriptionRow } from '../records/subscriptions.sql.ts'
import type { SeatRow } from './seats.sql.ts'

/** Key of a purchase: a subscription or a one-time order. */
export interface ContainerKey {
  readonly organization_id: string
  readonly subscription_id: string | null
  readonly order_id: string | null
}

/** A locked purchase: its customer, its product, and the number of its seats, if it has any. */
export interface Container extends ContainerKey {
  readonly customer_id: string
  readonly product_id: string | null
  readonly seats: number | null
  readonly subscription: Locked<SubscriptionRow> | null
  readonly order: Locked<OrderRow> | null
}

/** Locks the purchase, so that its benefits and their recipients are calculated by one transaction at a time. */
export const holdContainer = async (
  tx: Tx,
  scope: TenantScope,
  { organization_id, subscription_id, order_id }: ContainerKey,
): Promise<Container | undefined> => {
  const subscription = subscription_id === null ? null : ((await lockSubscription(tx, scope, subscription_id)) ?? null)
  const order = order_id === null ? null : ((await lockOrder(tx, scope, order_id)) ?? null)
  const sold = subscription ?? order
  return sold
    ? { organization_id, subscription_id, order_id, customer_id: sold.customer_id, product_id: sold.product_id, seats: sold.seats, subscription, order }
    : undefined
}

const pooled = ({ organization_id, subscription_id, order_id }: ContainerKey) =>
  subscription_id === null
    ? sql`s.organization_id = ${organization_id} and s.order_id = ${order_id}`
    : sql`s.organization_id = ${organization_id} and s.subscription_id = ${subscription_id}`

/** A claimed seat counts while its holder is not deleted. The holder is a member, or before phase 2 a customer. */
const taken = sql`s.status = 'claimed'
  and not exists (select from members m where m.organization_id = s.organization_id and m.id = s.member_id and m.deleted_at is not null)
  and not exists (select from customers c join organizations o on o.id = c.organization_id and o.member_phase <> 'phase2' where c.organization_id = s.organization_id and c.id = s.holder_customer_id and c.deleted_at is not null)`

/** Returns a page of the claimed seats of a purchase, ordered by id. */
export const claimedSeats = async (db: Db, container: ContainerKey, after: string | null, limit: number): Promise<SeatRow[]> => {
  const { rows } = await sql<SeatRow>`
    select s.* from seats s where ${pooled(container)} and ${taken} and (${after}::uuid is null or s.id > ${after}) order by s.id limit ${limit}`.execute(db.q)
  return rows
}

/** Returns the claimed seats of a purchase whose holder is one of the given members or customers. */
export const claimedSeatsOf = async (
  db: Db,
  container: ContainerKey,
  people: readonly Pick<SeatRow, 'member_id' | 'holder_customer_id'>[],
): Promise<SeatRow[]> => {
  const members = people.flatMap(({ member_id }) => member_id ?? [])
  const holders = people.flatMap(({ holder_customer_id }) => holder_customer_id ?? [])
  const { rows } = await sql<SeatRow>`
    select s.* from seats s where ${pooled(container)} and ${taken} and (s.member_id = any(${members}::uuid[]) or s.holder_customer_id = any(${holders}::uuid[]))`.execute(
    db.q,
  )
  return rows
}

/** Reads a seat without a lock. */
export const readSeat = (db: Db, organization_id: string, id: string): Promise<SeatRow | undefined> =>
  db.q.selectFrom('seats').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirst()

/** Returns the seats of a person, current or former, at most one per purchase. */
export const seatsOf = async (
  db: Db,
  organization_id: string,
  person: { readonly member_id: string } | { readonly holder_customer_id: string },
): Promise<SeatRow[]> => {
  const theirs = 'member_id' in person ? sql`member_id = ${person.member_id}` : sql`holder_customer_id = ${person.holder_customer_id}`
  const { rows } = await sql<SeatRow>`
    select distinct on (subscription_id, order_id) * from seats where organization_id = ${organization_id} and ${theirs}
    order by subscription_id, order_id, id desc`.execute(db.q)
  return rows
}

/** Returns a page of the purchases of a product or a customer that may give benefits, ordered by id. */
export const containersOf = async (
  db: Db,
  organization_id: string,
  of: { readonly product_id: string } | { readonly customer_id: string },
  after: string | null,
  limit: number,
): Promise<(ContainerKey & { id: string })[]> => {
  const wanted = 'product_id' in of ? sql`product_id = ${of.product_id}` : sql`customer_id = ${of.customer_id}`
  const beyond = sql`organization_id = ${organization_id} and ${wanted} and (${after}::uuid is null or id > ${after})`
  const { rows } = await sql<ContainerKey & { id: string }>`
    (select organization_id, id, id as subscription_id, null::uuid as order_id from subscriptions where ${beyond} and ended_at is null order by id limit ${limit})
    union all
    (select organization_id, id, null, id from orders where ${beyond} and subscription_id is null and product_id is not null
       and status in ('paid', 'partially_refunded', 'refunded') order by id limit ${limit})
    order by id limit ${limit}`.execute(db.q)
  return rows
}

/** True if a deleted customer had only ever held seats. */
export const onlyHeld = async (db: Db, organization_id: string, id: string): Promise<boolean> => {
  const { rows } = await sql`select from customers where organization_id = ${organization_id} and id = ${id} and pure_holder and tombstoned_at is null`.execute(
    db.q,
  )
  return rows.length > 0
}
