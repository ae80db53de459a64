import { within, type TenantScope } from '../../../kernel/actors.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { checkLease, releaseLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { holdPhase } from '../../organizations/index.ts'
import { lockPurchase } from './pools.ts'
import type { PoolKey } from './pools.sql.ts'
import { findUnrevoked, lockSeat, lockUnrevoked } from './seats.sql.ts'
import { onlyHeld } from './reading.sql.ts'
import { revokeLockedSeat, revokeSeat } from './seats.ts'

const atOnce = 100

const scopeOf = async (tx: Tx, organization_id: string): Promise<TenantScope> => within(organization_id, 'machine', await holdPhase(tx, organization_id))

/** Sweep task for seat invitations: revokes the seat of an expired invitation. */
export const expire = ({ transact }: Deps, lease: Lease): Promise<void> =>
  transact(async (wall) => {
    const scope = await scopeOf(wall, lease.organization_id)
    await checkLease(wall, lease)
    const seat = await lockSeat(wall, lease)
    const { invitation_expires_at: until } = seat
    const tx = await inTimeOf(wall, seat)
    const early = until !== null && until > tx.clock.business()
    if (until !== null && !early) await revokeLockedSeat(tx, scope, seat)
    await releaseLease(wall, lease, early ? until : null)
  })

/**
 * Job that revokes all seats of an ended purchase, 100 per transaction, and emits an event for each seat. Each holder is mailed by a
 * job of its own. Idempotent.
 */
export const endSeats = async ({ transact }: Deps, key: PoolKey): Promise<void> => {
  for (;;) {
    const ended = await transact(async (tx) => {
      const scope = await scopeOf(tx, key.organization_id)
      const purchase = await lockPurchase(tx, scope, key)
      const seats = purchase.over ? await lockUnrevoked(tx, purchase, atOnce) : []
      for (const seat of seats) await revokeLockedSeat(tx, scope, seat)
      return seats.length
    })
    if (ended < atOnce) return
  }
}

/** Revokes the seats of a deleted member or customer. A deleted customer is not mailed. */
const relieve = async ({ db, transact }: Deps, organization_id: string, by: Parameters<typeof findUnrevoked>[2], mails: boolean): Promise<void> => {
  for (const seat of await findUnrevoked(db, organization_id, by))
    await transact(async (tx) => void (await revokeSeat(tx, await scopeOf(tx, organization_id), seat, { mails })))
}

export const memberDeleted = (deps: Deps, { organization_id, member_id }: { organization_id: string; member_id: string }): Promise<void> =>
  relieve(deps, organization_id, { member_id }, true)

/**
 * Job that revokes the seats that a deleted customer holds. In phase 2 a seat belongs to its member, so it stays. The
 * exception is a customer that only ever held seats. Such a customer can only have been deleted before phase 2.
 */
export const holderDeleted = async (deps: Deps, { organization_id, customer_id }: { organization_id: string; customer_id: string }): Promise<void> => {
  const phase = await deps.transact((tx) => holdPhase(tx, organization_id))
  if (phase !== 'phase2' || (await onlyHeld(deps.db, organization_id, customer_id)))
    await relieve(deps, organization_id, { holder_customer_id: customer_id }, false)
}
