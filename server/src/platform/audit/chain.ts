import { hash } from 'node:crypto'
import type { Entry } from '../postgres/ending.sql.ts'

export type { Entry }

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
