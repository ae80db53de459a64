import type { MetricSlug } from '@bursar/contract'
import { lazy, Suspense, useRef } from 'react'
import { island } from '../../app/island.ts'
import { many, useSearch, useSetSearch } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { percent } from '../../kit/format.ts'
import { savePicture, shownDrawing } from '../../kit/picture.ts'
import { Skeleton } from '../../kit/states.tsx'
import { daysText, formatOf, saveCsv, spotsOf, type Answer, type Asked } from './view.ts'

const Plot = lazy(() => import('./plot.tsx'))

interface Props {
  readonly slug: MetricSlug
  readonly asked: Asked
  readonly now: Answer
  readonly before: Answer | undefined
  readonly size: 'card' | 'full'
  readonly onChoose: (key: string) => void
}

/** The total of a metric, beside that of the period before. */
export const Total = ({ slug, now, before }: Pick<Props, 'slug' | 'now' | 'before'>) => {
  const { full } = formatOf(now.metrics[slug]!.type, now.currency)
  const total = now.totals[slug] ?? 0
  const earlier = before?.totals[slug]
  return (
    <p className="metric-total">
      <strong>
        <data value={total}>{full(total)}</data>
      </strong>
      {earlier !== null && earlier !== undefined && (
        <span className="soft">
          {t.metrics.beforeWas(full(earlier))}
          {earlier > 0 && ` (${total >= earlier ? '+' : '−'}${percent(Math.abs(total - earlier) / earlier)})`}
        </span>
      )}
    </p>
  )
}

/** A metric as a chart or as a table of the same values. The address says which of both. */
export const Figure = ({ slug, asked, now, before, size, onChoose }: Props) => {
  const search = useSearch()
  const setSearch = useSetSearch()
  const chart = useRef<HTMLDivElement>(null)
  const { display_name } = t.metrics.of[slug]
  const { full, short } = formatOf(now.metrics[slug]!.type, now.currency)
  const spots = spotsOf(slug, asked.range, now, before)
  const tables = many(search.table)
  const isTable = tables.includes(slug)
  const savePng = () => {
    const drawing = shownDrawing(chart.current)
    const { start_date, end_date } = asked.range
    const about = `${full(now.totals[slug] ?? 0)} · ${daysText(asked.range)} · ${island.organization.name}`
    if (drawing) void savePicture(drawing, display_name, about, `${slug}-${start_date}-${end_date}`)
  }
  return (
    <>
      <div className="actions metric-tools">
        {spots.length > 1 && (
          <button
            type="button"
            className="quiet"
            aria-pressed={isTable}
            onClick={() => setSearch({ table: isTable ? tables.filter((one) => one !== slug) : [...tables, slug] }, { replace: true })}
          >
            {isTable ? t.chart.asChart : t.chart.asTable}
          </button>
        )}
        <button type="button" className="quiet" onClick={() => void saveCsv(asked, [slug], slug)}>
          {t.metrics.csv}
        </button>
        {!isTable && spots.length > 1 && (
          <button type="button" className="quiet" aria-label={t.metrics.pngOf(display_name)} onClick={() => savePng()}>
            {t.metrics.png}
          </button>
        )}
      </div>
      {isTable || spots.length < 2 ? (
        <div className={size === 'card' ? 'scroll metric-table' : 'scroll'} tabIndex={0} role="group" aria-label={display_name}>
          <table>
            <thead>
              <tr>
                <th scope="col">{t.metrics.interval}</th>
                <th scope="col" className="amount">
                  {t.metrics.value}
                </th>
                {before && (
                  <th scope="col" className="amount">
                    {t.metrics.before}
                  </th>
                )}
              </tr>
            </thead>
            <tbody>
              {spots.map(({ key, label, value, before: earlier }) => (
                <tr key={key}>
                  <th scope="row">
                    <button type="button" className="metric-choice" aria-label={t.metrics.recordsOf(label)} onClick={() => onChoose(key)}>
                      {label}
                    </button>
                  </th>
                  <td className="amount">
                    <data value={value}>{full(value)}</data>
                  </td>
                  {before && <td className="amount soft">{earlier === undefined ? '–' : full(earlier)}</td>}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <div className="chart" ref={chart}>
          <Suspense fallback={<Skeleton lines={3} />}>
            <Plot title={display_name} spots={spots} size={size} full={full} short={short} total={now.totals[slug] ?? 0} onChoose={onChoose} />
          </Suspense>
        </div>
      )}
    </>
  )
}
