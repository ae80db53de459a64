import type { LicenseKeyStatus, Metadata, PageRequest } from '@bursar/contract'
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { narrowed, organizationIds, type PortalActor, type TenantScope } from '../../../kernel/actors.ts'
import type { Clocked } from '../../../platform/clocks.sql.ts'
import { lockRow, writeRow } from '../../../platform/postgres/locks.ts'
import { listRows, type Filter, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, json, inScope } from '../../../platform/postgres/parts.sql.ts'
import type { BusinessTx, Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { rowFromJson, type JsonRow } from '../../../platform/postgres/json-rows.ts'
import { customerFromJson, customerShownOn, ofCustomers, ownerWhere, type CustomerRow } from '../../customers/index.ts'
import type { OrganizationRow } from '../../organizations/index.ts'
import { ofMembers, ownGrant } from './grant-lists.sql.ts'
import { stands, type GrantRow } from './grants.sql.ts'

/** Settings that a benefit defines for its keys. The seller can override them for a single key. */
export type Setting = 'limit_activations' | 'limit_usage' | 'expires_at'

export interface LicenseKeyTable {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  benefit_id: string
  grant_id: string
  buyer_customer_id: string
  holder_customer_id: string | null
  member_id: string | null
  hash: string
  pepper: number
  key_sealed: string
  display_key: string
  status: LicenseKeyStatus
  limit_activations: number | null
  usage: number
  limit_usage: number | null
  validations: number
  last_validated_at: Date | null
  expires_at: Date | null
  overrides: Setting[]
}
export type LicenseKeyRow = Selectable<LicenseKeyTable>

export interface ActivationRow {
  organization_id: string
  id: string
  license_key_id: string
  created_at: Date
  modified_at: Date | null
  /** Null if the customer was anonymized. */
  label: string | null
  meta: Metadata
  conditions: Metadata
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    license_keys: LicenseKeyTable
    license_key_activations: ActivationRow
  }
}

const list = {
  table: 'license_keys',
  counted: 'license_keys',
  tenant: 'organization_id',
  id: 'id',
  sortable: {
    created_at: { expression: 'created_at', type: 'timestamptz' },
    usage: { expression: 'usage', type: 'bigint' },
    validations: { expression: 'validations', type: 'bigint' },
  },
} as const satisfies ListSpec<string>

export interface KeyFilters {
  readonly organization_id?: readonly string[]
  readonly benefit_id?: readonly string[]
  readonly customer_id?: readonly string[]
  readonly member_id?: readonly string[]
  readonly status?: readonly LicenseKeyStatus[]
}

const selected = (db: Db, scope: TenantScope) => db.q.selectFrom('license_keys').selectAll().where('organization_id', '=', inScope(scope))

/** A key with all records needed to present it. */
export interface LoadedKey {
  /** Id of the key. */
  readonly id: string
  readonly key: LicenseKeyRow
  /** Customer that the key is shown with. */
  readonly customer: CustomerRow
  /** Member who has the key: the recipient, or the owner if the key belongs to the customer itself. */
  readonly member_id: string | null
}

interface Related {
  readonly customer: JsonRow<CustomerRow>
  readonly owner_id: string | null
}

const withRelated = <Row extends LicenseKeyRow>(key: Row, { customer, owner_id }: Related) => ({
  id: key.id,
  key,
  customer: customerFromJson(customer),
  member_id: key.member_id ?? owner_id,
})

const activationFromJson = rowFromJson<ActivationRow>({ created_at: true, modified_at: true })

/** Joins for the related records of the keys that `from` returns as `k`. Includes deleted customers, so that old keys can be shown. */
const related = (scope: TenantScope, from: RawBuilder<unknown>) => sql`${from} k
  cross join lateral (${customerShownOn(scope, 'k')}) c
  left join lateral (${ownerWhere('k.organization_id', 'c.id')}) o on k.member_id is null`

const keysWhere = (scope: TenantScope, condition: RawBuilder<unknown>) =>
  related(scope, sql`(select * from license_keys where organization_id = ${inScope(scope)} and ${condition})`)

/** Loads keys with their related records in one statement. */
const loadKeysById = async (db: Db, scope: TenantScope, ids: readonly string[]): Promise<LoadedKey[]> => {
  const { rows } = await sql<LicenseKeyRow & Related>`
    select k.*, to_jsonb(c) as customer, o.id as owner_id from ${keysWhere(scope, sql`id = any(${ids}::uuid[])`)}`.execute(db.q)
  return rows.map(({ customer, owner_id, ...key }) => withRelated(key, { customer, owner_id }))
}

