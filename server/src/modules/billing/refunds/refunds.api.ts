import { listRefunds, paginate } from '@bursar/contract'
import { read } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { listRefunds as list, presentRefund } from '../records/refunds.sql.ts'

export const operations = [
  read(listRefunds, async (db, { scope, query }) => {
    const { items, total, next_cursor } = await list(db, confine(scope, 'sales:read'), query)
    const shown = items.map(({ refund, dispute }) => presentRefund(refund, dispute))
    return paginate(query, shown, total, next_cursor)
  }),
]
