import { z } from 'zod'

/** A named record: its name becomes the name of the OpenAPI component. */
export const resource = <S extends z.core.$ZodLooseShape>(name: string, shape: S) => z.object(shape).meta({ id: name })

/** A named record that rejects unknown fields. */
export const strictResource = <S extends z.core.$ZodLooseShape>(name: string, shape: S) => z.strictObject(shape).meta({ id: name })

/** A named schema that is not a plain record: an enum or a union. */
export const named = <T extends z.ZodType>(name: string, schema: T): T => schema.meta({ id: name })

/**
 * Marks a field as secret: a text, or a URL that contains a secret. The event log stores a placeholder of the same
 * shape. The value itself is stored encrypted until the event is delivered. OpenAPI shows the mark as `x-secret`.
 */
export const secret = <T extends z.ZodType>(shape: 'text' | 'address', schema: T): T => schema.meta({ 'x-secret': shape })

/** A UUID of any version, in upper or lower case. Parsed to lower case. */
export const uuid = () => z.uuid().toLowerCase()

/** The first and the last moment that ISO 8601 writes with a year of four digits. An offset can lead beyond them. */
const [earliest, latest] = [new Date('0000-01-01T00:00:00.000Z'), new Date('9999-12-31T23:59:59.999Z')]
const moment = z.date().min(earliest, 'Use a time from the year 0000 on, in UTC.').max(latest, 'Use a time up to the year 9999, in UTC.')

/** ISO 8601 with offset on the wire, a `Date` in code. */
export const timestamp = () => z.codec(z.iso.datetime({ offset: true }), moment, { decode: (text) => new Date(text), encode: (date) => date.toISOString() })

/** The creation and modification times of a record. */
export const stamps = { created_at: timestamp(), modified_at: timestamp().nullable() }

/** One line of user input. It is trimmed and has no control characters, because it may be used in an e-mail or a log. */
export const text = (min: number, max: number) =>
  z
    .string()
    .trim()
    .min(min)
    .max(max)
    .regex(/^\P{Cc}*$/u, 'Use one line of text, without control characters.')

/** Several lines of user input. */
export const prose = (max: number) => z.string().trim().max(max)

/** An e-mail address. Only the syntax is checked, not whether the mailbox exists. */
export const email = () => z.email().max(320)

export const url = () => z.url({ protocol: /^https?$/, hostname: z.regexes.domain }).max(2083)

/** The URL of a seller's page. Hosts without a domain are allowed, for developers' own machines. */
export const landing = () => z.url({ protocol: /^https?$/ }).max(2083)

/** A whole number in a query string. */
export const integerInText = (schema: z.ZodNumber) =>
  z.preprocess((value) => (typeof value === 'string' && /^-?\d{1,30}$/.test(value) ? Math.max(-1, Math.min(Number(value), 2_147_483_647)) : value), schema)

/** A repeatable filter: absent, one value, or a repeated key. Parsed to a list; an empty list filters nothing. */
export const filter = <T extends z.ZodType>(item: T) =>
  z.preprocess((value) => (value === '' || value === null ? [] : Array.isArray(value) ? value : [value]), z.array(item).max(100)).default([])

/** Treats an empty text as absent. Other values are validated by the schema. */
export const emptyIsAbsent = <T extends z.ZodType>(schema: T) =>
  z.preprocess((value: z.input<T> | '' | undefined) => (value === '' ? undefined : value), schema.optional())

/** A timestamp in a query string: ISO 8601 with offset, or empty. */
export const momentInText = () => emptyIsAbsent(z.iso.datetime({ offset: true }).transform((value) => new Date(value)))

const readFlag = (value: unknown) => (value === 'true' || value === '1' ? true : value === 'false' || value === '0' ? false : value === '' ? undefined : value)

export const flagInText = () => z.preprocess(readFlag, z.boolean().optional())

/** A boolean with a default. An empty text is rejected, because it is neither true nor false. */
export const switchInText = (usual: boolean) => z.preprocess(readFlag, z.boolean()).default(usual)

/** The result of a record that was parsed already. */
class ParsedRecord {
  readonly data: unknown
  constructor(data: unknown) {
    this.data = data
  }
}

