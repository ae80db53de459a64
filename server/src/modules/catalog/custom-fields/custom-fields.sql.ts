import type { CustomField, CustomFieldType, Metadata } from '@bursar/contract'
import { sql } from 'kysely'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, containing, json, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    custom_fields: FieldTable & { deleted_at: Date | null }
  }
}

export interface FieldTable {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  type: CustomFieldType
  slug: string
  name: string
  properties: unknown
  metadata: Metadata
}

const columns = ['organization_id', 'id', 'created_at', 'modified_at', 'type', 'slug', 'name', 'properties', 'metadata'] as const

const list = {
  table: 'custom_fields',
  tenant: 'organization_id',
  id: 'id',
  always: sql`deleted_at is null`,
  sortable: {
    created_at: { expression: 'created_at', type: 'timestamptz' },
    slug: { expression: 'slug', type: 'text' },
    name: { expression: 'name', type: 'text' },
    type: { expression: 'type', type: 'text' },
  },
} satisfies ListSpec<string>

const live = (db: Db, reach: Reach) => db.q.selectFrom('custom_fields').where('organization_id', '=', withinReach(reach)).where('deleted_at', 'is', null)

export const listCustomFields = async (
  db: Db,
  reach: Reach,
  query: {
    organization_id: readonly string[]
    query?: string | undefined
    type: readonly string[]
    page: number
    limit: number
    cursor?: string | undefined
    sorting: readonly string[]
  },
) => {
  const filters = anyOf('type', query.type, 'text')
  if (query.query) {
    const pattern = containing(query.query)
    filters.push(sql`(name ilike ${pattern} or slug ilike ${pattern})`)
  }
  const ids = organizationIds(reach, query.organization_id)
  return listRows(db, list, ids, query, filters, async (found) => (await live(db, reach).select(columns).where('id', 'in', found).execute()) as CustomField[])
}

export const findCustomField = async (db: Db, reach: Reach, id: string): Promise<CustomField | undefined> =>
  (await live(db, reach).select(columns).where('id', '=', id).executeTakeFirst()) as CustomField | undefined

/** Holds the field: it is changed or deleted by one caller at a time. */
export const lockCustomField = async (tx: Tx, reach: Reach, id: string): Promise<Locked<CustomField> | undefined> =>
  (await live(tx, reach).select(columns).where('id', '=', id).forUpdate().executeTakeFirst()) as Locked<CustomField> | undefined

export const insertCustomField = async (tx: Tx, field: FieldTable): Promise<CustomField> =>
  (await tx.q
    .insertInto('custom_fields')
    .values({ ...field, properties: json(field.properties), metadata: json(field.metadata), deleted_at: null })
    .returning(columns)
    .executeTakeFirstOrThrow()) as CustomField

export const changeCustomField = async (tx: Tx, field: Locked<CustomField>, changes: Partial<FieldTable> & { deleted_at?: Date }): Promise<CustomField> =>
  (await tx.q
    .updateTable('custom_fields')
    .set({
      ...changes,
      ...(changes.properties === undefined ? {} : { properties: json(changes.properties) }),
      ...(changes.metadata === undefined ? {} : { metadata: json(changes.metadata) }),
    })
    .where('organization_id', '=', field.organization_id)
    .where('id', '=', field.id)
    .returning(columns)
    .executeTakeFirstOrThrow()) as CustomField

export const detachCustomField = async (tx: Tx, field: Locked<CustomField>): Promise<void> => {
  await tx.q.deleteFrom('product_custom_fields').where('organization_id', '=', field.organization_id).where('custom_field_id', '=', field.id).execute()
}

/** Those of the ids that are no living field of the organization. The others are held alive until the transaction ends. */
export const unknownFields = async (tx: Tx, organization_id: string, ids: readonly string[]): Promise<string[]> => {
  if (ids.length === 0) return []
  const found = await tx.q
    .selectFrom('custom_fields')
    .select('id')
    .where('organization_id', '=', organization_id)
    .where('id', 'in', [...ids])
    .where('deleted_at', 'is', null)
    .forShare()
    .execute()
  return ids.filter((id) => !found.some((field) => field.id === id))
}
