import { listGrants, paginate, withdrawGrant } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { listGrantsOf } from './grants.sql.ts'
import { presentGrant, withdraw } from './grants.ts'

export const operations = [
  read(listGrants, async (db, { actor, query }) => {
    const { items, total, next_cursor } = await listGrantsOf(db, actor.user_id, query)
    return paginate(query, items.map(presentGrant), total, next_cursor)
  }),
  write(withdrawGrant, async (tx, { actor, params }) => withdraw(tx, actor.user_id, params.client_id)),
]
