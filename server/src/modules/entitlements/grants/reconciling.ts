import { within, type Reach } from '../../../kernel/actors.ts'
import { days, later } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { Payload } from '../../../platform/jobs/catalogue.ts'
import { checkLease, releaseLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Means } from '../../handlers.ts'
import { claimedSeats, claimedSeatsOf, holdContainer, readSeat, type Container, type ContainerKey } from '../../billing/index.ts'
import { holdBenefits, holdBenefitsOf, type BenefitTable } from '../../catalog/index.ts'
import { findMember, loadCustomers, lockCustomers } from '../../customers/index.ts'
import { findLivingOrganization, holdPhase } from '../../organizations/index.ts'
import type { Locksmith } from '../license-keys/giving.ts'
import { newGrant, unwant, want } from './giving.ts'
import { findGrant, keepGrace, lockGrant, lockGrantsOf, lockWanted, saveGrants, type GrantRow, type Recipient } from './grants.sql.ts'

const atOnce = 200

/** What one purchase gives at this moment, in the time of whoever bought it. */
interface Giving {
  readonly tx: Tx
  readonly platform: Locksmith
  readonly reach: Reach
  readonly container: Container
  /** What it gives; nothing, where it gives nothing any more. */
  readonly benefits: readonly BenefitTable[]
  readonly period_start: Date | null
}

/** How far one has come: first everything is taken away that is not to be there, then what is missing is given. */
interface Progress {
  readonly step: 'taking' | 'giving'
  readonly after: string | null
}

/**
 * Whoever is to have something through a purchase has it, and nobody else: what should be there is worked out anew from
 * what was bought and who holds its seats, and the difference is made up. Asked twice, it changes nothing the second time.
 * Everybody, or the one person whose seat is named; many a few hundred at a time.
 */
export const reconcile = async (
  { transact, platform }: Pick<Means, 'transact' | 'platform'>,
  { seat_id, ...key }: Payload<'entitlements.reconcile'>,
): Promise<void> => {
  let progress: Progress | null = { step: 'taking', after: null }
  while (progress !== null) {
    const from: Progress = progress
    progress = await transact(async (tx) => {
      const giving = await look(tx, platform, key)
      return giving ? proceed(giving, seat_id, from) : null
    })
  }
}

const look = async (wall: Tx, platform: Locksmith, key: ContainerKey): Promise<Giving | undefined> => {
  const { organization_id } = key
  const reach = within(organization_id, 'machine', await holdPhase(wall, organization_id))
  const container = await holdContainer(wall, reach, key)
  if (!container) return undefined
  const buyer = (await loadCustomers(wall, reach, [container.customer_id]))[0]!
  const tx = await inTimeOf(wall, buyer)
  const gives = (await entitles(tx, container)) && buyer.deleted_at === null && container.product_id !== null
  if (container.subscription) await keepGrace(tx, organization_id, container.subscription.id, await graceOf(tx, container), buyer.clock_id)
  return {
    tx,
    platform,
    reach,
    container,
    benefits: gives ? await holdBenefitsOf(tx, organization_id, container.product_id) : [],
    period_start: container.subscription?.current_period_start ?? null,
  }
}

/** A refund alone takes nothing away: that is said with it. */
const soldOrder = ['paid', 'partially_refunded', 'refunded']

export const entitles = async (tx: Tx, container: Container): Promise<boolean> => {
  const { subscription, order } = container
  if (order) return order.subscription_id === null && soldOrder.includes(order.status) && order.benefits_revoked_at === null
  return ['trialing', 'active'].includes(subscription!.status) || (await graceOf(tx, container)) !== null
}

/** Until when a subscription goes on giving although its payment failed: as many days as its seller grants; null where that is over, or is not the matter. */
const graceOf = async (tx: Tx, { organization_id, subscription }: Container): Promise<Date | null> => {
  if (subscription?.status !== 'past_due' || subscription.past_due_at === null) return null
  const seller = await findLivingOrganization(tx, { id: organization_id })
  const end = later(subscription.past_due_at, (seller?.subscription_settings.benefit_revocation_grace_period ?? 0) * days)
  return tx.clock.business() < end ? end : null
}

const nobodyElse: Recipient = { member_id: null, holder_customer_id: null }
const nameOf = ({ member_id, holder_customer_id }: Recipient): string => `${member_id ?? ''} ${holder_customer_id ?? ''}`

const proceed = async (giving: Giving, seat_id: string | null, { step, after }: Progress): Promise<Progress | null> => {
  const { tx, container } = giving
  const seat = seat_id === null ? undefined : await readSeat(tx, container.organization_id, seat_id)
  if (seat_id !== null && !seat) return null
  const people = seat && [seat]
  if (step === 'taking') {
    const last = await takeAway(giving, after, people)
    if (last !== null) return { step, after: last }
    return proceed(giving, seat_id, { step: 'giving', after: null })
  }
  if (giving.benefits.length === 0) return null
  if (container.seats === null) {
    if (!seat) await give(giving, [{ ...nobodyElse, id: null }])
    return null
  }
  const seats = people ? await claimedSeatsOf(tx, container, people) : await claimedSeats(tx, container, after, atOnce)
  await give(giving, people ? seats.filter((one) => nameOf(one) === nameOf(seat)) : seats)
  return !people && seats.length === atOnce ? { step, after: seats.at(-1)!.id } : null
}

