import { existsSync, readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { keyOf } from './promise.ts'

const file = new URL('../../../../shared/contract/2026-04.openapi.json', import.meta.url)

interface Reference {
  paths: Record<string, Record<string, { responses: Record<string, { content?: Record<string, unknown> }> }>>
  webhooks: Record<string, unknown>
}

/**
 * Turns `oneOf` without a discriminator into `anyOf`. The variants of these unions overlap. `oneOf` would therefore
 * reject a value that matches several of them.
 */
const forgiving = (_: string, node: unknown): unknown => {
  if (typeof node !== 'object' || node === null || !('oneOf' in node) || 'discriminator' in node) return node
  const { oneOf, ...rest } = node
  return { ...rest, anyOf: oneOf }
}

/** Loads the public OpenAPI contract. Returns undefined if no copy of it exists beside the project. */
export const openReference = () => {
  if (!existsSync(file)) return undefined
  const document = JSON.parse(readFileSync(file, 'utf8'), forgiving) as Reference
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateSchema: false })
  addFormats.default(ajv)
  // The contract requires UUIDs of version 4. Accepts every version, because our ids have only the form of version 4.
  ajv.addFormat('uuid4', /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i)
  ajv.addFormat('ipvanyaddress', (text) => isIP(text) > 0)
  ajv.addSchema(document, 'reference')
  const escape = (part: string) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))
  const known = new Map<string, ValidateFunction>()
  const compile = (pointer: string): ValidateFunction => {
    const validate = known.get(pointer) ?? ajv.compile({ $ref: `reference#/${pointer}` })
    known.set(pointer, validate)
    return validate
  }
  const check = (pointer: string[], value: unknown): string[] => {
    const validate = compile(pointer.map(escape).join('/'))
    return validate(value) ? [] : (validate.errors ?? []).map((error) => `${error.instancePath} ${error.message}`)
  }
  const places = new Map(
    Object.entries(document.paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => [keyOf(method, path), [path, method] as const])),
  )
  return {
    /** Returns the violations of the schema for this operation and status. Empty if the contract does not describe the answer. */
    answer: (key: string, status: number, body: unknown): string[] => {
      const [path, method] = places.get(key) ?? []
      if (path === undefined || method === undefined) return []
      const described = document.paths[path]![method]!.responses[status]
      if (!described) return status < 300 ? [`status ${status} is not in the contract`] : []
      return described.content?.['application/json']
        ? check(['paths', path, method, 'responses', String(status), 'content', 'application/json', 'schema'], body)
        : []
    },
    webhook: (kind: string, payload: unknown): string[] =>
      kind in document.webhooks
        ? check(['webhooks', kind, 'post', 'requestBody', 'content', 'application/json', 'schema'], payload)
        : [`${kind} is not in the contract`],
  }
}
