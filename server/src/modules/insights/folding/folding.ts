import type { Deps } from '../../handlers.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { foldFacts, foldUsage, hasUnfolded, holdFolding } from './folding.sql.ts'

/** Facts that one transaction folds. */
const foldedAtOnce = 5000

/**
 * Folds the facts that were noted since the last run into quarter hours. Readers add unfolded facts themselves, so folding
 * only makes them faster.
 */
export const foldMetrics = async ({ db, transact }: Pick<Deps, 'db' | 'transact'>): Promise<void> => {
  if (!(await hasUnfolded(db))) return
  const fold = (work: (tx: Tx, most: number) => Promise<number>) =>
    transact(async (tx) => ((await holdFolding(tx, { waits: false })) ? work(tx, foldedAtOnce) : 0))
  // Each round is a short transaction. The bound keeps the task from running without an end under constant load.
  for (let round = 0; round < 50; round++) {
    const folded = Math.max(await fold(foldFacts), await fold(foldUsage))
    if (folded < foldedAtOnce) return
  }
}
