import { z } from 'zod'
import { accountLimits, filter, merchant, NotPermitted, operation, prose, resource, ResourceNotFound, stamps, uuid } from '../kit/index.ts'
import { everyMetric } from './metric-slugs.ts'

/** The most metrics of one dashboard. */
const mostMetrics = 10

const name = () => prose(256).min(1).describe('The name for people.')
const chosen = () => z.array(z.enum(everyMetric)).max(mostMetrics).describe(`The metrics, in order. At most ${mostMetrics}.`)

/** A named choice of metrics, shared by the people of the organization. */
export const MetricDashboard = resource('MetricDashboardSchema', {
  ...stamps,
  id: uuid(),
  name: z.string(),
  metrics: z.array(z.string()),
  organization_id: uuid(),
})
export type MetricDashboard = z.output<typeof MetricDashboard>

export const MetricDashboardCreate = resource('MetricDashboardCreate', {
  name: name(),
  metrics: chosen().optional(),
  organization_id: uuid().nullish().describe('Required, unless the credential is an organization token.'),
})

export const MetricDashboardUpdate = resource('MetricDashboardUpdate', { name: name().nullish(), metrics: chosen().nullish() })

const byId = z.object({ id: uuid() })
const read = merchant('metrics:read')
const write = merchant('metrics:write')

export const listMetricDashboards = operation({
  id: 'metrics:list_dashboards',
  method: 'GET',
  path: '/v1/metrics/dashboards',
  summary: 'List dashboards',
  description: `All dashboards, oldest first. An organization has at most ${accountLimits.metric_dashboards_per_organization}.`,
  access: read,
  costs: 'none',
  query: z.object({ organization_id: filter(uuid()) }),
  returns: z.array(MetricDashboard),
  fails: [],
})

export const createMetricDashboard = operation({
  id: 'metrics:create_dashboard',
  method: 'POST',
  path: '/v1/metrics/dashboards',
  summary: 'Create a dashboard',
  access: write,
  costs: 'none',
  body: MetricDashboardCreate,
  returns: MetricDashboard,
  status: 201,
  fails: [NotPermitted],
})

export const getMetricDashboard = operation({
  id: 'metrics:get_dashboard',
  method: 'GET',
  path: '/v1/metrics/dashboards/{id}',
  summary: 'Get a dashboard',
  access: read,
  costs: 'none',
  params: byId,
  returns: MetricDashboard,
  fails: [NotPermitted, ResourceNotFound],
})

export const updateMetricDashboard = operation({
  id: 'metrics:update_dashboard',
  method: 'PATCH',
  path: '/v1/metrics/dashboards/{id}',
  summary: 'Change a dashboard',
  access: write,
  costs: 'none',
  params: byId,
  body: MetricDashboardUpdate,
  returns: MetricDashboard,
  fails: [NotPermitted, ResourceNotFound],
})

export const deleteMetricDashboard = operation({
  id: 'metrics:delete_dashboard',
  method: 'DELETE',
  path: '/v1/metrics/dashboards/{id}',
  summary: 'Delete a dashboard',
  access: write,
  costs: 'none',
  params: byId,
  status: 204,
  fails: [NotPermitted, ResourceNotFound],
})
