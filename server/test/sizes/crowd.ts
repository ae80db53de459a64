import { hash } from 'node:crypto'
import type { Client } from 'pg'
import { Secret } from '../../src/kernel/secrets.ts'
import type { World } from '../harness/world.ts'
import { contents, counted, personal, type Contents } from './contents.ts'

/** How the rows of a table are spread: one tenant has most of them, as where somebody runs this for a shop of their own. */
const shares = { big: 0.6, middle: 0.2, small: 0.05, other: 0.15 } as const
export type Tenant = keyof typeof shares
const names = Object.keys(shares) as Tenant[]

/** The tables that grow with every sale and every visit. */
const large = new Set(['products', 'product_prices', 'customers', 'subscriptions', 'subscription_prices', 'orders', 'order_items'])
for (const table of ['events', 'webhook_attempts', 'webhook_deliveries']) large.add(table)
/** All others have a tenth of that, and so many that reading one from end to end is more work than reading a page. */
const fewest = 3000
/** So far back the oldest row of the largest tables goes, whatever their number: over several of the parts that logs are split into. */
const days = 60

export interface Crowd {
  readonly organizations: Record<Tenant, Awaited<ReturnType<World['organization']>>>
  /** Somebody who belongs to all of them but the other. */
  readonly person: Awaited<ReturnType<World['person']>>
  /** The id of a row by its number, of which 1 is the newest, and its moment. */
  readonly id: (table: string, n: number, tenant?: Tenant) => string
  readonly at: (n: number) => Date
}

/** Sellers with so many orders, and with as much of everything else as goes with them. */
export const gather = async (world: World, rows: number): Promise<Crowd> => {
  const person = await world.person()
  const organizations = {} as Record<Tenant, Awaited<ReturnType<World['organization']>>>
  for (const name of names) organizations[name] = await world.organization(name === 'other' ? {} : { owner: person.id })
  const totalOf = (table: string) => (large.has(table) ? rows : Math.max(Math.ceil(rows / 10), Math.min(rows, fewest)))
  const countOf = (table: string, tenant: Tenant) => Math.floor(totalOf(table) * shares[tenant])
  const now = world.clock.wall()
  const step = Math.floor((days * 86_400_000) / (rows * shares.big))
  const at = (n: number) => new Date(now.getTime() - n * step)

  await world.database.owner(async (owner) => {
    // Keys are kept by what is written here, and what comes and goes is counted at the end: neither row by row.
    await owner.query('set session_replication_role = replica')
    await owner.query(`
      create schema crowd;
      create function crowd.at(n bigint) returns timestamptz language sql immutable as $$
        select timestamptz '${now.toISOString()}' - n * interval '${step} milliseconds' $$;
      create function crowd.id("table" text, tenant text, n bigint) returns uuid language sql immutable as $$
        select overlay(overlay(md5("table" || tenant || n) placing lpad(to_hex((extract(epoch from crowd.at(n)) * 1000)::bigint), 12, '0') || '4' from 1 for 13) placing '8' from 17 for 1)::uuid $$;`)
    const indexes = await dropIndexes(owner)
    await strangers(owner, totalOf('users'))
    for (const [table, columns] of Object.entries(contents))
      for (const tenant of names) await fill(owner, table, columns, { tenant, owner: organizations[tenant].id, count: countOf(table, tenant) })
    for (const [table, columns] of Object.entries(personal))
      for (const tenant of ['big', 'other'] as const)
        await fill(owner, table, columns, { tenant, owner: organizations[tenant].owner, count: countOf(table, tenant) })
    await finish(owner, world, organizations)
    for (const index of indexes) await owner.query(index)
    await describe(owner, rows)
  })
  return { organizations, person, at, id: (table, n, tenant = 'big') => idOf(table, tenant, n, at(n)) }
}

/** As ours are: the time of making comes first, the rest is as good as chance. The same that the database makes. */
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
  // The oldest first, as they would have come.
  await owner.query(`insert into ${table} (${all.map(([column]) => column).join(', ')}) select ${said} from generate_series(1, ${count}) n order by n desc`)
}

/** People and organizations that have nothing to do with each other. */
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
      `insert into collection_deltas (organization_id, collection, delta) select organization_id, '${table}', count(*) from ${table} group by 1`,
    )
  await owner.query('insert into event_heads select organization_id, max(sequence) from events group by 1')
  await owner.query(`insert into audit_heads select organization_id, max(sequence), 'x' from audit_log group by 1`)
  for (const tenant of names)
    await owner.query(
      `insert into payment_accounts (organization_id, id, created_at, processor, secret_sealed, is_default) values ($1, crowd.id('payment_accounts', $2, 1), crowd.at(1), 'test', '', true)`,
      [organizations[tenant].id, tenant],
    )
  // Half of the world has members, the other half has customers who hold seats.
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

/** Many rows are written much faster without them. Hands back how to make them again. */
const dropIndexes = async (owner: Client): Promise<string[]> => {
  const { rows } = await owner.query<{ name: string; definition: string }>(
    `select c.oid::regclass::text as name, pg_get_indexdef(c.oid) as definition from pg_index i join pg_class c on c.oid = i.indexrelid
     where c.relnamespace = 'public'::regnamespace and not c.relispartition and not exists (select from pg_constraint where conindid = c.oid)`,
  )
  await owner.query(`drop index ${rows.map(({ name }) => name).join(', ')}`)
  return rows.map(({ definition }) => definition.replace(' ON ONLY ', ' ON '))
}

const describe = async (owner: Client, rows: number) => {
  // What the database goes by when it chooses a way: how many there are of what. And which pages everybody can see.
  await owner.query('vacuum (analyze)')
  // And what it would go by if there were a million of each: what it chooses among a few thousand says nothing about those.
  await owner.query(`update pg_class set reltuples = reltuples * $1 where relnamespace = 'public'::regnamespace and reltuples > 0`, [
    Math.min(10, Math.max(1, 1_000_000 / rows)),
  ])
}
