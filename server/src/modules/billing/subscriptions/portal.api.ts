import { cancelPortalSubscription, getPortalSubscription, listPortalSubscriptions, paginate, updatePortalSubscription } from '@bursar/contract'
import { read, steps, write } from '../../handlers.ts'
import { allow } from '../../customers/index.ts'
import { proceed } from './changing.ts'
import { beginOwn, cancelOwn, findOwn, showOwn } from './portal.ts'
import { listSubscriptionsOf } from './subscriptions.sql.ts'

export const operations = [
  read(listPortalSubscriptions, async (db, { actor, reach, query }) => {
    allow(actor.role, 'billing:read')
    const { items, total, next_cursor } = await listSubscriptionsOf(db, reach, actor.customer_id, query)
    return paginate(query, await showOwn(db, reach, actor, items), total, next_cursor)
  }),
  read(getPortalSubscription, async (db, { actor, reach, params }) => {
    allow(actor.role, 'billing:read')
    return (await showOwn(db, reach, actor, [await findOwn(db, reach, actor, params.id)]))[0]!
  }),
  steps(updatePortalSubscription, {
    begin: (tx, { actor, reach, params, body, platform }) => beginOwn(tx, reach, platform, actor, params.id, body),
    proceed: (means, { actor, reach }, intended) =>
      proceed(means, intended, async (db) => (await showOwn(db, reach, actor, [await findOwn(db, reach, actor, intended.subscription_id)]))[0]!),
  }),
  write(cancelPortalSubscription, async (tx, { actor, reach, params, platform }) => {
    const canceled = await cancelOwn(tx, reach, platform, actor, params.id)
    return (await showOwn(tx, reach, actor, [canceled]))[0]!
  }),
]
