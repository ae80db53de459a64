import { listAuditLog, type AuditEntry } from '@bursar/contract'
import { chooseOne } from '../organizations/organizations.ts'
import { findHead, listEntries, type Logged } from '../../../platform/audit/audit.sql.ts'
import { read } from '../../handlers.ts'
import { permit } from '../permissions.ts'

const present = ({ at, actor_kind, actor_id, credential_id, client_id, changes, ...entry }: Logged): AuditEntry => {
  const told = JSON.parse(changes) as { changes: (Omit<AuditEntry['changes'][number], 'resource'> & { table: string })[]; complete: boolean }
  return {
    ...entry,
    created_at: at,
    actor: { kind: actor_kind, id: actor_id, credential_id, client_id },
    changes: told.changes.map(({ table, ...change }) => ({ resource: table, ...change })),
    complete: told.complete,
  }
}

export const operations = [
  read(listAuditLog, async (db, { scope, query }) => {
    const organization_id = chooseOne(scope, query.organization_id)
    permit(scope, organization_id, 'organization:manage')
    const head = await findHead(db, organization_id)
    const entries = await listEntries(db, organization_id, { ...query, limit: Math.min(query.limit, 100) })
    return { items: entries.map(present), head_sequence: head?.sequence ?? 0, head_hash: head?.hash ?? null }
  }),
]
