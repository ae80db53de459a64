import { z } from 'zod'
import { failure, merchant, named, NotPermitted, oneOf, operation, resource, ResourceNotFound, telling, text, timestamp, uuid } from '../kit/index.ts'

/** Seconds after which a reservation ends by itself. */
const usualSeconds = 300
const mostSeconds = 86_400
/** The largest number of units of one reservation. */
const mostUnits = 1e15

const asked = {
  meter_id: uuid().describe('A meter that counts events or adds up a property.'),
  units: z.number().positive().max(mostUnits).describe('The units to hold, in the unit of the meter. A fraction is allowed.'),
  key: text(1, 256).describe('Your own key of the work. The same request with the same key returns the first reservation, also after it has ended.'),
  expires_in: z
    .int()
    .min(1)
    .max(mostSeconds)
    .default(usualSeconds)
    .describe(`Seconds after which the reservation ends by itself. ${usualSeconds} by default, at most ${mostSeconds}.`),
}

export const UsageReservationCreate = oneOf(resource('UsageReservationCreateCustomer', { ...asked, customer_id: uuid() }), {
  external_customer_id: resource('UsageReservationCreateExternalCustomer', {
    ...asked,
    external_customer_id: z.string().min(1).max(256).describe('Your own id of the customer.'),
  }),
})
export type UsageReservationCreate = z.output<typeof UsageReservationCreate>

export const UsageReservationStatus = named('UsageReservationStatus', z.enum(['live', 'settled', 'released', 'expired']))
export type UsageReservationStatus = z.output<typeof UsageReservationStatus>

/** Units of a customer on a meter that are held for work in progress. */
export const UsageReservation = resource('UsageReservation', {
  id: uuid().describe('Send it as `_reservation` in the metadata of the usage event.'),
  created_at: timestamp(),
  customer_id: uuid(),
  meter_id: uuid(),
  key: z.string().describe('Your own key of the work.'),
  units: z.number().describe('The held units.'),
  status: UsageReservationStatus.describe('Only a `live` reservation holds units.'),
  expires_at: timestamp().describe('When the reservation ends by itself.'),
  settled_at: timestamp().nullable().describe('When the first usage event that names the reservation was stored.'),
  released_at: timestamp().nullable().describe('When the reservation was released without usage.'),
  event_id: uuid().nullable().describe('The event that settled the reservation.'),
})
export type UsageReservation = z.output<typeof UsageReservation>

export const NotEnoughUnits = telling(
  failure('NotEnoughUnits', 409, 'The customer does not have enough free units. Ask for fewer, wait until other reservations end, or sell more credits.'),
  'NotEnoughUnits',
  z.object({
    asked_units: z.number().describe('The units of the request.'),
    free_units: z.number().describe('The balance without the units of live reservations.'),
    balance: z.number().describe('The remaining credits of the customer.'),
    reserved_units: z.number().describe('The units of live reservations.'),
  }),
)

export const ReservationKeyUsed = failure(
  'ReservationKeyUsed',
  409,
  'Another reservation of your organization has this key, with another customer, meter or number of units. Send a new key.',
)

const write = merchant('events:write')
const byId = z.object({ id: uuid() })

export const createUsageReservation = operation({
  id: 'customer_meters:reservations:create',
  method: 'POST',
  path: '/v1/customer-meters/reservations',
  summary: 'Reserve units',
  description:
    'Holds units of a customer on a meter before the work is done. Fails if the balance, without the units of other live reservations, has fewer. The usage event that names the reservation settles it. It ends by itself after `expires_in` seconds.',
  access: write,
  costs: 'none',
  body: UsageReservationCreate,
  returns: UsageReservation,
  status: 201,
  fails: [NotPermitted, NotEnoughUnits, ReservationKeyUsed],
})

export const getUsageReservation = operation({
  id: 'customer_meters:reservations:get',
  method: 'GET',
  path: '/v1/customer-meters/reservations/{id}',
  summary: 'Get a reservation',
  description: 'A reservation is kept for at least a day after its end.',
  access: merchant(['customer_meters:read', 'events:write']),
  costs: 'none',
  params: byId,
  returns: UsageReservation,
  fails: [NotPermitted, ResourceNotFound],
})

export const releaseUsageReservation = operation({
  id: 'customer_meters:reservations:release',
  method: 'POST',
  path: '/v1/customer-meters/reservations/{id}/release',
  summary: 'Release a reservation',
  description: 'Frees the held units, because the work will not be done. Changes nothing if the reservation has ended.',
  access: write,
  costs: 'none',
  params: byId,
  returns: UsageReservation,
  fails: [NotPermitted, ResourceNotFound],
})
