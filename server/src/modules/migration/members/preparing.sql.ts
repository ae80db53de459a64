import type { MemberMigrationWork } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { forgotten, type Discretion } from '../../../platform/personal.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { MemberRow } from '../../customers/index.ts'
import { grantsOfSeats, marks, problems, relations, unpreparedGrant, unpreparedSeat, type Scope } from './planning.sql.ts'

/** Start and size of a batch. `after` is the id of the last processed row. */
export interface Cursor {
  readonly organization_id: string
  readonly after: string | null
  readonly limit: number
}

const page = async (tx: Tx, { after, limit }: Cursor, rows: RawBuilder<unknown>): Promise<string[]> => {
  const { rows: found } = await sql<{
    id: string
  }>`select id from (${rows}) x where (${after}::uuid is null or id > ${after}) order by id limit ${limit}`.execute(tx.q)
  return found.map(({ id }) => id)
}

/** Conditions that select the customers for three steps: events after the switch, events after its undo, and purging after sealing. */
const conditions = {
  holders: 'deleted_at is null and pure_holder and tombstoned_at is null',
  teams: `deleted_at is null and becomes_team and type <> 'team' and not pure_holder`,
  tombstones: 'deleted_at is null and pure_holder and tombstoned_at is not null',
} as const
const customersOf = ({ organization_id }: Cursor, which: keyof typeof conditions) =>
  sql`select id from customers where organization_id = ${organization_id} and ${sql.raw(conditions[which])}`

/** Pages through the rows of a step by id. Does not use an offset, because processed rows disappear from the list. */
export const pages = {
  owners: (tx: Tx, at: Cursor) => page(tx, at, sql`select id from customers where organization_id = ${at.organization_id} and deleted_at is null`),
  seats: (tx: Tx, at: Cursor) => page(tx, at, sql`select id from seats s where organization_id = ${at.organization_id} and ${unpreparedSeat('s')}`),
  grants: (tx: Tx, at: Cursor) => page(tx, at, sql`select id from benefit_grants g where organization_id = ${at.organization_id} and ${unpreparedGrant('g')}`),
  marks: (tx: Tx, at: Cursor) => page(tx, at, sql`select id from customers where organization_id = ${at.organization_id} and deleted_at is null`),
  prepared_seats: (tx: Tx, at: Cursor) => page(tx, at, sql`select id from seats where organization_id = ${at.organization_id} and prepared`),
  prepared_grants: (tx: Tx, at: Cursor) => page(tx, at, sql`select id from benefit_grants where organization_id = ${at.organization_id} and prepared`),
  prepared_marks: (tx: Tx, at: Cursor) => page(tx, at, sql`select id from customers where organization_id = ${at.organization_id} and prepared <> 0`),
  prepared_members: (tx: Tx, at: Cursor) => page(tx, at, sql`select id from members where organization_id = ${at.organization_id} and prepared`),
  holders: (tx: Tx, at: Cursor) => page(tx, at, customersOf(at, 'holders')),
  teams: (tx: Tx, at: Cursor) => page(tx, at, customersOf(at, 'teams')),
  tombstones: (tx: Tx, at: Cursor) => page(tx, at, customersOf(at, 'tombstones')),
} as const

/** Counts the rows that a kind of work will process, as far as known when it starts. */
export const countWork = async (tx: Tx, organization_id: string, work: MemberMigrationWork): Promise<number> => {
  const one = sql`organization_id = ${organization_id}`
  const counts: Record<MemberMigrationWork, RawBuilder<unknown>> = {
    prepare: sql`2 * (select count(*) from customers where ${one} and deleted_at is null) + (select count(*) from seats s where ${one} and ${unpreparedSeat('s')})`,
    unprepare: sql`(select count(*) from seats where ${one} and prepared) + (select count(*) from customers where ${one} and prepared <> 0) + (select count(*) from members where ${one} and prepared)`,
    tell: sql`(select count(*) from customers where ${one} and ((${sql.raw(conditions.holders)}) or (${sql.raw(conditions.teams)})))`,
    untell: sql`(select count(*) from customers where ${one} and ((${sql.raw(conditions.tombstones)}) or (${sql.raw(conditions.teams)})))`,
    purge: sql`(select count(*) from customers where ${one} and ${sql.raw(conditions.tombstones)})`,
  }
  const { rows } = await sql<{ count: number }>`select (${counts[work]})::bigint as count`.execute(tx.q)
  return rows[0]!.count
}

