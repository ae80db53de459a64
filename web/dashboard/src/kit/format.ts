import { exponentsOf } from '@bursar/contract'
import { island } from '../app/island.ts'

const { locale } = island

/** Formats minor units with their currency. */
export const money = (amount: number, currency: string): string => {
  const { wire, display } = exponentsOf(currency)
  const whole = amount % 10 ** Math.max(0, wire - display) === 0
  const digits = whole ? display : wire
  return new Intl.NumberFormat(locale, { style: 'currency', currency, minimumFractionDigits: digits, maximumFractionDigits: digits }).format(
    amount / 10 ** wire,
  )
}

/** Formats an amount in few characters, for an axis. */
export const shortMoney = (amount: number, currency: string): string =>
  new Intl.NumberFormat(locale, { style: 'currency', currency, notation: 'compact', maximumFractionDigits: 1 }).format(
    amount / 10 ** exponentsOf(currency).wire,
  )

const numbers = new Intl.NumberFormat(locale)
export const number = (value: number): string => numbers.format(value)

const percents = new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: 1 })
export const percent = (share: number): string => percents.format(share)

/** The time zone of all times on the screens. */
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone

const days = new Intl.DateTimeFormat(locale, { dateStyle: 'medium' })
const moments = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' })
const exact = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'long' })
export const day = (at: string | Date): string => days.format(new Date(at))
export const moment = (at: string | Date): string => moments.format(new Date(at))
export const exactly = (at: string | Date): string => exact.format(new Date(at))

const relative = new Intl.RelativeTimeFormat(locale, { numeric: 'auto', style: 'long' })
const steps = [
  ['second', 60],
  ['minute', 60],
  ['hour', 24],
  ['day', 7],
] as const
/** Formats a time near now as a distance, for example "3 minutes ago". Undefined if it is more than a week away. */
export const distance = (at: string | Date, now = Date.now()): string | undefined => {
  let value = (new Date(at).getTime() - now) / 1000
  for (const [unit, length] of steps) {
    if (Math.abs(value) < length) return relative.format(Math.round(value), unit)
    value /= length
  }
  return undefined
}

export const bytes = (count: number): string => {
  const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte'] as const
  const at = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, count)) / 3))
  return new Intl.NumberFormat(locale, { style: 'unit', unit: units[at]!, unitDisplay: 'short', maximumFractionDigits: 1 }).format(count / 1000 ** at)
}

export const milliseconds = (count: number): string => new Intl.NumberFormat(locale, { style: 'unit', unit: 'millisecond', unitDisplay: 'short' }).format(count)

export const seconds = (count: number): string => new Intl.NumberFormat(locale, { style: 'unit', unit: 'second', unitDisplay: 'narrow' }).format(count)
