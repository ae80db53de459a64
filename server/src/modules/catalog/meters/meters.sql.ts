import type { Meter, PageRequest } from '@bursar/contract'
import { sql, type Generated, type RawBuilder, type Selectable } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { lockRow } from '../../../platform/postgres/locks.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { containing, json, metadataHas, inScope, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

/** A meter with its internal columns. */
export interface MeterRow extends Meter {
  /** When usage of the meter was first billed. Set by billing. Null: the filter and the aggregation may change. */
  billed_at: Generated<Date | null>
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    meters: MeterRow
  }
}

const list = {
  table: 'meters',
  tenant: 'organization_id',
  id: 'id',
  sortable: { created_at: { expression: 'created_at', type: 'timestamptz' }, name: { expression: 'name', type: 'text' } },
} satisfies ListSpec<string>

const within = (db: Db, scope: TenantScope) => db.q.selectFrom('meters').selectAll().where('organization_id', '=', inScope(scope))

export interface MeterFilters {
  readonly organization_id: readonly string[]
  readonly query?: string | undefined
  readonly is_archived?: boolean | undefined
  readonly metadata?: Record<string, string[]> | undefined
}

export const listMeters = (db: Db, scope: TenantScope, query: MeterFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters: RawBuilder<unknown>[] = []
  if (query.query) filters.push(sql`name ilike ${containing(query.query)}`)
  if (query.is_archived !== undefined) filters.push(sql`(archived_at is not null) = ${query.is_archived}`)
  filters.push(...metadataHas(query.metadata))
  const ids = organizationIds(scope, query.organization_id)
  return listRows(db, list, ids, query, filters, (found) => within(db, scope).where('id', '=', oneOf(found)).execute())
}

export const findMeter = (db: Db, scope: TenantScope, id: string): Promise<Meter | undefined> => within(db, scope).where('id', '=', id).executeTakeFirst()

/** Locks the meter. Serializes its changes. Transactions that create a price with this meter wait for the lock. */
export const lockMeter = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<Selectable<MeterRow>> | undefined> =>
  await lockRow(within(tx, scope).where('id', '=', id), 'update')

const stored = (changes: Partial<Meter>) => ({
  ...changes,
  ...(changes.filter === undefined ? {} : { filter: json(changes.filter) }),
  ...(changes.aggregation === undefined ? {} : { aggregation: json(changes.aggregation) }),
  ...(changes.metadata === undefined ? {} : { metadata: json(changes.metadata) }),
})

export const insertMeter = (tx: Tx, meter: Meter): Promise<Meter> =>
  tx.q
    .insertInto('meters')
    .values(stored(meter) as Meter)
    .returningAll()
    .executeTakeFirstOrThrow()

export const changeMeter = (tx: Tx, meter: Locked<Meter>, changes: Partial<Meter>): Promise<Meter> =>
  tx.q
    .updateTable('meters')
    .set(stored(changes))
    .where('organization_id', '=', meter.organization_id)
    .where('id', '=', meter.id)
    .returningAll()
    .executeTakeFirstOrThrow()

/**
 * Returns the meters of an organization on which events are counted. Keeps other transactions from making or changing meters. Calls two functions
 * of the module of usage: the first takes the lock, and the second then sees every meter that was committed before.
 */
export const findCountingMeters = async (tx: Tx, organization_id: string): Promise<Pick<Meter, 'id' | 'filter'>[]> => {
  const { rows } = await sql<Pick<Meter, 'id' | 'filter'>>`
    select m.id, m.filter from (select counting_meters(${organization_id}) as count offset 0) c
    cross join lateral meters_to_count(case when c.count >= 0 then ${organization_id}::uuid end) m`.execute(tx.q)
  return rows
}

/** Returns true if a price on sale or a benefit uses this meter. */
export const isCountedBy = async (tx: Tx, { organization_id, id }: Locked<Meter>): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from product_prices r join products p on p.organization_id = r.organization_id and p.id = r.product_id
    where r.organization_id = ${organization_id} and r.meter_id = ${id} and not r.is_archived and not p.is_archived
    union all
    select 1 from benefits where organization_id = ${organization_id} and meter_id = ${id} and deleted_at is null
    limit 1`.execute(tx.q)
  return rows.length > 0
}

/** Returns the ids that belong to meters of the organization that are not archived. Locks these meters in share mode. */
export const knownMeters = async (tx: Tx, organization_id: string, ids: readonly string[]): Promise<ReadonlySet<string>> => {
  if (ids.length === 0) return new Set()
  const found = await tx.q
    .selectFrom('meters')
    .select('id')
    .where('organization_id', '=', organization_id)
    .where('id', '=', oneOf(ids))
    .where('archived_at', 'is', null)
    .forShare()
    .execute()
  return new Set(found.map(({ id }) => id))
}
