import { sql } from 'kysely'
import pg from 'pg'
import type { Secret } from '../../kernel/secrets.ts'
import { roles, type Db } from './postgres.ts'

/** Facts about the PostgreSQL server, read by a login before it switches to a serving role. */
export interface ServerFacts {
  readonly version: number
  readonly now: Date
  readonly max_connections: number
  readonly used_connections: number
  readonly login: string
  /** The serving roles that this login is not a member of. */
  readonly missing_roles: readonly string[]
  /** True if the login owns the tables or could become their owner. */
  readonly powerful: boolean
  readonly migrated: boolean
}

export const readServer = async (url: Secret, timeout_ms: number): Promise<ServerFacts> => {
  const timeouts = { connectionTimeoutMillis: timeout_ms, query_timeout: timeout_ms }
  const client = new pg.Client({ connectionString: url.reveal(), application_name: 'bursar_doctor', ...timeouts })
  // This listener does nothing, because pending queries report a broken connection. An error event without any listener
  // would end the process.
  client.on('error', () => undefined)
  await client.connect()
  try {
    const { rows } = await client.query<ServerFacts & { now: Date }>(
      `select current_setting('server_version_num')::int as version, clock_timestamp() as now, current_setting('max_connections')::int as max_connections,
         (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as used_connections, session_user::text as login,
         array(select name from unnest($1::text[]) name where not exists (select from pg_roles where rolname = name and pg_has_role(session_user, oid, 'member'))) as missing_roles,
         coalesce((select rolsuper from pg_roles where rolname = session_user) or
           (select pg_has_role(session_user, relowner, 'member') from pg_class where relname = 'deployment' and relnamespace = 'public'::regnamespace), false) as powerful,
         (select count(*) = 2 from pg_class where relname in ('deployment', 'schema_migrations') and relnamespace = 'public'::regnamespace) as migrated`,
      [roles],
    )
    return rows[0]!
  } finally {
    await client.end()
  }
}

/** Counts the live workers. Each holds an advisory lock. */
export const countWorkers = async (db: Db): Promise<number> => {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from worker_lives w join pg_locks l
      on l.locktype = 'advisory' and l.granted and l.objsubid = 1 and ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended(w.holder, 0)
    where l.database = (select oid from pg_database where datname = current_database())`.execute(db.q)
  return rows[0]!.count
}

/** Lists the pepper versions of all stored hashes. */
export const peppersInUse = async (db: Db): Promise<number[]> =>
  (await db.q.selectFrom('credentials').select('pepper').distinct().execute()).map(({ pepper }) => pepper)

/** Lists organizations that sell paid products without a payment account. */
export const sellersWithoutAccount = async (db: Db): Promise<string[]> => {
  const { rows } = await sql<{ slug: string }>`
    select slug from organizations o where deleted_at is null
      and exists (select from products p where p.organization_id = o.id and not p.is_archived and not (p.price_amount_type = 'fixed' and p.price_amount = 0))
      and not exists (select from payment_accounts a where a.organization_id = o.id and a.is_default) order by slug`.execute(db.q)
  return rows.map(({ slug }) => slug)
}
