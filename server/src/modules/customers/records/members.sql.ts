import type { MemberRole, PageRequest } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { isOneOf, inScope, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { findCustomerIds } from './customers.sql.ts'
import { isHidden, type CustomerRow } from './customer-rows.sql.ts'
import { rowFromJson } from '../../../platform/postgres/json-rows.ts'
import type { MemberRow, MemberTable } from './member-rows.sql.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    members: MemberTable & { deleted_at: Date | null }
  }
}

const columns = ['organization_id', 'id', 'customer_id', 'created_at', 'modified_at', 'email', 'name', 'external_id', 'role'] as const

/** SQL for the columns of a member, in a query of the table `members`. */
export const memberColumns = sql.join(columns.map((column) => sql.ref(`members.${column}`)))

/** Subquery for the owner of the customer that these two columns name. */
export const ownerWhere = (organization_id: string, customer_id: string): RawBuilder<unknown> => sql`
  select ${memberColumns} from members where members.organization_id = ${sql.ref(organization_id)} and members.customer_id = ${sql.ref(customer_id)}
    and members.role = 'owner' and members.deleted_at is null`

export const memberFromJson = rowFromJson<MemberRow>({ created_at: true, modified_at: true })

const of = (db: Db, { organization_id, id }: CustomerRow) =>
  db.q.selectFrom('members').select(columns).where('organization_id', '=', organization_id).where('customer_id', '=', id).where('deleted_at', 'is', null)

/** Loads members, including deleted ones, because the grants of a deleted member are still shown. */
export const loadMembers = async (db: Db, keys: readonly { organization_id: string; id: string }[]): Promise<MemberRow[]> =>
  keys.length === 0
    ? []
    : db.q
        .selectFrom('members')
        .select(columns)
        .where('organization_id', '=', oneOf([...new Set(keys.map(({ organization_id }) => organization_id))]))
        .where('id', '=', oneOf([...new Set(keys.map(({ id }) => id))]))
        .execute()

export type MemberNaming = { readonly id: string } | { readonly external_id: string }

/** Returns a member of this customer. Members of other customers are not found. */
export const findMember = (db: Db, customer: CustomerRow, naming: MemberNaming): Promise<MemberRow | undefined> =>
  ('id' in naming ? of(db, customer).where('id', '=', naming.id) : of(db, customer).where('external_id', '=', naming.external_id)).executeTakeFirst()

/** Returns the customer id of a member in scope. The customer itself may be deleted, so callers must load it. */
export const findCustomerOf = (db: Db, scope: TenantScope, member_id: string): Promise<{ id: string } | undefined> =>
  db.q
    .selectFrom('members')
    .select('customer_id as id')
    .where('organization_id', '=', inScope(scope))
    .where('id', '=', member_id)
    .where('deleted_at', 'is', null)
    .executeTakeFirst()

export const findMemberByEmail = (db: Db, customer: CustomerRow, email: string): Promise<MemberRow | undefined> =>
  of(db, customer)
    .where(sql`lower(email)`, '=', email.toLowerCase())
    .executeTakeFirst()

export const findOwnerOf = (db: Db, customer: CustomerRow): Promise<MemberRow | undefined> => of(db, customer).where('role', '=', 'owner').executeTakeFirst()

/** Returns the ids of the customers that these members own. Used to find grants of a customer itself, which belong to its owner. */
export const ownedBy = async (db: Db, scope: TenantScope, member_ids: readonly string[]): Promise<string[]> =>
  (
    await db.q
      .selectFrom('members')
      .select('customer_id')
      .where('organization_id', '=', inScope(scope))
      .where('id', '=', oneOf(member_ids))
      .where('role', '=', 'owner')
      .where('deleted_at', 'is', null)
      .execute()
  ).map(({ customer_id }) => customer_id)

const list = (scope: TenantScope) =>
  ({
    table: 'members',
    tenant: 'organization_id',
    id: 'id',
    always: sql`deleted_at is null and not exists (select from customers c where c.organization_id = members.organization_id and c.id = members.customer_id and ${isHidden(scope, 'c')})`,
    sortable: { created_at: { expression: 'created_at', type: 'timestamptz' } },
  }) as const satisfies ListSpec<string>

