import {
  advanceTestClock,
  confirmClientCheckout,
  confirmPortalPayment,
  createCheckout,
  createCustomer,
  createCustomerSession,
  createDiscount,
  createProduct,
  createSubscription,
  createTestClock,
  listOrders,
  listSubscriptions,
  updateSubscription,
  updateTaxSettings,
} from '@bursar/contract'
import { openPayments } from '../../../src/gateways/payments/open.ts'
import { dueWork, jobs } from '../../../src/main/wire.ts'
import type { Deps } from '../../../src/modules/handlers.ts'
import { sweeps } from '../../../src/platform/jobs/catalogue.ts'
import { claim, LeaseLost } from '../../../src/platform/jobs/leases.sql.ts'
import { openPostgres } from '../../../src/platform/postgres/postgres.ts'
import { openWorld } from '../../harness/world.ts'
import { openAudit } from './audit.ts'
import { openMeteredLife, type MeteredStory } from './metered.ts'
import { openUsageAudit, type UsageFigures } from './usage-audit.ts'
import type { Act } from './biller.ts'
import { bargains, currencies, places, priceIn, wares, type Clock, type Story } from './stories.ts'

export interface Outcome {
  readonly orders: number
  /** The sum of all ledger entries over all currencies. Must be zero. */
  readonly ledger: string
  readonly digest: string
  readonly usage: UsageFigures
  readonly problems: readonly string[]
}

