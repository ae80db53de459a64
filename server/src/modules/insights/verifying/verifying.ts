import { everyMetric, type MetricSlug } from '@bursar/contract'
import { later, days } from '../../../platform/clock.ts'
import type { Db, Transact } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { measures } from '../calc/figures.ts'
import { withSources } from '../calc/figures.ts'
import type { Question } from '../calc/question.ts'
import { holdFolding } from '../folding/folding.sql.ts'
import { computeMetrics, readStored } from '../metrics/metrics.ts'
import { bucketsOf } from '../metrics/ranges.ts'
import { anyQuarter, checkNames, loadDrift, organizationsToCheck, rebuildMeasure, runCheck, saveCheck } from './checks.sql.ts'
import { readScratch } from './scratch.sql.ts'

export { checkNames }

/** A day of an organization whose stored metrics are compared with the records. */
interface Sample {
  readonly organization_id: string
  readonly currency: string
  readonly day: Date
}

/** Compares all metrics of a day and the next one with the records themselves. Returns the metrics that differ. */
export const compareSample = async (db: Db, { organization_id, currency, day }: Sample): Promise<MetricSlug[]> => {
  const question: Question = { organizations: [organization_id], currency, product_id: [], billing_type: [], customer_id: [] }
  const date = (at: Date) => at.toISOString().slice(0, 10)
  const buckets = bucketsOf({ start_date: date(day), end_date: date(later(day, 1 * days)), interval: 'day', timezone: 'UTC' })
  const names = withSources(everyMetric)
  const [stored, scratch] = [await readStored(db, question, names, buckets), await readScratch(db, question, names, buckets)]
  const [one, other] = [computeMetrics(everyMetric, stored.of, stored.whole), computeMetrics(everyMetric, scratch.of, scratch.whole)]
  return everyMetric.filter((slug) => one.totals[slug] !== other.totals[slug] || one.periods.some((period, at) => period[slug] !== other.periods[at]![slug]))
}

/** The first day that can be asked for. Facts before it are compared as part of cumulative metrics. */
const first = new Date('2023-01-01T00:00:00Z')
const sampleOf = async (db: Db, organization_id?: string): Promise<Sample | undefined> => {
  const found = await anyQuarter(db, organization_id)
  return found && { organization_id: found.id, currency: found.currency, day: found.starts_at < first ? first : found.starts_at }
}

/** Compares the metrics of a random day of a random organization, and stores the number of differences for the gauge. */
export const checkMetrics = async ({ db, transact, platform }: Pick<Deps, 'db' | 'transact' | 'platform'>): Promise<void> => {
  const sample = await sampleOf(db)
  if (!sample) return
  // Facts may be noted between the two reads. A real difference stays.
  const differing = (await compareSample(db, sample)).length > 0 ? await compareSample(db, sample) : []
  if (differing.length > 0)
    platform.log.error('metrics_differ', {
      organization_id: sample.organization_id,
      count: differing.length,
      reason: `${sample.day.toISOString().slice(0, 10)}: ${differing.join(', ')}`,
    })
  await transact((tx) => saveCheck(tx, sample.organization_id, differing.length))
}

export const metricDrift = loadDrift

export interface Verified {
  readonly organization: string
  readonly check: string
  readonly differences: number
}

/**
 * Recomputes the facts and sums of organizations from their records: every check, and the metrics of some random days.
 * `told` is called after each step.
 */
export const verifyMetrics = async (
  db: Db,
  { slug, samples }: { readonly slug: string | undefined; readonly samples: number },
  told: (done: number, of: number) => void,
): Promise<Verified[]> => {
  const organizations = await organizationsToCheck(db, slug)
  const of = organizations.length * (checkNames.length + samples)
  const verified: Verified[] = []
  let done = 0
  for (const { id, slug: organization } of organizations) {
    for (const check of checkNames) {
      verified.push({ organization, check, differences: await runCheck(db, check, id) })
      told(++done, of)
    }
    let differences = 0
    for (let sample = 0; sample < samples; sample++) {
      const day = await sampleOf(db, id)
      if (day) differences += (await compareSample(db, day)).length
      told(++done, of)
    }
    verified.push({ organization, check: `metrics of ${samples} days equal the records`, differences })
  }
  return verified
}

/** Computes the quarter hours of organizations again from the facts, one measure at a time. Requests are answered meanwhile. */
export const rebuildMetrics = async (db: Db, transact: Transact, slug: string | undefined, told: (done: number, of: number) => void): Promise<number> => {
  const organizations = await organizationsToCheck(db, slug)
  let done = 0
  for (const { id } of organizations)
    for (const measure of measures) {
      await transact(async (tx) => {
        await holdFolding(tx, { waits: true })
        await rebuildMeasure(tx, id, measure)
      })
      told(++done, organizations.length * measures.length)
    }
  return organizations.length
}
