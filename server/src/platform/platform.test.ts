import { organizationUpdated, rateLimits } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sql } from 'kysely'
import { asOwner, cloneDatabase, urlOf, type Database } from '../../test/harness/database.ts'
import { openClock, openWorld, variables, type World } from '../../test/harness/world.ts'
import { Secret } from '../kernel/secrets.ts'
import { openApi } from '../main/wire.ts'
import { ConfigurationRefused, readConfig } from './config.ts'
import { systemClock } from './clock.ts'
import { encode, Unencodable } from './encode.ts'
import { claim, LeaseLost, underLease } from './jobs/leases.sql.ts'
import { enqueue } from './jobs/enqueue.sql.ts'
import { openLog, scrub } from './log.ts'
import { emit, sequence } from './outbox/outbox.sql.ts'
import { checkStamp, DatabaseRefused, migrate, migrations, unfit } from './migrations/migrations.ts'
import { inWallTime } from './clocks.sql.ts'
import { openPostgres } from './postgres/postgres.ts'
import { openTelemetry } from './telemetry.ts'
import { presentOrganization } from '../modules/organizations/organizations/organizations.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

describe('configuration', () => {
  const good = variables({ url: 'postgres://somebody:hunter2@127.0.0.1/x', owner_url: 'postgres://owner:hunter3@127.0.0.1/x' }, 'smtp://127.0.0.1:1')

  test('reads settings without exposing secrets', () => {
    const config = readConfig(good)
    expect(config.environment).toBe('sandbox')
    expect(JSON.stringify(config)).not.toContain('hunter')
  })

  test('rejects missing, malformed and unknown settings by name, without showing a value', () => {
    const { BURSAR_ENV: _, ...rest } = good
    const refused = () =>
      readConfig({
        ...rest,
        BURSAR_PEPPERS: '1:c2hvcnQtc2VjcmV0',
        BURSAR_DATABASE_URL: 'mysql://root:hunter2@db/x',
        BURSAR_DATABSE_URL: 'y',
        BURSAR_LISTEN: 'everywhere',
      })
    expect(refused).toThrow(ConfigurationRefused)
    try {
      refused()
    } catch (error) {
      const { message } = error as Error
      for (const name of [
        'BURSAR_ENV: missing',
        'BURSAR_PEPPERS: give version:key',
        'BURSAR_DATABASE_URL:',
        'BURSAR_DATABSE_URL: not a setting of this version; the nearest one is BURSAR_DATABASE_',
        'BURSAR_LISTEN: give host:port',
      ])
        expect(message).toContain(name)
      expect(message).not.toMatch(/hunter|c2hvcnQ/)
    }
    expect(() => readConfig({ ...good, BURSAR_SMTP_URL: '' })).toThrow(/BURSAR_MAIL_DIR/)
    expect(() => readConfig({ ...good, BURSAR_ENV: 'production', BURSAR_PUBLIC_URL: 'http://shop.example' })).toThrow(/must be https in production/)
  })

  test('requires Redis in production, but not in a sandbox', () => {
    expect(readConfig({ ...good, BURSAR_REDIS_URL: '' }).redis_url).toBeUndefined()
    expect(() => readConfig({ ...good, BURSAR_ENV: 'production', BURSAR_REDIS_URL: '' })).toThrow('BURSAR_REDIS_URL: missing')
  })

  test('BURSAR_BUDGETS refuses unknown budgets and names the known ones', () => {
    const read = (budgets: object) => readConfig({ ...good, BURSAR_BUDGETS: JSON.stringify(budgets) }).budgets
    const every = Object.fromEntries([...Object.keys(rateLimits).map((name) => [name, [[7, 60]]]), ['seat_recipients', [[7, 86_400]]]])
    expect(read(every)).toEqual(every)
    expect(() => read({ checkout_confirm: [[30, 3600]] })).toThrow(
      `BURSAR_BUDGETS: "checkout_confirm": unknown budget. The budgets are ${Object.keys(every).toSorted().join(', ')}`,
    )
    expect(() => readConfig({ ...good, BURSAR_BUDGETS: '{"api": 5}' })).toThrow('BURSAR_BUDGETS: give a JSON object')
  })

  test.each([
    [[[100, 3600]]],
    [
      [
        [100, 86_400],
        [10, 3600],
      ],
    ],
  ])('BURSAR_BUDGETS refuses other windows of seat_recipients than one day: %j', (seat_recipients) => {
    expect(() => readConfig({ ...good, BURSAR_BUDGETS: JSON.stringify({ seat_recipients }) })).toThrow('seat_recipients has one window of 86400 seconds')
  })

  test('accepts a tax service with its token, or none', () => {
    const service = { BURSAR_TAX_URL: 'https://tax.example/bursar', BURSAR_TAX_TOKEN: 'hunter5' }
    expect(readConfig(good).tax).toBeUndefined()
    const config = readConfig({ ...good, ...service })
    expect(config.tax).toMatchObject({ url: new URL(service.BURSAR_TAX_URL), timeout_ms: 4000 })
    expect(JSON.stringify(config)).not.toContain('hunter')
    for (const name of Object.keys(service))
      expect(() => readConfig({ ...good, ...service, [name]: '' })).toThrow('set both BURSAR_TAX_URL and BURSAR_TAX_TOKEN')
    expect(() => readConfig({ ...good, ...service, BURSAR_ENV: 'production', BURSAR_TAX_URL: 'http://tax.example' })).toThrow(
      'BURSAR_TAX_URL: must be https in production',
    )
  })

  test('accepts a service that checks VAT numbers, or none', () => {
    const BURSAR_VAT_URL = 'https://vat.example/check'
    expect(readConfig(good).vat).toBeUndefined()
    expect(readConfig({ ...good, BURSAR_VAT_URL }).vat).toEqual({ url: new URL(BURSAR_VAT_URL), timeout_ms: 2000 })
    expect(() => readConfig({ ...good, BURSAR_ENV: 'production', BURSAR_VAT_URL: 'http://vat.example' })).toThrow('BURSAR_VAT_URL: must be https in production')
  })

  test('accepts file storage in a folder, in an S3 store with all its settings, or no storage', () => {
    const { BURSAR_STORAGE_DIR: folder, ...bare } = good
    expect(readConfig(good).storage).toEqual({ folder })
    expect(readConfig(bare).storage).toBeUndefined()
    const store = { BURSAR_S3_BUCKET: 'files', BURSAR_S3_PUBLIC_BUCKET: 'pictures', BURSAR_S3_ACCESS_KEY_ID: 'id', BURSAR_S3_SECRET_ACCESS_KEY: 'hunter4' }
    const config = readConfig({ ...bare, ...store })
    expect(config.storage).toMatchObject({ bucket: 'files', region: 'us-east-1', endpoint: undefined, path_style: false })
    expect(JSON.stringify(config)).not.toContain('hunter')
    const elsewhere = { ...bare, ...store, BURSAR_S3_ENDPOINT: 'http://10.0.0.1:7480' }
    expect(readConfig(elsewhere).storage).toMatchObject({ endpoint: new URL('http://10.0.0.1:7480'), path_style: true })
    expect(readConfig({ ...elsewhere, BURSAR_S3_PATH_STYLE: 'false' }).storage).toMatchObject({ path_style: false })
    expect(() => readConfig({ ...good, ...store })).toThrow('BURSAR_STORAGE_DIR: set either BURSAR_STORAGE_DIR or S3 storage')
    for (const name of Object.keys(store)) expect(() => readConfig({ ...bare, ...store, [name]: '' })).toThrow(`${name}: missing; S3 storage needs`)
    expect(() => readConfig({ ...bare, ...store, BURSAR_S3_PUBLIC_BUCKET: 'files' })).toThrow('must differ from BURSAR_S3_BUCKET')
    expect(() => readConfig({ ...elsewhere, BURSAR_ENV: 'production' })).toThrow('BURSAR_S3_ENDPOINT: must be https in production')
    expect(readConfig({ ...elsewhere, BURSAR_ENV: 'production', BURSAR_S3_LINK_ENDPOINT: 'https://files.example' }).storage).toBeDefined()
  })
})

