import type { Brand } from './brand.ts'
import type { Locale } from './frame.ts'
import type { Purchased, StoredLine } from './labels.ts'

/** The context of every mail: language, sender and time. Mails without a seller come from the deployment itself. */
export interface MailFrame {
  readonly locale: Locale
  readonly seller: Brand | null
  /** The absolute URL of the seller's logo. Null without a logo, and for SVG, which most mail programs do not show. */
  readonly logo_url: string | null
  readonly sandbox: boolean
}

/** A rendered mail. HTML and text have the same facts and links. */
export interface RenderedMail {
  readonly subject: string
  readonly html: string
  readonly text: string
}
export type RenderMail = (view: MailView, frame: MailFrame) => RenderedMail

/** An amount in minor units of its currency. */
export interface Money {
  readonly amount: number
  readonly currency: string
}

export interface MailPeriod {
  readonly start: Date
  readonly end: Date
}

/** A benefit of a purchase. Values such as license keys exist once the benefit was granted. */
export interface MailBenefit {
  readonly description: string
  /** The seller's text about the benefit, as Markdown. */
  readonly note: string | null
  readonly keys: readonly string[]
  /** Files with the pages of the portal that download them. The reader signs in there. */
  readonly files: readonly { readonly name: string; readonly url: string }[]
}

/** A product with its picture, on an origin of ours. */
export interface MailPicture {
  readonly name: string
  readonly url: string
}

/** A metered price with its interval. The price is decimal text in minor units for one unit. */
export interface MailUsage {
  readonly meter: string
  readonly unit: 'scalar' | 'token' | 'custom'
  readonly custom_label: string | null
  readonly custom_multiplier: number | null
  readonly unit_amount: string
  readonly cap_amount: number | null
  readonly currency: string
  readonly interval: 'day' | 'week' | 'month' | 'year'
  readonly interval_count: number
}

/** The expected charge of the next period. */
export interface MailForecast {
  readonly at: Date
  readonly amount: number
  readonly currency: string
  readonly discount: string | null
  readonly tax_included: boolean
  readonly usage: readonly MailUsage[]
}

/** The price of a subscription for each period, before tax and usage. */
export interface MailPrice extends Money {
  readonly interval: 'day' | 'week' | 'month' | 'year'
  readonly interval_count: number
}

/** A card as its holder knows it. */
export interface MailCard {
  readonly brand: string
  readonly last4: string
}

/** The reason of a receipt. */
export type ReceiptReason = 'purchase' | 'subscription' | 'change' | 'renewal' | 'first_renewal'

export type OrderMail =
  | {
      readonly kind: 'receipt'
      readonly reason: ReceiptReason
      readonly description: string
      readonly currency: string
      readonly lines: readonly StoredLine[]
      readonly seats: number | null
      readonly discount: { readonly name: string | null; readonly amount: number } | null
      readonly tax: number
      readonly tax_included: boolean
      readonly total: number
      /** Negative: paid from the balance. Positive: a debt that this order collected. */
      readonly applied_balance: number
      readonly carried: number
      readonly charged: number
      readonly paid: { readonly card: MailCard | null; readonly at: Date } | null
      readonly invoice_number: string | null
      readonly date: Date
      readonly period: MailPeriod | null
      /** Null if nothing new was bought, or the product has no picture. */
      readonly picture: MailPicture | null
      readonly benefits: readonly MailBenefit[]
      /** True if benefits are still being prepared. */
      readonly more_to_come: boolean
      readonly order_url: string
      /** The PDF of the order. A receipt if the billing details are not complete, because an invoice needs them. Null without a payment. */
      readonly pdf: { readonly kind: 'invoice' | 'receipt'; readonly url: string } | null
      readonly access_url: string
    }
  | {
      readonly kind: 'free_order'
      readonly description: string
      readonly date: Date
      readonly picture: MailPicture | null
      readonly benefits: readonly MailBenefit[]
      readonly more_to_come: boolean
      readonly access_url: string
    }
  | {
      readonly kind: 'payment_failed'
      readonly owed: Money
      readonly description: string
      readonly period: MailPeriod | null
      /** `no_method`: nothing could be charged. Otherwise the words of the bank, if it gave any. */
      readonly reason: { readonly type: 'no_method' } | { readonly type: 'declined'; readonly message: string | null }
      readonly next: { readonly type: 'retried'; readonly at: Date } | { readonly type: 'ended' } | { readonly type: 'open' }
      readonly pay_url: string
      readonly card_url: string
      readonly portal_url: string
    }
  | {
      readonly kind: 'refund'
      readonly refunded: Money
      readonly description: string
      readonly invoice_number: string | null
      /** Where the money goes. Null if it is added to the customer's balance. */
      readonly card: MailCard | null
      readonly date: Date
      readonly order_url: string
    }
  | {
      readonly kind: 'dispute'
      readonly disputed: Money
      readonly description: string
      readonly outcome: 'opened' | 'won' | 'lost'
      readonly order_date: Date
      readonly order_url: string
    }

