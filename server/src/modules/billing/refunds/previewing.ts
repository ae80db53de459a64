import type { LedgerPosting, RefundCreate } from '@bursar/contract'
import type { z } from 'zod'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { refundable } from '../calc/totals.ts'
import { postingsOf } from '../ledger/ledger.sql.ts'
import { readOrder, type OrderRow } from '../records/orders.sql.ts'
import { readRefund, type RefundRow } from '../records/refunds.sql.ts'
import { begin, settle } from './refunds.ts'

/** A refund as it would be, with its consequences. */
export interface PreviewedRefund {
  readonly refund: RefundRow
  /** The order after the refund. */
  readonly order: OrderRow
  readonly left: ReturnType<typeof refundable>
  readonly postings: readonly LedgerPosting[]
  readonly events: readonly string[]
}

/**
 * Makes the refund as if the processor had accepted it at once, and returns its consequences. The processor is not
 * called. The caller rolls the transaction back.
 */
export const previewRefund = async (tx: Tx, scope: TenantScope, body: z.output<typeof RefundCreate>): Promise<PreviewedRefund> => {
  const { organization_id, refund_id } = await begin(tx, scope, body)
  await settle(tx, (await readRefund(tx, organization_id, refund_id))!, { id: '', status: 'succeeded' })
  const refund = (await readRefund(tx, organization_id, refund_id))!
  const order = (await readOrder(tx, organization_id, refund.order_id))!
  const postings = await postingsOf(tx, order, null, 10_000)
  return {
    refund,
    order,
    left: refundable(order),
    postings: postings.filter(({ reference_id }) => reference_id === refund_id),
    events: tx.ending.events.map(({ kind }) => kind),
  }
}
