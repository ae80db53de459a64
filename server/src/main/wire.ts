import { operations } from '@bursar/contract'
import { dashboardFiles, fonts, icon, processorScript, render, renderMail, script, stylesheet } from '@bursar/web'
import type { Communities } from '../gateways/communities/communities.ts'
import { openCommunities } from '../gateways/communities/open.ts'
import { openEgress } from '../gateways/egress/egress.ts'
import { openPayments } from '../gateways/payments/open.ts'
import type { Payments } from '../gateways/payments/payments.ts'
import { openMail } from '../gateways/mail/mail.ts'
import { openTaxService } from '../gateways/tax/service.ts'
import { openVatService } from '../gateways/tax/vat.ts'
import { openEventStore } from '../gateways/event-store/open.ts'
import { openStorage } from '../gateways/storage/open.ts'
import type { Storage } from '../gateways/storage/storage.ts'
import { openBudgets, type Budgets } from '../http/budget.ts'
import { purgeRequests } from '../http/idempotency.sql.ts'
import { openPages, type Render } from '../http/pages.ts'
import { openServer } from '../http/server.ts'
import { pagesOf } from '../pages/account/pages.ts'
import { buyerPages } from '../pages/pages.ts'
import { Hasher, Sealer } from '../kernel/secrets.ts'
import { periodicTask, sweep, type Area, type Gateways, type Deps, type Platform } from '../modules/handlers.ts'
import { area as catalog } from '../modules/catalog/index.ts'
import { area as billing, askingTaxService, askingVatService, hasPending } from '../modules/billing/index.ts'
import { area as checkout, findSellerLook, isConfirming } from '../modules/checkout/index.ts'
import { area as entitlements, ensureLicenceKeys } from '../modules/entitlements/index.ts'
import { area as migration, openReadiness } from '../modules/migration/index.ts'
import { area as insights, metricDrift } from '../modules/insights/index.ts'
import { area as customers } from '../modules/customers/index.ts'
import { area as usage, countUncopied } from '../modules/usage/index.ts'
import { area as webhooks } from '../modules/webhooks/index.ts'
import { area as identity, findSessionRoles, openOAuth } from '../modules/identity/index.ts'
import { area as organizations, readLogo } from '../modules/organizations/index.ts'
import type { Clock } from '../platform/clock.ts'
import { openAudit, type Audit } from '../platform/audit/audit.ts'
import type { Config } from '../platform/config.ts'
import { catalogue, groups, periodicTasks, daemons, sweeps, type SweepName } from '../platform/jobs/catalogue.ts'
import { dueAge, type Lease } from '../platform/jobs/leases.sql.ts'
import { travel } from '../platform/jobs/travel.sql.ts'
import { jobAge, startWorker, type PeriodicTaskHandlers, type DaemonHandlers, type DaemonLife, type JobHandlers } from '../platform/jobs/queue.ts'
import type { GroupHandlers, SweepHandlers } from '../platform/jobs/sweeping.ts'
import type { Log } from '../platform/log.ts'
import type { Discretion } from '../platform/personal.sql.ts'
import { openLive } from '../platform/outbox/live.ts'
import { openNumbered } from '../platform/outbox/numbered.ts'
import { openWaiters } from '../platform/outbox/waiters.ts'
import { outboxAge } from '../platform/outbox/outbox.sql.ts'
import { checkFit, checkLogin, checkStamp, probe, unfit } from '../platform/migrations/migrations.ts'
import { foldDeltas } from '../platform/postgres/lists.sql.ts'
import { openWatch, outageOf } from '../platform/postgres/outage.ts'
import { chainAuditLog } from '../platform/audit/chaining.ts'
import { openPool, openPostgres, type Role, type Transact } from '../platform/postgres/postgres.ts'
import { openRedis, withoutRedis } from '../platform/redis.ts'
import type { Telemetry } from '../platform/telemetry.ts'

/** The modules in order of dependency: each may depend only on those before it. */
const areas: readonly Area[] = [
  {
    operations: [],
    jobs: [],
    sweeps: [
      sweep('clocks.travel', (deps, lease) => {
        const run = async (name: SweepName, one: Lease): Promise<void> => {
          try {
            await dueWork.find((work) => work.name === name)!.run(deps, one)
          } catch (error) {
            deps.platform.log.warn('sweep_failed', { job: name, error })
          }
        }
        return travel(
          { db: deps.db, transact: deps.transact, run, isBusy: async (db, clock) => (await hasPending(db, clock)) || isConfirming(db, clock) },
          lease,
        )
      }),
    ],
    periodicTasks: [
      periodicTask('http.purge', ({ transact, platform }) => transact((tx) => purgeRequests(tx, platform.clock.wall()))),
      periodicTask('audit.chain', chainAuditLog),
      periodicTask('counters.fold', ({ transact }) => transact((tx) => foldDeltas(tx))),
    ],
  },
  organizations,
  identity,
  catalog,
  customers,
  usage,
  billing,
  checkout,
  entitlements,
  webhooks,
  migration,
  insights,
]

