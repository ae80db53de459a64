import { type TenantScope } from '../../../kernel/actors.ts'
import { later, minutes } from '../../../platform/clock.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { openSlice } from '../../../platform/jobs/walk.ts'
import { forgetLate, forgetPerson } from '../../../platform/personal.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { forgetSubjects } from '../../identity/index.ts'
import { deleteCustomer } from './customers.ts'
import { markForgotten } from '../records/customers.sql.ts'
import { type CustomerRow } from '../records/customer-rows.sql.ts'
import { clearAnswers, clearPayloads, deleteTraces, findForgotten, findForgottenSince, personOf } from './forgetting.sql.ts'

/**
 * Anonymizes a customer and its members. Clears their rows in this transaction. A job clears texts of usage, earlier events,
 * webhook responses and stored answers, and is retried until it succeeds. Events emitted in this transaction contain no personal
 * data.
 */
export const forget = async (
  tx: Tx,
  { discretion, hasher }: Pick<Platform, 'discretion' | 'hasher'>,
  scope: TenantScope,
  customer: Locked<CustomerRow>,
): Promise<void> => {
  const person = await personOf(tx, hasher, customer)
  await forgetSubjects(tx, await deleteTraces(tx, person))
  // Marks the customer first, so that no system event takes the erasure for an update.
  const forgotten = await markForgotten(tx, scope, customer)
  await forgetPerson(tx, discretion, person)
  if (forgotten.deleted_at === null) await deleteCustomer(tx, scope, forgotten)
  await enqueue(tx, 'customers.forget', { organization_id: customer.organization_id, customer_id: customer.id })
}

/**
 * Clears everything recorded about the person before the anonymization, a thousand rows at a time. Also clears rows that a
 * concurrent request has inserted since. Continues in another job when its slice is over. Idempotent.
 */
export const forgetTraces = async (
  { db, transact, platform }: Deps,
  { organization_id, customer_id }: { organization_id: string; customer_id: string },
): Promise<void> => {
  const forgotten = await findForgotten(db, organization_id, customer_id)
  if (!forgotten) return
  const isOver = openSlice()
  const { discretion } = platform
  const clear = async (work: (tx: Tx) => Promise<number>): Promise<'done' | 'over'> => {
    while ((await transact(work)) === 1000) if (isOver()) return 'over'
    return 'done'
  }
  const isLeft =
    (await clear((tx) => forgetLate(tx, discretion, organization_id, customer_id, 1000))) === 'over' ||
    (await clear((tx) => clearPayloads(tx, discretion, forgotten, 1000))) === 'over'
  if (isLeft) {
    await transact((tx) => enqueue(tx, 'customers.forget', { organization_id, customer_id }))
    return
  }
  await transact((tx) => clearAnswers(tx, platform.discretion, forgotten))
}

/** Time after an anonymization in which a request that began before it may still insert rows. No transaction takes this long. */
const lateFor = 30 * minutes

/** Enqueues the job again for customers that were anonymized lately. It clears rows that concurrent requests inserted after its first run. */
export const forgetAgain = async ({ db, transact, platform }: Pick<Deps, 'db' | 'transact' | 'platform'>): Promise<void> => {
  const since = later(platform.clock.wall(), -lateFor)
  let after: string | null = null
  do {
    const some = await findForgottenSince(db, since, after, 1000)
    await transact(async (tx) => {
      for (const one of some) await enqueue(tx, 'customers.forget', one)
    })
    after = some.length === 1000 ? some.at(-1)!.customer_id : null
  } while (after !== null)
}
