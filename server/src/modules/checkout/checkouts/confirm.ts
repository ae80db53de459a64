import {
  CheckoutCustomerDeleted,
  CheckoutCustomerExternalIdMismatch,
  DiscountRedemptionLimitReached,
  invalidAt,
  InvalidRequest,
  NotOpenCheckout,
  PaymentError,
  PaymentNotReady,
  TrialAlreadyRedeemed,
  type CheckoutConfirm,
  type CheckoutPublicConfirmed,
  type Invalid,
} from '@bursar/contract'
import type { z } from 'zod'
import { newId } from '../../../kernel/ids.ts'
import { Secret } from '../../../kernel/secrets.ts'
import type { Reach } from '../../../kernel/actors.ts'
import type { PaymentAccount } from '../../../gateways/payments/payments.ts'
import { later, minutes } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means, Platform } from '../../handlers.ts'
import {
  cardKey,
  charge,
  defaultAccount,
  formOf,
  insertRedemption,
  look,
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
import { capabilities } from '../../organizations/index.ts'
import { apply, findBySecret, hold, holdOpen, refuseSecondSubscription } from './checkouts.ts'
import { changeCheckout, hadTrial, holdPerson, insertTrial, isOnlyHere, usesOf, type CheckoutRow } from './checkouts.sql.ts'
import { addressFields, figure } from './figures.ts'
import { reopen } from './fulfilment.ts'
import { basisOf, openOne, presentPublic, tellUpdated, type Opened, type Seller } from './opening.ts'

type Wish = z.output<typeof CheckoutConfirm>

/** What the first step has committed, and the second goes on from. */
export interface Confirmed extends Readonly<Record<string, string | null>> {
  readonly organization_id: string
  readonly checkout_id: string
  /** Null: there is nothing to pay, now or later. */
  readonly payment_id: string | null
}

/** What is known of a card before anything is charged: the same card again is the same person. */
export interface Card {
  readonly fingerprint: string
  readonly name: string | null
}

/** What was found out before anything is held: which processor new accounts are with, and what it says of the token. */
export interface Seen {
  readonly processor: PaymentAccount['processor']
  readonly card: Card | null
}

/** How long a confirmed checkout may go without news before somebody looks after it. */
const patience = 10 * minutes

/**
 * The first of two steps: everything that can be refused is refused here, before anybody is asked for money. What is
 * committed at its end – the customer, the use of the discount, the attempt to charge – is enough to go on from, whoever
 * dies. The same token once more is the same wish, and goes on where it was.
 */
export const begin = async (wall: Tx, platform: Platform, { processor, card }: Seen, client_secret: string, body: Wish): Promise<Confirmed> => {
  const { checkout: found, reach, seller } = await findBySecret(wall, platform.hasher, client_secret)
  const token = body.confirmation_token_id ?? null
  const wish = token === null ? null : platform.hasher.hash(new Secret(`confirmation ${found.id} ${token}`))
  const same = await hold(wall, reach, found.id)
  // The same token once more, or none again where nothing was to pay: the same wish, answered alike.
  if ((same.status === 'confirmed' || same.status === 'succeeded') && same.confirmed_with === wish && (wish !== null || same.payment_id === null))
    return { organization_id: seller.id, checkout_id: same.id, payment_id: same.payment_id }
  const { tx: offered, checkout } = await holdOpen(wall, reach, found.id)
  const { confirmation_token_id: _, ...choice } = body
  const opened = await apply(offered, checkout, choice, { complete: true })
  const shown = figure(basisOf(opened, offered.clock.business()))
  // Whoever cannot be paid says so before anything is asked of the buyer.
  const account = shown.is_payment_form_required ? await accountFor(wall, platform, seller, processor) : null
  refuse([...surprises(checkout, opened.checkout, choice), ...problemsOf(opened, shown, token, card)])
  const { customer, known } = await customerFor(wall, reach, opened.checkout)
  // Whoever turns out to be buying may live by another clock than the checkout did: their trial ends by theirs.
  const tx = await inTimeOf(wall, customer)
  const figured = figure(basisOf(opened, tx.clock.business()))
  // Again, now that nobody else can confirm for this customer: another checkout of theirs may be about to subscribe them.
  await refuseSecondSubscription(tx, { ...opened, checkout: { ...opened.checkout, customer_id: customer.id } })
  const ref = { organization_id: seller.id, checkout_id: checkout.id }
  await reserve(tx, platform, opened, customer, card, figured.stored.trial_end !== null)
  const payment = account
    ? await openAttempt(tx, account, {
        organization_id: seller.id,
        customer_id: customer.id,
        checkout_id: checkout.id,
        kind: figured.charge_amount > 0 ? 'payment' : 'setup',
        amount: figured.charge_amount,
        currency: opened.checkout.currency,
        trigger: 'purchase',
        // Only what recurs is charged again.
        reusable: figured.is_payment_setup_required,
      })
    : null
  const confirmed = await changeCheckout(tx, checkout, {
    ...opened.checkout,
    ...figured.stored,
    status: 'confirmed',
    customer_id: customer.id,
    knows_customer: known,
    figures: figured.totals,
    payment_id: payment?.id ?? null,
    confirmed_with: wish,
    confirmed_at: tx.clock.wall(),
    customer_name: opened.checkout.customer_name ?? card?.name ?? null,
    due_at: later(tx.clock.wall(), patience),
    clock_id: null,
  })
  await tellUpdated(tx, platform, confirmed)
  if (!payment) await enqueue(tx, 'checkout.payment_settled', ref)
  return { ...ref, payment_id: payment?.id ?? null }
}

/** Where the money goes: nowhere, where this seller cannot take any. */
const accountFor = async (tx: Tx, platform: Platform, seller: Seller, processor: Seen['processor']) => {
  if (!capabilities[seller.status].checkout_payments) throw new PaymentNotReady()
  const account = await defaultAccount(tx, platform.sealer, seller.id, processor)
  if (!account) throw new PaymentNotReady()
  return account
}

/** A discount that ran out since the buyer saw it: they look again before they pay. */
const surprises = (seen: CheckoutRow, now: CheckoutRow, choice: Partial<Wish>): Invalid[] =>
  seen.discount_id !== null && now.discount_id === null && choice.discount_code === undefined
    ? [invalidAt(['body', 'discount_id'], 'The discount does not count any more. Look at the amount again before you confirm.', seen.discount_id)]
    : []

const refuse = (problems: readonly Invalid[]) => {
  if (problems.length > 0) throw new InvalidRequest(problems)
}

/** Everything that is still missing, told together. */
const problemsOf = ({ checkout }: Opened, figured: ReturnType<typeof figure>, token: string | null, card: Card | null): Invalid[] => {
  const problems: Invalid[] = []
  const form = figured.is_payment_form_required
  // Whatever costs something is taxed, whether or not it can be charged at once.
  const billed = form || figured.totals.total_amount > 0
  const missing = (field: string, msg: string, ...more: string[]) => void problems.push({ loc: ['body', field, ...more], msg, type: 'missing' })
  if (checkout.customer_id === null && checkout.customer_email === null) missing('customer_email', 'Where shall the receipt go?')
  if (billed || checkout.is_business_customer) {
    const address = checkout.customer_billing_address
    if (address === null) missing('customer_billing_address', 'An address is needed, at least its country.')
    else
      for (const [part, mode] of Object.entries(addressFields(checkout)))
        if (mode === 'required' && !address[part as keyof typeof address]) missing('customer_billing_address', 'This part of the address is needed.', part)
    if (checkout.is_business_customer && checkout.customer_billing_name === null) missing('customer_billing_name', 'A company has a name.')
  }
  if (form && token === null) missing('confirmation_token_id', "Give the token of the processor's form.")
  else if (form && card === null) problems.push(invalidAt(['body', 'confirmation_token_id'], 'The processor does not know this token.', token))
  if (billed && checkout.customer_billing_address !== null && checkout.tax === null)
    problems.push(invalidAt(['body', 'customer_billing_address'], 'The tax cannot be computed for this address.', checkout.customer_billing_address))
  return problems
}

/**
 * Who buys: the customer that the checkout was made for, or else the one with this address, or else a new one. `known`
 * says whether the buyer may be let into the portal: an address that somebody typed proves nothing.
 */
const customerFor = async (tx: Tx, reach: Reach, checkout: CheckoutRow): Promise<{ customer: Locked<CustomerRow>; known: boolean }> => {
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
    const [bound] = await lockCustomers(tx, reach, { id: checkout.customer_id })
    if (!bound) throw new CheckoutCustomerDeleted()
    if (checkout.is_bound) await endUnproved(tx, bound)
    return { customer: await changeCustomer(tx, reach, bound, merged(bound)), known: checkout.knows_customer }
  }
  const email = checkout.customer_email!
  await holdAddress(tx, checkout.organization_id, email)
  const found = await lockCustomerByEmail(tx, reach, checkout.organization_id, email)
  if (checkout.external_customer_id !== null) {
    const [holder] = await findCustomers(tx, reach, { external_id: checkout.external_customer_id })
    if (holder && holder.id !== found?.id) throw new CheckoutCustomerExternalIdMismatch()
  }
  if (found) {
    // Whoever types an address may be anybody: what its owner has told us stays, and only what is missing is filled in.
    const blanks = Object.fromEntries(Object.entries(merged(found)).filter(([column]) => column === 'metadata' || found[column as keyof CustomerRow] === null))
    // Whom the attempt before has brought, and nobody else has met since, is who they were when they typed it first.
    const known = checkout.knows_customer && (await isOnlyHere(tx, checkout, found.id))
    if (!known) await endUnproved(tx, found)
    return { customer: await changeCustomer(tx, reach, found, blanks), known }
  }
  const made = await createCustomer(tx, reach, {
    email,
    name: checkout.customer_name,
    external_id: checkout.external_customer_id,
    metadata: checkout.customer_metadata,
  })
  const customer = made as Locked<CustomerRow>
  return { customer: await changeCustomer(tx, reach, customer, billing), known: true }
}

