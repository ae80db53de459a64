import { getMetrics, getOrganization } from '@bursar/contract'
import { Link } from '@tanstack/react-router'
import { lazy, Suspense, useMemo } from 'react'
import { useRead } from '../../app/api.ts'
import { island } from '../../app/island.ts'
import { t } from '../../app/texts.ts'
import { money, shortMoney, zone } from '../../kit/format.ts'
import { Panel } from '../../kit/layout.tsx'
import { Loaded, Skeleton } from '../../kit/states.tsx'

const Chart = lazy(() => import('../../kit/chart.tsx').then((module) => ({ default: module.Chart })))

const shownDays = 30
/** The date of the reader's time zone, as the API reads it. */
const dateOf = (at: Date) => new Intl.DateTimeFormat('sv', { timeZone: zone }).format(at)
const names = new Intl.DateTimeFormat(island.locale, { day: 'numeric', month: 'short', timeZone: zone })

/** The revenue of the last 30 days. Its numbers are those of the metrics API. */
export const Revenue = () => {
  const query = useMemo(() => {
    const now = new Date()
    const first = new Date(now)
    first.setDate(first.getDate() - shownDays + 1)
    return { start_date: dateOf(first), end_date: dateOf(now), timezone: zone, interval: 'day' as const, metrics: ['revenue' as const, 'net_revenue' as const] }
  }, [])
  const read = useRead(getMetrics, { query: { ...query, organization_id: [island.organization.id] } }, { every: 60_000 })
  const organization = useRead(getOrganization, { params: { id: island.organization.id } })
  const currency = organization.data?.default_presentment_currency
  const r = t.home.revenue
  return (
    <Panel title={r.title} actions={<Link to={'/metrics/revenue' as '/'}>{r.more}</Link>}>
      <Loaded read={read} lines={4}>
        {({ periods, totals, amounts_left_out }) =>
          currency === undefined ? (
            <Skeleton lines={4} />
          ) : (
            <>
              <Suspense fallback={<Skeleton lines={4} />}>
                <Chart
                  title={r.about(money(totals.revenue ?? 0, currency), money(totals.net_revenue ?? 0, currency))}
                  kind="line"
                  valueName={r.title}
                  format={(value) => money(value, currency)}
                  axis={(value) => shortMoney(value, currency)}
                  points={periods.map(({ timestamp, revenue }) => ({ label: names.format(new Date(timestamp)), value: revenue ?? 0 }))}
                />
              </Suspense>
              {amounts_left_out > 0 && <p className="soft">{r.leftOut(amounts_left_out, currency.toUpperCase())}</p>}
            </>
          )
        }
      </Loaded>
    </Panel>
  )
}
