import { z } from 'zod'
import { describeFields, openCatalogue } from './documentation/describing.ts'
import { fieldDescriptions } from './documentation/fields.ts'
import { parameterDescriptions } from './documentation/parameters.ts'
import { operations, webhooks } from './index.ts'
import {
  accountLimits,
  failuresOf,
  rateLimits,
  RequestInFlight,
  requestLimits,
  ServiceUnavailable,
  successStatus,
  type Access,
  type FailureKind,
  type Operation,
} from './kit/index.ts'
import { reservedScopes } from './scopes.ts'
import type { Version } from './versions.ts'

type Json = { [key: string]: unknown }

/** Returns the JSON Schema of the wire format. Omits patterns that only restate a format. */
export const wireSchema = (schema: z.ZodType): Json =>
  z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      // Adds the default, because zod omits the default of a value that is parsed from text. An empty list is no
      // default to document, because it means no filter.
      const usual: unknown = zodSchema instanceof z.ZodDefault ? zodSchema.def.defaultValue : z.globalRegistry.get(zodSchema)?.['default']
      if (usual !== undefined && jsonSchema.default === undefined && !(Array.isArray(usual) && usual.length === 0))
        jsonSchema.default = JSON.parse(JSON.stringify(usual)) as never
      if (jsonSchema.format && jsonSchema.pattern) delete jsonSchema.pattern
      if (jsonSchema.type === 'integer' && jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
      if (jsonSchema.type === 'integer' && jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
    },
  })

/**
 * The addresses of a deployment. A deployment is a sandbox or production, never both, so the document of each has the same
 * relative address first.
 */
const servers = [
  { url: '/', description: 'The deployment that answered with this document: a sandbox or production, as its operator has set.' },
  {
    url: 'https://{host}',
    description: 'Another deployment of your own. Sandbox and production are separate deployments with separate data.',
    variables: { host: { default: 'api.example.com', description: 'The host of `BURSAR_PUBLIC_URL`.' } },
  },
  { url: 'http://127.0.0.1:4100', description: 'The local sandbox that `bursar dev` starts.' },
]

export interface Description {
  readonly document: Json
  /** Fields and parameters without a description. */
  readonly missing: readonly string[]
  /** Keys of the catalogues that describe no field and no parameter. */
  readonly unused: readonly string[]
}

/** Builds the OpenAPI 3.1 document of a version. The server uses the same declarations, so that document and server cannot differ. */
export const document = (version: Version): Json => describe(version).document

/** Builds the document, and lists the gaps of its descriptions. */
export const describe = (version: Version): Description => {
  const fields = openCatalogue(fieldDescriptions)
  const parameters = openCatalogue(parameterDescriptions)
  const missing: string[] = []
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
        error: { type: 'string', const: kind.error, description: 'The stable name of the error.' },
        detail: { type: 'string', examples: [kind.detail], description: 'What is wrong, and what to do next. The text may change.' },
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
              'x-max-bytes': operation.bodyLimit ?? requestLimits.body_bytes,
              required: !operation.body.safeParse(undefined).success,
              content: { [operation.form ? 'application/x-www-form-urlencoded' : 'application/json']: { schema: schemaOf(operation.body) } },
            },
          }
        : {}),
      responses: responsesOf(operation, schemaOf, failureSchema),
      'x-rate-limit': operation.budget ?? 'api',
    }
  }

  const hooks: Record<string, Json> = {}
  for (const hook of webhooks) {
    const payload = z.object({
      type: z.literal(hook.kind).describe('The type of the event.'),
      timestamp: z.iso.datetime({ offset: true }).describe('When the event happened, in UTC.'),
      data: hook.data.describe('The object as it was when the event happened.'),
    })
    hooks[hook.kind] = {
      post: {
        operationId: hook.kind,
        summary: hook.when,
        requestBody: { required: true, content: { 'application/json': { schema: schemaOf(payload) } } },
        responses: { 200: { description: 'The event was received. Any 2xx status confirms it.' } },
      },
    }
  }

  components['HTTPValidationError'] = {
    type: 'object',
    properties: {
      error: { type: 'string', description: 'The stable name of the error.' },
      detail: { type: 'array', items: { $ref: '#/components/schemas/ValidationError' }, description: 'The first problems, at most 50.' },
      left_out: { type: 'integer', description: 'Number of further problems that are not listed. Absent if all are listed.' },
    },
    required: ['error', 'detail'],
  }
  components['ValidationError'] = {
    type: 'object',
    properties: {
      loc: {
        type: 'array',
        items: { anyOf: [{ type: 'string' }, { type: 'integer' }] },
        description: 'Where the problem is: `body`, `query` or `path`, then names and positions.',
      },
      msg: { type: 'string', description: 'What is wrong, for people.' },
      type: { type: 'string', description: 'The kind of the problem.' },
      input: { description: 'The received value. Absent if it may be a secret.' },
      ctx: { type: 'object', description: 'The limits that the value violates.' },
    },
    required: ['loc', 'msg', 'type'],
  }
  components['BearerError'] = {
    type: 'object',
    properties: {
      error: { type: 'string', description: 'The stable name of the error.' },
      detail: { type: 'string', description: 'What is wrong, and what to do next.' },
      error_description: { type: 'string', description: 'The same text, under the name that OAuth 2.0 uses.' },
    },
    required: ['error'],
  }

  for (const [name, schema] of Object.entries(components)) describeFields(schema, name, fields, missing)
  for (const path of Object.values(paths))
    for (const operation of Object.values(path) as { operationId: string; parameters: (Json & { name: string })[]; requestBody?: Json; responses: Json }[]) {
      describeFields([operation.requestBody, operation.responses], operation.operationId, fields, missing)
      for (const parameter of operation.parameters)
        if (parameter.description === undefined) {
          const description = parameters.describe(operation.operationId, parameter.name)
          if (description === undefined) missing.push(`${operation.operationId} parameter ${parameter.name}`)
          else parameter.description = description
        }
    }

  const described: Json = {
    openapi: '3.1.0',
    info: {
      title: 'Bursar',
      version,
      summary: 'Sell products, manage recurring revenue, and control access.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers,
    paths,
    webhooks: hooks,
    components: { schemas: Object.fromEntries(Object.entries(components).toSorted(([a], [b]) => (a < b ? -1 : 1))), headers, securitySchemes },
    'x-limits': { request: requestLimits, account: accountLimits },
    'x-rate-limits': rateLimits,
  }
  return { document: described, missing, unused: [...fields.unused(), ...parameters.unused()] }
}

