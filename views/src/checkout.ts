import type { getClientCheckout, Received } from '@bursar/contract'
import type { Complaint, Invitations, PageSeller, Seller, TestCardLine } from './frame.ts'

/** A checkout as the API shows it to its buyer, without the client secret and other private fields. */
export type Offer = Omit<Received<typeof getClientCheckout>, 'client_secret' | 'url' | 'success_url' | 'customer_ip_address'>

/** The progress of one step of a purchase, as the server knows it. */
export type StepState = 'done' | 'doing' | 'waiting'

/**
 * The reason why a checkout cannot be shown. `over` means that its client secret was valid in this browser before, but
 * has expired. `ended` means that the seller has deleted the checkout link, or sells none of its products any more.
 */
export type ClosedReason = 'expired' | 'over' | 'link_needed' | 'unknown' | 'not_sold' | 'ended'

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
      /** The types of the payment methods that the processor's form offers. */
      readonly methods: string
      /** The displayed price and product as text, sent by the button. If the price has changed, the new price is shown first. */
      readonly shown: string
      readonly complaints: readonly Complaint[]
      /** The bank's message about a declined card. */
      readonly declined: string | null
      readonly notice: 'price_changed' | 'discount_over' | 'discount_used' | 'subscribed' | 'trial_used' | 'not_ready' | null
      /** True if this request applied a discount code. */
      readonly applied: boolean
      /** True if the country is a guess from the browser's language. It is stored only when the buyer does something. */
      readonly guessed: boolean
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
      /** The payment waits for the buyer at another site. */
      readonly kind: 'away'
      readonly seller: string
      /** The type of the payment method, such as `ideal`. */
      readonly method: string
      readonly amount: number
      readonly currency: string
      /** The address of the other site. */
      readonly to: string
      readonly refresh: number
    }
  | {
      readonly kind: 'purchase'
      readonly id: string
      readonly seller: { readonly name: string; readonly slug: string }
      readonly product: string
      /** The first picture of the product. */
      readonly cover: string | null
      readonly paid: number
      readonly currency: string
      readonly email: string | null
      readonly number: string | null
      /** True if the bank has the payment and has not reported its result yet. */
      readonly at_bank: boolean
      readonly steps: { readonly payment: StepState; readonly order: StepState; readonly access: StepState }
      /** The note of a benefit is Markdown. The buyer sees it once the benefit is granted. */
      readonly benefits: readonly { readonly description: string; readonly note: string | null; readonly state: 'granted' | 'coming' | 'failed' | 'unknown' }[]
      /** True if the buyer already has a portal session. */
      readonly entered: boolean
      readonly team: { readonly total: number; readonly free: number } | null
      readonly invited: Invitations | null
      readonly refresh: number | null
    }
  /** The preview of a link with a secret, for messengers. They do not keep the cookie that the page behind the link needs. */
  | {
      readonly kind: 'link-preview'
      readonly seller: string
      /** Null for an invitation to a seat. */
      readonly product: { readonly name: string; readonly description: string | null; readonly image: string | null } | null
      /** The page to which a browser goes on. */
      readonly to: string
    }
  | {
      readonly kind: 'checkout-closed'
      readonly reason: ClosedReason
      readonly seller: PageSeller | null
      readonly return_url: string | null
      /** The address that renews an expired checkout, if this browser may. */
      readonly renew?: string | null
    }

/** The state of a seat invitation: open, or the reason why it cannot be accepted. */
export type ClaimState = 'open' | 'closed' | 'mine' | 'used' | 'expired' | 'asked' | 'revoked'
export type ClaimView =
  | {
      readonly kind: 'claim'
      readonly seller: Seller
      readonly state: ClaimState
      readonly product_name: string
      /** The first picture of the product. */
      readonly cover: string | null
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
