import {
  cancelPortalSubscription,
  getPortalSubscription,
  listClaimedSubscriptions,
  listPortalSubscriptions,
  paginate,
  updatePortalSubscription,
} from '@bursar/contract'
import { read, multiStep, write } from '../../handlers.ts'
import { allow } from '../../customers/index.ts'
import { proceed } from './changing.ts'
import { beginOwn, cancelOwn, findOwn, presentOwn } from './portal.ts'
import { listSubscriptionsOf, listSubscriptionsSeating } from '../records/subscription-lists.sql.ts'

export const operations = [
  read(listPortalSubscriptions, async (db, { actor, scope, query }) => {
    allow(actor.role, 'billing:read')
    const { items, total, next_cursor } = await listSubscriptionsOf(db, scope, actor.customer_id, query)
    const shown = items.map((one) => presentOwn(actor, one))
    return paginate(query, shown, total, next_cursor)
  }),
  read(getPortalSubscription, async (db, { actor, scope, params }) => {
    allow(actor.role, 'billing:read')
    return presentOwn(actor, await findOwn(db, scope, actor, params.id))
  }),
  read(listClaimedSubscriptions, async (db, { actor, scope, query }) => {
    const { items, total, next_cursor } = await listSubscriptionsSeating(db, scope, actor, query)
    const shown = items.map((one) => presentOwn(actor, one))
    return paginate(query, shown, total, next_cursor)
  }),
  multiStep(updatePortalSubscription, {
    begin: (tx, { actor, scope, params, body, platform }) => beginOwn(tx, scope, platform, actor, params.id, body),
    proceed: (deps, { actor, scope }, intended) =>
      proceed(deps, intended, async (db) => presentOwn(actor, await findOwn(db, scope, actor, intended.subscription_id))),
  }),
  write(cancelPortalSubscription, async (tx, { actor, scope, params, platform }) => presentOwn(actor, await cancelOwn(tx, scope, platform, actor, params.id))),
]
