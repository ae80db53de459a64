import type { Address, CustomerType, Metadata, PageRequest, PaymentMethod, TaxIDFormat } from '@bursar/contract'
import { sql, type Generated, type RawBuilder, type Selectable } from 'kysely'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import type { Clocked } from '../../../platform/clocks.sql.ts'
import { later } from '../../../platform/clock.ts'
import { inOrder, listKeys, listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { containing, isOneOf, json, metadataHas, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    customers: CustomerTable
    payment_methods: MethodTable & { deleted_at: Date | null }
    customer_states: {
      organization_id: string
      id: string
      due_at: Date | null
      clock_id: null
      lease_until: Date | null
      lease_token: string | null
      lease_holder: string | null
    }
  }
}

export interface CustomerTable {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  deleted_at: Date | null
  type: CustomerType
  email: string | null
  email_verified: boolean
  external_id: string | null
  name: string | null
  billing_name: string | null
  billing_address: Address | null
  tax_id: string | null
  tax_id_format: TaxIDFormat | null
  locale: string | null
  metadata: Metadata
  default_payment_method_id: string | null
  first_user_event_at: Date | null
  forgotten_at: Date | null
  /** The sandbox clock that it lives by; null: the one on the wall. */
  clock_id: string | null
  /** Marks of the member migration, read through the lens below, and by the export, which says the same. */
  pure_holder: boolean
  becomes_team: boolean
  /** Since when it is said to be gone. */
  tombstoned_at: Generated<Date | null>
}

interface MethodTable {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  customer_id: string
  processor: PaymentMethod['processor']
  type: string
  method_metadata: unknown
}

/** A customer as its organization's phase shows it. */
export type CustomerRow = Selectable<Omit<CustomerTable, 'pure_holder' | 'becomes_team' | 'tombstoned_at'>>

/** What the migration knows of a customer beside what is shown. It is for our own rules, and leaves with no answer. */
export interface Marked {
  readonly only_holds: boolean
  readonly buys_seats: boolean
}

/** The organizations within reach that live by the member model. */
export const enabled = (reach: Reach): string[] => organizationIds(reach).filter((id) => reach.phases.get(id) === 'phase2')

/** The lens on existence: whoever only held seats is no customer any more once the member model is on. */
export const exists = (reach: Reach, customers = 'customers') => {
  const column = (name: string) => sql.ref(`${customers}.${name}`)
  return sql<boolean>`(${column('deleted_at')} is null and (not ${column('pure_holder')} or ${column('organization_id')} <> all(${enabled(reach)}::uuid[])))`
}

/** Whoever does not exist by that lens. They are few, and have an index of their own. */
export const isHidden = (reach: Reach, customers: string) => {
  const column = (name: string) => sql.ref(`${customers}.${name}`)
  return sql<boolean>`(${column('deleted_at')} is not null or (${column('pure_holder')} and ${column('organization_id')} = any(${enabled(reach)}::uuid[])))`
}

/** The lens on the type: whoever bought seats is a team once the member model is on. */
const typed = (reach: Reach) => sql<CustomerType>`case when becomes_team and organization_id = any(${enabled(reach)}::uuid[]) then 'team' else type end`

const plain = [
  'organization_id',
  'id',
  'created_at',
  'modified_at',
  'deleted_at',
  'email',
  'email_verified',
  'external_id',
  'name',
  'billing_name',
  'billing_address',
  'tax_id',
  'tax_id_format',
  'locale',
  'metadata',
  'default_payment_method_id',
  'first_user_event_at',
  'forgotten_at',
  'clock_id',
] as const

const living = (db: Db, reach: Reach) =>
  db.q
    .selectFrom('customers')
    .select([...plain, typed(reach).as('type')])
    .where('organization_id', '=', withinReach(reach))
    .where(exists(reach))

const marked = (db: Db, reach: Reach) => living(db, reach).select(['pure_holder as only_holds', 'becomes_team as buys_seats'])

const list = (reach: Reach) =>
  ({
    table: 'customers',
    tenant: 'organization_id',
    id: 'id',
    always: exists(reach),
    counted: (tenant) => (reach.phases.get(tenant) === 'phase2' ? ['customers'] : ['customers', 'customers.holders']),
    sortable: {
      created_at: { expression: 'created_at', type: 'timestamptz' },
      email: { expression: `coalesce(email, '')`, type: 'text' },
      name: { expression: `coalesce(name, '')`, type: 'text' },
    },
  }) as const satisfies ListSpec<string>

export interface CustomerFilters {
  readonly organization_id: readonly string[]
  readonly email?: string | undefined
  readonly query?: string | undefined
  readonly active?: boolean | undefined
  readonly metadata?: Record<string, string[]> | undefined
}

