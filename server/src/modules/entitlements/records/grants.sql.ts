import { sql, type RawBuilder, type Selectable } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import { lockRow } from '../../../platform/postgres/locks.ts'
import { json, inScope } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { ContainerKey } from '../../billing/index.ts'

/** Reason why a grant could not be given or revoked, in the API's format. */
export interface GrantError {
  readonly message: string
  readonly type: string
  readonly timestamp: string
}

export interface GrantTable {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  benefit_id: string
  subscription_id: string | null
  order_id: string | null
  seat_id: string | null
  buyer_customer_id: string
  holder_customer_id: string | null
  member_id: string | null
  is_manual: boolean
  is_withheld: boolean
  is_wanted: boolean
  granted_at: Date | null
  revoked_at: Date | null
  properties: Readonly<Record<string, unknown>>
  error: GrantError | null
  attempts: number
  place: string | null
  account: string | null
  cycled_for: Date | null
  due_at: Date | null
  clock_id: null
  lease_until: Date | null
  lease_token: string | null
  lease_holder: string | null
}
export type GrantRow = Selectable<GrantTable>

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    benefit_grants: GrantTable
    meter_credits: {
      organization_id: string
      id: string
      created_at: Date
      grant_id: string
      meter_id: string
      customer_id: string
      units: number
      rollover: boolean
      period_start: Date | null
    }
    benefit_graces: {
      organization_id: string
      id: string
      due_at: Date | null
      clock_id: string | null
      lease_until: Date | null
      lease_token: string | null
      lease_holder: string | null
    }
  }
}

/** Recipient of a grant: a member, a customer that holds a seat, or both. If both ids are null, the buyer is the recipient. */
export interface Recipient {
  readonly member_id: string | null
  readonly holder_customer_id: string | null
}

const selected = (db: Db, scope: TenantScope) => db.q.selectFrom('benefit_grants').selectAll().where('organization_id', '=', inScope(scope))

export const findGrant = (db: Db, scope: TenantScope, id: string): Promise<GrantRow | undefined> => selected(db, scope).where('id', '=', id).executeTakeFirst()

/** Locks the grant. Serializes giving and revoking of the grant, so that its events have the same order. */
export const lockGrant = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<GrantRow> | undefined> =>
  await lockRow(selected(tx, scope).where('id', '=', id))

/** Selection of grants for batch processing. */
export type Many =
  | { readonly container: ContainerKey }
  | { readonly benefit_id: string }
  /** The customer's own grants, which have neither a member nor a seat holder. */
  | { readonly direct_of: string }
  | { readonly manual_of: { readonly member_id: string } | { readonly buyer_customer_id: string } }

const meant = (many: Many): RawBuilder<boolean> => {
  if ('container' in many) {
    const { subscription_id, order_id } = many.container
    return subscription_id === null ? sql`order_id = ${order_id}` : sql`subscription_id = ${subscription_id}`
  }
  if ('benefit_id' in many) return sql`benefit_id = ${many.benefit_id}`
  if ('direct_of' in many) return sql`buyer_customer_id = ${many.direct_of} and member_id is null and holder_customer_id is null`
  const [column, id] = Object.entries(many.manual_of)[0]!
  return sql`is_manual and ${sql.ref(column)} = ${id}`
}

const forRecipients = (people: readonly Recipient[]): RawBuilder<boolean> => {
  const members = people.flatMap(({ member_id }) => member_id ?? [])
  const holders = people.flatMap(({ holder_customer_id }) => holder_customer_id ?? [])
  const direct = people.some(({ member_id, holder_customer_id }) => member_id === null && holder_customer_id === null)
  return sql<boolean>`(member_id = any(${members}::uuid[]) or holder_customer_id = any(${holders}::uuid[]) or (${direct} and member_id is null and holder_customer_id is null))`
}

/** Locks the next wanted grants of a selection, up to `limit`, in the order of their ids. `people` restricts them to these recipients. */
export const lockWanted = async (
  tx: Tx,
  organization_id: string,
  many: Many,
  { after, limit, people }: { after: string | null; limit: number; people?: readonly Recipient[] },
): Promise<Locked<GrantRow>[]> => {
  const { rows } = await sql<Locked<GrantRow>>`
    select * from benefit_grants where organization_id = ${organization_id} and ${meant(many)} and is_wanted
      ${people ? sql`and ${forRecipients(people)}` : sql``} and (${after}::uuid is null or id > ${after})
    order by id limit ${limit} for no key update`.execute(tx.q)
  return rows
}

/** Locks all grants that these recipients ever had through a purchase. */
export const lockGrantsOf = async (tx: Tx, container: ContainerKey, people: readonly Recipient[]): Promise<Locked<GrantRow>[]> => {
  const { rows } = await sql<Locked<GrantRow>>`
    select * from benefit_grants where organization_id = ${container.organization_id} and ${meant({ container })} and ${forRecipients(people)}
    order by id for no key update`.execute(tx.q)
  return rows
}

