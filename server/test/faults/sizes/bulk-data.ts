import { hash } from 'node:crypto'
import type { Client } from 'pg'
import { Secret } from '../../../src/kernel/secrets.ts'
import type { World } from '../../harness/world.ts'
import { contents, counted, personal, type Contents } from './contents.ts'

/**
 * Share of the rows by tenant. One tenant has most of them, as in an installation that serves a single shop. With
 * `BURSAR_TEST_TENANTS=one` it has 99 %, so that the statistics of the planner fit no other tenant.
 */
const shares =
  process.env.BURSAR_TEST_TENANTS === 'one' ? { big: 0.99, middle: 0.005, small: 0.0025, other: 0.0025 } : { big: 0.6, middle: 0.2, small: 0.05, other: 0.15 }
export type Tenant = keyof typeof shares
const names = Object.keys(shares) as Tenant[]

/** Tables that grow with every sale and every visit. */
const large = new Set(['products', 'product_prices', 'customers', 'subscriptions', 'subscription_prices', 'orders', 'order_items'])
for (const table of ['usage_events', 'events', 'webhook_attempts', 'webhook_deliveries']) large.add(table)
/** Minimum rows of the other tables, which have a tenth of the rows. A full scan must cost more than reading one page of a list. */
const fewest = 3000
/** Minimum rows of one tenant in each table, so that each list has enough records. With 100,000 rows, one tenant then has 99 % of them. */
const least = process.env.BURSAR_TEST_TENANTS === 'one' ? 250 : 40
/** Age in days of the oldest row of the largest tables, for any number of rows. The log tables then have several partitions. */
const days = 60
/** Number of usage events, if there are more of them than orders. `BURSAR_TEST_USAGE_EVENTS=10000000` for the long run. */
const usageEvents = Number(process.env.BURSAR_TEST_USAGE_EVENTS ?? 0)

export interface Crowd {
  /** Number of orders of a tenant. */
  readonly orders: (tenant: Tenant) => number
  readonly organizations: Record<Tenant, Awaited<ReturnType<World['organization']>>>
  /** A person who belongs to every organization except `other`. */
  readonly person: Awaited<ReturnType<World['person']>>
  /** Returns the id of a row by its number, where 1 is the newest. `at` returns its creation time. */
  readonly id: (table: string, n: number, tenant?: Tenant) => string
  readonly at: (n: number) => Date
}

/** The share of the largest tenant in all rows. */
export const shareOfBig = shares.big

/**
 * Fills the database with sellers that together have this many orders, and with matching numbers of all other rows.
 * `only` limits it to some tables, for tests that read no others.
 */
