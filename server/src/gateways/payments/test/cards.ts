import { hash } from 'node:crypto'
import { days, seconds } from '../../../platform/clock.ts'
import { isFinal, type Decline, type DisputeStatus, type IntentKind, type KeptMethod } from '../payments.ts'

/** A test card: its display data and its behaviour. A card without optional fields accepts every payment. */
export interface Card {
  readonly says: string
  readonly type: string
  readonly brand: string | null
  readonly last4: string | null
  readonly exp_month: number | null
  readonly exp_year: number | null
  readonly wallet: string | null
  readonly name: string | null
  readonly declines?: DeclineCode
  readonly declines_off_session?: DeclineCode
  /** Number of off-session intents that the card declines before it pays. */
  readonly recovers_after?: number
  /** Number of payments after which the card expires. */
  readonly expires_after?: number
  /** The charges for which the bank requires 3-D Secure. Absent: none. */
  readonly authenticates?: 'on_session' | 'always'
  /** The message that the simulated network loses: the first request for an intent, before its effect, or the response after the effect. */
  readonly loses?: 'request' | 'answer'
  readonly settles?: 'succeeded' | 'failed'
  readonly calls_back?: 'twice' | 'late' | 'never'
  readonly refunds?: 'pending' | 'fails_later'
  /** If set, every payment is disputed at once. `opens` is the initial status of the dispute, `becomes` the status that follows later. */
  readonly disputes?: { readonly opens: DisputeStatus; readonly becomes?: DisputeStatus }
}

const reasons = {
  insufficient_funds: 'The card has insufficient funds.',
  do_not_honor: 'The card was declined.',
  expired_card: 'The card has expired.',
  incorrect_cvc: 'The security code is incorrect.',
  lost_card: 'The card was declined.',
  processing_error: 'An error occurred while processing the card. Try again in a little while.',
  fraudulent: 'The card was declined.',
  authentication_required: 'The bank wants the payer to confirm this payment.',
  authentication_failed: 'The payer did not confirm the payment.',
} as const
export type DeclineCode = keyof typeof reasons

/** Returns the decline with this code, with its message and whether it is a hard decline. */
export const declineOf = (code: DeclineCode): Decline => ({ code, message: reasons[code], final: isFinal(code) })

const visa = { type: 'card', brand: 'visa', last4: '0001', exp_month: 12, exp_year: 2040, wallet: null, name: null }
const debit = { ...visa, type: 'sepa_debit', brand: null, last4: '0090', exp_month: null, exp_year: null }