/** Response headers. */
const headers = {
  RetryAfter: { description: 'Seconds to wait before the request is sent again.', schema: { type: 'integer', minimum: 1 } },
  RateLimit: { description: 'The rate limit of this request: `r` requests remain, `t` seconds until it resets.', schema: { type: 'string' } },
  RateLimitPolicy: { description: 'The windows of that rate limit: at most `q` requests in any `w` seconds.', schema: { type: 'string' } },
  Ignored: {
    description: 'Query parameters and body fields that the operation does not know and has ignored, each with the most similar known name.',
    schema: { type: 'string', maxLength: 500 },
  },
} as const

const header = (name: keyof typeof headers) => ({ $ref: `#/components/headers/${name}` })
const charged = { RateLimit: header('RateLimit'), 'RateLimit-Policy': header('RateLimitPolicy') }

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
    return {
      name,
      in: where,
      required: where === 'path' || !field.safeParse(undefined).success,
      ...style,
      ...(description ? { description } : {}),
      schema: rest,
    }
  })
}

/** Request headers that change the behaviour of an operation. */
const headersOf = (operation: Operation) => {
  if (!isGuarded(operation)) return []
  const optional = (name: string, description: string, schema: Json) => [{ name, in: 'header', required: false, description, schema }]
  return operation.method === 'GET'
    ? optional('Bursar-Member-Phase', 'Answers as after the switch to members, if the migration is prepared. See `/v1/member-migration/`.', {
        type: 'string',
        enum: ['2'],
      })
    : optional(
        'Idempotency-Key',
        `A request that is repeated with the same key runs once and gets the same answer, for ${operation.keptDays ? `${operation.keptDays} days` : '24 hours'}.`,
        { type: 'string', minLength: 1, maxLength: 255 },
      )
}

/** True if the operation requires a Bursar credential. */
const isGuarded = ({ access }: Operation) => access.kind !== 'open' && access.kind !== 'visitor' && access.kind !== 'protocol'

const responsesOf = (operation: Operation, schemaOf: (schema: z.ZodType) => unknown, failureSchema: (kind: FailureKind) => unknown): Json => {
  const json = (description: string, schema: unknown, sent: Json = {}) => ({
    description,
    ...(Object.keys(sent).length > 0 ? { headers: sent } : {}),
    content: { 'application/json': { schema } },
  })
  const named = (name: string) => ({ $ref: `#/components/schemas/${name}` })
  const ignoring = operation.access.kind !== 'protocol' && (operation.query || operation.body) ? { 'Bursar-Ignored': header('Ignored') } : {}
  const success = operation.returns
    ? {
        description: 'Success.',
        headers: { ...charged, ...ignoring },
        content: { [operation.media ?? 'application/json']: { schema: schemaOf(operation.returns) } },
      }
    : operation.status === 302
      ? { description: 'A redirect.', headers: { location: { required: true, description: 'Where to.', schema: { type: 'string' } }, ...charged } }
      : { description: 'Success, without a body.', headers: { ...charged, ...ignoring } }
  const responses: Record<string, Json> = {
    ...(operation.alsoDeclares ? { [operation.alsoDeclares]: success } : {}),
    [successStatus(operation)]: success,
    ...(operation.pending
      ? {
          [operation.pending]: {
            description: 'Not ready yet: send the request again after the seconds in `retry-after`.',
            headers: { 'Retry-After': header('RetryAfter'), ...charged },
          },
        }
      : {}),
  }
  for (const [status, kinds] of Map.groupBy(failuresOf(operation), (kind) => kind.status)) {
    const schemas = kinds.map(failureSchema)
    if ((isGuarded(operation) && (status === 401 || status === 403)) || (operation.access.kind === 'protocol' && status === 400))
      schemas.push(named('BearerError'))
    if (status === 422) schemas.push(named('HTTPValidationError'))
    responses[status] = json(kinds.map((kind) => kind.detail).join(' Or: '), schemas.length === 1 ? schemas[0] : { anyOf: schemas }, {
      ...(status === 429 || kinds.includes(RequestInFlight) || kinds.includes(ServiceUnavailable) ? { 'Retry-After': header('RetryAfter') } : {}),
      ...(status === 429 ? charged : {}),
    })
  }
  if (isGuarded(operation)) responses[403] ??= json('The credential lacks the scope.', named('BearerError'))
  if (operation.access.kind === 'protocol') responses[401] ??= json('The client or the token is not accepted.', named('BearerError'))
  else responses[422] ??= json('The request is not valid: `detail` lists the problems.', named('HTTPValidationError'))
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
