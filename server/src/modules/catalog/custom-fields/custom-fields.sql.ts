import type { CustomField, CustomFieldType, Metadata } from '@bursar/contract'
import { sql } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { lockRow } from '../../../platform/postgres/locks.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, containing, json, inScope, oneOf } from '../../../platform/postgres/parts.sql.ts'
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

const live = (db: Db, scope: TenantScope) => db.q.selectFrom('custom_fields').where('organization_id', '=', inScope(scope)).where('deleted_at', 'is', null)

export const listCustomFields = async (
  db: Db,
  scope: TenantScope,
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
  const ids = organizationIds(scope, query.organization_id)
  return listRows(
    db,
    list,
    ids,
    query,
    filters,
    async (found) => (await live(db, scope).select(columns).where('id', '=', oneOf(found)).execute()) as CustomField[],
  )
}

export const findCustomField = async (db: Db, scope: TenantScope, id: string): Promise<CustomField | undefined> =>
  (await live(db, scope).select(columns).where('id', '=', id).executeTakeFirst()) as CustomField | undefined

/** Locks the field. Serializes changes and deletion. */
export const lockCustomField = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<CustomField> | undefined> =>
  await lockRow(live(tx, scope).select(columns).where('id', '=', id).$castTo<CustomField>(), 'update')

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

/** Returns the custom fields with these ids that are not deleted. Locks them in share mode until the transaction ends. */
export const holdCustomFields = async (tx: Tx, organization_id: string, ids: readonly string[]): Promise<CustomField[]> =>
  ids.length === 0
    ? []
    : tx.q
        .selectFrom('custom_fields')
        .select(columns)
        .where('organization_id', '=', organization_id)
        .where('id', '=', oneOf(ids))
        .where('deleted_at', 'is', null)
        .forShare()
        .$castTo<CustomField>()
        .execute()
