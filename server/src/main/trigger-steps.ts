import {
  advanceTestClock,
  assignSeat,
  confirmClientCheckout,
  createBenefit,
  createCheckout,
  createCustomer,
  createDiscount,
  createMember,
  createProduct,
  createRefund,
  createTestClock,
  getSubscription,
  getTestClock,
  listBenefitGrants,
  listOrders,
  listSubscriptions,
  updateBenefit,
  updateProductBenefits,
  updateSubscription,
} from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import { randomText } from '../kernel/secrets.ts'
import { days, hours, seconds } from '../platform/clock.ts'

/** The dependencies of a flow: the API, and the values that replace those of its requests. */
export interface Flow {
  readonly api: Client
  /** Says what the flow is waiting for. */
  readonly say: (text: string) => void
  /** Returns a client that merges the overrides of an object into the body of its request. */
  readonly requestOf: (object: string) => Pick<Client, 'call'>
  /** Waits until an answer is defined. Fails with the name of what never happened. */
  readonly until: <T>(what: string, ask: () => Promise<T | undefined>) => Promise<T>
}

export const word = () => randomText(6, 'abcdefghijklmnopqrstuvwxyz')
/** Longer than any month. */
export const overAMonth = (32 * days) / seconds
export const overADay = (25 * hours) / seconds

export const product = ({ requestOf }: Flow) =>
  requestOf('product').call(createProduct, {
    body: { name: `Triggered ${word()}`, prices: [{ amount_type: 'fixed', price_currency: 'usd', price_amount: 1000 }] },
  })

export const plan = ({ requestOf }: Flow, more: Record<string, unknown> = {}) =>
  requestOf('product').call(createProduct, {
    body: {
      name: `Triggered plan ${word()}`,
      recurring_interval: 'month',
      prices: [{ amount_type: 'fixed', price_currency: 'usd', price_amount: 1000 }],
      ...more,
    },
  })

const seatPlan = (flow: Flow) =>
  plan(flow, {
    prices: [
      {
        amount_type: 'seat_based',
        price_currency: 'usd',
        seat_tiers: { seat_tier_type: 'graduated', tiers: [{ min_seats: 1, max_seats: null, price_per_seat: 1000 }] },
      },
    ],
  })

export const customer = ({ requestOf }: Flow, more: Record<string, unknown> = {}) =>
  requestOf('customer').call(createCustomer, { body: { name: `Triggered ${word()}`, email: `${word()}@example.com`, ...more } })

const team = (flow: Flow) => customer(flow, { type: 'team' })

export const member = async (flow: Flow) => {
  const { id } = await team(flow)
  return flow.requestOf('member').call(createMember, { params: { id }, body: { email: `${word()}@example.com` } })
}

export const benefit = ({ requestOf }: Flow) =>
  requestOf('benefit').call(createBenefit, { body: { type: 'custom', description: `Triggered ${word()}`, properties: { note: 'Hello' } } })

export const discount = ({ requestOf }: Flow) =>
  requestOf('discount').call(createDiscount, { body: { name: `Triggered ${word()}`, type: 'percentage', basis_points: 1000, duration: 'once' } })

/** Creates a test clock. The purchases of its customers follow it, so that a flow can let months pass at once. */
export const clock = ({ api }: Flow) => api.call(createTestClock, { body: { name: 'bursar trigger' } })

export const advance = async ({ api, say, until }: Flow, id: string, by_seconds: number) => {
  await api.call(advanceTestClock, { params: { id }, body: { by_seconds } })
  say('waiting for the test clock')
  await until('the test clock arrives', async () => ((await api.call(getTestClock, { params: { id } })).status === 'ready' ? true : undefined))
}

export const checkout = ({ requestOf }: Flow, product_id: string, more: Record<string, unknown> = {}) =>
  requestOf('checkout').call(createCheckout, { body: { products: [product_id], ...more } })

interface Bought {
  readonly customer_id: string
  readonly order_id: string
}

