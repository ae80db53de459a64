import type { VatStatus } from '../../../gateways/tax/vat.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

interface VatCheckTable {
  /** The keyed hash of the number and the organization. */
  hash: string
  status: VatStatus
  /** The wall time from which the answer no longer counts. */
  ends_at: Date
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    vat_checks: VatCheckTable
  }
}

export const findVatCheck = async (db: Db, hashes: readonly string[], now: Date): Promise<VatStatus | undefined> =>
  (await db.q.selectFrom('vat_checks').select('status').where('hash', 'in', hashes).where('ends_at', '>', now).executeTakeFirst())?.status

export const saveVatCheck = async (tx: Tx, check: VatCheckTable): Promise<void> => {
  const { status, ends_at } = check
  await tx.q
    .insertInto('vat_checks')
    .values(check)
    .onConflict((conflict) => conflict.column('hash').doUpdateSet({ status, ends_at }))
    .execute()
}

/** Deletes answers that no longer count. */
export const purgeVatChecks = async (tx: Tx): Promise<void> => {
  await tx.q.deleteFrom('vat_checks').where('ends_at', '<=', tx.clock.wall()).execute()
}