/** Runs the simulation. All changes are HTTP requests. The server's own sweeps do all due work, with the worker's database role. */
export const live = async (
  { clocks, stories, metered }: { clocks: readonly Clock[]; stories: readonly Story[]; metered: readonly MeteredStory[] },
  say: (line: string) => void,
): Promise<Outcome> => {
  const world = await openWorld()
  // The run kills no process, so commits need not wait for the disk.
  await world.database.owner((owner) => owner.query(`alter database ${world.database.name} set synchronous_commit to off`))
  const payments = openPayments(world.config, world.base)
  const worker = openPostgres(world.config.database_url, 'bursar_worker', {
    max: 10,
    timeout_ms: world.config.database_timeout_ms,
    clock: world.clock,
    log: world.base.log,
  })
  const deps: Deps = { db: worker.db, transact: worker.transact, gateways: { ...world.api.gateways, payments }, platform: world.platform }
  try {
    const { organization, api } = await world.shop()
    const ids = await furnish(api, (slug) => world.database.owner((owner) => owner.query(`update organizations set ${slug}`)).then(() => undefined))

    /** Runs every waiting job except mail. Only one run is active at a time. */
    let working = Promise.resolve()
    const work = (): Promise<void> =>
      (working = working.then(async () => {
        for (;;) {
          const { rows } = await world.database.owner((owner) =>
            owner.query<{ name: string; payload: never }>(
              `with next as (
                 select j.id from graphile_worker._private_jobs j join graphile_worker._private_tasks t on t.id = j.task_id where t.identifier not like 'mail.%')
               delete from graphile_worker._private_jobs j using graphile_worker._private_tasks t, next where t.id = j.task_id and next.id = j.id
               returning t.identifier as name, j.payload`,
            ),
          )
          if (rows.length === 0) return
          for (const { name, payload } of rows) await jobs.find((job) => job.name === name)!.run(deps, payload)
        }
      }))

    const clockIds: string[] = []
    for (const { name, stops } of clocks) clockIds.push((await api.call(createTestClock, { body: { name, now: new Date(stops[0]!).toISOString() } })).id)

    const lead = dueWork.find(({ name }) => name === 'clocks.travel')!
    /** Requests new times for several test clocks, then runs the worker's sweeps until every clock has arrived. */
    const travel = async (targets: readonly { id: string; to: number }[]): Promise<void> => {
      for (const { id, to } of targets) await api.call(advanceTestClock, { params: { id }, body: { to: new Date(to).toISOString() } })
      let before = ''
      for (let standing = 0; standing < 20; standing++) {
        const until = world.clock.wall().getTime() + sweeps['clocks.travel'].lease_ms
        const leases = await claim(deps.transact, 'test_clocks', { holder: 'years', limit: 100, lease_ms: sweeps['clocks.travel'].lease_ms })
        await Promise.all(
          leases.map((lease) =>
            lead.run(deps, lease).catch((error: unknown) => {
              if (!(error instanceof LeaseLost) || world.clock.wall().getTime() < until) throw error
            }),
          ),
        )
        const moving = await deps.db.q.selectFrom('test_clocks').select('now_at').where('target_at', 'is not', null).orderBy('id').execute()
        if (moving.length === 0) return
        const now = moving.map(({ now_at }) => now_at.toISOString()).join()
        if (now !== before) standing = 0
        before = now
        // The test clocks wait for a job or for the wall clock. Runs the jobs and advances the wall clock.
        await work()
        world.clock.advance(1000)
      }
      throw new Error(`a clock stands still at ${before}`)
    }

    const known = new Map<Story, { customer_id: string; id: string }>()
    const buy = async (story: Story, n: number): Promise<void> => {
      const { beginning, currency, place, trialDays, bargain } = story
      const { address } = places[place]
      const customer = await api.call(createCustomer, {
        body: { email: `s${n}@people.test`, billing_address: address, test_clock_id: clockIds[story.clock]! },
      })
      const product_id = ids.products.get(beginning.plan.id)!
      if (beginning.card === 'none') {
        const made = await api.call(createSubscription, { body: { customer_id: customer.id, product_id } })
        known.set(story, { customer_id: customer.id, id: made.id })
        return
      }
      const checkout = await api.call(createCheckout, {
        body: {
          products: [product_id],
          customer_id: customer.id,
          currency,
          ...(beginning.seats === null ? {} : { seats: beginning.seats }),
          ...(bargain === null ? {} : { discount_id: ids.discounts.get(bargain.name)! }),
          ...(trialDays === null ? { allow_trial: false } : { trial_interval: 'day', trial_interval_count: trialDays }),
        } as never,
      })
      await world.client().call(confirmClientCheckout, {
        params: { client_secret: checkout.client_secret },
        body: { customer_billing_address: address, confirmation_token_id: `${tokens[beginning.card]}:s${n}` },
      })
      await work()
      const [made] = (await api.call(listSubscriptions, { query: { customer_id: [customer.id] } })).items
      if (!made) throw new Error(`nothing was bought: ${story.name}`)
      known.set(story, { customer_id: customer.id, id: made.id })
    }

    const rescue = async ({ customer_id, id }: { customer_id: string; id: string }): Promise<number> => {
      const { token } = await api.call(createCustomerSession, { body: { customer_id } })
      const orders = (await api.call(listOrders, { query: { customer_id: [customer_id], limit: 100 } })).items
      const open = orders.find(({ status, subscription_id }) => status === 'pending' && subscription_id === id)
      if (!open) throw new Error('there is nothing to pay')
      const answer = await world
        .client({ token })
        .send(confirmPortalPayment, { params: { id: open.id }, body: { confirmation_token_id: `tok_visa:r${id.slice(-12)}` } })
      return answer.status
    }

    const perform = async (story: Story, act: Act): Promise<{ status: number; body: unknown }> => {
      const one = known.get(story)!
      if (act.kind === 'rescue') return { status: await rescue(one), body: null }
      return api.send(updateSubscription, { params: { id: one.id }, body: bodyOf(act, ids) })
    }

    /** Processes due rows that belong to no test clock. */
    const sweep = async (): Promise<void> => {
      for (const name of ['usage.backfill_meters', 'entitlements.apply'] as const) {
        const { table, lease_ms } = sweeps[name]
        const { run } = dueWork.find((one) => one.name === name)!
        for (const lease of await claim(deps.transact, table, { holder: 'years', limit: 100, lease_ms })) await run(deps, lease)
      }
    }
    const meteredLife = await openMeteredLife({ world, deps, api, clockIds, work, sweep }, metered)
    const audit = openAudit(world, organization.id)
    const usageAudit = openUsageAudit(world)
    const problems: string[] = []
    const rounds = Math.max(...clocks.map(({ stops }) => stops.length))
    for (let round = 0; round < rounds; round++) {
      if (round > 0) await travel(clocks.flatMap(({ stops: { [round]: to } }, n) => (to === undefined ? [] : [{ id: clockIds[n]!, to }])))
      if (round > 0) problems.push(...[...(await audit.tick()), ...(await usageAudit.tick())].map((problem) => `after ${round} strides: ${problem}`))
      if (problems.length > 0) break
      await Promise.all(
        clocks.map(async ({ stops }, clock) => {
          const now = stops[round]
          for (const [n, story] of stories.entries()) {
            if (now === undefined || story.clock !== clock) continue
            if (story.beginning.at === now) await buy(story, n)
            for (const { at, act, happens } of story.deeds) {
              if (at !== now) continue
              const answer = await perform(story, act)
              if (answer.status !== (happens ? 200 : 402))
                problems.push(
                  `${story.name} at ${new Date(at).toISOString()}: ${JSON.stringify(act, plain)} was answered ${answer.status} ${JSON.stringify(answer.body)}`,
                )
            }
          }
          if (now !== undefined) await meteredLife.perform(clock, now)
        }),
      )
      await work()
      await meteredLife.settle()
      if (round % 60 === 0) say(`${round} of ${rounds} strides`)
      if (problems.length > 0) break
    }
    const begun = stories.flatMap((story) => (known.has(story) ? [{ story, ...known.get(story)! }] : []))
    const { compared, digest, orders, ledger } = await audit.end(begun, await usageAudit.lines())
    if (problems.length === 0) {
      // After the last orders, all usage must be billed or listed as unbilled.
      await meteredLife.revokeAll()
      await meteredLife.settle()
      await travel(clocks.map(({ stops }, n) => ({ id: clockIds[n]!, to: stops.at(-1)! + 36 * 86_400_000 })))
      await meteredLife.settle()
      problems.push(...(await usageAudit.tick()).map((problem) => `after the last orders: ${problem}`))
    }
    const usage = await usageAudit.figures()
    if (problems.length === 0 && usage.waiting !== '0')
      problems.push(`after the last orders, ${usage.waiting} events are neither billed nor listed as unbilled`)
    return { orders, ledger, digest, usage, problems: [...problems, ...compared] }
  } finally {
    await payments.close()
    await worker.close()
    await world.close()
  }
}

