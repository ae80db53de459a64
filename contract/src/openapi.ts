import { z } from 'zod'
import { operations, webhooks } from './index.ts'
import { failuresOf, successStatus, type Access, type FailureKind, type Operation } from './kit/index.ts'
import { reservedScopes } from './scopes.ts'
import type { Version } from './versions.ts'

type Json = { [key: string]: unknown }

/** JSON Schema of what travels on the wire. Patterns that only restate a format are left out. */
export const wireSchema = (schema: z.ZodType): Json =>
  z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
    override: ({ jsonSchema }) => {
      if (jsonSchema.format && jsonSchema.pattern) delete jsonSchema.pattern
      if (jsonSchema.type === 'integer' && jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
      if (jsonSchema.type === 'integer' && jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
    },
  })

/** Writes the OpenAPI 3.1 document of a version. The same declarations that run the server, so the two cannot differ. */
export const document = (version: Version): Json => {
  const components: Record<string, unknown> = {}
  const schemaOf = (schema: z.ZodType): unknown => {
    const { $defs = {}, properties } = wireSchema(z.object({ it: schema })) as { $defs?: Record<string, Json>; properties: { it: unknown } }
    for (const [name, definition] of Object.entries($defs)) components[name] = refer(definition)
    return refer(properties.it)
  }
  const failureSchema = (kind: FailureKind) => {
    const name = kind.schema ?? kind.error
    components[name] = {
      type: 'object',
      properties: {
        error: { type: 'string', const: kind.error },
        detail: { type: 'string', examples: [kind.detail] },
        ...mapValues(kind.more?.shape ?? {}, (field) => schemaOf(field as z.ZodType)),
      },
      required: ['error', 'detail'],
    }
    return { $ref: `#/components/schemas/${name}` }
  }

  const paths: Record<string, Json> = {}
  for (const operation of operations) {
    const path = (paths[operation.path] ??= {})
    path[operation.method.toLowerCase()] = {
      operationId: operation.id,
      summary: operation.summary,
      ...(operation.description ? { description: operation.description } : {}),
      tags: [operation.id.split(':')[0]],
      security: securityOf(operation.access),
      parameters: [...parametersOf(operation, 'path', schemaOf), ...parametersOf(operation, 'query', schemaOf), ...headersOf(operation)],
      ...(operation.body
        ? {
            requestBody: {
              required: !operation.body.safeParse(undefined).success,
              content: { [operation.form ? 'application/x-www-form-urlencoded' : 'application/json']: { schema: schemaOf(operation.body) } },
            },
          }
        : {}),
      responses: responsesOf(operation, schemaOf, failureSchema),
    }
  }

  const hooks: Record<string, Json> = {}
  for (const hook of webhooks) {
    const payload = z.object({ type: z.literal(hook.kind), timestamp: z.iso.datetime({ offset: true }), data: hook.data })
    hooks[hook.kind] = {
      post: {
        operationId: hook.kind,
        summary: hook.when,
        requestBody: { required: true, content: { 'application/json': { schema: schemaOf(payload) } } },
        responses: { 200: { description: 'Received. Any 2xx will do.' } },
      },
    }
  }

  components['HTTPValidationError'] = {
    type: 'object',
    properties: { error: { type: 'string' }, detail: { type: 'array', items: { $ref: '#/components/schemas/ValidationError' } } },
    required: ['error', 'detail'],
  }
  components['ValidationError'] = {
    type: 'object',
    properties: {
      loc: { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'integer' }] } },
      msg: { type: 'string' },
      type: { type: 'string' },
      input: {},
      ctx: { type: 'object' },
    },
    required: ['loc', 'msg', 'type'],
  }
  components['BearerError'] = { type: 'object', properties: { error: { type: 'string' }, error_description: { type: 'string' } }, required: ['error'] }

  return {
    openapi: '3.1.0',
    info: {
      title: 'Bursar',
      version,
      summary: 'Sell products, manage recurring revenue, and decide who may enter.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [],
    paths,
    webhooks: hooks,
    components: { schemas: Object.fromEntries(Object.entries(components).toSorted(([a], [b]) => (a < b ? -1 : 1))), securitySchemes },
  }
}

const bearer = (description: string) => ({ type: 'http', scheme: 'bearer', description })

const securitySchemes = {
  oidc: {
    type: 'openIdConnect',
    openIdConnectUrl: '/.well-known/openid-configuration',
    description: 'An OAuth 2.0 access token that acts as the user who consented.',
  },
  pat: bearer('A personal access token: acts as the user who made it.'),
  oat: bearer('An organization access token: acts as the organization.'),
  customer_session: bearer('A customer session: that customer, in the portal only.'),
  member_session: bearer('A member session: that member, in the portal only.'),
  session: {
    type: 'apiKey',
    in: 'cookie',
    name: '__Host-bursar_production_session',
    description: `The cookie of a signed-in person; the name carries the environment. Holds every scope, also ${reservedScopes.join(' and ')}.`,
  },
}

