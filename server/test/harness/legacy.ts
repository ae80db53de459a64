import type { Database } from './database.ts'

type Owned = Pick<Database, 'owner'>

/**
 * Rewrites an organization's data to the state before the member migration. Its customers have no members; seats,
 * grants and keys reference only their holder.
 */
export const degrade = ({ owner: asOwner }: Owned, organization_id: string) =>
  asOwner(async (owner) => {
    for (const statement of [
      `update seats set member_id = null where organization_id = $1`,
      // Before the migration, the buyer is the holder of each seat that has no other holder.
      `update seats set holder_customer_id = buyer_customer_id where organization_id = $1 and holder_customer_id is null`,
      `update license_keys set member_id = null where organization_id = $1`,
      `update benefit_grants g set holder_customer_id = s.holder_customer_id from seats s where g.organization_id = $1 and s.organization_id = $1 and s.id = g.seat_id`,
      `update license_keys k set holder_customer_id = g.holder_customer_id from benefit_grants g where k.organization_id = $1 and g.organization_id = $1 and g.id = k.grant_id`,
      `update benefit_grants set member_id = null where organization_id = $1`,
      `delete from customer_sessions where organization_id = $1`,
      `delete from members where organization_id = $1`,
      `update customers set pure_holder = false, becomes_team = false where organization_id = $1`,
    ])
      await owner.query(statement, [organization_id])
  })

/**
 * For each table that the migration may change: the SQL expression of a row for comparisons. It omits when a member was
 * created and when a customer was tombstoned.
 */
const tables = {
  customers: `to_jsonb(t) || jsonb_build_object('tombstoned_at', t.tombstoned_at is not null)`,
  members: `case when t.prepared then to_jsonb(t) - 'created_at' else to_jsonb(t) end`,
  seats: 'to_jsonb(t)',
  benefit_grants: 'to_jsonb(t)',
  license_keys: 'to_jsonb(t)',
  license_key_activations: 'to_jsonb(t)',
  downloadables: 'to_jsonb(t)',
  subscriptions: 'to_jsonb(t)',
  orders: 'to_jsonb(t)',
  member_migration_problems: 'to_jsonb(t)',
}
export type Summary = Record<string, readonly unknown[]>

/** Returns all rows of an organization that the migration may change, and its phase. */
export const summaryOf = ({ owner: asOwner }: Owned, organization_id: string): Promise<Summary> =>
  asOwner(async (owner) => {
    const found: Record<string, readonly unknown[]> = {}
    for (const [table, row] of Object.entries(tables)) {
      const { rows } = await owner.query<{ row: unknown }>(`select ${row} as row from ${table} t where organization_id = $1 order by (${row})::text`, [
        organization_id,
      ])
      found[table] = rows.map((one) => one.row)
    }
    const { rows } = await owner.query('select member_phase from organizations where id = $1', [organization_id])
    return { ...found, organization: rows }
  })

/** Returns the kind and resource id of every event that the organization has emitted, sorted. */
export const saidOf = ({ owner: asOwner }: Owned, organization_id: string): Promise<string[]> =>
  asOwner(async (owner) => {
    const { rows } = await owner.query<{ said: string }>(`select kind || ' ' || resource_id as said from events where organization_id = $1 order by 1`, [
      organization_id,
    ])
    return rows.map(({ said }) => said)
  })