describe('environments', () => {
  test('rejects a database of the other environment [S1-09]', async () => {
    const config = readConfig({ ...world.environmentVariables, BURSAR_ENV: 'production' })
    await expect(openApi({ ...world.base, config, telemetry: openTelemetry() })).rejects.toThrow(
      'this database belongs to sandbox, but this process runs as production',
    )
    await expect(migrate(config.database_owner_url, 'production', world.base)).rejects.toThrow(DatabaseRefused)
    expect((await checkStamp(world.api.postgres.db, 'sandbox')).deployment_id).toMatch(/^[0-9a-f-]{36}$/)
  })

  test('keeps the records and credentials of sandbox and production separate [S1-08, S1-09]', async () => {
    const production = await openWorld({ environment: 'production' })
    const there = await production.organization({ slug: 'same-name' })
    const here = await world.organization({ slug: 'same-name' })
    expect(there).toMatchObject({ status: 'created' })
    expect(here).toMatchObject({ status: 'active' })
    const { getOrganization } = await import('@bursar/contract')
    const crossing = await production.client({ token: (await here.token()).secret }).send(getOrganization, { params: { id: here.id } })
    expect(crossing).toMatchObject({
      status: 401,
      body: { error: 'invalid_token', error_description: 'This token belongs to sandbox, and this is production. Each environment has its own tokens.' },
    })
    expect(crossing.headers.get('x-polar-sandbox')).toBeNull()
    const back = await world.client({ token: (await there.token()).secret }).send(getOrganization, { params: { id: there.id } })
    expect(back.status).toBe(401)
    const own = await production.client({ token: (await there.token()).secret }).send(getOrganization, { params: { id: here.id } })
    expect(own.status).toBe(404)
    await production.close()
  })
})

