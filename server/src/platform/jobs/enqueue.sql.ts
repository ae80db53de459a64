import { sql } from 'kysely'
import type { Tx } from '../postgres/postgres.ts'
import { catalogue, type JobName, type Payload } from './catalogue.ts'

/** Puts a job into the queue when, and only when, this transaction commits. */
export const enqueue = async <N extends JobName>(tx: Tx, name: N, payload: Payload<N>): Promise<void> => {
  await sql`select enqueue_job(${name}, ${JSON.stringify(catalogue[name].parse(payload))}::jsonb)`.execute(tx.q)
}
