import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { organizationRoles, operations, scopes, type OrganizationRole, type Scope } from '@bursar/contract'
import { cookieName, issueOrganizationToken, issuePersonalToken, startSession } from '../../src/modules/identity/index.ts'
import { addMember, createCustomer, createTestClock, openCustomerSession } from '../../src/modules/customers/index.ts'
import { createWebhookEndpoint } from '../../src/modules/webhooks/index.ts'
import { defaultAccount } from '../../src/modules/billing/index.ts'
import { assign as assignSeat } from '../../src/modules/billing/seats/assigning.ts'
import { createCheckout, createCheckoutLink } from '../../src/modules/checkout/index.ts'
import { createBenefit, createCustomField, createDiscount, createMeter, createProduct } from '../../src/modules/catalog/index.ts'
import { insertMembership } from '../../src/modules/organizations/index.ts'
import { within } from '../../src/kernel/actors.ts'
import { newToken, randomText } from '../../src/kernel/secrets.ts'
import { newId } from '../../src/kernel/ids.ts'
import { beginRun, endRun } from '../harness/runs.ts'
import { openSales } from '../harness/sales.ts'
import { noteSecrets } from '../harness/secrets.ts'
import { checkExchange, openWorld } from '../harness/world.ts'
import { CheckoutCreate, CheckoutLinkCreate, OAuth2ClientConfiguration } from '@bursar/contract'
import { activateKey, grantByHand } from '../../src/modules/entitlements/index.ts'
import { registerClient } from '../../src/modules/identity/clients/clients.ts'
import { allow } from '../../src/modules/identity/grants/grants.ts'
import type { Tx } from '../../src/platform/postgres/postgres.ts'
import { openGrant } from '../harness/visitor.ts'
import { policy, type Credential, type Policy, type PortalRole, type Target, type Verdicts } from './policy.ts'

await beginRun(`matrix${randomText(4, 'abcdefghijklmnopqrstuvwxyz')}`)
const world = await openWorld()
const { transact, platform, database } = world
const sales = openSales(world)
await database.owner((owner) => owner.query('update deployment set organization_creation_open = true'))

const problems: string[] = []
const leaks: string[] = []
let cells = 0

// Two tenants of the same making: ours, and theirs, in whose every text stands a canary.
const people = Object.fromEntries(await Promise.all(organizationRoles.map(async (role) => [role, await world.person()] as const))) as Record<
  OrganizationRole,
  Awaited<ReturnType<typeof world.person>>
>
const ours = await world.organization({ owner: people.owner.id })
const stranger = await world.person()
const theirs = await world.organization({ owner: stranger.id })
const join = (organization_id: string, user_id: string, role: OrganizationRole) =>
  transact((tx) => insertMembership(tx, organization_id, user_id, role, tx.clock.business()))
for (const role of organizationRoles) await join(ours.id, people[role].id, role)

const inside = (organization_id: string) => within(organization_id, 'machine', 'phase2')
let fields = 0
let customers = 0
const kept = new Set<string>()

/** A team of one of the organization's customers, with a member to point at. */
const furnishTeam = (organization_id: string) =>
  transact(async (tx) => {
    const serial = customers++
    const customer_external_id = `team-${serial}`
    const customer = await createCustomer(tx, inside(organization_id), { type: 'team', email: `team-${serial}@people.test`, external_id: customer_external_id })
    const person_external_id = `person-${serial}`
    // What this transaction has made, it holds.
    const person = await addMember(tx, customer as never, {
      email: `person-${serial}@people.test`,
      name: null,
      external_id: person_external_id,
      role: 'member',
    })
    return { customer_id: customer.id, customer_external_id, person_id: person.id, person_external_id }
  })

