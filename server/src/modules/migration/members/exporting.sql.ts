import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler, sql } from 'kysely'
import { text, type Export } from '../../../platform/postgres/exports.sql.ts'
import { marks, problems, relations } from './planning.sql.ts'

/**
 * Compiles SQL statements to text without a database connection. COPY accepts no parameters, so the statement reads the
 * organization id from a session setting.
 */
const words = new Kysely<Record<string, never>>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
})

const organization = sql<string>`(select (current_setting('bursar.export')::jsonb ->> 'organization')::uuid)`

const plan = sql`
  with ${relations(organization, 'all')}, mark as materialized (${marks(organization)})
  select 'member' as what, member_id as id, member_id, customer_id as customer_before, customer_id as customer_after, email, name,
    case when name_taken then null else external_id end as external_id, role as says from made
  union all select kind, id, member_id, coalesce(holder, buyer), buyer, email, null, null, null from person where member_id is not null
  union all select 'customer', id, null, id, null, null, null, null, 'answers 404 after the switch' from mark where pure
  union all select 'customer', id, null, id, id, null, null, null, 'stays: ' || array_to_string(because, ', ') from mark where holds and not pure
  union all select 'customer', m.id, null, m.id, m.id, null, null, null, 'becomes a team' from mark m
    join customers c on c.organization_id = ${organization} and c.id = m.id and c.type <> 'team' where m.team
  union all select resource, id, null, null, null, null, null, null, problem from (${problems}) t`

const compiled = (): string => {
  const { sql: written, parameters } = plan.compile(words)
  if (parameters.length > 0) throw new Error('an export accepts no parameters')
  return written
}

/** Returns the COPY statement that exports the whole plan as a CSV file. */
export const planExport = (organization_id: string): Export => {
  const rows = compiled()
  return {
    copy: `copy (select what as "What", id as "ID", member_id as "Member ID", customer_before as "Customer ID Before", customer_after as "Customer ID After",
      ${text('email')} as "Email", ${text('name')} as "Name", ${text('external_id')} as "External ID", says as "Says" from (${rows}) p order by what, id, says) to stdout with (format csv, header)`,
    count: `select count(*) as total from (${rows}) p`,
    asked: { organization: organization_id },
    organizations: [organization_id],
    timezone: 'UTC',
  }
}
