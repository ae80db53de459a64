import type pg from 'pg'
import { within } from '../../server/src/kernel/actors.ts'
import { randomText, Secret } from '../../server/src/kernel/secrets.ts'
import { startMigration, switchOn } from '../../server/src/modules/migration/members/migrating.ts'
import { findMigration } from '../../server/src/modules/migration/members/migrations.sql.ts'
import { work } from '../../server/src/modules/migration/members/working.ts'
import { createLegacyOrganization, holdPhase } from '../../server/src/modules/organizations/index.ts'
import { systemClock } from '../../server/src/platform/clock.ts'
import { claim } from '../../server/src/platform/jobs/leases.sql.ts'
import { openLog } from '../../server/src/platform/log.ts'
import { openPostgres, type Role, type Tx } from '../../server/src/platform/postgres/postgres.ts'
import { asOwner, cloneDatabase, loginOf } from '../../server/test/harness/database.ts'
import type { World } from '../../server/test/harness/world.ts'
import { options } from './options.ts'
import { dropIndexes, made } from './orders.ts'
import type { Outcome } from './results.ts'

/** Number of seats per buyer, and number of seats per benefit grant. */
const [perBuyer, perGrant] = [50, 10]

const log = openLog('silent')
/** Opens a database as the server does, with prepared statements. */
const open = (name: string, role: Role, max: number) => openPostgres(new Secret(loginOf(name)), role, { max, clock: systemClock, log, prepared: true })

/**
 * Measures the worker's phase 1 of the member migration, against bulk statements that write the same rows. Then
 * measures the switch under concurrent reads and writes.
 */
export const migration = async (world: World): Promise<Record<string, Outcome>> => {
  const source = await cloneDatabase()
  const organization_id = await fill(source.name)
  // PostgreSQL copies only a database without connections.
  await source.release()
  const bare = await timed(
    'bare statements',
    () => copy(source.name),
    (name) => runBare(name, organization_id),
  )
  const ours = await timed(
    'phase 1',
    () => copy(source.name),
    (name) => prepare(world, name, organization_id),
  )
  const [theirs, there] = [await digest(bare.name, organization_id), await digest(ours.name, organization_id)]
  if (JSON.stringify(theirs) !== JSON.stringify(there)) throw new Error(`not the same rows: ${JSON.stringify(theirs)} and ${JSON.stringify(there)}`)
  await drop(bare.name)
  const { early, switched } = await watchSwitch(world, ours.name, organization_id)
  await drop(ours.name)
  await source.drop()
  const { seats: rows } = options
  return {
    migration: {
      ratio: bare.seconds / ours.seconds,
      figures: [
        { what: 'phase 1', value: ours.seconds, unit: ' s' },
        { what: 'plain statements', value: bare.seconds, unit: ' s' },
        { what: 'seats', value: rows / ours.seconds, unit: '/s' },
      ],
      rows,
      rounds: 1,
    },
    'switch-lock': {
      // Reports the worst round, because the goal must be met in every round.
      ratio: Math.max(...switched.map(({ held }) => held)),
      ratios: switched.map(({ held }) => held),
      figures: [
        { what: 'longest until it had the lock', value: Math.max(...switched.map(({ took }) => took)), unit: ' ms' },
        { what: 'before the first vacuum', value: early.held, unit: ' ms' },
      ],
      rows,
      rounds: switched.length,
    },
    'switch-wait': {
      ratio: Math.max(...switched.map(({ waited }) => waited)),
      ratios: switched.map(({ waited }) => waited),
      figures: [
        { what: 'longest write with a switch', value: Math.max(...switched.map(({ longest }) => longest)), unit: ' ms' },
        { what: 'without a switch', value: Math.max(...switched.map(({ usual }) => usual)), unit: ' ms' },
        { what: 'wait before the first vacuum', value: early.waited, unit: ' ms' },
      ],
      rows,
      rounds: switched.length,
    },
  }
}

const timed = async (what: string, ready: () => Promise<string>, run: (name: string) => Promise<unknown>) => {
  const name = await ready()
  const began = performance.now()
  await run(name)
  const seconds = (performance.now() - began) / 1000
  console.log(`  ${what}: ${seconds.toFixed(1)} s`)
  return { name, seconds }
}

