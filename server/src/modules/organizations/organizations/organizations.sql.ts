import type { Organization, OrganizationRole, OrganizationStatus, PageRequest } from '@bursar/contract'
import { sql, type Selectable, type RawBuilder } from 'kysely'
import { organizationIds, type MemberPhase, type TenantScope } from '../../../kernel/actors.ts'
import { lockRow } from '../../../platform/postgres/locks.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { json, inScope, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { LogoState } from '../brand.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    organizations: OrganizationTable
    organization_members: { organization_id: string; user_id: string; role: OrganizationRole; created_at: Date; modified_at: Date | null }
  }
}

type Stored = Omit<
  Organization,
  'proration_behavior' | 'allow_customer_updates' | 'embed_hosts_enforced' | 'account_id' | 'payout_account_id' | 'capabilities' | 'feature_settings'
>

/** Columns have the names of the API fields. Derived fields are not stored. */
export interface OrganizationTable extends Stored {
  feature_settings: Omit<NonNullable<Organization['feature_settings']>, 'member_model_enabled'>
  member_phase: MemberPhase
  status: OrganizationStatus
  status_changed_at: Date
  details: unknown
  legal_entity: unknown
  logo: LogoState | null
  /** The sender address of the organization's mails. Null if it is the deployment's. Only the operator sets it. */
  sender_address: string | null
  deleted_at: Date | null
}
export type OrganizationRow = Selectable<OrganizationTable>

/** Selects the organizations that a caller can see: in scope and not deleted. The scope already excludes organizations without API access. */
const visible = (db: Db, scope: TenantScope) => db.q.selectFrom('organizations').where('id', '=', inScope(scope)).where('deleted_at', 'is', null)

export const findOrganization = (db: Db, scope: TenantScope, id: string): Promise<OrganizationRow | undefined> =>
  visible(db, scope).selectAll().where('id', '=', id).executeTakeFirst()

/** Locks the organization until the transaction ends, so that its settings cannot change during a check. */
export const lockOrganization = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<OrganizationRow> | undefined> =>
  await lockRow(visible(tx, scope).selectAll().where('id', '=', id))

/** Finds an organization by id or slug, regardless of the caller's scope. Used by operator commands and for public pages of sellers. */
export const findLivingOrganization = (db: Db, by: { readonly id: string } | { readonly slug: string }): Promise<OrganizationRow | undefined> => {
  const living = db.q.selectFrom('organizations').selectAll().where('deleted_at', 'is', null)
  return ('id' in by ? living.where('id', '=', by.id) : living.where('slug', '=', by.slug)).executeTakeFirst()
}

/** Returns the slugs of organizations in alphabetical order, for the messages of the command line. */
export const listSlugs = async (db: Db, limit: number): Promise<string[]> =>
  (await db.q.selectFrom('organizations').select('slug').where('deleted_at', 'is', null).orderBy('slug').limit(limit).execute()).map(({ slug }) => slug)

/** Returns the organizations in scope that sell seats. */
export const findSeatSellers = async (db: Db, scope: TenantScope): Promise<string[]> =>
  (
    await visible(db, scope)
      .select('id')
      .where(sql<boolean>`(feature_settings ->> 'seat_based_pricing_enabled')::boolean`)
      .execute()
  ).map(({ id }) => id)

/** Returns the sender addresses of all organizations, for the checks of the operator. */
export const listSenders = async (db: Db, most: number): Promise<{ slug: string; sender_address: string }[]> => {
  const { rows } = await sql<{ slug: string; sender_address: string }>`
    select slug, sender_address from organizations where sender_address is not null and deleted_at is null order by slug limit ${most}`.execute(db.q)
  return rows
}

/**
 * Returns the member phase and locks it in share mode until the transaction ends. Transactions that write seats or
 * grants depend on the phase and call this first. A change of the phase waits until they end.
 */
export const holdPhase = async (tx: Tx, organization_id: string): Promise<MemberPhase> => {
  const { rows } = await sql<{ phase: MemberPhase | null }>`select ${heldPhase(sql`${organization_id}::uuid`)} as phase`.execute(tx.q)
  const { phase } = rows[0]!
  if (phase === null) throw new Error('the organization does not exist')
  return phase
}

/**
 * An expression like `holdPhase`, for a statement that finds the organization. The other columns of that statement are
 * read before the lock.
 */
export const heldPhase = (organization_id: RawBuilder<unknown>): RawBuilder<MemberPhase> => sql<MemberPhase>`hold_member_phase(${organization_id})`

const list = {
  table: 'organizations',
  tenant: 'id',
  id: 'id',
  always: sql`deleted_at is null`,
  sortable: {
    created_at: { expression: 'created_at', type: 'timestamptz' },
    slug: { expression: 'slug', type: 'text' },
    name: { expression: 'name', type: 'text' },
    // Bursar has no review thresholds, so all organizations have the same value. The tie-break column decides the order.
    next_review_threshold: { expression: '0::bigint', type: 'bigint' },
    // Sorts by the negative time of the last status change: the earlier the change, the more days in the status.
    days_in_status: { expression: '-(extract(epoch from status_changed_at) * 1000)::bigint', type: 'bigint' },
  },
} satisfies ListSpec<string>

export const listOrganizations = async (db: Db, scope: TenantScope, query: PageRequest & { slug?: string | undefined; sorting: readonly string[] }) => {
  return listRows(db, list, organizationIds(scope), query, query.slug === undefined ? [] : [sql`slug = ${query.slug}`], (found) =>
    visible(db, scope).selectAll().where('id', '=', oneOf(found)).execute(),
  )
}

/** Serializes JSON columns as text, because the driver would turn an array into a PostgreSQL array. */
const written = <T extends Partial<OrganizationTable>>(row: T) =>
  Object.fromEntries(
    Object.entries(row).map(([column, value]) => [column, typeof value === 'object' && value !== null && !(value instanceof Date) ? json(value) : value]),
  ) as T

export const insertOrganization = (tx: Tx, row: OrganizationTable): Promise<OrganizationRow> =>
  tx.q.insertInto('organizations').values(written(row)).returningAll().executeTakeFirstOrThrow()

export const changeOrganization = (tx: Tx, row: Locked<OrganizationRow>, changes: Partial<OrganizationTable>): Promise<OrganizationRow> =>
  tx.q.updateTable('organizations').set(written(changes)).where('id', '=', row.id).returningAll().executeTakeFirstOrThrow()

/** Adds a user to an organization with a role. Returns false if the user already belongs to it. */
export const insertMembership = async (tx: Tx, organization_id: string, user_id: string, role: OrganizationRole, now: Date): Promise<boolean> => {
  const done = await tx.q
    .insertInto('organization_members')
    .values({ organization_id, user_id, role, created_at: now, modified_at: null })
    .onConflict((twin) => twin.columns(['organization_id', 'user_id']).doNothing())
    .executeTakeFirst()
  return done.numInsertedOrUpdatedRows === 1n
}
