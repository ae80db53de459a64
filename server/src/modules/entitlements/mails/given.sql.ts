import { sql } from 'kysely'
import type { ContainerKey } from '../../billing/index.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import type { LicenseKeyRow } from '../records/license-keys.sql.ts'

/** A benefit that the buyer of a purchase has, with its license keys and files. */
export interface GivenRow {
  readonly benefit_id: string
  readonly keys: readonly Pick<LicenseKeyRow, 'id' | 'key_sealed'>[]
  /** `id` is that of the downloadable. */
  readonly files: readonly { readonly id: string; readonly name: string }[]
}

/** Loads the granted benefits of a purchase that the buyer has personally. Those of seat holders are not included. */
export const loadGiven = async (db: Db, { organization_id, subscription_id, order_id }: ContainerKey): Promise<GivenRow[]> =>
  (
    await sql<GivenRow>`
      select g.benefit_id,
        coalesce((select json_agg(json_build_object('id', k.id, 'key_sealed', k.key_sealed) order by k.id) from license_keys k
          where k.organization_id = g.organization_id and k.grant_id = g.id and k.status = 'granted'), '[]') as keys,
        coalesce((select json_agg(json_build_object('id', d.id, 'name', f.name) order by b.position) from downloadables d
          join benefit_files b on b.organization_id = d.organization_id and b.benefit_id = d.benefit_id and b.file_id = d.file_id and not b.is_archived
          join files f on f.organization_id = d.organization_id and f.id = d.file_id
          where d.organization_id = g.organization_id and d.grant_id = g.id), '[]') as files
      from benefit_grants g
      where g.organization_id = ${organization_id} and g.member_id is null and g.holder_customer_id is null and g.is_wanted and g.granted_at is not null
        and ${subscription_id === null ? sql`g.order_id = ${order_id}` : sql`g.subscription_id = ${subscription_id}`}
      order by g.id`.execute(db.q)
  ).rows
