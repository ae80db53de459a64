import { getSubscription, listSubscriptions, paginate } from '@bursar/contract'
import { read } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { listSubscriptions as list } from './subscriptions.sql.ts'
import { find, presentSubscription } from './subscriptions.ts'

export const operations = [
  read(listSubscriptions, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await list(db, confine(reach, 'sales:read'), query)
    return paginate(query, items.map(presentSubscription), total, next_cursor)
  }),
  read(getSubscription, async (db, { reach, params }) => presentSubscription(await find(db, reach, params.id))),
]
