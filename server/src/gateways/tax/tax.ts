import type { TaxIDFormat } from '@bursar/contract'

export interface TaxAddress {
  readonly country: string
  readonly state: string | null
}

export interface TaxQuestion {
  readonly organization_id: string
  readonly currency: string
  /** Where the buyer is. Null: not known yet. */
  readonly address: TaxAddress | null
  readonly tax_id: { readonly value: string; readonly format: TaxIDFormat } | null
  /** Whether prices hold the tax: as the seller says, or as is usual where the buyer is. */
  readonly behavior_option: 'location' | 'inclusive' | 'exclusive'
}

/** A question about a place. */
export type PlacedQuestion = TaxQuestion & { readonly address: TaxAddress }

/** How the tax came about. */
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
 * Says what tax is due on a sale. Null where the address does not tell enough; a provider that cannot find out throws
 * `TaxUnavailable`. No tax is an answer with a reason, never what is left when something went wrong.
 */
export interface TaxProvider {
  quote(question: PlacedQuestion): Promise<TaxQuote | null>
}

/** Nobody can say now what tax is due. It is asked again later; the sale waits. */
export class TaxUnavailable extends Error {
  override readonly name = 'TaxUnavailable'
  constructor(why: string, options?: ErrorOptions) {
    super(`no tax could be quoted: ${why}`, options)
  }
}

/** Where people expect prices without tax. */
const onTop: readonly string[] = ['US', 'CA', 'IN']

export const behaviorOf = ({ behavior_option, address }: Pick<PlacedQuestion, 'behavior_option' | 'address'>): TaxQuote['behavior'] =>
  behavior_option === 'location' ? (onTop.includes(address.country) ? 'exclusive' : 'inclusive') : behavior_option

/** A seller who collects no tax. */
export const none: TaxProvider = {
  quote: async (question) => ({ rate: 0, behavior: behaviorOf(question), jurisdiction: question.address.country, reason: 'not_collecting' }),
}
