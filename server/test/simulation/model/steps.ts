import {
  acceptDispute,
  addPortalPaymentMethod,
  confirmClientCheckout,
  createCheckout,
  createCustomer,
  createCustomerSession,
  createRefund,
  createSubscription,
  createTestClock,
  deletePortalPaymentMethod,
  listDisputes,
  updatePortalSubscription,
  updateSubscription,
} from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import { openBank } from './bank.ts'
import { isPaid, readBooks, type Books, type Order, type Subscription } from './books.ts'
import { places, type ProductName } from './catalogue.ts'
import { cards, type Sequence, type Step, type Surface } from './generator.ts'
import type { Lane } from './stage.ts'

/** Result of a step. `skipped`: the step was impossible, for example because there was no order to refund. */
export interface Outcome {
  readonly result: 'accepted' | 'refused' | 'skipped'
  /** Status and error code of a refusal. */
  readonly answer: string
}

const skipped: Outcome = { result: 'skipped', answer: '' }
const accepted: Outcome = { result: 'accepted', answer: '' }
const day = 86_400_000

/** The start of every sequence. It is in January, so that the periods cover months of 31, 28, 31 and 30 days. */
const start = '2026-01-10T08:30:00.000Z'

/** Creates a customer on a test clock. Returns the functions that send the requests of a step and read the result. */
export const openCustomer = async (lane: Lane, { place, behavior }: Pick<Sequence, 'place' | 'behavior'>, label: string) => {
  const { api, organization_id } = lane
  await lane.ask(`update organizations set subscription_settings = subscription_settings || jsonb_build_object('proration_behavior', $2::text) where id = $1`, [
    organization_id,
    behavior,
  ])
  const { address } = places[place]
  const clock = await api.call(createTestClock, { body: { name: label, now: start } })
  const customer = await api.call(createCustomer, { body: { email: `${label}@people.test`, billing_address: address, test_clock_id: clock.id } })
  const customer_id = customer.id
  const bank = openBank(lane)
  const names = new Map([...lane.productIds].map(([name, id]) => [id, name]))
  // Creates the portal session now, because a session without a member id needs a customer with only one member.
  const portal: Client = lane.client({ token: (await api.call(createCustomerSession, { body: { customer_id } })).token })
  let tokens = 0

  /** Makes a unique token of a test card. A trial would be refused for a card that another customer used. */
  const token = (card: keyof typeof cards): string | null => (cards[card] === null ? null : `${cards[card]}:${label}-${++tokens}`)
  const outcomeOf = (answer: { status: number; body: unknown }): Outcome => {
    if (answer.status < 400) return accepted
    const { error = '' } = answer.body as { error?: string }
    if (answer.status >= 500) throw new Error(`the server answered ${answer.status} ${error}`)
    return { result: 'refused', answer: `${answer.status} ${error}` }
  }

  const buy = async (step: Step & { kind: 'buy' }, live: Subscription | undefined): Promise<Outcome> => {
    const product_id = lane.productIds.get(step.product)!
    const card = token(step.card)
    if (step.product === 'Free' && !live) return outcomeOf(await api.send(createSubscription, { body: { customer_id, product_id } }))
    const checkout = await api.send(createCheckout, {
      body: {
        products: [product_id],
        customer_id,
        ...(live && live.amount === 0 ? { subscription_id: live.id } : {}),
        ...(step.seats === null ? {} : { seats: step.seats }),
        ...(step.discount === null ? {} : { discount_id: lane.discountIds.get(step.discount)! }),
        ...(step.trialDays === null ? { allow_trial: false } : { trial_interval: 'day', trial_interval_count: step.trialDays }),
      } as never,
    })
    if (checkout.status >= 400) return outcomeOf(checkout)
    const { client_secret } = checkout.body as { client_secret: string }
    const confirmed = await lane.client().send(confirmClientCheckout, {
      params: { client_secret },
      body: { customer_billing_address: address, ...(card === null ? {} : { confirmation_token_id: card }) },
    })
    await lane.work()
    // A checkout that is paid by bank debit creates no subscription before the debit settles.
    if (step.card === 'a bank debit') await lane.settle()
    return outcomeOf(confirmed)
  }

  const change = async (surface: Surface, { id }: Subscription, body: object): Promise<Outcome> =>
    outcomeOf(
      surface === 'portal'
        ? await portal.send(updatePortalSubscription, { params: { id }, body })
        : await api.send(updateSubscription, { params: { id }, body }),
    )

  const refund = async (step: Step & { kind: 'refund' }, books: Books): Promise<Outcome> => {
    const order = nth(
      books.orders.filter((one) => isPaid(one) && refundableOf(one) > 0),
      step.order,
    )
    if (!order) return skipped
    const amount = Math.max(1, Math.round((refundableOf(order) * step.percent) / 100))
    return outcomeOf(await api.send(createRefund, { body: { order_id: order.id, reason: 'customer_request', amount } }))
  }

  const dispute = async (step: Step & { kind: 'dispute' }, books: Books): Promise<Outcome> => {
    const charge = nth(
      books.orders.filter(isPaid).flatMap(({ charges }) => charges.filter(({ amount, refunded, disputes }) => amount > refunded && disputes.length === 0)),
      step.order,
    )
    if (!charge) return skipped
    await bank.open(charge.intent_id, step.status)
    return accepted
  }

  const decide = async (step: Step & { kind: 'win' | 'lose' }, books: Books): Promise<Outcome> => {
    const open = books.orders.flatMap(({ charges }) => charges.flatMap(({ disputes }) => disputes)).find(({ status }) => isOpen(status))
    if (!open) return skipped
    if (step.kind === 'lose' && step.how === 'accepted') {
      const { items } = await api.call(listDisputes, { query: { status: ['needs_response'] } })
      const waiting = items.find(({ customer }) => customer.id === customer_id)
      if (!waiting) return skipped
      return outcomeOf(await api.send(acceptDispute, { params: { id: waiting.id } }))
    }
    await bank.decide(open.id, step.kind === 'win' ? 'won' : 'lost')
    return accepted
  }

  const travel = async (books: Books, to: number): Promise<void> => {
    if (to > Date.parse(books.now)) await lane.travel(api, clock.id, new Date(to).toISOString())
  }

  const perform = async (step: Step, books: Books): Promise<Outcome> => {
    const live = books.subscriptions.findLast(({ ended_at }) => ended_at === null)
    if (step.kind === 'buy') return buy(step, live)
    if (step.kind === 'refund') return refund(step, books)
    if (step.kind === 'dispute') return dispute(step, books)
    if (step.kind === 'win' || step.kind === 'lose') return decide(step, books)
    if (step.kind === 'add card')
      return outcomeOf(
        await portal.send(addPortalPaymentMethod, {
          body: { confirmation_token_id: token(step.card)!, set_default: true, return_url: 'https://shop.test/portal' },
        }),
      )
    if (step.kind === 'remove card') return removeCards(books)
    if (step.kind === 'settle') {
      await lane.settle()
      return accepted
    }
    const now = Date.parse(books.now)
    if (!live) {
      if (step.kind === 'renew') await travel(books, now + 30 * day)
      return skipped
    }
    const end = Date.parse(live.current_period_end)
    switch (step.kind) {
      case 'plan':
        return change(step.surface, live, { product_id: lane.productIds.get(step.product)!, ...behaviorOf(step) })
      case 'seats':
        return change(step.surface, live, { seats: step.seats, ...behaviorOf(step) })
      case 'cancel':
        return change(step.surface, live, step.atOnce && step.surface === 'organization' ? { revoke: true } : { cancel_at_period_end: true })
      case 'uncancel':
        return change(step.surface, live, { cancel_at_period_end: false })
      case 'renew':
        await travel(books, end + 3_600_000)
        return accepted
      case 'wait':
        await travel(books, now + Math.floor(((end - now) * step.percent) / 100))
        return accepted
    }
  }

  const removeCards = async (books: Books): Promise<Outcome> => {
    let outcome = skipped
    for (const id of books.methods) {
      const answer = outcomeOf(await portal.send(deletePortalPaymentMethod, { params: { id } }))
      if (outcome.result !== 'accepted') outcome = answer
    }
    return outcome
  }

  return {
    read: () => readBooks(lane, customer_id),
    productOf: ({ product_id }: Subscription): ProductName => names.get(product_id)!,
    /** Sends the requests of a step, and runs the resulting jobs. */
    perform: async (step: Step, books: Books): Promise<Outcome> => {
      const outcome = await perform(step, books)
      await lane.work()
      return outcome
    },
  }
}

export const isOpen = (status: string): boolean => status === 'needs_response' || status === 'under_review'

const behaviorOf = ({ behavior }: { behavior: string | null }): object => (behavior === null ? {} : { proration_behavior: behavior })

/** Returns the nth element from the end. Wraps around if the list is shorter. */
const nth = <T>(list: readonly T[], back: number): T | undefined => list.toReversed()[list.length === 0 ? 0 : back % list.length]

/** Returns the amount of an order that the API lets a seller refund, without tax. */
const refundableOf = ({ net_amount, tax_amount, applied_balance_amount, carried_amount, refunded_amount }: Order): number =>
  net_amount + Math.min(0, tax_amount) + applied_balance_amount - carried_amount - refunded_amount
