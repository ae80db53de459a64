import { accountLimits, createUsageReservation, getUsageReservation, releaseUsageReservation } from '@bursar/contract'
import { openConcurrencyLimit } from '../../../platform/concurrency.ts'
import { read, write } from '../../handlers.ts'
import { readReservation, releaseReservation, reserveUnits, turnOf } from './reservations.ts'

/** Reservations of one customer meter wait for each other. Without this limit, they would wait with a database connection each. */
const turns = openConcurrencyLimit({
  what: 'reservations of one customer on one meter',
  at_once: 1,
  waiting: accountLimits.waiting_reservations_per_customer_meter,
})

export const operations = [
  write(
    createUsageReservation,
    (tx, { scope, body }) => reserveUnits(tx, scope, body),
    undefined,
    ({ scope, body }, run) => turns.run([turnOf(scope, body)], run),
  ),
  read(getUsageReservation, (db, { scope, params, platform }) => readReservation(db, scope, params.id, platform.clock.wall())),
  write(releaseUsageReservation, (tx, { scope, params }) => releaseReservation(tx, scope, params.id)),
]
