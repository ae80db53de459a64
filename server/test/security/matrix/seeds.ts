import { sql } from 'kysely'
import { CheckoutCreate, CheckoutLinkCreate, OAuth2ClientConfiguration, type OrganizationRole } from '@bursar/contract'
import { issueOrganizationToken, issuePersonalToken } from '../../../src/modules/identity/index.ts'
import { addMember, createCustomer, createTestClock, openCustomerSession } from '../../../src/modules/customers/index.ts'
import { ingestEvents } from '../../../src/modules/usage/index.ts'
import { createWebhookEndpoint } from '../../../src/modules/webhooks/index.ts'
import { defaultAccount } from '../../../src/modules/billing/index.ts'
import { assign as assignSeat } from '../../../src/modules/billing/seats/assigning.ts'
import { createCheckout, createCheckoutLink } from '../../../src/modules/checkout/index.ts'
import { createBenefit, createCustomField, createDiscount, createMeter, createProduct } from '../../../src/modules/catalog/index.ts'
import { insertMembership } from '../../../src/modules/organizations/index.ts'
import { within } from '../../../src/kernel/actors.ts'
import { createDashboard } from '../../../src/modules/insights/index.ts'
import { newId } from '../../../src/kernel/ids.ts'
import { openSales } from '../../harness/sales.ts'
import { noteSecrets } from '../../harness/secrets.ts'
import type { World } from '../../harness/world.ts'
import { activateKey, grantByHand, reserveUnits } from '../../../src/modules/entitlements/index.ts'
import { registerClient } from '../../../src/modules/identity/clients/clients.ts'
import { allowApp } from '../../../src/modules/identity/grants/grants.ts'
import { inWallTime } from '../../../src/platform/clocks.sql.ts'
import type { Tx } from '../../../src/platform/postgres/postgres.ts'
import type { Policy, PortalRole, Target } from './policy.ts'
import { bearer, seedFrom, type SandboxSeed } from './targets.ts'

