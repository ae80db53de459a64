import { z } from 'zod'
import { metadataFilter } from '../catalog/metadata.ts'
import { emptyIsAbsent, filter, merchant, named, NotPermitted, operation, resource, ResourceNotFound, timestamp, uuid } from '../kit/index.ts'

export const TimeInterval = named('TimeInterval', z.enum(['year', 'month', 'week', 'day', 'hour']))
export type TimeInterval = z.output<typeof TimeInterval>

/** The longest range of each interval, in days. */
export const mostDays: Readonly<Record<TimeInterval, number>> = { hour: 7, day: 366, week: 371, month: 1460, year: 3650 }

export const AggregationFunction = named('AggregationFunction', z.enum(['count', 'sum', 'max', 'min', 'avg', 'unique']))

const isZone = (name: string): boolean => {
  // `Intl` also accepts offsets such as `+01:00`, which are no names of zones. It does not know the name `Factory`.
  if (!/^[A-Za-z]/.test(name)) return false
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== ''
  } catch {
    return name === 'Factory'
  }
}

/** The name of a time zone in the IANA database. Old names such as `Asia/Calcutta` are accepted too. */
export const timeZoneInText = () =>
  z.string().min(1).max(64).refine(isZone, 'Expected the name of a time zone in the IANA database, such as `Europe/Berlin`.').default('UTC')

/** The last moment that ISO 8601 writes with a year of four digits. An offset can lead beyond it. */
const latest = Date.parse('9999-12-31T23:59:59.999Z')

/** A bound of a range. Events have times from 1970 on, and PostgreSQL has no year 0000. */
const moment = () =>
  z.iso
    .datetime({ offset: true })
    .transform((value) => new Date(value))
    .refine((at) => at.getTime() >= 0 && at.getTime() <= latest, 'Expected a time from 1970 to 9999, in UTC. Events have times from 1970 on.')

export const MeterQuantity = resource('MeterQuantity', {
  timestamp: timestamp().describe('The start of the interval.'),
  quantity: z.number(),
})
export const MeterQuantities = resource('MeterQuantities', {
  quantities: z.array(MeterQuantity).describe('One entry for each interval, oldest first. Intervals without usage have the quantity 0.'),
  total: z
    .number()
    .describe(
      'The quantity of the whole range. It is computed from the events of the range, so for averages and unique values it is not the sum of the intervals.',
    ),
})
export type MeterQuantities = z.output<typeof MeterQuantities>

export const getMeterQuantities = operation({
  id: 'meters:quantities',
  method: 'GET',
  path: '/v1/meters/{id}/quantities',
  summary: 'Get the quantities of a meter',
  description:
    'Counts the events from `start_timestamp` on and before `end_timestamp`, by the time of the events. The first and the last interval contain only events of this range.',
  access: merchant(['meters:read', 'meters:write']),
  costs: 'none',
  params: z.object({ id: uuid() }),
  query: z.object({
    start_timestamp: moment().describe('The start of the range.'),
    end_timestamp: moment().describe('The end of the range. Events at this moment are not counted.'),
    interval: TimeInterval.describe(
      'The length of an interval. Weeks begin on Monday. The longest range is 7 days of hours, 366 of days, 371 of weeks, 1460 of months and 3650 of years.',
    ),
    timezone: timeZoneInText().describe('The time zone in which intervals begin.'),
    customer_id: filter(uuid()),
    external_customer_id: filter(z.string().max(256)),
    customer_aggregation_function: emptyIsAbsent(AggregationFunction).describe(
      'Computes the quantity of each customer with usage first, then combines the quantities with this function. `count` returns the number of these customers.',
    ),
    metadata: metadataFilter(),
  }),
  returns: MeterQuantities,
  fails: [NotPermitted, ResourceNotFound],
})
