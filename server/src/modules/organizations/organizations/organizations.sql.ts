import type { Organization, OrganizationRole, OrganizationStatus, PageRequest } from '@bursar/contract'
import { sql, type Selectable } from 'kysely'
import { organizationIds, type MemberPhase, type Reach } from '../../../kernel/actors.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { json, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

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

/** Columns carry the wire's names; what the wire derives is not stored. */
export interface OrganizationTable extends Stored {
  feature_settings: Omit<NonNullable<Organization['feature_settings']>, 'member_model_enabled'>
  member_phase: MemberPhase
  status: OrganizationStatus
  status_changed_at: Date
  details: unknown
  legal_entity: unknown
  deleted_at: Date | null
}
export type OrganizationRow = Selectable<OrganizationTable>

/** What a caller can see: within reach, alive, and with its doors open. */
const visible = (db: Db, reach: Reach) => db.q.selectFrom('organizations').where('id', '=', withinReach(reach)).where('deleted_at', 'is', null)

export const findOrganization = (db: Db, reach: Reach, id: string): Promise<OrganizationRow | undefined> =>
  visible(db, reach).selectAll().where('id', '=', id).executeTakeFirst()

/** Holds the organization's row until the transaction ends: its settings cannot change under the rule. */
export const lockOrganization = async (tx: Tx, reach: Reach, id: string): Promise<Locked<OrganizationRow> | undefined> =>
  (await visible(tx, reach).selectAll().where('id', '=', id).forNoKeyUpdate().executeTakeFirst()) as Locked<OrganizationRow> | undefined

/** A living organization by its id or its slug, outside all reach: for the operator's commands, and for sellers as the public meets them. */
export const findLiving = (db: Db, by: { readonly id: string } | { readonly slug: string }): Promise<OrganizationRow | undefined> => {
  const living = db.q.selectFrom('organizations').selectAll().where('deleted_at', 'is', null)
  return ('id' in by ? living.where('id', '=', by.id) : living.where('slug', '=', by.slug)).executeTakeFirst()
}

/**
 * The phase of an organization, held as it is until the transaction ends: whoever writes seats or grants goes by it, and
 * whoever changes it waits for them.
 */
export const holdPhase = async (tx: Tx, organization_id: string): Promise<MemberPhase> => {
  await sql`select pg_advisory_xact_lock_shared(hashtextextended('member phase ' || ${organization_id}, 0))`.execute(tx.q)
  const { member_phase } = await tx.q.selectFrom('organizations').select('member_phase').where('id', '=', organization_id).executeTakeFirstOrThrow()
  return member_phase
}

const list = {
  table: 'organizations',
  tenant: 'id',
  id: 'id',
  always: sql`deleted_at is null`,
  sortable: {
    created_at: { expression: 'created_at', type: 'timestamptz' },
    slug: { expression: 'slug', type: 'text' },
    name: { expression: 'name', type: 'text' },
    // There are no review thresholds here: every organization stands at the same one, and the tie-break decides.
    next_review_threshold: { expression: '0::bigint', type: 'bigint' },
    // More days in a status means an earlier change.
    days_in_status: { expression: '-(extract(epoch from status_changed_at) * 1000)::bigint', type: 'bigint' },
  },
} satisfies ListSpec<string>

export const listOrganizations = async (db: Db, reach: Reach, query: PageRequest & { slug?: string | undefined; sorting: readonly string[] }) => {
  return listRows(db, list, organizationIds(reach), query, query.slug === undefined ? [] : [sql`slug = ${query.slug}`], (found) =>
    visible(db, reach).selectAll().where('id', 'in', found).execute(),
  )
}

/** JSON columns are written as text: the driver would turn an array into a PostgreSQL array. */
const written = <T extends Partial<OrganizationTable>>(row: T) =>
  Object.fromEntries(
    Object.entries(row).map(([column, value]) => [column, typeof value === 'object' && value !== null && !(value instanceof Date) ? json(value) : value]),
  ) as T

export const insertOrganization = (tx: Tx, row: OrganizationTable): Promise<OrganizationRow> =>
  tx.q.insertInto('organizations').values(written(row)).returningAll().executeTakeFirstOrThrow()

export const changeOrganization = (tx: Tx, row: Locked<OrganizationRow>, changes: Partial<OrganizationTable>): Promise<OrganizationRow> =>
  tx.q.updateTable('organizations').set(written(changes)).where('id', '=', row.id).returningAll().executeTakeFirstOrThrow()

/** False when the person belongs already. */
export const insertMembership = async (tx: Tx, organization_id: string, user_id: string, role: OrganizationRole, now: Date): Promise<boolean> => {
  const done = await tx.q
    .insertInto('organization_members')
    .values({ organization_id, user_id, role, created_at: now, modified_at: null })
    .onConflict((twin) => twin.columns(['organization_id', 'user_id']).doNothing())
    .executeTakeFirst()
  return done.numInsertedOrUpdatedRows === 1n
}
