import {
  InvalidRequest,
  NotEnoughUnits,
  ReservationKeyUsed,
  ResourceNotFound,
  type UsageReservation,
  type UsageReservationCreate,
  type UsageReservationStatus,
} from '@bursar/contract'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { addDecimals, compareDecimals, negateDecimal, numberOf, readDecimal, writeDecimal } from '../../../kernel/decimals.ts'
import { newId } from '../../../kernel/ids.ts'
import { later, seconds } from '../../../platform/clock.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { permit } from '../../organizations/index.ts'
import {
  findReservation,
  findStanding,
  holdCustomerMeter,
  insertReservation,
  releaseOpen,
  type Decision,
  type HeldMeter,
  type Reservation,
} from './reservations.sql.ts'

const statusOf = ({ settled_at, released_at, expires_at }: Reservation, now: Date): UsageReservationStatus =>
  settled_at ? 'settled' : released_at ? 'released' : expires_at <= now ? 'expired' : 'live'

const presentReservation = (reservation: Reservation, now: Date): UsageReservation => {
  const { id, created_at, customer_id, meter_id, key, units, expires_at, settled_at, released_at, event_id } = reservation
  const status = statusOf(reservation, now)
  return { id, created_at, customer_id, meter_id, key, units: numberOf(units), status, expires_at, settled_at, released_at, event_id }
}

const refuse = (field: string, msg: string, input: unknown) => new InvalidRequest({ loc: ['body', field], msg, type: 'value_error', input })

/** Units of other functions cannot be held: the usage of one event does not add to them. */
const refuseOthers = ({ id, aggregation: { func } }: HeldMeter): void => {
  if (func !== 'count' && func !== 'sum')
    throw refuse('meter_id', `The meter aggregates with \`${func}\`. Only meters with \`count\` or \`sum\` add up units. Choose one of them.`, id)
}

/** The key of the requests that wait for each other. It names the tenants, so that no caller can delay others by naming their meters. */
export const turnOf = (scope: TenantScope, asked: UsageReservationCreate): string =>
  `${organizationIds(scope).join()} ${asked.meter_id} ${'customer_id' in asked ? asked.customer_id : asked.external_customer_id}`

/** Holds units of a customer on a meter, or throws if it has too few. The same request with the same key returns the first reservation. */
export const reserveUnits = async (tx: Tx, scope: TenantScope, asked: UsageReservationCreate): Promise<UsageReservation> => {
  const found = await holdCustomerMeter(tx, scope, asked.meter_id, asked)
  if (!found) throw refuse('meter_id', 'This meter does not exist. Send the id of one of your meters.', asked.meter_id)
  const { meter, customer_id } = found
  const { organization_id } = meter
  permit(scope, organization_id, 'events:ingest')
  if (customer_id === null) {
    const [field, input] = 'customer_id' in asked ? ['customer_id', asked.customer_id] : ['external_customer_id', asked.external_customer_id]
    throw refuse(field, 'The organization of the meter has no such customer. Create the customer first.', input)
  }
  refuseOthers(meter)

  const now = tx.clock.wall()
  const wanted = { organization_id, customer_id, meter_id: meter.id, key: asked.key, units: String(asked.units) }
  const { credited_units, since, known } = await findStanding(tx, scope, wanted)
  if (known) {
    const isSame =
      known.customer_id === customer_id && known.meter_id === meter.id && compareDecimals(readDecimal(known.units), readDecimal(wanted.units)) === 0
    if (!isSame) throw new ReservationKeyUsed()
    return presentReservation(known, now)
  }
  const reservation = { ...wanted, id: newId(now), created_at: now, expires_at: later(now, asked.expires_in * seconds) }
  const decision = await insertReservation(tx, scope, reservation, { organization_id, customer_id, meter, since, until: null }, credited_units)
  if (!decision.has_enough) throw notEnough(meter, asked.units, credited_units, decision)
  // A request for another customer or meter has used the key since `findStanding`.
  if (!decision.is_added) throw new ReservationKeyUsed()
  return presentReservation({ ...reservation, settled_at: null, released_at: null, event_id: null }, now)
}

const minus = (one: string, other: string): string => writeDecimal(addDecimals(readDecimal(one), negateDecimal(readDecimal(other))))

const notEnough = (meter: HeldMeter, asked_units: number, credited_units: string, { consumed, reserved }: Decision): Error => {
  const balance = minus(credited_units, consumed)
  const free = minus(balance, reserved)
  const more = { asked_units, free_units: numberOf(free), balance: numberOf(balance), reserved_units: numberOf(reserved) }
  return new NotEnoughUnits(
    `Asked for ${asked_units} units of ${meter.name}, and ${free} are free: the balance is ${balance}, and live reservations hold ${reserved}. Ask for fewer, wait until other reservations end, or sell more credits.`,
    undefined,
    more,
  )
}

const requireReservation = async (db: Db, scope: TenantScope, id: string): Promise<Reservation> => {
  const found = await findReservation(db, scope, id)
  if (!found) throw new ResourceNotFound()
  return found
}

export const readReservation = async (db: Db, scope: TenantScope, id: string, now: Date): Promise<UsageReservation> => {
  const found = await requireReservation(db, scope, id)
  permit(scope, found.organization_id, 'customers:read')
  return presentReservation(found, now)
}

/** Releases a reservation without usage. Idempotent: a reservation that has ended stays as it is. */
export const releaseReservation = async (tx: Tx, scope: TenantScope, id: string): Promise<UsageReservation> => {
  const found = await requireReservation(tx, scope, id)
  permit(scope, found.organization_id, 'events:ingest')
  // An event may have settled it since it was read.
  const released = (await releaseOpen(tx, found)) ?? (await requireReservation(tx, scope, id))
  return presentReservation(released, tx.clock.wall())
}
