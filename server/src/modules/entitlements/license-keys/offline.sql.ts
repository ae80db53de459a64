import { sql } from 'kysely'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

export interface SigningKeyRow {
  kid: string
  created_at: Date
  public_jwk: { kty: 'OKP'; crv: 'Ed25519'; alg: 'EdDSA'; use: 'sig'; kid: string; x: string }
  sealed: string
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    licence_signing_keys: SigningKeyRow
  }
}

/** Takes an advisory lock, so that only one process at a time creates licence signing keys. */
export const holdSigningKeys = async (tx: Tx): Promise<void> => {
  await sql`select pg_advisory_xact_lock(hashtext('licence_signing_keys'))`.execute(tx.q)
}

/** Returns all signing keys, newest first. Retired keys are included, because licences outlive the keys that signed them. */
export const signingKeys = (db: Db): Promise<SigningKeyRow[]> =>
  db.q.selectFrom('licence_signing_keys').selectAll().orderBy('created_at', 'desc').orderBy('kid').execute()

export const insertSigningKey = async (tx: Tx, key: SigningKeyRow): Promise<void> => {
  await tx.q
    .insertInto('licence_signing_keys')
    .values({ ...key, public_jwk: JSON.stringify(key.public_jwk) as never })
    .execute()
}
