import { createDiscount, deleteDiscount, getDiscount, listDiscounts, paginate, ResourceNotFound, updateDiscount } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { confine, permit } from '../../organizations/index.ts'
import { findDiscount, listDiscounts as list } from './discounts.sql.ts'
import { create, present, remove, update } from './discounts.ts'

export const operations = [
  read(listDiscounts, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await list(db, confine(reach, 'products:read'), query)
    return paginate(query, items.map(present), total, next_cursor)
  }),
  write(createDiscount, async (tx, { reach, body }) => present(await create(tx, reach, body))),
  read(getDiscount, async (db, { reach, params }) => {
    const discount = await findDiscount(db, reach, params.id)
    if (!discount) throw new ResourceNotFound()
    permit(reach, discount.organization_id, 'products:read')
    return present(discount)
  }),
  write(updateDiscount, async (tx, { reach, params, body }) => present(await update(tx, reach, params.id, body))),
  write(deleteDiscount, (tx, { reach, params }) => remove(tx, reach, params.id)),
]
