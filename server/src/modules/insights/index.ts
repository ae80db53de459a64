import { periodicTask, type Area } from '../handlers.ts'
import { operations as dashboards } from './dashboards/dashboards.api.ts'
import { operations as explanation } from './explanation/explanation.api.ts'
import { foldMetrics } from './folding/folding.ts'
import { operations as live } from './live/live.api.ts'
import { operations as margins } from './margins/margins.api.ts'
import { operations as metrics } from './metrics/metrics.api.ts'
import { operations as refunds } from './refunds/refunds.api.ts'
import { operations as search } from './search/search.api.ts'
import { operations as timeline } from './timeline/timeline.api.ts'
import { checkMetrics } from './verifying/verifying.ts'

export const area: Area = {
  operations: [...metrics, ...margins, ...dashboards, ...timeline, ...refunds, ...explanation, ...search, ...live],
  jobs: [],
  sweeps: [],
  periodicTasks: [periodicTask('insights.fold', foldMetrics), periodicTask('insights.check', checkMetrics)],
}

export { checkNames, metricDrift, rebuildMetrics, verifyMetrics } from './verifying/verifying.ts'
export { createDashboard } from './dashboards/dashboards.ts'
