import type { MetricDashboard } from '@bursar/contract'
import { sql } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import { lockRow } from '../../../platform/postgres/locks.ts'
import { inScope, isOneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    metric_dashboards: MetricDashboard
  }
}

const inside = (db: Db, scope: TenantScope) => db.q.selectFrom('metric_dashboards').selectAll().where('organization_id', '=', inScope(scope))

/** Returns all dashboards of the organizations, oldest first. */
export const listDashboards = (db: Db, scope: TenantScope, organizations: readonly string[]): Promise<MetricDashboard[]> =>
  inside(db, scope).where(isOneOf('organization_id', organizations)).orderBy('created_at').orderBy('id').execute()

export const findDashboard = (db: Db, scope: TenantScope, id: string): Promise<MetricDashboard | undefined> =>
  inside(db, scope).where('id', '=', id).executeTakeFirst()

/** Locks the dashboard, so that a change and a deletion happen one after the other. */
export const lockDashboard = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<MetricDashboard> | undefined> =>
  await lockRow(inside(tx, scope).where('id', '=', id), 'update')

/**
 * Counts the dashboards of an organization. An advisory lock makes concurrent creations wait for each other, so that together
 * they cannot exceed the limit.
 */
export const countDashboards = async (tx: Tx, organization_id: string): Promise<number> => {
  await sql`select pg_advisory_xact_lock(hashtextextended('metric dashboards ' || ${organization_id}::text, 0))`.execute(tx.q)
  const { rows } = await sql<{ found: number }>`select count(*) as found from metric_dashboards where organization_id = ${organization_id}`.execute(tx.q)
  return rows[0]!.found
}

export const insertDashboard = (tx: Tx, dashboard: MetricDashboard): Promise<MetricDashboard> =>
  tx.q.insertInto('metric_dashboards').values(dashboard).returningAll().executeTakeFirstOrThrow()

export const changeDashboard = (tx: Tx, { organization_id, id }: Locked<MetricDashboard>, changes: Partial<MetricDashboard>): Promise<MetricDashboard> =>
  tx.q
    .updateTable('metric_dashboards')
    .set(changes)
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()

export const removeDashboard = async (tx: Tx, { organization_id, id }: Locked<MetricDashboard>): Promise<void> => {
  await tx.q.deleteFrom('metric_dashboards').where('organization_id', '=', organization_id).where('id', '=', id).execute()
}
