import type { PageRequest, WebhookEndpoint } from '@bursar/contract'
import { sql, type Selectable } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { lockRow } from '../../../platform/postgres/locks.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { inScope, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    webhook_endpoints: EndpointTable
  }
}

interface EndpointTable extends Omit<WebhookEndpoint, 'secret'> {
  deleted_at: Date | null
  secret_sealed: string
  secret_hint: string
  previous_sealed: string | null
}
export type EndpointRow = Selectable<EndpointTable>

const living = (db: Db, scope: TenantScope) =>
  db.q.selectFrom('webhook_endpoints').selectAll().where('organization_id', '=', inScope(scope)).where('deleted_at', 'is', null)

const list = {
  table: 'webhook_endpoints',
  tenant: 'organization_id',
  id: 'id',
  always: sql`deleted_at is null`,
  sortable: { created_at: { expression: 'created_at', type: 'timestamptz' } },
} as const satisfies ListSpec<string>

export const listEndpoints = async (db: Db, scope: TenantScope, query: PageRequest & { organization_id: readonly string[] }) => {
  const ids = organizationIds(scope, query.organization_id)
  return listRows(db, list, ids, { ...query, sorting: ['-created_at'] }, [], (found) => living(db, scope).where('id', '=', oneOf(found)).execute())
}

export const findEndpoint = (db: Db, scope: TenantScope, id: string): Promise<EndpointRow | undefined> =>
  living(db, scope).where('id', '=', id).executeTakeFirst()

/** Locks the endpoint, so that only one transaction at a time changes, pauses or resumes it. */
export const lockEndpoint = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<EndpointRow> | undefined> =>
  await lockRow(living(tx, scope).where('id', '=', id))

/** Locks the endpoint for a background job. The job passes the organization id, because it has no caller scope. */
export const lockEndpointOf = async (tx: Tx, organization_id: string, id: string): Promise<Locked<EndpointRow> | undefined> =>
  await lockRow(
    tx.q.selectFrom('webhook_endpoints').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).where('deleted_at', 'is', null),
  )

/** Counts the endpoints of an organization. Locks the organization, so that two concurrent create requests cannot exceed the limit. */
export const countEndpoints = async (tx: Tx, organization_id: string): Promise<number> => {
  await sql`select from organizations where id = ${organization_id} for no key update`.execute(tx.q)
  const { count } = await tx.q
    .selectFrom('webhook_endpoints')
    .select((row) => row.fn.countAll<number>().as('count'))
    .where('organization_id', '=', organization_id)
    .where('deleted_at', 'is', null)
    .executeTakeFirstOrThrow()
  return count
}

export const insertEndpoint = (tx: Tx, endpoint: EndpointRow): Promise<EndpointRow> =>
  tx.q.insertInto('webhook_endpoints').values(endpoint).returningAll().executeTakeFirstOrThrow()

export const changeEndpoint = (tx: Tx, endpoint: { organization_id: string; id: string }, changes: Partial<EndpointRow>): Promise<EndpointRow> =>
  tx.q
    .updateTable('webhook_endpoints')
    .set(changes)
    .where('organization_id', '=', endpoint.organization_id)
    .where('id', '=', endpoint.id)
    .returningAll()
    .executeTakeFirstOrThrow()

/** Returns the data of the mail about a paused endpoint, for one user. */
export const findPaused = (db: Db, organization_id: string, endpoint_id: string, user_id: string) =>
  db.q
    .selectFrom('webhook_endpoints as w')
    .innerJoin('organizations as o', 'o.id', 'w.organization_id')
    .innerJoin('users as u', (on) => on.on('u.id', '=', user_id).on('u.deleted_at', 'is', null))
    .select(['w.url', 'w.paused_reason', 'w.failing_since', 'o.name as organization_name', 'o.country', 'u.email'])
    .where('w.organization_id', '=', organization_id)
    .where('w.id', '=', endpoint_id)
    .where('w.enabled', '=', false)
    .executeTakeFirst()

export interface Verdict {
  readonly organization_id: string
  readonly endpoint_id: string
  readonly url: string
}

const listed = (verdicts: readonly Verdict[]) =>
  sql`unnest(${verdicts.map((one) => one.organization_id)}::uuid[], ${verdicts.map((one) => one.endpoint_id)}::uuid[], ${verdicts.map((one) => one.url)}::text[]) as v (organization_id, id, url)`

/**
 * Clears `failing_since` of endpoints that accepted a delivery, and sets it for endpoints that accepted none. Returns
 * the endpoints that have been failing for too long.
 */
export const markHealth = async (
  tx: Tx,
  good: readonly Verdict[],
  bad: readonly Verdict[],
  now: Date,
  tooLong: Date,
): Promise<{ organization_id: string; id: string }[]> => {
  if (good.length > 0)
    await sql`
      update webhook_endpoints w set failing_since = null from ${listed(good)}
      where w.organization_id = v.organization_id and w.id = v.id and w.failing_since is not null`.execute(tx.q)
  if (bad.length === 0) return []
  await sql`
    update webhook_endpoints w set failing_since = ${now} from ${listed(bad)}
    where w.organization_id = v.organization_id and w.id = v.id and w.url = v.url and w.failing_since is null and w.enabled`.execute(tx.q)
  const { rows } = await sql<{ organization_id: string; id: string }>`
    select w.organization_id, w.id from webhook_endpoints w join ${listed(bad)} on w.organization_id = v.organization_id and w.id = v.id
    where w.url = v.url and w.enabled and w.failing_since <= ${tooLong}`.execute(tx.q)
  return rows
}
