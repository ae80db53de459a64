import type { Aggregation } from '@bursar/contract'
import { sql } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { filterSql, uniqueHashSql } from '../../catalog/index.ts'
import { wholeQuarters } from '../calc/quarters.ts'
import { loadAtOnce, type Consumption, type ConsumptionOptions } from './consumption.sql.ts'
import { countedSubjects, holdersBilledSince } from './counted-subjects.sql.ts'

/** Stored values of a meter with `unique` that one statement counts. It then stays far below its timeout, also on a slow machine. */
export const valuesAtOnce = 250_000

type Unique = Consumption & { readonly meter: { readonly aggregation: Extract<Aggregation, { readonly func: 'unique' }> } }
const isUnique = (one: Consumption): one is Unique => one.meter.aggregation.func === 'unique'

interface Options extends ConsumptionOptions {
  /** Values that one statement counts at most. */
  readonly most?: number
  /** Called between the statements that count parts. */
  readonly between?: () => Promise<void>
}

/**
 * Returns how many events meters with `unique` have counted, as a bound of their values: 0 for other meters. Reads totals, so its cost does
 * not depend on the values. If the numbers are equal later, the quantities have not changed either.
 */
export const weighConsumed = async (db: Db, scope: TenantScope, asked: readonly Consumption[], options: ConsumptionOptions = {}): Promise<number[]> => {
  const unique = asked.filter(isUnique)
  const counting = unique.map((one) => ({ ...one, meter: { ...one.meter, aggregation: { func: 'count' as const } } }))
  const numbers = new Map((await loadAtOnce(db, scope, counting, options)).map((number, at): [Consumption, number] => [unique[at]!, Number(number)]))
  return asked.map((one) => numbers.get(one) ?? 0)
}

/**
 * Computes quantities, in the given sequence, as decimal text. The number of unique values has no bound. So many values are counted in
 * parts, by ranges of their hashes, and no statement reaches its timeout. Other quantities come from one statement, and so from one snapshot.
 * To bill usage, the caller locks the periods. Usage that arrives between the statements is merged later, and marks the period again.
 */
export const loadConsumed = async (db: Db, scope: TenantScope, asked: readonly Consumption[], options: Options = {}): Promise<string[]> => {
  const { most = valuesAtOnce } = options
  const found = new Map<Consumption, string>()
  let together: Consumption[] = []
  let weight = 0
  const load = async () => {
    for (const [at, quantity] of (await loadAtOnce(db, scope, together, options)).entries()) found.set(together[at]!, quantity)
    ;[together, weight] = [[], 0]
  }
  for (const [at, values] of (await weighConsumed(db, scope, asked, options)).entries()) {
    const one = asked[at]!
    if (isUnique(one) && values > most && (await isCounted(db, one))) found.set(one, await countInParts(db, scope, one, Math.ceil(values / most), options))
    else {
      if (together.length > 0 && weight + values > most) await load()
      together.push(one)
      weight += values
    }
  }
  await load()
  return asked.map((one) => found.get(one)!)
}

/** True if all values of the meter are stored. The values of a meter that still counts earlier events are read from the events. */
const isCounted = async (db: Db, { organization_id, meter }: Consumption): Promise<boolean> => {
  const { rows } = await sql`
    select from usage_meters where organization_id = ${organization_id} and id = ${meter.id} and counted_at is not null`.execute(db.q)
  return rows.length > 0
}

const highest = 2n ** 128n
const hashOf = (number: bigint): string => number.toString(16).padStart(32, '0')

/** Counts the stored values in ranges of their hashes, and then those of the events before and after the whole quarter hours. */
const countInParts = async (db: Db, scope: TenantScope, one: Unique, parts: number, { billed, between }: Options): Promise<string> => {
  const { stored, edges } = uniquesOf(scope, one, billed)
  let total = 0n
  const count = async (statement: ReturnType<typeof sql<{ values: string }>>) => {
    total += BigInt((await statement.execute(db.q)).rows[0]!.values)
    await between?.()
  }
  const boundOf = (part: number): bigint => (highest * BigInt(part)) / BigInt(parts)
  for (let part = 0; part < parts; part++)
    await count(sql`
      select count(distinct q.hash)::text as values ${stored} and q.hash between ${hashOf(boundOf(part))}::uuid and ${hashOf(boundOf(part + 1) - 1n)}::uuid`)
  await count(sql`select count(distinct e.hash)::text as values ${edges} and not exists (select ${stored} and q.hash = e.hash)`)
  return String(total)
}

/** The stored values of whole quarter hours as `q`, and the values of events in the rest of the range as `e`. */
const uniquesOf = (scope: TenantScope, { organization_id, customer_id, meter, since, until }: Unique, billed = false) => {
  const whole = wholeQuarters({ since, until })
  const from = (at: Date | null) => sql`coalesce(${at}::timestamptz, '-infinity')`
  const to = (at: Date | null) => sql`coalesce(${at}::timestamptz, 'infinity')`
  const switched = billed ? holdersBilledSince(organization_id, to(until)) : undefined
  const subjects = countedSubjects(scope, organization_id, sql`${customer_id}::uuid`, switched)
  return {
    stored: sql`
      from usage_meters u cross join (${subjects}) s join usage_uniques q on q.organization_id = u.organization_id and q.subject_id = s.id
        and q.meter_id = u.id and q.version = u.version
        and q.starts_at >= greatest(${from(whole.from)}, s.since) and q.starts_at < least(${to(whole.to)}, s.until)
      where u.organization_id = ${organization_id} and u.id = ${meter.id}`,
    edges: sql`
      from (${subjects}) w
      cross join (values (${from(since)}, least(${from(whole.from)}, ${to(until)})), (greatest(${to(whole.to)}, ${from(since)}), ${to(until)})) rest (since, until)
      cross join lateral (
        select ${uniqueHashSql(meter.aggregation.property)} as hash from (
          select name, source, timestamp, metadata from usage_events
          where organization_id = ${organization_id} and subject_id = w.id and corrected_at is null
            and timestamp >= greatest(rest.since, w.since) and timestamp < least(rest.until, w.until)
        ) live where ${filterSql(meter.filter)}
      ) e where e.hash is not null and rest.since < rest.until`,
  }
}
