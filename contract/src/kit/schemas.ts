import { z } from 'zod'

/** A named record: its name becomes the name of the OpenAPI component. */
export const resource = <S extends z.core.$ZodLooseShape>(name: string, shape: S) => z.object(shape).meta({ id: name })

/** A named record that refuses what it does not know. */
export const strictResource = <S extends z.core.$ZodLooseShape>(name: string, shape: S) => z.strictObject(shape).meta({ id: name })

/** A named schema that is not a plain record: an enum or a union. */
export const named = <T extends z.ZodType>(name: string, schema: T): T => schema.meta({ id: name })

/** Any version of UUID, in either case; lower case inside. */
export const uuid = () => z.uuid().toLowerCase()

/** ISO 8601 with offset on the wire, a `Date` in code. */
export const timestamp = () => z.codec(z.iso.datetime({ offset: true }), z.date(), { decode: (text) => new Date(text), encode: (date) => date.toISOString() })

/** Every record says when it was made and when it last changed. */
export const stamps = { created_at: timestamp(), modified_at: timestamp().nullable() }

/** One line that a person typed: trimmed, and without control characters, because it may end up in a mail or a log. */
export const text = (min: number, max: number) =>
  z
    .string()
    .trim()
    .min(min)
    .max(max)
    .regex(/^\P{Cc}*$/u, 'Use one line of text, without control characters.')

/** Several lines that a person typed. */
export const prose = (max: number) => z.string().trim().max(max)

/** Syntax only: whether the mailbox exists is the mail server's business. */
export const email = () => z.email().max(320)

export const url = () => z.url({ protocol: /^https?$/, hostname: z.regexes.domain }).max(2083)

/** Any page of a seller, also one on its developer's own machine. */
export const landing = () => z.url({ protocol: /^https?$/ }).max(2083)

/** A whole number in a query string. */
export const integerInText = (schema: z.ZodNumber) =>
  z.preprocess((value) => (typeof value === 'string' && /^-?\d{1,30}$/.test(value) ? Math.max(-1, Math.min(Number(value), 2_147_483_647)) : value), schema)

/** A repeatable filter: absent, one value, or the key repeated. In code it is always a list; an empty list filters nothing. */
export const filter = <T extends z.ZodType>(item: T) =>
  z.preprocess((value) => (value === '' || value === null ? [] : Array.isArray(value) ? value : [value]), z.array(item).max(100)).default([])

/** A moment in a query string: ISO 8601 with offset, or nothing. */
export const momentInText = () =>
  z.iso
    .datetime({ offset: true })
    .transform((value) => new Date(value))
    .or(z.literal('').transform(() => undefined))
    .optional()

export const flagInText = () =>
  z.preprocess(
    (value) => (value === 'true' || value === '1' ? true : value === 'false' || value === '0' ? false : value === '' ? undefined : value),
    z.boolean().optional(),
  )

/**
 * One of several records, told apart by a key that the others lack; without any such key it is the first.
 * Only what is wrong with that one is reported, and whatever belongs to another is refused by name.
 */
export const oneOf = <O extends z.ZodObject, R extends Record<string, z.ZodObject>>(otherwise: O, byKey: R) => {
  const records = [otherwise, ...Object.values(byKey)] as [O, ...R[keyof R][]]
  const known = new Set(records.flatMap((record) => Object.keys(record.shape)))
  return z.preprocess((value: z.input<O> | z.input<R[keyof R]>, ctx) => {
    const given = typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
    const [key, record] = Object.entries(byKey).find(([name]) => Object.hasOwn(given, name)) ?? [undefined, otherwise]
    const refuse = (name: string, message: string) => ctx.issues.push({ code: 'custom', path: [name], message, input: given[name] })
    const foreign = new Set(Object.keys(given).filter((name) => known.has(name) && !Object.hasOwn(record.shape, name)))
    for (const name of foreign) {
      const owners = Object.keys(byKey).filter((owner) => Object.hasOwn(byKey[owner]?.shape ?? {}, name))
      refuse(name, key === undefined ? `This goes with ${owners.join(' or ')}.` : `This cannot be combined with ${key}.`)
    }
    for (const issue of record.safeParse(value, { reportInput: true }).error?.issues ?? []) {
      if (issue.code !== 'unrecognized_keys' || issue.path.length > 0) ctx.issues.push(issue as z.core.$ZodRawIssue)
      else for (const name of issue.keys) if (!foreign.has(name)) refuse(name, 'There is no such field here.')
    }
    return value
  }, z.union(records))
}
