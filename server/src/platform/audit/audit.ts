import { isDeepStrictEqual } from 'node:util'
import type { Actor, Cli } from '../../kernel/actors.ts'
import { newId } from '../../kernel/ids.ts'
import type { Hasher } from '../../kernel/secrets.ts'
import type { Discretion } from '../personal.sql.ts'
import { writeEnding } from '../postgres/ending.sql.ts'
import type { Tx } from '../postgres/postgres.ts'

/** The context that an audit entry records: the operation, the request and its actor. */
export interface AuditContext {
  readonly operation: string
  readonly request_id: string
  readonly actor: Actor | Cli
  /** The resource that the request names. Defaults to the first changed row. */
  readonly resource_id?: string | undefined
}

export interface Audit {
  /**
   * Adds the audit entries for all changes of this transaction, which must be complete. Entries and changes commit
   * together or not at all.
   */
  readonly record: (tx: Tx, deed: AuditContext) => Promise<void>
}

type Row = Record<string, unknown>
interface Noted {
  readonly table: string
  readonly was?: Row
  readonly is?: Row
}
interface Change {
  readonly table: string
  readonly id: string | null
  readonly action: 'created' | 'updated' | 'deleted'
  readonly fields: Record<string, { before?: unknown; after?: unknown }>
}

/** The organization id of audit entries that belong to no organization. */
export const nobody = '00000000-0000-0000-0000-000000000000'

/** An audit log that records nothing. Benchmarks use it to measure the cost of recording. */
export const noAudit: Audit = { record: async () => undefined }

export const openAudit = (hasher: Hasher, { personal, secret }: Discretion): Audit => {
  /** Replaces a personal value with a keyed digest. The digest shows only whether two values are equal. */
  const discreetly = (organization_id: string, table: string, column: string, value: unknown) =>
    value === null || personal[table]?.columns[column] === undefined
      ? value
      : `digest:${hasher.digest(`audit ${organization_id} ${typeof value === 'string' ? value : JSON.stringify(value)}`)}`

  const tell = (organization_id: string, { table, was, is }: Noted): Change => {
    const fields: Change['fields'] = {}
    for (const column of Object.keys(is ?? was!)) {
      if (unremarkable.has(column) || secret[table]?.includes(column) || isDeepStrictEqual(was?.[column], is?.[column])) continue
      fields[column] = {
        ...(was ? { before: discreetly(organization_id, table, column, was[column]) } : {}),
        ...(is ? { after: discreetly(organization_id, table, column, is[column]) } : {}),
      }
    }
    const { id } = (is ?? was)!
    return { table, id: typeof id === 'string' ? id : null, action: was ? (is ? 'updated' : 'deleted') : 'created', fields }
  }

  return {
    record: async (tx, { operation, request_id, actor, resource_id }) => {
      const at = tx.clock.wall()
      const noted = readNotes(await writeEnding(tx))
      // An anonymous request that changed nothing is not recorded, so that attackers cannot fill the log.
      if (noted.rows.length === 0 && actor.kind === 'anonymous') return
      const byOwner = Map.groupBy(noted.rows, (row) => ownerOf(row) ?? homeOf(actor))
      if (byOwner.size === 0) byOwner.set(homeOf(actor), [])
      tx.ending.entries.push(
        ...[...byOwner].map(([organization_id, rows]) => {
          const changes = rows.map((row) => tell(organization_id, row))
          return {
            organization_id,
            id: newId(at),
            at,
            operation,
            request_id,
            ...whoIs(actor),
            resource_id: resource_id ?? changes.find(({ id }) => id !== null)?.id ?? null,
            changes: JSON.stringify({ changes, complete: noted.complete }),
          }
        }),
      )
    },
  }
}

/** Columns that are not listed as changed fields, because the audit entry already has their values. */
const unremarkable = new Set(['organization_id', 'id', 'created_at', 'modified_at'])

/**
 * Parses the changes that the triggers recorded, one line per row. The last line is empty if no row was omitted; too
 * many rows are cut off.
 */
const readNotes = (notes: string): { rows: Noted[]; complete: boolean } => {
  const lines = notes.split('\n')
  const complete = lines.pop() === ''
  return { rows: lines.map((line) => JSON.parse(line) as Noted), complete }
}

const ownerOf = ({ table, was, is }: Noted): string | undefined => {
  const { id, organization_id } = (is ?? was)!
  const owner = table === 'organizations' ? id : organization_id
  return typeof owner === 'string' ? owner : undefined
}

/** Returns the organization of the actor. Its audit log gets the entries for rows that belong to no organization. */
const homeOf = (actor: Actor | Cli): string =>
  actor.kind === 'organization' || actor.kind === 'portal' || actor.kind === 'cli' ? (actor.organization_id ?? nobody) : nobody

const whoIs = (actor: Actor | Cli) => {
  const credential = actor.kind === 'anonymous' || actor.kind === 'cli' ? null : actor.credential_id
  switch (actor.kind) {
    case 'organization':
      return { actor_kind: 'organization' as const, actor_id: actor.organization_id, credential_id: credential, client_id: null }
    case 'user':
      return { actor_kind: 'user' as const, actor_id: actor.user_id, credential_id: credential, client_id: actor.client_id }
    case 'portal':
      return actor.member_id === null
        ? { actor_kind: 'customer' as const, actor_id: actor.customer_id, credential_id: credential, client_id: null }
        : { actor_kind: 'member' as const, actor_id: actor.member_id, credential_id: credential, client_id: null }
    case 'cli':
    case 'anonymous':
      return { actor_kind: actor.kind, actor_id: null, credential_id: null, client_id: null }
  }
}
