import { isRawNumber, parseRaw, rawNumber, type RawNumber } from '../../../kernel/exact-json.ts'

/** Kinds of values in the copy. A value of another kind, such as an object, counts as absent. */
export const kinds = { other: 0, text: 1, number: 2, flag: 3 } as const

/** Digits of the numbers that the store compares and adds. It can add a billion of the largest without an overflow. */
export const digits = { whole: 15, fraction: 12 } as const

/** The properties of an event, by the names that filters use: first the keys of the metadata, then the paths to deeper values. */
export interface Properties {
  readonly keys: string[]
  readonly kinds: number[]
  /** Texts as they are, and numbers and flags as PostgreSQL spells them. */
  readonly texts: string[]
  /** Numbers, and 0 for other values. */
  readonly numbers: RawNumber[]
  /** 0 if a number has more digits than the store computes with. PostgreSQL answers questions about such an event. */
  readonly exact: 0 | 1
}

const nothing = rawNumber('0')

/** True if the store can compute with a number, as PostgreSQL spells it. */
export const isComputable = (spelled: string): boolean => {
  const [whole, fraction = ''] = spelled.replace('-', '').split('.')
  return whole!.length <= digits.whole && fraction.length <= digits.fraction
}

/** Returns the properties of the metadata, from the JSON text of PostgreSQL. */
export const propertiesOf = (metadata: string): Properties => {
  const found = { keys: [] as string[], kinds: [] as number[], texts: [] as string[], numbers: [] as RawNumber[], exact: 1 as 0 | 1 }
  const named = new Set<string>()
  const add = (name: string, value: unknown): void => {
    if (named.has(name)) return
    named.add(name)
    const isNumber = isRawNumber(value)
    const isComputed = isNumber && isComputable(value.rawJSON)
    if (isNumber && !isComputed) found.exact = 0
    found.keys.push(name)
    const [kind, text] = isNumber
      ? [kinds.number, value.rawJSON]
      : typeof value === 'string'
        ? [kinds.text, value]
        : typeof value === 'boolean'
          ? [kinds.flag, String(value)]
          : [kinds.other, '']
    found.kinds.push(kind)
    found.texts.push(text)
    found.numbers.push(isComputed ? value : nothing)
  }
  const root = parseRaw(metadata) as object
  for (const [key, value] of Object.entries(root)) add(key, value)
  // A path is split at its dots, so no path leads to a key that has one.
  const walk = (from: unknown, path: string): void => {
    if (typeof from !== 'object' || from === null || Array.isArray(from) || isRawNumber(from)) return
    for (const [key, value] of Object.entries(from)) {
      if (key.includes('.')) continue
      add(`${path}.${key}`, value)
      walk(value, `${path}.${key}`)
    }
  }
  for (const [key, value] of Object.entries(root)) if (!key.includes('.')) walk(value, key)
  return found
}

/** The month of ingest, which the id begins with, as 202611. */
export const monthOf = (id: string): number => {
  const at = new Date(Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16))
  return at.getUTCFullYear() * 100 + at.getUTCMonth() + 1
}