/**
 * Runs a function instead of the parser of a schema, for values that it knows how to parse. The library has no public way to
 * document one schema and run another, so this replaces its inner function. `parse` returns undefined for other values.
 */
const withShortcut = <T extends z.ZodType>(schema: T, parse: (value: unknown) => { readonly data: unknown } | undefined): T => {
  // oxlint-disable-next-line no-underscore-dangle -- the field is named so by the library
  const inner = schema._zod
  const run = inner.run.bind(inner)
  inner.run = (payload, ctx) => {
    const parsed = parse(payload.value)
    if (parsed === undefined) return run(payload, ctx)
    payload.value = parsed.data as never
    return payload
  }
  return schema
}

/** A union for the documentation. It returns the data of a parsed record, and does not parse the record again. */
const unionOf = <T extends readonly [z.ZodObject, ...z.ZodObject[]]>(records: T) =>
  withShortcut(z.union(records), (value) => (value instanceof ParsedRecord ? value : undefined))

/**
 * A text of limited length, a number, or true or false. A union tries its variants one after the other, and a request may
 * contain a million such values. So valid values are recognised first. Others get the errors of the union.
 */
export const scalar = (min: number, max: number) =>
  withShortcut(z.union([z.string().min(min).max(max), z.int(), z.number(), z.boolean()]), (value) => {
    const isValid =
      typeof value === 'string' ? value.length >= min && value.length <= max : typeof value === 'number' ? Number.isFinite(value) : typeof value === 'boolean'
    return isValid ? { data: value } : undefined
  })

/**
 * A union of records. Each record except the first has a key that selects it. Without such a key the first record
 * applies. Only errors of the selected record are reported. Fields of the other records are rejected by name. Each value
 * is parsed once, because a request may contain thousands of them.
 */
export const oneOf = <O extends z.ZodObject, R extends Record<string, z.ZodObject>>(otherwise: O, byKey: R) => {
  const records = [otherwise, ...Object.values(byKey)] as [O, ...R[keyof R][]]
  const known = new Set(records.flatMap((record) => Object.keys(record.shape)))
  const choices = Object.entries(byKey)
  /** The fields of the other records, for each record. */
  const strange = new Map(records.map((record) => [record as z.ZodObject, new Set([...known].filter((name) => !Object.hasOwn(record.shape, name)))]))
  const none: ReadonlySet<string> = new Set()
  /** The fields that only the first record has. */
  const own = new Set(Object.keys(otherwise.shape).filter((name) => Object.values(byKey).every((record) => !Object.hasOwn(record.shape, name))))
  const foreignIn = (given: object, record: z.ZodObject): ReadonlySet<string> => {
    let found: Set<string> | undefined
    for (const name of Object.keys(given)) if (strange.get(record)!.has(name)) (found ??= new Set()).add(name)
    return found ?? none
  }
  return z.preprocess((value: z.input<O> | z.input<R[keyof R]>, ctx) => {
    const given = typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
    const [key, record] = choices.find(([name]) => Object.hasOwn(given, name)) ?? [undefined, otherwise]
    const refuse = (name: string, message: string) => ctx.issues.push({ code: 'custom', path: [name], message, input: given[name] })
    const foreign = foreignIn(given, record)
    for (const name of foreign) {
      const owners = Object.keys(byKey).filter((owner) => Object.hasOwn(byKey[owner]?.shape ?? {}, name))
      refuse(name, key === undefined ? `Give this only together with ${owners.join(' or ')}.` : `This cannot be combined with ${key}.`)
    }
    const { data, error } = record.safeParse(value, { reportInput: true })
    for (const issue of error?.issues ?? []) {
      const name = String(issue.path[0])
      // A field of this record alone is missing, and a field of another record may stand for it.
      const isChoice = key === undefined && issue.code === 'invalid_type' && issue.path.length === 1 && own.has(name) && !Object.hasOwn(given, name)
      if (isChoice) ctx.issues.push({ ...issue, instead: choices.map(([choice]) => choice) } as z.core.$ZodRawIssue)
      else if (issue.code !== 'unrecognized_keys' || issue.path.length > 0) ctx.issues.push(issue as z.core.$ZodRawIssue)
      else for (const name of issue.keys) if (!foreign.has(name)) refuse(name, 'This operation has no such field.')
    }
    return new ParsedRecord(data) as never
  }, unionOf(records))
}
