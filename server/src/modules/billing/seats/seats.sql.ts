import { wholePurchaseLimit, type PageRequest, type SeatStatus } from '@bursar/contract'
import { ExpressionWrapper, sql, type OperationNodeSource, type RawBuilder, type Selectable } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { lockRow, lockRows } from '../../../platform/postgres/locks.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { json, inScope } from '../../../platform/postgres/parts.sql.ts'
import type { BusinessTx, Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { type JsonRow } from '../../../platform/postgres/json-rows.ts'
import { memberColumns, memberFromJson, type MemberRow } from '../../customers/index.ts'
import { comingSeats, sellsSeats, type PoolKey, type Purchase } from './pools.sql.ts'

export interface SeatTable {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  subscription_id: string | null
  order_id: string | null
  status: SeatStatus
  buyer_customer_id: string
  /** The customer that holds the seat. Set only before phase 2 of the member migration. */
  holder_customer_id: string | null
  member_id: string | null
  /** Null for a seat that was sold before there were members and that has no invitation. */
  email: string | null
  invitation_expires_at: Date | null
  claimed_at: Date | null
  revoked_at: Date | null
  metadata: Readonly<Record<string, unknown>>
  due_at: Date | null
  clock_id: string | null
  lease_until: Date | null
  lease_token: string | null
  lease_holder: string | null
}
export type SeatRow = Selectable<SeatTable>

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    seats: SeatTable
  }
}

const seats = (db: Db, organization_id: string) => db.q.selectFrom('seats').selectAll().where('organization_id', '=', organization_id)
const inPool = ({ organization_id, subscription_id, order_id }: PoolKey) =>
  subscription_id === null
    ? sql`organization_id = ${organization_id} and order_id = ${order_id}`
    : sql`organization_id = ${organization_id} and subscription_id = ${subscription_id}`
const ofPool = (db: Db, { organization_id, subscription_id, order_id }: PoolKey) =>
  subscription_id === null
    ? seats(db, organization_id).where('order_id', '=', order_id)
    : seats(db, organization_id).where('subscription_id', '=', subscription_id)

/** A seat with the records needed to present it. */
export interface LoadedSeat<Row extends SeatRow = SeatRow> {
  /** Id of the seat. */
  readonly id: string
  readonly seat: Row
  /** Member who holds the seat, even if the member is deleted. Null if the seat has no member. */
  readonly member: MemberRow | null
  /** Address of the customer that holds a seat without a member. Null if that customer is deleted. */
  readonly holder_email: string | null
}

interface Related {
  readonly member: JsonRow<MemberRow> | null
  readonly holder_email: string | null
}

/** Joins for the related records of the seats that `from` returns as `s`. */
const related = (from: RawBuilder<unknown>) => sql`${from} s
  left join lateral (select ${memberColumns} from members where members.organization_id = s.organization_id and members.id = s.member_id) m on true
  left join customers h on s.member_id is null and h.organization_id = s.organization_id and h.id = s.holder_customer_id and h.deleted_at is null`

const withRelated = <Row extends SeatRow>(seat: Row, { member, holder_email }: Related): LoadedSeat<Row> => ({
  id: seat.id,
  seat,
  member: member && memberFromJson(member),
  holder_email,
})

/** Loads seats with their related records in one statement. */
const loadSeats = async (db: Db, from: RawBuilder<unknown>): Promise<LoadedSeat[]> => {
  const { rows } = await sql<SeatRow & Related>`select s.*, to_jsonb(m) as member, h.email as holder_email from ${related(from)}`.execute(db.q)
  return rows.map(({ member, holder_email, ...seat }) => withRelated(seat, { member, holder_email }))
}

const loadSeatsById = (db: Db, organizations: RawBuilder<unknown>, ids: readonly string[]) =>
  loadSeats(db, sql`(select * from seats where organization_id = ${organizations} and id = any(${ids}::uuid[]))`)

/** Finds a seat with its related records, and whether its organization sells seats. */
export const findLoadedSeat = async (db: Db, scope: TenantScope, id: string): Promise<(LoadedSeat & { readonly sells: boolean }) | undefined> => {
  const found = sql`(select * from seats where organization_id = ${inScope(scope)} and id = ${id})`
  const { rows } = await sql<SeatRow & Related & { sells: boolean }>`
    select s.*, to_jsonb(m) as member, h.email as holder_email, ${sellsSeats('s.organization_id')} as sells from ${related(found)}`.execute(db.q)
  if (!rows[0]) return undefined
  const { member, holder_email, sells, ...seat } = rows[0]
  return { ...withRelated(seat, { member, holder_email }), sells }
}