export const listCustomers = async (db: Db, reach: Reach, query: CustomerFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters: RawBuilder<unknown>[] = []
  if (query.email) filters.push(sql`lower(email) = ${query.email.toLowerCase()}`)
  if (query.query) {
    const pattern = containing(query.query)
    filters.push(sql`(name ilike ${pattern} or email ilike ${pattern} or external_id ilike ${pattern})`)
  }
  // The one place where this area looks at what its customers have bought.
  if (query.active !== undefined)
    filters.push(
      sql`${sql.raw(query.active ? '' : 'not ')}exists (select from subscriptions s where s.organization_id = customers.organization_id and s.customer_id = customers.id and s.status in ('trialing', 'active', 'past_due'))`,
    )
  filters.push(...metadataHas(query.metadata))
  const ids = organizationIds(reach, query.organization_id)
  return listRows(db, list(reach), ids, query, filters, (found) => marked(db, reach).where('id', 'in', found).execute())
}

/** Customers as they are, deleted or not: what they bought outlives them. Their type is read through the lens all the same. */
export const loadCustomers = async (db: Db, reach: Reach, ids: readonly string[]): Promise<CustomerRow[]> =>
  ids.length === 0
    ? []
    : db.q
        .selectFrom('customers')
        .select([...plain, typed(reach).as('type')])
        .where('organization_id', '=', withinReach(reach))
        .where('id', 'in', [...new Set(ids)])
        .execute()

/** Whose time a customer lives in, living or not; that of the wall where there is no customer yet. */
export const clockOf = async (db: Db, { organization_id, customer_id }: { organization_id: string; customer_id: string | null }): Promise<Clocked> => {
  if (customer_id === null) return { organization_id, clock_id: null }
  const { rows } =
    await sql<Clocked>`select organization_id, clock_id from customers where organization_id = ${organization_id} and id = ${customer_id}`.execute(db.q)
  return rows[0]!
}

/** The living customers in reach that any of these name: for lists that are filtered by them. */
export const findCustomerIds = async (
  db: Db,
  reach: Reach,
  by: { readonly external_id: readonly string[] } | { readonly email: readonly string[] },
): Promise<string[]> => {
  const condition =
    'email' in by
      ? isOneOf(
          sql`lower(email)`,
          by.email.map((email) => email.toLowerCase()),
          'text',
        )
      : isOneOf('external_id', by.external_id, 'text')
  return (await living(db, reach).where(condition).execute()).map(({ id }) => id)
}

/** How a caller names a customer: by our id, or by their own. */
export type Naming = { readonly id: string } | { readonly external_id: string }

const named = (db: Db, reach: Reach, naming: Naming) =>
  'id' in naming ? marked(db, reach).where('id', '=', naming.id) : marked(db, reach).where('external_id', '=', naming.external_id)

/** Every customer in reach that this may mean: more than one only where organizations share an external id. */
export const findCustomers = (db: Db, reach: Reach, naming: Naming): Promise<(CustomerRow & Marked)[]> => named(db, reach, naming).limit(2).execute()

/** What a customer that only held seats has become. */
export interface Moved {
  readonly member_id: string
  readonly customer_id: string
}

/**
 * The member that somebody is now who was a customer only for holding seats, where the member model has hidden them: of
 * their first seat, or without one, of the first thing that they were given. Seats and grants are read here although they
 * are others' to write: who is hidden is decided by the lens above, and whoever asks for them has asked for a customer.
 */
export const findMoved = async (db: Db, reach: Reach, naming: Naming): Promise<Moved | undefined> => {
  const organizations = enabled(reach)
  if (organizations.length === 0) return undefined
  // A tombstone that was purged has no external id any more.
  const named =
    'id' in naming
      ? sql`c.id = ${naming.id} and (c.deleted_at is null or c.tombstoned_at is not null)`
      : sql`c.external_id = ${naming.external_id} and c.deleted_at is null`
  const held = (table: 'seats' | 'benefit_grants', rank: number) => sql`(
    select ${sql.lit(rank)} as rank, h.id, h.member_id, h.buyer_customer_id as customer_id from ${sql.table(table)} h
    join members m on m.organization_id = h.organization_id and m.id = h.member_id and m.deleted_at is null
    where h.organization_id = c.organization_id and h.holder_customer_id = c.id and h.buyer_customer_id <> c.id order by h.id limit 1)`
  const { rows } = await sql<Moved>`
    select held.member_id, held.customer_id from customers c
    cross join lateral (select * from (${held('seats', 1)} union all ${held('benefit_grants', 2)}) either order by rank limit 1) held
    where ${isOneOf('c.organization_id', organizations)} and c.pure_holder and ${named} order by c.organization_id limit 1`.execute(db.q)
  return rows[0]
}

