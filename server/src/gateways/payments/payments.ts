import type { IncomingHttpHeaders } from 'node:http'
import type { Secret } from '../../kernel/secrets.ts'

/** The instrument to charge: the token of a new card, which the processor's form created, or a saved payment method. */
export type Instrument = { readonly kind: 'token'; readonly token: string } | { readonly kind: 'method'; readonly id: string }

/**
 * The payment method of an intent, with its display data. The method can be charged again if the intent succeeded and
 * was a setup or reusable.
 */
export interface KeptMethod {
  readonly id: string
  readonly type: string
  readonly brand: string | null
  readonly last4: string | null
  readonly exp_month: number | null
  readonly exp_year: number | null
  readonly wallet: string | null
  /** Identifies the card. The same card has the same fingerprint for every customer of the account. */
  readonly fingerprint: string
}

export interface Decline {
  readonly code: string
  readonly message: string
  /** True for a hard decline: another attempt with the same card will not succeed. */
  readonly final: boolean
}

export type IntentKind = 'payment' | 'setup'
export type IntentStatus = 'requires_confirmation' | 'requires_action' | 'processing' | 'succeeded' | 'failed' | 'canceled'

/**
 * An intent: one payment, or the setup of one card without a payment. An intent is charged at most once, regardless of
 * the number of confirmations.
 */
export interface Intent {
  readonly id: string
  readonly kind: IntentKind
  readonly status: IntentStatus
  readonly amount: number
  readonly currency: string
  /** Secret for the payer's page, which completes a 3-D Secure challenge with it. */
  readonly client_secret: string
  /** The address to which the payer must go, while a payment method that leaves the page waits for them. */
  readonly redirect_url: string | null
  readonly metadata: Readonly<Record<string, string>>
  readonly method: KeptMethod | null
  /** The method to charge later, if `method` pays only once. Null if there is none. Absent if `method` itself is charged later. */
  readonly later_method?: KeptMethod | null
  /** Reason why the last confirmation failed. A failed intent can be confirmed again with another card. */
  readonly decline: Decline | null
  readonly charged_at: Date | null
}

export type RefundStatus = 'pending' | 'succeeded' | 'failed' | 'canceled'

/** A refund at the processor. A refund that succeeded can still fail later. */
export interface ProcessorRefund {
  readonly id: string
  readonly intent_id: string
  readonly status: RefundStatus
  readonly amount: number
  readonly currency: string
  readonly metadata: Readonly<Record<string, string>>
}

export type DisputeStatus = 'early_warning' | 'needs_response' | 'under_review' | 'won' | 'lost' | 'prevented'

/** A dispute: the payer asked the bank for the money back. */
export interface ProcessorDispute {
  readonly id: string
  readonly intent_id: string
  readonly status: DisputeStatus
  readonly amount: number
  readonly currency: string
  readonly reason: string
  /** Deadline for a response; null if no response is possible. */
  readonly respond_by: Date | null
  /** True if the deadline for a response has passed. */
  readonly past_due: boolean
  /** Concerns prevented disputes. True if the money was returned to the payer, false if the dispute was blocked at no cost. */
  readonly given_back: boolean
  /** True if the dispute is unlikely to change, so that it need not be polled. If it changes nevertheless, the processor sends an event. */
  readonly asleep: boolean
}

export type ProcessorEventKind = 'intent.succeeded' | 'intent.failed' | 'intent.requires_action' | 'refund.updated' | 'dispute.updated' | 'method.updated'

/**
 * An event: a hint that an object at the processor changed. Events may arrive late, twice or never, so the receiver
 * must read the object itself.
 */
export interface ProcessorEvent {
  readonly id: string
  readonly kind: ProcessorEventKind
  readonly object_id: string
  readonly at: Date
}

/**
 * One payment account at a processor. To charge, a caller creates an intent (which moves no money), commits its id, and
 * then confirms it. After a lost request or response, the caller finds the intent by that id. A repeated request with
 * the same idempotency key returns the same response for a day. Calls throw `ProcessorRefusal` or `ProcessorSilent`. A
 * decline is a normal response.
 */
