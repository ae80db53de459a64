import { randomText } from '../../src/kernel/secrets.ts'

/** Stripe objects with all their fields, and the cards of Stripe's test mode. */
export type Fields = Record<string, unknown>
export type Metadata = Record<string, string>

export interface IntentObject extends Fields {
  id: string
  object: 'payment_intent' | 'setup_intent'
  created: number
  status: string
  client_secret: string
  customer: string | null
  metadata: Metadata
  payment_method: string | null
  automatic_payment_methods: { readonly allow_redirects: string; readonly enabled: boolean }
}
export interface PaymentObject extends IntentObject {
  amount: number
  currency: string
  latest_charge: string | null
  last_payment_error: Fields | null
  setup_future_usage: string | null
}
export interface SetupObject extends IntentObject {
  last_setup_error: Fields | null
  latest_attempt: string | null
}
export interface MethodObject extends Fields {
  id: string
  type: string
  customer: string | null
}
export interface ChargeObject extends Fields {
  id: string
  amount: number
  amount_refunded: number
  currency: string
  created: number
  payment_intent: string
  payment_method_details: Fields
}
export interface RefundObject extends Fields {
  id: string
  amount: number
  currency: string
  status: string
  payment_intent: string
  metadata: Metadata
}
export interface DisputeObject extends Fields {
  id: string
  status: string
  payment_intent: string
}

const letters = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
export const newName = (kind: string): string => `${kind}_${randomText(24, letters)}`

/** A payment method that sends the payer to another site: the currencies it takes, and the method it sets up for later charges. */
export interface Redirecting {
  readonly currencies: readonly string[]
  readonly sets_up: 'sepa_debit' | 'itself' | null
}

/** The methods that leave the page, as the documentation of Stripe describes them. Kept apart from the list of the server. */
export const redirecting: Readonly<Record<string, Redirecting>> = {
  ideal: { currencies: ['eur'], sets_up: 'sepa_debit' },
  bancontact: { currencies: ['eur'], sets_up: 'sepa_debit' },
  p24: { currencies: ['eur', 'pln'], sets_up: null },
  paypal: { currencies: ['eur', 'usd', 'gbp', 'pln'], sets_up: 'itself' },
  klarna: { currencies: ['eur', 'usd', 'gbp', 'pln'], sets_up: 'itself' },
}

/** A test card: its display data, and its behaviour if it does more than pay. */
export interface Card {
  readonly type?: 'card' | 'sepa_debit' | 'ideal' | 'bancontact' | 'p24' | 'paypal' | 'klarna'
  readonly brand?: string
  readonly last4?: string
  readonly wallet?: string
  readonly name?: string
  readonly declines?: string
  /** The card can be saved, but is declined on every charge. */
  readonly fails_later?: boolean
  readonly authenticates?: 'always' | 'on_setup'
  readonly disputed?: boolean
  readonly settles?: 'succeeded' | 'failed'
  readonly refunds?: 'pending' | 'fails_later'
}

/** The test cards that our tests use, by Stripe's names. The last four digits are our own choice. */
export const cards: Readonly<Record<string, Card>> = {
  pm_card_visa: {},
  pm_card_mastercard: { brand: 'mastercard', last4: '4444' },
  pm_card_chargeDeclined: { last4: '0002', declines: 'generic_decline' },
  pm_card_chargeDeclinedInsufficientFunds: { last4: '9995', declines: 'insufficient_funds' },
  pm_card_chargeDeclinedLostCard: { last4: '9987', declines: 'lost_card' },
  pm_card_chargeDeclinedFraudulent: { last4: '0019', declines: 'fraudulent' },
  pm_card_chargeDeclinedExpiredCard: { last4: '0069', declines: 'expired_card' },
  pm_card_chargeDeclinedIncorrectCvc: { last4: '0127', declines: 'incorrect_cvc' },
  pm_card_chargeDeclinedProcessingError: { last4: '0119', declines: 'processing_error' },
  pm_card_chargeCustomerFail: { last4: '0341', fails_later: true },
  pm_card_authenticationRequired: { last4: '3184', authenticates: 'always' },
  pm_card_authenticationRequiredOnSetup: { last4: '3155', authenticates: 'on_setup' },
  pm_card_createDispute: { last4: '0259', disputed: true },
  pm_card_pendingRefund: { last4: '7726', refunds: 'pending' },
  pm_card_refundFail: { last4: '5126', refunds: 'fails_later' },
  pm_card_wallet: { last4: '0003', wallet: 'apple_pay', name: 'Wanda Wallet' },
  pm_sepaDebit: { type: 'sepa_debit', last4: '3000', settles: 'succeeded' },
  pm_sepaDebit_fails: { type: 'sepa_debit', last4: '3001', settles: 'failed' },
  pm_ideal: { type: 'ideal' },
  pm_bancontact: { type: 'bancontact' },
  pm_p24: { type: 'p24' },
  pm_paypal: { type: 'paypal' },
  pm_klarna: { type: 'klarna' },
}