/** A client of that person's own, which that person allowed something. */
const furnishClient = async (tx: Tx, user_id: string): Promise<string> => {
  const { client } = await registerClient(
    tx,
    platform,
    OAuth2ClientConfiguration.parse({ client_name: 'Target', redirect_uris: ['https://app.example/callback'] }),
    user_id,
  )
  await allow(tx, { client_id: client.client_id, user_id, scopes: ['openid'], organizations: null })
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

/** Seats that this customer has bought, and one of them, to which somebody is invited. */
const furnishSeats = async (organization_id: string, customer_id: string) => {
  const { product, prices } = await transact((tx) => createProduct(tx, inside(organization_id), bySeat))
  const ids = prices.map(({ id }) => id)
  const { id: seated_id } = await sales.subscription({ organization_id, id: customer_id }, product, ids, { seats: 10 })
  const body = { subscription_id: seated_id, email: `seat-${customers++}@people.test`, immediate_claim: false }
  const { seat } = await transact((tx) => assignSeat(tx, inside(organization_id), body))
  return { seated_id, seat_id: seat.id }
}

/** A checkout that waits for its buyer, and something that this customer has bought and paid. */
const furnishSales = async (organization_id: string, customer_id: string) => {
  // Another product than the one to point at: what was sold cannot be deleted.
  const { product, prices } = await transact((tx) => createProduct(tx, inside(organization_id), onSale))
  const { checkout } = await transact((tx) => createCheckout(tx, inside(organization_id), platform, CheckoutCreate.parse({ products: [product.id] })))
  const checkout_secret = platform.sealer.open(checkout.secret_sealed, checkout.id).reveal()
  noteSecrets(checkout_secret)
  // A real account, so that a refund of what was paid reaches a processor; which knows nothing of this intent.
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
  // About another payment: one that is disputed cannot be refunded.
  const disputed = await sales.payment(customer, { order_id: order.id, status: 'failed' })
  const { id: dispute_id } = await sales.dispute(order, disputed)
  const { link } = await transact((tx) =>
    createCheckoutLink(tx, inside(organization_id), platform, CheckoutLinkCreate.parse({ payment_processor: 'stripe', products: [product.id] })),
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

/** What this customer has with its seller. */
const furnishWallet = async (organization_id: string, customer_id: string) => {
  const { rows } = await database.owner((owner) =>
    owner.query<{ id: string }>(
      `insert into customer_balances (organization_id, id, created_at, customer_id, currency, amount) values ($1, $2, now(), $3, 'usd', 1200)
       on conflict (organization_id, customer_id, currency) do update set amount = excluded.amount returning id`,
      [organization_id, newId(new Date()), customer_id],
    ),
  )
  return { wallet_id: rows[0]!.id }
}

/** Something that this customer can pay with, and nothing is paid with yet. */
const furnishMethod = async (organization_id: string, customer_id: string) => {
  const payment_method_id = newId(new Date())
  await database.owner((owner) =>
    owner.query(
      `insert into payment_methods (organization_id, id, created_at, customer_id, processor, type, processor_method_id) values ($1, $2, now(), $3, 'stripe', 'link', $2::uuid::text)`,
      [organization_id, payment_method_id, customer_id],
    ),
  )
  return { payment_method_id }
}

/** A benefit of this customer's own. */
const furnishGrant = async (tx: Tx, organization_id: string, customer_id: string): Promise<string> => {
  const reach = inside(organization_id)
  const benefit = await createBenefit(tx, reach, platform, { type: 'custom', description: 'Granted', properties: {} })
  return (await grantByHand(tx, reach, platform, { customer_id, benefit_id: benefit.id })).grant.id
}

/** A license key of this customer's own, used in one place. */
const furnishKey = async (tx: Tx, organization_id: string, customer_id: string) => {
  const reach = inside(organization_id)
  const properties = { activations: { limit: 3, enable_customer_admin: false } }
  const benefit = await createBenefit(tx, reach, platform, { type: 'license_keys', description: 'Keys', properties })
  const { grant } = await grantByHand(tx, reach, platform, { customer_id, benefit_id: benefit.id })
  const license_key_id = grant.properties.license_key_id as string
  const { rows } = await sql<{ key_sealed: string }>`select key_sealed from license_keys where id = ${license_key_id}`.execute(tx.q)
  const license_key = platform.sealer.open(rows[0]!.key_sealed, `license_key:${organization_id}:${license_key_id}`).reveal()
  noteSecrets(license_key)
  const { activation } = await activateKey(tx, reach, platform, { key: license_key, organization_id, label: 'Target' })
  return { license_key_id, license_key, activation_id: activation.id }
}

const absentId = () => newId(new Date())
const absent = (): Target => ({
  organization_id: absentId(),
  member_id: absentId(),
  invitation_id: absentId(),
  organization_token_id: absentId(),
  personal_token_id: absentId(),
  product_id: absentId(),
  meter_id: absentId(),
  discount_id: absentId(),
  benefit_id: absentId(),
  custom_field_id: absentId(),
  customer_id: absentId(),
  customer_external_id: absentId(),
  person_id: absentId(),
  person_external_id: absentId(),
  endpoint_id: absentId(),
  event_id: absentId(),
  replay_id: absentId(),
  client_id: absentId(),
  checkout_id: absentId(),
  checkout_secret: absentId(),
  order_id: absentId(),
  refund_id: absentId(),
  payment_id: absentId(),
  dispute_id: absentId(),
  payment_method_id: absentId(),
  subscription_id: absentId(),
  test_clock_id: absentId(),
  seated_id: absentId(),
  seat_id: absentId(),
  grant_id: absentId(),
  file_id: absentId(),
  license_key_id: absentId(),
  activation_id: absentId(),
  license_key: absentId(),
  link_id: absentId(),
  link_secret: absentId(),
  wallet_id: absentId(),
  free_plan_id: absentId(),
})

/** What a request of an operation names. */
const namedBy = (row: Policy): ReadonlySet<string> => {
  const named = new Set<string>()
  row.ask(
    new Proxy(absent(), {
      get: (target, name: keyof Target) => {
        named.add(name)
        return target[name]
      },
    }),
  )
  return named
}

type Furnishing = readonly [names: readonly (keyof Target)[], make: () => Promise<Partial<Target>>]

/** Makes all of them, or those that an operation names. */
const furnishFrom = async (furnishings: readonly Furnishing[], given: Partial<Target>, row?: Policy): Promise<Target> => {
  const named = row && namedBy(row)
  const target = { ...absent(), ...given }
  for (const [names, make] of furnishings) if (!named || names.some((name) => named.has(name))) Object.assign(target, await make())
  return target
}

const furnishMember = async (organization_id: string) => {
  const member = await world.person()
  await join(organization_id, member.id, 'member')
  return { member_id: member.id }
}

const furnishInvitation = async (organization_id: string, owner_id: string) => {
  const invitation_id = newId(new Date())
  await database.owner((owner) =>
    owner.query(
      `insert into organization_invitations (organization_id, id, created_at, email, role, status, expires_at, invited_by) values ($1, $2, now(), $3, 'member', 'pending', now() + interval '1 day', $4)`,
      [organization_id, invitation_id, `${invitation_id}@people.test`, owner_id],
    ),
  )
  return { invitation_id }
}

const furnishWebhooks = async (organization_id: string) => {
  const [event_id, replay_id] = [newId(new Date()), newId(new Date())]
  // An organization has a limited number of endpoints: old ones make room, but for the neighbour's.
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

const furnishFile = async (organization_id: string) => {
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

/** Things to point at, made anew wherever a granted request may use them up. */
const furnish = (organization_id: string, owner_id: string, actor_id: string, row?: Policy): Promise<Target> => {
  const reach = inside(organization_id)
  let team: ReturnType<typeof furnishTeam> | undefined
  const crowd = () => (team ??= furnishTeam(organization_id))
  const own = async (make: (customer_id: string) => Promise<Partial<Target>>) => make((await crowd()).customer_id)
  const one = (name: keyof Target, make: (tx: Tx) => Promise<string>): Furnishing => [[name], () => transact(async (tx) => ({ [name]: await make(tx) }))]
  const furnishings: readonly Furnishing[] = [
    [['member_id'], () => furnishMember(organization_id)],
    [['invitation_id'], () => furnishInvitation(organization_id, owner_id)],
    [['customer_id', 'customer_external_id', 'person_id', 'person_external_id'], crowd],
    [['endpoint_id', 'event_id', 'replay_id'], () => furnishWebhooks(organization_id)],
    [['wallet_id'], () => own((customer_id) => furnishWallet(organization_id, customer_id))],
    [
      ['checkout_id', 'checkout_secret', 'link_id', 'link_secret', 'subscription_id', 'order_id', 'payment_id', 'dispute_id', 'refund_id'],
      () => own((customer_id) => furnishSales(organization_id, customer_id)),
    ],
    [['seated_id', 'seat_id'], () => own((customer_id) => furnishSeats(organization_id, customer_id))],
    [['file_id'], () => furnishFile(organization_id)],
    one(
      'organization_token_id',
      async (tx) => (await issueOrganizationToken(tx, platform, organization_id, { comment: 'target', scopes: ['orders:read'] })).token.id,
    ),
    one('product_id', async (tx) => (await createProduct(tx, reach, onSale)).product.id),
    one('free_plan_id', async (tx) => (await createProduct(tx, reach, forFree)).product.id),
    one(
      'meter_id',
      async (tx) =>
        (await createMeter(tx, reach, { name: 'Target', unit: 'scalar', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'count' } })).id,
    ),
    one('benefit_id', async (tx) => (await createBenefit(tx, reach, platform, { type: 'custom', description: 'Target', properties: {} })).id),
    one('discount_id', async (tx) => (await createDiscount(tx, reach, { name: 'Target', type: 'percentage', duration: 'once', basis_points: 100 })).id),
    one('custom_field_id', async (tx) => (await createCustomField(tx, reach, { type: 'text', slug: `target-${fields++}`, name: 'Target', properties: {} })).id),
    one('personal_token_id', async (tx) => (await issuePersonalToken(tx, platform, actor_id, { comment: 'target', scopes: ['orders:read'] })).token.id),
    one('client_id', (tx) => furnishClient(tx, actor_id)),
    one('test_clock_id', async (tx) => (await createTestClock(tx, reach, {})).id),
    [['payment_method_id'], () => own((customer_id) => furnishMethod(organization_id, customer_id))],
    [['grant_id'], () => own((customer_id) => transact(async (tx) => ({ grant_id: await furnishGrant(tx, organization_id, customer_id) })))],
    [['license_key_id', 'license_key', 'activation_id'], () => own((customer_id) => transact((tx) => furnishKey(tx, organization_id, customer_id)))],
  ]
  return furnishFrom(furnishings, { organization_id }, row)
}
const furnished = await furnish(theirs.id, stranger.id, stranger.id)

// A team of ours, seen from the portal by each of its people; and a neighbour, who is a customer of the same seller.
const crew = await transact(async (tx) => {
  const customer = await createCustomer(tx, inside(ours.id), {
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
await database.owner((owner) =>
  owner.query(`update organizations set customer_portal_settings = jsonb_set(customer_portal_settings, '{customer}', '{"allow_email_change": true}')`),
)
/** What a plain member must never see. */
const concealed = ['crew-billing', 'crew-owner', 'crew-manager', 'Crew Owner', 'Crew Manager', 'Concealed Lane', 'DE136695976']
const portalRoles: readonly PortalRole[] = ['customer', 'owner', 'billing_manager', 'member']
const portalOf = async (role: PortalRole) => {
  const whose = { organization_id: ours.id, customer_id: crew.customer_id, member_id: crewMembers[role] }
  const { token } = await transact((tx) => openCustomerSession(tx, platform, whose))
  noteSecrets(token.reveal())
  return bearer(token.reveal())
}
const subscribed = await transact((tx) => createProduct(tx, inside(ours.id), forFree))
/** The team's own things, one more of them each time. */
const ofCrew = (row: Policy): Promise<Target> => {
  const customer = { organization_id: ours.id, id: crew.customer_id }
  const person = { email: `crew-${customers++}@people.test`, name: null, external_id: null, role: 'member' } as const
  return furnishFrom(
    [
      [['seated_id', 'seat_id'], () => furnishSeats(ours.id, crew.customer_id)],
      [['wallet_id'], () => furnishWallet(ours.id, crew.customer_id)],
      [['payment_method_id'], () => furnishMethod(ours.id, crew.customer_id)],
      // It waits for its payment.
      [['order_id'], async () => ({ order_id: (await sales.order(customer, { status: 'pending' })).id })],
      [['subscription_id'], async () => ({ subscription_id: (await sales.subscription(customer, subscribed.product, [subscribed.prices[0]!.id])).id })],
      [['grant_id'], () => transact(async (tx) => ({ grant_id: await furnishGrant(tx, ours.id, crew.customer_id) }))],
      [['license_key_id', 'license_key', 'activation_id'], () => transact((tx) => furnishKey(tx, ours.id, crew.customer_id))],
      [['person_id'], () => transact(async (tx) => ({ person_id: (await addMember(tx, { ...customer, type: 'team', clock_id: null } as never, person)).id }))],
    ],
    { organization_id: ours.id, customer_id: crew.customer_id },
    row,
  )
}
const neighbour = await furnish(ours.id, people.owner.id, people.admin.id)
kept.add(neighbour.endpoint_id)

const canaries = await plantCanaries()
// The canaries took the place of external ids too: what we point at must be what is there.
const { rows: renamed } = await database.owner((owner) =>
  owner.query<{ customer: string; person: string }>(
    'select c.external_id as customer, m.external_id as person from customers c join members m on m.customer_id = c.id where c.id = $1 and m.id = $2',
    [furnished.customer_id, furnished.person_id],
  ),
)
const other: Target = { ...furnished, customer_external_id: renamed[0]!.customer, person_external_id: renamed[0]!.person }

// Apps of one person: restricted to us; restricted to another organization of theirs; of a person who has left us; of
// one who joined us after they allowed it everything.
const elsewhere = await world.organization({ owner: people.admin.id })
await furnish(elsewhere.id, people.admin.id, people.admin.id)
const leaver = await world.person()
await join(ours.id, leaver.id, 'admin')
const joiner = await world.person()
const here = await openGrant(world, people.admin.id, [ours.id])
const apps = {
  elsewhere: await openGrant(world, people.admin.id, [elsewhere.id]),
  left: await openGrant(world, leaver.id, null),
  later: await openGrant(world, joiner.id, null),
}
await database.owner((owner) => owner.query('delete from organization_members where organization_id = $1 and user_id = $2', [ours.id, leaver.id]))
const laterToken = await apps.later([...scopes])
await join(ours.id, joiner.id, 'admin')

// Credentials: every kind, with every single scope, and with every scope but the right ones.
const secrets = new Map<string, string>()
type TokenKind = 'organization' | 'personal' | 'oauth'
const tokenKinds: readonly TokenKind[] = ['organization', 'personal', 'oauth']
const tokenOf = async (kind: TokenKind, held: readonly Scope[]): Promise<string> => {
  const key = `${kind} ${held.join()}`
  let secret = secrets.get(key)
  if (!secret) {
    const wish = { comment: 'matrix', scopes: held }
    secret = (
      kind === 'oauth'
        ? await here(held)
        : (
            await transact((tx) =>
              kind === 'organization' ? issueOrganizationToken(tx, platform, ours.id, wish) : issuePersonalToken(tx, platform, people.admin.id, wish),
            )
          ).secret
    ).reveal()
    noteSecrets(secret)
    secrets.set(key, secret)
  }
  return secret
}
const sessionOf = async (role: OrganizationRole): Promise<Record<string, string>> => ({
  cookie: `${cookieName(world.config)}=${(await transact((tx) => startSession(tx, platform, people[role].id))).reveal()}`,
  origin: world.config.public_url.origin,
  'bursar-csrf': '1',
})
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

const expired = await transact((tx) => issuePersonalToken(tx, platform, people.admin.id, { comment: 'old', scopes, expires_in: 1 }))
const revoked = await ours.token()
await database.owner(async (owner) => {
  await owner.query(`update personal_access_tokens set expires_at = now() - interval '1 second' where id = $1`, [expired.token.id])
  await owner.query('delete from credentials where subject_id = $1', [revoked.id])
})
const good = await tokenOf('organization', [...scopes])
const dead: Record<string, Record<string, string>> = {
  malformed: bearer(`${good.slice(0, -1)}${good.endsWith('a') ? 'b' : 'a'}`),
  'made up': bearer(newToken('organization', 'sandbox').reveal()),
  'other environment': bearer(newToken('organization', 'production').reveal()),
  'other service': bearer('polar_oat_0123456789'),
  'right secret, wrong kind': bearer(good.replace('_oat_', '_pat_')),
  expired: bearer(expired.secret.reveal()),
  revoked: bearer(revoked.secret.reveal()),
}

/** With `--all`, everything that is refused for its scope is asked for of our things, of somebody else's and of nobody's. */
const all = process.argv.includes('--all')

/** Without it, a third of the single scopes, another third with each commit and from one operation to the next. */
const third = all ? 0 : Number(execFileSync('git', ['rev-list', '--count', 'HEAD'], { encoding: 'utf8' })) % 3
const isTried = (turn: number): boolean => all || turn % 3 === third

/** Each of these with one of the three things in turn; whoever has every scope but the right one, with all of them. */
const thingsFor = (turn: number, held: readonly Scope[], standing: Target): Target[] => {
  const things = [standing, other, absent()]
  return all || held.length > 1 ? things : isTried(turn) ? [things[Math.floor(turn / 3) % 3]!] : []
}

/** The headers of a plain member, while such a one asks. */
let plainly: Record<string, string> | undefined

type Way = readonly [Credential, (fresh?: boolean) => Promise<Record<string, string>>]

interface Answer {
  /** As it came, ids and all. */
  raw: string
  status: number
  error: string
  body: string
  headers: string
}

const send = async (operation: (typeof operations)[number], row: Policy, target: Target, headers: Record<string, string>): Promise<Answer> => {
  const { path, body, form } = row.ask(target)
  const payload = form ? new URLSearchParams(form).toString() : body === undefined ? undefined : JSON.stringify(body)
  const answer = await world.api.server.inject({
    method: operation.method,
    url: path,
    headers: { ...headers, ...(payload === undefined ? {} : { 'content-type': form ? 'application/x-www-form-urlencoded' : 'application/json' }) },
    ...(payload === undefined ? {} : { payload }),
  })
  cells++
  checkExchange(operation.method, path, {
    status: answer.statusCode,
    headers: new Headers(Object.entries(answer.headers).map(([name, value]): [string, string] => [name, String(value)])),
    text: answer.body,
  })
  const { 'x-request-id': _, date: __, ratelimit: ___, ...rest } = answer.headers
  const shown = `${answer.body} ${JSON.stringify(rest)}`
  if (headers === plainly && concealed.some((text) => shown.includes(text))) leaks.push(`${operation.id} shows a plain member what is not theirs`)
  for (const canary of canaries) if (shown.includes(canary)) leaks.push(`${operation.id} shows a text of another tenant`)
  if (answer.statusCode >= 500) problems.push(`${operation.id} answers ${answer.statusCode}`)
  let error = ''
  try {
    error = (JSON.parse(answer.body) as { error?: string }).error ?? ''
  } catch {
    // No body, or none of ours.
  }
  // Ids of the request are masked: they may be echoed, and differ by design.
  const masked = Object.values(target).reduce((text: string, id: string) => (id === '' ? text : text.replaceAll(id, '<id>')), answer.body)
  // Whoever follows a link is led to a checkout of their own.
  const told = JSON.stringify(rest).replace(/bursar_test_c_[0-9A-Za-z]{43}/g, '<secret>')
  return { raw: answer.body, status: answer.statusCode, error, body: masked, headers: told }
}

const wantedAnswer = (row: Policy): string => (typeof row.granted === 'number' ? `${row.granted}` : `${row.granted[0]} ${row.granted[1]}`)
const describe = ({ status, error }: Answer): string => (error === '' || status < 300 ? `${status}` : `${status} ${error}`)
const expectAnswer = (where: string, answer: Answer, wanted: string) => {
  if (describe(answer) !== wanted) problems.push(`${where}: wanted ${wanted}, got ${describe(answer)} ${answer.body.slice(0, 200)}`)
}
const expectSame = (where: string, a: Answer, b: Answer) => {
  if (a.status !== b.status || a.body !== b.body || a.headers !== b.headers)
    leaks.push(`${where}: "exists elsewhere" and "absent" can be told apart\n  ${a.status} ${a.body}\n  ${b.status} ${b.body}`)
}

for (const id of Object.keys(policy))
  if (!operations.some((operation) => operation.id === id)) problems.push(`the policy has a row for ${id}, which does not exist`)

// `node server/test/matrix/run.ts organizations: catalog` looks at operations that begin so; the whole matrix without.
const only = process.argv.slice(2).filter((word) => !word.startsWith('--'))
// `--part=1/2` looks at every second one.
const [part = 0, parts = 1] = (
  process.argv
    .find((word) => word.startsWith('--part='))
    ?.slice('--part='.length)
    .split('/') ?? []
).map(Number)
const chosen = operations.filter(({ id }, at) => at % parts === part && (only.length === 0 || only.some((start) => id.startsWith(start))))
for (const operation of chosen) {
  const row = policy[operation.id]
  if (!row) {
    problems.push(`the policy has no row for ${operation.id}`)
    continue
  }
  const mine = () => furnish(ours.id, people.owner.id, people.admin.id, row)
  const at = (what: string) => `${operation.id} × ${what}`
  const standing = await mine()
  const notMine = row.foreign === 'invalid' ? '422 RequestValidationError' : '404 ResourceNotFound'

  const rest = scopes.filter((scope) => !row.scopes.includes(scope))
  const sets: readonly (readonly Scope[])[] = [...scopes.map((scope) => [scope]), rest]
  // Made before the digest is taken: the matrix's own doing must not look like the server's.
  for (const held of [...sets, [...scopes]]) for (const kind of tokenKinds) await tokenOf(kind, held)
  const outside = [await apps.elsewhere([...scopes]), await apps.left([...scopes])].map((secret) => bearer(secret.reveal()))
  const portals = Object.fromEntries(await Promise.all(portalRoles.map(async (role) => [role, await portalOf(role)] as const))) as unknown as Record<
    PortalRole,
    Record<string, string>
  >
  plainly = portals.member
  const sessions = Object.fromEntries(await Promise.all(organizationRoles.map(async (role) => [role, await sessionOf(role)] as const))) as Record<
    OrganizationRole,
    Record<string, string>
  >

  // Everything that must be refused, with the database the same before and after.
  const before = await digest()
  const anonymous = await send(operation, row, standing, {})
  if (isVerdicts(row.who)) {
    await overVerdicts(operation, row, row.who, sessions.admin, anonymous)
    continue
  }
  if (row.who === 'open') {
    expectAnswer(at('none'), anonymous, wantedAnswer(row))
    for (const [name, headers] of Object.entries(dead)) expectSame(at(name), await send(operation, row, standing, headers), anonymous)
    for (const [turn, scope] of scopes.entries())
      for (const kind of isTried(turn) ? tokenKinds : [])
        expectSame(at(`${kind} ${scope}`), await send(operation, row, standing, bearer(await tokenOf(kind, [scope]))), anonymous)
    for (const role of portalRoles) expectSame(at(`portal ${role}`), await send(operation, row, standing, portals[role]), anonymous)
    // What was accepted is done, and who follows a link has a checkout made for them.
    if (row.granted !== 202 && row.granted !== 302 && (await digest()) !== before)
      leaks.push(`${operation.id}: a request without a credential changed something`)
    continue
  }
  expectAnswer(at('none'), anonymous, '401 Unauthorized')
  for (const [name, headers] of Object.entries(dead)) expectAnswer(at(name), await send(operation, row, standing, headers), '401 invalid_token')

  if (row.who === 'portal') {
    await overPortal(operation, row, portals, before)
    continue
  }
  for (const role of portalRoles)
    for (const target of row.foreign ? [standing, other, absent()] : [standing])
      expectAnswer(at(`portal ${role}`), await send(operation, row, target, portals[role]), '401 invalid_token')

  for (const kind of tokenKinds) {
    const accepted = row.who !== 'person' && row.who.includes(kind)
    const wrong = row.who === 'person' ? '403 NotPermitted' : accepted ? '403 insufficient_scope' : '401 Unauthorized'
    for (const [turn, held] of sets.filter((held) => !accepted || !held.some((scope) => row.scopes.includes(scope))).entries())
      for (const target of row.foreign ? thingsFor(turn, held, standing) : held.length > 1 || isTried(turn) ? [standing] : [])
        expectAnswer(
          at(`${kind} with ${held.length === 1 ? held[0] : 'all but the right scope'}`),
          await send(operation, row, target, bearer(await tokenOf(kind, held))),
          wrong,
        )
  }

  // Foreign and absent things, with everything right but the tenant.
  const credentials = (row.who === 'person' ? (['session'] as const) : row.who).flatMap((kind): Way[] =>
    kind === 'session'
      ? [[kind, async (fresh = false) => (fresh ? sessionOf('admin') : sessions.admin)]]
      : row.scopes.map((scope) => [kind, async () => bearer(await tokenOf(kind, [scope]))]),
  )
  if (row.foreign)
    for (const [kind, headers] of credentials) {
      // A token of an organization cannot name another one at all.
      if (row.implied && kind === 'organization') {
        expectAnswer(at('organization, naming one'), await send(operation, row, other, await headers()), notMine)
        continue
      }
      const hidden = await send(operation, row, other, await headers())
      expectAnswer(at(`${kind}, somebody else's`), hidden, notMine)
      expectSame(at(kind), hidden, await send(operation, row, absent(), await headers()))
      if (!row.nested) continue
      const outer = { [row.nested]: standing[row.nested] }
      const smuggled = await send(operation, row, { ...other, ...outer }, await headers())
      expectAnswer(at(`${kind}, somebody else's in our address`), smuggled, notMine)
      expectSame(at(`${kind}, nested`), smuggled, await send(operation, row, { ...absent(), ...outer }, await headers()))
      // Within an organization all customers are ours, but a member belongs to one of them.
      if (row.nested !== 'organization_id' && row.nested !== 'product_id')
        expectSame(at(`${kind}, our neighbour's`), smuggled, await send(operation, row, { ...neighbour, ...outer }, await headers()))
      expectAnswer(
        at(`${kind}, ours in somebody else's address`),
        await send(operation, row, { ...standing, [row.nested]: other[row.nested] }, await headers()),
        notMine,
      )
    }

  // Apps that were not given us, or whose person has left us: to them we are not there.
  if (row.foreign && row.who !== 'person' && row.who.includes('oauth'))
    for (const headers of outside) {
      const hidden = await send(operation, row, standing, headers)
      expectAnswer(at('an app elsewhere'), hidden, notMine)
      expectSame(at('an app elsewhere'), hidden, await send(operation, row, absent(), headers))
    }

  // A list shows them nothing of ours, and an app that was given us shows nothing of the person's other organization.
  if (!row.foreign && operation.method === 'GET' && row.who !== 'person' && row.who.includes('oauth')) {
    for (const headers of outside)
      if ((await send(operation, row, standing, headers)).raw.includes(ours.id)) leaks.push(`${operation.id} shows an app what it was not given`)
    if ((await send(operation, row, standing, bearer(await tokenOf('oauth', [...scopes])))).raw.includes(elsewhere.id))
      leaks.push(`${operation.id} shows an app an organization that it was not given`)
  }

  // Roles that may not.
  for (const role of organizationRoles.filter((role) => row.roles && !row.roles.includes(role))) {
    expectAnswer(at(`${role}'s session`), await send(operation, row, standing, sessions[role]), '403 NotPermitted')
  }
  if ((await digest()) !== before) leaks.push(`${operation.id}: a refused request changed something`)

  // Callers who may: each right scope alone, each credential, each role.
  for (const [kind, headers] of credentials) {
    const target = row.implied && kind === 'organization' ? { ...(await mine()), organization_id: '' } : await mine()
    expectAnswer(
      at(`${kind}, granted`),
      await send(operation, row, target, await headers(true)),
      kind === 'oauth' && row.confined ? row.confined : wantedAnswer(row),
    )
    await join(ours.id, people.admin.id, 'admin')
  }
  if (row.who !== 'person' && row.who.includes('oauth')) {
    expectAnswer(at('an app, joined later'), await send(operation, row, await mine(), bearer(laterToken.reveal())), wantedAnswer(row))
    await join(ours.id, joiner.id, 'admin')
  }
  if (!row.personal)
    for (const role of organizationRoles.filter((role) => !row.roles || row.roles.includes(role))) {
      const wanted = operation.id === 'organizations:leave' && role === 'owner' ? '403 NotPermitted' : wantedAnswer(row)
      expectAnswer(at(`${role}'s session, granted`), await send(operation, row, await mine(), await sessionOf(role)), wanted)
      await join(ours.id, people[role].id, role)
    }
}

await world.close()
const { figures, problems: leaked } = await endRun()
leaks.push(...leaked)
console.log(figures)
for (const problem of problems.slice(0, 50)) console.log(`FAIL ${problem}`)
for (const leak of leaks.slice(0, 50)) console.log(`LEAK ${leak}`)
if (problems.length > 0) console.log(`${problems.length} verdicts differ from the policy`)
console.log(`cells: ${cells} · leaks: ${leaks.length}`)
process.exitCode = problems.length + leaks.length > 0 ? 1 : 0

/** The same for an operation of the portal: other surfaces' tokens, roles, and things of neighbours, strangers and nobody. */
async function overPortal(
  operation: (typeof operations)[number],
  row: Policy,
  portals: Record<PortalRole, Record<string, string>>,
  before: string,
): Promise<void> {
  const at = (what: string) => `${operation.id} × ${what}`
  const standing = neighbour
  for (const kind of tokenKinds)
    for (const scope of scopes)
      expectAnswer(at(`${kind} ${scope}`), await send(operation, row, standing, bearer(await tokenOf(kind, [scope]))), '401 invalid_token')
  const refused: Partial<Record<PortalRole, string>> = Object.fromEntries(
    portalRoles
      .filter((role) => !row.portal!.includes(role))
      .map((role) => [role, row.membersOnly && role === 'customer' ? '401 Unauthorized' : row.hidden ? '404 ResourceNotFound' : '403 NotPermitted']),
  )
  for (const role of portalRoles) {
    const wrong = refused[role] ?? (row.foreign ? '404 ResourceNotFound' : undefined)
    if (!wrong) continue
    const answers = []
    for (const target of row.foreign ? [neighbour, other, absent()] : [neighbour]) answers.push(await send(operation, row, target, portals[role]))
    for (const answer of answers) {
      expectAnswer(at(`portal ${role}, not theirs`), answer, wrong)
      expectSame(at(`portal ${role}`), answer, answers[0]!)
    }
  }
  if ((await digest()) !== before) leaks.push(`${operation.id}: a refused request changed something`)
  for (const role of row.portal!) expectAnswer(at(`portal ${role}, granted`), await send(operation, row, await ofCrew(row), portals[role]), wantedAnswer(row))
  for (const role of portalRoles.filter((one) => refused[one]))
    expectAnswer(at(`portal ${role}, in the team`), await send(operation, row, await ofCrew(row), portals[role]), refused[role]!)
}

/** What the protocol decides, or the operation: the same for every token that is none here, for a stranger as for nobody's. */
async function overVerdicts(
  operation: (typeof operations)[number],
  row: Policy,
  verdicts: Verdicts,
  owner: Record<string, string>,
  anonymous: Answer,
): Promise<void> {
  const at = (what: string) => `${operation.id} × ${what}`
  const theirs = () => furnish(ours.id, people.owner.id, people.owner.id, row)
  expectAnswer(at('none'), anonymous, verdicts.nobody)
  const target = await theirs()
  const before = await digest()
  for (const [name, headers] of Object.entries(dead)) expectAnswer(at(name), await send(operation, row, target, headers), verdicts.bearer)
  for (const scope of scopes)
    for (const kind of tokenKinds) {
      const wanted = kind === 'oauth' && verdicts.oauth && scope !== 'openid' ? verdicts.oauth : kind === 'oauth' && verdicts.oauth ? '200' : verdicts.bearer
      expectAnswer(at(`${kind} ${scope}`), await send(operation, row, target, bearer(await tokenOf(kind, [scope]))), wanted)
    }
  const stranger = await send(operation, row, target, owner)
  expectAnswer(at("a stranger's session"), stranger, verdicts.stranger)
  if (verdicts.stranger.startsWith('4')) expectSame(at('a stranger'), stranger, await send(operation, row, absent(), owner))
  if (!verdicts.nobody.startsWith('2') && (await digest()) !== before) leaks.push(`${operation.id}: a refused request changed something`)
  expectAnswer(at("the owner's session"), await send(operation, row, await furnish(ours.id, people.owner.id, people.admin.id, row), owner), verdicts.owner)
}

function isVerdicts(who: Policy['who']): who is Verdicts {
  return typeof who === 'object' && 'nobody' in who
}

/** A digest of every row of every table; when a token was last used does not count. */
async function digest(): Promise<string> {
  return database.owner(async (owner) => {
    const { rows: tables } = await owner.query<{ name: string }>(
      `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition order by 1`,
    )
    const parts: string[] = []
    for (const { name } of tables) {
      const { rows } = await owner.query<{ sum: string }>(
        `select coalesce(md5(string_agg(t, '' order by t)), '') as sum from (select (to_jsonb(x) - 'last_used_at')::text as t from "${name}" x) s`,
      )
      parts.push(`${name}:${rows[0]!.sum}`)
    }
    const { rows: jobs } = await owner.query<{ count: string }>('select count(*) from graphile_worker._private_jobs')
    return `${parts.join()} jobs:${jobs[0]!.count}`
  })
}

/** Writes a random text into every text column of the other tenant that can hold one. */
async function plantCanaries(): Promise<string[]> {
  return database.owner(async (owner) => {
    const fixed = [
      'type',
      'visibility',
      'recurring_interval',
      'trial_interval',
      'meter_interval',
      'source',
      'amount_type',
      'duration',
      'code',
      'unit',
      'unit_amount',
      'price_currency',
      'tax_behavior',
      'collection',
      'owner',
      'key',
      'status',
      'role',
      'kind',
      'hash',
      'default_presentment_currency',
      'default_tax_behavior',
      'country',
      'state',
      'provider',
      'account',
      'currency',
      'lease_holder',
      'api_version',
      'tax_id_format',
      'tax_id',
      'processor',
      'member_phase',
      'format',
      'paused_reason',
      'secret_sealed',
      'key_sealed',
      'actor_kind',
      'billing_reason',
      'behavior',
      'reason',
      'trigger',
      'service',
      'problem',
      'public_url',
    ]
    const { rows: columns } = await owner.query<{ table: string; column: string; tenant: string }>(
      `select c.table_name as table, c.column_name as column, k.column_name as tenant
       from information_schema.columns c
       join information_schema.columns k on k.table_schema = 'public' and k.table_name = c.table_name
         and k.column_name = case when c.table_name = 'organizations' then 'id' when c.table_name = 'users' then 'id' when c.table_name = 'personal_access_tokens' then 'user_id' else 'organization_id' end
       join information_schema.tables t on t.table_schema = 'public' and t.table_name = c.table_name and t.table_type = 'BASE TABLE'
       where c.table_schema = 'public' and c.data_type = 'text' and c.column_name <> all($1)`,
      [fixed],
    )
    const planted: string[] = []
    for (const [table, own] of Map.groupBy(columns, (column) => column.table)) {
      const { rows } = await owner.query<{ ctid: string }>(`select ctid from "${table}" where "${own[0]!.tenant}" = any($1)`, [
        [theirs.id, stranger.id, furnished.member_id],
      ])
      for (const { ctid } of rows) {
        const texts = own.map(() => `c${randomBytes(16).toString('hex')}`)
        const set = own.map(({ column }, at) => `"${column}" = $${at + 2}${column === 'email' ? ` || '@people.test'` : ''}`)
        await owner.query(`update "${table}" set ${set.join(', ')} where ctid = $1`, [ctid, ...texts])
        planted.push(...texts)
      }
    }
    if (planted.length < 10) throw new Error(`only ${planted.length} canaries could be planted`)
    return planted
  })
}
