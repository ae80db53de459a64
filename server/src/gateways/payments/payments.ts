import type { IncomingHttpHeaders } from 'node:http'
import type { Secret } from '../../kernel/secrets.ts'

/** What is charged: a card just entered, known by the token that the page was given for it, or one that was kept. */
export type Instrument = { readonly kind: 'token'; readonly token: string } | { readonly kind: 'method'; readonly id: string }

/** What paid, in words to show. It can be charged again when its intent was a setup or reusable, and succeeded. */
export interface KeptMethod {
  readonly id: string
  readonly type: string
  readonly brand: string | null
  readonly last4: string | null
  readonly exp_month: number | null
  readonly exp_year: number | null
  readonly wallet: string | null
  /** The same for the same card, whoever enters it. */
  readonly fingerprint: string
}

export interface Decline {
  readonly code: string
  readonly message: string
  /** Trying the same card again will not help. */
  readonly final: boolean
}

export type IntentKind = 'payment' | 'setup'
export type IntentStatus = 'requires_confirmation' | 'requires_action' | 'processing' | 'succeeded' | 'failed' | 'canceled'

/** One payment, or one card to be kept. It is charged at most once, however often it is confirmed. */
export interface Intent {
  readonly id: string
  readonly kind: IntentKind
  readonly status: IntentStatus
  readonly amount: number
  readonly currency: string
  /** For the payer's own page, which finishes what a bank asks of the payer. */
  readonly client_secret: string
  readonly metadata: Readonly<Record<string, string>>
  readonly method: KeptMethod | null
  /** Why the last confirmation failed. A failed intent can be confirmed again, with something else. */
  readonly decline: Decline | null
  readonly charged_at: Date | null
}

export type RefundStatus = 'pending' | 'succeeded' | 'failed' | 'canceled'

/** Money on its way back. One that succeeded can still fail later. */
export interface ProcessorRefund {
  readonly id: string
  readonly intent_id: string
  readonly status: RefundStatus
  readonly amount: number
  readonly currency: string
  readonly metadata: Readonly<Record<string, string>>
}

export type DisputeStatus = 'early_warning' | 'needs_response' | 'under_review' | 'won' | 'lost' | 'prevented'

/** A payer asked their bank for the money back. */
export interface ProcessorDispute {
  readonly id: string
  readonly intent_id: string
  readonly status: DisputeStatus
  readonly amount: number
  readonly currency: string
  readonly reason: string
  /** Until when it can be answered; null where nothing can be. */
  readonly respond_by: Date | null
  /** The time to answer has passed. */
  readonly past_due: boolean
  /** It was prevented by giving the money back. One that was only fended off has cost nothing. */
  readonly given_back: boolean
  /** Nothing more is expected of it: if anything comes all the same, it is told. */
  readonly asleep: boolean
}

export type ProcessorEventKind = 'intent.succeeded' | 'intent.failed' | 'intent.requires_action' | 'refund.updated' | 'dispute.updated' | 'method.updated'

/** A hint that something happened: it may come late, twice or never, so whoever gets one reads the object itself. */
export interface ProcessorEvent {
  readonly id: string
  readonly kind: ProcessorEventKind
  readonly object_id: string
  readonly at: Date
}

/**
 * One payment account at a processor. Whoever charges creates an intent, which moves no money, commits its id, and only
 * then confirms it: whatever is lost on the way is found again under that id. The same key with the same request gives
 * the same answer, for a day. Calls throw `ProcessorRefusal` or `ProcessorSilent`; a decline is an answer.
 */