/**
 * Locks the customers, subscriptions and orders that these rows belong to, in the lock order of all code. Until the
 * transaction ends, no other transaction can reconcile benefits of these purchases or create a member with the same
 * address.
 */
const holdAround = async (tx: Tx, organization_id: string, rows: RawBuilder<unknown>): Promise<void> => {
  const hold = (table: string, column: string) =>
    sql`select from ${sql.table(table)} where organization_id = ${organization_id} and id in (select ${sql.ref(column)} from (${rows}) x) order by id for no key update`.execute(
      tx.q,
    )
  await hold('customers', 'buyer_customer_id')
  await hold('subscriptions', 'subscription_id')
  await hold('orders', 'order_id')
}

const holdSeats = async (tx: Tx, organization_id: string, ids: readonly string[]): Promise<void> => {
  await holdAround(
    tx,
    organization_id,
    sql`select buyer_customer_id, subscription_id, order_id from seats where organization_id = ${organization_id} and id = any(${ids}::uuid[])`,
  )
  await sql`select from seats where organization_id = ${organization_id} and id = any(${ids}::uuid[]) order by id for no key update`.execute(tx.q)
}

const holdGrants = (tx: Tx, organization_id: string, ids: readonly string[]): Promise<void> =>
  holdAround(
    tx,
    organization_id,
    sql`select buyer_customer_id, subscription_id, order_id from benefit_grants where organization_id = ${organization_id} and id = any(${ids}::uuid[])`,
  )

const holdCustomers = async (tx: Tx, organization_id: string, ids: readonly string[]): Promise<void> => {
  await sql`select from customers where organization_id = ${organization_id} and id = any(${ids}::uuid[]) order by id for no key update`.execute(tx.q)
}

/**
 * Shortens the lock timeout, so that requests of buyers and seat holders do not wait long behind this work. A batch
 * that exceeds the timeout is retried with one row.
 */
export const beBrief = async (tx: Tx): Promise<void> => {
  await sql`set local lock_timeout = '250ms'`.execute(tx.q)
}

/** Disables the JIT, because compiling these long statements takes longer than running them on few rows. */
const asIs = async (tx: Tx): Promise<void> => {
  await sql`set local jit = off`.execute(tx.q)
}

/** Adds all seats of the same holders in the same purchases. The benefits of such seats are reconciled together, so the seats must be prepared together. */
const together = async (tx: Tx, organization_id: string, ids: readonly string[], condition: RawBuilder<unknown>): Promise<string[]> => {
  const { rows } = await sql<{ id: string }>`
    select distinct t.id from (select holder_customer_id, subscription_id, order_id from seats where organization_id = ${organization_id} and id = any(${ids}::uuid[]) offset 0) s
    cross join lateral (select * from seats t where t.organization_id = ${organization_id} and t.holder_customer_id = s.holder_customer_id offset 0) t
    where (t.subscription_id = s.subscription_id or t.order_id = s.order_id) and ${condition}`.execute(tx.q)
  return [...new Set([...ids, ...rows.map(({ id }) => id)])]
}

