import { createBenefit, createCheckout, createCheckoutLink, createWebhookEndpoint, resetWebhookSecret, saveCheckoutDraft } from '@bursar/contract'
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openEntitlements } from '../../test/harness/entitlements.ts'
import { launch } from '../../test/harness/process.ts'
import { openStripeTill } from '../../test/harness/processors.ts'
import { noteSecrets } from '../../test/harness/secrets.ts'
import { openClock, openWorld, sealingKey, type World } from '../../test/harness/world.ts'
import { Sealer, Secret, type Pepper } from '../kernel/secrets.ts'
import { beginFactor } from '../modules/identity/factors/factors.ts'
import { systemClock } from '../platform/clock.ts'
import { withOwner } from '../platform/migrations/migrations.ts'
import { nextOutdated } from '../platform/postgres/resealing.sql.ts'
import { sealedColumns } from '../platform/sealed.ts'
import { reseal } from './reseal.ts'

let world: World
let till: Awaited<ReturnType<typeof openStripeTill>>
let people: Awaited<ReturnType<typeof openEntitlements>>
let shop: Awaited<ReturnType<typeof people.open>>
let endpoint: { id: string; secret: string }
const first: Pepper = { version: 1, key: Buffer.from(sealingKey, 'base64') }
const keys = (versions: number): Pepper[] => Array.from({ length: versions }, (_, at) => (at === 0 ? first : later[at]!)).toReversed()
const later = Array.from({ length: 9 }, (_, at): Pepper => ({ version: at + 1, key: randomBytes(32) }))
const sealerOf = (list: readonly Pepper[]) => new Sealer(list as [Pepper, ...Pepper[]])
beforeAll(async () => {
  const clock = openClock()
  till = await openStripeTill(clock)
  world = await openWorld({ clock, settings: till.settings })
  people = await openEntitlements(world)
  shop = await people.open()
  await tellStory()
})
afterAll(async () => {
  await people.close()
  await world.close()
  await till.close()
})

/** Stores a secret in every column that holds sealed values. */
const tellStory = async () => {
  const { api, organization } = shop
  const benefit = await api.call(createBenefit, { body: { type: 'license_keys', description: 'Desktop app', properties: {} } })
  const product = await shop.product([benefit])
  await shop.buy(product.id)
  const { client_secret } = await api.call(createCheckout, { body: { products: [product.id] } })
  await world.client().call(saveCheckoutDraft, { params: { client_secret }, body: { fields: { customer_name: 'Ada' } } })
  await api.call(createCheckoutLink, { body: { payment_processor: 'stripe', products: [product.id] } as never })
  await till.connect(world.client({ cookie: await ownerCookie(organization.id) }), organization.id)
  const made = await api.call(createWebhookEndpoint, { body: { url: 'https://example.com/hook', format: 'raw', events: ['order.paid'] } })
  endpoint = await api.call(resetWebhookSecret, { params: { id: made.id } })
  const person = await world.person()
  await world.transact((tx) => beginFactor(tx, world.platform, { user_id: person.id, credential_id: person.id, email: person.email }))
}
const ownerCookie = async (organization_id: string) => {
  const person = await world.person()
  await world.join(organization_id, person.id, 'admin')
  return person.cookie()
}

/** The format of a sealed value: the key version, then nonce, tag and ciphertext in base 64, together at least 29 bytes. */
const sealedShape = String.raw`^[0-9]+:[A-Za-z0-9+/]{39,}={0,2}$`

/** Lists every column of every table in which a stored value looks sealed. */
const scan = () =>
  world.database.owner(async (owner) => {
    const { rows: columns } = await owner.query<{ table: string; column: string }>(
      `select c.relname as "table", a.attname as "column" from pg_class c join pg_attribute a on a.attrelid = c.oid
       where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and a.attnum > 0 and not a.attisdropped
       and a.atttypid in ('text'::regtype, 'json'::regtype, 'jsonb'::regtype, 'varchar'::regtype)`,
    )
    const found: string[] = []
    for (const { table, column } of columns) {
      const { rows } = await owner.query(`select 1 from "${table}" where "${column}"::text ~ $1 limit 1`, [sealedShape])
      if (rows.length > 0) found.push(`${table}.${column}`)
    }
    return found.toSorted()
  })

