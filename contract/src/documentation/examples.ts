import { operations } from '../index.ts'
import { successStatus, type Operation } from '../kit/index.ts'

/** One call of an operation, and its answer. */
export interface Example {
  readonly status: number
  readonly params: Readonly<Record<string, string>>
  readonly query: readonly (readonly [name: string, value: string])[]
  /** Absent if the operation takes no body. */
  readonly body?: unknown
  /** The first lines of a text, or JSON. Absent if the operation answers without a body. */
  readonly answer?: unknown
}
export type Examples = Readonly<Record<string, Example>>

/** A query parameter that is repeated becomes a list, as the server reads it. */
const queryOf = ({ query }: Example): Record<string, unknown> =>
  Object.fromEntries(
    [...Map.groupBy(query, ([name]) => name)].map(([name, pairs]) => [name, pairs.length === 1 ? pairs[0]![1] : pairs.map(([, value]) => value)]),
  )

/** Validates an example by the declarations of its operation. Returns the problems. */
export const problemsOf = (operation: Operation, example: Example | undefined): string[] => {
  if (!example) return [`${operation.id} has no example. Run: pnpm examples ${operation.id}, then pnpm contract`]
  const check = (part: string, schema: Operation['body'], value: unknown): string[] =>
    (schema?.safeParse(value).error?.issues ?? []).map(({ path, message }) => `the example of ${operation.id}: ${part} ${path.join('.')}: ${message}`)
  const statuses: readonly (number | undefined)[] = [successStatus(operation), operation.pending, operation.alsoDeclares]
  return [
    ...(statuses.includes(example.status) ? [] : [`the example of ${operation.id} has the status ${example.status}`]),
    ...check('path', operation.params, example.params),
    ...check('query', operation.query, queryOf(example)),
    ...check('body', operation.body, example.body),
    ...(operation.returns && example.status !== operation.pending ? check('answer', operation.returns, example.answer) : []),
    ...(!operation.returns && example.answer !== undefined ? [`the example of ${operation.id} has an answer that is not declared`] : []),
  ]
}

interface Described {
  readonly operationId: string
  readonly parameters: { readonly name: string; readonly in: string; readonly schema: { readonly type?: string }; example?: unknown }[]
  readonly requestBody?: { readonly content: Readonly<Record<string, { example?: unknown }>> }
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, { example?: unknown }>> }>>
}

/** Adds the examples to an OpenAPI document: to each parameter of a call, to its body, and to the answer of its status. */
export const addExamples = (document: { readonly [key: string]: unknown }, examples: Examples): void => {
  for (const path of Object.values(document.paths as Record<string, Record<string, Described>>))
    for (const { operationId, parameters, requestBody, responses } of Object.values(path)) {
      const example = examples[operationId]
      if (!example) continue
      const query = queryOf(example)
      for (const parameter of parameters) {
        const value = parameter.in === 'path' ? example.params[parameter.name] : query[parameter.name]
        if (value !== undefined) parameter.example = parameter.schema.type === 'array' && !Array.isArray(value) ? [value] : value
      }
      for (const media of Object.values(requestBody?.content ?? {})) media.example = example.body
      for (const media of Object.values(responses[example.status]?.content ?? {})) if (example.answer !== undefined) media.example = example.answer
    }
}

/** Validates the example of every operation, and finds examples of operations that no longer exist. */
export const exampleProblems = (examples: Examples): string[] => [
  ...operations.flatMap((operation) => problemsOf(operation, examples[operation.id])),
  ...Object.keys(examples)
    .filter((id) => !operations.some((operation) => operation.id === id))
    .map((id) => `contract/examples/examples.json has an example of ${id}, which is no operation`),
]
