import { previewPortalSubscription, previewSubscription, type SubscriptionPreviewRequest } from '@bursar/contract'
import { dryRun } from '../../handlers.ts'
import { permit } from '../../organizations/index.ts'
import { requireLockedSubscription, refusePaying } from './changing.ts'
import { changeOwn, holdOwn } from './portal.ts'
import { preview } from './previewing.ts'
import { changeProduct, changeSeats, nothingToPay, type Begun } from './switching.ts'
import type { ChangeContext } from './trials.ts'

const asThingsAre = async (): Promise<Begun> => nothingToPay
const changeAs = (asking: ChangeContext, body: SubscriptionPreviewRequest): Promise<Begun> => {
  if ('seats' in body) return changeSeats(asking, body.seats, body.proration_behavior)
  return body.product_id ? changeProduct(asking, body.product_id, body.proration_behavior) : asThingsAre()
}

export const operations = [
  dryRun(previewSubscription, async (tx, { scope, params, body }, deps) => {
    const asking = await requireLockedSubscription(tx, scope, deps.platform, params.id)
    permit(scope, asking.subscription.organization_id, 'sales:manage')
    refusePaying(asking)
    return preview(asking, body, () => changeAs(asking, body))
  }),
  dryRun(previewPortalSubscription, async (tx, { actor, scope, params, body }, deps) => {
    const asking = await holdOwn(tx, scope, deps.platform, actor, params.id)
    refusePaying(asking)
    return preview(asking, body, () =>
      'seats' in body ? changeOwn(asking, body) : body.product_id ? changeOwn(asking, { product_id: body.product_id }) : asThingsAre(),
    )
  }),
]
