import assert from 'node:assert/strict'
import { contractKinds } from '@bursar/contract'
import { webhooks as currentWebhooks } from 'polar-sdk/2026-04'
import { validateEvent } from 'polar-sdk-strict/webhooks'
import { openSink, type Sink } from '../../harness/sink.ts'
import { eventually, exchange } from '../../harness/world.ts'
import { isBeyond } from '../clients.ts'
import type { Stage, Story } from '../run.ts'

/** Buys five seats for a team, assigns them and checks each member's benefits, once with each client. */
export const entitlements: Story = async (stage) => {
  const sink = await openSink()
  try {
    await tell(stage, sink)
  } finally {
    sink.close()
  }
}

/** Events of a seat that is claimed and revoked, and of a grant of its holder. */
const seat = ['customer_seat.assigned', 'customer_seat.claimed', 'customer_seat.revoked']
const grant = ['benefit_grant.created', 'benefit_grant.updated', 'benefit_grant.cycled', 'benefit_grant.revoked']

interface Told {
  readonly revoked: { readonly id: string; readonly email: string }
  readonly grant: string
  readonly customer: string
}

const tell = async (stage: Stage, sink: Sink): Promise<void> => {
  const { world, clients } = stage
  const { organization } = await world.shop()
  const token = (await organization.token()).secret.reveal()
  const { secret } = await clients.current(token).webhooks.createWebhookEndpoint({ url: sink.url('/team'), format: 'raw', events: [...contractKinds] })
  const lives = [await withCurrent(stage, token), await withStrict(stage, token)]

  const heard: { type: string; data: Record<string, unknown> }[] = []
  const listen = async () => {
    heard.length = 0
    for (const { body, headers } of sink.of('/team')) {
      const event = await currentWebhooks.validateEvent(body, headers, secret)
      if (!isBeyond(event)) assert.equal(validateEvent(body, headers, secret).type, event.type)
      heard.push(JSON.parse(body) as (typeof heard)[number])
    }
  }
  const of = (id: string, prefix: string) => heard.filter(({ type, data }) => data.id === id && type.startsWith(prefix))
  /** True if the last state event of the customer contains this member. */
  const hasLast = (customer: string, member_id: unknown) => {
    const last = of(customer, 'customer.state_changed').at(-1)?.data as { granted_benefits: { member_id: string }[] } | undefined
    return last === undefined || last.granted_benefits.some((one) => one.member_id === member_id)
  }
  await eventually('every expected webhook has arrived', async () => {
    await listen()
    return lives.every(
      (one) =>
        of(one.revoked.id, 'customer_seat.').length >= seat.length &&
        of(one.grant, 'benefit_grant.').length >= grant.length &&
        !hasLast(one.customer, of(one.revoked.id, 'customer_seat.')[0]!.data.member_id),
    )
  })
  for (const { revoked, grant: id } of lives) {
    const seats = of(revoked.id, 'customer_seat.')
    assert.deepEqual(
      seats.map(({ type }) => type),
      seat,
    )
    // Every event about the seat names its holder, even the event of the revocation.
    assert.deepEqual(
      seats.map(({ data }) => [data.email, (data.member as { email: string }).email]),
      seat.map(() => [revoked.email, revoked.email]),
    )
    assert.deepEqual(
      of(id, 'benefit_grant.').map(({ type }) => type),
      grant,
    )
    // The assignment of the seat created a member and emitted its event.
    assert.ok(heard.some(({ type, data }) => type === 'member.created' && data.email === revoked.email))
  }
}

const address = { country: 'DE' as const }

/** Creates the benefits of a team plan: a note, a feature flag and a meter credit. */
const plan = async ({ clients }: Stage, token: string, name: string) => {
  const seller = clients.current(token)
  const meter = await seller.meters.create({ name: `${name} calls`, filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'count' } })
  const note = await seller.benefits.create({ type: 'custom', description: `${name} note`, properties: { note: 'Welcome' } })
  const flag = await seller.benefits.create({ type: 'feature_flag', description: `${name} flag`, properties: {} })
  const credit = await seller.benefits.create({
    type: 'meter_credit',
    description: `${name} credit`,
    properties: { meter_id: meter.id, units: 100, rollover: false },
  })
  const product = await seller.products.create({
    name,
    recurring_interval: 'month',
    visibility: 'public',
    prices: [{ amount_type: 'seat_based', seat_tiers: { seat_tier_type: 'volume', tiers: [{ min_seats: 1, max_seats: null, price_per_seat: 1000 }] } }],
  })
  await seller.products.updateBenefits(product.id, { benefits: [note.id, flag.id, credit.id] })
  return { product, note, flag, credit }
}

