import { type Reach } from '../../../kernel/actors.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { forgetPerson, type Discretion } from '../../../platform/personal.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means } from '../../handlers.ts'
import { forgetSubjects } from '../../identity/index.ts'
import { remove } from '../customers/customers.ts'
import { changeCustomer, type CustomerRow } from '../customers/customers.sql.ts'
import { clearAnswers, clearPayloads, deleteTraces, findForgotten, personOf } from './forgetting.sql.ts'

/**
 * Forgets a person, and the people of a team: what the rows say at once, in this transaction; what was said about them
 * elsewhere (events, what receivers answered, stored answers) by a job that comes back until it is done. What this
 * transaction still has to say, it says about nobody.
 */
export const forget = async (tx: Tx, discretion: Discretion, reach: Reach, customer: Locked<CustomerRow>): Promise<void> => {
  const person = await personOf(tx, customer)
  await forgetSubjects(tx, await deleteTraces(tx, person))
  await forgetPerson(tx, discretion, person)
  const forgotten = await changeCustomer(tx, reach, customer, { forgotten_at: tx.clock.wall() })
  if (forgotten.deleted_at === null) await remove(tx, reach, forgotten)
  await enqueue(tx, 'customers.forget', { organization_id: customer.organization_id, customer_id: customer.id })
}

/** Everything that was written down about the person before they were forgotten. A thousand rows at a time; run twice, it finds nothing. */
export const forgetTraces = async (
  { db, transact, platform }: Means,
  { organization_id, customer_id }: { organization_id: string; customer_id: string },
): Promise<void> => {
  const forgotten = await findForgotten(db, organization_id, customer_id)
  if (!forgotten) return
  while ((await transact((tx) => clearPayloads(tx, platform.discretion, forgotten, 1000))) === 1000);
  await transact((tx) => clearAnswers(tx, platform.discretion, forgotten))
}
