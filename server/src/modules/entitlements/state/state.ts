import { CustomerState, customerStateChanged, type CustomerStateBenefitGrant } from '@bursar/contract'
import { within, type TenantScope } from '../../../kernel/actors.ts'
import { minutes, seconds } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { encode } from '../../../platform/encode.ts'
import { checkLease, releaseLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { clockOf, permittedOne, presentCustomer } from '../../customers/index.ts'
import { signClaims } from '../../identity/index.ts'
import { holdPhase } from '../../organizations/index.ts'
import { findStates, findToldState, holdTold, type LoadedState, type Naming } from './state.sql.ts'

/** Validity of a signed state. */
const trusted = 5 * minutes
/**
 * Maximum number of benefits in a state. Clients read larger teams one member at a time. An event contains fewer
 * benefits, because each event is stored and may be sent repeatedly.
 */
const most = { answer: 10_000, event: 1000 }

/** Returns the state of a customer, or one member's part of it, from one snapshot. */
export const requireCustomerState = async (db: Db, scope: TenantScope, naming: Naming, member_id?: string): Promise<CustomerState> => {
  // Reads one grant more than the maximum, to detect that the state is incomplete.
  const found = await findStates(db, scope, naming, { member_id, most: most.answer + 1 })
  const customers = found.map(({ customer, ...held }) => ({ ...customer, held }))
  const { held, ...customer } = await permittedOne(db, scope, naming, customers, 'customers:read')
  return presentState({ customer, ...held }, most.answer)
}

/** Returns the state as a signed token for offline verification. The token is valid for this seller only, and for five minutes. */
export const sign = async (
  db: Db,
  scope: TenantScope,
  platform: Platform,
  naming: Naming,
  member_id?: string,
): Promise<{ token: string; expires_at: Date }> => {
  const state = await requireCustomerState(db, scope, naming, member_id)
  const iat = Math.floor(platform.clock.wall().getTime() / seconds)
  const exp = iat + trusted / seconds
  const claims = { aud: state.organization_id, sub: state.id, iat, exp, state: JSON.parse(encode(CustomerState, state)) as unknown }
  return { token: await signClaims(db, platform, 'customer-state+jwt', claims), expires_at: new Date(exp * seconds) }
}

/**
 * Emits the state of a customer, once for all changes since the last event. Keeps the leased row locked while reading
 * the state. A concurrent change waits for this lock, then marks the row as due. Another event therefore follows.
 */
export const emitCustomerState = ({ transact }: Deps, lease: Lease): Promise<void> =>
  transact(async (wall) => {
    const { organization_id, id } = lease
    // Lock the phase before the leased row, in the same order as the code that writes grants.
    const scope = within(organization_id, 'machine', await holdPhase(wall, organization_id))
    // Lock the customer before the leased row. An anonymization then either waits for this event and erases its
    // personal data, or this event sees the anonymized customer.
    await holdTold(wall, organization_id, id)
    const tx = await inTimeOf(wall, await clockOf(wall, { organization_id, customer_id: id }))
    await checkLease(tx, lease)
    // A deleted customer emits an empty state, so that consumers can clear their copies.
    const told = await findToldState(tx, scope, id, { most: most.event + 1 })
    if (told) await emit(tx, customerStateChanged, { organization_id, resource_id: id, customer_id: id }, presentState(told, most.event))
    await releaseLease(tx, lease, null)
  })

const presentState = ({ customer, subscriptions, grants, meters }: LoadedState, atMost: number): CustomerState => {
  const shown = presentCustomer(customer)
  // The state of a deleted customer is empty, even while jobs are still revoking its grants.
  if (customer.deleted_at !== null) return { ...shown, active_subscriptions: [], granted_benefits: [], active_meters: [], is_complete: true }
  return {
    ...shown,
    active_subscriptions: subscriptions.map((subscription) => ({
      ...subscription,
      meters: subscription.meters.map((meter) => ({
        ...meter,
        created_at: subscription.created_at,
        modified_at: null,
        consumed_units: 0,
        credited_units: 0,
        amount: 0,
      })),
    })),
    // The benefit's type determines the type of its grant's properties, hence the cast.
    granted_benefits: grants.slice(0, atMost) as CustomerStateBenefitGrant[],
    // Usage is not metered yet, so the balance equals the credited units.
    active_meters: meters.map((meter) => ({ ...meter, consumed_units: 0, balance: meter.credited_units })),
    is_complete: grants.length <= atMost,
  }
}
