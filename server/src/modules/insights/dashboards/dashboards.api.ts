import {
  createMetricDashboard,
  deleteMetricDashboard,
  getMetricDashboard,
  listMetricDashboards,
  ResourceNotFound,
  updateMetricDashboard,
} from '@bursar/contract'
import { organizationIds } from '../../../kernel/actors.ts'
import { read, write } from '../../handlers.ts'
import { confine, permit } from '../../organizations/index.ts'
import { findDashboard, listDashboards } from './dashboards.sql.ts'
import * as dashboards from './dashboards.ts'

export const operations = [
  read(listMetricDashboards, (db, { scope, query }) => {
    const readable = confine(scope, 'analytics:read')
    return listDashboards(db, readable, organizationIds(readable, query.organization_id))
  }),
  write(createMetricDashboard, (tx, { scope, body }) => dashboards.createDashboard(tx, scope, body)),
  read(getMetricDashboard, async (db, { scope, params }) => {
    const dashboard = await findDashboard(db, scope, params.id)
    if (!dashboard) throw new ResourceNotFound()
    permit(scope, dashboard.organization_id, 'analytics:read')
    return dashboard
  }),
  write(updateMetricDashboard, (tx, { scope, params, body }) => dashboards.updateDashboard(tx, scope, params.id, body)),
  write(deleteMetricDashboard, (tx, { scope, params }) => dashboards.deleteDashboard(tx, scope, params.id)),
]
