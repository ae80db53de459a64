import { InvalidRequest, paginate, window, type listMetricFacts, type MetricFacts, type MetricSlug, type Parsed } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { numberOf } from '../../../kernel/decimals.ts'
import type { WallClock } from '../../../platform/clock.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { figures, metricsBehind } from '../calc/figures.ts'
import { bucketAround } from './ranges.ts'
import { listFacts } from './facts.sql.ts'
import { questionOf } from './metrics.ts'

/** Lists the facts behind one interval of a metric. A derived metric has none of its own. */
export const factsOf = async (
  db: Db,
  clock: WallClock,
  scope: TenantScope,
  slug: MetricSlug,
  query: Parsed<typeof listMetricFacts, 'query'>,
): Promise<MetricFacts> => {
  const figure = figures[slug]
  if (figure.kind === 'derived' || figure.kind === 'trailing')
    throw new InvalidRequest({
      loc: ['path', 'slug'],
      msg: `The metric ${slug} is computed from others and has no facts of its own. Ask for the facts of: ${metricsBehind(slug).join(', ')}.`,
      type: 'value_error',
      input: slug,
    })
  const bucket = bucketAround(query.timestamp, query)
  const { question, data_through } = await questionOf(db, clock, scope, query)
  const { rows, total, value } = await listFacts(db, question, figure, bucket, window(query))
  const items = rows.map((row) => ({ ...row, value: numberOf(row.value) }))
  return { ...paginate(query, items, total), value: numberOf(value), data_through, currency: question.currency, amounts_left_out: 0 }
}
