import {
  exportOrders,
  getOrder,
  getPortalOrder,
  getPortalPaymentStatus,
  listOrders,
  listPortalOrders,
  paginate,
  updateOrder,
  updatePortalOrder,
} from '@bursar/contract'
import { download } from '../../exports.ts'
import { read, stream, write } from '../../handlers.ts'
import { allow } from '../../customers/index.ts'
import { confine } from '../../organizations/index.ts'
import { findLatestPayment } from '../payments/payments.sql.ts'
import { ordersExport } from './exporting.sql.ts'
import { listOrders as list, listOrdersOf } from '../records/order-lists.sql.ts'
import * as orders from '../records/orders.ts'
import * as correcting from './correcting.ts'

export const operations = [
  read(listOrders, async (db, { scope, query }) => {
    const { items, total, next_cursor } = await list(db, confine(scope, 'sales:read'), query)
    return paginate(query, items.map(orders.presentOrder), total, next_cursor)
  }),
  stream(exportOrders, (run, { scope, query, reply }) =>
    download(run, reply, ordersExport(confine(scope, 'sales:read'), query), 'orders', [query.created_after, query.created_before]),
  ),
  read(getOrder, async (db, { scope, params }) => orders.presentOrder(await orders.requireOrder(db, scope, params.id))),
  write(updateOrder, async (tx, { scope, params, body }) => orders.presentOrder(await correcting.updateOrder(tx, scope, params.id, body))),

  read(listPortalOrders, async (db, { actor, scope, query }) => {
    allow(actor.role, 'billing:read')
    const { items, total, next_cursor } = await listOrdersOf(db, scope, actor.customer_id, query)
    return paginate(query, items.map(orders.presentCustomerOrder), total, next_cursor)
  }),
  read(getPortalOrder, async (db, { actor, scope, params }) => {
    allow(actor.role, 'billing:read')
    return orders.presentCustomerOrder(await orders.findOwn(db, scope, actor, params.id))
  }),
  write(updatePortalOrder, async (tx, { actor, scope, params, body }) =>
    orders.presentCustomerOrder(await correcting.updateOwn(tx, scope, actor, params.id, body)),
  ),
  read(getPortalPaymentStatus, async (db, { actor, scope, params }) => {
    allow(actor.role, 'billing:read')
    const { order } = await orders.findOwn(db, scope, actor, params.id)
    const payment = await findLatestPayment(db, order)
    return { status: payment?.status ?? 'no_payment', error: payment?.status === 'failed' ? payment.decline_message : null }
  }),
]
