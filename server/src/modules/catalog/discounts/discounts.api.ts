import { createDiscount, deleteDiscount, getDiscount, listDiscounts, paginate, ResourceNotFound, updateDiscount } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { confine, permit } from '../../organizations/index.ts'
import { findDiscount, listDiscounts as list } from './discounts.sql.ts'
import * as discounts from './discounts.ts'

export const operations = [
  read(listDiscounts, async (db, { scope, query }) => {
    const { items, total, next_cursor } = await list(db, confine(scope, 'products:read'), query)
    return paginate(query, items.map(discounts.presentDiscount), total, next_cursor)
  }),
  write(createDiscount, async (tx, { scope, body }) => discounts.presentDiscount(await discounts.createDiscount(tx, scope, body))),
  read(getDiscount, async (db, { scope, params }) => {
    const discount = await findDiscount(db, scope, params.id)
    if (!discount) throw new ResourceNotFound()
    permit(scope, discount.organization_id, 'products:read')
    return discounts.presentDiscount(discount)
  }),
  write(updateDiscount, async (tx, { scope, params, body }) => discounts.presentDiscount(await discounts.updateDiscount(tx, scope, params.id, body))),
  write(deleteDiscount, (tx, { scope, params }) => discounts.deleteDiscount(tx, scope, params.id)),
]
