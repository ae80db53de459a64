import { listMetricDashboards, type MetricSlug } from '@bursar/contract'
import { Link, useNavigate } from '@tanstack/react-router'
import { Info, Plus } from 'lucide-react'
import { lazy, Suspense, useState } from 'react'
import { useRead } from '../../app/api.ts'
import { may } from '../../app/island.ts'
import { one, useSearch, useSetSearch, type Search } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { Popover } from '../../kit/bits.tsx'
import { Head, Panel } from '../../kit/layout.tsx'
import { Failed, Skeleton } from '../../kit/states.tsx'
import { Controls } from './controls.tsx'
import { Figure, Total } from './figure.tsx'
import { everySlug, formatOf, isSlug, saveCsv, useAsked, useMetrics, type Answer, type Board } from './view.ts'

const Edit = lazy(() => import('./edit.tsx'))
const Remove = lazy(() => import('./remove.tsx'))

/** The metrics that a new organization sees first. */
const usual: readonly MetricSlug[] = [
  'revenue',
  'net_revenue',
  'monthly_recurring_revenue',
  'active_subscriptions',
  'orders',
  'new_subscriptions',
  'canceled_subscriptions',
  'average_order_value',
  'checkouts_conversion',
  'seats_total',
]

/** The dashboards of the organization. Without one in the address: an overview, or the list of all metrics. */
export const Metrics = () => {
  const search = useSearch()
  const chosen = one(search.dashboard)
  const boards = useRead(listMetricDashboards, { query: {} })
  const board = boards.data?.find(({ id }) => id === chosen)
  const [open, setOpen] = useState<{ readonly act: 'create' } | { readonly act: 'change' | 'remove'; readonly board: Board } | null>(null)
  const isAll = chosen === 'all'
  const slugs = isAll ? everySlug : chosen === undefined ? usual : (board?.metrics.filter(isSlug) ?? [])
  const asked = useAsked()
  const { now, before } = useMetrics(asked, slugs)
  const manages = may('analytics:manage')
  const data = now.data && slugs.every((slug) => now.data!.metrics[slug]) ? now.data : undefined
  const earlier = asked.previous && before.data && !before.isPlaceholder ? before.data : undefined
  const close = () => setOpen(null)
  return (
    <>
      <Head title={t.metrics.title}>
        {slugs.length > 0 && (
          <button type="button" onClick={() => void saveCsv(asked, slugs, 'metrics')}>
            {t.metrics.csv}
          </button>
        )}
        {manages && (
          <button type="button" className="primary" onClick={() => setOpen({ act: 'create' })}>
            <Plus size={14} aria-hidden /> {t.metrics.create}
          </button>
        )}
      </Head>
      <Boards boards={boards.data ?? []} chosen={chosen} />
      <Controls asked={asked} read={data} />
      {board && manages && (
        <div className="actions metric-acts">
          <button type="button" onClick={() => setOpen({ act: 'change', board })}>
            {t.metrics.change}
          </button>
          <button type="button" onClick={() => setOpen({ act: 'remove', board })}>
            {t.metrics.remove}
          </button>
        </div>
      )}
      {boards.error && boards.data === undefined ? (
        <Failed error={boards.error} again={boards.again} />
      ) : chosen !== undefined && !isAll && boards.data && !board ? (
        <State text={t.metrics.missingDashboard} />
      ) : slugs.length === 0 && board ? (
        <State text={t.metrics.emptyDashboard} />
      ) : data === undefined ? (
        now.error ? (
          <Failed error={now.error} again={now.again} />
        ) : (
          <Skeleton lines={12} />
        )
      ) : isAll ? (
        <Every now={data} isBusy={now.isPlaceholder} />
      ) : (
        <div className="metric-grid" aria-busy={now.isPlaceholder}>
          {slugs.map((slug) => (
            <Card key={slug} slug={slug} asked={asked} now={data} before={earlier} />
          ))}
        </div>
      )}
      <Suspense fallback={null}>
        {open?.act === 'create' && <Edit usual={usual} onClose={close} />}
        {open?.act === 'change' && <Edit board={open.board} usual={usual} onClose={close} />}
        {open?.act === 'remove' && <Remove board={open.board} onClose={close} />}
      </Suspense>
    </>
  )
}

const State = ({ text }: { text: string }) => (
  <div className="state">
    <p>{text}</p>
  </div>
)

const Boards = ({ boards, chosen }: { boards: readonly Board[]; chosen: string | undefined }) => {
  const setSearch = useSetSearch()
  const all: readonly (readonly [string | undefined, string])[] = [
    [undefined, t.metrics.overview],
    ...boards.map(({ id, name }) => [id, name] as const),
    ['all', t.metrics.every],
  ]
  return (
    <div className="views metric-boards" role="group" aria-label={t.metrics.dashboards}>
      {all.map(([id, name]) => (
        <button key={id ?? ''} type="button" aria-pressed={chosen === id} onClick={() => setSearch({ dashboard: id, table: undefined })}>
          {name}
        </button>
      ))}
    </div>
  )
}

/** The query of the screen of one metric: the range and the filters stay. */
const keeping = (search: Search, more: Search = {}): never => ({ ...search, table: undefined, ...more }) as never

const Card = ({ slug, asked, now, before }: { slug: MetricSlug; asked: ReturnType<typeof useAsked>; now: Answer; before: Answer | undefined }) => {
  const search = useSearch()
  const navigate = useNavigate()
  const { display_name, is } = t.metrics.of[slug]
  return (
    <Panel
      title={display_name}
      actions={
        <Popover
          className="end"
          label={
            <>
              <Info size={14} aria-hidden /> <span className="hidden">{display_name}: </span>
              {t.metrics.definition}
            </>
          }
        >
          <p>{is}</p>
          <Link to={`/metrics/${slug}` as '/'} search={keeping(search)}>
            {t.metrics.open}
            <span className="hidden"> {display_name}</span>
          </Link>
        </Popover>
      }
    >
      <Total slug={slug} now={now} before={before} />
      <Figure
        slug={slug}
        asked={asked}
        now={now}
        before={before}
        size="card"
        onChoose={(bucket) => void navigate({ to: `/metrics/${slug}` as '/', search: keeping(search, { bucket }) })}
      />
    </Panel>
  )
}

/** All metrics with their definitions and totals. */
const Every = ({ now, isBusy }: { now: Answer; isBusy: boolean }) => {
  const search = useSearch()
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label={t.metrics.every} aria-busy={isBusy}>
      <table className="metric-list">
        <thead>
          <tr>
            <th scope="col">{t.metrics.metric}</th>
            <th scope="col" className="amount">
              {t.metrics.total}
            </th>
          </tr>
        </thead>
        <tbody>
          {everySlug.map((slug) => {
            const { display_name, is } = t.metrics.of[slug]
            const total = now.totals[slug] ?? 0
            return (
              <tr key={slug}>
                <th scope="row">
                  <Link to={`/metrics/${slug}` as '/'} search={keeping(search)}>
                    {display_name}
                  </Link>
                  <p className="soft">{is}</p>
                </th>
                <td className="amount">
                  <data value={total}>{formatOf(now.metrics[slug]!.type, now.currency).full(total)}</data>
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}
