import { CustomerState, customerStateChanged, type CustomerStateBenefitGrant } from '@bursar/contract'
import { within, type TenantScope } from '../../../kernel/actors.ts'
import { minutes, seconds } from '../../../platform/clock.ts'
import { inTimeOf, inWallTime } from '../../../platform/clocks.sql.ts'
import { encode } from '../../../platform/encode.ts'
import { openGate } from '../../../platform/jobs/batches.ts'
import { lockHeld, lostLease, releaseAtEnd, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { groupTransactions } from '../../../platform/jobs/slots.ts'
import { emitEach } from '../../../platform/outbox/outbox.sql.ts'
import { isUnavailable } from '../../../platform/postgres/outage.ts'
import type { BusinessTx, Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { permittedOne, presentCustomer } from '../../customers/index.ts'
import { signClaims } from '../../identity/index.ts'
import { holdPhase } from '../../organizations/index.ts'
import { findStates, findToldStates, holdTold, type LoadedState, type Naming } from './state.sql.ts'

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
  transact(async (tx) => {
    const scope = await holdScope(tx, lease)
    const clock = (await holdTold(tx, lease.organization_id, [lease.id])).get(lease.id)
    const timed = clock ? await inTimeOf(tx, clock) : inWallTime(tx)
    if ((await lockHeld(tx, [lease])).length === 0) throw lostLease(lease)
    await emitHeld(timed, scope, [lease])
  })

/** The gates of the transactions that emit states, one for each worker. */
const gates = new WeakMap<Deps, ReturnType<typeof openGate>>()

const gateOf = (deps: Deps) => {
  const found = gates.get(deps) ?? openGate(groupTransactions)
  gates.set(deps, found)
  return found
}

/**
 * Emits the states of customers of one organization in one transaction. A state of a customer with a test clock is
 * emitted alone, in the time of that clock, and so is every state if the transaction fails.
 */
export const emitCustomerStates = (deps: Deps, leases: readonly Lease[]): Promise<void>[] => {
  const gate = gateOf(deps)
  const emitted = gate(() => deps.transact((tx) => emitGroup(tx, leases))).catch((error: unknown): GroupResult[] => {
    if (isUnavailable(error)) throw error
    deps.platform.log.warn('state_group_failed', { organization_id: leases[0]!.organization_id, error })
    return leases.map(() => 'alone')
  })
  return leases.map(async (lease, at) => {
    const result = (await emitted)[at]!
    if (result === 'lost') throw lostLease(lease)
    if (result === 'alone') await gate(() => emitCustomerState(deps, lease))
  })
}

type GroupResult = 'emitted' | 'lost' | 'alone'

const emitGroup = async (tx: Tx, leases: readonly Lease[]): Promise<GroupResult[]> => {
  const scope = await holdScope(tx, leases[0]!)
  const clocks = await holdTold(
    tx,
    leases[0]!.organization_id,
    leases.map(({ id }) => id),
  )
  const plain = leases.filter(({ id }) => !clocks.get(id)?.clock_id)
  const held = plain.length === 0 ? [] : await lockHeld(tx, plain)
  if (held.length > 0) await emitHeld(inWallTime(tx), scope, held)
  return leases.map((lease) => (held.includes(lease) ? 'emitted' : plain.includes(lease) ? 'lost' : 'alone'))
}

/** Locks the phase. Lock it before the customers and the leased rows, in the same order as the code that writes grants. */
const holdScope = async (tx: Tx, { organization_id }: Lease): Promise<TenantScope> => within(organization_id, 'machine', await holdPhase(tx, organization_id))

/**
 * Emits the states of locked rows and releases their leases. The customers were locked before the rows. An anonymization
 * then either waits for this event and erases its personal data, or this event sees the anonymized customer. A deleted
 * customer emits an empty state, so that consumers can clear their copies.
 */
const emitHeld = async (tx: BusinessTx, scope: TenantScope, held: readonly Lease[]): Promise<void> => {
  const { organization_id } = held[0]!
  const states = await findToldStates(
    tx,
    scope,
    held.map(({ id }) => id),
    { most: most.event + 1 },
  )
  await emitEach(
    tx,
    customerStateChanged,
    states.map((state) => [{ organization_id, resource_id: state.customer.id, customer_id: state.customer.id }, presentState(state, most.event)]),
  )
  releaseAtEnd(tx, held)
}

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
