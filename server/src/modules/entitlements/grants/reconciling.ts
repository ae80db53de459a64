import { within, type TenantScope } from '../../../kernel/actors.ts'
import { days, later } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { Payload } from '../../../platform/jobs/catalogue.ts'
import { checkLease, releaseLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import type { BusinessTx, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { claimedSeats, claimedSeatsOf, holdContainer, readSeat, type Container, type ContainerKey } from '../../billing/index.ts'
import { holdBenefits, holdBenefitsOf, type BenefitTable } from '../../catalog/index.ts'
import { findMember, loadCustomers, lockCustomers } from '../../customers/index.ts'
import { findLivingOrganization, holdPhase } from '../../organizations/index.ts'
import type { Locksmith } from '../issuing/license-keys.ts'
import { newGrant, unwant, want } from './giving.ts'
import { findGrant, keepGrace, lockGrant, lockGrantsOf, lockWanted, saveGrants, type GrantRow, type Recipient } from '../records/grants.sql.ts'

const atOnce = 200

/** One purchase with the benefits that it gives now. `tx` uses the buyer's clock. */
interface Giving {
  readonly tx: BusinessTx
  readonly platform: Locksmith
  readonly scope: TenantScope
  readonly container: Container
  /** Benefits that the purchase gives. Empty if the purchase no longer gives benefits. */
  readonly benefits: readonly BenefitTable[]
  readonly period_start: Date | null
}

/** Progress of a reconciliation. The reconciliation first revokes all outdated grants, then gives the missing ones. */
interface Progress {
  readonly step: 'taking' | 'giving'
  readonly after: string | null
}

/**
 * Reconciles the grants of a purchase. Computes the expected grants from the purchase and its seat holders, then
 * applies the difference. Idempotent. Covers all recipients, or only the holder of `seat_id`. Processes a few hundred
 * grants per transaction.
 */
export const reconcile = async (
  { transact, platform }: Pick<Deps, 'transact' | 'platform'>,
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
  const scope = within(organization_id, 'machine', await holdPhase(wall, organization_id))
  const container = await holdContainer(wall, scope, key)
  if (!container) return undefined
  const buyer = (await loadCustomers(wall, scope, [container.customer_id]))[0]!
  const tx = await inTimeOf(wall, buyer)
  const gives = (await entitles(tx, container)) && buyer.deleted_at === null && container.product_id !== null
  if (container.subscription) await keepGrace(tx, organization_id, container.subscription.id, await graceOf(tx, container), buyer.clock_id)
  return {
    tx,
    platform,
    scope,
    container,
    benefits: gives ? await holdBenefitsOf(tx, organization_id, container.product_id) : [],
    period_start: container.subscription?.current_period_start ?? null,
  }
}

/** Statuses of orders that give benefits. A refund revokes benefits only if the refund request says so. */
const soldOrder = ['paid', 'partially_refunded', 'refunded']

export const entitles = async (tx: BusinessTx, container: Container): Promise<boolean> => {
  const { subscription, order } = container
  if (order) return order.subscription_id === null && soldOrder.includes(order.status) && order.benefits_revoked_at === null
  return ['trialing', 'active'].includes(subscription!.status) || (await graceOf(tx, container)) !== null
}

/**
 * Returns the end of the grace period of a past-due subscription. The seller configures its length in days. Returns
 * null if the subscription is not past due or the grace period is over.
 */
const graceOf = async (tx: BusinessTx, { organization_id, subscription }: Container): Promise<Date | null> => {
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

/**
 * Revokes grants of recipients who lost their seat, and of benefits that the purchase no longer gives. Returns the last
 * id of the batch if there may be more grants.
 */
const takeAway = async ({ tx, scope, container, benefits }: Giving, after: string | null, people: readonly Recipient[] | undefined): Promise<string | null> => {
  const grants = await lockWanted(tx, container.organization_id, { container }, { after, limit: atOnce, ...(people ? { people } : {}) })
  const holders = container.seats === null ? [nobodyElse] : grants.length === 0 ? [] : await claimedSeatsOf(tx, container, grants)
  const entitled = new Set(holders.map(nameOf))
  await unwant(
    tx,
    scope,
    grants.filter((grant) => !entitled.has(nameOf(grant)) || !benefits.some(({ id }) => id === grant.benefit_id)),
  )
  return grants.length === atOnce ? grants.at(-1)!.id : null
}

/** Gives the missing grants: one per recipient and benefit. A grant that was revoked earlier is reused. */
const give = async (
  { tx, platform, scope, container, benefits, period_start }: Giving,
  recipients: readonly (Recipient & { id: string | null })[],
): Promise<void> => {
  if (recipients.length === 0) return
  const { organization_id, subscription_id, order_id, customer_id: buyer_customer_id } = container
  const theirs = await lockGrantsOf(tx, container, recipients)
  const known = new Map(theirs.map((grant) => [`${nameOf(grant)} ${grant.benefit_id}`, grant]))
  // A grant that the seller revoked stays revoked, even if the same person is now identified by another id.
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
  await want(tx, scope, platform, missing, period_start)
}

/**
 * Restores a grant that the seller revoked for one recipient. A purchased grant is restored if the purchase still gives
 * the benefit. A manual grant is restored if its customer, member and benefit still exist. Locks the purchase before
 * the grant.
 */
export const giveBack = async (wall: Tx, platform: Locksmith, { organization_id, id }: Pick<GrantRow, 'organization_id' | 'id'>): Promise<void> => {
  const scope = within(organization_id, 'machine', await holdPhase(wall, organization_id))
  const { subscription_id, order_id, is_manual, buyer_customer_id, benefit_id, member_id } = (await findGrant(wall, scope, id))!
  if (is_manual) {
    const [customer] = await lockCustomers(wall, scope, { id: buyer_customer_id })
    const [benefit] = await holdBenefits(wall, organization_id, [benefit_id])
    const grant = (await lockGrant(wall, scope, id))!
    if (!customer || !benefit || grant.is_wanted || (member_id !== null && !(await findMember(wall, customer, { id: member_id })))) return
    await want(await inTimeOf(wall, customer), scope, platform, [{ grant, benefit }], null)
    return
  }
  const giving = await look(wall, platform, { organization_id, subscription_id, order_id })
  const grant = (await lockGrant(wall, scope, id))!
  if (!giving || grant.is_wanted) return
  await saveGrants(giving.tx, [{ ...grant, is_withheld: false }])
  await proceed(giving, grant.seat_id, { step: 'giving', after: null })
}

/** Ends the grace period. Revokes the subscription's benefits, unless the subscription has been paid meanwhile. */
export const endGrace = async (deps: Deps, lease: Lease): Promise<void> => {
  const { organization_id, id } = lease
  const key = { organization_id, subscription_id: id, order_id: null }
  await reconcile(deps, { ...key, seat_id: null })
  await deps.transact(async (wall) => {
    const scope = within(organization_id, 'machine', await holdPhase(wall, organization_id))
    // Locks the subscription before the lease, in the same order as all other code.
    const container = (await holdContainer(wall, scope, key))!
    await checkLease(wall, lease)
    const [buyer] = await loadCustomers(wall, scope, [container.customer_id])
    await releaseLease(wall, lease, await graceOf(await inTimeOf(wall, buyer!), container))
  })
}
