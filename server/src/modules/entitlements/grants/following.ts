import { within, type Reach } from '../../../kernel/actors.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { Payload } from '../../../platform/jobs/catalogue.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { referred } from '../../../platform/postgres/lists.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means } from '../../handlers.ts'
import { containersOf, holdContainer, seatsOf, type ContainerKey } from '../../billing/index.ts'
import { loadBenefits } from '../../catalog/index.ts'
import { loadCustomers } from '../../customers/index.ts'
import { holdPhase } from '../../organizations/index.ts'
import { editKeys } from '../license-keys/giving.ts'
import { provideDownloads } from '../downloadables/downloadables.ts'
import { accountOf, credit, isOutside, unwant } from './giving.ts'
import { entitles } from './reconciling.ts'
import { lockWanted, saveGrants, type GrantRow, type Many } from './grants.sql.ts'
import { tell } from './presenting.ts'

const atOnce = 200

/** Goes through all wanted grants that are meant, a few hundred to a transaction, those of each clock in its time. */
const each = async (
  { transact }: Means,
  organization_id: string,
  many: Many,
  work: (tx: Tx, reach: Reach, grants: readonly Locked<GrantRow>[]) => Promise<void>,
): Promise<void> => {
  for (let after: string | null = null; ;) {
    const from: string | null = after
    after = await transact(async (wall) => {
      const reach = within(organization_id, 'machine', await holdPhase(wall, organization_id))
      const grants = await lockWanted(wall, organization_id, many, { after: from, limit: atOnce })
      const buyers = new Map(
        (
          await loadCustomers(
            wall,
            reach,
            grants.map(({ buyer_customer_id }) => buyer_customer_id),
          )
        ).map((buyer) => [buyer.id, buyer.clock_id]),
      )
      for (const [clock_id, ofClock] of Map.groupBy(grants, ({ buyer_customer_id }) => buyers.get(buyer_customer_id)!))
        await work(await inTimeOf(wall, { organization_id, clock_id }), reach, ofClock)
      return grants.length === atOnce ? grants.at(-1)!.id : null
    })
    if (after === null) return
  }
}

/** A benefit was edited: whoever has it has it as it is now. One that was deleted is taken away. */
export const benefitChanged = (means: Means, { organization_id, benefit_id }: Payload<'entitlements.benefit_changed'>): Promise<void> =>
  each(means, organization_id, { benefit_id }, async (tx, reach, grants) => {
    const [benefit] = await loadBenefits(tx, [{ tenant: organization_id, id: benefit_id }])
    if (!benefit) return
    if (benefit.deleted_at !== null) {
      await unwant(tx, reach, grants)
      return
    }
    const now = tx.clock.business()
    // Who was let in outside may have to be let in elsewhere.
    if (isOutside(benefit)) {
      await saveGrants(
        tx,
        grants.map((grant) => ({ ...grant, attempts: 0, due_at: tx.clock.wall() })),
      )
      await tell(tx, reach, [], grants)
      return
    }
    await editKeys(tx, benefit, grants)
    const changed = grants.map((grant) => ({ ...grant, modified_at: now }))
    await saveGrants(tx, changed)
    const provided = await provideDownloads(
      tx,
      changed.map((grant) => ({ grant, benefit })),
    )
    await tell(
      tx,
      reach,
      provided.map(({ grant }, at) => ({ grant, became: 'updated' as const, before: grants[at]!.properties })),
    )
  })

/** Every purchase that is meant is looked at again, each by a job of its own. */
const reconcileAll = async ({ db, transact }: Means, organization_id: string, of: Parameters<typeof containersOf>[2]): Promise<void> => {
  for (let after: string | null = null; ;) {
    const containers: (ContainerKey & { id: string })[] = await containersOf(db, organization_id, of, after, atOnce)
    if (containers.length === 0) return
    await transact(async (tx) => {
      for (const { subscription_id, order_id } of containers)
        await enqueue(tx, 'entitlements.reconcile', { organization_id, subscription_id, order_id, seat_id: null })
    })
    after = containers.at(-1)!.id
  }
}

/** A product gives something else: whoever has bought it gets that. */
export const productChanged = (means: Means, { organization_id, product_id }: Payload<'entitlements.product_changed'>): Promise<void> =>
  reconcileAll(means, organization_id, { product_id })

