import { z } from 'zod'

export type Issue = z.core.$ZodIssue
export type Loc = (string | number)[]
export type Union = Extract<Issue, { code: 'invalid_union' }>
/** A variant that refused the value: its errors, and the names of its fields. */
interface Variant {
  readonly errors: readonly Issue[]
  readonly fields: ReadonlySet<string>
}

/** The fields of the variants of a failed union. Its list of errors is the key, because the library returns no schema. */
const fieldsOfVariants = new WeakMap<object, readonly ReadonlySet<string>[]>()

const fieldsOf = (schema: z.core.$ZodType): string[] => {
  if (schema instanceof z.ZodObject) return Object.keys(schema.shape)
  return schema instanceof z.ZodUnion ? schema.options.flatMap(fieldsOf) : []
}

/** Notes the fields of the variants of a failed union. Pass it to the parser as `error`. It changes no message. */
export const noteVariants = (issue: z.core.$ZodRawIssue): undefined => {
  const { inst } = issue
  if (issue.code !== 'invalid_union' || !(inst instanceof z.ZodUnion)) return
  fieldsOfVariants.set(
    issue.errors,
    inst.options.map((option) => new Set(fieldsOf(option))),
  )
}

/**
 * Lists the errors with their locations. For a failed union, lists the errors of the variant that the value resembles
 * most. If no variant is more similar than another, returns the union itself, with these variants.
 */
export const leavesOf = function* (issues: readonly Issue[], at: Loc): Generator<[Issue, Loc]> {
  for (const issue of issues) {
    const loc = [...at, ...issue.path.map((part) => (typeof part === 'number' ? part : String(part)))]
    if (issue.code !== 'invalid_union' || issue.discriminator || issue.errors.length === 0 || issue.message !== usualMessage) yield [issue, loc]
    else yield* leavesOfUnion(issue, loc)
  }
}

/** The message of the library for a union. Another message is that of the schema, and says what is allowed. */
export const usualMessage = 'Invalid input'

const leavesOfUnion = function* (union: Union, loc: Loc): Generator<[Issue, Loc]> {
  const fields = fieldsOfVariants.get(union.errors) ?? []
  const all = union.errors.map((errors, at): Variant => ({ errors, fields: fields[at] ?? new Set() }))
  const sameKind = all.filter(({ errors }) => !errors.some((issue) => isOtherKind(issue, union.input)))
  const fitting = sameKind.length > 0 ? sameKind : all
  const [only] = fitting
  if (fitting.length === 1 && only) return yield* leavesOf(only.errors, loc)
  if (isRecord(union.input) && sameKind.length > 0) {
    const tag = tagOf(fitting)
    if (tag !== undefined) return yield [{ ...union, discriminator: tag.name, options: tag.values } as Issue, [...loc, tag.name]]
    const best = bestFor(union.input, fitting)
    if (best) return yield* leavesOf(best.errors, loc)
  }
  yield [{ ...union, errors: fitting.map(({ errors }) => [...errors]) } as Issue, loc]
}

/** True if a variant takes another kind of value, for example a number instead of text. */
const isOtherKind = (issue: Issue, input: unknown): boolean => {
  if (issue.path.length > 0) return false
  if (issue.code === 'invalid_value') return issue.values.every((value) => typeof value !== typeof input)
  return issue.code === 'invalid_type'
}

const isRecord = (value: unknown): value is object => typeof value === 'object' && value !== null && !Array.isArray(value)

/** The error of a variant that expects one other value in a field, such as another `grant_type`. */
const tagErrorOf = ({ errors }: Variant) => errors.find((issue) => issue.code === 'invalid_value' && issue.path.length === 1 && issue.values.length === 1)

/** If every variant expects another value in the same field, returns the field and its values. */
const tagOf = (variants: readonly Variant[]): { name: string; values: unknown[] } | undefined => {
  const errors = variants.map(tagErrorOf)
  const name = errors[0]?.path[0]
  if (name === undefined || errors.some((issue) => issue?.path[0] !== name)) return undefined
  return { name: String(name), values: errors.flatMap((issue) => (issue?.code === 'invalid_value' ? issue.values : [])) }
}

/** Returns the variant with the most fields in common with the value. Undefined if no variant has one. */
const bestFor = (input: object, variants: readonly Variant[]): Variant | undefined => {
  const tagged = variants.filter((variant) => tagErrorOf(variant) === undefined)
  const candidates = tagged.length > 0 ? tagged : variants
  const [only] = candidates
  if (candidates.length === 1) return only
  const common = candidates.map(({ fields }) => Object.keys(input).filter((name) => fields.has(name)).length)
  const most = Math.max(...common)
  return most === 0 ? undefined : candidates[common.indexOf(most)]
}
