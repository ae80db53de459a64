import { setImmediate } from 'node:timers/promises'

/**
 * Runs work of the process while the database runs a statement. Waits for both, even if one fails: no statement may be sent after
 * the transaction has ended.
 */
export const duringStatement = async <A, B>(statement: Promise<A>, work: () => B | Promise<B>): Promise<[A, Awaited<B>]> => {
  // The statement is sent in this turn of the event loop, and the work begins in the next.
  const [sent, done] = await Promise.allSettled([statement, setImmediate().then(work)])
  if (sent.status === 'rejected') throw sent.reason
  if (done.status === 'rejected') throw done.reason
  return [sent.value, done.value]
}