/** Buys five seats with a success URL of the seller. No seat is assigned automatically. */
const buy = async ({ clients }: Stage, token: string, product_id: string, email: string) => {
  const seller = clients.current(token)
  const made = await seller.checkouts.create({
    products: [product_id],
    seats: 5,
    customer_email: email,
    customer_billing_address: address,
    success_url: 'https://shop.example/thanks',
  })
  await clients.current('undefined').checkouts.clientConfirm(made.client_secret, { confirmation_token_id: 'tok_visa' })
  return eventually('the subscription exists', async () =>
    (await seller.subscriptions.list({ product_id, limit: 100 })).items.find((one) => one.checkout_id === made.id),
  )
}

const invitation = async ({ world }: Stage, email: string) => /token=(\S+)/.exec((await world.mail.next(email)).text)![1]!

/** Requests a path that neither client has a method for. */
const plain = async ({ address: url }: Stage, token: string, path: string) => {
  const { port } = new URL(url)
  const answer = await exchange(Number(port), 'GET', path, { authorization: `Bearer ${token}` })
  assert.equal(answer.status, 200, answer.text)
  return JSON.parse(answer.text) as Record<string, unknown>
}

/** Waits until the subscription was renewed and `benefit_grant.cycled` was emitted for the grant. */
const goesOn = ({ world }: Stage, grant_id: string) =>
  eventually('benefit_grant.cycled was emitted', async () => {
    const { rows } = await world.database.owner((owner) =>
      owner.query(`select from events where kind = 'benefit_grant.cycled' and resource_id = $1`, [grant_id]),
    )
    return rows.length > 0
  })

const ownerOf = async ({ clients }: Stage, token: string, customer_id: string) =>
  (await clients.current(token).customers.members.list(customer_id, {})).items.find(({ role }) => role === 'owner')!.id

/** Moves the current period one month back, so that the renewal is due now. */
const pass = ({ world }: Stage, id: string) =>
  world.database.owner(async (owner) => {
    await owner.query(`update orders set period_start = period_start - interval '1 month' where subscription_id = $1`, [id])
    await owner.query(
      `update subscriptions set current_period_start = current_period_start - interval '1 month', calendar_from = calendar_from - interval '1 month',
         current_period_end = now(), due_at = now() where id = $1`,
      [id],
    )
  })

