import { getPayment, listPayments, paginate, ResourceNotFound, type Payment } from '@bursar/contract'
import { read } from '../../handlers.ts'
import { confine, permit } from '../../organizations/index.ts'
import { findPayment, listPayments as list, unknownMethod, type PaymentRow } from './payments.sql.ts'

/** Maps a payment row to the API response, without the processor's internal data. */
const present = ({ method, method_metadata, ...row }: PaymentRow): Payment => {
  const common = { ...row, processor: 'stripe' as const, processor_metadata: {} }
  if (method !== 'card' || method_metadata === null) return { ...common, method: method ?? unknownMethod }
  return { ...common, method, method_metadata }
}

export const operations = [
  read(listPayments, async (db, { scope, query }) => {
    const { items, total, next_cursor } = await list(db, confine(scope, 'sales:read'), query)
    return paginate(query, items.map(present), total, next_cursor)
  }),
  read(getPayment, async (db, { scope, params }) => {
    const payment = await findPayment(db, scope, params.id)
    if (!payment) throw new ResourceNotFound()
    permit(scope, payment.organization_id, 'sales:read')
    return present(payment)
  }),
]
