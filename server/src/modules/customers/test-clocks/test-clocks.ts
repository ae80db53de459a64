import {
  accountLimits,
  ClockAlreadyAdvancing,
  invalidAt,
  InvalidRequest,
  ResourceNotFound,
  SandboxOnly,
  type TestClock,
  type TestClockAdvance,
  type TestClockCreate,
} from '@bursar/contract'
import type { z } from 'zod'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { days, later, seconds } from '../../../platform/clock.ts'
import type { Config } from '../../../platform/config.ts'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { changeClock, findClock, insertClock, lockClock, type CountedClock } from '../records/test-clocks.sql.ts'

/** Earliest and latest time of a test clock. Later dates, with five-digit years, have no plain ISO 8601 form. */
const earliest = new Date('1970-01-01T00:00:00Z')
const latest = new Date('9000-01-01T00:00:00Z')

/** Rejects test clocks outside the sandbox. */
export const refuseOutside = ({ environment }: Config): void => {
  if (environment !== 'sandbox') throw new SandboxOnly()
}

/** Presents the clock in the API's format. */
export const presentTestClock = ({ now_at, target_at, ...row }: CountedClock): TestClock => ({
  ...row,
  now: now_at,
  target: target_at,
  status: target_at === null ? 'ready' : 'advancing',
})

/** Creates a test clock. Its time does not change until it is advanced. */
export const createTestClock = async (tx: Tx, scope: TenantScope, body: z.output<typeof TestClockCreate>): Promise<CountedClock> => {
  const organization_id = chooseOrganization(scope, body.organization_id ?? undefined)
  permit(scope, organization_id, 'customers:manage')
  const wall = tx.clock.wall()
  const now_at = body.now ?? wall
  if (now_at < earliest || now_at > latest) throw new InvalidRequest(invalidAt(['body', 'now'], beyond, body.now))
  const row = {
    organization_id,
    id: newId(wall),
    created_at: wall,
    modified_at: null,
    name: body.name ?? null,
    now_at,
    target_at: null,
    ...unleased,
  }
  await insertClock(tx, row)
  return { ...row, customers_count: 0 }
}

const beyond = `Choose a time between ${earliest.getUTCFullYear()} and ${latest.getUTCFullYear()}.`

/** Returns the test clock with this id. Throws if there is none in scope, or if the caller lacks the permission. */
export const requireTestClock = async (db: Db, scope: TenantScope, id: string): Promise<CountedClock> => {
  const clock = await findClock(db, scope, id)
  if (!clock) throw new ResourceNotFound()
  permit(scope, clock.organization_id, 'customers:read')
  return clock
}

/** Maximum duration of one advance. Otherwise a mistyped year would occupy a worker for days. */
const farthest = accountLimits.days_per_test_clock_advance * days

/** Starts to advance a test clock, which a worker then performs. Locks the clock, so that only one advance runs at a time. */
export const advance = async (tx: Tx, scope: TenantScope, id: string, body: z.output<typeof TestClockAdvance>): Promise<CountedClock> => {
  const clock = await lockClock(tx, scope, id)
  if (!clock) throw new ResourceNotFound()
  permit(scope, clock.organization_id, 'customers:manage')
  if (clock.target_at !== null) throw new ClockAlreadyAdvancing()
  const [field, target_at] = 'to' in body ? (['to', body.to] as const) : (['by_seconds', later(clock.now_at, body.by_seconds * seconds)] as const)
  const wrong = (msg: string) => new InvalidRequest(invalidAt(['body', field], msg, 'to' in body ? body.to : body.by_seconds))
  if (target_at <= clock.now_at) throw wrong(`A test clock only moves forward, and this one is at ${clock.now_at.toISOString()}. Choose a later time.`)
  if (target_at > latest) throw wrong(beyond)
  if (target_at > later(clock.now_at, farthest)) throw wrong('A test clock advances at most ten years per request. Continue with another request.')
  await changeClock(tx, clock, { target_at, due_at: tx.clock.wall(), modified_at: tx.clock.wall() })
  return requireTestClock(tx, scope, id)
}