export const gather = async (world: World, rows: number, only?: ReadonlySet<string>): Promise<Crowd> => {
  const person = await world.person()
  const organizations = {} as Record<Tenant, Awaited<ReturnType<World['organization']>>>
  for (const name of names) organizations[name] = await world.organization(name === 'other' ? {} : { owner: person.id })
  // Number of usage events in the time between two orders, so that both cover the same days.
  const density = Math.max(1, Math.floor(usageEvents / rows))
  const densityOf = (table: string) => (table === 'usage_events' ? density : 1)
  const totalOf = (table: string) => (large.has(table) ? rows * densityOf(table) : Math.max(Math.ceil(rows / 10), Math.min(rows, fewest)))
  const countOf = (table: string, tenant: Tenant) => Math.max(least, Math.floor(totalOf(table) * shares[tenant]))
  const now = world.clock.wall()
  const step = Math.floor((days * 86_400_000) / (rows * shares.big))
  const at = (n: number, density = 1) => new Date(now.getTime() - Math.floor(n / density) * step)

  await world.database.owner(async (owner) => {
    // Disables triggers. The inserted rows satisfy the foreign keys, and the counts are updated once at the end.
    await owner.query('set session_replication_role = replica')
    await owner.query(`set maintenance_work_mem = '512MB'`)
    await owner.query(`
      create schema crowd;
      create function crowd.at(n bigint) returns timestamptz language sql stable as $$
        select timestamptz '${now.toISOString()}' - n * interval '${step} milliseconds' $$;
      create function crowd.at_event(n bigint) returns timestamptz language sql stable as $$ select crowd.at(n / ${density}) $$;
      create function crowd.id("table" text, tenant text, n bigint) returns uuid language sql stable as $$
        select overlay(overlay(md5("table" || tenant || n) placing lpad(to_hex(${now.getTime()} - ${step} * (case "table" when 'usage_events' then n / ${density} else n end)), 12, '0') || '4' from 1 for 13) placing '8' from 17 for 1)::uuid $$;`)
    const indexes = await dropIndexes(owner)
    await strangers(owner, totalOf('users'))
    const isFilled = ([table]: readonly [string, Contents]) => only?.has(table) ?? true
    for (const [table, columns] of Object.entries(contents).filter(isFilled))
      for (const tenant of names) await fill(owner, table, columns, { tenant, owner: organizations[tenant].id, count: countOf(table, tenant) })
    for (const [table, columns] of Object.entries(personal).filter(isFilled))
      for (const tenant of ['big', 'other'] as const)
        await fill(owner, table, columns, { tenant, owner: organizations[tenant].owner, count: countOf(table, tenant) })
    await finish(owner, world, organizations)
    for (const index of indexes) await owner.query(index)
    await describe(owner, rows, density)
  })
  return {
    organizations,
    person,
    at,
    orders: (tenant) => countOf('orders', tenant),
    id: (table, n, tenant = 'big') => idOf(table, tenant, n, at(n, densityOf(table))),
  }
}

