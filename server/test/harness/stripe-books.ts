import { chargeable, stepOf } from '../../src/kernel/money.ts'
import type { Clock } from '../../src/platform/clock.ts'
import {
  cardOf,
  charge,
  confirmationToken,
  customer,
  dispute,
  event,
  methodDetails,
  newName,
  paymentIntent,
  paymentMethod,
  redirecting,
  refund,
  setupIntent,
  type Card,
  type ChargeObject,
  type DisputeObject,
  type Fields,
  type MethodObject,
  type PaymentObject,
  type RefundObject,
  type SetupObject,
  type TokenObject,
} from './stripe-objects.ts'

/** Thrown for a request that Stripe refuses, or for a card that the bank declines. */
export class Refused extends Error {
  readonly status: number
  readonly fields: Fields
  constructor(status: number, fields: Fields) {
    super(String(fields.message))
    this.status = status
    this.fields = { type: 'invalid_request_error', ...fields }
  }
}

type Any = PaymentObject | SetupObject

/**
 * The payer's act at the other site. `pays_later` and `fails_later`: the payer has left, and the other site reports the
 * result after a minute.
 */
export type Visit = 'pays' | 'refuses' | 'pays_later' | 'fails_later'
const wrong = (code: string | undefined, message: string, status = 400) => new Refused(status, { ...(code ? { code } : {}), message })
const settlesAfter = 60

const reasons: Readonly<Record<string, string>> = {
  generic_decline: 'Your card was declined.',
  insufficient_funds: 'Your card has insufficient funds.',
  expired_card: 'Your card has expired.',
  incorrect_cvc: "Your card's security code is incorrect.",
  authentication_required: 'Your card was declined. This transaction requires authentication.',
  authentication_failed:
    'The provided PaymentMethod has failed authentication. You can provide payment_method_data or a new PaymentMethod to attempt to fulfill this PaymentIntent again.',
}

