import { confirmClientCheckout, createCheckout } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openPayments } from '../../src/gateways/payments/open.ts'
import { releaseHeld } from '../../src/main/backups.ts'
import { openApi, openWorker } from '../../src/main/wire.ts'
import { readConfig, type Config } from '../../src/platform/config.ts'
import { openTelemetry } from '../../src/platform/telemetry.ts'
import { readManifest } from '../../src/platform/backups/backups.ts'
import { asOwner, loginOf, urlOf } from '../harness/database.ts'
import { launch } from '../harness/process.ts'
import { eventually, openWorld, type World } from '../harness/world.ts'
import { counted } from '../harness/pace.ts'
import { openDice } from './kills/plan.ts'
import { writeSubscriptions } from './kills/rows.ts'

const renewals = counted('RENEWALS', 60, 40, 4)

let world: World
let name: string
let settings: Record<string, string>
let config: Config
let folder: string
beforeAll(async () => {
  world = await openWorld({ worker: true })
  name = `${world.database.name}_second`
  settings = { ...world.environmentVariables, BURSAR_DATABASE_URL: loginOf(name), BURSAR_DATABASE_OWNER_URL: urlOf(name) }
  config = readConfig(settings)
  folder = `${process.env.BURSAR_TEST_SCRATCH}/${name}`
})
afterAll(async () => {
  await world.close()
  await asOwner('postgres', (client) => client.query(`drop database if exists ${name} with (force)`))
})

const run = async (args: readonly string[], variables: Record<string, string>) => {
  const program = launch(args, variables)
  const code = await program.exited
  return { code, output: program.output() }
}
const rowsOf = async <T>(database: string, statement: string): Promise<T[]> => (await asOwner(database, (client) => client.query(statement))).rows as T[]

interface Charge {
  readonly intent_id: string
  readonly amount: number
  readonly payment_id: string
  readonly customer: string
  readonly trigger: string
  readonly charged_at: Date
}
/** Charges by the processor's own records, in the live database or in a restored copy. */
const chargesIn = (database: string) =>
  rowsOf<Charge>(
    database,
    `select intent_id, amount::int, metadata->>'payment_id' as payment_id, metadata->>'trigger' as trigger, customer, charged_at from test_processor.charges order by charged_at`,
  )
/** Charges by the ledger, keyed by the processor's intent id. */
const ledgerIn = async (database: string) =>
  Object.fromEntries(
    (
      await rowsOf<{ intent_id: string; amount: number }>(
        database,
        `select p.intent_id, e.amount::int from ledger_transactions t join ledger_entries e on e.organization_id = t.organization_id and e.transaction_id = t.id
         join payments p on p.organization_id = t.organization_id and p.id = t.reference where t.kind = 'payment_received' and e.account = 'processor'`,
      )
    ).map(({ intent_id, amount }) => [intent_id, amount]),
  )
const byName = (charges: readonly Charge[]) => Object.fromEntries(charges.map(({ intent_id, amount }) => [intent_id, amount]))
/** Number of charged renewals. Purchases do not count. */
const renewalsIn = async (database: string) => (await chargesIn(database)).filter(({ trigger }) => trigger !== 'purchase').length
const chargedUpTo = (count: number) => eventually(`${count} renewals are charged`, async () => (await renewalsIn(world.database.name)) >= count)