/** Loads the related records of a key. Keeps the given row, which the caller may have changed. */
export const loadKey = async (db: Db, scope: TenantScope, key: LicenseKeyRow): Promise<LoadedKey> => ({
  ...(await loadKeysById(db, scope, [key.id]))[0]!,
  key,
})

export interface KeyWithActivations extends LoadedKey {
  /** Activations of the key, oldest first. */
  readonly activations: readonly ActivationRow[]
}

/** Finds a key with its activations, or with only one of them. */
const findWithActivations = async (
  db: Db,
  scope: TenantScope,
  condition: RawBuilder<unknown>,
  activation_id?: string,
): Promise<KeyWithActivations | undefined> => {
  const only = activation_id === undefined ? sql`` : sql`and a.id = ${activation_id}`
  const { rows } = await sql<LicenseKeyRow & Related & { activations: JsonRow<ActivationRow>[] }>`
    select k.*, to_jsonb(c) as customer, o.id as owner_id, (
      select coalesce(jsonb_agg(to_jsonb(a) order by a.created_at, a.id), '[]') from license_key_activations a
      where a.organization_id = k.organization_id and a.license_key_id = k.id ${only}) as activations
    from ${keysWhere(scope, condition)}`.execute(db.q)
  const [found] = rows
  if (!found) return undefined
  const { customer, owner_id, activations, ...key } = found
  return { ...withRelated(key, { customer, owner_id }), activations: activations.map(activationFromJson) }
}

export const findLoadedKey = (db: Db, scope: TenantScope, id: string, activation_id?: string): Promise<KeyWithActivations | undefined> =>
  findWithActivations(db, scope, sql`id = ${id}`, activation_id)

export const findLoadedOwnKey = (db: Db, scope: TenantScope, actor: PortalActor, id: string): Promise<KeyWithActivations | undefined> =>
  findWithActivations(db, scope, sql`id = ${id} and ${own(scope, actor)}`)

export const listKeys = async (db: Db, scope: TenantScope, query: KeyFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters: Filter[] = [...anyOf('benefit_id', query.benefit_id), ...anyOf('status', query.status, 'text')]
  const { customer_id = [], member_id = [] } = query
  if (customer_id.length > 0) filters.push((tenant) => ofCustomers(narrowed(scope, tenant), customer_id, 'license_keys'))
  if (member_id.length > 0) filters.push(await ofMembers(db, scope, member_id, 'license_keys'))
  return listRows(db, list, organizationIds(scope, query.organization_id), query, filters, (found) => loadKeysById(db, scope, found))
}

/**
 * Condition for the license keys of the grants that a portal user sees. Filters by columns of `license_keys` first,
 * because these are indexed.
 */
const own = (scope: TenantScope, actor: PortalActor): RawBuilder<boolean> => {
  const theirs = sql`(license_keys.member_id = ${actor.member_id} or ${ofCustomers(scope, [actor.customer_id], 'license_keys')})`
  return sql<boolean>`(${theirs} and exists (
    select from benefit_grants where benefit_grants.organization_id = license_keys.organization_id and benefit_grants.id = license_keys.grant_id and ${ownGrant(scope, actor)}))`
}

export const listOwnKeys = (db: Db, scope: TenantScope, actor: PortalActor, query: { benefit_id?: readonly string[] } & PageRequest) =>
  listRows(
    db,
    { ...list, few: true },
    organizationIds(scope),
    { ...query, sorting: ['-created_at'] },
    [own(scope, actor), ...anyOf('benefit_id', query.benefit_id)],
    (found) => loadKeysById(db, scope, found),
  )

export const findKey = (db: Db, scope: TenantScope, id: string): Promise<LicenseKeyRow | undefined> =>
  selected(db, scope).where('id', '=', id).executeTakeFirst()

export const findOwnKey = (db: Db, scope: TenantScope, actor: PortalActor, id: string): Promise<LicenseKeyRow | undefined> =>
  selected(db, scope).where('id', '=', id).where(own(scope, actor)).executeTakeFirst()

/** Locks the key. Serializes validations, activations and updates of the key. Lock the grant before the key if both change. */
export const lockKey = async (tx: Tx, { organization_id, id }: Pick<LicenseKeyRow, 'organization_id' | 'id'>): Promise<Locked<LicenseKeyRow>> =>
  (await lockRow(tx.q.selectFrom('license_keys').selectAll().where('organization_id', '=', organization_id).where('id', '=', id)))!

