import type { Locale, MailCard, MailForecast, MailFrame, MailPeriod, MailPrice, MailUsage, Money } from '@bursar/views'
import { speak, unitPrice, usagePrice } from '../kit/index.ts'
import { parts, type Row } from './content.ts'

const words = {
  en: {
    until: (start: string, end: string) => `${start} to ${end}`,
    ending: (brand: string, last4: string) => `${brand} ending in ${last4}`,
    card: 'Card',
    every: (price: string, interval: string) => `${price} ${interval}`,
    discount: 'Discount',
    tax: 'Tax',
    with_tax: 'included',
    before_tax: 'added to it',
    due: (day: string) => `Due on ${day}`,
    free: 'Free',
  },
  de: {
    until: (start: string, end: string) => `${start} bis ${end}`,
    ending: (brand: string, last4: string) => `${brand} mit Endziffern ${last4}`,
    card: 'Karte',
    every: (price: string, interval: string) => `${price} ${interval}`,
    discount: 'Rabatt',
    tax: 'Steuer',
    with_tax: 'enthalten',
    before_tax: 'kommt hinzu',
    due: (day: string) => `Fällig am ${day}`,
    free: 'Kostenlos',
  },
}

const tags: Record<Locale, string> = { en: 'en-GB', de: 'de-DE' }

/** Formats the data of mails in the reader's language. Dates are in UTC, because periods are counted in UTC. */
export const formatsOf = ({ locale }: Pick<MailFrame, 'locale'>) => {
  const { t, money } = speak({ locale })
  const w = words[locale]
  const days = new Intl.DateTimeFormat(tags[locale], { dateStyle: 'long', timeZone: 'UTC' })
  const moments = new Intl.DateTimeFormat(tags[locale], { dateStyle: 'long', timeStyle: 'short', timeZone: 'UTC' })
  const day = (at: Date) => days.format(at)
  const amount = (given: Money) => money(given.amount, given.currency)
  /** Formats decimal text with all its decimal places. */
  const decimal = (value: string): string => {
    const [whole = '', fraction] = value.split('.')
    const grouped = new Intl.NumberFormat(locale, { useGrouping: 'always' }).format(BigInt(whole))
    return fraction === undefined ? grouped : `${grouped}${locale === 'de' ? ',' : '.'}${fraction}`
  }
  const usage = (one: MailUsage): Row => ({ label: one.meter, value: usagePrice({ locale }, one, one, one) })
  return {
    money,
    amount,
    day,
    decimal,
    moment: (at: Date) => `${moments.format(at)} UTC`,
    period: ({ start, end }: MailPeriod) => w.until(day(start), day(end)),
    card: ({ brand, last4 }: MailCard) => w.ending(brand === 'unknown' ? w.card : brand.charAt(0).toUpperCase() + brand.slice(1), last4),
    /** The price of each interval, for example `$10.00 a month`. */
    price: (given: MailPrice) => (given.amount === 0 ? w.free : w.every(amount(given), t.per[given.interval](given.interval_count))),
    unitPrice: (price: { unit_amount: string; currency: string }, meter: Parameters<typeof unitPrice>[2]) => unitPrice({ locale }, price, meter),
    /** The rows that state what the next period costs. */
    forecast: ({ at, amount: due, currency, discount, tax_included, usage: rates }: MailForecast): Row[] =>
      parts<Row>(
        due > 0 && { label: w.due(day(at)), value: money(due, currency), tone: 'total' },
        due > 0 && discount !== null && { label: w.discount, value: discount },
        due > 0 && { label: w.tax, value: tax_included ? w.with_tax : w.before_tax },
        ...rates.map(usage),
      ),
  }
}
export type Formats = ReturnType<typeof formatsOf>
