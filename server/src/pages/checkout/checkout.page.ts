import { confirmClientCheckout, getClientCheckout, updateClientCheckout, type CheckoutPublic, type Complaint, type Offer, type View } from '@bursar/contract'
import type { Reply } from '@bursar/contract/client'
import { setTimeout } from 'node:timers/promises'
import type { z } from 'zod'
import type { Payments } from '../../gateways/payments/payments.ts'
import { scheduleOf } from '../../modules/billing/engine/schedule.ts'
import type { Page, PageAnswer, PageCall, Platform } from '../../modules/handlers.ts'
import { complaintsOf, keepPortal, keptSecret, leaveFor, settled } from '../visits.ts'
import { buyerIn, complaint, draftOf, priceChanges, shownOf, typed } from './filling.ts'
import { invite, showPurchase } from './purchase.ts'
import { bankOf, stripe } from '../processor.ts'
import { testCards } from '../test-cards.ts'

type Checkout = z.input<typeof CheckoutPublic>
type CheckoutShown = Extract<View, { kind: 'checkout' }>

/** What is told of a checkout beside the checkout itself. */
type Told = Partial<Pick<CheckoutShown, 'draft' | 'complaints' | 'declined' | 'notice'>>

/** A visit by somebody who holds the checkout's secret. */
interface Holder {
  readonly call: PageCall
  readonly id: string
  readonly secret: string
  readonly checkout: Checkout
}

const isId = (text: string) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text)
const days = 86_400

/** Those that a seller wants to try first: one that pays, some that do not, one that asks. */
const shownCards = testCards('tok_visa', 'tok_insufficient_funds', 'tok_do_not_honor', 'tok_expired_card', 'tok_3ds', 'tok_declined_later', 'tok_processing')

/** Without what opens it: the secret stays in the cookie. */
const offerOf = ({ client_secret: _secret, url: _url, success_url: _success, customer_ip_address: _address, ...offer }: Checkout): Offer => offer

const closed = (reason: 'expired' | 'link_needed' | 'unknown' | 'not_sold', status: number, checkout?: Checkout): PageAnswer => ({
  status,
  view: { kind: 'checkout-closed', reason, seller: checkout?.organization.name ?? null, return_url: checkout?.return_url ?? null },
})

/** Nothing opens with this secret, or nothing any more. */
const notHere = ({ status }: Reply<unknown>): PageAnswer => (status === 410 ? closed('expired', 410) : closed('unknown', 404))

/** Somebody else holds the checkout for a moment: then the same is asked once more. */
const unlessLocked = async <Body>(ask: () => Promise<Reply<Body>>): Promise<Reply<Body>> => {
  const first = await ask()
  if (first.status < 400 || complaintsOf(first)[0]!.type !== 'CheckoutLocked') return first
  await setTimeout(500)
  return ask()
}

/** Where a buyer pays and is thanked. The secret leaves the address at the first visit; whoever holds the cookie holds the checkout. */
export const checkoutPages = (platform: Platform, payments: Payments): Page[] => {
  const { clock, config } = platform
  const secretOf = (id: string) => keptSecret(platform, `checkout_${id}`)

  /** The seller's own page, where there is one. */
  const landing = ({ success_url }: Checkout): string | null => (success_url.startsWith(`${config.public_url.origin}/checkout/`) ? null : success_url)

  /** What is paid when. */
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
        ...told,
      },
      script: true,
      here: `/checkout/${offer.id}`,
      locales: offer.locale ?? '',
      ...(key === null ? {} : { outside: stripe }),
    }
  }

  /** The checkout as it stands, for whoever holds its secret; else what to do instead. */
  const held =
    (work: (holder: Holder) => Promise<PageAnswer>) =>
    async (call: PageCall): Promise<PageAnswer> => {
      const id = call.params.key!
      if (!isId(id)) return closed('unknown', 404)
      const secret = secretOf(id).read(call.request)
      if (secret === undefined) return closed('link_needed', 403)
      const found = settled(await call.api().send(getClientCheckout, { params: { client_secret: secret } }))
      return found.status === 200 ? work({ call, id, secret, checkout: found.body }) : notHere(found)
    }

  /** From the link with the secret to the page without it. */
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
    // Whoever strayed from their bank is led back to it.
    if (checkout.status === 'confirmed' && bankOf(platform, holder.id).read(call.request) !== undefined) return { redirect: `/checkout/${holder.id}/bank` }
    const leads = landing(checkout)
    if (checkout.status === 'succeeded' && leads !== null) return { ...leaveFor(leads), locales: checkout.locale ?? '' }
    return showPurchase(platform, call, offerOf(checkout))
  })

  /** What changes the price, asked of the API; what it says is what is shown. */
  const reprice = async (holder: Holder): Promise<{ checkout: Checkout; told: Told | null }> => {
    const { call, checkout } = holder
    const body = priceChanges(call.form, offerOf(checkout))
    return Object.keys(body).length === 0 ? { checkout, told: null } : change(holder, body)
  }

  const change = async ({ call, secret, checkout }: Holder, body: ReturnType<typeof priceChanges>): Promise<{ checkout: Checkout; told: Told | null }> => {
    const answer = await unlessLocked(() => call.api().send(updateClientCheckout, { params: { client_secret: secret }, body }))
    return answer.status === 200 ? { checkout: answer.body, told: null } : { checkout, told: refusal(complaintsOf(answer)) }
  }

  /** The seller has changed what was shown: it is computed anew, without the discount that does not count any more, and looked at before it is paid. */
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
    // Somebody pressed twice, and the browser heard of the second press alone: it is answered as the first was.
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
      const complaints = complaintsOf(answer)
      const { type } = complaints[0]!
      // Somebody pressed twice, and the first press is under way, or has arrived.
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

  /** What the bank asks of the payer: in the sandbox on a page of ours, else by the processor's own script. */
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
    // Where a real bank was asked, it has its own answer.
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
    // Where a form was sent to, visited again.
    ...(['update', 'confirm', 'invite', 'confirmation'] as const).map((name): Page => ({
      method: 'GET',
      path: `/checkout/:key/${name}`,
      signedIn: false,
      handle: back,
    })),
  ]
}

/** What the buyer typed stays; what the API has taken over is shown as it took it. */
const drafted = (form: URLSearchParams, checkout: Checkout, told: Told | null) => {
  const { discount_code: code = '', ...fields } = typed(form)
  const offer = offerOf(checkout)
  // A box that is not ticked is not sent: whatever was known before, it is not ticked.
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

/** A refusal, told where it can be acted upon. */
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