/** Buys a product through a checkout, as a customer does, and waits until the order is paid. */
export const buy = async (
  flow: Flow,
  product_id: string,
  { card = 'tok_visa', clock_id, ...more }: { card?: string; clock_id?: string; seats?: number } = {},
): Promise<Bought> => {
  const { api, requestOf, say, until } = flow
  const { id: customer_id } = await customer(flow, clock_id === undefined ? {} : { test_clock_id: clock_id })
  const opened = await checkout(flow, product_id, { customer_id, ...more })
  await requestOf('payment').call(confirmClientCheckout, {
    params: { client_secret: opened.client_secret },
    body: { customer_billing_address: { country: 'DE' }, confirmation_token_id: card },
  })
  say('waiting for the payment')
  const order = await until('the order is paid', async () => {
    const { items } = await api.call(listOrders, { query: { checkout_id: [opened.id] } })
    return items.find(({ status }) => status === 'paid')
  })
  return { customer_id, order_id: order.id }
}

const subscriptionOf = async ({ api, until }: Flow, customer_id: string) =>
  until('the subscription begins', async () => (await api.call(listSubscriptions, { query: { customer_id: [customer_id] } })).items[0])

/** Buys a plan. With a test clock, the subscription can be renewed at once. */
export const subscribe = async (flow: Flow, more: { card?: string; clocked?: boolean; seats?: number; product_id?: string } = {}) => {
  const { clocked = false, product_id, ...rest } = more
  const clock_id = clocked ? (await clock(flow)).id : undefined
  const bought = await buy(flow, product_id ?? (await plan(flow)).id, { ...rest, ...(clock_id === undefined ? {} : { clock_id }) })
  return { ...bought, clock_id: clock_id!, id: (await subscriptionOf(flow, bought.customer_id)).id }
}

export const change = (flow: Flow, id: string, body: Record<string, unknown>) =>
  flow.requestOf('subscription').call(updateSubscription, { params: { id }, body })

/** Buys a product that grants a benefit, and waits until the customer has the benefit. */
export const granted = async (flow: Flow, { clocked = false }: { clocked?: boolean } = {}) => {
  const { api, until } = flow
  const { id: benefit_id } = await benefit(flow)
  const { id: product_id } = await plan(flow)
  await api.call(updateProductBenefits, { params: { id: product_id }, body: { benefits: [benefit_id] } })
  const bought = await subscribe(flow, { product_id, clocked })
  const grant = await until('the benefit is granted', async () => (await api.call(listBenefitGrants, { query: { benefit_id: [benefit_id] } })).items[0])
  return { ...bought, benefit_id, grant_id: grant.id }
}

export const seat = async (flow: Flow, more: Record<string, unknown> = {}) => {
  const { id: subscription_id } = await subscribe(flow, { product_id: (await seatPlan(flow)).id, seats: 2 })
  return flow.requestOf('seat').call(assignSeat, { body: { subscription_id, email: `${word()}@example.com`, ...more } })
}

export const refund = async (flow: Flow, card?: string) => {
  const { order_id } = await buy(flow, (await product(flow)).id, card === undefined ? {} : { card })
  return flow.requestOf('refund').call(createRefund, { body: { order_id, reason: 'customer_request', amount: 100 } })
}

export const paused = async (flow: Flow) => {
  const bought = await subscribe(flow, { clocked: true })
  await change(flow, bought.id, { pause_at_period_end: true })
  await advance(flow, bought.clock_id, overAMonth)
  await flow.until('the subscription is paused', async () =>
    (await flow.api.call(getSubscription, { params: { id: bought.id } })).status === 'paused' ? true : undefined,
  )
  return bought
}

/** Changes the note of a benefit. The contract has no type for the changed properties of one kind, so the type is cast. */
export const rewrite = ({ requestOf }: Flow, id: string) =>
  requestOf('change').call(updateBenefit, { params: { id }, body: { type: 'custom', properties: { note: `Rewritten ${word()}` } as never } })
