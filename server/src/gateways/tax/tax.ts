import type { TaxIDFormat } from '@bursar/contract'

export interface TaxAddress {
  readonly country: string
  readonly state: string | null
}

export interface TaxQuestion {
  readonly organization_id: string
  readonly currency: string
  /** Location of the buyer. Null if it is not known yet. */
  readonly address: TaxAddress | null
  readonly tax_id: { readonly value: string; readonly format: TaxIDFormat } | null
  /** Whether prices include tax. `location` follows the custom of the buyer's country; otherwise the seller has decided. */
  readonly behavior_option: 'location' | 'inclusive' | 'exclusive'
}

/** A tax question with a known address of the buyer. */
export type PlacedQuestion = TaxQuestion & { readonly address: TaxAddress }

/** Reason for the quoted tax. */
export type TaxReason = 'standard_rated' | 'not_collecting' | 'product_exempt' | 'reverse_charge' | 'not_subject_to_tax' | 'not_supported' | 'customer_exempt'

export interface TaxQuote {
  /** Parts per million: 20 % is 200,000. */
  readonly rate: number
  readonly behavior: 'inclusive' | 'exclusive'
  /** A country or one of its states: `DE`, `US-CA`. */
  readonly jurisdiction: string
  readonly reason: TaxReason
}

/**
 * Quotes the tax on a sale. Returns null if the address is not sufficient, and throws `TaxUnavailable` if the tax
 * cannot be determined. Zero tax is a quote with a reason, never the result of a failure.
 */
export interface TaxProvider {
  quote(question: PlacedQuestion): Promise<TaxQuote | null>
}

/** The tax cannot be determined now. The sale waits, and the quote is retried later. */
export class TaxUnavailable extends Error {
  override readonly name = 'TaxUnavailable'
  constructor(why: string, options?: ErrorOptions) {
    super(`the tax could not be computed: ${why}`, options)
  }
}

/** Countries in which prices usually exclude tax. */
const onTop: readonly string[] = ['US', 'CA', 'IN']

export const behaviorOf = ({ behavior_option, address }: Pick<PlacedQuestion, 'behavior_option' | 'address'>): TaxQuote['behavior'] =>
  behavior_option === 'location' ? (onTop.includes(address.country) ? 'exclusive' : 'inclusive') : behavior_option

/** Provider for a seller who collects no tax. */
export const none: TaxProvider = {
  quote: async (question) => ({ rate: 0, behavior: behaviorOf(question), jurisdiction: question.address.country, reason: 'not_collecting' }),
}
