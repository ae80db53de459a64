import { createDiscount, createProduct, updateTaxSettings } from '@bursar/contract'
import pg from 'pg'
import { openPayments } from '../../../src/gateways/payments/open.ts'
import { openTestProcessor } from '../../../src/gateways/payments/test/processor.ts'
import { jobs } from '../../../src/main/wire.ts'
import { findAccountAnywhere, openAccount } from '../../../src/modules/billing/payments/attempts.sql.ts'
import { receive } from '../../../src/modules/billing/payments/processor-events.ts'
import type { Deps } from '../../../src/modules/handlers.ts'
import { openPostgres } from '../../../src/platform/postgres/postgres.ts'
import { openTravels } from '../../harness/clocks.ts'
import { openWorld } from '../../harness/world.ts'
import { discounts, places, productNames, products, type DiscountName, type Product, type ProductName } from './catalogue.ts'

/** Opens one server and one database for many sequences. Its worker runs the jobs of one shop at a time. */
export const openStage = async () => {
  const world = await openWorld()
  const owners = new pg.Pool({ connectionString: world.database.owner_url, max: 8 })
  const ask = async <T extends pg.QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<T[]> =>
    (await owners.query<T>(text, [...values])).rows
  // The run kills no process, so commits need not wait for the disk.
  await ask(`alter database ${world.database.name} set synchronous_commit to off`)
  const payments = openPayments(world.config, world.base)
  const processor = openTestProcessor({
    url: world.config.database_url,
    environment: 'sandbox',
    clock: world.clock,
    log: world.base.log,
    timeout_ms: world.config.database_timeout_ms,
  })
  const worker = openPostgres(world.config.database_url, 'bursar_worker', {
    max: 10,
    timeout_ms: world.config.database_timeout_ms,
    clock: world.clock,
    log: world.base.log,
  })
  const deps: Deps = { db: worker.db, transact: worker.transact, gateways: { ...world.api.gateways, payments }, platform: world.platform }

  /** Opens a shop for sequences that run one after the other. Each sequence has its own customer. */
  const openLane = async () => {
    const { organization, api } = await world.shop()
    const organization_id = organization.id
    await ask(
      `update organizations set feature_settings = feature_settings || '{"seat_based_pricing_enabled": true}',
         customer_portal_settings = customer_portal_settings || '{"subscription": {"update_seats": true, "update_plan": true, "pause": true}}' where id = $1`,
      [organization_id],
    )
    const rates = Object.values(places)
      .filter(({ rate }) => rate > 0)
      .map(({ address, rate }) => ({
        country: address.country,
        state: 'state' in address ? address.state : null,
        rate: String(Number((rate * 100).toFixed(4))),
        reverse_charge: false,
      }))
    await api.call(updateTaxSettings, { body: { provider: 'rates', rates } as never })
    const productIds = new Map<ProductName, string>()
    for (const name of productNames) productIds.set(name, (await api.call(createProduct, { body: productBody(name) as never })).id)
    const discountIds = new Map<DiscountName, string>()
    for (const [name, { basis_points, duration }] of Object.entries(discounts))
      discountIds.set(name as DiscountName, (await api.call(createDiscount, { body: { name, type: 'percentage', basis_points, duration } as never })).id)

    /** Runs every waiting job of this shop. Discards mail. */
    const work = async (): Promise<void> => {
      for (;;) {
        const rows = await ask<{ id: string; name: string; payload: never }>(
          `delete from graphile_worker._private_jobs j using graphile_worker._private_tasks t
           where t.id = j.task_id and j.payload->>'organization_id' = $1 returning j.id, t.identifier as name, j.payload`,
          [organization_id],
        )
        if (rows.length === 0) return
        for (const { name, payload } of rows.toSorted((a, b) => Number(a.id) - Number(b.id)))
          if (!name.startsWith('mail.')) await jobs.find((job) => job.name === name)!.run(deps, payload)
      }
    }

    /** Delivers the processor's events for this shop, and runs the resulting jobs. */
    const hear = async (): Promise<void> => {
      for (const { id } of await ask<{ id: string }>('select id from payment_accounts where organization_id = $1', [organization_id])) {
        const account = (await findAccountAnywhere(deps.db, id))!
        const side = processor.account(id, openAccount(deps.platform.sealer, account).secret)
        for (let events = await side.takeCallbacks(100); events.length > 0; events = await side.takeCallbacks(100))
          for (const { headers, body } of events) await deps.transact((tx) => receive(tx, account, side.readEvent(headers, Buffer.from(body))))
      }
      await work()
    }

    /** Settles every pending debit, refund and dispute of this shop at the test processor, and handles the resulting events. */
    const settle = async (): Promise<void> => {
      for (const table of ['intents', 'refunds', 'disputes'])
        await ask(
          `update test_processor.${table} set settles_at = $2 where settles_at is not null
           and account in (select id::text from payment_accounts where organization_id = $1)`,
          [organization_id, world.clock.wall()],
        )
      await hear()
    }

    // All shops share the wall clock, so one shop must not advance it. If a test clock waits for a payment, refund or
    // dispute, the test processor settles it at once.
    const still = { ...world, clock: { ...world.clock, advance: () => undefined } }
    const { travel } = openTravels(still, { deps, work, sweep: settle } as never)
    return { organization_id, api, productIds, discountIds, work, hear, settle, travel, client: world.client, wall: () => world.clock.wall(), ask }
  }

  return {
    openLane,
    close: async () => {
      await owners.end()
      await processor.close()
      await payments.close()
      await worker.close()
      await world.close()
    },
  }
}
export type Stage = Awaited<ReturnType<typeof openStage>>
export type Lane = Awaited<ReturnType<Stage['openLane']>>

const productBody = (name: ProductName) => {
  const { interval, flat, tiers }: Product = products[name]
  return {
    name,
    recurring_interval: interval,
    prices: [
      ...(flat > 0 || tiers === null ? [{ amount_type: 'fixed', price_amount: flat, price_currency: 'usd' }] : []),
      ...(tiers === null
        ? []
        : [
            {
              amount_type: 'seat_based',
              price_currency: 'usd',
              seat_tiers: {
                seat_tier_type: 'graduated',
                tiers: tiers.map(([upTo, each], at) => ({
                  min_seats: at === 0 ? 1 : tiers[at - 1]![0]! + 1,
                  ...(upTo === null ? {} : { max_seats: upTo }),
                  price_per_seat: each,
                })),
              },
            },
          ]),
    ],
  }
}
