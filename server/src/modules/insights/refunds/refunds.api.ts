import { previewRefund } from '@bursar/contract'
import { phaseOf } from '../../../kernel/actors.ts'
import { dryRun } from '../../handlers.ts'
import { previewRefund as preview } from '../../billing/index.ts'
import { grantsOfOrder } from './refunds.sql.ts'

const mostGrants = 100

export const operations = [
  dryRun(previewRefund, async (tx, { scope, body }) => {
    const { refund, order, left, postings, events } = await preview(tx, scope, body)
    const revokes = body.revoke_benefits && order.benefits_revoked_at !== null
    const ended = revokes ? await grantsOfOrder(tx, order, phaseOf(scope, order.organization_id), mostGrants) : { items: [], count: 0 }
    return {
      order_id: order.id,
      currency: order.currency,
      net_amount: refund.amount,
      tax_amount: refund.tax_amount,
      gross_amount: refund.amount + refund.tax_amount,
      order_status: order.status as 'paid' | 'partially_refunded' | 'refunded',
      refundable_amount_left: left.refundable_amount,
      refundable_tax_amount_left: left.refundable_tax_amount,
      credit_note: order.invoice_number !== null,
      postings: [...postings],
      events: [...events],
      access_ends: ended.items,
      access_ends_count: ended.count,
    }
  }),
]
