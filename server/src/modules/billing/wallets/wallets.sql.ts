import type { CustomerWallet, PageRequest } from '@bursar/contract'
import { sql } from 'kysely'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'

const list = {
  table: 'customer_balances',
  tenant: 'organization_id',
  id: 'id',
  sortable: {
    created_at: { expression: 'created_at', type: 'timestamptz' },
    balance: { expression: 'amount', type: 'bigint' },
  },
} as const satisfies ListSpec<string>

const selected = (db: Db, reach: Reach, customer_id: string) =>
  db.q
    .selectFrom('customer_balances')
    .select(['organization_id', 'id', 'created_at', 'modified_at', 'customer_id', 'currency', 'amount as balance'])
    .where('organization_id', '=', withinReach(reach))
    .where('customer_id', '=', customer_id)

/** What one customer has, in each currency: the very balance that the ledger keeps. */
export const listWalletsOf = (db: Db, reach: Reach, customer_id: string, query: PageRequest & { sorting: readonly string[] }) =>
  listRows(db, list, organizationIds(reach), query, [sql`customer_id = ${customer_id}`], (found) =>
    selected(db, reach, customer_id).where('id', 'in', found).execute(),
  )

export const findWalletOf = (db: Db, reach: Reach, customer_id: string, id: string): Promise<CustomerWallet | undefined> =>
  selected(db, reach, customer_id).where('id', '=', id).executeTakeFirst()