/** A locked key, and the columns of its seller that decide whether the key may be used. */
export interface PresentedKey {
  readonly key: Locked<LicenseKeyRow>
  readonly seller: Pick<OrganizationRow, 'status' | 'member_phase'>
}

interface SellerColumns {
  readonly seller_status: OrganizationRow['status']
  readonly seller_phase: OrganizationRow['member_phase']
}
const sellerColumns = sql`n.status as seller_status, n.member_phase as seller_phase`
const withSeller = sql`join organizations n on n.id = k.organization_id and n.deleted_at is null`
const hasHash = (organization_id: string, hashes: readonly string[]) => sql`k.organization_id = ${organization_id} and k.hash = any(${hashes}::text[])`

/** Locks the key that has one of these hashes. The caller passes one hash per pepper, because the key may be hashed with an older pepper. */
export const lockByHash = async (tx: Tx, organization_id: string, hashes: readonly string[]): Promise<PresentedKey | undefined> => {
  const { rows } = await sql<Locked<LicenseKeyRow> & SellerColumns>`
    select k.*, ${sellerColumns} from license_keys k ${withSeller} where ${hasHash(organization_id, hashes)} for no key update of k`.execute(tx.q)
  if (!rows[0]) return undefined
  const { seller_status: status, seller_phase: member_phase, ...key } = rows[0]
  return { key, seller: { status, member_phase } }
}

/** Records that decide whether a locked key may be used. */
export interface KeyUse {
  readonly loaded: LoadedKey
  /** Clock of the buyer. */
  readonly clock: Clocked
  /** True if the key's grant is in force. The condition is defined in `stands`. */
  readonly is_held: boolean
  /** The activation that the request names, if the key has it. */
  readonly activation: ActivationRow | undefined
}

interface UseColumns extends Related {
  readonly clock_id: string | null
  readonly is_held: boolean
  readonly activation: JsonRow<ActivationRow> | null
}
const useColumns = (activation_id: string | null) => sql`to_jsonb(c) as customer, o.id as owner_id, buyer.clock_id,
  exists (select from benefit_grants g where g.organization_id = k.organization_id and g.id = k.grant_id and ${stands}) as is_held,
  (select to_jsonb(a) from license_key_activations a
    where a.organization_id = k.organization_id and a.id = ${activation_id} and a.license_key_id = k.id) as activation`
const withBuyer = sql`join customers buyer on buyer.organization_id = k.organization_id and buyer.id = k.buyer_customer_id`

const useOf = (key: Locked<LicenseKeyRow>, { clock_id, is_held, activation, customer, owner_id }: UseColumns): KeyUse => ({
  loaded: withRelated(key, { customer, owner_id }),
  clock: { organization_id: key.organization_id, clock_id },
  is_held,
  activation: activation ? activationFromJson(activation) : undefined,
})

/** Loads the records that decide about a key which this transaction has locked before. */
export const loadUse = async (tx: Tx, scope: TenantScope, key: Locked<LicenseKeyRow>, activation_id: string | null): Promise<KeyUse> => {
  const locked = sql`(select * from license_keys where organization_id = ${key.organization_id} and id = ${key.id})`
  const { rows } = await sql<UseColumns>`select ${useColumns(activation_id)} from ${related(scope, locked)} ${withBuyer}`.execute(tx.q)
  return useOf(key, rows[0]!)
}

/**
 * Locks a key like `lockByHash` and loads its records in the same statement. Returns undefined if there is no such key,
 * or if another transaction has locked it. The caller then uses `lockByHash` and `loadUse`, because records that were
 * read before a wait may be outdated after it. Without a wait, the records are as of the start of this statement, and the
 * columns of the key are as of its lock.
 */
export const lockUse = async (
  tx: Tx,
  scope: TenantScope,
  organization_id: string,
  hashes: readonly string[],
  activation_id: string | null,
): Promise<{ found: PresentedKey; use: KeyUse } | undefined> => {
  const { rows } = await sql<Locked<LicenseKeyRow> & SellerColumns & UseColumns>`
    select k.*, ${sellerColumns}, ${useColumns(activation_id)} from ${related(scope, sql`license_keys`)} ${withSeller} ${withBuyer}
    where ${hasHash(organization_id, hashes)} for no key update of k skip locked`.execute(tx.q)
  if (!rows[0]) return undefined
  const { seller_status: status, seller_phase: member_phase, customer, owner_id, clock_id, is_held, activation, ...key } = rows[0]
  return { found: { key, seller: { status, member_phase } }, use: useOf(key, { customer, owner_id, clock_id, is_held, activation }) }
}

