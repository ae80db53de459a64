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
import { listOrders as list, listOrdersOf } from './orders.sql.ts'
import { find, findOwn, presentOrder, showToBuyer, update, updateOwn } from './orders.ts'

export const operations = [
  read(listOrders, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await list(db, confine(reach, 'sales:read'), query)
    return paginate(query, items.map(presentOrder), total, next_cursor)
  }),
  stream(exportOrders, (run, { reach, query, reply }) =>
    download(run, reply, ordersExport(confine(reach, 'sales:read'), query), 'orders', [query.created_after, query.created_before]),
  ),
  read(getOrder, async (db, { reach, params }) => presentOrder(await find(db, reach, params.id))),
  write(updateOrder, async (tx, { reach, params, body }) => presentOrder(await update(tx, reach, params.id, body))),

  read(listPortalOrders, async (db, { actor, reach, query }) => {
    allow(actor.role, 'billing:read')
    const { items, total, next_cursor } = await listOrdersOf(db, reach, actor.customer_id, query)
    return paginate(query, await showToBuyer(db, reach, actor, items), total, next_cursor)
  }),
  read(getPortalOrder, async (db, { actor, reach, params }) => {
    allow(actor.role, 'billing:read')
    return (await showToBuyer(db, reach, actor, [await findOwn(db, reach, actor, params.id)]))[0]!
  }),
  write(updatePortalOrder, async (tx, { actor, reach, params, body }) => {
    const corrected = await updateOwn(tx, reach, actor, params.id, body)
    return (await showToBuyer(tx, reach, actor, [corrected]))[0]!
  }),
  read(getPortalPaymentStatus, async (db, { actor, reach, params }) => {
    allow(actor.role, 'billing:read')
    const { order } = await findOwn(db, reach, actor, params.id)
    const payment = await findLatestPayment(db, order)
    return { status: payment?.status ?? 'no_payment', error: payment?.status === 'failed' ? payment.decline_message : null }
  }),
]