const copy = async (source: string): Promise<string> => {
  const name = `bursar_t_${process.env.BURSAR_TEST_RUN ?? 'x'}_${randomText(10, 'abcdefghijklmnopqrstuvwxyz')}`
  // With `strategy file_copy`, PostgreSQL makes a checkpoint before and after the copy. Dirty pages of one measurement
  // therefore do not slow down the next one.
  await asOwner('postgres', (owner) => owner.query(`create database ${name} template ${source} strategy file_copy`))
  return name
}

const drop = (name: string) => asOwner('postgres', (owner) => owner.query(`drop database if exists ${name} with (force)`))

/**
 * Creates an organization in the state after an import of legacy data. Each buyer has one subscription, and a separate
 * customer holds each of its seats. Constraints and triggers are disabled, so the collection counters are inserted
 * here.
 */
const fill = async (name: string): Promise<string> => {
  const began = performance.now()
  const postgres = open(name, 'bursar_api', 2)
  const body = { name: 'Organization', slug: 'seats', default_presentment_currency: 'usd', default_tax_behavior: 'location' } as const
  const { id } = await postgres.transact((tx) => createLegacyOrganization(tx, body, 'sandbox'))
  await postgres.close()
  await asOwner(name, async (owner) => {
    await owner.query('set session_replication_role = replica; set synchronous_commit = off; set maintenance_work_mem = 512000; set jit = off')
    await owner.query(made)
    const restore = await dropIndexes(owner, ['customers', 'subscriptions', 'seats', 'benefit_grants'])
    await makeSeats(owner, id)
    await restore()
    await owner.query('vacuum analyze')
  })
  console.log(`  ${options.seats.toLocaleString('en')} seats, made in ${Math.round((performance.now() - began) / 1000)} s`)
  return id
}

const at = (n: string) => `timestamptz '2025-01-01 00:00:00Z' + (${n}) * interval '1 second'`
const id = (what: string, n: string) => `pg_temp.made(${at(n)}, '${what} ' || $1::uuid || (${n}))`
const ids = {
  buyer: (n: string) => id('buyer', n),
  holder: id('holder', 'n'),
  subscription: (n: string) => id('subscription', n),
  seat: id('seat', 'n'),
  product: id('product', '0'),
  benefit: id('benefit', '0'),
}
const buyer = `n / ${perBuyer} * ${perBuyer}`

const makeSeats = async (owner: pg.Client, organization_id: string): Promise<void> => {
  const { seats } = options
  const make = (table: string, values: Readonly<Record<string, string>>, from = 'n', every = 1) =>
    owner.query(
      `insert into ${table} (organization_id, created_at, ${Object.keys(values).join()})
       select $1::uuid, ${at(from)}, ${Object.values(values).join()} from generate_series(0, ${every === 0 ? 0 : seats - 1}, ${every || 1}) n`,
      [organization_id],
    )
  const free = `'{}'`
  const product = { id: ids.product, name: `'Team'`, visibility: `'public'`, is_archived: 'false', metadata: free, recurring_interval: `'month'` }
  await make('products', { ...product, recurring_interval_count: '1', price_amount_type: `'seat_based'`, price_amount: '1000' }, 'n', 0)
  await make('benefits', { id: ids.benefit, type: `'custom'`, description: `'Support'`, visibility: `'public'`, properties: free, metadata: free }, 'n', 0)
  const customer = (what: string, n: string) => ({
    id: what === 'buyer' ? ids.buyer(n) : ids.holder,
    type: `'individual'`,
    email: `'${what}-' || n || '@people.test'`,
    email_verified: 'false',
    name: `'${what} ' || n`,
    external_id: `'${what}-' || n`,
    metadata: free,
  })
  await make('customers', customer('buyer', 'n'), 'n', perBuyer)
  await make('customers', customer('holder', 'n'))
  const period = { current_period_start: at('n'), current_period_end: `${at('n')} + interval '1 month'`, calendar_from: at('n'), started_at: at('n') }
  const subscription = { id: ids.subscription('n'), status: `'active'`, customer_id: ids.buyer('n'), product_id: ids.product, amount: '50000' }
  const terms = { currency: `'usd'`, recurring_interval: `'month'`, recurring_interval_count: '1', anchor_day: '1', seats: String(perBuyer) }
  await make('subscriptions', { ...subscription, ...terms, ...period, metadata: free, custom_field_data: free }, 'n', perBuyer)
  const held = { subscription_id: ids.subscription(buyer), buyer_customer_id: ids.buyer(buyer), holder_customer_id: ids.holder }
  await make('seats', { id: ids.seat, ...held, status: `'claimed'`, claimed_at: at('n'), email: `'holder-' || n || '@people.test'`, metadata: free })
  const state = { is_manual: 'false', is_withheld: 'false', is_wanted: 'true', granted_at: at('n'), properties: free, attempts: '0' }
  await make('benefit_grants', { id: id('grant', 'n'), ...held, ...state, benefit_id: ids.benefit, seat_id: ids.seat }, 'n', perGrant)
  const counts = { customers: seats + Math.ceil(seats / perBuyer), subscriptions: Math.ceil(seats / perBuyer), benefit_grants: Math.ceil(seats / perGrant) }
  for (const [what, count] of Object.entries(counts)) await owner.query(`insert into collection_deltas values ($1, $2, $3)`, [organization_id, what, count])
}

