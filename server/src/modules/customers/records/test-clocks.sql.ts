import type { PageRequest } from '@bursar/contract'
import { sql } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import type { TestClockRow } from '../../../platform/clocks.sql.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { inScope, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { exists } from './customer-rows.sql.ts'

/** A test clock with the number of customers on it. */
export type CountedClock = TestClockRow & { readonly customers_count: number }

const list = {
  table: 'test_clocks',
  tenant: 'organization_id',
  id: 'id',
  sortable: { created_at: { expression: 'created_at', type: 'timestamptz' }, name: { expression: `coalesce(name, '')`, type: 'text' } },
} as const satisfies ListSpec<string>

const counted = (db: Db, scope: TenantScope) =>
  db.q
    .selectFrom('test_clocks')
    .selectAll()
    .select(
      sql<number>`(select count(*) from customers c where c.organization_id = test_clocks.organization_id and c.clock_id = test_clocks.id and ${exists(scope, 'c')})`.as(
        'customers_count',
      ),
    )
    .where('organization_id', '=', inScope(scope))

export const listClocks = (db: Db, scope: TenantScope, query: PageRequest & { organization_id: readonly string[]; sorting: readonly string[] }) =>
  listRows(db, list, organizationIds(scope, query.organization_id), query, [], (found) => counted(db, scope).where('id', '=', oneOf(found)).execute())

export const findClock = (db: Db, scope: TenantScope, id: string): Promise<CountedClock | undefined> =>
  counted(db, scope).where('id', '=', id).executeTakeFirst()

/** Returns true if this test clock belongs to the organization. */
export const isClockOf = async (db: Db, organization_id: string, id: string): Promise<boolean> =>
  (await db.q.selectFrom('test_clocks').select('id').where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirst()) !== undefined

/** Locks the test clock. Serializes advances. Transactions that take their time from this clock wait for the lock. */
export const lockClock = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<TestClockRow> | undefined> =>
  (await tx.q.selectFrom('test_clocks').selectAll().where('organization_id', '=', inScope(scope)).where('id', '=', id).forNoKeyUpdate().executeTakeFirst()) as
    | Locked<TestClockRow>
    | undefined

export const insertClock = async (tx: Tx, clock: TestClockRow): Promise<void> => {
  await tx.q.insertInto('test_clocks').values(clock).execute()
}

export const changeClock = async (tx: Tx, clock: Locked<TestClockRow>, changes: Partial<TestClockRow>): Promise<void> => {
  await tx.q.updateTable('test_clocks').set(changes).where('organization_id', '=', clock.organization_id).where('id', '=', clock.id).execute()
}
