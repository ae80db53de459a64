import {
  cancelPortalSubscription,
  getPortalSubscription,
  listClaimedSubscriptions,
  listPortalSubscriptions,
  paginate,
  updatePortalSubscription,
} from '@bursar/contract'
import type { PortalActor, TenantScope } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { read, multiStep, write } from '../../handlers.ts'
import { allow } from '../../customers/index.ts'
import { finish, proceed } from './changing.ts'
import { beginOwn, cancelOwn, findOwn, presentOwn } from './portal.ts'
import { listSubscriptionsOf, listSubscriptionsSeating } from '../records/subscription-lists.sql.ts'

const show = async (db: Db, scope: TenantScope, actor: PortalActor, id: string) =>
  (await presentOwn(db, scope, actor, [await findOwn(db, scope, actor, id)]))[0]!

export const operations = [
  read(listPortalSubscriptions, async (db, { actor, scope, query }) => {
    allow(actor.role, 'billing:read')
    const { items, total, next_cursor } = await listSubscriptionsOf(db, scope, actor.customer_id, query)
    return paginate(query, await presentOwn(db, scope, actor, items), total, next_cursor)
  }),
  read(getPortalSubscription, async (db, { actor, scope, params }) => {
    allow(actor.role, 'billing:read')
    return show(db, scope, actor, params.id)
  }),
  read(listClaimedSubscriptions, async (db, { actor, scope, query }) => {
    const { items, total, next_cursor } = await listSubscriptionsSeating(db, scope, actor, query)
    return paginate(query, await presentOwn(db, scope, actor, items), total, next_cursor)
  }),
  multiStep(updatePortalSubscription, {
    begin: async (tx, { actor, scope, params, body, platform }) =>
      finish(tx, await beginOwn(tx, scope, platform, actor, params.id, body), (db) => show(db, scope, actor, params.id)),
    proceed: (deps, { actor, scope }, intended) => proceed(deps, intended, (db) => show(db, scope, actor, intended.subscription_id)),
  }),
  write(
    cancelPortalSubscription,
    async (tx, { actor, scope, params, platform }) => (await presentOwn(tx, scope, actor, [await cancelOwn(tx, scope, platform, actor, params.id)]))[0]!,
  ),
]
