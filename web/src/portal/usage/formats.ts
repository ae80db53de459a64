import type { Frame } from '@bursar/views'

/** Returns formatters for quantities. Long fractions are rounded. */
export const numbersIn = ({ locale }: Frame) => {
  const plain = new Intl.NumberFormat(locale, { maximumFractionDigits: 2 })
  const short = new Intl.NumberFormat(locale, { notation: 'compact', maximumFractionDigits: 1 })
  const share = new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: 0 })
  return { number: (value: number) => plain.format(value), compact: (value: number) => short.format(value), percent: (value: number) => share.format(value) }
}

// The zone `Factory` of the IANA database has the offset of UTC. `Intl` does not know it.
const known = (timeZone: string): string => (timeZone === 'Factory' ? 'UTC' : timeZone)

/** Returns a formatter for the day that begins at a moment. */
export const dayIn = ({ locale }: Frame, timezone: string, style: 'medium' | 'short' = 'medium') => {
  const format = new Intl.DateTimeFormat(locale, {
    timeZone: known(timezone),
    ...(style === 'short' ? { day: 'numeric', month: 'short' } : { dateStyle: 'medium' }),
  })
  return (at: string): string => format.format(new Date(at))
}

export const momentIn = ({ locale }: Frame, timezone: string) => {
  const format = new Intl.DateTimeFormat(locale, { timeZone: known(timezone), dateStyle: 'medium', timeStyle: 'short' })
  return (at: string): string => format.format(new Date(at))
}
