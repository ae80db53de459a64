import { dryRunDays, requestLimits, type MeterDryRun, type MeterDryRunCreate } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { days as wholeDays, later } from '../../../platform/clock.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { bucketStarts } from '../calc/buckets.ts'
import { countAsMeter, countEvents } from './dry-runs.sql.ts'

/** The customers that an answer lists. */
const topCustomers = 10

/** Returns the organization whose events a dry run reads. Rejects callers who may not read them. */
export const organizationOfRun = (scope: TenantScope, { organization_id }: MeterDryRunCreate): string => {
  const chosen = chooseOrganization(scope, organization_id ?? undefined)
  permit(scope, chosen, 'analytics:read')
  return chosen
}

/**
 * Counts the last days as a meter would have, and stores nothing. The work is bounded: if the organization has too many events, only the newest are
 * read, and the answer says from when on.
 */
export const runMeter = async (
  db: Db,
  scope: TenantScope,
  organization_id: string,
  wanted: MeterDryRunCreate,
  end: Date,
  most: number = requestLimits.events_per_dry_run,
): Promise<MeterDryRun> => {
  const { filter, aggregation, timezone } = wanted
  const starts = bucketStarts({ start: later(end, -dryRunDays * wholeDays), end: later(end, 1) }, 'day', timezone).slice(-dryRunDays)
  const start = starts[0]!
  const { events, left_out_at } = await countEvents(db, { organization_id, start, end }, most)
  // Events of one millisecond have no sequence, so those beside the first one that is left out are left out too.
  const read_since = left_out_at ? later(left_out_at, 1) : start
  const unit_amount = wanted.unit_amount ?? null
  const counted = await countAsMeter(
    db,
    scope,
    { organization_id, start: read_since, end },
    { filter, aggregation, unit_amount },
    { starts, top: topCustomers },
  )
  return {
    start,
    end,
    timezone,
    events_read: events,
    is_complete: left_out_at === null,
    read_since,
    total: counted.total,
    customers: counted.customers,
    amount: counted.amount,
    days: starts.map((timestamp, at) => ({ timestamp, quantity: counted.days.get(at) ?? '0' })),
    top_customers: [...counted.top],
  }
}
