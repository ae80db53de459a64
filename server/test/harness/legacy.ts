import type { Database } from './database.ts'

type Owned = Pick<Database, 'owner'>

/**
 * Makes what an organization has look as it did before there were members: nobody of its customers has any, and seats,
 * grants and keys know their holder only.
 */
export const degrade = ({ owner: asOwner }: Owned, organization_id: string) =>
  asOwner(async (owner) => {
    for (const statement of [
      `update seats set member_id = null where organization_id = $1`,
      // A seat of the buyer's own is held by the buyer.
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

/** What the migration may touch. When it made a member, or said that somebody is gone, is not part of what it did. */
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

/** Everything of an organization that the migration may touch, row by row, and the phase that is shown. */
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

/** What was said because of it: the kinds and of whom, however it was said. */
export const saidOf = ({ owner: asOwner }: Owned, organization_id: string): Promise<string[]> =>
  asOwner(async (owner) => {
    const { rows } = await owner.query<{ said: string }>(`select kind || ' ' || resource_id as said from events where organization_id = $1 order by 1`, [
      organization_id,
    ])
    return rows.map(({ said }) => said)
  })