/** Locks the keys of these grants. */
export const lockKeysOf = async (tx: Tx, organization_id: string, grants: readonly Pick<GrantRow, 'id'>[]): Promise<Locked<LicenseKeyRow>[]> => {
  const { rows } = await sql<Locked<LicenseKeyRow>>`
    select * from license_keys where organization_id = ${organization_id} and grant_id = any(${grants.map(({ id }) => id)}::uuid[]) order by id for no key update`.execute(
    tx.q,
  )
  return rows
}

const atOnce = 500
/** Columns that change when the benefit is edited or the grant is given or revoked. The usage counters are excluded. */
const changing = ['modified_at', 'status', 'limit_activations', 'limit_usage', 'expires_at'] as const

/** Inserts new keys and updates existing ones, which must be locked. */
export const saveKeys = async (tx: Tx, rows: readonly LicenseKeyRow[]): Promise<void> => {
  for (let from = 0; from < rows.length; from += atOnce)
    await tx.q
      .insertInto('license_keys')
      .values(rows.slice(from, from + atOnce))
      .onConflict((twin) =>
        twin.columns(['organization_id', 'id']).doUpdateSet((now) => Object.fromEntries(changing.map((column) => [column, now.ref(`excluded.${column}`)]))),
      )
      .execute()
}

export const changeKey = async (tx: Tx, { organization_id, id }: Locked<LicenseKeyRow>, changes: Partial<LicenseKeyRow>): Promise<Locked<LicenseKeyRow>> =>
  await writeRow(tx.q.updateTable('license_keys').set(changes).where('organization_id', '=', organization_id).where('id', '=', id).returningAll())

/**
 * Counts a validation of a locked key at the end of the transaction, and returns the changed key. The audit log does not
 * record these columns.
 */
export const countValidation = (
  tx: Tx,
  key: Locked<LicenseKeyRow>,
  { usage, validations, last_validated_at }: Pick<LicenseKeyRow, 'usage' | 'validations' | 'last_validated_at'>,
): LicenseKeyRow => {
  tx.ending.updates.push(sql`
    update license_keys set usage = ${usage}, validations = ${validations}, last_validated_at = ${last_validated_at}
    where organization_id = ${key.organization_id} and id = ${key.id}`)
  return { ...key, usage, validations, last_validated_at }
}

/** Revokes the keys of these grants. Disabled keys stay disabled. */
export const revokeKeysOf = async (tx: BusinessTx, organization_id: string, grants: readonly Pick<GrantRow, 'id'>[]): Promise<void> => {
  await sql`
    update license_keys set status = 'revoked', modified_at = ${tx.clock.business()}
    where organization_id = ${organization_id} and grant_id = any(${grants.map(({ id }) => id)}::uuid[]) and status = 'granted'`.execute(tx.q)
}

/** Counts the activations of a locked key. The lock prevents concurrent inserts. */
export const countActivations = async (tx: Tx, { organization_id, id }: Locked<LicenseKeyRow>): Promise<number> => {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from license_key_activations where organization_id = ${organization_id} and license_key_id = ${id}`.execute(tx.q)
  return rows[0]!.count
}

export const insertActivation = async (tx: Tx, activation: ActivationRow): Promise<void> => {
  await tx.q
    .insertInto('license_key_activations')
    .values({ ...activation, meta: json(activation.meta), conditions: json(activation.conditions) })
    .execute()
}

export const deleteActivation = async (tx: Tx, { organization_id, id: license_key_id }: Locked<LicenseKeyRow>, id: string): Promise<boolean> => {
  const done = await tx.q
    .deleteFrom('license_key_activations')
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .where('license_key_id', '=', license_key_id)
    .executeTakeFirst()
  return done.numDeletedRows > 0n
}

/** Returns the id of the product whose purchase gave the grant, even if the product is deleted. Undefined for a manual grant. */
export const productOf = async (db: Db, { organization_id, subscription_id, order_id }: GrantRow): Promise<string | undefined> => {
  const { rows } = await sql<{ product_id: string | null }>`
    select product_id from subscriptions where organization_id = ${organization_id} and id = ${subscription_id}
    union all select product_id from orders where organization_id = ${organization_id} and id = ${order_id}`.execute(db.q)
  return rows[0]?.product_id ?? undefined
}
