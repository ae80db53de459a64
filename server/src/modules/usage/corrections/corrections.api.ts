import { correctEvents } from '@bursar/contract'
import { write } from '../../handlers.ts'
import { eventWrites } from '../events/concurrency.ts'
import { correctUsageEvents, organizationOf } from './corrections.ts'

export const operations = [
  write(
    correctEvents,
    (tx, { scope, body, raw }) => correctUsageEvents(tx, scope, body, raw.numbers),
    ({ scope, body, charge }) => charge('ingested_events', `organization:${organizationOf(scope, body)}`, Math.max(1, body.corrections.length)),
    ({ scope, body }, run) => eventWrites.run([organizationOf(scope, body)], run),
  ),
]