/** Nobody has anything through somebody who is gone. */
export const customerDeleted = async (means: Means, { organization_id, customer_id }: Payload<'entitlements.customer_deleted'>): Promise<void> => {
  await each(means, organization_id, { manual_of: { buyer_customer_id: customer_id } }, takeAway)
  await reconcileAll(means, organization_id, { customer_id })
  await reconcileSeats(means, organization_id, { holder_customer_id: customer_id })
}

export const memberDeleted = async (means: Means, { organization_id, member_id }: Payload<'entitlements.member_deleted'>): Promise<void> => {
  await each(means, organization_id, { manual_of: { member_id } }, takeAway)
  await reconcileSeats(means, organization_id, { member_id })
}

/** What is the customer's own is the new owner's: who was let in outside was the one before, and the new one says who they are there. */
export const ownerChanged = (means: Means, { organization_id, customer_id }: Payload<'entitlements.owner_changed'>): Promise<void> =>
  each(means, organization_id, { direct_of: customer_id }, async (tx, _reach, grants) => {
    const named = grants.filter((grant) => accountOf(grant) !== null)
    await saveGrants(
      tx,
      named.map((grant) => {
        const { account_id: _account, invited_email: _invited, ...properties } = grant.properties
        return { ...grant, properties, attempts: 0, due_at: tx.clock.wall() }
      }),
    )
  })

const takeAway = async (tx: Tx, reach: Reach, grants: readonly Locked<GrantRow>[]): Promise<void> => {
  await unwant(tx, reach, grants)
}

const reconcileSeats = async ({ db, transact }: Means, organization_id: string, person: Parameters<typeof seatsOf>[2]): Promise<void> => {
  const seats = await seatsOf(db, organization_id, person)
  await transact(async (tx) => {
    for (const { id, subscription_id, order_id } of seats)
      await enqueue(tx, 'entitlements.reconcile', { organization_id, subscription_id, order_id, seat_id: id })
  })
}

/**
 * A new period is paid for, or costs nothing: what a subscription gives goes on, once for each period. The period comes
 * with the job, so that none is passed over where the next one has begun meanwhile.
 */
export const cycled = async (means: Means, { organization_id, subscription_id, period_start }: Payload<'entitlements.cycled'>): Promise<void> => {
  const key = { organization_id, subscription_id, order_id: null }
  const period = new Date(period_start)
  for (let after: string | null = null; ;) {
    const from: string | null = after
    after = await means.transact(async (wall) => {
      const reach = within(organization_id, 'machine', await holdPhase(wall, organization_id))
      const container = await holdContainer(wall, reach, key)
      if (!container) return null
      const [buyer] = await loadCustomers(wall, reach, [container.customer_id])
      const tx = await inTimeOf(wall, buyer!)
      // What has ended meanwhile gives nothing more.
      if (!(await entitles(tx, container))) return null
      const grants = await lockWanted(tx, organization_id, { container }, { after: from, limit: atOnce })
      await goOn(
        tx,
        reach,
        grants.filter(({ granted_at, cycled_for }) => granted_at !== null && (cycled_for === null || cycled_for < period)),
        period,
      )
      return grants.length === atOnce ? grants.at(-1)!.id : null
    })
    if (after === null) return
  }
}

const goOn = async (tx: Tx, reach: Reach, grants: readonly Locked<GrantRow>[], period: Date): Promise<void> => {
  const benefits = await loadBenefits(
    tx,
    referred(grants, ({ benefit_id }) => benefit_id),
  )
  const going = grants.map((grant) => ({
    grant: { ...grant, cycled_for: period, modified_at: tx.clock.business() },
    benefit: benefits.find(({ id }) => id === grant.benefit_id)!,
  }))
  await saveGrants(
    tx,
    going.map(({ grant }) => grant),
  )
  const before = new Map(grants.map(({ id, properties }) => [id, properties]))
  const news = (await credit(tx, going, period)).map(({ grant }) => {
    const previous = before.get(grant.id)!
    return { grant, became: 'cycled' as const, before: previous === grant.properties ? null : previous }
  })
  await tell(tx, reach, news)
}
