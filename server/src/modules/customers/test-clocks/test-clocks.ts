import {
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
import type { Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { days, later, seconds } from '../../../platform/clock.ts'
import type { Config } from '../../../platform/config.ts'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { changeClock, findClock, insertClock, lockClock, type CountedClock } from './test-clocks.sql.ts'

/** Beyond these, dates could not be written any more the way everybody writes them. */
const earliest = new Date('1970-01-01T00:00:00Z')
const latest = new Date('9000-01-01T00:00:00Z')

/** In production time is what it is. */
export const refuseOutside = ({ environment }: Config): void => {
  if (environment !== 'sandbox') throw new SandboxOnly()
}

/** The clock as the wire shows it. */
export const present = ({ now_at, target_at, ...row }: CountedClock): TestClock => ({
  ...row,
  now: now_at,
  target: target_at,
  status: target_at === null ? 'ready' : 'advancing',
})

/** A clock stands where it starts until it is sent on. */
export const create = async (tx: Tx, reach: Reach, body: z.output<typeof TestClockCreate>): Promise<CountedClock> => {
  const organization_id = chooseOrganization(reach, body.organization_id ?? undefined)
  permit(reach, organization_id, 'customers:manage')
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

/** The one clock that a caller means, if the caller may see it. */
export const find = async (db: Db, reach: Reach, id: string): Promise<CountedClock> => {
  const clock = await findClock(db, reach, id)
  if (!clock) throw new ResourceNotFound()
  permit(reach, clock.organization_id, 'customers:read')
  return clock
}

/** So far at once: a mistyped year does not keep a worker busy for days. */
const farthest = 3653 * days

/** Sends a clock on its way, forward only and one way at a time: the clock is held. A worker leads it there. */
export const advance = async (tx: Tx, reach: Reach, id: string, body: z.output<typeof TestClockAdvance>): Promise<CountedClock> => {
  const clock = await lockClock(tx, reach, id)
  if (!clock) throw new ResourceNotFound()
  permit(reach, clock.organization_id, 'customers:manage')
  if (clock.target_at !== null) throw new ClockAlreadyAdvancing()
  const [field, target_at] = 'to' in body ? (['to', body.to] as const) : (['by_seconds', later(clock.now_at, body.by_seconds * seconds)] as const)
  const wrong = (msg: string) => new InvalidRequest(invalidAt(['body', field], msg, 'to' in body ? body.to : body.by_seconds))
  if (target_at <= clock.now_at) throw wrong(`A clock goes forward only, and this one shows ${clock.now_at.toISOString()} already. Choose a later time.`)
  if (target_at > latest) throw wrong(beyond)
  if (target_at > later(clock.now_at, farthest)) throw wrong('A clock travels ten years at a time: go on from there.')
  await changeClock(tx, clock, { target_at, due_at: tx.clock.wall(), modified_at: tx.clock.wall() })
  return find(tx, reach, id)
}
