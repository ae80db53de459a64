import type { SeatTiers } from '../../calc/prices.ts'
import type { Language } from '../../../../kernel/languages.ts'
import type { TaxReason } from '../../../../kernel/taxes.ts'
import type { RefundReason } from './words.ts'

/**
 * The complete content of a document. If any field changes, a new file is rendered. Times are strings, as they are
 * stored in JSON.
 */
export interface Facts {
  readonly kind: 'invoice' | 'receipt' | 'credit_note'
  readonly language: Language
  readonly seller: {
    readonly name: string
    readonly address: Place | null
    readonly tax_id: string | null
    readonly email: string | null
    readonly footer: string | null
    /** The seller's accent colour at the time of the document. Absent in documents that are older than accent colours. */
    readonly accent?: string | null
    /** The checksum of the logo at the time of the document. The copy with this checksum is kept. */
    readonly logo?: string | null
    /** The links of the brand at the time of the document. */
    readonly support_email?: string | null
    readonly website?: string | null
    readonly terms_url?: string | null
    readonly privacy_url?: string | null
  }
  readonly buyer: { readonly name: string | null; readonly address: Place | null; readonly tax_id: string | null; readonly tax_id_format: string | null }
  readonly order: {
    readonly invoice_number: string
    readonly receipt_number: string | null
    readonly created_at: string
    readonly period: { readonly start: string; readonly end: string } | null
    readonly description: string
    readonly currency: string
    readonly subtotal_amount: number
    readonly discount_amount: number
    readonly net_amount: number
    readonly tax_amount: number
    readonly total_amount: number
    readonly applied_balance_amount: number
    readonly carried_amount: number
    readonly due_amount: number
    readonly tax_behavior: 'inclusive' | 'exclusive' | null
    readonly discount_name: string | null
  }
  readonly lines: readonly Line[]
  readonly payment: { readonly brand: string | null; readonly last4: string | null; readonly paid_at: string } | null
  /** On a receipt: all refunds of the order. On a credit note: the refund that it documents. */
  readonly refunds: readonly RefundFacts[]
}

export interface Place {
  readonly line1: string | null
  readonly line2: string | null
  readonly postal_code: string | null
  readonly city: string | null
  readonly state: string | null
  readonly country: string
}

export interface Line {
  readonly label: string
  readonly amount: number
  readonly discount_amount: number
  readonly net_amount: number
  readonly tax_amount: number
  readonly proration: boolean
  readonly tiers: SeatTiers | null
  readonly tax: { readonly rate: number; readonly jurisdiction: string; readonly reason: TaxReason } | null
}

export interface RefundFacts {
  readonly number: string | null
  readonly created_at: string
  readonly amount: number
  readonly tax_amount: number
  readonly reason: RefundReason
}
