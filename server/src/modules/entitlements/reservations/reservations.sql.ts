import type { Meter } from '@bursar/contract'
import { sql } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import { rowFromJson, type JsonRow } from '../../../platform/postgres/json-rows.ts'
import { inScope } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { exists } from '../../customers/index.ts'
import { quantityOf, reservedUnits, type Consumption } from '../../usage/index.ts'
import { standingOn } from '../meters/customer-meters.sql.ts'

export interface Reservation {
  readonly organization_id: string
  readonly id: string
  readonly created_at: Date
  readonly customer_id: string
  readonly meter_id: string
  readonly key: string
  /** Exact decimal text. */
  readonly units: string
  readonly expires_at: Date
  readonly settled_at: Date | null
  readonly released_at: Date | null
  readonly event_id: string | null
}

const columns = sql.raw(
  'r.organization_id, r.id, r.created_at, r.customer_id, r.meter_id, r.key, r.units::text as units, r.expires_at, r.settled_at, r.released_at, r.event_id',
)
const reservationFromJson = rowFromJson<Reservation>({ created_at: true, expires_at: true, settled_at: true, released_at: true })

export type HeldMeter = Pick<Meter, 'id' | 'organization_id' | 'name' | 'filter' | 'aggregation'>

type Naming = { readonly customer_id: string } | { readonly external_customer_id: string }

/**
 * Finds the meter, and the customer in the organization of the meter. Serializes the reservations of this customer on this meter until
 * the transaction ends. Otherwise two requests could each get the last units. Only later statements see the reservations before.
 */
export const holdCustomerMeter = async (
  tx: Tx,
  scope: TenantScope,
  meter_id: string,
  naming: Naming,
): Promise<{ meter: HeldMeter; customer_id: string | null } | undefined> => {
  const named = 'customer_id' in naming ? sql`customers.id = ${naming.customer_id}` : sql`customers.external_id = ${naming.external_customer_id}`
  const { rows } = await sql<{ meter: HeldMeter; customer_id: string | null }>`
    select to_json(m) as meter, c.id as customer_id, case when c.id is not null then hold_reservations(m.organization_id, c.id, m.id)::text end
    from meters m left join lateral (
      select id from customers where customers.organization_id = m.organization_id and ${named} and ${exists(scope)} limit 1
    ) c on true
    where m.organization_id = ${inScope(scope)} and m.id = ${meter_id}`.execute(tx.q)
  return rows[0]
}

/** The credits of a customer on a meter, and the reservation that has the key already. */
export interface Standing {
  readonly credited_units: string
  readonly since: Date | null
  readonly known: Reservation | null
}

export const findStanding = async (
  tx: Tx,
  scope: TenantScope,
  asked: Pick<Reservation, 'organization_id' | 'customer_id' | 'meter_id' | 'key'>,
): Promise<Standing> => {
  const { organization_id, customer_id, meter_id, key } = asked
  const { rows } = await sql<Omit<Standing, 'known'> & { known: JsonRow<Reservation> | null }>`
    select standing.credited_units::text as credited_units, standing.since,
      (select row_to_json(k) from (select ${columns} from usage_reservations r where r.organization_id = ${organization_id} and r.key = ${key}) k) as known
    from customers cross join lateral (${standingOn(scope, sql`${meter_id}::uuid`)}) standing
    where customers.organization_id = ${organization_id} and customers.id = ${customer_id}`.execute(tx.q)
  const [{ known, ...standing }] = rows as [(typeof rows)[number]]
  return { ...standing, known: known && reservationFromJson(known) }
}

/** The decimal texts that decide about a reservation. */
export interface Decision {
  readonly consumed: string
  readonly reserved: string
  readonly has_enough: boolean
  readonly is_added: boolean
}

/**
 * Inserts a reservation if the credits are enough for it, for the usage and for all live reservations. Reads both in one statement: an event
 * that settles a reservation is then counted as usage or as reserved, and never missed. Inserts none if another one has the key.
 */
export const insertReservation = async (
  tx: Tx,
  scope: TenantScope,
  asked: Pick<Reservation, 'organization_id' | 'id' | 'created_at' | 'customer_id' | 'meter_id' | 'key' | 'units' | 'expires_at'>,
  usage: Consumption,
  credited_units: string,
): Promise<Decision> => {
  const { organization_id, id, created_at, customer_id, meter_id, key, units, expires_at } = asked
  const of = { organization_id: sql`${organization_id}::uuid`, customer_id: sql`${customer_id}::uuid`, meter_id: sql`${meter_id}::uuid` }
  const { rows } = await sql<Decision>`
    with facts as materialized (
      select ${quantityOf(scope, usage)} as consumed, ${reservedUnits(of, created_at)} as reserved
    ), decided as (
      select consumed, reserved, ${credited_units}::numeric - consumed - reserved >= ${units}::numeric as has_enough from facts
    ), added as (
      insert into usage_reservations (organization_id, id, created_at, customer_id, meter_id, key, units, expires_at)
      select ${organization_id}, ${id}, ${created_at}, ${customer_id}, ${meter_id}, ${key}, ${units}::numeric, ${expires_at} from decided where has_enough
      on conflict (organization_id, key) do nothing
      returning id
    )
    select consumed::text as consumed, trim_scale(reserved)::text as reserved, has_enough, exists (select from added) as is_added from decided`.execute(tx.q)
  return rows[0]!
}

export const findReservation = async (db: Db, scope: TenantScope, id: string): Promise<Reservation | undefined> =>
  (await sql<Reservation>`select ${columns} from usage_reservations r where r.organization_id = ${inScope(scope)} and r.id = ${id}`.execute(db.q)).rows[0]

/** Releases a reservation that has not ended. Returns undefined if it has. */
export const releaseOpen = async (tx: Tx, { organization_id, id }: Reservation): Promise<Reservation | undefined> => {
  const now = tx.clock.wall()
  const { rows } = await sql<Reservation>`
    update usage_reservations r set released_at = ${now}
    where r.organization_id = ${organization_id} and r.id = ${id} and r.settled_at is null and r.released_at is null and r.expires_at > ${now}
    returning ${columns}`.execute(tx.q)
  return rows[0]
}
