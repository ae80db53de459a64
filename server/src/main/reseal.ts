import { Sealer } from '../kernel/secrets.ts'
import { systemClock } from '../platform/clock.ts'
import { readConfig, type Config } from '../platform/config.ts'
import { DatabaseRefused, withOwner } from '../platform/migrations/migrations.ts'
import type { Db, Transact } from '../platform/postgres/postgres.ts'
import { countOutdated, nextOutdated, replaceSealed } from '../platform/postgres/resealing.sql.ts'
import { sealedColumns, type SealedColumn } from '../platform/sealed.ts'
import { openLateBar } from './bar.ts'
import { deedOf, openCommandAudit } from './database.ts'
import { print } from './print.ts'

export interface Resealed {
  readonly resealed: number
  /** Values that no configured key decrypts. They are not changed. */
  readonly unreadable: { readonly table: string; readonly column: string; readonly key: Readonly<Record<string, string>>; readonly reason: string }[]
  /** Values that are sealed under another key after the last pass, unreadable ones included. */
  readonly outdated: number
}

interface Sealed {
  readonly db: Db
  readonly transact: Transact
  readonly sealer: Sealer
}

const countAll = async ({ db, sealer }: Sealed, columns: readonly SealedColumn[]): Promise<number> => {
  let count = 0
  for (const column of columns) count += await countOutdated(db, column, sealer.current)
  return count
}

/** Seals the outdated values of each column once, in batches of short transactions. */
const pass = async ({ db, transact, sealer }: Sealed, columns: readonly SealedColumn[], batch: number, told: (values: number) => void) => {
  let resealed = 0
  const unreadable: Resealed['unreadable'][number][] = []
  for (const column of columns) {
    let after: Readonly<Record<string, string>> | undefined
    for (;;) {
      const values = await nextOutdated(db, column, sealer.current, after, batch)
      if (values.length === 0) break
      after = values.at(-1)!.key
      const opened = values.flatMap((value) => {
        try {
          return [{ ...value, resealed: sealer.seal(sealer.open(value.sealed, column.bound(value.key)), column.bound(value.key)) }]
        } catch (error) {
          unreadable.push({ table: column.table, column: column.column, key: value.key, reason: (error as Error).message })
          return []
        }
      })
      if (opened.length > 0) resealed += await transact((tx) => replaceSealed(tx, column, opened))
      told(values.length)
    }
  }
  return { resealed, unreadable }
}

/**
 * Seals every stored secret under the newest key. The service can run meanwhile, if all of its processes have both
 * keys. A process that still seals under an old key may add outdated values during a pass. Passes are therefore
 * repeated until all remaining outdated values are unreadable, or a maximum is reached. The command can be interrupted
 * and run again; it continues with the remaining values.
 */
export const reseal = async (
  deps: Sealed,
  told: (done: number, total: number) => void = () => undefined,
  { batch = 500, columns = sealedColumns, passes = 5 }: { batch?: number; columns?: readonly SealedColumn[]; passes?: number } = {},
): Promise<Resealed> => {
  const total = await countAll(deps, columns)
  let [seen, resealed, outdated] = [0, 0, total]
  let unreadable: Resealed['unreadable'] = []
  for (let done = 0; done < passes && outdated > unreadable.length; done++) {
    const one = await pass(deps, columns, batch, (values) => told(Math.min((seen += values), total), total))
    resealed += one.resealed
    unreadable = one.unreadable
    outdated = await countAll(deps, columns)
  }
  return { resealed, unreadable, outdated }
}

/** The advice that is printed at the end. An old key may be removed only if no value is sealed under it. */
const adviceOf = ({ unreadable, outdated }: Resealed, others: readonly number[]): string[] => {
  if (unreadable.length > 0) return ['Add the missing keys to BURSAR_SEALING_KEYS, after the newest, and run this again.']
  if (outdated > 0)
    return [
      `${outdated} secrets were sealed with another key while this command ran.`,
      'Restart every process with the newest key first in BURSAR_SEALING_KEYS, and run this again.',
    ]
  if (others.length === 0) return []
  return [`No secret is sealed with ${others.join(', ')} any more: remove ${others.length === 1 ? 'it' : 'them'} from BURSAR_SEALING_KEYS and restart.`]
}

/** Runs `bursar keys reseal` as the owner of the database, because the serving roles may not update most of these columns. */
export const resealAll = async (values: { json?: boolean | undefined }, config: Config = readConfig(process.env)): Promise<void> => {
  const sealer = new Sealer(config.sealing_keys)
  const audit = await openCommandAudit(config)
  const bar = openLateBar()
  const done = await withOwner(config.database_owner_url, config.environment, systemClock, async ({ db, transact }) => {
    const result = await reseal({ db, transact, sealer }, bar.told)
    await transact((tx) => audit.record(tx, deedOf('keys reseal')))
    return result
  }).finally(() => bar.end())
  const others = config.sealing_keys.slice(1).map(({ version }) => version)
  const { resealed, unreadable, outdated } = done
  print(
    values,
    { key: sealer.current, resealed, unreadable, outdated },
    [
      ...unreadable.slice(0, 20).map(({ table, column, key, reason }) => `unreadable  ${table}.${column} ${Object.values(key).join(' ')}: ${reason}`),
      `${resealed} secrets were sealed with key ${sealer.current}; ${unreadable.length} could not be opened`,
      ...adviceOf(done, others),
    ].join('\n'),
  )
  if (outdated > 0 || unreadable.length > 0) throw new DatabaseRefused(`${outdated} secrets are still sealed with another key`)
}