/** Writes the rows of phase 1 with bulk statements. Values that are the same for every row are constants instead of subqueries. */
const runBare = (name: string, organization_id: string): Promise<void> =>
  asOwner(name, async (owner) => {
    // Runs as the worker role, whose changes are not audited.
    await owner.query('set role bursar_worker')
    const columns = 'organization_id, id, customer_id, created_at, email, name, external_id, role, prepared'
    for (const statement of [
      `insert into members (${columns})
       select organization_id, member_id_of(organization_id, id, email), id, '2026-01-01', email, name, external_id, 'owner', true from customers where organization_id = $1`,
      `insert into members (${columns})
       select s.organization_id, member_id_of(s.organization_id, s.buyer_customer_id, h.email), s.buyer_customer_id, '2026-01-01', h.email, h.name, h.external_id, 'member', true
       from seats s join customers h on h.organization_id = s.organization_id and h.id = s.holder_customer_id where s.organization_id = $1`,
      `update seats s set member_id = member_id_of(s.organization_id, s.buyer_customer_id, h.email), prepared = true
       from customers h where s.organization_id = $1 and h.organization_id = s.organization_id and h.id = s.holder_customer_id`,
      `update benefit_grants g set member_id = s.member_id, prepared = true from seats s where g.organization_id = $1 and s.organization_id = g.organization_id and s.id = g.seat_id`,
      `update customers c set pure_holder = true, prepared = 1 from seats s where c.organization_id = $1 and s.organization_id = c.organization_id and s.holder_customer_id = c.id`,
      `update customers c set becomes_team = true, prepared = 2 from subscriptions s where c.organization_id = $1 and s.organization_id = c.organization_id and s.customer_id = c.id`,
    ])
      await owner.query(statement, [organization_id])
  })

/** Runs phase 1 from start to end, as a worker does. */
const prepare = async (world: World, name: string, organization_id: string): Promise<void> => {
  const [api, worker] = [open(name, 'bursar_api', 2), open(name, 'bursar_worker', 2)]
  const platform = { ...world.platform, clock: systemClock, log }
  await api.transact((tx) => startMigration(tx, within(organization_id, 'machine', 'before'), organization_id))
  let [progress, since] = ['', performance.now()]
  for (let row = await findMigration(worker.db, organization_id); row!.work !== null; row = await findMigration(worker.db, organization_id)) {
    for (const lease of await claim(worker.transact, 'member_migrations', { holder: 'bench', limit: 1, lease_ms: 60_000 }))
      await work({ db: worker.db, transact: worker.transact, gateways: {} as never, platform }, lease)
    // A work that is never claimed, or that never advances, would otherwise run for ever.
    const now = `${row!.step} ${row!.done} of ${row!.total}`
    if (now !== progress) [progress, since] = [now, performance.now()]
    else if (performance.now() - since > 60_000) throw new Error(`phase 1 has made no progress for a minute: ${JSON.stringify(row)}`)
  }
  const { state } = (await findMigration(worker.db, organization_id))!
  if (state !== 'phase1') throw new Error(`phase 1 was not reached: it stands at ${state}`)
  await Promise.all([api.close(), worker.close()])
}

