import {
  assignSeat,
  claimSeat,
  confirmClientCheckout,
  createCheckout,
  createCustomer,
  createCustomerSession,
  createProduct,
  listCustomerMembers,
  listOrders,
  listSeats,
  listSubscriptions,
  updateProductBenefits,
  type CustomerSeat,
} from '@bursar/contract'
import type { z } from 'zod'
import { newId } from '../../src/kernel/ids.ts'
import { jobs } from '../../src/main/wire.ts'
import { openDeployment, openLife } from './crashes.ts'
import { eventually, type World } from './world.ts'

type Deployment = Awaited<ReturnType<typeof openDeployment>>
type Shop = Awaited<ReturnType<World['shop']>>
type Phase = Parameters<Shop['phase']>[0]
/** A seat as the API returns it. */
type Seat = z.input<typeof CustomerSeat>

export interface Purchase {
  readonly seats?: number
  /** Ids of the product's benefits. */
  readonly benefits?: readonly string[]
  /** The seller. Default: a new one. */
  readonly shop?: Shop
  /** Phase of the member migration that is set before the purchase. */
  readonly phase?: Phase
  /** An existing product. Default: a new one. */
  readonly product_id?: string
  /** True if the team buys a one-time product instead of a subscription. */
  readonly once?: boolean
  /** Assigns a seat to the buyer at the purchase. */
  readonly own?: boolean
  /** The buyer. Default: a new customer. */
  readonly customer_id?: string
  readonly email?: string
}

/** Extracts the secret of the invitation link from a mail. */
export const tokenIn = (text: string): string => /token=(\S+)/.exec(text)![1]!

/**
 * Returns functions for teams that buy seats through a real checkout and invite people by real mail. If the test system
 * has no worker, these functions or the given deployment run the jobs.
 */
