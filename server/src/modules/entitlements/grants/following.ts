import { within, type TenantScope } from '../../../kernel/actors.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { Payload } from '../../../platform/jobs/catalogue.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { walk } from '../../../platform/jobs/walk.ts'
import { referred } from '../../../platform/postgres/lists.sql.ts'
import type { BusinessTx, Locked } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { containersOf, holdContainer, seatsOf, type ContainerKey } from '../../billing/index.ts'
import { loadBenefits } from '../../catalog/index.ts'
import { loadCustomers } from '../../customers/index.ts'
import { holdPhase } from '../../organizations/index.ts'
import { editKeys } from '../issuing/license-keys.ts'
import { provideDownloads } from '../downloadables/downloadables.ts'
import { accountOf, credit, isOutside, unwant } from './giving.ts'
import { entitles, reconcile } from './reconciling.ts'
import { lockWanted, saveGrants, type GrantRow, type Many } from '../records/grants.sql.ts'
import { emitGrantEvents } from './presenting.ts'

const atOnce = 200
/** Number of purchases that are reconciled before the job checks whether its slice is over. */
const fewAtOnce = 20

/**
 * Runs `work` on the selected wanted grants after an id, at most `atOnce` of them, in one transaction. Returns the last
 * id of a full batch. Grants are grouped by the test clock of their buyer. `work` runs once per group, on the clock of
 * the group.
 */
const some = (
  { transact }: Deps,
  organization_id: string,
  many: Many,
  after: string | null,
  work: (tx: BusinessTx, scope: TenantScope, grants: readonly Locked<GrantRow>[]) => Promise<void>,
): Promise<string | null> =>
  transact(async (wall) => {
    const scope = within(organization_id, 'machine', await holdPhase(wall, organization_id))
    const grants = await lockWanted(wall, organization_id, many, { after, limit: atOnce })
    const buyers = new Map(
      (
        await loadCustomers(
          wall,
          scope,
          grants.map(({ buyer_customer_id }) => buyer_customer_id),
        )
      ).map((buyer) => [buyer.id, buyer.clock_id]),
    )
    for (const [clock_id, ofClock] of Map.groupBy(grants, ({ buyer_customer_id }) => buyers.get(buyer_customer_id)!))
      await work(await inTimeOf(wall, { organization_id, clock_id }), scope, ofClock)
    return grants.length === atOnce ? grants.at(-1)!.id : null
  })

/** Runs `work` on all selected wanted grants of one person, `atOnce` per transaction. */
const each = async (deps: Deps, organization_id: string, many: Many, work: Parameters<typeof some>[4]): Promise<void> => {
  for (let after = await some(deps, organization_id, many, null, work); after !== null;) after = await some(deps, organization_id, many, after, work)
}

/** Applies an edited benefit to all its grants, in slices. Revokes the grants of a deleted benefit. */
export const benefitChanged = (deps: Deps, payload: Payload<'entitlements.benefit_changed'>): Promise<void> =>
  walk(deps.transact, 'entitlements.benefit_changed', payload, (after) =>
    some(deps, payload.organization_id, { benefit_id: payload.benefit_id }, after, (tx, scope, grants) => applyBenefit(tx, scope, payload, grants)),
  )

const applyBenefit = async (
  tx: BusinessTx,
  scope: TenantScope,
  { organization_id, benefit_id }: Payload<'entitlements.benefit_changed'>,
  grants: readonly Locked<GrantRow>[],
): Promise<void> => {
  const [benefit] = await loadBenefits(tx, [{ tenant: organization_id, id: benefit_id }])
  if (!benefit) return
  if (benefit.deleted_at !== null) {
    await unwant(tx, scope, grants)
    return
  }
  const now = tx.clock.business()
  // The edit may have changed the external place, so every grant becomes due for the sweep again.
  if (isOutside(benefit)) {
    await saveGrants(
      tx,
      grants.map((grant) => ({ ...grant, attempts: 0, due_at: tx.clock.wall() })),
    )
    await emitGrantEvents(tx, scope, [], grants)
    return
  }
  await editKeys(tx, benefit, grants)
  const changed = grants.map((grant) => ({ ...grant, modified_at: now }))
  await saveGrants(tx, changed)
  const provided = await provideDownloads(
    tx,
    changed.map((grant) => ({ grant, benefit })),
  )
  await emitGrantEvents(
    tx,
    scope,
    provided.map(({ grant }, at) => ({ grant, became: 'updated' as const, before: grants[at]!.properties })),
  )
}