describe('database', () => {
  test('limits the serving roles: they own nothing, cannot log in, and have only the declared privileges', async () => {
    await world.database.owner(async (owner) => {
      const { rows: roles } = await owner.query(
        `select rolname from pg_roles where rolname in ('bursar_api', 'bursar_worker', 'bursar_jobs', 'bursar_processor') and (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolcanlogin)`,
      )
      expect(roles).toEqual([])
      const { rows: owned } = await owner.query(
        `select c.oid::regclass::text as name from pg_class c join pg_roles r on r.oid = c.relowner where r.rolname in ('bursar_api', 'bursar_worker', 'bursar_processor')`,
      )
      expect(owned).toEqual([])
      const { rows: grants } = await owner.query<{ grantee: string; table_name: string; privileges: string[] }>(
        `select grantee, table_name, array_agg(privilege_type::text order by privilege_type) as privileges from information_schema.role_table_grants
         where table_schema = 'public' and grantee like 'bursar_%' group by 1, 2`,
      )
      for (const { privileges } of grants) expect(privileges).not.toEqual(expect.arrayContaining(['TRUNCATE']))
      const api = Object.fromEntries(grants.filter(({ grantee }) => grantee === 'bursar_api').map(({ table_name, privileges }) => [table_name, privileges]))
      expect(api.events).toEqual(['INSERT', 'SELECT'])
      expect(api.schema_migrations).toEqual(['SELECT'])
      expect(api.deployment).toEqual(['SELECT'])
      expect(grants.filter(({ grantee }) => ['bursar_jobs', 'bursar_processor'].includes(grantee))).toEqual([])
      const { rows: definers } = await owner.query<{ proname: string }>(
        `select proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace where prosecdef and nspname = 'public' order by 1`,
      )
      // The functions of metrics and system events are triggers. They run as the owner, so that no serving role can write facts and events.
      expect(definers.map(({ proname }) => proname).join(' ')).toBe(
        'enqueue_job ensure_parts ensure_usage_parts note_changed_subscription note_checkout_events note_checkout_metrics note_cleared_update note_correction_metrics note_credit_event note_customer_events note_grant_events note_ledger_events note_ledger_metrics note_meter_reset note_new_subscription note_order_events note_order_metrics note_seat_metrics note_subscription_metrics note_updated_grant note_usage_metrics',
      )
      const { rows: open } = await owner.query(
        `select has_table_privilege('bursar_api', '"graphile_worker"."_private_jobs"', 'select') or has_schema_privilege('bursar_api', 'graphile_worker', 'usage') as open`,
      )
      expect(open).toEqual([{ open: false }])
      const { rows: loose } = await owner.query(
        `select conrelid::regclass::text as table, conname from pg_constraint c where contype = 'f' and connamespace in ('public'::regnamespace, 'test_processor'::regnamespace)
         and not exists (select from pg_index i where i.indrelid = c.conrelid and (i.indkey::smallint[])[0:array_length(c.conkey, 1) - 1] @> c.conkey)`,
      )
      expect(loose).toEqual([])
    })
  })

  test('records the changes of every table for the audit log, except for the tables listed here', async () => {
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ name: string }>(
        `select relname as name from pg_class c where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
         and (select count(*) from pg_trigger t where t.tgrelid = c.oid and t.tgname in ('note_changes', 'note_updates')) <> 2 order by 1`,
      ),
    )
    // Tables without an audit trigger: other logs, hashes of secrets, and internal tables. The records that a secret
    // unlocks are audited themselves.
    const unnoted =
      'audit_heads audit_log benefit_graces budget_spends checkout_drafts checkout_products collection_deltas credentials customer_balances customer_meters customer_session_codes customer_states downloadables ended_invitations event_heads events file_parts idempotency_keys invoice_counters ledger_entries ledger_transactions licence_signing_keys mails member_migration_problems member_readiness meter_credits metric_checks metric_facts metric_quarters metric_spans metric_usage oauth_families oauth_tokens oauth_visits order_items order_taxes organization_logos pending_sign_ins processor_customers processor_events recovery_codes schema_migrations seat_recipients sent_mails sign_in_codes signing_keys stray_charges subscription_prices system_events tax_quotes trial_redemptions usage_batches usage_child_counts usage_copies usage_credit_uses usage_depth_changes usage_events usage_holdings usage_keys usage_members usage_meters usage_name_counts usage_periods usage_quarters usage_reservations usage_subjects usage_texts usage_uncopied usage_uniques vat_checks webhook_attempts webhook_deliveries worker_lives'
    expect(rows.map(({ name }) => name).join(' ')).toBe(unnoted)
  })

  test('rejects writes on read-only connections, and changes of privileges by the serving role', async () => {
    const { db } = world.api.postgres
    await expect(db.q.updateTable('organizations').set({ name: 'x' }).execute()).rejects.toThrow(/read-only/)
    await expect(world.transact((tx) => tx.q.updateTable('deployment').set({ sign_up_open: true }).execute())).rejects.toThrow(/permission denied/)
    await expect(world.transact((tx) => tx.q.deleteFrom('events').execute())).rejects.toThrow(/permission denied/)
    for (const escape of ['reset role', 'set local role none'])
      await expect(
        world.transact(async (tx) => {
          await sql.raw(escape).execute(tx.q)
          await tx.q.updateTable('deployment').set({ sign_up_open: true }).execute()
        }),
      ).rejects.toThrow(/permission denied/)
  })

  test('rejects a login that owns the tables in production [S1-09]', async () => {
    const database = await cloneDatabase('production')
    const config = readConfig({ ...variables(database, 'smtp://127.0.0.1:1', 'production'), BURSAR_DATABASE_URL: database.owner_url })
    await expect(openApi({ ...world.base, config, telemetry: openTelemetry() })).rejects.toThrow(/must not own the tables/)
    await database.drop()
  })

  test('migrates as an owner that is not a superuser', async () => {
    const name = `bursar_t_${process.env.BURSAR_TEST_RUN}_owner`
    await asOwner('postgres', async (client) => {
      await client.query(`do $$ begin create role bursar_test_owner login createrole createdb; exception when duplicate_object or unique_violation then end $$`)
      await client.query(`create database ${name} owner bursar_test_owner`)
    })
    const url = new Secret(urlOf(name).replace(/\/\/[^@/]*@?/, '//bursar_test_owner@'))
    const options = { clock: systemClock, log: openLog('silent') }
    expect(await migrate(url, 'sandbox', options)).toEqual(migrations().map(({ version }) => version))
    const postgres = openPostgres(url, 'bursar_api', { max: 2, ...options })
    expect(await unfit(postgres.db)).toEqual([])
    await postgres.close()
    await asOwner('postgres', (client) => client.query(`drop database ${name} with (force)`))
  })

  test('migrates as an owner that may not create roles, once an administrator has created them', async () => {
    const name = `bursar_t_${process.env.BURSAR_TEST_RUN}_plain`
    const plain = `bursar_test_plain_${process.env.BURSAR_TEST_RUN}`
    const serving = 'bursar_api, bursar_worker, bursar_jobs, bursar_processor'
    await asOwner('postgres', async (client) => {
      await client.query(`create role ${plain}_owner login nocreaterole createdb; create role ${plain}_login login`)
      await client.query(`create database ${name} owner ${plain}_owner`)
    })
    const as = (role: string) => new Secret(urlOf(name).replace(/\/\/[^@/]*@?/, `//${plain}_${role}@`))
    const options = { clock: systemClock, log: openLog('silent'), login: as('login') }
    try {
      await expect(migrate(as('owner'), 'sandbox', options)).rejects.toThrow(/admin option|permission denied|must be/)
      await asOwner('postgres', (client) => client.query(`grant ${serving} to ${plain}_owner; grant ${serving} to ${plain}_login`))
      expect(await migrate(as('owner'), 'sandbox', options)).toEqual(migrations().map(({ version }) => version))
      expect(await migrate(as('owner'), 'sandbox', options)).toEqual([])
      const postgres = openPostgres(as('login'), 'bursar_api', { max: 2, ...options })
      expect(await unfit(postgres.db)).toEqual([])
      await postgres.close()
    } finally {
      await asOwner('postgres', async (client) => {
        await client.query(`drop database ${name} with (force)`)
        await client.query(`drop role ${plain}_login; drop role ${plain}_owner`)
      })
    }
  })

  test('runs each migration once, also concurrently, and detects changed and unknown migrations', async () => {
    const database: Database = await cloneDatabase()
    const url = new Secret(database.owner_url)
    const options = { clock: systemClock, log: openLog('silent') }
    expect(await Promise.all([migrate(url, 'sandbox', options), migrate(url, 'sandbox', options)])).toEqual([[], []])
    const postgres = openPostgres(url, 'bursar_api', { max: 2, ...options })
    expect(await unfit(postgres.db)).toEqual([])
    await database.owner((owner) =>
      owner.query(`insert into schema_migrations values ('9999_future', 'x', now()); update schema_migrations set checksum = 'y' where version like '0002%'`),
    )
    expect(await unfit(postgres.db)).toEqual(['unknown to this version of the software: 9999_future', 'changed after it was applied: 0002_identity'])
    await expect(migrate(url, 'sandbox', options)).rejects.toThrow(/9999_future/)
    await postgres.close()
    await database.drop()
  })
})

