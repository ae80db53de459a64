import { createSubscription, revokeSubscription, updateSubscription } from '@bursar/contract'
import { steps, write } from '../../handlers.ts'
import { permit } from '../../organizations/index.ts'
import { begin, hold, proceed, refusePaying, revoke } from './changing.ts'
import { create } from './creating.ts'
import { find, presentSubscription } from './subscriptions.ts'

export const operations = [
  write(createSubscription, async (tx, { reach, body }) => presentSubscription(await create(tx, reach, body))),
  steps(updateSubscription, {
    begin: (tx, { reach, params, body, platform }) => begin(tx, reach, platform, params.id, body),
    proceed: (means, { reach }, intended) => proceed(means, intended, async (db) => presentSubscription(await find(db, reach, intended.subscription_id))),
  }),
  write(revokeSubscription, async (tx, { reach, params, platform }) => {
    const turn = await hold(tx, reach, platform, params.id)
    permit(reach, turn.subscription.organization_id, 'sales:manage')
    refusePaying(turn)
    await revoke(turn, null, null)
    return presentSubscription(await find(tx, reach, params.id))
  }),
]
