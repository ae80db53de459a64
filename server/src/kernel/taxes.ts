/** Whether the price includes the tax or the tax is added to it. */
export type TaxBehavior = 'inclusive' | 'exclusive'

/** Reason for a quoted tax. */
export const taxReasons = [
  'standard_rated',
  'not_collecting',
  'product_exempt',
  'reverse_charge',
  'not_subject_to_tax',
  'not_supported',
  'customer_exempt',
] as const
export type TaxReason = (typeof taxReasons)[number]

/**
 * Returns the one reason that is shown for a sale. A reverse charge must be mentioned, even if other lines are taxed. Next
 * comes a tax that is charged. Null if there is no reason.
 */
export const mainReason = (reasons: readonly TaxReason[]): TaxReason | null =>
  (['reverse_charge', 'standard_rated'] as const).find((reason) => reasons.includes(reason)) ?? reasons[0] ?? null

/** The tax of one line in one jurisdiction. */
export interface TaxShare {
  /** A country or a part of it: `DE`, `US-CA`. */
  readonly jurisdiction: string
  /** Parts per million: 20 % is 200,000. */
  readonly rate: number
  readonly tax_amount: number
  readonly reason: TaxReason
}
