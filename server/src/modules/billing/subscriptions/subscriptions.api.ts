import { exportSubscriptions, getSubscription, listSubscriptions, paginate } from '@bursar/contract'
import { download } from '../../exports.ts'
import { read, stream } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { subscriptionsExport } from './exporting.sql.ts'
import { listSubscriptions as list } from '../records/subscription-lists.sql.ts'
import { requireSubscription, presentSubscriptions, presentWithUsage } from '../records/subscriptions.ts'

export const operations = [
  read(listSubscriptions, async (db, { scope, query }) => {
    const readable = confine(scope, 'sales:read')
    const { items, total, next_cursor } = await list(db, readable, query)
    return paginate(query, await presentSubscriptions(db, readable, items), total, next_cursor)
  }),
  stream(exportSubscriptions, (run, { scope, query, reply }) =>
    download(run, reply, subscriptionsExport(confine(scope, 'sales:read'), query), 'subscriptions', [query.started_after, query.started_before]),
  ),
  read(getSubscription, async (db, { scope, params }) => presentWithUsage(db, scope, await requireSubscription(db, scope, params.id))),
]
