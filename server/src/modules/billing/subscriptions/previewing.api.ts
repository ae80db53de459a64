import { previewPortalSubscription, previewSubscription, type SubscriptionPreviewRequest } from '@bursar/contract'
import { rehearsal } from '../../handlers.ts'
import { permit } from '../../organizations/index.ts'
import { hold, refusePaying } from './changing.ts'
import { changeOwn, holdOwn } from './portal.ts'
import { preview } from './previewing.ts'
import { changeProduct, changeSeats, nothingToPay, type Begun } from './switching.ts'
import type { Asking } from './trials.ts'

const asThingsAre = async (): Promise<Begun> => nothingToPay
const changeAs = (asking: Asking, body: SubscriptionPreviewRequest): Promise<Begun> => {
  if ('seats' in body) return changeSeats(asking, body.seats, body.proration_behavior)
  return body.product_id ? changeProduct(asking, body.product_id, body.proration_behavior) : asThingsAre()
}

export const operations = [
  rehearsal(previewSubscription, async (tx, { reach, params, body }, means) => {
    const asking = await hold(tx, reach, means.platform, params.id)
    permit(reach, asking.subscription.organization_id, 'sales:manage')
    refusePaying(asking)
    return preview(asking, body, () => changeAs(asking, body))
  }),
  rehearsal(previewPortalSubscription, async (tx, { actor, reach, params, body }, means) => {
    const asking = await holdOwn(tx, reach, means.platform, actor, params.id)
    refusePaying(asking)
    return preview(asking, body, () =>
      'seats' in body ? changeOwn(asking, body) : body.product_id ? changeOwn(asking, { product_id: body.product_id }) : asThingsAre(),
    )
  }),
]