describe('output', () => {
  test('omits undeclared fields from encoded responses, and rejects a value without a required field', async () => {
    const organization = presentOrganization(await world.organization())
    const text = encode(organizationUpdated.data, { ...organization, secret: 'x', deleted_at: null })
    expect(Object.keys(JSON.parse(text))).not.toEqual(expect.arrayContaining(['secret']))
    expect(JSON.parse(text)).toMatchObject({ id: organization.id, created_at: organization.created_at.toISOString(), modified_at: null })
    const { slug: _, ...incomplete } = organization
    expect(() => encode(organizationUpdated.data, incomplete)).toThrow(/slug/)
  })

  test.each([
    ['null instead of a value', { name: null }],
    ['text instead of a boolean', { sso_enforced: 'yes' }],
    ['a value outside the enum', { status: 'sleeping' }],
    ['a fraction of a minor unit', { dispute_settings: { auto_accept_below_amount: 1.5 } }],
    ['an invalid date', { created_at: new Date(Number.NaN) }],
    ['an object instead of a list', { socials: {} }],
    ['a wrong type in a nested field', { customer_portal_settings: { usage: { show: null }, subscription: { update_seats: true, update_plan: true } } }],
  ])('rejects %s instead of coercing it', async (_, wrong) => {
    const organization = presentOrganization(await world.organization())
    expect(() => encode(organizationUpdated.data, { ...organization, ...wrong })).toThrow(Unencodable)
  })

  test('limits log lines to listed fields, and scrubs tokens, addresses and URLs from their text', () => {
    const lines: string[] = []
    const log = openLog('info', { write: (line) => void lines.push(line) })
    log.info('request', { status: 200, authorization: 'Bearer x', reason: 'for ann@people.test' } as never)
    expect(JSON.parse(lines[0]!)).toEqual({ level: 'info', time: expect.any(String), msg: 'request', status: 200, reason: 'for [address]' })
    expect(scrub('postgres://u:p@h/db failed for bursar_test_oat_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZa33EDWO')).toBe('[url] failed for [redacted]')
  })
})

