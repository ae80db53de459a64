/** A number of a JSON text with more digits than a double holds: the nearest double, and the text as it was written. */
export class ExactNumber {
  readonly nearest: number
  readonly text: string
  constructor(nearest: number, text: string) {
    this.nearest = nearest
    this.text = text
  }
}

/** A number that `JSON.stringify` writes as the given text. */
export interface RawNumber {
  readonly rawJSON: string
}

type Reviver = (this: unknown, key: string, value: unknown, context: { readonly source?: string }) => unknown
/** The functions of the engine for exact numbers. The compiler does not know them yet. */
const engine = JSON as unknown as {
  parse: (text: string, reviver: Reviver) => unknown
  rawJSON: (text: string) => RawNumber
  isRawJSON: (value: unknown) => value is RawNumber
}

/** Decimals of up to 15 digits are equal to the shortest text of their double. So only longer numbers need their text. */
const digitsOfDouble = 15

/** Returns a number without its exponent. */
export const mantissaOf = (text: string): string => text.split(/e/i, 1)[0]!

const digitsOf = (text: string): number => mantissaOf(text).replace(/[-.]/g, '').replace(/^0+/, '').length

/**
 * True if a JSON text may contain a number that a double cannot hold. Long digits inside a string, such as those of an id,
 * do not count, because no bracket, colon, comma or space is before them.
 */
export const mayExceedDoubles = (text: string): boolean => /(?:^|[[:,\s])-?(?:[\d.]{16}|[\d.]{1,15}e[-+]?\d{3})/i.test(text)

/** Parses a JSON text. Numbers with more digits than a double holds become `ExactNumber`. */
export const parseExactly = (text: string): unknown =>
  engine.parse(text, (_, value, { source }) => {
    if (typeof value !== 'number' || source === undefined) return value
    const isRounded = digitsOf(source) > digitsOfDouble || (value === 0 && /[1-9]/.test(mantissaOf(source)))
    return isRounded ? new ExactNumber(value, source) : value
  })

/** Parses a JSON text whose numbers must be written again unchanged. Numbers beyond doubles become `RawNumber`. */
export const parseForWriting = (text: string): unknown =>
  mayExceedDoubles(text)
    ? engine.parse(text, (_, value, { source }) =>
        typeof value === 'number' && source !== undefined && digitsOf(source) > digitsOfDouble ? engine.rawJSON(source) : value,
      )
    : (JSON.parse(text) as unknown)

/** Parses a JSON text. Each number becomes a `RawNumber` with its own text. */
export const parseRaw = (text: string): unknown =>
  engine.parse(text, (_, value, { source }) => (typeof value === 'number' && source !== undefined ? engine.rawJSON(source) : value))

/** Returns one text for the path of a value. No two paths have the same text, because keys never contain this character. */
export const pathKey = (path: readonly (string | number)[]): string => path.join('\0')

/** Returns a number with the given text, for `JSON.stringify`. */
export const rawNumber = (text: string): RawNumber => engine.rawJSON(text)

export const isRawNumber = (value: unknown): value is RawNumber => engine.isRawJSON(value)
