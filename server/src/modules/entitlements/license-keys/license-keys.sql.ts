import type { LicenseKeyStatus, Metadata, PageRequest } from '@bursar/contract'
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { narrowed, organizationIds, type PortalActor, type Reach } from '../../../kernel/actors.ts'
import { listRows, type Filter, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, json, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { ofCustomers } from '../../customers/index.ts'
import { ofMembers, ownGrant, stands, type GrantRow } from '../grants/grants.sql.ts'

/** What a benefit says of its keys, unless the seller said otherwise of one. */
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
  /** Null: whose it was is forgotten. */
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

const selected = (db: Db, reach: Reach) => db.q.selectFrom('license_keys').selectAll().where('organization_id', '=', withinReach(reach))

export const listKeys = async (db: Db, reach: Reach, query: KeyFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters: Filter[] = [...anyOf('benefit_id', query.benefit_id), ...anyOf('status', query.status, 'text')]
  const { customer_id = [], member_id = [] } = query
  if (customer_id.length > 0) filters.push((tenant) => ofCustomers(narrowed(reach, tenant), customer_id, 'license_keys'))
  if (member_id.length > 0) filters.push(await ofMembers(db, reach, member_id, 'license_keys'))
  return listRows(db, list, organizationIds(reach, query.organization_id), query, filters, (found) => selected(db, reach).where('id', 'in', found).execute())
}

/** Those that whoever stands in the portal has: as their grants say it. By the key's own columns first, which have indexes. */
const own = (reach: Reach, actor: PortalActor): RawBuilder<boolean> => {
  const theirs = sql`(license_keys.member_id = ${actor.member_id} or ${ofCustomers(reach, [actor.customer_id], 'license_keys')})`
  return sql<boolean>`(${theirs} and exists (
    select from benefit_grants where benefit_grants.organization_id = license_keys.organization_id and benefit_grants.id = license_keys.grant_id and ${ownGrant(reach, actor)}))`
}

export const listOwnKeys = (db: Db, reach: Reach, actor: PortalActor, query: { benefit_id?: readonly string[] } & PageRequest) =>
  listRows(db, list, organizationIds(reach), { ...query, sorting: ['-created_at'] }, [own(reach, actor), ...anyOf('benefit_id', query.benefit_id)], (found) =>
    selected(db, reach).where('id', 'in', found).execute(),
  )

export const findKey = (db: Db, reach: Reach, id: string): Promise<LicenseKeyRow | undefined> => selected(db, reach).where('id', '=', id).executeTakeFirst()

export const findOwnKey = (db: Db, reach: Reach, actor: PortalActor, id: string): Promise<LicenseKeyRow | undefined> =>
  selected(db, reach).where('id', '=', id).where(own(reach, actor)).executeTakeFirst()

/** Holds the key: it is used, counted and changed by one at a time. Its grant, where that changes too, is held before. */
export const lockKey = async (tx: Tx, { organization_id, id }: Pick<LicenseKeyRow, 'organization_id' | 'id'>): Promise<Locked<LicenseKeyRow>> =>
  (await tx.q
    .selectFrom('license_keys')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirstOrThrow()) as Locked<LicenseKeyRow>

/** The same by what its holder knows: the hashes under which it may be stored. */
export const lockByHash = async (tx: Tx, organization_id: string, hashes: readonly string[]): Promise<Locked<LicenseKeyRow> | undefined> =>
  (await tx.q
    .selectFrom('license_keys')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('hash', 'in', [...hashes])
    .forNoKeyUpdate()
    .executeTakeFirst()) as Locked<LicenseKeyRow> | undefined

/** Holds the keys of these grants. */
export const lockKeysOf = async (tx: Tx, organization_id: string, grants: readonly Pick<GrantRow, 'id'>[]): Promise<Locked<LicenseKeyRow>[]> => {
  const { rows } = await sql<Locked<LicenseKeyRow>>`
    select * from license_keys where organization_id = ${organization_id} and grant_id = any(${grants.map(({ id }) => id)}::uuid[]) order by id for no key update`.execute(
    tx.q,
  )
  return rows
}

const atOnce = 500
/** What its benefit and its grant change about a key. How much it is used is not among it. */
const changing = ['modified_at', 'status', 'limit_activations', 'limit_usage', 'expires_at'] as const

/** Writes keys as they are to be, new ones and those that are held. */
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
  (await tx.q
    .updateTable('license_keys')
    .set(changes)
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()) as Locked<LicenseKeyRow>

/** The keys of these grants count no more. What a seller has disabled stays so. */
export const revokeKeysOf = async (tx: Tx, organization_id: string, grants: readonly Pick<GrantRow, 'id'>[]): Promise<void> => {
  await sql`
    update license_keys set status = 'revoked', modified_at = ${tx.clock.business()}
    where organization_id = ${organization_id} and grant_id = any(${grants.map(({ id }) => id)}::uuid[]) and status = 'granted'`.execute(tx.q)
}

/** What a key was used where, the oldest first. */
export const activationsOf = (db: Db, { organization_id, id }: LicenseKeyRow): Promise<ActivationRow[]> =>
  db.q
    .selectFrom('license_key_activations')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('license_key_id', '=', id)
    .orderBy('created_at')
    .orderBy('id')
    .execute()

export const findActivation = (db: Db, { organization_id, id: license_key_id }: LicenseKeyRow, id: string): Promise<ActivationRow | undefined> =>
  db.q
    .selectFrom('license_key_activations')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .where('license_key_id', '=', license_key_id)
    .executeTakeFirst()

/** How many there are, of a key that is held: nobody adds one meanwhile. */
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

/** What was bought with the key's grant; undefined where it was given by hand. It may be deleted since. */
export const productOf = async (db: Db, { organization_id, subscription_id, order_id }: GrantRow): Promise<string | undefined> => {
  const { rows } = await sql<{ product_id: string | null }>`
    select product_id from subscriptions where organization_id = ${organization_id} and id = ${subscription_id}
    union all select product_id from orders where organization_id = ${organization_id} and id = ${order_id}`.execute(db.q)
  return rows[0]?.product_id ?? undefined
}

/** Whether what the key was given with is there, and everybody through whom it is had. */
export const isHeld = async (db: Db, { organization_id, grant_id }: Pick<LicenseKeyRow, 'organization_id' | 'grant_id'>): Promise<boolean> => {
  const { rows } = await sql`select from benefit_grants g where g.organization_id = ${organization_id} and g.id = ${grant_id} and ${stands}`.execute(db.q)
  return rows.length > 0
}
