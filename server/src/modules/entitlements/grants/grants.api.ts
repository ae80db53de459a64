import {
  createBenefitGrant,
  getBenefitGrant,
  getPortalBenefitGrant,
  listBenefitGrants,
  listGrantsOfBenefit,
  listPortalBenefitGrants,
  paginate,
  revokeBenefitGrant,
  updatePortalBenefitGrant,
} from '@bursar/contract'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { job, read, sweep, write } from '../../handlers.ts'
import { noticeFiltered } from '../../customers/index.ts'
import { confine } from '../../organizations/index.ts'
import { applyGrant } from './applying.ts'
import { benefitChanged, customerDeleted, cycled, memberDeleted, ownerChanged, productChanged } from './following.ts'
import { requireGrant, findGiven, grantByHand, revokeByHand, type ChangedGrant } from './grants.ts'
import { listGrants, listOwnGrants, loadGrants, type LoadedGrant } from '../records/grant-lists.sql.ts'
import { findOwn, showOwn, updateOwn } from './portal.ts'
import { presentGrant } from './presenting.ts'
import { endGrace, reconcile } from './reconciling.ts'

const showChanged = async (tx: Tx, { grant, loaded, scope }: ChangedGrant) => presentGrant(loaded ?? (await loadGrants(tx, scope, [grant]))[0]!)
const grantsOf = (loaded: readonly LoadedGrant[]) => loaded.map(({ grant }) => grant)

export const operations = [
  read(listBenefitGrants, async (db, { scope, query }) => {
    const { items, total, next_cursor } = await listGrants(db, confine(scope, 'customers:read'), query)
    if (query.customer_id.length > 0 || query.external_customer_id.length > 0) noticeFiltered(scope, grantsOf(items))
    return paginate(query, items.map(presentGrant), total, next_cursor)
  }),
  read(getBenefitGrant, async (db, { scope, params }) => presentGrant(await requireGrant(db, scope, params.grant_id))),
  write(createBenefitGrant, async (tx, { scope, platform, body }) => showChanged(tx, await grantByHand(tx, scope, platform, body))),
  write(revokeBenefitGrant, async (tx, { scope, params }) => showChanged(tx, await revokeByHand(tx, scope, params.grant_id))),
  read(listGrantsOfBenefit, async (db, { scope, params, query }) => {
    await findGiven(db, scope, params.id)
    const { items, total, next_cursor } = await listGrants(db, scope, { ...query, benefit_id: [params.id], sorting: ['-created_at'] })
    if (query.customer_id.length > 0) noticeFiltered(scope, grantsOf(items))
    return paginate(query, items.map(presentGrant), total, next_cursor)
  }),

  read(listPortalBenefitGrants, async (db, { actor, scope, query }) => {
    const { items, total, next_cursor } = await listOwnGrants(db, scope, actor, query)
    return paginate(query, await showOwn(db, scope, actor, items), total, next_cursor)
  }),
  read(getPortalBenefitGrant, async (db, { actor, scope, params }) => (await showOwn(db, scope, actor, [await findOwn(db, scope, actor, params.id)]))[0]!),
  write(updatePortalBenefitGrant, async (tx, { actor, params, body }) => {
    const { grant, scope } = await updateOwn(tx, actor, params.id, body)
    return (await showOwn(tx, scope, actor, [grant]))[0]!
  }),
]

export const jobs = [
  job('entitlements.reconcile', reconcile),
  job('entitlements.benefit_changed', benefitChanged),
  job('entitlements.product_changed', productChanged),
  job('entitlements.cycled', cycled),
  job('entitlements.customer_deleted', customerDeleted),
  job('entitlements.owner_changed', ownerChanged),
  job('entitlements.member_deleted', memberDeleted),
]
export const sweeps = [sweep('entitlements.apply', applyGrant), sweep('entitlements.end_graces', endGrace)]
