import type { ProductBillingType } from '@bursar/contract'

/** The records that count. An empty list does not filter. */
export interface Question {
  readonly organizations: readonly string[]
  /** Amounts in other currencies are left out. */
  readonly currency: string
  readonly product_id: readonly string[]
  readonly billing_type: readonly ProductBillingType[]
  readonly customer_id: readonly string[]
}
