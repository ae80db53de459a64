import type { getClientCheckout, Received } from '@bursar/contract'
import type { Complaint, Invitations, Seller, TestCardLine } from './frame.ts'

/** A checkout as the API shows it to its buyer, without the client secret and other private fields. */
export type Offer = Omit<Received<typeof getClientCheckout>, 'client_secret' | 'url' | 'success_url' | 'customer_ip_address'>

/** The progress of one step of a purchase, as the server knows it. */
export type StepState = 'done' | 'doing' | 'waiting'

/** The reason why a checkout cannot be shown. `over` means that its client secret was valid in this browser before, but has expired. */
export type ClosedReason = 'expired' | 'over' | 'link_needed' | 'unknown' | 'not_sold'

export type CheckoutView =
  | {
      readonly kind: 'checkout'
      readonly offer: Offer
      /** The values of the form fields, by field name. */
      readonly draft: Readonly<Record<string, string>>
      readonly schedule: { readonly today: number; readonly later: readonly { readonly from: Date; readonly amount: number; readonly plus_tax: boolean }[] }
      /** The test cards. Null outside the sandbox, and with the processor's own form. */
      readonly cards: readonly TestCardLine[] | null
      /** The publishable key of the payment processor's card form. */
      readonly publishable_key: string | null
      /** The displayed price and product as text, sent by the button. If the price has changed, the new price is shown first. */
      readonly shown: string
      readonly complaints: readonly Complaint[]
      /** The bank's message about a declined card. */
      readonly declined: string | null
      readonly notice: 'price_changed' | 'subscribed' | 'trial_used' | 'not_ready' | null
      /** After too many attempts: the seconds until the next one may succeed. */
      readonly wait_seconds: number | null
    }
  | {
      /** The 3-D Secure challenge of the payer's bank. The sandbox simulates the bank. */
      readonly kind: 'bank'
      /** The URL to which the form with the payer's answer is sent. */
      readonly action: string
      readonly seller: string
      readonly amount: number
      readonly currency: string
      /** Set for a real bank, which is reached through the payment processor's script. */
      readonly processor: { readonly key: string; readonly intent_client_secret: string } | null
    }
  | {
      readonly kind: 'purchase'
      readonly id: string
      readonly seller: { readonly name: string; readonly slug: string }
      readonly product: string
      readonly paid: number
      readonly currency: string
      readonly email: string | null
      readonly number: string | null
      readonly steps: { readonly payment: StepState; readonly order: StepState; readonly access: StepState }
      readonly benefits: readonly { readonly description: string; readonly state: 'granted' | 'coming' | 'failed' | 'unknown' }[]
      /** True if the buyer already has a portal session. */
      readonly entered: boolean
      readonly team: { readonly total: number; readonly free: number } | null
      readonly invited: Invitations | null
      readonly refresh: number | null
    }
  | { readonly kind: 'checkout-closed'; readonly reason: ClosedReason; readonly seller: string | null; readonly return_url: string | null }

/** The state of a seat invitation: open, or the reason why it cannot be accepted. */
export type ClaimState = 'open' | 'closed' | 'mine' | 'used' | 'expired' | 'asked' | 'revoked'
export type ClaimView =
  | {
      readonly kind: 'claim'
      readonly seller: Seller
      readonly state: ClaimState
      readonly product_name: string
      readonly email: string
      /** The team that pays for the seat. */
      readonly invited_by: string | null
      readonly benefits: readonly { readonly id: string; readonly description: string }[]
      /** The e-mail address of this browser's portal session, if it belongs to another person than the invited one. */
      readonly other: string | null
    }
  | { readonly kind: 'claim-unknown'; readonly seller: Seller }
  | {
      readonly kind: 'claim-ready'
      readonly seller: Seller
      readonly product_name: string
      readonly benefits: readonly { readonly id: string; readonly description: string; readonly state: 'ready' | 'waits' | 'stuck' }[]
    }
