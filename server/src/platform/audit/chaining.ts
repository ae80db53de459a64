import type { Db, Transact } from '../postgres/postgres.ts'
import { chain, findUnchained } from './audit.sql.ts'

/**
 * Assigns sequence numbers and hashes to all committed entries of all audit logs. Runs as a periodic task, so that no
 * request waits for it.
 */
export const chainAuditLog = async ({ db, transact }: { readonly db: Db; readonly transact: Transact }): Promise<void> => {
  for (const organization_id of await findUnchained(db)) while (await transact((tx) => chain(tx, organization_id)));
}
