import type { PageRequest } from '@bursar/contract'
import { sql } from 'kysely'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import type { TestClockRow } from '../../../platform/clocks.sql.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { exists } from '../customers/customers.sql.ts'

/** A clock, and how many customers live by it. */
export type CountedClock = TestClockRow & { readonly customers_count: number }

const list = {
  table: 'test_clocks',
  tenant: 'organization_id',
  id: 'id',
  sortable: { created_at: { expression: 'created_at', type: 'timestamptz' }, name: { expression: `coalesce(name, '')`, type: 'text' } },
} as const satisfies ListSpec<string>

const counted = (db: Db, reach: Reach) =>
  db.q
    .selectFrom('test_clocks')
    .selectAll()
    .select(
      sql<number>`(select count(*) from customers c where c.organization_id = test_clocks.organization_id and c.clock_id = test_clocks.id and ${exists(reach, 'c')})`.as(
        'customers_count',
      ),
    )
    .where('organization_id', '=', withinReach(reach))

export const listClocks = (db: Db, reach: Reach, query: PageRequest & { organization_id: readonly string[]; sorting: readonly string[] }) =>
  listRows(db, list, organizationIds(reach, query.organization_id), query, [], (found) => counted(db, reach).where('id', 'in', found).execute())

export const findClock = (db: Db, reach: Reach, id: string): Promise<CountedClock | undefined> => counted(db, reach).where('id', '=', id).executeTakeFirst()

/** Whether an organization has such a clock. */
export const isClockOf = async (db: Db, organization_id: string, id: string): Promise<boolean> =>
  (await db.q.selectFrom('test_clocks').select('id').where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirst()) !== undefined

/** Holds the clock: it is sent on by one caller at a time, and nobody dates anything by it meanwhile. */
export const lockClock = async (tx: Tx, reach: Reach, id: string): Promise<Locked<TestClockRow> | undefined> =>
  (await tx.q
    .selectFrom('test_clocks')
    .selectAll()
    .where('organization_id', '=', withinReach(reach))
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirst()) as Locked<TestClockRow> | undefined

export const insertClock = async (tx: Tx, clock: TestClockRow): Promise<void> => {
  await tx.q.insertInto('test_clocks').values(clock).execute()
}

export const changeClock = async (tx: Tx, clock: Locked<TestClockRow>, changes: Partial<TestClockRow>): Promise<void> => {
  await tx.q.updateTable('test_clocks').set(changes).where('organization_id', '=', clock.organization_id).where('id', '=', clock.id).execute()
}
