import { createCustomField, deleteCustomField, getCustomField, listCustomFields, paginate, ResourceNotFound, updateCustomField } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { confine, permit } from '../../organizations/index.ts'
import { findCustomField, listCustomFields as list } from './custom-fields.sql.ts'
import { create, remove, update } from './custom-fields.ts'

export const operations = [
  read(listCustomFields, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await list(db, confine(reach, 'custom_fields:read'), query)
    return paginate(query, items, total, next_cursor)
  }),
  write(createCustomField, (tx, { reach, body }) => create(tx, reach, body)),
  read(getCustomField, async (db, { reach, params }) => {
    const field = await findCustomField(db, reach, params.id)
    if (!field) throw new ResourceNotFound()
    permit(reach, field.organization_id, 'custom_fields:read')
    return field
  }),
  write(updateCustomField, (tx, { reach, params, body }) => update(tx, reach, params.id, body)),
  write(deleteCustomField, (tx, { reach, params }) => remove(tx, reach, params.id)),
]
