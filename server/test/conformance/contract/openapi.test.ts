import { readFileSync } from 'node:fs'
import { accountLimits, operations, rateLimits, requestLimits } from '@bursar/contract'
import { document } from '@bursar/contract/openapi'
import { expect, test } from 'vitest'
import { factsOf, linesOf, type Facts } from './facts.ts'
import { kept } from './kept.ts'

type Json = { readonly [key: string]: unknown }
interface Described {
  readonly operationId: string
  readonly parameters: readonly { readonly name: string; readonly in: string; readonly required: boolean; readonly schema: Json }[]
  readonly requestBody?: { readonly 'x-max-bytes': number; readonly content: Readonly<Record<string, { readonly schema: Json }>> }
  readonly responses: Readonly<Record<string, { readonly headers?: Json; readonly content?: Json }>>
  readonly 'x-rate-limit': string
}

const ours = document('2026-04')
const described = new Map(
  Object.values(ours.paths as Record<string, Record<string, Described>>)
    .flatMap((item) => Object.values(item))
    .map((one) => [one.operationId, one]),
)
/** Facts that were extracted from the public contract and are stored in the repository. */
const facts = JSON.parse(readFileSync(new URL('facts.json', import.meta.url), 'utf8')) as Record<string, Facts>
const only = (all: Record<string, Facts>, also: Record<string, Facts>) => Object.fromEntries(Object.entries(all).filter(([key]) => also[key] !== undefined))

test('publishes the scopes, required parameters and fields, defaults and sort orders of the public contract, except listed differences', () => {
  const mine = factsOf(ours)
  expect(Object.keys(facts).filter((key) => mine[key] === undefined)).toEqual([])
  const want = linesOf(only(facts, mine))
  const have = linesOf(only(mine, facts))
  expect(want.size).toBeGreaterThan(600)
  const differing = [...new Set([...want.keys(), ...have.keys()])].filter((key) => want.get(key) !== have.get(key))
  expect(differing.toSorted()).toEqual(Object.values(kept).flat().toSorted())
})

test('explains every intended difference from the public contract in docs/compatibility.md', () => {
  const page = readFileSync(new URL('../../../../docs/compatibility.md', import.meta.url), 'utf8')
  for (const reason of Object.keys(kept)) expect(page).toContain(reason)
})

test('publishes the minimum, maximum and default page size of every list', () => {
  const lists = [...described.values()].filter(({ parameters }) => parameters.some(({ name, in: where }) => where === 'query' && name === 'limit'))
  expect(lists.length).toBeGreaterThan(40)
  for (const { operationId, parameters } of lists) {
    const { schema } = parameters.find(({ name }) => name === 'limit')!
    expect(schema, operationId).toMatchObject({ type: 'integer', minimum: 1, maximum: expect.any(Number) as number, default: expect.any(Number) as number })
    const first = parameters.find(({ name }) => name === 'page')
    if (first) expect(first.schema, operationId).toMatchObject({ type: 'integer', minimum: 1, default: 1 })
  }
  const { parameters } = described.get('products:list')!
  expect(parameters.find(({ name }) => name === 'limit')!.schema).toMatchObject({ default: 10, maximum: 100 })
})

test('publishes a query parameter as required if and only if the server refuses a request without it', () => {
  const required = [...described.values()].flatMap(({ operationId, parameters }) =>
    parameters.filter((one) => one.in === 'query' && one.required).map(({ name }) => `${operationId} ${name}`),
  )
  const refused = operations.flatMap(({ id, query }) => {
    const issues = query?.safeParse({}).error?.issues ?? []
    return issues.filter(({ path, code }) => path.length === 1 && code !== 'custom').map(({ path }) => `${id} ${String(path[0])}`)
  })
  expect(required.toSorted()).toEqual(refused.toSorted())
  expect(required).toContain('customer_portal:customers:check_email_update token')
})

test('publishes 429 with its body and headers for every operation, and the name of the rate limit that applies', () => {
  expect(described.size).toBe(operations.length)
  for (const { operationId, responses, 'x-rate-limit': name } of described.values()) {
    expect(Object.keys(responses['429']?.headers ?? {}), operationId).toEqual(['Retry-After', 'RateLimit', 'RateLimit-Policy'])
    expect(JSON.stringify(responses['429']?.content), operationId).toContain('{"$ref":"#/components/schemas/TooManyRequests"}')
    expect(Object.keys(rateLimits), operationId).toContain(name)
  }
  expect(ours['x-rate-limits']).toEqual(rateLimits)
  expect(rateLimits.api).toMatchObject({ production: [{ limit: 500, seconds: 60 }], sandbox: [{ limit: 100, seconds: 60 }] })
  expect(rateLimits.license_keys).toMatchObject({ production: [{ limit: 3, seconds: 1 }], sandbox: [{ limit: 3, seconds: 1 }] })
  expect(ours['x-limits']).toEqual({ request: requestLimits, account: accountLimits })
})

test('publishes the maximum number of bytes of every request body', () => {
  for (const operation of operations)
    if (operation.body) expect(described.get(operation.id)!.requestBody?.['x-max-bytes'], operation.id).toBe(operation.bodyLimit ?? 1024 * 1024)
  expect(described.get('files:create')!.requestBody?.['x-max-bytes']).toBe(4 * 1024 * 1024)
})

/** Fields that need no length limit of their own. The server only looks up their values, or a protocol defines them. */
const generalLimitsOnly =
  /^(oauth2:\S+ body\.\w+|oauth2:grants:list query\.client_id\[\]|\S+ query\.metadata(\{\}(\[\])?)?|organizations:list query\.slug|benefits:\w+ body\.properties\.archived|checkouts:create body\.prices|payment-accounts:receive_event body)$/

test('publishes a limit for every text, list and record of a request', () => {
  const schemas = (ours.components as { schemas: Record<string, Json> }).schemas
  const unlimited = new Set<string>()
  const walk = (node: Json, at: string, depth: number): void => {
    if (depth > 12) return
    if (typeof node.$ref === 'string') return walk(schemas[node.$ref.split('/').at(-1)!]!, at, depth + 1)
    const types = [node.type].flat()
    const told = node.enum !== undefined || node.const !== undefined || node.pattern !== undefined || node.maxLength !== undefined
    if (types.includes('string') && !told && !/^(uuid|date-time|date|ipv4|ipv6)$/.test(String(node.format))) unlimited.add(at)
    if (types.includes('array') && node.maxItems === undefined) unlimited.add(at)
    const keys = node.propertyNames as Json | undefined
    if (typeof node.additionalProperties === 'object' && node.maxProperties === undefined && !keys?.enum && !keys?.$ref) unlimited.add(at)
    for (const key of ['anyOf', 'oneOf', 'allOf']) for (const part of (node[key] ?? []) as Json[]) walk(part, at, depth + 1)
    if (node.items) walk(node.items as Json, `${at}[]`, depth + 1)
    if (typeof node.additionalProperties === 'object') walk(node.additionalProperties as Json, `${at}{}`, depth + 1)
    for (const [name, field] of Object.entries((node.properties ?? {}) as Record<string, Json>)) walk(field, `${at}.${name}`, depth + 1)
  }
  for (const { operationId, parameters, requestBody } of described.values()) {
    for (const { name, in: where, schema } of parameters) walk(schema, `${operationId} ${where}.${name}`, 0)
    if (requestBody) walk(Object.values(requestBody.content)[0]!.schema, `${operationId} body`, 0)
  }
  expect([...unlimited].filter((at) => !generalLimitsOnly.test(at))).toEqual([])
})
