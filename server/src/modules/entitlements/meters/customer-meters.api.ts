import { getCustomerMeter, getPortalMeter, getPortalUsage, listCustomerMeters, listPortalMeters, paginate } from '@bursar/contract'
import { job, read, sweep } from '../../handlers.ts'
import { allow } from '../../customers/index.ts'
import { confine } from '../../organizations/index.ts'
import { listCustomerMeters as list, listOwnMeters } from './customer-meters.sql.ts'
import { presentCustomerMeter, presentOwnMeter, requireCustomerMeter, requireOwnMeter, withConsumed } from './customer-meters.ts'
import { ownUsage } from './portal-usage.ts'
import { refreshCustomerMeter } from './refreshing.ts'
import { mailUsageThreshold } from './threshold-mails.ts'

export const operations = [
  read(listCustomerMeters, async (db, { scope, query }) => {
    const readable = confine(scope, 'customers:read')
    const { items, total, next_cursor } = await list(db, readable, query)
    return paginate(query, (await withConsumed(db, readable, items)).map(presentCustomerMeter), total, next_cursor)
  }),
  read(getCustomerMeter, async (db, { scope, params }) =>
    presentCustomerMeter((await withConsumed(db, scope, [await requireCustomerMeter(db, scope, params.id)]))[0]!),
  ),
  read(listPortalMeters, async (db, { actor, scope, query }) => {
    allow(actor.role, 'billing:read')
    const { items, total, next_cursor } = await listOwnMeters(db, scope, actor, query)
    return paginate(query, (await withConsumed(db, scope, items)).map(presentOwnMeter), total, next_cursor)
  }),
  read(getPortalMeter, async (db, { actor, scope, params }) => {
    allow(actor.role, 'billing:read')
    return presentOwnMeter((await withConsumed(db, scope, [await requireOwnMeter(db, scope, actor, params.id)]))[0]!)
  }),
  read(getPortalUsage, async (db, { actor, scope, query, platform }) => {
    allow(actor.role, 'billing:read')
    return ownUsage(db, scope, platform.clock, actor, query)
  }),
]

export const jobs = [job('mail.usage_threshold', mailUsageThreshold)]

export const sweeps = [sweep('entitlements.refresh_meters', (deps, lease) => refreshCustomerMeter(deps, lease))]
