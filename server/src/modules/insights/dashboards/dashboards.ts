import { accountLimits, InvalidRequest, ResourceNotFound, type MetricDashboard, type MetricDashboardCreate, type MetricDashboardUpdate } from '@bursar/contract'
import type { z } from 'zod'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { changeDashboard, countDashboards, insertDashboard, lockDashboard, removeDashboard } from './dashboards.sql.ts'

/** The most dashboards of an organization. They are listed without pages. */
const mostDashboards = accountLimits.metric_dashboards_per_organization

export const createDashboard = async (tx: Tx, scope: TenantScope, body: z.output<typeof MetricDashboardCreate>): Promise<MetricDashboard> => {
  const organization_id = chooseOrganization(scope, body.organization_id ?? undefined)
  permit(scope, organization_id, 'analytics:manage')
  if ((await countDashboards(tx, organization_id)) >= mostDashboards)
    throw new InvalidRequest({
      loc: ['body', 'name'],
      msg: `The organization has ${mostDashboards} dashboards already, which is the maximum. Delete one first.`,
      type: 'value_error',
      input: body.name,
    })
  const { name, metrics = [] } = body
  return insertDashboard(tx, { organization_id, id: newId(tx.clock.wall()), created_at: tx.clock.wall(), modified_at: null, name, metrics })
}

export const updateDashboard = async (tx: Tx, scope: TenantScope, id: string, body: z.output<typeof MetricDashboardUpdate>): Promise<MetricDashboard> =>
  changeDashboard(tx, await hold(tx, scope, id), {
    modified_at: tx.clock.wall(),
    ...(body.name ? { name: body.name } : {}),
    ...(body.metrics ? { metrics: body.metrics } : {}),
  })

export const deleteDashboard = async (tx: Tx, scope: TenantScope, id: string): Promise<void> => removeDashboard(tx, await hold(tx, scope, id))

const hold = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<MetricDashboard>> => {
  const dashboard = await lockDashboard(tx, scope, id)
  if (!dashboard) throw new ResourceNotFound()
  permit(scope, dashboard.organization_id, 'analytics:manage')
  return dashboard
}
