import type { CustomerWallet, PageRequest } from '@bursar/contract'
import { sql } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { inScope, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'

const list = {
  table: 'customer_balances',
  tenant: 'organization_id',
  id: 'id',
  sortable: {
    created_at: { expression: 'created_at', type: 'timestamptz' },
    balance: { expression: 'amount', type: 'bigint' },
  },
  few: true,
} as const satisfies ListSpec<string>

const selected = (db: Db, scope: TenantScope, customer_id: string) =>
  db.q
    .selectFrom('customer_balances')
    .select(['organization_id', 'id', 'created_at', 'modified_at', 'customer_id', 'currency', 'amount as balance'])
    .where('organization_id', '=', inScope(scope))
    .where('customer_id', '=', customer_id)

/** Lists the balances of one customer per currency, as the ledger stores them. */
export const listWalletsOf = (db: Db, scope: TenantScope, customer_id: string, query: PageRequest & { sorting: readonly string[] }) =>
  listRows(db, list, organizationIds(scope), query, [sql`customer_id = ${customer_id}`], (found) =>
    selected(db, scope, customer_id).where('id', '=', oneOf(found)).execute(),
  )

export const findWalletOf = (db: Db, scope: TenantScope, customer_id: string, id: string): Promise<CustomerWallet | undefined> =>
  selected(db, scope, customer_id).where('id', '=', id).executeTakeFirst()
