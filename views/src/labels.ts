import type { Locale } from './frame.ts'
import { pluralIn } from './plurals.ts'

declare const written: unique symbol
/** A label of an order line as billing stores it, in English. Only `writeLabel` returns one, so `readLabel` can read every stored label. */
export type LineLabel = string & { readonly [written]: true }

/** A product, and the number of seats that were bought. Null for a product without seats. */
export interface Purchased {
  readonly name: string
  readonly seats: number | null
}

/** A label of an order line in its parts. */
export type LabelParts =
  | ({ readonly type: 'product' } & Purchased)
  | { readonly type: 'trial'; readonly name: string; readonly interval: 'day' | 'week' | 'month' | 'year' | null; readonly count: number }
  /** The credit for the rest of a period, after a change of plan or seats. */
  | ({ readonly type: 'remaining' } & Purchased)
  /** The credit for usage of a period that a correction lowered. Days are ISO dates. */
  | { readonly type: 'lowered_usage'; readonly meter: string; readonly from: string; readonly to: string }
  /** Corrections of a credit whose payment was returned, or is valid again. */
  | { readonly type: 'taken_back'; readonly credit: LabelParts }
  | { readonly type: 'restored'; readonly credit: LabelParts }
  | UsageParts

/** Usage in a part of a period. Units are decimal text, and days are ISO dates. */
export interface UsageParts {
  readonly type: 'usage'
  readonly meter: string
  readonly quantity: string
  /** Units that were free. `0` if none were. */
  readonly credited: string
  /** The quantity that earlier lines have billed. Null for the first line of the period. */
  readonly corrects: string | null
  /** The price of one unit, as a decimal number of the major unit of the currency. */
  readonly rate: string
  readonly currency: string
  readonly from: string
  readonly to: string
}

/** Writes the label that is stored with an order line. */
export const writeLabel = (parts: LabelParts): LineLabel => spell('en', parts) as LineLabel

/** An order line as it was stored. */
export interface StoredLine {
  readonly label: string
  readonly amount: number
  readonly proration: boolean
}

const usage =
  /^(?:corrected from (-?[\d.]+) to (-?[\d.]+)|(-?[\d.]+)) units(?: \((-?[\d.]+) credited\))? at ([\d.]+) ([A-Z]{3}), (\d{4}-\d\d-\d\d) to (\d{4}-\d\d-\d\d)$/
/** True for a day of the calendar, such as 2026-02-28. A product name may look like a day that does not exist. */
const isDay = (text: string | undefined): text is string => {
  const day = new Date(text ?? '')
  return !Number.isNaN(day.getTime()) && day.toISOString().slice(0, 10) === text
}
const trial = /^trial(?: of (\d+) (day|week|month|year)s?)?$/

/**
 * Reads the label of an order line. A product name may itself end in "(3 seats)" or begin with "Remaining time on". So seats are read
 * only if the order has seats (`seated`), credits only from prorations, and trials only from lines over zero.
 */
export const readLabel = ({ label, amount, proration }: StoredLine, seated: boolean): LabelParts => {
  if (proration) return readCredit(label, amount, seated)
  const [name, rest] = lastPart(label)
  if (rest !== null) {
    const [billed, before, after, quantity, credited = '0', rate, currency, from, to] = usage.exec(rest) ?? []
    if (billed !== undefined && isDay(from) && isDay(to))
      return {
        type: 'usage',
        meter: name,
        quantity: (quantity ?? after)!,
        credited,
        corrects: before ?? null,
        rate: rate!,
        currency: currency!,
        from,
        to,
      }
    const [free, count = '0', interval = null] = (amount === 0 && trial.exec(rest)) || []
    if (free !== undefined) return { type: 'trial', name, interval: interval as 'day' | null, count: Number(count) }
  }
  return { type: 'product', ...readSeats(label, seated) }
}

const readCredit = (label: string, amount: number, seated: boolean): LabelParts => {
  for (const [type, prefix] of corrections) {
    if (amount > 0 === (type === 'taken_back') && label.startsWith(`${prefix}: `))
      return { type, credit: readCredit(label.slice(prefix.length + 2), -1, seated) }
  }
  const [, meter, from, to] = (amount < 0 && lowered.exec(label)) || []
  if (meter !== undefined && isDay(from) && isDay(to)) return { type: 'lowered_usage', meter, from, to }
  const isCredit = amount < 0 && label.startsWith(remaining)
  return isCredit ? { type: 'remaining', ...readSeats(label.slice(remaining.length), seated) } : { type: 'product', ...readSeats(label, seated) }
}

const corrections = [
  ['taken_back', 'Credit taken back'],
  ['restored', 'Credit restored'],
] as const
const remaining = 'Remaining time on '
const lowered = /^(?!Remaining time on )(.*), (\d{4}-\d\d-\d\d) to (\d{4}-\d\d-\d\d)$/s

