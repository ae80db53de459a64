import {
  confirmClientCheckout,
  getClientCheckout,
  getPortalOrganization,
  renewClientCheckout,
  updateClientCheckout,
  type CheckoutPublic,
} from '@bursar/contract'
import type { ClosedReason, Complaint, Offer, View } from '@bursar/views'
import type { Reply } from '@bursar/contract/client'
import type { z } from 'zod'
import { offeredTypes } from '../../gateways/payments/offered.ts'
import type { Payments } from '../../gateways/payments/payments.ts'
import { scheduleOf } from '../../modules/billing/calc/schedule.ts'
import type { Page, PageAnswer, PageCall, Platform, SellerLook } from '../../modules/handlers.ts'
import { preferenceCookies } from '../../modules/identity/index.ts'
import { branded, complaintsOf, isPreview, keepPortal, keptSecret, leaveFor, lookOf, picturesOf, settled, waitOf } from '../visits.ts'
import { awayPage, isAway, resumeCheckout } from './away.ts'
import { loadDraft, saveDraft } from './drafting.ts'
import { buyerIn, complaint, draftOf, languageFor, priceChanges, shownOf, typed } from './filling.ts'
import { unlessLocked } from './locking.ts'
import { guessCountry } from './guess.ts'
import { invite, showPurchase } from './purchase.ts'
import { bankOf, stripe } from '../processor.ts'
import { testCards } from '../test-cards.ts'

type Checkout = z.input<typeof CheckoutPublic>
type CheckoutShown = Extract<View, { kind: 'checkout' }>
type Closed = Extract<View, { kind: 'checkout-closed' }>

/** Data that the checkout page shows in addition to the checkout: the buyer's input, errors and notices. */
type Told = Partial<Pick<CheckoutShown, 'draft' | 'complaints' | 'declined' | 'notice' | 'wait_seconds' | 'applied' | 'guessed'>>

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

/** Builds the page of a checkout that cannot be shown. A seller of null means that it belongs to no seller. */
const closed = (reason: ClosedReason, status: number, seller: SellerLook | null, more: Partial<Closed> = {}): PageAnswer => ({
  status,
  seller,
  view: { kind: 'checkout-closed', reason, seller: null, return_url: null, ...more },
})
const renewalOf = (id: string): Partial<Closed> => ({ renew: `/checkout/${id}/renew` })
const closedFor = ({ id, organization, return_url }: Checkout, reason: ClosedReason): PageAnswer =>
  closed(reason, 410, lookOf(organization), { return_url, ...(reason === 'expired' ? renewalOf(id) : {}) })

/** Loads the seller of a closed checkout by the slug. The page is shown without the seller if that fails. */
const sellerAt = async (call: PageCall, slug: string | null): Promise<SellerLook | null> => {
  const found = slug === null ? undefined : await call.api().send(getPortalOrganization, { params: { slug } })
  return found?.status === 200 ? lookOf(found.body.organization) : null
}