export const listMembers = async (
  db: Db,
  scope: TenantScope,
  query: PageRequest & {
    sorting: readonly string[]
    customer_id?: string | undefined
    external_customer_id?: string | undefined
    role?: MemberRole | undefined
  },
) => {
  const filters: RawBuilder<unknown>[] = []
  if (query.customer_id) filters.push(sql`customer_id = ${query.customer_id}`)
  if (query.external_customer_id) filters.push(isOneOf('customer_id', await findCustomerIds(db, scope, { external_id: [query.external_customer_id] })))
  if (query.role) filters.push(sql`role = ${query.role}`)
  return listRows(db, list(scope), organizationIds(scope), query, filters, (found) =>
    db.q
      .selectFrom('members')
      .select(columns)
      .where('organization_id', '=', inScope(scope))
      .where('deleted_at', 'is', null)
      .where('id', '=', oneOf(found))
      .execute(),
  )
}

export const insertMemberRow = async (tx: Tx, member: MemberRow): Promise<void> => {
  await tx.q
    .insertInto('members')
    .values({ ...member, deleted_at: null })
    .execute()
}

/** Inserts a member, unless the customer has a member with the same address. Returns the member, and whether it was inserted. */
export const insertMemberOnce = async (
  tx: Tx,
  { organization_id, id, customer_id, created_at, email, role }: MemberRow,
): Promise<{ readonly member: MemberRow; readonly inserted: boolean }> => {
  const { rows } = await sql<MemberRow & { inserted: boolean }>`
    with existing as (
      select ${memberColumns} from members where organization_id = ${organization_id} and customer_id = ${customer_id} and deleted_at is null
        and lower(email) = ${email.toLowerCase()}
    ), made as (
      insert into members (organization_id, id, customer_id, created_at, email, role)
      select ${organization_id}::uuid, ${id}::uuid, ${customer_id}::uuid, ${created_at}::timestamptz, ${email}, ${role} where not exists (select from existing)
      returning ${memberColumns}
    )
    select *, false as inserted from existing union all select *, true from made`.execute(tx.q)
  const { inserted, ...member } = rows[0]!
  return { member, inserted }
}

export const changeMember = (tx: Tx, member: MemberRow, changes: Partial<MemberRow> & { deleted_at?: Date }): Promise<MemberRow> =>
  tx.q
    .updateTable('members')
    .set(changes)
    .where('organization_id', '=', member.organization_id)
    .where('id', '=', member.id)
    .returning(columns)
    .executeTakeFirstOrThrow()

/** Deletes all members of a customer. Returns them in the order of their creation. */
export const deleteMembersOf = async (tx: Tx, { organization_id, id }: Locked<CustomerRow>, now: Date): Promise<MemberRow[]> => {
  const { rows } = await sql<MemberRow>`
    with held as materialized (
      select id from members where organization_id = ${organization_id} and customer_id = ${id} and deleted_at is null order by created_at, id for no key update
    ), gone as (
      update members set deleted_at = ${now} from held where members.organization_id = ${organization_id} and members.id = held.id returning ${memberColumns}
    ) select * from gone order by created_at, id`.execute(tx.q)
  return rows
}

/**
 * Applies the new email address of a seat holder to the holder's members at other customers, which pay for the seats.
 * Updates only members with the old address, and only if no other member of that customer has the new one. Excludes
 * members with a pending invitation: the link sent to the old address would otherwise be valid for the new address.
 */
export const moveHeld = async (tx: Tx, { organization_id, id, email }: CustomerRow, before: string, now: Date): Promise<MemberRow[]> => {
  const { rows } = await sql<MemberRow>`
    update members m set email = ${email}, modified_at = ${now}
    where m.organization_id = ${organization_id} and m.deleted_at is null and lower(m.email) = lower(${before}) and m.customer_id <> ${id}
      and m.id in (select s.member_id from seats s where s.organization_id = ${organization_id} and s.holder_customer_id = ${id} and s.status = 'claimed')
      and not exists (select from seats s where s.organization_id = m.organization_id and s.member_id = m.id and s.status = 'pending')
      and not exists (select from members x where x.organization_id = m.organization_id and x.customer_id = m.customer_id and lower(x.email) = lower(${email}) and x.deleted_at is null)
    returning ${sql.join(columns.map((column) => sql.ref(`m.${column}`)))}`.execute(tx.q)
  return rows
}
