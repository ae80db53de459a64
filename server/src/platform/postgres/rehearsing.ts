import type { Transact, Tx } from './postgres.ts'

const undone = new Error('rehearsed, and undone')

/** Does everything, sees what comes of it, and undoes it: what is answered is what would have happened, and nothing has. */
export const rehearse = async <T>(transact: Transact, work: (tx: Tx) => Promise<T>): Promise<T> => {
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