const asOwner = <T>(work: Parameters<typeof withOwner<T>>[3]) => withOwner(world.config.database_owner_url, 'sandbox', systemClock, work)

/** Decrypts every sealed value, by column and row. */
const openAll = (sealer: Sealer) =>
  asOwner(async ({ db }) => {
    const all = new Map<string, string>()
    for (const column of sealedColumns)
      for (const { key, sealed } of await nextOutdated(db, column, 0, undefined, 10_000))
        all.set(`${column.table}.${column.column} ${Object.values(key).join(' ')}`, sealer.open(sealed, column.bound(key)).reveal())
    return all
  })

test('sealedColumns lists exactly the columns with sealed values in the database', async () => {
  expect(await scan()).toEqual(sealedColumns.map(({ table, column }) => `${table}.${column}`).toSorted())
  // All values can be decrypted. `sealedColumns` therefore binds each value to the same text as the code that sealed it.
  expect((await openAll(sealerOf(keys(1)))).size).toBeGreaterThanOrEqual(sealedColumns.length)
  const named = await world.database.owner((owner) =>
    owner.query<{ name: string }>(
      // Leaves partitions out, because they repeat the columns of their table.
      `select c.table_name || '.' || c.column_name as name from information_schema.columns c
       join pg_class t on t.oid = format('%I.%I', c.table_schema, c.table_name)::regclass
       where c.table_schema = 'public' and not t.relispartition and c.data_type <> 'boolean' and c.column_name ~ '(^|_)sealed$' order by 1`,
    ),
  )
  const listed = new Set(sealedColumns.map(({ table, column }) => `${table}.${column}`))
  expect(named.rows.map(({ name }) => name).filter((name) => !listed.has(name))).toEqual([])
})

test('seals every secret under the newest key while the service runs, so that the old key can be removed', async () => {
  const before = await openAll(sealerOf(keys(1)))
  const settings = {
    ...world.environmentVariables,
    BURSAR_SEALING_KEYS: keys(2)
      .map(({ version, key }) => `${version}:${key.toString('base64')}`)
      .join(','),
  }
  for (const key of keys(2)) noteSecrets(key.key.toString('base64'))
  const program = launch(['keys', 'reseal', '--json'], settings)
  expect(await program.exited, program.output()).toBe(0)
  expect(JSON.parse(program.output())).toEqual({ key: 2, resealed: before.size, unreadable: [], outdated: 0 })
  // All secrets can be decrypted without the old key.
  expect(await openAll(sealerOf([keys(2)[0]!]))).toEqual(before)
  const again = launch(['keys', 'reseal'], settings)
  expect(await again.exited).toBe(0)
  expect(again.output()).toContain('0 secrets were sealed with key 2')
  expect(again.output()).toContain('No secret is sealed with 1 any more')
  const { rows } = await world.database.owner((owner) => owner.query(`select actor_kind from audit_log where operation = 'cli keys reseal'`))
  expect(rows).toEqual([{ actor_kind: 'cli' }, { actor_kind: 'cli' }])
})

test('seals in batches, and continues with the remaining secrets after an interruption', async () => {
  const before = await openAll(sealerOf(keys(2)))
  const sealer = sealerOf(keys(3))
  await asOwner(async ({ db, transact }) => {
    let batches = 0
    const stopping: typeof transact = (work) => {
      if (++batches > 3) throw new Error('stopped')
      return transact(work)
    }
    await expect(reseal({ db, transact: stopping, sealer }, undefined, { batch: 1 })).rejects.toThrow('stopped')
    const told: [number, number][] = []
    const rest = await reseal({ db, transact, sealer }, (done, total) => told.push([done, total]), { batch: 1 })
    expect(rest).toEqual({ resealed: before.size - 3, unreadable: [], outdated: 0 })
    expect(told).toHaveLength(before.size - 3)
    expect(told.at(-1)).toEqual([before.size - 3, before.size - 3])
  })
  expect(await openAll(sealerOf([keys(3)[0]!]))).toEqual(before)
})

