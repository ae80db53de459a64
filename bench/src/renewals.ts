import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { confirmClientCheckout, createCheckout, createCustomer, createProduct, updateTaxSettings } from '@bursar/contract'
import { openDeployment, openLife } from '../../server/test/harness/crashes.ts'
import { launch, portOf } from '../../server/test/harness/process.ts'
import { eventually, type World } from '../../server/test/harness/world.ts'
import { added, compareRows, costOf, countRows, figuresOf, type Cost, type Used } from './costs.ts'
import type { Counts } from './counting.ts'
import { cpuOf, databaseCpu } from './cpu.ts'
import { median, quotients } from './measuring.ts'
import { options } from './options.ts'
import type { Outcome } from './results.ts'

/**
 * Opens a shop with one subscription that was bought through the API, with tax and a card payment. The benchmark copies
 * this subscription.
 */
const open = async (world: World) => {
  const { api, organization } = await world.shop()
  const { id } = await api.call(createProduct, {
    body: { name: 'Plan', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 1000, price_currency: 'usd' }] },
  })
  await api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: false }] } })
  const customer = await api.call(createCustomer, { body: { email: 'first@people.test', name: 'A buyer' } })
  const { client_secret } = await api.call(createCheckout, { body: { products: [id], customer_id: customer.id } })
  const address = { country: 'DE' as const, line1: 'Am Markt 1', postal_code: '10115', city: 'Berlin' }
  await world
    .client()
    .call(confirmClientCheckout, { params: { client_secret }, body: { customer_billing_address: address, confirmation_token_id: 'tok_visa' } })
  const deployment = await openDeployment(world, openLife(null))
  await deployment.work()
  await deployment.close()
  return { customer_id: customer.id, token: (await organization.token()).secret.reveal() }
}

/**
 * Creates this many copies of the bought subscription, each with a customer and a card of its own. Their periods end at
 * regular intervals from now on. Constraints and triggers are disabled, because the original rows passed them. No
 * worker reads the copies before they are due.
 */
const sell = (world: World, first: string, name: string, count: number, apart_ms = 0): Promise<void> =>
  world.database.owner(async (owner) => {
    const id = (what: string) => `md5('${what} ${name} ' || n)::uuid`
    const end = `now() + n * ${apart_ms} * interval '1 millisecond'`
    const copy = (table: string, of: string, differs: string) =>
      owner.query(
        `insert into ${table} select (jsonb_populate_record(null::${table}, to_jsonb(t) || jsonb_build_object(${differs}))).*
         from ${table} t, generate_series(1, ${count}) n where ${of}`,
      )
    await owner.query('set session_replication_role = replica')
    await copy(
      'customers',
      `id = '${first}'`,
      `'id', ${id('customer')}, 'email', '${name}-' || n || '@people.test', 'default_payment_method_id', ${id('method')}`,
    )
    await copy(
      'payment_methods',
      `customer_id = '${first}'`,
      `'id', ${id('method')}, 'customer_id', ${id('customer')}, 'processor_method_id', 'pm_${name}_' || n`,
    )
    await copy('test_processor.methods', `customer = '${first}'`, `'id', 'pm_${name}_' || n, 'customer', ${id('customer')}`)
    await copy('customer_balances', `customer_id = '${first}'`, `'id', ${id('balance')}, 'customer_id', ${id('customer')}`)
    await copy('invoice_counters', `customer_id = '${first}'`, `'customer_id', ${id('customer')}`)
    await copy(
      'subscriptions',
      `customer_id = '${first}'`,
      `'id', ${id('subscription')}, 'customer_id', ${id('customer')}, 'checkout_id', null, 'due_at', null, 'anchor_day', extract(day from now()),
       'current_period_start', ${end} - interval '1 month', 'current_period_end', ${end}, 'metadata', jsonb_build_object('bench', '${name}')`,
    )
    await copy(
      'subscription_prices',
      `subscription_id in (select id from subscriptions where customer_id = '${first}')`,
      `'subscription_id', ${id('subscription')}`,
    )
    await owner.query('set session_replication_role = origin')
    await owner.query('analyze')
  })

/** Makes the subscriptions due. No trigger runs, because the statement takes minutes if it notes each of 20,000 changes for the audit log. */
const makeDue = (world: World, name: string) =>
  world.database.owner(async (owner) => {
    await owner.query('set session_replication_role = replica')
    await owner.query(`update subscriptions set due_at = current_period_end where metadata->>'bench' = $1`, [name])
    await owner.query('set session_replication_role = origin')
  })