/** Runs an update of one seat, and loads the changed seat with its related records in the same statement. */
const writeSeat = async (tx: Tx, update: OperationNodeSource): Promise<LoadedSeat<Locked<SeatRow>> | undefined> => {
  const { rows } = await sql<Locked<SeatRow> & Related>`
    with s as (${new ExpressionWrapper(update.toOperationNode())}) select s.*, to_jsonb(m) as member, h.email as holder_email from ${related(sql`s`)}`.execute(
    tx.q,
  )
  if (!rows[0]) return undefined
  const { member, holder_email, ...seat } = rows[0]
  return withRelated(seat as Locked<SeatRow>, { member, holder_email })
}

export const findSeat = (db: Db, scope: TenantScope, id: string): Promise<SeatRow | undefined> =>
  db.q.selectFrom('seats').selectAll().where('organization_id', '=', inScope(scope)).where('id', '=', id).executeTakeFirst()

/** Locks the seat, so that it is claimed, reassigned or revoked by one transaction at a time. */
export const lockSeat = async (tx: Tx, { organization_id, id }: Pick<SeatRow, 'organization_id' | 'id'>): Promise<Locked<SeatRow>> =>
  (await lockRow(seats(tx, organization_id).where('id', '=', id)))!

const list = {
  table: 'seats',
  tenant: 'organization_id',
  id: 'id',
  sortable: { created_at: { expression: 'created_at', type: 'timestamptz' } },
  counted: 'seats',
} as const satisfies ListSpec<string>

/** Lists the seats of a pool in order of assignment, including revoked ones. */
export const listSeats = (db: Db, { organization_id, subscription_id, order_id }: PoolKey, query: PageRequest) => {
  const own = subscription_id === null ? sql`order_id = ${order_id}` : sql`subscription_id = ${subscription_id}`
  return listRows(db, list, [organization_id], { ...query, sorting: ['created_at'] }, [own], (found) => loadSeatsById(db, sql`${organization_id}`, found))
}

/** Lists the seats of all organizations within the scope, newest first. */
export const listAllSeats = (db: Db, scope: TenantScope, query: PageRequest) =>
  listRows(db, list, organizationIds(scope), { ...query, sorting: ['-created_at'] }, [], (found) => loadSeatsById(db, inScope(scope), found))

/**
 * Loads the seats of a pool, in the order of assignment. If there are more seats than the limit, leaves out the oldest
 * revoked ones. Seats in use are therefore always included.
 */
export const loadPoolSeats = async (db: Db, pool: PoolKey): Promise<LoadedSeat[]> => {
  const rows = await loadSeats(
    db,
    sql`(select * from seats where ${inPool(pool)} order by status = 'revoked', created_at desc, id desc limit ${wholePurchaseLimit})`,
  )
  return rows.toSorted(({ seat: one }, { seat: other }) => one.created_at.getTime() - other.created_at.getTime() || (one.id < other.id ? -1 : 1))
}

/** True if the seat is in use: claimed, or with an invitation that has not expired. */
const taken = (now: Date) => sql<boolean>`(status = 'claimed' or (status = 'pending' and invitation_expires_at > ${now}))`

/** Counts the seats of a pool that are in use. A caller that assigns a seat by this number must lock the pool first. */
export const countTaken = async (db: Db, pool: PoolKey, now: Date): Promise<number> => {
  const { count } = await ofPool(db, pool)
    .clearSelect()
    .select(sql<number>`count(*)`.as('count'))
    .where(taken(now))
    .executeTakeFirstOrThrow()
  return count
}

/** The use of a locked purchase. */
export interface Occupancy {
  /** The lowest number of seats in the scheduled changes. Null if no change is scheduled. */
  readonly coming: number | null
  /** True if the member or the customer already has an unrevoked seat of the purchase. */
  readonly has_seat: boolean
  /** Number of seats that are in use. */
  readonly taken: number
  /** True if there are unrevoked seats whose invitation has expired. */
  readonly has_expired: boolean
}

export const loadOccupancy = async (
  tx: Tx,
  purchase: Locked<Purchase>,
  { member_id, holder_customer_id }: Pick<SeatRow, 'member_id' | 'holder_customer_id'>,
  now: Date,
): Promise<Occupancy> => {
  const own = inPool(purchase)
  const { rows } = await sql<Occupancy>`
    select ${comingSeats(sql`${purchase.organization_id}`, sql`${purchase.subscription_id}`)} as coming,
      exists (select from seats where ${own} and status <> 'revoked' and (member_id = ${member_id} or holder_customer_id = ${holder_customer_id})) as has_seat,
      (select count(*) from seats where ${own} and ${taken(now)}) as taken,
      exists (select from seats where ${own} and status = 'pending' and invitation_expires_at <= ${now}) as has_expired`.execute(tx.q)
  return rows[0]!
}