export const implementations = areas.flatMap((area) => area.operations)
export const jobs = areas.flatMap((area) => area.jobs)
export const dueWork = areas.flatMap((area) => area.sweeps)
export const regularWork = areas.flatMap((area) => area.periodicTasks)
export const discretion: Discretion = {
  personal: Object.assign({}, ...areas.map((area) => area.personal)) as Discretion['personal'],
  secret: Object.assign({}, ...areas.map((area) => area.secret)) as Discretion['secret'],
}
export const endlessWork = areas.flatMap((area) => area.daemons ?? [])

/**
 * Checks that every declared operation, job, sweep, periodic task and daemon is implemented exactly once. Throws
 * otherwise, so that the process does not start.
 */
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
    'group of due rows',
    Object.keys(groups),
    dueWork.filter(({ group }) => group).map(({ name }) => name),
  )
  once(
    'periodic task',
    Object.keys(periodicTasks),
    regularWork.map(({ name }) => name),
  )
  once(
    'daemon',
    Object.keys(daemons),
    endlessWork.map(({ name }) => name),
  )
}

export interface Base {
  readonly config: Config
  readonly clock: Clock
  readonly log: Log
  readonly telemetry: Telemetry
}

/**
 * Opens several resources. If one fails, closes those that were opened before, because open handles would keep the
 * failed process alive.
 */
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
  const platform: Platform = { config, clock, log, hasher: new Hasher(config.peppers), sealer: new Sealer(config.sealing_keys), renderMail, discretion }
  const postgres = openPostgres(config.database_url, role, {
    max: config.database_connections,
    timeout_ms: config.database_timeout_ms,
    prepared: config.database_prepared,
    clock,
    log,
    onLost: () => watch.suspect(),
  })
  opened.defer(postgres.close)
  const watch = openWatch(() => probe(postgres.db), role, log)
  opened.defer(watch.close)
  const { deployment_id } = await checkStamp(postgres.db, config.environment)
  await checkLogin(postgres.db, config.environment)
  await checkFit(postgres.db)
  telemetry.gauge('bursar_database_connections', 'Connections of this process, by state.', async () =>
    Object.fromEntries(Object.entries(postgres.use()).map(([state, count]) => [`${role} ${state}`, count])),
  )
  /** Lists the problems that keep this process from using the database. Empty if there are none. */
  const problems = async (): Promise<string[]> => {
    try {
      return await unfit(postgres.db)
    } catch (error) {
      watch.suspect()
      return [`the database cannot be reached: ${outageOf(error) ?? 'it answers with an error'}`]
    }
  }
  return { platform, postgres: { ...postgres, transact: around(postgres.transact) }, deployment_id, problems }
}

/** Replacements that tests use instead of the real dependencies. */
export interface Replaced {
  readonly payments?: Payments
  readonly communities?: Communities
  readonly storage?: Storage
  /** Wraps every transaction, so that a test can simulate a crash before or after a commit. */
  readonly around?: (transact: Transact) => Transact
  /** Wraps the renderer of pages, so that a test sees each view. */
  readonly rendering?: (render: Render) => Render
}

const openGateways = async (
  opened: AsyncDisposableStack,
  { config, clock, log }: Base,
  deployment_id: string,
  { payments, communities, storage }: Replaced,
): Promise<Gateways> => {
  const egress = openEgress(config.egress, clock)
  const gateways: Gateways = {
    storage: storage ?? (await openStorage(config, { clock, deployment_id })),
    mail: openMail(config.mail, clock),
    egress,
    payments: payments ?? openPayments(config, { clock, log }),
    communities: communities ?? openCommunities(config, { clock }),
    tax: openTaxService(config.tax, egress, clock),
    vat: openVatService(config.vat, egress, log),
    eventStore: await openEventStore(config),
  }
  opened.defer(() => gateways.eventStore?.close())
  for (const one of ['mail', 'egress', 'payments', 'storage'] as const) opened.defer(() => gateways[one].close())
  return gateways
}

