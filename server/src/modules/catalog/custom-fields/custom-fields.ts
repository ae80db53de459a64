import { InvalidRequest, ResourceNotFound, type CustomField, type CustomFieldCreate, type CustomFieldUpdate } from '@bursar/contract'
import type { z } from 'zod'
import type { Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { isTwin, type Locked, type Tx } from '../../../platform/postgres/postgres.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { changeCustomField, detachCustomField, insertCustomField, lockCustomField } from './custom-fields.sql.ts'

/** A slug names one living field of an organization: answers are kept under it. */
export const create = async (tx: Tx, reach: Reach, body: z.output<typeof CustomFieldCreate>): Promise<CustomField> => {
  const organization_id = chooseOrganization(reach, body.organization_id ?? undefined)
  permit(reach, organization_id, 'custom_fields:manage')
  const { type, slug, name, properties } = body
  return unique(slug, () =>
    insertCustomField(tx, {
      organization_id,
      id: newId(tx.clock.wall()),
      created_at: tx.clock.business(),
      modified_at: null,
      type,
      slug,
      name,
      properties,
      metadata: body.metadata ?? {},
    }),
  )
}

export const update = async (tx: Tx, reach: Reach, id: string, body: z.output<typeof CustomFieldUpdate>): Promise<CustomField> => {
  const field = await hold(tx, reach, id)
  if (body.type !== field.type)
    throw new InvalidRequest({
      loc: ['body', 'type'],
      msg: `The type of a field cannot change: this one is ${field.type}.`,
      type: 'value_error',
      input: body.type,
    })
  return unique(body.slug ?? field.slug, () =>
    changeCustomField(tx, field, {
      modified_at: tx.clock.business(),
      ...(body.slug ? { slug: body.slug } : {}),
      ...(body.name ? { name: body.name } : {}),
      ...(body.properties ? { properties: body.properties } : {}),
      ...(body.metadata === undefined ? {} : { metadata: body.metadata }),
    }),
  )
}

/** A deleted field is asked no more; what was answered under it stays. */
export const remove = async (tx: Tx, reach: Reach, id: string): Promise<void> => {
  const field = await hold(tx, reach, id)
  await detachCustomField(tx, field)
  await changeCustomField(tx, field, { deleted_at: tx.clock.business() })
}

const hold = async (tx: Tx, reach: Reach, id: string): Promise<Locked<CustomField>> => {
  const field = await lockCustomField(tx, reach, id)
  if (!field) throw new ResourceNotFound()
  permit(reach, field.organization_id, 'custom_fields:manage')
  return field
}

const unique = async <T>(slug: string, write: () => Promise<T>): Promise<T> => {
  try {
    return await write()
  } catch (error) {
    if (!isTwin(error, 'custom_fields_slug')) throw error
    throw new InvalidRequest({ loc: ['body', 'slug'], msg: 'There is already a field with this slug.', type: 'value_error', input: slug })
  }
}
