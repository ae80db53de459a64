import { within, type Reach } from '../../../kernel/actors.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { checkLease, releaseLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Means } from '../../handlers.ts'
import { holdPhase } from '../../organizations/index.ts'
import { lockPool } from './pools.ts'
import type { PoolKey } from './pools.sql.ts'
import { findUnrevoked, lockSeat, lockUnrevoked } from './seats.sql.ts'
import { onlyHeld } from './reading.sql.ts'
import { revoke, revokeSeat } from './seats.ts'

const atOnce = 100

const reachOf = async (tx: Tx, organization_id: string): Promise<Reach> => within(organization_id, 'machine', await holdPhase(tx, organization_id))

/** The sweep over invitations: one that has run out frees its seat. */
export const expire = ({ transact }: Means, lease: Lease): Promise<void> =>
  transact(async (wall) => {
    const reach = await reachOf(wall, lease.organization_id)
    await checkLease(wall, lease)
    const seat = await lockSeat(wall, lease)
    const { invitation_expires_at: until } = seat
    const tx = await inTimeOf(wall, seat)
    const early = until !== null && until > tx.clock.business()
    if (until !== null && !early) await revoke(tx, reach, seat)
    await releaseLease(wall, lease, early ? until : null)
  })

/** What gives nothing any more seats nobody: each is told of, a hundred at a time. Done again, it finds none. */
export const endSeats = async ({ transact }: Means, key: PoolKey): Promise<void> => {
  for (;;) {
    const ended = await transact(async (tx) => {
      const reach = await reachOf(tx, key.organization_id)
      const pool = await lockPool(tx, reach, key)
      const seats = pool.over ? await lockUnrevoked(tx, pool, atOnce) : []
      for (const seat of seats) await revoke(tx, reach, seat)
      return seats.length
    })
    if (ended < atOnce) return
  }
}

/** Whoever is gone holds no seats: neither as a member, nor as a customer. */
const relieve = async ({ db, transact }: Means, organization_id: string, by: Parameters<typeof findUnrevoked>[2]): Promise<void> => {
  for (const seat of await findUnrevoked(db, organization_id, by))
    await transact(async (tx) => void (await revokeSeat(tx, await reachOf(tx, organization_id), seat)))
}

export const memberDeleted = (means: Means, { organization_id, member_id }: { organization_id: string; member_id: string }): Promise<void> =>
  relieve(means, organization_id, { member_id })

/** Once the member model is on, a seat is its member's, whoever else they are. Who only held seats can have been deleted only before that. */
export const holderDeleted = async (means: Means, { organization_id, customer_id }: { organization_id: string; customer_id: string }): Promise<void> => {
  const phase = await means.transact((tx) => holdPhase(tx, organization_id))
  if (phase !== 'phase2' || (await onlyHeld(means.db, organization_id, customer_id))) await relieve(means, organization_id, { holder_customer_id: customer_id })
}