test(
  "restores a backup that was taken while charging: the ledger matches the processor's records up to that moment, and no charge repeats",
  { timeout: 1_200_000 },
  async () => {
    // Renewals fall due one after the other while buyers pay checkouts. Half of the renewals fall due only after the backup.
    const from = new Date(world.clock.wall().getTime() + 500)
    const pause = 1_800_000
    const shop = await writeSubscriptions(world, openDice(7), { count: renewals, from, over: renewals * 100, pause })
    const seller = world.client({ token: shop.token })
    const shopping = { open: true }
    const sales = (async () => {
      while (shopping.open) {
        const { client_secret } = await seller.call(createCheckout, { body: { products: [shop.product_id] } })
        await world.client().call(confirmClientCheckout, {
          params: { client_secret },
          body: { customer_email: `${client_secret.slice(-8)}@people.test`, customer_billing_address: { country: 'DE' }, confirmation_token_id: 'tok_visa' },
        })
      }
    })()
    await chargedUpTo(renewals / 4)
    const taken = await run(['backup', '--to', folder, '--json'], world.environmentVariables)
    expect(taken.output).toContain('"snapshot_at"')
    const made = await renewalsIn(world.database.name)
    world.clock.advance(pause)
    await chargedUpTo(made + renewals / 4)
    shopping.open = false
    await sales
    // Simulates the disaster: the worker stops while renewals are in progress.
    await world.working!.close()
    const all = await chargesIn(world.database.name)

    expect((await run(['restore', '--from', folder, '--create'], settings)).output).toContain('every transaction at zero')
    const { snapshot_at } = await readManifest(folder)

    // Each charge in the backup is in its ledger, or has a pending payment attempt.
    const then = await chargesIn(name)
    const ledger = await ledgerIn(name)
    const pending = await rowsOf<{ id: string }>(name, `select id from payments where status = 'pending'`)
    const open = then.filter(({ payment_id }) => pending.some(({ id }) => id === payment_id))
    expect({ ...ledger, ...byName(open) }).toEqual(byName(then))
    expect(byName(all)).toMatchObject(ledger)
    // A charge that the test processor committed during the snapshot may be missing from the backup. Its payment attempt is in the backup.
    const found = new Set([...then.map((one) => one.payment_id), ...pending.map(({ id }) => id)])
    expect(all.filter(({ charged_at, payment_id }) => charged_at < new Date(snapshot_at) && !found.has(payment_id))).toEqual([])
    const after = all.filter(({ intent_id }) => !then.some((one) => one.intent_id === intent_id))
    expect(after.length).toBeGreaterThan(0)

    // API, worker and CLI all refuse to serve from the restored database.
    const base = { ...world.base, config, telemetry: openTelemetry() }
    await expect(openWorker(base)).rejects.toThrow(/is held until/)
    await expect(openApi(base)).rejects.toThrow(/is held until/)
    expect(await run(['serve'], settings)).toMatchObject({ code: 1, output: expect.stringContaining('bursar restore --release') as string })

    // The processor is external, so it still knows the charges after the backup. Here its records stay in the first database.
    const payments = openPayments(world.config, world.base)
    const { strays } = await releaseHeld(config, { payments, clock: world.clock })
    const renewed = after.filter(({ trigger, payment_id }) => trigger !== 'purchase' && !pending.some(({ id }) => id === payment_id))
    expect(strays.map(({ intent_id }) => intent_id).toSorted()).toEqual(renewed.map(({ intent_id }) => intent_id).toSorted())
    expect(strays.length).toBeGreaterThan(0)

    // The worker looks up a pending payment attempt after half a minute. Advances the clock past that time.
    world.clock.advance(180_000)
    const worker = await openWorker(base, { payments: { ...payments, close: async () => undefined } })
    try {
      await eventually(
        'every payment and order is settled',
        async () =>
          (
            await rowsOf(
              name,
              `select 1 from fates f where not exists (select from orders o where o.subscription_id = f.subscription_id and o.period_start = f.due_at)
             union all select 1 from payments where status = 'pending' union all select 1 from orders where status = 'pending' and first_failed_at is null`,
            )
          ).length === 0,
      )
    } finally {
      await worker.close()
      await payments.close()
    }
    const end = await chargesIn(world.database.name)
    const times = new Map<string, number>()
    for (const { customer } of end.filter(({ trigger }) => trigger !== 'purchase')) times.set(customer, (times.get(customer) ?? 0) + 1)
    const paying = await rowsOf<{ customer_id: string }>(name, `select customer_id from fates where fate = 'paid'`)
    expect(paying.filter(({ customer_id }) => times.get(customer_id) !== 1)).toEqual([])
    expect(times.size).toBe(paying.length)
    // Purchases after the backup are lost and exist only in the processor's records. All other charges are in the ledger.
    const lost = after.filter(({ trigger, payment_id }) => trigger === 'purchase' && !pending.some(({ id }) => id === payment_id))
    expect(await ledgerIn(name)).toEqual(byName(end.filter(({ intent_id }) => !lost.some((one) => one.intent_id === intent_id))))
    expect(await rowsOf(name, 'select 1 from stray_charges where settled_at is null')).toEqual([])
    process.stdout.write(
      `restore drill: ${end.length} charges · in the backup ${then.length} (${open.length} under way) · charged after it ${after.length} · found and adopted ${strays.length} · sales lost ${lost.length} · charged twice 0\n`,
    )
  },
)
