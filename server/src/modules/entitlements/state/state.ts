import { CustomerState, customerStateChanged, type CustomerStateBenefitGrant } from '@bursar/contract'
import { within, type TenantScope } from '../../../kernel/actors.ts'
import { numberOf } from '../../../kernel/decimals.ts'
import { minutes, seconds } from '../../../platform/clock.ts'
import { inTimeOf, inWallTime } from '../../../platform/clocks.sql.ts'
import { encode } from '../../../platform/encode.ts'
import { openGate } from '../../../platform/jobs/batches.ts'
import { lockHeld, lostLease, releaseAtEnd, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { groupTransactions } from '../../../platform/jobs/slots.ts'
import { emitEach } from '../../../platform/outbox/outbox.sql.ts'
import { isUnavailable, tookTooLong } from '../../../platform/postgres/outage.ts'
import type { BusinessTx, Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { permittedOne, presentCustomer } from '../../customers/index.ts'
import { signClaims } from '../../identity/index.ts'
import { holdPhase } from '../../organizations/index.ts'
import { balanceOf } from '../meters/customer-meters.ts'
import { amountOfPeriods, quantitiesOf, spansOf } from '../../billing/index.ts'
import { loadConsumed, type Consumption } from '../../usage/index.ts'
import { findStates, findToldStates, holdTold, type LoadedState, type Naming } from './state.sql.ts'

/** Validity of a signed state. */
const trusted = 5 * minutes
/**
 * Maximum number of benefits in a state. Clients read larger teams one member at a time. An event contains fewer
 * benefits, because each event is stored and may be sent repeatedly.
 */
const most = { answer: 10_000, event: 1000 }

/** Returns the state of a customer, or one member's part of it, from one snapshot. `at` is the time before the request reads. */
export const requireCustomerState = async (db: Db, scope: TenantScope, at: Date, naming: Naming, member_id?: string): Promise<CustomerState> => {
  // Reads one grant more than the maximum, to detect that the state is incomplete.
  const found = await findStates(db, scope, at, naming, { member_id, most: most.answer + 1 })
  const customers = found.map(({ customer, ...held }) => ({ ...customer, held }))
  const { held, ...customer } = await permittedOne(db, scope, naming, customers, 'customers:read')
  return (await presentStates(db, scope, at, [{ customer, ...held }], most.answer))[0]!
}

/** Returns the state as a signed token for offline verification. The token is valid for this seller only, and for five minutes. */
export const sign = async (
  db: Db,
  scope: TenantScope,
  platform: Platform,
  naming: Naming,
  member_id?: string,
): Promise<{ token: string; expires_at: Date }> => {
  const at = platform.clock.wall()
  const state = await requireCustomerState(db, scope, at, naming, member_id)
  const iat = Math.floor(at.getTime() / seconds)
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
    if (isUnavailable(error) && !tookTooLong(error)) throw error
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
  const at = tx.clock.wall()
  const states = await findToldStates(
    tx,
    scope,
    at,
    held.map(({ id }) => id),
    { most: most.event + 1 },
  )
  const shown = await presentStates(tx, scope, at, states, most.event)
  await emitEach(
    tx,
    customerStateChanged,
    shown.map((state) => [{ organization_id, resource_id: state.id, customer_id: state.id }, state]),
  )
  releaseAtEnd(tx, held)
}

/** Presents states with their usage. One statement computes the usage of all customers. It runs only if one of them has meters. */
const presentStates = async (db: Db, scope: TenantScope, at: Date, loaded: readonly LoadedState[], atMost: number): Promise<CustomerState[]> => {
  const asked = loaded.map(consumptionsOf)
  const consumed = await loadConsumed(db, scope, asked.flat())
  let from = 0
  return loaded.map((state, index) => presentState(state, consumed.slice(from, (from += asked[index]!.length)), at, atMost))
}

/** Returns the usage that a state shows: that of each metered price with its usage periods, then that of each meter. */
const consumptionsOf = ({ customer, subscriptions, meters }: LoadedState): Consumption[] => {
  if (customer.deleted_at !== null) return []
  const { organization_id, id: customer_id } = customer
  return [
    ...subscriptions
      .flatMap((one) => one.meters)
      .flatMap((price) => spansOf(price).map((span) => ({ organization_id, customer_id, meter: price.meter, ...span }))),
    ...meters.map(({ meter, since }) => ({ organization_id, customer_id, meter, since, until: null })),
  ]
}

/** Presents a state. `consumed` contains the usage in the sequence of `consumptionsOf`. */
const presentState = ({ customer, subscriptions, grants, meters }: LoadedState, consumed: readonly string[], as_of: Date, atMost: number): CustomerState => {
  const shown = presentCustomer(customer)
  // The state of a deleted customer is empty, even while jobs are still revoking its grants.
  if (customer.deleted_at !== null) return { ...shown, active_subscriptions: [], granted_benefits: [], active_meters: [], is_complete: true }
  const prices = subscriptions.flatMap((one) => one.meters)
  let from = 0
  const usage = new Map(prices.map((price) => [price, quantitiesOf(price, consumed.slice(from, (from += spansOf(price).length)))]))
  return {
    ...shown,
    active_subscriptions: subscriptions.map((subscription) => ({
      ...subscription,
      meters: subscription.meters.map((price) => ({
        id: price.id,
        meter_id: price.meter.id,
        created_at: subscription.created_at,
        modified_at: null,
        consumed_units: numberOf(usage.get(price)!.consumed),
        credited_units: price.credited_units,
        amount: amountOfPeriods(price, usage.get(price)!.billed, price.credited_units),
      })),
    })),
    // The benefit's type determines the type of its grant's properties, hence the cast.
    granted_benefits: grants.slice(0, atMost) as CustomerStateBenefitGrant[],
    active_meters: meters.map(({ id, created_at, modified_at, meter, credited_units, reserved_units }, at) => {
      const units = consumed[from + at]!
      return {
        id,
        created_at,
        modified_at,
        meter_id: meter.id,
        consumed_units: numberOf(units),
        credited_units,
        balance: balanceOf(units, credited_units),
        reserved_units: numberOf(reserved_units),
        as_of,
      }
    }),
    is_complete: grants.length <= atMost,
  }
}
