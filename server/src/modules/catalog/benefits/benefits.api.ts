import { createBenefit, deleteBenefit, getBenefit, listBenefits, paginate, ResourceNotFound, updateBenefit } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { confine, permit } from '../../organizations/index.ts'
import { findBenefit, listBenefits as list } from './benefits.sql.ts'
import { create, present, remove, update } from './benefits.ts'

export const operations = [
  read(listBenefits, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await list(db, confine(reach, 'products:read'), query)
    return paginate(query, items.map(present), total, next_cursor)
  }),
  write(createBenefit, async (tx, { reach, body, platform }) => present(await create(tx, reach, platform, body))),
  read(getBenefit, async (db, { reach, params }) => {
    const benefit = await findBenefit(db, reach, params.id)
    if (!benefit) throw new ResourceNotFound()
    permit(reach, benefit.organization_id, 'products:read')
    return present(benefit)
  }),
  write(updateBenefit, async (tx, { reach, params, body, platform }) => present(await update(tx, reach, platform, params.id, body))),
  write(deleteBenefit, (tx, { reach, params }) => remove(tx, reach, params.id)),
]
