import { createBenefit, deleteBenefit, getBenefit, listBenefits, paginate, ResourceNotFound, updateBenefit } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { confine, permit } from '../../organizations/index.ts'
import { findBenefit, listBenefits as list } from './benefits.sql.ts'
import * as benefits from './benefits.ts'

export const operations = [
  read(listBenefits, async (db, { scope, query }) => {
    const { items, total, next_cursor } = await list(db, confine(scope, 'products:read'), query)
    return paginate(query, items.map(benefits.presentBenefit), total, next_cursor)
  }),
  write(createBenefit, async (tx, { scope, body, platform }) => benefits.presentBenefit(await benefits.createBenefit(tx, scope, platform, body))),
  read(getBenefit, async (db, { scope, params }) => {
    const benefit = await findBenefit(db, scope, params.id)
    if (!benefit) throw new ResourceNotFound()
    permit(scope, benefit.organization_id, 'products:read')
    return benefits.presentBenefit(benefit)
  }),
  write(updateBenefit, async (tx, { scope, params, body, platform }) =>
    benefits.presentBenefit(await benefits.updateBenefit(tx, scope, platform, params.id, body)),
  ),
  write(deleteBenefit, (tx, { scope, params }) => benefits.deleteBenefit(tx, scope, params.id)),
]
