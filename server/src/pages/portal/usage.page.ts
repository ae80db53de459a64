import { getPortalUsage } from '@bursar/contract'
import type { PortalUsage, PortalUsageMeter } from '@bursar/views'
import { csvOf, textCell } from '../../kernel/csv.ts'
import type { Page, PageAnswer, Platform } from '../../modules/handlers.ts'
import { found, problem } from '../visits.ts'
import type { Visit } from './entering.ts'
import { pagesAt } from './looking.ts'

const days = 30

/** The number of meters whose days one page shows. More would make the page too large for a phone. */
const mostPlots = 8

const isId = (text: string | null | undefined): text is string => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text ?? '')

/** Removes the days of all meters but the first ones. The page links to the days of the others. */
export const withFewPlots = (usage: PortalUsage): PortalUsage => ({
  ...usage,
  meters: usage.meters.map((meter, at) => (at < mostPlots ? meter : { ...meter, days: [] })),
})

/** Loads the usage of the last days, in the time zone of the address. A zone that the API refuses is replaced by UTC. */
const usageOf = async ({ api, call }: Visit, meter_id: readonly string[] = []): Promise<PortalUsage> => {
  const timezone = call.query.get('timezone') ?? 'UTC'
  const asked = found(await api.send(getPortalUsage, { query: { days, timezone, meter_id: [...meter_id] } }))
  return asked ?? api.call(getPortalUsage, { query: { days, meter_id: [...meter_id] } })
}

/** Writes the days of a meter as CSV. */
export const usageCsv = ({ timezone }: Pick<PortalUsage, 'timezone'>, { name, days: quantities }: Pick<PortalUsageMeter, 'name' | 'days'>): string => {
  const day = new Intl.DateTimeFormat('en-CA', { timeZone: timezone === 'Factory' ? 'UTC' : timezone, dateStyle: 'short' })
  return csvOf([['Day', textCell(name)], ...quantities.map(({ timestamp, quantity }) => [day.format(new Date(timestamp)), String(quantity)])])
}

/** The page for usage and its cost, and the daily usage of each meter as a file. */
export const usagePages = (platform: Platform): Page[] => {
  /** Answers 404 if the seller does not show usage to customers. */
  const ifShown = (show: (visit: Visit) => Promise<PageAnswer>) => (visit: Visit) =>
    visit.seller.customer_portal_settings.usage.show ? show(visit) : Promise.resolve(problem(404, 'not_found', visit.shell.seller))
  return [
    ...pagesAt(
      platform,
      '/usage',
      ifShown(async (visit) => {
        const { shell, call } = visit
        const only = call.query.get('meter_id')
        const usage = withFewPlots(await usageOf(visit, isId(only) ? [only] : []))
        const search = new URLSearchParams({ ...(isId(only) ? { meter_id: only } : {}), ...(usage.timezone === 'UTC' ? {} : { timezone: usage.timezone }) })
        return {
          view: { kind: 'portal-usage', shell, usage, single: isId(only) },
          script: true,
          here: `/${shell.seller.slug}/portal/usage${search.size > 0 ? `?${search.toString()}` : ''}`,
        }
      }),
    ),
    ...pagesAt(
      platform,
      '/usage/:id/csv',
      ifShown(async (visit) => {
        const { id } = visit.call.params
        if (!isId(id)) return problem(404, 'not_found', visit.shell.seller)
        const usage = await usageOf(visit, [id])
        const [meter] = usage.meters
        return meter
          ? { file: { name: `usage-${meter.days.at(-1)!.timestamp.slice(0, 10)}.csv`, type: 'text/csv', text: usageCsv(usage, meter) } }
          : problem(404, 'not_found', visit.shell.seller)
      }),
    ),
  ]
}
