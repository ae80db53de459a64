import { Failure, InvalidRequest, type FailureKind } from '@bursar/contract'
import type { Call } from '../modules/handlers.ts'
import type { Budgets, Reservation } from './budget.ts'

export interface Charges extends Pick<Call, 'charge' | 'chargeOn'> {
  /** Returns the charges of all reservations. Called before a successful response is sent, so that the next request has the whole limit. */
  readonly release: () => Promise<void>
  /** Runs the request. If it fails, keeps the reservations that were made for this kind of failure, and returns the others. */
  readonly settle: <T>(work: () => Promise<T>) => Promise<T>
}

/**
 * The rate limit charges that the handler of one request makes itself. With `late`, the handler charges the budget of
 * the operation after it has verified the caller. A request that is rejected before that is charged to the client
 * address instead.
 */
export const openCharges = (budgets: Budgets, network: string, late: boolean): Charges => {
  const reserved: { failure: FailureKind; place: Reservation }[] = []
  let verified = false
  const settleReserved = async (outcome: unknown) => {
    // Ignores errors, because a reservation that could not be returned expires with its window.
    await Promise.allSettled(reserved.splice(0).map(({ failure, place }) => (outcome instanceof failure ? place.keep() : place.giveBack())))
  }
  return {
    charge: async (budget, payer, units) => {
      verified = true
      if (units === undefined) await budgets.spend(budget, payer)
      else await budgets.spendUnits(budget, payer, units)
    },
    chargeOn: async (failure, budget) => {
      reserved.push({ failure, place: await budgets.reserve(budget, network) })
    },
    release: () => settleReserved(undefined),
    settle: async (work) => {
      try {
        return await work()
      } catch (error) {
        await settleReserved(error)
        const isRefused = error instanceof InvalidRequest || (error instanceof Failure && error.status < 500)
        if (late && !verified && isRefused) await budgets.spend('refused_events', network)
        throw error
      }
    },
  }
}