/** True if the member has claimed a seat of the product through another order. */
export const hasBoughtSeat = async (tx: Tx, pool: Purchase, member_id: string): Promise<boolean> =>
  (await tx.q
    .selectFrom('seats')
    .innerJoin('orders', (join) => join.onRef('orders.organization_id', '=', 'seats.organization_id').onRef('orders.id', '=', 'seats.order_id'))
    .select('seats.id')
    .where('seats.organization_id', '=', pool.organization_id)
    .where('seats.member_id', '=', member_id)
    .where('seats.status', '=', 'claimed')
    .where('orders.product_id', '=', pool.product_id)
    .executeTakeFirst()) !== undefined

/** Locks the seats of a locked pool whose invitation has expired. */
export const lockExpired = async (tx: Tx, pool: Locked<Purchase>, now: Date): Promise<Locked<SeatRow>[]> =>
  await lockRows(ofPool(tx, pool).where('status', '=', 'pending').where('invitation_expires_at', '<=', now).orderBy('id'))

/** Locks up to `most` seats of a locked pool that are not revoked. */
export const lockUnrevoked = async (tx: Tx, pool: Locked<Purchase>, most: number): Promise<Locked<SeatRow>[]> =>
  await lockRows(ofPool(tx, pool).where('status', '<>', 'revoked').orderBy('id').limit(most))

/** Returns the unrevoked seats whose holder is the given member or customer. */
export const findUnrevoked = (
  db: Db,
  organization_id: string,
  by: { readonly member_id: string } | { readonly holder_customer_id: string },
): Promise<SeatRow[]> => {
  const live = seats(db, organization_id).where('status', '<>', 'revoked').orderBy('id')
  return ('member_id' in by ? live.where('member_id', '=', by.member_id) : live.where('holder_customer_id', '=', by.holder_customer_id)).execute()
}

/** True if the holder of a seat has another one of the same purchase, accepted or offered. */
export const holdsAnother = async (db: Db, { organization_id, id, subscription_id, order_id, member_id, holder_customer_id }: SeatRow): Promise<boolean> => {
  if (member_id === null && holder_customer_id === null) return false
  const live = await findUnrevoked(db, organization_id, member_id === null ? { holder_customer_id: holder_customer_id! } : { member_id })
  return live.some((seat) => seat.id !== id && seat.subscription_id === subscription_id && seat.order_id === order_id)
}

const stored = <T extends Partial<SeatRow>>(changes: T) => ({ ...changes, ...(changes.metadata === undefined ? {} : { metadata: json(changes.metadata) }) })

/** Statement that inserts a seat, which may be a part of another statement. */
export const seatInsertion = (tx: Tx, row: SeatRow) => tx.q.insertInto('seats').values(stored(row)).returningAll()

export const changeSeat = async (tx: BusinessTx, { organization_id, id }: Locked<SeatRow>, changes: Partial<SeatRow>): Promise<LoadedSeat<Locked<SeatRow>>> =>
  (await writeSeat(
    tx,
    tx.q
      .updateTable('seats')
      .set(stored({ modified_at: tx.clock.business(), ...changes }))
      .where('organization_id', '=', organization_id)
      .where('id', '=', id)
      .returningAll(),
  ))!

/**
 * Claims a pending seat. Of several concurrent calls, only one update finds the seat pending. Accepts only the current
 * link. The purchase is locked, so that no new invitation is created meanwhile.
 */
export const claimPending = async (
  tx: BusinessTx,
  _purchase: Locked<Purchase>,
  { organization_id, id }: SeatRow,
  hashes: readonly string[],
): Promise<LoadedSeat<Locked<SeatRow>> | undefined> => {
  const now = tx.clock.business()
  return writeSeat(
    tx,
    tx.q
      .updateTable('seats')
      .set({ status: 'claimed', claimed_at: now, modified_at: now, invitation_expires_at: null, due_at: null })
      .where('organization_id', '=', organization_id)
      .where('id', '=', id)
      .where('status', '=', 'pending')
      .where('invitation_expires_at', '>', now)
      .where(sql<boolean>`exists (select from credentials where kind = 'seat_invitation' and subject_id = seats.id and hash = any(${hashes}::text[]))`)
      .returningAll(),
  )
}
