import { type TenantScope } from '../../../kernel/actors.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { openSlice } from '../../../platform/jobs/walk.ts'
import { forgetPerson, type Discretion } from '../../../platform/personal.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { forgetSubjects } from '../../identity/index.ts'
import { deleteCustomer } from './customers.ts'
import { markForgotten } from '../records/customers.sql.ts'
import { type CustomerRow } from '../records/customer-rows.sql.ts'
import { clearAnswers, clearPayloads, deleteTraces, findForgotten, personOf } from './forgetting.sql.ts'

/**
 * Anonymizes a customer and its members. Clears their rows in this transaction. A job clears earlier events, webhook
 * responses and stored answers, and is retried until it succeeds. Events emitted in this transaction contain no personal
 * data.
 */
export const forget = async (tx: Tx, discretion: Discretion, scope: TenantScope, customer: Locked<CustomerRow>): Promise<void> => {
  const person = await personOf(tx, customer)
  await forgetSubjects(tx, await deleteTraces(tx, person))
  await forgetPerson(tx, discretion, person)
  const forgotten = await markForgotten(tx, scope, customer)
  if (forgotten.deleted_at === null) await deleteCustomer(tx, scope, forgotten)
  await enqueue(tx, 'customers.forget', { organization_id: customer.organization_id, customer_id: customer.id })
}

/**
 * Clears everything recorded about the person before the anonymization, a thousand rows at a time. Continues in another
 * job when its slice is over. Idempotent.
 */
export const forgetTraces = async (
  { db, transact, platform }: Deps,
  { organization_id, customer_id }: { organization_id: string; customer_id: string },
): Promise<void> => {
  const forgotten = await findForgotten(db, organization_id, customer_id)
  if (!forgotten) return
  const isOver = openSlice()
  while ((await transact((tx) => clearPayloads(tx, platform.discretion, forgotten, 1000))) === 1000)
    if (isOver()) {
      await transact((tx) => enqueue(tx, 'customers.forget', { organization_id, customer_id }))
      return
    }
  await transact((tx) => clearAnswers(tx, platform.discretion, forgotten))
}
