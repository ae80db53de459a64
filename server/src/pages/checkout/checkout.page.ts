import { confirmClientCheckout, getClientCheckout, updateClientCheckout, type CheckoutPublic } from '@bursar/contract'
import type { ClosedReason, Complaint, Offer, View } from '@bursar/views'
import type { Reply } from '@bursar/contract/client'
import { setTimeout } from 'node:timers/promises'
import type { z } from 'zod'
import type { Payments } from '../../gateways/payments/payments.ts'
import { scheduleOf } from '../../modules/billing/calc/schedule.ts'
import type { Page, PageAnswer, PageCall, Platform } from '../../modules/handlers.ts'
import { complaintsOf, keepPortal, keptSecret, leaveFor, settled, waitOf } from '../visits.ts'
import { buyerIn, complaint, draftOf, priceChanges, shownOf, typed } from './filling.ts'
import { invite, showPurchase } from './purchase.ts'
import { bankOf, stripe } from '../processor.ts'
import { testCards } from '../test-cards.ts'

type Checkout = z.input<typeof CheckoutPublic>
type CheckoutShown = Extract<View, { kind: 'checkout' }>

/** Data that the checkout page shows in addition to the checkout: the buyer's input, errors and notices. */
type Told = Partial<Pick<CheckoutShown, 'draft' | 'complaints' | 'declined' | 'notice' | 'wait_seconds'>>

/** A request of a visitor who has the checkout's client secret. */
interface Holder {
  readonly call: PageCall
  readonly id: string
  readonly secret: string
  readonly checkout: Checkout
}

const isId = (text: string) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text)
const days = 86_400

/** The test cards that sellers try first: one that succeeds, some that are declined, one that requires authentication. */
const shownCards = testCards('tok_visa', 'tok_insufficient_funds', 'tok_do_not_honor', 'tok_expired_card', 'tok_3ds', 'tok_declined_later', 'tok_processing')

/** Removes the client secret and other private fields. The secret stays in the cookie. */
const offerOf = ({ client_secret: _secret, url: _url, success_url: _success, customer_ip_address: _address, ...offer }: Checkout): Offer => offer

const closed = (reason: ClosedReason, status: number, checkout?: Checkout): PageAnswer => ({
  status,
  view: { kind: 'checkout-closed', reason, seller: checkout?.organization.name ?? null, return_url: checkout?.return_url ?? null },
})

/** Returns the page for a client secret that is unknown or expired. */
const notHere = ({ status }: Reply<unknown>): PageAnswer => (status === 410 ? closed('expired', 410) : closed('unknown', 404))

/** Retries once if another request holds the lock on the checkout. */
const unlessLocked = async <Body>(ask: () => Promise<Reply<Body>>): Promise<Reply<Body>> => {
  const first = await ask()
  if (first.status < 400 || complaintsOf(first)[0]!.type !== 'CheckoutLocked') return first
  await setTimeout(500)
  return ask()
}