/** Opens the API role, which answers requests. */
export const openApi = (base: Base, replaced: Replaced & { budgets?: Budgets; audit?: Audit } = {}) =>
  allOrNothing(async (opened) => {
    const { telemetry } = base
    const { platform, postgres: bare, deployment_id, problems } = await open(opened, base, 'bursar_api', replaced.around)
    const gateways = await openGateways(opened, base, deployment_id, replaced)
    const taxed = askingTaxService(bare.transact, gateways.tax, base.log)
    const postgres = { ...bare, transact: askingVatService(taxed, gateways.vat, platform.hasher) }
    const redis = base.config.redis_url ? openRedis(base.config.redis_url, deployment_id, base.log, base.config.redis_timeout_ms) : withoutRedis
    opened.defer(redis.close)
    let draining = false
    const unready = async () => (draining ? ['draining'] : problems())
    telemetry.gauge('bursar_redis_available', '1 while Redis answers.', async () => (redis.available() ? 1 : 0))
    await redis.settled
    const budgets = replaced.budgets ?? openBudgets({ config: base.config, cache: redis, transact: postgres.transact, clock: base.clock, telemetry })
    const audit = replaced.audit ?? openAudit(platform.hasher, discretion)
    const pages = openPages({
      platform,
      render: replaced.rendering ? replaced.rendering(render) : render,
      stylesheet: stylesheet(),
      script: script(),
      processorScript: processorScript(),
      icon,
      fonts: fonts(),
      dashboardFiles: dashboardFiles(),
      findSellerLook: (clue) => findSellerLook(postgres.db, platform, clue),
    })
    const oauth = await openOAuth({
      platform,
      postgres,
      showProblem: (request, problem) => pages.show(request, { kind: 'problem', status: 400, ...problem }),
    })
    opened.defer(oauth.close)
    await postgres.transact((tx) => ensureLicenceKeys(tx, platform))
    const pageDoors = [...pagesOf({ oauth, platform, postgres }), ...buyerPages(platform, gateways.payments)]
    const readiness = openReadiness(postgres.transact, base.clock)
    const numbered = openNumbered({ url: base.config.database_url, timeout_ms: base.config.database_timeout_ms, log: base.log })
    opened.defer(numbered.close)
    const waiters = openWaiters(numbered)
    const live = openLive({
      db: postgres.db,
      numbered,
      log: base.log,
      findRoles: (session_ids) => findSessionRoles(postgres.db, session_ids, base.clock.wall()),
    })
    const server = openServer({
      implementations,
      platform,
      postgres,
      telemetry,
      budgets,
      audit,
      gateways,
      oauth,
      pages,
      pageDoors,
      findLogo: (organization_id, name) => readLogo(postgres.db, organization_id, name),
      readiness,
      waiters,
      live,
      unready,
    })
    opened.defer(() => server.close())
    telemetry.gauge('bursar_waiting_event_requests', 'Requests that wait for events.', async () => waiters.count())
    telemetry.gauge('bursar_live_streams', 'Open streams of live hints.', async () => live.count())
    // Closed before the server, which waits for its requests.
    opened.defer(() => {
      waiters.close()
      live.close()
    })
    return {
      server,
      unready,
      platform,
      postgres,
      oauth,
      gateways,
      readiness,
      /** Finishes requests in progress, accepts no new ones, and closes everything. */
      close: async () => {
        draining = true
        await opened.disposeAsync()
      },
    }
  })

/** Opens the worker role, which runs jobs and scheduled work. */
export const openWorker = (base: Base, replaced: Replaced = {}) =>
  allOrNothing(async (opened) => {
    const { telemetry } = base
    const { platform, postgres: bare, deployment_id, problems } = await open(opened, base, 'bursar_worker', replaced.around)
    const gateways = await openGateways(opened, base, deployment_id, replaced)
    const postgres = { ...bare, transact: askingTaxService(bare.transact, gateways.tax, base.log) }
    const deps: Deps = { db: postgres.db, transact: postgres.transact, gateways, platform }
    telemetry.gauge('bursar_outbox_age_seconds', 'How long the oldest event has waited for its sequence number.', () =>
      outboxAge(postgres.db, base.clock.wall()),
    )
    telemetry.gauge('bursar_due_age_seconds', 'How long the oldest due row has waited, by table.', () => dueAge(postgres.db, base.clock.wall()))
    telemetry.gauge('bursar_metric_drift', 'How many metrics differed from the records, in random samples of the last day.', () =>
      metricDrift(postgres.db, base.clock.wall()),
    )
    if (gateways.eventStore)
      telemetry.gauge('bursar_usage_uncopied', 'Batches and corrections of usage that wait for the copy in the event store.', () => countUncopied(postgres.db))
    const queue = openPool(base.config.database_url, 'bursar_jobs', { max: 1, log: base.log })
    opened.defer(() => queue.end())
    telemetry.gauge('bursar_job_age_seconds', 'How long the oldest runnable job has waited.', () => jobAge(queue))
    const worker = await startWorker({
      url: base.config.database_url,
      timeout_ms: base.config.database_timeout_ms,
      postgres,
      clock: base.clock,
      telemetry,
      log: base.log,
      jobs: Object.fromEntries(jobs.map(({ name, run }) => [name, (payload: never) => run(deps, payload)])) as unknown as JobHandlers,
      sweeps: Object.fromEntries(dueWork.map(({ name, run }) => [name, (lease: never) => run(deps, lease)])) as unknown as SweepHandlers,
      groups: Object.fromEntries(
        dueWork.flatMap(({ name, group }) => (group ? [[name, (leases: readonly Lease[]) => group(deps, leases)]] : [])),
      ) as unknown as GroupHandlers,
      periodicTasks: Object.fromEntries(regularWork.map(({ name, run }) => [name, () => run(deps)])) as unknown as PeriodicTaskHandlers,
      daemons: Object.fromEntries(endlessWork.map(({ name, run }) => [name, (life: DaemonLife) => run(deps, life)])) as unknown as DaemonHandlers,
    })
    opened.defer(() => worker.stop())
    return {
      postgres,
      unready: async () => [...(await problems()), ...[worker.problem() ?? []].flat()],
      close: () => opened.disposeAsync(),
    }
  })
