import type { PageRequest } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type PortalActor, type TenantScope } from '../../../kernel/actors.ts'
import { listKeys, listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, inScope, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { ownGrant } from '../records/grant-lists.sql.ts'
import { stands } from '../records/grants.sql.ts'

export interface DownloadableTable {
  organization_id: string
  id: string
  created_at: Date
  grant_id: string
  benefit_id: string
  file_id: string
  downloads: number
  last_downloaded_at: Date | null
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    downloadables: DownloadableTable
  }
}

/** Rows per insert. PostgreSQL limits the number of parameters of a statement. */
const atOnce = 5000

/** Inserts downloadables. Keeps existing rows of the same grant and file, with their download counts. */
export const insertDownloadables = async (tx: Tx, rows: readonly DownloadableTable[]): Promise<void> => {
  for (let from = 0; from < rows.length; from += atOnce)
    await tx.q
      .insertInto('downloadables')
      .values(rows.slice(from, from + atOnce))
      .onConflict((twin) => twin.columns(['organization_id', 'grant_id', 'file_id']).doNothing())
      .execute()
}

/** Returns the files of a benefit, in the order that the seller set. */
export const filesOfBenefit = (db: Db, organization_id: string, benefit_id: string): Promise<{ file_id: string; is_archived: boolean }[]> =>
  db.q
    .selectFrom('benefit_files')
    .select(['file_id', 'is_archived'])
    .where('organization_id', '=', organization_id)
    .where('benefit_id', '=', benefit_id)
    .orderBy('position')
    .execute()

/** Returns the files that these grants give access to, in the benefit's order. Files removed from the benefit are excluded. */
export const filesOfGrants = async (db: Db, organization_id: string, grant_ids: readonly string[]): Promise<{ grant_id: string; file_id: string }[]> => {
  const { rows } = await sql<{ grant_id: string; file_id: string }>`
    select d.grant_id, d.file_id from downloadables d
    join benefit_files b on b.organization_id = d.organization_id and b.benefit_id = d.benefit_id and b.file_id = d.file_id
    where d.organization_id = ${organization_id} and d.grant_id = any(${grant_ids}::uuid[]) order by d.grant_id, b.position`.execute(db.q)
  return rows
}

/** Condition that the file is ready, not deleted, and still part of the benefit. */
const there = sql.raw(`
  exists (select from benefit_files b where b.organization_id = downloadables.organization_id and b.benefit_id = downloadables.benefit_id and b.file_id = downloadables.file_id)
  and exists (select from files f where f.organization_id = downloadables.organization_id and f.id = downloadables.file_id and f.deleted_at is null and f.state = 'ready')`)

const list = {
  table: 'downloadables',
  tenant: 'organization_id',
  id: 'id',
  always: sql`${there}`,
  sortable: { created_at: { expression: 'created_at', type: 'timestamptz' } },
} as const satisfies ListSpec<string>

/** Lists the files that a portal user can download now: those of active grants that the user sees in the portal. */
export const listOwnDownloadables = (db: Db, scope: TenantScope, actor: PortalActor, query: PageRequest & { readonly benefit_id: readonly string[] }) => {
  const filters: RawBuilder<unknown>[] = [
    sql`grant_id in (select id from benefit_grants where organization_id = ${actor.organization_id} and granted_at is not null and ${ownGrant(scope, actor)})`,
  ]
  filters.push(...anyOf('benefit_id', query.benefit_id))
  return listRows(db, list, organizationIds(scope), { ...query, sorting: ['-created_at'] }, filters, (found) =>
    db.q.selectFrom('downloadables').selectAll().where('organization_id', '=', inScope(scope)).where('id', '=', oneOf(found)).execute(),
  )
}

export interface Counted {
  readonly service: 'downloadable'
  readonly path: string
  readonly name: string
  readonly mime_type: string
}

/**
 * Counts a download and returns its file, if the download is still allowed. The grant must be in force, its recipient
 * must exist, and the file must be available. The update statement checks these conditions itself, so there is no race
 * with a revocation.
 */
export const countDownload = async (tx: Tx, { organization_id, id }: { organization_id: string; id: string }): Promise<Counted | undefined> => {
  const { rows } = await sql<Counted>`
    update downloadables set downloads = downloads + 1, last_downloaded_at = ${tx.clock.wall()}
    from benefit_grants g, files f
    where downloadables.organization_id = ${organization_id} and downloadables.id = ${id} and ${there}
      and f.organization_id = downloadables.organization_id and f.id = downloadables.file_id
      and g.organization_id = downloadables.organization_id and g.id = downloadables.grant_id
      and ${stands}
    returning f.service, f.path, f.name, f.mime_type`.execute(tx.q)
  return rows[0]
}

const inBenefit = {
  table: 'benefit_files',
  tenant: 'organization_id',
  id: 'file_id',
  sortable: { position: { expression: 'position', type: 'bigint' } },
} as const satisfies ListSpec<string>

/** Lists the ids of a benefit's files, one page at a time, in the order that the seller set. */
export const listBenefitFiles = (db: Db, { organization_id, id }: { organization_id: string; id: string }, query: PageRequest) =>
  listKeys(db, inBenefit, [organization_id], { ...query, sorting: ['position'] }, [sql`benefit_id = ${id}`])

/** Counts for each file of a benefit its downloads and the recipients who downloaded it. Former recipients are included. */
export const countsOf = async (
  db: Db,
  { organization_id, id }: { organization_id: string; id: string },
  file_ids: readonly string[],
): Promise<Map<string, { downloads: number; downloaders: number }>> => {
  const { rows } = await sql<{ file_id: string; downloads: number; downloaders: number }>`
    select d.file_id, sum(d.downloads)::bigint as downloads, count(distinct coalesce(g.member_id, g.holder_customer_id, g.buyer_customer_id)) as downloaders
    from downloadables d join benefit_grants g on g.organization_id = d.organization_id and g.id = d.grant_id
    where d.organization_id = ${organization_id} and d.benefit_id = ${id} and d.file_id = any(${file_ids}::uuid[]) and d.downloads > 0
    group by d.file_id`.execute(db.q)
  return new Map(rows.map(({ file_id, ...counts }) => [file_id, counts]))
}
