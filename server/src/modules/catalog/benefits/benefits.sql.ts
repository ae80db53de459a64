import type { Benefit, Metadata, PageRequest } from '@bursar/contract'
import { sql } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { lockRow } from '../../../platform/postgres/locks.ts'
import { listRows, sidesOf, type Key, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, containing, json, metadataHas, inScope, oneOf } from '../../../platform/postgres/parts.sql.ts'
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
    // A user-defined order is not supported yet, so `user_order` sorts by creation time.
    user_order: { expression: 'created_at', type: 'timestamptz' },
  },
} satisfies ListSpec<string>

const live = (db: Db, scope: TenantScope) =>
  db.q.selectFrom('benefits').selectAll().where('organization_id', '=', inScope(scope)).where('deleted_at', 'is', null)

export interface BenefitFilters {
  readonly organization_id: readonly string[]
  readonly type: readonly string[]
  readonly id: readonly string[]
  readonly exclude_id: readonly string[]
  readonly query?: string | undefined
  readonly metadata?: Record<string, string[]> | undefined
}

export const listBenefits = (db: Db, scope: TenantScope, query: BenefitFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters = [...anyOf('type', query.type, 'text'), ...anyOf('id', query.id)]
  if (query.exclude_id.length > 0) filters.push(sql`id <> all(${query.exclude_id}::uuid[])`)
  if (query.query) filters.push(sql`description ilike ${containing(query.query)}`)
  filters.push(...metadataHas(query.metadata))
  const ids = organizationIds(scope, query.organization_id)
  return listRows(db, list, ids, query, filters, (found) => live(db, scope).where('id', '=', oneOf(found)).execute())
}

export const findBenefit = (db: Db, scope: TenantScope, id: string): Promise<BenefitTable | undefined> =>
  live(db, scope).where('id', '=', id).executeTakeFirst()

/** Locks the benefit. Serializes its changes. Transactions that add the benefit to a product wait for the lock. */
export const lockBenefit = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<BenefitTable> | undefined> =>
  await lockRow(live(tx, scope).where('id', '=', id), 'update')

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

/** Returns the benefits with these ids that are not deleted. Locks them in share mode until the transaction ends. */
export const holdBenefits = async (tx: Tx, organization_id: string, ids: readonly string[]): Promise<BenefitTable[]> =>
  ids.length === 0
    ? []
    : tx.q
        .selectFrom('benefits')
        .selectAll()
        .where('organization_id', '=', organization_id)
        .where('id', '=', oneOf(ids))
        .where('deleted_at', 'is', null)
        .forShare()
        .execute()

export const replaceBenefits = async (tx: Tx, product: { organization_id: string; id: string }, benefits: readonly string[]): Promise<void> => {
  const { organization_id, id } = product
  await tx.q.deleteFrom('product_benefits').where('organization_id', '=', organization_id).where('product_id', '=', id).execute()
  if (benefits.length === 0) return
  await sql`
    insert into product_benefits (organization_id, product_id, benefit_id, position)
    select ${organization_id}, ${id}, l.id, l.place - 1 from unnest(${benefits}::uuid[]) with ordinality l (id, place)`.execute(tx.q)
}

/** Returns the benefits of a product, in the product's order. Locks them in share mode, so that no deleted benefit is granted. */
export const holdBenefitsOf = async (tx: Tx, organization_id: string, product_id: string): Promise<BenefitTable[]> => {
  const { rows } = await sql<BenefitTable>`
    select b.* from product_benefits a join benefits b on b.organization_id = a.organization_id and b.id = a.benefit_id
    where a.organization_id = ${organization_id} and a.product_id = ${product_id} and b.deleted_at is null
    order by a.position for share of b`.execute(tx.q)
  return rows
}

/** Returns true if a product has any benefits. */
export const givesBenefits = async (db: Db, organization_id: string, product_id: string): Promise<boolean> =>
  (await productsWithBenefits(db, organization_id, [product_id])).has(product_id)

/** Returns those of the given products that have any benefits. */
export const productsWithBenefits = async (db: Db, organization_id: string, product_ids: readonly string[]): Promise<Set<string>> => {
  const { rows } = await sql<{ id: string }>`
    select p.id from unnest(${product_ids}::uuid[]) as p (id)
    where exists (select from product_benefits b where b.organization_id = ${organization_id} and b.product_id = p.id)`.execute(db.q)
  return new Set(rows.map(({ id }) => id))
}

/** Loads benefits, including deleted ones, because the grants of a deleted benefit are still shown. */
export const loadBenefits = async (db: Db, keys: readonly Key[]): Promise<BenefitTable[]> => {
  if (keys.length === 0) return []
  const { tenants, ids } = sidesOf(keys)
  return db.q.selectFrom('benefits').selectAll().where('organization_id', '=', oneOf(tenants)).where('id', '=', oneOf(ids)).execute()
}