export interface Processor {
  /** Creates a customer and returns the processor's id, which intents require. Absent if the processor uses our own customer ids. */
  createCustomer?(request: { readonly key: string; readonly metadata: Readonly<Record<string, string>> }): Promise<string>
  createIntent(request: {
    readonly key: string
    readonly kind: IntentKind
    /** Zero for a setup. */
    readonly amount: number
    readonly currency: string
    readonly customer: string
    readonly metadata: Readonly<Record<string, string>>
    /** True if the payment method is saved for off-session charges. */
    readonly reusable: boolean
    /** True if the payment method may send the payer to another site. Each confirmation then needs a return URL. */
    readonly leaves?: boolean
  }): Promise<Intent>
  confirmIntent(
    id: string,
    request: {
      readonly key: string
      readonly deps: Instrument
      /** True if the payer is absent. A charge that needs the payer is then declined. */
      readonly off_session: boolean
      readonly require_3ds: boolean
      /** The page of ours to which the payer returns from another site. */
      readonly return_url?: string | undefined
    },
  ): Promise<Intent>
  readIntent(id: string): Promise<Intent>
  /** Returns every intent of a customer with this metadata, oldest first. Used to find an intent whose id was lost. */
  findIntents(search: { readonly customer: string; readonly metadata: Readonly<Record<string, string>> }): Promise<Intent[]>
  /** Cancels the intent, so that it can no longer be charged. */
  cancelIntent(id: string): Promise<Intent>
  createRefund(request: {
    readonly key: string
    readonly intent_id: string
    readonly amount: number
    readonly metadata: Readonly<Record<string, string>>
  }): Promise<ProcessorRefund>
  readRefund(id: string): Promise<ProcessorRefund>
  /** Returns every refund of an intent with this metadata, oldest first. */
  findRefunds(search: { readonly intent_id: string; readonly metadata: Readonly<Record<string, string>> }): Promise<ProcessorRefund[]>
  readDispute(id: string): Promise<ProcessorDispute>
  /** Accepts the dispute, so that the payer keeps the money. Idempotent. */
  acceptDispute(id: string, request: { readonly key: string }): Promise<ProcessorDispute>
  /** Returns every dispute about an intent, oldest first. */
  findDisputes(search: { readonly intent_id: string }): Promise<ProcessorDispute[]>
  /** Deletes the payment method at the processor, so that it can no longer be charged. */
  forgetMethod(id: string): Promise<void>
  /** Reads the current state of a saved method; null if it can no longer be charged. Absent if the processor's methods never change. */
  readMethod?(id: string): Promise<KeptMethod | null>
  /** Returns the payment method behind a token before any charge; null for an unknown token. */
  previewToken(token: string): Promise<{ readonly type: string; readonly fingerprint: string; readonly name: string | null } | null>
  /** Returns a page of the events since a time and the cursor of the next page. Absent if the processor delivers every event reliably. */
  listEvents?(since: Date, after: string | null): Promise<{ readonly events: readonly ProcessorEvent[]; readonly next: string | null }>
  /**
   * Verifies and parses an event that the processor posted. Returns null for an irrelevant type. Throws `EventRefused`
   * if the signature is invalid or old.
   */
  readEvent(headers: IncomingHttpHeaders, body: Buffer): ProcessorEvent | null
}

/** A payment account of an organization, with the secret that signs its events. */
export interface PaymentAccount {
  readonly id: string
  readonly processor: 'test' | 'stripe'
  readonly secret: Secret
  /** API key of the account; null for the built-in test processor. */
  readonly key: Secret | null
}

/** The processors of this deployment, by account. */
export interface Payments {
  /** The default processor of new accounts. An account of the test processor is created on first use. */
  readonly preferred: PaymentAccount['processor']
  readonly of: (account: PaymentAccount) => Processor
  /** Returns the Stripe account of a key. Throws `ProcessorRefusal` if the key is not valid. */
  readonly inspect: (key: Secret) => Promise<{ readonly id: string }>
  /** Returns the pending events of the built-in test processor. Real processors post their events to our endpoint. */
  readonly calls: (
    secretOf: (account_id: string) => Promise<Secret | undefined>,
  ) => Promise<{ account_id: string; headers: Readonly<Record<string, string>>; body: string }[]>
  /**
   * Answers the 3-D Secure challenge on behalf of the payer's bank, which the test processor simulates. The intent's
   * client secret suffices.
   */
  readonly playBank: (intent_client_secret: string, confirms: boolean) => Promise<void>
  readonly close: () => Promise<void>
}

/** The processor rejected the request. The request had no effect and will have none. */
export class ProcessorRefusal extends Error {
  override readonly name = 'ProcessorRefusal'
  readonly code: string
  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/**
 * The processor did not respond, so the effect may or may not have happened. The caller must retry with the same key or
 * read the object.
 */
export class ProcessorSilent extends Error {
  override readonly name = 'ProcessorSilent'
  constructor(call: string, options?: ErrorOptions) {
    super(`the processor did not answer the request ${call}`, options)
  }
}

/** The signature of an event is not valid for this account, or is too old. */
export class EventRefused extends Error {
  override readonly name = 'EventRefused'
}

const finalCodes = new Set(
  `card_not_supported do_not_honor expired_card fraudulent incorrect_cvc incorrect_number invalid_account invalid_cvc
  invalid_expiry_year invalid_pin live_mode_test_card lost_card merchant_blacklist not_permitted pickup_card
  previously_declined_do_not_retry restricted_card revocation_of_all_authorizations revocation_of_authorization
  security_violation stolen_card stop_payment_order blocklist`.split(/\s+/),
)

/** True if this code is a hard decline at any processor. */
export const isFinal = (code: string): boolean => finalCodes.has(code)
