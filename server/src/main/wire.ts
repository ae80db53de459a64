import { operations } from '@bursar/contract'
import { icon, processorScript, render, script, stylesheet } from '@bursar/web'
import type { Communities } from '../gateways/communities/communities.ts'
import { openCommunities } from '../gateways/communities/open.ts'
import { openEgress } from '../gateways/egress/egress.ts'
import { openPayments } from '../gateways/payments/open.ts'
import type { Payments } from '../gateways/payments/payments.ts'
import { openMail } from '../gateways/mail/mail.ts'
import { openStorage } from '../gateways/storage/open.ts'
import type { Storage } from '../gateways/storage/storage.ts'
import { openBudgets, type Budgets } from '../http/budget.ts'
import { purgeRequests } from '../http/idempotency.sql.ts'
import { openPages } from '../http/pages.ts'
import { openServer } from '../http/server.ts'
import { buyerPages } from '../pages/pages.ts'
import { Hasher, Sealer } from '../kernel/secrets.ts'
import { chore, sweep, type Area, type Gateways, type Means, type Platform } from '../modules/handlers.ts'
import { area as catalog } from '../modules/catalog/index.ts'
import { area as billing, hasPending } from '../modules/billing/index.ts'
import { area as checkout, isConfirming } from '../modules/checkout/index.ts'
import { area as entitlements, ensureLicenceKeys } from '../modules/entitlements/index.ts'
import { area as migration, openReadiness } from '../modules/migration/index.ts'
import { area as customers } from '../modules/customers/index.ts'
import { area as webhooks } from '../modules/webhooks/index.ts'
import { area as identity, openOAuth, pagesOf } from '../modules/identity/index.ts'
import { area as organizations } from '../modules/organizations/index.ts'
import type { Clock } from '../platform/clock.ts'
import { openAudit, type Audit } from '../platform/audit/audit.ts'
import type { Config } from '../platform/config.ts'
import { catalogue, chores, engines, sweeps, type SweepName } from '../platform/jobs/catalogue.ts'
import { dueAge, type Lease } from '../platform/jobs/leases.sql.ts'
import { travel } from '../platform/jobs/travel.sql.ts'
import { jobAge, startWorker, type ChoreHandlers, type EngineHandlers, type EngineLife, type JobHandlers, type SweepHandlers } from '../platform/jobs/queue.ts'
import type { Log } from '../platform/log.ts'
import type { Discretion } from '../platform/personal.sql.ts'
import { outboxAge } from '../platform/outbox/outbox.sql.ts'
import { checkLogin, checkStamp, reachable, unfit } from '../platform/postgres/migrations.ts'
import { foldDeltas } from '../platform/postgres/lists.sql.ts'
import { openPool, openPostgres, type Role, type Transact } from '../platform/postgres/postgres.ts'
import { openRedis, withoutRedis } from '../platform/redis.ts'
import type { Telemetry } from '../platform/telemetry.ts'

/** The areas, in the order of the line: each may lean only on those before it. */
const areas: readonly Area[] = [
  {
    operations: [],
    jobs: [],
    sweeps: [
      sweep('clocks.travel', (means, lease) => {
        const run = async (name: SweepName, one: Lease): Promise<void> => {
          try {
            await dueWork.find((work) => work.name === name)!.run(means, one)
          } catch (error) {
            means.platform.log.warn('sweep_failed', { job: name, error })
          }
        }
        return travel(
          { db: means.db, transact: means.transact, run, isBusy: async (db, clock) => (await hasPending(db, clock)) || isConfirming(db, clock) },
          lease,
        )
      }),
    ],
    chores: [
      chore('http.purge', ({ transact, platform }) => transact((tx) => purgeRequests(tx, platform.clock.wall()))),
      chore('counters.fold', ({ transact }) => transact((tx) => foldDeltas(tx))),
    ],
  },
  organizations,
  identity,
  catalog,
  customers,
  billing,
  checkout,
  entitlements,
  webhooks,
  migration,
]