/** What this checkout uses up – a use of the discount, the one trial of a person – is taken before money is asked for, and by one confirmation of a person at a time. */
const reserve = async (
  tx: Tx,
  platform: Platform,
  { checkout, discount, seller }: Opened,
  customer: CustomerRow,
  card: Card | null,
  trial: boolean,
): Promise<void> => {
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
  if (!discount) return
  const what = { organization_id, discount_id: discount.id }
  if (!(await reserveUse(tx, what)))
    throw new InvalidRequest(invalidAt(['body', 'discount_id'], 'This discount has been used as often as it can be.', discount.id))
  if (discount.max_redemptions_per_customer !== null && (await usesOf(tx, what, person)) >= discount.max_redemptions_per_customer)
    throw new DiscountRedemptionLimitReached()
  await insertRedemption(tx, { ...use, ...what, subscription_id: null, id: newId(tx.clock.wall()) })
}

/** So long after the confirmation the buyer is let into the portal by it: a link that is kept opens nothing later. */
const welcome = 10 * minutes

/**
 * The second step: asks for the money, and tells what came of it. Whatever is not known when it ends is found out by
 * whoever looks after the attempt.
 */
export const proceed = async (
  means: Means,
  client_secret: string,
  token: string | null,
  { organization_id, checkout_id, payment_id }: Confirmed,
): Promise<CheckoutPublicConfirmed> => {
  const { platform } = means
  const metadata: Record<string, string> = {}
  if (payment_id !== null) {
    let payment = (await readPayment(means.db, organization_id, payment_id))!
    if (payment.status === 'pending' && token !== null) {
      // What waits for the buyer's bank, or for theirs, is only looked at: it was confirmed before.
      const waiting = payment.intent_status === 'requires_action' || payment.intent_status === 'processing'
      const intent = waiting ? await look(means, payment) : await charge(means, payment, { kind: 'token', token })
      if (intent) {
        payment = await means.transact(async (tx) => {
          const settled = await settle(tx, payment, intent)
          if (settled.status === 'failed') await reopen(tx, platform, { organization_id, checkout_id }, payment_id)
          return settled
        })
        if (intent.client_secret !== '') metadata.intent_client_secret = intent.client_secret
      }
      metadata.intent_status = intent?.status ?? 'processing'
    } else if (payment.intent_status !== null) metadata.intent_status = payment.intent_status
    Object.assign(metadata, await formOf(means.db, payment))
    if (payment.status === 'failed') throw new PaymentError(payment.decline_message ?? undefined)
  }
  return means.transact(async (tx) => {
    const { checkout, reach } = await findBySecret(tx, platform.hasher, client_secret)
    // Called off meanwhile: nothing was charged.
    if (checkout.status === 'open' || checkout.status === 'expired') throw new NotOpenCheckout('This checkout is not confirmed any more. Confirm it again.')
    const isFresh = checkout.confirmed_at !== null && later(checkout.confirmed_at, welcome) > tx.clock.wall()
    const session = checkout.knows_customer && isFresh ? await openPortal(tx, platform, reach, checkout) : null
    const shown = presentPublic(await openOne(tx, checkout), platform)
    return { ...shown, payment_processor_metadata: { ...shown.payment_processor_metadata, ...metadata }, status: 'confirmed', customer_session_token: session }
  })
}

/** The buyer is somebody we know by more than a typed address: they may see what they bought. */
const openPortal = async (tx: Tx, platform: Platform, reach: Reach, { organization_id, customer_id, is_bound }: CheckoutRow): Promise<string | null> => {
  const [customer] = await findCustomers(tx, reach, { id: customer_id! })
  if (!customer) return null
  const owner = reach.phases.get(organization_id) === 'phase2' ? await findOwnerOf(tx, customer) : undefined
  const whose = { organization_id, customer_id: customer.id, member_id: owner?.id ?? null }
  const { token } = await openCustomerSession(tx, platform, whose, { unproved: !is_bound })
  return token.reveal()
}