/** Applies the plan to some rows in one transaction. Returns the created members. */
export const prepare = async (tx: Tx, organization_id: string, given: Exclude<Scope, 'all'>, started_at: Date): Promise<MemberRow[]> => {
  const scope = 'seats' in given ? { seats: await together(tx, organization_id, given.seats, unpreparedSeat('t')) } : given
  if ('owners' in scope) await holdCustomers(tx, organization_id, scope.owners)
  else if ('seats' in scope) await holdSeats(tx, organization_id, scope.seats)
  else await holdGrants(tx, organization_id, scope.grants)
  await asIs(tx)
  const { rows } = await sql<{ members: MemberRow[] | null }>`
    with ${relations(organization_id, scope)},
    joined as (
      insert into members (organization_id, id, customer_id, created_at, modified_at, deleted_at, email, name, external_id, role, prepared)
      select ${organization_id}, member_id, customer_id, ${started_at}, null, null, email, name, case when name_taken then null else external_id end, role, true from made
      returning organization_id, id, customer_id, created_at, modified_at, email, name, external_id, role
    ),
    seated as (
      update seats s set member_id = p.member_id, prepared = true from person p
      where p.kind = 'seat' and p.member_id is not null and s.organization_id = ${organization_id} and s.id = p.id
    ),
    granted as (
      update benefit_grants g set member_id = p.member_id, prepared = true from person p
      where p.kind = 'grant' and p.member_id is not null and g.organization_id = ${organization_id} and g.id = p.id returning g.id, g.member_id
    ),
    keyed as (
      update license_keys k set member_id = g.member_id, prepared = true from granted g
      where k.organization_id = ${organization_id} and k.grant_id = g.id and k.member_id is null
    ),
    troubled as (
      insert into member_migration_problems (organization_id, resource, id, problem, blocks)
      select ${organization_id}, resource, id, problem, blocks from (${problems}) t on conflict do nothing
    )
    select (select jsonb_agg(to_jsonb(j)) from joined j) as members`.execute(tx.q)
  // Revokes a seat invitation that was sent to an address other than the member's. The seller has to send it again.
  if ('seats' in scope)
    await sql`
      delete from credentials c using seats s, members m
      where c.kind = 'seat_invitation' and c.subject_id = s.id and s.organization_id = ${organization_id} and s.id = any(${scope.seats}::uuid[]) and s.status = 'pending'
        and m.organization_id = s.organization_id and m.id = s.member_id and lower(m.email) <> lower(s.email)`.execute(tx.q)
  return (rows[0]!.members ?? []).map((member) => ({ ...member, created_at: started_at }))
}

/** Stores for each customer how the member phase view will show it. Locks the customers, so a concurrent purchase finishes first. */
export const mark = async (tx: Tx, organization_id: string, ids: readonly string[]): Promise<void> => {
  await holdCustomers(tx, organization_id, ids)
  await asIs(tx)
  await sql`
    with m as materialized (${marks(organization_id, sql`c.id = any(${ids}::uuid[])`)})
    update customers c set pure_holder = m.pure, becomes_team = c.becomes_team or m.team,
      prepared = c.prepared | case when m.pure and not c.pure_holder then 1 else 0 end | case when m.team and not c.becomes_team then 2 else 0 end
        | case when c.pure_holder and not m.pure then 4 else 0 end
    from m where c.organization_id = ${organization_id} and c.id = m.id and (m.pure <> c.pure_holder or (m.team and not c.becomes_team))`.execute(tx.q)
}

/** Undoes the preparation of some seats, and of the grants that their holders have through the same purchase. */
export const unprepareSeats = async (tx: Tx, organization_id: string, given: readonly string[]): Promise<void> => {
  const ids = await together(tx, organization_id, given, sql`t.prepared`)
  await holdSeats(tx, organization_id, ids)
  // Includes grants that were added after the preparation, so that they stay with the seat.
  const theirs = grantsOfSeats(organization_id, sql`s.id = any(${ids}::uuid[])`, sql`g.member_id = s.member_id`)
  const { rows } = await sql<{ id: string }>`${theirs}`.execute(tx.q)
  await takeBack(
    tx,
    organization_id,
    rows.map(({ id }) => id),
  )
  await sql`update seats set member_id = null, prepared = false where organization_id = ${organization_id} and id = any(${ids}::uuid[]) and prepared`.execute(
    tx.q,
  )
}

/** Undoes the preparation of grants that have no seat. */
export const unprepareGrants = async (tx: Tx, organization_id: string, ids: readonly string[]): Promise<void> => {
  await holdGrants(tx, organization_id, ids)
  await takeBack(tx, organization_id, ids)
}

const takeBack = async (tx: Tx, organization_id: string, grants: readonly string[]): Promise<void> => {
  await sql`
    with theirs as (update benefit_grants g set member_id = null, prepared = false
      where g.organization_id = ${organization_id} and g.id = any(${grants}::uuid[]) returning g.id)
    update license_keys k set member_id = null, prepared = false from theirs t where k.organization_id = ${organization_id} and k.grant_id = t.id`.execute(tx.q)
}

/** Condition that another customer has taken the email address or external id. Both are unique, so customer `c` stays hidden. */
const twin =
  sql.raw(`exists (select from customers x where x.organization_id = c.organization_id and x.id <> c.id and x.deleted_at is null and not x.pure_holder
  and (lower(x.email) = lower(c.email) or x.external_id = c.external_id))`)

