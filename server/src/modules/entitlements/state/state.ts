import { CustomerState, customerStateChanged, type CustomerStateBenefitGrant } from '@bursar/contract'
import { within, type Reach } from '../../../kernel/actors.ts'
import { minutes, seconds } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { encode } from '../../../platform/encode.ts'
import { checkLease, releaseLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import { inSnapshot, type Db } from '../../../platform/postgres/postgres.ts'
import type { Means, Platform } from '../../handlers.ts'
import { clockOf, findCustomer, findCustomers, findOwnerOf, loadCustomers, presentCustomer, type CustomerRow } from '../../customers/index.ts'
import { signClaims } from '../../identity/index.ts'
import { holdPhase } from '../../organizations/index.ts'
import { activeSubscriptions, creditedMeters, heldGrants, holdTold, meteredPrices } from './state.sql.ts'

/** How long what was signed is to be trusted without asking. */
const trusted = 5 * minutes
/** So many benefits are told: of a larger team, one member at a time. An event is kept and sent again, and holds fewer. */
const most = { answer: 10_000, event: 1000 }

type Naming = Parameters<typeof findCustomer>[2]

/** What a customer has, as it stands at one moment; all of it or one member's. As many statements however much that is. */
export const find = (db: Db, reach: Reach, naming: Naming, member_id?: string): Promise<CustomerState> =>
  inSnapshot(db, async (then) => stateOf(then, reach, await findCustomer(then, reach, naming), most.answer, member_id))

/** The same for whoever checks without asking: signed, for this seller, for a few minutes. */
export const sign = async (db: Db, reach: Reach, platform: Platform, naming: Naming, member_id?: string): Promise<{ token: string; expires_at: Date }> => {
  const state = await find(db, reach, naming, member_id)
  const iat = Math.floor(platform.clock.wall().getTime() / seconds)
  const exp = iat + trusted / seconds
  const claims = { aud: state.organization_id, sub: state.id, iat, exp, state: JSON.parse(encode(CustomerState, state)) as unknown }
  return { token: await signClaims(db, platform, 'customer-state+jwt', claims), expires_at: new Date(exp * seconds) }
}

/**
 * Tells what a customer has, once for all that has changed since it was last told. The leased row is held while it is
 * looked at: whoever changes something meanwhile waits to mark the row, and so it is told again.
 */
export const tell = ({ transact }: Means, lease: Lease): Promise<void> =>
  transact(async (wall) => {
    const { organization_id, id } = lease
    // Before the row: whoever writes grants holds the phase first, too.
    const reach = within(organization_id, 'machine', await holdPhase(wall, organization_id))
    // And before it the customer: whoever is to be forgotten is told of before that, and that forgotten with the rest, or not at all.
    await holdTold(wall, organization_id, id)
    const tx = await inTimeOf(wall, await clockOf(wall, { organization_id, customer_id: id }))
    await checkLease(tx, lease)
    const customer = await findTold(tx, reach, id)
    if (customer) await emit(tx, customerStateChanged, { organization_id, resource_id: id, customer_id: id }, await stateOf(tx, reach, customer, most.event))
    await releaseLease(tx, lease, null)
  })

/** Whoever is a customer, in the phase that is; and whoever was deleted: those who keep their own record must hear that nothing is left. */
const findTold = async (db: Db, reach: Reach, id: string): Promise<CustomerRow | undefined> =>
  (await findCustomers(db, reach, { id }))[0] ?? (await loadCustomers(db, reach, [id])).find(({ deleted_at }) => deleted_at !== null)

const stateOf = async (db: Db, reach: Reach, customer: CustomerRow, atMost: number, member_id?: string): Promise<CustomerState> => {
  const shown = presentCustomer(customer)
  // Nothing is left to the deleted, also where what they had is still being taken back.
  if (customer.deleted_at !== null) return { ...shown, active_subscriptions: [], granted_benefits: [], active_meters: [], is_complete: true }
  const owner = await findOwnerOf(db, customer)
  // One more than is told shows that there are more.
  const grants = await heldGrants(db, reach, customer, { member_id, owner_id: owner?.id ?? null, most: atMost + 1 })
  const meters = await creditedMeters(db, reach, customer)
  return {
    ...shown,
    active_subscriptions: await subscriptionsOf(db, customer),
    // The kind of a benefit decides which properties its grants have.
    granted_benefits: grants.slice(0, atMost) as CustomerStateBenefitGrant[],
    // Nothing is counted yet: what was credited is there.
    active_meters: meters.map((meter) => ({ ...meter, consumed_units: 0, balance: meter.credited_units })),
    is_complete: grants.length <= atMost,
  }
}

const subscriptionsOf = async (db: Db, customer: CustomerRow) => {
  const subscriptions = await activeSubscriptions(db, customer)
  const ids = subscriptions.map(({ id }) => id)
  const prices = ids.length === 0 ? [] : await meteredPrices(db, customer, ids)
  return subscriptions.map((subscription) => ({
    ...subscription,
    status: subscription.status as 'trialing' | 'active',
    meters: prices
      .filter(({ subscription_id }) => subscription_id === subscription.id)
      .map(({ id, meter_id }) => ({
        id,
        created_at: subscription.created_at,
        modified_at: null,
        consumed_units: 0,
        credited_units: 0,
        amount: 0,
        meter_id,
      })),
  }))
}
