import { exportMetrics, getMetrics, getMetricsLimits, listMetricFacts, metricSlugs, metricsLimits, type MetricSlug } from '@bursar/contract'
import { organizationIds } from '../../../kernel/actors.ts'
import { csvOf, textCell } from '../../../kernel/csv.ts'
import { read } from '../../handlers.ts'
import { scanningReads } from '../../usage/index.ts'
import { factsOf } from './facts.ts'
import { metricsOf } from './metrics.ts'

export const operations = [
  read(getMetrics, (db, { scope, query, platform }) => metricsOf(db, platform.clock, scope, query)),
  read(exportMetrics, async (db, { scope, query, platform, reply }) => {
    const { periods, metrics, data_through, amounts_left_out } = await metricsOf(db, platform.clock, scope, query)
    const chosen = Object.keys(metrics) as MetricSlug[]
    reply['content-disposition'] = `attachment; filename="metrics-${query.start_date}-${query.end_date}.csv"`
    reply['bursar-data-through'] = data_through.toISOString()
    reply['bursar-amounts-left-out'] = String(amounts_left_out)
    return csvOf([
      ['Timestamp', ...chosen.map((slug) => metricSlugs[slug].display_name)].map(textCell),
      ...periods.map((period) => [period.timestamp.toISOString(), ...chosen.map((slug) => String(period[slug]))]),
    ])
  }),
  read(getMetricsLimits, async () => metricsLimits),
  read(listMetricFacts, (db, { scope, params, query, platform }) =>
    scanningReads.run(organizationIds(scope, query.organization_id), () => factsOf(db, platform.clock, scope, params.slug, query)),
  ),
]