const withCurrent = async (stage: Stage, token: string): Promise<Told> => {
  const { clients } = stage
  const seller = clients.current(token)
  const { product, note, flag } = await plan(stage, token, 'Crew')
  const { id: subscription_id, customer_id } = await buy(stage, token, product.id, 'captain@crew.test')
  assert.equal((await seller.customers.get(customer_id)).type, 'team')

  // Assigns seats by each of the five identifiers of a person.
  await seller.customers.create({ email: 'known@crew.test' })
  const known = (await seller.customers.list({ email: 'known@crew.test' })).items[0]!
  await seller.customers.create({ email: 'named@crew.test', external_id: 'named-1' })
  const added = await seller.customers.members.create(customer_id, { email: 'added@crew.test' })
  await seller.customers.members.create(customer_id, { email: 'listed@crew.test', external_id: 'listed-1' })
  const assigned = [
    await seller.customerSeats.assignSeat({ subscription_id, email: 'mate@crew.test', metadata: { deck: 'upper' } }),
    await seller.customerSeats.assignSeat({ subscription_id, customer_id: known.id }),
    await seller.customerSeats.assignSeat({ subscription_id, external_customer_id: 'named-1' }),
    await seller.customerSeats.assignSeat({ subscription_id, member_id: added.id }),
    await seller.customerSeats.assignSeat({ subscription_id, external_member_id: 'listed-1', immediate_claim: true }),
  ]
  assert.deepEqual(
    assigned.map((one) => [one.status, one.customer_id, one.customer_email]),
    ['mate', 'known', 'named', 'added', 'listed'].map((who, at) => [at === 4 ? 'claimed' : 'pending', customer_id, `${who}@crew.test`]),
  )
  await assert.rejects(seller.customerSeats.assignSeat({ subscription_id, email: 'sixth@crew.test' }), /SeatNotAvailable/)
  const all = await seller.customerSeats.listSeats({ subscription_id })
  assert.deepEqual([all.seats.length, all.available_seats, all.total_seats], [5, 0, 5])

  // Every invited person claims a seat. One invitation is sent a second time before.
  await invitation(stage, 'mate@crew.test')
  await seller.customerSeats.resendInvitation(assigned[0]!.id)
  const visitor = clients.current('undefined').customerSeats
  for (const who of ['mate', 'known', 'named', 'added']) {
    const invitation_token = await invitation(stage, `${who}@crew.test`)
    const info = await visitor.getClaimInfo(invitation_token)
    assert.deepEqual([info.can_claim, info.customer_email, info.product_id], [true, `${who}@crew.test`, product.id])
    const { seat: claimed, customer_session_token } = await visitor.claimSeat({ invitation_token })
    assert.equal(claimed.status, 'claimed')
    const own = clients.current(customer_session_token).customerPortal
    const mine = await eventually(`${who} has the benefits of the plan`, async () => {
      // The portal lists two of the three benefits. It omits the feature flag, which is meant for applications.
      const { items } = await own.benefitGrants.list({})
      return items.length === 2 ? items : undefined
    })
    assert.ok(mine.every((one) => one.is_granted && one.member_id === claimed.member_id))
    assert.equal((await own.benefitGrants.get(mine[0]!.id)).id, mine[0]!.id)
    assert.deepEqual(
      (await own.seats.listClaimedSubscriptions({})).items.map((one) => one.id),
      [subscription_id],
    )
    if (who === 'mate') await own.benefitGrants.update(mine.find((one) => one.benefit.type === 'custom')!.id, { benefit_type: 'custom' })
  }
  assert.equal((await plain(stage, token, `/v1/customer-seats/${assigned[0]!.id}`)).status, 'claimed')
  const state = await seller.customers.getState(customer_id)
  assert.equal(state.granted_benefits.length, 15)

  // After a change of a benefit's note, its grants are updated.
  await seller.benefits.update(note.id, { type: 'custom', properties: { note: 'Welcome aboard' } })
  const { items: grants } = await seller.benefits.grants(note.id, { member_id: assigned[0]!.member_id! })
  assert.equal(grants.length, 1)
  const mates = grants[0]!
  assert.deepEqual([mates.member?.email, mates.customer_id, mates.is_granted], ['mate@crew.test', customer_id, true])
  assert.equal((await plain(stage, token, `/v1/benefit-grants/${mates.id}`)).id, mates.id)
  const before = (await seller.subscriptions.get(subscription_id)).current_period_start
  await pass(stage, subscription_id)
  await eventually('the subscription is renewed', async () => (await seller.subscriptions.get(subscription_id)).current_period_start > before)

  await goesOn(stage, mates.id)

  // The owner of the team revokes and assigns seats in the portal.
  const lead = clients.current((await seller.customerSessions.create({ customer_id, member_id: await ownerOf(stage, token, customer_id) })).token)
    .customerPortal.seats
  await lead.revokeSeat(assigned[1]!.id)
  const again = await lead.assignSeat({ subscription_id, email: 'purser@crew.test' })
  await lead.resendInvitation(again.id)
  assert.equal((await lead.listSeats({ subscription_id })).seats.length, 6)

  // The seller revokes one seat. The holders of all other seats keep their benefits.
  const revoked = await seller.customerSeats.revokeSeat(assigned[0]!.id)
  assert.deepEqual([revoked.status, revoked.member?.email], ['revoked', 'mate@crew.test'])
  await eventually('the customer state lists the expected benefits', async () => (await seller.customers.getState(customer_id)).granted_benefits.length === 9)
  assert.deepEqual(
    (await seller.benefitGrants.list({ customer_id, is_granted: true, limit: 100 })).items
      .filter((one) => one.benefit_id === flag.id)
      .map((one) => one.member!.email)
      .toSorted(),
    ['added@crew.test', 'listed@crew.test', 'named@crew.test'],
  )
  return { revoked: { id: revoked.id, email: 'mate@crew.test' }, grant: mates.id, customer: customer_id }
}

