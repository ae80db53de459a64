import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  confirmClientCheckout,
  createBenefit,
  createCheckout,
  createCustomer,
  createCustomerSession,
  createMeter,
  createProduct,
  getPortalBenefitGrant,
  listBenefitGrants,
  updatePortalBenefitGrant,
  updateProductBenefits,
} from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import { openLocalCommunities } from '../../src/gateways/communities/local.ts'
import type { Communities, Place } from '../../src/gateways/communities/communities.ts'
import { newId } from '../../src/kernel/ids.ts'
import { Secret } from '../../src/kernel/secrets.ts'
import { enqueue } from '../../src/platform/jobs/enqueue.sql.ts'
import { openDeployment, openLife } from './crashes.ts'
import type { World } from './world.ts'

/** Kinds of benefits that the server can grant. */
export const kinds = ['custom', 'feature_flag', 'license_keys', 'meter_credit', 'discord', 'github_repository'] as const
export type Kind = (typeof kinds)[number]
/** True for benefits that an external service grants. */
export const isOutside = (kind: Kind): kind is 'discord' | 'github_repository' => kind === 'discord' || kind === 'github_repository'

export interface Bought {
  readonly customer_id: string
  readonly subscription_id: string | null
  readonly order_id: string | null
}

interface Seat {
  readonly id: string
  readonly bought: Bought
  readonly member_id: string
  readonly email: string
  readonly holder_customer_id: string | null
}

/**
 * Opens functions that create sellers, products with benefits, and customers who bought them. A stand-in for GitHub and
 * Discord records which accounts have access.
 */
