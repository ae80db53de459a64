import type { Operation } from '@bursar/contract'
import type { Asked } from '../matrix/policy.ts'

/** A valid request of the matrix, or a recipe of the fuzzer. */
export interface Valid extends Asked {
  readonly headers?: Readonly<Record<string, string>>
  /** Headers of the only credential that makes the request valid. They replace the tenant's if the credential is an accepted one. */
  readonly credential?: Readonly<Record<string, string>>
  /** The body as bytes, if a signature covers it. */
  readonly signed?: string
}

/** A piece of JSON that `JSON.stringify` cannot write, such as 1e400. */
export class Literal {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

/** A request in parts, so that each part can be changed. */
export interface Draft {
  params: Record<string, string>
  query: [string, string][]
  body: unknown
  readonly form: boolean
  headers: Record<string, string | string[]>
}

/** Splits a valid request into its parts. */
export const draftOf = (operation: Operation, valid: Valid): Draft => {
  const [path = '', query = ''] = valid.path.split('?')
  const have = path.split('/')
  const params: Record<string, string> = {}
  operation.path.split('/').forEach((part, at) => {
    if (part.startsWith('{')) params[part.slice(1, -1)] = decodeURIComponent(have[at] ?? '')
  })
  return {
    params,
    query: [...new URLSearchParams(query)],
    body: structuredClone(valid.signed === undefined ? (valid.form ?? valid.body) : JSON.parse(valid.signed)),
    form: valid.form !== undefined,
    headers: { ...valid.headers },
  }
}

/** Percent-encodes a text. An unpaired surrogate is written as the three bytes that a careless encoder would send. */
export const percent = (text: string): string =>
  text.isWellFormed()
    ? encodeURIComponent(text)
    : text
        .split(/(?=[\ud800-\udfff])/)
        .map((part) => (part.isWellFormed() ? encodeURIComponent(part) : `%ED%A0%80${encodeURIComponent(part.slice(1))}`))
        .join('')

export const pathOf = (operation: Operation, { params, query }: Pick<Draft, 'params' | 'query'>): string => {
  const path = operation.path.replace(/\{([^}]+)\}/g, (_, name: string) => percent(params[name] ?? ''))
  return query.length === 0 ? path : `${path}?${query.map(([name, value]) => `${percent(name)}=${percent(value)}`).join('&')}`
}

/** Writes JSON as `JSON.stringify` does, with literals as they are. */
export const toJson = (value: unknown): string => {
  if (value instanceof Literal) return value.text
  if (Array.isArray(value)) return `[${value.map(toJson).join(',')}]`
  if (typeof value === 'object' && value !== null)
    return `{${Object.entries(value)
      .map(([key, item]) => `${JSON.stringify(key)}:${toJson(item)}`)
      .join(',')}}`
  return JSON.stringify(value) ?? 'null'
}

/** Writes the body, and names its media type. */
export const bodyOf = ({ body, form }: Pick<Draft, 'body' | 'form'>): { bytes: Buffer | undefined; type: Record<string, string> } => {
  if (body === undefined) return { bytes: undefined, type: {} }
  if (!form) return { bytes: Buffer.from(toJson(body)), type: { 'content-type': 'application/json' } }
  const fields = Object.entries(body ?? {}).map(([name, value]) => `${percent(name)}=${percent(typeof value === 'string' ? value : toJson(value))}`)
  return { bytes: Buffer.from(fields.join('&')), type: { 'content-type': 'application/x-www-form-urlencoded' } }
}
