import { InvalidRequest, ResourceNotFound, type CustomField, type CustomFieldCreate, type CustomFieldUpdate } from '@bursar/contract'
import type { z } from 'zod'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { isUniqueViolation, type Locked, type Tx } from '../../../platform/postgres/postgres.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { changeCustomField, detachCustomField, insertCustomField, lockCustomField } from './custom-fields.sql.ts'

/** Creates a custom field. Its slug is unique in the organization, because it is the key of the buyers' answers. */
export const createCustomField = async (tx: Tx, scope: TenantScope, body: z.output<typeof CustomFieldCreate>): Promise<CustomField> => {
  const organization_id = chooseOrganization(scope, body.organization_id ?? undefined)
  permit(scope, organization_id, 'custom_fields:manage')
  const { type, slug, name, properties } = body
  return unique(slug, () =>
    insertCustomField(tx, {
      organization_id,
      id: newId(tx.clock.wall()),
      created_at: tx.clock.wall(),
      modified_at: null,
      type,
      slug,
      name,
      properties,
      metadata: body.metadata ?? {},
    }),
  )
}

export const updateCustomField = async (tx: Tx, scope: TenantScope, id: string, body: z.output<typeof CustomFieldUpdate>): Promise<CustomField> => {
  const field = await hold(tx, scope, id)
  if (body.type !== field.type)
    throw new InvalidRequest({
      loc: ['body', 'type'],
      msg: `The type of a field cannot change. This one is ${field.type}.`,
      type: 'value_error',
      input: body.type,
    })
  return unique(body.slug ?? field.slug, () =>
    changeCustomField(tx, field, {
      modified_at: tx.clock.wall(),
      ...(body.slug ? { slug: body.slug } : {}),
      ...(body.name ? { name: body.name } : {}),
      ...(body.properties ? { properties: body.properties } : {}),
      ...(body.metadata === undefined ? {} : { metadata: body.metadata }),
    }),
  )
}

/** Deletes a custom field. New checkouts no longer show the field. Existing answers stay. */
export const deleteCustomField = async (tx: Tx, scope: TenantScope, id: string): Promise<void> => {
  const field = await hold(tx, scope, id)
  await detachCustomField(tx, field)
  await changeCustomField(tx, field, { deleted_at: tx.clock.wall() })
}

const hold = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<CustomField>> => {
  const field = await lockCustomField(tx, scope, id)
  if (!field) throw new ResourceNotFound()
  permit(scope, field.organization_id, 'custom_fields:manage')
  return field
}

const unique = async <T>(slug: string, write: () => Promise<T>): Promise<T> => {
  try {
    return await write()
  } catch (error) {
    if (!isUniqueViolation(error, 'custom_fields_slug')) throw error
    throw new InvalidRequest({ loc: ['body', 'slug'], msg: 'A field with this slug already exists.', type: 'value_error', input: slug })
  }
}
