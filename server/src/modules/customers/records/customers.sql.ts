import type { CustomerType, PageRequest, PaymentMethod } from '@bursar/contract'
import { sql, type Kysely, type RawBuilder } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import type { Clocked } from '../../../platform/clocks.sql.ts'
import { later } from '../../../platform/clock.ts'
import { addState } from '../../../platform/postgres/ending.sql.ts'
import { lockRow, lockRows, writeRow } from '../../../platform/postgres/locks.ts'
import { inOrder, listKeys, listRecords, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { containing, isOneOf, json, metadataHas, inScope, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { BusinessTx, Db, Locked, Tables, Tx } from '../../../platform/postgres/postgres.ts'
import { movedFrom } from './moved.sql.ts'
import { type CustomerTable, type MethodTable, type CustomerRow, type Marked, enabled, exists, plain, typed } from './customer-rows.sql.ts'
import type { MemberRow } from './member-rows.sql.ts'

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

const living = (db: Db, scope: TenantScope) =>
  db.q
    .selectFrom('customers')
    .select([...plain, typed(scope).as('type')])
    .where('organization_id', '=', inScope(scope))
    .where(exists(scope))

const marked = (db: Db, scope: TenantScope) => living(db, scope).select(['pure_holder as only_holds', 'becomes_team as buys_seats'])

const list = (scope: TenantScope) =>
  ({
    table: 'customers',
    tenant: 'organization_id',
    id: 'id',
    always: exists(scope),
    counted: (tenant) => (scope.phases.get(tenant) === 'phase2' ? ['customers'] : ['customers', 'customers.holders']),
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

export const listCustomers = async (db: Db, scope: TenantScope, query: CustomerFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters: RawBuilder<unknown>[] = []
  if (query.email) filters.push(sql`lower(email) = ${query.email.toLowerCase()}`)
  if (query.query) {
    const pattern = containing(query.query)
    filters.push(sql`(name ilike ${pattern} or email ilike ${pattern} or external_id ilike ${pattern})`)
  }
  // The table of subscriptions belongs to billing. Only this query of the module reads it.
  if (query.active !== undefined)
    filters.push(
      sql`${sql.raw(query.active ? '' : 'not ')}exists (select from subscriptions s where s.organization_id = customers.organization_id and s.customer_id = customers.id and s.status in ('trialing', 'active', 'past_due'))`,
    )
  filters.push(...metadataHas(query.metadata))
  const ids = organizationIds(scope, query.organization_id)
  const columns = sql`${sql.join(plain.map((name) => sql.ref(name)))}, ${typed(scope)} as type, pure_holder as only_holds, becomes_team as buys_seats`
  return listRecords(db, list(scope), ids, query, filters, { alias: 'customers', columns, parse: (row: CustomerRow & Marked) => row })
}

/** Loads customers, including deleted ones, because their purchases are still shown. Their type depends on the member phase. */
export const loadCustomers = async (db: Db, scope: TenantScope, ids: readonly string[]): Promise<CustomerRow[]> =>
  ids.length === 0
    ? []
    : db.q
        .selectFrom('customers')
        .select([...plain, typed(scope).as('type')])
        .where('organization_id', '=', inScope(scope))
        .where('id', '=', oneOf([...new Set(ids)]))
        .execute()

/** Returns the clock of a customer, even if the customer is deleted. Returns the wall clock if `customer_id` is null. */
export const clockOf = async (db: Db, { organization_id, customer_id }: { organization_id: string; customer_id: string | null }): Promise<Clocked> => {
  if (customer_id === null) return { organization_id, clock_id: null }
  const { rows } =
    await sql<Clocked>`select organization_id, clock_id from customers where organization_id = ${organization_id} and id = ${customer_id}`.execute(db.q)
  return rows[0]!
}

/** Returns the ids of existing customers in scope that have one of these values. Used to filter lists. */
export const findCustomerIds = async (
  db: Db,
  scope: TenantScope,
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
  return (await living(db, scope).where(condition).execute()).map(({ id }) => id)
}

/** Identifier of a customer: its id, or the external id that the seller gave it. */
export type Naming = { readonly id: string } | { readonly external_id: string }

const named = (db: Db, scope: TenantScope, naming: Naming) =>
  'id' in naming ? marked(db, scope).where('id', '=', naming.id) : marked(db, scope).where('external_id', '=', naming.external_id)

/** Returns the matching customers in scope. There are two only if two organizations in scope use the same external id. */
export const findCustomers = (db: Db, scope: TenantScope, naming: Naming): Promise<(CustomerRow & Marked)[]> => named(db, scope, naming).limit(2).execute()

/** The member into which phase 2 turned a pure seat holder, and the customer of that member. */
export interface Moved {
  readonly member_id: string
  readonly customer_id: string
}

/** Returns the member that replaces a hidden customer. Phase 2 hides pure seat holders. */
export const findMoved = async (db: Db, scope: TenantScope, naming: Naming): Promise<Moved | undefined> => {
  const organizations = enabled(scope)
  if (organizations.length === 0) return undefined
  // A seat holder that was purged after sealing is found only by its id, because its external id was erased.
  const named =
    'id' in naming
      ? sql`c.id = ${naming.id} and (c.deleted_at is null or c.tombstoned_at is not null)`
      : sql`c.external_id = ${naming.external_id} and c.deleted_at is null`
  const { rows } = await sql<Moved>`
    select held.member_id, held.customer_id from customers c
    cross join lateral (${movedFrom('c')}) held
    where ${isOneOf('c.organization_id', organizations)} and c.pure_holder and ${named} order by c.organization_id limit 1`.execute(db.q)
  return rows[0]
}

/** Locks the matching customers. Serializes changes of their members, address and type. */
export const lockCustomers = async (tx: Tx, scope: TenantScope, naming: Naming): Promise<Locked<CustomerRow & Marked>[]> =>
  await lockRows(named(tx, scope, naming).limit(2))

/** Locks a deleted customer, so that it can be anonymized. */
export const lockDeleted = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<CustomerRow> | undefined> =>
  await lockRow(
    tx.q
      .selectFrom('customers')
      .select([...plain, typed(scope).as('type')])
      .where('organization_id', '=', inScope(scope))
      .where('id', '=', id)
      .where('deleted_at', 'is not', null),
  )

/** Locks the existing customer with this email address. */
export const lockCustomerByEmail = async (tx: Tx, scope: TenantScope, organization_id: string, email: string): Promise<Locked<CustomerRow> | undefined> =>
  await lockRow(
    living(tx, scope)
      .where('organization_id', '=', organization_id)
      .where(sql`lower(email)`, '=', email.toLowerCase()),
  )

interface Taken {
  readonly email: boolean
  readonly external_id: boolean
  /** True if a pure seat holder has the email address or the external id. */
  readonly holder: boolean
}

/** Returns whether another existing customer of the organization already has the email address or the external id. */
export const findTaken = async (
  tx: Tx,
  scope: TenantScope,
  organization_id: string,
  wanted: { email?: string | null | undefined; external_id?: string | null | undefined },
  besides?: string,
  /** If true, pure seat holders that phase 2 hides count too. Otherwise two customers could have the same value after the migration is undone. */
  { hidden = false } = {},
): Promise<Taken> => {
  if (!wanted.email && !wanted.external_id) return { email: false, external_id: false, holder: false }
  const other = sql`organization_id = ${organization_id} ${besides === undefined ? sql`` : sql`and id <> ${besides}`}`
  const counts = hidden ? sql`deleted_at is null` : exists(scope)
  const same = {
    email: sql`lower(email) = ${wanted.email ? wanted.email.toLowerCase() : null}::text`,
    external_id: sql`external_id = ${wanted.external_id || null}::text`,
  }
  const { rows } = await sql<Taken>`
    select exists (select from customers where ${other} and ${counts} and ${same.email}) as email,
      exists (select from customers where ${other} and ${counts} and ${same.external_id}) as external_id,
      exists (select from customers where ${other} and deleted_at is null and pure_holder and (${same.email} or ${same.external_id})) as holder`.execute(tx.q)
  return rows[0]!
}

const written = <T extends Partial<CustomerTable>>(row: T) => ({
  ...row,
  ...(row.metadata === undefined ? {} : { metadata: json(row.metadata) }),
  ...(row.billing_address ? { billing_address: json(row.billing_address) } : {}),
})

/** Inserts a customer with its owner, and marks its state as changed. */
export const insertCustomer = async (tx: Tx, customer: CustomerRow, owner: MemberRow, { pure_holder = false } = {}): Promise<void> => {
  await tx.q
    .with('owner', (q) => q.insertInto('members').values({ ...owner, deleted_at: null }))
    .with('touched', (q) => touched(q, tx, customer))
    .insertInto('customers')
    .values({ ...written(customer), pure_holder, becomes_team: false })
    .execute()
}

/**
 * Turns the row of a hidden seat holder into the new customer, and returns its id. Phase 2 hides pure seat holders until
 * the migration is undone. Reusing the row ensures that email addresses and external ids stay unique in every phase.
 * Locks the row. Returns undefined if there is no such holder.
 */
export const reviveHolder = async (tx: BusinessTx, scope: TenantScope, customer: CustomerRow): Promise<string | undefined> => {
  if (scope.phases.get(customer.organization_id) !== 'phase2') return undefined
  const one = sql`organization_id = ${customer.organization_id} and deleted_at is null and pure_holder`
  const { rows } = await sql<{ id: string }>`
    select id from customers where ${one} and (lower(email) = lower(${customer.email}) or external_id = ${customer.external_id})
    order by lower(email) is not distinct from lower(${customer.email}) desc, id for no key update`.execute(tx.q)
  const [holder, ...others] = rows.map(({ id }) => id)
  if (holder === undefined) return undefined
  // The new customer takes the external id, so it is removed from other hidden holders.
  if (others.length > 0 && customer.external_id !== null)
    await sql`update customers set external_id = null where ${one} and id = any(${others}::uuid[]) and external_id = ${customer.external_id}`.execute(tx.q)
  // Deletes the owner member of the hidden holder. Emits no event, because phase 2 did not show that member.
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

/** Serializes create requests for the same email address. An advisory lock is needed: the unique key ignores pure seat holders. */
export const holdAddress = async (tx: Tx, organization_id: string, email: string): Promise<void> => {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`customer address ${organization_id} ${email.toLowerCase()}`}, 0))`.execute(tx.q)
}

/**
 * Marks a customer as a buyer: it is no longer a pure seat holder. If it bought seats, it is marked as a team for phase 2.
 * The customer stays a pure holder if another customer already has its email address or external id. `shows` is true if
 * the type shown in the organization's phase changes. `returned` is true if phase 2 had reported the customer as deleted,
 * and the customer exists again.
 */
export const markBuyer = async (
  tx: Tx,
  scope: TenantScope,
  customer: CustomerRow,
  { seats }: { seats: boolean },
): Promise<{ readonly shows: boolean; readonly returned: boolean }> => {
  // Before phase 2, lock the row even if the update changes nothing. A concurrent check for pure seat holders then waits.
  const held = scope.phases.get(customer.organization_id) === 'phase2' ? sql`` : sql`for no key update`
  const { rows: before } = await sql<{ gone: boolean }>`
    select pure_holder and tombstoned_at is not null as gone from customers
    where organization_id = ${customer.organization_id} and id = ${customer.id} ${held}`.execute(tx.q)
  const { rows } = await sql<{ type: CustomerType; pure_holder: boolean }>`
    update customers set becomes_team = becomes_team or ${seats}, tombstoned_at = null, pure_holder = pure_holder and exists (
      select from customers twin where twin.organization_id = customers.organization_id and twin.id <> customers.id and twin.deleted_at is null
        and not twin.pure_holder and (lower(twin.email) = lower(customers.email) or twin.external_id = customers.external_id))
    where organization_id = ${customer.organization_id} and id = ${customer.id} and (pure_holder or (${seats} and not becomes_team))
    returning ${typed(scope)} as type, pure_holder`.execute(tx.q)
  const [changed] = rows
  return { shows: changed !== undefined && changed.type !== customer.type, returned: before[0]?.gone === true && changed?.pure_holder === false }
}

/** Delay in milliseconds before the changed state of a customer is emitted. Further changes in that time cause no extra event. */
const gathering = 1000

/** Key of the customer whose state changed. */
export interface StateKey {
  readonly organization_id: string
  readonly customer_id: string
}

/** Marks the state of a customer as changed. A worker emits one event for all changes within the delay. */
export const touchState = (tx: Tx, key: StateKey): Promise<void> => touchStates(tx, [key])

/** Marks the states of several customers. The rows are written at the end of the transaction. */
export const touchStates = async (tx: Tx, keys: readonly StateKey[]): Promise<void> => {
  const due_at = later(tx.clock.wall(), gathering)
  for (const { organization_id, customer_id: id } of keys) await addState(tx, { organization_id, id, due_at })
}

/** Statement that marks the state of one customer as changed, as a part of another statement. */
const touched = (q: Pick<Kysely<Tables>, 'insertInto'>, tx: Tx, { organization_id, id }: Pick<CustomerRow, 'organization_id' | 'id'>) =>
  q
    .insertInto('customer_states')
    .values({ organization_id, id, due_at: later(tx.clock.wall(), gathering) })
    .onConflict((twin) => twin.columns(['organization_id', 'id']).doUpdateSet({ due_at: sql`coalesce(customer_states.due_at, excluded.due_at)` }))

/** Updates a customer, and marks its state as changed. */
export const updateCustomerRow = async (
  tx: Tx,
  scope: TenantScope,
  customer: Locked<CustomerRow>,
  changes: Partial<CustomerRow>,
): Promise<Locked<CustomerRow>> =>
  await writeRow(
    tx.q
      .with('touched', (q) => touched(q, tx, customer))
      .updateTable('customers')
      // A team is never a pure seat holder.
      .set({ ...written(changes), ...(changes.type === 'team' ? { pure_holder: false, tombstoned_at: null } : {}) })
      .where('customers.organization_id', '=', customer.organization_id)
      .where('customers.id', '=', customer.id)
      .returning([...plain.map((column) => `customers.${column}` as const), typed(scope).as('type')]),
  )

/** Records that a customer was anonymized. Does not change its state. */
export const markForgotten = async (tx: Tx, scope: TenantScope, customer: Locked<CustomerRow>): Promise<Locked<CustomerRow>> =>
  await writeRow(
    tx.q
      .updateTable('customers')
      .set({ forgotten_at: tx.clock.wall() })
      .where('organization_id', '=', customer.organization_id)
      .where('id', '=', customer.id)
      .returning([...plain, typed(scope).as('type')]),
  )

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
