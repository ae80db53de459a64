import { parseArgs } from 'node:util'

const described = {
  seconds: { type: 'string', default: '4' },
  rounds: { type: 'string', default: '3' },
  rows: { type: 'string', default: '1000000' },
  'memory-rows': { type: 'string', default: '1000000' },
  most: { type: 'string', default: '1000000' },
  connections: { type: 'string', default: '16' },
  renewals: { type: 'string', default: '1000' },
  due: { type: 'string', default: '20000' },
  seats: { type: 'string', default: '1000000' },
  requests: { type: 'string', default: '100000' },
  events: { type: 'string', default: '10000000' },
  copied: { type: 'string', default: '5000000' },
  subscriptions: { type: 'string', default: '100000' },
  questions: { type: 'string', default: '10000' },
} as const
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { ...described, keep: { type: 'boolean', default: false }, note: { type: 'string' } },
})
const names = Object.keys(described) as (keyof typeof described)[]

/** Options from the command line. */
export const options = {
  names: positionals,
  /** True if results are saved. A run that is shorter or smaller than the default is less reliable, so it is saved only with `--keep`. */
  keep: values.keep || names.every((name) => Number(values[name]) >= Number(described[name].default)),
  /** A note about this run for readers of the figures. */
  note: values.note,
  /** Duration of one load in seconds. */
  seconds: Number(values.seconds),
  rounds: Number(values.rounds),
  /** Number of rows of a large organization. */
  rows: Number(values.rows),
  /** Number of orders in the export whose memory is measured. The goal applies to 10,000,000 orders. */
  memoryRows: Number(values['memory-rows']),
  /** Largest number of orders that the benchmark `scale` measures. It multiplies the number of orders by ten until this maximum. */
  most: Number(values.most),
  connections: Number(values.connections),
  renewals: Number(values.renewals),
  due: Number(values.due),
  /** Number of seats of the organization that is migrated. */
  seats: Number(values.seats),
  /** Number of requests before the memory of the API is measured. */
  requests: Number(values.requests),
  /** Number of usage events of the larger customer. */
  events: Number(values.events),
  /** Number of usage events that are copied to the event store, and over which both stores aggregate. */
  copied: Number(values.copied),
  /** Number of subscriptions whose metrics are computed. */
  subscriptions: Number(values.subscriptions),
  /** Number of random questions about metrics that are compared with the records. */
  questions: Number(values.questions),
}