export const implementations = areas.flatMap((area) => area.operations)
export const jobs = areas.flatMap((area) => area.jobs)
export const dueWork = areas.flatMap((area) => area.sweeps)
export const regularWork = areas.flatMap((area) => area.chores)
export const discretion: Discretion = {
  personal: Object.assign({}, ...areas.map((area) => area.personal)) as Discretion['personal'],
  secret: Object.assign({}, ...areas.map((area) => area.secret)) as Discretion['secret'],
}
export const endlessWork = areas.flatMap((area) => area.engines ?? [])

/** Everything that is promised is kept, exactly once, or the process does not start. */
export const checkComplete = (): void => {
  const once = (what: string, promised: readonly string[], kept: readonly string[]) => {
    const problems = [
      ...promised.filter((name) => !kept.includes(name)).map((name) => `${what} ${name} is declared and not implemented`),
      ...kept.filter((name) => !promised.includes(name)).map((name) => `${what} ${name} is implemented and not declared`),
      ...kept.filter((name, at) => kept.indexOf(name) !== at).map((name) => `${what} ${name} is implemented twice`),
    ]
    if (problems.length > 0) throw new Error(problems.join('\n'))
  }
  once(
    'operation',
    operations.map(({ id }) => id),
    implementations.map(({ operation }) => operation.id),
  )
  once(
    'job',
    Object.keys(catalogue),
    jobs.map(({ name }) => name),
  )
  once(
    'sweep',
    Object.keys(sweeps),
    dueWork.map(({ name }) => name),
  )
  once(
    'chore',
    Object.keys(chores),
    regularWork.map(({ name }) => name),
  )
  once(
    'engine',
    Object.keys(engines),
    endlessWork.map(({ name }) => name),
  )
}

export interface Base {
  readonly config: Config
  readonly clock: Clock
  readonly log: Log
  readonly telemetry: Telemetry
}

/** Whatever is open when a later part fails is let go of: nothing keeps a process alive that serves nobody. */
const allOrNothing = async <T>(open: (opened: AsyncDisposableStack) => Promise<T>): Promise<T> => {
  const opened = new AsyncDisposableStack()
  try {
    return await open(opened)
  } catch (error) {
    await Promise.allSettled([opened.disposeAsync()])
    throw error
  }
}

const open = async (opened: AsyncDisposableStack, { config, clock, log, telemetry }: Base, role: Role, around: Replaced['around'] = (transact) => transact) => {
  checkComplete()
  const platform: Platform = { config, clock, log, hasher: new Hasher(config.peppers), sealer: new Sealer(config.sealing_keys), discretion }
  const postgres = openPostgres(config.database_url, role, { max: config.database_connections, patience_ms: config.database_patience_ms, clock, log })
  opened.defer(postgres.close)
  const { deployment_id } = await checkStamp(postgres.db, config.environment)
  await checkLogin(postgres.db, config.environment)
  telemetry.gauge('bursar_database_connections', 'Connections of this process, by state.', async () =>
    Object.fromEntries(Object.entries(postgres.use()).map(([state, count]) => [`${role} ${state}`, count])),
  )
  return { platform, postgres: { ...postgres, transact: around(postgres.transact) }, deployment_id }
}

/** What a test puts in the place of the real thing. */
export interface Replaced {
  readonly payments?: Payments
  readonly communities?: Communities
  readonly storage?: Storage
  /** Stands around every transaction: a test ends the process before or after one commits. */
  readonly around?: (transact: Transact) => Transact
}

const openGateways = async (
  opened: AsyncDisposableStack,
  { config, clock, log }: Base,
  deployment_id: string,
  { payments, communities, storage }: Replaced,
): Promise<Gateways> => {
  const gateways: Gateways = {
    storage: storage ?? (await openStorage(config, { clock, deployment_id })),
    mail: openMail(config.mail, clock),
    egress: openEgress(config.egress, clock),
    payments: payments ?? openPayments(config, { clock, log }),
    communities: communities ?? openCommunities(config, { clock }),
  }
  for (const one of ['mail', 'egress', 'payments', 'storage'] as const) opened.defer(() => gateways[one].close())
  return gateways
}