const withStrict = async (stage: Stage, token: string): Promise<Told> => {
  const { clients } = stage
  const seller = clients.strict(token)
  const { product, note } = await plan(stage, token, 'Club')
  const { id: subscriptionId, customer_id: customerId } = await buy(stage, token, product.id, 'chair@club.test')
  await seller.customers.update({ id: customerId, customerUpdate: { externalId: 'club-1' } })

  const pending = await seller.customerSeats.assignSeat({ subscriptionId, email: 'guest@club.test' })
  const first = await invitation(stage, 'guest@club.test')
  await seller.customerSeats.resendInvitation({ seatId: pending.id })
  const invitationToken = await invitation(stage, 'guest@club.test')
  await assert.rejects(seller.customerSeats.getClaimInfo({ invitationToken: first }))
  assert.equal((await seller.customerSeats.getClaimInfo({ invitationToken })).canClaim, true)
  const { seat: claimed, customerSessionToken } = await seller.customerSeats.claimSeat({ invitationToken })
  assert.equal(claimed.status, 'claimed')
  const session = { memberSession: customerSessionToken }
  const mine = await eventually('the guest has the benefits of the plan', async () => {
    const items = []
    for await (const { result } of await seller.customerPortal.benefitGrants.list(session, {})) items.push(...result.items)
    return items.length === 2 ? items : undefined
  })
  const custom = mine.find((one) => one.benefit.type === 'custom')!
  assert.equal((await seller.customerPortal.benefitGrants.get(session, { id: custom.id })).id, custom.id)
  await seller.customerPortal.benefitGrants.update(session, { id: custom.id, customerBenefitGrantUpdate: { benefitType: 'custom' } })
  for await (const { result } of await seller.customerPortal.seats.listClaimedSubscriptions(session, {})) assert.equal(result.items[0]!.id, subscriptionId)

  const lead = { memberSession: (await seller.customerSessions.create({ customerId, memberId: await ownerOf(stage, token, customerId) })).token }
  const other = await seller.customerPortal.seats.assignSeat(lead, { subscriptionId, email: 'other@club.test' })
  await seller.customerPortal.seats.resendInvitation(lead, { seatId: other.id })
  await seller.customerPortal.seats.revokeSeat(lead, { seatId: other.id })
  assert.equal((await seller.customerPortal.seats.listSeats(lead, { subscriptionId })).availableSeats, 4)

  const state = await seller.customers.getState({ id: customerId })
  assert.equal(state.grantedBenefits.length, 3)
  assert.equal((await seller.customers.getStateExternal({ externalId: 'club-1' })).id, customerId)
  await seller.benefits.update({ id: note.id, requestBody: { type: 'custom', properties: { note: 'Good evening' } } })
  const grants: { id: string; member?: { email: string } | null | undefined }[] = []
  for await (const { result } of await seller.benefits.grants({ id: note.id })) grants.push(...result.items)
  assert.deepEqual(
    grants.map((one) => one.member?.email),
    ['guest@club.test'],
  )
  const before = (await seller.subscriptions.get({ id: subscriptionId })).currentPeriodStart
  await pass(stage, subscriptionId)
  await eventually('the subscription is renewed', async () => (await seller.subscriptions.get({ id: subscriptionId })).currentPeriodStart > before)
  await goesOn(stage, grants[0]!.id)
  const revoked = await seller.customerSeats.revokeSeat({ seatId: pending.id })
  assert.equal(revoked.status, 'revoked')
  assert.equal((await seller.customerSeats.listSeats({ subscriptionId })).availableSeats, 5)
  await eventually(
    'the customer state lists the expected benefits',
    async () => (await seller.customers.getState({ id: customerId })).grantedBenefits.length === 0,
  )
  let live = 0
  for await (const { result } of await seller.benefitGrants.list({ customerId, isGranted: true })) live += result.items.length
  assert.equal(live, 0)
  return { revoked: { id: revoked.id, email: 'guest@club.test' }, grant: grants[0]!.id, customer: customerId }
}
