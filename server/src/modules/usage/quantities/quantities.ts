import { InvalidRequest, mostDays, type getMeterQuantities, type Meter, type MeterQuantities, type Parsed } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { numberOf } from '../../../kernel/decimals.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { bucketStarts } from '../calc/buckets.ts'
import { day } from '../calc/zones.ts'
import type { CopyReader } from '../copies/asking.ts'
import { findCountedSubjects, type CountedSubject } from '../records/counted-subjects.sql.ts'
import { quantitiesFromCopy } from './copied.ts'
import { loadQuantities, type Question } from './quantities.sql.ts'

type Query = Parsed<typeof getMeterQuantities, 'query'>

const refuseRange = ({ start_timestamp: start, end_timestamp: end, interval }: Query): void => {
  const problem = (msg: string) => new InvalidRequest({ loc: ['query', 'end_timestamp'], msg, type: 'value_error', input: end.toISOString() })
  if (end < start) throw problem(`The end is before the start, ${start.toISOString()}. Send an end at or after the start.`)
  const most = mostDays[interval]
  if (end.getTime() - start.getTime() > most * day)
    throw problem(`With the interval ${interval}, a range has at most ${most} days. Send an earlier end, or a longer interval.`)
}

/** Returns the subjects of the asked customers. Undefined if the request names none. */
const subjectsOf = async (
  db: Db,
  scope: TenantScope,
  organization_id: string,
  { customer_id, external_customer_id }: Query,
): Promise<CountedSubject[] | undefined> => {
  if (customer_id.length === 0 && external_customer_id.length === 0) return undefined
  const byId = customer_id.length > 0 ? await findCountedSubjects(db, scope, organization_id, { id: customer_id }) : undefined
  const byExternalId =
    external_customer_id.length > 0 ? await findCountedSubjects(db, scope, organization_id, { external_id: external_customer_id }) : undefined
  return byId && byExternalId
    ? byId.filter((one) => byExternalId.some(({ id, since, until }) => one.id === id && one.since === since && one.until === until))
    : (byId ?? byExternalId)
}

/** Returns the quantities of a meter over time. Intervals begin by the clock of the asked time zone. */
export const quantitiesOf = async (db: Db, scope: TenantScope, meter: Meter, query: Query, reader?: CopyReader): Promise<MeterQuantities> => {
  refuseRange(query)
  const [start, end] = [query.start_timestamp, query.end_timestamp]
  const starts = bucketStarts({ start, end }, query.interval, query.timezone)
  const subjects = await subjectsOf(db, scope, meter.organization_id, query)
  const question: Question = { start, end, starts, subjects, metadata: query.metadata, combine: query.customer_aggregation_function }
  const copied = reader && (await quantitiesFromCopy(db, reader, meter, question))
  const { quantities, total } = copied ?? (await loadQuantities(db, scope, meter, question))
  return { quantities: starts.map((timestamp, at) => ({ timestamp, quantity: numberOf(quantities.get(at) ?? '0') })), total: numberOf(total) }
}