const nothing = (...names: string[]): Fields => Object.fromEntries(names.map((name) => [name, null]))
const noAddress = nothing('city', 'country', 'line1', 'line2', 'postal_code', 'state')
const livemode = false

export const customer = (id: string, created: number, metadata: Metadata) => ({
  ...nothing('currency', 'default_source', 'description', 'discount', 'email', 'name', 'phone', 'shipping', 'test_clock', 'address'),
  id,
  object: 'customer',
  balance: 0,
  created,
  delinquent: false,
  invoice_prefix: id.slice(4, 11).toUpperCase(),
  invoice_settings: nothing('custom_fields', 'default_payment_method', 'footer', 'rendering_options'),
  livemode,
  metadata,
  next_invoice_sequence: 1,
  preferred_locales: [],
  tax_exempt: 'none',
})

const intent = (id: string, created: number, allow_redirects: string) => ({
  id,
  created,
  client_secret: `${id}_secret_${randomText(25, letters)}`,
  livemode,
  status: 'requires_payment_method',
  payment_method: null,
  automatic_payment_methods: { allow_redirects, enabled: true },
  payment_method_options: {},
  payment_method_types: ['card', 'sepa_debit'],
})

export const paymentIntent = (
  created: number,
  given: Pick<PaymentObject, 'amount' | 'currency' | 'customer' | 'metadata' | 'setup_future_usage'>,
  allow_redirects: string,
): PaymentObject => ({
  ...nothing('application', 'application_fee_amount', 'canceled_at', 'cancellation_reason', 'customer_account', 'description', 'excluded_payment_method_types'),
  ...nothing('managed_payments', 'next_action', 'on_behalf_of', 'payment_method_configuration_details', 'processing', 'receipt_email', 'review', 'shipping'),
  ...nothing('source', 'statement_descriptor', 'statement_descriptor_suffix', 'transfer_data', 'transfer_group'),
  ...intent(newName('pi'), created, allow_redirects),
  object: 'payment_intent',
  amount_capturable: 0,
  amount_details: { tip: {} },
  amount_received: 0,
  capture_method: 'automatic',
  confirmation_method: 'automatic',
  last_payment_error: null,
  latest_charge: null,
  ...given,
})

export const setupIntent = (created: number, given: Pick<SetupObject, 'customer' | 'metadata'>, allow_redirects: string): SetupObject => ({
  ...nothing('application', 'cancellation_reason', 'description', 'excluded_payment_method_types', 'flow_directions', 'mandate'),
  latest_attempt: null,
  ...nothing('next_action', 'on_behalf_of', 'payment_method_configuration_details', 'single_use_mandate'),
  ...intent(newName('seti'), created, allow_redirects),
  object: 'setup_intent',
  last_setup_error: null,
  usage: 'off_session',
  ...given,
})

const details = (name: string, { type = 'card', brand = 'visa', last4 = '4242', wallet }: Card) =>
  redirecting[type]
    ? { [type]: {} }
    : type === 'sepa_debit'
      ? { sepa_debit: { bank_code: '37040044', branch_code: '', country: 'DE', fingerprint: `fp${name}`, generated_from: null, last4 } }
      : {
          card: {
            ...nothing('generated_from', 'regulated_status'),
            brand,
            checks: { address_line1_check: null, address_postal_code_check: null, cvc_check: 'pass' },
            country: 'US',
            display_brand: brand,
            exp_month: 8,
            exp_year: 2040,
            fingerprint: `fp${name}`,
            funding: 'credit',
            last4,
            networks: { available: [brand], preferred: null },
            three_d_secure_usage: { supported: true },
            wallet: wallet ? { dynamic_last4: null, type: wallet } : null,
          },
        }

const billing = ({ name = null }: { name?: string | null }) => ({ address: noAddress, email: null, name, phone: null, tax_id: null })

/** Finds a card by its test-mode name. A suffix after a colon makes it a separate card of the same kind. */
export const cardOf = (name: string): Card | undefined => cards[name.split(':')[0]!]

