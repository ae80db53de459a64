import { getPortalWallet, listPortalWallets, paginate, ResourceNotFound } from '@bursar/contract'
import { allow } from '../../customers/index.ts'
import { read } from '../../handlers.ts'
import { findWalletOf, listWalletsOf } from './wallets.sql.ts'

export const operations = [
  read(listPortalWallets, async (db, { actor, reach, query }) => {
    allow(actor.role, 'billing:read')
    const { items, total, next_cursor } = await listWalletsOf(db, reach, actor.customer_id, query)
    return paginate(query, items, total, next_cursor)
  }),
  read(getPortalWallet, async (db, { actor, reach, params }) => {
    allow(actor.role, 'billing:read')
    const wallet = await findWalletOf(db, reach, actor.customer_id, params.id)
    if (!wallet) throw new ResourceNotFound()
    return wallet
  }),
]
