import { sql, type RawBuilder } from 'kysely'
import { days, later } from '../../../platform/clock.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { inParts, perStatement } from '../calc/parts.ts'

/** The key of the metadata by which an event names its reservation. */
export const reservationKey = '_reservation'

/** Reservations that have ended are kept for this time, so that their keys are recognised. */
const kept = 2 * days

/**
 * SQL for the units of live reservations. A reservation that a transaction settles and the usage of its event become visible
 * together. So a statement that reads both never misses units.
 */
export const reservedUnits = (of: { organization_id: RawBuilder<unknown>; customer_id: RawBuilder<unknown>; meter_id: RawBuilder<unknown> }, now: Date) => sql`(
  select coalesce(sum(v.units), 0) from usage_reservations v
  where v.organization_id = ${of.organization_id} and v.customer_id = ${of.customer_id} and v.meter_id = ${of.meter_id}
    and v.settled_at is null and v.released_at is null and v.expires_at > ${now})`

/** A usage event that names a reservation. */
export interface Settling {
  readonly reservation_id: string
  readonly event_id: string
}

/**
 * Settles reservations by new events, in the transaction of their ingest. The first event settles a reservation. Events that name an unknown or
 * ended one only count. Rows are locked in the sequence of their ids, which prevents deadlocks between requests.
 */
export const settleReservations = async (tx: Tx, organization_id: string, settling: readonly Settling[]): Promise<void> => {
  const first = new Map<string, string>()
  for (const { reservation_id, event_id } of settling) if (!first.has(reservation_id)) first.set(reservation_id, event_id)
  for (const part of inParts([...first].toSorted(([a], [b]) => (a < b ? -1 : 1))))
    await sql`
      update usage_reservations r set settled_at = ${tx.clock.wall()}, event_id = v.event_id
      from (
        select r.id, w.event_id from usage_reservations r
        join unnest(${part.map(([id]) => id)}::uuid[], ${part.map(([, id]) => id)}::uuid[]) w (id, event_id) on w.id = r.id
        where r.organization_id = ${organization_id} order by r.id for no key update of r
      ) v
      where r.organization_id = ${organization_id} and r.id = v.id and r.settled_at is null and r.released_at is null`.execute(tx.q)
}

/** Deletes reservations that ended long ago. Each statement is a transaction of its own. */
export const purgeReservations = async ({ transact }: Pick<Deps, 'transact'>): Promise<void> => {
  const purge = async (tx: Tx) => {
    const { numAffectedRows } = await sql`
      delete from usage_reservations where (organization_id, id) in (
        select organization_id, id from usage_reservations where expires_at < ${later(tx.clock.wall(), -kept)} limit ${perStatement})`.execute(tx.q)
    return numAffectedRows
  }
  while ((await transact(purge)) === BigInt(perStatement));
}