/** Returns a hash of the written rows for each table. Ignores the creation times of members. */
const digest = (name: string, organization_id: string): Promise<unknown[]> =>
  asOwner(name, async (owner) => {
    const found: unknown[] = []
    for (const [table, columns] of Object.entries({
      members: 'id, customer_id, email, name, external_id, role, prepared',
      seats: 'id, member_id, holder_customer_id, prepared',
      benefit_grants: 'id, member_id, holder_customer_id, prepared',
      customers: 'id, pure_holder, becomes_team, prepared',
    })) {
      const { rows } = await owner.query(
        `select count(*), sum(hashtextextended(row(${columns})::text, 0)::numeric) as sum from ${table} where organization_id = $1`,
        [organization_id],
      )
      found.push({ table, ...rows[0] })
    }
    return found
  })

const writers = 8

/** Repeats the switch while eight connections write and read seats. Measures how long it blocked them, and the longest wait. */
const watchSwitch = async (world: World, name: string, organization_id: string) => {
  const postgres = open(name, 'bursar_api', 2 * (writers + 2))
  const scope = within(organization_id, 'machine', 'phase1')
  const some = await asOwner(name, (owner) =>
    owner.query<{ id: string }>('select id from seats where organization_id = $1 order by md5(id::text) limit 2000', [organization_id]),
  )
  let seen = { waited: 0, longest: 0 }
  const ending = new AbortController()
  const write = async (seat: string) => {
    const began = performance.now()
    await postgres.transact(async (tx) => {
      const asked = performance.now()
      await holdPhase(tx, organization_id)
      seen.waited = Math.max(seen.waited, performance.now() - asked)
      await tx.q.updateTable('seats').set({ modified_at: tx.clock.wall() }).where('organization_id', '=', organization_id).where('id', '=', seat).execute()
    })
    seen.longest = Math.max(seen.longest, performance.now() - began)
    await postgres.db.q.selectFrom('seats').selectAll().where('organization_id', '=', organization_id).where('id', '=', seat).execute()
  }
  // Each connection uses separate seats, so that it waits only for the switch.
  const writing = Array.from({ length: writers }, async (_, of) => {
    for (let n = of; !ending.signal.aborted; n += writers) await write(some.rows[n % some.rows.length]!.id)
  })
  const watched = []
  for (let round = 0; round <= options.rounds; round++) {
    // In production, autovacuum runs before a switch. Round 0 measures the switch without a vacuum.
    if (round === 1) await asOwner(name, (owner) => owner.query('vacuum analyze'))
    seen = { waited: 0, longest: 0 }
    await new Promise((resolve) => setTimeout(resolve, 1000))
    const usual = seen.longest
    seen = { waited: 0, longest: 0 }
    const began = performance.now()
    const { plugin, granted } = watchLock()
    await postgres.transact((tx) => switchOn({ ...tx, q: tx.q.withPlugin(plugin) }, scope, world.platform, organization_id))
    const held = performance.now() - granted()
    const took = granted() - began
    await new Promise((resolve) => setTimeout(resolve, 200))
    watched.push({ held, took, ...seen, usual })
    // Resets the organization to phase 1 for the next round, directly and without emitting events.
    await asOwner(name, async (owner) => {
      await owner.query(`update organizations set member_phase = 'phase1' where id = $1`, [organization_id])
      await owner.query(`update member_migrations set state = 'phase1', work = null, due_at = null where organization_id = $1`, [organization_id])
    })
  }
  ending.abort()
  await Promise.all(writing)
  await postgres.close()
  return { early: watched[0]!, switched: watched.slice(1) }
}

/** Records the time at which the switch to members acquired its advisory lock. */
const watchLock = () => {
  let [asking, at] = [undefined as object | undefined, 0]
  const plugin: Parameters<Tx['q']['withPlugin']>[0] = {
    transformQuery: ({ node, queryId }) => {
      if (JSON.stringify(node).includes('pg_advisory_xact_lock(')) asking = queryId
      return node
    },
    transformResult: async ({ result, queryId }) => {
      if (queryId === asking) at = performance.now()
      return result
    },
  }
  return { plugin, granted: () => at }
}
