import { checkNames, rebuildMetrics, verifyMetrics } from '../modules/insights/index.ts'
import { openEventStore } from '../gateways/event-store/open.ts'
import { verifyCopy, verifyUsage } from '../modules/usage/index.ts'
import { minutes, systemClock } from '../platform/clock.ts'
import { readConfig } from '../platform/config.ts'
import { openLog } from '../platform/log.ts'
import { checkStamp } from '../platform/migrations/migrations.ts'
import { openPostgres, type Db, type Transact } from '../platform/postgres/postgres.ts'
import { openLateBar, openStatus } from './bar.ts'
import { needOrganization } from './organization.ts'
import { print } from './print.ts'
import { Usage } from './usage.ts'

interface Values {
  readonly organization?: string | undefined
  readonly samples?: string | undefined
  readonly rebuild?: boolean | undefined
  readonly json?: boolean | undefined
}

/** Connects as the worker, which may rebuild the sums. Statements may take long, because they read everything of an organization. */
const withWorker = async (work: (db: Db, transact: Transact) => Promise<void>): Promise<void> => {
  const config = readConfig(process.env)
  const postgres = openPostgres(config.database_url, 'bursar_worker', { max: 2, clock: systemClock, log: openLog('error'), timeout_ms: 20 * minutes })
  const status = openStatus('verify')
  try {
    await checkStamp(postgres.db, config.environment)
    await work(postgres.db, postgres.transact)
  } finally {
    status.end()
    await postgres.close()
  }
}

const withBar = async <T>(work: (told: (done: number, of: number) => void) => Promise<T>): Promise<T> => {
  const bar = openLateBar()
  try {
    return await work(bar.told)
  } finally {
    bar.end()
  }
}

/** Recomputes metrics or usage from the records, and compares. The exit code is 1 if something differs. */
export const verify = async ([what, ...rest]: readonly string[], values: Values): Promise<void> => {
  if ((what !== 'metrics' && what !== 'usage') || rest.length > 0) throw new Usage('verify takes metrics or usage')
  if (values.rebuild && what === 'usage') throw new Usage('verify usage has no --rebuild')
  const samples = Number(values.samples ?? 5)
  if (!Number.isInteger(samples) || samples < 0) throw new Usage(`--samples takes a number of days, not ${values.samples}`)
  return withWorker(async (db, transact) => {
    if (values.organization !== undefined) await needOrganization(db, values.organization)
    if (values.rebuild) await withBar((told) => rebuildMetrics(db, transact, values.organization, told))
    const found =
      what === 'usage'
        ? (await withBar((told) => verifyUsage(db, values.organization, told))).map(({ meter, ...one }) => ({ ...one, check: `meter ${meter}` }))
        : await withBar((told) => verifyMetrics(db, { slug: values.organization, samples }, told))
    const wrong = found.filter(({ differences }) => differences > 0)
    const lines = wrong.map(({ organization, check, differences }) => `DIFFERS  ${organization}  ${check}: ${differences}`)
    const organizations = new Set(found.map(({ organization }) => organization)).size
    print(
      values,
      { checks: found, differences: wrong.reduce((sum, { differences }) => sum + differences, 0) },
      [
        ...lines,
        `${organizations} ${organizations === 1 ? 'organization' : 'organizations'}, ${found.length} checks${what === 'metrics' ? ` (${checkNames.length + 1} for each)` : ''}, ${wrong.length === 0 ? 'no differences' : `${wrong.length} with differences`}`,
      ].join('\n'),
    )
    if (wrong.length > 0) process.exitCode = 1
  })
}

/** Compares the usage events with their copy in the event store. The exit code is 1 if something differs. */
export const verifyEventStore = async (values: Values): Promise<void> => {
  const store = await openEventStore(readConfig(process.env))
  if (!store) throw new Usage('verify copy needs BURSAR_CLICKHOUSE_URL')
  try {
    await withWorker(async (db) => {
      if (values.organization !== undefined) await needOrganization(db, values.organization)
      const found = await withBar((told) => verifyCopy(db, store, values.organization, told))
      if (!found) throw new Usage('the event store has no complete copy yet. Let a worker with BURSAR_CLICKHOUSE_URL run, then try again')
      const { months, differences, behind } = found
      const lines = differences.map(
        ({ organization, server, month, stored, copied }) =>
          `DIFFERS  ${organization}  ${month}: ${stored} events, ${copied} in the copy${store.servers.length > 1 ? ` of ${server}` : ''}`,
      )
      print(
        values,
        found,
        [
          ...lines,
          ...behind.map((server) => `not compared: ${server} is behind`),
          `${months} months of organizations, ${differences.length === 0 ? 'no differences' : `${differences.length} with differences`}`,
        ].join('\n'),
      )
      if (differences.length > 0) process.exitCode = 1
    })
  } finally {
    await store.close()
  }
}