const securityOf = (access: Access): Json[] => {
  if (access.kind === 'open') return []
  if (access.kind === 'visitor') return [{}, { session: [] }]
  if (access.kind === 'protocol') return access.credentials.map((scheme) => ({ [scheme]: [] }))
  const schemes = access.kind === 'merchant' ? [...access.credentials, 'session'] : access.kind === 'portal' ? access.credentials : ['session']
  return schemes.map((scheme) => ({ [scheme]: access.scopes }))
}

const parametersOf = (operation: Operation, where: 'path' | 'query', schemaOf: (schema: z.ZodType) => unknown) => {
  const schema = where === 'path' ? operation.params : operation.query
  if (!(schema instanceof z.ZodObject)) return []
  return Object.entries(schema.shape as Record<string, z.ZodType>).map(([name, field]) => {
    const { description, ...rest } = schemaOf(field) as Json
    const style = where === 'query' && rest.type === 'object' ? { style: 'deepObject', explode: true } : {}
    return { name, in: where, required: where === 'path', ...style, ...(description ? { description } : {}), schema: rest }
  })
}

/** Headers that change what a request does. */
const headersOf = (operation: Operation) => {
  if (!isGuarded(operation)) return []
  const header = (name: string, description: string, schema: Json) => [{ name, in: 'header', required: false, description, schema }]
  return operation.method === 'GET'
    ? header('Bursar-Member-Phase', 'Answers as after the switch to members, where that is prepared. See `/v1/member-migration/`.', {
        type: 'string',
        enum: ['2'],
      })
    : header(
        'Idempotency-Key',
        `Sent again with the same key, the request is done once and answered alike, for ${operation.keptDays ? `${operation.keptDays} days` : '24 hours'}.`,
        { type: 'string', minLength: 1, maxLength: 255 },
      )
}

/** Asks for one of our own credentials. */
const isGuarded = ({ access }: Operation) => access.kind !== 'open' && access.kind !== 'visitor' && access.kind !== 'protocol'

const responsesOf = (operation: Operation, schemaOf: (schema: z.ZodType) => unknown, failureSchema: (kind: FailureKind) => unknown): Json => {
  const json = (description: string, schema: unknown) => ({ description, content: { 'application/json': { schema } } })
  const named = (name: string) => ({ $ref: `#/components/schemas/${name}` })
  const success = operation.returns
    ? { description: 'Success.', content: { [operation.media ?? 'application/json']: { schema: schemaOf(operation.returns) } } }
    : operation.status === 302
      ? { description: 'Goes on elsewhere.', headers: { location: { required: true, description: 'Where to.', schema: { type: 'string' } } } }
      : { description: 'Success, without a body.' }
  const responses: Record<string, Json> = {
    ...(operation.alsoDeclares ? { [operation.alsoDeclares]: success } : {}),
    [successStatus(operation)]: success,
    ...(operation.pending ? { [operation.pending]: { description: 'Not there yet: ask again, after as many seconds as `retry-after` says.' } } : {}),
  }
  for (const [status, kinds] of Map.groupBy(failuresOf(operation), (kind) => kind.status)) {
    const schemas = kinds.map(failureSchema)
    if ((isGuarded(operation) && (status === 401 || status === 403)) || (operation.access.kind === 'protocol' && status === 400))
      schemas.push(named('BearerError'))
    if (status === 422) schemas.push(named('HTTPValidationError'))
    responses[status] = json(kinds.map((kind) => kind.detail).join(' Or: '), schemas.length === 1 ? schemas[0] : { anyOf: schemas })
  }
  if (isGuarded(operation)) responses[403] ??= json('The credential lacks the scope.', named('BearerError'))
  if (operation.access.kind === 'protocol') responses[401] ??= json('The client or the token is not accepted.', named('BearerError'))
  else responses[422] ??= json('The request is not valid: `detail` lists every problem.', named('HTTPValidationError'))
  return responses
}

const refer = (node: unknown): unknown => {
  if (Array.isArray(node)) return node.map(refer)
  if (typeof node !== 'object' || node === null) return node
  return Object.fromEntries(
    Object.entries(node)
      .filter(([key]) => key !== 'id' && key !== '$schema')
      .map(([key, value]) => [
        key,
        key === '$ref' ? (value as string).replace('#/$defs/', '#/components/schemas/') : key === 'properties' ? mapValues(value as Json, refer) : refer(value),
      ]),
  )
}

const mapValues = (record: Json, change: (value: unknown) => unknown): Json =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]))
