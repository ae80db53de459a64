import { later } from '../../../platform/clock.ts'
import { openBatches, openGate } from '../../../platform/jobs/batches.ts'
import { groups, sweeps } from '../../../platform/jobs/catalogue.ts'
import { lostLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { groupTransactions } from '../../../platform/jobs/slots.ts'
import { isUnavailable, tookTooLong } from '../../../platform/postgres/outage.ts'
import type { Deps } from '../../handlers.ts'
import { chargeSaved, record } from '../invoicing/collecting.ts'
import { recordGroup, type Charged, type Recorded } from '../invoicing/recording.ts'
import { nameIntents, type IntentName, type StoredIntent } from '../payments/attempts.sql.ts'
import type { PaymentRow } from '../payments/payments.sql.ts'
import { findUnmatchedCustomers } from '../payments/unmatched-charges.sql.ts'
import { billGroup, type GroupResult } from './group-billing.ts'
import { renew } from './renewals.ts'

/** Number of payments that one worker charges at the same time. */
const chargesAtOnce = 24

/** The steps that charges of one organization take together, even if they belong to different groups. */
const openTogether = (deps: Deps, writing: ReturnType<typeof openGate>, organization_id: string) => {
  const { size } = groups['billing.renew']
  return {
    // The ids of intents that are created at the same time are committed together, still before they are confirmed.
    store: openBatches<IntentName, StoredIntent>(size, (names) => deps.transact((tx) => nameIntents(tx, organization_id, names))),
    hasUnmatched: openBatches<PaymentRow, boolean>(size, async (payments) => {
      const found = await findUnmatchedCustomers(
        deps.db,
        organization_id,
        payments.map(({ customer_id }) => customer_id),
      )
      return payments.map(({ customer_id }) => found.has(customer_id))
    }),
    // Results that arrive while others are recorded are recorded together next. None of them waits for a slow charge.
    conclude: openBatches<Charged, Recorded>(size, (charged) => writing(() => recordAll(deps, organization_id, charged))),
  }
}

const openShared = (deps: Deps) => {
  // Transactions that bill or record a group.
  const writing = openGate(groupTransactions)
  const organizations = new Map<string, { readonly together: ReturnType<typeof openTogether>; groups: number }>()
  return {
    writing,
    charging: openGate(chargesAtOnce),
    /** Returns the common steps of an organization for as long as one of its groups runs. */
    join: (organization_id: string) => {
      const found = organizations.get(organization_id) ?? { together: openTogether(deps, writing, organization_id), groups: 0 }
      organizations.set(organization_id, found)
      found.groups++
      const leave = () => {
        if (--found.groups === 0) organizations.delete(organization_id)
      }
      return { together: found.together, leave }
    },
  }
}
const shared = new WeakMap<Deps, ReturnType<typeof openShared>>()

/** Returns what all groups of one worker share. */
const sharedOf = (deps: Deps) => {
  const found = shared.get(deps) ?? openShared(deps)
  shared.set(deps, found)
  return found
}

/**
 * Sweep task for due subscriptions of one organization. Bills them in one transaction, and then charges each payment on
 * its own. Rows with anything unusual are renewed alone, and so is every row if the transaction of the group fails.
 * Returns one promise for each lease, so that a slow charge delays only its own row.
 */
export const renewGroup = (deps: Deps, leases: readonly Lease[]): Promise<void>[] => {
  const { organization_id } = leases[0]!
  const { writing, charging, join } = sharedOf(deps)
  const { together, leave } = join(organization_id)
  let leased_until: Date
  const billed = writing(async (): Promise<GroupResult[]> => {
    leased_until = later(deps.platform.clock.wall(), sweeps['billing.collect'].lease_ms)
    try {
      return await deps.transact((tx) => billGroup(tx, leases))
    } catch (error) {
      if (isUnavailable(error) && !tookTooLong(error)) throw error
      // One row that violates a constraint, is locked or takes too long must not keep the others from being renewed.
      deps.platform.log.warn('renewal_group_failed', { organization_id, error })
      return leases.map(() => 'alone')
    }
  })
  const rows = leases.map(async (lease, at) => {
    const result = (await billed)[at]!
    if (result === 'lost') throw lostLease(lease)
    if (result === 'alone') return charging(() => renew(deps, lease))
    const intent = await charging(async () => {
      // The charge has waited for so long that another worker may collect the order now.
      if (deps.platform.clock.wall() >= leased_until) throw lostLease(result.lease)
      return chargeSaved(deps, result, together)
    })
    const recorded = intent?.status === 'succeeded' ? await together.conclude({ charge: result, subscription_id: lease.id, intent }) : 'alone'
    if (recorded === 'lost') throw lostLease(result.lease)
    if (recorded === 'alone') await record(deps, result, intent)
  })
  void Promise.allSettled(rows).then(leave)
  return rows
}

/** Records several results in one transaction. If the transaction fails, each of them is recorded alone. */
const recordAll = async (deps: Deps, organization_id: string, charged: readonly Charged[]): Promise<Recorded[]> => {
  try {
    return await deps.transact((tx) => recordGroup(tx, organization_id, charged))
  } catch (error) {
    if (isUnavailable(error) && !tookTooLong(error)) throw error
    deps.platform.log.warn('record_group_failed', { organization_id, error })
    return charged.map(() => 'alone')
  }
}