const tokens = { pays: 'tok_visa', recovers: 'tok_recovers_later', declined: 'tok_declined_later', expired: 'tok_expired_later' } as const

export const plain = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? Number(value) : value)

interface Ids {
  readonly products: ReadonlyMap<string, string>
  readonly discounts: ReadonlyMap<string, string>
}

const bodyOf = (act: Act, { products, discounts }: Ids): object => {
  switch (act.kind) {
    case 'plan':
      return { product_id: products.get(act.plan.id)!, proration_behavior: act.way }
    case 'seats':
      return { seats: act.seats, proration_behavior: act.way }
    case 'deal':
      return { discount_id: act.deal === null ? null : discounts.get(act.deal.id)! }
    case 'cancel':
    case 'uncancel':
      return { cancel_at_period_end: act.kind === 'cancel' }
    case 'revoke':
      return { revoke: true }
    case 'pause':
      return { pause_at_period_end: true, ...(act.until === null ? {} : { resumes_at: new Date(act.until).toISOString() }) }
    case 'unpause':
      return { pause_at_period_end: false }
    case 'resume':
      return { resume: true }
    case 'clear':
      return { pending_update: null }
    case 'start':
      return { trial_end: 'now' }
    case 'period':
      return { current_billing_period_end: new Date(act.end).toISOString() }
    case 'rescue':
      throw new Error('that is done in the portal')
  }
}

type Api = Awaited<ReturnType<Awaited<ReturnType<typeof openWorld>>['shop']>>['api']

/** Creates the products, the discounts and the tax rates. */
const furnish = async (api: Api, settings: (assignment: string) => Promise<void>): Promise<Ids> => {
  await settings(`feature_settings = feature_settings || '{"seat_based_pricing_enabled": true}'`)
  const rates = Object.values(places).map(({ address, perMillion }) => ({
    country: address.country,
    state: 'state' in address ? address.state : null,
    rate: String(Number(perMillion) / 10_000),
    reverse_charge: false,
  }))
  await api.call(updateTaxSettings, { body: { provider: 'rates', rates: rates.filter(({ rate }) => rate !== '0') } as never })
  const products = new Map<string, string>()
  for (const { name, unit, count, flat, seats } of wares) {
    const prices = currencies.flatMap((currency) => [
      ...(flat === null ? [] : [{ amount_type: 'fixed', price_amount: priceIn(currency, flat), price_currency: currency }]),
      ...(seats === null
        ? []
        : [
            {
              amount_type: 'seat_based',
              price_currency: currency,
              seat_tiers: {
                seat_tier_type: seats.by,
                tiers: seats.tiers.map(([upto, each], n) => ({
                  min_seats: n === 0 ? seats.least : seats.tiers[n - 1]![0]! + 1,
                  ...(upto === null ? {} : { max_seats: upto }),
                  price_per_seat: priceIn(currency, each),
                })),
              },
            },
          ]),
    ])
    products.set(name, (await api.call(createProduct, { body: { name, recurring_interval: unit, recurring_interval_count: count, prices } as never })).id)
  }
  const discounts = new Map<string, string>()
  for (const bargain of bargains) {
    const lasting = typeof bargain.duration === 'number' ? { duration: 'repeating', duration_in_months: bargain.duration } : { duration: bargain.duration }
    const off =
      'cents' in bargain
        ? { type: 'fixed', amounts: Object.fromEntries(currencies.map((currency) => [currency, priceIn(currency, bargain.cents)])) }
        : { type: 'percentage', basis_points: bargain.basisPoints }
    discounts.set(bargain.name, (await api.call(createDiscount, { body: { name: bargain.name, ...off, ...lasting } as never })).id)
  }
  return { products, discounts }
}
