import { createCustomField, deleteCustomField, getCustomField, listCustomFields, paginate, ResourceNotFound, updateCustomField } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { confine, permit } from '../../organizations/index.ts'
import { findCustomField, listCustomFields as list } from './custom-fields.sql.ts'
import * as customFields from './custom-fields.ts'

export const operations = [
  read(listCustomFields, async (db, { scope, query }) => {
    const { items, total, next_cursor } = await list(db, confine(scope, 'custom_fields:read'), query)
    return paginate(query, items, total, next_cursor)
  }),
  write(createCustomField, (tx, { scope, body }) => customFields.createCustomField(tx, scope, body)),
  read(getCustomField, async (db, { scope, params }) => {
    const field = await findCustomField(db, scope, params.id)
    if (!field) throw new ResourceNotFound()
    permit(scope, field.organization_id, 'custom_fields:read')
    return field
  }),
  write(updateCustomField, (tx, { scope, params, body }) => customFields.updateCustomField(tx, scope, params.id, body)),
  write(deleteCustomField, (tx, { scope, params }) => customFields.deleteCustomField(tx, scope, params.id)),
]
