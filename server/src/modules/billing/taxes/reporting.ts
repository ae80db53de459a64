import { TaxUnavailable, type TaxService } from '../../../gateways/tax/tax.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { findDisputeFigures, findRefundFigures, findTaxedSale } from './reporting.sql.ts'

interface Taxed {
  readonly organization_id: string
  readonly id: string
  readonly tax_quote_id: string | null
}

/** Enqueues the job that confirms the tax of a paid order. Does nothing if no tax service quoted it. */
export const reportPaid = async (tx: Tx, { organization_id, id: order_id, tax_quote_id }: Taxed): Promise<void> => {
  if (tax_quote_id !== null) await enqueue(tx, 'billing.confirm_tax', { organization_id, order_id })
}

/** Enqueues the job that reverses the tax of a refund or a lost dispute. Does nothing if no tax service quoted it. */
export const reportReversed = async (
  tx: Tx,
  { organization_id, tax_quote_id }: Taxed,
  what: { readonly refund_id: string } | { readonly dispute_id: string },
): Promise<void> => {
  if (tax_quote_id !== null) await enqueue(tx, 'billing.reverse_tax', { organization_id, refund_id: null, dispute_id: null, ...what })
}

/** Job that confirms the tax of a paid order at the tax service. Idempotent. The queue repeats it until the service answers. */
export const confirmTax = async (deps: Deps, { organization_id, order_id }: { organization_id: string; order_id: string }): Promise<void> => {
  const sale = await findTaxedSale(deps.db, organization_id, order_id)
  if (sale) await serviceOf(deps).confirm(sale)
}

/**
 * Job that reverses tax at the tax service. Idempotent. Confirms the order first, because the job that confirms it may
 * not have succeeded yet. If a refund failed after it had succeeded, its reversal is followed by the opposite one.
 */
export const reverseTax = async (
  deps: Deps,
  { organization_id, refund_id, dispute_id }: { organization_id: string; refund_id: string | null; dispute_id: string | null },
): Promise<void> => {
  const id = refund_id ?? dispute_id!
  const figures = await (refund_id === null ? findDisputeFigures : findRefundFigures)(deps.db, organization_id, id)
  const sale = figures && (await findTaxedSale(deps.db, organization_id, figures.order_id))
  if (!sale) return
  const service = serviceOf(deps)
  await service.confirm(sale)
  const { order_id, amount, tax_amount, status } = figures
  const reversal = { organization_id, quote_id: sale.quote_id, order_id, currency: sale.currency }
  await service.reverse({ ...reversal, key: id, amount, tax_amount })
  if (refund_id !== null && status !== 'succeeded') await service.reverse({ ...reversal, key: `${id}:undone`, amount: 0 - amount, tax_amount: 0 - tax_amount })
}

const serviceOf = ({ gateways }: Deps): TaxService => {
  if (!gateways.tax) throw new TaxUnavailable('this deployment has no tax service')
  return gateways.tax
}
