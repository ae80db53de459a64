import type { MemberRole, PageRequest } from '@bursar/contract'
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { isOneOf, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { findCustomerIds, isHidden, type CustomerRow } from '../customers/customers.sql.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    members: MemberTable & { deleted_at: Date | null }
  }
}

interface MemberTable {
  organization_id: string
  id: string
  customer_id: string
  created_at: Date
  modified_at: Date | null
  email: string
  name: string | null
  external_id: string | null
  role: MemberRole
}
export type MemberRow = Selectable<MemberTable>

const columns = ['organization_id', 'id', 'customer_id', 'created_at', 'modified_at', 'email', 'name', 'external_id', 'role'] as const

const of = (db: Db, { organization_id, id }: CustomerRow) =>
  db.q.selectFrom('members').select(columns).where('organization_id', '=', organization_id).where('customer_id', '=', id).where('deleted_at', 'is', null)

/** Members as they are, gone or not: what they were given outlives them. */
export const loadMembers = async (db: Db, keys: readonly { organization_id: string; id: string }[]): Promise<MemberRow[]> =>
  keys.length === 0
    ? []
    : db.q
        .selectFrom('members')
        .select(columns)
        .where('organization_id', 'in', [...new Set(keys.map(({ organization_id }) => organization_id))])
        .where('id', 'in', [...new Set(keys.map(({ id }) => id))])
        .execute()

export type MemberNaming = { readonly id: string } | { readonly external_id: string }

/** A member of this customer; somebody else's is not found. */
export const findMember = (db: Db, customer: CustomerRow, naming: MemberNaming): Promise<MemberRow | undefined> =>
  ('id' in naming ? of(db, customer).where('id', '=', naming.id) : of(db, customer).where('external_id', '=', naming.external_id)).executeTakeFirst()

/** Whose member this is, wherever in reach; its customer must be there too. */
export const findCustomerOf = (db: Db, reach: Reach, member_id: string): Promise<{ id: string } | undefined> =>
  db.q
    .selectFrom('members')
    .select('customer_id as id')
    .where('organization_id', '=', withinReach(reach))
    .where('id', '=', member_id)
    .where('deleted_at', 'is', null)
    .executeTakeFirst()

export const findMemberByEmail = (db: Db, customer: CustomerRow, email: string): Promise<MemberRow | undefined> =>
  of(db, customer)
    .where(sql`lower(email)`, '=', email.toLowerCase())
    .executeTakeFirst()

export const findOwner = (db: Db, customer: CustomerRow): Promise<MemberRow | undefined> => of(db, customer).where('role', '=', 'owner').executeTakeFirst()

/** The owners of these customers. */
export const loadOwners = async (db: Db, keys: readonly { organization_id: string; id: string }[]): Promise<MemberRow[]> =>
  keys.length === 0
    ? []
    : db.q
        .selectFrom('members')
        .select(columns)
        .where('organization_id', 'in', [...new Set(keys.map(({ organization_id }) => organization_id))])
        .where('customer_id', 'in', [...new Set(keys.map(({ id }) => id))])
        .where('role', '=', 'owner')
        .where('deleted_at', 'is', null)
        .execute()

/** The customers that any of these members own: what is the customer's own is theirs. */
export const ownedBy = async (db: Db, reach: Reach, member_ids: readonly string[]): Promise<string[]> =>
  (
    await db.q
      .selectFrom('members')
      .select('customer_id')
      .where('organization_id', '=', withinReach(reach))
      .where('id', 'in', [...member_ids])
      .where('role', '=', 'owner')
      .where('deleted_at', 'is', null)
      .execute()
  ).map(({ customer_id }) => customer_id)

/** Everyone the customer has. Whoever holds the customer holds them all: members change only under that lock. */
export const allMembers = (db: Db, customer: Locked<CustomerRow>): Promise<MemberRow[]> => of(db, customer).orderBy('created_at').orderBy('id').execute()

const list = (reach: Reach) =>
  ({
    table: 'members',
    tenant: 'organization_id',
    id: 'id',
    always: sql`deleted_at is null and not exists (select from customers c where c.organization_id = members.organization_id and c.id = members.customer_id and ${isHidden(reach, 'c')})`,
    sortable: { created_at: { expression: 'created_at', type: 'timestamptz' } },
  }) as const satisfies ListSpec<string>

export const listMembers = async (
  db: Db,
  reach: Reach,
  query: PageRequest & {
    sorting: readonly string[]
    customer_id?: string | undefined
    external_customer_id?: string | undefined
    role?: MemberRole | undefined
  },
) => {
  const filters: RawBuilder<unknown>[] = []
  if (query.customer_id) filters.push(sql`customer_id = ${query.customer_id}`)
  if (query.external_customer_id) filters.push(isOneOf('customer_id', await findCustomerIds(db, reach, { external_id: [query.external_customer_id] })))
  if (query.role) filters.push(sql`role = ${query.role}`)
  return listRows(db, list(reach), organizationIds(reach), query, filters, (found) =>
    db.q
      .selectFrom('members')
      .select(columns)
      .where('organization_id', '=', withinReach(reach))
      .where('deleted_at', 'is', null)
      .where('id', 'in', found)
      .execute(),
  )
}

export const insertMember = async (tx: Tx, member: MemberRow): Promise<void> => {
  await tx.q
    .insertInto('members')
    .values({ ...member, deleted_at: null })
    .execute()
}

export const changeMember = (tx: Tx, member: MemberRow, changes: Partial<MemberRow> & { deleted_at?: Date }): Promise<MemberRow> =>
  tx.q
    .updateTable('members')
    .set(changes)
    .where('organization_id', '=', member.organization_id)
    .where('id', '=', member.id)
    .returning(columns)
    .executeTakeFirstOrThrow()

/**
 * The members that a seat holder is, of others who pay, get its new address: those that had the one before, where nobody
 * else there has the new one. Not while they are only invited: the link that was sent to the one before would count for the new one.
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
