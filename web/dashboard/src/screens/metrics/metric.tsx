import type { MetricSlug } from '@bursar/contract'
import metricSources from 'contract-data:metricSources'
import { Link, useParams } from '@tanstack/react-router'
import { one, useSearch, useSetSearch, type Search } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { Head, Panel } from '../../kit/layout.tsx'
import { Failed, Skeleton } from '../../kit/states.tsx'
import { Controls } from './controls.tsx'
import { MetricFactsOf } from './facts.tsx'
import { Figure, Total } from './figure.tsx'
import { isSlug, namesOf, useAsked, useMetrics } from './view.ts'

/** One metric with its definition, its values, and the records behind a value. */
export const MetricScreen = () => {
  const { slug } = useParams({ strict: false }) as { slug: string }
  const search = useSearch()
  const crumb = { to: '/metrics', name: t.metrics.title, search: { ...search, bucket: undefined, page: undefined, table: undefined } }
  if (isSlug(slug)) return <Shown key={slug} slug={slug} crumb={crumb} />
  return (
    <>
      <Head title={t.metrics.title} crumb={crumb} />
      <div className="state">
        <p>{t.metrics.unknown}</p>
      </div>
    </>
  )
}

const Shown = ({ slug, crumb }: { slug: MetricSlug; crumb: { to: string; name: string; search: Search } }) => {
  const search = useSearch()
  const setSearch = useSetSearch()
  const asked = useAsked()
  const { now, before } = useMetrics(asked, [slug])
  const { display_name, is } = t.metrics.of[slug]
  const sources: readonly MetricSlug[] | undefined = (metricSources as Partial<Record<MetricSlug, readonly MetricSlug[]>>)[slug]
  const bucket = one(search.bucket)
  const isMoment = bucket !== undefined && !Number.isNaN(Date.parse(bucket))
  const data = now.data?.metrics[slug] ? now.data : undefined
  const earlier = asked.previous && before.data && !before.isPlaceholder ? before.data : undefined
  return (
    <>
      <Head title={display_name} crumb={crumb} />
      <p className="metric-is">{is}</p>
      <Controls asked={asked} read={data} />
      {data === undefined ? (
        now.error ? (
          <Failed error={now.error} again={now.again} />
        ) : (
          <Skeleton lines={10} />
        )
      ) : (
        <div aria-busy={now.isPlaceholder}>
          <Panel title={t.metrics.total}>
            <Total slug={slug} now={data} before={earlier} />
            <Figure slug={slug} asked={asked} now={data} before={earlier} size="full" onChoose={(chosen) => setSearch({ bucket: chosen, page: undefined })} />
          </Panel>
          <Panel title={isMoment ? t.metrics.behind(namesOf(asked.range).label(bucket)) : t.metrics.records}>
            {sources ? (
              <>
                <p className="soft">{t.metrics.noFacts}</p>
                <ul className="rows">
                  {sources.map((source) => (
                    <li key={source}>
                      <Link to={`/metrics/${source}` as '/'} search={{ ...search, page: undefined, table: undefined } as never}>
                        {t.metrics.of[source].display_name}
                      </Link>
                    </li>
                  ))}
                </ul>
              </>
            ) : isMoment ? (
              <MetricFactsOf slug={slug} asked={asked} bucket={bucket} type={data.metrics[slug]!.type} />
            ) : (
              <p className="soft">{t.metrics.choose}</p>
            )}
          </Panel>
        </div>
      )}
    </>
  )
}
