import { listRefunds, paginate } from '@bursar/contract'
import { read } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { listRefunds as list, presentRefund } from './refunds.sql.ts'

export const operations = [
  read(listRefunds, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await list(db, confine(reach, 'sales:read'), query)
    return paginate(query, items.map(presentRefund), total, next_cursor)
  }),
]