/** The checkout and confirmation pages. The first visit moves the secret from the address to a cookie, which is then the credential. */
export const checkoutPages = (platform: Platform, payments: Payments): Page[] => {
  const { clock, config } = platform
  const secretOf = (id: string) => keptSecret(platform, `checkout_${id}`)

  /** Returns the URL of the seller's own success page, or null if the buyer stays on our confirmation page. */
  const landing = ({ success_url }: Checkout): string | null => (success_url.startsWith(`${config.public_url.origin}/checkout/`) ? null : success_url)

  /** Computes the payment schedule. */
  const dueFor = (offer: Offer) =>
    scheduleOf(
      {
        ...offer,
        interval: offer.product?.recurring_interval ?? null,
        interval_count: offer.product?.recurring_interval_count ?? 1,
        discount: offer.discount && { duration_in_months: null, ...offer.discount },
        trial_end: offer.trial_end === null ? null : new Date(offer.trial_end),
      },
      clock.business(),
    )

  const show = ({ checkout }: Holder, told: Told = {}): PageAnswer => {
    const offer = offerOf(checkout)
    if (offer.product?.is_archived !== false) return closed('not_sold', 410, checkout)
    const key = offer.payment_processor_metadata.publishable_key ?? null
    const schedule = dueFor(offer)
    return {
      view: {
        kind: 'checkout',
        offer,
        draft: draftOf(offer),
        schedule,
        cards: config.environment === 'sandbox' && key === null ? shownCards : null,
        publishable_key: key,
        shown: shownOf(offer, schedule.today),
        complaints: [],
        declined: null,
        notice: null,
        wait_seconds: null,
        ...told,
      },
      ...(told.wait_seconds == null ? {} : { status: 429 }),
      script: true,
      here: `/checkout/${offer.id}`,
      locales: offer.locale ?? '',
      ...(key === null ? {} : { outside: stripe }),
    }
  }

  /** Wraps a page that only a visitor with the client secret of the checkout may see. Other visitors see a page with the next step. */
  const held =
    (work: (holder: Holder) => Promise<PageAnswer>) =>
    async (call: PageCall): Promise<PageAnswer> => {
      const id = call.params.key!
      if (!isId(id)) return closed('unknown', 404)
      const secret = secretOf(id).read(call.request)
      if (secret === undefined) return closed('link_needed', 403)
      const found = settled(await call.api().send(getClientCheckout, { params: { client_secret: secret } }))
      if (found.status === 200) return work({ call, id, secret, checkout: found.body })
      // The cookie was set when the client secret was valid. A 404 therefore means that the secret has expired.
      return found.status === 404 ? closed('over', 410) : notHere(found)
    }

  /** Stores the client secret of a link in a cookie, and redirects to the checkout page, whose URL does not contain it. */
  const enter = async (call: PageCall): Promise<PageAnswer> => {
    const given = call.params.key!
    const found = settled(await call.api().send(getClientCheckout, { params: { client_secret: given } }))
    if (found.status !== 200) return notHere(found)
    return { redirect: `/checkout/${found.body.id}`, cookies: [secretOf(found.body.id).keep(given, 2 * days)] }
  }

  const look = held(async (holder) => {
    const { checkout, call } = holder
    if (checkout.status === 'open') return show(holder, { declined: checkout.payment_processor_metadata.declined ?? null })
    if (checkout.status === 'failed') return closed('expired', 410, checkout)
    // A buyer who left the page of the bank's challenge is redirected back to it.
    if (checkout.status === 'confirmed' && bankOf(platform, holder.id).read(call.request) !== undefined) return { redirect: `/checkout/${holder.id}/bank` }
    const leads = landing(checkout)
    if (checkout.status === 'succeeded' && leads !== null) return { ...leaveFor(leads), locales: checkout.locale ?? '' }
    return showPurchase(platform, call, offerOf(checkout))
  })

  /** Sends the changes that affect the price to the API. The page shows the API's response. */
  const reprice = async (holder: Holder): Promise<{ checkout: Checkout; told: Told | null }> => {
    const { call, checkout } = holder
    const body = priceChanges(call.form, offerOf(checkout))
    return Object.keys(body).length === 0 ? { checkout, told: null } : change(holder, body)
  }

  const change = async ({ call, secret, checkout }: Holder, body: ReturnType<typeof priceChanges>): Promise<{ checkout: Checkout; told: Told | null }> => {
    const answer = await unlessLocked(() => call.api().send(updateClientCheckout, { params: { client_secret: secret }, body }))
    return answer.status === 200 ? { checkout: answer.body, told: null } : { checkout, told: refusal(complaintsOf(answer)) }
  }

  /**
   * Handles a change of the offer by the seller. Computes the price again, without a discount that no longer applies.
   * The buyer sees the new price before paying.
   */
  const lookAgain = async (holder: Holder, complaints: readonly Complaint[]): Promise<PageAnswer> => {
    const { checkout, told } = await change(holder, complaints.some(isAbout('discount_id')) ? { discount_code: null } : {})
    return show({ ...holder, checkout }, { draft: drafted(holder.call.form, checkout, told), ...(told ?? { notice: 'price_changed' }) })
  }

  const update = held(async (holder) => {
    const { call } = holder
    if (holder.checkout.status !== 'open') return { redirect: `/checkout/${holder.id}` }
    const { checkout, told } = await reprice(holder)
    return show({ ...holder, checkout }, { draft: drafted(call.form, checkout, told), ...told })
  })

  const confirm = held(async (holder) => {
    const { call, id, secret } = holder
    const there: PageAnswer = { redirect: `/checkout/${id}` }
    // If the button was pressed twice, the browser shows only the second response. The second request is therefore answered like the first.
    const pressed = holder.checkout.status === 'confirmed'
    if (holder.checkout.status !== 'open' && !pressed) return there
    const { checkout, told } = pressed ? { checkout: holder.checkout, told: null } : await reprice(holder)
    const draft = drafted(call.form, checkout, told)
    if (told) return show({ ...holder, checkout }, { draft, ...told })
    const offer = offerOf(checkout)
    if (!pressed && call.form.get('shown') !== shownOf(offer, dueFor(offer).today)) return show({ ...holder, checkout }, { draft, notice: 'price_changed' })
    const body = buyerIn(call.form, offer)
    const answer = await unlessLocked(() => call.api().send(confirmClientCheckout, { params: { client_secret: secret }, body }))
    if (answer.status !== 200) {
      if (pressed) return there
      if (answer.status === 429) return show({ ...holder, checkout }, { draft, wait_seconds: waitOf(answer) })
      const complaints = complaintsOf(answer)
      const { type } = complaints[0]!
      // The button was pressed twice. The first request is in progress or complete.
      if (type === 'CheckoutLocked' || type === 'NotOpenCheckout') return there
      if (type === 'ExpiredCheckoutError') return closed('expired', 410, checkout)
      if (complaints.some(isAbout('product_id', 'discount_id'))) return lookAgain({ ...holder, checkout }, complaints)
      return show({ ...holder, checkout }, { draft, ...refusal(complaints) })
    }
    const { customer_session_token, payment_processor_metadata: intent, organization_id } = answer.body
    const cookies = customer_session_token === null ? [] : [await keepPortal(platform, call, organization_id, customer_session_token)]
    if (intent.intent_status !== 'requires_action' || !intent.intent_client_secret) return { ...there, cookies }
    return { redirect: `/checkout/${id}/bank`, cookies: [...cookies, bankOf(platform, id).keep(intent.intent_client_secret, intent.publishable_key ?? null)] }
  })

  /** Shows the bank's challenge: a page of ours in the sandbox, otherwise the processor's own script. */
  const bank = held(async ({ call, id, checkout }) => {
    const waiting = bankOf(platform, id).read(call.request)
    if (checkout.status !== 'confirmed' || waiting === undefined) return { redirect: `/checkout/${id}` }
    const { organization, currency, locale } = checkout
    return {
      view: {
        kind: 'bank',
        action: `/checkout/${id}/bank`,
        seller: organization.name,
        amount: checkout.is_payment_required ? checkout.total_amount : 0,
        currency,
        processor: waiting.key === null ? null : { key: waiting.key, intent_client_secret: waiting.secret },
      },
      locales: locale ?? '',
      ...(waiting.key === null ? {} : { script: true, outside: stripe }),
    }
  })

  const answerBank = held(async ({ call, id, checkout }) => {
    const waiting = bankOf(platform, id).read(call.request)
    // Passes the answer only to the simulated bank of the sandbox. A real bank reports its result through the payment processor.
    if (checkout.status === 'confirmed' && waiting?.key === null) await payments.playBank(waiting.secret, call.form.get('answer') === 'confirm')
    return { redirect: `/checkout/${id}`, cookies: [bankOf(platform, id).forget()] }
  })

  const team = held(async ({ call, checkout }) => invite(platform, call, offerOf(checkout)))

  const back = async (call: PageCall): Promise<PageAnswer> => (isId(call.params.key!) ? { redirect: `/checkout/${call.params.key!}` } : enter(call))
  return [
    { method: 'GET', path: '/checkout/:key', signedIn: false, handle: (call) => (isId(call.params.key!) ? look(call) : enter(call)) },
    { method: 'POST', path: '/checkout/:key/update', signedIn: false, handle: update },
    { method: 'POST', path: '/checkout/:key/confirm', signedIn: false, handle: confirm },
    { method: 'GET', path: '/checkout/:key/bank', signedIn: false, handle: bank },
    { method: 'POST', path: '/checkout/:key/bank', signedIn: false, handle: answerBank },
    { method: 'POST', path: '/checkout/:key/invite', signedIn: false, handle: team },
    // These paths accept submitted forms. A GET, for example after a reload, redirects to the checkout page.
    ...(['update', 'confirm', 'invite', 'confirmation'] as const).map((name): Page => ({
      method: 'GET',
      path: `/checkout/:key/${name}`,
      signedIn: false,
      handle: back,
    })),
  ]
}

