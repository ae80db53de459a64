import { sql } from 'kysely'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

export type KeyState = 'next' | 'active' | 'retiring' | 'retired'

export interface KeyRow {
  kid: string
  state: KeyState
  public_jwk: Record<string, string>
  sealed: string | null
  created_at: Date
  /** Time of the last change of state. */
  changed_at: Date
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    signing_keys: KeyRow
  }
}

/** Takes an advisory lock, so that only one process at a time creates or rotates signing keys. */
export const holdKeys = async (tx: Tx): Promise<void> => {
  await sql`select pg_advisory_xact_lock(hashtext('signing_keys'))`.execute(tx.q)
}

/** Returns the published keys, the signing key first. */
export const publishedKeys = (db: Db): Promise<KeyRow[]> =>
  db.q
    .selectFrom('signing_keys')
    .selectAll()
    .where('state', '<>', 'retired')
    .orderBy(sql`state = 'active'`, 'desc')
    .orderBy('created_at')
    .execute()

export const insertKey = async (tx: Tx, key: KeyRow): Promise<void> => {
  await tx.q
    .insertInto('signing_keys')
    .values({ ...key, public_jwk: JSON.stringify(key.public_jwk) as never })
    .execute()
}

export const moveKey = async (tx: Tx, kid: string, state: KeyState, now: Date): Promise<void> => {
  await tx.q
    .updateTable('signing_keys')
    .set({ state, changed_at: now, ...(state === 'retired' ? { sealed: null } : {}) })
    .where('kid', '=', kid)
    .execute()
}
