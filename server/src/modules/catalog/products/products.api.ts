import { createProduct, deleteProduct, getProduct, listProducts, paginate, updateProduct, updateProductBenefits } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { listProducts as list } from './products.sql.ts'
import { create, get, present, remove, setBenefits, update } from './products.ts'

export const operations = [
  read(listProducts, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await list(db, confine(reach, 'products:read'), query)
    return paginate(query, items.map(present), total, next_cursor)
  }),
  write(createProduct, async (tx, { reach, body }) => present(await create(tx, reach, body))),
  read(getProduct, async (db, { reach, params }) => present(await get(db, reach, params.id))),
  write(updateProduct, async (tx, { reach, params, body }) => present(await update(tx, reach, params.id, body))),
  write(updateProductBenefits, async (tx, { reach, params, body }) => present(await setBenefits(tx, reach, params.id, body.benefits))),
  write(deleteProduct, (tx, { reach, params }) => remove(tx, reach, params.id)),
]