/** The same, held: its members, address and type change by one caller at a time. */
export const lockCustomers = async (tx: Tx, reach: Reach, naming: Naming): Promise<Locked<CustomerRow & Marked>[]> =>
  (await named(tx, reach, naming).limit(2).forNoKeyUpdate().execute()) as Locked<CustomerRow & Marked>[]

/** A customer that was deleted, held: its person can still be forgotten. */
export const lockDeleted = async (tx: Tx, reach: Reach, id: string): Promise<Locked<CustomerRow> | undefined> =>
  (await tx.q
    .selectFrom('customers')
    .select([...plain, typed(reach).as('type')])
    .where('organization_id', '=', withinReach(reach))
    .where('id', '=', id)
    .where('deleted_at', 'is not', null)
    .forNoKeyUpdate()
    .executeTakeFirst()) as Locked<CustomerRow> | undefined

/** The living customer with this address, held. */
export const lockByEmail = async (tx: Tx, reach: Reach, organization_id: string, email: string): Promise<Locked<CustomerRow> | undefined> =>
  (await living(tx, reach)
    .where('organization_id', '=', organization_id)
    .where(sql`lower(email)`, '=', email.toLowerCase())
    .forNoKeyUpdate()
    .executeTakeFirst()) as Locked<CustomerRow> | undefined

/** Which of these are taken by another customer of the organization, in the phase it is in. */
export const findTaken = async (
  tx: Tx,
  reach: Reach,
  organization_id: string,
  wanted: { email?: string | null | undefined; external_id?: string | null | undefined },
  besides?: string,
  /** Also those that are gone until that is undone or sealed: it must not find two. */
  { hidden = false } = {},
): Promise<{ email: boolean; external_id: boolean }> => {
  const one = async (condition: RawBuilder<boolean>) =>
    (await (hidden ? tx.q.selectFrom('customers').select('id').where('deleted_at', 'is', null) : living(tx, reach).clearSelect().select('id'))
      .where('organization_id', '=', organization_id)
      .where(condition)
      .$if(besides !== undefined, (query) => query.where('id', '<>', besides!))
      .limit(1)
      .executeTakeFirst()) !== undefined
  return {
    email: !!wanted.email && (await one(sql<boolean>`lower(email) = ${wanted.email.toLowerCase()}`)),
    external_id: !!wanted.external_id && (await one(sql<boolean>`external_id = ${wanted.external_id}`)),
  }
}

const written = <T extends Partial<CustomerTable>>(row: T) => ({
  ...row,
  ...(row.metadata === undefined ? {} : { metadata: json(row.metadata) }),
  ...(row.billing_address ? { billing_address: json(row.billing_address) } : {}),
})

export const insertCustomer = async (tx: Tx, customer: CustomerRow, { pure_holder = false } = {}): Promise<void> => {
  await tx.q
    .insertInto('customers')
    .values({ ...written(customer), pure_holder, becomes_team: false })
    .execute()
}

/**
 * Whoever only held seats is gone once the member model is on, until that is undone. A new customer of the same address or
 * external id is that one come back, under its id: so there are never two of one address, whichever phase is shown. Held.
 */
export const reviveHolder = async (tx: Tx, reach: Reach, customer: CustomerRow): Promise<string | undefined> => {
  if (reach.phases.get(customer.organization_id) !== 'phase2') return undefined
  const one = sql`organization_id = ${customer.organization_id} and deleted_at is null and pure_holder`
  const { rows } = await sql<{ id: string }>`
    select id from customers where ${one} and (lower(email) = lower(${customer.email}) or external_id = ${customer.external_id})
    order by lower(email) is not distinct from lower(${customer.email}) desc, id for no key update`.execute(tx.q)
  const [holder, ...others] = rows.map(({ id }) => id)
  if (holder === undefined) return undefined
  // The name that its seller has for it is the new one's.
  if (others.length > 0 && customer.external_id !== null)
    await sql`update customers set external_id = null where ${one} and id = any(${others}::uuid[]) and external_id = ${customer.external_id}`.execute(tx.q)
  // Nobody sees who was its owner as a customer of its own.
  await sql`update members set deleted_at = ${tx.clock.business()} where organization_id = ${customer.organization_id} and customer_id = ${holder} and deleted_at is null`.execute(
    tx.q,
  )
  await tx.q
    .updateTable('customers')
    .set({ ...written({ ...customer, id: holder }), pure_holder: false, tombstoned_at: null })
    .where('organization_id', '=', customer.organization_id)
    .where('id', '=', holder)
    .execute()
  return holder
}

