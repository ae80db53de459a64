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
} as const
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { ...described, keep: { type: 'boolean', default: false }, note: { type: 'string' } },
})
const names = Object.keys(described) as (keyof typeof described)[]

/** What the command line asks for. */
export const options = {
  names: positionals,
  /** A run that is shorter or smaller than usual says little: what it finds is kept only where that is asked for. */
  keep: values.keep || names.every((name) => Number(values[name]) >= Number(described[name].default)),
  /** What a reader of the figures should know about this run. */
  note: values.note,
  /** How long one load lasts. */
  seconds: Number(values.seconds),
  rounds: Number(values.rounds),
  /** How many rows a large organization has. */
  rows: Number(values.rows),
  /** How many orders the export has whose memory is watched: 10,000,000 is the size that the goal is for. */
  memoryRows: Number(values['memory-rows']),
  /** How far `scale` goes, in steps of ten. */
  most: Number(values.most),
  connections: Number(values.connections),
  renewals: Number(values.renewals),
  due: Number(values.due),
  /** How many seats the organization has that is migrated. */
  seats: Number(values.seats),
}
