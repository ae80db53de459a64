import { exponentsOf } from '@bursar/contract'
import type { Frame, Locale } from '@bursar/views'
import { de } from './de.ts'
import { en } from './en.ts'

/** The texts of a page in all languages. English defines the keys. A language that lacks a key does not compile. */
export type Texts<T> = { readonly en: T } & { readonly [L in Locale]: NoInfer<T> }

/** The part of a frame that texts and formats depend on. */
export type Spoken = Pick<Frame, 'locale' | 'translate'>

/** Returns the texts in the reader's language. */
export const textsIn = <T>({ locale, translate }: Spoken, texts: Texts<T>): T => (translate ? translate(texts.en) : texts[locale])

/** Returns the texts that all pages share, and formatters for the reader's locale. */
export const speak = (frame: Spoken) => {
  const { locale } = frame
  return {
    t: textsIn(frame, { en, de }),
    date: (at: Date | string) => new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeZone: 'UTC' }).format(new Date(at)),
    /** Formats minor units as the reader expects. A negative amount has a minus sign. */
    money: (amount: number, currency: string) => {
      const { wire, display } = exponentsOf(currency)
      const whole = amount % 10 ** Math.max(0, wire - display) === 0
      return new Intl.NumberFormat(locale, {
        style: 'currency',
        currency,
        minimumFractionDigits: whole ? display : wire,
        maximumFractionDigits: whole ? display : wire,
      }).format(amount / 10 ** wire)
    },
    /** Formats a waiting time, rounded up, for example `12 minutes`. */
    wait: (seconds: number) => {
      const [unit, length] = seconds <= 90 ? (['second', 1] as const) : seconds <= 90 * 60 ? (['minute', 60] as const) : (['hour', 3600] as const)
      return new Intl.NumberFormat(locale, { style: 'unit', unit, unitDisplay: 'long' }).format(Math.ceil(seconds / length))
    },
    number: (value: number) => new Intl.NumberFormat(locale).format(value),
    /** Formats a size, for example `1.5 MB`. */
    size: (bytes: number) => {
      const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte'] as const
      const at = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3))
      return new Intl.NumberFormat(locale, { style: 'unit', unit: units[at]!, unitDisplay: 'short', maximumFractionDigits: 1 }).format(bytes / 1000 ** at)
    },
  }
}