/** Locks the manual grant of one benefit to one recipient. */
export const lockManual = async (
  tx: Tx,
  { organization_id, benefit_id, buyer_customer_id, member_id }: Pick<GrantRow, 'organization_id' | 'benefit_id' | 'buyer_customer_id' | 'member_id'>,
): Promise<Locked<GrantRow> | undefined> => {
  const { rows } = await sql<Locked<GrantRow>>`
    select * from benefit_grants where organization_id = ${organization_id} and buyer_customer_id = ${buyer_customer_id} and benefit_id = ${benefit_id}
      and is_manual and member_id is not distinct from ${member_id} for no key update`.execute(tx.q)
  return rows[0]
}

/**
 * Mutable columns of a grant. The lease columns are excluded, so saving a grant does not renew a lease. A worker can
 * thus detect after an external call that it lost its lease.
 */
const changing = [
  'modified_at',
  'seat_id',
  'is_withheld',
  'is_wanted',
  'granted_at',
  'revoked_at',
  'properties',
  'error',
  'attempts',
  'place',
  'account',
  'cycled_for',
  'due_at',
] as const
const atOnce = 500

/** Inserts new grants and updates existing ones, which must be locked. */
export const saveGrants = async (tx: Tx, rows: readonly GrantRow[]): Promise<void> => {
  for (let from = 0; from < rows.length; from += atOnce)
    await tx.q
      .insertInto('benefit_grants')
      .values(rows.slice(from, from + atOnce).map((row) => ({ ...row, properties: json(row.properties), error: row.error && json(row.error) })))
      .onConflict((twin) =>
        twin.columns(['organization_id', 'id']).doUpdateSet((now) => Object.fromEntries(changing.map((column) => [column, now.ref(`excluded.${column}`)]))),
      )
      .execute()
}

export interface Credit {
  readonly organization_id: string
  readonly id: string
  readonly created_at: Date
  readonly grant_id: string
  readonly meter_id: string
  readonly customer_id: string
  readonly units: number
  readonly rollover: boolean
  readonly period_start: Date | null
}

/** Inserts meter credits. Skips a credit if its grant was already credited for the period. Returns the ids of the newly credited grants. */
export const insertCredits = async (tx: Tx, credits: readonly Credit[]): Promise<ReadonlySet<string>> => {
  if (credits.length === 0) return new Set()
  const made = await tx.q
    .insertInto('meter_credits')
    .values([...credits])
    .onConflict((twin) => twin.columns(['organization_id', 'grant_id', 'period_start']).doNothing())
    .returning('grant_id')
    .execute()
  return new Set(made.map(({ grant_id }) => grant_id))
}

/** Schedules the end of the grace period of a past-due subscription, which keeps its benefits until then. A `due_at` of null cancels the schedule. */
export const keepGrace = async (tx: Tx, organization_id: string, id: string, due_at: Date | null, clock_id: string | null): Promise<void> => {
  if (due_at === null)
    await sql`update benefit_graces set due_at = null where organization_id = ${organization_id} and id = ${id} and due_at is not null`.execute(tx.q)
  else
    await sql`
      insert into benefit_graces (organization_id, id, due_at, clock_id) values (${organization_id}, ${id}, ${due_at}, ${clock_id})
      on conflict (organization_id, id) do update set due_at = excluded.due_at, clock_id = excluded.clock_id`.execute(tx.q)
}

/**
 * Condition that a grant, aliased `g`, is in force. The buyer and the member of the grant must not be deleted. Before
 * phase 2, the customer that holds the grant's seat must not be deleted either. A grant that a job is still revoking is
 * not in force.
 */
export const stands = sql<boolean>`(g.is_wanted and g.granted_at is not null and g.revoked_at is null
  and not exists (select from members m where m.organization_id = g.organization_id and m.id = g.member_id and m.deleted_at is not null)
  and not exists (select from customers c join organizations o on o.id = c.organization_id where c.organization_id = g.organization_id and c.deleted_at is not null
    and (c.id = g.buyer_customer_id or (c.id = g.holder_customer_id and o.member_phase <> 'phase2'))))`

/** Returns true if another wanted grant has the same account in the same place, so the account must not be removed. */
export const isShared = async (tx: Tx, { organization_id, id, place, account }: GrantRow): Promise<boolean> => {
  const { rows } = await sql`
    select from benefit_grants where organization_id = ${organization_id} and id <> ${id} and place = ${place} and account = ${account} and is_wanted limit 1`.execute(
    tx.q,
  )
  return rows.length > 0
}

/**
 * Reschedules wanted grants whose account was just removed on behalf of another grant. A worker may have admitted the
 * account just before the removal. This function cancels that worker's lease, so that another worker repeats the
 * admission.
 */
export const wakeSharing = async (tx: Tx, { organization_id, id }: GrantRow, place: string, account: string): Promise<void> => {
  await sql`
    update benefit_grants set due_at = ${tx.clock.wall()}, lease_until = null, lease_token = null, lease_holder = null where organization_id = ${organization_id} and id <> ${id} and place = ${place} and account = ${account} and is_wanted`.execute(
    tx.q,
  )
}
