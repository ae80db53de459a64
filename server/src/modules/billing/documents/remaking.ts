import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { changeOrder, type OrderRow } from '../orders/orders.sql.ts'
import { findDocument } from './documents.sql.ts'

/** Who is billed has changed: an invoice that was made is made anew, and until then there is none. */
export const remakeInvoice = async (tx: Tx, order: Locked<OrderRow>): Promise<Locked<OrderRow>> => {
  const document = await findDocument(tx, order, { kind: 'invoice', refund_id: null })
  if (!document) return order
  await enqueue(tx, 'billing.make_document', { organization_id: order.organization_id, document_id: document.id })
  return order.is_invoice_generated ? changeOrder(tx, order, { is_invoice_generated: false }) : order
}
