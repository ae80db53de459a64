import type { Benefit, Metadata, PageRequest } from '@bursar/contract'
import { sql } from 'kysely'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { listRows, sidesOf, type Key, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, containing, json, metadataHas, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

export interface BenefitTable {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  deleted_at: Date | null
  type: Benefit['type']
  description: string
  visibility: Benefit['visibility']
  selectable: boolean
  deletable: boolean
  properties: unknown
  meter_id: string | null
  metadata: Metadata
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    benefits: BenefitTable
    product_benefits: { organization_id: string; product_id: string; benefit_id: string; position: number }
  }
}

const list = {
  table: 'benefits',
  tenant: 'organization_id',
  id: 'id',
  always: sql`deleted_at is null`,
  sortable: {
    created_at: { expression: 'created_at', type: 'timestamptz' },
    description: { expression: 'description', type: 'text' },
    type: { expression: 'type', type: 'text' },
    // Nobody can put them into an order of their own yet: it is that of making.
    user_order: { expression: 'created_at', type: 'timestamptz' },
  },
} satisfies ListSpec<string>

const live = (db: Db, reach: Reach) => db.q.selectFrom('benefits').selectAll().where('organization_id', '=', withinReach(reach)).where('deleted_at', 'is', null)

export interface BenefitFilters {
  readonly organization_id: readonly string[]
  readonly type: readonly string[]
  readonly id: readonly string[]
  readonly exclude_id: readonly string[]
  readonly query?: string | undefined
  readonly metadata?: Record<string, string[]> | undefined
}

export const listBenefits = (db: Db, reach: Reach, query: BenefitFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters = [...anyOf('type', query.type, 'text'), ...anyOf('id', query.id)]
  if (query.exclude_id.length > 0) filters.push(sql`id <> all(${query.exclude_id}::uuid[])`)
  if (query.query) filters.push(sql`description ilike ${containing(query.query)}`)
  filters.push(...metadataHas(query.metadata))
  const ids = organizationIds(reach, query.organization_id)
  return listRows(db, list, ids, query, filters, (found) => live(db, reach).where('id', 'in', found).execute())
}

export const findBenefit = (db: Db, reach: Reach, id: string): Promise<BenefitTable | undefined> => live(db, reach).where('id', '=', id).executeTakeFirst()

/** Holds the benefit: it changes by one caller at a time, and no product takes it up meanwhile. */
export const lockBenefit = async (tx: Tx, reach: Reach, id: string): Promise<Locked<BenefitTable> | undefined> =>
  (await live(tx, reach).where('id', '=', id).forUpdate().executeTakeFirst()) as Locked<BenefitTable> | undefined

const stored = <T extends Partial<BenefitTable>>(changes: T) => ({
  ...changes,
  ...(changes.properties === undefined ? {} : { properties: json(changes.properties) }),
  ...(changes.metadata === undefined ? {} : { metadata: json(changes.metadata) }),
})

export const insertBenefit = (tx: Tx, benefit: BenefitTable): Promise<BenefitTable> =>
  tx.q.insertInto('benefits').values(stored(benefit)).returningAll().executeTakeFirstOrThrow()

export const changeBenefit = (tx: Tx, benefit: Locked<BenefitTable>, changes: Partial<BenefitTable>): Promise<BenefitTable> =>
  tx.q
    .updateTable('benefits')
    .set(stored(changes))
    .where('organization_id', '=', benefit.organization_id)
    .where('id', '=', benefit.id)
    .returningAll()
    .executeTakeFirstOrThrow()

export const detachBenefit = async (tx: Tx, benefit: Locked<BenefitTable>): Promise<void> => {
  await tx.q.deleteFrom('product_benefits').where('organization_id', '=', benefit.organization_id).where('benefit_id', '=', benefit.id).execute()
}

/** The living benefits among the ids. They are held as they are until the transaction ends. */
export const holdBenefits = async (tx: Tx, organization_id: string, ids: readonly string[]): Promise<BenefitTable[]> =>
  ids.length === 0
    ? []
    : tx.q
        .selectFrom('benefits')
        .selectAll()
        .where('organization_id', '=', organization_id)
        .where('id', 'in', [...ids])
        .where('deleted_at', 'is', null)
        .forShare()
        .execute()

export const replaceBenefits = async (tx: Tx, product: { organization_id: string; id: string }, benefits: readonly string[]): Promise<void> => {
  const { organization_id, id } = product
  await tx.q.deleteFrom('product_benefits').where('organization_id', '=', organization_id).where('product_id', '=', id).execute()
  if (benefits.length > 0)
    await tx.q
      .insertInto('product_benefits')
      .values(benefits.map((benefit_id, position) => ({ organization_id, product_id: id, benefit_id, position })))
      .execute()
}

/** What a product gives, in its order. It is held as it is until the transaction ends: nothing is given that is deleted meanwhile. */
export const holdBenefitsOf = async (tx: Tx, organization_id: string, product_id: string): Promise<BenefitTable[]> => {
  const { rows } = await sql<BenefitTable>`
    select b.* from product_benefits a join benefits b on b.organization_id = a.organization_id and b.id = a.benefit_id
    where a.organization_id = ${organization_id} and a.product_id = ${product_id} and b.deleted_at is null
    order by a.position for share of b`.execute(tx.q)
  return rows
}

/** Whether a product gives anything at all. */
export const givesBenefits = async (db: Db, organization_id: string, product_id: string): Promise<boolean> =>
  (await db.q
    .selectFrom('product_benefits')
    .select('benefit_id')
    .where('organization_id', '=', organization_id)
    .where('product_id', '=', product_id)
    .limit(1)
    .executeTakeFirst()) !== undefined

/** Benefits as they are, deleted or not: what was given of them outlives them. */
export const loadBenefits = async (db: Db, keys: readonly Key[]): Promise<BenefitTable[]> => {
  if (keys.length === 0) return []
  const { tenants, ids } = sidesOf(keys)
  return db.q.selectFrom('benefits').selectAll().where('organization_id', 'in', tenants).where('id', 'in', ids).execute()
}

/** The benefits of many products, each in the product's order. */
export const benefitsOf = async (db: Db, tenants: readonly string[], products: readonly string[]): Promise<(BenefitTable & { product_id: string })[]> =>
  db.q
    .selectFrom('product_benefits as a')
    .innerJoin('benefits as b', (on) => on.onRef('b.organization_id', '=', 'a.organization_id').onRef('b.id', '=', 'a.benefit_id'))
    .selectAll('b')
    .select('a.product_id')
    .where('a.organization_id', 'in', [...tenants])
    .where('a.product_id', 'in', [...products])
    .where('b.deleted_at', 'is', null)
    .orderBy('a.position')
    .execute()
