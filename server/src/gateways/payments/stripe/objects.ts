import type { Stripe } from 'stripe'
import { fromProcessor } from '../../../kernel/money.ts'
import { setsUpAnother } from '../offered.ts'
import {
  isFinal,
  type Decline,
  type DisputeStatus,
  type Intent,
  type IntentStatus,
  type KeptMethod,
  type ProcessorDispute,
  type ProcessorRefund,
  type RefundStatus,
} from '../payments.ts'

/** Metadata key for a setup's currency, which Stripe does not store. This metadata entry is removed before callers see the metadata. */
export const ourCurrency = 'bursar_currency'

const statuses: Readonly<Record<string, IntentStatus>> = {
  requires_confirmation: 'requires_confirmation',
  requires_action: 'requires_action',
  succeeded: 'succeeded',
  canceled: 'canceled',
}

/**
 * Maps an intent status. `requires_payment_method` has two meanings: no card was given yet, or the last one was
 * declined.
 */
const statusOf = (status: string, error: object | null): IntentStatus => {
  if (status === 'requires_payment_method') return error === null ? 'requires_confirmation' : 'failed'
  // An unknown status maps to `processing`, so that it does not cause a second charge.
  return statuses[status] ?? 'processing'
}

type Failure = Pick<NonNullable<Stripe.PaymentIntent['last_payment_error']>, 'code' | 'decline_code' | 'message' | 'advice_code' | 'payment_method'>

const renamed: Readonly<Record<string, string>> = {
  payment_intent_authentication_failure: 'authentication_failed',
  setup_intent_authentication_failure: 'authentication_failed',
}

export const declineOf = ({ code, decline_code, message, advice_code }: Partial<Omit<Failure, 'payment_method'>>): Decline => {
  const reason = decline_code ?? renamed[code ?? ''] ?? code ?? 'card_declined'
  // Stripe's own message for this reason tells the seller what to do. It means nothing to the payer.
  const said = reason === 'authentication_failed' ? 'The payer did not confirm the payment.' : message
  return { code: reason, message: said ?? 'The payment was declined.', final: isFinal(reason) || advice_code === 'do_not_try_again' }
}

/** Fields that a payment method of any type may have. */
interface Details {
  readonly brand?: string | null
  readonly last4?: string | null
  readonly exp_month?: number
  readonly exp_year?: number
  readonly fingerprint?: string | null
  readonly wallet?: { readonly type: string } | null
}

const detailsOf = (method: { readonly type: string }): Details =>
  (method as Readonly<Record<string, Details | undefined>> & { type: string })[method.type] ?? {}

export const presentMethod = (method: Stripe.PaymentMethod): KeptMethod => {
  const { brand, last4, exp_month, exp_year, fingerprint, wallet } = detailsOf(method)
  return {
    id: method.id,
    type: method.type,
    brand: method.type === 'card' ? (brand ?? null) : null,
    last4: last4 ?? null,
    exp_month: exp_month ?? null,
    exp_year: exp_year ?? null,
    wallet: wallet?.type ?? null,
    // Some payment method types have no fingerprint. Uses the method's id instead, so that two methods never count as the same.
    fingerprint: fingerprint ?? method.id,
  }
}

const methodOf = (method: string | Stripe.PaymentMethod | null, failure: Failure | null): KeptMethod | null => {
  const shown = method ?? failure?.payment_method ?? null
  return shown === null || typeof shown === 'string' ? null : presentMethod(shown)
}

interface MadeDebit {
  readonly generated_sepa_debit?: string | { readonly id: string } | null
}

/**
 * Returns the id of the SEPA debit that a single payment has set up: of the charge of a payment, or of the attempt of a
 * setup. Returns null if there is none.
 */
const madeDebit = (details: { readonly type: string } | null | undefined): string | null => {
  if (!details || !setsUpAnother(details.type)) return null
  const { generated_sepa_debit: made } = (details as Readonly<Record<string, MadeDebit | undefined>> & { type: string })[details.type] ?? {}
  return typeof made === 'string' ? made : (made?.id ?? null)
}

/** Returns the id of the SEPA debit that replaces the method of this payment for later charges. */
export const debitOfPayment = ({ latest_charge: charge }: Stripe.PaymentIntent): string | null =>
  charge === null || typeof charge === 'string' ? null : madeDebit(charge.payment_method_details)

/** Returns the id of the SEPA debit that replaces the method of this setup for later charges. */
export const debitOfSetup = ({ latest_attempt: attempt }: Stripe.SetupIntent): string | null =>
  attempt === null || typeof attempt === 'string' ? null : madeDebit(attempt.payment_method_details)

