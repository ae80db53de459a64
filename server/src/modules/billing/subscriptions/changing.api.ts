import { createSubscription, revokeSubscription, updateSubscription } from '@bursar/contract'
import { multiStep, write } from '../../handlers.ts'
import { permit } from '../../organizations/index.ts'
import * as changing from './changing.ts'
import * as creating from './creating.ts'
import { requireSubscription, presentSubscription } from '../records/subscriptions.ts'

export const operations = [
  write(createSubscription, async (tx, { scope, body }) => presentSubscription(await creating.createSubscription(tx, scope, body))),
  multiStep(updateSubscription, {
    begin: (tx, { scope, params, body, platform }) => changing.begin(tx, scope, platform, params.id, body),
    proceed: (deps, { scope }, intended) =>
      changing.proceed(deps, intended, async (db) => presentSubscription(await requireSubscription(db, scope, intended.subscription_id))),
  }),
  write(revokeSubscription, async (tx, { scope, params, platform }) => {
    const turn = await changing.requireLockedSubscription(tx, scope, platform, params.id)
    permit(scope, turn.subscription.organization_id, 'sales:manage')
    changing.refusePaying(turn)
    return presentSubscription(await changing.revokeSubscription(turn, null, null))
  }),
]