/** Opens functions that create the resources which requests name. The permission matrix and the fuzzer share them. */
export const openSeeds = (world: World) => {
  const { transact, platform, database } = world
  const sales = openSales(world)
  const join = (organization_id: string, user_id: string, role: OrganizationRole) =>
    transact((tx) => insertMembership(tx, organization_id, user_id, role, tx.clock.wall()))

  const inside = (organization_id: string) => within(organization_id, 'machine', 'phase2')
  let fields = 0
  let customers = 0
  const kept = new Set<string>()

  /** Creates a team customer in the organization, with one member that requests can name. */
  const seedTeam = (organization_id: string) =>
    transact(async (tx) => {
      const serial = customers++
      const customer_external_id = `team-${serial}`
      const customer = await createCustomer(tx, inside(organization_id), {
        type: 'team',
        email: `team-${serial}@people.test`,
        external_id: customer_external_id,
      })
      const person_external_id = `person-${serial}`
      // The cast is safe. `addMember` needs a locked customer, and a transaction locks the rows that it inserts.
      const person = await addMember(tx, customer as never, {
        email: `person-${serial}@people.test`,
        name: null,
        external_id: person_external_id,
        role: 'member',
      })
      return { customer_id: customer.id, customer_external_id, person_id: person.id, person_external_id }
    })

  /** Creates an OAuth client that the person owns, and the person's grant for that client. */
  const seedClient = async (tx: Tx, user_id: string): Promise<string> => {
    const { client } = await registerClient(
      tx,
      platform,
      OAuth2ClientConfiguration.parse({ client_name: 'Target', redirect_uris: ['https://app.example/callback'] }),
      user_id,
    )
    await allowApp(tx, { client_id: client.client_id, user_id, scopes: ['openid'], organizations: null })
    return client.client_id
  }

  const onSale: Parameters<typeof createProduct>[2] = {
    name: 'Target',
    visibility: 'public',
    prices: [{ amount_type: 'fixed', price_currency: 'usd', price_amount: 1000 }],
  }

  const forFree: typeof onSale = {
    ...onSale,
    name: 'For free',
    recurring_interval: 'month',
    recurring_interval_count: 1,
    prices: [{ amount_type: 'fixed', price_currency: 'usd', price_amount: 0 }],
  }

  const bySeat: typeof onSale = {
    ...onSale,
    name: 'By seat',
    recurring_interval: 'month',
    recurring_interval_count: 1,
    prices: [
      {
        amount_type: 'seat_based',
        price_currency: 'usd',
        seat_tiers: { seat_tier_type: 'volume', tiers: [{ min_seats: 1, max_seats: null, price_per_seat: 1000 }] },
      },
    ],
  }

  /** Creates a subscription with seats for the customer, and invites a person to one of its seats. */
  const seedSeats = async (organization_id: string, customer_id: string) => {
    const { product, prices } = await transact((tx) => createProduct(tx, inside(organization_id), bySeat))
    const ids = prices.map(({ id }) => id)
    const { id: seated_id } = await sales.subscription({ organization_id, id: customer_id }, product, ids, { seats: 10 })
    const body = { subscription_id: seated_id, email: `seat-${customers++}@people.test`, immediate_claim: false }
    const { seat } = await transact((tx) => assignSeat(tx, inside(organization_id), body, platform))
    return { seated_id, seat_id: seat.id }
  }

  /** Creates an open checkout, and a subscription and a paid order of the customer. */
  const seedSales = async (organization_id: string, customer_id: string) => {
    // Uses another product than `product_id`, because a sold product cannot be deleted.
    const { product, prices } = await transact((tx) => createProduct(tx, inside(organization_id), onSale))
    const { checkout } = await transact((tx) => createCheckout(tx, inside(organization_id), platform, CheckoutCreate.parse({ products: [product.id] })))
    const checkout_secret = platform.sealer.open(checkout.secret_sealed, checkout.id).reveal()
    noteSecrets(checkout_secret)
    // Creates a payment account, so that a refund request reaches the test processor. The processor does not know this intent.
    await transact((tx) => defaultAccount(tx, platform.sealer, organization_id, 'test'))
    const customer = { organization_id, id: customer_id }
    const subscription = await sales.subscription(
      customer,
      product,
      prices.map(({ id }) => id),
    )
    const order = await sales.order(customer, { product_id: product.id })
    const payment = await sales.payment(customer, { order_id: order.id, intent_id: `intent-${order.id}` })
    const refund = await sales.refund(order, payment)
    // Disputes another payment, because a disputed payment cannot be refunded.
    const disputed = await sales.payment(customer, { order_id: order.id, status: 'failed' })
    const { id: dispute_id } = await sales.dispute(order, disputed)
    const { link } = await transact((tx) =>
      createCheckoutLink(inWallTime(tx), inside(organization_id), platform, CheckoutLinkCreate.parse({ payment_processor: 'stripe', products: [product.id] })),
    )
    const link_secret = platform.sealer.open(link.secret_sealed, link.id).reveal()
    noteSecrets(link_secret)
    return {
      link_id: link.id,
      link_secret,
      checkout_id: checkout.id,
      checkout_secret,
      subscription_id: subscription.id,
      order_id: order.id,
      payment_id: payment.id,
      dispute_id,
      refund_id: refund.id,
    }
  }

  /** Creates the credit balance that the customer has with the seller. */
  const seedWallet = async (organization_id: string, customer_id: string) => {
    const { rows } = await database.owner((owner) =>
      owner.query<{ id: string }>(
        `insert into customer_balances (organization_id, id, created_at, customer_id, currency, amount) values ($1, $2, now(), $3, 'usd', 1200)
         on conflict (organization_id, customer_id, currency) do update set amount = excluded.amount returning id`,
        [organization_id, newId(new Date()), customer_id],
      ),
    )
    return { wallet_id: rows[0]!.id }
  }

  /** Creates a payment method of the customer that no payment has used yet. */
  const seedMethod = async (organization_id: string, customer_id: string) => {
    const payment_method_id = newId(new Date())
    await database.owner((owner) =>
      owner.query(
        `insert into payment_methods (organization_id, id, created_at, customer_id, processor, type, processor_method_id) values ($1, $2, now(), $3, 'stripe', 'link', $2::uuid::text)`,
        [organization_id, payment_method_id, customer_id],
      ),
    )
    return { payment_method_id }
  }

  /** Creates a benefit and grants it to the customer itself. */
  const seedGrant = async (tx: Tx, organization_id: string, customer_id: string): Promise<string> => {
    const tenant = inside(organization_id)
    const benefit = await createBenefit(tx, tenant, platform, { type: 'custom', description: 'Granted', properties: {} })
    return (await grantByHand(tx, tenant, platform, { customer_id, benefit_id: benefit.id })).grant.id
  }

  /** Credits a new meter of the customer itself, and reserves a unit. */
  const seedCustomerMeter = async (tx: Tx, organization_id: string, customer_id: string) => {
    const tenant = inside(organization_id)
    const filter = { conjunction: 'and', clauses: [] } as const
    const meter = await createMeter(tx, tenant, { name: 'Credited', unit: 'scalar', filter: { ...filter, clauses: [] }, aggregation: { func: 'count' } })
    const properties = { meter_id: meter.id, units: 10, rollover: false }
    const benefit = await createBenefit(tx, tenant, platform, { type: 'meter_credit', description: 'Units', properties })
    await grantByHand(tx, tenant, platform, { customer_id, benefit_id: benefit.id })
    const { rows } = await sql<{ customer_meter_id: string }>`select id as customer_meter_id from customer_meters where meter_id = ${meter.id}`.execute(tx.q)
    const { id: reservation_id } = await reserveUnits(tx, tenant, { customer_id, meter_id: meter.id, units: 1, key: meter.id, expires_in: 86_400 })
    return { ...rows[0]!, credited_meter_id: meter.id, reservation_id }
  }

  /** Creates a license key of the customer itself, with one activation. */
  const seedKey = async (tx: Tx, organization_id: string, customer_id: string) => {
    const tenant = inside(organization_id)
    const properties = { activations: { limit: 3, enable_customer_admin: false } }
    const benefit = await createBenefit(tx, tenant, platform, { type: 'license_keys', description: 'Keys', properties })
    const { grant } = await grantByHand(tx, tenant, platform, { customer_id, benefit_id: benefit.id })
    const license_key_id = grant.properties.license_key_id as string
    const { rows } = await sql<{ key_sealed: string }>`select key_sealed from license_keys where id = ${license_key_id}`.execute(tx.q)
    const license_key = platform.sealer.open(rows[0]!.key_sealed, `license_key:${organization_id}:${license_key_id}`).reveal()
    noteSecrets(license_key)
    const { activation } = await activateKey(tx, tenant, platform, { key: license_key, organization_id, label: 'Target' })
    return { license_key_id, license_key, activation_id: activation.id }
  }

  const seedMember = async (organization_id: string) => {
    const member = await world.person()
    await join(organization_id, member.id, 'member')
    return { member_id: member.id }
  }

  const seedInvitation = async (organization_id: string, owner_id: string) => {
    const invitation_id = newId(new Date())
    await database.owner((owner) =>
      owner.query(
        `insert into organization_invitations (organization_id, id, created_at, email, role, status, expires_at, invited_by) values ($1, $2, now(), $3, 'member', 'pending', now() + interval '1 day', $4)`,
        [organization_id, invitation_id, `${invitation_id}@people.test`, owner_id],
      ),
    )
    return { invitation_id }
  }

  const seedWebhooks = async (organization_id: string) => {
    const [event_id, replay_id] = [newId(new Date()), newId(new Date())]
    // An organization may have only a limited number of webhook endpoints. Deletes the older ones, except the endpoint in
    // `neighbour`, which later requests name.
    await database.owner((owner) =>
      owner.query(
        'update webhook_endpoints set deleted_at = now() where (organization_id, id) in (select organization_id, id from webhook_endpoints where organization_id = $1 and deleted_at is null and id <> all($2) order by created_at desc offset 20)',
        [organization_id, [...kept]],
      ),
    )
    const { endpoint } = await transact((tx) =>
      createWebhookEndpoint(tx, inside(organization_id), platform, {
        url: 'https://example.com/hooks',
        format: 'raw',
        events: ['organization.updated'],
        strict: false,
      }),
    )
    await database.owner(async (owner) => {
      await owner.query(
        `insert into events (organization_id, id, sequence, kind, resource_id, api_version, payload, business_at, wall_at)
         values ($1, $2, (select coalesce(max(sequence), 0) + 1 from events where organization_id = $1), 'organization.updated', $1, '2026-04', '{"type":"organization.updated","timestamp":"2026-01-01T00:00:00Z","data":{"feature_settings":{}}}', now(), now())`,
        [organization_id, event_id],
      )
      await owner.query(
        `insert into webhook_replays (organization_id, id, created_at, endpoint_id, next_sequence, last_sequence, include_delivered, total, queued) values ($1, $2, now(), $3, 1, 1, false, 0, 0)`,
        [organization_id, replay_id, endpoint.id],
      )
    })
    return { endpoint_id: endpoint.id, event_id, replay_id }
  }

  /** Ingests one event of the customer. */
  const seedUsage = async (organization_id: string, customer_id: string) => {
    const name = `target-${customers++}`
    await transact((tx) => ingestEvents(tx, inside(organization_id), [{ name, customer_id, metadata: {} }], new Map()))
    const { rows } = await database.owner((owner) =>
      owner.query<{ usage_event_id: string; event_type_id: string }>(
        `select e.id as usage_event_id, t.id as event_type_id from usage_events e join event_types t using (organization_id, name)
         where e.organization_id = $1 and e.name = $2`,
        [organization_id, name],
      ),
    )
    return rows[0]!
  }

  const seedFile = async (organization_id: string) => {
    const file_id = newId(new Date())
    await database.owner((owner) =>
      owner.query(
        `insert into files (organization_id, id, created_at, service, name, path, mime_type, size, upload_id, state)
         values ($1, $2::uuid, now(), 'downloadable', 'target.txt', 'downloadable/' || $2::uuid, 'text/plain', 3, 'upload', 'ready')`,
        [organization_id, file_id],
      ),
    )
    return { file_id }
  }

  /** Creates the resources that requests name. Called again before each permitted request, because the request may delete them. */
  const furnish = (organization_id: string, owner_id: string, actor_id: string, row?: Pick<Policy, 'ask'>): Promise<Target> => {
    const tenant = inside(organization_id)
    let team: ReturnType<typeof seedTeam> | undefined
    const crowd = () => (team ??= seedTeam(organization_id))
    const own = async (make: (customer_id: string) => Promise<Partial<Target>>) => make((await crowd()).customer_id)
    const one = (name: keyof Target, make: (tx: Tx) => Promise<string>): SandboxSeed => [[name], () => transact(async (tx) => ({ [name]: await make(tx) }))]
    const furnishings: readonly SandboxSeed[] = [
      [['member_id'], () => seedMember(organization_id)],
      [['invitation_id'], () => seedInvitation(organization_id, owner_id)],
      [['customer_id', 'customer_external_id', 'person_id', 'person_external_id'], crowd],
      [['endpoint_id', 'event_id', 'replay_id'], () => seedWebhooks(organization_id)],
      [['wallet_id'], () => own((customer_id) => seedWallet(organization_id, customer_id))],
      [
        ['checkout_id', 'checkout_secret', 'link_id', 'link_secret', 'subscription_id', 'order_id', 'payment_id', 'dispute_id', 'refund_id'],
        () => own((customer_id) => seedSales(organization_id, customer_id)),
      ],
      [['seated_id', 'seat_id'], () => own((customer_id) => seedSeats(organization_id, customer_id))],
      [['file_id'], () => seedFile(organization_id)],
      [['usage_event_id', 'event_type_id'], () => own((customer_id) => seedUsage(organization_id, customer_id))],
      one(
        'organization_token_id',
        async (tx) => (await issueOrganizationToken(tx, platform, organization_id, { comment: 'target', scopes: ['orders:read'] })).token.id,
      ),
      one('product_id', async (tx) => (await createProduct(tx, tenant, onSale)).product.id),
      one('free_plan_id', async (tx) => (await createProduct(tx, tenant, forFree)).product.id),
      one(
        'meter_id',
        async (tx) =>
          (await createMeter(tx, tenant, { name: 'Target', unit: 'scalar', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'count' } })).id,
      ),
      one('benefit_id', async (tx) => (await createBenefit(tx, tenant, platform, { type: 'custom', description: 'Target', properties: {} })).id),
      one('discount_id', async (tx) => (await createDiscount(tx, tenant, { name: 'Target', type: 'percentage', duration: 'once', basis_points: 100 })).id),
      one(
        'custom_field_id',
        async (tx) => (await createCustomField(tx, tenant, { type: 'text', slug: `target-${fields++}`, name: 'Target', properties: {} })).id,
      ),
      one('personal_token_id', async (tx) => (await issuePersonalToken(tx, platform, actor_id, { comment: 'target', scopes: ['orders:read'] })).token.id),
      one('dashboard_id', async (tx) => (await createDashboard(tx, tenant, { name: 'Target', metrics: [] })).id),
      one('client_id', (tx) => seedClient(tx, actor_id)),
      one('test_clock_id', async (tx) => (await createTestClock(tx, tenant, {})).id),
      [['payment_method_id'], () => own((customer_id) => seedMethod(organization_id, customer_id))],
      [['grant_id'], () => own((customer_id) => transact(async (tx) => ({ grant_id: await seedGrant(tx, organization_id, customer_id) })))],
      [
        ['customer_meter_id', 'credited_meter_id', 'reservation_id'],
        () => own((customer_id) => transact((tx) => seedCustomerMeter(tx, organization_id, customer_id))),
      ],
      [['license_key_id', 'license_key', 'activation_id'], () => own((customer_id) => transact((tx) => seedKey(tx, organization_id, customer_id)))],
    ]
    return seedFrom(furnishings, { organization_id }, row)
  }

  /** Creates a team customer with three members. Its members call the portal operations. */
  const openCrew = async (organization_id: string) => {
    // A team customer of our tenant. Its members call the portal operations. The neighbour is another customer of the same tenant.
    const crew = await transact(async (tx) => {
      const customer = await createCustomer(tx, inside(organization_id), {
        type: 'team',
        email: 'crew-billing@people.test',
        name: 'Crew',
        billing_address: { country: 'DE', line1: 'Concealed Lane 7' },
        tax_id: 'DE136695976',
        owner: { email: 'crew-owner@people.test', name: 'Crew Owner' },
      })
      const manager = await addMember(tx, customer as never, {
        email: 'crew-manager@people.test',
        name: 'Crew Manager',
        external_id: null,
        role: 'billing_manager',
      })
      const plain = await addMember(tx, customer as never, { email: 'crew-plain@people.test', name: null, external_id: null, role: 'member' })
      return { customer_id: customer.id, members: { customer: null, billing_manager: manager.id, member: plain.id } }
    })
    const { rows: crewOwners } = await database.owner((owner) =>
      owner.query<{ id: string }>(`select id from members where customer_id = $1 and role = 'owner'`, [crew.customer_id]),
    )
    const crewMembers = { ...crew.members, owner: crewOwners[0]!.id }
    const portalOf = async (role: PortalRole) => {
      const whose = { organization_id: organization_id, customer_id: crew.customer_id, member_id: crewMembers[role] }
      const { token } = await transact((tx) => openCustomerSession(tx, platform, whose))
      noteSecrets(token.reveal())
      return bearer(token.reveal())
    }
    const subscribed = await transact((tx) => createProduct(tx, inside(organization_id), forFree))
    /** Creates the resources of the team customer that the policy's request names. Every call creates new ones. */
    const ofCrew = (row: Pick<Policy, 'ask'>): Promise<Target> => {
      const customer = { organization_id: organization_id, id: crew.customer_id }
      const person = { email: `crew-${customers++}@people.test`, name: null, external_id: null, role: 'member' } as const
      return seedFrom(
        [
          [['seated_id', 'seat_id'], () => seedSeats(organization_id, crew.customer_id)],
          [['wallet_id'], () => seedWallet(organization_id, crew.customer_id)],
          [['payment_method_id'], () => seedMethod(organization_id, crew.customer_id)],
          // The order is pending, so that portal requests can pay it.
          [['order_id'], async () => ({ order_id: (await sales.order(customer, { status: 'pending' })).id })],
          [['subscription_id'], async () => ({ subscription_id: (await sales.subscription(customer, subscribed.product, [subscribed.prices[0]!.id])).id })],
          [['grant_id'], () => transact(async (tx) => ({ grant_id: await seedGrant(tx, organization_id, crew.customer_id) }))],
          [['customer_meter_id', 'credited_meter_id', 'reservation_id'], () => transact((tx) => seedCustomerMeter(tx, organization_id, crew.customer_id))],
          [['license_key_id', 'license_key', 'activation_id'], () => transact((tx) => seedKey(tx, organization_id, crew.customer_id))],
          [
            ['person_id'],
            () => transact(async (tx) => ({ person_id: (await addMember(tx, { ...customer, type: 'team', clock_id: null } as never, person)).id })),
          ],
        ],
        { organization_id: organization_id, customer_id: crew.customer_id },
        row,
      )
    }
    return { customer_id: crew.customer_id, portalOf, ofCrew }
  }

  return { seedTeam, seedSeats, seedSales, seedMethod, seedKey, seedFile, sales, inside, join, kept, furnish, openCrew }
}
