import { z } from 'zod'
import {
  filter,
  flagInText,
  merchant,
  named,
  NotPermitted,
  operation,
  page,
  pageQuery,
  resource,
  ResourceNotFound,
  sorting,
  stamps,
  text,
  timestamp,
  uuid,
} from '../kit/index.ts'
import { Metadata, metadataFilter, metadataInput } from './metadata.ts'

export const MeterUnit = named('MeterUnit', z.enum(['scalar', 'token', 'custom']))

export const FilterClause = resource('FilterClause', {
  property: z.string().min(1).max(200).describe('`name`, `source`, `timestamp`, or a key of the metadata, with or without `metadata.` before it.'),
  operator: named('FilterOperator', z.enum(['eq', 'ne', 'gt', 'gte', 'lt', 'lte', 'like', 'not_like'])),
  value: z.union([z.string().max(1000), z.int().min(-2_147_483_648).max(2_147_483_647), z.boolean()]),
})
export type FilterClause = z.output<typeof FilterClause>

export interface Filter {
  conjunction: 'and' | 'or'
  clauses: (FilterClause | Filter)[]
}

/** Selects the events that a meter counts. Clauses and nested filters are combined with AND or OR. An empty filter matches every event. */
export const Filter: z.ZodType<Filter, Filter> = z
  .object({
    conjunction: named('FilterConjunction', z.enum(['and', 'or'])),
    get clauses(): z.ZodArray<z.ZodUnion<readonly [typeof FilterClause, z.ZodType<Filter, Filter>]>> {
      return z.array(z.union([FilterClause, Filter])).max(50)
    },
  })
  .meta({ id: 'Filter' })

const depthOf = (one: Filter | FilterClause): number => ('clauses' in one ? 1 + Math.max(0, ...one.clauses.map(depthOf)) : 0)
const sizeOf = (one: Filter | FilterClause): number => ('clauses' in one ? one.clauses.reduce((sum, clause) => sum + sizeOf(clause), 1) : 1)

const leavesOf = (one: Filter | FilterClause): FilterClause[] => ('clauses' in one ? one.clauses.flatMap(leavesOf) : [one])
const lengthOf = (one: Filter): number => leavesOf(one).reduce((sum, { property, value }) => sum + property.length + String(value).length, 0)

const mostNames = 8
const mostCharacters = 20_000

/** True if a property leads through a limited number of objects of the metadata. */
const isShallow = (property: string): boolean => property.replace(/^metadata\./, '').split('.').length <= mostNames

const shallow = `Expected a property with at most ${mostNames} names between its dots, such as \`usage.tokens\`.`

/** A filter as a caller may send it, with a limited size. */
export const filterInput = () =>
  Filter.refine((one) => depthOf(one) <= 5 && sizeOf(one) <= 200, 'Keep a filter to five levels, and to 200 clauses in all.')
    .refine((one) => lengthOf(one) <= mostCharacters, `Keep the properties and values of a filter to ${mostCharacters} characters in all.`)
    .refine((one) => leavesOf(one).every(({ property }) => isShallow(property)), shallow)
    .describe(
      `At most five levels and 200 clauses in all. Properties and values have at most ${mostCharacters} characters together, and each property at most ${mostNames} names between its dots.`,
    )

const property = () => z.string().min(1).max(200)

/** The aggregation over the selected events. */
export const Aggregation = z.discriminatedUnion('func', [
  resource('CountAggregation', { func: z.literal('count') }),
  resource('PropertyAggregation', { func: z.enum(['sum', 'max', 'min', 'avg']), property: property() }),
  resource('UniqueAggregation', { func: z.literal('unique'), property: property() }),
])
export type Aggregation = z.output<typeof Aggregation>

/** An aggregation as a caller may send it. */
export const aggregationInput = () =>
  Aggregation.refine((one) => one.func === 'count' || isShallow(one.property), { message: shallow, path: ['property'] }).describe(
    `A property has at most ${mostNames} names between its dots.`,
  )

export const Meter = resource('Meter', {
  ...stamps,
  id: uuid(),
  name: z.string(),
  unit: MeterUnit,
  custom_label: z.string().nullable(),
  custom_multiplier: z.int().nullable(),
  filter: Filter,
  aggregation: Aggregation,
  organization_id: uuid(),
  archived_at: timestamp().nullable(),
  metadata: Metadata,
})
export type Meter = z.output<typeof Meter>

const label = () => text(1, 100)

export const MeterCreate = resource('MeterCreate', {
  metadata: metadataInput().optional(),
  name: text(3, 256),
  unit: MeterUnit.default('scalar'),
  custom_label: label().nullish().describe('The name of the counted unit, if the unit is `custom`.'),
  custom_multiplier: z.int().min(1).max(2_147_483_647).nullish(),
  filter: filterInput(),
  aggregation: aggregationInput(),
  organization_id: uuid().nullish(),
})

export const MeterUpdate = resource('MeterUpdate', {
  metadata: metadataInput().optional(),
  name: text(3, 256).nullish(),
  unit: MeterUnit.nullish(),
  custom_label: label().nullish(),
  custom_multiplier: z.int().min(1).max(2_147_483_647).nullish(),
  filter: filterInput().nullish(),
  aggregation: aggregationInput().nullish(),
  is_archived: z.boolean().nullish(),
})

const read = merchant(['meters:read', 'meters:write'])
const write = merchant('meters:write')
const byId = z.object({ id: uuid() })

export const listMeters = operation({
  id: 'meters:list',
  method: 'GET',
  path: '/v1/meters/',
  summary: 'List meters',
  access: read,
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    query: z.string().max(256).optional().describe('Part of the name.'),
    is_archived: flagInText().optional(),
    metadata: metadataFilter(),
    ...pageQuery,
    sorting: sorting('MeterSortProperty', ['created_at', 'name'], ['name']),
  }),
  returns: page('MeterPage', Meter),
  fails: [],
})

export const createMeter = operation({
  id: 'meters:create',
  method: 'POST',
  path: '/v1/meters/',
  summary: 'Create a meter',
  access: write,
  costs: 'jobs',
  body: MeterCreate,
  returns: Meter,
  status: 201,
  fails: [NotPermitted],
})

export const getMeter = operation({
  id: 'meters:get',
  method: 'GET',
  path: '/v1/meters/{id}',
  summary: 'Get a meter',
  access: read,
  costs: 'none',
  params: byId,
  returns: Meter,
  fails: [NotPermitted, ResourceNotFound],
})

export const updateMeter = operation({
  id: 'meters:update',
  method: 'PATCH',
  path: '/v1/meters/{id}',
  summary: 'Update a meter',
  description: 'A meter cannot be archived while an active price or a benefit uses it.',
  access: write,
  costs: 'jobs',
  params: byId,
  body: MeterUpdate,
  returns: Meter,
  fails: [NotPermitted, ResourceNotFound],
})
