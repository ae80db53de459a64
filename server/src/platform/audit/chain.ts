import { hash } from 'node:crypto'

/** One entry of the log, as it is stored: `changes` is the text, letter by letter. */
export interface Entry {
  readonly organization_id: string
  readonly id: string
  readonly at: Date
  readonly operation: string
  readonly request_id: string
  readonly actor_kind: 'organization' | 'user' | 'customer' | 'member' | 'anonymous'
  readonly actor_id: string | null
  readonly credential_id: string | null
  readonly client_id: string | null
  readonly resource_id: string | null
  readonly changes: string
}

/** What an empty log has for the hash of its last entry. */
export const beginning = '0'.repeat(64)

/** The hash of an entry: of everything it says, of its place, and of the hash before it. */
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