/** The part that answers requests. */
export const openApi = (base: Base, replaced: Replaced & { budgets?: Budgets; audit?: Audit } = {}) =>
  allOrNothing(async (opened) => {
    const { telemetry } = base
    const { platform, postgres, deployment_id } = await open(opened, base, 'bursar_api', replaced.around)
    const redis = base.config.redis_url ? openRedis(base.config.redis_url, deployment_id, base.log, base.config.redis_patience_ms) : withoutRedis
    opened.defer(redis.close)
    let draining = false
    const unready = async () => {
      if (draining) return ['draining']
      if (!(await reachable(postgres.db))) return ['the database cannot be reached']
      return unfit(postgres.db)
    }
    telemetry.gauge('bursar_redis_available', '1 while Redis answers.', async () => (redis.available() ? 1 : 0))
    await redis.settled
    const budgets = replaced.budgets ?? openBudgets({ config: base.config, cache: redis, transact: postgres.transact, clock: base.clock, telemetry })
    const gateways = await openGateways(opened, base, deployment_id, replaced)
    const audit = replaced.audit ?? openAudit(platform.hasher, discretion)
    const pages = openPages({ platform, render, stylesheet: stylesheet(), script: script(), processorScript: processorScript(), icon })
    const oauth = await openOAuth({
      platform,
      postgres,
      showProblem: (request, problem) => pages.show(request, { kind: 'problem', status: 400, ...problem }),
    })
    opened.defer(oauth.close)
    await postgres.transact((tx) => ensureLicenceKeys(tx, platform))
    const pageDoors = [...pagesOf({ oauth, platform, postgres }), ...buyerPages(platform, gateways.payments)]
    const readiness = openReadiness(postgres.transact, base.clock)
    const server = openServer({ implementations, platform, postgres, telemetry, budgets, audit, gateways, oauth, pages, pageDoors, readiness, unready })
    opened.defer(() => server.close())
    return {
      server,
      unready,
      platform,
      postgres,
      oauth,
      gateways,
      readiness,
      /** Answers what is under way, takes nothing new, and lets go of everything. */
      close: async () => {
        draining = true
        await opened.disposeAsync()
      },
    }
  })

/** The part that does what was promised for later. */
export const openWorker = (base: Base, replaced: Replaced = {}) =>
  allOrNothing(async (opened) => {
    const { telemetry } = base
    const { platform, postgres, deployment_id } = await open(opened, base, 'bursar_worker', replaced.around)
    const gateways = await openGateways(opened, base, deployment_id, replaced)
    const means: Means = { db: postgres.db, transact: postgres.transact, gateways, platform }
    telemetry.gauge('bursar_outbox_age_seconds', 'How long the oldest event has waited for its number.', () => outboxAge(postgres.db, base.clock.wall()))
    telemetry.gauge('bursar_due_age_seconds', 'How long the oldest due row has waited, by table.', () => dueAge(postgres.db, base.clock.wall()))
    const queue = openPool(base.config.database_url, 'bursar_jobs', { max: 1, log: base.log })
    opened.defer(() => queue.end())
    telemetry.gauge('bursar_job_age_seconds', 'How long the oldest runnable job has waited.', () => jobAge(queue))
    const worker = await startWorker({
      url: base.config.database_url,
      patience_ms: base.config.database_patience_ms,
      postgres,
      telemetry,
      log: base.log,
      jobs: Object.fromEntries(jobs.map(({ name, run }) => [name, (payload: never) => run(means, payload)])) as unknown as JobHandlers,
      sweeps: Object.fromEntries(dueWork.map(({ name, run }) => [name, (lease: never) => run(means, lease)])) as unknown as SweepHandlers,
      chores: Object.fromEntries(regularWork.map(({ name, run }) => [name, () => run(means)])) as unknown as ChoreHandlers,
      engines: Object.fromEntries(endlessWork.map(({ name, run }) => [name, (life: EngineLife) => run(means, life)])) as unknown as EngineHandlers,
    })
    opened.defer(() => worker.stop())
    return {
      postgres,
      unready: async () => ((await reachable(postgres.db)) ? unfit(postgres.db) : ['the database cannot be reached']),
      close: () => opened.disposeAsync(),
    }
  })