export const openTeams = async (world: World, given?: Deployment) => {
  const own = world.working || given ? undefined : await openDeployment(world, openLife(null))
  const deployment = given ?? own
  let serial = 0

  /** Runs all pending jobs, including mail about seats. */
  const settle = async () => {
    if (!deployment) return
    await deployment.work()
    await post('mail.seat_invitation')
  }

  /** Sends the mails of these kinds that wait in the job queue. */
  const post = async (...kinds: (typeof jobs)[number]['name'][]) => {
    for (;;) {
      const next = await world.database.owner(async (owner) => {
        const { rows } = await owner.query<{ id: string; name: string; payload: never }>(
          `delete from graphile_worker._private_jobs j using graphile_worker._private_tasks t where t.id = j.task_id and j.id = (
             select j.id from graphile_worker._private_jobs j join graphile_worker._private_tasks t on t.id = j.task_id
             where t.identifier = any($1::text[]) order by j.id limit 1) returning j.id, t.identifier as name, j.payload`,
          [kinds],
        )
        return rows[0]
      })
      if (!next) return
      await jobs.find(({ name }) => name === next.name)!.run(deployment!.deps, next.payload)
    }
  }

  /** Buys seats for a team. Default: a subscription with five seats. */
  const buy = async ({ seats = 5, benefits = [], phase, once = false, own: seated = false, ...wish }: Purchase = {}) => {
    const shop = wish.shop ?? (await world.shop())
    const { api, organization } = shop
    if (phase) await shop.phase(phase)
    const product_id =
      wish.product_id ??
      (
        await api.call(createProduct, {
          body: {
            name: 'Workshop',
            ...(once ? {} : { recurring_interval: 'month' }),
            prices: [{ amount_type: 'seat_based', price_currency: 'usd', seat_tiers: { tiers: [{ min_seats: 1, max_seats: 1000, price_per_seat: 1000 }] } }],
          } as never,
        })
      ).id
    if (benefits.length > 0) await api.call(updateProductBenefits, { params: { id: product_id }, body: { benefits: [...benefits] } })
    const email = wish.email ?? `buyer-${newId(world.clock.wall())}@people.test`
    const customer_id = wish.customer_id ?? (await api.call(createCustomer, { body: { email, name: 'Works' } })).id
    const checkout = await api.call(createCheckout, {
      body: { products: [product_id], customer_id, seats, ...(seated ? {} : { success_url: 'https://shop.example/thanks' }) },
    })
    await world.client().call(confirmClientCheckout, {
      params: { client_secret: checkout.client_secret },
      body: { customer_billing_address: { country: 'DE' }, confirmation_token_id: 'tok_visa' },
    })
    await settle()
    const order = await eventually('the order exists', async () => (await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items[0])
    const subscription = (await api.call(listSubscriptions, { query: { customer_id: [customer_id], limit: 100 } })).items.find(
      (one) => one.checkout_id === checkout.id,
    )
    const pool = subscription ? { subscription_id: subscription.id } : { order_id: order.id }
    const members = async () => (await api.call(listCustomerMembers, { params: { id: customer_id }, query: { limit: 100 } })).items
    const owner = (await members()).find(({ role }) => role === 'owner')!
    return {
      ...shop,
      shop,
      organization,
      checkout_id: checkout.id,
      product_id,
      customer_id,
      order_id: order.id,
      subscription_id: subscription?.id ?? null,
      /** The subscription or order id that an assignment names. */
      pool,
      owner,
      members,
      seats: () => api.call(listSeats, { query: pool }),
      /** Opens the portal as a member, by default as the owner. With null, opens it as the customer, as before the member migration. */
      portal: async (member_id: string | null = owner.id) =>
        world.client({ token: (await api.call(createCustomerSession, { body: { customer_id, ...(member_id === null ? {} : { member_id }) } })).token }),
    }
  }
  type Team = Awaited<ReturnType<typeof buy>>

  /** Creates a customer with a subscription without seats. */
  const plain = async ({ api }: Shop) => {
    const product = await api.call(createProduct, {
      body: { name: 'Alone', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 1000, price_currency: 'usd' }] },
    })
    const customer = await api.call(createCustomer, { body: { email: `alone-${newId(world.clock.wall())}@people.test` } })
    const { client_secret } = await api.call(createCheckout, { body: { products: [product.id], customer_id: customer.id } })
    await world.client().call(confirmClientCheckout, {
      params: { client_secret },
      body: { customer_billing_address: { country: 'DE' }, confirmation_token_id: 'tok_visa' },
    })
    await settle()
    const [subscription] = (await api.call(listSubscriptions, { query: { customer_id: [customer.id] } })).items
    return { customer_id: customer.id, product_id: product.id, subscription_id: subscription!.id }
  }

  /** Assigns a seat, by default to a new person. */
  const assign = (team: Team, who: Record<string, unknown> = { email: `person-${serial++}-${newId(world.clock.wall())}@people.test` }): Promise<Seat> =>
    team.api.call(assignSeat, { body: { ...team.pool, ...who } })

  /** Returns the secret that was mailed to the invited person. */
  const invited = async (seat: Seat): Promise<string> => {
    await settle()
    const to = seat.customer_email!
    // Skips older mails to the same address, because an older invitation is no longer valid. All mails have been sent at this point.
    const there = deployment ? world.mail.letters.filter((letter) => letter.to === to).length : 1
    for (let at = 1; at < there; at++) await world.mail.next(to)
    return tokenIn((await world.mail.next(to)).text)
  }

  /** Accepts an invitation by its mail. Returns the portal of the new seat holder. */
  const claim = async (seat: Seat) => {
    const answer = await world.client().call(claimSeat, { body: { invitation_token: await invited(seat) } })
    await settle()
    return { seat: answer.seat, token: answer.customer_session_token, portal: world.client({ token: answer.customer_session_token }) }
  }

  return { buy, plain, assign, invited, claim, settle, post, deployment, close: async () => own?.close() }
}
export type Teams = Awaited<ReturnType<typeof openTeams>>
export type Team = Awaited<ReturnType<Teams['buy']>>
