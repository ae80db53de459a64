import { createSubscription, revokeSubscription, updateSubscription } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { multiStep, write } from '../../handlers.ts'
import { permit } from '../../organizations/index.ts'
import * as changing from './changing.ts'
import * as creating from './creating.ts'
import { requireSubscription, presentWithUsage } from '../records/subscriptions.ts'

const show = async (db: Db, scope: TenantScope, id: string) => presentWithUsage(db, scope, await requireSubscription(db, scope, id))

export const operations = [
  write(createSubscription, async (tx, { scope, body }) => presentWithUsage(tx, scope, await creating.createSubscription(tx, scope, body))),
  multiStep(updateSubscription, {
    begin: async (tx, { scope, params, body, platform }) =>
      changing.finish(tx, await changing.begin(tx, scope, platform, params.id, body), (db) => show(db, scope, params.id)),
    proceed: (deps, { scope }, intended) => changing.proceed(deps, intended, (db) => show(db, scope, intended.subscription_id)),
  }),
  write(revokeSubscription, async (tx, { scope, params, platform }) => {
    const turn = await changing.requireLockedSubscription(tx, scope, platform, params.id)
    permit(scope, turn.subscription.organization_id, 'sales:manage')
    changing.refusePaying(turn)
    return presentWithUsage(tx, scope, await changing.revokeSubscription(turn, null, null))
  }),
]
