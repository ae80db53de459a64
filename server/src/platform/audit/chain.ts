import { hash } from 'node:crypto'

/** One entry of the audit log, as stored. `changes` is the exact JSON text. */
export interface Entry {
  readonly organization_id: string
  readonly id: string
  readonly at: Date
  readonly operation: string
  readonly request_id: string
  readonly actor_kind: 'organization' | 'user' | 'customer' | 'member' | 'anonymous' | 'cli'
  readonly actor_id: string | null
  readonly credential_id: string | null
  readonly client_id: string | null
  readonly resource_id: string | null
  readonly changes: string
}

/** The previous hash of the first entry. */
export const beginning = '0'.repeat(64)

/** Computes the hash of an audit entry from its content, its sequence number and the hash of the previous entry. */
export const link = (previous: string, sequence: number, entry: Entry): string =>
  hash(
    'sha256',
    JSON.stringify([
      previous,
      sequence,
      entry.organization_id,
      entry.id,
      entry.at.toISOString(),
      entry.operation,
      entry.request_id,
      entry.actor_kind,
      entry.actor_id,
      entry.credential_id,
      entry.client_id,
      entry.resource_id,
      entry.changes,
    ]),
  )