describe('events and jobs', () => {
  const jobCount = async () => Number((await world.database.owner((owner) => owner.query('select count(*) from graphile_worker._private_jobs'))).rows[0].count)

  test('commits or rolls back events and jobs together with their transaction', async () => {
    const organization = await world.organization()
    const subject = { organization_id: organization.id, resource_id: organization.id }
    const before = await jobCount()
    await expect(
      world.transact(async (tx) => {
        await emit(inWallTime(tx), organizationUpdated, subject, presentOrganization(organization))
        await enqueue(tx, 'mail.sign_in_code', { sign_in_code_id: organization.id })
        throw new Error('changed my mind')
      }),
    ).rejects.toThrow('changed my mind')
    expect(await jobCount()).toBe(before)
    await world.transact(async (tx) => {
      await emit(inWallTime(tx), organizationUpdated, subject, presentOrganization(organization))
      await emit(inWallTime(tx), organizationUpdated, subject, presentOrganization(organization))
      await enqueue(tx, 'mail.sign_in_code', { sign_in_code_id: organization.id })
    })
    expect(await jobCount()).toBe(before + 1)
    const { rows } = await world.database.owner((owner) => owner.query('select count(*) from events where organization_id = $1', [organization.id]))
    expect(Number(rows[0].count)).toBe(2)
  })

  test('numbers events without gaps, each once, with many concurrent writers and sequencers', async () => {
    const organization = await world.organization()
    const worker = openPostgres(world.config.database_url, 'bursar_worker', {
      max: 10,
      clock: world.clock,
      log: world.base.log,
      timeout_ms: world.config.database_timeout_ms,
    })
    const subject = { organization_id: organization.id, resource_id: organization.id }
    const writing = Array.from({ length: 200 }, (_, at) =>
      world
        .transact(async (tx) => {
          await emit(inWallTime(tx), organizationUpdated, subject, presentOrganization(organization))
          if (at % 5 === 0) throw new Error('undone')
        })
        .catch(() => {}),
    )
    const numbering = Array.from({ length: 50 }, () => worker.transact((tx) => sequence(tx, organization.id)))
    await Promise.all([...writing, ...numbering])
    await worker.transact((tx) => sequence(tx, organization.id))
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ sequence: string }>('select sequence from events where organization_id = $1 order by sequence', [organization.id]),
    )
    expect(rows.map(({ sequence }) => Number(sequence))).toEqual(Array.from({ length: 160 }, (_, at) => at + 1))
    await worker.close()
  })
})