/** All test cards by token. */
export const cards = {
  tok_visa: { ...visa, says: 'Pays.' },
  tok_mastercard: { ...visa, brand: 'mastercard', last4: '0002', says: 'Pays.' },
  tok_wallet: { ...visa, last4: '0003', wallet: 'apple_pay', name: 'Wanda Wallet', says: 'Pays from a wallet, which provides the name of its owner.' },
  tok_insufficient_funds: { ...visa, last4: '0010', declines: 'insufficient_funds', says: 'Is declined for insufficient funds; a later attempt may succeed.' },
  tok_do_not_honor: { ...visa, last4: '0011', declines: 'do_not_honor', says: 'Is declined without a reason; no retry can succeed.' },
  tok_expired_card: { ...visa, last4: '0012', exp_year: 2020, declines: 'expired_card', says: 'Is declined because it has expired.' },
  tok_incorrect_cvc: { ...visa, last4: '0013', declines: 'incorrect_cvc', says: 'Is declined because the security code is wrong.' },
  tok_lost_card: { ...visa, last4: '0014', declines: 'lost_card', says: 'Is declined because it was lost.' },
  tok_processing_error: { ...visa, last4: '0015', declines: 'processing_error', says: 'Is declined because of a processing error; a retry may succeed.' },
  tok_fraudulent: { ...visa, last4: '0016', declines: 'fraudulent', says: 'Is declined as fraud.' },
  tok_declined_later: {
    ...visa,
    last4: '0017',
    declines_off_session: 'insufficient_funds',
    says: 'Pays while the payer is present, and is declined off-session.',
  },
  tok_expired_later: {
    ...visa,
    last4: '0018',
    declines_off_session: 'expired_card',
    says: 'Pays while the payer is present. Off-session it is declined as expired, and no retry can succeed.',
  },
  tok_recovers_later: {
    ...visa,
    last4: '0019',
    declines_off_session: 'insufficient_funds',
    recovers_after: 2,
    says: 'Pays while the payer is present. Off-session it is declined twice for insufficient funds, and then pays.',
  },
  tok_expires_soon: {
    ...visa,
    last4: '0022',
    expires_after: 2,
    says: 'Pays twice; from then on it is declined as expired off-session.',
  },
  tok_3ds: { ...visa, last4: '0020', authenticates: 'on_session', says: 'Asks the payer to confirm whenever they are present; pays off-session.' },
  tok_3ds_always: { ...visa, last4: '0021', authenticates: 'always', says: 'Asks the payer to confirm every time, and is declined off-session.' },
  tok_charge_then_timeout: { ...visa, last4: '0030', loses: 'answer', says: 'Pays, and the answer is lost.' },
  tok_timeout_then_nothing: { ...visa, last4: '0031', loses: 'request', says: 'Loses the first request for each intent; the next one pays.' },
  tok_callback_twice: { ...visa, last4: '0040', calls_back: 'twice', says: 'Pays, and every event is sent twice.' },
  tok_callback_late: { ...visa, last4: '0041', calls_back: 'late', says: 'Pays, and every event is sent 90 seconds late.' },
  tok_callback_never: { ...visa, last4: '0042', calls_back: 'never', says: 'Pays, and no event is ever sent.' },
  tok_processing: { ...debit, settles: 'succeeded', says: 'A bank debit that pays after 60 seconds.' },
  tok_processing_fails: { ...debit, last4: '0091', settles: 'failed', says: 'A bank debit that is declined for insufficient funds after 60 seconds.' },
  tok_refund_pending: { ...visa, last4: '0050', refunds: 'pending', says: 'Pays; a refund stays pending for 60 seconds.' },
  tok_refund_fails_later: { ...visa, last4: '0051', refunds: 'fails_later', says: 'Pays; a refund succeeds, and fails after 60 seconds.' },
  tok_dispute: { ...visa, last4: '0060', disputes: { opens: 'needs_response' }, says: 'Pays, and is disputed: the bank waits for an answer.' },
  tok_dispute_lost: {
    ...visa,
    last4: '0061',
    disputes: { opens: 'needs_response', becomes: 'lost' },
    calls_back: 'twice',
    says: 'Pays, and is disputed; after 60 seconds the dispute is lost. Every event is sent twice.',
  },
  tok_dispute_won: {
    ...visa,
    last4: '0062',
    disputes: { opens: 'under_review', becomes: 'won' },
    says: 'Pays, and is disputed; the bank reviews it, and after 60 seconds the dispute is won.',
  },
  tok_dispute_warned: {
    ...visa,
    last4: '0063',
    disputes: { opens: 'early_warning', becomes: 'needs_response' },
    says: 'Pays, and its bank warns of a dispute, which arrives after 60 seconds.',
  },
  tok_dispute_prevented: {
    ...visa,
    last4: '0064',
    disputes: { opens: 'early_warning', becomes: 'prevented' },
    says: 'Pays, and its bank warns of a dispute; after 60 seconds the payment is refunded instead.',
  },
  tok_dispute_untold: {
    ...visa,
    last4: '0065',
    disputes: { opens: 'needs_response' },
    calls_back: 'never',
    says: 'Pays, and is disputed, and no event is ever sent.',
  },
} as const satisfies Record<string, Card>
export type CardToken = keyof typeof cards

export const settlesAfter = 60 * seconds
export const lateBy = 90 * seconds
/** Time that the bank gives for a response to a dispute. */
export const respondWithin = 7 * days

/**
 * Returns the card of a token, or undefined. A suffix after a colon makes it another card of the same type with its own
 * fingerprint: `tok_visa:ann`.
 */
export const readCard = (token: string): Card | undefined => {
  const name = token.replace(/:[0-9A-Za-z_-]{1,64}$/, '')
  return Object.hasOwn(cards, name) ? cards[name as CardToken] : undefined
}

/** Returns a fingerprint that is equal only for the same card at the same account. */
export const fingerprintOf = (account: string, token: string): string => `test_fp_${hash('sha256', JSON.stringify([account, token])).slice(0, 24)}`

/** Returns the display data of a card. */
export const methodOf = (account: string, id: string, token: string, { type, brand, last4, exp_month, exp_year, wallet }: Card): KeptMethod => ({
  id,
  type,
  brand,
  last4,
  exp_month,
  exp_year,
  wallet,
  fingerprint: fingerprintOf(account, token),
})

export type Verdict = { readonly status: 'succeeded' | 'processing' | 'requires_action' } | { readonly status: 'failed'; readonly decline: DeclineCode }

export interface Circumstances {
  readonly kind: IntentKind
  readonly off_session: boolean
  readonly require_3ds: boolean
  readonly authenticated: boolean
  /** How many other intents the card has paid and declined. */
  readonly paid: number
  readonly declined: number
}

/** Returns the result of charging a card, according to the card's behaviour and the circumstances of the charge. */
export const judge = (card: Card, { kind, off_session, require_3ds, authenticated, paid, declined }: Circumstances): Verdict => {
  const recovered = card.recovers_after !== undefined && declined >= card.recovers_after
  const expired = off_session && card.expires_after !== undefined && paid >= card.expires_after
  const code = expired ? 'expired_card' : (card.declines ?? (off_session && !recovered ? card.declines_off_session : undefined))
  if (code) return { status: 'failed', decline: code }
  const asked = require_3ds || card.authenticates === 'always' || (card.authenticates === 'on_session' && !off_session)
  if (asked && off_session) return { status: 'failed', decline: 'authentication_required' }
  if (asked && !authenticated) return { status: 'requires_action' }
  return { status: card.settles && kind === 'payment' ? 'processing' : 'succeeded' }
}
