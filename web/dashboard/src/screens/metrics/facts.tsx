import { listMetricFacts, type MetricFactResource, type MetricSlug, type MetricUnit } from '@bursar/contract'
import { Link } from '@tanstack/react-router'
import { useRead } from '../../app/api.ts'
import { may } from '../../app/island.ts'
import { one, useSearch, useSetSearch } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { Id } from '../../kit/bits.tsx'
import { Loaded } from '../../kit/states.tsx'
import { formatOf, momentIn, type Asked } from './view.ts'

/** The address of the screen that shows a record. Undefined if no screen shows this kind, or the role may not see it. */
const pathOf = (resource: MetricFactResource, id: string): string | undefined => {
  if (resource === 'order' && may('sales:read')) return `/orders/${id}`
  if (resource === 'customer' && may('customers:read')) return `/customers/${id}`
  return undefined
}

/** The records behind one value, page by page. Their values sum to the value. */
export const MetricFactsOf = ({ slug, asked, bucket, type }: { slug: MetricSlug; asked: Asked; bucket: string; type: MetricUnit }) => {
  const search = useSearch()
  const setSearch = useSetSearch()
  const wanted = Number(one(search.page) ?? 1)
  const page = Number.isInteger(wanted) && wanted > 0 ? wanted : 1
  const { start_date, end_date, interval, timezone } = asked.range
  const query = { timestamp: bucket, interval, timezone, start_date, end_date, ...asked.filters, page, limit: 25 }
  const read = useRead(listMetricFacts, { params: { slug }, query })
  const turn = (to: number) => setSearch({ page: to === 1 ? undefined : String(to) })
  return (
    <Loaded read={read}>
      {({ items, pagination: { total_count, max_page }, value, currency }) => {
        const { full } = formatOf(type, currency)
        if (total_count === 0) return <p className="soft">{t.metrics.noRecords}</p>
        return (
          <div aria-busy={read.isPlaceholder}>
            <p>
              <data value={value}>{t.metrics.sum(total_count, full(value))}</data>
            </p>
            <div className="scroll" tabIndex={0} role="group" aria-label={t.metrics.records}>
              <table className="metric-facts">
                <thead>
                  <tr>
                    <th scope="col">{t.metrics.time}</th>
                    <th scope="col" className="amount">
                      {t.metrics.value}
                    </th>
                    <th scope="col">{t.metrics.record}</th>
                    <th scope="col">{t.metrics.whose}</th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((fact, at) => {
                    const path = pathOf(fact.resource, fact.resource_id)
                    return (
                      <tr key={`${fact.resource_id} ${at}`}>
                        <td>{momentIn(fact.timestamp, asked.range)}</td>
                        <td className="amount">
                          <data value={fact.value}>{full(fact.value)}</data>
                        </td>
                        <td>
                          {path === undefined ? t.metrics.resources[fact.resource] : <Link to={path as '/'}>{t.metrics.resources[fact.resource]}</Link>}{' '}
                          <Id value={fact.resource_id} />
                        </td>
                        <td>
                          {fact.customer_id === null || fact.resource === 'customer' || !may('customers:read') ? (
                            '–'
                          ) : (
                            <Link to={`/customers/${fact.customer_id}` as '/'}>
                              {t.metrics.open}
                              <span className="hidden"> {fact.customer_id}</span>
                            </Link>
                          )}
                        </td>
                      </tr>
                    )
                  })}
                </tbody>
              </table>
            </div>
            {max_page > 1 && (
              <div className="pages">
                <p>{t.metrics.page(page, max_page)}</p>
                <div className="actions">
                  <button type="button" disabled={page <= 1} onClick={() => turn(page - 1)}>
                    {t.table.previous}
                  </button>
                  <button type="button" disabled={page >= max_page} onClick={() => turn(page + 1)}>
                    {t.table.next}
                  </button>
                </div>
              </div>
            )}
          </div>
        )
      }}
    </Loaded>
  )
}