/** Takes away what its recipient is not to have any more; hands back how far it came, where there may be more. */
const takeAway = async ({ tx, reach, container, benefits }: Giving, after: string | null, people: readonly Recipient[] | undefined): Promise<string | null> => {
  const grants = await lockWanted(tx, container.organization_id, { container }, { after, limit: atOnce, ...(people ? { people } : {}) })
  const holders = container.seats === null ? [nobodyElse] : grants.length === 0 ? [] : await claimedSeatsOf(tx, container, grants)
  const entitled = new Set(holders.map(nameOf))
  await unwant(
    tx,
    reach,
    grants.filter((grant) => !entitled.has(nameOf(grant)) || !benefits.some(({ id }) => id === grant.benefit_id)),
  )
  return grants.length === atOnce ? grants.at(-1)!.id : null
}

/** Gives what is missing: one grant for each recipient and benefit, made once and used again. */
const give = async (
  { tx, platform, reach, container, benefits, period_start }: Giving,
  recipients: readonly (Recipient & { id: string | null })[],
): Promise<void> => {
  if (recipients.length === 0) return
  const { organization_id, subscription_id, order_id, customer_id: buyer_customer_id } = container
  const theirs = await lockGrantsOf(tx, container, recipients)
  const known = new Map(theirs.map((grant) => [`${nameOf(grant)} ${grant.benefit_id}`, grant]))
  // What its seller has taken away stays away, also where the same person is named in another way.
  const isWithheld = ({ member_id, holder_customer_id }: Recipient, benefit_id: string) =>
    theirs.some(
      (grant) =>
        grant.is_withheld &&
        grant.benefit_id === benefit_id &&
        (grant.member_id === member_id || (holder_customer_id !== null && grant.holder_customer_id === holder_customer_id)),
    )
  const moved: GrantRow[] = []
  const missing = recipients.flatMap(({ id: seat_id, member_id, holder_customer_id }) =>
    benefits.flatMap((benefit) => {
      if (isWithheld({ member_id, holder_customer_id }, benefit.id)) return []
      const grant = known.get(`${nameOf({ member_id, holder_customer_id })} ${benefit.id}`)
      if (!grant)
        return [
          {
            benefit,
            grant: newGrant(tx, {
              organization_id,
              benefit_id: benefit.id,
              subscription_id,
              order_id,
              seat_id,
              buyer_customer_id,
              holder_customer_id,
              member_id,
            }),
          },
        ]
      if (!grant.is_wanted) return [{ benefit, grant: { ...grant, seat_id } }]
      if (grant.seat_id !== seat_id) moved.push({ ...grant, seat_id })
      return []
    }),
  )
  await saveGrants(tx, moved)
  await want(tx, reach, platform, missing, period_start)
}

/**
 * What its seller took away from one recipient is given back, as far as it is still given: by what was bought, or by hand
 * as long as there is whom and what to give. What was bought is held before the grant.
 */
export const giveBack = async (wall: Tx, platform: Locksmith, { organization_id, id }: Pick<GrantRow, 'organization_id' | 'id'>): Promise<void> => {
  const reach = within(organization_id, 'machine', await holdPhase(wall, organization_id))
  const { subscription_id, order_id, is_manual, buyer_customer_id, benefit_id, member_id } = (await findGrant(wall, reach, id))!
  if (is_manual) {
    const [customer] = await lockCustomers(wall, reach, { id: buyer_customer_id })
    const [benefit] = await holdBenefits(wall, organization_id, [benefit_id])
    const grant = (await lockGrant(wall, reach, id))!
    if (!customer || !benefit || grant.is_wanted || (member_id !== null && !(await findMember(wall, customer, { id: member_id })))) return
    await want(await inTimeOf(wall, customer), reach, platform, [{ grant, benefit }], null)
    return
  }
  const giving = await look(wall, platform, { organization_id, subscription_id, order_id })
  const grant = (await lockGrant(wall, reach, id))!
  if (!giving || grant.is_wanted) return
  await saveGrants(giving.tx, [{ ...grant, is_withheld: false }])
  await proceed(giving, grant.seat_id, { step: 'giving', after: null })
}

/** The days that its seller grants are over: what a subscription gave is taken away, unless it has been paid for. */
export const endGrace = async (means: Means, lease: Lease): Promise<void> => {
  const { organization_id, id } = lease
  const key = { organization_id, subscription_id: id, order_id: null }
  await reconcile(means, { ...key, seat_id: null })
  await means.transact(async (wall) => {
    const reach = within(organization_id, 'machine', await holdPhase(wall, organization_id))
    // The subscription first, as everybody else does it.
    const container = (await holdContainer(wall, reach, key))!
    await checkLease(wall, lease)
    const [buyer] = await loadCustomers(wall, reach, [container.customer_id])
    await releaseLease(wall, lease, await graceOf(await inTimeOf(wall, buyer!), container))
  })
}
