import { later, minutes } from '../../../platform/clock.ts'
import type { Deps } from '../../handlers.ts'
import { hasUnlinked, linkMembers, linkSubjects } from './subjects.sql.ts'

/** No transaction takes this long. So a trigger and an ingest that missed each other have both committed by then. */
const recent = 10 * minutes
/** Rows that one transaction links. */
const atOnce = 1000

type Linking = Pick<Deps, 'db' | 'transact' | 'platform'>

const linkAfter = async ({ db, transact }: Linking, since: Date | null): Promise<void> => {
  if (!(await hasUnlinked(db, since))) return
  while ((await transact((tx) => linkSubjects(tx, since, atOnce))) === atOnce);
  while ((await transact((tx) => linkMembers(tx, since, atOnce))) === atOnce);
}

/** Links the recent usage of customers and members that were created while their first event arrived. */
export const linkRecentUsage = (deps: Linking): Promise<void> => linkAfter(deps, later(deps.platform.clock.wall(), -recent))

/** Links all usage that is not linked yet, in case the workers did not run for some time. */
export const linkAllUsage = (deps: Linking): Promise<void> => linkAfter(deps, null)
