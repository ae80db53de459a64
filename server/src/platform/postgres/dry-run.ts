import type { Transact, Tx } from './postgres.ts'

const undone = new Error('dry run: rolled back')

/** Runs work as a dry run: returns its result and rolls the transaction back. */
export const runDry = async <T>(transact: Transact, work: (tx: Tx) => Promise<T>): Promise<T> => {
  let seen: { readonly answer: T } | undefined
  try {
    await transact(async (tx) => {
      seen = { answer: await work(tx) }
      throw undone
    })
  } catch (error) {
    if (error !== undone) throw error
  }
  return seen!.answer
}