/** Returns the address that a payment method sends the payer to. */
const redirectOf = (action: { readonly redirect_to_url?: { readonly url: string | null } } | null): string | null => action?.redirect_to_url?.url ?? null

/** A method that pays only once is not charged later. The gateway fetches the method that it has set up. */
const laterOf = (method: KeptMethod | null): { later_method?: null } => (method !== null && setsUpAnother(method.type) ? { later_method: null } : {})

const ownMetadata = (metadata: Stripe.Metadata | null): Record<string, string> => {
  const { [ourCurrency]: _, ...own } = metadata ?? {}
  return own
}

/** Maps a payment intent with its method and charge. */
export const presentPayment = (intent: Stripe.PaymentIntent): Intent => {
  const failure = intent.last_payment_error
  const status = statusOf(intent.status, failure)
  const method = methodOf(intent.payment_method, failure)
  const charge = typeof intent.latest_charge === 'string' ? null : intent.latest_charge
  return {
    id: intent.id,
    kind: 'payment',
    status,
    amount: fromProcessor(intent.amount, intent.currency),
    currency: intent.currency,
    client_secret: intent.client_secret ?? '',
    redirect_url: status === 'requires_action' ? redirectOf(intent.next_action) : null,
    metadata: ownMetadata(intent.metadata),
    method,
    ...laterOf(method),
    decline: failure && status !== 'succeeded' ? declineOf(failure) : null,
    charged_at: status === 'succeeded' ? new Date((charge?.created ?? intent.created) * 1000) : null,
  }
}

/** Maps a setup intent. At Stripe, setup intents have no amount and no currency. */
export const presentSetup = (intent: Stripe.SetupIntent): Intent => {
  const failure = intent.last_setup_error
  const status = statusOf(intent.status, failure)
  const method = methodOf(intent.payment_method, failure)
  return {
    id: intent.id,
    kind: 'setup',
    status,
    amount: 0,
    currency: intent.metadata?.[ourCurrency] ?? '',
    client_secret: intent.client_secret ?? '',
    redirect_url: status === 'requires_action' ? redirectOf(intent.next_action) : null,
    metadata: ownMetadata(intent.metadata),
    method,
    ...laterOf(method),
    decline: failure && status !== 'succeeded' ? declineOf(failure) : null,
    charged_at: null,
  }
}

const refundStatuses: Readonly<Record<string, RefundStatus>> = { succeeded: 'succeeded', failed: 'failed', canceled: 'canceled' }
const nameOf = (object: string | { readonly id: string } | null): string => (typeof object === 'string' ? object : (object?.id ?? ''))

export const presentRefund = (refund: Stripe.Refund): ProcessorRefund => ({
  id: refund.id,
  intent_id: nameOf(refund.payment_intent),
  status: refundStatuses[refund.status ?? ''] ?? 'pending',
  amount: fromProcessor(refund.amount, refund.currency),
  currency: refund.currency,
  metadata: refund.metadata ?? {},
})

/**
 * Maps dispute statuses. An inquiry (`warning_…`) is an early warning: no money was withdrawn. A dispute can still
 * follow a closed inquiry.
 */
const disputeStatuses: Readonly<Record<string, DisputeStatus>> = {
  warning_needs_response: 'early_warning',
  warning_under_review: 'early_warning',
  warning_closed: 'early_warning',
  prevented: 'prevented',
  needs_response: 'needs_response',
  appeal_needs_response: 'needs_response',
  won: 'won',
  lost: 'lost',
}

export const presentDispute = (dispute: Stripe.Dispute): ProcessorDispute => {
  const { due_by, past_due } = dispute.evidence_details
  return {
    id: dispute.id,
    intent_id: nameOf(dispute.payment_intent),
    status: disputeStatuses[dispute.status] ?? 'under_review',
    amount: fromProcessor(dispute.amount, dispute.currency),
    currency: dispute.currency,
    reason: dispute.reason,
    respond_by: due_by === null ? null : new Date(due_by * 1000),
    past_due,
    given_back: dispute.status === 'prevented' && dispute.payment_method_details?.card?.case_type !== 'block',
    asleep: dispute.status === 'warning_closed',
  }
}

/** Maps a confirmation token to its payment method. */
export const presentToken = ({
  id,
  payment_method_preview: preview,
}: Stripe.ConfirmationToken): { type: string; fingerprint: string; name: string | null } | null =>
  preview && { type: preview.type, fingerprint: detailsOf(preview).fingerprint ?? id, name: preview.billing_details.name }
