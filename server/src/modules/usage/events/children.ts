import type { Deps } from '../../handlers.ts'
import { holdParents } from './ingest.sql.ts'
import { correctDepths, findWrongDepths, hasUnmergedChildren, mergeChildCounts } from './parents.sql.ts'

/** Numbers of children that one transaction merges. */
const mergedAtOnce = 5000

/** Merges the numbers of children that ingest and corrections have appended since the last run. */
export const mergeChildren = async ({ db, transact }: Pick<Deps, 'db' | 'transact'>): Promise<void> => {
  if (!(await hasUnmergedChildren(db))) return
  // Each round is a short transaction. The bound keeps the task from running without an end under constant load.
  for (let round = 0; round < 50; round++) if ((await transact((tx) => mergeChildCounts(tx, mergedAtOnce))) < mergedAtOnce) return
}

/** Children whose depth one transaction corrects. Requests with parents wait for it, so it is short. */
const correctedAtOnce = 2000
/** Organizations and transactions of one run. */
const organizations = 100
const rounds = 50

/** Corrects the depth of descendants whose ancestor arrived later, in slices. The organizations take turns. */
export const deepenEvents = async ({ db, transact }: Pick<Deps, 'db' | 'transact'>, most = correctedAtOnce): Promise<void> => {
  let waiting = await findWrongDepths(db, organizations)
  for (let round = 0; round < rounds && waiting.length > 0; round++) {
    const left: string[] = []
    for (const organization_id of waiting) {
      const isLeft = await transact(async (tx) => {
        await holdParents(tx, organization_id, 'exclusive')
        return correctDepths(tx, organization_id, most)
      })
      if (isLeft) left.push(organization_id)
    }
    waiting = left
  }
}
