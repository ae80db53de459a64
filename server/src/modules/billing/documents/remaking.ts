import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { BusinessTx, Locked } from '../../../platform/postgres/postgres.ts'
import { changeOrder, type OrderRow } from '../records/orders.sql.ts'
import { findDocument } from './documents.sql.ts'

/**
 * Enqueues a new rendering of an existing invoice after the billed party changed. `is_invoice_generated` is false until
 * the new file exists.
 */
export const remakeInvoice = async (tx: BusinessTx, order: Locked<OrderRow>): Promise<Locked<OrderRow>> => {
  const document = await findDocument(tx, order, { kind: 'invoice', refund_id: null })
  if (!document) return order
  await enqueue(tx, 'billing.make_document', { organization_id: order.organization_id, document_id: document.id })
  return order.is_invoice_generated ? changeOrder(tx, order, { is_invoice_generated: false }) : order
}
