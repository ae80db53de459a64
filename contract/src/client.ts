import type { Operation, Received, Sent, Takes } from './kit/index.ts'

export interface Reply<Body> {
  status: number
  headers: Headers
  body: Body
}

/** The input of an operation: exactly the parts that it declares. */
export type Input<O> = (Takes<O, 'params'> extends true ? { params: Sent<O, 'params'> } : unknown) &
  (Takes<O, 'query'> extends true ? { query?: Sent<O, 'query'> } : unknown) &
  (Takes<O, 'body'> extends true ? { body: Sent<O, 'body'> } : unknown) & { headers?: Record<string, string> }

type Transport = (request: {
  method: string
  url: string
  headers: Record<string, string>
  body?: string
}) => Promise<{ status: number; headers: Headers; text: string }>

/** Thrown by `call` when the response is not a success. */
export class Refused extends Error {
  readonly reply: Reply<{ error?: string; detail?: unknown }>
  constructor(operation: string, reply: Reply<{ error?: string; detail?: unknown }>) {
    super(`${operation} answered ${reply.status}: ${JSON.stringify(reply.body)}`)
    this.reply = reply
  }
}

/** Builds the URL of an operation from its path and query. Arrays repeat their key; null and undefined are omitted. */
export const addressOf = (operation: Pick<Operation, 'path'>, input: { params?: unknown; query?: unknown }): string => {
  const params = (input.params ?? {}) as Record<string, unknown>
  const path = operation.path.replace(/\{([^{}]+)\}/g, (_, name: string) => encodeURIComponent(String(params[name])))
  const search = new URLSearchParams()
  for (const [key, value] of Object.entries((input.query ?? {}) as Record<string, unknown>))
    for (const [name, one] of spread(key, value)) search.append(name, one)
  return search.size > 0 ? `${path}?${search.toString()}` : path
}

/** Flattens a query value: `a=1&a=2` for a list, `a[b]=1` for a record. */
const spread = (key: string, value: unknown): [string, string][] => {
  if (Array.isArray(value)) return value.flatMap((one: unknown) => spread(key, one))
  if (typeof value === 'object' && value !== null) return Object.entries(value).flatMap(([name, one]) => spread(`${key}[${name}]`, one))
  // oxlint-disable-next-line typescript/no-base-to-string -- what is left is text, number or flag
  return value === undefined || value === null ? [] : [[key, String(value)]]
}

/** A client that is typed by the operations: `api.call(getOrganization, { params: { id } })`. */
export const connect = (transport: Transport, defaults: Record<string, string> = {}) => {
  const send = async (
    operation: Operation,
    input: { params?: unknown; query?: unknown; body?: unknown; headers?: Record<string, string> },
  ): Promise<Reply<unknown>> => {
    const body = input.body === undefined ? undefined : JSON.stringify(input.body)
    const headers = { accept: 'application/json', ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...defaults, ...input.headers }
    const answer = await transport({ method: operation.method, url: addressOf(operation, input), headers, ...(body === undefined ? {} : { body }) })
    const json = answer.text !== '' && (answer.headers.get('content-type') ?? '').includes('json')
    return { status: answer.status, headers: answer.headers, body: json ? (JSON.parse(answer.text) as unknown) : answer.text }
  }
  return {
    /** Sends a request and returns the response, including error responses. */
    send: async <O extends Operation>(operation: O, input: Input<O>) => (await send(operation, input)) as Reply<Received<O>>,
    /** Sends a request of any shape, so that tests can send invalid ones. */
    sendRaw: async (operation: Operation, input: { params?: unknown; query?: unknown; body?: unknown; headers?: Record<string, string> }) =>
      send(operation, input),
    /** Sends a request and returns the body of a success; throws `Refused` otherwise. */
    call: async <O extends Operation>(operation: O, input: Input<O>): Promise<Received<O>> => {
      const reply = await send(operation, input)
      if (reply.status >= 300 && reply.status !== operation.status) throw new Refused(operation.id, reply as Reply<{ error?: string; detail?: unknown }>)
      return reply.body as Received<O>
    },
  }
}
export type Client = ReturnType<typeof connect>