export interface Processor {
  /** Absent where customers are known by our own names. Gives the processor's name of a customer, which intents are then made for. */
  createCustomer?(request: { readonly key: string; readonly metadata: Readonly<Record<string, string>> }): Promise<string>
  createIntent(request: {
    readonly key: string
    readonly kind: IntentKind
    /** Nothing for a setup. */
    readonly amount: number
    readonly currency: string
    readonly customer: string
    readonly metadata: Readonly<Record<string, string>>
    /** Keeps what pays, so that it can be charged when the payer is away. */
    readonly reusable: boolean
  }): Promise<Intent>
  confirmIntent(
    id: string,
    request: {
      readonly key: string
      readonly means: Instrument
      /** The payer is away: what would need them is declined. */
      readonly off_session: boolean
      readonly require_3ds: boolean
    },
  ): Promise<Intent>
  readIntent(id: string): Promise<Intent>
  /** Every intent of a customer that carries this metadata, oldest first: how one whose id was lost is found again. */
  findIntents(search: { readonly customer: string; readonly metadata: Readonly<Record<string, string>> }): Promise<Intent[]>
  /** After this it can no longer be charged. */
  cancelIntent(id: string): Promise<Intent>
  createRefund(request: {
    readonly key: string
    readonly intent_id: string
    readonly amount: number
    readonly metadata: Readonly<Record<string, string>>
  }): Promise<ProcessorRefund>
  readRefund(id: string): Promise<ProcessorRefund>
  /** Every refund of an intent that carries this metadata, oldest first. */
  findRefunds(search: { readonly intent_id: string; readonly metadata: Readonly<Record<string, string>> }): Promise<ProcessorRefund[]>
  readDispute(id: string): Promise<ProcessorDispute>
  /** Gives the money up instead of answering. Saying it again changes nothing. */
  acceptDispute(id: string, request: { readonly key: string }): Promise<ProcessorDispute>
  /** Every dispute about an intent, oldest first. */
  findDisputes(search: { readonly intent_id: string }): Promise<ProcessorDispute[]>
  /** After this it can no longer be charged. */
  forgetMethod(id: string): Promise<void>
  /** What was kept, as it is now; nothing where it cannot be charged any more. Absent where nothing of it ever changes. */
  readMethod?(id: string): Promise<KeptMethod | null>
  /** What a token stands for, before anything is charged; nothing for one that is not known. */
  previewToken(token: string): Promise<{ readonly type: string; readonly fingerprint: string; readonly name: string | null } | null>
  /** A page of what it has told since a moment, and where the next one goes on. Absent where nothing that is told can be missed. */
  listEvents?(since: Date, after: string | null): Promise<{ readonly events: readonly ProcessorEvent[]; readonly next: string | null }>
  /** Reads what was posted to us, or throws `EventRefused` when this account did not sign it just now; null: nothing that concerns us. */
  readEvent(headers: IncomingHttpHeaders, body: Buffer): ProcessorEvent | null
}

/** Whose money: one of an organization's accounts, with the secret that its callbacks are signed with. */
export interface PaymentAccount {
  readonly id: string
  readonly processor: 'test' | 'stripe'
  readonly secret: Secret
  /** What opens the account at its processor; null where that is on this machine. */
  readonly key: Secret | null
}

/** The processors of this deployment, by account. */
export interface Payments {
  /** The processor that accounts are with unless another is connected: an account with the test processor is made when it is needed. */
  readonly preferred: PaymentAccount['processor']
  readonly of: (account: PaymentAccount) => Processor
  /** Which account at Stripe a key opens. Throws `ProcessorRefusal` where it opens none. */
  readonly inspect: (key: Secret) => Promise<{ readonly id: string }>
  /** What a processor on this machine wants to tell us: real ones call by themselves. */
  readonly calls: (
    secretOf: (account_id: string) => Promise<Secret | undefined>,
  ) => Promise<{ account_id: string; headers: Readonly<Record<string, string>>; body: string }[]>
  /** Where the processor plays the payer's bank as well: the payer's answer to it. Knowing the intent's secret is enough. */
  readonly playBank: (intent_client_secret: string, confirms: boolean) => Promise<void>
  readonly close: () => Promise<void>
}

/** A definite no: nothing was done, and nothing will be. */
export class ProcessorRefusal extends Error {
  override readonly name = 'ProcessorRefusal'
  readonly code: string
  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** No answer: it may have been done or not. Ask again under the same key, or read the object. */
export class ProcessorSilent extends Error {
  override readonly name = 'ProcessorSilent'
  constructor(call: string, options?: ErrorOptions) {
    super(`the processor did not answer ${call}`, options)
  }
}

/** An event that was not signed by the account it claims to come from, or long ago. */
export class EventRefused extends Error {
  override readonly name = 'EventRefused'
}

const finalCodes = new Set(
  `card_not_supported do_not_honor expired_card fraudulent incorrect_cvc incorrect_number invalid_account invalid_cvc
  invalid_expiry_year invalid_pin live_mode_test_card lost_card merchant_blacklist not_permitted pickup_card
  previously_declined_do_not_retry restricted_card revocation_of_all_authorizations revocation_of_authorization
  security_violation stolen_card stop_payment_order blocklist`.split(/\s+/),
)

/** Whether a decline with this code will be the same next time, at whatever processor. */
export const isFinal = (code: string): boolean => finalCodes.has(code)
