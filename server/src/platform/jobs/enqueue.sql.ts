import { sql } from 'kysely'
import { addJob, type WaitingJob } from '../postgres/ending.sql.ts'
import type { Tx } from '../postgres/postgres.ts'
import { catalogue, cursorNames, jobClasses, type JobName, type NewPayload } from './catalogue.ts'
import { flagsOf } from './slots.ts'

/** Enqueues a job at the end of this transaction, if it commits. A waiting job of the same container takes its place. */
export const enqueue = <N extends JobName>(tx: Tx, name: N, payload: NewPayload<N>): Promise<void> => addJob(tx, jobOf(name, payload))

/**
 * Enqueues a job at once. Returns true if a waiting job of the same container was replaced instead of adding one. A running job
 * does not count as waiting, because it may have read the old data.
 */
export const enqueueOrReplace = async <N extends JobName>(tx: Tx, name: N, payload: NewPayload<N>): Promise<boolean> => {
  const job = jobOf(name, payload)
  const { rows } = await sql<{ waited: boolean }>`
    select enqueue_job(${name}, ${JSON.stringify(job.payload)}::jsonb, ${job.priority}::int, ${job.flags}::text[], ${job.key}) as waited`.execute(tx.q)
  return rows[0]!.waited
}

const jobOf = <N extends JobName>(name: N, payload: NewPayload<N>): WaitingJob => {
  const { class: jobClass, payload: schema, keyed } = catalogue[name]
  const parsed: Record<string, unknown> = schema.parse(payload)
  return { name, payload: parsed, priority: jobClasses[jobClass].priority, flags: flagsOf(jobClass, parsed), key: keyed ? keyOf(name, parsed) : null }
}

/** The key of a container: the ids of the payload, without the position of a walk. */
const keyOf = (name: JobName, payload: Readonly<Record<string, unknown>>): string =>
  [
    name,
    ...Object.entries(payload)
      .filter(([field]) => !cursorNames.includes(field))
      .map(([, value]) => (typeof value === 'string' ? value : '')),
  ].join(':')