/** Returns the buyer's input for the form. Values that the API has accepted are shown as the API stored them. */
const drafted = (form: URLSearchParams, checkout: Checkout, told: Told | null) => {
  const { discount_code: code = '', ...fields } = typed(form)
  const offer = offerOf(checkout)
  // Browsers do not send unticked checkboxes, so their stored values are cleared first.
  const boxes = (offer.attached_custom_fields ?? []).filter(({ custom_field }) => custom_field.type === 'checkbox')
  const stored = { ...draftOf(offer), ...Object.fromEntries(boxes.map(({ custom_field }) => [`custom_field_data.${custom_field.slug}`, ''])) }
  if (told) return { ...stored, ...fields, discount_code: code }
  const { seats: _seats, amount: _amount, ...rest } = fields
  return { ...stored, ...rest, is_business_customer: stored.is_business_customer ?? '' }
}

const isAbout =
  (...fields: readonly string[]) =>
  ({ loc }: Complaint): boolean =>
    fields.includes(String(loc[1]))

/** Maps API errors to the part of the checkout page that shows them: a field, the card or a notice. */
const refusal = (complaints: readonly Complaint[]): Told => {
  const [{ type, msg } = complaint('Error', '')] = complaints
  switch (type) {
    case 'PaymentError':
      return { declined: msg }
    case 'AlreadyActiveSubscriptionError':
      return { notice: 'subscribed' }
    case 'TrialAlreadyRedeemed':
      return { notice: 'trial_used' }
    case 'PaymentNotReady':
      return { notice: 'not_ready' }
    case 'DiscountRedemptionLimitReached':
      return { complaints: [complaint(type, msg, 'discount_code')] }
    default:
      return { complaints }
  }
}