describe('leases', () => {
  const due = async (count: number) => {
    const organization = await world.organization()
    await world.database.owner((owner) =>
      owner.query(
        `insert into organization_invitations (organization_id, id, created_at, email, role, status, expires_at, due_at)
         select $1, gen_random_uuid(), now(), 'p' || n || '@people.test', 'member', 'pending', now() - interval '1 minute', now() - interval '1 minute' from generate_series(1, $2) n`,
        [organization.id, count],
      ),
    )
    return organization
  }
  const clock = openClock()
  const options = { holder: 'me', limit: 7, lease_ms: 60_000 }

  test('leases a due row to one worker, and after expiry to another; the first worker can then change nothing', async () => {
    const organization = await due(20)
    const worker = openPostgres(world.config.database_url, 'bursar_worker', {
      max: 10,
      clock,
      log: world.base.log,
      timeout_ms: world.config.database_timeout_ms,
    })
    const claimed = (await Promise.all(Array.from({ length: 6 }, () => claim(worker.transact, 'organization_invitations', options)))).flat()
    expect(new Set(claimed.map(({ id }) => id)).size).toBe(20)
    expect(await claim(worker.transact, 'organization_invitations', options)).toEqual([])

    const [late] = claimed
    clock.advance(60_001)
    await expect(underLease(worker.transact, late!, async () => null)).rejects.toThrow(LeaseLost)
    const again = await claim(worker.transact, 'organization_invitations', { ...options, limit: 50, holder: 'other' })
    expect(again).toHaveLength(20)
    clock.advance(-60_001)
    await expect(underLease(worker.transact, late!, async () => null)).rejects.toThrow(LeaseLost)
    clock.advance(60_001)
    let effects = 0
    for (const lease of again)
      await underLease(worker.transact, lease, async () => {
        effects++
        return null
      })
    expect(effects).toBe(20)
    await expect(underLease(worker.transact, again[0]!, async () => null)).rejects.toThrow(LeaseLost)
    const { rows } = await world.database.owner((owner) =>
      owner.query('select 1 from organization_invitations where organization_id = $1 and due_at is not null', [organization.id]),
    )
    expect(rows).toEqual([])
    await worker.close()
  })

  test('leases rows of a test clock only by the time of that clock', async () => {
    const organization = await due(1)
    await world.database.owner((owner) =>
      owner.query('update organization_invitations set clock_id = gen_random_uuid() where organization_id = $1', [organization.id]),
    )
    const worker = openPostgres(world.config.database_url, 'bursar_worker', {
      max: 2,
      clock: openClock(),
      log: world.base.log,
      timeout_ms: world.config.database_timeout_ms,
    })
    expect(await claim(worker.transact, 'organization_invitations', options)).toEqual([])
    await worker.close()
  })
})
