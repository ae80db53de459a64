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
import { openDeployment, openLife } from './doom.ts'
import { eventually, type World } from './world.ts'

type Deployment = Awaited<ReturnType<typeof openDeployment>>
type Shop = Awaited<ReturnType<World['shop']>>
type Phase = Parameters<Shop['phase']>[0]
/** A seat as it comes over the wire. */
type Seat = z.input<typeof CustomerSeat>

export interface Purchase {
  readonly seats?: number
  /** What the product gives, by their ids. */
  readonly benefits?: readonly string[]
  /** The seller; a new one unless given. */
  readonly shop?: Shop
  /** The phase of the member migration that its organization is put into before anything is bought. */
  readonly phase?: Phase
  /** Another product than the one that is made for it. */
  readonly product_id?: string
  /** Bought once, not subscribed to. */
  readonly once?: boolean
  /** The buyer has a seat of their own from the start. */
  readonly own?: boolean
  /** The buyer; somebody new unless given. */
  readonly customer_id?: string
  readonly email?: string
}

/** The secret of the link in a letter. */
export const tokenIn = (text: string): string => /token=(\S+)/.exec(text)![1]!

/**
 * Teams that have bought seats through a real checkout, and people who get them by real mail. In a world with a worker
 * whatever was promised is done by that; in one without it is done here, or by the deployment that is given.
 */
export const openTeams = async (world: World, given?: Deployment) => {
  const own = world.working || given ? undefined : await openDeployment(world, openLife(null))
  const deployment = given ?? own
  let serial = 0

  /** Everything that was promised is done, mail about seats too. */
  const settle = async () => {
    if (!deployment) return
    await deployment.work()
    await post('mail.seat_invitation')
  }

  /** Mail of these kinds that waits goes out. */
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
      await jobs.find(({ name }) => name === next.name)!.run(deployment!.means, next.payload)
    }
  }

  /** A team with seats to give: five, of a subscription, unless said otherwise. */
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
    const order = await eventually('the order is there', async () => (await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items[0])
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
      /** What an assignment names: the subscription, or the order. */
      pool,
      owner,
      members,
      seats: () => api.call(listSeats, { query: pool }),
      /** The portal, as its owner sees it, or another member; before the member model, as the customer. */
      portal: async (member_id: string | null = owner.id) =>
        world.client({ token: (await api.call(createCustomerSession, { body: { customer_id, ...(member_id === null ? {} : { member_id }) } })).token }),
    }
  }
  type Team = Awaited<ReturnType<typeof buy>>

  /** Somebody who has a plan without seats. */
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

  /** Assigns a seat, to somebody new unless somebody is named. */
  const assign = (team: Team, who: Record<string, unknown> = { email: `person-${serial++}-${newId(world.clock.wall())}@people.test` }): Promise<Seat> =>
    team.api.call(assignSeat, { body: { ...team.pool, ...who } })

  /** The secret that was mailed to whoever is invited. */
  const invited = async (seat: Seat): Promise<string> => {
    await settle()
    const to = seat.customer_email!
    // Where all mail is out, older letters to the same address are of no use any more.
    const there = deployment ? world.mail.letters.filter((letter) => letter.to === to).length : 1
    for (let at = 1; at < there; at++) await world.mail.next(to)
    return tokenIn((await world.mail.next(to)).text)
  }

  /** Accepts an invitation by its mail, and stands in the portal as whoever holds the seat. */
  const claim = async (seat: Seat) => {
    const answer = await world.client().call(claimSeat, { body: { invitation_token: await invited(seat) } })
    await settle()
    return { seat: answer.seat, token: answer.customer_session_token, portal: world.client({ token: answer.customer_session_token }) }
  }

  return { buy, plain, assign, invited, claim, settle, post, deployment, close: async () => own?.close() }
}
export type Teams = Awaited<ReturnType<typeof openTeams>>
export type Team = Awaited<ReturnType<Teams['buy']>>
