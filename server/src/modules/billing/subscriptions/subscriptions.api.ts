import { exportSubscriptions, getSubscription, listSubscriptions, paginate } from '@bursar/contract'
import { download } from '../../exports.ts'
import { read, stream } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { subscriptionsExport } from './exporting.sql.ts'
import { listSubscriptions as list } from './subscriptions.sql.ts'
import { find, presentSubscription } from './subscriptions.ts'

export const operations = [
  read(listSubscriptions, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await list(db, confine(reach, 'sales:read'), query)
    return paginate(query, items.map(presentSubscription), total, next_cursor)
  }),
  stream(exportSubscriptions, (run, { reach, query, reply }) =>
    download(run, reply, subscriptionsExport(confine(reach, 'sales:read'), query), 'subscriptions', [query.started_after, query.started_before]),
  ),
  read(getSubscription, async (db, { reach, params }) => presentSubscription(await find(db, reach, params.id))),
]