/** Enqueues a reconcile job for each selected purchase. */
const reconcileAll = async ({ db, transact }: Deps, organization_id: string, of: Parameters<typeof containersOf>[2]): Promise<void> => {
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

/**
 * Reconciles all purchases of a product after its benefits changed, in slices. A purchase that fails gets a job of its
 * own, which is retried. It does not keep the other purchases waiting.
 */
export const productChanged = (deps: Deps, payload: Payload<'entitlements.product_changed'>): Promise<void> => {
  const { organization_id, product_id } = payload
  return walk(deps.transact, 'entitlements.product_changed', payload, async (after) => {
    const containers = await containersOf(deps.db, organization_id, { product_id }, after, fewAtOnce)
    for (const { subscription_id, order_id } of containers) {
      const purchase = { organization_id, subscription_id, order_id, seat_id: null }
      try {
        await reconcile(deps, purchase)
      } catch (error) {
        deps.platform.log.warn('job_failed', { job: 'entitlements.product_changed', error })
        await deps.transact((tx) => enqueue(tx, 'entitlements.reconcile', purchase))
      }
    }
    return containers.length === fewAtOnce ? containers.at(-1)!.id : null
  })
}

/** Revokes all grants of a deleted customer. These are its manual grants, the grants of its purchases, and those of seats that it held. */
export const customerDeleted = async (deps: Deps, { organization_id, customer_id }: Payload<'entitlements.customer_deleted'>): Promise<void> => {
  await each(deps, organization_id, { manual_of: { buyer_customer_id: customer_id } }, takeAway)
  await reconcileAll(deps, organization_id, { customer_id })
  await reconcileSeats(deps, organization_id, { holder_customer_id: customer_id })
}

export const memberDeleted = async (deps: Deps, { organization_id, member_id }: Payload<'entitlements.member_deleted'>): Promise<void> => {
  await each(deps, organization_id, { manual_of: { member_id } }, takeAway)
  await reconcileSeats(deps, organization_id, { member_id })
}

/**
 * Resets the external accounts of the customer's own grants after an ownership transfer. The previous owner's account
 * is removed. The new owner must name an account.
 */
export const ownerChanged = (deps: Deps, { organization_id, customer_id }: Payload<'entitlements.owner_changed'>): Promise<void> =>
  each(deps, organization_id, { direct_of: customer_id }, async (tx, _reach, grants) => {
    const named = grants.filter((grant) => accountOf(grant) !== null)
    await saveGrants(
      tx,
      named.map((grant) => {
        const { account_id: _account, invited_email: _invited, ...properties } = grant.properties
        return { ...grant, properties, attempts: 0, due_at: tx.clock.wall() }
      }),
    )
  })

const takeAway = async (tx: BusinessTx, scope: TenantScope, grants: readonly Locked<GrantRow>[]): Promise<void> => {
  await unwant(tx, scope, grants)
}

const reconcileSeats = async ({ db, transact }: Deps, organization_id: string, person: Parameters<typeof seatsOf>[2]): Promise<void> => {
  const seats = await seatsOf(db, organization_id, person)
  await transact(async (tx) => {
    for (const { id, subscription_id, order_id } of seats)
      await enqueue(tx, 'entitlements.reconcile', { organization_id, subscription_id, order_id, seat_id: id })
  })
}

/**
 * Continues the grants of a subscription for a new billing period that is paid or free. Runs once per period. The job
 * contains the start of the period. So no period is skipped if the next one has already begun.
 */
export const cycled = async (deps: Deps, { organization_id, subscription_id, period_start }: Payload<'entitlements.cycled'>): Promise<void> => {
  const key = { organization_id, subscription_id, order_id: null }
  const period = new Date(period_start)
  for (let after: string | null = null; ;) {
    const from: string | null = after
    after = await deps.transact(async (wall) => {
      const scope = within(organization_id, 'machine', await holdPhase(wall, organization_id))
      const container = await holdContainer(wall, scope, key)
      if (!container) return null
      const [buyer] = await loadCustomers(wall, scope, [container.customer_id])
      const tx = await inTimeOf(wall, buyer!)
      // A subscription that ended before this job ran does not continue its grants.
      if (!(await entitles(tx, container))) return null
      const grants = await lockWanted(tx, organization_id, { container }, { after: from, limit: atOnce })
      await goOn(
        tx,
        scope,
        grants.filter(({ granted_at, cycled_for }) => granted_at !== null && (cycled_for === null || cycled_for < period)),
        period,
      )
      return grants.length === atOnce ? grants.at(-1)!.id : null
    })
    if (after === null) return
  }
}

const goOn = async (tx: BusinessTx, scope: TenantScope, grants: readonly Locked<GrantRow>[], period: Date): Promise<void> => {
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
  await emitGrantEvents(tx, scope, news)
}