export const openEntitlements = async (world: World) => {
  const folder = mkdtempSync(join(tmpdir(), 'communities-'))
  let trouble: (call: 'admit' | 'dismiss') => 'before' | 'after' | undefined = () => undefined
  const communities = openLocalCommunities({ folder, clock: world.clock, misbehave: (call) => trouble(call) })
  let meanwhile: (call: 'admit' | 'dismiss') => Promise<void> = async () => undefined
  const slow: Communities = {
    ...communities,
    admit: async (place, account) => {
      await meanwhile('admit')
      await communities.admit(place, account)
    },
    dismiss: async (place, account) => {
      await meanwhile('dismiss')
      await communities.dismiss(place, account)
    },
  }
  const deployment = await openDeployment(world, openLife(null), { communities: slow })
  const query = <T extends object>(text: string, values: readonly unknown[]) =>
    world.database.owner(async (owner) => (await owner.query<T>(text, [...values])).rows)

  /** Runs all pending jobs, and all calls to GitHub and Discord that are due now. */
  const pass = async () => {
    await deployment.work()
    await deployment.sweep('entitlements.apply')
    await deployment.work()
  }

  const open = async (phase: 'before' | 'phase1' | 'phase2' = 'phase2') => {
    const shop = await world.shop()
    await shop.phase(phase)
    const { api, organization } = shop
    const own = { organization_id: organization.id }
    const person = await world.person()
    await world.join(organization.id, person.id, 'admin')
    const byPerson = world.client({ token: (await person.token()).secret })
    const meter = await api.call(createMeter, { body: { name: 'Calls', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'count' } } })
    let numbered = 0

    const bodyOf = (kind: Kind) => {
      const description = `Benefit ${++numbered}`
      switch (kind) {
        case 'custom':
          return { type: kind, description, properties: { note: 'Psst' } }
        case 'feature_flag':
          return { type: kind, description, visibility: 'public' as const, properties: {} }
        case 'license_keys':
          return { type: kind, description, properties: { prefix: null } }
        case 'meter_credit':
          return { type: kind, description, properties: { units: 100, rollover: false, meter_id: meter.id } }
        case 'discord':
          return { type: kind, description, properties: { guild_token: guild(organization.slug), role_id: String(numbered), kick_member: false } }
        case 'github_repository':
          return {
            type: kind,
            description,
            properties: { repository_owner: organization.slug, repository_name: `app${numbered}`, permission: 'pull' as const },
          }
      }
    }
    const guild = (id: string) => world.platform.sealer.seal(new Secret(id), `discord:${organization.id}`)
    const benefit = async (kind: Kind, changes: object = {}) => {
      const body = { ...bodyOf(kind), ...changes }
      return kind === 'github_repository' ? byPerson.call(createBenefit, { body: { ...body, ...own } }) : api.call(createBenefit, { body })
    }

    const seatPrice = { amount_type: 'seat_based', price_currency: 'usd', seat_tiers: { tiers: [{ min_seats: 1, max_seats: null, price_per_seat: 1000 }] } }
    /** Creates a product with these benefits: one-time or monthly, for one person or with seats. */
    const product = async (benefits: readonly { id: string }[], { recurring = true, seats = false }: { recurring?: boolean; seats?: boolean } = {}) => {
      const made = await api.call(createProduct, {
        body: {
          name: 'Plan',
          ...(recurring ? { recurring_interval: 'month' } : {}),
          prices: [seats ? seatPrice : { amount_type: 'fixed', price_amount: 1000, price_currency: 'usd' }],
        } as never,
      })
      await give(made.id, benefits)
      return made
    }
    const give = (product_id: string, benefits: readonly { id: string }[]) =>
      api.call(updateProductBenefits, { params: { id: product_id }, body: { benefits: benefits.map(({ id }) => id) } })

    /** Buys the product for a new or an existing customer. Assigns no seat. */
    const buy = async (
      product_id: string,
      { seats, card = 'tok_visa', customer_id, clock_id }: { seats?: number; card?: string; customer_id?: string; clock_id?: string } = {},
    ): Promise<Bought> => {
      const email = `buyer${newId(world.clock.wall())}@people.test`
      const buyer = customer_id ?? (await api.call(createCustomer, { body: { email, ...(clock_id ? { test_clock_id: clock_id } : {}) } })).id
      const checkout = await api.call(createCheckout, {
        body: { products: [product_id], customer_id: buyer, success_url: 'https://shop.test/thanks', ...(seats === undefined ? {} : { seats }) },
      })
      await world.client().call(confirmClientCheckout, {
        params: { client_secret: checkout.client_secret },
        body: { customer_billing_address: { country: 'DE' }, confirmation_token_id: card },
      })
      await pass()
      const [bought] = await query<{ subscription_id: string | null; order_id: string | null }>(
        `select (select id from subscriptions where checkout_id = $1) as subscription_id,
           (select id from orders where checkout_id = $1 and subscription_id is null) as order_id`,
        [checkout.id],
      )
      return { customer_id: buyer, ...bought! }
    }

    const reconcile = async ({ subscription_id, order_id }: Bought, seat_id: string | null = null) => {
      await world.transact((tx) => enqueue(tx, 'entitlements.reconcile', { ...own, subscription_id, order_id, seat_id }))
      await pass()
    }

    const member = async (customer_id: string, email = `member${newId(world.clock.wall())}@people.test`) => {
      const id = newId(world.clock.wall())
      await query(`insert into members (organization_id, id, customer_id, created_at, email, role) values ($1, $2, $3, $4, $5, 'member')`, [
        organization.id,
        id,
        customer_id,
        world.clock.business(),
        email,
      ])
      return { id, email }
    }

    /**
     * Creates a claimed seat for a new person, or a second seat for the holder of the seat `again`. A new person
     * becomes a member of the buyer. Before phase 2 of the member migration the person also becomes a customer.
     */
    const seat = async (bought: Bought, { again, holder = phase !== 'phase2' }: { again?: Seat; holder?: boolean } = {}): Promise<Seat> => {
      const who = again ? { id: again.member_id, email: again.email } : await member(bought.customer_id)
      const holder_customer_id = again ? again.holder_customer_id : holder ? (await api.call(createCustomer, { body: { email: who.email } })).id : null
      const id = newId(world.clock.wall())
      await query(
        `insert into seats (organization_id, id, created_at, subscription_id, order_id, status, buyer_customer_id, holder_customer_id, member_id, email, claimed_at, metadata)
         values ($1, $2, $3, $4, $5, 'claimed', $6, $7, $8, $9, $3, '{}')`,
        [organization.id, id, world.clock.business(), bought.subscription_id, bought.order_id, bought.customer_id, holder_customer_id, who.id, who.email],
      )
      await reconcile(bought, id)
      return { id, member_id: who.id, email: who.email, holder_customer_id, bought }
    }
    /** Revokes a seat. Then reconciles the grants of its holder, or of all holders of the purchase. */
    const revokeSeat = async ({ id, bought }: Seat, everybody = false) => {
      await query(`update seats set status = 'revoked', revoked_at = $2 where id = $1`, [id, world.clock.business()])
      await reconcile(bought, everybody ? null : id)
    }

    const portal = async (customer_id: string, member_id?: string): Promise<Client> =>
      world.client({ token: (await api.call(createCustomerSession, { body: { customer_id, ...(member_id ? { member_id } : {}) } })).token })

    /** Links the recipient's external account to the grant. */
    const link = async (client: Client, id: string, account_id: string | null) => {
      const { benefit_type } = await client.call(getPortalBenefitGrant, { params: { id } })
      const answer = await client.call(updatePortalBenefitGrant, { params: { id }, body: { benefit_type, properties: { account_id } } as never })
      await pass()
      return answer
    }

    const grants = async (filters: Record<string, unknown> = {}) =>
      (await api.call(listBenefitGrants, { query: { limit: 100, sorting: ['created_at'], ...filters } })).items

    /** Returns the emitted events about grants, or about one grant, oldest first. */
    const told = async (grant_id?: string) =>
      (await shop.events('benefit_grant.created', 'benefit_grant.updated', 'benefit_grant.cycled', 'benefit_grant.revoked')).filter(
        ({ data }) => grant_id === undefined || data.id === grant_id,
      )

    return { ...shop, byPerson, meter, guild, benefit, product, give, buy, member, seat, revokeSeat, reconcile, portal, link, grants, told }
  }

  /** Returns the Discord role or GitHub repository that a benefit gives access to. */
  const placeOf = ({ type, properties }: { type: string; properties: unknown }): Place => {
    const given = properties as Record<string, string>
    return type === 'discord'
      ? { kind: 'discord', guild_id: given.guild_id!, role_id: given.role_id! }
      : { kind: 'github', repository_owner: given.repository_owner!, repository_name: given.repository_name!, permission: given.permission! }
  }

  return {
    deployment,
    query,
    pass,
    open,
    communities,
    /** Returns the external accounts to which the benefit gives access, by the stand-in's own records. */
    inside: (benefit: { type: string; properties: unknown }) => communities.present(placeOf(benefit)),
    misbehave: (how: typeof trouble) => void (trouble = how),
    /** Runs a callback once, after the server has sent the next call of this kind. The call takes effect after the callback. */
    meanwhile: (call: 'admit' | 'dismiss', happens: () => Promise<unknown>) =>
      void (meanwhile = async (now) => {
        if (now !== call) return
        meanwhile = async () => undefined
        await happens()
      }),
    close: async () => {
      await deployment.close()
      rmSync(folder, { recursive: true })
    },
  }
}
export type Entitlements = Awaited<ReturnType<typeof openEntitlements>>