const settled = async (world: World, name: string): Promise<number> => {
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ count: number }>(
      `select count(*)::int as count from orders o join subscriptions s on s.organization_id = o.organization_id and s.id = o.subscription_id
       where o.status = 'paid' and o.billing_reason = 'subscription_cycle' and s.metadata->>'bench' = $1`,
      [name],
    ),
  )
  return rows[0]!.count
}

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

/** Starts a separate worker process, as in production. It counts its statements. */
const startWorker = async (world: World) => {
  const program = launch(['serve', '--roles', 'worker'], {
    ...world.environmentVariables,
    BURSAR_DATABASE_CONNECTIONS: connections,
    BURSAR_LOG_LEVEL: 'info',
    NODE_OPTIONS: `--import=${new URL('counting.ts', import.meta.url).href}`,
  })
  await program.line('worker_started')
  let turn = 0
  return {
    used: async (): Promise<Used> => {
      const asked = ++turn
      program.signal('SIGUSR2')
      const { counts } = await program.line('statements', (line) => line.turn === asked)
      return { process: cpuOf(program.child.pid!), database: databaseCpu(world.database.name, 'bursar_test_login'), counts: counts as Counts }
    },
    stop: async () => {
      program.signal('SIGTERM')
      await program.exited
    },
  }
}
const connections = '20'

/** Waits until a worker has nothing left to do for earlier renewals: events to number, processor events and jobs. */
const drain = (world: World) =>
  eventually(
    'the earlier renewals are done',
    async () => {
      const { rows } = await world.database.owner((owner) =>
        owner.query<{ left: boolean }>(
          `select exists (select from events where sequence is null) or exists (select from test_processor.callbacks where taken_at is null)
             or exists (select from graphile_worker._private_jobs where attempts = 0) or exists (select from customer_states where due_at is not null) as left`,
        ),
      )
      return (await pause(200), !rows[0]!.left)
    },
    300_000,
  )

/** Measures the renewals of one worker from due to paid. */
const renewAll = async (world: World, name: string, many: number): Promise<Cost> => {
  const worker = await startWorker(world)
  try {
    await drain(world)
    const before = await worker.used()
    await makeDue(world, name)
    // Polls only every 100 ms, because the counting query runs on the machine that is measured.
    const done = async () => (await pause(100), settled(world, name))
    // Starts the measurement at the first settled renewal, because the worker may notice the due rows late.
    const [first, began] = [await eventually('one is settled', done), performance.now()]
    if (first > many / 2) throw new Error(`${first} of ${many} renewals were settled at the first look. Measure more with --renewals`)
    await eventually('all are settled', async () => (await done()) === many, 300_000)
    return costOf((many - first) / ((performance.now() - began) / 1000), before, await worker.used(), many)
  } finally {
    await worker.stop()
  }
}

/**
 * Measures the renewals per second of a worker, from due to paid. Compares with a loop that only writes the resulting
 * rows: see settle.ts.
 */
export const throughput = async (world: World): Promise<Record<string, Outcome>> => {
  const costs = { ours: [] as Cost[], theirs: [] as Cost[] }
  const { customer_id } = await open(world)
  for (let round = 0; round <= options.rounds; round++) {
    const many = round === 0 ? 200 : options.renewals
    await sell(world, customer_id, `engine-${round}`, many)
    await sell(world, customer_id, `bare-${round}`, many)
    const rows = [await countRows(world)]
    const ours = await renewAll(world, `engine-${round}`, many)
    rows.push(await countRows(world))
    const theirs = await bare(world, `bare-${round}`, many)
    rows.push(await countRows(world))
    if ((await settled(world, `bare-${round}`)) !== many) throw new Error('the bare loop left something out')
    if (round === 0) compareRows(added(rows[0]!, rows[1]!, many), added(rows[1]!, rows[2]!, many))
    else {
      costs.ours.push(ours)
      costs.theirs.push(theirs)
    }
  }
  const rates = (side: readonly Cost[]) => side.map(({ per_second }) => per_second)
  return {
    renewals: {
      ratio: median(rates(costs.ours)) / median(rates(costs.theirs)),
      ratios: quotients(rates(costs.ours), rates(costs.theirs)),
      figures: [...figuresOf('renewals', 'worker', costs.ours), ...figuresOf('plain loop', 'plain loop', costs.theirs)],
      rows: options.renewals,
      rounds: options.rounds,
    },
  }
}

