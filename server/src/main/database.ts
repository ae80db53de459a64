import { renderMail } from '@bursar/web'
import { cli } from '../kernel/actors.ts'
import { newId } from '../kernel/ids.ts'
import { Hasher, Sealer } from '../kernel/secrets.ts'
import type { Platform } from '../modules/handlers.ts'
import { openAudit, type Audit, type AuditContext } from '../platform/audit/audit.ts'
import { systemClock } from '../platform/clock.ts'
import { readConfig, type Config } from '../platform/config.ts'
import { openLog } from '../platform/log.ts'
import { checkStamp } from '../platform/migrations/migrations.ts'
import { openPostgres, type Db, type Transact } from '../platform/postgres/postgres.ts'
import { openStatus } from './bar.ts'

/** The dependencies that a command of the CLI receives. */
export interface CommandMeans {
  readonly db: Db
  /** Runs a transaction and records its changes in the audit log under the command's name. */
  readonly transact: Transact
  /** Runs a transaction without an audit entry, for bulk work that `recordRun` records once as a whole. */
  readonly unrecorded: Transact
  /** Writes one audit entry which states that the command ran for an organization, without the changed rows. */
  readonly recordRun: (organization_id: string) => Promise<void>
  readonly platform: Platform
}

/** Builds the audit context of a command. */
export const deedOf = (command: string, organization_id: string | null = null): AuditContext => ({
  operation: `cli ${command}`,
  request_id: newId(systemClock.wall()),
  actor: cli(organization_id),
})

/** Opens the audit log for commands. */
export const openCommandAudit = async (config: Config): Promise<Audit> => {
  const { discretion } = await import('./wire.ts')
  return openAudit(new Hasher(config.peppers), discretion)
}

/** Runs a command on the configured database. `command` is its name in the audit log, such as `token create`. */
export const withDatabase = async <T>(command: string, work: (deps: CommandMeans) => Promise<T>, config: Config = readConfig(process.env)): Promise<T> => {
  const log = openLog('error')
  const status = openStatus(command)
  const postgres = openPostgres(config.database_url, 'bursar_api', { max: 2, clock: systemClock, log })
  try {
    const { discretion } = await import('./wire.ts')
    const audit = await openCommandAudit(config)
    await checkStamp(postgres.db, config.environment)
    return await work({
      db: postgres.db,
      transact: (change) =>
        postgres.transact(async (tx) => {
          const done = await change(tx)
          await audit.record(tx, deedOf(command))
          return done
        }),
      unrecorded: postgres.transact,
      recordRun: (organization_id) => postgres.transact((tx) => audit.record(tx, deedOf(command, organization_id))),
      platform: { config, log, clock: systemClock, hasher: new Hasher(config.peppers), sealer: new Sealer(config.sealing_keys), renderMail, discretion },
    })
  } finally {
    await postgres.close()
    status.end()
  }
}
