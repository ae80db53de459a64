import type { Address } from '@bursar/contract'
import { json } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

export interface SellerTable {
  organization_id: string
  modified_at: Date
  legal_name: string
  address: Address
  tax_id: string | null
  email: string | null
  footer: string | null
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    seller_identities: SellerTable
  }
}

export const findSellerIdentity = (db: Db, organization_id: string): Promise<SellerTable | undefined> =>
  db.q.selectFrom('seller_identities').selectAll().where('organization_id', '=', organization_id).executeTakeFirst()

export const putSellerIdentity = (tx: Tx, { organization_id, ...given }: SellerTable): Promise<SellerTable> => {
  const row = { ...given, address: json(given.address) }
  return tx.q
    .insertInto('seller_identities')
    .values({ organization_id, ...row })
    .onConflict((known) => known.column('organization_id').doUpdateSet(row))
    .returningAll()
    .executeTakeFirstOrThrow()
}