/** The secret of webhook endpoints. The tests below change it while the command seals it under a new key. */
const columns = sealedColumns.filter(({ table, column }) => table === 'webhook_endpoints' && column === 'secret_sealed')
const writeSecret = (sealed: string) =>
  world.database.owner((owner) => owner.query('update webhook_endpoints set secret_sealed = $1 where id = $2', [sealed, endpoint.id]))

test('keeps the new value of a secret that is changed during a pass, and seals it in the next pass', async () => {
  const changed = sealerOf(keys(3)).seal(new Secret('whsec_changed'), endpoint.id)
  await asOwner(async ({ db, transact }) => {
    let races = 0
    const racing: typeof transact = async (work) => {
      if (races++ === 0) await writeSecret(changed)
      return transact(work)
    }
    expect(await reseal({ db, transact: racing, sealer: sealerOf(keys(4)) }, undefined, { columns })).toEqual({ resealed: 1, unreadable: [], outdated: 0 })
    expect(races).toBe(2)
  })
  const [sealed] = await asOwner(({ db }) => nextOutdated(db, columns[0]!, 0, undefined, 1))
  expect(
    sealerOf([keys(4)[0]!])
      .open(sealed!.sealed, endpoint.id)
      .reveal(),
  ).toBe('whsec_changed')
})

test('stops after five passes if a process keeps writing secrets under the old key, and counts these secrets', async () => {
  await asOwner(async ({ db, transact }) => {
    let passes = 0
    const racing: typeof transact = async (work) => {
      passes++
      await writeSecret(sealerOf(keys(4)).seal(new Secret('whsec_changed'), endpoint.id))
      return transact(work)
    }
    expect(await reseal({ db, transact: racing, sealer: sealerOf(keys(5)) }, undefined, { columns })).toEqual({ resealed: 0, unreadable: [], outdated: 1 })
    expect(passes).toBe(5)
  })
})

test('lists the secrets that no configured key decrypts, seals the others, and fails', async () => {
  // The settings lack key 4, under which one secret is still sealed.
  const settings = { ...world.environmentVariables, BURSAR_SEALING_KEYS: `5:${later[4]!.key.toString('base64')},3:${later[2]!.key.toString('base64')}` }
  const program = launch(['keys', 'reseal'], settings)
  expect(await program.exited).toBe(1)
  expect(program.output()).toContain(`unreadable  webhook_endpoints.secret_sealed ${shop.organization.id} ${endpoint.id}`)
  expect(program.output()).toContain('sealed under key 4, which is not configured')
  expect(program.output()).toContain('1 could not be opened')
})

test('says that an old key can be removed only if no secret is sealed under it', async () => {
  const list = [6, 5, 4].map((version) => `${version}:${later[version - 1]!.key.toString('base64')}`).join(',')
  const run = async () => {
    const program = launch(['keys', 'reseal'], { ...world.environmentVariables, BURSAR_SEALING_KEYS: list })
    return { code: await program.exited, output: program.output() }
  }
  // A trigger discards every update of the secret, as if the row had changed before each update.
  await world.database.owner((owner) =>
    owner.query(`create function lose() returns trigger language plpgsql as 'begin return null; end';
      create trigger lose before update of secret_sealed on webhook_endpoints for each row execute function lose()`),
  )
  const refused = await run()
  expect([refused.code, refused.output]).toEqual([1, expect.stringContaining('1 secrets are still sealed with another key') as string])
  expect(refused.output).not.toContain('any more')
  await world.database.owner((owner) => owner.query('drop trigger lose on webhook_endpoints; drop function lose()'))
  const done = await run()
  expect([done.code, done.output]).toEqual([0, expect.stringContaining('No secret is sealed with 5, 4 any more') as string])
})
