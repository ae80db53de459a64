import { z } from 'zod'
import { filter, merchant, named, NotPermitted, operation, page, pageQuery, resource, ResourceNotFound, sorting, stamps, text, uuid } from '../kit/index.ts'
import { Metadata, metadataInput } from './metadata.ts'

const int32 = () => z.int().min(-2_147_483_648).max(2_147_483_647)
const length = () => z.int().min(0).max(2_147_483_647)
const form = { form_label: text(1, 500).optional(), form_help_text: text(1, 1000).optional(), form_placeholder: text(1, 500).optional() }
const range = { ge: int32().optional(), le: int32().optional() }

/** The form and validation properties of each field type. */
const properties = {
  text: resource('CustomFieldTextProperties', { ...form, textarea: z.boolean().optional(), min_length: length().optional(), max_length: length().optional() }),
  number: resource('CustomFieldNumberProperties', { ...form, ...range }),
  date: resource('CustomFieldDateProperties', { ...form, ...range }),
  checkbox: resource('CustomFieldCheckboxProperties', form),
  select: resource('CustomFieldSelectProperties', {
    ...form,
    options: z
      .array(resource('CustomFieldSelectOption', { value: text(1, 500), label: text(1, 500) }))
      .min(1)
      .max(500),
  }),
}

export const CustomFieldType = named('CustomFieldType', z.enum(['text', 'number', 'date', 'checkbox', 'select']))
export type CustomFieldType = z.infer<typeof CustomFieldType>

const slug = () =>
  z
    .string()
    .trim()
    .toLowerCase()
    .min(1)
    .max(100)
    .regex(/^[a-z0-9-_]+$/, 'Use lower-case letters, digits, hyphens and underscores.')

const stored = <T extends CustomFieldType>(name: string, type: T) =>
  resource(name, {
    ...stamps,
    id: uuid(),
    metadata: Metadata,
    type: z.literal(type),
    slug: z.string(),
    name: z.string(),
    organization_id: uuid(),
    properties: properties[type],
  })

const creating = <T extends CustomFieldType>(name: string, type: T) =>
  resource(name, {
    metadata: metadataInput().optional(),
    type: z.literal(type),
    slug: slug(),
    name: text(1, 256),
    organization_id: uuid().nullish(),
    properties: properties[type],
  })

const changing = <T extends CustomFieldType>(name: string, type: T) =>
  resource(name, {
    metadata: metadataInput().optional(),
    type: z.literal(type),
    slug: slug().nullish(),
    name: text(1, 256).nullish(),
    properties: properties[type].nullish(),
  })

/** A question that a seller asks at checkout. */
export const CustomField = z.discriminatedUnion('type', [
  stored('CustomFieldText', 'text'),
  stored('CustomFieldNumber', 'number'),
  stored('CustomFieldDate', 'date'),
  stored('CustomFieldCheckbox', 'checkbox'),
  stored('CustomFieldSelect', 'select'),
])
export type CustomField = z.output<typeof CustomField>

/** A buyer's answers, keyed by the slug of the custom field. Dates are stored as text. */
export const CustomFieldData = named('CustomFieldData', z.record(z.string(), z.union([z.string(), z.int(), z.boolean(), z.null()])))
export type CustomFieldData = z.output<typeof CustomFieldData>

/** Custom field answers as request input. The server checks each answer against its custom field. */
export const customFieldDataInput = () =>
  z
    .record(z.string().min(1).max(100), z.union([z.string().max(10_000), int32(), z.boolean(), z.null()]))
    .refine((answers) => Object.keys(answers).length <= 100, 'Give at most 100 answers.')
    .meta({ maxProperties: 100 })

export const CustomFieldCreate = z.discriminatedUnion('type', [
  creating('CustomFieldCreateText', 'text'),
  creating('CustomFieldCreateNumber', 'number'),
  creating('CustomFieldCreateDate', 'date'),
  creating('CustomFieldCreateCheckbox', 'checkbox'),
  creating('CustomFieldCreateSelect', 'select'),
])

export const CustomFieldUpdate = z.discriminatedUnion('type', [
  changing('CustomFieldUpdateText', 'text'),
  changing('CustomFieldUpdateNumber', 'number'),
  changing('CustomFieldUpdateDate', 'date'),
  changing('CustomFieldUpdateCheckbox', 'checkbox'),
  changing('CustomFieldUpdateSelect', 'select'),
])

const read = merchant(['custom_fields:read', 'custom_fields:write'])
const write = merchant('custom_fields:write')
const byId = z.object({ id: uuid() })

export const listCustomFields = operation({
  id: 'custom-fields:list',
  method: 'GET',
  path: '/v1/custom-fields/',
  summary: 'List custom fields',
  access: read,
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    query: z.string().max(256).optional().describe('Part of the name or slug.'),
    type: filter(CustomFieldType),
    ...pageQuery,
    sorting: sorting('CustomFieldSortProperty', ['created_at', 'slug', 'name', 'type'], ['slug']),
  }),
  returns: page('CustomFieldPage', CustomField),
  fails: [],
})

export const createCustomField = operation({
  id: 'custom-fields:create',
  method: 'POST',
  path: '/v1/custom-fields/',
  summary: 'Create a custom field',
  access: write,
  costs: 'none',
  body: CustomFieldCreate,
  returns: CustomField,
  status: 201,
  fails: [NotPermitted],
})

export const getCustomField = operation({
  id: 'custom-fields:get',
  method: 'GET',
  path: '/v1/custom-fields/{id}',
  summary: 'Get a custom field',
  access: read,
  costs: 'none',
  params: byId,
  returns: CustomField,
  fails: [ResourceNotFound],
})

export const updateCustomField = operation({
  id: 'custom-fields:update',
  method: 'PATCH',
  path: '/v1/custom-fields/{id}',
  summary: 'Update a custom field',
  description: 'The type cannot change. Fields that are absent or null stay unchanged.',
  access: write,
  costs: 'none',
  params: byId,
  body: CustomFieldUpdate,
  returns: CustomField,
  fails: [NotPermitted, ResourceNotFound],
})

export const deleteCustomField = operation({
  id: 'custom-fields:delete',
  method: 'DELETE',
  path: '/v1/custom-fields/{id}',
  summary: 'Delete a custom field',
  description: 'The field is removed from every product; existing answers are kept.',
  access: write,
  costs: 'none',
  params: byId,
  fails: [NotPermitted, ResourceNotFound],
})
