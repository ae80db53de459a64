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
import type { Reach } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { job, read, sweep, write } from '../../handlers.ts'
import { noticeFiltered } from '../../customers/index.ts'
import { confine } from '../../organizations/index.ts'
import { apply } from './applying.ts'
import { benefitChanged, customerDeleted, cycled, memberDeleted, ownerChanged, productChanged } from './following.ts'
import { find, findGiven, grantByHand, revokeByHand } from './grants.ts'
import { listGrants, listOwnGrants, type GrantRow } from './grants.sql.ts'
import { findOwn, showOwn, updateOwn } from './portal.ts'
import { loadGrants, presentGrant } from './presenting.ts'
import { endGrace, reconcile } from './reconciling.ts'

const show = async (db: Db, reach: Reach, rows: readonly GrantRow[]) => (await loadGrants(db, reach, rows)).map(presentGrant)
const one = async (db: Db, { grant, reach }: { grant: GrantRow; reach: Reach }) => (await show(db, reach, [grant]))[0]!

export const operations = [
  read(listBenefitGrants, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await listGrants(db, confine(reach, 'customers:read'), query)
    if (query.customer_id.length > 0 || query.external_customer_id.length > 0) noticeFiltered(reach, items)
    return paginate(query, await show(db, reach, items), total, next_cursor)
  }),
  read(getBenefitGrant, async (db, { reach, params }) => one(db, { grant: await find(db, reach, params.grant_id), reach })),
  write(createBenefitGrant, async (tx, { reach, platform, body }) => one(tx, await grantByHand(tx, reach, platform, body))),
  write(revokeBenefitGrant, async (tx, { reach, params }) => one(tx, await revokeByHand(tx, reach, params.grant_id))),
  read(listGrantsOfBenefit, async (db, { reach, params, query }) => {
    await findGiven(db, reach, params.id)
    const { items, total, next_cursor } = await listGrants(db, reach, { ...query, benefit_id: [params.id], sorting: ['-created_at'] })
    if (query.customer_id.length > 0) noticeFiltered(reach, items)
    return paginate(query, await show(db, reach, items), total, next_cursor)
  }),

  read(listPortalBenefitGrants, async (db, { actor, reach, query }) => {
    const { items, total, next_cursor } = await listOwnGrants(db, reach, actor, query)
    return paginate(query, await showOwn(db, reach, actor, items), total, next_cursor)
  }),
  read(getPortalBenefitGrant, async (db, { actor, reach, params }) => (await showOwn(db, reach, actor, [await findOwn(db, reach, actor, params.id)]))[0]!),
  write(updatePortalBenefitGrant, async (tx, { actor, params, body }) => {
    const { grant, reach } = await updateOwn(tx, actor, params.id, body)
    return (await showOwn(tx, reach, actor, [grant]))[0]!
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
export const sweeps = [sweep('entitlements.apply', apply), sweep('entitlements.end_graces', endGrace)]
