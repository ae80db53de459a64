import { listRefunds, paginate } from '@bursar/contract'
import { read } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { loadDisputes } from '../disputes/disputes.sql.ts'
import { listRefunds as list, presentRefund } from './refunds.sql.ts'

export const operations = [
  read(listRefunds, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await list(db, confine(reach, 'sales:read'), query)
    const prevented = items.flatMap(({ dispute_id }) => dispute_id ?? [])
    const disputes = await loadDisputes(db, reach, prevented)
    const shown = items.map((item) => presentRefund(item, disputes.find(({ id }) => id === item.dispute_id) ?? null))
    return paginate(query, shown, total, next_cursor)
  }),
]
