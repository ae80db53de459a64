import { getPortalWallet, listPortalWallets, paginate, ResourceNotFound } from '@bursar/contract'
import { allow } from '../../customers/index.ts'
import { read } from '../../handlers.ts'
import { findWalletOf, listWalletsOf } from './wallets.sql.ts'

export const operations = [
  read(listPortalWallets, async (db, { actor, scope, query }) => {
    allow(actor.role, 'billing:read')
    const { items, total, next_cursor } = await listWalletsOf(db, scope, actor.customer_id, query)
    return paginate(query, items, total, next_cursor)
  }),
  read(getPortalWallet, async (db, { actor, scope, params }) => {
    allow(actor.role, 'billing:read')
    const wallet = await findWalletOf(db, scope, actor.customer_id, params.id)
    if (!wallet) throw new ResourceNotFound()
    return wallet
  }),
]