const readSeats = (label: string, seated: boolean): Purchased => {
  const [, name = label, count] = (seated && /^(.*) \((\d+) seats?\)$/s.exec(label)) || []
  const read = { name, seats: count === undefined ? null : Number(count) }
  // "Team (03 seats)" was not written by billing, so it is a name.
  return named('en', read) === label ? read : { name: label, seats: null }
}

/** Splits a label before its last part, which has no colon. */
const lastPart = (label: string): [string, string | null] => {
  const at = label.lastIndexOf(': ')
  return at === -1 ? [label, null] : [label.slice(0, at), label.slice(at + 2)]
}

/** Shows the label of an order line in the reader's language. `seats` are those of the order. A proration may credit seats of an earlier plan. */
export const showLabel = (locale: Locale, line: StoredLine, seats: number | null): string =>
  locale === 'en' ? line.label : showParts(locale, readLabel(line, seats !== null || line.proration))

/** Shows the parts of a label in the reader's language. */
export const showParts = (locale: Locale, parts: LabelParts): string => spell(locale, parts)

/** Shows a product with its number of seats in the reader's language, for example `Team (3 seats)`. */
export const showPurchased = (locale: Locale, purchased: Purchased): string => spell(locale, { type: 'product', ...purchased })

const plurals = { en: pluralIn('en'), de: pluralIn('de') }

/** Formats decimal text with all its decimal places. */
const germanNumber = (text: string): string => {
  const [whole = '', fraction] = text.split('.')
  const grouped = `${text.startsWith('-') ? '-' : ''}${new Intl.NumberFormat('de').format(BigInt(whole.replace('-', '')))}`
  return fraction === undefined ? grouped : `${grouped},${fraction}`
}
const germanDay = (day: string): string => new Intl.DateTimeFormat('de', { dateStyle: 'medium', timeZone: 'UTC' }).format(new Date(day))

type Words = {
  readonly [T in LabelParts['type']]: (parts: Extract<LabelParts, { readonly type: T }>) => string
}

const seatForms = { en: { one: 'seat', other: 'seats' }, de: { one: 'Platz', other: 'Plätze' } }
/** Returns a number of seats, for example `3 seats`. */
export const countSeats = (locale: Locale, seats: number): string => `${seats} ${plurals[locale](seats, seatForms[locale])}`
const named = (locale: Locale, { name, seats }: Purchased): string => (seats === null ? name : `${name} (${countSeats(locale, seats)})`)

const german = {
  day: { one: 'Tag', other: 'Tagen' },
  week: { one: 'Woche', other: 'Wochen' },
  month: { one: 'Monat', other: 'Monaten' },
  year: { one: 'Jahr', other: 'Jahren' },
}

const words: { readonly [L in Locale]: Words } = {
  en: {
    product: (parts) => named('en', parts),
    trial: ({ name, interval, count }) =>
      interval === null ? `${name}: trial` : `${name}: trial of ${count} ${plurals.en(count, { one: interval, other: `${interval}s` })}`,
    remaining: (parts) => `${remaining}${named('en', parts)}`,
    lowered_usage: ({ meter, from, to }) => `${meter}, ${from} to ${to}`,
    taken_back: ({ credit }) => `Credit taken back: ${spell('en', credit)}`,
    restored: ({ credit }) => `Credit restored: ${spell('en', credit)}`,
    usage: ({ meter, quantity, credited, corrects, rate, currency, from, to }) => {
      const units = corrects === null ? `${quantity} units` : `corrected from ${corrects} to ${quantity} units`
      return `${meter}: ${units}${credited === '0' ? '' : ` (${credited} credited)`} at ${rate} ${currency}, ${from} to ${to}`
    },
  },
  de: {
    product: (parts) => named('de', parts),
    trial: ({ name, interval, count }) => (interval === null ? `${name}: Testphase` : `${name}: Testphase von ${count} ${plurals.de(count, german[interval])}`),
    remaining: (parts) => `Gutschrift für die Restlaufzeit von ${named('de', parts)}`,
    lowered_usage: ({ meter, from, to }) => `${meter}, ${germanDay(from)} bis ${germanDay(to)}`,
    taken_back: ({ credit }) => `Zurückgenommen: ${spell('de', credit)}`,
    restored: ({ credit }) => `Wiederhergestellt: ${spell('de', credit)}`,
    usage: ({ meter, quantity, credited, corrects, rate, currency, from, to }) => {
      const shown = `${germanNumber(quantity)} ${plurals.de(Number(quantity), { one: 'Einheit', other: 'Einheiten' })}`
      const units = corrects === null ? shown : `korrigiert von ${germanNumber(corrects)} auf ${shown}`
      const free = credited === '0' ? '' : ` (davon ${germanNumber(credited)} inklusive)`
      return `${meter}: ${units}${free} zu je ${germanNumber(rate)} ${currency}, ${germanDay(from)} bis ${germanDay(to)}`
    },
  },
}

const spell = (locale: Locale, parts: LabelParts): string => (words[locale][parts.type] as (parts: LabelParts) => string)(parts)