/** Runs the hand-written loop in a separate process. */
const bare = (world: World, name: string, many: number): Promise<Cost> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [new URL('settle.ts', import.meta.url).pathname, name, '16'], {
      env: { PATH: process.env.PATH, ...world.environmentVariables, BURSAR_DATABASE_CONNECTIONS: connections },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let [text, problem] = ['', '']
    child.stdout.on('data', (chunk: Buffer) => void (text += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => void (problem += chunk.toString()))
    child.once('close', (code) => {
      if (code !== 0 || text === '') return reject(new Error(`the plain loop ended with ${code} and without a figure:\n${problem}`))
      const { per_second, before, after } = JSON.parse(text) as { per_second: number; before: Used; after: Used }
      resolve(costOf(per_second, before, after, many))
    })
  })

const quantile = (numbers: readonly number[], part: number) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length * part)]!

/** Starts the process that sends requests at a steady rate. */
const openTrickle = (port: number, token: string) => {
  const child = fork(new URL('trickle.ts', import.meta.url), [String(port)], { env: { PATH: process.env.PATH, TOKEN: token } })
  const broken = once(child, 'exit').then(() => Promise.reject(new Error('the process that sends requests has ended')))
  broken.catch(() => {})
  return {
    /** Sends requests while the work runs. Returns the response times. */
    during: async (work: () => Promise<unknown>) => {
      child.send('begin')
      await Promise.race([work(), broken])
      child.send('end')
      const [latencies] = (await Promise.race([once(child, 'message'), broken])) as [number[]]
      return { count: latencies.length, p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99) }
    },
    close: () => child.kill(),
  }
}

/** True if subscriptions are due or orders are pending. Uses indexes only, because it runs on the machine that is measured. */
const isDue = async (world: World): Promise<boolean> => {
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ due: boolean }>(
      `select exists (select from subscriptions where due_at < now() + interval '5 minutes') or exists (select from orders where due_at is not null) as due`,
    ),
  )
  return rows[0]!.due
}

/**
 * Measures the API's p99 while a worker settles a minute's worth of renewals, against the p99 with nothing due. The
 * load is 20 reads and 2 writes a second.
 */
export const besides = async (world: World): Promise<Record<string, Outcome>> => {
  const { due: count, seconds } = options
  const { customer_id, token } = await open(world)
  // Earlier renewals fill the tables and their statistics, as in a system that has run for some time.
  await sell(world, customer_id, 'earlier', 500)
  await renewAll(world, 'earlier', 500)
  await sell(world, customer_id, 'load', count, 60_000 / count)
  const api = launch(['serve', '--roles', 'api'], { ...world.environmentVariables, BURSAR_DATABASE_CONNECTIONS: connections, BURSAR_LOG_LEVEL: 'info' })
  const port = portOf(await api.line('listening'))
  const trickle = openTrickle(port, token)
  const worker = await startWorker(world)
  await trickle.during(() => pause(3000))
  const idle = await trickle.during(() => pause(seconds * 5000))
  await makeDue(world, 'load')
  const began = performance.now()
  const analyzing = setInterval(() => void world.database.analyzeGrown(), 20_000)
  const busy = await trickle.during(() => eventually('all are settled', async () => (await pause(1000), !(await isDue(world))), 1_800_000))
  clearInterval(analyzing)
  const took = (performance.now() - began) / 1000
  if ((await settled(world, 'load')) !== count) throw new Error('some renewals were not settled')
  trickle.close()
  await worker.stop()
  api.signal('SIGTERM')
  await api.exited
  return {
    'renewals-api-p99': {
      ratio: busy.p99 / idle.p99,
      figures: [
        { what: 'p99 idle', value: idle.p99, unit: ' ms' },
        { what: 'busy', value: busy.p99, unit: ' ms' },
        { what: 'p50 idle', value: idle.p50, unit: ' ms' },
        { what: 'busy', value: busy.p50, unit: ' ms' },
        { what: 'settled', value: count / took, unit: '/s' },
      ],
      rows: count,
      rounds: 1,
    },
  }
}
