import { exponentsOf, exportMetrics, getMetrics, type listMetricDashboards, type MetricSlug, type MetricUnit, type TimeInterval } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import { addressOf } from '@bursar/contract/client'
import { download, useRead, type Read } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { island } from '../../app/island.ts'
import { many, one, useSearch } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { store } from '../../app/waiting.ts'
import { money, percent, zone } from '../../kit/format.ts'
import { toast } from '../../kit/toast.tsx'
import { previousOf, rangeOf, type Preset, type Range } from './ranges.ts'

export const everySlug = Object.keys(t.metrics.of) as MetricSlug[]
export const isSlug = (name: string): name is MetricSlug => Object.hasOwn(t.metrics.of, name)

/** Numbers of a range are read again after this time, so that an open screen follows the sales. */
const refreshed = 60_000

export type Answer = Received<typeof getMetrics>
/** A saved dashboard. */
export type Board = Received<typeof listMetricDashboards>[number]

/** The request in the address: the range, the range before it, and the filters. */
export interface Asked {
  readonly range: Range & { readonly preset: Preset | null }
  readonly previous: Range | undefined
  readonly compares: boolean
  readonly filters: {
    readonly product_id: readonly string[]
    readonly billing_type: readonly ('one_time' | 'recurring')[]
    readonly customer_id: readonly string[]
  }
}

export const useAsked = (): Asked => {
  const search = useSearch()
  const range = rangeOf(search, zone, new Date())
  const compares = one(search.compare) !== 'off'
  return {
    range,
    previous: compares ? previousOf(range) : undefined,
    compares,
    filters: {
      product_id: many(search.product),
      billing_type: many(search.type).filter((type) => type === 'one_time' || type === 'recurring'),
      customer_id: many(search.customer),
    },
  }
}

const daysOf = ({ start_date, end_date, interval, timezone }: Range) => ({ start_date, end_date, interval, timezone })
const queryOf = (range: Range, { filters }: Asked, slugs: readonly MetricSlug[]) => ({ ...daysOf(range), ...filters, metrics: slugs })

/** Reads metrics of the asked range, and of the range before it. */
export const useMetrics = (asked: Asked, slugs: readonly MetricSlug[]): { readonly now: Read<Answer>; readonly before: Read<Answer> } => {
  const query = queryOf(asked.range, asked, slugs)
  useAsCode(getMetrics, { query })
  const now = useRead(getMetrics, { query }, { enabled: slugs.length > 0, every: refreshed })
  const before = useRead(
    getMetrics,
    { query: queryOf(asked.previous ?? asked.range, asked, slugs) },
    { enabled: slugs.length > 0 && asked.previous !== undefined },
  )
  return { now, before }
}

/** Saves metrics of the asked range as the file that the API exports. */
export const saveCsv = async (asked: Asked, slugs: readonly MetricSlug[], name: string): Promise<void> => {
  const answer = await download(addressOf(exportMetrics, { query: queryOf(asked.range, asked, slugs) })).catch(() => undefined)
  if (answer?.ok !== true) return toast(t.metrics.csvFailed)
  const link = document.createElement('a')
  link.href = URL.createObjectURL(await answer.blob())
  link.download = `${name}-${asked.range.start_date}-${asked.range.end_date}.csv`
  link.click()
  URL.revokeObjectURL(link.href)
}

const numbers = new Intl.NumberFormat(island.locale, { maximumFractionDigits: 2 })
const compact = new Intl.NumberFormat(island.locale, { notation: 'compact', maximumFractionDigits: 1 })
/** A cost of a usage event can be a fraction of a cent. */
const finest = 6

/** Formats values of a metric. `short` is for the axis of a chart. */
export const formatOf = (type: MetricUnit, currency: string): { readonly full: (value: number) => string; readonly short: (value: number) => string } => {
  if (type === 'scalar') return { full: (value) => numbers.format(value), short: (value) => compact.format(value) }
  if (type === 'percentage') return { full: percent, short: percent }
  const { wire } = exponentsOf(currency)
  const short = new Intl.NumberFormat(island.locale, { style: 'currency', currency, notation: 'compact', maximumFractionDigits: type === 'currency' ? 1 : 3 })
  const fine = new Intl.NumberFormat(island.locale, { style: 'currency', currency, maximumFractionDigits: finest })
  return {
    full: type === 'currency' ? (value) => money(value, currency) : (value) => fine.format(value / 10 ** wire),
    short: (value) => short.format(value / 10 ** wire),
  }
}

const shapes: Readonly<Record<TimeInterval, readonly [tick: Intl.DateTimeFormatOptions, label: Intl.DateTimeFormatOptions]>> = {
  hour: [
    { hour: '2-digit', minute: '2-digit' },
    { dateStyle: 'medium', timeStyle: 'short' },
  ],
  day: [{ day: 'numeric', month: 'short' }, { dateStyle: 'medium' }],
  week: [{ day: 'numeric', month: 'short' }, { dateStyle: 'medium' }],
  month: [
    { month: 'short', year: '2-digit' },
    { month: 'long', year: 'numeric' },
  ],
  year: [{ year: 'numeric' }, { year: 'numeric' }],
}

/** Names an interval by the clock of its zone: short for the axis of a chart, and in full. */
export const namesOf = ({ interval, timezone: timeZone }: Range): { readonly tick: (at: string) => string; readonly label: (at: string) => string } => {
  const [tick, label] = shapes[interval].map((options) => new Intl.DateTimeFormat(island.locale, { ...options, timeZone })) as [
    Intl.DateTimeFormat,
    Intl.DateTimeFormat,
  ]
  return {
    tick: (at) => tick.format(new Date(at)),
    label: (at) => (interval === 'week' ? t.metrics.weekOf(label.format(new Date(at))) : label.format(new Date(at))),
  }
}

const dates = new Intl.DateTimeFormat(island.locale, { dateStyle: 'medium', timeZone: 'UTC' })
export const daysText = ({ start_date, end_date }: Range): string =>
  t.metrics.days(dates.format(new Date(`${start_date}T00:00:00Z`)), dates.format(new Date(`${end_date}T00:00:00Z`)))

/** Formats a moment by the clock of the asked zone, with the short name of the zone. */
export const momentIn = (at: string, { timezone }: Range): string =>
  new Intl.DateTimeFormat(island.locale, { dateStyle: 'medium', timeStyle: 'long', timeZone: timezone }).format(new Date(at))

export interface Spot {
  readonly key: string
  readonly label: string
  readonly tick: string
  readonly value: number
  readonly before: number | undefined
}

/** The values of a metric by interval, each beside the value of the interval before the range. */
export const spotsOf = (slug: MetricSlug, range: Range, now: Answer, before: Answer | undefined): Spot[] => {
  const names = namesOf(range)
  return now.periods.map((period, at) => ({
    key: period.timestamp,
    label: names.label(period.timestamp),
    tick: names.tick(period.timestamp),
    value: period[slug] ?? 0,
    before: before?.periods[at]?.[slug] ?? undefined,
  }))
}

/** The interval under the pointer or chosen by the arrow keys, in all charts of the screen. */
export const cursor = store<number | null>(null)