export const unmark = async (tx: Tx, organization_id: string, ids: readonly string[]): Promise<void> => {
  await holdCustomers(tx, organization_id, ids)
  await sql`
    update customers c set pure_holder = case when prepared & 1 <> 0 then pure_holder and (${twin}) else pure_holder or prepared & 4 <> 0 end,
      becomes_team = becomes_team and (prepared & 2 = 0 or (type <> 'team' and email is null)), prepared = 0
    where organization_id = ${organization_id} and id = any(${ids}::uuid[]) and prepared <> 0`.execute(tx.q)
}

/** Tables that may reference a prepared member. Undo keeps a member that a row in any of these tables references. */
const standing = ['seats', 'benefit_grants', 'license_keys', 'customer_sessions', 'customer_email_changes', 'usage_members']

/** Deletes members that phase 1 created and that were neither changed nor referenced since. Returns the removed members. */
export const removeMembers = async (tx: Tx, organization_id: string, ids: readonly string[]): Promise<MemberRow[]> => {
  await sql`
    select from customers where organization_id = ${organization_id}
      and id in (select customer_id from members where organization_id = ${organization_id} and id = any(${ids}::uuid[])) order by id for no key update`.execute(
    tx.q,
  )
  const unused = standing.map((table) => `not exists (select from ${table} x where x.organization_id = m.organization_id and x.member_id = m.id)`).join(' and ')
  const { rows } = await sql<MemberRow>`
    delete from members m where m.organization_id = ${organization_id} and m.id = any(${ids}::uuid[]) and m.prepared and m.modified_at is null and m.deleted_at is null and ${sql.raw(unused)}
    returning organization_id, id, customer_id, created_at, modified_at, email, name, external_id, role`.execute(tx.q)
  // The members that were kept are now ordinary members of the buyer, so a later undo does not delete them.
  await sql`update members set prepared = false where organization_id = ${organization_id} and id = any(${ids}::uuid[]) and prepared`.execute(tx.q)
  return rows
}

/** Returns true if the organization has an endpoint with `migration_events` enabled. */
export const isHeard = async (tx: Tx, organization_id: string): Promise<boolean> => {
  const { rows } =
    await sql`select from webhook_endpoints where organization_id = ${organization_id} and deleted_at is null and migration_events limit 1`.execute(tx.q)
  return rows.length > 0
}

/** Locks and returns those customers that still meet the condition. Customers that no longer meet it are skipped. */
export const holdStill = async (tx: Tx, organization_id: string, ids: readonly string[], condition: keyof typeof conditions): Promise<string[]> => {
  const { rows } = await sql<{ id: string }>`
    select id from customers where organization_id = ${organization_id} and id = any(${ids}::uuid[]) and ${sql.raw(conditions[condition])} order by id for no key update`.execute(
    tx.q,
  )
  return rows.map(({ id }) => id)
}

export const entomb = async (tx: Tx, organization_id: string, ids: readonly string[], at: Date | null): Promise<void> => {
  await sql`update customers set tombstoned_at = ${at} where organization_id = ${organization_id} and id = any(${ids}::uuid[])`.execute(tx.q)
}

/** Deletes customers that only held seats, and permanently erases their personal data. Their ids stay, for clients that still use them. */
export const purge = async (tx: Tx, { personal }: Discretion, organization_id: string, given: readonly string[], at: Date): Promise<void> => {
  const held = await holdStill(tx, organization_id, given, 'tombstones')
  // Checks again under the lock. A customer that has made a purchase of its own since is kept.
  const { rows } = await sql<{ id: string }>`select id from (${marks(organization_id, sql`c.id = any(${held}::uuid[])`)}) m where pure`.execute(tx.q)
  const ids = rows.map(({ id }) => id)
  const end = async (table: 'members' | 'customers', of: string) => {
    const changes = [sql`deleted_at = ${at}`, ...forgotten(personal[table]!.columns)]
    await sql`
      update ${sql.table(table)} set ${sql.join(changes)}
      where organization_id = ${organization_id} and ${sql.ref(of)} = any(${ids}::uuid[]) and deleted_at is null`.execute(tx.q)
  }
  await end('members', 'customer_id')
  await end('customers', 'id')
}