export type SubscriptionMail =
  | {
      readonly kind: 'trial_started'
      readonly plan: Purchased
      readonly forecast: MailForecast
      readonly benefits: readonly MailBenefit[]
      readonly more_to_come: boolean
      readonly access_url: string
      readonly cancel_url: string
    }
  | {
      readonly kind: 'trial_ending' | 'renewal_reminder'
      readonly plan: Purchased
      readonly forecast: MailForecast
      readonly portal_url: string
      readonly cancel_url: string
    }
  | { readonly kind: 'subscription_canceled'; readonly plan: Purchased; readonly ends_at: Date; readonly portal_url: string }
  | { readonly kind: 'subscription_uncanceled'; readonly plan: Purchased; readonly renews_at: Date; readonly price: MailPrice; readonly portal_url: string }
  | { readonly kind: 'subscription_ended'; readonly plan: Purchased; readonly ended_at: Date; readonly portal_url: string }
  /** `begins_at` is null once the pause has begun. */
  | {
      readonly kind: 'subscription_paused'
      readonly plan: Purchased
      readonly begins_at: Date | null
      readonly resumes_at: Date | null
      readonly portal_url: string
    }
  | { readonly kind: 'subscription_resumed'; readonly plan: Purchased; readonly renews_at: Date; readonly price: MailPrice; readonly portal_url: string }
  /** `from` is null if the change is in force. */
  | {
      readonly kind: 'seats_changed'
      readonly plan: Purchased
      readonly seats: number
      readonly from: Date | null
      readonly price: MailPrice
      readonly team_url: string
      readonly portal_url: string
    }
  | { readonly kind: 'plan_changed'; readonly plan: Purchased; readonly from: Date | null; readonly price: MailPrice; readonly portal_url: string }
  | { readonly kind: 'card_expiring'; readonly card: MailCard; readonly month: number; readonly year: number; readonly card_url: string }
  | {
      readonly kind: 'usage_threshold'
      readonly meter: Pick<MailUsage, 'meter' | 'unit' | 'custom_label' | 'custom_multiplier'>
      readonly basis: 'credits' | 'cap'
      readonly percent: number
      /** Decimal text: units, or minor units of `currency`. */
      readonly consumed: string
      readonly limit: string
      readonly currency: string | null
      readonly period_end: Date | null
      /** The price of further usage. Null if usage is not billed. */
      readonly rate: { readonly unit_amount: string; readonly currency: string } | null
      /** False if the seller hides the usage page. */
      readonly has_usage_page: boolean
      readonly portal_url: string
    }

export type SeatMail =
  | { readonly kind: 'seat_invitation'; readonly product: string; readonly invited_by: string | null; readonly until: Date; readonly claim_url: string }
  | {
      readonly kind: 'seat_revoked'
      /** `ended`: the purchase of the team has ended. */
      readonly reason: 'withdrawn' | 'ended'
      readonly product: string
      readonly team: string | null
      readonly portal_url: string
    }
  | { readonly kind: 'seat_requested'; readonly who: string; readonly product: string; readonly team_url: string }

/** Mails about the sign-in and the address of a customer. */
export type CustomerAccountMail =
  | { readonly kind: 'customer_code'; readonly code: string; readonly minutes: number; readonly sign_in_url: string }
  | { readonly kind: 'email_change'; readonly confirm_url: string }
  | { readonly kind: 'email_changed'; readonly portal_url: string }
  | { readonly kind: 'customer_session_leaked'; readonly portal_url: string }

/** Mails to the people of a seller. */
export type MerchantMail =
  | {
      readonly kind: 'new_order'
      readonly organization: string
      readonly customer: string
      readonly description: string
      readonly total: Money
      readonly invoice_number: string | null
      readonly date: Date
      readonly home_url: string
    }
  | {
      readonly kind: 'new_subscription'
      readonly organization: string
      readonly customer: string
      readonly plan: Purchased
      readonly price: MailPrice
      readonly trial_end: Date | null
      readonly home_url: string
    }
  | {
      readonly kind: 'webhook_paused'
      readonly organization: string
      readonly endpoint: string
      readonly reason: 'failing' | 'gone'
      readonly failing_since: Date | null
      readonly docs_url: string
    }
  | {
      readonly kind: 'dispute_opened'
      readonly organization: string
      readonly customer: string
      readonly disputed: Money
      readonly reason: string | null
      readonly respond_by: Date | null
      readonly invoice_number: string | null
      readonly home_url: string
    }
  | {
      readonly kind: 'payment_account_changed'
      readonly organization: string
      readonly account: string
      readonly key_hint: string
      readonly security_url: string
    }

/** Mails about the sign-in and the credentials of a user. */
export type IdentityMail =
  | { readonly kind: 'sign_in_code'; readonly code: string; readonly minutes: number; readonly sign_in_url: string }
  | {
      readonly kind: 'organization_invitation'
      readonly organization: string
      readonly invited_by: string | null
      readonly role: string
      readonly until: Date
      readonly accept_url: string
    }
  /** `organization` is null for a personal token. */
  | { readonly kind: 'token_leaked'; readonly organization: string | null; readonly hint: string; readonly comment: string; readonly tokens_url: string }
  | { readonly kind: 'app_token_leaked'; readonly app: string; readonly apps_url: string }
  | { readonly kind: 'client_secret_leaked'; readonly app: string; readonly client_id: string; readonly docs_url: string }
  | { readonly kind: 'app_allowed'; readonly app: string; readonly apps_url: string }

/** All mails with their data. The server fills them, and the web package renders them. */
export type MailView = OrderMail | SubscriptionMail | SeatMail | CustomerAccountMail | MerchantMail | IdentityMail
export type MailKind = MailView['kind']
export type MailOf<K extends MailKind> = MailView extends infer V ? (V extends { readonly kind: infer J } ? (K extends J ? V : never) : never) : never
