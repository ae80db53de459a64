import { createProduct, deleteFile, deleteProduct, getProduct, listProducts, paginate, updateProduct, updateProductBenefits } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import * as files from './deleting-files.ts'
import { listProducts as list } from './products.sql.ts'
import * as products from './products.ts'

export const operations = [
  read(listProducts, async (db, { scope, query }) => {
    const { items, total, next_cursor } = await list(db, confine(scope, 'products:read'), query)
    return paginate(query, items.map(products.presentProduct), total, next_cursor)
  }),
  write(createProduct, async (tx, { scope, body }) => products.presentProduct(await products.createProduct(tx, scope, body))),
  read(getProduct, async (db, { scope, params }) => products.presentProduct(await products.getProduct(db, scope, params.id))),
  write(updateProduct, async (tx, { scope, params, body }) => products.presentProduct(await products.updateProduct(tx, scope, params.id, body))),
  write(updateProductBenefits, async (tx, { scope, params, body }) => products.presentProduct(await products.setBenefits(tx, scope, params.id, body.benefits))),
  write(deleteProduct, (tx, { scope, params }) => products.deleteProduct(tx, scope, params.id)),
  // This route is not in `files`, because deleting a file changes the products and benefits that show it.
  write(deleteFile, (tx, { scope, params }) => files.deleteFile(tx, scope, params.id)),
]