/** Returns the page for a client secret that is unknown or expired. */
const notHere = async (call: PageCall, { status, headers }: Reply<unknown>): Promise<PageAnswer> => {
  if (status !== 410) return closed('unknown', 404, null)
  // Without the cookie of an earlier visit, the page cannot renew the checkout.
  const id = call.params.key!
  return closed('expired', 410, await sellerAt(call, headers.get('bursar-seller')), isId(id) ? renewalOf(id) : {})
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
    if (offer.product?.is_archived !== false) return closedFor(checkout, 'not_sold')
    const key = offer.payment_processor_metadata.publishable_key ?? null
    const schedule = dueFor(offer)
    const draft = told.draft ?? draftOf(offer)
    // The chosen country decides, even if it is only guessed so far. The form is then not replaced when the guess is stored.
    const country = draft['customer_billing_address.country'] || null
    return {
      view: {
        kind: 'checkout',
        offer,
        draft,
        schedule,
        cards: config.environment === 'sandbox' && key === null ? shownCards : null,
        publishable_key: key,
        methods: offeredTypes({ currency: offer.currency, country, reusable: offer.is_payment_setup_required }).join(' '),
        shown: shownOf(offer, schedule.today),
        complaints: [],
        declined: null,
        notice: null,
        wait_seconds: null,
        applied: false,
        guessed: false,
        ...told,
      },
      ...(told.wait_seconds == null ? {} : { status: 429 }),
      script: true,
      here: `/checkout/${offer.id}`,
      locales: offer.locale ?? '',
      outside: { ...(key === null ? {} : stripe), 'img-src': [...(key === null ? [] : (stripe['img-src'] ?? [])), ...picturesOf(offer.product.medias)] },
    }
  }

  /** Wraps a page that only a visitor with the client secret of the checkout may see. Other visitors see a page with the next step. */
  const held =
    (work: (holder: Holder) => Promise<PageAnswer>) =>
    async (call: PageCall): Promise<PageAnswer> => {
      const id = call.params.key!
      if (!isId(id)) return closed('unknown', 404, null)
      // The cookie contains the secret and the slug of the seller, who is then known when the secret has expired.
      const [secret, slug = null] = secretOf(id).read(call.request)?.split('.') ?? []
      if (secret === undefined) return { status: 403, view: { kind: 'checkout-closed', reason: 'link_needed', seller: null, return_url: null } }
      const found = settled(await call.api().send(getClientCheckout, { params: { client_secret: secret } }))
      if (found.status === 200) return branded(await work({ call, id, secret, checkout: found.body }), found.body.organization)
      // The cookie was set when the client secret was valid. A 404 therefore means that the secret has expired.
      return found.status === 404 ? closed('over', 410, await sellerAt(call, slug)) : notHere(call, found)
    }

  /** Stores the client secret of a link in a cookie, and redirects to the checkout page, whose URL does not contain it. */
  const enter = async (call: PageCall): Promise<PageAnswer> => {
    const given = call.params.key!
    const found = settled(await call.api().send(getClientCheckout, { params: { client_secret: given } }))
    if (found.status !== 200) return notHere(call, found)
    const { id, organization, product, locale, status } = found.body
    const [to, cookies] = [`/checkout/${id}`, [secretOf(id).keep(`${given}.${organization.slug}`, 2 * days)]]
    // Only a checkout that can be bought has a preview.
    if (!isPreview(call.request) || status !== 'open') return branded({ redirect: to, cookies }, organization)
    if (product?.is_archived !== false) return closedFor(found.body, 'not_sold')
    const shown = { name: product.name, description: product.description, image: picturesOf(product.medias)[0] ?? null }
    // A browser that is too old to be recognised follows the refresh.
    // The page shows no picture. The preview names it for the messenger.
    return branded({ view: { kind: 'link-preview', seller: organization.name, product: shown, to }, refresh: to, cookies, locales: locale ?? '' }, organization)
  }

  /** Preselects the country that the browser names. It is stored only when the buyer does something, because each change emits a webhook. */
  const guessFor = ({ call, checkout }: Holder): Told => {
    const country =
      checkout.is_payment_form_required && checkout.customer_billing_address === null ? guessCountry(call.request.headers['accept-language']) : null
    return country === null ? {} : { guessed: true, draft: { ...draftOf(offerOf(checkout)), 'customer_billing_address.country': country } }
  }

  /** Shows an open checkout with what the buyer has typed before. Input that came after the last change is applied first. */
  const resume = async (holder: Holder): Promise<PageAnswer> => {
    const declined = holder.checkout.payment_processor_metadata.declined ?? null
    const draft = await loadDraft(holder.call, holder.secret, holder.checkout)
    if (draft === null) return show(holder, { declined, ...guessFor(holder) })
    const { checkout, told } = draft.isNewer
      ? await reprice({ ...holder, call: { ...holder.call, form: draft.form } })
      : { checkout: holder.checkout, told: null }
    return show({ ...holder, checkout }, { declined, draft: drafted(draft.form, checkout, told), ...told })
  }

  const showAway = async (holder: Holder): Promise<PageAnswer> => {
    const checkout = await resumeCheckout(holder)
    return awayPage(checkout) ?? showCheckout({ ...holder, checkout })
  }

  /**
   * Answers the return from another site. Other people can change the parameters of its address, so they are ignored: the
   * result is read at the processor.
   */
  const comeBack = held(async (holder) => {
    if (holder.checkout.status === 'confirmed') await resumeCheckout(holder)
    return { redirect: `/checkout/${holder.id}` }
  })

  const look = held((holder) => (isAway(holder.checkout) ? showAway(holder) : showCheckout(holder)))

  const showCheckout = async (holder: Holder): Promise<PageAnswer> => {
    const { checkout, call } = holder
    if (checkout.status === 'open') return resume(holder)
    if (checkout.status === 'failed') return closedFor(checkout, 'expired')
    // A buyer who left the page of the bank's challenge is redirected back to it.
    if (checkout.status === 'confirmed' && bankOf(platform, holder.id).read(call.request) !== undefined) return { redirect: `/checkout/${holder.id}/bank` }
    const leads = landing(checkout)
    if (checkout.status === 'succeeded' && leads !== null) return { ...leaveFor(leads), locales: checkout.locale ?? '' }
    return showPurchase(platform, call, offerOf(checkout))
  }

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
    const isUsed = complaints.some(({ type }) => type === 'DiscountRedemptionLimitReached')
    const isOver = complaints.some(isAbout('discount_id'))
    const { checkout, told } = await change(holder, isUsed || isOver ? { discount_code: null } : {})
    const notice = isUsed ? 'discount_used' : isOver ? 'discount_over' : 'price_changed'
    // A code that no longer applies is not offered again.
    const draft = drafted(holder.call.form, checkout, told)
    return show({ ...holder, checkout }, { draft: isUsed || isOver ? { ...draft, discount_code: '' } : draft, ...(told ?? { notice }) })
  }

  const update = held(async (holder) => {
    const { call } = holder
    if (holder.checkout.status !== 'open') return { redirect: `/checkout/${holder.id}` }
    const { checkout, told } = await reprice(holder)
    await saveDraft(call, holder.secret)
    const applied = holder.checkout.discount === null && checkout.discount !== null
    return show({ ...holder, checkout }, { draft: drafted(call.form, checkout, told), applied, ...told })
  })

  /** Changes language and theme. The page shows the same input again. */
  const prefer = held(async (holder) => {
    const cookies = preferenceCookies(platform, holder.call.form)
    if (holder.checkout.status !== 'open') return { redirect: `/checkout/${holder.id}`, cookies }
    const { checkout, told } = await reprice(holder)
    await saveDraft(holder.call, holder.secret)
    return { ...show({ ...holder, checkout }, { draft: drafted(holder.call.form, checkout, told), ...told }), cookies }
  })

  /** Stores what the buyer has typed. The script asks for no page. */
  const keepTyped = held(async ({ call, id, secret, checkout }) => {
    if (checkout.status === 'open') await saveDraft(call, secret)
    return { redirect: `/checkout/${id}` }
  })

  /** Opens a new checkout in place of one that has expired, with everything that the buyer had chosen and typed. */
  const renew = async (call: PageCall): Promise<PageAnswer> => {
    const id = call.params.key!
    const [secret, slug = null] = isId(id) ? (secretOf(id).read(call.request)?.split('.') ?? []) : []
    if (secret === undefined) return closed('link_needed', 403, null)
    const answer = settled(await unlessLocked(() => call.api().send(renewClientCheckout, { params: { client_secret: secret } })))
    // The page of the expired checkout has the button again.
    if (answer.status === 409 && complaintsOf(answer)[0]!.type === 'CheckoutLocked') return { redirect: `/checkout/${id}` }
    if (answer.status !== 201) return closed('ended', 410, await sellerAt(call, slug))
    const { id: renewed, client_secret, organization } = answer.body
    return { redirect: `/checkout/${renewed}`, cookies: [secretOf(renewed).keep(`${client_secret}.${organization.slug}`, 2 * days)] }
  }

  const confirm = held(async (holder) => {
    const { call, id, secret } = holder
    const there: PageAnswer = { redirect: `/checkout/${id}` }
    // If the button was pressed twice, the browser shows only the second response. The second request is therefore answered like the first.
    const pressed = holder.checkout.status === 'confirmed'
    if (holder.checkout.status !== 'open' && !pressed) return there
    const { checkout, told } = pressed ? { checkout: holder.checkout, told: null } : await reprice(holder)
    const draft = drafted(call.form, checkout, told)
    if (!pressed) await saveDraft(call, secret)
    if (told) return show({ ...holder, checkout }, { draft, ...told })
    const offer = offerOf(checkout)
    // A code that was typed but not applied is applied first, and the buyer sees the new price.
    const isNewCode = !pressed && offer.discount_id !== holder.checkout.discount_id
    if (isNewCode) return show({ ...holder, checkout }, { draft, notice: 'price_changed' })
    if (!pressed && call.form.get('shown') !== shownOf(offer, dueFor(offer).today)) return show({ ...holder, checkout }, { draft, notice: 'price_changed' })
    const body = { ...buyerIn(call.form, offer), ...languageFor(call.locale(offer.locale ?? ''), offer) }
    const answer = await unlessLocked(() => call.api().send(confirmClientCheckout, { params: { client_secret: secret }, body }))
    if (answer.status !== 200) {
      if (pressed) return there
      if (answer.status === 429) return show({ ...holder, checkout }, { draft, wait_seconds: waitOf(answer) })
      const complaints = complaintsOf(answer)
      const { type } = complaints[0]!
      // The button was pressed twice. The first request is in progress or complete.
      if (type === 'CheckoutLocked' || type === 'NotOpenCheckout') return there
      if (type === 'ExpiredCheckoutError') return closedFor(checkout, 'expired')
      if (type === 'DiscountRedemptionLimitReached' || complaints.some(isAbout('product_id', 'discount_id')))
        return lookAgain({ ...holder, checkout }, complaints)
      return show({ ...holder, checkout }, { draft, ...refusal(complaints) })
    }
    const { customer_session_token, payment_processor_metadata: intent, organization_id } = answer.body
    const cookies = customer_session_token === null ? [] : [await keepPortal(platform, call, organization_id, customer_session_token)]
    if (intent.intent_status !== 'requires_action' || !intent.intent_client_secret) return { ...there, cookies }
    if (intent.redirect_url) return { ...leaveFor(intent.redirect_url), cookies, locales: checkout.locale ?? '' }
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
    { method: 'POST', path: '/checkout/:key/draft', signedIn: false, handle: keepTyped },
    { method: 'POST', path: '/checkout/:key/renew', signedIn: false, handle: renew },
    { method: 'POST', path: '/checkout/:key/preferences', signedIn: false, handle: prefer },
    { method: 'POST', path: '/checkout/:key/confirm', signedIn: false, handle: confirm },
    { method: 'GET', path: '/checkout/:key/return', signedIn: false, handle: comeBack },
    { method: 'GET', path: '/checkout/:key/bank', signedIn: false, handle: bank },
    { method: 'POST', path: '/checkout/:key/bank', signedIn: false, handle: answerBank },
    { method: 'POST', path: '/checkout/:key/invite', signedIn: false, handle: team },
    // These paths accept submitted forms. A GET, for example after a reload, redirects to the checkout page.
    ...(['update', 'draft', 'renew', 'preferences', 'confirm', 'invite', 'confirmation'] as const).map((name): Page => ({
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
  if (told) return { ...stored, is_business_customer: '', ...fields, discount_code: code }
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