/** Builds an id like the server's: creation time first, then pseudorandom digits. Must match the SQL function `crowd.id`. */
const idOf = (table: string, tenant: Tenant, n: number, at: Date): string => {
  const rest = hash('md5', `${table}${tenant}${n}`)
  const hex = `${at.getTime().toString(16).padStart(12, '0')}4${rest.slice(13, 16)}8${rest.slice(17)}`
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

const fill = async (owner: Client, table: string, columns: Contents, { tenant, owner: whose, count }: { tenant: Tenant; owner: string; count: number }) => {
  const { rows } = await owner.query<{ name: string }>(
    `select attname as name from pg_attribute where attrelid = $1::regclass and attname in ('organization_id', 'id', 'created_at')`,
    [table],
  )
  const own = Object.fromEntries(
    rows.map(({ name }) => [name, { organization_id: ':owner', id: `crowd.id('${table}', :tenant, n)`, created_at: 'crowd.at(n)' }[name]!]),
  )
  const all = Object.entries({ ...own, ...columns })
  const values = all.map(([, expression]) => expression).join(', ')
  const said = values.replace(
    /:(owner|tenant|count)\b/g,
    (_, name: string) => ({ owner: `'${whose}'::uuid`, tenant: `'${tenant}'`, count: String(count) })[name]!,
  )
  // Inserts the oldest row first, as in real use.
  await owner.query(`insert into ${table} (${all.map(([column]) => column).join(', ')}) select ${said} from generate_series(${count}, 1, -1) n`)
}

/** Creates people and organizations that are unrelated to each other. */
const strangers = async (owner: Client, count: number) => {
  await owner.query(
    `insert into users (id, created_at, email) select crowd.id('users', 'everybody', n), crowd.at(n), 'user-' || n || '@people.test' from generate_series(1, $1) n`,
    [count],
  )
  const { rows } = await owner.query<{ name: string }>(
    `select attname as name from pg_attribute where attrelid = 'organizations'::regclass and attnum > 0 and not attisdropped`,
  )
  const values = rows.map(({ name }) => (name === 'id' ? `crowd.id('organizations', 'everybody', n)` : name === 'slug' ? `'crowd-' || n` : `o.${name}`))
  await owner.query(
    `insert into organizations (${rows.map(({ name }) => name).join(', ')})
     select ${values.join(', ')} from (select * from organizations limit 1) o, generate_series(1, $1) n`,
    [count],
  )
}

const finish = async (owner: Client, { platform }: World, organizations: Crowd['organizations']) => {
  for (const table of counted)
    await owner.query(
      `insert into collection_deltas (organization_id, collection, delta) select organization_id, '${table}', count(*) from ${table} ${table === 'usage_events' ? 'where corrected_at is null' : ''} group by 1`,
    )
  // The stored counts of names are the totals of lists that are filtered by name.
  await owner.query(
    `update usage_name_counts c set occurrences = e.occurrences from (
       select organization_id, name, source, count(*) as occurrences from usage_events where corrected_at is null group by 1, 2, 3
     ) e where c.organization_id = e.organization_id and c.name = e.name and c.source = e.source`,
  )
  await owner.query(`delete from usage_name_counts where source = 'system'`)
  await owner.query(
    `insert into usage_name_counts (organization_id, name, source, occurrences, first_seen, last_seen)
       select organization_id, name, 'system', count(*), min(timestamp), max(timestamp) from system_events group by 1, 2`,
  )
  await owner.query('insert into event_heads select organization_id, max(sequence) from events group by 1')
  await owner.query(`insert into audit_heads select organization_id, max(sequence), 'x' from audit_log group by 1`)
  for (const tenant of names)
    await owner.query(
      `insert into payment_accounts (organization_id, id, created_at, processor, secret_sealed, is_default) values ($1, crowd.id('payment_accounts', $2, 1), crowd.at(1), 'test', '', true)`,
      [organizations[tenant].id, tenant],
    )
  // The middle tenant has not started the member migration, so its seats are held by customers. In the other tenants,
  // members hold the seats.
  await owner.query(`update organizations set member_phase = 'before' where id = $1`, [organizations.middle.id])
  await owner.query(`update organizations set feature_settings = feature_settings || '{"seat_based_pricing_enabled": true}' where id = any($1)`, [
    Object.values(organizations).map(({ id }) => id),
  ])
  for (const [table, column, sealed] of [
    ['checkouts', 'secret_sealed', '%2'],
    ['checkout_links', 'secret_sealed', '%2'],
    ['license_keys', 'key_sealed', 'license_key:%1:%2'],
  ] as const) {
    const { rows: all } = await owner.query<{ organization_id: string; id: string }>(`select organization_id, id from ${table}`)
    await owner.query(`update ${table} t set ${column} = s.sealed from unnest($1::uuid[], $2::text[]) s (id, sealed) where t.id = s.id`, [
      all.map(({ id }) => id),
      all.map(({ organization_id, id }) => platform.sealer.seal(new Secret('not so secret'), sealed.replace('%1', organization_id).replace('%2', id))),
    ])
  }
}

/** Drops the indexes, because bulk inserts are much faster without them. Returns the statements that create them again. */
const dropIndexes = async (owner: Client): Promise<string[]> => {
  const { rows } = await owner.query<{ name: string; definition: string }>(
    `select c.oid::regclass::text as name, pg_get_indexdef(c.oid) as definition from pg_index i join pg_class c on c.oid = i.indexrelid
     where c.relnamespace = 'public'::regnamespace and not c.relispartition and not exists (select from pg_constraint where conindid = c.oid)`,
  )
  await owner.query(`drop index ${rows.map(({ name }) => name).join(', ')}`)
  return rows.map(({ definition }) => definition.replace(' ON ONLY ', ' ON '))
}

const describe = async (owner: Client, rows: number, density: number) => {
  // Updates the planner's statistics and the visibility map.
  await owner.query('vacuum (analyze)')
  // Scales the statistics as if each table had a million rows. Plans for a few thousand rows prove nothing about large tables.
  await owner.query(
    `update pg_class set reltuples = reltuples * $1 where relnamespace = 'public'::regnamespace and reltuples > 0 and ($2 or relname not like 'usage_events%')`,
    [Math.min(10, Math.max(1, 1_000_000 / rows)), density === 1],
  )
}
