import type { PageRequest, SeatStatus } from '@bursar/contract'
import { sql, type Selectable } from 'kysely'
import type { Reach } from '../../../kernel/actors.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { json, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Pool, PoolKey } from './pools.sql.ts'

export interface SeatTable {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  subscription_id: string | null
  order_id: string | null
  status: SeatStatus
  buyer_customer_id: string
  /** Who holds it as a customer of their own, where there is no member model. */
  holder_customer_id: string | null
  member_id: string | null
  /** Null: a place that was sold before there were members, to which nobody was invited. */
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
const ofPool = (db: Db, { organization_id, subscription_id, order_id }: PoolKey) =>
  subscription_id === null
    ? seats(db, organization_id).where('order_id', '=', order_id)
    : seats(db, organization_id).where('subscription_id', '=', subscription_id)

export const findSeat = (db: Db, reach: Reach, id: string): Promise<SeatRow | undefined> =>
  db.q.selectFrom('seats').selectAll().where('organization_id', '=', withinReach(reach)).where('id', '=', id).executeTakeFirst()

/** Holds the seat: it is claimed, invited to and revoked by one caller at a time. */
export const lockSeat = async (tx: Tx, { organization_id, id }: Pick<SeatRow, 'organization_id' | 'id'>): Promise<Locked<SeatRow>> =>
  (await seats(tx, organization_id).where('id', '=', id).forNoKeyUpdate().executeTakeFirstOrThrow()) as Locked<SeatRow>

const list = {
  table: 'seats',
  tenant: 'organization_id',
  id: 'id',
  sortable: { created_at: { expression: 'created_at', type: 'timestamptz' } },
} as const satisfies ListSpec<string>

/** The seats of a pool, revoked ones too, in the order in which they were assigned. */
export const listSeats = (db: Db, { organization_id, subscription_id, order_id }: PoolKey, query: PageRequest) => {
  const own = subscription_id === null ? sql`order_id = ${order_id}` : sql`subscription_id = ${subscription_id}`
  return listRows(db, list, [organization_id], { ...query, sorting: ['created_at'] }, [own], (found) =>
    seats(db, organization_id)
      .where('id', 'in', [...found])
      .execute(),
  )
}

/** A seat that is somebody's at this moment: an invitation that has run out keeps nothing. */
const taken = (now: Date) => sql<boolean>`(status = 'claimed' or (status = 'pending' and invitation_expires_at > ${now}))`

/** How many seats of a pool are somebody's. Whoever gives one by this holds the pool. */
export const countTaken = async (db: Db, pool: PoolKey, now: Date): Promise<number> => {
  const { count } = await ofPool(db, pool)
    .clearSelect()
    .select(sql<number>`count(*)`.as('count'))
    .where(taken(now))
    .executeTakeFirstOrThrow()
  return count
}

/** Whether this person has a seat of the pool, by either of what they are. */
export const hasSeat = async (tx: Tx, pool: Locked<Pool>, { member_id, holder_customer_id }: Pick<SeatRow, 'member_id' | 'holder_customer_id'>) =>
  (await ofPool(tx, pool)
    .where('status', '<>', 'revoked')
    .where((is) => is.or([is('member_id', '=', member_id), is('holder_customer_id', '=', holder_customer_id)]))
    .executeTakeFirst()) !== undefined

/** Whether this member has claimed a seat of the product through another order. */
export const hasBoughtSeat = async (tx: Tx, pool: Pool, member_id: string): Promise<boolean> =>
  (await tx.q
    .selectFrom('seats')
    .innerJoin('orders', (join) => join.onRef('orders.organization_id', '=', 'seats.organization_id').onRef('orders.id', '=', 'seats.order_id'))
    .select('seats.id')
    .where('seats.organization_id', '=', pool.organization_id)
    .where('seats.member_id', '=', member_id)
    .where('seats.status', '=', 'claimed')
    .where('orders.product_id', '=', pool.product_id)
    .executeTakeFirst()) !== undefined

/** Holds the seats of a held pool whose invitation has run out. */
export const lockExpired = async (tx: Tx, pool: Locked<Pool>, now: Date): Promise<Locked<SeatRow>[]> =>
  (await ofPool(tx, pool)
    .where('status', '=', 'pending')
    .where('invitation_expires_at', '<=', now)
    .orderBy('id')
    .forNoKeyUpdate()
    .execute()) as Locked<SeatRow>[]

/** Holds some of the seats of a held pool that are not revoked yet. */
export const lockUnrevoked = async (tx: Tx, pool: Locked<Pool>, most: number): Promise<Locked<SeatRow>[]> =>
  (await ofPool(tx, pool).where('status', '<>', 'revoked').orderBy('id').limit(most).forNoKeyUpdate().execute()) as Locked<SeatRow>[]

/** The seats of a member, or of a customer who holds them, that are not revoked. */
export const findUnrevoked = (
  db: Db,
  organization_id: string,
  by: { readonly member_id: string } | { readonly holder_customer_id: string },
): Promise<SeatRow[]> => {
  const live = seats(db, organization_id).where('status', '<>', 'revoked').orderBy('id')
  return ('member_id' in by ? live.where('member_id', '=', by.member_id) : live.where('holder_customer_id', '=', by.holder_customer_id)).execute()
}

const stored = <T extends Partial<SeatRow>>(changes: T) => ({ ...changes, ...(changes.metadata === undefined ? {} : { metadata: json(changes.metadata) }) })

export const insertSeat = async (tx: Tx, row: SeatRow): Promise<SeatRow> =>
  tx.q.insertInto('seats').values(stored(row)).returningAll().executeTakeFirstOrThrow()

export const changeSeat = async (tx: Tx, { organization_id, id }: Locked<SeatRow>, changes: Partial<SeatRow>): Promise<Locked<SeatRow>> =>
  (await tx.q
    .updateTable('seats')
    .set(stored({ modified_at: tx.clock.business(), ...changes }))
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()) as Locked<SeatRow>

/**
 * Makes an invitation a seat, once: of any number who try, this update finds it open for one, and only by the link that
 * counts at this moment. The pool is held: nobody invites again meanwhile.
 */
export const claimPending = async (
  tx: Tx,
  _pool: Locked<Pool>,
  { organization_id, id }: SeatRow,
  hashes: readonly string[],
): Promise<Locked<SeatRow> | undefined> => {
  const now = tx.clock.business()
  return (await tx.q
    .updateTable('seats')
    .set({ status: 'claimed', claimed_at: now, modified_at: now, invitation_expires_at: null, due_at: null })
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .where('status', '=', 'pending')
    .where('invitation_expires_at', '>', now)
    .where(sql<boolean>`exists (select from credentials where kind = 'seat_invitation' and subject_id = seats.id and hash = any(${hashes}::text[]))`)
    .returningAll()
    .executeTakeFirst()) as Locked<SeatRow> | undefined
}

/** How many invitations went to an address of an organization since a moment, to whichever seats. */
export const countInvitations = async (tx: Tx, organization_id: string, email: string, since: Date): Promise<number> => {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from seats s join mails m on m.organization_id = s.organization_id and m.kind = 'mail.seat_invitation' and m.reference = s.id
    where s.organization_id = ${organization_id} and lower(s.email) = ${email.toLowerCase()} and m.moment > ${since}`.execute(tx.q)
  return rows[0]!.count
}

export const noteInvitation = async (tx: Tx, { organization_id, id }: Pick<SeatRow, 'organization_id' | 'id'>): Promise<void> => {
  const now = tx.clock.wall()
  await sql`
    insert into mails (organization_id, kind, reference, moment, promised_at) values (${organization_id}, 'mail.seat_invitation', ${id}, ${now}, ${now})
    on conflict do nothing`.execute(tx.q)
}
