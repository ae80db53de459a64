import { acceptDispute, getDispute, listDisputes, paginate } from '@bursar/contract'
import { job, read, steps, sweep } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { listDisputes as list } from './disputes.sql.ts'
import { begin, find, followDue, followNamed, proceed, show } from './disputes.ts'

export const operations = [
  read(listDisputes, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await list(db, confine(reach, 'sales:read'), query)
    return paginate(query, await show(db, reach, items), total, next_cursor)
  }),
  read(getDispute, async (db, { reach, params }) => (await show(db, reach, [await find(db, reach, params.id)]))[0]!),
  steps(acceptDispute, {
    begin: (tx, { reach, params }) => begin(tx, reach, params.id),
    proceed: (means, { reach }, intended) => proceed(means, reach, intended),
  }),
]

export const jobs = [job('billing.follow_dispute', followNamed)]
export const sweeps = [sweep('billing.follow_disputes', followDue)]
