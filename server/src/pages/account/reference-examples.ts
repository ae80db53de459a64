import type { ReferenceCaller } from '@bursar/views'
import { officialMethods } from './official-client.ts'

interface Parameter {
  readonly name: string
  readonly in: string
  readonly schema: { readonly type?: string | readonly string[] }
  readonly example?: unknown
}
type Content = Readonly<Record<string, { readonly example?: unknown }>>

/** The parts of an operation in the OpenAPI document that an example request needs. */
export interface Exemplified {
  readonly operationId: string
  readonly parameters: readonly Parameter[]
  readonly requestBody?: { readonly content: Content }
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>
}

/** An operation with its address, and the first kind of caller that may call it. */
export interface Call {
  readonly described: Exemplified
  readonly method: string
  readonly path: string
  readonly origin: string
  readonly caller: ReferenceCaller | undefined
}

const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`
export const pretty = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value, null, 2))
const jsonOf = ({ requestBody }: Exemplified): unknown => requestBody?.content['application/json']?.example

/** Returns the address of the example, with its path parameters and its query. */
const addressOf = ({ described, path, origin }: Call): string => {
  const filled = described.parameters.reduce(
    (whole, { name, in: where, example }) => (where === 'path' ? whole.replace(`{${name}}`, encodeURIComponent(String(example))) : whole),
    path,
  )
  const query = described.parameters.flatMap(({ name, in: where, example }) =>
    where === 'query' && example !== undefined ? [example].flat().map((value: unknown) => `${name}=${encodeURIComponent(pretty(value))}`) : [],
  )
  return `${origin}${filled}${query.length > 0 ? `?${query.join('&')}` : ''}`
}

/** Writes an example request for the command line. */
export const curlOf = (call: Call): string => {
  const { described, method, origin, caller } = call
  const [media, content] = Object.entries(described.requestBody?.content ?? {})[0] ?? []
  const form = media?.includes('urlencoded')
    ? Object.entries((content?.example ?? {}) as Record<string, unknown>).map(([name, value]) => `--data-urlencode ${quoted(`${name}=${String(value)}`)}`)
    : []
  return [
    `curl ${method === 'GET' ? '' : `-X ${method} `}${quoted(addressOf(call))}`,
    ...(caller === 'anyone'
      ? []
      : caller === 'session'
        ? ['-b "$COOKIES"', `-H 'origin: ${origin}'`, "-H 'bursar-csrf: 1'"]
        : ['-H "authorization: Bearer $TOKEN"']),
    ...(media === 'application/json' ? ["-H 'content-type: application/json'", `-d ${quoted(pretty(content?.example))}`] : form),
  ].join(' \\\n  ')
}

const literal = (value: unknown): string => JSON.stringify(value, null, 2).replaceAll(/^( *)"(\w+)":/gm, '$1$2:')
const indented = (text: string): string => text.replaceAll('\n', '\n  ')

/**
 * Writes the same request in TypeScript: with the official client if it has a method for the operation, and else with
 * `fetch`. Returns null if the caller is a browser session, or if a body is not JSON.
 */
export const typescriptOf = (call: Call): string | null => {
  const { described, caller } = call
  const { requestBody, responses, operationId } = described
  const isJson = [requestBody, ...Object.values(responses)].every((one) => Object.keys(one?.content ?? {}).every((media) => media === 'application/json'))
  if (!isJson || caller === 'session') return null
  const method = officialMethods[operationId]
  return method === undefined ? withFetch(call) : withClient(call, method)
}

const hasAnswer = ({ described }: Call): boolean => Object.entries(described.responses).some(([status, { content }]) => status < '300' && content !== undefined)

const withClient = (call: Call, method: string): string => {
  const { described, origin, caller } = call
  const query = Object.fromEntries(
    described.parameters.flatMap(({ name, in: where, example, schema }) =>
      where === 'query' && example !== undefined ? [[name, schema.type === 'integer' ? Number(example) : example]] : [],
    ),
  )
  const path = described.parameters.flatMap(({ in: where, example }) => (where === 'path' ? [example] : []))
  const given = [...path, jsonOf(described), Object.keys(query).length === 0 ? undefined : query].filter((one) => one !== undefined)
  const token = caller === 'anyone' ? "'none'" : 'process.env.TOKEN!'
  return [
    "import { createPolar } from '@polar-sh/sdk/2026-04'",
    '',
    `const bursar = createPolar({ baseUrl: '${origin}', accessToken: ${token} })`,
    `${hasAnswer(call) ? 'const answer = ' : ''}await bursar.${method}(${given.map(literal).join(', ')})`,
  ].join('\n')
}

const withFetch = (call: Call): string => {
  const { described, method, caller } = call
  const body = jsonOf(described)
  const headers = [
    ...(caller === 'anyone' ? [] : ['authorization: `Bearer ${process.env.TOKEN}`']),
    ...(body === undefined ? [] : ["'content-type': 'application/json'"]),
  ]
  const options = [
    ...(method === 'GET' ? [] : [`method: '${method}',`]),
    ...(headers.length === 0 ? [] : [`headers: { ${headers.join(', ')} },`]),
    ...(body === undefined ? [] : [`body: JSON.stringify(${indented(literal(body))}),`]),
  ]
  const address = `'${addressOf(call)}'`
  return [
    `const response = await fetch(${options.length === 0 ? address : `${address}, {\n  ${options.join('\n  ')}\n}`})`,
    ...(hasAnswer(call) ? ['const answer = await response.json()'] : []),
  ].join('\n')
}
