import assert from 'node:assert/strict'
import { RFCDate } from 'polar-sdk-strict/types/rfcdate.js'
import { everyMetric } from '@bursar/contract'
import type { Story } from '../run.ts'

/** Reads metrics as a chart and as a file, and manages dashboards, once with each client. */
export const insights: Story = async ({ world, clients }) => {
  const organization = await world.organization()
  const token = (await organization.token()).secret.reveal()
  const current = clients.current(token)
  const strict = clients.strict(token)
  await current.events.ingest({
    events: [{ name: 'call', external_customer_id: 'metrics', metadata: { _cost: { amount: 1.5, currency: 'usd' } } }],
  })
  const today = world.clock.wall().toISOString().slice(0, 10)
  const range = { start_date: today, end_date: today, interval: 'day' as const }

  const chart = await current.metrics.get({ ...range, timezone: 'UTC' })
  assert.deepEqual([chart.periods.length, chart.totals.costs, chart.totals.active_user_by_event], [1, 1.5, 1])
  assert.deepEqual(Object.keys(chart.metrics), everyMetric)
  assert.match(await current.metrics.export({ ...range, metrics: ['costs'] }), /^"Timestamp","Costs"\r\n\S+,1\.5\r\n$/)
  assert.equal((await current.metrics.limits()).intervals.day.max_days, 366)
  const dashboard = await current.metrics.createDashboard({ name: 'Money', metrics: ['revenue'] })
  assert.deepEqual(await current.metrics.listDashboards(), [dashboard])
  assert.equal((await current.metrics.updateDashboard(dashboard.id, { name: 'Costs', metrics: ['costs'] })).name, 'Costs')
  assert.deepEqual((await current.metrics.getDashboard(dashboard.id)).metrics, ['costs'])
  await current.metrics.deleteDashboard(dashboard.id)

  const asked = { startDate: new RFCDate(today), endDate: new RFCDate(today), interval: 'day' as const }
  const same = await strict.metrics.get(asked)
  assert.deepEqual([same.periods.length, same.totals.costs, same.metrics.costs?.type], [1, 1.5, 'currency_sub_cent'])
  assert.match(String(await strict.metrics.export({ ...asked, metrics: ['costs'] })), /^"Timestamp","Costs"\r\n/)
  assert.equal((await strict.metrics.limits()).intervals.hour.maxDays, 7)
  const other = await strict.metrics.createDashboard({ name: 'Seats', metrics: ['seats_total'] })
  assert.equal((await strict.metrics.listDashboards({})).length, 1)
  assert.deepEqual((await strict.metrics.getDashboard({ id: other.id })).metrics, ['seats_total'])
  assert.equal((await strict.metrics.updateDashboard({ id: other.id, metricDashboardUpdate: { metrics: [] } })).name, 'Seats')
  await strict.metrics.deleteDashboard({ id: other.id })
}
