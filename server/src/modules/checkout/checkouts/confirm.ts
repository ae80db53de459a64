import { isDeepStrictEqual } from 'node:util'
import {
  accountLimits,
  CheckoutCustomerDeleted,
  CheckoutCustomerExternalIdMismatch,
  DiscountRedemptionLimitReached,
  invalidAt,
  InvalidRequest,
  NotOpenCheckout,
  PaymentError,
  PaymentNotReady,
  TooManyRequests,
  TrialAlreadyRedeemed,
  type CheckoutConfirm,
  type CheckoutPublicConfirmed,
  type Invalid,
} from '@bursar/contract'
import type { z } from 'zod'
import { newId } from '../../../kernel/ids.ts'
import { Secret, type Environment } from '../../../kernel/secrets.ts'
import { within, type TenantScope } from '../../../kernel/actors.ts'
import type { Instrument, PaymentAccount } from '../../../gateways/payments/payments.ts'
import { hours, later, minutes } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { markLocked } from '../../../platform/postgres/locks.ts'
import type { BusinessTx, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import {
  cardKey,
  charge,
  defaultAccount,
  findAccount,
  formOf,
  holdMethod,
  insertRedemption,
  look,
  methodOf,
  openAttempt,
  personKey,
  readPayment,
  reserveUse,
  settle,
} from '../../billing/index.ts'
import {
  changeCustomer,
  createCustomer,
  endUnproved,
  findCustomers,
  holdAddress,
  lockCustomerByEmail,
  lockCustomers,
  openCustomerSession,
  findOwnerOf,
  type CustomerRow,
} from '../../customers/index.ts'
import type { DiscountRow } from '../../catalog/index.ts'
import { capabilities } from '../../organizations/index.ts'
import type { Seller } from '../records/sellers.sql.ts'
import { applyToCheckout, lockBySecret, openBySecret, refuseSecondSubscription, requireOpen, welcome } from './checkouts.ts'
import { changeCheckout, hadTrial, holdPerson, insertTrial, isOnlyHere, nthLastDecline, usesOf, type CheckoutRow } from './checkouts.sql.ts'
import { figure } from './figures.ts'
import { reopen } from './fulfilment.ts'
import { withPrices, type LoadedCheckout, type Opened } from './loading.sql.ts'
import { problemsOf, type Card } from './missing.ts'
import { basisOf, presentPublic, tellUpdated } from './opening.ts'

type Confirmation = z.output<typeof CheckoutConfirm>

/** The ids that the first step of a confirmation (`begin`) has committed, for the second step (`proceed`). */
export interface Confirmed extends Readonly<Record<string, string | null>> {
  readonly organization_id: string
  readonly checkout_id: string
  /** Null if no payment method is needed, now or for later charges. */
  readonly payment_id: string | null
  /** The processor's id of a saved method. Null if the token of the request is used. */
  readonly method: string | null
}

/** Data read before any lock is taken: the processor for new payment accounts, and the card of the confirmation token. */
export interface Seen {
  readonly processor: PaymentAccount['processor']
  readonly card: Card | null
}

export const declinesPerCheckout = accountLimits.declined_payments_per_checkout_and_hour

/** Rejects the payment if the checkout has reached its limit of declined payments per hour. The caller must have locked the checkout. */
const limitDeclines = async (tx: Tx, checkout: CheckoutRow, environment: Environment): Promise<void> => {
  const allowed = declinesPerCheckout[environment]
  const wall = tx.clock.wall()
  const first = await nthLastDecline(tx, checkout, allowed, later(wall, -1 * hours))
  if (first === undefined) return
  const wait = Math.max(1, Math.ceil((later(first, 1 * hours).getTime() - wall.getTime()) / 1000))
  throw new TooManyRequests(`The limit of ${allowed} declined payments per hour for this checkout is reached. Wait ${wait} s.`, {
    'retry-after': String(wait),
  })
}

/** Time after the confirmation at which the sweep checks a checkout that is still not paid. */
const timeout = 10 * minutes

/**
 * First step of the confirmation. Performs all validation before the payment is charged.
 * Commits the customer, the discount redemption and the payment attempt. After a crash, any process can continue from
 * the committed state.
 * A request with the same token is an idempotent retry. It continues with the payment attempt of the first request.
 */
export const begin = async (wall: Tx, platform: Platform, { processor, card: seen }: Seen, client_secret: string, body: Confirmation): Promise<Confirmed> => {
  const { checkout, seller } = await lockBySecret(wall, platform, client_secret)
  const scope = within(seller.id, 'machine', seller.member_phase)
  const { payment_method_id } = body
  if (payment_method_id && body.confirmation_token_id)
    throw new InvalidRequest(invalidAt(['body', 'payment_method_id'], 'Give the token of a new payment method, or the id of a saved one.', payment_method_id))
  // Only a customer whom the seller has named may pay with a saved method, and only with the checkout that the seller has created.
  const whose = checkout.is_bound && checkout.renews === null ? checkout.customer_id : null
  const saved = payment_method_id && whose !== null ? await methodOf(wall, seller.id, whose, payment_method_id) : undefined
  const token = payment_method_id ? `saved ${payment_method_id}` : (body.confirmation_token_id ?? null)
  const card = saved ? { type: saved.type, fingerprint: saved.fingerprint ?? saved.name, name: null } : seen
  const wish = token === null ? null : platform.hasher.hash(new Secret(`confirmation ${checkout.id} ${token}`))
  // A request with the same token is a retry and gets the same answer. For a free checkout, both requests have no token.
  if (
    (checkout.status === 'confirmed' || checkout.status === 'succeeded') &&
    checkout.confirmed_with === wish &&
    (wish !== null || checkout.payment_id === null)
  )
    return { organization_id: seller.id, checkout_id: checkout.id, payment_id: checkout.payment_id, method: saved?.name ?? null }
  const offered = await requireOpen(wall, checkout)
  if (token !== null) await limitDeclines(wall, checkout, platform.config.environment)
  if (payment_method_id && !(saved && seller.feature_settings.saved_payment_methods_enabled)) throw noSuchMethod(payment_method_id)
  const { confirmation_token_id: _token, payment_method_id: _method, payment_return_url: _return, ...choice } = body
  const opened = await applyToCheckout(offered, platform, checkout, choice, { complete: true })
  const shown = figure(basisOf(opened, offered.clock.business()))
  // Rejects a seller that cannot take payments before the missing fields of the buyer are reported.
  const account = shown.is_payment_form_required ? await accountFor(wall, platform, seller, processor, saved?.account_id) : null
  refuse([...surprises(checkout, opened.checkout, choice, shown.charge_amount), ...problemsOf(opened, shown, token, card)])
  const { customer, known } = await customerFor(wall, scope, opened.checkout)
  // The method may have been deleted before the customer was locked.
  if (payment_method_id && !(await holdMethod(wall, customer, payment_method_id))) throw noSuchMethod(payment_method_id)
  // A customer found by email address may be on a test clock. The end of the trial is computed by the customer's clock.
  const tx = await inTimeOf(wall, customer)
  const figured = figure(basisOf(opened, tx.clock.business()))
  // Repeats the check now that the customer is locked: another checkout may be about to subscribe the customer.
  await refuseSecondSubscription(tx, { ...opened, checkout: { ...opened.checkout, customer_id: customer.id } })
  const ref = { organization_id: seller.id, checkout_id: checkout.id }
  const discount = await reserve(tx, platform, opened, customer, card, figured.stored.trial_end !== null)
  const payment = account
    ? await openAttempt(tx, account, {
        organization_id: seller.id,
        customer_id: customer.id,
        checkout_id: checkout.id,
        kind: figured.charge_amount > 0 ? 'payment' : 'setup',
        amount: figured.charge_amount,
        currency: opened.checkout.currency,
        trigger: 'purchase',
        // Stores the payment method for later charges only if the purchase is recurring.
        reusable: figured.is_payment_setup_required,
      })
    : null
  // A charge to a new payment method costs its holder something. A saved method, or an order without a charge, costs a
  // stranger who has the address of the checkout nothing. So neither opens the portal of a named customer whose methods can be charged.
  const opensPortal =
    known && saved === undefined && !(figured.charge_amount === 0 && checkout.is_bound && seller.feature_settings.saved_payment_methods_enabled)
  const confirmed = await changeCheckout(tx, checkout, {
    ...opened.checkout,
    ...figured.stored,
    status: 'confirmed',
    customer_id: customer.id,
    knows_customer: opensPortal,
    figures: figured.totals,
    payment_id: payment?.id ?? null,
    confirmed_with: wish,
    confirmed_at: tx.clock.wall(),
    customer_name: opened.checkout.customer_name ?? card?.name ?? null,
    due_at: later(tx.clock.wall(), timeout),
    clock_id: null,
  })
  await tellUpdated(tx, platform, asConfirmed({ ...opened, discount, checkout: confirmed }))
  if (!payment) await enqueue(tx, 'checkout.payment_settled', ref)
  return { ...ref, payment_id: payment?.id ?? null, method: saved?.name ?? null }
}

/** Returns the checkout as it is presented after the confirmation, with the confirmed catalog prices only. */
const asConfirmed = (opened: Opened): LoadedCheckout => ({
  ...opened,
  products: withPrices(
    opened.products,
    opened.products.flatMap(({ prices }) => prices.filter(({ id, source }) => source === 'catalog' && opened.checkout.price_ids.includes(id))),
  ),
})

const noSuchMethod = (id: string) => new InvalidRequest(invalidAt(['body', 'payment_method_id'], 'There is no saved payment method with this id.', id))

/** Returns the payment account of the seller. Throws if the seller cannot take payments. */
const accountFor = async (tx: Tx, platform: Platform, seller: Seller, processor: Seen['processor'], saved_with: string | undefined) => {
  if (!capabilities[seller.status].checkout_payments) throw new PaymentNotReady()
  // Only the account that a method was saved with can charge it.
  const account = saved_with === undefined ? await defaultAccount(tx, platform.sealer, seller.id, processor) : await findAccount(tx, seller.id, saved_with)
  if (!account) throw new PaymentNotReady()
  return account
}

/** Returns the choices of the buyer on which a trial depends, and those on which the other amounts depend. */
const choicesIn = (checkout: CheckoutRow) => ({
  trial: [checkout.product_id, checkout.allow_trial],
  amounts: [
    checkout.currency,
    checkout.chosen_amount,
    checkout.seats,
    checkout.discount_id,
    checkout.customer_billing_address,
    checkout.is_business_customer,
    checkout.customer_tax_id,
  ],
})

/**
 * Returns an error if the seller has changed the offer since the buyer saw it: the discount no longer applies, or the
 * same choices now cost more today, for example because the trial was removed. The buyer must see the new amount first.
 */
const surprises = (seen: CheckoutRow, now: CheckoutRow, choice: Partial<Confirmation>, due: number): Invalid[] => {
  if (seen.discount_id !== null && now.discount_id === null && choice.discount_code === undefined)
    return [invalidAt(['body', 'discount_id'], 'The discount no longer applies. Check the amount before you confirm.', seen.discount_id)]
  const shown = seen.trial_end === null ? seen.total_amount : 0
  const [before, after] = [choicesIn(seen), choicesIn(now)]
  const isChosen = !isDeepStrictEqual(before.trial, after.trial) || (seen.trial_end === null && !isDeepStrictEqual(before.amounts, after.amounts))
  if (due <= shown || isChosen) return []
  const said = `The amount due today is now ${due} instead of ${shown}, in the smallest unit of ${now.currency}, because the seller has changed the offer. Update the checkout, check the amount, and confirm again.`
  return [invalidAt(['body', 'product_id'], said, now.product_id)]
}

const refuse = (problems: readonly Invalid[]) => {
  if (problems.length > 0) throw new InvalidRequest(problems)
}

/**
 * Returns the customer of the checkout, or else the customer with its email address, or else a new customer. `known` is
 * true if the buyer may get a portal session. A typed address of an existing customer does not prove who the buyer is.
 */
const customerFor = async (tx: Tx, scope: TenantScope, checkout: CheckoutRow): Promise<{ customer: Locked<CustomerRow>; known: boolean }> => {
  const billing = {
    ...(checkout.customer_billing_name === null ? {} : { billing_name: checkout.customer_billing_name }),
    ...(checkout.customer_billing_address === null ? {} : { billing_address: checkout.customer_billing_address }),
    ...(checkout.customer_tax_id === null ? {} : { tax_id: checkout.customer_tax_id, tax_id_format: checkout.customer_tax_id_format }),
    ...(checkout.locale === null ? {} : { locale: checkout.locale }),
  }
  const merged = (customer: Locked<CustomerRow>) => ({
    ...billing,
    ...(customer.name === null && checkout.customer_name !== null ? { name: checkout.customer_name } : {}),
    ...(Object.keys(checkout.customer_metadata).length > 0 ? { metadata: { ...customer.metadata, ...checkout.customer_metadata } } : {}),
  })
  if (checkout.customer_id !== null) {
    const [bound] = await lockCustomers(tx, scope, { id: checkout.customer_id })
    if (!bound) throw new CheckoutCustomerDeleted()
    if (checkout.is_bound) await endUnproved(tx, bound)
    return { customer: await changeCustomer(tx, scope, bound, merged(bound)), known: checkout.is_bound || checkout.knows_customer }
  }
  const email = checkout.customer_email!
  await holdAddress(tx, checkout.organization_id, email)
  const found = await lockCustomerByEmail(tx, scope, checkout.organization_id, email)
  if (checkout.external_customer_id !== null) {
    const [holder] = await findCustomers(tx, scope, { external_id: checkout.external_customer_id })
    if (holder && holder.id !== found?.id) throw new CheckoutCustomerExternalIdMismatch()
  }
  if (found) {
    // A customer created by the previous attempt of this checkout, and not used elsewhere since, is still this buyer.
    const known = checkout.knows_customer && (await isOnlyHere(tx, checkout, found.id))
    if (!known) await endUnproved(tx, found)
    return { customer: await changeCustomer(tx, scope, found, additions(found, merged(found))), known }
  }
  const made = await createCustomer(tx, scope, {
    email,
    name: checkout.customer_name,
    external_id: checkout.external_customer_id,
    metadata: checkout.customer_metadata,
  })
  const customer = markLocked(made)
  return { customer: await changeCustomer(tx, scope, customer, billing), known: true }
}

/**
 * Keeps only the changes that an unverified buyer may make to a customer: values for empty columns and absent metadata
 * keys. Existing values stay, because a typed address does not prove that the buyer is this customer.
 */
const additions = (customer: CustomerRow, changes: Partial<CustomerRow>): Partial<CustomerRow> => {
  const { metadata, tax_id, tax_id_format, ...columns } = changes
  return {
    ...Object.fromEntries(Object.entries(columns).filter(([column]) => customer[column as keyof CustomerRow] === null)),
    // The tax id and its format are set together or not at all.
    ...(customer.tax_id === null && tax_id !== undefined ? { tax_id, tax_id_format: tax_id_format ?? null } : {}),
    ...(metadata === undefined ? {} : { metadata: { ...metadata, ...customer.metadata } }),
  }
}

/**
 * Reserves the discount redemption and the trial before the payment is charged. Confirmations of one person run one at a
 * time. Returns the discount with its new number of redemptions.
 */
const reserve = async (
  tx: BusinessTx,
  platform: Platform,
  { checkout, discount, seller }: Opened,
  customer: CustomerRow,
  card: Card | null,
  trial: boolean,
): Promise<DiscountRow | null> => {
  const { organization_id } = checkout
  const person = {
    customer_id: customer.id,
    email_key: personKey(platform.hasher, checkout.customer_email ?? customer.id),
    card_key: card && cardKey(platform.hasher, card.fingerprint),
  }
  const use = { ...person, organization_id, checkout_id: checkout.id, created_at: tx.clock.business() }
  if (trial || discount) await holdPerson(tx, organization_id, person)
  if (trial) {
    if (seller.subscription_settings.prevent_trial_abuse && (await hadTrial(tx, organization_id, person))) throw new TrialAlreadyRedeemed()
    await insertTrial(tx, { ...use, id: newId(tx.clock.wall()) })
  }
  if (!discount) return null
  const what = { organization_id, discount_id: discount.id }
  const reserved = await reserveUse(tx, what)
  if (!reserved) throw new InvalidRequest(invalidAt(['body', 'discount_id'], 'This discount has reached its redemption limit.', discount.id))
  if (discount.max_redemptions_per_customer !== null && (await usesOf(tx, what, person)) >= discount.max_redemptions_per_customer)
    throw new DiscountRedemptionLimitReached()
  await insertRedemption(tx, { ...use, ...what, subscription_id: null, id: newId(tx.clock.wall()) })
  return { ...discount, ...reserved }
}

/**
 * Second step of the confirmation: charges the payment and returns its result. If the result is still unknown, the sweep
 * over pending payments looks it up later.
 */
export const proceed = async (
  deps: Deps,
  client_secret: string,
  { confirmation_token_id, payment_return_url }: Pick<Confirmation, 'confirmation_token_id' | 'payment_return_url'>,
  { organization_id, checkout_id, payment_id, method }: Confirmed,
): Promise<CheckoutPublicConfirmed> => {
  const { platform } = deps
  const instrument: Instrument | null = method ? { kind: 'method', id: method } : confirmation_token_id ? { kind: 'token', token: confirmation_token_id } : null
  const metadata: Record<string, string> = {}
  if (payment_id !== null) {
    let payment = (await readPayment(deps.db, organization_id, payment_id))!
    if (payment.status === 'pending' && instrument !== null) {
      // The processor already has this payment: it is processing or waits for 3-D Secure. Looks it up instead of charging again.
      const waiting = payment.intent_status === 'requires_action' || payment.intent_status === 'processing'
      const return_url = payment_return_url ?? new URL(`/checkout/${checkout_id}/return`, platform.config.public_url).href
      const intent = waiting ? await look(deps, payment) : await charge(deps, payment, instrument, { return_url })
      if (intent) {
        payment = await deps.transact(async (tx) => {
          const settled = await settle(tx, payment, intent)
          if (settled.status === 'failed') await reopen(tx, platform, { organization_id, checkout_id }, payment_id)
          return settled
        })
        if (intent.client_secret !== '') metadata.intent_client_secret = intent.client_secret
        if (intent.redirect_url !== null) metadata.redirect_url = intent.redirect_url
      }
      metadata.intent_status = intent?.status ?? 'processing'
    } else if (payment.intent_status !== null) metadata.intent_status = payment.intent_status
    Object.assign(metadata, await formOf(deps.db, payment))
    if (payment.status === 'failed') throw new PaymentError(payment.decline_message ?? undefined)
  }
  return deps.transact(async (tx) => {
    const { opened } = await openBySecret(tx, platform, client_secret)
    const { checkout, seller } = opened
    // The payment failed or was canceled meanwhile, so the checkout is no longer confirmed. Nothing was charged.
    if (checkout.status === 'open' || checkout.status === 'expired') throw new NotOpenCheckout('This checkout is no longer confirmed. Confirm it again.')
    const isFresh = checkout.confirmed_at !== null && later(checkout.confirmed_at, welcome) > tx.clock.wall()
    const scope = within(seller.id, 'machine', seller.member_phase)
    const session = checkout.knows_customer && isFresh ? await openPortal(tx, platform, scope, checkout) : null
    const shown = presentPublic(opened, platform)
    return { ...shown, payment_processor_metadata: { ...shown.payment_processor_metadata, ...metadata }, status: 'confirmed', customer_session_token: session }
  })
}

/** Opens a portal session for the buyer. Call it only if `knows_customer` is true. Returns null if the customer was deleted. */
const openPortal = async (tx: Tx, platform: Platform, scope: TenantScope, { organization_id, customer_id, is_bound }: CheckoutRow): Promise<string | null> => {
  const [customer] = await findCustomers(tx, scope, { id: customer_id! })
  if (!customer) return null
  const owner = scope.phases.get(organization_id) === 'phase2' ? await findOwnerOf(tx, customer) : undefined
  const whose = { organization_id, customer_id: customer.id, member_id: owner?.id ?? null }
  const { token } = await openCustomerSession(tx, platform, whose, { unproved: !is_bound })
  return token.reveal()
}
