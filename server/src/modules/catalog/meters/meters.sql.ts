import type { Meter, PageRequest } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { listRows, sidesOf, type Key, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { containing, json, metadataHas, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    meters: Meter
  }
}

const list = {
  table: 'meters',
  tenant: 'organization_id',
  id: 'id',
  sortable: { created_at: { expression: 'created_at', type: 'timestamptz' }, name: { expression: 'name', type: 'text' } },
} satisfies ListSpec<string>

const within = (db: Db, reach: Reach) => db.q.selectFrom('meters').selectAll().where('organization_id', '=', withinReach(reach))

export interface MeterFilters {
  readonly organization_id: readonly string[]
  readonly query?: string | undefined
  readonly is_archived?: boolean | undefined
  readonly metadata?: Record<string, string[]> | undefined
}

export const listMeters = (db: Db, reach: Reach, query: MeterFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters: RawBuilder<unknown>[] = []
  if (query.query) filters.push(sql`name ilike ${containing(query.query)}`)
  if (query.is_archived !== undefined) filters.push(sql`(archived_at is not null) = ${query.is_archived}`)
  filters.push(...metadataHas(query.metadata))
  const ids = organizationIds(reach, query.organization_id)
  return listRows(db, list, ids, query, filters, (found) => within(db, reach).where('id', 'in', found).execute())
}

export const findMeter = (db: Db, reach: Reach, id: string): Promise<Meter | undefined> => within(db, reach).where('id', '=', id).executeTakeFirst()

export const loadMeters = async (db: Db, keys: readonly Key[]): Promise<Meter[]> => {
  if (keys.length === 0) return []
  const { tenants, ids } = sidesOf(keys)
  return db.q.selectFrom('meters').selectAll().where('organization_id', 'in', tenants).where('id', 'in', ids).execute()
}

/** Holds the meter: it is changed by one caller at a time, and no price begins to use it meanwhile. */
export const lockMeter = async (tx: Tx, reach: Reach, id: string): Promise<Locked<Meter> | undefined> =>
  (await within(tx, reach).where('id', '=', id).forUpdate().executeTakeFirst()) as Locked<Meter> | undefined

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

/** Whether a price in sale, or a benefit, counts by this meter. */
export const isCountedBy = async (tx: Tx, { organization_id, id }: Locked<Meter>): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from product_prices r join products p on p.organization_id = r.organization_id and p.id = r.product_id
    where r.organization_id = ${organization_id} and r.meter_id = ${id} and not r.is_archived and not p.is_archived
    union all
    select 1 from benefits where organization_id = ${organization_id} and meter_id = ${id} and deleted_at is null
    limit 1`.execute(tx.q)
  return rows.length > 0
}

/** Those of the ids that are meters in use of the organization. They are held as they are until the transaction ends. */
export const knownMeters = async (tx: Tx, organization_id: string, ids: readonly string[]): Promise<ReadonlySet<string>> => {
  if (ids.length === 0) return new Set()
  const found = await tx.q
    .selectFrom('meters')
    .select('id')
    .where('organization_id', '=', organization_id)
    .where('id', 'in', [...ids])
    .where('archived_at', 'is', null)
    .forShare()
    .execute()
  return new Set(found.map(({ id }) => id))
}