/** Opens the records of one Stripe account and its API. An intent is charged at most once, and every charge is recorded. */
export const openStripeBooks = (id: string, clock: Clock, tell: (event: Fields & { type: string }) => void) => {
  const customers = new Map<string, Fields>()
  const intents = new Map<string, Any>()
  const methods = new Map<string, MethodObject>()
  const cardNames = new Map<string, string>()
  const tokens = new Map<string, TokenObject>()
  const charges = new Map<string, ChargeObject>()
  const refunds = new Map<string, RefundObject>()
  const disputes = new Map<string, DisputeObject>()
  const attempts = new Map<string, Fields>()
  /** The other sites to which payers were sent, by address: the intent, and the page to return to. */
  const sites = new Map<string, { readonly intent_id: string; readonly return_url: string; readonly method: MethodObject }>()
  const settling = new Map<string, { at: number; to: string }>()
  const now = () => Math.floor(clock.wall().getTime() / 1000)
  const events: (Fields & { type: string })[] = []
  const happened = (type: string, object: Fields) => {
    const told = event(now(), type, structuredClone(object))
    events.push(told)
    tell(told)
  }

  const find = <T>(from: ReadonlyMap<string, T>, name: unknown, what: string): T => {
    const found = from.get(String(name))
    if (found === undefined) throw wrong('resource_missing', `No such ${what}: '${String(name)}'`, 404)
    return found
  }
  const isPayment = (one: Any): one is PaymentObject => one.object === 'payment_intent'
  const word = (one: Any) => (isPayment(one) ? 'payment' : 'setup')
  const cardFor = (method: MethodObject): Card => cardOf(cardNames.get(method.id)!)!

  /** Settles the debits and refunds that are due. Runs before every request. */
  const settle = () => {
    for (const [name, { at, to }] of settling) {
      if (at > now()) continue
      settling.delete(name)
      const back = refunds.get(name)
      if (back) {
        back.status = to
        happened(to === 'failed' ? 'refund.failed' : 'refund.updated', back)
        if (to === 'failed') charges.get(String(back.charge))!.amount_refunded -= back.amount
        continue
      }
      const intent = intents.get(name) as PaymentObject
      const method = methods.get(intent.payment_method!)!
      if (to === 'succeeded') succeed(intent, method)
      else decline(intent, method, 'insufficient_funds')
    }
  }

  /** Makes the SEPA debit that replaces a single payment for later charges. */
  const setUpDebit = (intent: Any): string => {
    const name = `pm_sepaDebit:${newName('iban').slice(5)}`
    const made = { ...paymentMethod(now(), name, cardOf(name)!), customer: intent.customer }
    methods.set(made.id, made)
    cardNames.set(made.id, name)
    return made.id
  }

  const succeed = (intent: Any, method: MethodObject) => {
    intent.status = 'succeeded'
    intent.payment_method = method.id
    intent.next_action = null
    const future = !isPayment(intent) || intent.setup_future_usage !== null
    const made = future && redirecting[method.type]?.sets_up === 'sepa_debit' ? setUpDebit(intent) : null
    if (!isPayment(intent)) {
      if (made === null) method.customer = intent.customer
      intent.last_setup_error = null
      const attempt = { id: newName('setatt'), object: 'setup_attempt', setup_intent: intent.id, payment_method_details: methodDetails(method, made) }
      attempts.set(attempt.id, attempt)
      intent.latest_attempt = attempt.id
      return happened('setup_intent.succeeded', intent)
    }
    if (future && made === null) method.customer = intent.customer
    intent.last_payment_error = null
    const charged = charge(now(), intent, method, made)
    charges.set(charged.id, charged)
    intent.latest_charge = charged.id
    intent.amount_received = intent.amount
    happened('charge.succeeded', charged)
    happened('payment_intent.succeeded', intent)
    if (cardFor(method).disputed) {
      const opened = dispute(now(), charged)
      disputes.set(opened.id, opened)
      charged.disputed = true
      happened('charge.dispute.created', opened)
    }
  }

  const decline = (intent: Any, method: MethodObject, reason: string): Refused => {
    const cardish = reason === 'expired_card' || reason === 'incorrect_cvc' || reason === 'processing_error' || reason === 'authentication_required'
    const failure = {
      type: 'card_error',
      code: reason === 'authentication_failed' ? `${word(intent)}_intent_authentication_failure` : cardish ? reason : 'card_declined',
      ...(reason === 'authentication_failed' ? {} : { decline_code: reason }),
      message: reasons[reason] ?? 'Your card was declined.',
      payment_method: structuredClone(method),
    }
    intent.status = 'requires_payment_method'
    intent.payment_method = null
    intent.next_action = null
    if (isPayment(intent)) intent.last_payment_error = failure
    else intent.last_setup_error = failure
    happened(isPayment(intent) ? 'payment_intent.payment_failed' : 'setup_intent.setup_failed', intent)
    return new Refused(402, { ...failure, [intent.object]: structuredClone(intent) })
  }

  /** Returns the payment method for an intent: new from a confirmation token, or a saved one of the customer. */
  const chosen = (intent: Any, { confirmation_token, payment_method }: Fields): MethodObject => {
    if (confirmation_token !== undefined) {
      const token = tokens.get(confirmation_token as string)
      if (!token) throw wrong('resource_missing', `No such confirmation_token: '${confirmation_token as string}'`)
      const used = token[intent.object]
      if ((token.payment_intent ?? token.setup_intent) !== null && used !== intent.id) throw wrong('confirmation_token_used', 'This token was used before.')
      const name = cardNames.get(token.id)!
      const method = paymentMethod(now(), name, cardOf(name)!)
      methods.set(method.id, method)
      cardNames.set(method.id, name)
      token[intent.object] = intent.id
      return method
    }
    const method = methods.get(String(payment_method))
    if (!method) throw wrong('resource_missing', `No such PaymentMethod: '${String(payment_method)}'`)
    if (method.customer === null || method.customer !== intent.customer) throw wrong(undefined, 'The PaymentMethod does not belong to this customer.')
    return method
  }

  const confirm = (intent: Any, params: Fields): Any => {
    if (!['requires_payment_method', 'requires_confirmation', 'requires_action'].includes(intent.status))
      throw wrong(`${word(intent)}_intent_unexpected_state`, `This intent has a status of ${intent.status}.`)
    const off_session = params.off_session === 'true'
    if (isPayment(intent) && off_session && intent.setup_future_usage !== null)
      throw wrong(undefined, 'You cannot confirm with `off_session` when `setup_future_usage` is set.')
    const isAway = intent.automatic_payment_methods.allow_redirects === 'always'
    if (isAway && params.return_url === undefined)
      throw wrong(undefined, 'This intent accepts payment methods that might redirect your customer. Give a `return_url`.')
    const method = chosen(intent, params)
    const card = cardFor(method)
    const site = redirecting[method.type]
    if (site) return leave(intent, method, site, { isAway, return_url: String(params.return_url) })
    const kept = params.payment_method !== undefined
    const code = card.declines ?? (isPayment(intent) && kept && card.fails_later ? 'generic_decline' : undefined)
    if (code) throw decline(intent, method, code)
    const options = (params.payment_method_options as { card?: { request_three_d_secure?: string } } | undefined)?.card
    const asks = options?.request_three_d_secure === 'any' || card.authenticates === 'always' || (card.authenticates === 'on_setup' && !kept && !off_session)
    if (asks && off_session) throw decline(intent, method, 'authentication_required')
    if (asks) {
      intent.status = 'requires_action'
      intent.payment_method = method.id
      intent.next_action = { type: 'use_stripe_sdk', use_stripe_sdk: {} }
      happened(`${intent.object}.requires_action`, intent)
    } else if (card.settles && isPayment(intent)) {
      intent.status = 'processing'
      intent.payment_method = method.id
      settling.set(intent.id, { at: now() + settlesAfter, to: card.settles })
      if (intent.setup_future_usage !== null) method.customer = intent.customer
      happened('payment_intent.processing', intent)
    } else succeed(intent, method)
    return intent
  }

  /** Sends the payer to another site. Nothing is charged before the payer has acted there. */
  const leave = (
    intent: Any,
    method: MethodObject,
    { currencies, sets_up }: { currencies: readonly string[]; sets_up: string | null },
    { isAway, return_url }: { isAway: boolean; return_url: string },
  ): Any => {
    const future = !isPayment(intent) || intent.setup_future_usage !== null
    if (!isAway || (isPayment(intent) && !currencies.includes(intent.currency)) || (future && sets_up === null))
      throw wrong('payment_intent_invalid_parameter', `The payment method type ${method.type} cannot be used with this intent.`)
    const url = `https://pm-redirects.stripe.com/authorize/${id}/${newName('sa_nonce')}`
    sites.set(url, { intent_id: intent.id, return_url, method })
    intent.status = 'requires_action'
    intent.payment_method = method.id
    intent.next_action = { type: 'redirect_to_url', redirect_to_url: { return_url, url } }
    happened(`${intent.object}.requires_action`, intent)
    return intent
  }

  const cancel = (intent: Any): Any => {
    if (!['requires_payment_method', 'requires_confirmation', 'requires_action'].includes(intent.status))
      throw wrong(`${word(intent)}_intent_unexpected_state`, `You cannot cancel this, because it has a status of ${intent.status}.`)
    intent.status = 'canceled'
    // Stripe may clear the last error of an intent when the intent changes.
    if (isPayment(intent)) Object.assign(intent, { canceled_at: now(), last_payment_error: null })
    happened(`${intent.object}.canceled`, intent)
    return intent
  }

  const redirectsIn = (params: Fields): string => (params.automatic_payment_methods as { allow_redirects?: string } | undefined)?.allow_redirects ?? 'always'

  const createPayment = (params: Fields): PaymentObject => {
    const currency = String(params.currency)
    const amount = Number(params.amount)
    const { minimum, maximum } = chargeable(currency)
    if (!Number.isSafeInteger(amount) || amount % stepOf(currency) !== 0) throw wrong('parameter_invalid_integer', 'Invalid integer')
    if (amount < minimum) throw wrong('amount_too_small', 'Amount is too small.')
    if (amount > maximum) throw wrong('amount_too_large', 'Amount is too large.')
    return paymentIntent(
      now(),
      {
        amount,
        currency,
        customer: params.customer === undefined ? null : String(find(customers, params.customer, 'customer').id),
        metadata: (params.metadata ?? {}) as PaymentObject['metadata'],
        setup_future_usage: (params.setup_future_usage as string | undefined) ?? null,
      },
      redirectsIn(params),
    )
  }

  const giveBack = (params: Fields): RefundObject => {
    const intent = find(intents, params.payment_intent, 'payment_intent')
    const made = charges.get(String(intent.latest_charge))
    if (!made) throw wrong('charge_not_refundable', 'This payment has no successful charge.')
    const left = made.amount - made.amount_refunded
    const amount = Number(params.amount ?? left)
    if (left === 0) throw wrong('charge_already_refunded', 'Charge has already been refunded.')
    if (!(amount >= 1)) throw wrong('parameter_invalid_integer', 'Invalid integer')
    if (amount > left) throw wrong(undefined, 'Refund amount is greater than unrefunded amount on charge.')
    const { refunds: how } = cardFor(methods.get(intent.payment_method!)!)
    const back = refund(now(), {
      amount,
      currency: made.currency,
      charge: made.id,
      payment_intent: intent.id,
      metadata: (params.metadata ?? {}) as RefundObject['metadata'],
      status: how === 'pending' ? 'pending' : 'succeeded',
    })
    refunds.set(back.id, back)
    made.amount_refunded += amount
    made.refunded = made.amount_refunded === made.amount
    if (how) settling.set(back.id, { at: now() + settlesAfter, to: how === 'pending' ? 'succeeded' : 'failed' })
    happened('refund.created', back)
    return back
  }

  const closeDispute = (one: DisputeObject): DisputeObject => {
    if (one.status !== 'needs_response' && one.status !== 'warning_needs_response') throw wrong(undefined, 'This dispute is already closed')
    one.status = 'lost'
    happened('charge.dispute.closed', one)
    return one
  }

  /** Returns a page of a list, newest object first. The page starts after the object with the given id. */
  const list = (all: readonly Fields[], { limit = '10', starting_after }: Fields, url: string): Fields => {
    const newest = all.toReversed()
    const from = starting_after === undefined ? 0 : newest.findIndex((one) => one.id === starting_after) + 1
    const data = newest.slice(from, from + Number(limit))
    return { object: 'list', data, has_more: from + data.length < newest.length, url }
  }

  /** Replaces the ids in the requested fields by the objects that they name, as Stripe's `expand` parameter does. */
  const expand = (object: Fields, wanted: readonly string[]): Fields => {
    if (object.object === 'list') {
      const inner = wanted.map((path) => path.replace(/^data\./, ''))
      return { ...object, data: (object.data as Fields[]).map((one) => expand(one, inner)) }
    }
    const shown: Fields = structuredClone(object)
    for (const field of wanted) {
      const name = shown[field]
      const from: ReadonlyMap<string, Fields> = field === 'payment_method' ? methods : field === 'latest_attempt' ? attempts : charges
      const whole = typeof name === 'string' ? from.get(name) : undefined
      if (whole) shown[field] = structuredClone(whole)
    }
    return shown
  }

  const route = (method: string, path: string, params: Fields): Fields => {
    const [kind = '', name, verb] = path.replace('/v1/', '').split('/')
    const keep = <T extends { id: string }>(into: Map<string, T>, object: T): T => {
      into.set(object.id, object)
      return object
    }
    const matching = (all: Iterable<Fields>, field: string) => [...all].filter((one) => params[field] === undefined || one[field] === params[field])
    if (method === 'GET' && path === '/v1/account') return { id, object: 'account', charges_enabled: true, type: 'standard' }
    if (path === '/v1/test_helpers/confirmation_tokens') {
      const card = String(params.payment_method)
      const found = cardOf(card)
      if (!found) throw wrong('resource_missing', `No such PaymentMethod: '${card}'`)
      const token = keep(tokens, confirmationToken(now(), card, found))
      cardNames.set(token.id, card)
      return token
    }
    switch (`${method} ${kind}${name ? '/:id' : ''}${verb ? `/${verb}` : ''}`) {
      case 'POST customers': {
        const made = customer(newName('cus'), now(), (params.metadata ?? {}) as Record<string, string>)
        customers.set(made.id, made)
        return made
      }
      case 'POST payment_intents':
        return keep(intents, createPayment(params))
      case 'POST setup_intents':
        return keep(
          intents,
          setupIntent(
            now(),
            { customer: String(find(customers, params.customer, 'customer').id), metadata: params.metadata as Record<string, string> },
            redirectsIn(params),
          ),
        )
      case 'GET payment_intents':
      case 'GET setup_intents':
        return list(
          matching(intents.values(), 'customer').filter(({ object }) => `${String(object)}s` === kind),
          params,
          path,
        )
      case 'GET payment_intents/:id':
      case 'GET setup_intents/:id':
        return find(intents, name, kind)
      case 'POST payment_intents/:id/confirm':
      case 'POST setup_intents/:id/confirm':
        return confirm(find(intents, name, kind), params)
      case 'POST payment_intents/:id/cancel':
      case 'POST setup_intents/:id/cancel':
        return cancel(find(intents, name, kind))
      case 'GET confirmation_tokens/:id':
        return find(tokens, name, 'confirmation_token')
      case 'GET payment_methods/:id':
        return find(methods, name, 'payment_method')
      case 'POST payment_methods/:id/detach': {
        const found = find(methods, name, 'payment_method')
        if (found.customer === null) throw wrong(undefined, 'The payment method you provided is not attached to a customer so detachment is impossible.')
        found.customer = null
        happened('payment_method.detached', found)
        return found
      }
      case 'POST refunds':
        return giveBack(params)
      case 'GET refunds':
        return list(matching(refunds.values(), 'payment_intent'), params, path)
      case 'GET refunds/:id':
        return find(refunds, name, 'refund')
      case 'GET events': {
        const { gte } = (params.created ?? {}) as { gte?: string }
        const types = Object.values((params.types ?? {}) as Record<string, string>)
        if (types.length > 20) throw wrong(undefined, 'You may filter by at most 20 types.')
        return list(
          events.filter((one) => types.includes(one.type) && Number(one.created) >= Number(gte ?? 0)),
          params,
          path,
        )
      }
      case 'GET disputes':
        return list(matching(disputes.values(), 'payment_intent'), params, path)
      case 'GET disputes/:id':
        return find(disputes, name, 'dispute')
      case 'POST disputes/:id/close':
        return closeDispute(find(disputes, name, 'dispute'))
      default:
        throw wrong(undefined, `Unrecognized request URL (${method}: ${path})`, 404)
    }
  }

  return {
    id,
    ask: (method: string, path: string, { expand: wanted, ...params }: Fields): Fields => {
      settle()
      return expand(route(method, path, params), Object.values((wanted ?? {}) as Record<string, string>))
    },
    /** Returns the confirmation token that a checkout page gets after the buyer typed the card with this test-mode name. */
    token: (card: string): string => String(route('POST', '/v1/test_helpers/confirmation_tokens', { payment_method: card }).id),
    /** Completes the bank authentication of an intent: the payer passes it (`well`) or fails it. */
    complete: (client_secret: string, well: boolean): void => {
      const intent = [...intents.values()].find((one) => one.client_secret === client_secret)!
      if (intent.status !== 'requires_action') throw wrong(undefined, `This intent is ${intent.status}.`)
      const method = methods.get(intent.payment_method!)!
      if (well) succeed(intent, method)
      else decline(intent, method, 'authentication_failed')
    },
    /**
     * Simulates the payer at the other site, and returns the address to which the payer is sent back. A second visit, or
     * a visit after the intent was canceled, charges nothing.
     */
    visit: (url: string, act: Visit): string => {
      settle()
      const { intent_id, return_url, method } = find(sites, url, 'redirect')
      const intent = find(intents, intent_id, 'intent')
      if (intent.status === 'requires_action') {
        if (act === 'pays') succeed(intent, method)
        else if (act === 'refuses') decline(intent, method, 'authentication_failed')
        else {
          intent.status = 'processing'
          intent.next_action = null
          settling.set(intent.id, { at: now() + settlesAfter, to: act === 'pays_later' ? 'succeeded' : 'failed' })
          happened(`${intent.object}.processing`, intent)
        }
      }
      const back = new URL(return_url)
      back.searchParams.set(intent.object, intent.id)
      back.searchParams.set(`${intent.object}_client_secret`, intent.client_secret)
      back.searchParams.set('redirect_status', ['succeeded', 'processing'].includes(intent.status) ? 'succeeded' : 'failed')
      return back.href
    },
    /** Simulates that the bank replaced a saved card and reported the new card data to Stripe. */
    renewCard: (method_id: string, card: Fields): void => {
      const method = find(methods, method_id, 'payment_method')
      Object.assign(method.card as Fields, card)
      happened('payment_method.automatically_updated', method)
    },
    /** Changes a dispute without an API request, as the bank or Stripe would, and emits the event. */
    change: (dispute_id: string, changes: Fields): void => {
      const one = find(disputes, dispute_id, 'dispute')
      Object.assign(one, changes)
      happened('charge.dispute.updated', one)
    },
    /** Returns every charge, refund and intent of the account, as Stripe's dashboard would show them. */
    books: () => {
      settle()
      return {
        charges: [...charges.values()].map(({ amount, currency, metadata, payment_intent }) => ({
          amount,
          currency,
          intent_id: payment_intent,
          metadata: metadata as Record<string, string>,
        })),
        refunds: [...refunds.values()].map(({ amount, currency, metadata, status, payment_intent }) => ({
          amount,
          currency,
          intent_id: payment_intent,
          metadata,
          status,
        })),
        intents: [...intents.values()].map(({ id: name, status, metadata }) => ({ id: name, status, metadata })),
      }
    },
    find: (kind: 'payment_intents' | 'disputes', name: string): Fields =>
      structuredClone(kind === 'disputes' ? find(disputes, name, 'dispute') : find(intents, name, 'intent')),
  }
}
export type StripeBooks = ReturnType<typeof openStripeBooks>
