import { ResourceNotFound, type EventType, type EventTypeUpdate } from '@bursar/contract'
import type { z } from 'zod'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { permit } from '../../organizations/index.ts'
import type { Deps } from '../../handlers.ts'
import { foldCounts, hasUnfolded, lockType, updateType } from './event-types.sql.ts'

/** Counts of names that one transaction merges. */
const foldedAtOnce = 5000

/** Replaces the label and the selector of a type. A selector that is not sent is removed. */
export const updateEventType = async (tx: Tx, scope: TenantScope, id: string, body: z.output<typeof EventTypeUpdate>): Promise<EventType> => {
  const type = await lockType(tx, scope, id)
  if (!type) throw new ResourceNotFound()
  permit(scope, type.organization_id, 'analytics:manage')
  return updateType(tx, type, { modified_at: tx.clock.wall(), label: body.label, label_property_selector: body.label_property_selector ?? null })
}

/** Merges the counts of names that ingest has appended since the last run. */
export const mergeNames = async ({ db, transact }: Pick<Deps, 'db' | 'transact'>): Promise<void> => {
  if (!(await hasUnfolded(db))) return
  // Each round is a short transaction. The bound keeps the task from running without an end under constant load.
  for (let round = 0; round < 50; round++) if ((await transact((tx) => foldCounts(tx, foldedAtOnce))) < foldedAtOnce) return
}