export const paymentMethod = (created: number, name: string, card: Card): MethodObject => ({
  id: newName('pm'),
  object: 'payment_method',
  allow_redisplay: 'unspecified',
  billing_details: billing(card),
  created,
  customer: null,
  customer_account: null,
  livemode,
  metadata: {},
  type: card.type ?? 'card',
  ...details(name, card),
})

export interface TokenObject extends Fields {
  id: string
  payment_intent: string | null
  setup_intent: string | null
}

export const confirmationToken = (created: number, name: string, card: Card): TokenObject => ({
  ...nothing('mandate_data', 'payment_method_options', 'return_url', 'setup_future_usage', 'shipping'),
  payment_intent: null,
  setup_intent: null,
  id: newName('ctoken'),
  object: 'confirmation_token',
  created,
  expires_at: created + 12 * 3600,
  livemode,
  payment_method_preview: {
    allow_redisplay: 'unspecified',
    billing_details: billing(card),
    customer: null,
    customer_account: null,
    type: card.type ?? 'card',
    ...details(name, card),
  },
  use_stripe_sdk: true,
})

/** The details of a payment by this method, with the SEPA debit that it has set up. */
export const methodDetails = ({ type }: MethodObject, made: string | null): Fields => ({
  type,
  ...(redirecting[type]
    ? { [type]: { generated_sepa_debit: made, generated_sepa_debit_mandate: made === null ? null : newName('mandate'), iban_last4: null } }
    : {}),
})

export const charge = (created: number, of: PaymentObject, method: MethodObject, made: string | null): ChargeObject => {
  const id = newName('ch')
  return {
    ...nothing('application', 'application_fee', 'application_fee_amount', 'balance_transaction', 'calculated_statement_descriptor', 'description'),
    ...nothing('failure_balance_transaction', 'failure_code', 'failure_message', 'on_behalf_of', 'receipt_email', 'receipt_number', 'receipt_url', 'review'),
    ...nothing('shipping', 'source', 'source_transfer', 'statement_descriptor', 'statement_descriptor_suffix', 'transfer_data', 'transfer_group'),
    id,
    object: 'charge',
    amount: of.amount,
    amount_captured: of.amount,
    amount_refunded: 0,
    billing_details: method.billing_details,
    captured: true,
    created,
    currency: of.currency,
    customer: of.customer,
    disputed: false,
    fraud_details: {},
    livemode,
    metadata: of.metadata,
    outcome: {
      ...nothing('advice_code', 'network_advice_code', 'network_decline_code', 'reason', 'seller_message'),
      network_status: 'approved_by_network',
      type: 'authorized',
    },
    paid: true,
    payment_intent: of.id,
    payment_method: method.id,
    payment_method_details: methodDetails(method, made),
    refunded: false,
    refunds: { object: 'list', data: [], has_more: false, url: `/v1/charges/${id}/refunds` },
    status: 'succeeded',
  }
}

export const refund = (
  created: number,
  given: Pick<RefundObject, 'amount' | 'currency' | 'status' | 'payment_intent' | 'metadata'> & { charge: string },
): RefundObject => ({
  ...nothing(
    'balance_transaction',
    'customer',
    'customer_account',
    'payment_method',
    'reason',
    'receipt_number',
    'source_transfer_reversal',
    'transfer_reversal',
  ),
  id: newName('re'),
  object: 'refund',
  created,
  destination_details: { card: { type: 'refund' }, type: 'card' },
  ...given,
})

export const dispute = (created: number, of: ChargeObject): DisputeObject => ({
  id: newName('dp'),
  object: 'dispute',
  amount: of.amount,
  balance_transactions: [],
  charge: of.id,
  created,
  currency: of.currency,
  enhanced_eligibility_types: [],
  evidence: {},
  evidence_details: { due_by: created + 7 * 86_400, enhanced_eligibility: {}, has_evidence: false, past_due: false, submission_count: 0 },
  is_charge_refundable: false,
  livemode,
  metadata: {},
  payment_intent: of.payment_intent,
  payment_method_details: { card: { brand: 'visa', case_type: 'chargeback', network: 'visa', network_reason_code: '10.4' }, type: 'card' },
  reason: 'fraudulent',
  status: 'needs_response',
})

export const event = (created: number, type: string, object: Fields) => ({
  id: newName('evt'),
  object: 'event',
  api_version: null,
  created,
  data: { object },
  livemode,
  pending_webhooks: 1,
  request: { id: null, idempotency_key: null },
  type,
})