/** Whoever makes a customer of an address waits here for whoever does so at this moment: one that only holds seats is beyond the unique key. */
export const holdAddress = async (tx: Tx, organization_id: string, email: string): Promise<void> => {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`customer address ${organization_id} ${email.toLowerCase()}`}, 0))`.execute(tx.q)
}

/**
 * What is different about a customer for having bought something: it is one in its own right, also where it had only held
 * seats, and a team where it bought seats. True where that shows, by the phase that its organization is in. Where another
 * has its address already, it stays what it was: two cannot.
 */
export const markBuyer = async (
  tx: Tx,
  reach: Reach,
  customer: CustomerRow,
  { seats }: { seats: boolean },
): Promise<{ readonly shows: boolean; readonly returned: boolean }> => {
  // Until members are shown it is held in any case: whoever works out at this moment that it only holds seats waits for what it buys.
  const held = reach.phases.get(customer.organization_id) === 'phase2' ? sql`` : sql`for no key update`
  const { rows: before } = await sql<{ gone: boolean }>`
    select pure_holder and tombstoned_at is not null as gone from customers
    where organization_id = ${customer.organization_id} and id = ${customer.id} ${held}`.execute(tx.q)
  const { rows } = await sql<{ type: CustomerType; pure_holder: boolean }>`
    update customers set becomes_team = becomes_team or ${seats}, tombstoned_at = null, pure_holder = pure_holder and exists (
      select from customers twin where twin.organization_id = customers.organization_id and twin.id <> customers.id and twin.deleted_at is null
        and not twin.pure_holder and (lower(twin.email) = lower(customers.email) or twin.external_id = customers.external_id))
    where organization_id = ${customer.organization_id} and id = ${customer.id} and (pure_holder or (${seats} and not becomes_team))
    returning ${typed(reach)} as type, pure_holder`.execute(tx.q)
  const [changed] = rows
  return { shows: changed !== undefined && changed.type !== customer.type, returned: before[0]?.gone === true && changed?.pure_holder === false }
}

/** So long what changes about a customer is gathered before its state is told. */
const gathering = 1000

/** Something that its state tells has changed: it is told soon, once for everything that changes until then. */
export const touchState = async (tx: Tx, { organization_id, customer_id }: { organization_id: string; customer_id: string }): Promise<void> => {
  // Waits for whoever tells it at this moment: what they have not seen is told again.
  await sql`
    insert into customer_states (organization_id, id, due_at) values (${organization_id}, ${customer_id}, ${later(tx.clock.wall(), gathering)})
    on conflict (organization_id, id) do update set due_at = coalesce(customer_states.due_at, excluded.due_at)`.execute(tx.q)
}

export const changeCustomer = async (tx: Tx, reach: Reach, customer: Locked<CustomerRow>, changes: Partial<CustomerRow>): Promise<Locked<CustomerRow>> =>
  (await tx.q
    .updateTable('customers')
    // A team is more than somebody who holds seats.
    .set({ ...written(changes), ...(changes.type === 'team' ? { pure_holder: false, tombstoned_at: null } : {}) })
    .where('organization_id', '=', customer.organization_id)
    .where('id', '=', customer.id)
    .returning([...plain, typed(reach).as('type')])
    .executeTakeFirstOrThrow()) as Locked<CustomerRow>

export const isMethodOf = async (db: Db, customer: CustomerRow, id: string): Promise<boolean> =>
  (await db.q
    .selectFrom('payment_methods')
    .select('id')
    .where('organization_id', '=', customer.organization_id)
    .where('customer_id', '=', customer.id)
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .executeTakeFirst()) !== undefined

const methods = {
  table: 'payment_methods',
  tenant: 'organization_id',
  id: 'id',
  always: sql`deleted_at is null`,
  sortable: { created_at: { expression: 'created_at', type: 'timestamptz' } },
} as const satisfies ListSpec<string>

export const listMethods = async (db: Db, customer: CustomerRow, query: PageRequest) => {
  const filters = [sql`customer_id = ${customer.id}`]
  const { keys, total, next_cursor } = await listKeys(db, methods, [customer.organization_id], { ...query, sorting: ['-created_at'] }, filters)
  const rows =
    keys.length === 0
      ? []
      : await db.q
          .selectFrom('payment_methods')
          .select(['id', 'created_at', 'modified_at', 'processor', 'customer_id', 'type', 'method_metadata'])
          .where('organization_id', '=', customer.organization_id)
          .where(
            'id',
            'in',
            keys.map(({ id }) => id),
          )
          .execute()
  const items = inOrder(keys, rows, ({ id }) => id).map((row) => ({ ...row, is_default: row.id === customer.default_payment_method_id }))
  return { items: items as PaymentMethod[], total, next_cursor }
}
