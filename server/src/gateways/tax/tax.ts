import type { Address, TaxIDFormat } from '@bursar/contract'
import type { TaxBehavior, TaxReason, TaxShare } from '../../kernel/taxes.ts'

/** Location of the buyer. The own rates of a seller use the country and the state. A tax service gets the full address. */
export interface TaxAddress extends Partial<Pick<Address, 'line1' | 'line2' | 'postal_code' | 'city'>> {
  readonly country: string
  readonly state: string | null
}

/** One line of a sale. The reference identifies it within the sale. */
export interface TaxableLine {
  readonly reference: string
  /** The price after the discount, in minor units. Negative for a credit. */
  readonly amount: number
  readonly tax_code: typeof taxCode
}

/** All products have the same tax code. */
export const taxCode = 'general_electronically_supplied_services'

export interface TaxQuestion {
  readonly organization_id: string
  /** The record to which the sale belongs. Two sales of one transaction with equal lines have different subjects, and so different quotes. */
  readonly subject: string
  readonly currency: string
  readonly lines: readonly TaxableLine[]
  /** Location of the buyer. Null if it is not known yet. */
  readonly address: TaxAddress | null
  /** The tax id of the buyer, which proves that the buyer is a business. */
  readonly tax_id: { readonly value: string; readonly format: TaxIDFormat } | null
  /** Whether prices include tax. `location` follows the custom of the buyer's country; otherwise the seller has decided. */
  readonly behavior_option: 'location' | TaxBehavior
}

/** A tax question with a known address of the buyer. */
export type PlacedQuestion = TaxQuestion & { readonly address: TaxAddress }

/** A quote of one rate, which is valid for any amount. Local providers answer with it. */
export interface RateQuote {
  /** Parts per million: 20 % is 200,000. */
  readonly rate: number
  readonly behavior: TaxBehavior
  /** A country or one of its states: `DE`, `US-CA`. */
  readonly jurisdiction: string
  readonly reason: TaxReason
}

/** A quote of a tax service. It is valid only for the exact question with this fingerprint. */
export interface LineQuote {
  /** The id of the quote at the tax service. */
  readonly id: string
  readonly fingerprint: string
  /** ISO time after which the quote must not be used for a new sale. */
  readonly expires_at: string
  readonly behavior: TaxBehavior
  readonly lines: readonly (TaxableLine & { readonly taxes: readonly TaxShare[] })[]
}

export type TaxQuote = RateQuote | LineQuote

export const isLineQuote = (quote: TaxQuote | null): quote is LineQuote => quote !== null && 'lines' in quote

/**
 * Quotes the tax on a sale from stored data, so that it can be used inside a transaction. Returns null if the address is
 * not sufficient, and throws `TaxUnavailable` if the tax cannot be determined. Zero tax is a quote with a reason, never
 * the result of a failure.
 */
export interface TaxProvider {
  quote(question: PlacedQuestion): Promise<RateQuote | null>
}

/** A question for a tax service: it has the address and the resolved tax behavior. */
export interface ServiceQuestion extends Omit<PlacedQuestion, 'behavior_option'> {
  readonly behavior: TaxBehavior
  /** Hash of all other fields. */
  readonly fingerprint: string
}

/** A paid order with the quote that it used. */
export interface TaxedSale extends Pick<ServiceQuestion, 'organization_id' | 'currency' | 'tax_id'>, Pick<LineQuote, 'behavior' | 'lines'> {
  readonly quote_id: string
  readonly order_id: string
  readonly address: TaxAddress | null
}

/** A refund or a lost dispute of a confirmed order. The amounts are negative if a refund failed after it had succeeded. */
export interface TaxReversal {
  /** The idempotency key. */
  readonly key: string
  readonly organization_id: string
  readonly quote_id: string
  readonly order_id: string
  readonly currency: string
  /** The price without tax. */
  readonly amount: number
  readonly tax_amount: number
}

/**
 * A tax service outside the deployment. It may be slow, fail, or answer twice. Never call it while a transaction is open.
 * All methods throw `TaxUnavailable` if the service does not answer, or if its answer is invalid.
 */
export interface TaxService {
  /** Has no lasting effect at the service. Returns null if the address is not sufficient. */
  quote(question: ServiceQuestion): Promise<LineQuote | null>
  /** Records a paid order. Idempotent per order. */
  confirm(sale: TaxedSale): Promise<void>
  /** Records a reversal. Idempotent per key. */
  reverse(reversal: TaxReversal): Promise<void>
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

export const behaviorOf = ({ behavior_option, address }: Pick<PlacedQuestion, 'behavior_option' | 'address'>): TaxBehavior =>
  behavior_option === 'location' ? (onTop.includes(address.country) ? 'exclusive' : 'inclusive') : behavior_option

/** Provider for a seller who collects no tax. */
export const none: TaxProvider = {
  quote: async (question) => ({ rate: 0, behavior: behaviorOf(question), jurisdiction: question.address.country, reason: 'not_collecting' }),
}
